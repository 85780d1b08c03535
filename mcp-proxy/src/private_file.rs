//! Files that only this user can read: recordings, logs and pins.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fs4::FileExt;
use mcp_platform::private_file;

/// The pause before another attempt to lock a file, because a wait for a lock has no end.
const RETRY: Duration = Duration::from_millis(10);

/// What to do with a file that already exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// The file is truncated, and made private. If it is a pipe, a write that would block fails instead.
    Replace,
    /// The file is kept with its permissions, and appended to. If it is a pipe, a write blocks while the pipe is full.
    Append,
}

/// Opens a file for writing, and never follows a symbolic link: in a directory that others may write to, a link would
/// let them choose which file is overwritten. Only this user can read a new file.
///
/// # Errors
///
/// If the path is a symbolic link, a directory or a pipe that no process reads, or if the file cannot be written or
/// made private.
pub(crate) fn open(path: &Path, existing: Existing) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Not truncated yet, because the type of the file is not known.
    options.create(true).append(existing == Existing::Append).write(true);
    let file = private_file::open(&mut options, path)?;
    let found = file.metadata()?;
    if existing == Existing::Append {
        private_file::set_blocking(&file)?;
    }
    if existing == Existing::Replace && found.is_file() {
        private_file::make_private(&file, &found)?;
        file.set_len(0)?;
    }
    Ok(file)
}

/// Writes a file that other processes see as it was or as it is, never in part. Only this user can read it.
///
/// # Errors
///
/// If the path is a symbolic link, or if a file in its directory cannot be written.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    private_file::refuse_link(path)?;
    let mut name = path.file_name().ok_or_else(|| io::Error::other("it has no file name"))?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    // A process with the same number may have left it.
    let _ = fs::remove_file(&new);
    let mut file = private_file::open(OpenOptions::new().write(true).create_new(true), &new)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    drop(file);
    let replaced = written.and_then(|()| private_file::replace(&new, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// Opens a file for a lock, and never follows a symbolic link. Only this user can read it. It stays when it is unlocked, because
/// another process may wait for its lock.
///
/// # Errors
///
/// If the path is a symbolic link, or if the file cannot be opened or created.
fn open_lock(path: &Path) -> io::Result<File> {
    private_file::open(OpenOptions::new().create(true).write(true).truncate(false), path)
}

/// Locks this file until what is returned is dropped. While another process has locked it, waits this long.
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`] if another process has still locked it; as [`open_lock`].
pub(crate) fn lock(path: &Path, patience: Duration) -> io::Result<File> {
    let file = open_lock(path)?;
    let until = Instant::now() + patience;
    loop {
        match FileExt::try_lock(&file) {
            Ok(()) => return Ok(file),
            Err(fs4::TryLockError::Error(error)) => return Err(error),
            Err(fs4::TryLockError::WouldBlock) if Instant::now() >= until => {
                let text = format!("another process has locked {}", path.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Err(fs4::TryLockError::WouldBlock) => thread::sleep(RETRY),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;
    use std::thread;

    use super::*;

    #[test]
    fn what_is_replaced_becomes_private_and_what_is_appended_to_stays_as_it_is() {
        let path = std::env::current_exe().unwrap().with_extension("private-file");
        for (existing, before, after, text) in [
            (Existing::Replace, 0o644, 0o600, "new"),
            (Existing::Replace, 0o620, 0o600, "new"),
            (Existing::Replace, 0o700, 0o700, "new"),
            (Existing::Append, 0o644, 0o644, "before\nnew"),
        ] {
            fs::write(&path, "before\n").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            open(&path, existing).unwrap().write_all(b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, after, "{existing:?} {before:o}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            fs::remove_file(&path).unwrap();
            open(&path, existing).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{existing:?}");
            fs::remove_file(&path).unwrap();
        }
        assert!(open(Path::new("/"), Existing::Append).is_err());
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_only_its_user_can_read_it() {
        let path = std::env::current_exe().unwrap().with_extension("replaced-file");
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let earlier = File::open(&path).unwrap();
        for content in ["new", "newer"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(io::read_to_string(earlier).unwrap(), "before", "a reader of the earlier file reads all of it");
        let link = path.with_extension("link");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(replace(&link, b"").unwrap_err().to_string().contains("is a symbolic link"));
        fs::remove_file(link).unwrap();
        fs::remove_file(&path).unwrap();
        let start = path.file_name().unwrap().to_str().unwrap();
        let mut left = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!left.any(|name| name.to_str().is_some_and(|name| name.starts_with(start))));
        assert!(replace(Path::new("/no/such/directory/pins"), b"").is_err());
    }

    #[test]
    fn a_file_is_replaced_where_a_process_with_the_same_number_has_left_its_own() {
        let path = std::env::current_exe().unwrap().with_extension("left-file");
        let mut left = path.clone().into_os_string();
        left.push(format!(".{}.new", std::process::id()));
        fs::write(&left, "of another process, and longer").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(!Path::new(&left).exists());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_pipe_that_is_not_read_is_refused_and_one_that_is_full_does_not_hold_a_record_up() {
        let path = std::env::current_exe().unwrap().with_extension("pipe");
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        for existing in [Existing::Replace, Existing::Append] {
            let error = open(&path, existing).unwrap_err();
            assert_eq!(error.to_string(), "it is a pipe that no process reads; start its reader first");
        }
        let mut reader = private_file::open(OpenOptions::new().read(true), &path).unwrap();
        let much = vec![b'x'; 4 << 20];
        let error = open(&path, Existing::Replace).unwrap().write_all(&much).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);

        let mut log = open(&path, Existing::Append).unwrap();
        let flags = nix::fcntl::fcntl(&log, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        let waits = !nix::fcntl::OFlag::from_bits_retain(flags).contains(nix::fcntl::OFlag::O_NONBLOCK);
        assert!(waits, "a line of the log waits for its reader");
        fs::remove_file(&path).unwrap();
        let writer = thread::spawn(move || log.write_all(b"waited").unwrap());
        private_file::set_blocking(&reader).unwrap();
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        writer.join().unwrap();
        assert!(text.ends_with(b"xwaited"), "{} bytes", text.len());
    }
}
