//! The floods through a relay between two eras: a legacy client with a modern server, and the reverse.

use std::fmt;

use bytes::Bytes;
use http::Response;
use http::response::Parts;
use mcp_intermediary::relay::Action;
use mcp_intermediary::{Relay, relay};
use mcp_proto::client::{ExchangeKey, Http, HttpAction, HttpConfig};
use mcp_proto::server::HttpConfig as ServerConfig;
use mcp_proto::{Ceilings, Instant, Limits, Output, Stdio, StdioAction};
use mcp_testkit::http_client::URL;
use mcp_testkit::messages::{INITIALIZED, event, initialize, initialize_result, request, result};

use super::sums::{LARGE, MANY};
use super::{Account, CHUNK, INTAKE, answers, limits, lines, messages};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{},"form":{}},"roots":{}}}"#;
const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{"subscribe":true}},"ttlMs":0,"cacheScope":"private"}"#;

/// The direction of the relay between the eras.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bridge {
    /// A legacy client and a modern server.
    LegacyClient,
    /// A modern client and a legacy server.
    ModernClient,
}

impl Bridge {
    const ALL: [Self; 2] = [Self::LegacyClient, Self::ModernClient];

    /// A request in the form of this client; `members` are further members of the parameters, each after a comma.
    fn request(self, id: &str, method: &str, members: &str) -> String {
        match self {
            Self::LegacyClient => request(id, method, &format!(r#"{{"name":"t"{members}}}"#)),
            Self::ModernClient => request(id, method, &format!(r#"{{{META},"name":"t"{members}}}"#)),
        }
    }

    /// A result in the form of this server; `members` are further members of the result, each after a comma.
    fn result(self, id: &str, members: &str) -> String {
        match self {
            Self::LegacyClient => result(id, &format!(r#"{{"resultType":"complete","content":[]{members}}}"#)),
            Self::ModernClient => result(id, &format!(r#"{{"content":[]{members}}}"#)),
        }
    }
}

impl fmt::Display for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LegacyClient => "relay, old to new",
            Self::ModernClient => "relay, new to old",
        })
    }
}

/// The server's side of a relay, on a byte stream or over HTTP.
trait Reached: Sized {
    type Transport: mcp_proto::client::ClientTransport;
    const NAME: &'static str;

    fn transport() -> Self::Transport;
    fn new() -> Self;
    fn ceiling(ceilings: &Ceilings) -> usize;
    /// Performs an action at the server's side; returns the message that has reached the server, if it is complete.
    fn act(&mut self, action: <Self::Transport as mcp_proto::Transport>::Action) -> Option<Bytes>;
    /// Accepts each POST that is not a request; returns whether there was one.
    fn accept(&mut self, relay: &mut Relay<Self::Transport>, now: Instant) -> bool;
    /// Hands in a message of the server that belongs to the client's request with this id.
    fn hand_in(&mut self, relay: &mut Relay<Self::Transport>, id: &str, message: &str, now: Instant);
}

/// On a byte stream. Written bytes are reported only when the server sends a message.
struct Piped {
    line: Vec<u8>,
    written: usize,
}

impl Reached for Piped {
    type Transport = Stdio;
    const NAME: &'static str = "stdio";

    fn transport() -> Stdio {
        Stdio::new()
    }

    fn new() -> Self {
        Self { line: Vec::new(), written: 0 }
    }

    fn ceiling(ceilings: &Ceilings) -> usize {
        ceilings.relay_over_stdio
    }

    fn act(&mut self, action: StdioAction) -> Option<Bytes> {
        let StdioAction::Write(bytes) = action else { return None };
        self.written += bytes.len();
        self.line.extend_from_slice(&bytes);
        self.line.ends_with(b"\n").then(|| std::mem::take(&mut self.line).into())
    }

    fn accept(&mut self, _relay: &mut Relay<Stdio>, _now: Instant) -> bool {
        false
    }

    fn hand_in(&mut self, relay: &mut Relay<Stdio>, _id: &str, message: &str, now: Instant) {
        relay.handle_server_written(std::mem::take(&mut self.written), now);
        for chunk in message.as_bytes().chunks(CHUNK) {
            relay.handle_server_bytes(chunk, now);
        }
        relay.handle_server_bytes(b"\n", now);
    }
}

/// Over HTTP. The server answers each request with an event stream, and accepts everything else.
struct Fetched {
    open: Vec<(String, ExchangeKey, bool)>,
    accepted: Vec<ExchangeKey>,
}

impl Reached for Fetched {
    type Transport = Http;
    const NAME: &'static str = "HTTP";

    fn transport() -> Http {
        Http::new(HttpConfig::new(URL).expect("a URL"))
    }

    fn new() -> Self {
        Self { open: Vec::new(), accepted: Vec::new() }
    }

    fn ceiling(ceilings: &Ceilings) -> usize {
        ceilings.relay_over_http
    }

    fn act(&mut self, action: HttpAction) -> Option<Bytes> {
        match action {
            HttpAction::Open { exchange, request, .. } => {
                let body = request.into_body();
                match id_of(&body) {
                    Some(id) if contains(&body, "\"method\"") => self.open.push((id, exchange, false)),
                    Some(_) | None => self.accepted.push(exchange),
                }
                Some(body)
            }
            HttpAction::Abort { exchange } => {
                self.open.retain(|(_, open, _)| *open != exchange);
                None
            }
            _ => None,
        }
    }

    fn accept(&mut self, relay: &mut Relay<Http>, now: Instant) -> bool {
        let accepted = std::mem::take(&mut self.accepted);
        for exchange in &accepted {
            relay.handle_response(*exchange, &head(202, "text/plain"), now);
            relay.handle_end(*exchange, now);
        }
        !accepted.is_empty()
    }

    fn hand_in(&mut self, relay: &mut Relay<Http>, id: &str, message: &str, now: Instant) {
        let Some((_, exchange, has_begun)) = self.open.iter_mut().find(|(of, ..)| of == id) else { return };
        let exchange = *exchange;
        if !std::mem::replace(has_begun, true) {
            relay.handle_response(exchange, &head(200, "text/event-stream"), now);
        }
        for chunk in event(message).as_bytes().chunks(CHUNK) {
            relay.handle_body(exchange, chunk, now);
        }
    }
}

fn head(status: u16, kind: &str) -> Parts {
    let head = Response::builder().status(status).header("content-type", kind).header("mcp-session-id", "s");
    head.body(()).expect("a head").into_parts().0
}

fn contains(text: &[u8], part: &str) -> bool {
    memchr::memmem::find(text, part.as_bytes()).is_some()
}

fn id_of(message: &[u8]) -> Option<String> {
    let start = memchr::memmem::find(message, b"\"id\":")? + 5;
    let rest = message.get(start..)?;
    let end = rest.iter().position(|byte| matches!(byte, b',' | b'}'))?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

/// A relay with its client and its server.
struct World<R: Reached> {
    relay: Relay<R::Transport>,
    reached: R,
    bridge: Bridge,
    now: Instant,
    /// Whether the client reads.
    is_read: bool,
    to_client: Vec<u8>,
    /// Messages that have reached the server, each cut to 1,000 bytes.
    to_server: Vec<Bytes>,
}

impl<R: Reached> World<R> {
    /// A relay whose client and server belong to two eras, after the handshakes.
    fn joined(bridge: Bridge, limits: &Limits) -> Self {
        let mut harness = Self::new(bridge, limits);
        match bridge {
            Bridge::LegacyClient => {
                let able = r#"{"roots":{},"elicitation":{}}"#;
                harness.client(&initialize("\"i\"", "2025-11-25").replace(r#"{"roots":{}}"#, able));
            }
            Bridge::ModernClient => harness.client(&request("\"i\"", "server/discover", &format!("{{{META}}}"))),
        }
        harness.answer_opening();
        if bridge == Bridge::LegacyClient {
            harness.client(INITIALIZED);
        }
        assert!(contains(&harness.to_client, r#""id":"i","result""#), "{bridge:?}, {}", R::NAME);
        harness.forget();
        harness
    }

    fn new(bridge: Bridge, limits: &Limits) -> Self {
        let mut config = relay::Config::default();
        config.limits = limits.clone();
        let relay = Relay::new(R::transport(), config).expect("a configuration");
        let (to_client, to_server) = (Vec::new(), Vec::new());
        Self { relay, reached: R::new(), bridge, now: Instant::START, is_read: true, to_client, to_server }
    }

    fn answer_opening(&mut self) {
        while !self.to_server.is_empty() {
            let message = self.to_server.remove(0);
            let Some(id) = id_of(&message) else { continue };
            let is_initialize = contains(&message, r#""initialize""#);
            let error = |code: i64| {
                let data = r#"{"supported":["2026-07-28"],"requested":"2025-11-25"}"#;
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no","data":{data}}}}}"#)
            };
            let answer = match (self.bridge, is_initialize) {
                (Bridge::LegacyClient, true) => error(-32022),
                (Bridge::LegacyClient, false) => result(&id, DISCOVERED),
                (Bridge::ModernClient, true) => {
                    let able = r#""capabilities":{"resources":{"subscribe":true},"#;
                    result(&id, &initialize_result("2025-11-25").replace(r#""capabilities":{"#, able))
                }
                (Bridge::ModernClient, false) => error(-32601),
            };
            self.server(&id, &answer);
        }
    }

    /// The client writes a line.
    fn client(&mut self, line: &str) {
        for chunk in line.as_bytes().chunks(CHUNK).chain([&b"\n"[..]]) {
            self.relay.handle_bytes(chunk, self.now);
            self.drain();
        }
    }

    /// The server sends a message that belongs to the request with this id.
    fn server(&mut self, id: &str, message: &str) {
        self.reached.hand_in(&mut self.relay, id, message, self.now);
        self.drain();
    }

    /// The client makes a call; returns the id that the call has at the server, if it has reached it.
    fn call(&mut self, id: &str, members: &str) -> Option<String> {
        self.client(&self.bridge.request(id, "tools/call", members));
        let calls = self.to_server.drain(..).filter(|message| contains(message, "tools/call"));
        id_of(&calls.last()?)
    }

    fn forget(&mut self) {
        self.to_client.clear();
        self.to_server.clear();
    }

    /// Checks that a small call gets its answer.
    fn echoes(&mut self) {
        self.is_read = true;
        self.relay.handle_written(usize::MAX, self.now);
        self.forget();
        let id = self.call("\"e\"", "").expect("a call that reached the server");
        self.server(&id, &self.bridge.result(&id, ""));
        assert!(contains(&self.to_client, r#""id":"e","result""#), "{:?}, {}", self.bridge, R::NAME);
    }

    fn drain(&mut self) {
        self.take_output();
        while self.reached.accept(&mut self.relay, self.now) {
            self.take_output();
        }
    }

    fn take_output(&mut self) {
        while let Some(output) = self.relay.poll_output() {
            match output {
                Output::Action(Action::Client(StdioAction::Write(bytes))) => {
                    if self.to_client.len() < CHUNK {
                        self.to_client.extend_from_slice(&bytes[..bytes.len().min(CHUNK)]);
                    }
                    if self.is_read {
                        self.relay.handle_written(bytes.len(), self.now);
                    }
                }
                Output::Action(Action::Server(action)) => {
                    // Only the beginning of a large message is kept, as if the server had read it.
                    let message = self.reached.act(action);
                    self.to_server.extend(message.map(|message| message.slice(..message.len().min(1000))));
                }
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        self.to_server.iter_mut().for_each(|message| *message = Bytes::copy_from_slice(message));
    }
}

pub(super) fn all(account: &mut Account) {
    for bridge in Bridge::ALL {
        bytes_over_stdio(account, bridge);
        bytes_over_http(account, bridge);
        sums::<Piped>(account, bridge);
        sums::<Fetched>(account, bridge);
    }
}

fn roomy() -> Limits {
    let mut limits = limits();
    (limits.requests_in, limits.requests_out) = (MANY + 10, MANY + 10);
    limits.requests_in_total = limits.requests_in;
    limits.exchanges = Limits::exchanges_for(MANY + 10);
    limits
}

fn ceiling_of<R: Reached>(limits: &Limits) -> usize {
    R::ceiling(&Ceilings::new(limits, &ServerConfig::new(), INTAKE))
}

fn bytes_over_stdio(account: &mut Account, bridge: Bridge) {
    let limits = limits();
    let ceiling = ceiling_of::<Piped>(&limits);
    let joined = || World::<Piped>::joined(bridge, &limits);
    let lines = lines().into_iter().map(|(row, what, chunk, times)| (row, what, chunk, times.div_ceil(30)));
    let messages = messages().into_iter().map(|(row, what, line)| (row, what, line, 4));
    for (row, what, chunk, times) in lines.chain(messages) {
        account.flood(row, &format!("{bridge}, of its server: {what}"), ceiling, || {
            let mut harness = joined();
            for _ in 0..times {
                for chunk in chunk.chunks(CHUNK) {
                    harness.relay.handle_server_bytes(chunk, harness.now);
                    harness.drain();
                }
                harness.forget();
            }
        });
        account.flood(row, &format!("{bridge}, of its client: {what}"), ceiling, || {
            let mut harness = joined();
            for _ in 0..times {
                for chunk in chunk.chunks(CHUNK) {
                    if harness.relay.wants_bytes() {
                        harness.relay.handle_bytes(chunk, harness.now);
                        harness.drain();
                    }
                }
                harness.forget();
            }
        });
    }
}

fn bytes_over_http(account: &mut Account, bridge: Bridge) {
    let limits = limits();
    let ceiling = ceiling_of::<Fetched>(&limits);
    for (row, what, reply, chunk, times) in answers() {
        account.flood(row, &format!("{bridge} over HTTP, of its server: {what}"), ceiling, || {
            let mut harness = World::<Fetched>::joined(bridge, &limits);
            harness.call("1", "").expect("a call that reached the server");
            let exchange = harness.reached.open.last().expect("an exchange").1;
            let (head, begin) = reply.parts();
            harness.relay.handle_response(exchange, &head, harness.now);
            harness.relay.handle_body(exchange, &begin, harness.now);
            for _ in 0..times.div_ceil(30) {
                if harness.relay.wants_body() {
                    harness.relay.handle_body(exchange, &chunk, harness.now);
                }
                harness.drain();
                harness.forget();
            }
        });
    }
}

/// Floods of many large messages.
fn sums<R: Reached>(account: &mut Account, bridge: Bridge) {
    let limits = roomy();
    let ceiling = ceiling_of::<R>(&limits);
    let large = format!(r#","x":"{}""#, "x".repeat(LARGE));
    let mut flood = |what: &str, run: &dyn Fn(&mut World<R>)| {
        account.flood("M3", &format!("{bridge} over {}: {what}", R::NAME), ceiling, || {
            let mut harness = World::<R>::joined(bridge, &limits);
            run(&mut harness);
            harness.echoes();
        });
    };
    flood("large calls that are not answered", &|harness| {
        for id in 0..MANY {
            harness.call(&id.to_string(), &large);
            harness.forget();
        }
    });
    flood("large results that the client does not read", &|harness| {
        let calls: Vec<_> = (0..MANY).map(|id| harness.call(&id.to_string(), "")).collect();
        harness.is_read = false;
        for id in calls.iter().flatten() {
            if harness.relay.wants_body() {
                harness.server(id, &bridge.result(id, &large));
            }
        }
    });
    let asks = |harness: &mut World<R>, id: &str, number: usize, members: &str| {
        let params = format!(r#"{{"message":"m","requestedSchema":{{"type":"object","properties":{{}}}}{members}}}"#);
        let message = match bridge {
            Bridge::ModernClient => request(&format!("\"q{number}\""), "elicitation/create", &params),
            Bridge::LegacyClient => {
                let wish = format!(r#"{{"method":"elicitation/create","params":{params}}}"#);
                let inputs = format!(r#"{{"a":{wish},"b":{{"method":"roots/list"}}}}"#);
                result(id, &format!(r#"{{"resultType":"input_required","inputRequests":{inputs}}}"#))
            }
        };
        harness.server(id, &message);
    };
    for (what, of_call, of_question) in
        [("large calls that their servers ask about", &*large, ""), ("large questions about calls", "", &*large)]
    {
        flood(what, &|harness| {
            for number in 0..MANY {
                if let Some(id) = harness.call(&number.to_string(), of_call) {
                    asks(harness, &id, number, of_question);
                }
                harness.forget();
            }
        });
    }
    flood("large answers to questions", &|harness| {
        for number in 0..MANY {
            let id = harness.call(&number.to_string(), "").expect("a call that reached the server");
            asks(harness, &id, number, "");
            let output = std::mem::take(&mut harness.to_client);
            let answer = match bridge {
                // The answer to one of the two inputs that the call needs.
                Bridge::LegacyClient => {
                    let asked = memchr::memmem::find(&output, b"elicitation/create").map(|_| id_of(&output));
                    let asked = asked.flatten().expect("a question");
                    result(&asked, &format!(r#"{{"action":"accept"{large}}}"#))
                }
                // The call again, with an answer that the server does not accept.
                Bridge::ModernClient => {
                    let state = format!(r#","requestState":"relay-{}""#, number + 1);
                    let given = format!(r#","inputResponses":{{"1":{{"action":"accept"{large}}}}}"#);
                    bridge.request(&format!("\"again{number}\""), "tools/call", &format!("{state}{given}"))
                }
            };
            harness.client(&answer);
            harness.forget();
        }
    });
    if bridge == Bridge::ModernClient {
        flood("large results of parked calls", &|harness| {
            for number in 0..MANY {
                let id = harness.call(&number.to_string(), "").expect("a call that reached the server");
                asks(harness, &id, number, "");
                harness.server(&id, &bridge.result(&id, &large));
                harness.forget();
            }
        });
        let urls = |id: &str, urls: &str| {
            let data = format!(r#"{{"elicitations":[{urls}]}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32042,"message":"m","data":{data}}}}}"#)
        };
        let url = |members: &str| format!(r#"{{"mode":"url","url":"https://a.example","message":"m"{members}}}"#);
        flood("large URLs that must be visited", &|harness| {
            for number in 0..MANY {
                let id = harness.call(&number.to_string(), "").expect("a call that reached the server");
                harness.server(&id, &urls(&id, &url(&large)));
                harness.forget();
            }
        });
        flood("10^5 URLs that must be visited", &|harness| {
            for number in 0..4 {
                let id = harness.call(&number.to_string(), "").expect("a call that reached the server");
                harness.server(&id, &urls(&id, &vec!["{}"; 100_000].join(",")));
                harness.forget();
            }
        });
        account.flood("M3", &format!("relay to {}: large calls before the server is known", R::NAME), ceiling, || {
            let mut harness = World::<R>::new(bridge, &limits);
            for id in 0..MANY {
                harness.client(&bridge.request(&id.to_string(), "tools/call", &large));
            }
            assert!(contains(&harness.to_client, "-32603"));
        });
        account.flood("M3", &format!("relay to {}: resources listened to, again and again", R::NAME), ceiling, || {
            let mut harness = World::<R>::joined(bridge, &limits);
            for number in 0..50 * MANY {
                let uri = format!("file:///{number}/{}", "x".repeat(30_000));
                let filter = format!(r#","notifications":{{"resourceSubscriptions":["{uri}"]}}"#);
                harness.client(&bridge.request("1", "subscriptions/listen", &filter));
                harness.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
                harness.forget();
                // The server answers none of these requests, so the relay gives them up.
                harness.now += std::time::Duration::from_secs(2);
                harness.relay.handle_timeout(harness.now);
                harness.drain();
            }
        });
    } else {
        flood("10^5 resources without a subscription", &|harness| {
            harness.client(&request("1", "resources/subscribe", r#"{"uri":"a:b"}"#));
            let listen = harness.to_server.pop().expect("a subscription");
            let id = id_of(&listen).expect("an id");
            let uris: Vec<_> = (0..100_000).map(|uri| format!(r#""{uri}""#)).collect();
            let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
            let filter = format!(r#""notifications":{{"resourceSubscriptions":["a:b",{}]}}"#, uris.join(","));
            let start = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"#;
            harness.server(&id, &format!("{start}{{{meta},{filter}}}}}"));
            assert!(contains(&harness.to_client, r#""id":1,"result":{}"#));
        });
    }
}
