//! Processes that fail, and the end of the gateway.

use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::request;

use super::serving::{SERVER, Serving, before, folder, script};

#[test]
fn a_server_that_ends_before_it_is_usable_is_an_error_for_its_client_and_is_not_started_again_at_once() {
    let no_program = {
        let mut gateway = super::serving::gateway(&["--health"]);
        gateway.args(["--", "no-such-server"]);
        gateway
    };
    for (case, command, reason) in [
        ("it cannot be started", no_program, "could not be started: its command was not found"),
        ("it exits at once", before(&["--health"], "exit 4"), "exited with code 4 before it answered initialize"),
        (
            "it exits at initialize",
            before(&["--health"], "read -r line; exit 4"),
            "exited with code 4 before it answered initialize",
        ),
        (
            "it answers nonsense",
            before(&["--health"], "read -r line; echo nonsense; exit 0"),
            "exited with code 0 before it answered initialize",
        ),
    ] {
        let serving = Serving::spawn_after_warnings(command);
        let refused = serving.raw.answer(&TestRequest::post(initialize("2025-11-25")));
        assert!(refused.text().contains(r#""error":{"code":-32603"#), "{case}: {}", refused.text());
        assert!(refused.text().contains(&format!("the server {reason}")), "{case}: {}", refused.text());
        assert!(!refused.headers.contains_key("mcp-session-id"), "{case}");
        serving.wait_for_load((0, 0));
        let again = serving.raw.answer(&TestRequest::post(initialize("2025-11-25")));
        let again = again.text();
        assert!(again.contains("the next attempt may be made in") && again.contains(reason), "{case}: {again}");
        // A client need not be the person who runs the gateway.
        assert!(!again.contains("no-such-server") && !again.contains("os error"), "{again}");
        let (code, errors) = serving.end("TERM");
        assert_eq!(code, Some(0), "{case}");
        assert!(errors.contains(reason), "{case}: {errors}");
    }
}

#[test]
fn a_revision_that_a_client_has_requested_and_its_server_does_not_have_is_no_failure_of_the_server() {
    // Like a server that answers with whatever was requested.
    let script = SERVER.replacen("*'\"initialize\"'*)", "*1999-01-01*) result='{\"protocolVersion\":\"1999-01-01\",\"capabilities\":{},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}' ;;\n        *'\"initialize\"'*)", 1);
    let serving = Serving::before(&[], &script);
    for _ in 0..3 {
        let refused = serving.raw.answer(&TestRequest::post(initialize("1999-01-01")));
        assert!(refused.text().contains("none of the revisions"), "{}", refused.text());
        assert!(serving.session().pid() > 0);
    }
}

#[test]
fn a_server_that_takes_longer_than_the_start_timeout_is_ended() {
    let script = format!("sleep 2; {SERVER}");
    for (seconds, starts) in [("0.5", false), ("20", true)] {
        let serving = Serving::before(&["--start-timeout", seconds], &script);
        let answer = serving.raw.answer(&TestRequest::post(initialize("2025-11-25")));
        assert_eq!(answer.text().contains("\"result\""), starts, "{seconds}: {}", answer.text());
        assert!(starts || answer.text().contains("did not answer within"), "{}", answer.text());
        serving.end("TERM");
    }
}

#[test]
fn why_one_of_several_servers_cannot_be_used_is_logged_with_its_name() {
    let mut command = super::serving::gateway(&["--health", "--name", "broken=sh -c 'read -r line; exit 4'"]);
    command.args(["--name", "fine=sh -c 'sleep 1000'"]);
    let serving = Serving::spawn(command);
    let _ = serving.raw.open(&TestRequest::post(initialize("2025-11-25")));
    serving.wait_for_error("the server broken (`sh`) has failed; it is started again in 1 s");
    serving.end("TERM");
}

#[test]
fn a_server_for_which_one_client_has_waited_in_vain_is_not_waited_for_by_the_next() {
    let mut command = super::serving::gateway(&["--name", "slow=sleep 1000", "--name"]);
    command.arg(format!("fine=sh {}", script(&folder("late"))));
    let serving = Serving::spawn(command);
    let late = "has not answered initialize in time";
    serving.session();
    serving.wait_for_error(late);
    serving.session();
    let (_, errors) = serving.end("TERM");
    assert!(!errors.contains(late), "{errors}");
}

#[test]
fn a_server_that_writes_many_lines_of_log_to_its_stdout_is_served_and_the_log_stays_short() {
    let log = r#"case "$line" in *'"initialize"'*) ;; *) yes 'INFO request served' | head -n 5000 ;; esac; id=${line#"#;
    let script = SERVER.replace("id=${line#", log);
    for share in ["session", "all"] {
        let serving = Serving::before(&["--share", share], &script);
        let session = serving.session();
        let pid = session.pid();
        for _ in 0..3 {
            assert_eq!(session.pid(), pid, "{share}");
        }
        let (code, errors) = serving.end("TERM");
        assert_eq!(code, Some(0), "{share}: {errors}");
        assert!(errors.contains("1000 lines within a minute were not messages"), "{share}: {errors}");
        assert!(errors.lines().count() < 30, "{share}: {errors}");
    }
}

#[test]
fn a_program_that_writes_only_other_lines_is_refused_with_the_reason() {
    let serving = Serving::before(&[], "yes 'INFO starting'");
    let refused = serving.raw.answer(&TestRequest::post(initialize("2025-11-25")));
    let reason = "wrote more than 1000 lines within a minute that are not MCP messages, and no message";
    assert!(refused.text().contains(reason), "{}", refused.text());
    let (_, errors) = serving.end("TERM");
    assert!(errors.contains(reason), "{errors}");
}

#[test]
fn st18_a_signal_leaves_no_process_however_servers_behave() {
    for (case, script) in [
        ("it ends when its stdin is closed", SERVER.to_owned()),
        ("it ignores everything", format!("trap '' TERM INT; {SERVER}\nwhile :; do sleep 0.1; done")),
        ("it leaves a process behind", format!("(trap '' TERM; exec sleep 1000 <&- >&-) & {SERVER}")),
        ("it does not answer initialize", "echo waits >&2; sleep 1000".to_owned()),
    ] {
        for signal in ["INT", "TERM"] {
            let serving = Serving::before(&["--drain-timeout", "0.2"], &script);
            let asked = if script.contains(SERVER) {
                serving.session().post(&request("8", "wait", "{}"))
            } else {
                TestRequest::post(initialize("2025-11-25"))
            };
            let opening = serving.raw.open(&asked);
            serving.wait_for_error("waits");
            let (code, errors) = serving.end(signal);
            assert_eq!(code, Some(0), "{case}, {signal}: {errors}");
            drop(opening);
        }
    }
}

#[test]
fn a_request_in_progress_is_answered_after_the_first_signal() {
    let script = SERVER.replace("echo waits >&2; continue", "echo waits >&2; sleep 1; result='{\"late\":true}'");
    let serving = Serving::before(&["--drain-timeout", "20"], &script);
    let session = serving.session();
    let mut call = serving.raw.open(&session.post(&request("8", "wait", "{}")));
    serving.wait_for_error("waits");
    serving.proxy.signal("TERM");
    let answer = call.until(|sent| sent.is_over);
    assert!(answer.text().contains(r#""late":true"#), "{}", answer.text());
    let (code, _) = serving.end("CONT");
    assert_eq!(code, Some(0));
}

#[test]
fn a_second_signal_ends_the_gateway_at_once_and_leaves_no_process() {
    let script = format!("trap '' TERM; {SERVER}\nwhile :; do sleep 0.1; done");
    let serving = Serving::before(&["--drain-timeout", "100"], &script);
    let session = serving.session();
    let call = serving.raw.open(&session.post(&request("8", "wait", "{}")));
    serving.wait_for_error("waits");
    let mut proxy = serving.proxy;
    // Two signals count as one if the second arrives before the first is handled.
    while proxy.child.try_wait().unwrap().is_none() {
        proxy.signal("INT");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(proxy.wait().0.code(), Some(130));
    proxy.errors();
    drop(call);
}
