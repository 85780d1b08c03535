//! What a client is told before it connects.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use mcp_proto::client::{self as proto, Config, Http, HttpConfig, Unavailable};
use mcp_proto::{Json, ProtocolVersion, UsageError};

use super::owner::{Input, Owner};
use super::{Client, Error, Handler, Shared};
use crate::http_client::HttpOptions;

/// Prepares a [`Client`].
///
/// # Example
///
/// ```no_run
/// use std::time::Duration;
/// use mcp_blocking::Client;
///
/// let client = Client::builder("https://example.com/mcp")?
///     .name("my-app", "1.0.0")
///     .bearer("secret")?
///     .request_timeout(Duration::from_secs(20))
///     .connect()?;
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
pub struct Builder {
    http: HttpConfig,
    config: Config,
    options: HttpOptions,
    handler: Box<dyn Handler>,
}

impl Builder {
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        let mut config = Config::new("mcp-blocking", env!("CARGO_PKG_VERSION"));
        config.reconnect = true;
        Ok(Self { http: HttpConfig::new(url)?, config, options: HttpOptions::new(), handler: Box::new(()) })
    }

    /// Names the application, as the server will see it.
    #[must_use]
    pub fn name(mut self, name: &str, version: &str) -> Self {
        let own = Config::new(name, version);
        self.config.client_info = own.client_info;
        self
    }

    /// Declares what the server may ask for, as the object `capabilities` of `initialize`.
    #[must_use]
    pub fn capabilities(mut self, capabilities: impl Into<Json>) -> Self {
        self.config.capabilities = capabilities.into();
        self
    }

    /// Deals with what the server tells and asks.
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// Adds a header to every request.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the protocol sets that header itself, or it has characters that no header may have.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        self.http.header(name, value)?;
        Ok(self)
    }

    /// Authorizes every request with a bearer token.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the token has characters that no header may have.
    pub fn bearer(self, token: &str) -> Result<Self, Error> {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// How long an answer may take.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = timeout;
        self
    }

    /// The revisions that may be spoken. With 2026-07-28 among them, the server is first asked which era it belongs to;
    /// without, the connection begins with `initialize`, which is the default.
    #[must_use]
    pub fn versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        self.config.versions = versions.into_iter().collect();
        self
    }

    /// Changes anything of the machine's configuration.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config, &mut HttpConfig, &mut HttpOptions)) -> Self {
        change(&mut self.config, &mut self.http, &mut self.options);
        self
    }

    /// Connects, and waits until the server has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server refused, [`Error::Failed`] if it did not answer, [`Error::Usage`] if the
    /// configuration cannot be worked with.
    pub fn connect(self) -> Result<Client, Error> {
        let Self { http, mut config, options, handler } = self;
        config.limits.exchanges = options.max_workers;
        let server = http.server();
        let machine = proto::Client::new(Http::new(http), config)?;
        let (inbox, inputs) = sync_channel(64);
        let (connected, answer) = sync_channel(1);
        let owner_inbox = inbox.clone();
        let owner = thread::Builder::new()
            .name("mcp-client".to_owned())
            .spawn(move || Owner::new(machine, options, owner_inbox, connected).run(&inputs, handler))
            .map_err(Error::Thread)?;
        let answer = answer.recv().map_err(|_| UsageError::Closed)?;
        match answer {
            Ok(greeting) => {
                let shared = Shared { inbox, owner: Some(owner), server, greeting };
                Ok(Client { shared: Arc::new(shared) })
            }
            Err(reason) => {
                let _ = inbox.send(Input::Close);
                let _ = owner.join();
                Err(match reason {
                    Unavailable::Error(error) => Error::Server(error),
                    Unavailable::Failed(reason) => Error::Failed { server, reason },
                })
            }
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("http", &self.http).finish_non_exhaustive()
    }
}
