//! Snapshots: a restored session behaves as the original.

use std::time::Duration;

use mcp_proto::client::Call;
use mcp_proto::server::{Event, HttpConfig, SessionMode, Snapshot, StoredSessions};
use mcp_proto::{InstanceId, Json, Notification, UsageError};
use mcp_testkit::http_exchange::{TestRequest, TestResponse};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, request};
use proptest::prelude::*;

fn server_with(change: impl FnOnce(&mut HttpConfig)) -> HttpServerHarness {
    HttpServerHarness::with(|http, config| {
        let declared = r#"{"logging":{},"tools":{"listChanged":true},"resources":{"subscribe":true}}"#;
        config.capabilities = Json::parse(declared).unwrap();
        change(http);
    })
}

/// What happens next in the session.
#[derive(Debug, Clone)]
enum Step {
    Ping,
    Initialize,
    SetLevel(&'static str),
    Subscribe(&'static str),
    Unsubscribe(&'static str),
    /// A call, during which the server asks the client, and the client answers or cancels.
    Call {
        asks: bool,
        is_cancelled: bool,
    },
    Batch,
    Get,
    Leave,
    Publish,
    PublishResource(&'static str),
    Log(&'static str),
    /// The server asks without a request of the client.
    Ask,
    OtherPrincipal,
    BadJson,
    OtherVersion,
    Pass(u64),
    Delete,
}

fn step() -> impl Strategy<Value = Step> {
    let level = || prop::sample::select(vec!["debug", "info", "error", "loud"]);
    let uri = || prop::sample::select(vec!["file:///a", "file:///b"]);
    prop_oneof![
        2 => Just(Step::Ping),
        1 => Just(Step::Initialize),
        2 => level().prop_map(Step::SetLevel),
        2 => uri().prop_map(Step::Subscribe),
        1 => uri().prop_map(Step::Unsubscribe),
        4 => (any::<bool>(), any::<bool>()).prop_map(|(asks, is_cancelled)| Step::Call { asks, is_cancelled }),
        1 => Just(Step::Batch),
        3 => Just(Step::Get),
        1 => Just(Step::Leave),
        2 => Just(Step::Publish),
        3 => uri().prop_map(Step::PublishResource),
        3 => level().prop_map(Step::Log),
        2 => Just(Step::Ask),
        1 => Just(Step::OtherPrincipal),
        1 => Just(Step::BadJson),
        1 => Just(Step::OtherVersion),
        2 => (0..2000_u64).prop_map(Step::Pass),
        1 => Just(Step::Delete),
    ]
}

/// A server with one session, and everything that its client and its application have received.
struct Side {
    server: HttpServerHarness,
    session: mcp_proto::SessionKey,
    stream: Option<mcp_proto::server::ExchangeKey>,
    seen: Vec<String>,
}

impl Side {
    fn post(&mut self, id: &str, body: String) {
        let answer = self.server.answer(&TestRequest::post(body).in_session(id).by("ada"));
        self.seen.push(format!("{} {}", answer.code(), answer.text()));
    }

    fn take(&mut self) {
        if let Some(stream) = self.stream {
            let sent = self.server.take(stream);
            self.seen.push(format!("{} {} {}", sent.code(), sent.text(), sent.is_over));
        }
        for event in self.server.events() {
            self.seen.push(match event {
                // The keys of a machine are its own.
                Event::Requested { method, params, .. } => format!("requested {method:?} {params:?}"),
                Event::Responded { outcome, .. } => format!("responded {outcome:?}"),
                Event::Cancelled { params, .. } => format!("cancelled {params:?}"),
                Event::Notified { method, params, .. } => format!("notified {method:?} {params:?}"),
                Event::Closed { reason, .. } => format!("closed {reason:?}"),
                Event::Connected { .. } | Event::Restored { .. } | Event::Ready { .. } => continue,
                event => format!("{event:?}"),
            });
        }
    }

    fn take_step(&mut self, id: &str, step: &Step) {
        let now = self.server.now;
        match step {
            Step::Ping => self.post(id, request("\"p\"", "ping", "{}")),
            Step::Initialize => self.post(id, request("0", "initialize", r#"{"protocolVersion":"2025-11-25"}"#)),
            Step::SetLevel(level) => {
                self.post(id, request("1", "logging/setLevel", &format!(r#"{{"level":"{level}"}}"#)));
            }
            Step::Subscribe(uri) => {
                self.post(id, request("2", "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#)));
            }
            Step::Unsubscribe(uri) => {
                self.post(id, request("2", "resources/unsubscribe", &format!(r#"{{"uri":"{uri}"}}"#)));
            }
            Step::Call { asks, is_cancelled } => self.call(id, *asks, *is_cancelled),
            Step::Batch => self.post(id, format!("[{}]", request("8", "ping", "{}"))),
            Step::Get => {
                let get = self.server.ask(&TestRequest::get().in_session(id).by("ada"));
                let sent = self.server.take(get);
                self.seen.push(format!("{} {}", sent.code(), sent.text()));
                if !sent.is_over {
                    self.stream = Some(get);
                }
            }
            Step::Leave => {
                if let Some(stream) = self.stream.take() {
                    self.server.server.handle_disconnect(stream, now);
                }
            }
            Step::Publish => {
                let changed = Notification::new("notifications/tools/list_changed");
                self.server.server.publish(changed, now).unwrap();
            }
            Step::PublishResource(uri) => {
                let params = Json::parse(format!(r#"{{"uri":"{uri}"}}"#)).unwrap();
                let changed = Notification::with_params("notifications/resources/updated", params);
                self.server.server.publish(changed, now).unwrap();
            }
            Step::Log(level) => {
                let level = mcp_proto::spec::LoggingLevel::from_text(level);
                let result = level.map(|level| self.server.server.log(self.session, level, None, &true.into(), now));
                self.seen.push(format!("{result:?}"));
            }
            Step::Ask => {
                let asked = self.server.server.request(self.session, Call::new("roots/list"), now);
                self.seen.push(format!("{:?}", asked.is_ok()));
            }
            Step::OtherPrincipal => {
                let ping = TestRequest::post(request("9", "ping", "{}")).in_session(id).by("eve");
                let code = self.server.answer(&ping).code();
                self.seen.push(code.to_string());
            }
            Step::BadJson => self.post(id, "{".to_owned()),
            Step::OtherVersion => {
                let ping = TestRequest::post(request("9", "ping", "{}")).in_session(id).by("ada");
                let code = self.server.answer(&ping.with("mcp-protocol-version", "2030-01-01")).code();
                self.seen.push(code.to_string());
            }
            Step::Pass(seconds) => self.server.pass(Duration::from_secs(*seconds)),
            Step::Delete => {
                let code = self.server.answer(&TestRequest::new("DELETE", "").in_session(id).by("ada")).code();
                self.seen.push(code.to_string());
            }
        }
        self.take();
    }

    fn call(&mut self, id: &str, asks: bool, is_cancelled: bool) {
        let body = request("7", "tools/call", r#"{"name":"t","_meta":{"progressToken":1}}"#);
        let exchange = self.server.ask(&TestRequest::post(body).in_session(id).by("ada"));
        let ticket = self.server.events().into_iter().find_map(|event| match event {
            Event::Requested { ticket, .. } => Some(ticket),
            _ => None,
        });
        let now = self.server.now;
        if let Some(ticket) = ticket {
            self.seen.push(format!("{:?}", self.server.server.context(&ticket)));
            if asks {
                let asked = self.server.server.request(&ticket, Call::new("roots/list"), now);
                self.seen.push(format!("{:?}", asked.is_ok()));
                // The client has seen the id of the request on the stream.
                let sent = self.server.peek(exchange).map(TestResponse::data).unwrap_or_default();
                let wire = sent.last().and_then(|data| Json::parse(data.clone()).ok()?.first_member("id"));
                let wire = wire.map_or("0".to_owned(), |wire| wire.to_text().into_owned());
                self.post(id, format!(r#"{{"jsonrpc":"2.0","id":{wire},"result":{{"roots":[]}}}}"#));
            }
            if is_cancelled {
                self.post(
                    id,
                    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#.into(),
                );
            }
            self.server.server.respond(ticket, Ok(Json::empty_object()), now).unwrap();
        }
        let sent = self.server.take(exchange);
        self.seen.push(format!("{} {} {}", sent.code(), sent.text(), sent.is_over));
    }
}

fn opened(version: &str) -> (Side, String) {
    // Events for replay are not in a snapshot.
    let mut server = server_with(|http| http.replay = 0);
    let id = server.session_of(version, Some("ada"));
    let session = server.last_session();
    server.events();
    (Side { server, session, stream: None, seen: Vec::new() }, id)
}

proptest! {
    #[test]
    fn a_restored_session_behaves_as_the_original_for_every_later_input(
        version in prop::sample::select(vec!["2025-03-26", "2025-06-18", "2025-11-25"]),
        before in prop::collection::vec(step(), 0..12),
        after in prop::collection::vec(step(), 1..12),
    ) {
        let (mut original, id) = opened(version);
        for step in before.iter().filter(|step| !matches!(step, Step::Delete)) {
            original.take_step(&id, step);
        }
        // A stream ends with its server.
        original.take_step(&id, &Step::Leave);
        let Some(snapshot) = original.server.server.snapshot(original.session) else { return Ok(()) };
        original.seen.clear();
        let mut server = server_with(|http| http.replay = 0);
        (server.now, server.drawn) = (original.server.now, original.server.drawn);
        let session = server.server.restore(&snapshot, server.now).unwrap();
        server.events();
        let mut restored = Side { server, session, stream: None, seen: Vec::new() };
        // The time since the last message is not in a snapshot.
        let ping = TestRequest::post(request("9", "ping", "{}")).in_session(&id).by("ada");
        for side in [&mut original, &mut restored] {
            prop_assert_eq!(side.server.answer(&ping).code(), 200);
        }
        // Requests that the client had not answered are not, either: they have ended here.
        let open = original.server.server.load().requests_out;
        prop_assume!(open == 0);
        for (at, step) in after.iter().enumerate() {
            for side in [&mut original, &mut restored] {
                side.take_step(&id, step);
            }
            prop_assert_eq!(&restored.seen, &original.seen, "{} {:?}", at, step);
        }
        let snapshots = [&original, &restored].map(|side| side.server.server.snapshot(side.session));
        prop_assert_eq!(&snapshots[0], &snapshots[1]);
    }

    #[test]
    fn no_bytes_make_a_server_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..200_usize) {
        let (original, _) = opened("2025-11-25");
        let snapshot = original.server.server.snapshot(original.session).unwrap();
        let text = snapshot.bytes.to_vec();
        let half = [&text[..cut.min(text.len())], &bytes[..]].concat();
        for bytes in [bytes, half] {
            let is_it = bytes == text;
            let mut server = server_with(|_| {});
            let result = server.server.restore(&Snapshot::new("a".into(), bytes.into()), server.now);
            prop_assert!(result.is_err() || is_it || result.is_ok());
            if result.is_err() {
                prop_assert_eq!(result, Err(UsageError::UnreadableSnapshot));
            }
        }
    }
}

#[test]
fn a_session_has_a_snapshot_once_it_is_confirmed() {
    let mut server = server_with(|_| {});
    let opened = server.answer(&TestRequest::post(mcp_testkit::http_exchange::initialize("2025-11-25")));
    let (id, session) = (opened.headers["mcp-session-id"].to_str().unwrap().to_owned(), server.last_session());
    assert_eq!(server.server.snapshot(session), None);
    server.answer(&TestRequest::post(INITIALIZED).in_session(&id));
    let snapshot = server.server.snapshot(session).unwrap();
    assert_eq!(&*snapshot.id, id);
    assert!(snapshot.bytes.len() < 4096, "{}", snapshot.bytes.len());
    server.server.end(session, server.now);
    assert_eq!(server.server.snapshot(session), None);
}

#[test]
fn a_snapshot_is_restored_once_where_there_is_room_and_sessions_are_in_memory() {
    let (original, _) = opened("2025-11-25");
    let snapshot = original.server.server.snapshot(original.session).unwrap();
    let other = Snapshot::new("other".into(), snapshot.bytes.clone());
    let mut server = server_with(|http| http.max_sessions = 1);
    assert!(server.server.restore(&snapshot, server.now).is_ok());
    assert_eq!(server.server.restore(&other, server.now), Err(UsageError::TooManySessions { limit: 1 }));
    let mut server = server_with(|_| {});
    assert!(server.server.restore(&snapshot, server.now).is_ok());
    assert_eq!(server.server.restore(&snapshot, server.now), Err(UsageError::SessionExists));
    let stored = SessionMode::Stored(StoredSessions::new(InstanceId::new(1)));
    for mode in [SessionMode::None, stored] {
        let mut server = server_with(|http| http.sessions = mode);
        assert_eq!(server.server.restore(&snapshot, server.now), Err(UsageError::NotInMemory));
    }
    let mut server =
        HttpServerHarness::with(|_, config| config.versions = [mcp_proto::ProtocolVersion::V2025_06_18].into());
    assert_eq!(server.server.restore(&snapshot, server.now), Err(UsageError::UnreadableSnapshot));
    assert!(!format!("{snapshot:?}").contains(&*snapshot.id), "its id is a secret");
}

#[test]
fn a_restored_session_ends_when_it_has_been_idle_for_as_long_as_any_other() {
    for (seconds, code) in [(99, 200), (101, 404)] {
        let (original, id) = opened("2025-11-25");
        let snapshot = original.server.server.snapshot(original.session).unwrap();
        let mut server = server_with(|http| http.session_idle = Duration::from_secs(100));
        server.server.restore(&snapshot, server.now).unwrap();
        server.pass(Duration::from_secs(seconds));
        let ping = TestRequest::post(request("9", "ping", "{}")).in_session(&id).by("ada");
        assert_eq!(server.answer(&ping).code(), code, "{seconds} s");
    }
}

#[test]
fn se8_events_of_the_original_are_not_taken_for_those_of_the_restored_session() {
    let mut server = server_with(|_| {});
    let id = server.session("2025-11-25");
    let session = server.last_session();
    let stream = server.ask(&TestRequest::get().in_session(&id));
    let publish = |server: &mut HttpServerHarness| {
        server.server.publish(Notification::new("notifications/tools/list_changed"), server.now).unwrap();
    };
    for _ in 0..3 {
        publish(&mut server);
    }
    let ids = server.take(stream).ids();
    let snapshot = server.server.snapshot(session).unwrap();
    let mut restored = server_with(|_| {});
    restored.server.restore(&snapshot, restored.now).unwrap();
    publish(&mut restored);
    let codes: Vec<_> = ids
        .iter()
        .map(|after| {
            let exchange = restored.ask(&TestRequest::get().in_session(&id).with("last-event-id", after));
            let sent = restored.take(exchange);
            (sent.code(), sent.data().len())
        })
        .collect();
    // After the last event of the original, nothing is missing.
    let [(first, _), (second, _), last] = codes[..] else { panic!("{codes:?}") };
    assert_eq!((first, second, last), (400, 400, (200, 1)));
}

#[test]
fn a_snapshot_with_numbers_that_no_server_has_counted_is_refused() {
    let (original, _) = opened("2025-11-25");
    let snapshot = original.server.server.snapshot(original.session).unwrap();
    let text = String::from_utf8(snapshot.bytes.to_vec()).unwrap();
    for member in ["n", "e"] {
        for (number, is_read) in [((1_u64 << 53) - 1, true), (1 << 53, false), (u64::MAX, false)] {
            let changed = text.replacen(r#""f":1"#, &format!(r#""f":1,"{member}":{number}"#), 1);
            assert_ne!(changed, text);
            let mut server = server_with(|_| {});
            let restored = server.server.restore(&Snapshot::new("a".into(), changed.into()), server.now);
            assert_eq!(restored.is_ok(), is_read, "{member} {number}: {restored:?}");
        }
    }
}
