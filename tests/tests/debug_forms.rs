//! The `Debug` output of machines, their actions and the decoders shows no payload, no header and no session id.

use std::fmt::Write as _;

use mcp_proto::auth::Challenge;
use mcp_proto::client::{Call, HttpConfig as HttpConfigOfClient, HttpTransport};
use mcp_proto::server::{Config, Holder, Http, HttpConfig, PeerKey, Principal, RequestInfo, Server, TwoEndpoints};
use mcp_proto::{Instant, Json, Output, Stdio};
use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::http_server::HttpServerHarness;

const SECRET: &str = "hush-5f1e";

fn assert_hides(what: &str, shown: &str, secrets: &[&str]) {
    for secret in secrets {
        let bytes: Vec<_> = secret.bytes().map(|byte| byte.to_string()).collect();
        assert!(!shown.contains(secret), "{what}: {shown}");
        assert!(!shown.contains(&bytes.join(", ")), "{what}: {shown}");
    }
}

#[test]
fn servers_over_http_show_no_secrets() {
    let mut harness = HttpServerHarness::with(|http, config| {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        config.capabilities = Json::parse(r#"{"resources":{"subscribe":true}}"#).unwrap();
    });
    let with_secrets = |asked: TestRequest| asked.with("authorization", SECRET).with("cookie", SECRET).by(SECRET);
    let id = harness.session_of("2025-11-25", Some(SECRET));
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"a":"{SECRET}"}}}}"#);
    let subscribe =
        format!(r#"{{"jsonrpc":"2.0","id":"{SECRET}","method":"resources/subscribe","params":{{"uri":"{SECRET}"}}}}"#);
    let subscribed = harness.answer(&with_secrets(TestRequest::post(subscribe).in_session(&id)));
    assert_eq!(subscribed.code(), 200);
    assert_hides("a change", &format!("{:?}", harness.server.poll_subscription().unwrap()), &[SECRET]);
    // A body that arrives, a request in flight, a stream, and a stream of the two-endpoint transport.
    harness.begin(&with_secrets(TestRequest::post(call.clone()).in_session(&id)));
    harness.ask(&with_secrets(TestRequest::post(call).in_session(&id)));
    let ticket = harness.ticket();
    harness.begin(&with_secrets(TestRequest::get().in_session(&id)));
    harness.begin(&with_secrets(TestRequest::get().at("/sse")));
    assert_hides("the server", &format!("{:?}", harness.server), &[SECRET, &id]);
    let error = mcp_proto::ErrorObject::new(1, SECRET);
    harness.server.respond(ticket, Err(error), harness.now).unwrap();
    assert_hides("the server", &format!("{:?}", harness.server), &[SECRET, &id]);
    assert_hides("the test's own view of it", &format!("{:?}", harness.server), &[SECRET, &id]);
}

#[test]
fn outputs_of_servers_show_no_secrets() {
    let now = Instant::START;
    let mut config = Config::new("s", "1");
    config.capabilities = Json::parse(r#"{"logging":{}}"#).unwrap();
    let mut server = Server::new(Http::new(HttpConfig::new()), config.clone()).unwrap();
    let principal = Principal::new(SECRET).with_subject(SECRET).with_scopes(SECRET).with_claims(Json::from(SECRET));
    let mut arrival = RequestInfo::new([7; 32]);
    arrival.peer = Some(PeerKey::new(SECRET.as_bytes()));
    arrival.authentication = Err(Challenge::bearer().with("scope", SECRET));
    assert_hides("a refused arrival", &format!("{arrival:?}"), &[SECRET]);
    arrival.authentication = Ok(Some(principal.clone()));
    let id = "07".repeat(16);
    assert_hides("an arrival", &format!("{arrival:?}"), &[SECRET, &id, "7, 7"]);
    assert_hides("an address", &format!("{:?}", arrival.peer), &[SECRET]);
    assert_hides("a holder", &format!("{:?}", [Holder::new(Some(&principal), None)]), &[SECRET]);
    assert_hides("a holder", &format!("{:?}", [Holder::new(None, arrival.peer.as_ref())]), &[SECRET]);
    let mut shown = String::new();
    let mut ask = |server: &mut Server<Http>, method: &str, body: &str, session: Option<&str>| {
        let mut head = http::Request::builder().method(method).uri("/mcp").header("host", "localhost");
        head = head.header("accept", "*/*").header("content-type", "application/json").header("expect", "100-continue");
        head = session.iter().fold(head, |head, id| head.header("mcp-session-id", *id));
        let head = head.body(()).unwrap().into_parts().0;
        let key = server.handle_request(head, arrival.clone(), now);
        server.handle_body(key, body.as_bytes(), now);
        server.handle_end(key, now);
        let mut ticket = None;
        while let Some(output) = server.poll_output() {
            writeln!(shown, "{output:?}").unwrap();
            if let Output::Event(mcp_proto::server::Event::Requested { ticket: asked, .. }) = output {
                ticket = Some(asked);
            }
        }
        ticket
    };
    ask(&mut server, "POST", &initialize("2025-11-25"), None);
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{"progressToken":1}},"a":"{SECRET}"}}}}"#
    );
    let ticket = ask(&mut server, "POST", &call, Some(&id)).unwrap();
    let progress = mcp_proto::server::Progress { progress: 1.0, total: None, message: Some(SECRET.into()) };
    server.progress(&ticket, &progress, now);
    server.respond(ticket, Ok(Json::from(SECRET)), now).unwrap();
    ask(&mut server, "GET", "", Some(&id));
    for name in ["Continue", "Respond", "Stream", "Write", "Finish"] {
        assert!(shown.contains(name), "{name} is missing in {shown}");
    }
    assert_hides("an output", &shown, &[SECRET, &id]);
}

#[test]
fn servers_on_streams_show_no_secrets() {
    let now = Instant::START;
    let mut server = Server::new(Stdio::new(), Config::new("s", "1")).unwrap();
    server.handle_bytes(format!("{}\n", initialize("2025-06-18")).as_bytes(), now);
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{SECRET}","params":{{"a":"{SECRET}"}}}}"#);
    server.handle_bytes(call.as_bytes(), now);
    assert_hides("the server", &format!("{server:?}"), &[SECRET]);
    let mut shown = String::new();
    while let Some(output) = server.poll_output() {
        write!(shown, "{output:?}").unwrap();
    }
    assert!(shown.contains("Write"), "{shown}");
    assert_hides("an output", &shown, &[SECRET, "serverInfo"]);
    let mut decoder = mcp_proto::line::Decoder::new(100);
    assert!(decoder.decode(&mut SECRET.as_bytes()).is_none());
    assert_hides("a decoder", &format!("{decoder:?}"), &[SECRET]);
    assert_hides("a configuration", &format!("{:?}", HttpConfig::new()), &[SECRET]);
}

#[test]
fn clients_and_relays_over_http_show_no_secrets() {
    let secrets = |http: &mut HttpConfigOfClient| {
        http.header("authorization", SECRET).expect("a header");
    };
    let mut client = HttpClientHarness::connected_client_with(|_, http| {
        *http = HttpConfigOfClient::new(&format!("http://server.example/mcp?key={SECRET}")).expect("a URL");
        http.transport = HttpTransport::StreamableHttp;
        secrets(http);
    });
    let call = format!(r#"{{"name":"t","arguments":{{"a":"{SECRET}"}}}}"#);
    let (_, opened) = client.call("tools/call", &call);
    client.begin(opened.key, &Reply::events(""));
    let asked = format!(r#"{{"jsonrpc":"2.0","id":"s","method":"ping","params":{{"a":"{SECRET}"}}}}"#);
    client.send(opened.key, format!("id: {SECRET}\n\ndata: {asked}\n\ndata: {SECRET}").as_bytes());
    client.call("tools/call", &call);
    client.machine.request(Call::new("tools/call").params(Json::parse(call.clone()).unwrap()), client.now).unwrap();
    while let Some(output) = client.machine.poll_output() {
        assert_hides("an output", &format!("{output:?}"), &[SECRET, "server.example"]);
    }
    assert_hides("the client", &format!("{:?}", client.machine), &[SECRET]);
    let mut relay = HttpClientHarness::connected_relay_with(|_, http| secrets(http));
    relay.line(&format!(r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{call}}}"#));
    assert_hides("the relay", &format!("{:?}", relay.machine), &[SECRET]);
    let mut decoder = mcp_proto::sse::Decoder::new(1000, 100);
    let mut bytes = format!("data: {SECRET}\n\ndata: {SECRET}\nid: {SECRET}").into_bytes();
    let item = format!("{:?}", decoder.decode(&mut &*bytes));
    assert_hides("an event", &item, &[SECRET]);
    bytes.drain(..bytes.len() / 3);
    assert!(decoder.decode(&mut &*bytes).is_none());
    assert_hides("a decoder", &format!("{decoder:?}"), &[SECRET]);
}
