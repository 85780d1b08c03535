//! Tests with a server in a child process, a shell script, which the proxy starts.

use std::process::Command;

use mcp_proto::ProtocolVersion;
use mcp_testkit::messages::{initialize, initialize_result, request, result};

use super::eras::over_stdio;
use crate::editor::{Proxy, command};

/// A proxy to a shell that runs the script.
fn before(options: &[&str], script: &str) -> Command {
    let mut proxy = command(options);
    proxy.args(["--", "sh", "-c", script]);
    proxy
}

/// A script that answers `initialize` and then runs another script.
fn initialized(script: &str) -> String {
    let answer = result("1", &initialize_result("2025-11-25"));
    format!("read -r request; echo '{answer}'; {script}")
}

/// A proxy and a server whose session is initialized.
fn connected(script: &str) -> Proxy {
    let mut proxy = Proxy::spawn(before(&[], &initialized(script)));
    proxy.initialize();
    proxy
}

#[test]
fn a_program_that_cannot_be_started_is_a_readable_error() {
    for (program, text) in [
        ("no-such-server", "cannot start `no-such-server`: No such file or directory (os error 2); is it installed"),
        ("/dev/null", "cannot start `/dev/null`: Permission denied (os error 13); is it a program"),
    ] {
        for check in [&["--"][..], &["--check", "--"]] {
            let output = tests::deadline::output_of(command(check).arg(program));
            let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(1), "{printed}");
            assert!(printed.contains(text), "{printed}");
        }
    }
}

#[test]
fn px3_st17_st18_nothing_is_left_of_a_server_and_what_it_has_started() {
    let servers = [
        ("it ends when its stdin is closed", "cat >/dev/null; echo by itself >&2", "by itself"),
        ("it ends when it is asked to", "trap 'echo asked >&2; exit' TERM; while :; do sleep 0.1; done", "asked"),
        ("it does neither", "trap '' TERM; while :; do sleep 0.1; done", "it is killed"),
        ("it leaves a process behind", "(trap '' TERM; exec sleep 1000 <&- >&-) & cat >/dev/null", ""),
        ("others do its work", "sh -c 'trap \"\" TERM; sleep 1000; true'; true", ""),
        ("it cannot stop talking", "yes '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}'", ""),
    ];
    // Whether the client closes stdin, and which signal is sent.
    let endings = [(true, None), (false, Some("TERM")), (false, Some("INT")), (true, Some("TERM"))];
    std::thread::scope(|scope| {
        for (server, script, text) in servers {
            for (closes, signal) in endings {
                scope.spawn(move || {
                    let mut proxy = connected(script);
                    if closes {
                        proxy.end_input();
                    }
                    if let Some(signal) = signal {
                        proxy.signal(signal);
                    }
                    let (status, _) = proxy.wait();
                    // Each remaining process holds this stderr open, so this also waits until all of them have ended.
                    let errors = proxy.errors().join("\n");
                    assert!(status.success() && errors.contains(text), "{server}, {signal:?}: {status} {errors}");
                });
            }
        }
    });
}

#[test]
fn a_program_that_writes_only_other_lines_is_refused_with_the_reason() {
    let mut proxy = Proxy::spawn(before(&["--protocol", "legacy"], "read -r line; yes 'INFO starting'"));
    let reason = "wrote more than 1000 lines within a minute that are not MCP messages, and no message";
    let refused = proxy.open().expect_err("it is no server");
    assert!(refused.contains(reason), "{refused}");
    proxy.end_input();
    proxy.wait();
    let errors = proxy.errors();
    assert!(errors.iter().any(|line| line.contains(reason)), "{errors:?}");
    assert!(errors.len() < 30, "{errors:?}");
}

#[test]
fn a_second_signal_leaves_nothing_behind_either() {
    let mut proxy = connected("trap 'echo asked >&2' TERM; echo deaf >&2; while :; do sleep 0.1; done");
    assert_eq!(proxy.error(), "deaf");
    // Two signals count as one if the second arrives before the first is handled.
    for _ in 0..20 {
        proxy.signal("INT");
        std::thread::sleep(std::time::Duration::from_millis(50));
        if proxy.child.try_wait().expect("a child").is_some() {
            break;
        }
    }
    assert_eq!(proxy.wait().0.code(), Some(130));
    // The end is immediate: the server is not asked to end first, as it would be after one signal.
    assert!(!proxy.errors().contains(&"asked".to_owned()));
}

#[test]
fn px3_a_signal_during_a_check_leaves_nothing_behind() {
    let deaf = "trap '' TERM INT; echo deaf >&2; sh -c 'sleep 1000; true'; true";
    let answering = initialized(&format!("read -r initialized; {deaf}"));
    for (options, script) in [(&["--check"][..], deaf), (&["--check", "--protocol", "legacy"], &answering)] {
        for signal in ["INT", "TERM"] {
            let mut proxy = Proxy::spawn(before(options, script));
            assert_eq!(proxy.error(), "deaf");
            proxy.signal(signal);
            assert_eq!(proxy.wait().0.code(), Some(130), "{signal}");
            // Each remaining process holds this stderr open, so this also waits until all of them have ended.
            assert!(!proxy.errors().contains(&"deaf".to_owned()), "the server was started again");
        }
    }
}

/// After a signal, the server has less than the usual two seconds to end, because the sender of the signal has a
/// timeout.
#[test]
fn after_a_signal_a_server_is_asked_to_end_sooner() {
    let mut proxy = connected("trap 'echo asked >&2; exit' TERM; cat >/dev/null; sleep 1.7; echo by itself >&2");
    proxy.signal("TERM");
    assert!(proxy.wait().0.success());
    // The shell may also print that its child was terminated.
    let errors = proxy.errors();
    assert!(errors.contains(&"asked".to_owned()) && !errors.contains(&"by itself".to_owned()), "{errors:?}");
}

#[test]
fn px3_a_server_that_ends_by_itself_is_reported_and_ends_the_proxy() {
    let mut proxy = Proxy::spawn(before(&[], "read -r request; exit 3"));
    proxy.write(&initialize("7", "2025-11-25"));
    let answer = proxy.line();
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":"#), "{answer}");
    assert_eq!(proxy.wait().0.code(), Some(1));
    let errors = proxy.errors().join("\n");
    assert!(errors.contains("the server `sh` exited with code 3; see its stderr for the reason"), "{errors}");

    let mut proxy = connected("read -r initialized; read -r call; echo out of memory >&2; kill -9 $$");
    proxy.write(&request("8", "tools/call", "{}"));
    let answer = proxy.line();
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":8,"error":"#), "{answer}");
    assert_eq!(proxy.wait().0.code(), Some(1));
    let errors = proxy.errors().join("\n");
    assert!(errors.contains("out of memory") && errors.contains("was ended by signal 9 (SIGKILL)"), "{errors}");
}

#[test]
fn px3_a_server_that_reads_no_more_and_goes_on_is_ended() {
    let mut proxy = connected("exec <&-; echo deaf >&2; sleep 1000; true");
    assert_eq!(proxy.error(), "deaf");
    proxy.write(&request("8", "tools/call", "{}"));
    assert!(proxy.line().contains(r#""id":8,"error":"#));
    assert_eq!(proxy.wait().0.code(), Some(1));
    let errors = proxy.errors().join("\n");
    assert!(errors.contains("the server `sh` closed its input without exiting"), "{errors}");
}

#[test]
fn check_describes_a_server_over_stdio() {
    let check = |mut command: Command| {
        let output = tests::deadline::output_of(&mut command);
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let found = |options: &[&str], arguments: &[&str], versions: &[ProtocolVersion], version: &str, era: &str| {
        let (code, text) = check(over_stdio(&[&["--check"], options].concat(), arguments, versions));
        assert_eq!(code, Some(0), "{text}");
        for part in ["transport:    stdio", &format!("revision:     {version}"), &format!("era:          {era}")] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
        assert!(text.contains("name:         tools 1") && text.contains("tools:        5"), "{text}");
    };
    let all = ProtocolVersion::ALL;
    let legacy = [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18];
    found(&[], &[], all, "2026-07-28", "modern: it answered server/discover");
    found(&["--protocol", "legacy"], &[], all, "2025-11-25", "legacy: set by the configuration");
    found(&["--protocol", "2025-03-26"], &[], all, "2025-03-26", "legacy: set by the configuration");
    found(&[], &[], &legacy, "2025-06-18", "legacy: it answered server/discover with error");
    found(&[], &["--ends-when-probed"], &legacy, "2025-06-18", "legacy: its process exited after server/discover");
    for (script, text) in [
        ("exit 3", "failed: the server exited with code 3 before it answered"),
        ("sleep 1000", "failed: the server did not answer within 500ms"),
    ] {
        let (code, printed) = check(before(&["--check", "--request-timeout", "0.5"], script));
        assert_eq!(code, Some(1), "{printed}");
        assert!(printed.contains(text), "{printed}");
    }
}

#[test]
fn px3_fr10_a_line_that_is_no_message_is_reported_and_skipped() {
    let script = initialized(
        "echo 'Listening on stdio'; echo '{'; read -r i; read -r c; echo '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}'; cat >/dev/null",
    );
    let mut proxy = Proxy::spawn(before(&[], &format!("echo; echo 'Hello!'; {script}")));
    proxy.initialize();
    proxy.write(&request("\"a\"", "tools/list", "{}"));
    assert_eq!(proxy.line(), result("\"a\"", "{}"));
    proxy.end_input();
    assert!(proxy.wait().0.success());
    assert_eq!(proxy.errors().iter().filter(|line| line.contains("from the server `sh`: ")).count(), 3);
}

#[test]
#[cfg(target_os = "linux")]
fn px7_fr14_a_server_that_does_not_read_makes_the_proxy_stop_reading() {
    let mut proxy = connected("sleep 1000; true");
    let mut stdin = proxy.stdin.take().unwrap();
    let flood = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"x":"{}"}}}}"#, "x".repeat(10_000));
    std::thread::spawn(move || {
        use std::io::Write;
        while writeln!(stdin, "{flood}").is_ok() {}
    });
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(proxy.peak_memory() < 64 * 1024, "{} KiB", proxy.peak_memory());
    proxy.signal("TERM");
    assert!(proxy.wait().0.success());
}

/// A directory can be opened, but not read.
#[test]
fn an_input_that_cannot_be_read_has_ended() {
    let mut proxy = before(&[], "cat >/dev/null");
    let output = tests::deadline::output_of(proxy.stdin(std::fs::File::open("/").unwrap()));
    assert!(output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("reading the input failed: "), "{stderr}");
}
