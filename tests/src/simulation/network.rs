//! HTTP exchanges between machines, with a bounded latency that differs between exchanges, and with faults. The network
//! parses what it carries, so that the model receives the call that an exchange, and so a fault, belongs to.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header, request, response};
use mcp_proto::client::{self, Failure};
use mcp_proto::{Instant, Json, server};
use mcp_testkit::random::Random;

use super::faults::Fault;
use super::member_of;
use super::model::Model;

/// Identifies an exchange by the number of the client and the client's key.
pub type Key = (usize, client::ExchangeKey);

/// The content of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `initialize` or `server/discover`.
    Opening,
    /// `notifications/initialized`.
    Confirmation,
    /// A call, with its text.
    Call(String),
    /// A GET that resumes the stream of a call.
    Resumption(String),
    /// A client's answer to a request that belongs to a call.
    Answer(String),
    /// The cancellation of a call.
    Cancellation(String),
    /// A subscription.
    Listen,
    /// The GET stream of a session.
    OwnStream,
    /// The only stream of a two-endpoint session, which carries all messages of the server.
    OnlyStream,
    /// The `DELETE` that ends a session.
    End,
    /// Anything else.
    Other,
}

impl Kind {
    /// The text of the call that it belongs to.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Call(text) | Self::Resumption(text) | Self::Answer(text) | Self::Cancellation(text) => Some(text),
            Self::Opening
            | Self::Confirmation
            | Self::Listen
            | Self::OwnStream
            | Self::OnlyStream
            | Self::End
            | Self::Other => None,
        }
    }

    /// The text of the call whose answer it carries.
    pub fn carries(&self) -> Option<&str> {
        match self {
            Self::Call(text) | Self::Resumption(text) => Some(text),
            Self::Answer(_)
            | Self::Cancellation(_)
            | Self::Opening
            | Self::Confirmation
            | Self::Listen
            | Self::OwnStream
            | Self::OnlyStream
            | Self::End
            | Self::Other => None,
        }
    }
}

/// The fault of an exchange, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Well,
    Unreachable,
    /// An intermediary responds with this status.
    Refused(u16),
    /// The connection breaks after this many pieces of the request.
    BreaksOnTheWay(u64),
    /// The connection breaks when the response begins.
    LosesHead,
    /// The connection breaks after this many bytes of the response.
    Breaks(usize),
    /// The response ends normally after this many bytes, although it is incomplete.
    EndsEarly(usize),
    /// No part of the response arrives.
    Silent,
    /// A response with a JSON body has another id, or is not JSON.
    Spoilt {
        is_json: bool,
    },
    /// A stray event precedes the server's first event; `nth` selects its content.
    Stray {
        nth: u64,
    },
    /// Events that end a call are sent twice.
    Twice,
}

/// A piece that arrives at a server.
#[derive(Debug)]
pub enum ToServer {
    /// The head of a request.
    Head(Box<request::Parts>),
    /// A piece of the body.
    Body(Bytes),
    /// The end of the request.
    End,
    /// The client has disconnected.
    Gone,
}

/// A piece that arrives at a client.
#[derive(Debug)]
pub enum ToClient {
    /// The request was written.
    Sent,
    /// The head of a response.
    Head(Box<response::Parts>),
    /// A piece of the body.
    Body(Bytes),
    /// The end of the response.
    End,
    /// The exchange has failed.
    Failed(Failure),
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Flight {
    kind: Kind,
    fate: Fate,
    /// The longest latency of a piece.
    latency: Duration,
    /// Whether the request is part of a session.
    in_session: bool,
    session: Option<HeaderValue>,
    served: Option<server::ExchangeKey>,
    up: VecDeque<(Instant, ToServer)>,
    down: VecDeque<(Instant, ToClient)>,
    /// The number of bytes of the response that may still reach the client.
    left: usize,
    /// The part of the body that has reached the client.
    got: Vec<u8>,
    status: Option<u16>,
    /// Whether the server responds with an HTTP error.
    is_refused: bool,
    /// Whether a fault has cut it.
    is_cut: bool,
    /// Whether the response is complete, or the rest of it is lost.
    is_over: bool,
    /// Whether the client has aborted it.
    is_dropped: bool,
}

/// Ids that a client has used or received.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// The value of `Mcp-Session-Id`.
    pub session: Option<HeaderValue>,
    /// The latest event id.
    pub event: Option<String>,
}

/// All exchanges.
#[derive(Debug)]
pub struct Network {
    random: Random,
    flights: BTreeMap<Key, Flight>,
    by_server: BTreeMap<server::ExchangeKey, Key>,
    /// The texts of calls, by the client and the tag in the event ids of their streams.
    tags: BTreeMap<(usize, String), String>,
    /// The texts of calls, by the client and every request id that they have had.
    ids: BTreeMap<(usize, String), String>,
    shown: Vec<Shown>,
    /// Nothing arrives for these clients before these times.
    stalled: Vec<Option<Instant>>,
    /// Whether each client accepts no body bytes for now.
    paused: Vec<bool>,
    /// How many exchanges in a thousand have a fault.
    pub trouble: u64,
    /// Whether peers send invalid messages.
    pub malformed: bool,
    /// A note for each opened exchange, for the trace.
    pub notes: Vec<String>,
    /// The number of messages that were carried.
    pub messages: u64,
}

impl Network {
    /// A network without exchanges.
    pub fn new(random: Random, clients: usize) -> Self {
        Self {
            random,
            flights: BTreeMap::new(),
            by_server: BTreeMap::new(),
            tags: BTreeMap::new(),
            ids: BTreeMap::new(),
            shown: vec![Shown::default(); clients],
            stalled: vec![None; clients],
            paused: vec![false; clients],
            trouble: 0,
            malformed: false,
            notes: Vec::new(),
            messages: 0,
        }
    }

    /// A client opens an exchange.
    pub fn open(&mut self, key: Key, request: Request<Bytes>, now: Instant, model: &mut Model) {
        let (client, _) = key;
        let kind = self.classify(client, &request);
        let in_session = request.headers().contains_key("mcp-session-id") || request.uri().query().is_some();
        if let Some(session) = request.headers().get("mcp-session-id") {
            self.shown[client].session = Some(session.clone());
        }
        let fate = self.fate(&kind);
        let latency = Duration::from_millis(*self.random.pick(&[1, 5, 5, 20, 20, 100, 1500]));
        self.notes.push(format!("{client} {kind:?} {fate:?}"));
        if let Some(text) = kind.carries() {
            model.opened(text, key.1, matches!(kind, Kind::Call(_)), latency, now);
        }
        let left = match fate {
            Fate::Breaks(left) | Fate::EndsEarly(left) => left,
            Fate::Silent => 0,
            Fate::Well
            | Fate::Unreachable
            | Fate::Refused(_)
            | Fate::BreaksOnTheWay(_)
            | Fate::LosesHead
            | Fate::Spoilt { .. }
            | Fate::Stray { .. }
            | Fate::Twice => usize::MAX,
        };
        let mut flight = Flight {
            kind,
            fate,
            latency,
            in_session,
            session: request.headers().get("mcp-session-id").cloned(),
            served: None,
            up: VecDeque::new(),
            down: VecDeque::new(),
            left,
            got: Vec::new(),
            status: None,
            is_refused: false,
            is_cut: false,
            is_over: false,
            is_dropped: false,
        };
        let (mut parts, body) = request.into_parts();
        if let Some(authority) = parts.uri.authority() {
            let host = HeaderValue::from_str(authority.as_str()).expect("an authority");
            parts.headers.insert(header::HOST, host);
        }
        parts.uri = parts.uri.path_and_query().expect("a path").as_str().parse().expect("a target");
        let mut pieces = vec![ToServer::Head(Box::new(parts))];
        let mut rest = body;
        while !rest.is_empty() {
            let length = usize::try_from(self.random.below(60)).expect("small") + 1;
            pieces.push(ToServer::Body(rest.split_to(length.min(rest.len()))));
        }
        pieces.push(ToServer::End);
        self.messages += 1;
        let fault = match fate {
            Fate::Unreachable => {
                let failure = Failure::Unreachable { detail: "connection refused".into() };
                flight.down.push_back((now + self.random.time(latency), ToClient::Failed(failure)));
                Some(Fault::Unreachable)
            }
            Fate::Refused(status) => {
                let at = now + self.random.time(latency);
                flight.down.push_back((at, ToClient::Sent));
                flight.down.push_back((at, ToClient::Head(Box::new(refusal(status)))));
                flight.down.push_back((at, ToClient::Body(Bytes::from_static(b"<html>no</html>"))));
                flight.down.push_back((at, ToClient::End));
                Some(Fault::Status(status))
            }
            Fate::BreaksOnTheWay(pieces_sent) => {
                let mut at = now;
                for piece in pieces.drain(..).take(usize::try_from(pieces_sent).expect("few")) {
                    at = at.max(now + self.random.time(latency));
                    // The end is never delivered, because a request that was sent in full could be handled.
                    if !matches!(piece, ToServer::End) {
                        flight.up.push_back((at, piece));
                    }
                }
                flight.up.push_back((at, ToServer::Gone));
                let failure = Failure::Broken { detail: "connection reset".into() };
                flight.down.push_back((at, ToClient::Failed(failure)));
                Some(Fault::BrokenRequest)
            }
            Fate::Well
            | Fate::LosesHead
            | Fate::Breaks(_)
            | Fate::EndsEarly(_)
            | Fate::Silent
            | Fate::Spoilt { .. }
            | Fate::Stray { .. }
            | Fate::Twice => {
                let mut at = now;
                for piece in pieces {
                    at = at.max(now + self.random.time(latency));
                    flight.up.push_back((at, piece));
                }
                flight.down.push_back((at, ToClient::Sent));
                (fate == Fate::Silent).then_some(Fault::SilentResponse)
            }
        };
        if let Some(fault) = fault {
            flight.is_over = fault != Fault::SilentResponse;
            flight.is_cut = true;
            touch(client, &flight.kind, fault, now, model);
        }
        let before = self.flights.insert(key, flight);
        assert!(before.is_none(), "{key:?} was opened twice");
    }

    /// The client aborts an exchange.
    pub fn abort(&mut self, key: Key, now: Instant) {
        let Some(flight) = self.flights.get_mut(&key) else { return };
        assert!(!flight.is_dropped, "{key:?} was dropped twice");
        flight.is_dropped = true;
        flight.down.clear();
        // A request that is being written is cut.
        let at = now + self.random.time(flight.latency);
        flight.up.retain(|(arrives, _)| *arrives <= at);
        flight.up.push_back((at, ToServer::Gone));
    }

    /// The server sends a complete response, whose body has a known length.
    pub fn respond(&mut self, served: server::ExchangeKey, response: Response<Bytes>, now: Instant, model: &mut Model) {
        let (head, mut body) = response.into_parts();
        let found = self.by_server.get(&served).copied();
        if let Some((key, Fate::Spoilt { is_json })) =
            found.and_then(|key| self.flights.get(&key).map(|flight| (key, flight.fate)))
        {
            let flight = &self.flights[&key];
            if head.status == 200 && flight.kind.carries().is_some() && !body.is_empty() {
                let other = self
                    .ids
                    .iter()
                    .find(|((client, _), text)| *client == key.0 && Some(text.as_str()) != flight.kind.text());
                let id = other.map_or("900001", |((_, id), _)| id.as_str());
                let (text, fault) = if is_json {
                    (format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"forged"}}}}"#), Fault::ForeignId)
                } else {
                    ("{\"jsonrpc\":\"2.0\",\"id\":".to_owned(), Fault::Garbage)
                };
                body = text.into();
                touch(key.0, &flight.kind.clone(), fault, now, model);
            }
        }
        self.messages += 1;
        self.down(served, ToClient::Head(Box::new(head)), now, model);
        self.write_pieces(served, body, now, model);
        self.finish(served, now, model);
    }

    /// The server begins a stream.
    pub fn stream(&mut self, served: server::ExchangeKey, head: Response<()>, now: Instant, model: &mut Model) {
        self.down(served, ToClient::Head(Box::new(head.into_parts().0)), now, model);
    }

    /// The server writes to a stream: an event, a comment, or several of them.
    pub fn write(&mut self, served: server::ExchangeKey, chunk: Bytes, now: Instant, model: &mut Model) {
        self.messages += 1;
        let Some(key) = self.by_server.get(&served).copied() else { return };
        let Some(flight) = self.flights.get_mut(&key) else { return };
        let text = String::from_utf8_lossy(&chunk).into_owned();
        for id in text.lines().filter_map(|line| line.strip_prefix("id: ").or_else(|| line.strip_prefix("id:"))) {
            self.shown[key.0].event = Some(id.to_owned());
            if let (Some((tag, _)), Some(call)) = (id.split_once('-'), flight.kind.carries()) {
                self.tags.insert((key.0, tag.to_owned()), call.to_owned());
            }
        }
        let (fate, kind) = (flight.fate, flight.kind.clone());
        let is_event = text.contains("data: {");
        let is_answer = is_event && (text.contains("\"result\":") || text.contains("\"error\":"));
        if let (Fate::Stray { nth }, true) = (fate, is_event) {
            flight.fate = Fate::Well;
            let is_other =
                |((client, _), of): &(&(usize, String), &String)| *client == key.0 && Some(of.as_str()) != kind.text();
            let ids: Vec<_> = self.ids.iter().filter(is_other).map(|((_, id), _)| id.clone()).collect();
            let id = ids.get(usize::try_from(nth).expect("small") % ids.len().max(1)).map_or("900001", String::as_str);
            let stray = if nth % 4 == 0 {
                "data: {\"jsonrpc\":\"2.0\",\"id\":\n\n".to_owned()
            } else {
                format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"text\":\"forged\"}}}}\n\n")
            };
            model.count(Fault::StrayEvent);
            self.write_pieces(served, stray.into(), now, model);
        }
        self.write_pieces(served, chunk.clone(), now, model);
        if fate == Fate::Twice && is_answer && kind.carries().is_some() {
            model.count(Fault::Duplicate);
            self.write_pieces(served, chunk, now, model);
        }
    }

    fn write_pieces(&mut self, served: server::ExchangeKey, mut chunk: Bytes, now: Instant, model: &mut Model) {
        while !chunk.is_empty() {
            let length = usize::try_from(self.random.below(400)).expect("small") + 1;
            let piece = chunk.split_to(length.min(chunk.len()));
            self.down(served, ToClient::Body(piece), now, model);
        }
    }

    /// The server aborts a response that is not read.
    pub fn drop_unread(&mut self, served: server::ExchangeKey, now: Instant, model: &mut Model) {
        let found = self.flights.iter_mut().find(|(_, flight)| flight.served == Some(served));
        let Some((key, flight)) = found.filter(|(_, flight)| !flight.is_dropped) else { return };
        flight.down.clear();
        let failure = Failure::Broken { detail: "connection reset".into() };
        flight.down.push_back((now + self.random.time(flight.latency), ToClient::Failed(failure)));
        flight.is_over = true;
        flight.is_cut = true;
        touch(key.0, &flight.kind.clone(), Fault::Unread, now, model);
        self.by_server.remove(&served);
    }

    /// The server ends a stream.
    pub fn finish(&mut self, served: server::ExchangeKey, now: Instant, model: &mut Model) {
        self.down(served, ToClient::End, now, model);
        if let Some(flight) = self.by_server.remove(&served).and_then(|key| self.flights.get_mut(&key)) {
            flight.is_over = true;
        }
    }

    fn down(&mut self, served: server::ExchangeKey, piece: ToClient, now: Instant, model: &mut Model) {
        let Some(key) = self.by_server.get(&served).copied() else { return };
        let Some(flight) = self.flights.get_mut(&key) else { return };
        if flight.is_dropped || flight.is_over {
            return;
        }
        let earliest = flight.down.back().map_or(now, |(at, _)| *at).max(now);
        let at = earliest.max(now + self.random.time(flight.latency));
        let broken = || ToClient::Failed(Failure::Broken { detail: "connection reset".into() });
        let (last, fault) = match (piece, flight.fate) {
            (_, Fate::Silent) => return,
            (ToClient::Head(_), Fate::LosesHead) => (broken(), Fault::LostHead),
            (ToClient::Body(bytes), fate) => {
                let length = bytes.len().min(flight.left);
                flight.left -= length;
                if length > 0 {
                    flight.down.push_back((at, ToClient::Body(bytes.slice(..length))));
                }
                match fate {
                    Fate::Breaks(_) if flight.left == 0 => (broken(), Fault::BrokenResponse),
                    Fate::EndsEarly(_) if flight.left == 0 => (ToClient::End, Fault::ShortResponse),
                    _ => return,
                }
            }
            (piece @ (ToClient::Head(_) | ToClient::End | ToClient::Sent | ToClient::Failed(_)), _) => {
                if let ToClient::Head(head) = &piece {
                    flight.is_refused = !head.status.is_success();
                }
                flight.down.push_back((at, piece));
                return;
            }
        };
        flight.down.push_back((at, last));
        flight.is_over = true;
        flight.is_cut = true;
        flight.up.push_back((at, ToServer::Gone));
        if let (Some(text), true) = (flight.kind.text(), flight.is_refused) {
            model.allow(text, "refused");
        }
        touch(key.0, &flight.kind.clone(), fault, now, model);
    }

    /// The server has ended: its exchanges break, and the new server has none of them.
    pub fn restart(&mut self, now: Instant, model: &mut Model) {
        self.by_server.clear();
        for ((client, _), flight) in &mut self.flights {
            if flight.kind == Kind::Listen && !is_acknowledged(&flight.got) {
                model.changes.deafened(*client, now);
            }
            flight.up.clear();
            flight.served = None;
            if !flight.is_over && !flight.is_dropped {
                let failure = Failure::Broken { detail: "connection reset".into() };
                let at = flight.down.back().map_or(now, |(at, _)| *at).max(now + self.random.time(flight.latency));
                flight.down.push_back((at, ToClient::Failed(failure)));
                flight.is_over = true;
                flight.is_cut = true;
            }
        }
    }

    /// Delays everything that arrives for a client until this time.
    pub fn stall(&mut self, client: usize, until: Instant) {
        self.stalled[client] = self.stalled[client].max(Some(until));
    }

    /// Sets whether a client accepts no body bytes.
    pub fn pause(&mut self, client: usize, is_paused: bool) {
        self.paused[client] = is_paused;
    }

    /// The time of the next arrival.
    pub fn next(&self) -> Option<Instant> {
        let arrivals = self.flights.iter().flat_map(|((client, _), flight)| {
            let down = flight.down.front().filter(|_| !self.paused[*client]);
            let down = down.map(|(at, _)| self.stalled[*client].map_or(*at, |until| until.max(*at)));
            [flight.up.front().map(|(at, _)| *at), down].into_iter().flatten()
        });
        arrivals.min()
    }

    /// The next piece that has arrived at the server, with the client's key of its exchange, and the server's key if it
    /// has one.
    pub fn arrived_at_server(&mut self, now: Instant) -> Option<(Key, Option<server::ExchangeKey>, ToServer)> {
        let is_due = |flight: &Flight| flight.up.front().is_some_and(|(at, _)| *at <= now);
        let (key, flight) = self.flights.iter_mut().find(|(_, flight)| is_due(flight))?;
        let (_, piece) = flight.up.pop_front()?;
        Some((*key, flight.served, piece))
    }

    /// Stores the server's key of an exchange.
    pub fn named(&mut self, key: Key, served: server::ExchangeKey) {
        self.by_server.insert(served, key);
        if let Some(flight) = self.flights.get_mut(&key) {
            flight.served = Some(served);
        }
    }

    /// The next piece that has arrived at a client, with the client's and the server's key of its exchange.
    pub fn arrived_at_client(
        &mut self,
        now: Instant,
        model: &mut Model,
    ) -> Option<(Key, Option<server::ExchangeKey>, ToClient)> {
        let (stalled, paused) = (&self.stalled, &self.paused);
        let is_due = |(client, _): &Key, flight: &Flight| {
            !paused[*client]
                && flight
                    .down
                    .front()
                    .is_some_and(|(at, _)| *at <= now && stalled[*client].is_none_or(|until| until <= now))
        };
        let (key, flight) = self.flights.iter_mut().find(|(key, flight)| is_due(key, flight))?;
        let (_, piece) = flight.down.pop_front()?;
        let text = flight.kind.carries();
        match &piece {
            ToClient::Sent => {}
            ToClient::Head(head) => {
                flight.status = Some(head.status.as_u16());
                if head.status == 404 && flight.in_session {
                    model.may_lose_session(key.0);
                }
                if head.status == 200 && flight.kind == Kind::OwnStream {
                    model.changes.opened_again(key.0, now + model.to_client());
                }
            }
            ToClient::Body(bytes) => {
                flight.got.extend_from_slice(bytes);
                let has_event = |got: &[u8]| {
                    let got = String::from_utf8_lossy(got);
                    got.rfind("\n\n").is_some_and(|end| got[..end].contains("\nid:") || got.starts_with("id:"))
                };
                if let Some(text) = text.filter(|_| has_event(&flight.got)) {
                    model.got_cursor(text);
                }
                if flight.kind == Kind::Listen && is_acknowledged(&flight.got) {
                    model.changes.opened_again(key.0, now + model.to_client());
                }
            }
            ToClient::End | ToClient::Failed(_) => {
                let is_undelivered = matches!(piece, ToClient::Failed(Failure::Unreachable { .. }));
                if let Some(text) = text {
                    model.over(text, key.1, flight.is_cut, is_undelivered, now);
                    if flight.status == Some(404) && flight.in_session {
                        model.may_be_sent_again(text);
                    }
                }
                if flight.kind == Kind::OnlyStream {
                    model.may_lose_session(key.0);
                }
            }
        }
        Some((*key, flight.served, piece))
    }

    /// Whether this piece ends the stream of an open subscription.
    pub fn is_end_of_listen(&self, key: Key, piece: &ToClient) -> bool {
        let is_end = matches!(piece, ToClient::End | ToClient::Failed(_));
        is_end
            && self.flights.get(&key).is_some_and(|flight| flight.kind == Kind::Listen && is_acknowledged(&flight.got))
    }

    /// Removes exchanges that have ended and have no pieces in flight.
    pub fn sweep(&mut self) {
        let by_server = &mut self.by_server;
        self.flights.retain(|_, flight| {
            let is_done = (flight.is_over || flight.is_dropped) && flight.up.is_empty() && flight.down.is_empty();
            if is_done {
                if let Some(served) = flight.served {
                    by_server.remove(&served);
                }
            }
            !is_done
        });
    }

    /// The number of exchanges of a session that are open at the server.
    pub fn open_in_session(&self, session: &HeaderValue) -> usize {
        // The request has arrived in full, and the response is incomplete.
        let is_open =
            |flight: &&Flight| flight.served.is_some() && flight.up.is_empty() && !flight.is_over && !flight.is_dropped;
        self.flights.values().filter(|flight| flight.session.as_ref() == Some(session)).filter(is_open).count()
    }

    /// The ids that a client has used or received.
    pub fn shown(&self, client: usize) -> &Shown {
        &self.shown[client]
    }

    /// Whether pieces are in flight.
    pub fn is_busy(&self) -> bool {
        self.flights.values().any(|flight| !flight.up.is_empty() || !flight.down.is_empty())
    }

    /// Determines the content of an exchange from its request.
    fn classify(&mut self, client: usize, request: &Request<Bytes>) -> Kind {
        if *request.method() == Method::DELETE {
            return Kind::End;
        }
        if *request.method() == Method::GET {
            if request.uri().path() == "/sse" {
                return Kind::OnlyStream;
            }
            let after = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
            let tag = after.and_then(|after| after.split_once('-')).map(|(tag, _)| tag.to_owned());
            let call = tag.and_then(|tag| self.tags.get(&(client, tag)));
            return call.map_or(Kind::OwnStream, |text| Kind::Resumption(text.clone()));
        }
        let message = Json::parse(request.body().clone()).expect("a message");
        let [method, params, id, result, error] =
            ["method", "params", "id", "result", "error"].map(|name| member_of(&message, name));
        let member = |of: Option<&Json>, name: &str| of.and_then(|of| member_of(of, name));
        let string = |text: Option<Json>| text.as_ref().and_then(Json::as_string).map(String::from);
        let Some(method) = string(method) else {
            let text = string(member(result.as_ref(), "text")).or_else(|| string(member(error.as_ref(), "message")));
            return text.map_or(Kind::Other, Kind::Answer);
        };
        match method.as_str() {
            "initialize" | "server/discover" => Kind::Opening,
            "notifications/initialized" => Kind::Confirmation,
            "subscriptions/listen" => Kind::Listen,
            "tools/call" => {
                let text = string(member(params.as_ref(), "text")).expect("a text");
                self.ids.insert((client, id.expect("an id").to_text().to_string()), text.clone());
                Kind::Call(text)
            }
            "notifications/cancelled" => {
                let id = member(params.as_ref(), "requestId").map(|id| id.to_text().to_string());
                let text = id.and_then(|id| self.ids.get(&(client, id)));
                text.map_or(Kind::Other, |text| Kind::Cancellation(text.clone()))
            }
            _ => Kind::Other,
        }
    }

    fn fate(&mut self, kind: &Kind) -> Fate {
        if self.malformed && kind.carries().is_some() && self.random.one_in(3) {
            return match self.random.below(4) {
                0 => Fate::Spoilt { is_json: self.random.one_in(2) },
                1 | 2 => Fate::Stray { nth: self.random.below(1000) },
                _ => Fate::Twice,
            };
        }
        if self.random.below(1000) >= self.trouble {
            return Fate::Well;
        }
        let bytes = usize::try_from(self.random.below(600)).expect("small");
        match self.random.below(9) {
            0 => Fate::Unreachable,
            1 => Fate::Refused(*self.random.pick(&[401, 404, 404, 429, 500, 502, 503])),
            2 => Fate::BreaksOnTheWay(self.random.below(6)),
            3 => Fate::LosesHead,
            4 | 5 => Fate::Breaks(bytes + 1),
            6 | 7 => Fate::EndsEarly(bytes + 1),
            _ => Fate::Silent,
        }
    }
}

/// Whether a stream has carried the acknowledgement of its subscription.
fn is_acknowledged(got: &[u8]) -> bool {
    let got = String::from_utf8_lossy(got);
    got.find("acknowledged").is_some_and(|at| got[at..].contains("\n\n"))
}

/// Reports a fault to the model for the calls and clients that it affects.
fn touch(client: usize, kind: &Kind, fault: Fault, now: Instant, model: &mut Model) {
    model.count(fault);
    match kind {
        Kind::Call(text) | Kind::Resumption(text) | Kind::Answer(text) | Kind::Cancellation(text) => {
            model.touched(text, fault);
            // The machine reports a refusal without its call, so the whole client may see the fault.
            model.touched_other(client);
        }
        // The discarded events may have included responses.
        Kind::OnlyStream if fault == Fault::Unread => model.touched_all(client, fault, now),
        Kind::Opening | Kind::Confirmation | Kind::OnlyStream => model.touched_connection(client, fault, now),
        Kind::Listen | Kind::OwnStream => {
            model.changes.deafened(client, now);
            model.touched_other(client);
        }
        Kind::Other | Kind::End => model.touched_other(client),
    }
}

fn refusal(status: u16) -> response::Parts {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, "text/html");
    let response = if status == 429 { response.header(header::RETRY_AFTER, "2") } else { response };
    response.body(()).expect("a response").into_parts().0
}
