//! A relay between a client and a server of any two eras, over HTTP or on byte streams. The test is the client; the server
//! opens the connection by itself and leaves everything else to the test.

use std::collections::VecDeque;

use mcp_intermediary::relay;
use mcp_intermediary::relay::{Config, Event, Pins, Relay};
use mcp_proto::{Era, Instant, Json, Output, Stdio, StdioAction};
use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::http_exchange::META;
use mcp_testkit::messages::{INITIALIZED, initialize, request, result};

/// What the server states about itself.
const CAPABILITIES: &str = r#"{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{}}"#;

/// The connection to the server.
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Transport {
    Http(HttpClientHarness<Relay>),
    Stdio {
        relay: Relay<Stdio>,
        to_client: String,
        events: Vec<Event>,
        /// What was written to the server after its last whole line.
        begun: Vec<u8>,
        received: VecDeque<String>,
    },
}

/// A client, a relay and a server.
pub struct RelayPair {
    transport: Transport,
    client: Era,
    server: Era,
    /// The members of a modern client's `_meta`.
    meta: String,
    /// What the server has received and not answered: how to answer it, and the message.
    asked: Vec<(Answering, String)>,
    /// The methods of the notifications that the server has received since the connection was opened.
    notified: Vec<String>,
    next: u32,
}

/// How the server answers a message.
#[derive(Debug, Clone, Copy)]
enum Answering {
    Line,
    Exchange(mcp_proto::client::ExchangeKey),
}

impl RelayPair {
    /// All pairs: both eras on both sides, over HTTP and on byte streams, with this change of the configuration.
    pub fn all(change: impl Fn(&mut Config)) -> Vec<Self> {
        let eras = [Era::Legacy, Era::Modern];
        let sides = eras.iter().flat_map(|client| eras.iter().map(|server| (*client, *server)));
        sides
            .flat_map(|(client, server)| [true, false].map(|is_http| Self::open(client, server, is_http, &change)))
            .collect()
    }

    /// A pair whose connection is open.
    pub fn open(client: Era, server: Era, is_http: bool, change: impl Fn(&mut Config)) -> Self {
        Self::open_as(META, client, server, is_http, change)
    }

    /// A pair whose connection is open; a modern client states these members in `_meta`.
    pub fn open_as(meta: &str, client: Era, server: Era, is_http: bool, change: impl Fn(&mut Config)) -> Self {
        let transport = if is_http {
            Transport::Http(HttpClientHarness::relay_with(|config, _| change(config)))
        } else {
            let mut config = Config::default();
            change(&mut config);
            let relay = Relay::new(Stdio::new(), config).expect("a configuration");
            let (begun, received) = (Vec::new(), VecDeque::new());
            Transport::Stdio { relay, to_client: String::new(), events: Vec::new(), begun, received }
        };
        let meta = meta.to_owned();
        let mut pair = Self { transport, client, server, meta, asked: Vec::new(), notified: Vec::new(), next: 1 };
        if client == Era::Legacy {
            pair.line(&initialize("0", "2025-11-25"));
            pair.line(INITIALIZED);
        } else {
            pair.line(&request("0", "server/discover", &format!(r#"{{"_meta":{{{}}}}}"#, pair.meta)));
        }
        let opened = pair.received();
        assert!(matches!(&opened[..], [line] if line.contains(r#""result""#)), "{opened:?} in {}", pair.name());
        pair.events();
        pair.notified.clear();
        pair
    }

    /// The kinds of the two sides, for messages of tests.
    pub fn name(&self) -> String {
        let transport = if matches!(self.transport, Transport::Http(_)) { "HTTP" } else { "a byte stream" };
        format!("{} client, {} server over {transport}", self.client, self.server)
    }

    /// Whether the relay converts between the eras.
    pub fn is_converted(&self) -> bool {
        self.client != self.server
    }

    /// The era of the client.
    pub const fn client_era(&self) -> Era {
        self.client
    }

    /// The client sends a line.
    pub fn line(&mut self, line: &str) {
        match &mut self.transport {
            Transport::Http(harness) => harness.line(line),
            Transport::Stdio { relay, .. } => relay.handle_bytes(format!("{line}\n").as_bytes(), Instant::START),
        }
        self.settle();
    }

    /// The client sends a request with these members of its parameters. Returns its id.
    pub fn ask(&mut self, method: &str, members: &str) -> String {
        let id = self.next.to_string();
        self.next += 1;
        let separator = if members.is_empty() { "" } else { "," };
        let params = match self.client {
            Era::Legacy => format!("{{{members}}}"),
            Era::Modern => format!(r#"{{{members}{separator}"_meta":{{{}}}}}"#, self.meta),
        };
        self.line(&request(&id, method, &params));
        id
    }

    /// The requests that have reached the server and are not answered: method and parameters.
    pub fn asked(&self) -> Vec<(String, Json)> {
        self.asked.iter().map(|(_, message)| (member(message, "method"), params(message))).collect()
    }

    /// The methods of the notifications that have reached the server since the last call.
    pub fn notified(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notified)
    }

    /// The server answers the oldest request with this result; a modern server adds its kind.
    pub fn answer(&mut self, members: &str) {
        let (answering, message) = self.asked.remove(0);
        let kind = if self.server == Era::Modern { r#""resultType":"complete","# } else { "" };
        self.reply(answering, &result(&id(&message), &format!("{{{kind}{members}}}")));
        self.settle();
    }

    /// The server sends a notification; over HTTP, as the beginning of the answer to its oldest request.
    pub fn notify(&mut self, method: &str, members: &str) {
        self.server_line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{members}}}}}"#));
    }

    /// The server sends a message; over HTTP, as the beginning of the answer to its oldest request.
    pub fn server_line(&mut self, line: &str) {
        match &mut self.transport {
            Transport::Stdio { relay, .. } => {
                relay.handle_server_bytes(format!("{line}\n").as_bytes(), Instant::START);
            }
            Transport::Http(harness) => {
                let (Answering::Exchange(key), _) = self.asked[0] else { panic!("an exchange") };
                harness.send(key, mcp_testkit::messages::event(line).as_bytes());
            }
        }
        self.settle();
    }

    /// The id with which the server has received its oldest request.
    pub fn id_of_oldest(&self) -> String {
        id(&self.asked[0].1)
    }

    /// The server begins a stream as the answer to its oldest request, if it is connected over HTTP.
    pub fn begin_stream(&mut self) {
        if let (Transport::Http(harness), (Answering::Exchange(key), _)) = (&mut self.transport, &self.asked[0]) {
            harness.begin(*key, &Reply::events(""));
        }
    }

    /// The lines that the client has received since the last call.
    pub fn received(&mut self) -> Vec<String> {
        match &mut self.transport {
            Transport::Http(harness) => harness.lines(),
            Transport::Stdio { to_client, .. } => std::mem::take(to_client).lines().map(str::to_owned).collect(),
        }
    }

    /// The single line that the client has received.
    pub fn only_line(&mut self) -> String {
        let lines = self.received();
        let [line] = &lines[..] else { panic!("{lines:?} in {}", self.name()) };
        line.clone()
    }

    /// The events since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        match &mut self.transport {
            Transport::Http(harness) => harness.events(),
            Transport::Stdio { events, .. } => std::mem::take(events),
        }
    }

    /// The driver has stored these pins.
    pub fn handle_pins(&mut self, stored: Pins) {
        match &mut self.transport {
            Transport::Http(harness) => harness.machine.handle_pins(stored, Instant::START),
            Transport::Stdio { relay, .. } => relay.handle_pins(stored, Instant::START),
        }
        self.settle();
    }

    fn reply(&mut self, answering: Answering, line: &str) {
        match (&mut self.transport, answering) {
            (Transport::Http(harness), Answering::Exchange(key)) => harness.reply(key, &Reply::json(line)),
            (Transport::Stdio { relay, .. }, Answering::Line) => {
                relay.handle_server_bytes(format!("{line}\n").as_bytes(), Instant::START);
            }
            _ => panic!("another transport"),
        }
    }

    /// The server receives what was sent to it, and answers what opens the connection.
    fn settle(&mut self) {
        while let Some((answering, message)) = self.next_message() {
            let (method, own) = (member(&message, "method"), id(&message));
            let reply = match (&*method, self.server) {
                _ if own.is_empty() => None,
                ("initialize", Era::Legacy) => {
                    let version =
                        params(&message).first_member("protocolVersion").expect("a revision").to_text().into_owned();
                    let opened = format!(
                        r#"{{"protocolVersion":{version},"capabilities":{CAPABILITIES},"serverInfo":{{"name":"s","version":"1"}}}}"#
                    );
                    Some(result(&own, &opened))
                }
                ("initialize", Era::Modern) => {
                    let data = r#"{"supported":["2026-07-28"],"requested":"2025-11-25"}"#;
                    let error = format!(r#"{{"code":-32022,"message":"no","data":{data}}}"#);
                    Some(format!(r#"{{"jsonrpc":"2.0","id":{own},"error":{error}}}"#))
                }
                ("server/discover", Era::Modern) => {
                    let opened = format!(
                        r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{CAPABILITIES},"ttlMs":0,"cacheScope":"private"}}"#
                    );
                    Some(result(&own, &opened))
                }
                ("server/discover", Era::Legacy) => Some(mcp_testkit::messages::error(&own, -32601, "no")),
                _ => None,
            };
            if own.is_empty() {
                self.notified.push(method);
            }
            match (reply, answering) {
                (Some(reply), answering) => self.reply(answering, &reply),
                (None, Answering::Exchange(key)) if own.is_empty() => self.status(key, 202),
                (None, Answering::Line) if own.is_empty() => {}
                (None, answering) => self.asked.push((answering, message)),
            }
        }
    }

    fn status(&mut self, key: mcp_proto::client::ExchangeKey, status: u16) {
        if let Transport::Http(harness) = &mut self.transport {
            harness.reply(key, &Reply::status(status));
        }
    }

    /// The next message to the server.
    fn next_message(&mut self) -> Option<(Answering, String)> {
        match &mut self.transport {
            Transport::Http(harness) => {
                while harness.has_opened() {
                    let opened = harness.opened();
                    if opened.line() == "POST /mcp" {
                        return Some((Answering::Exchange(opened.key), opened.body().to_owned()));
                    }
                    harness.reply(opened.key, &Reply::status(405));
                }
                None
            }
            Transport::Stdio { relay, to_client, events, begun, received } => {
                while let Some(output) = relay.poll_output() {
                    match output {
                        Output::Action(relay::Action::Client(StdioAction::Write(line))) => {
                            to_client.push_str(&String::from_utf8_lossy(&line));
                            relay.handle_written(line.len(), Instant::START);
                        }
                        Output::Action(relay::Action::Server(StdioAction::Write(bytes))) => {
                            begun.extend_from_slice(&bytes);
                            // A long line is written in several parts.
                            if begun.ends_with(b"\n") {
                                let lines = std::mem::take(begun);
                                received.extend(String::from_utf8_lossy(&lines).lines().map(str::to_owned));
                            }
                            relay.handle_server_written(bytes.len(), Instant::START);
                        }
                        Output::Action(_) => {}
                        Output::Event(event) => events.push(event),
                    }
                }
                received.pop_front().map(|line| (Answering::Line, line))
            }
        }
    }
}

fn json(message: &str) -> Json {
    Json::parse(message.to_owned()).expect("a message")
}

/// The text of a member of a message; empty if it has none.
fn member(message: &str, name: &str) -> String {
    let value = json(message).first_member(name);
    value.map(|value| value.as_string().map_or(value.to_text().into_owned(), Into::into)).unwrap_or_default()
}

fn params(message: &str) -> Json {
    json(message).first_member("params").unwrap_or(Json::empty_object())
}

fn id(message: &str) -> String {
    json(message).first_member("id").map(|id| id.to_text().into_owned()).unwrap_or_default()
}
