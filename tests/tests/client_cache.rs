//! What a client of revision 2026-07-28 caches, and for how long (RULES 8.8).

use std::time::Duration;

use mcp_proto::auth::Credentials;
use mcp_proto::client::{Call, Event, Http, Outcome};
use mcp_proto::{Client, Json};
use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::messages::{DISCOVERED, event, result};

type Harness = HttpClientHarness<Client<Http>>;

/// A result that may be cached for a second.
const PRIVATE: &str = r#"{"resultType":"complete","tools":[],"ttlMs":1000,"cacheScope":"private"}"#;
const PUBLIC: &str = r#"{"resultType":"complete","tools":[],"ttlMs":1000,"cacheScope":"public"}"#;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

fn caching() -> Harness {
    HttpClientHarness::modern_client_with(|config, _| {
        config.cache = 100_000;
        config.capabilities = json(r#"{"roots":{}}"#);
    })
}

/// Makes a request, which is answered with `reply` if it is sent. Returns whether it was.
fn is_sent(harness: &mut Harness, method: &'static str, params: &str, reply: &str) -> bool {
    let request = harness.machine.request(Call::new(method).params(json(params)), harness.now).unwrap();
    let is_sent = harness.has_opened();
    if is_sent {
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::json(result(&opened.id(), reply)));
    }
    let outcomes = harness.outcomes();
    assert_eq!(outcomes.get(&request), Some(&Outcome::Result(json(reply))), "one outcome, with the same bytes");
    assert_eq!(outcomes.len(), 1);
    is_sent
}

#[test]
fn md_k_03_a_cached_result_is_an_outcome_without_a_request_until_its_time_is_over() {
    let mut harness = caching();
    assert!(is_sent(&mut harness, "tools/list", "{}", PRIVATE));
    harness.pass(Duration::from_millis(999));
    assert!(!is_sent(&mut harness, "tools/list", "{}", PRIVATE));
    assert!(is_sent(&mut harness, "tools/list", r#"{"cursor":""}"#, PRIVATE), "MD-K-02: another page");
    harness.pass(Duration::from_millis(1));
    assert!(is_sent(&mut harness, "tools/list", "{}", PRIVATE));
    // What another client requests is always sent.
    let call = Call::new("tools/list").params(json("{}")).unchanged();
    harness.machine.request(call, harness.now).unwrap();
    assert!(harness.has_opened());

    let mut without = HttpClientHarness::modern_client();
    assert!(is_sent(&mut without, "tools/list", "{}", PRIVATE) && is_sent(&mut without, "tools/list", "{}", PRIVATE));
}

#[test]
fn md_k_02_another_token_is_another_cache_for_private_results() {
    let mut harness = caching();
    assert!(is_sent(&mut harness, "tools/list", "{}", PRIVATE) && is_sent(&mut harness, "prompts/list", "{}", PUBLIC));
    harness.machine.authorize(Credentials::bearer("token", 1).unwrap(), harness.now);
    assert!(is_sent(&mut harness, "tools/list", "{}", PRIVATE) && !is_sent(&mut harness, "prompts/list", "{}", PUBLIC));
    // The identity may determine results, too.
    harness.machine.identify(json(r#"{"name":"other","version":"1"}"#), json("{}")).unwrap();
    assert!(is_sent(&mut harness, "prompts/list", "{}", PUBLIC));
}

#[test]
fn md_k_03_a_reported_change_and_the_end_of_a_subscription_end_the_caching() {
    for is_interrupted in [true, false] {
        reported_changes_end_the_caching(is_interrupted);
    }
}

fn reported_changes_end_the_caching(is_interrupted: bool) {
    let mut harness = caching();
    harness.machine.listen(json(r#"{"toolsListChanged":true}"#), harness.now).unwrap();
    let opened = harness.opened();
    let notice = |method: &str, rest: &str| {
        let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}"#, opened.id());
        event(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{meta}{rest}}}}}"#))
    };
    harness.begin(opened.key, &Reply::events(notice("subscriptions/acknowledged", r#","notifications":{}"#)));
    for method in ["tools/list", "prompts/list"] {
        assert!(is_sent(&mut harness, method, "{}", PUBLIC) && !is_sent(&mut harness, method, "{}", PUBLIC));
    }
    harness.send(opened.key, notice("tools/list_changed", "").as_bytes());
    assert!(is_sent(&mut harness, "tools/list", "{}", PUBLIC) && !is_sent(&mut harness, "prompts/list", "{}", PUBLIC));
    // Changes may be missed from now on (MD-L-11).
    if !is_interrupted {
        harness.send(opened.key, event(&result(&opened.id(), "{}")).as_bytes());
    }
    harness.end(opened.key);
    assert!(is_sent(&mut harness, "tools/list", "{}", PUBLIC) && is_sent(&mut harness, "prompts/list", "{}", PUBLIC));
}

#[test]
fn md_i_14_the_result_of_a_retry_with_input_is_not_cached() {
    let mut harness = caching();
    let read = || Call::new("resources/read").params(json(r#"{"uri":"file:///a"}"#));
    for _ in 0..2 {
        harness.machine.request(read(), harness.now).unwrap();
        let opened = harness.opened();
        let required = r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}"#;
        harness.reply(opened.key, &Reply::json(result(&opened.id(), required)));
        let asked = harness.events().pop();
        let Some(Event::Requested { ticket, .. }) = asked else { panic!("{asked:?}") };
        harness.machine.answer(ticket, Ok(json(r#"{"roots":[]}"#)), harness.now);
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::json(result(&opened.id(), PUBLIC)));
        assert_eq!(harness.outcome(), Outcome::Result(json(PUBLIC)));
    }
}

#[test]
fn the_result_of_a_request_that_has_waited_for_the_connection_is_cached() {
    let mut harness = HttpClientHarness::detecting_client_with(|config, _| config.cache = 100_000);
    let opened = harness.opened();
    harness.machine.request(Call::new("tools/list"), harness.now).unwrap();
    harness.reply(opened.key, &Reply::json(result(&opened.id(), DISCOVERED)));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(result(&opened.id(), PUBLIC)));
    harness.events();
    assert!(!is_sent(&mut harness, "tools/list", "{}", PUBLIC));
}
