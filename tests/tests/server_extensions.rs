//! The extensions of an HTTP request, which its handler receives.

use std::sync::Arc;

use mcp_application::IncomingRequest;
use mcp_proto::server::{Event, InputRequired, TwoEndpoints};
use mcp_proto::{Json, Ticket};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{self, INITIALIZED, request, result};

#[derive(Debug, Clone, Copy, PartialEq)]
struct Tenant(u32);

/// A request as its handler receives it, with its ticket.
fn incoming(harness: &mut HttpServerHarness) -> Option<(IncomingRequest, Ticket)> {
    let requested = harness.events().into_iter().find_map(|event| match event {
        Event::Requested { ticket, method, params } => Some((ticket, method, params)),
        _ => None,
    });
    let (ticket, method, params) = requested?;
    let incoming = IncomingRequest::new(&harness.server, &ticket, method, params, || 0)?;
    Some((incoming, ticket))
}

fn tenant(harness: &mut HttpServerHarness) -> Option<Tenant> {
    let (incoming, _) = incoming(harness).expect("a request");
    assert_eq!(incoming.extensions().is_empty(), incoming.extensions().get::<Tenant>().is_none());
    incoming.extensions().get().copied()
}

#[test]
fn a_handler_receives_what_layers_have_added_to_its_own_request() {
    let mut harness = HttpServerHarness::with(|http, config| {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        config.capabilities = Json::parse(r#"{"tools":{}}"#).unwrap();
    });
    let id = harness.session("2025-11-25");
    let opened = harness.begin(&TestRequest::get().at("/sse"));
    let target = harness.take(opened).data().pop().unwrap();
    for body in [initialize("2024-11-05"), INITIALIZED.to_owned()] {
        assert_eq!(harness.answer(&TestRequest::post(body).at(&target)).code(), 202);
    }
    harness.events();
    let call = request("1", "tools/call", "{}");
    for (name, asked) in [
        ("in a session", TestRequest::post(call.clone()).in_session(&id)),
        ("with two endpoints", TestRequest::post(call).at(&target)),
        ("without a session", TestRequest::stateless_call("1", "t", "")),
    ] {
        for (asked, expected) in [
            (asked.clone(), None),
            (asked.clone().with_extension(Tenant(7)), Some(Tenant(7))),
            (asked.clone().with_extension(Tenant(8)), Some(Tenant(8))),
            (asked, None),
        ] {
            harness.ask(&asked);
            assert_eq!(tenant(&mut harness), expected, "{name}");
        }
    }
}

#[test]
fn all_requests_of_a_batch_have_the_extensions_of_its_request() {
    let mut harness = HttpServerHarness::new();
    let id = harness.session("2025-03-26");
    harness.events();
    let batch = format!("[{},{}]", request("1", "a", "{}"), request("2", "b", "{}"));
    harness.ask(&TestRequest::post(batch).in_session(&id).with_extension(Tenant(7)));
    let tickets = harness.events().into_iter().filter_map(|event| match event {
        Event::Requested { ticket, .. } => Some(ticket),
        _ => None,
    });
    let tickets: Vec<_> = tickets.collect();
    let tenants: Vec<_> =
        tickets.iter().map(|ticket| harness.server.extensions(ticket).and_then(|of| of.get::<Tenant>())).collect();
    assert_eq!(tenants, [Some(&Tenant(7)); 2]);
}

#[test]
fn the_extensions_of_a_message_are_dropped_once_it_is_handled() {
    let mut harness = HttpServerHarness::with(|http, _| {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    });
    let id = harness.session("2025-11-25");
    let opened = harness.begin(&TestRequest::get().at("/sse"));
    let target = harness.take(opened).data().pop().unwrap();
    let message = || TestRequest::post(INITIALIZED);
    for (name, message) in [("in a session", message().in_session(&id)), ("with two endpoints", message().at(&target))]
    {
        let extension = Arc::new(());
        assert_eq!(harness.answer(&message.with_extension(Arc::clone(&extension))).code(), 202, "{name}");
        assert_eq!(Arc::strong_count(&extension), 1, "{name}");
    }
}

/// By then, the response has begun, and the head of the request is gone.
#[test]
fn a_request_that_is_reported_again_has_its_extensions() {
    let mut harness = HttpServerHarness::new();
    let initialize = messages::initialize("0", "2025-11-25");
    let opened = harness.answer(&TestRequest::post(initialize));
    let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let post = |body: String| TestRequest::post(body).in_session(&id);
    harness.answer(&post(INITIALIZED.to_owned()));
    harness.events();
    let key = harness.ask(&post(request("1", "tools/call", "{}")).with_extension(Tenant(7)));
    let (_, ticket) = incoming(&mut harness).unwrap();
    let required = InputRequired::new().ask("who", "roots/list", Json::empty_object());
    harness.server.require_input(ticket, required, harness.now).unwrap();
    let asked = harness.take(key).data().pop().expect("a request to the client");
    let asked = Json::parse(asked).unwrap().member("id").unwrap().unwrap();
    harness.answer(&post(result(&asked.to_text(), r#"{"roots":[]}"#)));
    let (again, ticket) = incoming(&mut harness).expect("the request, again");
    assert_eq!(again.extensions().get(), Some(&Tenant(7)));
    assert!(harness.server.request_head(&ticket).is_none());
}

#[test]
fn a_request_on_a_byte_stream_has_none() {
    let mut stream = ServerStream::ready("2025-11-25");
    stream.line(request("1", "a", "{}"));
    let ticket = stream.requested().pop().unwrap();
    assert!(stream.machine.extensions(&ticket).unwrap().is_empty());
    stream.machine.close(stream.now);
    assert!(stream.machine.extensions(&ticket).is_none());
}
