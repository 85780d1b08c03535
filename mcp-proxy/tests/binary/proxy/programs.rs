//! Tests with a server in a child process that is a program and no shell script, on every system.

use std::path::Path;
use std::process::Command;

use mcp_proto::{Json, ProtocolVersion};
use mcp_testkit::bad_servers::BAD_SERVERS;
use mcp_testkit::http_exchange::modern;
use mcp_testkit::messages::{INITIALIZED, initialize, initialize_result, request, result};
use tests::tools;

use super::eras::over_stdio;
use crate::editor::{Proxy, command};

/// A proxy to a program that does these steps.
pub(crate) fn scripted(options: &[&str], steps: &[&str]) -> Command {
    let mut proxy = command(options);
    proxy.arg("--").arg(tests::examples::example("scripted_behind_proxy").get_program()).args(steps);
    proxy
}

/// The answer to `initialize`.
pub(crate) fn opened() -> String {
    result("1", &initialize_result("2025-11-25"))
}

#[test]
fn a_conversation_is_recorded_and_ends_quietly() {
    let record = Path::new(env!("CARGO_TARGET_TMPDIR")).join("child.jsonl");
    let mut proxy = Proxy::spawn(over_stdio(&["--record", record.to_str().unwrap()], &[], ProtocolVersion::ALL));
    proxy.write(&initialize("0", "2025-06-18"));
    assert!(proxy.line().starts_with(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18""#));
    proxy.write(INITIALIZED);
    proxy.write(&request("\"x\"", "tools/call", r#"{"name":"echo","arguments":{"f":1.0,"b":1,"a":2}}"#));
    let answer = proxy.line();
    assert!(answer.contains(r#""id":"x","#) && answer.contains(r#"{\"f\":1.0,\"b\":1,\"a\":2}"#), "{answer}");
    proxy.end_input();
    assert!(proxy.wait().0.success());
    assert_eq!(proxy.errors(), [] as [&str; 0]);
    assert_eq!(std::fs::read_to_string(record).unwrap().lines().count(), 5);
}

#[test]
fn bad_lines_of_a_server_reach_the_client_as_outcomes_and_the_next_call_succeeds() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad-lines-proxy");
    std::fs::create_dir_all(&folder).unwrap();
    for (number, case) in BAD_SERVERS.iter().enumerate() {
        let file = folder.join(number.to_string());
        std::fs::write(&file, case.bytes()).unwrap();
        let (opened, last) = (opened(), result("3", "{}"));
        let steps = ["read", "say", &opened, "at", "\"id\":2,", "print", file.to_str().unwrap()];
        let mut proxy =
            Proxy::spawn(scripted(&[], &[&steps[..], &["at", "\"id\":3,", "say", &last, "drain"]].concat()));
        proxy.initialize();
        case.judge(proxy.call("tools/call"));
        assert_eq!(proxy.call("tools/list"), Ok(Json::empty_object()), "{}", case.name);
    }
}

#[test]
fn er06_a_server_that_ends_when_it_is_probed_is_started_anew() {
    let versions = [ProtocolVersion::V2025_06_18];
    let mut proxy = Proxy::spawn(over_stdio(&["--log-level", "info"], &["--ends-when-probed"], &versions));
    proxy.write(&modern("1", "tools/list", ""));
    let answer = proxy.line();
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":1,"result":"#) && answer.contains("greet"), "{answer}");
    #[cfg(target_os = "linux")]
    {
        // One thread writes to the client and one to the current server; that of the first server has ended, or soon
        // will.
        let count = || {
            let threads = std::fs::read_dir(format!("/proc/{}/task", proxy.child.id())).unwrap();
            let names = threads.filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")).ok());
            names.filter(|name| name.trim() == "mcp-writer").count()
        };
        let soon = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            count() == 2
        });
        assert!(soon, "{} threads write", count());
    }
    proxy.end_input();
    assert!(proxy.wait().0.success());
    let errors = proxy.errors().join("\n");
    assert!(errors.contains("it is restarted") && errors.contains("messages are converted"), "{errors}");
}

#[test]
fn px3_ten_megabytes_arrive_whole() {
    let mut proxy = Proxy::spawn(over_stdio(&[], &[], ProtocolVersion::ALL));
    proxy.write(&initialize("0", "2025-11-25"));
    proxy.line();
    proxy.write(&request("1", "tools/call", r#"{"name":"big"}"#));
    assert!(proxy.line().len() > tools::BIG);
}

#[test]
fn a_server_that_does_one_thing_at_a_time_holds_nothing_up() {
    let mut proxy = Proxy::spawn(over_stdio(&[], &[], ProtocolVersion::ALL));
    proxy.write(&initialize("0", "2025-11-25"));
    proxy.line();
    proxy.write(INITIALIZED);
    // Both pipes of the server are full most of the time, and the bytes in flight exceed the limit of the queues many
    // times.
    let call =
        request("1", "tools/call", &format!(r#"{{"name":"echo","arguments":{{"x":"{}"}}}}"#, "x".repeat(200_000)));
    let mut stdin = proxy.stdin.take().unwrap();
    let writing = std::thread::spawn(move || {
        use std::io::Write;
        (0..300).for_each(|_| writeln!(stdin, "{call}").unwrap());
        stdin
    });
    for _ in 0..300 {
        let line = proxy.line();
        assert!(line.len() > 200_000, "{line}");
    }
    drop(writing.join().unwrap());
    assert!(proxy.wait().0.success());
}
