//! The limits and times that a configuration may have, and the load that a machine reports.

use std::time::Duration;

use mcp_proto::server::{self, HttpConfig, Server};
use mcp_proto::{Ceilings, Intake, InvalidLimit, Json, Limits, Load, Stdio, UsageError};
use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::messages::result;

/// A field of `Limits`: its name, its accessor, and its largest value.
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
            let expected = if may { Ok(()) } else { Err(InvalidLimit { field, largest }) };
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
        let expected = if may { Ok(()) } else { Err(InvalidLimit { field: "max_retry", largest: 86_400 }) };
        assert_eq!(limits.check(), expected, "{min:?} {max:?}");
    }
}

/// A number in the configuration of a server over HTTP: its name, its accessor, and whether it may be zero.
type Number = (&'static str, fn(&mut HttpConfig) -> &mut usize, bool);
/// A time in the configuration of a server over HTTP: its name and its accessor.
type Time = (&'static str, fn(&mut HttpConfig) -> &mut Duration);

#[test]
fn cl5_each_number_and_time_of_a_server_over_http_has_bounds() {
    let is_fine = |change: &dyn Fn(&mut HttpConfig)| {
        let mut config = HttpConfig::new();
        change(&mut config);
        Server::new(server::Http::new(config), server::Config::new("s", "1")).map(drop)
    };
    let refused = |field| Err(UsageError::from(InvalidLimit { field, largest: LARGEST }));
    let numbers: [Number; 3] = [
        ("max_sessions", |config| &mut config.max_sessions, false),
        ("max_streams", |config| config.max_streams.get_or_insert(1), false),
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
fn the_load_adds_up_and_is_written_as_text() {
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
fn the_load_contains_the_unfinished_line_of_a_byte_stream() {
    let now = mcp_proto::Instant::START;
    let mut server = Server::new(Stdio::new(), server::Config::new("s", "1")).unwrap();
    server.handle_bytes(b"{\"jsonrpc\"", now);
    assert_eq!(server.load().held, 10);
    server.handle_bytes(b"}\n", now);
    assert_eq!(server.load().held, 0);
}

/// All six ceilings, in bytes.
fn ceilings(limits: &Limits) -> [usize; 6] {
    let intake = Intake { chunk: 64 * 1024, head: 16 * 1024, exchanges: 100 };
    let of = Ceilings::new(limits, &HttpConfig::new(), intake);
    [
        of.client_over_stdio,
        of.client_over_http,
        of.server_over_stdio,
        of.server_over_http,
        of.relay_over_stdio,
        of.relay_over_http,
    ]
}

/// The memory tests check that the ceilings are high enough; this test also detects a change that raises one.
#[test]
fn ceilings_follow_from_limits_by_the_formula() {
    let mut limits = Limits::default();
    let default = [437_649_408, 873_005_056, 479_592_448, 61_950_136_320, 1_257_242_624, 1_692_598_272];
    assert_eq!(ceilings(&limits), default);
    (limits.message, limits.event) = (2000, 1000);
    let small = [303_447_680, 319_240_784, 345_390_720, 61_782_384_160, 938_513_520, 954_306_624];
    assert_eq!(ceilings(&limits), small);
    (limits.message, limits.event) = (1000, 2000);
    let small = [303_439_680, 319_231_784, 345_382_720, 61_782_374_160, 938_494_520, 954_286_624];
    assert_eq!(ceilings(&limits), small);
    let intake = Intake { chunk: 1024, head: 1024, exchanges: 1 };
    let shown = Ceilings::new(&Limits::default(), &HttpConfig::new(), intake).to_string();
    let machines = shown.lines().map(|line| line.split("  ").next().unwrap_or_default());
    let expected = [
        "client over stdio",
        "client over HTTP",
        "server over stdio",
        "server over HTTP",
        "relay to stdio",
        "relay to HTTP",
    ];
    assert!(machines.eq(expected), "{shown}");
    assert!(shown.lines().all(|line| line.ends_with(" MiB")), "{shown}");
}

#[test]
fn a_server_whose_description_is_no_object_is_refused() {
    let wrong = |what| Err(UsageError::NotAnObject { what });
    for (info, capabilities, expected) in
        [("{}", "{}", Ok(())), ("7", "{}", wrong("server_info")), ("{}", "[]", wrong("capabilities"))]
    {
        let mut config = server::Config::new("s", "1");
        config.server_info = Json::parse(info).unwrap();
        config.capabilities = Json::parse(capabilities).unwrap();
        assert_eq!(Server::new(Stdio::new(), config).map(drop), expected, "{info} {capabilities}");
    }
}

#[test]
fn a_relay_counts_the_requests_of_its_client() {
    let mut harness = HttpClientHarness::connected_relay();
    assert_eq!(harness.machine.requests_in_flight(), 0);
    let opened = harness.call("1", "tools/list");
    assert_eq!(harness.machine.requests_in_flight(), 1);
    harness.reply(opened.key, &Reply::json(result(&opened.id(), "{}")));
    assert_eq!(harness.machine.requests_in_flight(), 0);
}
