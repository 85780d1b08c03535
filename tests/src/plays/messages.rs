//! Messages of servers to clients, and of clients to relays and servers.

use mcp_proto::Json;
use mcp_testkit::http_exchange::modern;
use mcp_testkit::messages::{self, DISCOVERED, INITIALIZED};
use mcp_testkit::random::Random;

/// A member of a JSON object.
fn part(json: &Json, name: &str) -> Option<Json> {
    json.member(name).ok().flatten()
}

/// A member of a JSON object, as text.
fn member(json: &Json, name: &str) -> Option<String> {
    part(json, name).map(|value| value.to_text().into_owned())
}

/// A request that has not been answered.
#[derive(Debug, Clone)]
pub(super) struct PendingRequest {
    pub(super) id: String,
    pub(super) method: String,
    /// The progress token of the request.
    pub(super) token: Option<String>,
    /// Whether it has the form of 2026-07-28.
    pub(super) is_modern: bool,
}

impl PendingRequest {
    /// Parses the request in a body or a line, if it is one.
    pub(super) fn read(text: &str) -> Option<Self> {
        let json = Json::parse(text.to_owned()).ok()?;
        let (id, method) = (member(&json, "id")?, member(&json, "method")?.trim_matches('"').to_owned());
        let meta = part(&json, "params").and_then(|params| part(&params, "_meta"));
        let token = meta.as_ref().and_then(|meta| member(meta, "progressToken"));
        let version = meta.as_ref().and_then(|meta| member(meta, "io.modelcontextprotocol/protocolVersion"));
        Some(Self { id, method, token, is_modern: version.is_some() })
    }

    /// A correct response.
    pub(super) fn result(&self, random: &mut Random) -> String {
        let old = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
        let result = match self.method.as_str() {
            "initialize" => {
                let text = messages::initialize_result(random.text(&old));
                text.replace(r#""tools":{}"#, r#""tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}"#)
            }
            "server/discover" if random.one_in(6) => {
                r#"{"resultType":"complete","supportedVersions":["2025-11-25"],"capabilities":{}}"#.to_owned()
            }
            "server/discover" => DISCOVERED.to_owned(),
            "tools/list" => (random.text(&[
                r#"{"resultType":"complete","tools":[{"name":"x","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}]}"#,
                r#"{"resultType":"complete","tools":[{"name":"x","inputSchema":{"x-mcp-header":""}},{"name":"a-long-name-of-a-tool","inputSchema":{"properties":{"b":{"type":"integer","x-mcp-header":"B"}}}}],"nextCursor":"2"}"#,
                r#"{"resultType":"complete","tools":[]}"#,
            ]))
            .to_owned(),
            "tools/call" | "resources/read" if self.is_modern => (*random.pick(&[
                messages::COMPLETE,
                messages::COMPLETE,
                r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{"message":"m"}}},"requestState":"s"}"#,
                r#"{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{}}}}"#,
                r#"{"resultType":"input_required","requestState":"s"}"#,
                r#"{"resultType":"input_required"}"#,
                r#"{"resultType":"odd"}"#,
            ]))
            .to_owned(),
            _ => r#"{"resultType":"complete","content":[{"type":"text","text":"a rather long text"}]}"#.to_owned(),
        };
        messages::result(&self.id, &result)
    }

    /// An error response. Some errors mean that the client should send the request again in another way.
    pub(super) fn error(&self, random: &mut Random) -> String {
        let code = *random.pick(&[-32_601, -32_602, -32_603, -32_000, -32_020, -32_021, -32_022, -32_042, 7]);
        let data = random.text(&[
            "",
            r#","data":{"supported":["2026-07-28","2025-06-18"]}"#,
            r#","data":{"supported":["1999-01-01"],"requested":"2026-07-28"}"#,
            r#","data":{"requiredCapabilities":{"sampling":{}}}"#,
        ]);
        format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"m"{data}}}}}"#, self.id)
    }

    /// A message that is not the response: one that belongs to the request, or an unrelated or invalid one.
    pub(super) fn aside(&self, random: &mut Random) -> String {
        let token = self.token.as_deref().unwrap_or("\"none\"");
        let id = self.id.trim_matches('"');
        match random.below(12) {
            0..=2 => messages::progress_notification(token, random.below(4)),
            3 => messages::NOTIFICATION.to_owned(),
            4 => format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{"toolsListChanged":true}},"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}}}}}"#,
                self.id
            ),
            5 => format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}}}}}"#,
                self.id
            ),
            6 => r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#.to_owned(),
            7 => {
                let method =
                    random.text(&["ping", "roots/list", "elicitation/create", "sampling/createMessage", "x/y"]);
                messages::request(&format!("\"s{}\"", random.below(4)), method, r#"{"_meta":{"progressToken":5}}"#)
            }
            8 => format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"s{}"}}}}"#,
                random.below(4)
            ),
            9 => messages::complete(&random.below(12).to_string()),
            10 => (random.text(&[
                "",
                "7",
                "{",
                "[]",
                r#"{"jsonrpc":"2.0"}"#,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
            ]))
            .to_owned(),
            _ => format!(r#"{{"jsonrpc":"2.0","id":{id}999,"result":{{}}}}"#),
        }
    }
}

/// A server on a byte stream.
pub(super) struct Server {
    waiting: Vec<PendingRequest>,
    /// One in so many responses is replaced by another message.
    trouble: u64,
}

impl Server {
    pub(super) fn new(random: &mut Random) -> Self {
        Self { waiting: Vec::new(), trouble: *random.pick(&[3, 6, 30]) }
    }

    pub(super) fn receive(&mut self, line: &str) {
        self.waiting.extend(PendingRequest::read(line));
    }

    /// Discards all requests, because the process was replaced.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// The next line that it writes.
    pub(super) fn line(&mut self, random: &mut Random) -> Option<String> {
        let first = *random.pick(&[true, true, false]);
        let asked = if first { self.waiting.first() } else { self.waiting.last() }?.clone();
        if random.one_in(self.trouble) {
            return Some(asked.aside(random));
        }
        self.waiting.retain(|other| other.id != asked.id);
        Some(match random.below(2 * self.trouble) {
            0 | 1 => asked.error(random),
            2 => format!("[{}]", asked.result(random)),
            _ => asked.result(random),
        })
    }
}

/// A client on a byte stream.
pub(super) struct Client {
    next: u64,
    is_modern: bool,
    has_begun: bool,
    /// Ids of requests that it has received.
    asked: Vec<String>,
    /// The latest `requestState` that it has received.
    state: Option<String>,
}

pub(super) const MODERN: [(&str, &str); 9] = [
    ("server/discover", ""),
    ("tools/list", ""),
    ("tools/call", r#""name":"x","#),
    ("tools/call", r#""name":"x","arguments":{"a":"b"},"#),
    ("tools/call", r#""name":"x","requestState":STATE,"#),
    ("tools/call", r#""name":"x","requestState":STATE,"inputResponses":{"1":{"action":"accept"},"a":{"roots":[]}},"#),
    ("subscriptions/listen", r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]},"#),
    ("subscriptions/listen", r#""notifications":{"promptsListChanged":true,"resourcesListChanged":true},"#),
    ("resources/read", r#""uri":"a:b","#),
];

pub(super) const LEGACY: [(&str, &str); 8] = [
    ("ping", "{}"),
    ("tools/list", "{}"),
    ("tools/call", r#"{"name":"x","_meta":{"progressToken":1}}"#),
    ("tools/call", r#"{"name":"x","arguments":{"a":"b"}}"#),
    ("resources/subscribe", r#"{"uri":"a:b"}"#),
    ("resources/unsubscribe", r#"{"uri":"a:b"}"#),
    ("logging/setLevel", r#"{"level":"info"}"#),
    ("x/y", "{}"),
];

impl Client {
    pub(super) fn new(random: &mut Random) -> Self {
        Self { next: 0, is_modern: random.one_in(2), has_begun: false, asked: Vec::new(), state: None }
    }

    /// The next line that it writes.
    pub(super) fn line(&mut self, random: &mut Random) -> String {
        self.next += 1;
        // Some ids are used twice.
        let id = if random.one_in(20) { self.next.saturating_sub(2) } else { self.next }.to_string();
        if !self.has_begun {
            self.has_begun = true;
            if !self.is_modern {
                let version = random.text(&["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "1999-01-01"]);
                return messages::initialize(&id, version).replace(r#""roots":{}"#, r#""roots":{},"elicitation":{}"#);
            }
        }
        match random.below(16) {
            0 => format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":"r"}}}}"#,
                self.next.saturating_sub(1 + random.below(3))
            ),
            1 if !self.is_modern => INITIALIZED.to_owned(),
            2 | 3 if !self.asked.is_empty() => {
                let id = self.asked.remove(0);
                if random.one_in(3) { messages::error(&id, 7, "no") } else { messages::result(&id, r#"{"roots":[]}"#) }
            }
            4 if random.one_in(3) => {
                (random.text(&["", "7", "{", "[]", r#"{"jsonrpc":"2.0","id":[],"method":"x"}"#, "\u{feff}{}"]))
                    .to_owned()
            }
            5 if !self.is_modern => r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#.to_owned(),
            6 if !self.is_modern && random.one_in(2) => format!(
                "[{},{}]",
                messages::request(&id, "ping", "{}"),
                messages::request(&format!("\"b{id}\""), "tools/call", r#"{"name":"x"}"#)
            ),
            7 if self.is_modern && random.one_in(6) => {
                self.is_modern = false;
                messages::initialize(&id, "2025-11-25")
            }
            _ if self.is_modern => {
                let (method, members) = random.pick(&MODERN);
                let state = self.state.as_deref().unwrap_or("\"relay-1\"");
                modern(&id, method, &members.replace("STATE", state))
            }
            _ => {
                let (method, params) = random.pick(&LEGACY);
                messages::request(&id, method, params)
            }
        }
    }

    /// Handles a line that was written to it.
    pub(super) fn receive(&mut self, line: &str) {
        if let Some(asked) = PendingRequest::read(line) {
            self.asked.push(asked.id);
        } else if let Ok(json) = Json::parse(line.to_owned()) {
            let state = part(&json, "result").and_then(|result| member(&result, "requestState"));
            self.state = state.or_else(|| self.state.take());
        }
    }
}
