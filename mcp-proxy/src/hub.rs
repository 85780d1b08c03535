//! `--shared`: all proxies with the same command use one process, the hub.
//!
//! The hub is this program again, as `mcp-proxy serve` on a Unix socket that only this user can use, or at a private port. The
//! first proxy that needs the hub starts it. If the hub has crashed, a proxy that finds that nothing listens starts it again. A
//! lock decides which proxy does so. The hub ends when no proxy was connected for a while.
//!
//! Proxies of different versions have different hubs. If the program was replaced while a proxy runs, this proxy starts
//! a hub of the new version, with the options that the earlier version gives it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_blocking::HttpOptions;
use mcp_proto::escape_text;

use crate::logging::LogOptions;
use crate::platform::HubPlace;
use crate::private_file::{self, Existing};

/// The URL of the hub, for the sake of its path: the host is not looked up.
pub(crate) const URL: &str = "http://localhost/mcp";

/// The exit status of a program whose options are invalid.
const INVALID_OPTIONS: i32 = 2;
/// How long a hub may take until it listens.
const START_TIME: Duration = Duration::from_secs(15);
/// The pause before another look at whether it does.
const PAUSE: Duration = Duration::from_millis(10);

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
    place: HubPlace,
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
    /// There is no folder for its files that is private.
    pub(crate) fn new(
        shared: &SharedOptions,
        options: &[(&str, String)],
        command: &[OsString],
        log: &LogOptions,
    ) -> io::Result<Self> {
        let grace = shared.shared_grace.as_secs_f64().to_string();
        let mut arguments: Vec<OsString> =
            ["serve", "--share", "all", "--leave-after", &grace].map(OsString::from).into();
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
        let place = HubPlace::new(&name)?;
        arguments.extend(["--listen".into(), place.option()]);
        arguments.extend(log.words());
        arguments.push("--".into());
        arguments.extend(command.iter().cloned());
        Ok(Self {
            program: Program::of_this_process(),
            lock: place.folder().join(format!("{name}.lock")),
            place,
            arguments,
            log_file: log.file.clone(),
        })
    }

    /// Sets the options of the HTTP client that reaches the hub, and starts it when nothing listens.
    pub(crate) fn reach(self, options: &mut HttpOptions) {
        self.place.clone().reach(options, move || self.start());
    }

    fn start(&self) -> io::Result<()> {
        let program = self.program.find()?;
        let _lock = private_file::lock(&self.lock, HubPlace::PATIENCE)?;
        let errors = match &self.log_file {
            Some(path) => private_file::open(path, Existing::Append)?.into(),
            // A pipe to the editor would be kept open after the editor has ended.
            None => Stdio::null(),
        };
        let mut command = Command::new(program);
        command.args(&self.arguments).stdout(Stdio::null()).stderr(errors);
        // Another proxy may have started it.
        let Some(mut hub) = self.place.start(&mut command)? else { return Ok(()) };
        self.wait_until_ready(&mut hub)?;
        log::info!("started the process that serves all proxies with this command: {}", hub.id());
        // So that it does not remain as a zombie, should this proxy run for longer.
        thread::Builder::new().name("mcp-hub".to_owned()).spawn(move || match hub.wait() {
            Ok(status) if is_refusal(status) => log::error!("{}", in_words(status)),
            Ok(status) => log::debug!("{}", in_words(status)),
            Err(error) => log::debug!("cannot wait for the process that serves all proxies with this command: {error}"),
        })?;
        Ok(())
    }

    /// Waits until the hub listens.
    fn wait_until_ready(&self, hub: &mut Child) -> io::Result<()> {
        let until = Instant::now() + START_TIME;
        while !self.place.is_ready() {
            if let Some(status) = hub.try_wait()? {
                return Err(io::Error::other(format!("{}; with --log-file, its log says why", in_words(status))));
            }
            if Instant::now() >= until {
                hub.kill()?;
                hub.wait()?;
                let text = "the process that serves all proxies with this command did not begin to listen";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Whether a hub refused its options: it may be of another version than this process.
fn is_refusal(status: ExitStatus) -> bool {
    status.code() == Some(INVALID_OPTIONS)
}

/// How a hub has ended.
fn in_words(status: ExitStatus) -> String {
    if is_refusal(status) {
        "the mcp-proxy that is installed now refuses the options of this one, so that no process can be shared; restart the \
         editor"
            .to_owned()
    } else {
        format!("the process that serves all proxies with this command has ended: {status}")
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
    const PREFIXES: [&str; 17] = [
        // The current folder of each drive, on Windows.
        "=",
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
        "WT_",
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
        for name in ["TERM", "SHLVL", "SSH_TTY", "TMUX_PANE", "VSCODE_PID", "WT_SESSION", "=C:", "_"] {
            assert!(is_of_session(name), "{name}");
        }
        for name in ["API_KEY", "PATH", "HOME", "TERMINUS", "LANG", "XDG_CONFIG_HOME"] {
            assert!(!is_of_session(name), "{name}");
        }
    }
}
