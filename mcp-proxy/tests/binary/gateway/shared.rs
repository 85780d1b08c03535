//! `mcp-proxy --shared`: the proxies of several editors use one process of a server.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mcp_proto::Json;
use mcp_testkit::messages::{INITIALIZED, initialize, request};
use mcp_testkit::waiting::{LONG, wait_until};
use tests::ending_servers::runs;

use nix::fcntl::{Flock, FlockArg};

use super::serving::{folder, script};
use crate::editor::{Proxy, command};

/// Where the editors of a test run.
pub(crate) struct Place {
    folder: PathBuf,
    /// For sockets: its path is short.
    runtime: PathBuf,
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let runtime = std::env::temp_dir().join(format!("mcp-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&runtime).unwrap();
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder: folder(&format!("shared-{name}")), runtime }
    }

    /// The command line of an editor's proxy.
    fn command(&self, options: &[&str]) -> Command {
        self.before(options, &[script(&self.folder)])
    }

    /// The command line of an editor's proxy to a shell with these arguments.
    pub(crate) fn before(&self, options: &[&str], arguments: &[String]) -> Command {
        let mut command = command(&[&["--shared", "--shared-grace", "1"], options].concat());
        command.args(["--", "sh"]).args(arguments);
        command.current_dir(&self.folder).env("XDG_RUNTIME_DIR", &self.runtime);
        command
    }

    /// An editor that has opened its session.
    fn editor(&self) -> Proxy {
        opened(self.command(&[]))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.runtime);
    }
}

pub(crate) fn opened(command: Command) -> Proxy {
    let mut proxy = Proxy::spawn(command);
    proxy.open().unwrap();
    proxy.write(INITIALIZED);
    proxy
}

/// The number of the server's process that answers.
fn pid(editor: &mut Proxy) -> u32 {
    let answer = editor.call("pid").expect("an answer");
    answer.member("pid").unwrap().unwrap().to_text().parse().unwrap()
}

/// Calls until the outcome is like this.
fn call_until(editor: &mut Proxy, is_so: impl Fn(&Result<Json, String>) -> bool) -> Result<Json, String> {
    let until = Instant::now() + LONG;
    loop {
        let outcome = editor.call("pid");
        if is_so(&outcome) {
            return outcome;
        }
        assert!(Instant::now() < until, "{outcome:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The number of the process that has started this one.
fn parent(pid: u32) -> u32 {
    let found = Command::new("ps").args(["-o", "ppid=", "-p", &pid.to_string()]).output().unwrap();
    String::from_utf8(found.stdout).unwrap().trim().parse().unwrap()
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn all_editors_use_one_process_until_the_last_has_left() {
    let place = Place::new("one");
    let mut editors: Vec<_> = (0..8).map(|_| place.editor()).collect();
    let pids: Vec<_> = editors.iter_mut().map(pid).collect();
    let server = pids[0];
    assert!(pids.iter().all(|pid| *pid == server), "{pids:?}");
    let hub = parent(server);
    // The editor that was first does not take the server along, however it ends.
    let mut first = editors.remove(0);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert!(editors.iter_mut().all(|editor| pid(editor) == server));
    for mut editor in editors {
        editor.stdin = None;
        assert!(editor.wait().0.success());
    }
    wait_until(|| !runs(server) && !runs(hub));
}

#[test]
fn editors_that_start_at_the_same_time_use_one_process() {
    let place = Place::new("same");
    let mut editors: Vec<_> = (0..6).map(|_| Proxy::spawn(place.command(&[]))).collect();
    let pids: Vec<_> = editors
        .iter_mut()
        .map(|editor| {
            editor.open().unwrap();
            pid(editor)
        })
        .collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
}

/// Whether a process has opened this file.
#[cfg(target_os = "linux")]
fn has_opened(pid: u32, file: &Path) -> bool {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).any(|found| found == file)
}

#[cfg(target_os = "linux")]
#[test]
fn of_editors_that_find_a_dead_socket_the_one_with_the_lock_starts_the_process() {
    let place = Place::new("lock");
    let log = place.folder.join("log");
    let command = || place.command(&["--log-level", "info", "--log-file", log.to_str().unwrap()]);
    // A process that is killed leaves its socket.
    let mut first = opened(command());
    let process = parent(pid(&mut first)).to_string();
    // Together with its editor, which would start another one.
    let killed = Command::new("kill").args(["-9", &process, &first.child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    drop(first);
    let of_hub = |suffix: &str| {
        let mut files = std::fs::read_dir(place.runtime.join("mcp-proxy")).unwrap().map(|entry| entry.unwrap().path());
        let found = files.find(|path| path.to_string_lossy().ends_with(suffix));
        found.unwrap_or_else(|| panic!("there is no file {suffix}")).canonicalize().unwrap()
    };
    let (socket, lock) = (of_hub(".sock"), of_hub(".lock"));
    let is_refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
    let refused = || UnixStream::connect(&socket).is_err_and(is_refused);
    wait_until(refused);
    std::fs::write(&log, "").unwrap();

    let mut editors: Vec<_> = (0..4).map(|_| Proxy::spawn(command())).collect();
    let held = Flock::lock(File::open(&lock).unwrap(), FlockArg::LockExclusive).unwrap();
    for editor in &mut editors {
        editor.write(&initialize("0", "2025-11-25"));
    }
    wait_until(|| editors.iter().all(|editor| has_opened(editor.child.id(), &lock)));
    assert!(refused(), "none starts it without the lock");
    drop(held);
    let pids: Vec<_> = editors
        .iter_mut()
        .map(|editor| {
            assert!(editor.line().contains(r#""result""#));
            pid(editor)
        })
        .collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.matches("started the process that serves all proxies").count(), 1, "{log}");
}

#[test]
fn if_the_shared_process_is_killed_calls_in_flight_fail_and_the_next_ones_are_answered() {
    let place = Place::new("killed");
    let (mut one, mut two) = (place.editor(), place.editor());
    let server = pid(&mut one);
    assert_eq!(pid(&mut two), server);
    one.write(&request("\"waiting\"", "wait", "{}"));
    // Once it is answered, the call before it has arrived.
    assert_eq!(pid(&mut one), server);
    kill(parent(server));
    let failed = loop {
        let line = one.line();
        if line.contains("\"waiting\"") {
            break line;
        }
    };
    assert!(failed.contains("\"error\""), "{failed}");
    let mut servers = Vec::new();
    for editor in [&mut one, &mut two] {
        // A call fails if it is sent before the loss is noticed.
        let _ = call_until(editor, Result::is_ok);
        servers.push(pid(editor));
    }
    assert_eq!(servers[0], servers[1]);
    assert_ne!(servers[0], server);
    wait_until(|| !runs(server));
}

#[test]
fn a_program_that_was_replaced_is_started_again_by_the_editors_that_run() {
    let place = Place::new("replaced");
    let versions = place.folder.join("versions");
    std::fs::create_dir(&versions).unwrap();
    // As a package manager does it: a new file in the place of the old one, or a link that leads to another file.
    for by_link in [false, true] {
        let install = |version: &str| {
            let file = versions.join(if by_link { version } else { "mcp-proxy-file" });
            let new = versions.join("new");
            std::fs::copy(env!("CARGO_BIN_EXE_mcp-proxy"), &new).unwrap();
            std::fs::rename(&new, &file).unwrap();
            if !by_link {
                return (file.clone(), file);
            }
            let link = versions.join("mcp-proxy");
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(&file, &link).unwrap();
            (link, file)
        };
        let (called, first) = install("1.0");
        let mut command = place.command(&["--request-timeout", if by_link { "301" } else { "302" }]);
        let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let folder = command.get_current_dir().unwrap().to_owned();
        let environment: Vec<_> =
            command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
        command = Command::new(&called);
        command.args(arguments).current_dir(folder);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut editor = opened(command);
        let server = pid(&mut editor);
        if by_link {
            std::fs::remove_file(&first).unwrap();
        }
        let (_, second) = install("2.0");
        kill(parent(server));
        let _ = call_until(&mut editor, Result::is_ok);
        let again = pid(&mut editor);
        assert_ne!(again, server);
        #[cfg(target_os = "linux")]
        assert_eq!(std::fs::read_link(format!("/proc/{}/exe", parent(again))).unwrap(), second, "the new version");
        // Without any version, the error says what is missing and what to do.
        std::fs::remove_file(&second).unwrap();
        kill(parent(again));
        let is_gone = |error: &String| error.contains("does not exist any more");
        let error = call_until(&mut editor, |outcome| outcome.as_ref().is_err_and(is_gone)).unwrap_err();
        assert!(error.contains(first.to_str().unwrap()) && error.contains("restart the editor"), "{error}");
    }
}

#[test]
fn in_a_folder_with_a_long_path_the_socket_is_elsewhere() {
    let mut place = Place::new("long");
    place.runtime = place.runtime.join("x".repeat(100));
    std::fs::create_dir(&place.runtime).unwrap();
    let (mut one, mut two) = (place.editor(), place.editor());
    assert_eq!(pid(&mut one), pid(&mut two));
    place.runtime.pop();
}

#[test]
fn another_environment_folder_or_option_has_another_process_and_another_terminal_the_same() {
    let place = Place::new("other");
    let mut first = place.editor();
    let server = pid(&mut first);
    let another = |change: &dyn Fn(&mut Command), options: &[&str]| {
        let mut command = place.command(options);
        change(&mut command);
        pid(&mut opened(command))
    };
    assert_eq!(
        another(
            &|command| {
                command.env("TERM_SESSION_ID", "7");
            },
            &[]
        ),
        server
    );
    for (name, found) in [
        (
            "a key",
            another(
                &|command| {
                    command.env("API_KEY", "some-key");
                },
                &[],
            ),
        ),
        (
            "a folder",
            another(
                &|command| {
                    command.current_dir("/");
                },
                &[],
            ),
        ),
        ("an option", another(&|_| {}, &["--request-timeout", "7"])),
    ] {
        assert_ne!(found, server, "{name}");
    }
    let named = |value| {
        another(
            &|command| {
                command.env("API_KEY", "k").env("OTHER", value);
            },
            &["--shared-env", "API_KEY"],
        )
    };
    assert_eq!(named("1"), named("2"));
    assert_eq!(pid(&mut first), server);
}

#[test]
fn a_folder_that_others_can_enter_is_refused() {
    let place = Place::new("open");
    let sockets = place.runtime.join("mcp-proxy");
    std::fs::create_dir(&sockets).unwrap();
    std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut editor = Proxy::spawn(place.command(&[]));
    let (status, _) = editor.wait();
    assert_eq!(status.code(), Some(2));
    let errors = editor.errors().join("\n");
    assert!(errors.contains("must be a folder that only you can enter"), "{errors}");
}

#[test]
fn a_command_that_cannot_be_started_is_an_error_for_the_editor() {
    let place = Place::new("dead");
    let mut command = command(&["--shared", "--shared-grace", "1", "--", "/no/such/server"]);
    command.env("XDG_RUNTIME_DIR", &place.runtime);
    let mut editor = Proxy::spawn(command);
    editor.open().unwrap_err();
    let error = editor.open().unwrap_err();
    assert!(error.contains("the server could not be started: its command was not found"), "{error}");
}

/// A proxy before a gateway on a Unix socket.
#[test]
fn a_url_can_name_a_unix_socket_and_a_path() {
    let place = Place::new("url");
    let socket = place.runtime.join("s");
    let listen = format!("unix:{}", socket.display());
    let named = format!("one=sh '{}'", script(&place.folder));
    let gateway = Proxy::spawn(command(&["serve", "--listen", &listen, "--name", &named]));
    wait_until(|| socket.exists());
    let mut editor = opened(command(&[&format!("{listen}:/one/mcp")]));
    assert!(runs(pid(&mut editor)));
    let mut lost = Proxy::spawn(command(&[&listen]));
    assert!(lost.open().unwrap_err().contains("404"));
    drop(gateway);
    let checked = tests::deadline::output_of(&mut command(&[
        "--check",
        &format!("unix:{}", place.runtime.join("none").display()),
    ]));
    let text = String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
    assert!(text.contains("is the server running?"), "{text}");
}
