//! How the process of a server ends, whatever becomes of its streams: each call has its outcome, which states how the process
//! has ended, nothing of its group is left, and the next client is served by another process.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp_blocking::{Backend, Client, Error};
use mcp_proto::client::Call;
use mcp_proto::gateway::{Config, Sharing};
use mcp_proto::{Failed, Json};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::{INITIALIZED, request};
use mcp_testkit::waiting::wait_until;
use tests::ending_servers::{ENDINGS, Ending, QUEUE, UNREAD};
use tests::parallel::{Case, case, run_all};

use super::library::InProcess;
use super::serving::{Asks, Serving, folder, gateway, runs, script};
use super::shared::{Place, opened};
use crate::editor::{Proxy, command};

/// Far below the timeout of requests, and many times what is needed: at most the three waits of a few seconds each.
const BOUND: Duration = Duration::from_secs(80);

/// One table runs at a time: each starts many processes.
static TABLE: Mutex<()> = Mutex::new(());

/// Runs one case for each ending, with a call in flight and without.
fn run_each(what: &'static str, run: fn(Ending, bool)) {
    let _one_at_a_time = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    run_all(each(what, run));
}

fn each(what: &'static str, run: fn(Ending, bool)) -> Vec<Case> {
    let all = ENDINGS.into_iter().flat_map(|ending| [(ending, true), (ending, false)]);
    all.map(|(ending, in_flight)| {
        case(format!("{what}: {}, a call in flight: {in_flight}", ending.name), move || {
            let began = Instant::now();
            run(ending, in_flight);
            assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
        })
    })
    .collect()
}

/// Waits until all processes have ended that must, and kills the one that need not.
fn leaves_nothing(ending: Ending, pids: Vec<u32>) {
    let (own, stranger) = ending.split(pids);
    wait_until(|| !own.iter().copied().any(runs));
    if let Some(stranger) = stranger {
        assert!(runs(stranger), "{}", ending.name);
        kill(stranger);
    }
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

/// The result of a call in the body of its answer, which may be a stream.
fn result(answer: &str) -> Json {
    let answer = answer.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(answer);
    let answer = Json::parse(answer.to_owned()).unwrap();
    answer.first_member("result").unwrap_or_else(|| panic!("{}", answer.to_text()))
}

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
        leaves_nothing(ending, Ending::pids(&result(&last)));
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
    let pids = Ending::pids(&result(&session.call("end")));
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
    let again = Ending::pids(&result(&open().call("pid")));
    assert!(!pids.contains(&again[0]), "{pids:?}, {again:?}");
    leaves_nothing(ending, pids);
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
        assert!(next.is_ok() || next.as_ref().is_err_and(|error| error.contains(ending.text)), "{next:?}");
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
        leaves_nothing(ending, pids);
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
        let pids = Ending::pids(&result(&session.send(&tool("ending__end")).text()));
        let next = session.send(&tool("ending__pid")).text();
        assert!(next.contains(ending.text) || ending.is_wrapped(), "{next}");
        if let Some(mut waiting) = waiting {
            let failed = waiting.until(|answer| answer.is_over).text();
            assert!(failed.contains("\"error\"") && failed.contains(ending.text), "{failed}");
        }
        // It is started again after a pause.
        wait_until(|| {
            let answer = session.send(&tool("ending__pid")).text();
            answer.contains("\"result\"") && !pids.contains(&Ending::pids(&result(&answer))[0])
        });
        assert_eq!(session.send(&tool("other__pid")).text(), other, "the other server goes on");
        leaves_nothing(ending, pids);
        assert_eq!(serving.end("TERM").0, Some(0));
    });
}

#[test]
fn a_client_notices_the_end_of_its_server() {
    run_each("client", |ending, in_flight| {
        let mut command = Command::new("sh");
        command.args(ending.arguments()).stderr(std::process::Stdio::null());
        let client = Client::builder().versions(legacy_versions()).child(command).connect().unwrap();
        let waiting = in_flight.then(|| client.call(Call::new("wait")).unwrap());
        let pids = Ending::pids(&client.request("end", None).unwrap());
        // It has an outcome. A server that has closed its stdin is noticed when it is written to.
        let next = client.request("pid", None);
        assert!(next.is_err() || ending.is_wrapped());
        let next = std::iter::from_fn(|| Some(client.request("pid", None))).find_map(Result::err).unwrap();
        // It may be made when the client has just ended.
        let is_late = matches!(next, Error::Usage(_) | Error::Failed { reason: Failed::Closed, .. });
        assert!(is_late || next.to_string().contains(ending.text), "{next}");
        if let Some(waiting) = waiting {
            let failed = waiting.wait().unwrap_err();
            assert!(matches!(failed, Error::Failed { reason: Failed::ProcessEnded { opening: None, .. }, .. }));
            assert!(failed.to_string().contains(&format!("the server {}", ending.text)), "{failed}");
        }
        client.close();
        leaves_nothing(ending, pids);
    });
}

/// The arguments of `sh` for [`UNREAD`].
fn unread() -> Command {
    let mut command = Command::new("sh");
    command.args(UNREAD.arguments()).stderr(std::process::Stdio::null());
    command
}

#[test]
fn what_a_server_has_written_last_reaches_a_client_that_had_stopped_reading() {
    let builder = Client::builder().versions(legacy_versions()).configure(|config| config.limits.queue_bytes = QUEUE);
    let client = builder.child(unread()).connect().unwrap();
    leaves_nothing(UNREAD, Ending::pids(&client.request("end", None).unwrap()));
    let next = client.request("pid", None).unwrap_err();
    assert!(matches!(next, Error::Usage(_)) || next.to_string().contains(UNREAD.text), "{next}");
}

#[test]
fn what_a_server_has_written_last_reaches_the_client_of_a_gateway_that_had_stopped_reading() {
    for sharing in [Sharing::PerSession, Sharing::Shared] {
        let mut config = Config::default();
        config.sharing = sharing;
        config.relay.limits.queue_bytes = QUEUE;
        // The clients do not answer, and the errors for the others are not read either.
        config.relay.limits.requests_in = 1;
        let gateway = InProcess::start(config, Backend::command(|_| unread()));
        let session = gateway.raw.session("2025-11-25");
        let answer = gateway.raw.answer(&TestRequest::post(request("5", "end", "{}")).in_session(&session)).text();
        leaves_nothing(UNREAD, Ending::pids(&result(&answer)));
        wait_until(|| gateway.counts().backends == 0);
        gateway.end();
    }
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
