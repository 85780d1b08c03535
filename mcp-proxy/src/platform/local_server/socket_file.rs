//! The file of a Unix socket, which only this user can use.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The bytes of the name of a folder for a new socket.
const RANDOM: usize = 4;
/// How often such a name may be one that exists.
const TRIES: usize = 4;

/// The file of a Unix socket, which is removed when this is dropped.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The device and number of the file, so that no file of another program is removed.
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

/// Checks that a Unix socket at this path can be listened on and connected to: systems allow for some 100 bytes.
///
/// # Errors
///
/// A text for the user.
pub(crate) fn check_path(path: &Path) -> Result<(), String> {
    let made = made_in(&folder_of(path).join(private_name([0; RANDOM])));
    let is_possible = |path: &Path| SocketAddr::from_pathname(path).is_ok();
    if is_possible(path) && is_possible(&made) {
        return Ok(());
    }
    let length = path.as_os_str().len();
    Err(format!(
        "the path of the Unix socket is too long or has a NUL character ({length} bytes); choose a shorter folder"
    ))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn private_name(random: [u8; RANDOM]) -> String {
    format!(".{:08x}", u32::from_be_bytes(random))
}

fn made_in(private: &Path) -> PathBuf {
    private.join("s")
}

/// Creates a folder that no other user can enter. Its name is random: another process may have left one, or use the same
/// process id in another container.
fn create_private(folder: &Path) -> io::Result<PathBuf> {
    let mut tries = 0;
    loop {
        let mut random = [0; RANDOM];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let private = folder.join(private_name(random));
        match fs::DirBuilder::new().mode(0o700).create(&private) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && tries < TRIES => tries += 1,
            created => return created.map(|()| private),
        }
    }
}

/// Listens on a Unix socket whose file only this user can use. A file of a program that has ended is replaced.
pub(crate) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    check_path(path).map_err(|text| io::Error::new(ErrorKind::InvalidInput, text))?;
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
    // The socket gets its permissions in a folder that no other user can enter, so that no other user can connect
    // before.
    let private = create_private(folder_of(path))?;
    let made = made_in(&private);
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
    use ::mcp_testkit::waiting::wait_until;

    use super::*;

    /// A folder of this test alone.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("mcp-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn what_another_process_has_left_does_not_prevent_the_start() {
        let folder = folder("left");
        let left = folder.join(format!(".{}", std::process::id()));
        fs::create_dir(&left).unwrap();
        drop(UnixListener::bind(left.join("s")).unwrap());
        for _ in 0..3 {
            let (listener, file) = bind(&folder.join("socket")).unwrap();
            UnixStream::connect(folder.join("socket")).unwrap();
            drop((listener, file));
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn sockets_that_are_made_at_the_same_time_have_a_folder_each() {
        let folder = folder("at-once");
        let made = [(); 3].map(|()| create_private(&folder).unwrap());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), made.len());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn each_path_that_is_accepted_can_be_connected_to_and_any_other_is_refused_with_the_reason() {
        let folder = folder("long");
        let mut outcomes = Vec::new();
        for length in 60..=140 {
            // With a long name, and with a long folder.
            let rest = length - folder.as_os_str().len() - 1;
            let deep = folder.join("d".repeat(rest - 2));
            fs::create_dir(&deep).unwrap();
            for path in [folder.join("s".repeat(rest)), deep.join("s")] {
                assert_eq!(path.as_os_str().len(), length);
                outcomes.push(match bind(&path) {
                    Ok(bound) => {
                        UnixStream::connect(&path).unwrap();
                        drop(bound);
                        true
                    }
                    Err(error) => {
                        assert!(error.to_string().contains("choose a shorter folder"), "{length}: {error}");
                        false
                    }
                });
            }
        }
        assert!(outcomes[..20].iter().all(|fine| *fine) && !outcomes[outcomes.len() - 40..].iter().any(|fine| *fine));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_socket_file_is_private_replaces_a_stale_one_and_is_removed_at_the_end() {
        let path = std::env::temp_dir().join(format!("mcp-proxy-{}.sock", std::process::id()));
        // The file of a program that has ended.
        drop(UnixListener::bind(&path).unwrap());
        // A process that another test starts has the socket until it executes its program.
        wait_until(|| UnixStream::connect(&path).is_err());
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
        // The file of another program, which has replaced this one, is not removed.
        let (_, file) = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
    }
}
