//! Runs one parser or machine once over an input of a size, so that its instructions can be counted: `instructions NAME
//! SIZE` (`tests/bench/instructions/linear`). Without arguments it prints the names.

use std::env;

use bytes::Bytes;
use mcp_intermediary::relay;
use mcp_proto::{Frame, Json, Limits, Output, line, sse};
use mcp_testkit::byte_stream::{ClientStream, ServerStream};
use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{event, request, result};
use tests::json_text::keys;

/// A parser or machine, and a function that runs it over about so many bytes of its worst input.
struct Pass {
    name: &'static str,
    run: fn(usize),
}

/// The payload of one TCP segment on Ethernet.
const CHUNK: usize = 1448;

const PASSES: &[Pass] = &[
    Pass { name: "line/short", run: |size| lines(&"{\"a\":\"some text of some length\"}\n".repeat(size / 33)) },
    Pass { name: "line/blank", run: |size| lines(&"\n".repeat(size)) },
    Pass { name: "line/one", run: |size| lines(&"x".repeat(size)) },
    Pass { name: "line/too-long", run: |size| lines(&"x".repeat(size * 4)) },
    Pass { name: "sse/events", run: |size| events(&"event: message\nid: 1\ndata: {}\n\n".repeat(size / 31)) },
    Pass { name: "sse/data-lines", run: |size| events(&"data: x\n".repeat(size / 8)) },
    Pass { name: "sse/one-line", run: |size| events(&format!("data: {}\n\n", "x".repeat(size))) },
    Pass { name: "sse/comments", run: |size| events(&":\n".repeat(size / 2)) },
    Pass { name: "sse/carriage-returns", run: |size| events(&"data:\r".repeat(size / 6)) },
    Pass { name: "sse/unknown-fields", run: |size| events(&"x:y\n".repeat(size / 4)) },
    Pass { name: "sse/id", run: |size| events(&format!("id: {}\n\n", "x".repeat(size))) },
    Pass { name: "json/members", run: |size| parse(&keys(size)) },
    Pass { name: "json/elements", run: |size| parse(&format!("[0{}]", ",0".repeat(size / 2))) },
    Pass { name: "json/open-brackets", run: |size| parse(&"[".repeat(size)) },
    Pass {
        name: "json/nested",
        run: |size| parse(&format!("[0{}]", format!(",{}{}", "[".repeat(100), "]".repeat(100)).repeat(size / 201))),
    },
    Pass { name: "json/escapes", run: |size| parse(&format!("\"{}\"", "\\u0041".repeat(size / 6))) },
    Pass { name: "json/backslashes", run: |size| parse(&format!("\"{}\"", "\\\\".repeat(size / 2))) },
    Pass { name: "json/digits", run: |size| parse(&"9".repeat(size)) },
    Pass {
        name: "json/not-utf8",
        run: |size| {
            let _ = Json::parse([&vec![b' '; size][..], &[0xff]].concat());
        },
    },
    Pass {
        name: "member/last-of-many",
        run: |size| {
            let _ = json(&keys(size)).member("none");
        },
    },
    Pass {
        name: "with-member/many",
        run: |size| {
            let _ = json(&keys(size)).with_member("none", &Json::from(true));
        },
    },
    Pass {
        name: "elements/many",
        run: |size| {
            assert!(json(&format!("[0{}]", ",0".repeat(size / 2))).elements().count() > 0);
        },
    },
    Pass {
        name: "unescape",
        run: |size| {
            let _ = json(&format!("\"{}\"", "\\u0041".repeat(size / 6))).as_string();
        },
    },
    Pass { name: "frame/request", run: |size| frame(&request("1", "m", &keys(size))) },
    Pass {
        name: "frame/unknown-members",
        run: |size| frame(&format!(r#"{{"jsonrpc":"2.0"{},"id":1,"method":"m"}}"#, r#","x":0"#.repeat(size / 6))),
    },
    Pass {
        name: "frame/duplicates",
        run: |size| frame(&format!(r#"{{"jsonrpc":"2.0"{}}}"#, r#","id":1"#.repeat(size / 7))),
    },
    Pass {
        name: "frame/method",
        run: |size| frame(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "\\u0041".repeat(size / 6))),
    },
    Pass {
        name: "frame/batch",
        run: |size| frame(&format!("[0{}]", format!(",{}", request("1", "m", "{}")).repeat(size / 56))),
    },
    Pass { name: "frame/batch-of-digits", run: |size| frame(&format!("[0{}]", ",0".repeat(size / 2))) },
    Pass { name: "salvage/broken-at-the-end", run: |size| frame(request("1", "m", &keys(size)).trim_end_matches('}')) },
    Pass { name: "salvage/quotes", run: |size| frame(&format!(r#"{{"id":1,{}"#, "\"\"".repeat(size / 2))) },
    Pass { name: "salvage/brackets", run: |size| frame(&format!(r#"{{"id":1,"x":{}"#, "{[".repeat(size / 2))) },
    Pass {
        name: "salvage/too-long-lines",
        run: |size| {
            server_lines(&format!("{}{}\n", r#"{"id":1,"method":"m","#, "x".repeat(3000)).repeat(size / 3000), 1024);
        },
    },
    Pass {
        name: "unique-keys/many",
        run: |size| server_lines(&(request("1", "tools/list", &keys(size)) + "\n"), 1 << 30),
    },
    Pass {
        name: "unique-keys/objects",
        run: |size| {
            server_lines(
                &(request("1", "tools/list", &format!(r#"{{"x":[0{}]}}"#, r#",{"a":0,"b":0}"#.repeat(size / 14)))
                    + "\n"),
                1 << 30,
            );
        },
    },
    Pass { name: "mirror/write", run: |size| mirror_write(size) },
    Pass { name: "mirror/read", run: |size| mirror_read(size) },
    Pass {
        name: "mirror/annotations",
        run: |size| annotations(&format!("{{{}}}", property("p", 120).repeat(size / 120).trim_end_matches(','))),
    },
    Pass {
        name: "mirror/deep-schemas",
        run: |size| {
            annotations(&format!(
                r#"{{"p":{}0{}}}"#,
                r#"{"properties":{"p":"#.repeat(size / 20),
                "}}".repeat(size / 20)
            ));
        },
    },
    Pass {
        name: "server-stdio/requests",
        run: |size| server_lines(&(request("1", "ping", "{}") + "\n").repeat(size / 59), 1 << 30),
    },
    Pass { name: "server-stdio/garbage", run: |size| server_lines(&"x\n".repeat(size / 2), 1 << 30) },
    Pass { name: "client-stdio/notifications", run: |size| client_lines(&notification().repeat(size / 60)) },
    Pass { name: "client-stdio/strays", run: |size| client_lines(&(result("9", "{}") + "\n").repeat(size / 38)) },
    Pass { name: "server-http/body", run: |size| server_body(&request("1", "tools/list", &keys(size))) },
    Pass { name: "server-http/requests", run: |size| server_requests(size / 300) },
    Pass { name: "server-http/sessions", run: |size| server_sessions(size / 300) },
    Pass { name: "client-http/json", run: |size| client_body(false, size) },
    Pass { name: "client-http/events", run: |size| client_body(true, size) },
    Pass { name: "client-http/cancelled", run: |size| client_cancels(size / 300) },
    Pass { name: "relay/lines", run: |size| relay_lines(size / 300) },
    Pass { name: "relay/events", run: |size| relay_events(size) },
    Pass { name: "relay/waiting", run: |size| relay_waiting(size / 65) },
];

fn main() {
    let mut words = env::args().skip(1);
    let (Some(name), Some(size)) = (words.next(), words.next()) else {
        for pass in PASSES {
            println!("{}", pass.name);
        }
        return;
    };
    let pass = PASSES.iter().find(|pass| pass.name == name).expect("a name of the list");
    (pass.run)(size.parse().expect("a size"));
}

/// Limits that no input here reaches, except those of depth.
fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.message, limits.event) = (1 << 30, 1 << 30);
    (limits.batch, limits.garbage) = (1 << 24, 1 << 24);
    (limits.requests_in, limits.requests_out, limits.tombstones) = (1 << 20, 1 << 20, 1 << 20);
    limits.requests_in_total = 1 << 20;
    limits
}

fn notification() -> String {
    r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#.to_owned() + "\n"
}

fn lines(text: &str) {
    let mut decoder = line::Decoder::new(text.len() / 2);
    for mut chunk in text.as_bytes().chunks(CHUNK) {
        while decoder.decode(&mut chunk).is_some() {}
    }
}

fn events(text: &str) {
    let mut decoder = sse::Decoder::new(1 << 30, 1024);
    for mut chunk in text.as_bytes().chunks(CHUNK) {
        while decoder.decode(&mut chunk).is_some() {}
    }
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap_or(Json::empty_object())
}

fn parse(text: &str) {
    let _ = Json::parse(text.to_owned());
}

fn frame(text: &str) {
    let _ = Frame::parse(&Bytes::copy_from_slice(text.as_bytes()), &limits());
}

fn server_lines(text: &str, limit: usize) {
    let mut stream = ServerStream::ready_with("2025-11-25", |config| {
        config.limits = limits();
        config.limits.message = limit;
    });
    for chunk in text.as_bytes().chunks(CHUNK) {
        stream.machine.handle_bytes(chunk, stream.now);
        while stream.machine.poll_output().is_some() {}
    }
}

fn client_lines(text: &str) {
    let mut stream = ClientStream::connected_with(|config| config.limits = limits());
    for chunk in text.as_bytes().chunks(CHUNK) {
        stream.machine.handle_bytes(chunk, stream.now);
        while stream.machine.poll_output().is_some() {}
    }
}

fn property(name: &str, size: usize) -> String {
    let schema = r#"{"type":"string"}"#;
    format!(r#""{name}{}":{schema},"#, "x".repeat(size.saturating_sub(name.len() + schema.len() + 4)))
}

fn tools(properties: &str) -> String {
    let schema = format!(r#"{{"type":"object","properties":{properties}}}"#);
    format!(r#"{{"resultType":"complete","tools":[{{"name":"t","inputSchema":{schema}}}]}}"#)
}

const ANNOTATED: &str = r#"{"a":{"type":"string","x-mcp-header":"A"}}"#;

fn modern_client(properties: &str) -> HttpClientHarness<mcp_proto::Client<mcp_proto::client::Http>> {
    let mut harness = HttpClientHarness::modern_client_with(|config, _| config.limits = limits());
    let (_, list) = harness.request("tools/list");
    harness.reply(list.key, &Reply::json(result(&list.id(), &tools(properties))));
    harness
}

fn mirror_write(size: usize) {
    let mut harness = modern_client(ANNOTATED);
    harness.call("tools/call", &format!(r#"{{"name":"t","arguments":{{"a":"{}"}}}}"#, "é".repeat(size / 2)));
}

fn mirror_read(length: usize) {
    use base64::Engine as _;
    let mut http_server = HttpServerHarness::with(|_, config| {
        config.limits = limits();
        config.capabilities = json(r#"{"tools":{}}"#);
    });
    http_server.ask(&TestRequest::stateless("1", "tools/list", ""));
    let ticket = http_server.ticket();
    http_server.respond(ticket, &tools(ANNOTATED));
    let text = "é".repeat(length / 2);
    let header = format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(&text));
    let call = format!(r#""arguments":{{"a":"{text}"}},"#);
    http_server.ask(&TestRequest::stateless_call("2", "t", &call).with("mcp-param-a", &header));
}

fn annotations(properties: &str) {
    modern_client(properties);
}

fn http_server() -> HttpServerHarness {
    HttpServerHarness::with(|http, config| {
        config.limits = limits();
        http.max_sessions = 1 << 24;
    })
}

fn server_body(body: &str) {
    let mut http_server = http_server();
    let session = http_server.session("2025-11-25");
    let key = http_server.begin(&TestRequest::post("").in_session(&session));
    for chunk in body.as_bytes().chunks(CHUNK) {
        http_server.server.handle_body(key, chunk, http_server.now);
    }
    http_server.server.handle_end(key, http_server.now);
    http_server.events();
}

fn server_requests(count: usize) {
    let mut http_server = http_server();
    let session = http_server.session("2025-11-25");
    let mut tickets = Vec::new();
    for number in 0..count {
        http_server.ask(&TestRequest::post(request(&number.to_string(), "tools/list", "{}")).in_session(&session));
        tickets.push(http_server.ticket());
    }
    for ticket in tickets {
        http_server.respond(ticket, "{}");
    }
}

fn server_sessions(count: usize) {
    let mut http_server = http_server();
    for _ in 0..count {
        http_server.answer(&TestRequest::post(initialize("2025-11-25")));
        http_server.events();
    }
    http_server.pass(std::time::Duration::from_secs(7200));
}

fn client_body(is_stream: bool, size: usize) {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits = limits());
    let (_, opened) = harness.request("tools/list");
    let answer = result(&opened.id(), &keys(size));
    let (reply, body) = if is_stream {
        let notified = event(notification().trim());
        (Reply::events(""), notified.repeat(size / notified.len()) + &event(&answer))
    } else {
        (Reply::json(""), answer)
    };
    harness.begin(opened.key, &reply);
    for chunk in body.as_bytes().chunks(CHUNK) {
        harness.machine.handle_body(opened.key, chunk, harness.now);
        while harness.machine.poll_output().is_some() {}
    }
    harness.machine.handle_end(opened.key, harness.now);
}

/// Most of the requests are queued for an exchange.
fn client_cancels(count: usize) {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits = limits());
    let mut requests = Vec::new();
    for _ in 0..count {
        let call = mcp_proto::client::Call::new("tools/list");
        requests.push(harness.machine.request(call, harness.now).expect("an accepted request"));
    }
    for request in requests {
        harness.machine.cancel(request, None, harness.now);
        while harness.machine.poll_output().is_some() {}
    }
}

fn relay_lines(count: usize) {
    let mut harness = HttpClientHarness::connected_relay_with(|config, _| config.limits = limits());
    let mut number = 0_u64;
    while number < count as u64 {
        let opened = harness.call(&number.to_string(), "tools/list");
        harness.reply(opened.key, &Reply::json(result(&opened.id(), r#"{"tools":[]}"#)));
        harness.lines();
        harness.events();
        number += 1;
    }
}

/// Requests that are queued for an exchange, with a driver that calls `wants_bytes` after each. All ids have the same
/// length, so that ten times as many requests are ten times as many bytes.
fn relay_waiting(count: usize) {
    let mut harness = HttpClientHarness::connected_relay_with(|config, _| config.limits = limits());
    let mut wanted = 0;
    for number in 10_000_000..10_000_000 + count {
        harness.line(&request(&number.to_string(), "tools/list", "{}"));
        wanted += usize::from(harness.machine.wants_bytes());
    }
    assert!(wanted <= count);
}

fn relay_events(size: usize) {
    let mut harness = HttpClientHarness::connected_relay_with(|config: &mut relay::Config, _| config.limits = limits());
    let opened = harness.call("1", "tools/list");
    harness.begin(opened.key, &Reply::events(""));
    let notified = event(notification().trim());
    for chunk in notified.repeat(size / notified.len()).as_bytes().chunks(CHUNK) {
        harness.machine.handle_body(opened.key, chunk, harness.now);
        while let Some(output) = harness.machine.poll_output() {
            assert!(!matches!(output, Output::Event(relay::Event::Closed(_))));
        }
    }
}
