//! Files that only this user can read.
//!
//! On Unix, they have the mode 0600, and their directories 0700. On Windows, they inherit the access list of the user's profile;
//! elsewhere, only their owner gets access.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

use crate::platform;

/// Opens a file, and never follows a symbolic link: in a directory that others may write to, a link would let them choose which
/// file is opened. A file that is created is private. Opening a pipe does not wait for its other end.
///
/// # Errors
///
/// If the path is a symbolic link or a pipe that no process reads, or if the file cannot be opened, created or made private. A new
/// file that cannot be made private is removed.
///
/// # Example
///
/// ```
/// use std::fs::OpenOptions;
/// use std::io::Write;
///
/// # let path = std::env::temp_dir().join(format!("mcp-platform-doc-{}", std::process::id()));
/// let mut file = mcp_platform::private_file::open(OpenOptions::new().create_new(true).write(true), &path)?;
/// file.write_all(b"secret")?;
/// assert_eq!(std::fs::read(&path)?, b"secret");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let is_new = path.symlink_metadata().is_err();
    refuse_link(path)?;
    platform::set_private(options);
    let file = options.open(path).map_err(platform::open_error)?;
    if is_new {
        platform::protect_new(path).map_err(|error| not_private(&error))?;
    }
    Ok(file)
}

/// Refuses a symbolic link.
///
/// # Errors
///
/// If the path is one.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) { Err(platform::is_link()) } else { Ok(()) }
}

/// Makes a file that others may read private.
///
/// # Errors
///
/// If its permissions cannot be changed.
pub fn make_private(file: &File, found: &Metadata) -> io::Result<()> {
    platform::make_private(file, found).map_err(|error| not_private(&error))
}

fn not_private(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("others may read it, and that cannot be changed: {error}"))
}

/// Creates a directory that only this user can enter, with those that it is in. One that exists is made private; on Windows, it
/// stays as it is.
///
/// # Errors
///
/// If it cannot be created or made private. A new directory that cannot be made private is removed.
pub fn create_directory(directory: &Path) -> io::Result<()> {
    platform::create_directory(directory)
}

/// Gives a file the name of another one, which it replaces as a whole. On Windows, a program that has the other one open, such
/// as a virus scanner, is waited for.
///
/// # Errors
///
/// If it cannot be renamed.
pub fn replace(new: &Path, current: &Path) -> io::Result<()> {
    platform::rename(new, current)?;
    let directory = current.parent().filter(|directory| !directory.as_os_str().is_empty());
    platform::sync_directory(directory.unwrap_or(Path::new(".")))
}

/// Makes sure that the names in a directory are there after a crash.
///
/// # Errors
///
/// If the directory cannot be opened or written.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    platform::sync_directory(directory)
}

/// Lets writes to an opened pipe block.
///
/// # Errors
///
/// If the system does not allow it.
pub fn set_blocking(file: &File) -> io::Result<()> {
    platform::set_blocking(file)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("mcp-platform-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            create_directory(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_others_may_read_becomes_private_and_what_is_private_stays_as_it_is() {
        let directory = Directory::new("modes");
        let path = directory.0.join("file");
        fs::write(&path, "secret").unwrap();
        for (before, after) in [(0o644, 0o600), (0o640, 0o600), (0o604, 0o600), (0o600, 0o600), (0o400, 0o400)] {
            let file = open(OpenOptions::new().read(true), &path).unwrap();
            file.set_permissions(Permissions::from_mode(before)).unwrap();
            make_private(&file, &file.metadata().unwrap()).unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, after, "{before:o}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_replaces_nothing() {
        let directory = Directory::new("replaced");
        let (new, current) = (directory.0.join("new"), directory.0.join("current"));
        fs::write(&current, "earlier").unwrap();
        assert_eq!(replace(&new, &current).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read(&current).unwrap(), b"earlier");
        fs::write(&new, "later").unwrap();
        replace(&new, &current).unwrap();
        assert_eq!((fs::read(&current).unwrap(), new.exists()), (b"later".to_vec(), false));
    }

    #[test]
    fn a_file_does_not_block_until_it_is_told_to() {
        let directory = Directory::new("blocking");
        let file = open(OpenOptions::new().create(true).append(true), &directory.0.join("file")).unwrap();
        let flags = || OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL).unwrap());
        assert!(flags().contains(OFlag::O_NONBLOCK | OFlag::O_APPEND));
        set_blocking(&file).unwrap();
        assert!(!flags().contains(OFlag::O_NONBLOCK) && flags().contains(OFlag::O_APPEND));
    }
}
