//! Headers and HTTP clients that change while proxies use them.

use std::sync::Arc;

use mcp_application::Error;
use mcp_proto::client::HttpConfig;
use tokio::sync::watch;

use super::{HttpClientError, HttpOptions, ServerClient, client_for};

/// How a server over HTTP is reached, for any number of proxies ([`Proxy::http_with`](crate::Proxy::http_with)), which use a
/// change of the headers and options while they run, and share the connections. Clones are the same settings.
///
/// # Example: another key, for the sessions that are open
///
/// ```
/// use mcp_tokio::{HttpOptions, HttpSettings, Proxy};
/// use mcp_tokio::proto::client::HttpConfig;
/// use mcp_tokio::intermediary::relay::Config;
///
/// let with_key = |key: &str| {
///     let mut http = HttpConfig::new("https://example.com/mcp")?;
///     http.header("X-Api-Key", key)?;
///     Ok::<_, mcp_tokio::proto::UsageError>(http)
/// };
/// let settings = HttpSettings::new(with_key("first")?, HttpOptions::new())?;
/// let proxy = Proxy::http_with(&settings, Config::default())?;
/// settings.set(&with_key("second")?, HttpOptions::new())?;
/// assert_eq!(settings.http().server(), "https://example.com/mcp");
/// # Ok::<(), mcp_tokio::Error>(())
/// ```
#[derive(Clone)]
pub struct HttpSettings(Arc<watch::Sender<Current>>);

/// The settings that are in force.
#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) http: HttpConfig,
    pub(super) client: ServerClient,
    /// For authorization servers.
    pub(crate) for_other_servers: Arc<HttpOptions>,
}

/// Notices the changes that are made after this value.
pub(crate) struct Changes {
    receiver: watch::Receiver<Current>,
    /// Without a sender, a receiver does not report the last change.
    _settings: HttpSettings,
}

impl Changes {
    pub(crate) fn current(&self) -> Current {
        self.receiver.borrow().clone()
    }

    /// The current settings, if they have changed since the last call.
    pub(super) fn take(&mut self) -> Option<Current> {
        let has_changed = self.receiver.has_changed().unwrap_or(false);
        has_changed.then(|| self.receiver.borrow_and_update().clone())
    }
}

impl HttpSettings {
    /// Settings for the server of `http`.
    ///
    /// # Errors
    ///
    /// [`Error::SetUp`] if the HTTP client cannot be set up.
    pub fn new(http: HttpConfig, options: HttpOptions) -> Result<Self, Error> {
        Self::build(http, options).map_err(no_client)
    }

    pub(crate) fn build(http: HttpConfig, options: HttpOptions) -> Result<Self, HttpClientError> {
        let for_other_servers = Arc::new(options.for_other_servers());
        let client = client_for(options, &http)?;
        Ok(Self(Arc::new(watch::Sender::new(Current { http, client, for_other_servers }))))
    }

    /// Sends every request from now on with the headers of `http`, over new connections with these options. A proxy that runs
    /// uses them before its next request; nothing else of `http` is used. Responses that are being received stay on their
    /// connections.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if only one of `http` and the current headers has an `Authorization` header, and [`Error::SetUp`] if
    /// the HTTP client cannot be set up. Then nothing has changed.
    pub fn set(&self, http: &HttpConfig, options: HttpOptions) -> Result<(), Error> {
        let for_other_servers = Arc::new(options.for_other_servers());
        let client = client_for(options, &self.http()).map_err(no_client)?;
        let mut outcome = Ok(());
        self.0.send_if_modified(|current| {
            outcome = current.http.set_headers(http);
            if outcome.is_ok() {
                (current.client, current.for_other_servers) = (client, for_other_servers);
            }
            outcome.is_ok()
        });
        Ok(outcome?)
    }

    /// The current configuration.
    #[must_use]
    pub fn http(&self) -> HttpConfig {
        self.0.borrow().http.clone()
    }

    pub(crate) fn changes(&self) -> Changes {
        Changes { receiver: self.0.subscribe(), _settings: self.clone() }
    }
}

fn no_client(error: HttpClientError) -> Error {
    Error::SetUp(error.into())
}

mcp_application::opaque_debug!(HttpSettings);
