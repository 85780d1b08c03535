//! The file with the pinned definitions of tools.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use mcp_proto::relay::Pins;

use crate::private_file;

/// The maximum number of bytes that are read: more than pins have.
const LIMIT: u64 = 64 << 20;

/// The file with the pinned definitions of the tools of one server.
#[derive(Debug)]
pub(crate) struct PinFile {
    path: PathBuf,
}

impl PinFile {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Reads the pins. A file that does not exist is created, so that one that cannot be written is an error now.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or created, or contains no pins.
    pub(crate) fn open(&self) -> io::Result<Pins> {
        match self.read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let none = Pins::new();
                private_file::replace(&self.path, none.to_text().as_bytes())?;
                Ok(none)
            }
            pins => pins,
        }
    }

    /// Stores the pins of tools that have none in the file. Another process may have stored pins since this one has read
    /// them, which are kept.
    pub(crate) fn store(&self, pins: &Pins) {
        let stored = match self.read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Pins::new()),
            stored => stored,
        };
        let replaced =
            stored.and_then(|stored| private_file::replace(&self.path, stored.with_missing(pins).to_text().as_bytes()));
        if let Err(error) = replaced {
            log::error!("cannot store the pins of tools in {}: {error}", self.path.display());
        }
    }

    fn read(&self) -> io::Result<Pins> {
        private_file::refuse_link(&self.path)?;
        let mut text = Vec::new();
        File::open(&self.path)?.take(LIMIT).read_to_end(&mut text)?;
        Pins::parse(&text).map_err(io::Error::other)
    }
}
