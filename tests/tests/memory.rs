//! The memory that a machine allocates under the floods of the catalogue, counted by the allocator, never exceeds
//! `Ceilings`.
//!
//! The limits of the tests are smaller than the defaults, so that memory that they do not bound is visible. `cargo test
//! -p tests --test memory -- --nocapture` prints each flood with its peak and its ceiling.

#[path = "memory/bridges.rs"]
mod bridges;
#[path = "memory/sums.rs"]
mod sums;

use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use mcp_intermediary::{Relay, relay};
use mcp_proto::client::HttpTransport;
use mcp_proto::server::{HttpConfig, Progress};
use mcp_proto::{Ceilings, Instant, Intake, Json, Limits, Notification, ProtocolVersion, Stdio};
use mcp_testkit::byte_stream::{ClientStream, ServerStream};
use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages;
use mcp_testkit::messages::{INITIALIZED, event, initialize_result, progress_notification, request, result};
use peak_alloc::PeakAlloc;
use tests::json_text::keys;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Environment variable of a process that runs a single test: an allocator counts for its whole process.
const ALONE: &str = "FLOODS_ALONE";

const CHUNK: usize = 64 * 1024;
const GIGABYTE: usize = 1 << 30;
const MILLION: usize = 1_000_000;
/// What the driver hands in at one time. The heads in these tests are smaller.
const INTAKE: Intake = Intake { chunk: CHUNK, head: 2048, exchanges: 1 };

/// Small limits, so that the limit under test makes up most of its ceiling.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.message = 1 << 20;
    limits.event = 1 << 20;
    limits.queue = 128;
    limits.queue_bytes = 128 * 1024;
    limits.exchanges = 4;
    limits.requests_in = 64;
    limits.requests_out = 64;
    limits.requests_in_total = 64;
    limits.subscriptions = 1;
    limits.tombstones = 64;
    limits.unwritten = 1 << 20;
    limits.held = 4 << 20;
    limits
}

/// The results of the floods that have been measured.
struct Account {
    lines: Vec<String>,
    exceeded: usize,
}

impl Account {
    /// Runs a flood and compares its peak with the ceiling. The caller allocates what the flood itself needs before
    /// this call.
    fn flood(&mut self, row: &str, what: &str, ceiling: usize, run: impl FnOnce()) {
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        run();
        let peak = ALLOCATOR.peak_usage().saturating_sub(before);
        self.exceeded += usize::from(peak > ceiling);
        let verdict = if peak > ceiling { "EXCEEDED" } else { "kept" };
        self.lines.push(format!("{row:<5} {what:<78} {:>9} of {:>9} KiB  {verdict}", peak >> 10, ceiling >> 10));
        println!("{}", self.lines[self.lines.len() - 1]);
    }
}

#[test]
fn no_sum_of_what_a_machine_holds_is_more_than_its_ceiling() {
    held_to_their_ceilings("no_sum_of_what_a_machine_holds_is_more_than_its_ceiling", sums::all);
}

#[test]
fn no_flood_through_a_bridge_is_held_beyond_its_ceiling() {
    held_to_their_ceilings("no_flood_through_a_bridge_is_held_beyond_its_ceiling", bridges::all);
}

#[test]
fn no_flood_makes_a_client_or_a_server_hold_more_than_its_ceiling() {
    held_to_their_ceilings("no_flood_makes_a_client_or_a_server_hold_more_than_its_ceiling", ends);
}

#[test]
fn no_flood_makes_a_relay_hold_more_than_its_ceiling() {
    held_to_their_ceilings("no_flood_makes_a_relay_hold_more_than_its_ceiling", relays);
}

fn held_to_their_ceilings(test: &str, floods: fn(&mut Account)) {
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().expect("the path of this program"));
        let output = alone.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().expect("this program again");
        let printed = String::from_utf8_lossy(&output.stdout);
        println!("{printed}");
        assert!(printed.contains(" floods, 0 over their ceilings") && output.status.success(), "{printed}");
        return;
    }
    let mut account = Account { lines: Vec::new(), exceeded: 0 };
    floods(&mut account);
    println!("{} floods, {} over their ceilings", account.lines.len(), account.exceeded);
    assert_eq!(account.exceeded, 0);
}

fn ends(account: &mut Account) {
    let ceilings = Ceilings::new(&limits(), &HttpConfig::new(), INTAKE);
    client_over_stdio(account, ceilings.client_over_stdio);
    server_over_stdio(account, ceilings.server_over_stdio);
    client_over_http(account, ceilings.client_over_http);
    server_over_http(account);
}

fn relays(account: &mut Account) {
    let ceilings = Ceilings::new(&limits(), &HttpConfig::new(), INTAKE);
    relay_over_stdio(account, ceilings.relay_over_stdio);
    relay_over_http(account, ceilings.relay_over_http);
    relay_between_eras(account, ceilings.relay_over_stdio);
}

fn filled(start: &str, with: &str, size: usize) -> Vec<u8> {
    let mut bytes = start.as_bytes().to_vec();
    while bytes.len() < size {
        bytes.extend_from_slice(with.as_bytes());
    }
    bytes
}

/// Floods that are the same for each machine on a byte stream.
fn lines() -> Vec<(&'static str, &'static str, Vec<u8>, usize)> {
    let long = filled(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":""#, "x", CHUNK);
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#.to_owned() + "\n";
    let unknown = r#"{"jsonrpc":"2.0","method":"x","params":{}}"#.to_owned() + "\n";
    let wrapped =
        format!(r#"{{"jsonrpc":"2.0","x":"{}","method":"notifications/message","params":{{}}}}"#, "x".repeat(60_000))
            + "\n";
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned() + "\n";
    let progress = progress_notification("1", 1) + "\n";
    let stray = r#"{"jsonrpc":"2.0","id":77,"result":{}}"#.to_owned() + "\n";
    let chunk_of = |line: &str| line.repeat((CHUNK / line.len()).max(1)).into_bytes();
    let times = |line: &str| (MILLION * line.len()).div_ceil(chunk_of(line).len());
    vec![
        ("FR1", "a line of 1 GB", long, GIGABYTE / CHUNK),
        ("FR1", "a line of 1 GB without a beginning", vec![b'x'; CHUNK], GIGABYTE / CHUNK),
        ("FR12", "10^7 empty lines", vec![b'\n'; CHUNK], 10 * MILLION / CHUNK),
        ("FR12", "10^7 tiny lines of garbage", b"1\n".repeat(CHUNK / 2), 20 * MILLION / CHUNK),
        ("FR12", "10^6 empty batches", b"[]\n".repeat(CHUNK / 3), 3 * MILLION / CHUNK),
        ("JS1", "10^6 arrays, one in the other", vec![b'['; CHUNK], MILLION / CHUNK),
        ("RP9", "10^6 log messages", chunk_of(&notification), times(&notification)),
        ("RP9", "10^6 notifications of an unknown method", chunk_of(&unknown), times(&unknown)),
        ("RP9", "log messages in frames that are much larger", wrapped.into_bytes(), 2000),
        ("RP10", "10^6 pings", chunk_of(&ping), times(&ping)),
        ("RP12", "10^6 notifications of progress", chunk_of(&progress), times(&progress)),
        ("RP1", "10^6 answers to nothing", chunk_of(&stray), times(&stray)),
    ]
}

/// Complete messages of nearly the maximum size, each of which is parsed.
fn messages() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let most = limits().message - 200;
    let line = |params: &str| (request("1", "x", params) + "\n").into_bytes();
    let named = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "\\u0061".repeat(most / 6)) + "\n";
    let keyed = format!(r#"{{"jsonrpc":"2.0","id":1,"{}":1}}"#, "\\u0061".repeat(most / 6)) + "\n";
    vec![
        ("JS2", "a message of nothing but keys", line(&keys(most))),
        ("JS2", "a message of nothing but elements", line(&format!("[0{}]", ",0".repeat(most / 2)))),
        ("JS14", "a message of nothing but escapes", line(&format!(r#"{{"x":"{}"}}"#, "\\u0041".repeat(most / 6)))),
        ("JS14", "a method of nothing but escapes", named.into_bytes()),
        ("JS14", "a key of nothing but escapes", keyed.into_bytes()),
        (
            "JS1",
            "a message of nothing but brackets",
            line(&format!("{}{}", "[".repeat(most / 2), "]".repeat(most / 2))),
        ),
        ("RP8", "a batch of single digits", (format!("[1{}]", ",1".repeat(most / 2)) + "\n").into_bytes()),
    ]
}

macro_rules! over_stdio {
    ($account:ident, $ceiling:ident, $machine:literal, $make:expr) => {
        for (row, what, chunk, times) in lines() {
            $account.flood(row, &format!("{}: {what}", $machine), $ceiling, || {
                let mut stream = $make;
                for _ in 0..times {
                    stream.machine.handle_bytes(&chunk, stream.now);
                    while stream.machine.poll_output().is_some() {}
                }
            });
            $account.flood(row, &format!("{}, which is not emptied: {what}", $machine), $ceiling, || {
                let mut stream = $make;
                for _ in 0..times {
                    if !stream.machine.wants_input() {
                        break;
                    }
                    stream.machine.handle_bytes(&chunk, stream.now);
                }
            });
        }
        for (row, what, line) in messages() {
            $account.flood(row, &format!("{}: {what}", $machine), $ceiling, || {
                let mut stream = $make;
                for _ in 0..4 {
                    for chunk in line.chunks(CHUNK) {
                        stream.machine.handle_bytes(chunk, stream.now);
                        while stream.machine.poll_output().is_some() {}
                    }
                }
            });
        }
    };
}

fn client_over_stdio(account: &mut Account, ceiling: usize) {
    over_stdio!(account, ceiling, "client over stdio", ClientStream::connected_with(|config| config.limits = limits()));
}

fn server_over_stdio(account: &mut Account, ceiling: usize) {
    let ready = || ServerStream::ready_with("2025-11-25", |config| config.limits = limits());
    over_stdio!(account, ceiling, "server over stdio", ready());
    let chunk: Vec<u8> =
        (0..1000).flat_map(|id| (request(&format!("\"{id:0240}\""), "m", "{}") + "\n").into_bytes()).collect();
    account.flood("RP10", "server over stdio: 10^6 requests that are not answered", ceiling, || {
        let mut stream = ready();
        for _ in 0..1000 {
            stream.machine.handle_bytes(&chunk[..CHUNK], stream.now);
            while stream.machine.poll_output().is_some() {}
        }
    });
}

/// What a server can send on one exchange, in pieces.
fn answers() -> Vec<(&'static str, &'static str, Reply, Vec<u8>, usize)> {
    let events = || Reply::events("");
    let notification = event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
    let progress = event(&progress_notification("1", 1));
    let asked = event(&request("1", "roots/list", "{}"));
    let chunk_of = |text: &str| text.repeat((CHUNK / text.len()).max(1)).into_bytes();
    let times = |text: &str| (MILLION * text.len()).div_ceil(chunk_of(text).len());
    vec![
        ("SS1", "a data line of 1 GB", Reply::events("data: "), vec![b'x'; CHUNK], GIGABYTE / CHUNK),
        ("SS1", "10^6 data lines of one event", events(), chunk_of("data: x\n"), times("data: x\n")),
        ("SS1", "10^6 empty data lines of one event", events(), chunk_of("data\n"), times("data\n")),
        ("SS2", "a comment of 1 GB", Reply::events(":"), vec![b'x'; CHUNK], GIGABYTE / CHUNK),
        ("SS2", "10^7 comments", events(), chunk_of(":\n\n"), 30 * MILLION / CHUNK),
        ("SS3", "10^7 unknown fields", events(), chunk_of("x:y\n"), 40 * MILLION / CHUNK),
        ("SS3", "the name of a field of 1 GB", events(), vec![b'n'; CHUNK], GIGABYTE / CHUNK),
        ("SS6", "an id of 1 GB", Reply::events("id: "), vec![b'i'; CHUNK], GIGABYTE / CHUNK),
        ("SS7", "10^6 retries", events(), chunk_of("retry: 1\n"), times("retry: 1\n")),
        ("SS8", "the type of an event of 1 GB", Reply::events("event: "), vec![b'e'; CHUNK], GIGABYTE / CHUNK),
        ("RP9", "10^6 log messages", events(), chunk_of(&notification), times(&notification)),
        ("RP10", "10^6 requests that are not answered", events(), chunk_of(&asked), times(&asked)),
        ("RP12", "10^6 notifications of progress", events(), chunk_of(&progress), times(&progress)),
        ("HT6", "a JSON body of 1 GB", Reply::json("{"), vec![b' '; CHUNK], GIGABYTE / CHUNK),
        ("HT7", "a body of 1 GB to an acceptance", Reply::status(202), vec![b'x'; CHUNK], GIGABYTE / CHUNK),
        ("HT8", "the body of an error of 1 GB", Reply::html(500), vec![b'x'; CHUNK], GIGABYTE / CHUNK),
    ]
}

fn client_over_http(account: &mut Account, ceiling: usize) {
    let connected = || HttpClientHarness::connected_client_with(|config, _| config.limits = limits());
    for (row, what, reply, chunk, times) in answers() {
        account.flood(row, &format!("client over HTTP: {what}"), ceiling, || {
            let mut harness = connected();
            let (_, opened) = harness.request("tools/list");
            harness.begin(opened.key, &reply);
            for _ in 0..times {
                harness.machine.handle_body(opened.key, &chunk, harness.now);
                while harness.machine.poll_output().is_some() {}
            }
        });
        account.flood(row, &format!("client over HTTP, which is not emptied: {what}"), ceiling, || {
            let mut harness = connected();
            let (_, opened) = harness.request("tools/list");
            harness.begin(opened.key, &reply);
            for _ in 0..times {
                if !harness.machine.wants_input() {
                    break;
                }
                harness.machine.handle_body(opened.key, &chunk, harness.now);
            }
        });
    }
    let chunk = vec![b'x'; CHUNK];
    account.flood("SS1", "client over HTTP: an event of the limit on every exchange", ceiling, || {
        let mut harness = connected();
        let opened: Vec<_> = (0..limits().exchanges * 3 / 4).map(|_| harness.request("tools/list").1.key).collect();
        for key in &opened {
            harness.begin(*key, &Reply::events("data: "));
        }
        for _ in 0..limits().event / CHUNK - 1 {
            for key in &opened {
                harness.machine.handle_body(*key, &chunk, harness.now);
            }
        }
    });
    account.flood("LE2", "client over HTTP: an endpoint of 1 MB, again and again", ceiling, || {
        let mut harness = HttpClientHarness::client_with(|config, http| {
            config.limits = limits();
            http.transport = HttpTransport::HttpSse;
        });
        let opened = harness.opened();
        harness.begin(opened.key, &Reply::events("event: endpoint\ndata: /m\n\nevent: endpoint\ndata: "));
        for _ in 0..1000 {
            harness.machine.handle_body(opened.key, &chunk, harness.now);
            while harness.machine.poll_output().is_some() {}
        }
    });
    let cache = 100_000;
    account.flood("M3", "client over HTTP that caches: 5000 requests that fail", ceiling + cache, || {
        let mut harness = HttpClientHarness::modern_client_with(|config, _| {
            config.limits = limits();
            config.cache = cache;
        });
        for number in 0..5000 {
            let (_, opened) = harness.call("resources/read", &format!(r#"{{"uri":"a:/{number:04000}"}}"#));
            harness.reply(opened.key, &Reply::status(500));
            harness.events();
        }
    });
    let inputs: Vec<_> = (0..10_000).map(|key| format!(r#""{key}":{{"method":"roots/list"}}"#)).collect();
    let inputs = format!(r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#, inputs.join(","));
    let state = format!(r#"{{"resultType":"input_required","requestState":"{}"}}"#, "s".repeat(limits().message - 200));
    for (what, answer) in [("10^4 wishes for input", inputs), ("a state of the limit", state)] {
        account.flood("MR2", &format!("client over HTTP: {what}"), ceiling, || {
            let mut harness = HttpClientHarness::modern_client_with(|config, _| {
                config.limits = limits();
                config.capabilities = Json::parse(r#"{"roots":{}}"#).expect("JSON");
            });
            let (_, opened) = harness.call("tools/call", r#"{"name":"t"}"#);
            harness.begin(opened.key, &Reply::json(""));
            for chunk in result(&opened.id(), &answer).as_bytes().chunks(CHUNK) {
                harness.machine.handle_body(opened.key, chunk, harness.now);
            }
            harness.machine.handle_end(opened.key, harness.now);
            while harness.machine.poll_output().is_some() {}
        });
    }
}

/// A relay to a server on a byte stream after the handshakes with its client and its server.
fn joined(now: Instant) -> Relay<Stdio> {
    let mut config = relay::Config::default();
    config.limits = limits();
    let mut relay = Relay::new(Stdio::new(), config).expect("a configuration");
    relay.handle_bytes((messages::initialize("0", "2025-11-25") + "\n").as_bytes(), now);
    relay.handle_server_bytes((result("1", &initialize_result("2025-11-25")) + "\n").as_bytes(), now);
    relay.handle_bytes((INITIALIZED.to_owned() + "\n").as_bytes(), now);
    while relay.poll_output().is_some() {}
    relay
}

fn relay_over_stdio(account: &mut Account, ceiling: usize) {
    let now = Instant::START;
    for (row, what, chunk, times) in lines() {
        account.flood(row, &format!("relay over stdio, of its server: {what}"), ceiling, || {
            let mut relay = joined(now);
            for _ in 0..times {
                relay.handle_server_bytes(&chunk, now);
                while relay.poll_output().is_some() {}
            }
        });
        account.flood(row, &format!("relay over stdio, which is not emptied, of its server: {what}"), ceiling, || {
            let mut relay = joined(now);
            for _ in 0..times {
                if !relay.wants_body() {
                    break;
                }
                relay.handle_server_bytes(&chunk, now);
            }
        });
        account.flood(row, &format!("relay over stdio, of its client: {what}"), ceiling, || {
            let mut relay = joined(now);
            for _ in 0..times {
                if !relay.wants_bytes() {
                    break;
                }
                relay.handle_bytes(&chunk, now);
                while relay.poll_output().is_some() {}
            }
        });
    }
}

fn relay_over_http(account: &mut Account, ceiling: usize) {
    let connected = || HttpClientHarness::connected_relay_with(|config, _| config.limits = limits());
    for (row, what, reply, chunk, times) in answers() {
        account.flood(row, &format!("relay: {what}"), ceiling, || {
            let mut harness = connected();
            let opened = harness.call("1", "tools/list");
            harness.begin(opened.key, &reply);
            for _ in 0..times {
                harness.machine.handle_body(opened.key, &chunk, harness.now);
                while harness.machine.poll_output().is_some() {}
            }
        });
        account.flood(row, &format!("relay, which is not emptied: {what}"), ceiling, || {
            let mut harness = connected();
            let opened = harness.call("1", "tools/list");
            harness.begin(opened.key, &reply);
            for _ in 0..times {
                if !harness.machine.wants_body() {
                    break;
                }
                harness.machine.handle_body(opened.key, &chunk, harness.now);
            }
        });
    }
    for (row, what, chunk, times) in lines() {
        account.flood(row, &format!("relay, of its client: {what}"), ceiling, || {
            let mut harness = connected();
            for _ in 0..times {
                if !harness.machine.wants_bytes() {
                    break;
                }
                harness.machine.handle_bytes(&chunk, harness.now);
                while harness.machine.poll_output().is_some() {}
            }
        });
    }
}

/// What a relay between the eras stores for parked calls.
fn relay_between_eras(account: &mut Account, ceiling: usize) {
    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
    let now = Instant::START;
    let asked = |id: usize| {
        let params = format!(r#"{{"message":"{}","requestedSchema":{{"type":"object"}}}}"#, "x".repeat(900_000));
        request(&id.to_string(), "elicitation/create", &params) + "\n"
    };
    account.flood(
        "M1",
        "relay over stdio, of its server: questions of the limit about one parked call",
        ceiling,
        || {
            let mut config = relay::Config::default();
            config.limits = limits();
            let mut relay = Relay::new(Stdio::new(), config).expect("a configuration");
            let line = |relay: &mut Relay<Stdio>, line: String| {
                relay.handle_bytes((line + "\n").as_bytes(), now);
                while relay.poll_output().is_some() {}
            };
            let answer = |relay: &mut Relay<Stdio>, line: String| {
                relay.handle_server_bytes((line + "\n").as_bytes(), now);
                while relay.poll_output().is_some() {}
            };
            line(&mut relay, request("0", "server/discover", &format!("{{{META}}}")));
            answer(&mut relay, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#.to_owned());
            answer(&mut relay, result("2", &initialize_result("2025-11-25")));
            line(&mut relay, request("1", "tools/call", &format!(r#"{{"name":"t",{META}}}"#)));
            for id in 0..200 {
                for chunk in asked(id).as_bytes().chunks(CHUNK) {
                    relay.handle_server_bytes(chunk, now);
                    while relay.poll_output().is_some() {}
                }
                relay.handle_written(usize::MAX, now);
                relay.handle_server_written(usize::MAX, now);
            }
        },
    );
}

/// The configuration of a server over HTTP for a flood, which determines its ceiling.
struct Served {
    limits: Limits,
    http: HttpConfig,
    exchanges: usize,
}

impl Served {
    /// Limits of one for everything except sessions.
    fn with_sessions(sessions: usize) -> Self {
        let (mut limits, mut http) = (limits(), HttpConfig::new());
        (limits.requests_in, limits.requests_in_total, limits.requests_out) = (1, 1, 1);
        http.max_sessions = sessions;
        http.replay = 16 * 1024;
        Self { limits, http, exchanges: 1 }
    }

    fn ceiling(&self) -> usize {
        Ceilings::new(&self.limits, &self.http, Intake { exchanges: self.exchanges, ..INTAKE }).server_over_http
    }

    fn http_server(&self) -> HttpServerHarness {
        HttpServerHarness::with(|http, config| {
            *http = self.http.clone();
            config.limits = self.limits.clone();
            let capabilities = r#"{"tools":{},"logging":{},"resources":{"subscribe":true}}"#;
            config.capabilities = Json::parse(capabilities).expect("JSON");
            config.versions = ProtocolVersion::ALL.to_vec();
        })
    }
}

fn server_over_http(account: &mut Account) {
    let chunk = vec![b'x'; CHUNK];
    let mut served = Served::with_sessions(1);
    served.exchanges = 64;
    account.flood("OR6", "server over HTTP: bodies of the limit, none of which ends", served.ceiling(), || {
        let mut http_server = served.http_server();
        let keys: Vec<_> = (0..served.exchanges).map(|_| http_server.begin(&TestRequest::post(""))).collect();
        for _ in 0..served.limits.message / CHUNK {
            for key in &keys {
                http_server.server.handle_body(*key, &chunk, http_server.now);
            }
        }
    });
    let served = Served::with_sessions(1);
    account.flood("OR6", "server over HTTP: a body of 1 GB", served.ceiling(), || {
        let mut http_server = served.http_server();
        let key = http_server.begin(&TestRequest::post(""));
        for _ in 0..GIGABYTE / CHUNK {
            http_server.server.handle_body(key, &chunk, http_server.now);
        }
        http_server.take(key);
    });
    sessions(account);
    requests_over_http(account);
}

fn sessions(account: &mut Account) {
    const SESSIONS: usize = 1000;
    let served = Served::with_sessions(SESSIONS);
    account.flood("SE6", "server over HTTP: sessions to the limit and beyond", served.ceiling(), || {
        let mut http_server = served.http_server();
        for _ in 0..SESSIONS + 500 {
            http_server.answer(&TestRequest::post(initialize("2025-11-25")));
            http_server.events();
        }
        assert_eq!(http_server.server.sessions(), SESSIONS);
    });
    let (own, other) = ("x".repeat(15_000), "y".repeat(500_000));
    let large = format!(r#""capabilities":{{"x":"{own}"}},"y":"{other}""#);
    let large = Bytes::from(initialize("2025-11-25").replace(r#""capabilities":{}"#, &large));
    account.flood("SE6", "server over HTTP: sessions that begin with large messages", served.ceiling(), || {
        let mut http_server = served.http_server();
        for _ in 0..SESSIONS {
            let key = http_server.begin(&TestRequest::post(""));
            http_server.server.handle_body(key, &large, http_server.now);
            http_server.server.handle_end(key, http_server.now);
            http_server.take(key);
            http_server.events();
        }
        assert_eq!(http_server.server.sessions(), SESSIONS);
    });
    let log = Json::parse(format!(r#"{{"level":"error","data":"{}"}}"#, "x".repeat(500))).expect("JSON");
    account.flood("SE9", "server over HTTP: events that no client fetches, in every session", served.ceiling(), || {
        let mut http_server = served.http_server();
        for _ in 0..SESSIONS {
            http_server.session("2025-11-25");
            let session = http_server.last_session();
            for _ in 0..100 {
                let notification = Notification::with_params("notifications/message", log.clone());
                http_server.server.notify(session, notification, http_server.now).expect("a declared notification");
            }
            http_server.events();
        }
    });
    account.flood(
        "SE10",
        "server over HTTP: streams that clients open and leave, again and again",
        served.ceiling(),
        || {
            let mut http_server = served.http_server();
            for _ in 0..3 {
                for _ in 0..SESSIONS {
                    let id = http_server.session("2025-11-25");
                    let key = http_server.ask(&TestRequest::get().in_session(&id));
                    http_server.take(key);
                    http_server.server.handle_disconnect(key, http_server.now);
                    http_server.events();
                }
                http_server.pass(Duration::from_secs(3600 * 2));
            }
            assert_eq!(http_server.server.sessions(), 0);
        },
    );
}

fn requests_over_http(account: &mut Account) {
    let mut served = Served::with_sessions(1);
    account.flood("SE9", "server over HTTP: 10^5 times progress that no client fetches", served.ceiling(), || {
        let mut http_server = served.http_server();
        let id = http_server.session("2025-11-25");
        let (key, ticket) = http_server.call(&id, "1", r#"{"name":"t","_meta":{"progressToken":1}}"#);
        http_server.server.handle_disconnect(key, http_server.now);
        for step in 0..100_000 {
            let progress = Progress { progress: f64::from(step), total: None, message: None };
            http_server.server.progress(&ticket, &progress, http_server.now);
            http_server.take(key);
        }
    });
    account.flood("SE9", "server over HTTP: 10^4 resources subscribed to in a session", served.ceiling(), || {
        let mut http_server = served.http_server();
        let id = http_server.session("2025-11-25");
        for number in 0..10_000 {
            let uri = format!("file:///{number}/{}", "x".repeat(2000));
            let body = request("1", "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#));
            let key = http_server.ask(&TestRequest::post(body).in_session(&id));
            http_server.take(key);
            http_server.events();
        }
    });
    served.http.max_sessions = 10;
    (served.limits.requests_in, served.limits.requests_in_total) = (256, 1000);
    account.flood(
        "RP10",
        "server over HTTP: 10^4 requests in each of 10 sessions, not answered",
        served.ceiling(),
        || {
            let mut http_server = served.http_server();
            for _ in 0..10 {
                let id = http_server.session("2025-11-25");
                for number in 0..10_000 {
                    let body = request(&format!("\"{number:0200}\""), "tools/list", "{}");
                    let key = http_server.ask(&TestRequest::post(body).in_session(&id));
                    http_server.take(key);
                    http_server.events();
                }
            }
        },
    );
    let mut served = Served::with_sessions(1);
    served.limits.requests_in_total = 2000;
    account.flood("HM11", "server over HTTP: 10^4 requests that stand alone, not answered", served.ceiling(), || {
        let mut http_server = served.http_server();
        for number in 0..10_000 {
            let key = http_server.ask(&TestRequest::stateless_call(&format!("\"{number:0200}\""), "t", ""));
            http_server.take(key);
            http_server.events();
        }
    });
    let mut served = Served::with_sessions(1);
    served.limits.subscriptions = 100;
    let uris: Vec<_> = (0..500).map(|number| format!(r#""file:///{number:040}""#)).collect();
    let filter = format!(r#""notifications":{{"resourceSubscriptions":[{}]}},"#, uris.join(","));
    account.flood("HM11", "server over HTTP: 10^3 subscriptions that name all they may", served.ceiling(), || {
        let mut http_server = served.http_server();
        for number in 0..1000 {
            let key = http_server.ask(&TestRequest::stateless(&number.to_string(), "subscriptions/listen", &filter));
            http_server.take(key);
            http_server.events();
        }
    });
}
