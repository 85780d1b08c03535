//! The file of a Unix socket, which only this user can use.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The file of a Unix socket, which is removed when this is dropped.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Its device and number, so that no file of another program is removed.
    identity: (u64, u64),
}

impl SocketFile {
    /// Leaves the file to another process.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Listens on a Unix socket whose file only this user can use. A file of a program that has ended is replaced.
pub(crate) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file that is no socket"));
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => return Err(io::Error::new(ErrorKind::AddrInUse, "a program accepts connections on it")),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        },
        Err(_) => {}
    }
    // It gets its permissions in a folder that no other user can enter, so that none can connect to it before.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let private = folder.join(format!(".{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&private)?;
    let made = private.join("s");
    let bound = UnixListener::bind(&made).and_then(|listener| {
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
        let identity = identity(&made)?;
        fs::rename(&made, path)?;
        Ok((listener, SocketFile { path: path.to_owned(), identity }))
    });
    let _ = fs::remove_file(&made);
    let _ = fs::remove_dir(&private);
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_file_is_private_replaces_a_stale_one_and_is_removed_at_the_end() {
        let path = std::env::temp_dir().join(format!("mcp-proxy-{}.sock", std::process::id()));
        // The file of a program that has ended.
        drop(UnixListener::bind(&path).unwrap());
        let (listener, file) = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = bind(&path).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}");
        drop((listener, file));
        assert!(!path.exists());
        fs::write(&path, "no socket").unwrap();
        assert_eq!(bind(&path).err().unwrap().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "no socket");
        fs::remove_file(&path).unwrap();
        // That of another program, which has replaced this one.
        let (_, file) = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
    }
}
