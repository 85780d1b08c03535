//! Standard output of a command that prints something for a person.

use std::io::{self, Stdout, Write};

use mcp_platform::is_reader_gone;

/// Standard output, and whether its reader is still there.
pub(crate) struct Printed {
    out: Stdout,
    is_read: bool,
}

impl Printed {
    pub(crate) fn new() -> Self {
        Self { out: io::stdout(), is_read: true }
    }

    /// The outcome of the command: without an error if the reader has left, as `head` does.
    pub(crate) fn end(mut self, outcome: io::Result<bool>) -> io::Result<bool> {
        let flushed = self.flush();
        if self.is_read { outcome.and_then(|fine| flushed.map(|()| fine)) } else { Ok(false) }
    }

    fn note<T>(&mut self, written: io::Result<T>) -> io::Result<T> {
        self.is_read &= !written.as_ref().is_err_and(is_reader_gone);
        written
    }
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed)
    }
}
