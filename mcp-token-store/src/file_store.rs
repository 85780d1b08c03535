//! A store in files, which only this user can read, with locks of the operating system (OA-G-01, OA-G-02).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use fs4::FileExt;
use mcp_auth::Lock;
use mcp_platform::private_file;

use crate::Store;

/// The largest record that is read, in bytes.
const MAX_RECORD: u64 = 1024 * 1024;

/// A store in a directory: one file for each record, and one for each of its locks.
///
/// The directory is created when it is first needed, with mode 0700, and its files with mode 0600. A record is written to
/// another file, which then replaces the earlier one. The operating system releases the locks of a process that ends.
///
/// # Example
///
/// ```
/// use mcp_token_store::{FileStore, Store};
///
/// # let directory = std::env::temp_dir().join(format!("mcp-token-store-doc-{}", std::process::id()));
/// let mut store = FileStore::new(&directory);
/// store.store("5a", b"record")?;
/// assert_eq!(FileStore::new(&directory).load("5a")?, Some(b"record".to_vec()));
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileStore {
    directory: PathBuf,
    locked: BTreeMap<(String, Lock), File>,
}

impl FileStore {
    /// Uses this directory, which is not touched yet.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), locked: BTreeMap::new() }
    }

    /// The path of a file of a key.
    fn path(&self, key: &str, suffix: &str) -> io::Result<PathBuf> {
        // A key is a name of a file, and never a path.
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the key of a record consists of hexadecimal digits",
            ));
        }
        Ok(self.directory.join(format!("{key}{suffix}")))
    }

    /// The path of a file that is created if it does not exist, in a directory that exists.
    fn created_path(&self, key: &str, suffix: &str) -> io::Result<PathBuf> {
        let path = self.path(key, suffix)?;
        private_file::create_directory(&self.directory)?;
        Ok(path)
    }
}

impl Store for FileStore {
    fn load(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let file = match open(OpenOptions::new().read(true), &self.path(key, ".json")?) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut record = Vec::new();
        file.take(MAX_RECORD).read_to_end(&mut record)?;
        Ok(Some(record))
    }

    fn store(&mut self, key: &str, record: &[u8]) -> io::Result<()> {
        // The lock of the record is held: no other process writes to this file.
        let (new, current) = (self.created_path(key, ".new")?, self.path(key, ".json")?);
        let mut file = open(OpenOptions::new().create(true).write(true).truncate(false), &new)?;
        file.set_len(0)?;
        file.write_all(record)?;
        file.sync_all()?;
        drop(file);
        private_file::replace(&new, &current)
    }

    fn erase(&mut self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.path(key, ".json")?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => private_file::sync_directory(&self.directory),
        }
    }

    fn try_lock(&mut self, key: &str, lock: Lock) -> io::Result<bool> {
        let suffix = match lock {
            Lock::SignIn => ".sign-in",
            Lock::Record => ".lock",
            other => return Err(io::Error::other(format!("this version has no lock {other:?}"))),
        };
        let file = open(OpenOptions::new().create(true).write(true).truncate(false), &self.created_path(key, suffix)?)?;
        let is_taken = match FileExt::try_lock(&file) {
            Ok(()) => true,
            Err(fs4::TryLockError::WouldBlock) => false,
            Err(fs4::TryLockError::Error(error)) => return Err(error),
        };
        if is_taken {
            self.locked.insert((key.to_owned(), lock), file);
        }
        Ok(is_taken)
    }

    fn unlock(&mut self, key: &str, lock: Lock) {
        // Closing the file releases its lock. The file stays: another process may wait for a lock of it.
        self.locked.remove(&(key.to_owned(), lock));
    }
}

/// Opens a file, or creates one that only this user can read. It opens no symbolic link, which could lead to a file of
/// others, and does not wait for the other end of a pipe.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = private_file::open(options, path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("{} is not a file; remove it", path.display())));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("mcp-token-store-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_record_is_replaced_as_a_whole() {
        let directory = Directory::new("record");
        let mut store = FileStore::new(&directory.0.join("a/b"));
        assert_eq!(store.load("5a").unwrap(), None);
        store.erase("5a").unwrap();
        assert!(!directory.0.exists(), "reading creates nothing");
        for record in [&b"a long record"[..], b"short", b""] {
            store.store("5a", record).unwrap();
            assert_eq!(store.load("5a").unwrap().as_deref(), Some(record));
        }
        assert_eq!(store.load("5b").unwrap(), None);
        for _ in 0..2 {
            store.erase("5a").unwrap();
            assert_eq!(store.load("5a").unwrap(), None);
        }
        for key in ["", "../5a", "5a/..", "5a.json"] {
            let errors = [
                store.load(key).map(drop),
                store.store(key, b""),
                store.erase(key),
                store.try_lock(key, Lock::Record).map(drop),
            ];
            for error in errors {
                assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{key}");
            }
        }
    }

    #[test]
    fn nothing_of_a_record_that_was_not_stored_as_a_whole_is_in_the_next_one() {
        let directory = Directory::new("partial");
        let mut store = FileStore::new(&directory.0);
        store.store("5a", b"earlier").unwrap();
        fs::write(directory.0.join("5a.new"), "the beginning of a long record").unwrap();
        assert_eq!(store.load("5a").unwrap().as_deref(), Some(&b"earlier"[..]));
        store.store("5a", b"later").unwrap();
        assert_eq!(store.load("5a").unwrap().as_deref(), Some(&b"later"[..]));
    }

    #[test]
    fn au26_oa_g_02_a_lock_belongs_to_one_and_ends_with_it() {
        let directory = Directory::new("locks");
        let (mut first, mut second) = (FileStore::new(&directory.0), FileStore::new(&directory.0));
        assert!(first.try_lock("5a", Lock::Record).unwrap());
        assert!(!second.try_lock("5a", Lock::Record).unwrap());
        assert!(second.try_lock("5a", Lock::SignIn).unwrap() && second.try_lock("5b", Lock::Record).unwrap());
        first.unlock("5a", Lock::Record);
        assert!(second.try_lock("5a", Lock::Record).unwrap());
        drop(second);
        assert!(first.try_lock("5a", Lock::Record).unwrap() && first.try_lock("5a", Lock::SignIn).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn au26_oa_g_01_only_this_user_can_read_what_is_stored_and_no_link_is_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let directory = Directory::new("modes");
        let mut store = FileStore::new(&directory.0);
        store.store("5a", b"record").unwrap();
        store.try_lock("5a", Lock::Record).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory.0), 0o700);
        for entry in fs::read_dir(&directory.0).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600);
        }
        fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o755)).unwrap();
        store.store("5a", b"record").unwrap();
        assert_eq!(mode(&directory.0), 0o700, "it is made private again");

        let victim = directory.0.join("victim");
        fs::write(&victim, "untouched").unwrap();
        for suffix in [".json", ".new", ".lock"] {
            symlink(&victim, directory.0.join(format!("66{suffix}"))).unwrap();
        }
        assert!(
            store.load("66").is_err()
                && store.store("66", b"x").is_err()
                && store.try_lock("66", Lock::Record).is_err()
        );
        assert_eq!(fs::read(&victim).unwrap(), b"untouched");
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_cannot_be_created_is_the_reason() {
        let directory = Directory::new("missing");
        std::os::unix::fs::symlink(directory.0.join("nowhere"), &directory.0).unwrap();
        let mut store = FileStore::new(&directory.0);
        assert_eq!(store.store("5a", b"x").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(store.try_lock("5a", Lock::SignIn).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(&directory.0).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_or_a_directory_in_the_place_of_a_file_is_an_error_and_nothing_waits() {
        use nix::sys::stat::Mode;

        let directory = Directory::new("pipes");
        let mut store = FileStore::new(&directory.0);
        store.store("5a", b"record").unwrap();
        for (key, is_pipe) in [("66", true), ("77", false)] {
            for suffix in [".json", ".new", ".lock", ".sign-in"] {
                let path = directory.0.join(format!("{key}{suffix}"));
                if is_pipe {
                    nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
                } else {
                    fs::create_dir(&path).unwrap();
                }
            }
            let error = store.load(key).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("is not a file"), "{error}");
            assert!(store.store(key, b"x").is_err());
            for lock in [Lock::Record, Lock::SignIn] {
                assert!(store.try_lock(key, lock).is_err(), "{lock:?}");
            }
            // The other end of a pipe is open.
            let _reader = is_pipe.then(|| open_reader(&directory.0.join(format!("{key}.lock"))));
            assert!(store.try_lock(key, Lock::Record).is_err());
        }
        assert_eq!(store.load("5a").unwrap().as_deref(), Some(&b"record"[..]));
    }

    #[cfg(unix)]
    fn open_reader(path: &Path) -> File {
        use std::os::unix::fs::OpenOptionsExt;

        OpenOptions::new().read(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(path).unwrap()
    }
}
