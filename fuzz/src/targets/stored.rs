//! Servers that share a store whose contents are damaged, or written by another program: the input controls what the store
//! answers for one session, and what an instance receives from another.

use std::time::Duration;

use bytes::Bytes;
use mcp_proto::server::{Event, ExchangeKey, Progress};
use mcp_proto::store::{Record, StoreAction, StoreResult, StoredEvents};
use mcp_proto::{Notification, Ticket};
use mcp_testkit::http_exchange::{TestRequest, TestResponse};
use mcp_testkit::messages::request;
use tests::instances::{Instances, delete, get, ping, resume, set_level};

use crate::script::Script;

/// How long a session may be unused.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Versions of records and numbers of events.
const NUMBERS: [u64; 9] = [0, 1, 2, 3, (1 << 53) - 1, 1 << 53, u64::MAX >> 1, u64::MAX - 1, u64::MAX];
/// The same in the place of a digit of JSON or of hexadecimal.
const DIGITS: [&[u8]; 5] = [b"0", b"-1", b"9007199254740991", b"18446744073709551615", b"ffffffffffffffff"];
/// What is sent to the clients of one session for each byte of the input, and for none, at most.
const SENT_FOR_EACH: usize = 4096;
const SENT_FOR_NONE: usize = 1 << 20;

/// Whatever the store answers for a session, and whatever another instance sends about it, an instance answers each of its
/// requests once, sends a bounded number of bytes, and holds nothing in the end. Another session is served at every step.
///
/// In texts, `$` stands for the id of the session, `@` for the id of its last event, and `#` for the id of an instance.
pub fn stored(data: &[u8]) {
    let mut script = Script(data);
    let mut world = World::new();
    while let Some(step) = script.byte() {
        let Some(at) = script.byte().map(|byte| usize::from(byte) % 2) else { break };
        world.step(step, at, &mut script);
        world.serves_the_other();
    }
    world.finish(data.len());
}

struct World {
    instances: Instances,
    /// The session whose contents of the store are damaged, and another one.
    session: String,
    other: String,
    last_event: String,
    /// The last message that an instance has sent to another about the session.
    message: Bytes,
    open: Vec<Open>,
    tickets: Vec<(usize, Ticket)>,
    sent: usize,
}

/// A request whose response has not ended.
struct Open {
    at: usize,
    exchange: ExchangeKey,
    is_get: bool,
}

impl World {
    fn new() -> Self {
        let mut instances = Instances::new(2);
        let session = instances.session(0, 1, "2025-11-25");
        let other = instances.session(1, 0, "2025-11-25");
        let (last_event, message) = (String::new(), Bytes::new());
        Self { instances, session, other, last_event, message, open: Vec::new(), tickets: Vec::new(), sent: 0 }
    }

    fn step(&mut self, step: u8, at: usize, script: &mut Script<'_>) {
        let session = &*self.session;
        match step % 12 {
            0 => self.ask(at, &ping(session)),
            1 => self.ask(at, &set_level(session, "error")),
            2 => {
                let params = r#"{"name":"t","_meta":{"progressToken":1}}"#;
                self.ask(at, &TestRequest::post(request("7", "tools/call", params)).in_session(session));
            }
            3 => self.ask(at, &get(session)),
            4 => {
                let after = match script.pick(&NUMBERS) {
                    Some(number) if number > 3 => {
                        format!("{}-{number}", self.last_event.split('-').next().unwrap_or_default())
                    }
                    _ => self.last_event.clone(),
                };
                self.ask(at, &resume(session, &after));
            }
            5 => {
                if let Some((at, ticket)) = self.tickets.pop() {
                    self.instances.servers[at].respond(ticket, "{}");
                }
            }
            6 => {
                let server = &mut self.instances.servers[at];
                if let Some((_, ticket)) = self.tickets.iter().find(|(of, _)| *of == at) {
                    server.server.progress(ticket, &Progress::new(1.0), server.now);
                }
                let change = Notification::new("notifications/tools/list_changed");
                server.server.publish(change, server.now).expect("a change that is declared");
            }
            7 => {
                let message = self.message.clone();
                let Some(message) = self.damaged(&message, script) else { return };
                // With the id of a session, anybody can end it.
                if !contains(&message, self.other.as_bytes()) {
                    let server = &mut self.instances.servers[at];
                    server.server.handle_message(&message, server.now);
                }
            }
            8 => {
                if let Some(Open { at, exchange, .. }) = self.open.pop() {
                    let server = &mut self.instances.servers[at];
                    server.server.handle_disconnect(exchange, server.now);
                }
            }
            9 => {
                let uri = r#"{"uri":"file:///a"}"#;
                self.ask(at, &TestRequest::post(request("9", "resources/subscribe", uri)).in_session(session));
            }
            10 => self.ask(at, &delete(session)),
            _ => {
                let seconds = script.byte().map_or(0, u64::from);
                for server in &mut self.instances.servers {
                    server.pass(Duration::from_secs(seconds));
                }
            }
        }
        self.settle(script);
    }

    fn ask(&mut self, at: usize, asked: &TestRequest) {
        let exchange = self.instances.servers[at].ask(asked);
        self.open.push(Open { at, exchange, is_get: asked.method == "GET" });
    }

    /// Carries out what the instances ask of the store. What concerns the session is answered as the input demands.
    fn settle(&mut self, script: &mut Script<'_>) {
        loop {
            let actions: Vec<_> = (0..2)
                .flat_map(|at| {
                    let server = &mut self.instances.servers[at];
                    server.settle();
                    let actions = std::mem::take(&mut server.store_actions);
                    actions.into_iter().map(move |action| (at, action))
                })
                .collect();
            for (at, action) in &actions {
                let (id, now) = (self.instances.id(*at), self.instances.servers[*at].now);
                if let StoreAction::Send { message, .. } = action {
                    if contains(message, self.session.as_bytes()) {
                        self.message.clone_from(message);
                    }
                }
                let answer = self.instances.store.carry_out(id, action, now);
                let answer = if self.is_attacked(action) { self.damaged_answer(answer, script) } else { answer };
                if let (Some(key), Some(answer)) = (action.key(), answer) {
                    self.instances.servers[*at].server.handle_stored(key, answer, now);
                }
            }
            let is_quiet = actions.is_empty();
            let mut has_messages = false;
            for at in 0..2 {
                let id = self.instances.id(at);
                while let Some(message) = self.instances.store.poll_message(id) {
                    has_messages = true;
                    let server = &mut self.instances.servers[at];
                    server.server.handle_message(&message, server.now);
                }
            }
            if is_quiet && !has_messages {
                break;
            }
        }
        self.take_events();
    }

    fn is_attacked(&self, action: &StoreAction) -> bool {
        match action {
            StoreAction::Load { session, .. }
            | StoreAction::Save { session, .. }
            | StoreAction::Forget { session, .. } => **session == *self.session,
            StoreAction::Append { stream, .. } | StoreAction::Read { stream, .. } => *stream.session == *self.session,
            _ => false,
        }
    }

    /// What the store answers in the place of this. Without further input, it answers as it should.
    fn damaged_answer(&self, answer: Option<StoreResult>, script: &mut Script<'_>) -> Option<StoreResult> {
        let Some(kind) = script.byte() else { return answer };
        match (kind % 12, answer) {
            (0, _) => Some(StoreResult::Failed),
            (1, _) => Some(StoreResult::Conflict),
            (2, _) => Some(StoreResult::Done),
            (3, _) => Some(StoreResult::Loaded(None)),
            (4, _) => Some(StoreResult::Events(None)),
            (5, _) => None,
            (6, _) => Some(StoreResult::Found(true)),
            (7, Some(StoreResult::Loaded(Some(record)))) => {
                let version = script.pick(&NUMBERS).unwrap_or(record.version);
                Some(StoreResult::Loaded(Some(Record { version, ..record })))
            }
            (8, Some(StoreResult::Loaded(Some(record)))) => {
                let bytes = self.damaged(&record.bytes, script).unwrap_or_default().into();
                Some(StoreResult::Loaded(Some(Record { bytes, ..record })))
            }
            (7 | 8, Some(StoreResult::Events(events))) => {
                let mut events =
                    events.unwrap_or_else(|| StoredEvents { label: Bytes::new(), ..StoredEvents::default() });
                events.first = script.pick(&NUMBERS).unwrap_or(events.first);
                let what = script.byte().unwrap_or_default();
                events.is_last ^= what & 1 > 0;
                if what & 2 > 0 {
                    events.label = self.damaged(&events.label, script).unwrap_or_default().into();
                }
                for _ in 0..what >> 2 & 3 {
                    events.events.push(self.damaged(b"{}", script).unwrap_or_default().into());
                }
                Some(StoreResult::Events(Some(events)))
            }
            (_, answer) => answer,
        }
    }

    /// A text from the input, or what the input makes of this one.
    fn damaged(&self, real: &[u8], script: &mut Script<'_>) -> Option<Vec<u8>> {
        let (how, at) = (script.byte()?, script.byte()?);
        let at = real.len() * usize::from(at) / 256;
        let (before, after) = real.split_at(at);
        Some(match how % 4 {
            0 => self.filled(script.text()?),
            1 => before.to_vec(),
            2 => [before, &*self.filled(script.text()?), after].concat(),
            _ => {
                // The digits at this place, or after it, become another number.
                let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
                let text = after.iter().position(u8::is_ascii_digit).unwrap_or(after.len());
                let rest = after[text..].iter().position(|byte| !is_digit(byte)).map_or(after.len(), |end| text + end);
                [before, &after[..text], script.pick(&DIGITS)?, &after[rest..]].concat()
            }
        })
    }

    fn filled(&self, text: &[u8]) -> Vec<u8> {
        let instance = self.instances.id(1).to_string();
        let mut filled = Vec::with_capacity(text.len());
        for byte in text {
            match byte {
                b'$' => filled.extend_from_slice(self.session.as_bytes()),
                b'@' => filled.extend_from_slice(self.last_event.as_bytes()),
                b'#' => filled.extend_from_slice(instance.as_bytes()),
                _ => filled.push(*byte),
            }
        }
        filled
    }

    fn take_events(&mut self) {
        for (at, server) in self.instances.servers.iter_mut().enumerate() {
            for event in server.events() {
                if let Event::Requested { ticket, .. } = event {
                    self.tickets.push((at, ticket));
                }
            }
        }
        let (servers, last_event, all) = (&mut self.instances.servers, &mut self.last_event, &mut self.sent);
        self.open.retain(|open| {
            let sent: TestResponse = servers[open.at].take(open.exchange);
            *all += sent.body.len();
            if let Some(id) = sent.ids().pop() {
                *last_event = id;
            }
            !sent.is_over
        });
    }

    /// The store is reached, and the other session is as it was.
    fn serves_the_other(&mut self) {
        for at in 0..2 {
            let answered = self.instances.answer(at, &ping(&self.other));
            assert_eq!((answered.code(), answered.is_over), (200, true), "{}", answered.text());
            assert!(contains(&answered.body, br#""result":{}"#), "{}", answered.text());
        }
        self.take_events();
    }

    fn finish(mut self, length: usize) {
        let (nothing, session) = (&mut Script(&[]), self.session.clone());
        self.settle(nothing);
        for (at, ticket) in std::mem::take(&mut self.tickets) {
            self.instances.servers[at].respond(ticket, "{}");
        }
        self.instances.pass(Duration::from_secs(60));
        self.settle(nothing);
        let waiting = self.open.iter().filter(|open| !open.is_get).count();
        assert_eq!(waiting, 0, "requests without an answer");
        // The session is served, or has ended.
        for at in 0..2 {
            let answered = self.instances.answer(at, &ping(&session));
            assert!(answered.is_over && matches!(answered.code(), 200 | 404), "{}", answered.text());
        }
        self.serves_the_other();
        let limit = SENT_FOR_NONE + SENT_FOR_EACH * length;
        assert!(self.sent <= limit, "{} bytes were sent for {length} bytes", self.sent);
        for Open { at, exchange, .. } in std::mem::take(&mut self.open) {
            self.instances.disconnect(at, exchange);
        }
        // A step for each of the timers is enough, so that a step may be long.
        for _ in 0..8 {
            for server in &mut self.instances.servers {
                server.pass(IDLE / 2);
            }
            self.settle(nothing);
        }
        for server in &self.instances.servers {
            assert_eq!(server.server.load().to_string(), "nothing");
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
