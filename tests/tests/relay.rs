//! The relay: what it forwards, and the kinds of servers that the project's founding documents describe.

use std::time::Duration;

use mcp_intermediary::relay::Event;
use mcp_proto::{Failed, Quirk};
use mcp_testkit::http_client::{HttpClientHarness, Reply, initialize_reply};
use mcp_testkit::messages::{INITIALIZED, error, event, initialize, initialize_result, request, result};
use proptest::prelude::*;
use tests::json_text;

#[test]
fn bun_docs_one_event_without_id_and_session_becomes_one_line() {
    for piece in [None, Some(1), Some(7)] {
        let mut harness = HttpClientHarness::relay();
        harness.piece = piece;
        harness.line(&initialize("0", "2025-06-18"));
        let opened = harness.opened();
        assert_eq!(opened.header("accept"), "application/json, text/event-stream");
        assert_eq!(opened.header("content-type"), "application/json");
        // The member `result` precedes `jsonrpc` and `id`.
        let answer =
            format!(r#"{{"result":{},"jsonrpc":"2.0","id":{}}}"#, initialize_result("2025-06-18"), opened.id());
        harness.reply(opened.key, &Reply::events(event(&answer)));
        assert_eq!(harness.lines(), [result("0", &initialize_result("2025-06-18"))]);
        harness.confirm();

        let call = harness.call("1", "tools/call");
        assert_eq!(call.header("mcp-session-id"), "");
        let hits: Vec<_> =
            (0..10).map(|hit| format!(r#"{{"type":"text","text":"Title: {hit}\nLink: https://…"}}"#)).collect();
        let hits = format!(r#"{{"content":[{}]}}"#, hits.join(","));
        harness.pass(Duration::from_millis(300));
        harness.reply(
            call.key,
            &Reply::events(event(&format!(r#"{{"result":{hits},"jsonrpc":"2.0","id":{}}}"#, call.id()))),
        );
        assert_eq!(harness.lines(), [result("1", &hits)]);
    }
}

#[test]
fn bun_docs_an_http_error_becomes_a_json_rpc_error_and_a_bad_event_is_skipped() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.reply(call.key, &Reply::html(500));
    let lines = harness.lines();
    assert_eq!(
        lines,
        [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the server at http://server.example/mcp answered 500 Internal Server Error with an HTML page","data":{"source":"relay","failure":"refused","status":500}}}"#
        ]
    );

    let call = harness.call("2", "tools/call");
    let stream = format!("event: message\ndata: {{\"jsonrpc\":\n\n{}", event(&result(&call.id(), "{}")));
    harness.reply(call.key, &Reply::events(stream));
    assert_eq!(harness.lines(), [result("2", "{}")]);
    assert!(harness.events().iter().any(|event| matches!(event, Event::Faulted { .. })));
}

#[test]
fn array_server_a_single_initialize_is_answered_with_an_array() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("0", "2025-03-26"));
    let opened = harness.opened();
    let answer = format!("[{}]", result(&opened.id(), &initialize_result("2024-11-05")));
    harness.reply(opened.key, &Reply::json(answer).header("Mcp-Session-Id", "abc"));
    assert_eq!(harness.lines(), [result("0", &initialize_result("2024-11-05"))]);
    let quirks: Vec<_> = harness
        .events()
        .into_iter()
        .filter_map(|event| if let Event::QuirkObserved(quirk) = event { Some(quirk) } else { None })
        .collect();
    assert_eq!(quirks, [Quirk::ResponseInArray, Quirk::FirstRevisionOverStreamableHttp]);

    harness.line(INITIALIZED);
    let opened = harness.opened();
    assert_eq!(opened.header("mcp-session-id"), "abc");
    harness.reply(opened.key, &Reply::status(202));
    let stream = harness.opened();
    assert_eq!(stream.line(), "GET /mcp");

    // The SSE form of the answer: a comment, a blank line, data without an event type, then comments without end.
    let call = harness.call("1", "tools/list");
    let body = format!(": stream opened\n\ndata: {}\n\n: keep-alive\n\n", result(&call.id(), r#"{"tools":[]}"#));
    harness.begin(call.key, &Reply::events(body));
    assert_eq!(harness.lines(), [result("1", r#"{"tools":[]}"#)]);
    harness.send(call.key, b": keep-alive\n\n");
    // The relay does not wait for such a stream to end.
    harness.pass(Duration::from_secs(10));
    assert!(harness.is_aborted(call.key));
}

#[test]
fn mcp_hub_421_the_same_command_line_serves_two_endpoints_and_one() {
    for revision in ["2024-11-05", "2025-06-18"] {
        let mut harness = HttpClientHarness::relay();
        harness.line(&initialize("1", revision));
        let post = harness.opened();
        assert_eq!(post.line(), "POST /mcp");
        harness.reply(post.key, &Reply::html(404));
        let stream = harness.opened();
        assert_eq!((stream.line().as_str(), stream.header("accept")), ("GET /mcp", "text/event-stream"));
        harness.begin(stream.key, &Reply::events("event: endpoint\ndata: /messages?sessionId=7914\n\n"));
        let post = harness.opened();
        assert_eq!(post.line(), "POST /messages?sessionId=7914");
        // The answer may precede the acknowledgement of the POST.
        harness.send(stream.key, event(&result(&post.id(), &initialize_result(revision))).as_bytes());
        assert_eq!(harness.lines(), [result("1", &initialize_result(revision))]);
        harness.reply(post.key, &Reply::status(202).body("Accepted"));

        harness.line(INITIALIZED);
        let post = harness.opened();
        assert_eq!(post.line(), "POST /messages?sessionId=7914");
        harness.reply(post.key, &Reply::status(202).body("Accepted"));
        assert!(!harness.has_opened(), "there is only the one stream");

        let post = harness.call("2", "tools/list");
        harness.reply(post.key, &Reply::status(202).body("Accepted"));
        let tools: Vec<_> =
            (0..69).map(|tool| format!(r#"{{"name":"every__{tool}","description":"{}"}}"#, "x".repeat(1000))).collect();
        let tools = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
        assert!(tools.len() > 64 * 1024);
        harness.send(stream.key, event(&result(&post.id(), &tools)).as_bytes());
        assert_eq!(harness.lines(), [result("2", &tools)]);
    }
    // Later versions have one endpoint, and sessions that are identified by a header.
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("2", "tools/list");
    assert_eq!((call.line().as_str(), call.header("mcp-session-id")), ("POST /mcp", "session-1"));
}

#[test]
fn a_tool_result_without_content_passes_unchanged_and_is_reported() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"text":"no content here"}"#)));
    assert_eq!(harness.lines(), [result("1", r#"{"text":"no content here"}"#)]);
    assert!(harness.events().contains(&Event::QuirkObserved(Quirk::ToolResultWithoutContent)));
    let call = harness.call("2", "tools/call");
    harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
    assert_eq!(harness.events(), []);
}

#[test]
fn header_names_count_in_any_case() {
    for name in ["Mcp-Session-Id", "MCP-Session-Id", "mcp-session-id", "MCP-SESSION-ID"] {
        let mut harness = HttpClientHarness::relay();
        harness.line(&initialize("1", "2025-11-25"));
        let opened = harness.opened();
        let reply = Reply::json(result(&opened.id(), &initialize_result("2025-11-25"))).header(name, "s1");
        harness.reply(opened.key, &reply);
        harness.line(INITIALIZED);
        let opened = harness.opened();
        assert_eq!((opened.header("mcp-session-id"), opened.header("mcp-protocol-version")), ("s1", "2025-11-25"));
    }
}

#[test]
fn sh_c_05_the_version_header_is_sent_where_the_revision_has_it() {
    for (version, header) in
        [("2024-11-05", ""), ("2025-03-26", ""), ("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25")]
    {
        let mut harness = HttpClientHarness::relay();
        harness.line(&initialize("1", version));
        let opened = harness.opened();
        assert_eq!(opened.header("mcp-protocol-version"), "");
        harness.reply(opened.key, &Reply::json(result(&opened.id(), &initialize_result(version))));
        let call = harness.call("2", "ping");
        assert_eq!(call.header("mcp-protocol-version"), header);
    }
}

#[test]
fn initialize_crosses_byte_for_byte_in_both_directions() {
    let mut harness = HttpClientHarness::relay();
    let params =
        r#"{ "protocolVersion" : "2025-11-25","capabilities":{},"clientInfo":{"name":"\u00e9","version":"1"},"x":1.0}"#;
    harness.line(&request("\"\\u0069d\"", "initialize", params));
    let opened = harness.opened();
    assert_eq!(opened.body(), request("1", "initialize", params));
    let answer = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"a\/b"}"#;
    harness.reply(opened.key, &Reply::json(result("1", answer)));
    assert_eq!(harness.lines(), [result("\"\\u0069d\"", answer)]);
}

#[test]
fn an_error_of_the_server_crosses_byte_for_byte_whatever_the_status() {
    let text = r#"{"message":"nope","code":-32002,"data":{"n":1.0,"m":[1e2]}}"#;
    let mut harness = HttpClientHarness::connected_relay();
    for status in [200, 400, 404, 500] {
        let call = harness.call("\"x\"", "resources/read");
        let body = format!(r#"{{"error":{text},"id":{},"jsonrpc":"2.0"}}"#, call.id());
        // With the id of the request and this code, a 404 is about the method and not about the session.
        let body = if status == 404 { body.replace("-32002", "-32601") } else { body };
        harness.reply(call.key, &Reply::json(body).with_status(status));
        let text = if status == 404 { text.replace("-32002", "-32601") } else { text.to_owned() };
        assert_eq!(harness.lines(), [format!(r#"{{"jsonrpc":"2.0","id":"x","error":{text}}}"#)], "{status}");
    }
}

#[test]
fn sh_c_15_an_http_error_may_explain_itself_without_the_id() {
    let mut harness = HttpClientHarness::connected_relay();
    for id in ["null", "\"server-error\""] {
        let call = harness.call("1", "tools/list");
        harness.reply(call.key, &Reply::json(error(id, -32600, "Bad Request")).with_status(400));
        assert_eq!(harness.lines(), [error("1", -32600, "Bad Request")]);
    }
}

#[test]
fn each_request_is_its_own_exchange_and_a_slow_one_delays_no_other() {
    let mut harness = HttpClientHarness::connected_relay();
    let slow = harness.call("1", "tools/call");
    let quick = harness.call("2", "tools/call");
    harness.reply(quick.key, &Reply::json(result(&quick.id(), "{}")));
    assert_eq!(harness.lines(), [result("2", "{}")]);
    harness.pass(Duration::from_secs(100));
    harness.reply(slow.key, &Reply::json(result(&slow.id(), "{}")));
    assert_eq!(harness.lines(), [result("1", "{}")]);
}

#[test]
fn cancellation_follows_the_id_and_a_late_answer_is_ignored() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("\"c\"", "tools/call");
    harness.begin(call.key, &Reply::events(": working\n\n"));
    harness.line(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c","reason":"user","x":1.0}}"#,
    );
    let notice = harness.opened();
    let expected = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":"user","x":1.0}}}}"#,
        call.id()
    );
    assert_eq!(notice.body(), expected);
    // The cancelled exchange is not aborted (CX-09).
    assert!(!harness.is_aborted(call.key));
    harness.reply(notice.key, &Reply::status(202));
    harness.send(call.key, event(&result(&call.id(), "{}")).as_bytes());
    assert_eq!(harness.lines(), [] as [&str; 0]);
    // The client may use the id again at once.
    let again = harness.call("\"c\"", "tools/call");
    harness.reply(again.key, &Reply::json(result(&again.id(), "{}")));
    assert_eq!(harness.lines(), [result("\"c\"", "{}")]);
}

#[test]
fn br_t_08_a_cancellation_never_overtakes_its_request() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert!(!harness.has_opened(), "the request was not sent yet");
    harness.machine.handle_sent(call.key, harness.now);
    assert_eq!(harness.opened().method(), "notifications/cancelled");

    // A request that was never sent is not cancelled.
    let call = harness.call("2", "tools/call");
    harness.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    harness.refuse(call.key);
    harness.pass(Duration::from_secs(10));
    assert!(!harness.has_opened());
}

#[test]
fn progress_follows_the_token_with_its_digits_and_ends_with_the_request() {
    let mut harness = HttpClientHarness::connected_relay();
    harness.line(&request("1", "tools/call", r#"{"name":"t","_meta":{"progressToken":"tok"}}"#));
    let call = harness.opened();
    assert_eq!(call.body(), request(&call.id(), "tools/call", r#"{"name":"t","_meta":{"progressToken":"tok"}}"#));
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":1.0,"total":3}}"#;
    harness.begin(call.key, &Reply::events(event(progress)));
    assert_eq!(harness.lines(), [progress]);
    // Progress with an unknown token, or a token of another type, is not forwarded.
    for token in ["\"other\"", "7"] {
        harness.send(call.key, event(&progress.replace("\"tok\"", token)).as_bytes());
    }
    harness.send(call.key, event(&result(&call.id(), "{}")).as_bytes());
    harness.send(call.key, event(progress).as_bytes());
    assert_eq!(harness.lines(), [result("1", "{}")]);
}

#[test]
fn requests_of_the_server_reach_the_client_and_its_answers_go_back() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    let asked = r#"{"message":"Name?","requestedSchema":{"type":"object","properties":{}},"n":1.0}"#;
    // Ids of the server's requests and ids of the client's requests are separate.
    harness.begin(call.key, &Reply::events(event(&request(&call.id(), "elicitation/create", asked))));
    assert_eq!(harness.lines(), [request("1", "elicitation/create", asked)]);
    harness.line(&result("1", r#"{"action":"accept","content":{"n":1.0}}"#));
    let answer = harness.opened();
    assert_eq!(answer.body(), result(&call.id(), r#"{"action":"accept","content":{"n":1.0}}"#));
    harness.reply(answer.key, &Reply::status(202));

    harness.send(call.key, event(&request("\"s\"", "sampling/createMessage", "{}")).as_bytes());
    assert_eq!(harness.lines(), [request("2", "sampling/createMessage", "{}")]);
    harness.line(&error("2", -1, "user rejected"));
    assert_eq!(harness.opened().body(), error("\"s\"", -1, "user rejected"));

    // The server cancels a request: the client receives the cancellation with the id that the relay assigned.
    harness.send(call.key, event(&request("\"t\"", "sampling/createMessage", "{}")).as_bytes());
    harness.send(
        call.key,
        event(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"t"}}"#).as_bytes(),
    );
    assert_eq!(
        harness.lines(),
        [
            request("3", "sampling/createMessage", "{}"),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#.to_owned(),
        ]
    );
    harness.line(&result("3", "{}"));
    assert!(!harness.has_opened(), "an answer to a cancelled request goes nowhere");
    harness.send(call.key, event(&result(&call.id(), "{}")).as_bytes());
    assert_eq!(harness.lines(), [result("1", "{}")]);
}

#[test]
fn to_04_a_person_may_think_longer_than_a_request_may_take() {
    let mut harness =
        HttpClientHarness::connected_relay_with(|config, _| config.request_timeout = Duration::from_secs(60));
    let call = harness.call("1", "tools/call");
    harness.begin(call.key, &Reply::events(event(&request("9", "elicitation/create", "{}"))));
    for _ in 0..10 {
        harness.pass(Duration::from_secs(29));
        harness.send(call.key, b":\n");
    }
    harness.lines();
    harness.line(&result("1", "{}"));
    let answer = harness.opened();
    harness.reply(answer.key, &Reply::status(202));
    harness.send(call.key, event(&result(&call.id(), "{}")).as_bytes());
    assert_eq!(harness.lines(), [result("1", "{}")]);
}

#[test]
fn notifications_cross_both_ways() {
    let mut harness = HttpClientHarness::relay();
    harness.initialize("2025-11-25", None);
    harness.line(INITIALIZED);
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(200));
    assert!(harness.events().contains(&Event::QuirkObserved(Quirk::NotificationNotAccepted202)));
    let stream = harness.opened();
    let from_server = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    harness.begin(stream.key, &Reply::events(event(from_server)));
    assert_eq!(harness.lines(), [from_server]);
    let from_client = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"a":1.0}}"#;
    harness.line(from_client);
    assert_eq!(harness.opened().body(), from_client);
}

#[test]
fn pings_reach_the_other_end_and_before_that_the_relay_answers_them() {
    let mut harness = HttpClientHarness::relay();
    harness.line(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(harness.lines(), [result("1", "{}")]);
    let mut harness = HttpClientHarness::connected_relay();
    harness.line(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let ping = harness.opened();
    assert_eq!(ping.method(), "ping");
    harness.reply(ping.key, &Reply::json(result(&ping.id(), "{}")));
    assert_eq!(harness.lines(), [result("1", "{}")]);
}

#[test]
fn lc_17_a_ping_is_answered_at_once_while_the_server_cannot_answer() {
    const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    for is_early in [false, true] {
        let mut harness = HttpClientHarness::relay_with(|config, http| {
            http.managed_authorization = true;
            config.answer_after = Duration::from_secs(1);
        });
        // The server has not answered `initialize`.
        harness.line(&initialize("0", "2025-11-25"));
        let opened = harness.opened();
        harness.line(PING);
        assert_eq!(harness.lines(), [result("\"p\"", "{}")]);
        if is_early {
            // A person signs in.
            harness.reply(opened.key, &Reply::status(401).header("www-authenticate", "Bearer"));
            harness.pass(Duration::from_secs(1));
            assert_eq!(harness.lines().len(), 1, "initialize is answered in the place of the server");
            harness.line(INITIALIZED);
            for _ in 0..2 {
                harness.line(PING);
                assert_eq!(harness.lines(), [result("\"p\"", "{}")]);
            }
            assert!(!harness.has_opened());
        } else {
            harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", None));
            assert_eq!(harness.lines().len(), 1);
            harness.confirm();
            // A person signs in once more.
            harness.machine.set_sign_in_url(Some("https://as.example/authorize"));
            harness.line(PING);
            assert_eq!(harness.lines(), [result("\"p\"", "{}")]);
            harness.machine.set_sign_in_url(None);
            harness.line(PING);
            assert_eq!(harness.opened().method(), "ping");
        }
    }
}

#[test]
fn a_client_that_does_not_wait_for_its_answers_is_served_in_order() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("1", "2025-11-25"));
    harness.line(INITIALIZED);
    harness.line(&request("2", "tools/list", "{}"));
    let opened = harness.opened();
    assert!(!harness.has_opened());
    harness.reply(opened.key, &Reply::json(result(&opened.id(), &initialize_result("2025-11-25"))));
    let opened = harness.opened();
    assert_eq!(opened.method(), "notifications/initialized");
    assert!(!harness.has_opened(), "nothing overtakes the confirmation");
    harness.reply(opened.key, &Reply::status(202));
    let (first, second) = (harness.opened(), harness.opened());
    assert_eq!([first.line(), second.line()], ["GET /mcp", "POST /mcp"]);

    // Requests are served even without a confirmation of the handshake (LC-11).
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("1", "2025-11-25"));
    harness.line(&request("2", "tools/list", "{}"));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(result(&opened.id(), &initialize_result("2025-11-25"))));
    harness.pass(Duration::from_secs(1));
    assert_eq!(harness.opened().method(), "tools/list");
}

#[test]
fn a_batch_of_2025_03_26_is_answered_with_one_array() {
    let mut harness = HttpClientHarness::relay();
    harness.initialize("2025-03-26", None);
    harness.line(&format!("[{},{INITIALIZED},7,{}]", request("1", "a", "{}"), request("\"1\"", "b", "{}")));
    let (a, confirmation) = (harness.opened(), harness.opened());
    harness.reply(confirmation.key, &Reply::status(202));
    let (_stream, b) = (harness.opened(), harness.opened());
    assert_eq!([a.method(), b.method()], ["a", "b"]);
    harness.reply(b.key, &Reply::json(result(&b.id(), r#"{"b":1.0}"#)));
    assert_eq!(harness.lines(), [] as [&str; 0]);
    harness.reply(a.key, &Reply::json(error(&a.id(), -32601, "no a")));
    let lines = harness.lines();
    assert_eq!(lines.len(), 1);
    for part in
        [result("\"1\"", r#"{"b":1.0}"#), error("1", -32601, "no a"), r#""id":null,"error":{"code":-32600"#.to_owned()]
    {
        assert!(lines[0].contains(&part), "{} lacks {part}", lines[0]);
    }
    assert!(lines[0].starts_with('[') && lines[0].ends_with(']'));
}

#[test]
fn pretty_printed_answers_become_one_line() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/list");
    let pretty = format!(
        "{{\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": {},\n  \"result\": {{\n    \"tools\": []\n  }}\n}}\n",
        call.id()
    );
    harness.reply(call.key, &Reply::json(pretty));
    assert_eq!(harness.lines(), [result("1", "{     \"tools\": []   }")]);
}

#[test]
fn every_failure_answers_the_waiting_request_with_a_description() {
    for (reply, text) in [
        (Reply::html(404), "answered 404 Not Found with an HTML page; is the path right?"),
        (Reply::status(401), "answered 401 Unauthorized; it requires credentials, or other ones"),
        (
            Reply::status(401).header("www-authenticate", r#"Bearer realm="a", scope="b""#),
            r#"or other ones; its challenge is Bearer realm=\"a\", scope=\"b\"","data":{"source":"relay","failure":"refused","challenge":"Bearer realm=\"a\", scope=\"b\"","status":401}"#,
        ),
        (
            Reply::status(429).header("retry-after", "700"),
            "answered 429 Too Many Requests with a body without a type; it asks to wait 300s",
        ),
        (Reply::status(202), "answered 202 Accepted and no result; it treated the request as a notification"),
        (
            Reply::status(200).content_type("text/html").body("<p>"),
            "answered with an HTML page instead of JSON; is the path right?",
        ),
        (
            Reply::status(307).header("location", "https://evil.example/"),
            "redirects to https://evil.example/, which is another origin, where no credentials may go; if that is the right server, use its URL instead",
        ),
        (Reply::json("{}").header("content-encoding", "gzip"), "compressed its answer although it was asked not to"),
        (Reply::json("nonsense"), "answered with something that is no valid response: not JSON at byte 1"),
        (Reply::events(""), "ended the stream without an answer"),
    ] {
        // Without a session, a 404 is about the path.
        let mut harness = HttpClientHarness::relay();
        harness.initialize("2025-11-25", None);
        let call = harness.call("7", "tools/list");
        harness.reply(call.key, &reply);
        let lines = harness.lines();
        assert_eq!(lines.len(), 1, "{text}");
        assert!(lines[0].starts_with(
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the server at http://server.example/mcp "#
        ));
        assert!(lines[0].contains(text), "{} lacks {text}", lines[0]);
        assert!(harness.events().iter().any(|event| matches!(
            event,
            Event::Failed(
                Failed::Refused(_)
                    | Failed::NoAnswer { .. }
                    | Failed::ContentType { .. }
                    | Failed::NotAStream { .. }
                    | Failed::Redirected { .. }
                    | Failed::ContentEncoding
                    | Failed::InvalidResponse { .. }
                    | Failed::StreamEnded
            )
        )));
    }
}

proptest! {
    // `PROPTEST_CASES` sets the number of cases: `tests/bench/bars` runs a million.
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn px1_b20_payloads_cross_byte_for_byte(
        params in json_text::object(),
        answer in json_text::value(),
        id in prop::sample::select(vec!["0", "-7", "9007199254740993", "\"\"", "\"a\\u0041\"", "\"é\""]),
        as_event in any::<bool>(),
        piece in prop::option::of(1_usize..40),
    ) {
        let on_one_line = |text: &str| text.replace(['\r', '\n'], " ");
        let mut harness = HttpClientHarness::connected_relay();
        harness.piece = piece;
        harness.line(&request(id, "tools/call", &on_one_line(&params)));
        let call = harness.opened();
        prop_assert_eq!(call.body(), request(&call.id(), "tools/call", &on_one_line(&params)));
        let body = result(&call.id(), &answer);
        let reply = if as_event {
            // JSON may be split into several data lines, which the decoder joins with LF.
            let lines: Vec<_> = body.replace("\r\n", "\n").split(['\r', '\n']).map(|line| format!("data: {line}\n")).collect();
            Reply::events(format!("{}\n", lines.concat()))
        } else {
            Reply::json(body)
        };
        harness.reply(call.key, &reply);
        let lines = harness.lines();
        prop_assert_eq!(lines.len(), 1);
        let answer = if as_event { on_one_line(&answer.replace("\r\n", "\n")) } else { on_one_line(&answer) };
        prop_assert_eq!(&lines[0], &result(id, &answer));
    }
}

#[test]
fn lc_14_a_relay_does_not_let_initialize_be_cancelled() {
    let mut harness = HttpClientHarness::relay();
    harness.line(&initialize("\"i\"", "2025-11-25"));
    let sent = harness.opened();
    harness.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"i"}}"#);
    assert!(!harness.has_opened() && !harness.is_aborted(sent.key));
    harness.reply(sent.key, &initialize_reply(&sent, "2025-11-25", Some("session-1")));
    assert_eq!(harness.lines(), [result("\"i\"", &initialize_result("2025-11-25"))]);
    harness.confirm();
}

#[test]
fn a_question_that_the_client_of_a_relay_never_answers_is_answered_by_the_relay() {
    let mut harness = HttpClientHarness::connected_relay();
    let call = harness.call("1", "tools/call");
    harness.pass(Duration::from_secs(10));
    harness.begin(call.key, &Reply::events(event(&request("5", "sampling/createMessage", "{}"))));
    assert_eq!(harness.lines().len(), 1);
    // An occasional comment keeps the stream alive.
    let mut answers = Vec::new();
    for _ in 0..40 {
        harness.pass(Duration::from_secs(100));
        if !harness.is_aborted(call.key) {
            harness.send(call.key, b":\n\n");
        }
        while harness.has_opened() {
            let opened = harness.opened();
            harness.reply(opened.key, &Reply::status(202));
            answers.push(opened.body().to_owned());
        }
    }
    let answered = |body: &String| body.contains(r#""id":5,"error":{"code":-32603"#);
    assert_eq!(answers.iter().filter(|body| answered(body)).count(), 1, "{answers:?}");
}
