//! An HTTP server with many correct and faulty clients and operations in random order. The invariants must always hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::client::Call;
use mcp_proto::server::{Event, ExchangeKey, InputRequired, Progress, Scope, SubscriptionChange, TwoEndpoints};
use mcp_proto::{Era, ErrorObject, Json, Notification, RequestKey, SessionKey, Ticket, TicketKey};
use mcp_testkit::http_exchange::{TestRequest, initialize, modern};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::random::Choices;

/// Performs `steps` random operations on a server, or fewer if the choices are used up.
///
/// # Panics
///
/// An invariant does not hold.
pub fn run(choices: Choices<'_>, steps: u32) {
    let mut workload = Workload::new(choices);
    for _ in 0..steps {
        if workload.choices.are_used_up() {
            break;
        }
        workload.step();
    }
    workload.finish();
}

/// A POST whose body has not arrived in full.
struct Half {
    key: ExchangeKey,
    rest: Vec<u8>,
}

/// The state of one exchange.
#[expect(clippy::struct_excessive_bools, reason = "each may hold without the others")]
#[derive(Default)]
struct Exchange {
    text: String,
    has_status: bool,
    is_over: bool,
    is_gone: bool,
    /// Whether it is a POST whose body has arrived in full, so that it must be answered.
    is_whole: bool,
    /// The number in its request, if that is a request without a session.
    mark: Option<u64>,
    /// Whether it stays open until its client disconnects.
    is_listening: bool,
}

struct Workload<'d> {
    harness: HttpServerHarness,
    choices: Choices<'d>,
    half: Vec<Half>,
    exchanges: BTreeMap<ExchangeKey, Exchange>,
    /// Ids of open and ended sessions. `places` stores the message paths of two-endpoint sessions.
    sessions: Vec<String>,
    places: Vec<String>,
    keys: Vec<SessionKey>,
    tickets: Vec<Ticket>,
    /// The number in the request of each ticket.
    marks_of: BTreeMap<TicketKey, u64>,
    /// Requests that will be dispatched again; `rounds` counts how often each required input.
    parked: BTreeSet<TicketKey>,
    rounds: BTreeMap<TicketKey, u32>,
    /// The numbers in requests whose headers contradict the body. The application must never receive them.
    forbidden: BTreeSet<u64>,
    asked: BTreeSet<RequestKey>,
    ended: BTreeSet<SessionKey>,
    event_ids: Vec<String>,
    /// Resources with a reported subscription.
    subscribed: BTreeSet<String>,
    marks: u64,
    is_closed: bool,
}

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

impl<'d> Workload<'d> {
    fn new(mut choices: Choices<'d>) -> Self {
        let replay = [0, 400, 256 * 1024][usize::try_from(choices.below(3)).unwrap()];
        let harness = HttpServerHarness::with(|http, config| {
            http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
            http.replay = replay;
            http.max_sessions = 6;
            http.session_idle = Duration::from_secs(300);
            config.limits.requests_in = 8;
            config.limits.requests_out = 4;
            config.limits.message = 4000;
            config.limits.requests_in_total = 12;
            config.limits.subscriptions = 3;
            config.capabilities =
                Json::parse(r#"{"tools":{"listChanged":true},"resources":{"subscribe":true}}"#).unwrap();
        });
        Self {
            harness,
            choices,
            half: Vec::new(),
            exchanges: BTreeMap::new(),
            sessions: vec!["none".to_owned()],
            places: vec!["/messages?sessionId=none".to_owned()],
            keys: Vec::new(),
            tickets: Vec::new(),
            marks_of: BTreeMap::new(),
            parked: BTreeSet::new(),
            rounds: BTreeMap::new(),
            forbidden: BTreeSet::new(),
            asked: BTreeSet::new(),
            ended: BTreeSet::new(),
            event_ids: vec!["0000000000000000-0".to_owned()],
            subscribed: BTreeSet::new(),
            marks: 0,
            is_closed: false,
        }
    }

    fn body(&mut self) -> String {
        self.marks += 1;
        let (id, mark) = (self.choices.below(3), self.marks);
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"mark":{mark},"_meta":{{"progressToken":{id}}}}}}}"#
        );
        let cancel = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
        let subscribe = |verb: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/{verb}","params":{{"uri":"a:{id}"}}}}"#)
        };
        match self.choices.below(18) {
            0..=5 => call,
            6 => cancel,
            7 => format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id + 1),
            8 => format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":1}}}}"#, id + 1),
            9 => format!(r#"[{call},{{"jsonrpc":"2.0","id":9,"method":"ping"}},{call},3]"#),
            10 => format!("[{call},{cancel},{call}]"),
            11 => initialize("2025-03-26"),
            12 => r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#.to_owned(),
            13 => "{\"jsonrpc\":".to_owned(),
            14 => " ".repeat(4001),
            15 => subscribe("subscribe"),
            16 => subscribe("unsubscribe"),
            _ => r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        }
    }

    fn step(&mut self) {
        let now = self.harness.now;
        match self.choices.below(30) {
            0 | 1 => {
                let version = *self.choices.pick(&VERSIONS).unwrap();
                self.post(TestRequest::post(initialize(version)), initialize(version));
            }
            2..=7 => {
                let id = self.choices.pick(&self.sessions).unwrap().clone();
                let body = self.body();
                self.post(TestRequest::post(body.clone()).in_session(&id), body);
            }
            8 | 9 => {
                let place = self.choices.pick(&self.places).unwrap().clone();
                let body = if self.choices.below(4) == 0 { initialize("2024-11-05") } else { self.body() };
                self.post(TestRequest::post(body.clone()).at(&place), body);
            }
            10 | 11 => self.feed(),
            12 => {
                let id = self.choices.pick(&self.sessions).unwrap().clone();
                let asked = match self.choices.below(4) {
                    0 => TestRequest::new("GET", "").at("/sse"),
                    1 => TestRequest::new("GET", "").in_session(&id),
                    _ => {
                        let after = self.choices.pick(&self.event_ids).unwrap().clone();
                        TestRequest::new("GET", "").in_session(&id).with("last-event-id", &after)
                    }
                };
                let key = self.harness.begin(&asked);
                self.exchanges.insert(key, Exchange::default());
            }
            13 => {
                let open: Vec<_> = self.exchanges.iter().filter(|(_, it)| !it.is_over).map(|(key, _)| *key).collect();
                if let Some(&key) = self.choices.pick(&open) {
                    self.harness.server.handle_disconnect(key, now);
                    self.exchanges.get_mut(&key).unwrap().is_gone = true;
                    self.half.retain(|half| half.key != key);
                    self.look();
                    // A client that closes the stream of a request cancels the request (SH-S-17).
                    let mark = self.exchanges[&key].mark;
                    let is_open = |ticket: &Ticket| mark.is_some() && self.marks_of.get(&ticket.key()) == mark.as_ref();
                    assert!(!self.tickets.iter().any(is_open), "a client that has disconnected is still served");
                }
            }
            14..=16 => {
                if !self.tickets.is_empty() {
                    let at = usize::try_from(self.choices.below(self.tickets.len() as u64)).unwrap();
                    let ticket = self.tickets.swap_remove(at);
                    let mark = self.marks_of.get(&ticket.key()).copied().unwrap_or_default();
                    let answer = match self.choices.below(5) {
                        0 => Err(ErrorObject::new(-32602, "no")),
                        1 => {
                            let context = self.harness.server.context(&ticket).unwrap();
                            let rounds = self.rounds.entry(ticket.key()).or_default();
                            *rounds += 1;
                            // A request that was dispatched again more than ten times is answered instead.
                            if context.version.rules().era == Era::Legacy && *rounds <= 10 {
                                self.parked.insert(ticket.key());
                            }
                            Ok(InputRequired::new().state("s").into())
                        }
                        _ => Ok(Json::parse(format!(r#"{{"content":[],"answer":{mark}}}"#)).unwrap()),
                    };
                    self.harness.server.respond(ticket, answer, now).unwrap();
                }
            }
            17 => {
                if let Some(ticket) = self.choices.pick(&self.tickets) {
                    self.marks += 1;
                    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                    let progress = Progress { progress: self.marks as f64, total: None, message: None };
                    self.harness.server.progress(ticket, &progress, now);
                }
            }
            18 | 19 => {
                let scope = match self.choices.below(2) {
                    0 => self.choices.pick(&self.keys).map(|&session| session.into()),
                    _ => self.choices.pick(&self.tickets).map(Scope::from),
                };
                if let Some(scope) = scope {
                    if self.choices.below(2) == 0 {
                        let _ = self.harness.server.notify(scope, Notification::new("notifications/message"), now);
                    } else if let Ok(request) = self.harness.server.request(scope, Call::new("roots/list"), now) {
                        assert!(self.asked.insert(request), "a key comes twice");
                    }
                }
            }
            20 => {
                if let Some(ticket) = self.choices.pick(&self.tickets) {
                    self.harness.server.release(ticket, now);
                }
            }
            21 => {
                let asked: Vec<_> = self.asked.iter().copied().collect();
                if let Some(&request) = self.choices.pick(&asked) {
                    self.harness.server.cancel(request, None, now);
                }
            }
            23..=26 => self.post_modern(),
            27 => {
                let changed = Notification::new("notifications/tools/list_changed");
                self.harness.server.publish(changed, now).unwrap();
                self.look_at_subscriptions();
            }
            22 => {
                let time = Duration::from_secs([1, 10, 40, 130, 301][usize::try_from(self.choices.below(5)).unwrap()]);
                self.harness.pass(time);
            }
            _ => match self.choices.below(4) {
                0 => {
                    if let Some(&session) = self.choices.pick(&self.keys) {
                        self.harness.server.end(session, now);
                    }
                }
                1 => {
                    let id = self.choices.pick(&self.sessions).unwrap().clone();
                    let key = self.harness.ask(&TestRequest::new("DELETE", "").in_session(&id));
                    self.exchanges.insert(key, Exchange::default());
                }
                _ => {}
            },
        }
        self.look();
    }

    /// Posts a request without a session. Its headers may contradict its body.
    fn post_modern(&mut self) {
        self.marks += 1;
        let (id, mark) = (self.choices.below(2).to_string(), self.marks);
        let method = ["tools/call", "tools/call", "subscriptions/listen", "server/discover", "ping"];
        let method = *self.choices.pick(&method).unwrap();
        let members = format!(
            r#""name":"a","notifications":{{"toolsListChanged":true,"resourceSubscriptions":["a:{id}"]}},"mark":{mark},"#
        );
        let body = modern(&id, method, &members);
        let asked = TestRequest::post(body.clone()).repeating_headers("2026-07-28", method).with("mcp-name", "a");
        let asked = match self.choices.below(10) {
            0 => asked.with("mcp-method", "tools/list"),
            1 => asked.with("mcp-protocol-version", "2025-11-25"),
            2 => asked.and("mcp-method", method),
            3 if method == "tools/call" => asked.with("mcp-name", "b"),
            _ => {
                let key = self.post(asked, body);
                let exchange = self.exchanges.get_mut(&key).unwrap();
                (exchange.mark, exchange.is_listening) = (Some(mark), method == "subscriptions/listen");
                return;
            }
        };
        self.forbidden.insert(mark);
        self.post(asked, body);
    }

    fn post(&mut self, asked: TestRequest, body: String) -> ExchangeKey {
        let key = self.harness.begin(&asked);
        self.exchanges.insert(key, Exchange::default());
        self.half.push(Half { key, rest: body.into_bytes() });
        if self.choices.below(3) > 0 {
            while self.half.last().is_some_and(|half| half.key == key) {
                self.feed_at(self.half.len() - 1);
            }
        }
        key
    }

    fn feed(&mut self) {
        if !self.half.is_empty() {
            let at = usize::try_from(self.choices.below(self.half.len() as u64)).unwrap();
            self.feed_at(at);
        }
    }

    fn feed_at(&mut self, at: usize) {
        let now = self.harness.now;
        let half = &mut self.half[at];
        let most =
            if self.choices.are_used_up() { usize::MAX } else { usize::try_from(self.choices.below(2000)).unwrap() };
        let size = half.rest.len().min(most);
        let piece: Vec<_> = half.rest.drain(..size).collect();
        self.harness.server.handle_body(half.key, &piece, now);
        if half.rest.is_empty() {
            let half = self.half.swap_remove(at);
            self.harness.server.handle_end(half.key, now);
            self.exchanges.get_mut(&half.key).unwrap().is_whole = true;
        }
    }

    /// Reads the output of the server. `HttpServerHarness` checks that a response has one head and that nothing follows its end.
    fn look(&mut self) {
        for (key, exchange) in &mut self.exchanges {
            let sent = self.harness.peek(*key);
            let Some(sent) = sent else { continue };
            if exchange.is_gone {
                let grown = (sent.status.is_some(), sent.is_over, sent.body.len());
                let before = (exchange.has_status, exchange.is_over, exchange.text.len());
                assert_eq!(grown, before, "something was sent to a client that has disconnected");
            }
            if sent.body.len() > exchange.text.len() {
                exchange.text = sent.text();
                self.event_ids.extend(sent.ids().into_iter().last());
                if let Some(place) = sent.data().first().filter(|data| data.starts_with("/messages")) {
                    if !self.places.contains(place) {
                        let id = place.split_once('=').unwrap().1.to_owned();
                        self.places.push(place.clone());
                        self.sessions.push(id);
                    }
                }
            }
            if let (false, Some(id)) = (exchange.has_status, sent.headers.get("mcp-session-id")) {
                let id = id.to_str().unwrap().to_owned();
                self.places.push(format!("/messages?sessionId={id}"));
                self.sessions.push(id);
            }
            if let Some(mark) = exchange.mark {
                let answers = exchange.text.split("\"answer\":").skip(1).map(|rest| rest.split('}').next().unwrap());
                for answer in answers {
                    let answer = answer.split(',').next().unwrap();
                    assert_eq!(answer, mark.to_string(), "HM11: the answer to another client");
                }
            }
            (exchange.has_status, exchange.is_over) = (sent.status.is_some(), sent.is_over);
        }
        for event in self.harness.events() {
            match event {
                Event::Connected { session, .. } => {
                    assert!(!self.is_closed, "a session after the end");
                    self.keys.push(session);
                }
                Event::Requested { ticket, params, .. } => {
                    let mark = params.and_then(|params| params.member("mark").ok().flatten());
                    let mark = mark.and_then(|mark| mark.to_text().parse().ok()).unwrap_or_default();
                    assert!(!self.forbidden.contains(&mark), "a request whose headers contradict its body");
                    self.marks_of.insert(ticket.key(), mark);
                    self.parked.remove(&ticket.key());
                    assert!(
                        ticket.key().session().is_none_or(|session| !self.ended.contains(&session)),
                        "a request after the session's end"
                    );
                    self.tickets.push(ticket);
                }
                Event::Cancelled { ticket, .. } => {
                    let before = self.tickets.len() + self.parked.len();
                    self.tickets.retain(|other| other.key() != ticket);
                    self.parked.remove(&ticket);
                    let after = self.tickets.len() + self.parked.len();
                    assert_eq!(after + 1, before, "what was not asked is not cancelled");
                }
                Event::Responded { request, .. } => assert!(self.asked.remove(&request), "an outcome that is none"),
                Event::Closed { session, .. } => {
                    assert!(self.ended.insert(session), "a session ends twice");
                    assert!(self.asked.iter().all(|request| request.session() != Some(session)), "without an outcome");
                    assert!(
                        self.tickets.iter().all(|ticket| ticket.key().session() != Some(session)),
                        "without an end"
                    );
                    self.keys.retain(|other| *other != session);
                }
                _ => {}
            }
        }
        assert!(self.harness.server.sessions() <= 6);
        assert!(self.harness.server.subscriptions() <= 3);
        let served = self.tickets.len() + self.parked.len();
        assert!(served <= 12, "more are served than may be");
        assert_eq!(self.harness.server.requests_in_flight(), served, "requests and tickets");
    }

    fn look_at_subscriptions(&mut self) {
        while let Some(change) = self.harness.server.poll_subscription() {
            let is_news = match change {
                SubscriptionChange::Subscribed(uri) => self.subscribed.insert(uri.to_string()),
                SubscriptionChange::Unsubscribed(uri) => self.subscribed.remove(&*uri),
            };
            assert!(is_news, "reported twice");
        }
    }

    /// Checks that every request that arrived in full has a complete response, unless its client disconnected.
    fn check_answered(&self) {
        for (key, exchange) in &self.exchanges {
            let is_served = exchange.is_gone || exchange.is_over || (exchange.is_listening && !self.is_closed);
            assert!(!exchange.is_whole || is_served, "{key:?}: {}", exchange.text);
        }
    }

    fn finish(mut self) {
        if self.choices.below(2) == 0 {
            // The application answers all requests.
            self.harness.pass(Duration::from_secs(1));
            self.look();
            for ticket in std::mem::take(&mut self.tickets) {
                self.harness.server.respond(ticket, Ok(Json::empty_object()), self.harness.now).unwrap();
            }
            self.look();
            self.check_answered();
        }
        self.harness.server.close(self.harness.now);
        self.is_closed = true;
        self.look();
        while !self.half.is_empty() && self.choices.below(10) > 0 {
            self.feed();
            self.look();
        }
        self.check_answered();
        assert!(self.asked.is_empty(), "exactly one outcome");
        assert!(self.tickets.is_empty() && self.keys.is_empty());
        assert_eq!(self.harness.server.sessions(), 0);
        self.look_at_subscriptions();
        assert!(self.subscribed.is_empty(), "subscribed to after the end: {:?}", self.subscribed);
        self.harness.pass(Duration::from_secs(1000));
        self.look();
        assert_eq!(self.harness.server.poll_timeout(), None, "no timer is left");
        for (key, exchange) in &self.exchanges {
            assert!(exchange.is_gone || exchange.is_over, "{key:?}: {}", exchange.text);
        }
    }
}
