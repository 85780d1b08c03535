//! Gateways on Unix sockets.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use mcp_blocking::HttpOptions;

use super::LocalListening;
use super::socket_file::{self, SocketFile};

pub(crate) use super::socket_file::check_path as check_socket_path;

/// The file of a Unix socket.
pub(crate) type ListeningFile = SocketFile;

/// Listens on the Unix socket at this path.
pub(crate) fn listen_on_unix_socket(path: &Path) -> io::Result<LocalListening> {
    let (listener, file) = socket_file::bind(path)?;
    Ok(LocalListening { listener: listener.into(), file: Some(file), place: shown(Some(path)) })
}

/// Private ports are for systems without Unix sockets.
pub(crate) fn listen_on_private_port(_: &Path) -> io::Result<LocalListening> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has Unix sockets; use unix:PATH"))
}

/// The listening socket that was passed as stdin, if it is one of TCP.
pub(crate) fn inherited_tcp() -> io::Result<Option<TcpListener>> {
    let tcp = TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    Ok(tcp.local_addr().is_ok().then_some(tcp))
}

/// The listening Unix socket that was passed as stdin.
pub(crate) fn inherited_local() -> io::Result<LocalListening> {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    let address = listener
        .local_addr()
        .map_err(|error| io::Error::new(error.kind(), format!("stdin is no listening socket ({error})")))?;
    let place = shown(address.as_pathname());
    Ok(LocalListening { listener: listener.into(), file: None, place })
}

fn shown(path: Option<&Path>) -> String {
    format!("the socket {}", path.map_or("of stdin".into(), Path::to_string_lossy))
}

/// Where a hub listens: on a Unix socket, which the proxy that starts it passes as stdin.
#[derive(Debug, Clone)]
pub(crate) struct HubPlace {
    folder: PathBuf,
    socket: PathBuf,
}

impl HubPlace {
    /// How long another proxy may take to start the hub, which takes some milliseconds.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

    /// The place of the hub with this name.
    ///
    /// # Errors
    ///
    /// There is no folder for its socket that is private.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let folder = private_folder(name)?;
        let socket = socket_in(&folder, name);
        Ok(Self { folder, socket })
    }

    /// The folder of its files, which only this user can enter.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What `--listen` says of it.
    #[expect(clippy::unused_self, reason = "it is so on Unix only")]
    pub(crate) fn option(&self) -> OsString {
        "stdin".into()
    }

    /// Sets the options of the HTTP client that reaches the hub, and starts it when nothing listens.
    pub(crate) fn reach(self, options: &mut HttpOptions, start: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
        options.unix_socket_of(self.socket, start);
    }

    /// Starts the hub by this command; `None` if it runs. No other proxy may start it meanwhile.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Option<Child>> {
        let (listener, file) = match socket_file::bind(&self.socket) {
            Ok(bound) => bound,
            // Another proxy has started it.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            Err(error) => return Err(error),
        };
        // A signal for the editor's group, such as that of Ctrl-C, does not reach it.
        let hub = command.stdin(OwnedFd::from(listener)).process_group(0).spawn()?;
        file.keep();
        Ok(Some(hub))
    }

    /// Whether clients can connect to the hub that was started: the socket listened before.
    #[expect(clippy::unused_self, reason = "it is so on Unix only")]
    pub(crate) const fn is_ready(&self) -> bool {
        true
    }
}

/// The path of the socket of a hub.
fn socket_in(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sock"))
}

/// The folder for the sockets, which only this user can enter: the first in which the path of a socket with this name is
/// short enough.
fn private_folder(name: &str) -> io::Result<PathBuf> {
    let user = nix::unistd::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let shared = [std::env::temp_dir(), PathBuf::from("/tmp")].map(|shared| shared.join(format!("mcp-proxy-{user}")));
    let folders = runtime.map(|runtime| runtime.join("mcp-proxy")).into_iter().chain(shared);
    let mut too_long = String::new();
    let mut fitting = folders.filter(|folder| match check_socket_path(&socket_in(folder, name)) {
        Ok(()) => true,
        Err(text) => {
            too_long = format!("{}: {text}", folder.display());
            false
        }
    });
    let Some(folder) = fitting.next() else {
        drop(fitting);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, too_long));
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let found = folder.symlink_metadata()?;
    if !found.is_dir() || found.uid() != user || found.mode().trailing_zeros() < 6 {
        let text = format!("{} must be a folder that only you can enter (mode 0700)", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(folder)
}
