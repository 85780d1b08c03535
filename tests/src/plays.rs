//! Plays: one machine with a peer and an application that behave randomly, correctly or not, as a seed determines.
//! Limits are small and times short, so that all of them are reached.
//!
//! The output of a machine in a play is compared with its earlier output ([`mcp_testkit::transcript`]). A play also checks
//! that each request of a client ends exactly once, and that everything ends when the machine is closed.
//!
//! | file | content |
//! |---|---|
//! | `http_server` | an HTTP server, for clients and relays |
//! | `messages` | messages of servers and clients |
//! | `calls` | the application of a client |
//! | `stdio_server` | a server on a byte stream, its client and its application |
//! | `http_clients` | an HTTP server and its clients |

mod calls;
mod http_clients;
mod http_server;
mod messages;
mod stdio_server;

use std::time::Duration;

use mcp_intermediary::relay;
use mcp_proto::client::{Config, HttpConfig};
use mcp_proto::{Json, Limits, Load, ProtocolVersion};
use mcp_testkit::byte_stream::ClientStream;
use mcp_testkit::http_client::HttpClientHarness;
use mcp_testkit::random::Random;

use self::calls::Calls;
use self::http_server::HttpServer;

pub use self::http_clients::server_http;
pub use self::stdio_server::server;

/// The name of a play, and the function that runs it with a seed.
pub type Play = (&'static str, fn(u64));

/// All plays.
pub const ALL: [Play; 5] = [
    ("client", client),
    ("client_stdio", client_stdio),
    ("relay", relay),
    ("server", server),
    ("server_http", server_http),
];

/// The number of random operations in a play.
const STEPS: u64 = 250;

/// A time that is longer than every timeout of the machines.
const LONG: Duration = Duration::from_secs(4000);

const VERSIONS: [&[ProtocolVersion]; 6] = [
    ProtocolVersion::ALL,
    ProtocolVersion::ALL,
    &[ProtocolVersion::V2026_07_28],
    &[ProtocolVersion::V2025_11_25, ProtocolVersion::V2025_03_26],
    &[ProtocolVersion::V2025_06_18, ProtocolVersion::V2024_11_05],
    &[ProtocolVersion::V2025_03_26],
];

/// Limits, some of which are small.
fn limits(random: &mut Random) -> Limits {
    let mut limits = Limits::default();
    let mut small = |limit: &mut usize, values: &[usize]| {
        if random.one_in(6) {
            *limit = *random.pick(values);
        }
    };
    small(&mut limits.message, &[700, 2000]);
    small(&mut limits.event, &[300, 2000]);
    small(&mut limits.batch, &[1, 2]);
    small(&mut limits.requests_in, &[1, 3]);
    small(&mut limits.requests_in_total, &[2, 4]);
    small(&mut limits.requests_out, &[2, 5]);
    small(&mut limits.held, &[1, 20_000]);
    small(&mut limits.unwritten, &[600, 5000]);
    small(&mut limits.exchanges, &[1, 2, 4, 8]);
    small(&mut limits.error_body, &[20, 200]);
    small(&mut limits.event_id, &[2, 10]);
    small(&mut limits.session_id, &[4, 20]);
    small(&mut limits.redirects, &[1, 2]);
    small(&mut limits.garbage, &[1, 5]);
    small(&mut limits.subscriptions, &[1, 2]);
    small(&mut limits.input_rounds, &[1, 2]);
    small(&mut limits.tool_headers, &[10, 200]);
    small(&mut limits.session_settings, &[1, 60, 300]);
    small(&mut limits.tombstones, &[1, 2]);
    if random.one_in(3) {
        limits.reconnects = 2;
    }
    limits
}

/// Capabilities that a client declares.
fn capabilities(random: &mut Random) -> Json {
    let choices = ["{}", r#"{"roots":{"listChanged":true},"elicitation":{}}"#, r#"{"sampling":{}}"#];
    Json::parse(*random.pick(&choices)).expect("JSON")
}

fn client_config(random: &mut Random, config: &mut Config) {
    config.versions = random.pick(&VERSIONS).to_vec();
    config.limits = limits(random);
    config.capabilities = capabilities(random);
    config.reconnect = random.one_in(2);
    config.respawn = random.one_in(2);
    config.seed = random.below(3);
    if random.one_in(4) {
        config.max_timeout = Duration::from_secs(70);
    }
}

fn http_config(random: &mut Random, http: &mut HttpConfig) {
    if random.one_in(4) {
        (http.idle_timeout, http.linger) = (Duration::from_secs(4), Duration::from_secs(2));
    }
    if random.one_in(4) {
        http.redelivery = Duration::ZERO;
    }
}

/// Plays an HTTP client.
///
/// # Panics
///
/// A request has not ended exactly once.
pub fn client(seed: u64) {
    let mut random = Random::new(seed);
    let mut harness = HttpClientHarness::client_with(|config, http| {
        client_config(&mut random, config);
        http_config(&mut random, http);
    });
    let mut server = HttpServer::new(&mut random);
    let mut calls = Calls::default();
    for _ in 0..STEPS {
        match random.below(10) {
            0..=2 => calls.act(&mut harness.machine, harness.now, &mut random),
            3 => harness.pass(random_time(&mut random)),
            _ => server.act(&mut harness, &mut random),
        }
        calls.read(harness.events());
    }
    harness.pass(Duration::from_secs(100));
    harness.machine.close(harness.now);
    harness.pass(LONG);
    calls.read(harness.events());
    calls.end();
    assert_eq!(harness.machine.load(), Load::default(), "something is left");
}

/// Plays a client of a server in a child process.
///
/// # Panics
///
/// A request has not ended exactly once.
pub fn client_stdio(seed: u64) {
    let mut random = Random::new(seed);
    let mut stream = ClientStream::detecting_with(|config| client_config(&mut random, config));
    let mut server = messages::Server::new(&mut random);
    let mut calls = Calls::default();
    let mut respawned = 0;
    for _ in 0..STEPS {
        for line in stream.lines() {
            server.receive(&line);
        }
        if stream.respawned > respawned {
            respawned = stream.respawned;
            server.forget();
        }
        match random.below(10) {
            0..=2 => calls.act(&mut stream.machine, stream.now, &mut random),
            3 => stream.pass(random_time(&mut random)),
            4 if random.one_in(20) => stream.eof(),
            4 if random.one_in(4) => {
                // The child process stops reading, or reads what is written from here on.
                stream.is_read = !stream.is_read;
            }
            _ => {
                if let Some(line) = server.line(&mut random) {
                    let cut = usize::try_from(random.below(line.len() as u64 + 1)).expect("a short line");
                    stream.bytes(&line.as_bytes()[..cut]);
                    stream.bytes(&line.as_bytes()[cut..]);
                    stream.bytes(b"\n");
                }
            }
        }
        calls.read(stream.events());
    }
    stream.machine.close(stream.now);
    stream.pass(LONG);
    stream.eof();
    calls.read(stream.events());
    calls.end();
    let mut left = stream.machine.load();
    // The child process may never have read these bytes.
    left.unwritten = 0;
    assert_eq!(left, Load::default(), "something is left");
}

/// Plays a relay between a client on a byte stream and a server over HTTP.
///
/// # Panics
///
/// The machine does not close.
pub fn relay(seed: u64) {
    let mut random = Random::new(seed);
    let mut harness = HttpClientHarness::relay_with(|config, http| {
        config.versions = random.pick(&VERSIONS).to_vec();
        config.limits = limits(&mut random);
        config.parking_timeout = Duration::from_secs(20);
        config.strict_json = random.one_in(4);
        http_config(&mut random, http);
    });
    let mut server = HttpServer::new(&mut random);
    let mut client = messages::Client::new(&mut random);
    let mut events = Vec::new();
    for _ in 0..STEPS {
        match random.below(10) {
            0..=3 => {
                let line = client.line(&mut random);
                harness.line(&line);
            }
            4 => harness.pass(random_time(&mut random)),
            _ => server.act(&mut harness, &mut random),
        }
        for line in harness.lines() {
            client.receive(&line);
        }
        events.extend(harness.events());
    }
    harness.machine.handle_eof(harness.now);
    harness.pass(Duration::from_secs(100));
    harness.machine.close(harness.now);
    harness.pass(LONG);
    events.extend(harness.events());
    assert!(events.iter().any(|event| matches!(event, relay::Event::Closed(_))), "it never closes");
    assert_eq!(harness.machine.load(), Load::default(), "something is left");
}

/// A random time, as likely shorter as longer than the timeouts of the machines.
fn random_time(random: &mut Random) -> Duration {
    let most = *random.pick(&[1, 10, 100, 1000, 10_000, 70_000]);
    random.time(Duration::from_millis(most))
}
