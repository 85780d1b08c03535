//! Which limits and times a configuration may have, and what a machine says that it holds.

use std::time::Duration;

use mcp_proto::server::{self, HttpConfig, Server};
use mcp_proto::{Limits, Load, Stdio, UsageError};

/// A field of limits, its name, and the largest value that it may have.
type Field = (&'static str, fn(&mut Limits) -> &mut usize, usize);

macro_rules! fields {
    ($($name:ident: $largest:expr;)*) => {
        [$((stringify!($name), |limits| &mut limits.$name, $largest)),*]
    };
}

const LARGEST: usize = 1 << 30;
const MANY: usize = 1 << 24;

const FIELDS: [Field; 23] = fields! {
    message: LARGEST;
    event: LARGEST;
    depth: 1024;
    id: LARGEST;
    method: LARGEST;
    batch: MANY;
    requests_in: MANY;
    requests_in_total: MANY;
    requests_out: MANY;
    queue: MANY;
    queue_bytes: LARGEST;
    unwritten: LARGEST;
    held: LARGEST;
    exchanges: MANY;
    error_body: LARGEST;
    event_id: LARGEST;
    session_id: LARGEST;
    garbage: MANY;
    subscriptions: MANY;
    input_rounds: MANY;
    tool_headers: LARGEST;
    session_settings: LARGEST;
    tombstones: MANY;
};

#[test]
fn cl5_each_limit_has_bounds_and_an_error_names_the_one_that_is_outside() {
    for (field, of, largest) in FIELDS {
        for (value, may) in [(0, false), (1, true), (largest, true), (largest + 1, false)] {
            let mut limits = Limits::default();
            *of(&mut limits) = value;
            let expected = if may { Ok(()) } else { Err(UsageError::Limit { field, largest }) };
            assert_eq!(limits.check(), expected, "{field}: {value}");
        }
    }
    let second = Duration::from_secs(1);
    for (min, max, may) in [
        (second, second, true),
        (2 * second, second, false),
        (second, 86_400 * second, true),
        (second, 86_401 * second, false),
        (86_400 * second, 86_400 * second, true),
        (86_401 * second, 86_401 * second, false),
    ] {
        let mut limits = Limits::default();
        (limits.min_retry, limits.max_retry) = (min, max);
        let expected = if may { Ok(()) } else { Err(UsageError::Limit { field: "max_retry", largest: 86_400 }) };
        assert_eq!(limits.check(), expected, "{min:?} {max:?}");
    }
}

/// A number of a server over HTTP, and whether it may be zero.
type Number = (&'static str, fn(&mut HttpConfig) -> &mut usize, bool);
/// A time of one.
type Time = (&'static str, fn(&mut HttpConfig) -> &mut Duration);

#[test]
fn cl5_each_number_and_time_of_a_server_over_http_has_bounds() {
    let is_fine = |change: &dyn Fn(&mut HttpConfig)| {
        let mut config = HttpConfig::new();
        change(&mut config);
        Server::new(server::Http::new(config), server::Config::new("s", "1")).map(drop)
    };
    let refused = |field| Err(UsageError::Limit { field, largest: LARGEST });
    let numbers: [Number; 3] = [
        ("max_sessions", |config| &mut config.max_sessions, false),
        ("max_streams", |config| &mut config.max_streams, false),
        ("replay", |config| &mut config.replay, true),
    ];
    for (field, of, may_be_zero) in numbers {
        for (value, may) in [(0, may_be_zero), (1, true), (LARGEST, true), (LARGEST + 1, false)] {
            let outcome = is_fine(&|config| *of(config) = value);
            assert_eq!(outcome, if may { Ok(()) } else { refused(field) }, "{field}: {value}");
        }
    }
    let times: [Time; 5] = [
        ("session_idle", |config| &mut config.session_idle),
        ("replay_for", |config| &mut config.replay_for),
        ("keep_alive", |config| &mut config.keep_alive),
        ("body_timeout", |config| &mut config.body_timeout),
        ("unread_timeout", |config| &mut config.unread_timeout),
    ];
    let longest = Duration::from_secs(1 << 30);
    for (field, of) in times {
        for (value, may) in [
            (Duration::ZERO, false),
            (Duration::from_nanos(1), true),
            (longest, true),
            (longest + Duration::from_nanos(1), false),
        ] {
            let outcome = is_fine(&|config| *of(config) = value);
            assert_eq!(outcome, if may { Ok(()) } else { refused(field) }, "{field}: {value:?}");
        }
    }
}

#[test]
fn what_is_held_adds_up_and_is_said_in_words() {
    let mut load = Load::default();
    assert_eq!(load.to_string(), "nothing");
    load.requests_in = 1;
    load.held = 20;
    assert_eq!(load.to_string(), "1 requests of the peer, 20 bytes held");
    let mut all = Load::default();
    let parts = [
        &mut all.sessions,
        &mut all.requests_in,
        &mut all.requests_out,
        &mut all.subscriptions,
        &mut all.exchanges,
        &mut all.streams,
        &mut all.waiting,
        &mut all.held,
        &mut all.unwritten,
        &mut all.replay,
        &mut all.timers,
    ];
    for (part, number) in parts.into_iter().zip(1..) {
        *part = number;
    }
    assert_eq!(
        (all + all).to_string(),
        "2 sessions, 4 requests of the peer, 6 requests of this side, 8 subscriptions, 10 exchanges, 12 streams, \
         14 messages that wait, 16 bytes held, 18 bytes unwritten, 20 bytes kept for replay, 22 timers"
    );
}

#[test]
fn a_byte_stream_says_how_much_of_a_line_it_holds() {
    let now = std::time::Instant::now();
    let mut server = Server::new(Stdio::new(), server::Config::new("s", "1")).unwrap();
    server.handle_bytes(b"{\"jsonrpc\"", now);
    assert_eq!(server.load().held, 10);
    server.handle_bytes(b"}\n", now);
    assert_eq!(server.load().held, 0);
}
