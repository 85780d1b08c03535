//! The kinds of backends, and how each is started.

use std::{fmt, io};

use mcp_intermediary::gateway::BackendKey;
use tokio::io::{AsyncRead, AsyncWrite, duplex, split};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::byte_stream::ByteStream;
use crate::child;
use crate::proxy::{Proxy, Stopper};

/// The bytes that a gateway and the proxy to a remote server may each have written before the other reads them.
const CAPACITY: usize = 64 * 1024;

type Read = Box<dyn AsyncRead + Send + Unpin>;
type Write = Box<dyn AsyncWrite + Send + Unpin>;

/// A server behind a [`Gateway`](super::Gateway): a child process, or a server on any byte stream.
pub struct Backend(Kind);

enum Kind {
    Child(Box<Command>),
    Stream(Read, Write),
    Proxy(Box<Proxy>),
}

impl Backend {
    /// A server that is started as a child process, over its stdin and stdout. It is ended as
    /// [`Builder::child`](crate::Builder::child) ends it, with all processes that it has started.
    #[must_use]
    pub fn child(command: Command) -> Self {
        Self(Kind::Child(Box::new(command)))
    }

    /// A server on a pair of byte streams, such as a socket. `write` is shut down when the server is no longer needed, and
    /// both are dropped.
    ///
    /// # Example: a server that accepts connections
    ///
    /// ```
    /// use mcp_tokio::intermediary::gateway::Config;
    /// use mcp_tokio::{Backend, Gateway};
    /// use tokio::net::TcpStream;
    ///
    /// let gateway = Gateway::new(Config::default(), async |_| {
    ///     let (read, write) = TcpStream::connect("127.0.0.1:4000").await?.into_split();
    ///     Ok(Backend::stream(read, write))
    /// });
    /// ```
    #[must_use]
    pub fn stream(
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self(Kind::Stream(Box::new(read), Box::new(write)))
    }

    /// A server that a proxy reaches in this process, such as a remote server over HTTP. It is stopped when the server is no
    /// longer needed, which ends its session.
    ///
    /// # Example: a remote server for several clients, who share one session with it
    ///
    #[cfg_attr(feature = "http-client", doc = "```")]
    #[cfg_attr(not(feature = "http-client"), doc = "```ignore")]
    /// use mcp_proto::client::HttpConfig;
    /// use mcp_intermediary::gateway::{Config, Sharing};
    /// use mcp_intermediary::relay;
    /// use mcp_tokio::{Backend, Gateway, HttpOptions, Proxy};
    ///
    /// let mut config = Config::default();
    /// config.sharing = Sharing::Shared;
    /// let gateway = Gateway::new(config, async |_| {
    ///     let http = HttpConfig::new("https://example.com/mcp").map_err(std::io::Error::other)?;
    ///     let proxy = Proxy::http(http, HttpOptions::new(), relay::Config::default());
    ///     Ok(Backend::proxy(proxy.map_err(std::io::Error::other)?))
    /// });
    /// ```
    #[must_use]
    pub fn proxy(proxy: Proxy) -> Self {
        Self(Kind::Proxy(Box::new(proxy)))
    }

    /// Starts the server.
    ///
    /// # Errors
    ///
    /// If its process could not be started.
    pub(super) fn open(self, backend: BackendKey, log_stderr: bool) -> io::Result<Opened> {
        match self.0 {
            Kind::Child(mut command) => {
                let (child, write, read) = child::start(&mut command, log_stderr)?;
                let stream = ByteStream::<_, Read, Write>::new(backend, Box::new(read), Box::new(write));
                Ok(Opened { stream: stream.of_child(child), relayed: None })
            }
            Kind::Stream(read, write) => Ok(Opened { stream: ByteStream::new(backend, read, write), relayed: None }),
            Kind::Proxy(proxy) => {
                let (near, far) = duplex(CAPACITY);
                let stopper = proxy.stopper();
                let (input, output) = split(far);
                let running = tokio::spawn(Box::pin(run(*proxy, input, output).in_current_span()));
                let (read, write) = split(near);
                let stream = ByteStream::<_, Read, Write>::new(backend, Box::new(read), Box::new(write));
                Ok(Opened { stream, relayed: Some(Relayed { stopper, running }) })
            }
        }
    }
}

/// Omits the arguments and the environment of a process, and the URL of a server, which may contain credentials.
impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Child(command) => f.debug_tuple("Child").field(&command.as_std().get_program()).finish(),
            Kind::Stream(..) => f.write_str("Stream"),
            Kind::Proxy(proxy) => proxy.fmt(f),
        }
    }
}

/// A backend that was started.
pub(super) struct Opened {
    pub(super) stream: ByteStream<BackendKey, Read, Write>,
    /// The proxy at the other end of the stream.
    pub(super) relayed: Option<Relayed>,
}

/// A proxy that runs in a task.
pub(super) struct Relayed {
    stopper: Stopper,
    running: JoinHandle<()>,
}

impl Relayed {
    /// Stops the proxy, and waits for its end, which no server can delay without limit.
    pub(super) async fn end(self) {
        self.stopper.stop();
        let _ = self.running.await;
    }
}

async fn run(
    proxy: Proxy,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) {
    if let Err(error) = proxy.run(input, output, ()).await {
        tracing::warn!(%error, "the proxy to the server has failed");
    }
}
