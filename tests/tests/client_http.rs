//! Requests of a client over HTTP: their exchanges, streams, redirects, refusals and timeouts, beyond the rows of the catalogue.

use std::io::{self, ErrorKind};
use std::time::Duration;

use mcp_proto::client::{Call, Client, Event, Failure, Http, HttpTransport, Outcome};
use mcp_proto::{Failed, Fault, Json, Notification, Quirk, RequestKey};
use mcp_testkit::byte_stream::ClientStream;
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, initialize_reply};
use mcp_testkit::messages::{event, initialize_result, progress_notification, request, result};
use tests::closing_server::REQUESTS;

type HttpClient = HttpClientHarness<Client<Http>>;

const CONTENT: &str = r#"{"content":[]}"#;

const SECOND: Duration = Duration::from_secs(1);

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

/// Makes `count` requests; returns those that were sent, while the others wait for an exchange.
fn request_until_one_waits(harness: &mut HttpClient, method: &str, count: usize) -> Vec<Opened> {
    for _ in 0..count {
        harness.machine.request(Call::new(method), harness.now).expect("an accepted request");
    }
    std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect()
}

fn waits(harness: &mut HttpClient) -> Vec<usize> {
    let limit = |event| if let Event::RequestWaits { limit } = event { Some(limit) } else { None };
    harness.events().into_iter().filter_map(limit).collect()
}

#[test]
fn the_first_request_that_waits_for_an_exchange_is_reported_once() {
    for (exchanges, at_once) in [(2, 1), (3, 2), (4, 3), (5, 4), (8, 6), (64, 48), (65, 49), (100, 84)] {
        let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.exchanges = exchanges);
        let mut open = request_until_one_waits(&mut harness, "tools/call", at_once);
        assert_eq!((open.len(), waits(&mut harness)), (at_once, vec![]), "{exchanges}");
        assert_eq!(request_until_one_waits(&mut harness, "tools/call", 2).len(), 0);
        assert_eq!(waits(&mut harness), [at_once], "{exchanges}");
        // Each answer lets the next request be sent, and nothing more is reported.
        for _ in 0..2 {
            let call = open.remove(0);
            harness.reply(call.key, &Reply::json(result(&call.id(), r#"{"content":[]}"#)));
            open.push(harness.opened());
            assert!(!harness.has_opened());
        }
        request_until_one_waits(&mut harness, "tools/call", 1);
        assert_eq!(waits(&mut harness), [] as [usize; 0]);
        assert_eq!(mcp_proto::Limits::exchanges_for(at_once), exchanges);
    }
}

#[test]
fn pings_and_answers_get_through_while_calls_take_every_exchange() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| {
        config.limits.exchanges = 8;
        config.capabilities = json(r#"{"roots":{}}"#);
    });
    let calls = request_until_one_waits(&mut harness, "tools/call", 10);
    assert_eq!(calls.len(), 6);
    // Pings may take half of the reserved exchanges; the other half is for messages that are not requests.
    let pings = request_until_one_waits(&mut harness, "ping", 3);
    assert_eq!(pings.len(), 1);
    harness.begin(calls[0].key, &Reply::events(event(&request("5", "roots/list", "{}"))));
    let ticket = harness.events().into_iter().find_map(|event| match event {
        Event::Requested { ticket, .. } => Some(ticket),
        _ => None,
    });
    harness.machine.answer(ticket.expect("the server asks"), Ok(json("{}")), harness.now);
    let answered = harness.opened();
    assert_eq!(answered.body(), result("5", "{}"));
    // All eight exchanges are open.
    assert!(!harness.has_opened());
    harness.reply(answered.key, &Reply::status(202));
    // A ping that is cancelled while it waits is not sent.
    harness.reply(pings[0].key, &Reply::json(result(&pings[0].id(), "{}")));
    let ping = harness.opened();
    assert_eq!(ping.method(), "ping");
    harness.pass(Duration::from_secs(61));
    let later: Vec<_> = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect();
    assert!(later.iter().all(|opened| opened.method() == "notifications/cancelled"), "{later:?}");
}

#[test]
fn streams_that_pause_keep_their_exchanges() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.exchanges = 8);
    let calls = request_until_one_waits(&mut harness, "tools/call", 12);
    assert_eq!(calls.len(), 6);
    for call in &calls {
        harness.begin(call.key, &Reply::events("id: 1\ndata:\n\n"));
        harness.end(call.key);
    }
    assert!(!harness.has_opened(), "the streams will be opened again, and the calls that wait go on waiting");
    harness.pass(Duration::from_secs(5));
    let resumed: Vec<_> = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect();
    assert_eq!(resumed.len(), 6);
    assert!(resumed.iter().all(|opened| opened.line() == "GET /mcp"));
    // Each stream gets all answers, since the test does not match streams to calls: only one answer counts on each.
    let answers: String = calls.iter().map(|call| event(&result(&call.id(), r#"{"content":[]}"#))).collect();
    for (ended, opened) in resumed.iter().enumerate() {
        harness.reply(opened.key, &Reply::events(answers.clone()));
        assert_eq!(harness.outcomes().len(), 1, "after {ended}");
        assert_eq!(harness.opened().method(), "tools/call");
    }
    assert!(!harness.has_opened());
}

#[test]
fn the_stream_of_the_server_takes_no_exchange_from_the_requests() {
    for (exchanges, at_once, is_offered) in [(1, 1, false), (2, 1, true), (3, 2, true), (8, 6, true)] {
        let mut harness = HttpClientHarness::client_with(|config, _| config.limits.exchanges = exchanges);
        let opened = harness.opened();
        harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::status(202));
        assert_eq!(harness.has_opened(), is_offered, "{exchanges}");
        if is_offered {
            let stream = harness.opened();
            harness.begin(stream.key, &Reply::events("id: 1\ndata:\n\n"));
            assert_eq!(request_until_one_waits(&mut harness, "tools/call", at_once + 1).len(), at_once, "{exchanges}");
            // The stream keeps its exchange while it waits to be opened again.
            harness.end(stream.key);
            assert!(!harness.has_opened(), "{exchanges}");
            harness.pass(Duration::from_secs(5));
            assert_eq!(harness.opened().line(), "GET /mcp");
        } else {
            assert_eq!(request_until_one_waits(&mut harness, "tools/call", 2).len(), 1);
        }
    }
}

#[test]
fn what_was_to_be_delivered_again_is_tried_once_more_when_the_client_closes() {
    for is_reached in [false, true] {
        let mut harness = HttpClientHarness::connected_client_with(|_, http| http.redelivery = Duration::from_secs(30));
        harness.machine.notify(Notification::new("notifications/roots/list_changed"), harness.now).unwrap();
        let opened = harness.opened();
        harness.refuse(opened.key);
        assert!(!harness.has_opened(), "it waits");
        harness.machine.close(harness.now);
        let again = harness.opened();
        assert_eq!(again.method(), "notifications/roots/list_changed");
        if is_reached {
            harness.reply(again.key, &Reply::status(202));
        } else {
            harness.refuse(again.key);
        }
        assert_eq!(harness.opened().line(), "DELETE /mcp", "the session is ended behind it");
        let reported = harness.events().iter().any(|event| matches!(event, Event::Faulted(Fault::NotAccepted { .. })));
        assert_eq!(reported, !is_reached);
    }
}

#[test]
fn nothing_is_sent_after_the_deadline_for_closing() {
    let mut harness = HttpClientHarness::connected_client_with(|config, http| {
        config.limits.exchanges = 4;
        http.close_timeout = Duration::from_secs(5);
    });
    for _ in 0..10 {
        harness.machine.notify(Notification::new("notifications/x"), harness.now).unwrap();
    }
    let sent: Vec<_> = std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect();
    assert!((1..10).contains(&sent.len()), "the others wait for exchanges");
    harness.machine.close(harness.now);
    harness.pass(Duration::from_secs(5));
    assert!(harness.events().iter().any(|event| matches!(event, Event::Closed(_))));
    for opened in &sent {
        harness.fail(opened.key, Failure::Broken { detail: "over".into() });
    }
    harness.pass(Duration::from_secs(60));
    assert!(!harness.has_opened());
}

#[test]
fn to_04_time_passes_only_when_the_server_waits_for_no_answer_that_may_be_about_the_request() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| {
        config.capabilities = json(r#"{"roots":{}}"#);
    });
    let timeout = Duration::from_secs(10);
    harness.machine.request(Call::new("tools/call").timeout(timeout).with_progress(), harness.now).unwrap();
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(""));
    let ask = |id: &str| event(&request(id, "roots/list", "{}"));
    harness.send(opened.key, (ask("1") + &ask("2")).as_bytes());
    let mut tickets = Vec::new();
    for seen in harness.events() {
        if let Event::Requested { ticket, .. } = seen {
            tickets.push(ticket);
        }
    }
    let progress = progress_notification(&opened.id(), 1);
    harness.send(opened.key, event(&progress).as_bytes());
    harness.pass(timeout * 2);
    for ticket in tickets {
        let timed_out = |event: &Event| matches!(event, Event::Responded { .. });
        assert!(!harness.events().iter().any(timed_out), "the server waits");
        harness.machine.answer(ticket, Ok(json(r#"{"roots":[]}"#)), harness.now);
        harness.pass(Duration::from_secs(9));
    }
    assert!(harness.is_open(opened.key));
    harness.pass(Duration::from_secs(1));
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::TimedOut { .. })));
}

#[test]
fn to_04_a_call_that_is_made_while_a_person_is_asked_has_its_time_after_the_answer() {
    let mut stream = ClientStream::connected_with(|config| config.capabilities = json(r#"{"roots":{}}"#));
    let timeout = Duration::from_secs(10);
    for id in ["1", "2"] {
        stream.line(request(id, "roots/list", "{}"));
    }
    let asked = stream.events();
    stream.machine.request(Call::new("tools/call").timeout(timeout), stream.now).unwrap();
    for event in asked {
        let Event::Requested { ticket, .. } = event else { panic!("{event:?}") };
        stream.pass(timeout * 2);
        assert!(stream.events().is_empty(), "the server waits");
        stream.machine.answer(ticket, Ok(json(r#"{"roots":[]}"#)), stream.now);
    }
    stream.pass(Duration::from_secs(9));
    assert!(stream.events().is_empty());
    stream.pass(Duration::from_secs(1));
    let events = stream.events();
    let failed = Outcome::Failed(Failed::TimedOut { after: timeout });
    assert!(matches!(&events[..], [Event::Responded { outcome, .. }] if *outcome == failed), "{events:?}");
}

#[test]
fn to_04_a_ping_has_its_time_also_while_a_person_is_asked() {
    let mut stream = ClientStream::connected_with(|config| config.capabilities = json(r#"{"roots":{}}"#));
    let timeout = Duration::from_secs(10);
    let ping = |stream: &mut ClientStream| {
        stream.machine.request(Call::new("ping").timeout(timeout), stream.now).unwrap();
    };
    ping(&mut stream);
    stream.line(request("1", "roots/list", "{}"));
    ping(&mut stream);
    assert_eq!(stream.events().len(), 1);
    stream.pass(timeout);
    let events = stream.events();
    let is_late =
        |event: &Event| matches!(event, Event::Responded { outcome: Outcome::Failed(Failed::TimedOut { .. }), .. });
    assert!(events.len() == 2 && events.iter().all(is_late), "{events:?}");
}

#[test]
fn to_04_a_request_of_the_server_does_not_extend_the_time_to_open_a_connection() {
    let mut harness = HttpClientHarness::client();
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(event(&request("1", "roots/list", "{}"))));
    harness.pass(Duration::from_secs(30));
    assert!(harness.events().iter().any(|event| matches!(event, Event::Unavailable { .. })));
}

#[test]
fn jr_20_a_trace_context_is_repeated_in_headers_in_each_era() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = mcp_proto::TraceContext::new(parent).with_tracestate("a=1").with_baggage("b=2");
    for mut harness in [HttpClientHarness::connected_client(), HttpClientHarness::modern_client()] {
        for (call, expected) in [
            (Call::new("tools/list").trace_context(&trace), [parent, "a=1", "b=2"]),
            (Call::new("tools/list"), [""; 3]),
            (Call::new("tools/list").params(json(r#"{"cursor":"traceparent"}"#)), [""; 3]),
        ] {
            harness.machine.request(call, harness.now).unwrap();
            let opened = harness.opened();
            assert_eq!(["traceparent", "tracestate", "baggage"].map(|name| opened.header(name)), expected);
            let is_in_body = opened.body().contains(&format!(r#""traceparent":"{parent}""#));
            assert_eq!(is_in_body, !expected[0].is_empty(), "{}", opened.body());
        }
    }
    // A relay passes it on unchanged.
    let mut relay = HttpClientHarness::connected_relay();
    relay.line(&request("7", "tools/list", &format!(r#"{{"_meta":{{"traceparent":"{parent}"}}}}"#)));
    assert_eq!(relay.opened().header("traceparent"), parent);
}

/// The connection of an idle server may be closed at the moment at which a request arrives.
#[test]
fn a_request_that_only_reads_is_sent_again_once_when_its_connection_was_closed() {
    let closed = || Failure::Closed { detail: "it closed the connection".into() };
    let with_state = [("resources/read", r#"{"uri":"file:///a","requestState":"s"}"#, false)];
    for (method, params, is_repeated) in REQUESTS.into_iter().chain(with_state) {
        let mut harness = HttpClientHarness::connected_client();
        let (_, first) = harness.call(method, params);
        harness.fail(first.key, closed());
        assert_eq!(harness.has_opened(), is_repeated, "{method}");
        if is_repeated {
            let second = harness.opened();
            assert_eq!(second.body(), first.body());
            harness.fail(second.key, closed());
            assert!(!harness.has_opened(), "{method} a third time");
        }
        assert!(matches!(harness.outcome(), Outcome::Failed(Failed::Broken { .. })), "{method}");
        // The answer has begun, or the failure is another one.
        let (_, opened) = harness.call(method, params);
        harness.begin(opened.key, &Reply::events(""));
        harness.fail(opened.key, closed());
        assert!(!harness.has_opened() && harness.outcomes().len() == 1, "{method}");
        let (_, opened) = harness.call(method, params);
        harness.fail(opened.key, Failure::Broken { detail: "silent".into() });
        assert!(!harness.has_opened() && harness.outcomes().len() == 1, "{method}");
    }
}

#[test]
fn a_cancellation_is_sent_although_its_request_was_never_reported_as_sent() {
    let mut harness = HttpClientHarness::connected_client();
    let (request, call) = harness.request("tools/call");
    harness.machine.cancel(request, None, harness.now);
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::Cancelled));
    assert!(!harness.has_opened(), "BR-T-08: it may not overtake its request");
    // The server has not begun to answer when the exchange is aborted, but it may have received the request.
    harness.pass(Duration::from_secs(6));
    assert!(harness.is_aborted(call.key));
    let notice = harness.opened();
    assert_eq!((notice.method(), notice.param("requestId")), ("notifications/cancelled".into(), call.id()));
}

fn opened(harness: &mut HttpClient) -> Vec<Opened> {
    std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect()
}

/// Answers a client of revision 2025-11-25 until it opens the GET stream of the server.
fn connect(harness: &mut HttpClient) {
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", None));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202));
}

#[test]
fn a_message_that_the_server_begins_to_refuse_is_not_unaccepted_as_well() {
    let mut harness = HttpClientHarness::connected_client();
    harness.machine.notify(Notification::new("notifications/roots/list_changed"), harness.now).unwrap();
    let sent = harness.opened();
    harness.begin(sent.key, &Reply::status(500).content_type("text/plain").body("it "));
    harness.pass(31 * SECOND);
    assert_eq!(harness.events(), [], "the time to accept it is over, but the server has begun to answer");
    assert!(!harness.is_aborted(sent.key));
    harness.send(sent.key, b"is broken");
    harness.end(sent.key);
    let refused = |event: &Event| matches!(event, Event::Faulted(Fault::NotAccepted { reason: Failed::Refused(refusal) }) if refusal.status == 500);
    let events = harness.events();
    assert!(events.len() == 1 && refused(&events[0]), "{events:?}");
    // For comparison, a server that does not respond at all.
    harness.machine.notify(Notification::new("notifications/roots/list_changed"), harness.now).unwrap();
    let sent = harness.opened();
    harness.pass(31 * SECOND);
    let reason = Failed::TimedOut { after: 30 * SECOND };
    assert_eq!(harness.events(), [Event::Faulted(Fault::NotAccepted { reason })]);
    assert!(harness.is_aborted(sent.key));
}

/// A call whose stream ended after an event with an id, and which waits to be resumed.
fn pausing() -> (HttpClient, RequestKey, Opened) {
    let mut harness = HttpClientHarness::connected_client();
    let (request, call) = harness.request("tools/call");
    harness.begin(call.key, &Reply::events("id: 7\ndata:\n\n"));
    harness.end(call.key);
    assert!(harness.events().is_empty() && !harness.has_opened());
    (harness, request, call)
}

#[test]
fn a_call_that_is_cancelled_while_its_stream_waits_to_be_resumed_is_taken_back() {
    let (mut harness, request, call) = pausing();
    harness.machine.cancel(request, Some("enough"), harness.now);
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::Cancelled));
    let notice = harness.opened();
    assert_eq!(notice.method(), "notifications/cancelled");
    assert_eq!((notice.param("requestId"), notice.param("reason")), (call.id(), "\"enough\"".into()));
    harness.reply(notice.key, &Reply::status(202));
    harness.pass(60 * SECOND);
    assert!(!harness.has_opened(), "the stream is not opened again");
    assert_eq!(harness.machine.poll_timeout(), None, "nothing is left behind");
    // The exchange of the call is free again.
    let mut count = 0;
    for _ in 0..60 {
        harness.machine.request(Call::new("tools/call"), harness.now).unwrap();
        count += opened(&mut harness).len();
    }
    assert_eq!(count, 48);
}

#[test]
fn a_stream_whose_resumption_is_answered_with_5xx_is_tried_again() {
    for status in [500, 502, 503, 408, 429] {
        let (mut harness, _, call) = pausing();
        harness.pass(5 * SECOND);
        let resumed = harness.opened();
        assert_eq!((resumed.line().as_str(), resumed.header("last-event-id")), ("GET /mcp", "7"));
        harness.reply(resumed.key, &Reply::status(status));
        assert!(harness.events().is_empty(), "{status}");
        harness.pass(10 * SECOND);
        let resumed = harness.opened();
        assert_eq!(resumed.header("last-event-id"), "7", "{status}");
        harness.reply(resumed.key, &Reply::events(event(&result(&call.id(), CONTENT))));
        assert!(matches!(harness.outcome(), Outcome::Result(_)), "{status}");
    }
    // The number of attempts is limited, and a 400 ends the call at once.
    let (mut harness, ..) = pausing();
    let mut attempts = 0;
    let outcome = loop {
        harness.pass(8 * SECOND);
        for resumed in opened(&mut harness) {
            attempts += 1;
            harness.reply(resumed.key, &Reply::status(503));
        }
        if let Some((_, outcome)) = harness.outcomes().pop_first() {
            break outcome;
        }
    };
    assert!(matches!(outcome, Outcome::Failed(Failed::Refused(refusal)) if refusal.status == 503));
    assert_eq!(attempts, 3);
    let (mut harness, ..) = pausing();
    harness.pass(5 * SECOND);
    let resumed = harness.opened();
    harness.reply(resumed.key, &Reply::status(400));
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::StreamEnded));
}

#[test]
fn a_refusal_whose_body_breaks_off_is_the_outcome() {
    for status in [400, 403, 500, 503] {
        let mut harness = HttpClientHarness::connected_client();
        let (_, call) = harness.request("tools/call");
        let refusal = Reply::status(status).content_type("application/json").body("{\"jsonrpc\":");
        harness.begin(call.key, &refusal);
        assert!(harness.outcomes().is_empty(), "the body may state the reason");
        harness.fail(call.key, mcp_testkit::http_client::broken());
        let outcome = harness.outcome();
        let is_refused = |outcome: &Outcome| matches!(outcome, Outcome::Failed(Failed::Refused(refusal)) if refusal.status == status);
        assert!(is_refused(&outcome), "{status}: {outcome:?}");
    }
}

#[test]
fn a_redirected_resumption_is_read_no_longer_than_its_request_needs() {
    let (mut harness, ..) = pausing();
    harness.pass(5 * SECOND);
    let resumed = harness.opened();
    harness.reply(resumed.key, &Reply::status(307).header("location", "/elsewhere"));
    let redirected = harness.opened();
    assert_eq!((redirected.line().as_str(), redirected.header("last-event-id")), ("GET /elsewhere", "7"));
    harness.pass(60 * SECOND);
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::TimedOut { .. })));
    harness.pass(5 * SECOND);
    assert!(harness.is_aborted(redirected.key));
}

#[test]
fn a_two_endpoint_server_cannot_answer_what_was_not_sent() {
    let mut harness = HttpClientHarness::client_with(|config, http| {
        config.limits.exchanges = 3;
        http.transport = HttpTransport::HttpSse;
    });
    let stream = harness.opened();
    harness.begin(stream.key, &Reply::events("event: endpoint\ndata: /messages\n\n"));
    let first = harness.opened();
    harness.reply(first.key, &Reply::status(202));
    harness.send(stream.key, event(&result(&first.id(), &initialize_result("2024-11-05"))).as_bytes());
    let confirmed = harness.opened();
    harness.reply(confirmed.key, &Reply::status(202));
    let requests: Vec<_> =
        (0..3).map(|_| harness.machine.request(Call::new("tools/call"), harness.now).unwrap()).collect();
    let sent = opened(&mut harness);
    assert_eq!(sent.len(), 2, "one waits");
    harness.events();
    let unsent = sent[1].id().parse::<i64>().unwrap() + 1;
    harness.send(stream.key, event(&result(&unsent.to_string(), CONTENT)).as_bytes());
    assert!(matches!(&harness.events()[..], [Event::Faulted(Fault::UnknownResponse { .. })]));
    harness.reply(sent[0].key, &Reply::status(202));
    let last = harness.opened();
    assert_eq!(last.id(), unsent.to_string());
    harness.reply(last.key, &Reply::status(202));
    harness.send(stream.key, event(&result(&unsent.to_string(), CONTENT)).as_bytes());
    assert_eq!(harness.outcomes().keys().collect::<Vec<_>>(), [&requests[2]]);
}

#[test]
fn a_request_that_was_cancelled_is_not_sent_to_where_a_redirect_leads() {
    let mut harness = HttpClientHarness::connected_client();
    let (request, call) = harness.request("tools/call");
    harness.machine.handle_sent(call.key, harness.now);
    harness.machine.cancel(request, None, harness.now);
    let notice = harness.opened();
    assert_eq!(notice.method(), "notifications/cancelled");
    harness.begin(call.key, &Reply::status(307).header("location", "/other"));
    assert!(!harness.has_opened());
}

#[test]
fn a_quirk_is_reported_once_in_a_connection() {
    let mut harness = HttpClientHarness::connected_client();
    for times in [1, 0] {
        harness.machine.notify(Notification::new("n"), harness.now).unwrap();
        let sent = harness.opened();
        harness.reply(sent.key, &Reply::status(200));
        let quirk = Event::QuirkObserved(Quirk::NotificationNotAccepted202);
        assert_eq!(harness.events().iter().filter(|event| **event == quirk).count(), times);
    }
}

#[test]
fn ht8_an_error_body_over_the_limit_explains_nothing() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.error_body = 200);
    let (request, opened) = harness.request("tools/list");
    let reply = Reply::json(mcp_testkit::messages::error(&opened.id(), -32_602, "m")).with_status(400);
    harness.begin(opened.key, &reply);
    harness.send(opened.key, " ".repeat(200).as_bytes());
    let outcomes = harness.outcomes();
    assert!(matches!(outcomes[&request], Outcome::Failed(Failed::Refused(_))), "{outcomes:?}");
}

#[test]
fn sh_c_15_an_error_that_names_another_request_explains_nothing() {
    for (id, is_explanation) in [("null", true), ("\"server-error\"", true), ("99", false)] {
        let mut harness = HttpClientHarness::connected_client();
        let (_, opened) = harness.request("tools/list");
        harness.reply(opened.key, &Reply::json(mcp_testkit::messages::error(id, -32_602, "m")).with_status(400));
        assert_eq!(matches!(harness.outcome(), Outcome::Error(_)), is_explanation, "{id}");
    }
}

#[test]
fn a_stream_that_cannot_be_opened_for_now_is_tried_ten_times_more() {
    let mut harness = HttpClientHarness::client_with(|_, _| {});
    connect(&mut harness);
    let opened = harness.opened();
    assert_eq!(opened.line(), "GET /mcp");
    harness.events();
    harness.reply(opened.key, &Reply::status(503));
    for attempt in 1..=10 {
        assert_eq!(harness.events(), [], "before attempt {attempt}");
        while !harness.has_opened() {
            harness.pass(SECOND);
        }
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::status(503));
    }
    let events = harness.events();
    assert!(matches!(events[..], [Event::Faulted(Fault::NoServerStream { .. })]), "{events:?}");
    harness.pass(Duration::from_secs(3600));
    assert!(!harness.has_opened());
}

#[test]
fn ev_19_a_message_in_an_event_of_another_type_is_taken_and_met_as_a_quirk() {
    for (name, quirks) in [("message", 0), ("other", 1)] {
        let mut harness = HttpClientHarness::connected_client();
        let (key, opened) = harness.request("tools/list");
        harness.events();
        let text = format!("event: {name}\ndata: {}\n\n", result(&opened.id(), "{}"));
        harness.reply(opened.key, &Reply::events(text));
        let events = harness.events();
        let met = events.iter().filter(|event| matches!(event, Event::QuirkObserved(Quirk::MessageInOtherEvent)));
        assert_eq!(met.count(), quirks, "{name}");
        assert!(events.iter().any(
            |event| matches!(event, Event::Responded { request, outcome: Outcome::Result(_) } if *request == key)
        ));
    }
}

#[test]
fn le_1_streams_of_the_server_are_redirected_as_often_as_the_limit_allows() {
    for transport in [HttpTransport::StreamableHttp, HttpTransport::HttpSse] {
        let mut harness = HttpClientHarness::client_with(|config, http| {
            config.limits.redirects = 2;
            http.transport = transport;
        });
        if transport == HttpTransport::StreamableHttp {
            connect(&mut harness);
        }
        for (from, to) in [("GET /mcp", "/a"), ("GET /a", "/b")] {
            let opened = harness.opened();
            assert_eq!(opened.line(), from);
            harness.reply(opened.key, &Reply::status(307).header("location", to));
        }
        let opened = harness.opened();
        assert_eq!(opened.line(), "GET /b");
        harness.events();
        harness.reply(opened.key, &Reply::status(307).header("location", "/c"));
        assert!(!harness.has_opened());
        let events = harness.events();
        let is_reported = if transport == HttpTransport::HttpSse {
            matches!(events[..], [Event::Unavailable { .. }, ..])
        } else {
            matches!(events[..], [Event::Faulted(Fault::NoServerStream { .. })])
        };
        assert!(is_reported, "{transport:?}: {events:?}");
    }
}

#[test]
fn each_kind_of_error_of_a_connection_has_words() {
    use ErrorKind as E;
    let words_of =
        |error: &io::Error| [Failure::connecting(error), Failure::exchanging(error)].map(|failure| detail(&failure));
    for (kind, words) in [
        (E::ConnectionRefused, "nothing listens there (connection refused)"),
        (E::ConnectionReset, "it reset the connection"),
        (E::ConnectionAborted, "it closed the connection"),
        (E::BrokenPipe, "it closed the connection"),
        (E::UnexpectedEof, "it closed the connection"),
        (E::HostUnreachable, "there is no route to it"),
        (E::NetworkUnreachable, "there is no route to it"),
        (E::NetworkDown, "there is no route to it"),
        (E::TimedOut, "it was silent for too long"),
        (E::WouldBlock, "it was silent for too long"),
    ] {
        assert_eq!(words_of(&io::Error::new(kind, "the words of the system")), [words; 2], "{kind:?}");
    }
    assert_eq!(words_of(&io::Error::other("something else")), ["something else"; 2]);
    let unknown = if cfg!(windows) {
        io::Error::from_raw_os_error(11_001)
    } else {
        io::Error::other("failed to lookup address information: Name or service not known")
    };
    assert_eq!(words_of(&unknown), [detail(&Failure::unknown_host()), detail(&Failure::unknown_host())]);
}

fn detail(failure: &Failure) -> String {
    match failure {
        Failure::Unreachable { detail }
        | Failure::Hopeless { detail }
        | Failure::Broken { detail }
        | Failure::Closed { detail } => detail.to_string(),
        failure => panic!("{failure:?} is new"),
    }
}
