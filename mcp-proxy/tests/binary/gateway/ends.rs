//! How the process of a server ends, whatever becomes of its streams: each call has its outcome, which states how the process
//! has ended, nothing of its group is left, and the next client is served by another process.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_proto::Json;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::{INITIALIZED, request};
use mcp_testkit::waiting::wait_until;
use tests::ending_servers::{ENDINGS, Ending, run_each};

use super::serving::{Asks, Serving, folder, gateway, script};
use super::shared::{Place, opened};
use crate::editor::{Proxy, command};

#[test]
fn a_proxy_notices_the_end_of_its_server() {
    run_each("bridge", |ending, in_flight| {
        let mut command = command(&["--", "sh"]);
        command.args(ending.arguments());
        let mut proxy = Proxy::spawn(command);
        proxy.open().unwrap();
        proxy.write(INITIALIZED);
        if in_flight {
            proxy.write(&request("\"waiting\"", "wait", "{}"));
            while proxy.error() != "waits" {}
        }
        proxy.write(&request("\"last\"", "end", "{}"));
        let last = loop {
            let line = proxy.line();
            if line.contains("\"last\"") {
                break line;
            }
        };
        // The proxy may have ended already. A server that has closed its stdin is noticed when it is written to.
        let _ = std::io::Write::write_all(
            proxy.stdin.as_mut().unwrap(),
            format!("{}\n", request("\"next\"", "pid", "{}")).as_bytes(),
        );
        assert_eq!(proxy.wait().0.code(), Some(1));
        let rest: Vec<_> = proxy.lines.iter().collect();
        let failed = |id: &str| rest.iter().any(|line| line.contains(id) && line.contains(ending.text));
        assert!(!in_flight || failed("\"waiting\""), "{rest:?}");
        ending.leaves_nothing(Ending::pids_in(&last));
        // Each process that is left would hold this stderr open.
        let errors = proxy.errors().join("\n");
        assert!(errors.contains(&format!("the server `sh` {}", ending.text)), "{errors}");
    });
}

/// The gateway answers each call, and starts another process for the next session.
fn serves_on(share: &str, ending: Ending, in_flight: bool) {
    let mut command = gateway(&["--health", "--share", share, "--token-env", "ada=TOKEN", "--", "sh"]);
    command.args(ending.arguments()).env("TOKEN", "token-of-ada");
    let serving = Serving::spawn(command);
    let open = || serving.open(Asks::with("token-of-ada")).unwrap();
    let session = open();
    let other = (share != "session").then(open);
    let waiting = in_flight.then(|| {
        let waiting = serving.raw.open(&session.post(&request("\"waiting\"", "wait", "{}")));
        serving.wait_for_error("waits");
        waiting
    });
    let pids = Ending::pids_in(&session.call("end"));
    // It has an outcome: the process may have ended, or may be about to.
    let next = other.as_ref().unwrap_or(&session).send(&request("8", "pid", "{}"));
    let is_answered = ending.is_wrapped() && next.text().contains("\"result\"");
    assert!(next.code() == 404 || next.text().contains(ending.text) || is_answered, "{}", next.text());
    if let Some(mut waiting) = waiting {
        let failed = waiting.until(|answer| answer.is_over).text();
        assert!(failed.contains("\"error\"") && failed.contains(ending.text), "{failed}");
    }
    serving.wait_for_load((0, 0));
    serving.wait_for_error(&format!("of the server `sh` {}; see its stderr", ending.text));
    for lost in [Some(&session), other.as_ref()].into_iter().flatten() {
        assert_eq!(lost.send(&request("9", "pid", "{}")).code(), 404, "the client opens another session");
    }
    let again = Ending::pids_in(&open().call("pid"));
    assert!(!pids.contains(&again[0]), "{pids:?}, {again:?}");
    ending.leaves_nothing(pids);
    assert_eq!(serving.end("TERM").0, Some(0));
}

#[test]
fn a_gateway_notices_the_end_of_the_process_of_a_session() {
    run_each("serve --share session", |ending, in_flight| serves_on("session", ending, in_flight));
}

#[test]
fn a_gateway_notices_the_end_of_the_process_of_a_user() {
    run_each("serve --share principal", |ending, in_flight| serves_on("principal", ending, in_flight));
}

#[test]
fn a_gateway_notices_the_end_of_the_process_of_all() {
    run_each("serve --share all", |ending, in_flight| serves_on("all", ending, in_flight));
}

#[test]
fn editors_that_share_a_server_have_another_one_after_its_end() {
    run_each("--shared", |ending, in_flight| {
        let position = ENDINGS.iter().position(|other| other.name == ending.name).unwrap();
        let place = Place::new(&format!("end-{position}-{in_flight}"));
        let editor = || opened(place.before(&[], &ending.arguments()));
        let (mut one, mut two) = (editor(), editor());
        if in_flight {
            one.write(&request("\"waiting\"", "wait", "{}"));
            // Once it is answered, the call before it has arrived.
            one.write(&request("\"before\"", "pid", "{}"));
            while !one.line().contains("\"before\"") {}
        }
        let pids = Ending::pids(&two.call("end").unwrap());
        // A server that has closed its stdin is noticed when it is written to.
        let next = two.call("pid");
        if in_flight {
            let failed = std::iter::from_fn(|| Some(one.line())).find(|line| line.contains("\"waiting\"")).unwrap();
            assert!(failed.contains(ending.text), "{failed}");
        }
        // It is in flight when the proxy learns from its stream that the session has ended with the process.
        let is_outcome = |error: &String| error.contains(ending.text) || error.contains("\"session_lost\"");
        assert!(next.is_ok() || next.as_ref().is_err_and(is_outcome), "{next:?}");
        let mut servers = Vec::new();
        for editor in [&mut one, &mut two] {
            let answered = loop {
                // A call fails if it is sent before the loss is noticed.
                match editor.call("pid").map(|answer| Ending::pids(&answer)) {
                    Ok(answer) if !pids.contains(&answer[0]) => break answer,
                    Ok(_) | Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            };
            servers.push(answered);
        }
        assert_eq!(servers[0], servers[1], "they share the new one");
        ending.leaves_nothing(pids);
    });
}

/// A server in a file of servers.
#[derive(serde::Serialize)]
struct Entry {
    command: &'static str,
    args: Vec<String>,
}

#[test]
fn one_of_several_servers_that_ends_is_noticed_and_started_again() {
    run_each("aggregate", |ending, in_flight| {
        let server = |arguments: Vec<String>| Entry { command: "sh", args: arguments };
        let position = ENDINGS.iter().position(|other| other.name == ending.name).unwrap();
        let folder = folder(&format!("ends-{position}-{in_flight}"));
        let (ends, goes_on) =
            (ending.arguments_in(&folder.join("ends")), ENDINGS[0].arguments_in(&folder.join("goes-on")));
        let servers = BTreeMap::from([("ending", server(ends)), ("other", server(goes_on))]);
        let file = folder.join("servers.json");
        let config = Json::from_serialize(&BTreeMap::from([("mcpServers", servers)])).unwrap();
        std::fs::write(&file, config.as_bytes()).unwrap();
        let serving = Serving::spawn(gateway(&["--health", "--config", file.to_str().unwrap()]));
        let session = serving.session();
        let tool = |name: &str| request("5", "tools/call", &format!(r#"{{"name":"{name}","arguments":{{}}}}"#));
        let other = session.send(&tool("other__pid")).text();
        let waiting = in_flight.then(|| {
            let waiting = serving.raw.open(&session.post(&tool("ending__wait").replace(":5,", ":6,")));
            serving.wait_for_error("waits");
            waiting
        });
        let pids = Ending::pids_in(&session.send(&tool("ending__end")).text());
        let next = session.send(&tool("ending__pid")).text();
        assert!(next.contains(ending.text) || ending.is_wrapped(), "{next}");
        if let Some(mut waiting) = waiting {
            let failed = waiting.until(|answer| answer.is_over).text();
            assert!(failed.contains("\"error\"") && failed.contains(ending.text), "{failed}");
        }
        // It is started again after a pause.
        wait_until(|| {
            let answer = session.send(&tool("ending__pid")).text();
            answer.contains("\"result\"") && !pids.contains(&Ending::pids_in(&answer)[0])
        });
        assert_eq!(session.send(&tool("other__pid")).text(), other, "the other server goes on");
        ending.leaves_nothing(pids);
        assert_eq!(serving.end("TERM").0, Some(0));
    });
}

#[test]
fn a_command_that_cannot_be_found_is_reported_at_the_start_and_stops_no_other_server() {
    let mut command = gateway(&["--health", "--name", "broken=/no/such/server --secret", "--name"]);
    command.arg(format!("fine=sh {}", script(&folder("program-check"))));
    let serving = Serving::spawn_after_warnings(command);
    let [warning] = &serving.warnings[..] else { panic!("{:?}", serving.warnings) };
    let expected = "the server broken (`/no/such/server`) cannot be started now: its command was not found";
    assert!(warning.contains(expected) && !warning.contains("secret"), "{warning}");
    assert!(serving.open(Asks::at("/fine/mcp")).is_ok());
    let refused = serving.raw.answer(&Asks::at("/broken/mcp").request(TestRequest::post(initialize("2025-11-25"))));
    let refused = refused.text();
    assert!(refused.contains("the server could not be started: its command was not found"), "{refused}");
    assert!(refused.contains("not_started") && !refused.contains("/no/such"), "{refused}");
}
