//! A server in this process.

use mcp_application::Error;
use mcp_proto::Stdio;
use tokio::io::{duplex, split};

use super::Builder;
use crate::{Client, Server};

/// The bytes that each side may have written before the other side reads them.
const CAPACITY: usize = 64 * 1024;

/// A server in this process, as selected by [`Builder::in_memory`].
#[derive(Debug)]
pub struct InMemoryServer {
    server: Server,
}

impl Builder {
    /// Selects a server in this process. Client and server are connected in memory, as over stdio, so that a test of a
    /// handler needs neither a network nor a child process.
    ///
    /// The server runs in a task, which ends when the client is closed or dropped.
    ///
    /// # Example: a test of a handler
    ///
    /// ```
    /// use mcp_tokio::model::{CallToolRequest, CallToolRequestParams, CallToolResult, RequestMethod};
    /// use mcp_tokio::proto::server::Config;
    /// use mcp_tokio::proto::{ErrorObject, Json};
    /// use mcp_tokio::{Client, Incoming, Server};
    ///
    /// async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
    ///     let tool = CallToolRequest::params(incoming.params())?.name;
    ///     Ok(CallToolResult::text(format!("This is {tool}.")).into())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = Config::new("my-tools", "1.0.0").capabilities(Json::parse(r#"{"tools":{}}"#)?);
    /// let client = Client::builder().in_memory(&Server::new(config, serve)).connect().await?;
    /// let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello")).await?;
    /// assert_eq!(called.content, CallToolResult::text("This is hello.").content);
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_memory(self, server: &Server) -> Builder<InMemoryServer> {
        self.with_server(InMemoryServer { server: server.clone() })
    }
}

impl Builder<InMemoryServer> {
    /// Starts the server, connects, and waits until the server has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the configuration of the client or of the server is invalid; otherwise as for
    /// [`Builder::<StreamServer>::connect`](super::StreamServer).
    pub async fn connect(self) -> Result<Client, Error> {
        let Self { config, handler, server: InMemoryServer { server }, typed, hooks } = self;
        let machine = server.machine(Stdio::new())?;
        let (near, far) = duplex(CAPACITY);
        tokio::spawn(async move {
            let (read, write) = split(far);
            if let Err(error) = server.serve_until_written(machine, read, write, None).await {
                tracing::debug!(%error, "the connection in memory has ended");
            }
        });
        let (read, write) = split(near);
        Builder { config, handler, server: (), typed, hooks }.stream(read, write).connect().await
    }
}
