//! A gateway whose configuration changes while a request arrives.

use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use http::request::Parts;
use mcp_blocking::{Backend, Gateway};
use mcp_intermediary::gateway::{Config, Sharing};
use mcp_intermediary::relay::Rule;
use mcp_proto::auth::Challenge;
use mcp_proto::server::Principal;
use mcp_proto::spec::Primitive;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::{initialize_result, request, result};
use mcp_testkit::raw_client::{RawClient, text};
use mcp_testkit::waiting::wait_until;

/// Answers each call with an empty result.
const SERVER: &str = r#"read -r first; echo "$0"; read -r confirmed
    while read -r call; do
        case "$call" in *'"id":'*) id=${call#*'"id":'}; echo '{"jsonrpc":"2.0","id":'"${id%%[,\}]*}"',"result":{}}' ;; esac
    done"#;

/// What one configuration gives: these users, and all tools but one.
fn configured(denied: &str) -> (Config, Backend) {
    let mut config = Config::default();
    config.sharing = Sharing::Shared;
    config.relay.filter.add(Rule::deny(Primitive::Tool, denied).unwrap());
    let opened = result("1", &initialize_result("2025-11-25"));
    let backend = Backend::command(move |_| {
        let mut command = Command::new("sh");
        command.args(["-c", SERVER, &opened]);
        command
    });
    (config, backend)
}

/// Accepts the requests of these users, whom a header names, and counts them.
fn users(
    known: &'static [&'static str],
    checked: &Arc<AtomicUsize>,
) -> impl Fn(&Parts) -> Result<Principal, Challenge> + Send + Sync + 'static {
    let checked = Arc::clone(checked);
    move |head| {
        let user = head.headers.get("user").and_then(|user| user.to_str().ok()).unwrap_or_default();
        let found = known.iter().find(|known| **known == user).map(|user| Principal::new(user));
        checked.fetch_add(1, Ordering::AcqRel);
        found.ok_or_else(Challenge::bearer)
    }
}

/// Opens a session; `None` if the user is not known.
fn session(raw: &RawClient, user: &str) -> Option<String> {
    let opened = raw.answer(&TestRequest::post(initialize("2025-11-25")).with("user", user));
    Some(opened.headers.get("mcp-session-id")?.to_str().unwrap().to_owned())
}

fn call(session: &str, user: &str, tool: &str) -> TestRequest {
    let call = request("5", "tools/call", &format!(r#"{{"name":"{tool}"}}"#));
    TestRequest::post(call).in_session(session).with("user", user)
}

#[test]
fn a_request_that_arrives_during_a_change_gets_nothing_that_neither_configuration_gives() {
    tests::deadline::set();
    let checked = Arc::new(AtomicUsize::new(0));
    let (config, backend) = configured("later");
    let gateway = Gateway::new().server(config, backend).unwrap().authenticate(users(&["ada", "bob"], &checked));
    let (reloader, stopper) = (gateway.reloader(), gateway.stopper());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let raw = RawClient::new(&listener.local_addr().unwrap().to_string());
    let serving = thread::spawn(move || gateway.serve(listener));
    let [of_ada, of_bob] = ["ada", "bob"].map(|user| session(&raw, user).unwrap());
    let may = |tool: &str| raw.answer(&call(&of_ada, "ada", tool)).text().contains(r#""result":{}"#);
    assert!(may("earlier") && !may("later"));

    // bob is known to the earlier configuration alone, and his call has arrived in part.
    let bytes = text(&call(&of_bob, "bob", "later"));
    let (most, rest) = bytes.split_at(bytes.len() - 10);
    let (before, mut of_bob) = (checked.load(Ordering::Acquire), raw.connect());
    of_bob.write(most);
    wait_until(|| checked.load(Ordering::Acquire) > before);
    let (config, backend) = configured("earlier");
    let next = Gateway::new().kept_server(config, backend).unwrap().authenticate(users(&["ada", "carol"], &checked));
    let reloading = thread::spawn(move || reloader.reload(next));
    wait_until(|| session(&raw, "carol").is_some());
    assert!(!may("earlier") && !may("later"), "what both allow is served");
    assert!(!reloading.is_finished());
    of_bob.write(rest);
    let answered = of_bob.until(|answer| answer.is_over).text();
    assert!(answered.contains("unknown tool"), "{answered}");

    reloading.join().unwrap().unwrap();
    assert!(!may("earlier") && may("later"));
    assert!(session(&raw, "bob").is_none());
    stopper.stop();
    serving.join().unwrap().unwrap();
}
