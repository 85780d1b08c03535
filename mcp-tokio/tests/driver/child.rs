//! Servers that run as child processes: how they are started, and that no process is left over.

#![cfg(unix)]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mcp_proto::{Failed, Json, ProtocolVersion, StartFailure, client};
use mcp_testkit::bad_servers::BAD_SERVERS;
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::messages::{initialize_result, result};
use mcp_tokio::{Builder, Client, Error};
use tests::ending_servers::{ENDINGS, Ending, QUEUE, UNREAD};
use tests::unread_pipes::Life;
use tokio::process::Command;
use tokio::time::timeout;

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    tests::deadline::set();
    Client::builder().versions(legacy_versions())
}

/// About ten times the limits that `Client::close` documents: the machine that runs the test may be slow.
const BOUND: Duration = Duration::from_secs(60);

/// A server that answers `initialize` and then runs the script.
fn server(script: &str) -> Command {
    let answer = result("1", &initialize_result("2025-11-25"));
    shell(&format!("read -r request; echo '{answer}'; {script}"))
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Watches the processes that this command starts.
fn watch(command: &mut Command) -> Life {
    Life::of(command.as_std_mut())
}

/// Waits until the last process has ended; returns what they wrote.
async fn ended(life: Life) -> String {
    tokio::task::spawn_blocking(|| life.ends()).await.unwrap()
}

#[tokio::test]
async fn a_program_that_is_no_server_is_a_readable_error() {
    let outcome = legacy_client().child(Command::new("/no/such/program")).connect().await;
    assert!(matches!(outcome, Err(Error::Start(_))), "{outcome:?}");
    for (script, text) in [
        ("exit 3", "the server exited with code 3 before it answered initialize; see its stderr for the reason"),
        (
            "kill -9 $$",
            "the server was ended by signal 9 (SIGKILL) before it answered initialize; see its stderr for the reason",
        ),
        (
            "read -r request; exit 0",
            "the server exited with code 0 before it answered initialize; see its stderr for the reason",
        ),
    ] {
        let outcome = legacy_client().child(shell(script)).connect().await;
        assert_eq!(outcome.unwrap_err().to_string(), text);
    }
}

#[tokio::test]
async fn a_server_that_answers_nothing_is_ended() {
    let mut command = shell("sleep 1000");
    let life = watch(&mut command);
    let hurried = legacy_client().configure(|config| config.initialize_timeout = Duration::from_millis(100));
    let outcome = timeout(BOUND, hurried.child(command).connect()).await.unwrap();
    let Err(Error::Failed { reason: Failed::TimedOut { .. }, .. }) = outcome else { panic!("{outcome:?}") };
    ended(life).await;
}

#[tokio::test]
async fn st17_st18_a_server_is_ended_with_all_that_it_has_started() {
    const NEITHER: &str = "it does neither";
    let marker = Path::new(env!("CARGO_TARGET_TMPDIR")).join("process-id");
    let cases = [
        ("it ends when its stdin is closed", "cat >/dev/null; echo by itself >&2", "by itself"),
        ("it ends when it is asked to", "trap 'echo asked >&2; exit' TERM; while :; do sleep 0.1; done", "asked\n"),
        (NEITHER, "trap '' TERM; echo $$ >\"$0\"; exec sleep 1000", ""),
        ("it leaves a process behind", "(trap '' TERM; exec sleep 1000 <&- >&-) & cat >/dev/null", ""),
        (
            "it ends when its stdout is closed",
            "trap '' PIPE; trap 'echo asked >&2; exit' TERM; while echo x 2>/dev/null; do :; done; echo no reader >&2",
            "no reader",
        ),
        ("others do its work", "sh -c 'trap \"\" TERM; sleep 1000; true'; true", ""),
    ];
    let ending = cases.map(|(what, script, written)| {
        let marker = marker.clone();
        tokio::spawn(async move {
            let mut command = server(script);
            command.arg(&marker);
            let life = watch(&mut command);
            let client = legacy_client().child(command).connect().await.expect(what);
            timeout(BOUND, client.close()).await.expect(what);
            // The processes that it has started are killed, and the client does not wait for them.
            if what == NEITHER {
                let process = std::fs::read_to_string(&marker).unwrap();
                let is_there = shell("kill -0 $0 2>&-").arg(process.trim()).status().await;
                assert!(!is_there.unwrap().success(), "{what}: the process is there");
            }
            // The shell reports the processes that were killed.
            let text = ended(life).await;
            assert!(text.contains(written), "{what}: {text}");
        })
    });
    for ending in ending {
        ending.await.unwrap();
    }
}

#[tokio::test]
async fn closing_waits_until_the_process_has_ended() {
    let marker = Path::new(env!("CARGO_TARGET_TMPDIR")).join("has-ended");
    let _ = std::fs::remove_file(&marker);
    let mut command = server(&format!("cat >/dev/null; sleep 0.3; : >'{}'", marker.display()));
    let life = watch(&mut command);
    let client = legacy_client().child(command).connect().await.unwrap();
    timeout(BOUND, client.close()).await.unwrap();
    assert!(marker.exists());
    ended(life).await;
    std::fs::remove_file(marker).unwrap();
}

/// A server that closes its stdout when its era is detected, but does not exit.
#[tokio::test]
async fn er06_a_server_that_is_replaced_ends_in_good_order() {
    let marker = Path::new(env!("CARGO_TARGET_TMPDIR")).join("was-asked");
    let _ = std::fs::remove_file(&marker);
    let answer = result("2", &initialize_result("2025-11-25"));
    let mut command = shell(
        "read -r line; [ -e \"$0\" ] && { echo \"$1\"; cat >/dev/null; exit; }; : >\"$0\"; exec >&-; \
         cat >/dev/null; sleep 0.3; echo by itself >&2",
    );
    command.arg(&marker).arg(answer);
    let life = watch(&mut command);
    let client =
        Client::builder().versions(ProtocolVersion::ALL.iter().copied()).child(command).connect().await.unwrap();
    std::fs::remove_file(marker).unwrap();
    timeout(BOUND, client.close()).await.unwrap();
    assert_eq!(ended(life).await, "by itself\n");
}

#[tokio::test]
async fn er06_a_server_that_cannot_be_started_again_is_an_error_at_once() {
    use std::os::unix::fs::PermissionsExt;

    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("starts-once");
    std::fs::write(&script, "#!/bin/sh\nrm \"$0\"\nread -r line\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let connecting =
        Client::builder().versions(ProtocolVersion::ALL.iter().copied()).child(Command::new(script)).connect();
    let outcome = timeout(BOUND, connecting).await.unwrap();
    let not_started = Failed::NotStarted(StartFailure::NotFound);
    assert!(matches!(&outcome, Err(Error::Failed { reason, .. }) if *reason == not_started), "{outcome:?}");
}

#[tokio::test]
async fn a_server_whose_client_is_dropped_is_ended_too() {
    let mut command = server("cat >/dev/null; echo by itself >&2");
    let life = watch(&mut command);
    drop(legacy_client().child(command).connect().await.unwrap());
    assert_eq!(ended(life).await, "by itself\n");
}

#[test]
fn a_server_does_not_outlive_the_runtime() {
    let mut command = server("trap '' TERM; sleep 1000; true");
    let life = watch(&mut command);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(legacy_client().child(command).connect()).unwrap();
    drop(runtime);
    let other = tokio::runtime::Runtime::new().unwrap();
    assert_eq!(other.block_on(ended(life)), "");
    drop(client);
}

/// Servers that exit leave processes behind which hold their stdin and stdout, so that the client sees no end of
/// either.
#[test]
fn a_runtime_that_is_dropped_without_close_leaves_no_grandchildren() {
    for script in [
        "exec 3<&0; (trap '' TERM; exec sleep 1000 <&3) & exit 0",
        "exec 3<&0; (trap '' TERM; sh -c 'sleep 1000; true' <&3; true) & sleep 0.2; kill -9 $$",
        "trap '' TERM; (sleep 1000; true) & sleep 1000; true",
    ] {
        let mut command = server(script);
        let mut life = watch(&mut command);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let client = runtime.block_on(async {
            let client = legacy_client().child(command).connect().await.unwrap();
            // The servers that exit have exited by then, and what they have left may have been ended.
            tokio::time::sleep(Duration::from_millis(400)).await;
            client
        });
        assert!(life.goes_on() || script.contains("exec 3"), "{script}");
        drop(runtime);
        life.ends();
        drop(client);
    }
}

/// The runtime is dropped while a client is being closed.
#[test]
fn a_runtime_that_is_dropped_while_a_client_closes_leaves_no_grandchildren() {
    let mut command = server("trap '' TERM; (trap '' TERM; sleep 1000; true) & sleep 1000; true");
    let mut life = watch(&mut command);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(legacy_client().child(command).connect()).unwrap();
    runtime.block_on(async { timeout(Duration::from_millis(100), client.close()).await.unwrap_err() });
    assert!(life.goes_on());
    drop(runtime);
    life.ends();
}

#[tokio::test]
async fn bad_lines_of_a_child_are_outcomes_at_once_and_the_next_call_succeeds() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad-lines-tokio");
    for case in BAD_SERVERS {
        let legacy = |config: &mut client::Config| config.versions = vec![ProtocolVersion::V2025_11_25];
        let client = legacy_client().configure(legacy).child(shell(&case.script(&folder))).connect().await.unwrap();
        // The outcome must come at once: a later one would be a timeout.
        case.judge(client.request("tools/call", None).await);
        assert_eq!(client.request("tools/list", None).await.unwrap(), Json::empty_object(), "{}", case.name);
    }
}

/// Whether a process runs.
fn runs(pid: u32) -> bool {
    signal(pid, "-0")
}

fn signal(pid: u32, signal: &str) -> bool {
    let mut kill = std::process::Command::new("kill");
    kill.args([signal, &pid.to_string()]).stderr(Stdio::null()).status().unwrap().success()
}

/// Waits until none of these processes runs.
async fn have_ended(pids: &[u32]) {
    while pids.iter().copied().any(runs) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Each call has its outcome, which states how the process has ended, and nothing of its group is left.
async fn notices_the_end(ending: Ending, in_flight: bool) {
    let mut command = Command::new("sh");
    command.args(ending.arguments()).stderr(Stdio::null());
    let client = legacy_client().child(command).connect().await.unwrap();
    let waiting = if in_flight { Some(client.call(client::Call::new("wait")).await.unwrap()) } else { None };
    let (pids, stranger) = ending.split(Ending::pids(&client.request("end", None).await.unwrap()));
    // It has an outcome. A server that has closed its stdin is noticed when it is written to.
    let mut next = client.request("pid", None).await;
    assert!(next.is_err() || ending.is_wrapped());
    while next.is_ok() {
        next = client.request("pid", None).await;
    }
    let next = next.unwrap_err();
    assert!(matches!(next, Error::Usage(_)) || next.to_string().contains(ending.text), "{next}");
    if let Some(waiting) = waiting {
        let failed = waiting.wait().await.unwrap_err();
        assert!(matches!(failed, Error::Failed { reason: Failed::ProcessEnded { opening: None, .. }, .. }), "{failed}");
        assert!(failed.to_string().contains(&format!("the server {}", ending.text)), "{failed}");
    }
    client.close().await;
    have_ended(&pids).await;
    assert!(stranger.is_none_or(|stranger| signal(stranger, "-9")));
}

#[tokio::test]
async fn a_client_notices_the_end_of_its_server() {
    let cases = ENDINGS.into_iter().flat_map(|ending| [(ending, true), (ending, false)]);
    let running = cases.map(|(ending, in_flight)| {
        let name = format!("{}, a call in flight: {in_flight}", ending.name);
        (name, tokio::spawn(timeout(BOUND, notices_the_end(ending, in_flight))))
    });
    for (name, running) in running.collect::<Vec<_>>() {
        running.await.expect(&name).expect(&name);
    }
}

#[tokio::test]
async fn what_a_server_has_written_last_reaches_a_client_that_had_stopped_reading() {
    let mut command = Command::new("sh");
    command.args(UNREAD.arguments()).stderr(Stdio::null());
    let builder = legacy_client().configure(|config| config.limits.queue_bytes = QUEUE);
    let client = builder.child(command).connect().await.unwrap();
    let pids = Ending::pids(&timeout(BOUND, client.request("end", None)).await.unwrap().unwrap());
    let next = timeout(BOUND, client.request("pid", None)).await.unwrap().unwrap_err();
    assert!(matches!(next, Error::Usage(_)) || next.to_string().contains(UNREAD.text), "{next}");
    timeout(BOUND, have_ended(&pids)).await.unwrap();
}
