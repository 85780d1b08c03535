//! `--shared`: all proxies with the same command use one process, the hub.
//!
//! The hub is this program again, as `mcp-proxy serve` on a Unix socket that only this user can use. The first proxy
//! that needs the hub starts it. If the hub has crashed, a proxy that finds that nothing listens starts it again. A
//! lock decides which proxy does so. The hub ends when no proxy was connected for a while.
//!
//! Proxies of different versions have different hubs. If the program was replaced while a proxy runs, this proxy starts
//! a hub of the new version, with the options that the earlier version gives it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_blocking::HttpOptions;
use mcp_proto::escape_text;

use crate::logging::LogOptions;

/// The URL of the hub, for the sake of its path: the host is not looked up.
pub(crate) const URL: &str = "http://localhost/mcp";

/// The exit status of a program whose options are invalid.
#[cfg(unix)]
const INVALID_OPTIONS: i32 = 2;

/// The heading in the help for this.
const HEADING: &str = "Options for a shared server";

/// How a server is shared.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct SharedOptions {
    /// Uses one process of the server for all proxies with this option, the same command, folder and environment
    #[arg(long, requires = "server", conflicts_with = "url", help_heading = HEADING)]
    pub(crate) shared: bool,

    /// Shares the server among proxies that may differ in all environment variables but those that are named so (repeatable)
    #[arg(long, value_name = "VAR", requires = "shared", help_heading = HEADING)]
    shared_env: Vec<String>,

    /// How long a shared server is kept after the last proxy has ended
    #[arg(long, value_name = "SECONDS", value_parser = crate::args::seconds, default_value = "30", requires = "shared", help_heading = HEADING)]
    shared_grace: Duration,
}

/// The process that serves all proxies with one command.
#[derive(Debug)]
pub(crate) struct Hub {
    program: Program,
    socket: PathBuf,
    lock: PathBuf,
    arguments: Vec<OsString>,
    /// Where the hub and the server write their errors.
    log_file: Option<PathBuf>,
}

impl Hub {
    /// The hub for this command, which may not run yet. `options` are further options of `mcp-proxy serve`.
    ///
    /// # Errors
    ///
    /// There is no folder for its socket that is private.
    pub(crate) fn new(
        shared: &SharedOptions,
        options: &[(&str, String)],
        command: &[OsString],
        log: &LogOptions,
    ) -> io::Result<Self> {
        let grace = shared.shared_grace.as_secs_f64().to_string();
        let mut arguments: Vec<OsString> =
            ["serve", "--listen", "stdin", "--share", "all", "--leave-after", &grace].map(OsString::from).into();
        for (name, value) in options {
            arguments.extend([OsString::from(name), value.into()]);
        }
        let is_named = |name: &OsStr| {
            if shared.shared_env.is_empty() {
                !is_of_session(&name.to_string_lossy())
            } else {
                shared.shared_env.iter().any(|named| name == OsStr::new(named))
            }
        };
        let mut environment: Vec<_> = std::env::vars_os().filter(|(name, _)| is_named(name)).collect();
        environment.sort();
        let folder = std::env::current_dir()?.into_os_string();
        let mut identity = vec![OsString::from(env!("CARGO_PKG_VERSION")), folder];
        identity.extend(environment.into_iter().flat_map(|(name, value)| [name, value]));
        identity.push("--".into());
        identity.extend(arguments.iter().chain(command).cloned());
        let name = name_of(&identity);
        if let Some(level) = log.level() {
            arguments.extend(["--log-level".into(), level.into()]);
        }
        arguments.push("--".into());
        arguments.extend(command.iter().cloned());
        let place = private_folder(&name)?;
        Ok(Self {
            program: Program::of_this_process(),
            socket: socket_in(&place, &name),
            lock: place.join(format!("{name}.lock")),
            arguments,
            log_file: log.log_file.clone(),
        })
    }

    /// Sets the options of the HTTP client that reaches the hub, and starts it when nothing listens.
    pub(crate) fn reach(self, options: &mut HttpOptions) {
        let socket = self.socket.clone();
        options.unix_socket_of(socket, move || self.start());
    }

    #[cfg(unix)]
    fn start(&self) -> io::Result<()> {
        use std::os::fd::OwnedFd;
        use std::os::unix::process::CommandExt;
        use std::process::{Command, Stdio};
        use std::thread;

        use crate::private_file::{self, Existing};
        use crate::socket_file::bind;

        let program = self.program.find()?;
        let _lock = lock(&self.lock)?;
        let (listener, file) = match bind(&self.socket) {
            Ok(bound) => bound,
            // Another proxy has started it.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(()),
            Err(error) => return Err(error),
        };
        let errors = match &self.log_file {
            Some(path) => private_file::open(path, Existing::Append)?.into(),
            // A pipe to the editor would be kept open after the editor has ended.
            None => Stdio::null(),
        };
        let mut command = Command::new(program);
        command.args(&self.arguments).stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(errors);
        // A signal for the editor's group, such as that of Ctrl-C, does not reach it.
        let mut hub = command.process_group(0).spawn()?;
        file.keep();
        log::info!("started the process that serves all proxies with this command");
        // So that it does not remain as a zombie, should this proxy run for longer.
        thread::Builder::new().name("mcp-hub".to_owned()).spawn(move || match hub.wait() {
            // The hub may be of another version than this process.
            Ok(status) if status.code() == Some(INVALID_OPTIONS) => log::error!(
                "the mcp-proxy that is installed now refuses the options of this one, so that no process can be shared; \
                 restart the editor"
            ),
            Ok(status) => log::debug!("the process that serves all proxies with this command has ended: {status}"),
            Err(error) => log::debug!("cannot wait for the process that serves all proxies with this command: {error}"),
        })?;
        Ok(())
    }

    #[cfg(not(unix))]
    fn start(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A name for a list of words. Each is preceded by its length, so that other words have another name.
fn name_of(words: &[OsString]) -> String {
    use ring::digest::{Context, SHA256};

    let mut hash = Context::new(&SHA256);
    for word in words {
        let bytes = word.as_encoded_bytes();
        hash.update(&bytes.len().to_le_bytes());
        hash.update(bytes);
    }
    // Short, because the path of a Unix socket may have some 100 bytes.
    URL_SAFE_NO_PAD.encode(hash.finish().as_ref().get(..12).unwrap_or_default())
}

/// Whether an environment variable usually differs between terminals and editors, without meaning to a server.
fn is_of_session(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "_",
        "COLORTERM",
        "COLUMNS",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "LINES",
        "MANAGERPID",
        "OLDPWD",
        "PWD",
        "SHLVL",
        "STY",
        "SYSTEMD_EXEC_PID",
        "TERM",
        "WAYLAND_DISPLAY",
        "WINDOWID",
    ];
    const PREFIXES: [&str; 15] = [
        "ALACRITTY_",
        "CLAUDE_CODE_",
        "CLAUDECODE",
        "CURSOR_",
        "GNOME_TERMINAL_",
        "ITERM_",
        "KITTY_",
        "KONSOLE_",
        "SSH_",
        "TERM_",
        "TMUX",
        "VSCODE_",
        "VTE_",
        "WEZTERM_",
        "XDG_SESSION_",
    ];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Where this program was when this process started.
#[derive(Debug)]
struct Program {
    /// The file itself, without links.
    file: Option<PathBuf>,
    /// The program as it was called: a path, or a name to look for. A package manager may have replaced the file, so
    /// that the same link leads to another one.
    called: Option<OsString>,
    folder: Option<PathBuf>,
}

impl Program {
    fn of_this_process() -> Self {
        Self {
            file: std::env::current_exe().ok(),
            called: std::env::args_os().next(),
            folder: std::env::current_dir().ok(),
        }
    }

    /// The program of the version that is installed now.
    fn find(&self) -> io::Result<PathBuf> {
        let called = self.called.as_ref().map(Path::new);
        let is_name = called.is_some_and(|called| called.components().count() == 1 && !called.is_absolute());
        let mut candidates: Vec<PathBuf> = self.file.iter().cloned().collect();
        if let (Some(called), true) = (called, is_name) {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            candidates.extend(std::env::split_paths(&folders).map(|folder| folder.join(called)));
        } else if let (Some(called), Some(folder)) = (called, &self.folder) {
            candidates.push(folder.join(called));
        }
        candidates.into_iter().find(|file| file.is_file()).ok_or_else(|| {
            let file = self.file.as_deref().unwrap_or(Path::new("mcp-proxy")).to_string_lossy().into_owned();
            let file = escape_text(file.strip_suffix(" (deleted)").unwrap_or(&file), 200);
            let text = format!("{file} does not exist any more; install mcp-proxy again, or restart the editor");
            io::Error::other(text)
        })
    }
}

/// The path of the socket of a hub.
fn socket_in(place: &Path, name: &str) -> PathBuf {
    place.join(format!("{name}.sock"))
}

/// The folder for the sockets, which only this user can enter: the first in which the path of a socket with this name is
/// short enough.
#[cfg(unix)]
fn private_folder(name: &str) -> io::Result<PathBuf> {
    use std::fs::DirBuilder;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    use crate::socket_file::check_path;

    let user = nix::unistd::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let shared = [std::env::temp_dir(), PathBuf::from("/tmp")].map(|shared| shared.join(format!("mcp-proxy-{user}")));
    let folders = runtime.map(|runtime| runtime.join("mcp-proxy")).into_iter().chain(shared);
    let mut too_long = String::new();
    let mut fitting = folders.filter(|folder| match check_path(&socket_in(folder, name)) {
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

#[cfg(not(unix))]
fn private_folder(_: &str) -> io::Result<PathBuf> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets"))
}

/// Waits for the lock of a hub, which is released when the returned value is dropped.
#[cfg(unix)]
fn lock(path: &Path) -> io::Result<nix::fcntl::Flock<std::fs::File>> {
    use std::time::Instant;

    use nix::errno::Errno;
    use nix::fcntl::{Flock, FlockArg};

    use crate::private_file::{self, Existing};

    /// Starting takes some milliseconds.
    const PATIENCE: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(10);

    let mut file = private_file::open(path, Existing::Append)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((unlocked, Errno::EWOULDBLOCK)) if Instant::now() < until => file = unlocked,
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("another proxy keeps {}", path.display())));
            }
            Err((_, error)) => return Err(error.into()),
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_these_words_only() {
        let name = |words: &[&str]| name_of(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(name(&["a", "b"]), name(&["a", "b"]));
        for other in [&["ab"][..], &["a", "b", ""], &["", "a", "b"], &["b", "a"], &["a b"], &["a"]] {
            assert_ne!(name(&["a", "b"]), name(other), "{other:?}");
        }
        assert_eq!(name(&[]).len(), 16);
    }

    #[test]
    fn variables_of_terminals_do_not_separate_proxies_and_all_others_do() {
        for name in ["TERM", "SHLVL", "SSH_TTY", "TMUX_PANE", "VSCODE_PID", "_"] {
            assert!(is_of_session(name), "{name}");
        }
        for name in ["API_KEY", "PATH", "HOME", "TERMINUS", "LANG", "XDG_CONFIG_HOME"] {
            assert!(!is_of_session(name), "{name}");
        }
    }
}
