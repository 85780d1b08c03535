//! How much of the shared capacity of an HTTP server one client may hold.

use std::time::Duration;

use mcp_proto::client::CloseReason;
use mcp_proto::server::{Event, ExchangeKey, TwoEndpoints};
use mcp_testkit::asked::{Asked, initialize};
use mcp_testkit::site::Site;
use tests::admission::PING;

/// The time after which something unused makes room for anyone.
const LONG: Duration = Duration::from_secs(60);

fn open(site: &mut Site, asked: &Asked) -> Result<String, u16> {
    let opened = site.answer(asked);
    if opened.code() == 503 {
        assert!(opened.headers.contains_key("retry-after"));
    }
    let id = opened.headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
    id.map(str::to_owned).ok_or(opened.code())
}

fn ping(site: &mut Site, id: &str, principal: Option<&str>) -> u16 {
    let asked = Asked::post(PING).in_session(id);
    site.answer(&principal.iter().fold(asked, |asked, principal| asked.by(principal))).code()
}

#[test]
fn defect_m4_a_client_with_all_sessions_makes_room_for_others() {
    let mut site = Site::with(|http, _| http.max_sessions = 4);
    let from = |peer| Asked::post(initialize("2025-06-18")).from(peer);
    let held: Vec<_> = (0..4).map(|_| open(&mut site, &from(1)).unwrap()).collect();
    assert_eq!(open(&mut site, &from(1)), Err(503), "none is unused for long");
    // The session that was unused for longest is ended: not one that was used since, nor one with a stream.
    site.pass(Duration::from_secs(1));
    assert_eq!(ping(&mut site, &held[0], None), 200);
    let stream = site.begin(&Asked::get().in_session(&held[1]).from(1));
    site.events();
    open(&mut site, &from(2)).unwrap();
    assert!(matches!(site.events()[..], [Event::Closed { reason: CloseReason::Expired, .. }, Event::Connected { .. }]));
    let codes: Vec<_> = held.iter().map(|id| ping(&mut site, id, None)).collect();
    assert_eq!(codes, [200, 200, 404, 200]);
    // With two sessions each, no client has more than its share.
    open(&mut site, &from(2)).unwrap();
    assert_eq!(open(&mut site, &from(2)), Err(503));
    // Principals with equal addresses are distinct clients.
    open(&mut site, &from(2).by("ada")).unwrap();
    assert_eq!(site.server.sessions(), 4);
    assert!(!site.take(stream).is_over, "a session with a stream is in use");
}

#[test]
fn defect_m4_se6_a_session_that_is_unused_for_long_makes_room() {
    let mut site = Site::with(|http, _| http.max_sessions = 3);
    let opening = Asked::post(initialize("2025-06-18"));
    let held: Vec<_> = (0..3).map(|_| open(&mut site, &opening).unwrap()).collect();
    let (_, ticket) = site.call(&held[0], "1", "{}");
    let (key, left) = site.call(&held[1], "1", "{}");
    site.server.handle_disconnect(key, site.now);
    site.pass(LONG.saturating_sub(Duration::from_secs(1)));
    assert_eq!(open(&mut site, &opening), Err(503));
    site.pass(Duration::from_secs(1));
    open(&mut site, &opening).unwrap();
    let codes: Vec<_> = held.iter().map(|id| ping(&mut site, id, None)).collect();
    assert_eq!(codes, [200, 200, 404], "requests are served in the first two");
    assert_eq!(open(&mut site, &opening), Err(503));
    site.respond(ticket, "{}");
    site.respond(left, "{}");
    site.pass(LONG);
    open(&mut site, &opening).unwrap();
}

#[test]
fn defect_m4_a_client_with_all_streams_makes_room_for_others() {
    let mut site = Site::with(|http, config| {
        http.max_streams = 4;
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        config.capabilities = mcp_proto::Json::parse(r#"{"tools":{"listChanged":true}}"#).unwrap();
    });
    let session = |site: &mut Site, peer| open(site, &Asked::post(initialize("2025-06-18")).from(peer)).unwrap();
    let stream = |site: &mut Site, id: &str, peer| site.begin(&Asked::get().in_session(id).from(peer));
    let refused = |site: &mut Site, key: ExchangeKey| {
        let sent = site.take(key);
        (sent.code() == 503).then(|| assert!(sent.headers.contains_key("retry-after"))).is_some()
    };
    let ids: Vec<_> = (0..3).map(|_| session(&mut site, 1)).collect();
    let mut held: Vec<_> = ids.iter().map(|id| stream(&mut site, id, 1)).collect();
    held.push(site.begin(&Asked::get().at("/sse").from(1)));
    site.pass(Duration::from_secs(1));
    // The first stream is used.
    let first = site_session(&mut site, 0);
    site.server.notify(first, mcp_proto::Notification::new("notifications/message"), site.now).unwrap();
    let (mine, other) = (session(&mut site, 1), session(&mut site, 2));
    let one_more = stream(&mut site, &mine, 1);
    assert!(refused(&mut site, one_more));
    let theirs = stream(&mut site, &other, 2);
    assert_eq!(site.take(theirs).code(), 200);
    let over: Vec<_> = held.iter().map(|key| site.take(*key).is_over).collect();
    assert_eq!(over, [false, true, false, false], "the one that was unused for longest");
    let late = session(&mut site, 2);
    let second = stream(&mut site, &late, 2);
    assert_eq!(site.take(second).code(), 200);
    let over: Vec<_> = held.iter().map(|key| site.take(*key).is_over).collect();
    assert_eq!(over, [false, false, true, false], "what was taken before is over: the next one");
    // A stream of the two-endpoint transport is a session, and ends as one.
    site.pass(LONG);
    let third = session(&mut site, 2);
    let third = stream(&mut site, &third, 2);
    assert_eq!(site.take(third).code(), 200);
    assert!(site.take(held[3]).is_over);
    assert!(site.events().iter().any(|event| matches!(event, Event::Closed { reason: CloseReason::Expired, .. })));
    // A request with an event id that is not the session's ends no stream.
    let forged = site.begin(&Asked::get().in_session(&late).with("last-event-id", "0-0").from(4));
    assert_eq!(site.take(forged).code(), 400);
}

/// The key of the session that was opened as number `nth`, counted from zero.
fn site_session(site: &mut Site, nth: usize) -> mcp_proto::SessionKey {
    let keys = site.events().into_iter().filter_map(|event| match event {
        Event::Connected { session, .. } => Some(session),
        _ => None,
    });
    keys.collect::<Vec<_>>()[nth]
}

#[test]
fn defect_m4_a_client_with_all_subscriptions_makes_room_for_others() {
    let mut site = Site::with(|_, config| {
        config.limits.subscriptions = 3;
        config.capabilities = mcp_proto::Json::parse(r#"{"tools":{"listChanged":true}}"#).unwrap();
    });
    let listen = Asked::stateless("1", "subscriptions/listen", r#""notifications":{"toolsListChanged":true},"#);
    let held: Vec<_> = (0..3).map(|_| site.ask(&listen.clone().from(1))).collect();
    for key in &held {
        assert_eq!(site.take(*key).code(), 200);
    }
    let refused = site.answer(&listen.clone().from(1));
    assert_eq!(refused.code(), 503);
    assert!(refused.headers.contains_key("retry-after"));
    let theirs = site.ask(&listen.clone().from(2));
    assert_eq!(site.take(theirs).code(), 200);
    let ended = site.take(held[0]);
    assert!(ended.is_over && ended.text().contains("\"result\""), "{}", ended.text());
    assert_eq!(site.server.subscriptions(), 3);
    // A request that is refused ends no subscription.
    let bad = Asked::stateless("1", "subscriptions/listen", r#""notifications":1,"#).from(3);
    assert_eq!(site.answer(&bad).code(), 400);
    assert_eq!(site.server.subscriptions(), 3);
    site.pass(LONG);
    let again = site.ask(&listen.from(1));
    assert_eq!(site.take(again).code(), 200);
    assert_eq!(site.server.subscriptions(), 3);
    for key in [theirs, again, held[1], held[2]] {
        site.server.handle_disconnect(key, site.now);
    }
    assert_eq!((site.server.subscriptions(), site.server.poll_timeout()), (0, None));
}

#[test]
fn defect_x6_no_client_is_told_to_continue_whose_request_is_refused() {
    let mut site = Site::new();
    let expecting = Asked::post(initialize("2025-06-18")).with("expect", "100-Continue");
    for (name, asked, continues) in [
        ("fine", expecting.clone(), true),
        ("OR2: another host", expecting.clone().with("host", "evil.example"), false),
        ("OR1: another origin", expecting.clone().with("origin", "https://evil.example"), false),
        ("another path", expecting.clone().at("/"), false),
        ("another type", expecting.clone().with("content-type", "text/plain"), false),
        ("too large", expecting.clone().with("content-length", "99999999999"), false),
        ("nothing is expected", expecting.clone().without("expect"), false),
        ("something else is expected", expecting.with("expect", "101-continue"), false),
    ] {
        site.continued.clear();
        let key = site.begin(&asked);
        assert_eq!(site.continued == [key], continues, "{name}");
        assert_eq!(site.continued.is_empty(), !continues, "{name}");
    }
}
