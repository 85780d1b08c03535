//! A client of servers of revision 2026-07-28.

use std::time::Duration;

use mcp_proto::client::{Call, Event, Outcome, Scope};
use mcp_proto::{ErrorObject, Failed, Fault, InvalidResponse, Json, Limits, NoInput, Notification, Quirk, Ticket};
use mcp_testkit::byte_stream::ClientStream;
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, broken};
use mcp_testkit::messages::{complete, error, event, request, result};

type ClientWorld = HttpClientHarness<mcp_proto::Client<mcp_proto::client::Http>>;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

fn asking(capabilities: &'static str) -> ClientWorld {
    HttpClientHarness::modern_client_with(|config, _| config.capabilities = json(capabilities))
}

fn tickets(harness: &mut ClientWorld) -> Vec<Ticket> {
    let ticket = |event| if let Event::Requested { ticket, .. } = event { Some(ticket) } else { None };
    harness.events().into_iter().filter_map(ticket).collect()
}

fn input_required(id: &str, rest: &str) -> Reply {
    Reply::json(result(id, &format!(r#"{{"resultType":"input_required",{rest}}}"#)))
}

const ELICITATION: &str = r#"{"method":"elicitation/create","params":{"message":"?","requestedSchema":{}}}"#;

fn supported(opened: &Opened, versions: &str) -> Reply {
    let error = format!(r#"{{"code":-32022,"message":"no","data":{{"supported":{versions},"requested":"x"}}}}"#);
    Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, opened.id())).with_status(400)
}

#[test]
fn md_m_01_every_request_has_revision_capabilities_and_name_in_body_and_headers() {
    let mut harness =
        HttpClientHarness::detecting_client_with(|config, _| config.capabilities = json(r#"{"roots":{}}"#));
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"tests","version":"1"}"#;
    let discover = harness.opened();
    assert_eq!(discover.param("_meta"), format!("{meta}}}"));
    assert_eq!(discover.header("mcp-protocol-version"), "2026-07-28");
    assert_eq!(discover.header("mcp-method"), "server/discover");
    harness.reply(discover.key, &Reply::json(result("1", mcp_testkit::messages::DISCOVERED)));
    let (_, call) =
        harness.call("tools/call", r#"{"name":"naïve tool","arguments":{"n":1.0},"_meta":{"traceparent":"x"}}"#);
    assert_eq!(call.param("_meta"), format!(r#"{meta},"traceparent":"x"}}"#));
    assert_eq!(call.param("arguments"), r#"{"n":1.0}"#);
    assert_eq!(call.header("mcp-protocol-version"), "2026-07-28");
    assert_eq!(call.header("mcp-method"), "tools/call");
    assert_eq!(call.header("mcp-name"), "=?base64?bmHDr3ZlIHRvb2w=?=");
    for (method, params, name) in [
        ("resources/read", r#"{"uri":"file:///a%20b?id=1"}"#, "file:///a%20b?id=1"),
        ("prompts/get", r#"{"name":"p"}"#, "p"),
        ("tasks/get", r#"{"taskId":"t"}"#, "t"),
        ("tools/list", "{}", ""),
    ] {
        assert_eq!(harness.call(method, params).1.header("mcp-name"), name, "{method}");
    }
    harness.machine.notify(Notification::new("notifications/x"), harness.now).unwrap();
    assert_eq!(harness.opened().header("mcp-method"), "notifications/x");
}

#[test]
fn no_timer_of_a_subscription_is_left_when_it_has_ended() {
    let mut stream = ClientStream::detecting_with(|config| config.capabilities = json(r#"{"roots":{}}"#));
    // Before the revision is known, a request of the server may be one of an older revision.
    stream.line(request("1", "roots/list", "{}"));
    let ticket = stream.events().into_iter().find_map(|event| match event {
        Event::Requested { ticket, .. } => Some(ticket),
        _ => None,
    });
    stream.line(result("1", mcp_testkit::messages::DISCOVERED));
    let subscription = stream.machine.listen(json("{}"), stream.now).unwrap();
    stream.machine.answer(ticket.expect("a request"), Ok(json("{}")), stream.now);
    stream.machine.unlisten(subscription, stream.now);
    stream.drain();
    assert_eq!((stream.machine.load().timers, stream.machine.poll_timeout()), (0, None));
}

#[test]
fn nothing_opens_a_session_or_a_stream_of_the_server() {
    let mut harness = HttpClientHarness::detecting_client();
    let opened = harness.opened();
    let reply = Reply::json(result(&opened.id(), mcp_testkit::messages::DISCOVERED)).header("mcp-session-id", "s");
    harness.reply(opened.key, &reply);
    assert!(!harness.has_opened());
    let (_, opened) = harness.request("tools/list");
    assert_eq!(opened.header("mcp-session-id"), "");
    harness.reply(opened.key, &Reply::json(complete(&opened.id())));
    harness.machine.close(harness.now);
    assert!(!harness.has_opened());
    assert!(harness.machine.is_closed());
}

#[test]
fn rp17_mr5_jr_15_and_16_the_kind_of_a_result_is_read() {
    for (kind, expected) in [
        (r#""resultType":"complete","#, Ok(None)),
        ("", Ok(Some(Quirk::ResultTypeMissing))),
        (r#""resultType":"other","#, Err(InvalidResponse::ResultType)),
        (r#""resultType":7,"#, Err(InvalidResponse::ResultType)),
        (r#""resultType":"input_required","requestState":"s","#, Err(InvalidResponse::InputRequired)),
    ] {
        let mut harness = HttpClientHarness::modern_client();
        let (_, opened) = harness.request("tools/list");
        harness.reply(opened.key, &Reply::json(result(&opened.id(), &format!(r#"{{{kind}"tools":[]}}"#))));
        let mut events = harness.events();
        let Some(Event::Responded { outcome, .. }) = events.pop() else { panic!("{events:?}") };
        match (expected, outcome) {
            (Ok(quirk), Outcome::Result(_)) => assert_eq!(events.pop(), quirk.map(Event::QuirkObserved), "{kind}"),
            (Err(reason), outcome) => {
                assert_eq!(outcome, Outcome::Failed(Failed::InvalidResponse { reason }), "{kind}");
            }
            (Ok(_), outcome) => panic!("{kind}: {outcome:?}"),
        }
    }
    // A client that declares an extension accepts the extension's kinds of results.
    let mut harness = asking(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    let (_, opened) = harness.call("tools/call", r#"{"name":"slow"}"#);
    let task = r#"{"resultType":"task","taskId":"7"}"#;
    harness.reply(opened.key, &Reply::json(result(&opened.id(), task)));
    assert_eq!(harness.outcome(), Outcome::Result(json(task)));
}

#[test]
fn cx_07_closing_the_exchange_is_the_cancellation() {
    for has_begun in [false, true] {
        let mut harness = HttpClientHarness::modern_client();
        let (request, opened) = harness.request("tools/call");
        if has_begun {
            harness.begin(opened.key, &Reply::events(": here\n\n"));
        }
        harness.machine.cancel(request, Some("enough"), harness.now);
        assert!(harness.is_aborted(opened.key));
        assert!(!harness.has_opened());
        assert_eq!(harness.outcome(), Outcome::Failed(Failed::Cancelled));
    }
    let mut harness = HttpClientHarness::modern_client();
    let (_, opened) = harness.request("tools/call");
    harness.pass(Duration::from_secs(60));
    assert!(harness.is_aborted(opened.key) && !harness.has_opened());
}

#[test]
fn h1_a_stream_that_ends_is_not_resumed() {
    let mut harness = HttpClientHarness::modern_client();
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events("id: 1\ndata:\n\n"));
    harness.end(opened.key);
    assert!(!harness.has_opened());
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::StreamEnded));
}

#[test]
fn rules_0_1_a_request_of_the_server_is_neither_served_nor_answered() {
    let mut harness = asking(r#"{"roots":{}}"#);
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events(event(&request("7", "roots/list", "{}"))));
    assert!(matches!(&harness.events()[..], [Event::Faulted(Fault::UnexpectedRequest { .. })]));
    assert!(!harness.has_opened());
}

#[test]
fn md_v_02_a_refused_revision_is_tried_again_once_if_both_support_it() {
    let mut harness = HttpClientHarness::modern_client();
    let (_, opened) = harness.request("tools/call");
    harness.reply(opened.key, &supported(&opened, r#"["2026-07-28"]"#));
    let again = harness.opened();
    assert_ne!(again.id(), opened.id());
    harness.reply(again.key, &supported(&again, r#"["2026-07-28"]"#));
    assert!(!harness.has_opened());
    assert!(matches!(harness.outcome(), Outcome::Error(error) if error.code() == -32022));
    let (_, opened) = harness.request("tools/call");
    harness.reply(opened.key, &supported(&opened, r#"["2027-01-01"]"#));
    assert!(matches!(harness.outcome(), Outcome::Error(_)));
}

#[test]
fn mr4_md_i_05_to_09_a_call_that_needs_input_is_made_again_with_it() {
    let mut harness = asking(r#"{"elicitation":{},"roots":{}}"#);
    let (key, opened) = harness.call("tools/call", r#"{"name":"t","arguments":{"n":1.0}}"#);
    let state = r#""a\u0062\/ ""#;
    let rest = format!(
        r#""inputRequests":{{"na\"me":{ELICITATION},"roots":{{"method":"roots/list"}}}},"requestState":{state}"#
    );
    harness.reply(opened.key, &input_required(&opened.id(), &rest));
    let mut asked = Vec::new();
    for event in harness.events() {
        let Event::Requested { ticket, scope, method, params } = event else { panic!("{event:?}") };
        assert_eq!(scope, Scope::Request(key));
        assert_eq!(params.is_some(), method.as_str() == "elicitation/create");
        asked.push(ticket);
    }
    // Another call that is made meanwhile does not contain the input of this one.
    let (_, other) = harness.call("tools/call", r#"{"name":"other"}"#);
    assert_eq!((other.param("inputResponses"), other.param("requestState")), (String::new(), String::new()));
    harness.machine.answer(asked.pop().unwrap(), Ok(json(r#"{"roots":[]}"#)), harness.now);
    assert!(!harness.has_opened());
    harness.machine.answer(asked.pop().unwrap(), Ok(json(r#"{"action":"accept"}"#)), harness.now);
    let again = harness.opened();
    assert_ne!(again.id(), opened.id());
    assert_eq!(again.param("arguments"), r#"{"n":1.0}"#);
    assert_eq!(again.param("inputResponses"), r#"{"na\"me":{"action":"accept"},"roots":{"roots":[]}}"#);
    assert_eq!(again.param("requestState"), state);
    assert_eq!((again.header("mcp-name"), again.header("mcp-method")), ("t", "tools/call"));
    // The next round is independent: it has no state, and no answers of the previous round.
    harness.reply(again.key, &input_required(&again.id(), &format!(r#""inputRequests":{{"x":{ELICITATION}}}"#)));
    let ticket = tickets(&mut harness).pop().unwrap();
    harness.machine.answer(ticket, Ok(json("{}")), harness.now);
    let last = harness.opened();
    assert_eq!((last.param("inputResponses"), last.param("requestState")), (r#"{"x":{}}"#.to_owned(), String::new()));
    harness.reply(last.key, &Reply::json(complete(&last.id())));
    assert!(matches!(harness.outcomes().remove(&key), Some(Outcome::Result(_))));
}

#[test]
fn mr3_md_i_06_a_state_alone_is_sent_back_after_a_growing_pause_and_not_for_ever() {
    let mut harness = HttpClientHarness::modern_client();
    let (_, mut opened) = harness.request("resources/read");
    for round in 0..10 {
        harness.reply(opened.key, &input_required(&opened.id(), r#""requestState":"s""#));
        assert!(!harness.has_opened());
        harness.pass(Duration::from_millis(250 << round.min(5)));
        opened = harness.opened();
        assert_eq!(opened.param("requestState"), r#""s""#);
    }
    harness.reply(opened.key, &input_required(&opened.id(), r#""requestState":"s""#));
    let reason = NoInput::TooManyRounds { limit: 10 };
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::NoInput { reason }));
}

#[test]
fn mr2_the_input_and_the_state_that_a_server_requires_are_bounded() {
    // A state as large as a message may be is kept once and sent back unchanged.
    let mut harness = asking(r#"{"roots":{}}"#);
    let (_, opened) = harness.request("prompts/get");
    let state = "s".repeat(15 << 20);
    harness.reply(opened.key, &input_required(&opened.id(), &format!(r#""requestState":"{state}""#)));
    harness.pass(Duration::from_millis(250));
    assert!(harness.opened().param("requestState").len() == state.len() + 2);
    // A larger state fails the call.
    let mut harness = asking(r#"{"roots":{}}"#);
    let (_, opened) = harness.request("prompts/get");
    let state = "s".repeat(16 << 20);
    harness.reply(opened.key, &input_required(&opened.id(), &format!(r#""requestState":"{state}""#)));
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::TooLarge { .. })));
    // A result that requires more inputs than the limits allow at one time fails the call.
    let mut harness = asking(r#"{"roots":{}}"#);
    let (_, opened) = harness.request("prompts/get");
    let inputs: Vec<_> = (0..10_000).map(|number| format!(r#""{number}":{{"method":"roots/list"}}"#)).collect();
    let inputs = format!(r#""inputRequests":{{{}}}"#, inputs.join(","));
    harness.reply(opened.key, &input_required(&opened.id(), &inputs));
    let reason = NoInput::TooMuch { limit: Limits::default().requests_in };
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::NoInput { reason }));
}

#[test]
fn mr2_md_i_02_and_03_malformed_requests_for_input_fail_the_call() {
    for rest in [
        r#""x":1"#,
        r#""inputRequests":[]"#,
        r#""inputRequests":{},"requestState":7"#,
        r#""inputRequests":{"a":{}}"#,
        r#""inputRequests":{"a":{"method":"tools/call"}}"#,
        r#""inputRequests":{"a":{"method":"roots/list","params":[]}}"#,
        r#""inputRequests":{"a":{"method":"roots/list"},"\u0061":{"method":"roots/list"}}"#,
    ] {
        let mut harness = asking(r#"{"roots":{}}"#);
        let (_, opened) = harness.request("prompts/get");
        harness.reply(opened.key, &input_required(&opened.id(), rest));
        let reason = InvalidResponse::InputRequired;
        assert_eq!(harness.outcome(), Outcome::Failed(Failed::InvalidResponse { reason }), "{rest}");
    }
}

#[test]
fn md_i_04_and_10_a_call_ends_where_its_input_is_not_given() {
    let both = format!(r#""inputRequests":{{"a":{ELICITATION},"b":{ELICITATION}}}"#);
    let mut harness = HttpClientHarness::modern_client();
    let (_, opened) = harness.request("tools/call");
    harness.reply(opened.key, &input_required(&opened.id(), &both));
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::NoInput { reason: NoInput::NotDeclared }));

    let mut harness = asking(r#"{"elicitation":{}}"#);
    let (_, opened) = harness.request("tools/call");
    harness.reply(opened.key, &input_required(&opened.id(), &both));
    let mut asked = tickets(&mut harness);
    let (left, refused) = (asked.pop().unwrap(), asked.pop().unwrap());
    harness.machine.answer(refused, Err(ErrorObject::new(-32603, "no user is present")), harness.now);
    let events = harness.events();
    let [Event::RequestCancelled { ticket, .. }, Event::Responded { outcome, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(*ticket, left.key());
    assert_eq!(*outcome, Outcome::Failed(Failed::NoInput { reason: NoInput::Refused { code: -32603 } }));
    harness.machine.answer(left, Ok(json("{}")), harness.now);
    assert!(!harness.has_opened() && harness.events().is_empty());
}

#[test]
fn to_04_the_timeout_of_a_call_pauses_while_input_is_required() {
    let mut harness = asking(r#"{"elicitation":{}}"#);
    let (key, opened) = harness.request("tools/call");
    harness.pass(Duration::from_secs(50));
    harness.reply(opened.key, &input_required(&opened.id(), &format!(r#""inputRequests":{{"a":{ELICITATION}}}"#)));
    harness.pass(Duration::from_secs(300));
    let ticket = tickets(&mut harness).pop().unwrap();
    harness.machine.answer(ticket, Ok(json("{}")), harness.now);
    let again = harness.opened();
    harness.pass(Duration::from_secs(59));
    assert!(harness.outcomes().is_empty());
    harness.machine.cancel(key, None, harness.now);
    assert!(harness.is_aborted(again.key));
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::Cancelled));
}

#[test]
fn a_call_can_be_cancelled_while_input_is_required() {
    let mut harness = asking(r#"{"elicitation":{}}"#);
    let (key, opened) = harness.request("tools/call");
    harness.reply(opened.key, &input_required(&opened.id(), &format!(r#""inputRequests":{{"a":{ELICITATION}}}"#)));
    let ticket = tickets(&mut harness).pop().unwrap();
    harness.machine.cancel(key, None, harness.now);
    assert!(matches!(&harness.events()[..], [Event::RequestCancelled { .. }, Event::Responded { .. }]));
    harness.machine.answer(ticket, Ok(json("{}")), harness.now);
    assert!(!harness.has_opened());
    assert_eq!(harness.machine.requests_in_flight(), 0);
}

const TOOLS: &str = r#"{"resultType":"complete","tools":[{"name":"bad","inputSchema":{"properties":{"a":{"type":"null","x-mcp-header":"A"}}}},{"name":"t","inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}"#;

#[test]
fn hm6_md_p_05_and_06_arguments_are_repeated_as_tools_declare_and_invalid_tools_are_removed() {
    let mut harness = HttpClientHarness::modern_client();
    let (_, opened) = harness.request("tools/list");
    harness.reply(opened.key, &Reply::json(result(&opened.id(), TOOLS)));
    let events = harness.events();
    let [Event::Faulted(Fault::InvalidTool { tool, .. }), Event::Responded { outcome, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(&**tool, "bad");
    let Outcome::Result(list) = outcome else { panic!("{outcome:?}") };
    assert!(list.to_text().starts_with(r#"{"resultType":"complete","tools":[{"name":"t","#));
    for (arguments, header) in [(r#"{"region":" x"}"#, "=?base64?IHg=?="), (r#"{"region":null}"#, "")] {
        let (_, call) = harness.call("tools/call", &format!(r#"{{"name":"t","arguments":{arguments}}}"#));
        assert_eq!(call.header("mcp-param-region"), header);
    }
}

#[test]
fn md_p_12_after_a_mismatch_the_list_is_fetched_and_the_call_made_once_more() {
    for succeeds in [true, false] {
        let mut harness = HttpClientHarness::modern_client();
        let (_, call) = harness.call("tools/call", r#"{"name":"t","arguments":{"region":"eu"}}"#);
        assert_eq!(call.header("mcp-param-region"), "");
        let mismatch = |opened: &Opened| Reply::json(error(&opened.id(), -32020, "no")).with_status(400);
        harness.reply(call.key, &mismatch(&call));
        let first = harness.opened();
        assert_eq!(first.method(), "tools/list");
        let page = r#"{"resultType":"complete","tools":[],"nextCursor":"2"}"#;
        harness.reply(first.key, &Reply::json(result(&first.id(), page)));
        let second = harness.opened();
        assert_eq!(second.param("cursor"), r#""2""#);
        harness.reply(second.key, &Reply::json(result(&second.id(), TOOLS)));
        let again = harness.opened();
        assert_eq!((again.method().as_str(), again.header("mcp-param-region")), ("tools/call", "eu"));
        let reply = if succeeds { Reply::json(complete(&again.id())) } else { mismatch(&again) };
        harness.reply(again.key, &reply);
        assert!(!harness.has_opened());
        assert_eq!(matches!(harness.outcome(), Outcome::Result(_)), succeeds);
    }
}

const FILTER: &str = r#"{"toolsListChanged":true,"resourceSubscriptions":["a"]}"#;

fn notice(id: &str, method: &str, params: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}{params}}}}}"#
    )
}

fn acknowledged(id: &str) -> String {
    notice(id, "notifications/subscriptions/acknowledged", r#","notifications":{"toolsListChanged":true}"#)
}

#[test]
fn md_l_a_subscription_is_acknowledged_delivers_changes_and_ends_with_a_result() {
    let mut harness = HttpClientHarness::modern_client();
    let key = harness.machine.listen(json(FILTER), harness.now).unwrap();
    let opened = harness.opened();
    assert_eq!((opened.method().as_str(), opened.param("notifications").as_str()), ("subscriptions/listen", FILTER));
    harness.begin(opened.key, &Reply::events(event(&acknowledged(&opened.id()))));
    let filter = json(r#"{"toolsListChanged":true}"#);
    assert_eq!(harness.events(), [Event::Listening { subscription: key, filter }]);
    harness.send(opened.key, event(&notice(&opened.id(), "notifications/tools/list_changed", "")).as_bytes());
    assert!(matches!(&harness.events()[..], [Event::Notified { scope: Scope::Subscription(of), .. }] if *of == key));
    // A subscription has no deadline as long as comments keep its stream alive (MD-L-13).
    for _ in 0..100 {
        harness.pass(Duration::from_secs(200));
        harness.send(opened.key, b":\n\n");
    }
    harness.send(opened.key, event(&complete(&opened.id())).as_bytes());
    let events = harness.events();
    assert!(matches!(&events[..], [Event::ListeningEnded { outcome: Outcome::Result(_), .. }]), "{events:?}");
    assert_eq!(harness.machine.requests_in_flight(), 0);
}

#[test]
fn md_l_08_unlistening_closes_the_exchange() {
    let mut harness = HttpClientHarness::modern_client();
    let key = harness.machine.listen(json(FILTER), harness.now).unwrap();
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(event(&acknowledged(&opened.id()))));
    harness.events();
    harness.machine.unlisten(key, harness.now);
    assert!(harness.is_aborted(opened.key) && !harness.has_opened());
    let outcome = Outcome::Failed(Failed::Cancelled);
    assert_eq!(harness.events(), [Event::ListeningEnded { subscription: key, outcome }]);
    harness.machine.unlisten(key, harness.now);
    assert!(harness.events().is_empty());
}

#[test]
fn md_l_11_a_lost_subscription_is_opened_again_with_growing_pauses() {
    let mut harness = HttpClientHarness::modern_client();
    let key = harness.machine.listen(json(FILTER), harness.now).unwrap();
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(event(&acknowledged(&opened.id()))));
    harness.events();
    harness.end(opened.key);
    assert!(matches!(&harness.events()[..], [Event::ListeningInterrupted { reason: Failed::StreamEnded, .. }]));
    for _ in 0..3 {
        assert!(!harness.has_opened());
        harness.pass(Duration::from_secs(10));
        let opened = harness.opened();
        assert_eq!(opened.param("notifications"), FILTER);
        harness.fail(opened.key, broken());
        assert!(
            matches!(&harness.events()[..], [Event::ListeningInterrupted { subscription, .. }] if *subscription == key)
        );
    }
    harness.pass(Duration::from_secs(30));
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(event(&acknowledged(&opened.id()))));
    assert!(matches!(&harness.events()[..], [Event::Listening { subscription, .. }] if *subscription == key));
    harness.machine.close(harness.now);
    assert!(
        harness
            .events()
            .contains(&Event::ListeningEnded { subscription: key, outcome: Outcome::Failed(Failed::Closed) })
    );
}

#[test]
fn a_subscription_that_is_refused_or_not_acknowledged_has_ended() {
    let mut harness = HttpClientHarness::modern_client();
    harness.machine.listen(json(FILTER), harness.now).unwrap();
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::json(error(&opened.id(), -32601, "no")).with_status(404));
    assert!(matches!(&harness.events()[..], [Event::ListeningEnded { outcome: Outcome::Error(_), .. }]));
    harness.machine.listen(json(FILTER), harness.now).unwrap();
    let opened = harness.opened();
    harness.begin(opened.key, &Reply::events(":\n\n"));
    harness.pass(Duration::from_secs(61));
    assert!(harness.is_aborted(opened.key));
    let events = harness.events();
    let timed_out = Failed::TimedOut { after: Duration::from_secs(60) };
    assert!(
        matches!(&events[..], [Event::ListeningEnded { outcome: Outcome::Failed(reason), .. }] if *reason == timed_out)
    );
}

#[test]
fn a_legacy_server_has_no_subscriptions_of_that_kind() {
    let mut harness = HttpClientHarness::connected_client();
    assert!(harness.machine.listen(json(FILTER), harness.now).is_err());
    assert!(harness.machine.request(Call::new("subscriptions/listen"), harness.now).is_err());
}

#[test]
fn st_input_subscriptions_and_cancellation_on_a_byte_stream() {
    let mut stream = ClientStream::modern_with(|config| config.capabilities = json(r#"{"roots":{}}"#));
    // On a byte stream, a cancellation is a `notifications/cancelled` message (CX-06).
    let (request, id) = stream.request("tools/call");
    stream.machine.cancel(request, None, stream.now);
    let cancelled = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    assert_eq!(stream.lines(), [cancelled]);
    stream.line(complete(&id));
    let (outcomes, others) = stream.outcomes();
    assert_eq!(outcomes, [(request, Outcome::Failed(Failed::Cancelled))]);
    assert!(matches!(&others[..], [Event::Faulted(Fault::LateResponse { .. })]));
    // The call is made again with the input that the result required (MD-I-05).
    let (request, id) = stream.request("tools/call");
    stream.line(result(&id, r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}"#));
    let Some(Event::Requested { ticket, .. }) = stream.events().pop() else { panic!() };
    stream.machine.answer(ticket, Ok(json("{}")), stream.now);
    let line = stream.lines().pop().unwrap();
    assert!(line.contains(r#""inputResponses":{"r":{}}"#), "{line}");
    let again = line.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned();
    assert_ne!(again, id);
    stream.line(complete(&id));
    assert!(matches!(&stream.events()[..], [Event::Faulted(Fault::UnknownResponse { .. })]));
    stream.line(complete(&again));
    assert!(matches!(&stream.outcomes().0[..], [(key, Outcome::Result(_))] if *key == request));
    // The server ends a subscription with `notifications/cancelled` (MD-L-10, A6).
    let key = stream.machine.listen(json(FILTER), stream.now).unwrap();
    let line = stream.lines().pop().unwrap();
    let id = line.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned();
    stream.line(acknowledged(&id));
    stream.line(notice(&id, "notifications/resources/updated", r#","uri":"a""#));
    stream.line(format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#));
    let events = stream.events();
    let [Event::Listening { .. }, Event::Notified { scope, .. }, Event::ListeningEnded { outcome, .. }] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*scope, Scope::Subscription(key));
    assert_eq!(*outcome, Outcome::Failed(Failed::EndedByServer));
    assert!(stream.lines().is_empty());
    stream.eof();
    assert_eq!(stream.machine.requests_in_flight(), 0);
}

#[test]
fn jr_15_a_call_may_become_a_task_only_if_it_declares_the_extension() {
    let task = r#"{"resultType":"task","taskId":"t","status":"working"}"#;
    let capabilities = |opened: &Opened| {
        json(&opened.param("_meta")).first_member("io.modelcontextprotocol/clientCapabilities").expect("capabilities")
    };
    for (with_tasks, declared) in
        [(false, r#"{"roots":{}}"#), (true, r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"roots":{}}"#)]
    {
        let mut harness = asking(r#"{"roots":{}}"#);
        let call = Call::new("tools/call").params(json(r#"{"name":"a"}"#));
        let call = if with_tasks { call.with_tasks() } else { call };
        let request = harness.machine.request(call, harness.now).unwrap();
        let opened = harness.opened();
        assert_eq!(capabilities(&opened), json(declared));
        // The extension is declared again when the call is sent again.
        let required = r#""inputRequests":{"a":{"method":"roots/list"}}"#;
        harness.reply(opened.key, &input_required(&opened.id(), required));
        let ticket = tickets(&mut harness).pop().expect("a request for input");
        harness.machine.answer(ticket, Ok(json(r#"{"roots":[]}"#)), harness.now);
        let opened = harness.opened();
        assert_eq!(capabilities(&opened), json(declared));
        harness.reply(opened.key, &Reply::json(result(&opened.id(), task)));
        let events = harness.events();
        let is_result = events.iter().any(
            |event| matches!(event, Event::Responded { request: of, outcome: Outcome::Result(_) } if *of == request),
        );
        assert_eq!(is_result, with_tasks, "{events:?}");
        // A task has no content, which is no deviation.
        assert!(!events.iter().any(|event| matches!(event, Event::QuirkObserved(_))), "{events:?}");
    }
}

#[test]
fn md_p_12_pages_of_tools_are_fetched_up_to_a_bound() {
    let mut harness = HttpClientHarness::modern_client();
    let (_, opened) = harness.call("tools/call", r#"{"name":"x"}"#);
    harness.reply(opened.key, &Reply::json(mcp_testkit::messages::error(&opened.id(), -32_020, "m")).with_status(400));
    for page in 0..32 {
        let opened = harness.opened();
        assert_eq!(opened.method(), "tools/list", "page {page}");
        let page = r#"{"resultType":"complete","tools":[],"nextCursor":"more"}"#;
        harness.reply(opened.key, &Reply::json(result(&opened.id(), page)));
    }
    assert_eq!(harness.opened().method(), "tools/call", "the call is made again with what is known");
}
