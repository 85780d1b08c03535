//! Instances of a server that share a store: the input controls the clients, and what the store returns.

use std::time::Duration;

use mcp_proto::server::{Event, ExchangeKey, Progress, Snapshot};
use mcp_proto::store::{StoreAction, StoreKey, StreamId};
use mcp_proto::{InstanceId, Instant, Notification, Ticket};
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::request;
use tests::instances::Instances;

use crate::script::Script;

/// How long a session may be unused.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// Whatever a store contains, and whatever another instance sends, an instance answers each request once, and holds
/// nothing after the last session. A snapshot is refused or restored.
///
/// In texts, `$` stands for the id of the session, `@` for the id of the last event, and `#` for the id of an instance.
pub fn instances(data: &[u8]) {
    let mut script = Script(data);
    let mut world = World::new();
    while let Some(step) = script.byte() {
        let Some(at) = script.byte().map(|byte| usize::from(byte) % 2) else { break };
        world.step(step, at, &mut script);
    }
    world.finish();
}

struct World {
    instances: Instances,
    session: String,
    last_event: String,
    open: Vec<(usize, ExchangeKey)>,
    tickets: Vec<(usize, Ticket)>,
}

impl World {
    fn new() -> Self {
        let mut instances = Instances::new(2);
        let session = instances.session(0, 1, "2025-11-25");
        Self { instances, session, last_event: String::new(), open: Vec::new(), tickets: Vec::new() }
    }

    fn step(&mut self, step: u8, at: usize, script: &mut Script<'_>) {
        match step % 12 {
            0 => self.ask(at, &TestRequest::get()),
            1 => {
                let after = self.last_event.clone();
                self.ask(at, &TestRequest::get().with("last-event-id", &after));
            }
            2 => {
                let params = r#"{"name":"t","_meta":{"progressToken":1}}"#;
                self.ask(at, &TestRequest::post(request("7", "tools/call", params)));
            }
            3 => {
                let Some(body) = script.text() else { return };
                let body = self.filled(body);
                self.ask(at, &TestRequest::post(body));
            }
            4 => {
                let Some((at, ticket)) = self.tickets.pop() else { return };
                self.instances.respond(at, ticket, "{}");
            }
            5 => {
                let server = &mut self.instances.servers[at];
                if let Some((_, ticket)) = self.tickets.iter().find(|(of, _)| *of == at) {
                    server.server.progress(ticket, &Progress::new(1.0), server.now);
                }
                let change = Notification::new("notifications/tools/list_changed");
                server.server.publish(change, server.now).expect("a change that is declared");
            }
            6 => {
                let Some(message) = script.text() else { return };
                let message = self.filled(message);
                let server = &mut self.instances.servers[at];
                server.server.handle_message(&message, server.now);
            }
            7 => {
                let (Some(version), Some(record)) = (script.byte(), script.text()) else { return };
                let (session, bytes) = (self.session.as_str().into(), self.filled(record).into());
                let (key, expected) = (StoreKey::new(0), u64::from(version));
                self.write(&StoreAction::Save { key, session, expected, bytes, expires_in: IDLE });
            }
            8 => {
                let (Some(tag), Some(event)) = (script.byte(), script.text()) else { return };
                // The tag of the stream of the last event, or that of the session.
                let tag = if tag % 2 == 0 { StreamId::OF_SESSION } else { self.last_tag() };
                self.write(&StoreAction::Append {
                    key: StoreKey::new(0),
                    stream: StreamId { session: self.session.as_str().into(), tag },
                    first: None,
                    events: vec![self.filled(event).into()],
                    label: bytes::Bytes::new(),
                    is_last: event.first() == Some(&b'!'),
                    keep: 1000,
                    expires_in: IDLE,
                });
            }
            9 => {
                let Some((at, exchange)) = self.open.pop() else { return };
                self.instances.disconnect(at, exchange);
            }
            10 => {
                let Some(state) = script.text() else { return };
                let mut server = HttpServerHarness::new();
                let snapshot = Snapshot::new(self.session.as_str().into(), self.filled(state).into());
                if server.server.restore(&snapshot, server.now).is_ok() {
                    let ping = TestRequest::post(request("1", "ping", "{}")).in_session(&self.session);
                    assert_ne!(server.answer(&ping).code(), 0);
                }
            }
            _ => match script.byte() {
                Some(0) => {
                    self.tickets.retain(|(of, _)| *of != at);
                    self.open.retain(|(of, _)| *of != at);
                    self.instances.kill(at);
                }
                Some(1) => self.instances.is_reachable ^= true,
                Some(2) => self.ask_about_task(at),
                Some(seconds) => self.instances.pass(Duration::from_secs(u64::from(seconds))),
                None => {}
            },
        }
        self.settle();
    }

    fn ask(&mut self, at: usize, asked: &TestRequest) {
        let exchange = self.instances.ask(at, &asked.clone().in_session(&self.session));
        self.open.push((at, exchange));
    }

    /// Asks about a task of the second instance.
    fn ask_about_task(&mut self, at: usize) {
        let id = format!("{}{}", self.instances.id(1), "07".repeat(16));
        let asked = TestRequest::stateless("7", "tasks/get", &format!(r#""taskId":"{id}","#)).with("mcp-name", &id);
        let exchange = self.instances.ask(at, &asked);
        self.open.push((at, exchange));
    }

    /// Carries out an action that no instance has asked for.
    fn write(&mut self, action: &StoreAction) {
        let now = self.instances.servers.first().map_or(Instant::START, |server| server.now);
        self.instances.store.carry_out(InstanceId::new(1), action, now);
    }

    fn settle(&mut self) {
        self.instances.settle();
        for (at, server) in self.instances.servers.iter_mut().enumerate() {
            for event in server.events() {
                if let Event::Requested { ticket, .. } = event {
                    self.tickets.push((at, ticket));
                }
            }
        }
        let (instances, last_event) = (&mut self.instances, &mut self.last_event);
        self.open.retain(|(at, exchange)| {
            let sent = instances.take(*at, *exchange);
            if let Some(id) =
                String::from_utf8_lossy(&sent.body).lines().rev().find_map(|line| line.strip_prefix("id: "))
            {
                id.clone_into(last_event);
            }
            !sent.is_over
        });
    }

    fn last_tag(&self) -> u64 {
        let tag = self.last_event.split_once('-').and_then(|(tag, _)| u64::from_str_radix(tag, 16).ok());
        tag.unwrap_or(StreamId::OF_SESSION)
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

    fn finish(mut self) {
        self.instances.is_reachable = true;
        for (at, ticket) in std::mem::take(&mut self.tickets) {
            self.instances.respond(at, ticket, "{}");
        }
        self.instances.pass(Duration::from_secs(60));
        self.settle();
        for (at, exchange) in std::mem::take(&mut self.open) {
            self.instances.disconnect(at, exchange);
        }
        // A step for each of the timers is enough, so that a step may be long.
        for _ in 0..8 {
            for server in &mut self.instances.servers {
                server.pass(IDLE / 2);
            }
            self.instances.settle();
        }
        for server in &self.instances.servers {
            assert_eq!(server.server.load().to_string(), "nothing");
        }
    }
}
