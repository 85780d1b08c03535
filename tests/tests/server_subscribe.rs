//! Subscriptions to resources: `resources/subscribe` in sessions, and `subscriptions/listen` (B22, RULES 8.7, LC-18).

use mcp_proto::server::{
    ChangeNotification, Config, Event, HmacKey, Principal, SealedSessions, SessionMode, StateKeys, SubscriptionChange,
};
use mcp_proto::{ErrorObject, Fault, Json, Notification};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::http_client::HttpClientHarness;
use mcp_testkit::http_exchange::{TestRequest, modern};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{error, request, result};

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

fn declared(config: &mut Config) {
    config.capabilities = json(r#"{"resources":{"subscribe":true}}"#);
}

fn handed_up(config: &mut Config) {
    declared(config);
    config.reports_subscribe = true;
}

fn updated(uri: &str) -> Notification {
    Notification::with_params("notifications/resources/updated", Json::empty_object().with_member("uri", &uri.into()))
}

fn uri(uri: &str) -> String {
    format!(r#"{{"uri":"{uri}"}}"#)
}

/// The answer to a request of the client.
fn answer(stream: &mut ServerStream, method: &str, params: &str) -> String {
    stream.line(request("1", method, params));
    let mut lines = stream.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

/// How many lines report a change of this resource.
fn updates(stream: &mut ServerStream, uri: &str) -> usize {
    stream.machine.publish(updated(uri), stream.now).expect("it is declared");
    stream.lines().len()
}

fn changes(mut next: impl FnMut() -> Option<SubscriptionChange>) -> Vec<String> {
    let text = |change| match change {
        SubscriptionChange::Subscribed(uri) => format!("+{uri}"),
        SubscriptionChange::Unsubscribed(uri) => format!("-{uri}"),
    };
    std::iter::from_fn(|| next().map(text)).collect()
}

fn changes_of(stream: &mut ServerStream) -> Vec<String> {
    changes(|| stream.machine.poll_subscription())
}

#[test]
fn the_machine_answers_subscriptions_in_a_session() {
    for version in LEGACY {
        let mut stream = ServerStream::ready_with(version, declared);
        for params in ["{}", r#"{"uri":1}"#, r#"{"uri":null}"#] {
            for method in ["resources/subscribe", "resources/unsubscribe"] {
                let answer = answer(&mut stream, method, params);
                assert!(answer.contains("\"code\":-32602"), "{version} {params}: {answer}");
            }
        }
        // A second subscription to a resource has no further effect.
        for _ in 0..2 {
            assert_eq!(answer(&mut stream, "resources/subscribe", &uri("a:b")), result("1", "{}"), "{version}");
        }
        assert_eq!((updates(&mut stream, "a:b"), updates(&mut stream, "a:c")), (1, 0), "{version}");
        assert_eq!(changes_of(&mut stream), ["+a:b"], "{version}");
        for _ in 0..2 {
            assert_eq!(answer(&mut stream, "resources/unsubscribe", &uri("a:b")), result("1", "{}"), "{version}");
        }
        assert_eq!(updates(&mut stream, "a:b"), 0, "{version}");
        assert_eq!(changes_of(&mut stream), ["-a:b"], "{version}");
        let events = stream.events();
        assert!(events.is_empty(), "no request and no fault reaches the application: {events:?}");
    }
}

#[test]
fn md_v_05_subscriptions_do_not_exist_unless_they_are_declared() {
    for capabilities in ["{}", r#"{"resources":{}}"#, r#"{"resources":{"subscribe":false}}"#] {
        let mut stream = ServerStream::ready_with("2025-11-25", |config| config.capabilities = json(capabilities));
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            let answer = answer(&mut stream, method, &uri("a:b"));
            assert!(answer.contains("\"code\":-32601"), "{capabilities}: {answer}");
        }
        assert!(stream.events().is_empty() && changes_of(&mut stream).is_empty());
    }
}

#[test]
fn md_l_14_a_subscription_that_cannot_be_kept_is_refused() {
    let mut stream = ServerStream::ready_with("2025-03-26", declared);
    let refused = error("1", -32603, &ErrorObject::too_many_subscriptions().message());
    // A client may have 512 subscriptions, and 32 KiB of URIs.
    for number in 0..512 {
        assert_eq!(answer(&mut stream, "resources/subscribe", &uri(&format!("a:{number}"))), result("1", "{}"));
    }
    assert!(stream.events().is_empty());
    assert_eq!(answer(&mut stream, "resources/subscribe", &uri("b")), refused);
    assert!(matches!(&stream.events()[..], [Event::Faulted(Fault::TooManySubscriptions)]));
    assert_eq!(updates(&mut stream, "b"), 0);
    // A subscription that exists can be made again, also in a batch, and one that ends makes room.
    stream.line(format!(
        "[{},{}]",
        request("1", "resources/subscribe", &uri("a:0")),
        request("1", "resources/subscribe", &uri("b"))
    ));
    assert_eq!(stream.lines(), [format!("[{},{refused}]", result("1", "{}"))]);
    answer(&mut stream, "resources/unsubscribe", &uri("a:0"));
    assert_eq!(answer(&mut stream, "resources/subscribe", &uri("b")), result("1", "{}"));
    assert_eq!((updates(&mut stream, "b"), updates(&mut stream, "a:0")), (1, 0));

    let mut stream = ServerStream::ready_with("2025-11-25", declared);
    let long = "x".repeat(32 * 1024 - 1);
    assert_eq!(answer(&mut stream, "resources/subscribe", &uri(&long)), result("1", "{}"));
    assert_eq!(answer(&mut stream, "resources/subscribe", &uri("ab")), refused);
    assert_eq!(answer(&mut stream, "resources/subscribe", &uri("a")), result("1", "{}"));
    answer(&mut stream, "resources/unsubscribe", &uri(&long));
    assert_eq!(answer(&mut stream, "resources/subscribe", &uri(&long[1..])), result("1", "{}"));
    assert_eq!(answer(&mut stream, "resources/subscribe", &uri("bc")), refused);
}

#[test]
fn an_application_may_refuse_subscriptions() {
    let mut stream = ServerStream::ready_with("2025-11-25", handed_up);
    stream.line(request("1", "resources/subscribe", &uri("a:b")));
    let ticket = stream.requested().pop().expect("a request");
    let no = ErrorObject::new(-32002, "Resource not found");
    stream.machine.respond(ticket, Err(no), stream.now).expect("a code of the application's");
    assert_eq!(stream.lines(), [error("1", -32002, "Resource not found")]);
    assert_eq!((updates(&mut stream, "a:b"), changes_of(&mut stream).len()), (0, 0));
    for number in 0..513 {
        stream.line(request("1", "resources/subscribe", &uri(&format!("a:{number}"))));
        let ticket = stream.requested().pop().expect("a request");
        stream.machine.respond(ticket, Ok(json(r#"{"_meta":{}}"#)), stream.now).expect("a result");
        let answer = stream.lines().remove(0);
        let expected = if number < 512 { r#"{"_meta":{}}"# } else { "too many subscriptions" };
        assert!(answer.contains(expected), "{number}: {answer}");
    }
    assert_eq!((updates(&mut stream, "a:511"), updates(&mut stream, "a:512")), (1, 0));
    stream.line(request("1", "resources/unsubscribe", &uri("a:511")));
    let ticket = stream.requested().pop().expect("a request");
    stream.machine.respond(ticket, Ok(Json::empty_object()), stream.now).expect("a result");
    stream.lines();
    assert_eq!(updates(&mut stream, "a:511"), 0);
}

#[test]
fn sessions_over_http_have_subscriptions_of_their_own() {
    let mut http_server = HttpServerHarness::with(|_, config| declared(config));
    let [first, second] = [http_server.session("2025-06-18"), http_server.session("2025-11-25")];
    let subscribe = |http_server: &mut HttpServerHarness, session: &str, method: &str, name: &str| {
        let sent = http_server.answer(&TestRequest::post(request("1", method, &uri(name))).in_session(session));
        assert_eq!((sent.code(), sent.text()), (200, result("1", "{}")));
    };
    subscribe(&mut http_server, &first, "resources/subscribe", "a:b");
    subscribe(&mut http_server, &second, "resources/subscribe", "c:d");
    let streams = [&first, &second].map(|id| http_server.ask(&TestRequest::get().in_session(id)));
    for name in ["a:b", "c:d", "e:f"] {
        http_server.server.publish(updated(name), http_server.now).expect("it is declared");
    }
    for (stream, name) in streams.into_iter().zip(["a:b", "c:d"]) {
        let data = http_server.take(stream).data();
        assert!(data.len() == 1 && data[0].contains(name), "{data:?}");
    }
    assert_eq!(changes(|| http_server.server.poll_subscription()), ["+a:b", "+c:d"]);
    // A second subscription to a resource is not reported, and neither is the end of one of two.
    subscribe(&mut http_server, &second, "resources/subscribe", "a:b");
    assert!(http_server.answer(&TestRequest::new("DELETE", "").in_session(&first)).code() / 100 == 2);
    assert!(changes(|| http_server.server.poll_subscription()).is_empty());
    subscribe(&mut http_server, &second, "resources/unsubscribe", "a:b");
    assert_eq!(changes(|| http_server.server.poll_subscription()), ["-a:b"]);
    // However a session ends, its subscriptions end with it.
    http_server.server.handle_disconnect(streams[1], http_server.now);
    http_server.pass(std::time::Duration::from_secs(3600));
    assert_eq!(http_server.server.sessions(), 0);
    assert_eq!(changes(|| http_server.server.poll_subscription()), ["-c:d"]);
    assert!(http_server.events().iter().all(|event| !matches!(event, Event::Requested { .. })));
}

#[test]
fn subscriptions_of_both_eras_are_reported_alike() {
    let mut stream = ServerStream::server_with(declared);
    stream.line(mcp_testkit::messages::initialize("0", "2025-11-25"));
    let listen = |id: &str, uris: &str| {
        modern(id, "subscriptions/listen", &format!(r#""notifications":{{"resourceSubscriptions":{uris}}},"#))
    };
    stream.line(listen("1", r#"["a:1","a:2","a:2"]"#));
    stream.line(request("2", "resources/subscribe", &uri("a:2")));
    stream.line(listen("3", r#"["a:3"]"#));
    assert_eq!(changes_of(&mut stream), ["+a:1", "+a:2", "+a:3"]);
    let cancel =
        |id: &str| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    stream.line(cancel("1"));
    assert_eq!(changes_of(&mut stream), ["-a:1"]);
    // Changes do not accumulate if the application does not poll them.
    for _ in 0..1000 {
        stream.line(request("4", "resources/unsubscribe", &uri("a:2")));
        stream.line(request("4", "resources/subscribe", &uri("a:2")));
    }
    assert!(changes_of(&mut stream).is_empty());
    stream.eof();
    assert_eq!(changes_of(&mut stream), ["-a:2", "-a:3"]);

    // Over HTTP, a subscription of the modern era ends with its exchange.
    let mut http_server = HttpServerHarness::with(|_, config| declared(config));
    let listening = http_server
        .ask(&TestRequest::post(listen("1", r#"["a:1"]"#)).repeating_headers("2026-07-28", "subscriptions/listen"));
    assert_eq!(changes(|| http_server.server.poll_subscription()), ["+a:1"]);
    http_server.server.handle_disconnect(listening, http_server.now);
    assert_eq!(changes(|| http_server.server.poll_subscription()), ["-a:1"]);
    // Without the capability, a subscription is not honoured and therefore not reported.
    let mut http_server = HttpServerHarness::new();
    http_server
        .ask(&TestRequest::post(listen("1", r#"["a:1"]"#)).repeating_headers("2026-07-28", "subscriptions/listen"));
    assert!(changes(|| http_server.server.poll_subscription()).is_empty());
}

#[test]
fn a_relay_leaves_subscriptions_to_its_server() {
    let mut harness = HttpClientHarness::connected_relay();
    for (method, answer) in [("resources/subscribe", r#"{"of":"the server"}"#), ("resources/unsubscribe", "{}")] {
        harness.line(&request("1", method, &uri("a:b")));
        let opened = harness.opened();
        assert_eq!((opened.method().as_str(), opened.param("uri").as_str()), (method, "\"a:b\""));
        assert!(harness.lines().is_empty(), "it waits for the server");
        harness.reply(opened.key, &mcp_testkit::http_client::Reply::json(result(&opened.id(), answer)));
        assert_eq!(harness.lines(), [result("1", answer)]);
    }
}

#[test]
fn se_10_a_change_for_one_principal_reaches_only_its_subscriptions_and_no_session() {
    const PRINCIPALS: [Option<&str>; 3] = [Some("ada"), Some("eve"), None];
    let by = |asked: TestRequest, principal: Option<&str>| match principal {
        Some(principal) => asked.by(principal),
        None => asked,
    };
    let sealed = SealedSessions::new(StateKeys::new(HmacKey::new([7; 32])));
    for mode in [SessionMode::InMemory, SessionMode::Sealed(sealed)] {
        let mut harness = HttpServerHarness::with(|http, config| {
            http.sessions = mode;
            config.capabilities = json(r#"{"tools":{"listChanged":true},"resources":{"subscribe":true}}"#);
        });
        let filter = r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]},"#;
        let streams = PRINCIPALS.map(|principal| {
            let listen = TestRequest::stateless("1", "subscriptions/listen", filter);
            let listening = harness.ask(&by(listen, principal));
            assert_eq!(harness.take(listening).data().len(), 1, "it is acknowledged");
            let session = harness.session_of("2025-11-25", principal);
            let subscribe = TestRequest::post(request("1", "resources/subscribe", &uri("a:b"))).in_session(&session);
            assert_eq!(harness.answer(&by(subscribe, principal)).code(), 200);
            let get = harness.ask(&by(TestRequest::get().in_session(&session), principal));
            assert_eq!(harness.take(get).code(), 200);
            [listening, get]
        });
        for change in [updated("a:b"), Notification::new("notifications/tools/list_changed")] {
            for owner in PRINCIPALS {
                let owned = ChangeNotification::for_principal(change.clone(), owner.map(Principal::new).as_ref());
                harness.server.publish(owned, harness.now).unwrap();
                let received = streams.map(|streams| streams.map(|stream| harness.take(stream).data().len()));
                assert_eq!(received, PRINCIPALS.map(|principal| [usize::from(principal == owner), 0]), "{owner:?}");
            }
            harness.server.publish(change, harness.now).unwrap();
            assert_eq!(streams.map(|streams| streams.map(|stream| harness.take(stream).data().len())), [[1; 2]; 3]);
        }
    }
}
