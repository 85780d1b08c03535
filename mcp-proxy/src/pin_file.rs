//! The file with the pinned definitions of tools.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use mcp_intermediary::relay::Pins;

use crate::private_file;

/// The maximum number of bytes that are read: more than pins have.
const LIMIT: u64 = 64 << 20;
/// How long another process may have the file locked, which takes it the time of one write.
const LOCKED: Duration = Duration::from_secs(10);

/// The file with the pinned definitions of the tools of one server.
#[derive(Debug)]
pub(crate) struct PinFile {
    path: PathBuf,
}

impl PinFile {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Reads the pins. A missing file is created, so that a file that cannot be written is an error now.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, created or locked, or contains no pins.
    pub(crate) fn open(&self) -> io::Result<Pins> {
        let _lock = self.lock()?;
        match self.read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let none = Pins::new();
                private_file::replace(&self.path, none.to_text().as_bytes())?;
                Ok(none)
            }
            pins => pins,
        }
    }

    /// Stores the pins of tools that have none in the file, and returns all pins. Other processes may have stored pins since
    /// this one has read them, which are kept. If the file cannot be written, these pins are returned.
    pub(crate) fn store(&self, pins: &Pins) -> Pins {
        self.add(pins).unwrap_or_else(|error| {
            log::error!("cannot store the pins of tools in {}: {error}", self.path.display());
            pins.clone()
        })
    }

    fn add(&self, pins: &Pins) -> io::Result<Pins> {
        let _lock = self.lock()?;
        let stored = match self.read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Pins::new(),
            stored => stored?,
        };
        let all = stored.with_missing(pins);
        private_file::replace(&self.path, all.to_text().as_bytes())?;
        Ok(all)
    }

    /// Locks the file until what is returned is dropped. The lock is another file, because this one is replaced.
    fn lock(&self) -> io::Result<File> {
        mcp_platform::private_file::refuse_link(&self.path)?;
        let mut path = self.path.clone();
        path.as_mut_os_string().push(".lock");
        private_file::lock(&path, LOCKED)
    }

    fn read(&self) -> io::Result<Pins> {
        mcp_platform::private_file::refuse_link(&self.path)?;
        let mut text = Vec::new();
        File::open(&self.path)?.take(LIMIT).read_to_end(&mut text)?;
        Pins::parse(&text).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    /// The pin of a tool without a definition.
    fn pins(tool: &str) -> Pins {
        let text = format!(r#"{{"version":1,"complete":true,"tools":{{"{tool}":{{}}}}}}"#);
        Pins::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn pins_of_several_processes_are_all_kept() {
        let path = std::env::current_exe().unwrap().with_extension("pins");
        let _ = fs::remove_file(&path);
        let names: Vec<_> = (0..8).map(|number| format!("tool{number}")).collect();
        thread::scope(|scope| {
            for name in &names {
                // Each has its own handle of the lock, as a process has.
                let file = PinFile::new(path.clone());
                scope.spawn(move || {
                    file.open().unwrap();
                    let all = file.store(&pins(name)).to_text();
                    assert!(all.contains(name.as_str()), "{all}");
                });
            }
        });
        let all = PinFile::new(path.clone()).open().unwrap().to_text();
        assert!(names.iter().all(|name| all.contains(name.as_str())), "{all}");
        fs::remove_file(path.with_extension("pins.lock")).unwrap();
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn pins_that_cannot_be_stored_still_apply() {
        let file = PinFile::new("/no/such/directory/pins".into());
        assert!(file.open().is_err());
        assert_eq!(file.store(&pins("a")), pins("a"));
    }
}
