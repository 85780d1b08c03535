//! Tests with clients of either era and servers of either era, over stdio and over HTTP.

use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mcp_blocking::{Incoming, Server, ServerStopper};
use mcp_proto::server::HttpConfig;
use mcp_proto::{Era, ErrorObject, Json, ProtocolVersion};
use mcp_testkit::bad_answers::RESULT;
use mcp_testkit::http_exchange::modern;
use mcp_testkit::messages::{INITIALIZED, request, result};
use mcp_testkit::modern_answers::{MODERN_ANSWERS, NEXT, ROOTS};
use mcp_testkit::waiting::LONG;
use tests::tools::{self, Served};

use crate::editor::{Proxy, command};

/// Servers of one era, or of both.
const SERVERS: [(&str, &[Era]); 3] =
    [("legacy", &[Era::Legacy]), ("modern", &[Era::Modern]), ("dual", &[Era::Legacy, Era::Modern])];

/// The log contains this if the eras differ.
const BRIDGES: &str = "messages are converted";
/// What a server reports of a call that it does not answer.
const WAITS: &str = "a call waits";
const CANCELLED: &str = "a call was cancelled";

fn versions(eras: &[Era]) -> Vec<ProtocolVersion> {
    ProtocolVersion::ALL.iter().copied().filter(|version| eras.contains(&version.rules().era)).collect()
}

/// The server of `tests/programs` over stdio, behind the proxy.
pub(crate) fn over_stdio(options: &[&str], arguments: &[&str], versions: &[ProtocolVersion]) -> Command {
    let mut proxy = command(options);
    proxy.arg("--").arg(tests::examples::example("tools_behind_proxy").get_program()).args(arguments);
    proxy.args(versions.iter().map(|version| version.as_str()));
    proxy
}

/// The same server over HTTP.
struct OverHttp {
    url: String,
    reports: Receiver<&'static str>,
    stopper: ServerStopper,
    thread: Option<JoinHandle<()>>,
}

impl OverHttp {
    fn start(versions: &[ProtocolVersion]) -> Self {
        let (sender, reports) = channel();
        let serve = move |incoming: &Incoming| -> Result<Json, ErrorObject> {
            match tools::serve(incoming.method(), incoming.params()) {
                Served::Answered(answer) => answer,
                Served::Counted(result) => {
                    (1..=tools::STEPS).for_each(|step| incoming.progress(tools::step(step)));
                    Ok(result)
                }
                Served::Waits => {
                    sender.send(WAITS).unwrap();
                    while !incoming.is_cancelled() {
                        thread::sleep(Duration::from_millis(5));
                    }
                    sender.send(CANCELLED).unwrap();
                    Ok(Json::empty_object())
                }
            }
        };
        let service = Server::new(tools::config(versions), serve).http(HttpConfig::new()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (url, stopper) = (format!("http://{}/mcp", listener.local_addr().unwrap()), service.stopper());
        let thread = thread::spawn(move || {
            service.serve(listener).unwrap();
        });
        Self { url, reports, stopper, thread: Some(thread) }
    }
}

impl Drop for OverHttp {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A call of the tool `count` by a client of either era, with its progress and result.
fn counts(proxy: &mut Proxy, call: &str) {
    proxy.write(call);
    for step in 1..=tools::STEPS {
        let progress = proxy.line();
        assert!(
            progress.contains("notifications/progress") && progress.contains(r#""progressToken":"p""#),
            "{progress}"
        );
        assert!(progress.contains(&format!(r#""progress":{step}"#)), "{progress}");
    }
    let answer = proxy.line();
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":3,"result":"#) && answer.contains("counted"), "{answer}");
}

fn legacy_client(proxy: &mut Proxy, wait_for: impl Fn(&Proxy, &str)) {
    let params = r#"{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"editor","version":"1"}}"#;
    proxy.write(&request("1", "initialize", params));
    let initialized = proxy.line();
    assert!(initialized.starts_with(r#"{"jsonrpc":"2.0","id":1,"result":"#), "{initialized}");
    assert!(initialized.contains(r#""protocolVersion":"2025-11-25""#) && initialized.contains(r#""name":"tools""#));
    proxy.write(INITIALIZED);
    proxy.write(&request("2", "tools/list", "{}"));
    assert!(proxy.line().contains(r#""name":"greet""#));
    counts(proxy, &request("3", "tools/call", r#"{"name":"count","_meta":{"progressToken":"p"}}"#));
    proxy.write(&request("4", "tools/call", r#"{"name":"greet"}"#));
    let asked = proxy.line();
    assert!(asked.contains(r#""method":"elicitation/create""#) && asked.contains("Your name?"), "{asked}");
    let id = asked.split(r#""id":"#).nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    proxy.write(&result(id, r#"{"action":"accept","content":{"name":"Ada"}}"#));
    let answer = proxy.line();
    assert!(answer.contains(r#""id":4,"#) && answer.contains("Hello, Ada!"), "{answer}");
    proxy.write(&request("5", "tools/call", r#"{"name":"wait"}"#));
    wait_for(proxy, WAITS);
    proxy.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#);
    wait_for(proxy, CANCELLED);
    proxy.write(&request("6", "ping", "{}"));
    assert_eq!(proxy.line(), result("6", "{}"), "what was cancelled is not answered");
}

fn modern_client(proxy: &mut Proxy, wait_for: impl Fn(&Proxy, &str)) {
    let modern = |id: &str, method: &str, members: &str| {
        modern(id, method, members).replace(r#"clientCapabilities":{}"#, r#"clientCapabilities":{"elicitation":{}}"#)
    };
    proxy.write(&modern("1", "server/discover", ""));
    let discovered = proxy.line();
    assert!(discovered.starts_with(r#"{"jsonrpc":"2.0","id":1,"result":"#), "{discovered}");
    assert!(discovered.contains("2026-07-28") && discovered.contains(r#""name":"tools""#), "{discovered}");
    proxy.write(&modern("2", "tools/list", ""));
    assert!(proxy.line().contains(r#""name":"greet""#));
    let count = modern("3", "tools/call", r#""name":"count","#);
    counts(proxy, &count.replace(r#""_meta":{"#, r#""_meta":{"progressToken":"p","#));
    proxy.write(&modern("4", "tools/call", r#""name":"greet","#));
    let required = proxy.line();
    assert!(required.contains(r#""resultType":"input_required""#) && required.contains("Your name?"), "{required}");
    let after = |text: &str| required.split(text).nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    let (key, state) = (after(r#""inputRequests":{""#), after(r#""requestState":""#));
    let answers = format!(r#""inputResponses":{{"{key}":{{"action":"accept","content":{{"name":"Ada"}}}}}},"#);
    proxy.write(&modern("\"again\"", "tools/call", &format!(r#""name":"greet",{answers}"requestState":"{state}","#)));
    let answer = proxy.line();
    assert!(answer.contains(r#""id":"again","#) && answer.contains("Hello, Ada!"), "{answer}");
    proxy.write(&modern("5", "tools/call", r#""name":"wait","#));
    wait_for(proxy, WAITS);
    proxy.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#);
    wait_for(proxy, CANCELLED);
    proxy.write(&modern("6", "tools/list", ""));
    assert!(proxy.line().contains(r#""id":6,"#), "what was cancelled is not answered");
}

/// A whole dialogue of a client of either era with such a server.
fn converse(client: Era, proxy: &mut Proxy, wait_for: impl Fn(&Proxy, &str)) {
    match client {
        Era::Legacy => legacy_client(proxy, wait_for),
        Era::Modern => modern_client(proxy, wait_for),
    }
    proxy.end_input();
    assert!(proxy.wait().0.success());
}

#[test]
fn clients_of_either_era_use_servers_of_either_era_over_stdio() {
    for client in [Era::Legacy, Era::Modern] {
        for (server, eras) in SERVERS {
            let mut proxy = Proxy::spawn(over_stdio(&["--log-level", "info"], &[], &versions(eras)));
            let bridges = std::cell::Cell::new(false);
            converse(client, &mut proxy, |proxy, text| {
                let lines = std::iter::repeat_with(|| proxy.error()).take_while(|line| line != text);
                bridges.set(bridges.get() | lines.fold(false, |any, line| any | line.contains(BRIDGES)));
            });
            // The proxy's own lines may follow those of the server.
            let bridges = bridges.get() | proxy.errors().iter().any(|line| line.contains(BRIDGES));
            assert_eq!(bridges, !eras.contains(&client), "a {client} client of the {server} server");
        }
    }
}

#[test]
fn clients_of_either_era_use_servers_of_either_era_over_http() {
    for client in [Era::Legacy, Era::Modern] {
        for (name, eras) in SERVERS {
            let server = OverHttp::start(&versions(eras));
            let mut proxy = Proxy::start(&["--log-level", "info", &server.url]);
            converse(client, &mut proxy, |_, text| {
                assert_eq!(server.reports.recv_timeout(LONG).expect(name), text);
            });
            let bridges = proxy.stderr.iter().any(|line| line.contains(BRIDGES));
            assert_eq!(bridges, !eras.contains(&client), "a {client} client of the {name} server");
        }
    }
}

#[test]
fn modern_answers_reach_the_client_as_outcomes_and_the_next_call_succeeds() {
    for case in MODERN_ANSWERS {
        let server = case.server();
        let mut proxy = Proxy::start(&["--protocol", "modern", &server.url()]);
        proxy.answers = vec![("roots/list", ROOTS)];
        match proxy.open() {
            Ok(_) => {
                assert!(case.connects(), "{}", case.name);
                proxy.write(INITIALIZED);
                case.judge_bridged(proxy.call(case.method));
                assert_eq!(proxy.call(NEXT).unwrap().to_text(), RESULT, "{}", case.name);
            }
            Err(error) => case.judge_bridged(Err(error)),
        }
    }
}
