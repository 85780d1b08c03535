//! How the byte stream of a server is made.

use std::io::{self, Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::{fmt, thread};

use crate::backpressure::Backpressure;
use crate::child::{Child, FromChild, Process};
use crate::inbox::Inbox;
use crate::pipe::pipe;
use crate::proxy::Proxy;

/// The two directions of a byte stream to a server.
type Streams = (Box<dyn Read + Send>, Box<dyn Write + Send>);

/// How one server of an [`AggregateProxy`](crate::AggregateProxy) is started, each time that this is necessary.
pub struct AggregateServer(Start);

enum Start {
    Command(Box<dyn FnMut() -> Command + Send>),
    Streams(Box<dyn FnMut() -> io::Result<Streams> + Send>),
}

impl AggregateServer {
    /// A server in a child process, started by the returned command. It inherits this process's stderr, unless the command
    /// sets another.
    #[must_use]
    pub fn command(make: impl FnMut() -> Command + Send + 'static) -> Self {
        Self(Start::Command(Box::new(make)))
    }

    /// A server at the other end of the returned streams: what is read from it, and what is written to it.
    #[must_use]
    pub fn streams<R, W>(mut make: impl FnMut() -> io::Result<(R, W)> + Send + 'static) -> Self
    where
        R: Read + Send + 'static,
        W: Write + Send + 'static,
    {
        Self(Start::Streams(Box::new(move || {
            let (read, write) = make()?;
            Ok((Box::new(read), Box::new(write)))
        })))
    }

    /// A server that is reached through the returned proxy, which runs on a thread of this process: for example a remote
    /// one, with [`Proxy::http`].
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_blocking::{AggregateServer, HttpOptions, Proxy};
    /// use mcp_blocking::proto::client::HttpConfig;
    /// use mcp_blocking::intermediary::relay::Config;
    ///
    /// let http = HttpConfig::new("https://example.com/mcp")?;
    /// let server = AggregateServer::proxy(move || Ok(Proxy::http(http.clone(), HttpOptions::new(), Config::default())?));
    /// # Ok::<(), mcp_blocking::proto::UsageError>(())
    /// ```
    #[must_use]
    pub fn proxy(mut make: impl FnMut() -> io::Result<Proxy> + Send + 'static) -> Self {
        Self::streams(move || {
            let proxy = make()?;
            let ((from_proxy, to_aggregate), (from_aggregate, to_proxy)) = (pipe(), pipe());
            thread::Builder::new().name("mcp-proxy".to_owned()).spawn(move || {
                if let Err(error) = proxy.run(from_aggregate, to_aggregate, ()) {
                    log::warn!("{error}");
                }
            })?;
            Ok((from_proxy, to_proxy))
        })
    }

    /// Starts the server. Its output is sent to `inbox`.
    pub(super) fn start(
        &mut self,
        process: &Process,
        inbox: Arc<dyn Inbox<FromChild>>,
        backpressure: Arc<Backpressure>,
    ) -> io::Result<Child<FromChild>> {
        match &mut self.0 {
            Start::Command(make) => Child::start(make(), process.clone(), inbox, backpressure),
            Start::Streams(make) => {
                let (read, write) = make()?;
                Child::over(read, write, inbox, backpressure)
            }
        }
    }
}

/// Omits everything else: the command's arguments and environment may contain credentials.
impl fmt::Debug for AggregateServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Start::Command(_) => "command",
            Start::Streams(_) => "streams",
        };
        f.debug_tuple("AggregateServer").field(&kind).finish()
    }
}
