//! What is logged, for tests to read.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::Level;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::format::FmtSpan;

/// Everything that this thread has logged since it was made.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<u8>>>);

impl Journal {
    /// Listens until the guard is dropped.
    pub(crate) fn begin() -> (Self, DefaultGuard) {
        let journal = Self::default();
        let writer = journal.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_ansi(false)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(move || writer.clone())
            .finish();
        (journal, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Journal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
