//! A relay whose client has its answer before its server: while a person signs in, `initialize` is answered in the place of the
//! server, and what the client does meanwhile reaches the server or the relay, each once.

use std::time::Duration;

use mcp_auth::SignInOutcome;
use mcp_intermediary::relay::{Config, Event};
use mcp_proto::auth::Credentials;
use mcp_proto::client::{ClientTransport, Http, HttpConfig};
use mcp_proto::{Era, Instant, Json, Stdio};
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, URL};
use mcp_testkit::http_exchange::META;
use mcp_testkit::messages::{DISCOVERED, INITIALIZED, initialize, request, result};

type Relay = HttpClientHarness<mcp_intermediary::Relay>;

const SIGN_IN: &str = "https://as.example/authorize?state=1";

const ROOTS_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;

/// The lists of a server and the notifications of their changes.
const LISTS: [(&str, &str); 3] = [
    ("tools", "notifications/tools/list_changed"),
    ("prompts", "notifications/prompts/list_changed"),
    ("resources", "notifications/resources/list_changed"),
];

/// A relay whose client has sent `initialize` with these capabilities, and whose server demands authorization.
fn challenged(capabilities: &str) -> Relay {
    let mut harness = HttpClientHarness::relay_with(|config, http| {
        http.managed_authorization = true;
        config.answer_after = Duration::from_secs(1);
    });
    harness.line(&initialize("\"i\"", "2025-11-25").replace(r#"{"roots":{}}"#, capabilities));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(401).header("www-authenticate", "Bearer"));
    assert!(harness.lines().is_empty());
    harness
}

/// The person has signed in, and the server answers `initialize` with this, or with its era alone.
fn signed_in(harness: &mut Relay, era: Era, capabilities: &str) {
    harness.machine.authorize(Credentials::bearer("token", 1).expect("a token"), harness.now);
    let opened = harness.opened();
    assert_eq!(opened.method(), "initialize");
    if era == Era::Legacy {
        let opening = format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"s","version":"1"}}}}"#
        );
        return harness.reply(opened.key, &Reply::json(result(&opened.id(), &opening)));
    }
    let data = r#"{"supported":["2026-07-28"],"requested":"2025-11-25"}"#;
    let error = format!(r#"{{"code":-32022,"message":"no","data":{data}}}"#);
    harness.reply(opened.key, &Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, opened.id())));
    let opened = harness.opened();
    assert_eq!(opened.method(), "server/discover");
    let discovered = Json::parse(DISCOVERED).expect("JSON");
    let discovered = discovered.with_member("capabilities", &Json::parse(capabilities.to_owned()).expect("JSON"));
    harness.reply(opened.key, &Reply::json(result(&opened.id(), &discovered.to_text())));
}

/// The bodies of the messages that the server receives, each of which it accepts.
fn at_server(harness: &mut Relay) -> Vec<String> {
    let mut bodies = Vec::new();
    while harness.has_opened() {
        let opened: Opened = harness.opened();
        if opened.line() == "POST /mcp" {
            bodies.push(opened.body().to_owned());
            harness.reply(opened.key, &Reply::status(202));
        } else {
            harness.reply(opened.key, &Reply::status(405));
        }
    }
    bodies
}

fn is_asked_to_open(line: &str) -> bool {
    line.contains(r#""method":"elicitation/create""#) && line.contains(&format!(r#""url":"{SIGN_IN}""#))
}

#[test]
fn oa_g_07_a_client_that_opens_urls_is_asked_to_as_soon_as_it_accepts_requests() {
    for (capabilities, opens) in
        [(r#"{"elicitation":{"url":{}}}"#, true), (r#"{"elicitation":{}}"#, false), ("{}", false)]
    {
        let mut harness = challenged(capabilities);
        assert_eq!(harness.machine.client_opens_urls(), opens);
        harness.machine.ask_to_open_url(SIGN_IN, harness.now);
        let lines = harness.lines();
        assert_eq!(lines.len(), usize::from(opens), "it is answered, and asked nothing: {lines:?}");
        assert!(!opens || lines[0].starts_with(r#"{"jsonrpc":"2.0","id":"i","result""#), "{lines:?}");
        assert_eq!(harness.events().contains(&Event::AnsweredEarly), opens, "{capabilities}");
        if !opens {
            harness.pass(Duration::from_secs(1));
            assert_eq!(harness.lines().len(), 1, "it is answered later");
        }
        harness.line(INITIALIZED);
        let asked = harness.lines();
        assert_eq!(asked.iter().filter(|line| is_asked_to_open(line)).count(), usize::from(opens), "{asked:?}");
        // A further sign-in, of a client that accepts requests.
        let next = format!("{SIGN_IN}2");
        harness.machine.ask_to_open_url(&next, harness.now);
        let asked = harness.lines();
        assert_eq!((asked.len(), asked.concat().contains(&next)), (usize::from(opens), opens), "{asked:?}");
        assert!(!harness.has_opened(), "nothing of it reaches the server");
    }
}

#[test]
fn oa_g_07_a_confirmation_that_comes_before_the_server_reaches_it_once_and_nothing_in_its_place() {
    for is_confirmed in [false, true] {
        for (era, notifies) in [(Era::Legacy, false), (Era::Legacy, true), (Era::Modern, false)] {
            let mut harness = challenged(r#"{"roots":{"listChanged":true}}"#);
            harness.pass(Duration::from_secs(1));
            assert_eq!(harness.lines().len(), 1);
            if is_confirmed {
                harness.line(INITIALIZED);
            }
            if notifies {
                harness.line(ROOTS_CHANGED);
            }
            assert!(!harness.has_opened());
            signed_in(&mut harness, era, r#"{"tools":{}}"#);
            let received = at_server(&mut harness);
            let confirmations = received.iter().filter(|body| *body == INITIALIZED).count();
            let expected = usize::from(is_confirmed && era == Era::Legacy);
            assert_eq!(confirmations, expected, "{is_confirmed} {era} {notifies}: {received:?}");
            if !is_confirmed {
                harness.line(INITIALIZED);
                let received = at_server(&mut harness);
                assert_eq!(received.len(), usize::from(era == Era::Legacy), "{received:?}");
            }
        }
    }
}

#[test]
fn oa_g_07_a_client_learns_of_every_list_that_the_server_has_after_all() {
    for (era, is_confirmed) in [(Era::Legacy, true), (Era::Modern, true), (Era::Legacy, false)] {
        for of_server in [&LISTS[..], &LISTS[..1], &LISTS[1..2], &LISTS[2..], &[]] {
            let mut harness = challenged("{}");
            harness.pass(Duration::from_secs(1));
            harness.lines();
            if is_confirmed {
                harness.line(INITIALIZED);
            }
            let capabilities: Vec<_> =
                of_server.iter().map(|(capability, _)| format!(r#""{capability}":{{}}"#)).collect();
            signed_in(&mut harness, era, &format!("{{{}}}", capabilities.join(",")));
            at_server(&mut harness);
            let lines = harness.lines();
            let of_server = if is_confirmed { of_server } else { &[] };
            assert_eq!(lines.len(), of_server.len(), "{era} {lines:?}");
            for (_, method) in of_server {
                assert!(lines.iter().any(|line| line.contains(method)), "{era} {method}: {lines:?}");
            }
        }
    }
}

#[test]
fn requests_that_wait_for_the_era_of_the_server_are_dropped_with_their_client() {
    fn check<T: ClientTransport>(mut relay: mcp_intermediary::Relay<T>) {
        let now = Instant::START;
        let params = format!(r#"{{"_meta":{{{META}}}}}"#);
        for id in ["0", "1", "2"] {
            relay.handle_bytes(format!("{}\n", request(id, "tools/list", &params)).as_bytes(), now);
        }
        let load = relay.load();
        assert!(load.waiting >= 3 && load.held >= 3 * params.len(), "{load:?}");
        relay.close(now);
        let load = relay.load();
        assert_eq!((load.waiting, load.held), (0, 0), "{load:?}");
    }

    let http = Http::new(HttpConfig::new(URL).expect("a URL"));
    check(mcp_intermediary::Relay::new(http, Config::default()).expect("a configuration"));
    check(mcp_intermediary::Relay::new(Stdio::new(), Config::default()).expect("a configuration"));
}

#[test]
fn a_relay_tells_its_client_where_a_person_must_sign_in_until_one_has() {
    for (outcome, is_shown) in [("waiting", true), ("none", false)] {
        let mut harness = HttpClientHarness::connected_relay_with(|config, _| {
            (config.request_timeout, config.max_timeout) = (Duration::from_secs(30), Duration::from_secs(30));
        });
        let url = "https://as.example/authorize";
        SignInOutcome::Waiting(url.to_owned()).pass_to(&mut harness.machine, harness.now);
        if outcome == "none" {
            SignInOutcome::NoToken.pass_to(&mut harness.machine, harness.now);
        }
        harness.call("1", "tools/call");
        harness.pass(Duration::from_secs(30));
        let lines = harness.lines();
        let text = format!("; a person must sign in first: open {url}\"");
        assert!(lines.len() == 1 && lines[0].contains("-32603"), "{lines:?}");
        assert_eq!(lines[0].contains(&text), is_shown, "{outcome}: {lines:?}");
    }
}
