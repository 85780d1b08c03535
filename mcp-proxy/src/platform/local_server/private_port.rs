//! Gateways at private ports.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::windows::io::AsRawHandle;
use std::os::windows::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use etcetera::BaseStrategy;
use filedescriptor::{FileDescriptor, StdioDescriptor};
use mcp_blocking::HttpOptions;

use super::LocalListening;
use super::private_port_file::{PrivatePortFile, make_room};

/// A signal for the console of the editor, such as that of Ctrl-C, does not reach the process.
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
/// The process has no window.
const CREATE_NO_WINDOW: u32 = 0x0800_0000;
/// The process does not end with the job of the editor.
const CREATE_BREAKAWAY_FROM_JOB: u32 = 0x0100_0000;

/// The file of a private port.
pub(crate) type ListeningFile = PrivatePortFile;

/// There are none that could be too long.
#[expect(clippy::unnecessary_wraps, reason = "it is so on systems with Unix sockets")]
pub(crate) const fn check_socket_path(_: &Path) -> Result<(), String> {
    Ok(())
}

fn unsupported<T>() -> io::Result<T> {
    let text = "this system has no Unix sockets and passes none on; use an address such as 127.0.0.1:8080";
    Err(io::Error::new(ErrorKind::Unsupported, text))
}

/// Fails.
pub(crate) fn listen_on_unix_socket(_: &Path) -> io::Result<LocalListening> {
    unsupported()
}

/// Fails.
pub(crate) fn inherited_tcp() -> io::Result<Option<TcpListener>> {
    unsupported()
}

/// Fails.
pub(crate) fn inherited_local() -> io::Result<LocalListening> {
    unsupported()
}

/// Listens at a private port with this file.
pub(crate) fn listen_on_private_port(path: &Path) -> io::Result<LocalListening> {
    let (port, file) = PrivatePortFile::bind(path)?;
    let place = format!("the private port of {}", path.to_string_lossy());
    Ok(LocalListening { listener: port.into(), file: Some(file), place })
}

/// Replaces stdin, stdout and stderr by handles of the same streams that no other process inherits. A hub would inherit the
/// editor's, so that they would not end with this process. A stream that this process does not have stays so.
fn keep_streams() {
    let replaced = [
        FileDescriptor::redirect_stdio(&io::stdin(), StdioDescriptor::Stdin),
        FileDescriptor::redirect_stdio(&io::stdout(), StdioDescriptor::Stdout),
        FileDescriptor::redirect_stdio(&io::stderr(), StdioDescriptor::Stderr),
    ];
    let mut closed = Vec::new();
    for original in replaced.into_iter().flatten() {
        // Two of them may be one handle, which is closed once.
        if closed.contains(&original.as_raw_handle()) {
            std::mem::forget(original);
        } else {
            closed.push(original.as_raw_handle());
        }
    }
}

/// Where a hub listens: at a private port.
#[derive(Debug, Clone)]
pub(crate) struct HubPlace {
    folder: PathBuf,
    file: PathBuf,
}

impl HubPlace {
    /// How long another proxy may take to start the hub.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

    /// The place of the hub with this name: in the user's folder for data of this machine, which other users cannot enter.
    /// From now on, no process that this one starts inherits its stdin, stdout and stderr by accident.
    ///
    /// # Errors
    ///
    /// There is no such folder.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        keep_streams();
        let places = etcetera::choose_base_strategy().map_err(io::Error::other)?;
        let folder = places.cache_dir().join("mcp-proxy");
        mcp_platform::private_file::create_directory(&folder)?;
        let file = folder.join(format!("{name}.port"));
        Ok(Self { folder, file })
    }

    /// The folder of its files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What `--listen` says of it.
    pub(crate) fn option(&self) -> OsString {
        let mut option = OsString::from("private:");
        option.push(&self.file);
        option
    }

    /// Sets the options of the HTTP client that reaches the hub, and starts it when there is none.
    pub(crate) fn reach(self, options: &mut HttpOptions, start: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
        options.private_port_of(self.file, start);
    }

    /// Starts the hub by this command; `None` if it runs. No other proxy may start it meanwhile.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Option<Child>> {
        if !make_room(&self.file)? {
            return Ok(None);
        }
        let detached = CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW;
        command.stdin(Stdio::null()).creation_flags(detached | CREATE_BREAKAWAY_FROM_JOB);
        match command.spawn() {
            // The job of the editor may forbid it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => command.creation_flags(detached).spawn(),
            started => started,
        }
        .map(Some)
    }

    /// Whether clients can connect to the hub that was started: then its file is there.
    pub(crate) fn is_ready(&self) -> bool {
        self.file.exists()
    }
}
