//! The detection of a server's era: the machine compared with a table of RULES 10.1 and 10.2.

use std::time::Duration;

use mcp_proto::client::{Config, DetectedEra, HttpTransport};
use mcp_proto::{Era, ProtocolVersion};
use mcp_testkit::byte_stream::ClientStream;
use mcp_testkit::http_client::{self, HttpClientHarness, Opened, Reply};
use mcp_testkit::messages;

use crate::script::Script;

/// How a server responds to `server/discover` or `initialize`.
#[derive(Debug, Clone, Copy)]
enum Reaction {
    /// A result that lists the revisions whose bits are set.
    Versions(u8),
    /// Error -32022, with the supported revisions if its data can be read.
    Unsupported(Option<u8>),
    /// Another error.
    Error(i64),
    /// A result of `initialize`.
    Session(ProtocolVersion),
    /// A result that fits neither method.
    Nonsense,
    /// No answer until the request has timed out.
    Nothing,
    /// An answer to the request before the current one. Byte streams only.
    Late,
    /// A status without a JSON-RPC body. HTTP only.
    Status(u16),
    /// The connection breaks, or the process ends.
    Gone,
}

const CODES: [i64; 8] = [-32601, -32602, -32600, -32603, -32020, -32021, -32000, 7];
const STATUSES: [u16; 12] = [400, 404, 405, 401, 403, 407, 408, 425, 429, 500, 503, 422];

impl Reaction {
    fn of(script: &mut Script<'_>) -> Option<Self> {
        Some(match script.byte()? % 10 {
            0 => Self::Versions(script.byte()?),
            1 => Self::Unsupported(Some(script.byte()?)),
            2 => Self::Unsupported(None),
            3 => Self::Error(script.pick(&CODES)?),
            4 => Self::Session(script.pick(ProtocolVersion::ALL)?),
            5 => Self::Nonsense,
            6 => Self::Nothing,
            7 => Self::Late,
            8 => Self::Status(script.pick(&STATUSES)?),
            _ => Self::Gone,
        })
    }

    /// The JSON-RPC response, if there is one.
    fn message(self, id: &str) -> Option<String> {
        let named = |chosen| serde_json::to_string(&those(chosen)).expect("names are JSON");
        let unsupported = |data: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32022,"message":"no","data":{data}}}}}"#)
        };
        Some(match self {
            Self::Versions(chosen) => {
                messages::result(id, &format!(r#"{{"resultType":"complete","supportedVersions":{}}}"#, named(chosen)))
            }
            Self::Unsupported(Some(chosen)) => unsupported(&format!(r#"{{"supported":{}}}"#, named(chosen))),
            Self::Unsupported(None) => unsupported("[]"),
            Self::Error(code) => messages::error(id, code, "no"),
            Self::Session(version) => messages::result(id, &messages::initialize_result(version.as_str())),
            Self::Nonsense => messages::result(id, r#"{"content":[]}"#),
            Self::Nothing | Self::Late | Self::Status(_) | Self::Gone => return None,
        })
    }
}

/// The names of the revisions whose bits are set, and of one that does not exist.
fn those(chosen: u8) -> Vec<&'static str> {
    versions(chosen).into_iter().map(ProtocolVersion::as_str).chain(["2031-01-01"]).collect()
}

fn versions(chosen: u8) -> Vec<ProtocolVersion> {
    let has = |number: &usize| chosen >> number & 1 == 1;
    ProtocolVersion::ALL
        .iter()
        .copied()
        .enumerate()
        .filter(|(number, _)| has(number))
        .map(|(_, version)| version)
        .collect()
}

/// What the client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Discover,
    Initialize(ProtocolVersion),
    Connected(Era),
    /// The attempt to connect fails, and the client reports the reason.
    Nothing,
    /// The request is still unanswered.
    Wait,
}

/// The expected behaviour for one connection, according to the rules.
struct Table {
    versions: Vec<ProtocolVersion>,
    is_stream: bool,
    known: Option<Era>,
    last: Next,
    so_far: SoFar,
}

/// What has happened since the attempt to connect began.
#[derive(Debug, Default)]
struct SoFar {
    was_refused: bool,
    has_corrected: bool,
    /// `server/discover` was sent to the current process.
    has_probed: bool,
}

impl Table {
    fn newest(&self, is_modern: bool, among: &[ProtocolVersion]) -> Option<ProtocolVersion> {
        let modern = ProtocolVersion::V2026_07_28;
        self.versions.iter().copied().filter(|it| (*it == modern) == is_modern && among.contains(it)).max()
    }

    fn has(&self, is_modern: bool) -> bool {
        self.newest(is_modern, ProtocolVersion::ALL).is_some()
    }

    fn begin(&mut self) -> Next {
        self.so_far = SoFar::default();
        let probes = self.has(true) && !(self.has(false) && self.known == Some(Era::Legacy));
        self.last = if probes { Next::Discover } else { self.initialize() };
        self.so_far.has_probed = probes;
        self.last
    }

    fn initialize(&self) -> Next {
        self.newest(false, ProtocolVersion::ALL).map_or(Next::Nothing, Next::Initialize)
    }

    fn next(&mut self, reaction: Reaction) -> Next {
        let next = match (reaction, self.last) {
            (Reaction::Late, _) => return Next::Wait,
            // A legacy server may exit at the probe, so it is started again with `initialize` (ER-06).
            (Reaction::Gone, _) if self.is_stream && self.has(false) && self.so_far.has_probed => {
                self.so_far.has_probed = false;
                self.initialize()
            }
            // These failures state nothing about the era (ER-26, ER-29).
            (Reaction::Gone | Reaction::Status(401 | 403 | 407 | 408 | 425 | 429 | 500..), _) => Next::Nothing,
            (reaction, Next::Discover) => self.probed(reaction),
            // A session is used only if the client supports its revision (LC-06).
            (Reaction::Session(version), _) if self.newest(false, &[version]).is_some() => Next::Connected(Era::Legacy),
            // A modern server refuses `initialize`, so the client probes once more (ER-08, ER-42).
            (Reaction::Unsupported(_) | Reaction::Error(-32601 | -32602 | -32020) | Reaction::Status(_), _)
                if self.has(true) && !self.so_far.was_refused =>
            {
                self.so_far.was_refused = true;
                Next::Discover
            }
            _ => Next::Nothing,
        };
        self.so_far.has_probed |= next == Next::Discover;
        self.last = next;
        next
    }

    fn probed(&mut self, reaction: Reaction) -> Next {
        let (chosen, is_result) = match reaction {
            Reaction::Versions(chosen) => (chosen, true),
            Reaction::Unsupported(Some(chosen)) => (chosen, false),
            // Only a modern server sends these errors (ER-22, ER-24).
            Reaction::Error(-32020 | -32021) => return Next::Nothing,
            // Over HTTP, a timeout states nothing about the era (ER-26). On a byte stream it means a legacy server
            // (ER-04), unless the server is known to be modern.
            Reaction::Nothing if !self.is_stream || self.is_sure() => return Next::Nothing,
            // Any other answer means a legacy server (ER-04, ER-05, ER-23, ER-25), unless it has refused `initialize`.
            _ if self.so_far.was_refused => return Next::Nothing,
            _ => return self.initialize(),
        };
        let named = versions(chosen);
        match (self.newest(true, &named), self.newest(false, &named)) {
            // A result means a modern server (ER-02); so does -32022, after which the client probes once more (ER-03).
            (Some(_), _) if is_result => Next::Connected(Era::Modern),
            (Some(_), _) if self.so_far.has_corrected => Next::Nothing,
            (Some(_), _) => {
                self.so_far.has_corrected = true;
                Next::Discover
            }
            // The server lists legacy revisions only (ER-30).
            (None, Some(version)) => Next::Initialize(version),
            (None, None) => Next::Nothing,
        }
    }

    fn is_sure(&self) -> bool {
        let is_configured = self.known == Some(Era::Modern) && !self.so_far.was_refused;
        !self.has(false) || is_configured || self.so_far.has_corrected
    }
}

/// A client whose server is simulated.
trait Client {
    /// The request that it has sent since the last call, by method and offered revision.
    fn asked(&mut self) -> Next;
    fn react(&mut self, reaction: Reaction);
    fn connect(&mut self) -> bool;
    fn detected_era(&self) -> Option<DetectedEra>;
    fn is_connected(&self) -> bool;
}

fn offered(method: &str, version: &str) -> Next {
    match (method, ProtocolVersion::from_text(version.trim_matches('"'))) {
        ("server/discover", _) => Next::Discover,
        ("initialize", Some(version)) => Next::Initialize(version),
        other => panic!("unexpected request: {other:?}"),
    }
}

struct OverHttp {
    harness: HttpClientHarness<mcp_proto::Client<mcp_proto::client::Http>>,
    open: Option<Opened>,
}

impl Client for OverHttp {
    fn asked(&mut self) -> Next {
        if self.is_connected() {
            return Next::Wait;
        }
        let mut next = Next::Wait;
        while self.harness.has_opened() {
            assert_eq!(next, Next::Wait, "two requests at once");
            let opened = self.harness.opened();
            let version = if opened.method() == "initialize" { opened.param("protocolVersion") } else { String::new() };
            next = offered(&opened.method(), &version);
            self.open = Some(opened);
        }
        next
    }

    fn react(&mut self, reaction: Reaction) {
        let Some(opened) = self.open.as_ref().filter(|_| !matches!(reaction, Reaction::Late)) else { return };
        let key = opened.key;
        match (reaction.message(&opened.id()), reaction) {
            (Some(message), Reaction::Error(code)) if code % 2 == 0 => {
                self.harness.reply(key, &Reply::json(message).with_status(400));
            }
            (Some(message), _) => self.harness.reply(key, &Reply::json(message)),
            (None, Reaction::Status(status)) => self.harness.reply(key, &Reply::html(status)),
            (None, Reaction::Gone) => self.harness.fail(key, http_client::broken()),
            (None, _) => self.harness.pass(Duration::from_secs(31)),
        }
    }

    fn connect(&mut self) -> bool {
        self.harness.machine.connect(self.harness.now).is_ok()
    }

    fn detected_era(&self) -> Option<DetectedEra> {
        self.harness.machine.detected_era()
    }

    fn is_connected(&self) -> bool {
        self.harness.machine.version().is_some()
    }
}

struct OnStream {
    stream: ClientStream,
    ids: Vec<String>,
}

impl Client for OnStream {
    fn asked(&mut self) -> Next {
        if self.is_connected() {
            return Next::Wait;
        }
        let mut next = Next::Wait;
        for line in self.stream.lines() {
            assert_eq!(next, Next::Wait, "two requests at once");
            let asked: serde_json::Value = serde_json::from_str(&line).expect("lines are JSON");
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            next = offered(&text(&asked["method"]), &text(&asked["params"]["protocolVersion"]));
            self.ids.push(asked["id"].to_string());
        }
        next
    }

    fn react(&mut self, reaction: Reaction) {
        let [earlier @ .., id] = &self.ids[..] else { return };
        match (reaction.message(id), reaction) {
            (Some(message), _) => self.stream.line(message),
            (None, Reaction::Late) => {
                if let Some(earlier) = earlier.last() {
                    self.stream.line(messages::result(earlier, messages::DISCOVERED));
                }
            }
            (None, Reaction::Gone) => self.stream.eof(),
            (None, _) => self.stream.pass(Duration::from_secs(31)),
        }
    }

    fn connect(&mut self) -> bool {
        self.stream.machine.connect(self.stream.now).is_ok()
    }

    fn detected_era(&self) -> Option<DetectedEra> {
        self.stream.machine.detected_era()
    }

    fn is_connected(&self) -> bool {
        self.stream.machine.version().is_some()
    }
}

/// The detection of the era, over HTTP and on a byte stream: whatever a server answers, the client sends the requests
/// that the rules require, detects the era that they require or none, and begins the next connection with it.
///
/// The first byte chooses the client's revisions, the second its known era and its transport.
pub fn era(data: &[u8]) {
    let [supported, how, ..] = data else { return };
    let versions = versions(*supported);
    if versions.is_empty() {
        return;
    }
    let mut table = Table {
        versions,
        is_stream: how & 4 != 0,
        known: [None, Some(Era::Legacy), Some(Era::Modern), None][usize::from(how & 3)],
        last: Next::Nothing,
        so_far: SoFar::default(),
    };
    let begun = table.begin();
    let mut client = client(&table);
    assert_eq!(client.asked(), begun, "the first request");
    let mut script = Script(&data[2..]);
    while let Some(reaction) = Reaction::of(&mut script) {
        if table.is_stream && matches!(reaction, Reaction::Status(_)) {
            continue;
        }
        let before = client.detected_era();
        client.react(reaction);
        let next = table.next(reaction);
        let asked = match next {
            Next::Discover | Next::Initialize(_) => next,
            Next::Connected(_) | Next::Nothing | Next::Wait => Next::Wait,
        };
        assert_eq!(client.asked(), asked, "after {reaction:?}");
        match next {
            Next::Connected(era) => {
                assert!(client.is_connected());
                assert_eq!(client.detected_era().map(|detected_era| detected_era.era), Some(era), "after {reaction:?}");
                return begins_with_known_era(table, era);
            }
            Next::Nothing => {
                if !matches!(reaction, Reaction::Versions(_) | Reaction::Unsupported(_)) {
                    assert_eq!(client.detected_era(), before, "{reaction:?} shows no era");
                }
                let (connected, begun) = (client.connect(), table.begin());
                if !connected {
                    return;
                }
                assert_eq!(client.asked(), begun, "the first request of the next attempt");
            }
            Next::Discover | Next::Initialize(_) | Next::Wait => assert!(!client.is_connected(), "after {reaction:?}"),
        }
    }
}

/// Another client that is configured with the detected era begins with it (ER-09).
fn begins_with_known_era(mut table: Table, era: Era) {
    table.known = Some(era);
    let begun = table.begin();
    assert_eq!(client(&table).asked(), begun, "with what is known");
}

fn client(table: &Table) -> Box<dyn Client> {
    let configure = |config: &mut Config| {
        config.versions.clone_from(&table.versions);
        config.known_era = table.known.map(DetectedEra::known);
    };
    if table.is_stream {
        Box::new(OnStream { stream: ClientStream::detecting_with(configure), ids: Vec::new() })
    } else {
        let harness = HttpClientHarness::detecting_client_with(|config, http| {
            configure(config);
            http.transport = HttpTransport::StreamableHttp;
        });
        Box::new(OverHttp { harness, open: None })
    }
}
