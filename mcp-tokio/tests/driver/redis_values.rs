//! A store in Redis whose values are damaged, or written by another program, and commands that arrive late.

#![cfg(all(unix, feature = "http-server", feature = "redis"))]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_proto::InstanceId;
use mcp_proto::store::{After, Record, StoreAction, StoreKey, StoreResult, StoredEvents, StreamId};
use mcp_testkit::waiting::LONG;
use mcp_tokio::store::{Messages, Redis, Store};
use tests::redis_server::RedisServer;
use tokio::sync::mpsc;
use tokio::time::timeout;

const KEY: StoreKey = StoreKey::new(1);
const INSTANCE: InstanceId = InstanceId::new(7);
const RECEIVER: InstanceId = InstanceId::new(8);
const EXPIRES_IN: Duration = Duration::from_secs(600);
/// Texts in the place of a number.
const NUMBERS: [&str; 12] = [
    "18446744073709551615",
    "18446744073709551616",
    "9007199254740992",
    "9007199254740991",
    "9007199254740990",
    "1e300",
    "inf",
    "nan",
    "-1",
    "1.5",
    "0",
    "abc",
];

fn stream(session: &str, tag: u64) -> StreamId {
    StreamId { session: session.into(), tag }
}

fn append(stream: StreamId, first: Option<u64>, event: &'static str) -> StoreAction {
    StoreAction::Append {
        key: KEY,
        stream,
        first,
        events: vec![event.into()],
        label: Bytes::new(),
        is_last: false,
        keep: 1 << 20,
        expires_in: EXPIRES_IN,
    }
}

fn read(stream: StreamId, after: After) -> StoreAction {
    StoreAction::Read { key: KEY, stream, after, max_bytes: 1 << 20 }
}

fn save(session: &str, expected: u64, bytes: &'static str) -> StoreAction {
    StoreAction::Save { key: KEY, session: session.into(), expected, bytes: bytes.into(), expires_in: EXPIRES_IN }
}

fn load(session: &str) -> StoreAction {
    StoreAction::Load { key: KEY, session: session.into(), expires_in: EXPIRES_IN }
}

fn forget(session: &str) -> StoreAction {
    StoreAction::Forget { key: KEY, session: session.into() }
}

async fn events(store: &Redis, stream: StreamId) -> Option<Vec<Bytes>> {
    let result = store.carry_out(INSTANCE, read(stream, After::Number(0))).await;
    let StoreResult::Events(read) = result else { panic!("{result:?}") };
    read.map(|read| read.events)
}

/// The commands of scripts that clients send through this to a server, each as its bytes.
struct Recorder {
    url: String,
    commands: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    fn before(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}/", listener.local_addr().unwrap());
        let address = server.url().trim_start_matches("redis://").trim_end_matches('/').to_owned();
        let commands = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&commands);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&address).unwrap();
                let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || pass(from, to, |_| {}));
                let recorded = Arc::clone(&recorded);
                thread::spawn(move || {
                    let mut waiting = Vec::new();
                    pass(client, server, |bytes| {
                        waiting.extend_from_slice(bytes);
                        while let Some(length) = command_length(&waiting) {
                            let command: Vec<u8> = waiting.drain(..length).collect();
                            if command.windows(7).any(|part| part == b"EVALSHA") {
                                recorded.lock().unwrap().push(command);
                            }
                        }
                    });
                });
            }
        });
        Self { url, commands }
    }

    /// Sends each of the commands again, as an old connection would whose bytes arrive late.
    fn send_again(&self, server: &RedisServer) -> usize {
        let commands = self.commands.lock().unwrap().clone();
        let address = server.url().trim_start_matches("redis://").trim_end_matches('/').to_owned();
        for command in &commands {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(command).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(!answer.is_empty() && !answer.starts_with('-'), "{answer}");
        }
        commands.len()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut see: impl FnMut(&[u8])) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        see(&buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// The length of the command at the beginning of these bytes, if it is there in full: an array of strings.
fn command_length(bytes: &[u8]) -> Option<usize> {
    let line = |at: usize| -> Option<(usize, usize)> {
        let end = at + bytes.get(at..)?.windows(2).position(|part| part == b"\r\n")?;
        Some((std::str::from_utf8(&bytes[at + 1..end]).unwrap().parse().unwrap(), end + 2))
    };
    let (count, mut at) = line(0)?;
    for _ in 0..count {
        let (length, start) = line(at)?;
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some(at)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_arrives_late_over_an_old_connection_has_no_effect() {
    let Some(server) = RedisServer::start_if_installed() else { return };
    let recorder = Recorder::before(&server);
    let store = Redis::open(&recorder.url).unwrap();
    let (sender, mut messages) = mpsc::channel(100);
    let attending = Redis::open(&server.url()).unwrap();
    let attending = tokio::spawn(async move { attending.attend(RECEIVER, Messages::new(sender)).await });
    let find = || StoreAction::Find { key: KEY, instance: RECEIVER };
    let until = Instant::now() + LONG;
    while store.carry_out(INSTANCE, find()).await != StoreResult::Found(true) {
        assert!(Instant::now() < until);
    }
    let done = async |action| assert_eq!(store.carry_out(INSTANCE, action).await, StoreResult::Done);
    let send = |message: &'static str| StoreAction::Send { to: Some(RECEIVER), message: message.into() };
    for action in [
        // One after the other, so that not only the last one is recognised.
        append(stream("kept", 1), None, "a"),
        append(stream("kept", 1), None, "b"),
        append(stream("kept", 1), None, "c"),
        append(stream("kept", 2), Some(1), "a"),
        StoreAction::ForgetStream { stream: stream("kept", 2) },
        send("one"),
        send("two"),
        save("kept", 0, "first"),
        save("kept", 1, "second"),
        // A session that has ended must not begin again.
        save("ended", 0, "a"),
        append(stream("ended", StreamId::OF_SESSION), None, "a"),
        forget("ended"),
    ] {
        done(action).await;
    }
    for _ in 0..2 {
        assert!(recorder.send_again(&server) >= 12);
        assert_eq!(events(&store, stream("kept", 1)).await, Some(vec!["a".into(), "b".into(), "c".into()]));
        assert_eq!(events(&store, stream("kept", 2)).await, None);
        let record = Record { version: 2, bytes: "second".into() };
        assert_eq!(store.carry_out(INSTANCE, load("kept")).await, StoreResult::Loaded(Some(record)));
        assert_eq!(store.carry_out(INSTANCE, load("ended")).await, StoreResult::Loaded(None));
        assert_eq!(events(&store, stream("ended", StreamId::OF_SESSION)).await, None);
    }
    // Later actions have an effect, also on what was removed.
    done(append(stream("kept", 1), None, "d")).await;
    done(append(stream("kept", 2), Some(1), "e")).await;
    done(save("kept", 2, "third")).await;
    done(send("three")).await;
    assert_eq!(events(&store, stream("kept", 1)).await.map(|events| events.len()), Some(4));
    assert_eq!(events(&store, stream("kept", 2)).await, Some(vec!["e".into()]));
    for expected in ["one", "two", "three"] {
        assert_eq!(timeout(LONG, messages.recv()).await.unwrap().unwrap(), expected);
    }
    assert!(messages.try_recv().is_err());
    // What is left of what was removed expires soon.
    for key in server.keys() {
        let left: i64 = server.ask(&format!("PTTL {key}")).trim_start_matches(':').parse().unwrap();
        assert!((1..=675_000).contains(&left), "{key}: {left}");
    }
    attending.abort();
}

/// A server and a store, with a session, and the names of the keys of its record and of its stream.
async fn with_session() -> Option<(RedisServer, Redis, String, String)> {
    let server = RedisServer::start_if_installed()?;
    let store = Redis::open(&server.url()).unwrap();
    assert_eq!(store.carry_out(INSTANCE, save("s", 0, "a")).await, StoreResult::Done);
    for event in ["1", "2", "3"] {
        assert_eq!(store.carry_out(INSTANCE, append(stream("s", 1), None, event)).await, StoreResult::Done);
    }
    let key = |kind: &str| server.keys().into_iter().find(|key| key.starts_with(kind)).unwrap();
    let (record, of_stream) = (key("mcp:s:"), key("mcp:e:"));
    Some((server, store, record, of_stream))
}

/// The store carries out what concerns another session.
async fn serves_another(store: &Redis, damage: &str) {
    for action in [save("other", 0, "a"), append(stream("other", 1), None, "a")] {
        assert_eq!(timeout(LONG, store.carry_out(INSTANCE, action)).await, Ok(StoreResult::Done), "{damage}");
    }
    for action in [forget("other"), StoreAction::ForgetStream { stream: stream("other", 1) }] {
        assert_eq!(store.carry_out(INSTANCE, action).await, StoreResult::Done, "{damage}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_is_no_record_or_that_of_another_version() {
    let Some((server, store, record, _)) = with_session().await else { return };
    for number in NUMBERS {
        server.ask(&format!("HSET {record} v {number}"));
        let loaded = store.carry_out(INSTANCE, load("s")).await;
        match (number.parse::<u64>(), &loaded) {
            (Ok(version), StoreResult::Loaded(Some(record))) => assert_eq!(record.version, version),
            (Err(_), StoreResult::Loaded(None)) => {}
            _ => panic!("{number}: {loaded:?}"),
        }
        for expected in [0, 1, 2, (1 << 53) - 1, 1 << 53, u64::MAX] {
            server.ask(&format!("HSET {record} v {number}"));
            let saved = store.carry_out(INSTANCE, save("s", expected, "b")).await;
            let may_be = number.parse() == Ok(expected) && expected < (1 << 53) - 1;
            assert_eq!(saved, if may_be { StoreResult::Done } else { StoreResult::Conflict }, "{number} {expected}");
        }
        serves_another(&store, number).await;
    }
    server.ask(&format!("HDEL {record} d"));
    assert_eq!(store.carry_out(INSTANCE, load("s")).await, StoreResult::Loaded(None));
    // A value of another type costs this session its record.
    server.ask(&format!("SET {record} x"));
    assert_eq!(store.carry_out(INSTANCE, load("s")).await, StoreResult::Failed);
    serves_another(&store, "another type").await;
    assert_eq!(store.carry_out(INSTANCE, forget("s")).await, StoreResult::Done);
    assert_eq!(store.carry_out(INSTANCE, save("s", 0, "a")).await, StoreResult::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_stream_is_no_stream_and_every_script_ends() {
    let Some((server, store, _, of_stream)) = with_session().await else { return };
    let undamaged = server.ask(&format!("COPY {of_stream} undamaged"));
    assert_eq!(undamaged, ":1");
    let numbers =
        NUMBERS.iter().flat_map(|number| ["n", "f", "b"].map(|field| format!("HSET {of_stream} {field} {number}")));
    let both = ["9007199254740991", "9007199254740990", "1e15", "1e6"]
        .map(|number| format!("HSET {of_stream} n {number} f 1 b {number}"));
    let others = ["HDEL KEY 2", "HDEL KEY l", "HDEL KEY f", "HDEL KEY n", "HSET KEY 2 ", "HSET KEY t:x 5"];
    let others = others.map(|command| command.replace("KEY", &of_stream));
    for damage in numbers.chain(both).chain(others) {
        assert_eq!(server.ask(&format!("COPY undamaged {of_stream} REPLACE")), ":1");
        server.ask(&damage);
        let mut results = Vec::new();
        for after in [After::Number(0), After::Number(2), After::Number(u64::MAX), After::Latest] {
            let began = Instant::now();
            let result = store.carry_out(INSTANCE, read(stream("s", 1), after)).await;
            assert!(began.elapsed() < Duration::from_secs(2), "{damage}");
            let StoreResult::Events(events) = result else { panic!("{damage}: {result:?}") };
            let StoredEvents { first, events, .. } = events.unwrap_or_default();
            assert!(first < (1 << 53) && events.len() <= 3, "{damage}: {first}, {events:?}");
            results.push(events.len());
        }
        for first in [None, Some(1), Some(4), Some((1 << 53) - 1), Some(u64::MAX)] {
            for keep in [0, 1 << 20] {
                let mut action = append(stream("s", 1), first, "4");
                if let StoreAction::Append { keep: limit, .. } = &mut action {
                    *limit = keep;
                }
                let began = Instant::now();
                let result = store.carry_out(INSTANCE, action).await;
                assert!(matches!(result, StoreResult::Done | StoreResult::Conflict), "{damage}: {result:?}");
                assert!(began.elapsed() < Duration::from_secs(2), "{damage}");
            }
        }
        serves_another(&store, &damage).await;
    }
    server.ask(&format!("SET {of_stream} x"));
    assert_eq!(store.carry_out(INSTANCE, read(stream("s", 1), After::Latest)).await, StoreResult::Failed);
    serves_another(&store, "another type").await;
    assert_eq!(
        store.carry_out(INSTANCE, StoreAction::ForgetStream { stream: stream("s", 1) }).await,
        StoreResult::Done
    );
    assert_eq!(store.carry_out(INSTANCE, append(stream("s", 1), Some(1), "1")).await, StoreResult::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_instances_need_is_made_again_when_it_is_damaged() {
    let Some(server) = RedisServer::start_if_installed() else { return };
    let store = Redis::open(&server.url()).unwrap();
    let key = format!("mcp:i:{RECEIVER}");
    let last = "18446744073709551615-18446744073709551615";
    for damage in [
        format!("SET {key} x"),
        format!("XADD {key} {last} m early"),
        format!("XADD {key} {last} other x"),
        "SET mcp:instances x".to_owned(),
        "SADD mcp:instances nobody".to_owned(),
        format!("SET mcp:m:{INSTANCE} x"),
        format!("HSET mcp:m:{INSTANCE} t:x abc"),
    ] {
        let (sender, mut messages) = mpsc::channel(100);
        let attending = store.clone();
        let attending = tokio::spawn(async move { attending.attend(RECEIVER, Messages::new(sender)).await });
        let until = Instant::now() + LONG;
        while store.carry_out(INSTANCE, StoreAction::Find { key: KEY, instance: RECEIVER }).await
            != StoreResult::Found(true)
        {
            assert!(Instant::now() < until, "{damage}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server.ask(&damage);
        serves_another(&store, &damage).await;
        // To all, and until the receiver has registered again.
        while !matches!(timeout(Duration::from_millis(200), messages.recv()).await, Ok(Some(message)) if message == "late")
        {
            assert!(Instant::now() < until, "{damage}");
            let send = StoreAction::Send { to: None, message: "late".into() };
            assert_eq!(store.carry_out(INSTANCE, send).await, StoreResult::Done, "{damage}");
        }
        attending.abort();
        let _ = attending.await;
        store.leave(RECEIVER).await;
    }
}
