//! A server in this process.

use std::{io, thread};

use mcp_application::Error;

use super::Builder;
use crate::pipe::pipe;
use crate::{Client, Server};

/// A server in this process, as selected by [`Builder::in_memory`].
#[derive(Debug)]
pub struct InMemoryServer {
    server: Server,
}

impl Builder {
    /// Selects a server in this process. Client and server are connected in memory, as over stdio, so that a test of a
    /// handler needs neither a network nor a child process.
    ///
    /// The server runs on threads of its own, which end when the client is closed or dropped.
    ///
    /// # Example: a test of a handler
    ///
    /// ```
    /// use mcp_blocking::{Client, Incoming, Server};
    /// use mcp_blocking::model::{CallToolRequest, CallToolRequestParams, CallToolResult, RequestMethod};
    /// use mcp_blocking::proto::server::Config;
    /// use mcp_blocking::proto::{ErrorObject, Json};
    ///
    /// fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    ///     let tool = CallToolRequest::params(incoming.params())?.name;
    ///     Ok(CallToolResult::text(format!("This is {tool}.")).into())
    /// }
    ///
    /// let config = Config::new("my-tools", "1.0.0").capabilities(Json::parse(r#"{"tools":{}}"#)?);
    /// let client = Client::builder().in_memory(&Server::new(config, serve)).connect()?;
    /// let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello"))?;
    /// assert_eq!(called.content, CallToolResult::text("This is hello.").content);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
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
    /// [`Error::Usage`] if the configuration of the client or of the server is invalid, [`Error::SetUp`] if a thread
    /// could not be started; otherwise as for [`Builder::<StreamServer>::connect`](super::StreamServer).
    pub fn connect(self) -> Result<Client, Error> {
        let Self { config, handler, server: InMemoryServer { server }, typed, hooks } = self;
        let service = server.stream()?;
        let ((from_client, to_server), (from_server, to_client)) = (pipe(), pipe());
        let serve = move || {
            if let Err(error) = service.serve(from_client, to_client) {
                log::debug!("the connection in memory has ended: {error}");
            }
        };
        let no_thread = |error: io::Error| Error::SetUp(format!("cannot start a thread: {error}").into());
        thread::Builder::new().name("mcp-in-memory".to_owned()).spawn(serve).map_err(no_thread)?;
        Builder { config, handler, server: (), typed, hooks }.stream(from_server, to_server).connect()
    }
}
