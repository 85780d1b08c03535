//! Servers in processes of their own: how they are started, and that nothing is left of them.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mcp_proto::{Failed, Json, ProtocolVersion, client};
use mcp_tokio::{Client, Error};
use tests::bad_servers::BAD_SERVERS;
use tests::world::{initialize_result, result};
use tokio::process::Command;
use tokio::time::timeout;

/// A server that answers `initialize` and then does what the script says.
fn server(script: &str) -> Command {
    let answer = result("1", &initialize_result("2025-11-25"));
    shell(&format!("read -r request; echo '{answer}'; {script}"))
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// The end of a stream that is open as long as one of the processes lives.
struct Life(UnixStream);

impl Life {
    fn of(command: &mut Command) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        command.stderr(Stdio::from(OwnedFd::from(theirs)));
        Self(ours)
    }

    /// Waits until the last process has ended; returns what they wrote.
    async fn ends(mut self) -> String {
        self.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let reading = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            self.0.read_to_string(&mut text).expect("a process lives");
            text
        });
        reading.await.unwrap()
    }
}

#[tokio::test]
async fn what_is_no_server_is_an_error_in_words() {
    let outcome = Client::builder().spawn(Command::new("/no/such/program")).await;
    assert!(matches!(outcome, Err(Error::Start(_))), "{outcome:?}");
    for (script, text) in [
        ("exit 3", "the server ended (exit status: 3) before it answered; what it wrote to its stderr may say why"),
        (
            "kill -9 $$",
            "the server ended (signal: 9 (SIGKILL)) before it answered; what it wrote to its stderr may say why",
        ),
        (
            "read -r request; exit 0",
            "the server ended (exit status: 0) before it answered; what it wrote to its stderr may say why",
        ),
    ] {
        let outcome = Client::builder().spawn(shell(script)).await;
        assert_eq!(outcome.unwrap_err().to_string(), text);
    }
}

#[tokio::test]
async fn what_answers_nothing_is_ended() {
    let mut command = shell("sleep 1000");
    let life = Life::of(&mut command);
    let hurried = Client::builder().configure(|config| config.initialize_timeout = Duration::from_millis(100));
    let outcome = timeout(Duration::from_secs(10), hurried.spawn(command)).await.unwrap();
    let Err(Error::Failed { reason: Failed::TimedOut { .. }, .. }) = outcome else { panic!("{outcome:?}") };
    life.ends().await;
}

#[tokio::test]
async fn st17_st18_a_server_is_ended_with_all_that_it_has_started() {
    let cases = [
        ("it ends when its stdin is closed", "cat >/dev/null; echo by itself >&2", "by itself"),
        ("it ends when it is asked to", "trap 'echo asked >&2; exit' TERM; while :; do sleep 0.1; done", "asked\n"),
        ("it does neither", "trap '' TERM; while :; do sleep 0.1; done", ""),
        ("it leaves somebody behind", "(trap '' TERM; exec sleep 1000 <&- >&-) & cat >/dev/null", ""),
        ("others do its work", "sh -c 'trap \"\" TERM; sleep 1000; true'; true", ""),
    ];
    let ending = cases.map(|(what, script, written)| {
        tokio::spawn(async move {
            let mut command = server(script);
            let life = Life::of(&mut command);
            let client = Client::builder().spawn(command).await.expect(what);
            timeout(Duration::from_secs(15), client.close()).await.expect(what);
            // The shell tells of what was ended under it.
            let text = life.ends().await;
            assert!(text.contains(written), "{what}: {text}");
        })
    });
    for ending in ending {
        ending.await.unwrap();
    }
}

#[tokio::test]
async fn a_server_whose_client_is_dropped_is_ended_too() {
    let mut command = server("cat >/dev/null; echo by itself >&2");
    let life = Life::of(&mut command);
    drop(Client::builder().spawn(command).await.unwrap());
    assert_eq!(life.ends().await, "by itself\n");
}

#[test]
fn a_server_does_not_outlive_the_runtime() {
    let mut command = server("trap '' TERM; sleep 1000; true");
    let life = Life::of(&mut command);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(Client::builder().spawn(command)).unwrap();
    drop(runtime);
    let other = tokio::runtime::Runtime::new().unwrap();
    assert_eq!(other.block_on(life.ends()), "");
    drop(client);
}

#[tokio::test]
async fn bad_lines_of_a_child_are_outcomes_at_once_and_the_next_call_succeeds() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad-lines-tokio");
    for case in BAD_SERVERS {
        let legacy = |config: &mut client::Config| config.versions = vec![ProtocolVersion::V2025_11_25];
        let client = Client::builder().configure(legacy).spawn(shell(&case.script(&folder))).await.unwrap();
        let outcome = timeout(Duration::from_secs(10), client.request("tools/call", None)).await.expect(case.name);
        case.judge(outcome);
        assert_eq!(client.request("tools/list", None).await.unwrap(), Json::empty_object(), "{}", case.name);
    }
}
