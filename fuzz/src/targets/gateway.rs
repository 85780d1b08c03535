//! A gateway: the input controls its clients, what they send, and what the processes of its server write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_intermediary::gateway::{BackendKey, Sharing};
use mcp_proto::server::ExchangeKey;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::{INITIALIZED, result};
use tests::gateway::{GatewayHarness, id_of};

use crate::script::Script;

/// The principals of the clients. What a client sends contains its mark, and no other.
const CLIENTS: [(Option<&str>, &str); 3] = [(Some("ada"), "<ada>"), (Some("eve"), "<eve>"), (None, "<none>")];

/// Whatever clients and processes send, a process that is not for all receives the mark of one client alone; each client receives
/// its own mark alone, unless the processes are for all; each request has one response; and nothing is held in the end.
///
/// In texts, `%` stands for the mark of the client, or for the one that the process has received; `#` for the id of the latest
/// request that the process has received, and `$` for the latest `requestState` that the client has received.
pub fn gateway(data: &[u8]) {
    let mut script = Script(data);
    let kinds = [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared];
    let Some(sharing) = script.pick(&kinds) else { return };
    let mut world = World::new(sharing);
    while let Some(step) = script.byte() {
        let Some(client) = script.byte().map(|byte| usize::from(byte) % CLIENTS.len()) else { break };
        if world.step(step, client, &mut script).is_none() {
            break;
        }
        world.settle();
    }
    world.finish();
}

/// What a client knows.
#[derive(Default)]
struct Client {
    session: Option<String>,
    state: String,
}

/// What a process has received.
#[derive(Default)]
struct Received {
    marks: BTreeSet<&'static str>,
    /// The id of its latest request.
    id: String,
    /// Its requests that are not answered: the ids and methods.
    open: Vec<(String, String)>,
}

struct World {
    gateway: GatewayHarness,
    sharing: Sharing,
    clients: [Client; 3],
    /// Responses that are not complete, with their clients.
    open: Vec<(ExchangeKey, usize)>,
    processes: BTreeMap<BackendKey, Received>,
}

impl World {
    fn new(sharing: Sharing) -> Self {
        let gateway = GatewayHarness::with(|config| {
            config.sharing = sharing;
            config.http.max_sessions = 4;
            config.relay.limits.backends = 4;
            config.relay.limits.requests_in = 8;
        });
        Self { gateway, sharing, clients: Default::default(), open: Vec::new(), processes: BTreeMap::new() }
    }

    fn step(&mut self, step: u8, client: usize, script: &mut Script<'_>) -> Option<()> {
        match step % 13 {
            0 => self.ask(client, TestRequest::post(initialize("2025-11-25"))),
            1 => self.in_session(client, TestRequest::post(INITIALIZED)),
            2 => {
                let body = self.text_of_client(client, script.text()?);
                self.in_session(client, TestRequest::post(body));
            }
            3 => {
                let method = script.pick(&["tools/call", "resources/read", "tools/list", "server/discover"])?;
                let params = self.text_of_client(client, script.text()?);
                let params = String::from_utf8_lossy(&params).into_owned();
                self.ask(client, TestRequest::stateless("7", method, &params).with("mcp-name", "t"));
            }
            4 => self.in_session(client, TestRequest::get()),
            5 => self.in_session(client, TestRequest { method: "DELETE", ..TestRequest::post("") }),
            6 => {
                let (exchange, _) = self.open.pop()?;
                self.gateway.disconnect(exchange);
            }
            7 | 8 => self.answer(script)?,
            9 => {
                let process = self.some_process(script)?;
                let text = self.text_of_process(process, script.text()?);
                self.gateway.write(process, &text);
            }
            10 => {
                let process = self.some_process(script)?;
                if !self.is_stopping(process) {
                    self.gateway.gateway.handle_backend_eof(process, self.gateway.now);
                    self.gateway.settle();
                }
            }
            11 => self.end_stopping(),
            _ => self.gateway.pass(Duration::from_secs(u64::from(script.byte()?))),
        }
        Some(())
    }

    fn ask(&mut self, client: usize, asked: TestRequest) {
        let asked = if let Some(principal) = CLIENTS[client].0 { asked.by(principal) } else { asked };
        let exchange = self.gateway.ask(&asked);
        self.open.push((exchange, client));
    }

    fn in_session(&mut self, client: usize, asked: TestRequest) {
        if let Some(session) = self.clients[client].session.clone() {
            self.ask(client, asked.in_session(&session));
        }
    }

    fn some_process(&self, script: &mut Script<'_>) -> Option<BackendKey> {
        let all: Vec<_> = self.gateway.processes().into_iter().map(|(process, _)| process).collect();
        if all.is_empty() { None } else { script.pick(&all) }
    }

    fn is_stopping(&self, process: BackendKey) -> bool {
        self.gateway.processes().contains(&(process, true))
    }

    /// A process answers its first request with the marks that it has received.
    fn answer(&mut self, script: &mut Script<'_>) -> Option<()> {
        let process = self.some_process(script)?;
        let received = self.processes.entry(process).or_default();
        if received.open.is_empty() || self.gateway.processes().contains(&(process, true)) {
            return Some(());
        }
        let (id, method) = received.open.remove(0);
        let marks: String = received.marks.iter().copied().collect();
        let answer = match method.as_str() {
            "initialize" => {
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#
                    .to_owned()
            }
            "server/discover" => {
                r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#.to_owned()
            }
            _ => format!(r#"{{"resultType":"complete","content":[],"marks":"{marks}"}}"#),
        };
        // With one process for all, what belongs to whom is known to the process alone.
        let answer = if self.sharing == Sharing::Shared { answer.replace(&marks, "") } else { answer };
        self.gateway.reply(process, &result(&id, &answer));
        Some(())
    }

    fn end_stopping(&mut self) {
        for (process, is_stopping) in self.gateway.processes() {
            if is_stopping {
                self.processes.remove(&process);
                self.gateway.stopped(process);
            }
        }
    }

    /// What a client sends contains no mark but its own.
    fn text_of_client(&self, client: usize, text: &[u8]) -> Vec<u8> {
        filled(text, |byte| match byte {
            b'%' => Some(CLIENTS[client].1),
            b'$' => Some(&self.clients[client].state),
            _ => None,
        })
    }

    /// What a process sends contains no mark but the one that it has received.
    fn text_of_process(&self, process: BackendKey, text: &[u8]) -> Vec<u8> {
        let received = self.processes.get(&process);
        let mark = received.and_then(|received| received.marks.first()).filter(|_| self.sharing != Sharing::Shared);
        filled(text, |byte| match byte {
            b'%' => mark.copied(),
            b'#' => received.map(|received| received.id.as_str()),
            _ => None,
        })
    }

    fn settle(&mut self) {
        for (process, _) in self.gateway.processes() {
            let received = self.processes.entry(process).or_default();
            for line in self.gateway.lines(process) {
                received.marks.extend(CLIENTS.iter().map(|(_, mark)| *mark).filter(|mark| line.contains(mark)));
                if line.contains("\"id\":") && line.contains("\"method\":") {
                    id_of(&line).clone_into(&mut received.id);
                    let method = line.split_once("\"method\":\"").and_then(|(_, rest)| rest.split('"').next());
                    received.open.push((received.id.clone(), method.unwrap_or_default().to_owned()));
                }
            }
            let is_one = received.marks.len() <= 1 || self.sharing == Sharing::Shared;
            assert!(is_one, "a process of several clients: {:?}", received.marks);
        }
        let Self { gateway, clients, open, .. } = self;
        open.retain(|(exchange, client)| {
            let sent = gateway.responses.take(*exchange);
            let text = sent.text();
            for (other, (_, mark)) in CLIENTS.iter().enumerate() {
                assert!(other == *client || !text.contains(mark), "{:?} receives {text}", CLIENTS[*client].0);
            }
            if let Some(session) = sent.headers.get("mcp-session-id") {
                clients[*client].session = Some(session.to_str().expect("text").to_owned());
            }
            if let Some((_, rest)) = text.split_once("\"requestState\":\"") {
                rest.split('"').next().unwrap_or_default().clone_into(&mut clients[*client].state);
            }
            !sent.is_over
        });
    }

    fn finish(mut self) {
        self.settle();
        self.gateway.gateway.close(self.gateway.now);
        self.gateway.settle();
        self.settle();
        assert_eq!(self.open, [], "responses that never end");
        self.end_stopping();
        assert_eq!(self.gateway.processes(), [], "processes that are not ended");
        assert_eq!(self.gateway.gateway.load().to_string(), "nothing");
    }
}

/// A text of the input: placeholders are filled, and it contains no mark of its own.
fn filled<'t>(text: &[u8], placeholder: impl Fn(u8) -> Option<&'t str>) -> Vec<u8> {
    let mut filled = Vec::with_capacity(text.len());
    for byte in text {
        match (placeholder(*byte), byte) {
            (Some(value), _) => filled.extend_from_slice(value.as_bytes()),
            (None, b'<') => filled.push(b'('),
            (None, byte) => filled.push(*byte),
        }
    }
    filled
}
