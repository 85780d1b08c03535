//! `mcp-proxy --shared` on every system: on Unix sockets or at a private port.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mcp_testkit::messages::{INITIALIZED, request};
use mcp_testkit::waiting::{LONG, wait_until};

use crate::editor::{Proxy, command};

/// A folder for the files of a hub, and for its log.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mcp-shared-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    fn command(&self) -> Command {
        let log = self.log();
        let options = ["--shared", "--shared-grace", "1", "--log-level", "info", "--log-file", log.to_str().unwrap()];
        let mut command = command(&options);
        command.arg("--").arg(tests::examples::example("process_over_stdio").get_program());
        command.current_dir(&self.0).env("XDG_RUNTIME_DIR", &self.0).env("LOCALAPPDATA", &self.0);
        command
    }

    /// An editor that has opened its session.
    fn editor(&self) -> Proxy {
        let mut editor = Proxy::spawn(self.command());
        editor.open().unwrap();
        editor.write(INITIALIZED);
        editor
    }

    /// The file by which proxies find the hub, once it was started.
    fn file(&self) -> Option<PathBuf> {
        let files = std::fs::read_dir(self.0.join("mcp-proxy")).unwrap().map(|entry| entry.unwrap().path());
        let is_of_hub =
            |path: &PathBuf| ["sock", "port"].map(Path::new).contains(&Path::new(path.extension().unwrap()));
        files.into_iter().find(is_of_hub)
    }

    /// The numbers of the hubs that were started.
    fn hubs(&self) -> Vec<u32> {
        let log = std::fs::read_to_string(self.log()).unwrap();
        let started = log.lines().filter(|line| line.contains("started the process that serves all proxies"));
        started.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    }
}

/// A hub that ends late does not matter.
impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The number of the server's process that answers.
fn pid(editor: &mut Proxy) -> Result<u32, String> {
    let answer = editor.call("pid")?;
    Ok(answer.member("pid").unwrap().unwrap().to_text().parse().unwrap())
}

/// Calls until there is an answer: a call fails if it is sent before a loss is noticed.
fn pid_again(editor: &mut Proxy) -> u32 {
    let until = Instant::now() + LONG;
    loop {
        match pid(editor) {
            Ok(pid) => return pid,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn kill(pid: u32) {
    let pid = pid.to_string();
    let (program, arguments) =
        if cfg!(unix) { ("kill", ["-9", &pid].to_vec()) } else { ("taskkill", ["/f", "/pid", &pid].to_vec()) };
    assert!(tests::deadline::output_of(Command::new(program).args(arguments)).status.success());
}

/// Whether a hub listens. The file of a Unix socket stays.
#[cfg(unix)]
fn listens(file: Option<&PathBuf>) -> bool {
    file.is_some_and(|file| std::os::unix::net::UnixStream::connect(file).is_ok())
}

#[cfg(not(unix))]
const fn listens(file: Option<&PathBuf>) -> bool {
    file.is_some()
}

#[test]
fn editors_share_a_process_and_each_receives_its_own_answers_only() {
    let place = Place::new("own");
    let mut editors: Vec<_> = (0..2).map(|_| Proxy::spawn(place.command())).collect();
    let mut pids: Vec<_> = editors
        .iter_mut()
        .map(|editor| {
            editor.open().unwrap();
            editor.write(INITIALIZED);
            pid(editor).unwrap()
        })
        .collect();
    pids.dedup();
    assert_eq!((pids.len(), place.hubs().len()), (1, 1));
    // All have the same ids and tokens.
    for (mark, editor) in editors.iter_mut().enumerate() {
        for id in 0..20 {
            let params = format!(r#"{{"mark":"of editor {mark}","_meta":{{"progressToken":{id}}}}}"#);
            editor.write(&request(&id.to_string(), "x", &params));
        }
    }
    for (mark, editor) in editors.iter().enumerate() {
        let (mut answers, mut steps) = (0, 0);
        while answers < 20 {
            let line = editor.line();
            if line.contains("notifications/progress") {
                steps += 1;
            } else {
                assert!(line.contains(&format!("of editor {mark}")), "{mark}: {line}");
                answers += 1;
            }
        }
        assert_eq!(steps, 20, "the progress of its own requests");
        assert!(editor.lines.try_recv().is_err());
    }
}

#[test]
fn the_process_ends_a_while_after_the_last_editor_and_the_next_one_starts_another() {
    let place = Place::new("grace");
    let (mut first, mut second) = (place.editor(), place.editor());
    let server = pid(&mut first).unwrap();
    first.end_input();
    assert!(first.wait().0.success());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(pid(&mut second), Ok(server), "one is connected");
    second.end_input();
    assert!(second.wait().0.success());
    // To look is to connect, which keeps the process: not more often than it may end.
    wait_until(|| {
        std::thread::sleep(Duration::from_secs(3));
        !listens(place.file().as_ref())
    });
    assert_ne!(pid(&mut place.editor()), Ok(server));
    assert_eq!(place.hubs().len(), 2);
}

/// Otherwise, an editor that waits for the end of the proxy's output would wait for that of all editors.
#[test]
fn the_streams_of_an_editor_end_with_its_proxy_although_the_process_it_has_started_remains() {
    let place = Place::new("streams");
    let (mut first, mut second) = (place.editor(), place.editor());
    let server = pid(&mut first).unwrap();
    first.end_input();
    assert!(first.wait().0.success());
    assert_eq!(first.errors(), [] as [&str; 0]);
    while first.lines.recv_timeout(LONG).is_ok_and(|line| line.contains("jsonrpc")) {}
    assert_eq!(first.lines.recv_timeout(LONG), Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    assert_eq!(pid(&mut second), Ok(server), "it runs");
}

#[test]
fn a_process_that_was_killed_is_started_again_for_all_editors() {
    let place = Place::new("killed");
    let (mut first, mut second) = (place.editor(), place.editor());
    let server = pid(&mut first).unwrap();
    kill(place.hubs()[0]);
    assert!(place.file().is_some(), "it has removed nothing");
    let again = pid_again(&mut first);
    assert_ne!(again, server);
    assert_eq!(pid_again(&mut second), again);
    assert_eq!(place.hubs().len(), 2);
}

#[cfg(not(unix))]
#[test]
fn with_another_secret_neither_side_of_a_private_port_serves_the_other() {
    use std::io::{Read, Write};

    let place = Place::new("secret");
    let mut first = place.editor();
    let server = pid(&mut first).unwrap();
    let file = place.file().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let (start, secret) = text.trim_end().rsplit_once(' ').unwrap();
    std::fs::write(&file, format!("{start} {}\n", "0".repeat(secret.len()))).unwrap();
    let error = Proxy::spawn(place.command()).open().unwrap_err();
    assert!(error.contains("does not prove that it has this file"), "{error}");
    assert_eq!(place.hubs().len(), 1, "the process runs");
    let port: u16 = start.rsplit_once(' ').unwrap().1.parse().unwrap();
    let mut other = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    other.write_all(&[b'x'; 100]).unwrap();
    let mut received = Vec::new();
    let _ = other.read_to_end(&mut received);
    assert!(received.len() <= 64 && !received.starts_with(b"HTTP"));
    assert_eq!(pid(&mut first), Ok(server));
    std::fs::write(&file, text).unwrap();
    assert_eq!(pid(&mut place.editor()), Ok(server));
}

#[cfg(not(unix))]
#[test]
fn what_a_system_without_unix_sockets_cannot_listen_on_is_refused_with_an_address_instead() {
    for place in ["unix:C:\\s", "stdin"] {
        let output = tests::deadline::output_of(&mut command(&["serve", "--listen", place, "--", "x"]));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("use an address such as 127.0.0.1:8080"), "{errors}");
    }
}
