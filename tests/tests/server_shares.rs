//! How much of the shared capacity of a server one client may hold. `Shares` and `Connections` agree with models that search a list.

use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::client::CloseReason;
use mcp_proto::server::{
    Admission, ConnectionKey, Connections, Event, ExchangeKey, Holder, PeerKey, Shares, TwoEndpoints,
};
use mcp_testkit::bad_requests::PING;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use proptest::prelude::*;

/// The time after which something unused makes room for anyone.
const LONG: Duration = Duration::from_secs(60);

fn open(harness: &mut HttpServerHarness, asked: &TestRequest) -> Result<String, u16> {
    let opened = harness.answer(asked);
    if opened.code() == 503 {
        assert!(opened.headers.contains_key("retry-after"));
    }
    let id = opened.headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
    id.map(str::to_owned).ok_or(opened.code())
}

fn ping(harness: &mut HttpServerHarness, id: &str, principal: Option<&str>) -> u16 {
    let asked = TestRequest::post(PING).in_session(id);
    harness.answer(&principal.iter().fold(asked, |asked, principal| asked.by(*principal))).code()
}

#[test]
fn a_client_with_all_sessions_makes_room_for_others() {
    let mut harness = HttpServerHarness::with(|http, _| http.max_sessions = 4);
    let from = |peer| TestRequest::post(initialize("2025-06-18")).from(peer);
    let held: Vec<_> = (0..4).map(|_| open(&mut harness, &from(1)).unwrap()).collect();
    assert_eq!(open(&mut harness, &from(1)), Err(503), "none is unused for long");
    // The session that was unused for longest is ended: not one that was used since, nor one with a stream.
    harness.pass(Duration::from_secs(1));
    assert_eq!(ping(&mut harness, &held[0], None), 200);
    let stream = harness.begin(&TestRequest::get().in_session(&held[1]).from(1));
    harness.events();
    open(&mut harness, &from(2)).unwrap();
    assert!(matches!(
        harness.events()[..],
        [Event::Closed { reason: CloseReason::Expired, .. }, Event::Connected { .. }]
    ));
    let codes: Vec<_> = held.iter().map(|id| ping(&mut harness, id, None)).collect();
    assert_eq!(codes, [200, 200, 404, 200]);
    // With two sessions each, no client has more than its share.
    open(&mut harness, &from(2)).unwrap();
    assert_eq!(open(&mut harness, &from(2)), Err(503));
    // Principals with equal addresses are distinct clients.
    open(&mut harness, &from(2).by("ada")).unwrap();
    assert_eq!(harness.server.sessions(), 4);
    assert!(!harness.take(stream).is_over, "a session with a stream is in use");
}

#[test]
fn se6_a_session_that_is_unused_for_long_makes_room() {
    let mut harness = HttpServerHarness::with(|http, _| http.max_sessions = 3);
    let opening = TestRequest::post(initialize("2025-06-18"));
    let held: Vec<_> = (0..3).map(|_| open(&mut harness, &opening).unwrap()).collect();
    let (_, ticket) = harness.call(&held[0], "1", "{}");
    let (key, left) = harness.call(&held[1], "1", "{}");
    harness.server.handle_disconnect(key, harness.now);
    harness.pass(LONG.saturating_sub(Duration::from_secs(1)));
    assert_eq!(open(&mut harness, &opening), Err(503));
    harness.pass(Duration::from_secs(1));
    open(&mut harness, &opening).unwrap();
    let codes: Vec<_> = held.iter().map(|id| ping(&mut harness, id, None)).collect();
    assert_eq!(codes, [200, 200, 404], "requests are served in the first two");
    assert_eq!(open(&mut harness, &opening), Err(503));
    harness.respond(ticket, "{}");
    harness.respond(left, "{}");
    harness.pass(LONG);
    open(&mut harness, &opening).unwrap();
}

#[test]
fn a_client_with_all_streams_makes_room_for_others() {
    let mut harness = HttpServerHarness::with(|http, config| {
        http.max_streams = Some(4);
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        config.capabilities = mcp_proto::Json::parse(r#"{"tools":{"listChanged":true}}"#).unwrap();
    });
    let session = |harness: &mut HttpServerHarness, peer| {
        open(harness, &TestRequest::post(initialize("2025-06-18")).from(peer)).unwrap()
    };
    let stream =
        |harness: &mut HttpServerHarness, id: &str, peer| harness.begin(&TestRequest::get().in_session(id).from(peer));
    let refused = |harness: &mut HttpServerHarness, key: ExchangeKey| {
        let sent = harness.take(key);
        (sent.code() == 503).then(|| assert!(sent.headers.contains_key("retry-after"))).is_some()
    };
    let ids: Vec<_> = (0..3).map(|_| session(&mut harness, 1)).collect();
    let mut held: Vec<_> = ids.iter().map(|id| stream(&mut harness, id, 1)).collect();
    held.push(harness.begin(&TestRequest::get().at("/sse").from(1)));
    harness.pass(Duration::from_secs(1));
    // The first stream is used.
    let first = site_session(&mut harness, 0);
    harness.server.notify(first, mcp_proto::Notification::new("notifications/message"), harness.now).unwrap();
    let (mine, other) = (session(&mut harness, 1), session(&mut harness, 2));
    let one_more = stream(&mut harness, &mine, 1);
    assert!(refused(&mut harness, one_more));
    let theirs = stream(&mut harness, &other, 2);
    assert_eq!(harness.take(theirs).code(), 200);
    let over: Vec<_> = held.iter().map(|key| harness.take(*key).is_over).collect();
    assert_eq!(over, [false, true, false, false], "the one that was unused for longest");
    let late = session(&mut harness, 2);
    let second = stream(&mut harness, &late, 2);
    assert_eq!(harness.take(second).code(), 200);
    let over: Vec<_> = held.iter().map(|key| harness.take(*key).is_over).collect();
    assert_eq!(over, [false, false, true, false], "what was taken before is over: the next one");
    // A stream of the two-endpoint transport is a session, and ends as one.
    harness.pass(LONG);
    let third = session(&mut harness, 2);
    let third = stream(&mut harness, &third, 2);
    assert_eq!(harness.take(third).code(), 200);
    assert!(harness.take(held[3]).is_over);
    assert!(harness.events().iter().any(|event| matches!(event, Event::Closed { reason: CloseReason::Expired, .. })));
    // A request with an event id that is not the session's ends no stream.
    let forged = harness.begin(&TestRequest::get().in_session(&late).with("last-event-id", "0-0").from(4));
    assert_eq!(harness.take(forged).code(), 400);
}

/// The key of the session that was opened as number `nth`, counted from zero.
#[test]
fn half_of_the_connections_may_be_streams_unless_fewer_are_set() {
    for (connections, set, most) in
        [(Some(1600), None, 800), (Some(1600), Some(3), 3), (Some(4), Some(100), 2), (None, None, 768)]
    {
        let mut harness = HttpServerHarness::with(|http, _| http.max_streams = set);
        for limit in connections.into_iter().flat_map(|limit| [limit, 2 * limit]) {
            harness.server.limit_to_connections(limit);
        }
        for nth in 0..=most {
            let id = open(&mut harness, &TestRequest::post(initialize("2025-06-18"))).unwrap();
            let key = harness.begin(&TestRequest::get().in_session(&id));
            let sent = harness.take(key);
            assert_eq!(sent.code(), if nth < most { 200 } else { 503 }, "{connections:?}, {set:?}: {nth}");
            let names_limits = sent.text().contains("max_connections") && sent.text().contains("max_streams");
            assert_eq!(names_limits, nth == most, "{}", sent.text());
        }
    }
}

fn site_session(harness: &mut HttpServerHarness, nth: usize) -> mcp_proto::SessionKey {
    let keys = harness.events().into_iter().filter_map(|event| match event {
        Event::Connected { session, .. } => Some(session),
        _ => None,
    });
    keys.collect::<Vec<_>>()[nth]
}

#[test]
fn a_client_with_all_subscriptions_makes_room_for_others() {
    let mut harness = HttpServerHarness::with(|_, config| {
        config.limits.subscriptions = 3;
        config.capabilities = mcp_proto::Json::parse(r#"{"tools":{"listChanged":true}}"#).unwrap();
    });
    let listen = TestRequest::stateless("1", "subscriptions/listen", r#""notifications":{"toolsListChanged":true},"#);
    let held: Vec<_> = (0..3).map(|_| harness.ask(&listen.clone().from(1))).collect();
    for key in &held {
        assert_eq!(harness.take(*key).code(), 200);
    }
    let refused = harness.answer(&listen.clone().from(1));
    assert_eq!(refused.code(), 503);
    assert!(refused.headers.contains_key("retry-after"));
    let theirs = harness.ask(&listen.clone().from(2));
    assert_eq!(harness.take(theirs).code(), 200);
    let ended = harness.take(held[0]);
    assert!(ended.is_over && ended.text().contains("\"result\""), "{}", ended.text());
    assert_eq!(harness.server.subscriptions(), 3);
    // A request that is refused ends no subscription.
    let bad = TestRequest::stateless("1", "subscriptions/listen", r#""notifications":1,"#).from(3);
    assert_eq!(harness.answer(&bad).code(), 400);
    assert_eq!(harness.server.subscriptions(), 3);
    harness.pass(LONG);
    let again = harness.ask(&listen.from(1));
    assert_eq!(harness.take(again).code(), 200);
    assert_eq!(harness.server.subscriptions(), 3);
    for key in [theirs, again, held[1], held[2]] {
        harness.server.handle_disconnect(key, harness.now);
    }
    assert_eq!((harness.server.subscriptions(), harness.server.poll_timeout()), (0, None));
}

#[test]
fn no_continue_is_sent_for_a_request_that_is_refused() {
    let mut harness = HttpServerHarness::new();
    let expecting = TestRequest::post(initialize("2025-06-18")).with("expect", "100-Continue");
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
        harness.responses.continued.clear();
        let key = harness.begin(&asked);
        assert_eq!(harness.responses.continued == [key], continues, "{name}");
        assert_eq!(harness.responses.continued.is_empty(), !continues, "{name}");
    }
}

/// A naive model of `Shares`: a list of keys, their holders, and since when each is unused.
#[derive(Default)]
struct Naive(Vec<(u8, u8, Option<u8>)>);

impl Naive {
    fn count(&self, holder: u8) -> usize {
        self.0.iter().filter(|thing| thing.1 == holder).count()
    }

    fn to_evict(&self, newcomer: u8, long: u8, now: u8) -> Vec<u8> {
        let mut unused: Vec<_> = self.0.iter().filter_map(|(key, by, since)| Some(((*since)?, *key, *by))).collect();
        unused.sort_unstable();
        let most = unused.iter().map(|(.., by)| (self.count(*by), *by)).max();
        let most = most.filter(|(count, by)| *by != newcomer && *count > self.count(newcomer) + 1);
        let of_most = unused.iter().filter(|(.., by)| most.is_some_and(|most| most.1 == *by));
        of_most.chain(unused.iter().filter(|(since, ..)| since + long <= now)).map(|(_, key, _)| *key).collect()
    }
}

fn holder(number: u8) -> Holder {
    Holder::Peer(PeerKey::new(&[number]))
}

proptest! {
    #[test]
    fn shares_agree_with_a_list(steps in prop::collection::vec((0..4_u8, 0..12_u8, 0..4_u8), 0..80)) {
        let start = Instant::START;
        let at = |time: u8| start + Duration::from_secs(u64::from(time));
        let (mut shares, mut naive) = (Shares::new(), Naive::default());
        for (now, (step, key, by)) in (0_u8..).zip(steps) {
            let known = naive.0.iter().position(|thing| thing.0 == key);
            match (step, known) {
                (0, None) => {
                    shares.insert(key, holder(by));
                    naive.0.push((key, by, None));
                }
                (1, found) => {
                    let removed = found.map(|at| naive.0.remove(at).1);
                    prop_assert_eq!(shares.remove(key), removed.map(holder));
                }
                (2, found) => {
                    shares.set_used(key);
                    if let Some(at) = found {
 naive.0[at].2 = None;
}
                }
                (_, found) => {
                    shares.set_unused(key, at(now));
                    if let Some(at) = found {
 naive.0[at].2 = Some(now);
}
                }
            }
            prop_assert_eq!(shares.len(), naive.0.len());
            for newcomer in 0..5 {
                let found: Vec<_> = shares.to_evict(&holder(newcomer), Duration::from_secs(9), at(now)).collect();
                prop_assert_eq!(found, naive.to_evict(newcomer, 9, now));
            }
        }
    }
}

/// A connection in a naive model of a server that serves four connections and keeps two more.
struct Connection {
    key: ConnectionKey,
    peer: u8,
    number: usize,
    /// `None` if the connection is not served: it is refused, or must close.
    state: Option<Use>,
}

#[derive(Clone, Copy)]
enum Use {
    Used,
    UnusedSince(u8),
}

proptest! {
    #[test]
    fn connections_make_room_or_are_refused(steps in prop::collection::vec((0..10_u8, 0..8_usize, 0..3_u8), 0..80)) {
        let start = Instant::START;
        let at = |time: u8| start + Duration::from_secs(u64::from(time));
        let (mut connections, mut open) = (Connections::new(4, 2), Vec::<Connection>::new());
        for ((now, number), (step, which, peer)) in (0_u8..).zip(0_usize..).zip(steps) {
            let chosen = open.get_mut(which);
            match (step, chosen) {
                (0, Some(chosen)) => {
                    connections.remove(chosen.key);
                    open.remove(which);
                }
                (1..=4, Some(chosen)) => {
                    connections.set_used(chosen.key);
                    chosen.state = chosen.state.map(|_| Use::Used);
                }
                (5, Some(chosen)) => {
                    connections.set_unused(chosen.key, at(now));
                    chosen.state = chosen.state.map(|_| Use::UnusedSince(now));
                }
                _ => {
                    let served = open.iter().filter(|one| one.state.is_some()).count();
                    let longest = if served < 4 { None } else { longest_unused(&open, peer) };
                    let admission = connections.admit(&PeerKey::new(&[peer]), number, at(now));
                    let (key, state) = match admission {
                        Admission::RefusedAtOnce => {
                            prop_assert_eq!(open.len(), 6);
                            continue;
                        }
                        Admission::Refused { connection } => {
                            prop_assert!(served == 4 && longest.is_none());
                            (connection, None)
                        }
                        Admission::Served { connection, evicted } => {
                            prop_assert!(served < 4 || longest.is_some());
                            prop_assert_eq!(evicted, longest.map(|at| open[at].number));
                            if let Some(evicted) = longest {
                                open[evicted].state = None;
                            }
                            (connection, Some(Use::UnusedSince(now)))
                        }
                    };
                    prop_assert!(open.len() < 6 && open.iter().all(|one| one.key != key));
                    open.push(Connection { key, peer, number, state });
                }
            }
        }
    }
}

/// The position of the unused connection that makes room for a newcomer. If the peer with the most connections has more
/// than the newcomer's peer would have, it is that peer's longest unused one; otherwise it is the longest unused one of
/// all.
fn longest_unused(open: &[Connection], newcomer: u8) -> Option<usize> {
    let count = |peer| open.iter().filter(|one| one.state.is_some() && one.peer == peer).count();
    let unused = |one: &Connection| if let Some(Use::UnusedSince(since)) = one.state { Some(since) } else { None };
    let longest = |of: &dyn Fn(&Connection) -> bool| {
        let found = open.iter().enumerate().filter(|(_, one)| of(one)).filter_map(|(at, one)| Some((unused(one)?, at)));
        found.min().map(|(_, at)| at)
    };
    let most = open.iter().filter(|one| unused(one).is_some()).map(|one| (count(one.peer), one.peer)).max();
    let most = most.filter(|(most, peer)| *peer != newcomer && *most > count(newcomer) + 1);
    most.map_or_else(|| longest(&|_| true), |(_, peer)| longest(&|one| one.peer == peer))
}
