//! A server whose input is known in full.

use std::io::{self, Cursor};

use tokio::io::{AsyncReadExt, duplex};

use super::Server;

/// The bytes that are written before they are collected.
const CAPACITY: usize = 64 * 1024;

impl Server {
    /// Serves a client that sends these bytes over stdio and then closes its stream. Returns the bytes that it
    /// receives. This is for tests: the output of any size is kept in memory.
    ///
    /// A test or a fuzz target passes both to `assert_answers` of the crate `mcp-testkit`. With tokio's paused clock
    /// (`start_paused`), no handler that sleeps costs time.
    ///
    /// # Errors
    ///
    /// As for [`Server::serve_stream`].
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_tokio::proto::server::Config;
    /// use mcp_tokio::proto::{ErrorObject, Json};
    /// use mcp_tokio::{Incoming, Server};
    ///
    /// async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
    ///     Err(ErrorObject::method_not_found(incoming.method()))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = Server::new(Config::new("my-tools", "1.0.0"), serve);
    /// let sent = server.replay("no JSON\n").await?;
    /// assert!(String::from_utf8_lossy(&sent).contains(r#""code":-32700"#));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replay(&self, input: impl Into<Vec<u8>>) -> io::Result<Vec<u8>> {
        let (mut client, server) = duplex(CAPACITY);
        let mut received = Vec::new();
        let input = Cursor::new(input.into());
        let (outcome, read) = tokio::join!(self.serve_stream(input, server), client.read_to_end(&mut received));
        outcome?;
        read?;
        Ok(received)
    }
}
