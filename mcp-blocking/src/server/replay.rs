//! A server whose input is known in full.

use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::Server;

impl Server {
    /// Serves a client that sends these bytes over stdio and then closes its stream. Returns the bytes that it
    /// receives. This is for tests: the output of any size is kept in memory.
    ///
    /// A test or a fuzz target passes both to `assert_answers` of the crate `mcp-testkit`.
    ///
    /// # Errors
    ///
    /// As for [`Server::serve_stream`].
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_blocking::{Incoming, Server};
    /// use mcp_blocking::proto::server::Config;
    /// use mcp_blocking::proto::{ErrorObject, Json};
    ///
    /// fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    ///     Err(ErrorObject::method_not_found(incoming.method()))
    /// }
    ///
    /// let server = Server::new(Config::new("my-tools", "1.0.0"), serve);
    /// let sent = server.replay("no JSON\n")?;
    /// assert!(String::from_utf8_lossy(&sent).contains(r#""code":-32700"#));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn replay(&self, input: impl Into<Vec<u8>>) -> io::Result<Vec<u8>> {
        let sent = Sent::default();
        self.serve_stream(Cursor::new(input.into()), sent.clone())?;
        let mut bytes = sent.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *bytes))
    }
}

/// What the server has written.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<u8>>>);

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
