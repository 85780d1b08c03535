//! Plays: one machine, and a peer and an application that do anything that peers and applications do, well or badly, as a
//! seed says. Limits are small and times short, so that all of them are met.
//!
//! What a machine says in a play is compared with what it said before ([`crate::transcript`]). Besides, each request of a
//! client ends exactly once, and everything ends when the machine is closed.
//!
//! | file | who |
//! |---|---|
//! | `site` | a server over HTTP, for clients and relays |
//! | `messages` | what servers say |
//! | `calls` | the application of a client |
//! | `served` | a server on a byte stream, its client and its application |
//! | `visited` | a server over HTTP, and its clients |

mod calls;
mod messages;
mod served;
mod site;
mod visited;

use std::time::Duration;

use mcp_proto::client::{Config, HttpConfig};
use mcp_proto::relay;
use mcp_proto::{Json, Limits, Load, ProtocolVersion};

use self::calls::Calls;
use self::site::Site;
use crate::random::Random;
use crate::stream::ClientStream;
use crate::world::World;

pub use self::served::server;
pub use self::visited::server_http;

/// A play's name, and what it runs.
pub type Play = (&'static str, fn(u64));

/// All of them.
pub const ALL: [Play; 5] = [
    ("client", client),
    ("client_stdio", client_stdio),
    ("relay", relay),
    ("server", server),
    ("server_http", server_http),
];

/// How many things happen in a play.
const STEPS: u64 = 250;

/// What belongs to no step: longer than all waiting.
const LONG: Duration = Duration::from_secs(4000);

const VERSIONS: [&[ProtocolVersion]; 6] = [
    ProtocolVersion::ALL,
    ProtocolVersion::ALL,
    &[ProtocolVersion::V2026_07_28],
    &[ProtocolVersion::V2025_11_25, ProtocolVersion::V2025_03_26],
    &[ProtocolVersion::V2025_06_18, ProtocolVersion::V2024_11_05],
    &[ProtocolVersion::V2025_03_26],
];

/// Limits of which some are small.
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

/// What clients declare.
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

/// A client over HTTP.
///
/// # Panics
///
/// A request has not ended exactly once.
pub fn client(seed: u64) {
    let mut random = Random::new(seed);
    let mut world = World::client_with(|config, http| {
        client_config(&mut random, config);
        http_config(&mut random, http);
    });
    let mut site = Site::new(&mut random);
    let mut calls = Calls::default();
    for _ in 0..STEPS {
        match random.below(10) {
            0..=2 => calls.act(&mut world.machine, world.now, &mut random),
            3 => world.pass(random_time(&mut random)),
            _ => site.act(&mut world, &mut random),
        }
        calls.read(world.events());
    }
    world.pass(Duration::from_secs(100));
    world.machine.close(world.now);
    world.pass(LONG);
    calls.read(world.events());
    calls.end();
    assert_eq!(world.machine.load(), Load::default(), "something is left");
}

/// A client of a server in a child process.
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
            server.hear(&line);
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
                // What has piled up is taken at once, or no more from here on.
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
    // The server may never have read it.
    left.unwritten = 0;
    assert_eq!(left, Load::default(), "something is left");
}

/// A relay between a client on a byte stream and a server over HTTP.
///
/// # Panics
///
/// The machine does not close.
pub fn relay(seed: u64) {
    let mut random = Random::new(seed);
    let mut world = World::relay_with(|config, http| {
        config.versions = random.pick(&VERSIONS).to_vec();
        config.limits = limits(&mut random);
        config.parking_timeout = Duration::from_secs(20);
        config.strict_json = random.one_in(4);
        http_config(&mut random, http);
    });
    let mut site = Site::new(&mut random);
    let mut client = messages::Client::new(&mut random);
    let mut events = Vec::new();
    for _ in 0..STEPS {
        match random.below(10) {
            0..=3 => {
                let line = client.line(&mut random);
                world.line(&line);
            }
            4 => world.pass(random_time(&mut random)),
            _ => site.act(&mut world, &mut random),
        }
        for line in world.lines() {
            client.hear(&line);
        }
        events.extend(world.events());
    }
    world.machine.handle_eof(world.now);
    world.pass(Duration::from_secs(100));
    world.machine.close(world.now);
    world.pass(LONG);
    events.extend(world.events());
    assert!(events.iter().any(|event| matches!(event, relay::Event::Closed(_))), "it never closes");
    assert_eq!(world.machine.load(), Load::default(), "something is left");
}

/// Times that are as likely to be shorter as longer than those that machines wait.
fn random_time(random: &mut Random) -> Duration {
    let most = *random.pick(&[1, 10, 100, 1000, 10_000, 70_000]);
    random.time(Duration::from_millis(most))
}
