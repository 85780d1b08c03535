//! The clients: their requests, and what they receive.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::client::Call as Request;
use mcp_proto::server::{ChangeNotification, Principal, Snapshot};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::store::StreamId;
use mcp_proto::{InstanceId, Instant, Notification};
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, request, result};
use serde_json::Value;

use super::{Call, Defect, Faults, IDLE, Key, Level, Outcome, REPLAY, REPLAY_FOR, SOON, Session, Simulation, json};

/// The longest time after which an instance that has ended is not found any more.
const NOTICED: Duration = Duration::from_secs(15);

/// An exchange that was not complete at the last look.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) session: usize,
    what: What,
    pub(super) begun: Instant,
    status: u16,
    is_stream: bool,
    /// The number of the next event.
    next: Option<u64>,
    body: String,
    session_id: Option<String>,
    /// The client has opened another GET stream instead, since then.
    is_left_since: Option<Instant>,
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Open,
    Confirm,
    Call(usize),
    Resume(usize),
    Stream,
    Subscribe(String),
    /// The log level is set to one that includes all messages, or only errors.
    SetLevel {
        wants_all: bool,
    },
    /// An answer to the request of the server with this number.
    Answer(u64),
    /// The cancellation of a call, which an application had if there is a number.
    Cancel(Option<usize>),
    Steal,
    Delete,
    /// Something in a session that its client has ended.
    UseEnded,
    /// After this, a snapshot is taken, which has these subscriptions, and this log level.
    Ping(BTreeSet<String>, Level),
}

/// An event of a stream.
struct Received {
    id: Option<String>,
    data: Option<Value>,
    text: String,
}

impl Open {
    pub(super) fn is_stream(&self) -> bool {
        self.what == What::Stream && self.is_stream
    }

    /// Whether this is a GET stream that its client reads.
    fn is_read(&self) -> bool {
        self.is_stream() && self.is_left_since.is_none()
    }

    pub(super) fn is_event_stream(&self) -> bool {
        self.is_stream
    }

    pub(super) fn is_of_call(&self) -> bool {
        matches!(self.what, What::Call(_) | What::Resume(_))
    }
}

impl Simulation<'_> {
    /// Sends a request to any instance.
    fn ask(&mut self, session: usize, what: What, asked: TestRequest) -> Key {
        let id = self.some_instance();
        let principal = self.sessions[session].principal;
        let asked = match (&what, principal) {
            (What::Steal, _) if self.run.is(Defect::ForgetsPrincipals) => {
                principal.into_iter().fold(asked, TestRequest::by)
            }
            (What::Steal, None) => asked.by("mallory"),
            (What::Steal, Some(_)) | (_, None) => asked,
            (_, Some(principal)) => asked.by(principal),
        };
        let asked = match &self.sessions[session].id {
            Some(id) => asked.in_session(id),
            None => asked,
        };
        let instance = self.instances.get_mut(&id).expect("an instance that runs");
        let key = (id, instance.server.ask(&asked));
        let (begun, next) = (self.now, None);
        let (body, is_left_since) = (String::new(), None);
        let open =
            Open { session, what, begun, status: 0, is_stream: false, next, body, session_id: None, is_left_since };
        self.watch(|| format!("{id} {:?} {:?} of session {session}", key.1, open.what));
        self.exchanges.insert(key, open);
        key
    }

    /// A session in use.
    fn some_session(&mut self) -> Option<usize> {
        let usable = self.sessions.iter().enumerate();
        let usable: Vec<_> = usable.filter(|(_, session)| session.is_confirmed && !session.is_over).collect();
        let usable: Vec<_> = usable.into_iter().map(|(number, _)| number).collect();
        if usable.is_empty() { None } else { Some(*self.random.pick(&usable)) }
    }

    pub(super) fn open(&mut self) {
        let open = self.sessions.iter().filter(|session| !session.is_over).count();
        if open >= 5 {
            return;
        }
        let version = *self.random.pick(&["2025-03-26", "2025-06-18", "2025-11-25"]);
        self.sessions.push(Session {
            principal: *self.random.pick(&[None, Some("ada"), Some("eve")]),
            version,
            id: None,
            is_confirmed: false,
            is_over: false,
            is_ended: false,
            used: self.now,
            stream: None,
            last_event: None,
            received: 0,
            seen: BTreeSet::new(),
            streamed: None,
            level: Level::Accepted { wants_all: true, since: self.now },
            subscribed: BTreeSet::new(),
            questions: Vec::new(),
        });
        self.ask(self.sessions.len() - 1, What::Open, TestRequest::post(initialize(version)));
    }

    pub(super) fn call(&mut self) {
        let Some(session) = self.some_session() else { return };
        let call = self.calls.len();
        self.calls.push(Call {
            session,
            reading: None,
            served_by: None,
            begun: self.now,
            last_event: None,
            progress: 0,
            outcome: None,
            was_resumed: false,
            is_stored: false,
            answered: None,
            was_hit: false,
            was_cancelled: false,
        });
        let params = format!(r#"{{"name":"a","of":{session},"call":{call},"_meta":{{"progressToken":{call}}}}}"#);
        let body = request(&call.to_string(), "tools/call", &params);
        let key = self.ask(session, What::Call(call), TestRequest::post(body));
        self.calls[call].reading = Some(key);
        self.calls[call].served_by = Some(key.0);
    }

    /// A client resumes the stream of a call.
    pub(super) fn resume(&mut self) {
        let waiting = |call: &Call| call.outcome.is_none() && call.reading.is_none();
        let waiting: Vec<_> = (0..self.calls.len()).filter(|call| waiting(&self.calls[*call])).collect();
        if !waiting.is_empty() {
            let call = *self.random.pick(&waiting);
            self.resume_call(call);
        }
    }

    pub(super) fn resume_call(&mut self, call: usize) {
        let Call { session, reading: None, outcome: None, last_event: Some(after), .. } = &self.calls[call] else {
            return;
        };
        let next = number_of(after).map(|number| number + 1);
        let (session, after) = (*session, after.clone());
        let asked = self.resuming(&after);
        let key = self.ask(session, What::Resume(call), asked);
        if let Some(open) = self.exchanges.get_mut(&key) {
            open.next = next;
        }
        self.calls[call].reading = Some(key);
        self.calls[call].was_resumed = true;
    }

    pub(super) fn answer_question(&mut self) {
        let Some(session) = self.some_session() else { return };
        let Some((id, number)) = self.sessions[session].questions.pop() else { return };
        let body = result(&id, &format!(r#"{{"roots":[],"question":{number}}}"#));
        self.ask(session, What::Answer(number), TestRequest::post(body));
    }

    pub(super) fn cancel(&mut self) {
        let open = |call: &Call| call.outcome.is_none() && !self.sessions[call.session].is_over;
        let open: Vec<_> = (0..self.calls.len()).filter(|call| open(&self.calls[*call])).collect();
        if open.is_empty() {
            return;
        }
        let call = *self.random.pick(&open);
        let params = format!(r#"{{"requestId":{call}}}"#);
        let body = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
        self.calls[call].outcome = Some(Outcome::Cancelled);
        let mut asked = self.instances.values().flat_map(|instance| &instance.tickets);
        let is_served = asked.any(|asked| asked.call == call);
        let what = What::Cancel(is_served.then_some(call));
        self.ask(self.calls[call].session, what, TestRequest::post(body));
    }

    /// The connection of an exchange breaks.
    pub(super) fn disconnect(&mut self) {
        let all: Vec<_> = self.exchanges.keys().copied().collect();
        if !all.is_empty() {
            let key = *self.random.pick(&all);
            self.leave(key);
        }
    }

    pub(super) fn leave(&mut self, key: Key) {
        let now = self.now;
        self.watch(|| format!("{} {:?} breaks", key.0, key.1));
        if let Some(instance) = self.instances.get_mut(&key.0) {
            instance.server.take(key.1);
            instance.server.server.handle_disconnect(key.1, now);
        }
        if let Some(open) = self.exchanges.remove(&key) {
            self.on_broken(key, &open);
        }
    }

    /// A client opens its GET stream, or resumes it; sometimes although it has one.
    pub(super) fn get(&mut self) {
        let Some(session) = self.some_session() else { return };
        let old = self.sessions[session].stream;
        let is_open = old.and_then(|old| self.exchanges.get(&old)).is_some_and(Open::is_stream);
        if old.is_some() && !(is_open && self.random.one_in(3)) {
            return;
        }
        let after = self.sessions[session].last_event.clone().filter(|_| !self.random.one_in(5));
        let asked = match &after {
            Some(after) => self.resuming(after),
            None => TestRequest::get(),
        };
        let key = self.ask(session, What::Stream, asked);
        let (is_resumed, now) = (after.is_some(), self.now);
        if let Some(open) = self.exchanges.get_mut(&key) {
            open.next = after.and_then(|after| number_of(&after)).map(|number| number + 1);
        }
        if is_resumed {
            // It takes the place of each that the client has lost, or has asked for.
            let of_session = |open: &&mut Open| open.session == session && open.what == What::Stream;
            let others = self.exchanges.iter_mut().filter(|(other, _)| **other != key).map(|(_, open)| open);
            for open in others.filter(of_session) {
                open.is_left_since.get_or_insert(now);
            }
        } else if is_open {
            return;
        }
        self.sessions[session].stream = Some(key);
    }

    /// A request to resume a stream after this event.
    fn resuming(&self, after: &str) -> TestRequest {
        let asked = TestRequest::get();
        match after.rsplit_once('-').and_then(|(tag, number)| Some((tag, number.parse::<u64>().ok()?))) {
            Some((tag, number)) if self.run.is(Defect::RepeatsEvents) && number > 0 => {
                asked.with("last-event-id", &format!("{tag}-{}", number - 1))
            }
            _ => asked.with("last-event-id", after),
        }
    }

    pub(super) fn subscribe(&mut self) {
        let Some(session) = self.some_session() else { return };
        let number = self.number();
        let uri = format!("file:///{number}");
        let params = format!(r#"{{"uri":"{uri}"}}"#);
        let body = request(&format!("\"s{number}\""), "resources/subscribe", &params);
        self.ask(session, What::Subscribe(uri), TestRequest::post(body));
    }

    pub(super) fn set(&mut self) {
        let Some(session) = self.some_session() else { return };
        let (number, wants_all) = (self.number(), self.random.one_in(2));
        // Two requests may be carried out in any order.
        let is_setting = |open: &Open| open.session == session && matches!(open.what, What::SetLevel { .. });
        if self.sessions[session].level == Level::Unknown || self.exchanges.values().any(is_setting) {
            return;
        }
        self.sessions[session].level = Level::Unknown;
        let params = if wants_all { r#"{"level":"debug"}"# } else { r#"{"level":"error"}"# };
        let body = request(&format!("\"l{number}\""), "logging/setLevel", params);
        self.ask(session, What::SetLevel { wants_all }, TestRequest::post(body));
    }

    /// A client uses a session that it has ended.
    pub(super) fn use_ended(&mut self) {
        let ended: Vec<_> = (0..self.sessions.len()).filter(|session| self.sessions[*session].is_ended).collect();
        if !ended.is_empty() {
            let session = *self.random.pick(&ended);
            let ping = TestRequest::post(request("0", "ping", "{}"));
            let asked = if self.random.one_in(2) { ping } else { TestRequest::get() };
            self.ask(session, What::UseEnded, asked);
        }
    }

    /// Another principal uses the session.
    pub(super) fn steal(&mut self) {
        let Some(session) = self.some_session() else { return };
        let ping = TestRequest::post(request("0", "ping", "{}"));
        let asked = if self.random.one_in(2) { ping } else { TestRequest::get() };
        self.ask(session, What::Steal, asked);
    }

    pub(super) fn delete(&mut self) {
        let Some(session) = self.some_session().filter(|_| self.random.one_in(3)) else { return };
        self.sessions[session].is_over = true;
        self.ask(session, What::Delete, TestRequest::new("DELETE", ""));
    }

    pub(super) fn check_snapshot(&mut self) {
        let Some(session) = self.some_session() else { return };
        let (subscribed, level) = (self.sessions[session].subscribed.clone(), self.sessions[session].level);
        self.ask(session, What::Ping(subscribed, level), TestRequest::post(request("\"p\"", "ping", "{}")));
    }

    /// An instance publishes a change for all, or for one principal.
    pub(super) fn publish(&mut self) {
        let (id, number, now) = (self.some_instance(), self.number(), self.now);
        let only_for = self.random.pick(&[None, None, Some("ada"), Some("eve")]);
        let params = only_for.map_or_else(String::new, |principal| format!(r#","for":"{principal}""#));
        let params = json(&format!(r#"{{"number":{number}{params}}}"#));
        let change = Notification::with_params("notifications/tools/list_changed", params);
        let change = match only_for {
            Some(principal) => ChangeNotification::for_principal(change, Some(&Principal::new(principal))),
            None => change.into(),
        };
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.server.server.publish(change, now).expect("a change that is declared");
        }
    }

    /// An instance asks a client, or sends a log message, without a request of it.
    pub(super) fn ask_in_session(&mut self) {
        let (id, number, now) = (self.some_instance(), self.number(), self.now);
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let sessions: Vec<_> = instance.sessions.iter().copied().collect();
        if sessions.is_empty() {
            return;
        }
        let key = *self.random.pick(&sessions);
        let Some(snapshot) = instance.server.server.snapshot(key) else { return };
        let Some(of) = self.sessions.iter().position(|session| session.id.as_deref() == Some(&*snapshot.id)) else {
            return;
        };
        if self.random.one_in(2) {
            if let Level::Accepted { wants_all: false, since } = self.sessions[of].level {
                // The instance has received that by now.
                if self.faults == Faults::None && now.saturating_duration_since(since) > SOON {
                    self.unwanted.insert(number);
                }
            }
            let data = json(&format!(r#"{{"of":{of},"number":{number}}}"#));
            let logged = instance.server.server.log(key, LoggingLevel::Info, None, &data, now);
            logged.expect("a session that is open");
        } else {
            let params = json(&format!(r#"{{"of":{of},"question":{number}}}"#));
            if let Ok(asked) = instance.server.server.request(key, Request::new("roots/list").params(params), now) {
                instance.questions.insert(asked, number);
            }
        }
    }

    /// Reads what clients have received.
    pub(super) fn read_exchanges(&mut self) {
        for key in self.exchanges.keys().copied().collect::<Vec<_>>() {
            let Some(instance) = self.instances.get_mut(&key.0) else { continue };
            let sent = instance.server.take(key.1);
            let Some(mut open) = self.exchanges.remove(&key) else { continue };
            let sent = self.sent_instead(key, &open, sent);
            let is_over = sent.is_over;
            self.read_exchange(key, &mut open, sent);
            if is_over {
                self.on_over(key, &open);
            } else {
                self.exchanges.insert(key, open);
            }
        }
    }

    fn read_exchange(&mut self, key: Key, open: &mut Open, sent: TestResponse) {
        if sent.status.is_some() || sent.is_over || !sent.body.is_empty() {
            self.watch(|| format!("{} {:?} {} {:?} over: {}", key.0, key.1, sent.code(), sent.text(), sent.is_over));
        }
        if sent.status.is_some() {
            (open.status, open.is_stream) = (sent.code(), sent.is_stream);
            open.session_id = sent.headers.get("mcp-session-id").map(|id| id.to_str().expect("text").to_owned());
            self.check_status(open, &sent.text());
            if open.status == 200 && open.is_read() {
                self.sessions[open.session].stream = Some(key);
            }
        }
        let text = sent.text();
        if !open.is_stream {
            open.body.push_str(&text);
            if sent.is_over && open.status == 200 {
                let data = serde_json::from_str(&open.body).expect("JSON");
                self.on_message(key, open, Received { id: None, data: Some(data), text });
            }
            return;
        }
        for event in text.split("\n\n").filter(|event| !event.trim().is_empty()) {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            let data = field("data: ").filter(|data| !data.is_empty());
            let data_value = data.as_deref().map(|data| serde_json::from_str(data).expect("JSON"));
            let received = Received { id: field("id: "), data: data_value, text: data.unwrap_or_default() };
            self.check_number(open, &received);
            self.on_message(key, open, received);
        }
    }

    /// The events of a stream have consecutive numbers. A replay begins with the event after the last one.
    fn check_number(&mut self, open: &mut Open, received: &Received) {
        let (Some(id), Some(_)) = (&received.id, &received.data) else { return };
        // The store has removed the events of a session that its client has ended.
        if self.sessions[open.session].is_over {
            return;
        }
        let number = number_of(id).expect("a number");
        if let Some(next) = open.next {
            assert_eq!(number, next, "an event is missing or repeated: {}", received.text);
        }
        open.next = Some(number + 1);
        if open.is_read() {
            let session = &mut self.sessions[open.session];
            assert!(number > session.received, "an event is received again: {}", received.text);
            session.received = number;
            let of = |stream: &StreamId| self.sessions[open.session].id.as_deref() == Some(&*stream.session);
            let stream = self.stored.iter().find(|(stream, _)| of(stream));
            let events = stream.map_or(&[][..], |(_, events)| events);
            let at = usize::try_from(number - 1).expect("few events");
            assert_eq!(events.get(at), Some(&received.text), "another event has this number");
        }
    }

    fn check_status(&mut self, open: &Open, text: &str) {
        let is_faulty = self.faults == Faults::Store;
        let others =
            self.exchanges.values().filter(|other| other.what == What::Stream && other.session == open.session);
        let has_other = others.count() > 0;
        let session = &mut self.sessions[open.session];
        let is_idle = self.now.saturating_duration_since(session.used) >= IDLE.saturating_sub(Duration::from_secs(10));
        match open.status {
            404 if open.what == What::UseEnded => self.report.ended += 1,
            200 | 202 | 204 => {
                assert_ne!(open.what, What::UseEnded, "an ended session is found");
                assert_ne!(open.what, What::Steal, "the session of another principal was found");
                if !session.is_over || matches!(open.what, What::Stream | What::Resume(_)) {
                    session.used = session.used.max(open.begun);
                }
            }
            404 => {
                if open.what != What::Steal {
                    assert!(session.is_over || is_idle, "a session is not found: {:?}: {text}", open.what);
                    session.is_over = true;
                }
            }
            503 => assert!(is_faulty, "{:?}: {text}", open.what),
            // The event is not stored any more.
            400 if matches!(open.what, What::Resume(_) | What::Stream) => {}
            // Another GET has the stream, or had it when its instance ended.
            409 if open.what == What::Stream => {
                let was_other = session.streamed.is_some_and(|at| self.now.saturating_duration_since(at) < NOTICED);
                assert!(has_other || was_other || is_faulty, "a GET stream is refused, and there is no other");
                self.report.refused += 1;
            }
            status => panic!("{status} for {:?}: {text}", open.what),
        }
    }

    fn on_message(&mut self, key: Key, open: &mut Open, received: Received) {
        let Received { id, data, text } = received;
        match open.what {
            What::Stream if open.is_left_since.is_none() => {
                self.sessions[open.session].last_event = id.or(self.sessions[open.session].last_event.take());
            }
            What::Call(call) | What::Resume(call) => {
                self.calls[call].last_event = id.or(self.calls[call].last_event.take());
            }
            _ => {}
        }
        let Some(message) = data else { return };
        let at = |place: &str| message.pointer(place).and_then(Value::as_u64);
        for of in ["/params/of", "/params/data/of", "/result/of"].into_iter().filter_map(at) {
            assert_eq!(usize::try_from(of), Ok(open.session), "a message of another session: {text}");
        }
        match open.what {
            What::Call(call) | What::Resume(call) => {
                for of in ["/params/call", "/result/call", "/params/progressToken"].into_iter().filter_map(at) {
                    assert_eq!(usize::try_from(of), Ok(call), "a message of another call: {text}");
                }
                self.on_message_of_call(key, call, &message, &text);
            }
            What::Stream => self.on_message_of_session(open, &message, &text),
            _ => {}
        }
        if let (Some(number), Some(id)) = (at("/params/question"), message.get("id")) {
            self.sessions[open.session].questions.push((id.to_string(), number));
        }
    }

    /// A message on a GET stream.
    fn on_message_of_session(&mut self, open: &Open, message: &Value, text: &str) {
        self.report.notified += 1;
        let session = &mut self.sessions[open.session];
        let only_for = message.pointer("/params/for").and_then(Value::as_str);
        assert!(only_for.is_none() || only_for == session.principal, "a change for another principal: {text}");
        // A change that is published while the stream moves may be added by both instances.
        let places = ["/params/data/number", "/params/question"];
        for number in places.into_iter().filter_map(|place| message.pointer(place).and_then(Value::as_u64)) {
            assert!(!self.unwanted.contains(&number), "a setting is not in force: {text}");
            let is_new = open.is_left_since.is_some() || session.seen.insert(number);
            assert!(is_new, "a message is received again: {text}");
        }
    }

    /// Another stream of the same instance, of another session.
    pub(super) fn other_stream(&self, key: Key, open: &Open) -> Option<Key> {
        let is_other = |other: &Open| other.is_stream && other.session != open.session;
        let mut others = self.exchanges.iter().filter(|(other, _)| other.0 == key.0);
        others.find(|(_, other)| is_other(other)).map(|(other, _)| *other)
    }

    /// A session has one GET stream. One that its client has left ends soon, if nothing fails.
    pub(super) fn check_streams(&self) {
        let mut read = BTreeMap::new();
        for open in self.exchanges.values().filter(|open| open.is_read()) {
            assert_eq!(read.insert(open.session, open.begun), None, "two streams of one session");
        }
        let left = self.exchanges.values().filter(|open| open.is_stream() && !open.is_read());
        for open in left.filter(|_| self.faults == Faults::None) {
            let is_replaced = |begun: &Instant| self.now.saturating_duration_since(*begun) > SOON;
            assert!(!read.get(&open.session).is_some_and(is_replaced), "two streams of one session");
        }
    }

    fn on_message_of_call(&mut self, key: Key, number: usize, message: &Value, text: &str) {
        let is_strict = self.faults != Faults::Store;
        let is_over = self.sessions[self.calls[number].session].is_over;
        let call = &mut self.calls[number];
        if call.outcome == Some(Outcome::Cancelled) {
            return;
        }
        assert_eq!(call.outcome, None, "after the outcome of call {number}: {text}");
        assert_eq!(call.reading, Some(key), "call {number} is read elsewhere: {text}");
        if let Some(progress) = message.pointer("/params/progress").and_then(Value::as_f64) {
            call.progress += 1;
            let expected = f64::from(u32::try_from(call.progress).expect("few steps"));
            assert!((progress - expected).abs() < 0.1, "progress is missing or repeated: {text}");
        } else if message.get("result").is_some() {
            call.outcome = Some(Outcome::Result);
            self.report.results += 1;
            self.report.resumed += usize::from(call.was_resumed);
        } else if message.get("error").is_some() {
            call.outcome = Some(Outcome::Error);
            self.report.errors += 1;
            assert!(call.was_hit || is_over || !is_strict, "an error without a reason: {text}");
            assert!(
                !(call.is_stored && is_strict && !is_over),
                "the answer to {number} was stored, and is lost: {text}"
            );
        }
    }

    /// A response is complete.
    fn on_over(&mut self, key: Key, open: &Open) {
        let is_faulty = self.faults == Faults::Store;
        let session = &mut self.sessions[open.session];
        match &open.what {
            What::Open => match &open.session_id {
                Some(id) => {
                    session.id = Some(id.clone());
                    self.report.sessions += 1;
                    self.ask(open.session, What::Confirm, TestRequest::post(INITIALIZED));
                }
                None => session.is_over = true,
            },
            What::Confirm => {
                session.is_confirmed = open.status == 202;
                session.is_over |= open.status != 202;
            }
            What::SetLevel { wants_all } => {
                session.level = match open.status {
                    200 => Level::Accepted { wants_all: *wants_all, since: self.now },
                    _ => Level::Unknown,
                };
            }
            What::Subscribe(uri) => {
                if open.status == 200 {
                    session.subscribed.insert(uri.clone());
                }
            }
            What::Answer(number) => {
                if open.status == 202 {
                    self.accepted.insert(*number, self.now);
                }
            }
            What::Cancel(call) => {
                if let Some(call) = call.filter(|_| open.status == 202) {
                    self.calls[call].was_cancelled = true;
                }
            }
            What::Stream => {
                if session.stream == Some(key) {
                    session.stream = None;
                }
                if open.status == 200 {
                    session.streamed = Some(self.now);
                }
                if open.status == 400 {
                    assert!(is_faulty || open.next.is_some(), "a new stream is refused");
                    session.last_event = None;
                }
            }
            What::Ping(subscribed, level) => {
                if open.status == 200 {
                    let level = if session.level == *level { *level } else { Level::Unknown };
                    self.take_snapshot(key.0, open.session, subscribed, level);
                }
            }
            What::Call(call) | What::Resume(call) => self.on_call_over(*call, open),
            What::Delete => session.is_ended = open.status == 204,
            What::Steal | What::UseEnded => {}
        }
    }

    /// A response to a call or to its resumption is complete.
    fn on_call_over(&mut self, number: usize, open: &Open) {
        let is_strict = self.faults != Faults::Store;
        let is_over = self.sessions[open.session].is_over;
        let call = &mut self.calls[number];
        call.reading = None;
        if call.outcome.is_some() {
            return;
        }
        let is_expired = call
            .answered
            .is_some_and(|at| self.now.saturating_duration_since(at) + Duration::from_secs(10) > REPLAY_FOR);
        let is_trimmed = self.replay == REPLAY[0];
        // Nothing keeps the events of an instance that has ended.
        let is_stale = call.was_hit && self.now.saturating_duration_since(call.begun) + Duration::from_secs(10) > IDLE;
        let is_idle =
            self.now.saturating_duration_since(self.sessions[open.session].used) + Duration::from_secs(10) > IDLE;
        match open.status {
            200 if call.last_event.is_some() => {}
            503 if !is_strict && call.last_event.is_some() => {}
            status => {
                let is_allowed = is_over
                    || !is_strict
                    || (is_expired || is_idle || is_stale || is_trimmed) && call.last_event.is_some();
                let was_hit = call.was_hit && matches!(open.what, What::Call(_));
                assert!(is_allowed || was_hit, "call {number} ends with {status} and without an answer");
                call.outcome = Some(Outcome::Lost);
                self.report.lost += 1;
            }
        }
    }

    /// The connection of an exchange has broken.
    pub(super) fn on_broken(&mut self, key: Key, open: &Open) {
        let session = &mut self.sessions[open.session];
        match &open.what {
            What::Open | What::Confirm => session.is_over = true,
            What::Stream => {
                session.stream = session.stream.filter(|stream| *stream != key);
                session.streamed = Some(self.now);
            }
            What::SetLevel { .. } => session.level = Level::Unknown,
            What::Call(call) | What::Resume(call) => {
                let call = &mut self.calls[*call];
                call.was_hit = true;
                if call.reading == Some(key) {
                    call.reading = None;
                    if call.last_event.is_none() && call.outcome.is_none() {
                        call.outcome = Some(Outcome::Lost);
                        self.report.lost += 1;
                    }
                }
            }
            _ => {}
        }
    }

    /// A snapshot of what an instance has of a session is restored at a server of its own.
    fn take_snapshot(&mut self, id: InstanceId, number: usize, subscribed: &BTreeSet<String>, level: Level) {
        let session = &self.sessions[number];
        let Some(instance) = self.instances.get(&id) else { return };
        let taken = instance.sessions.iter().filter_map(|key| instance.server.server.snapshot(*key));
        let taken: Vec<_> = taken.filter(|taken| session.id.as_deref() == Some(&*taken.id)).collect();
        // It may have ended since.
        let [snapshot] = &taken[..] else { return assert!(taken.is_empty(), "two sessions with one id") };
        let snapshot = Snapshot::new(snapshot.id.clone(), snapshot.bytes.clone());
        let mut server = HttpServerHarness::with(|_, config| {
            config.capabilities = json(r#"{"logging":{},"resources":{"subscribe":true}}"#);
        });
        let key = server.server.restore(&snapshot, server.now).expect("a snapshot of this version");
        let asked = TestRequest::get().in_session(&snapshot.id);
        let asked = match session.principal {
            Some(principal) => asked.by(principal),
            None => asked,
        };
        let stream = server.ask(&asked);
        for uri in subscribed {
            let params = json(&format!(r#"{{"uri":"{uri}"}}"#));
            let change = Notification::with_params("notifications/resources/updated", params);
            server.server.publish(change, server.now).expect("a change that is declared");
        }
        if let Level::Accepted { .. } = level {
            let logged = server.server.log(key, LoggingLevel::Info, None, &json("1"), server.now);
            logged.expect("a session that is open");
        }
        let logged = usize::from(matches!(level, Level::Accepted { wants_all: true, .. }));
        let sent = server.take(stream);
        let in_force = (200, subscribed.len() + logged);
        assert_eq!((sent.code(), sent.data().len()), in_force, "a setting is not in force: {}", session.version);
        self.report.snapshots += 1;
    }
}

/// The number in the id of an event.
fn number_of(id: &str) -> Option<u64> {
    id.rsplit_once('-')?.1.parse().ok()
}
