//! The file of a private port, and whether its server runs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs4::FileExt;
use mcp_blocking::PrivatePort;

use crate::private_file;

/// How long a server that ends may still hold the lock: a system may release it a moment after the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The file of a private port, which is removed when this is dropped.
pub(crate) struct PrivatePortFile {
    path: PathBuf,
    content: String,
    /// Is locked while the server runs.
    _lock: File,
}

impl PrivatePortFile {
    /// Listens at a private port, whose file this becomes.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`] if another program listens with this file.
    pub(super) fn bind(path: &Path) -> io::Result<(PrivatePort, Self)> {
        let lock = private_file::lock(&lock_of(path), PATIENCE).map_err(|error| {
            let is_in_use = error.kind() == io::ErrorKind::TimedOut;
            if is_in_use { io::Error::new(io::ErrorKind::AddrInUse, "a program listens with this file") } else { error }
        })?;
        let port = PrivatePort::bind()?;
        let content = port.file_content();
        private_file::replace(path, content.as_bytes())?;
        Ok((port, Self { path: path.to_owned(), content, _lock: lock }))
    }
}

/// The lock is held meanwhile, so that no other server can have written the file in between.
impl Drop for PrivatePortFile {
    fn drop(&mut self) {
        if fs::read_to_string(&self.path).is_ok_and(|found| found == self.content) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes what a server that has ended has left, and returns `true`; `false` if the server runs. No other server may be
/// started meanwhile.
///
/// # Errors
///
/// The file cannot be removed.
pub(super) fn make_room(path: &Path) -> io::Result<bool> {
    // A server that runs and has no file is about to end.
    let patience = if path.exists() { Duration::ZERO } else { PATIENCE };
    let lock = match private_file::lock(&lock_of(path), patience) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(false),
        Err(error) => return Err(error),
    };
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // Closing the file unlocks it too, but perhaps a moment later.
    FileExt::unlock(&lock)?;
    Ok(true)
}

fn lock_of(path: &Path) -> PathBuf {
    path.with_extension("runs")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path in a folder of this test alone.
    fn path(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("mcp-port-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        folder.join("hub.port")
    }

    #[test]
    fn a_file_is_there_while_its_server_runs_and_no_other_server_takes_its_place() {
        let path = path("runs");
        assert!(make_room(&path).unwrap());
        let (port, file) = PrivatePortFile::bind(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), port.file_content());
        assert!(!make_room(&path).unwrap(), "it runs");
        assert_eq!(PrivatePortFile::bind(&path).err().unwrap().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), port.file_content());
        drop(file);
        assert!(!path.exists());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_a_server_that_was_killed_has_left_is_replaced_and_that_of_another_is_not_removed() {
        let path = path("left");
        fs::write(&path, "of a server that was killed").unwrap();
        assert!(make_room(&path).unwrap() && !path.exists());
        fs::write(&path, "of another one").unwrap();
        let (port, file) = PrivatePortFile::bind(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), port.file_content());
        fs::write(&path, "not its own").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "not its own");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
