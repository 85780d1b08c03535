//! The engines of stores: all fulfil one contract.

#![cfg(all(feature = "http-server", feature = "redis"))]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_proto::InstanceId;
use mcp_proto::store::{After, Record, StoreAction, StoreKey, StoreResult, StreamId};
use mcp_testkit::store_contract::{BEHAVIOURS, Engine};
use mcp_testkit::waiting::LONG;
use mcp_tokio::store::{InMemory, Messages, Redis, Store};
use tests::redis_server::RedisServer;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const KEY: StoreKey = StoreKey::new(1);
const INSTANCE: InstanceId = InstanceId::new(7);
const EXPIRES_IN: Duration = Duration::from_secs(600);

/// An engine, used from a thread without a runtime.
struct Blocking<S> {
    store: S,
    runtime: Runtime,
    attending: BTreeMap<InstanceId, (JoinHandle<()>, mpsc::Receiver<Bytes>)>,
}

impl<S: Store + Clone> Blocking<S> {
    fn new(store: S) -> Self {
        Self { store, runtime: Runtime::new().unwrap(), attending: BTreeMap::new() }
    }

    fn finds(&self, instance: InstanceId) -> bool {
        let find = StoreAction::Find { key: KEY, instance };
        self.runtime.block_on(self.store.carry_out(INSTANCE, find)) == StoreResult::Found(true)
    }
}

impl<S: Store + Clone> Engine for Blocking<S> {
    fn register(&mut self, instance: InstanceId) {
        self.runtime.block_on(self.store.register(instance));
        assert!(self.finds(instance));
        let (sender, messages) = mpsc::channel(1);
        let store = self.store.clone();
        let attending = self.runtime.spawn(async move { store.attend(instance, Messages::new(sender)).await });
        self.attending.insert(instance, (attending, messages));
    }

    fn unregister(&mut self, instance: InstanceId) {
        let (attending, _) = self.attending.remove(&instance).unwrap();
        attending.abort();
        let _ = self.runtime.block_on(attending);
        self.runtime.block_on(self.store.leave(instance));
        assert!(!self.finds(instance));
    }

    fn carry_out(&mut self, from: InstanceId, action: StoreAction) -> StoreResult {
        self.runtime.block_on(self.store.carry_out(from, action))
    }

    fn receive(&mut self, by: InstanceId, count: usize) -> Vec<Bytes> {
        let (_, messages) = self.attending.get_mut(&by).unwrap();
        let receiving = async {
            let mut received = Vec::new();
            while received.len() < count {
                received.push(messages.recv().await.unwrap());
            }
            received
        };
        self.runtime.block_on(async { timeout(LONG, receiving).await }).unwrap()
    }

    fn pass(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

fn fulfils_the_contract(store: impl Store + Clone) {
    tests::deadline::set();
    let mut engine = Blocking::new(store);
    for behaviour in BEHAVIOURS {
        behaviour.check(&mut engine);
    }
}

/// A server may end before it has waited for messages.
async fn an_instance_that_has_left_is_not_found(store: impl Store) {
    let instance = InstanceId::new(9);
    let find = StoreAction::Find { key: KEY, instance };
    store.register(instance).await;
    assert_eq!(store.carry_out(INSTANCE, find.clone()).await, StoreResult::Found(true));
    store.leave(instance).await;
    assert_eq!(store.carry_out(INSTANCE, find).await, StoreResult::Found(false));
}

#[tokio::test]
async fn an_instance_that_has_waited_for_no_message_has_left_the_store_in_memory() {
    an_instance_that_has_left_is_not_found(InMemory::new()).await;
}

#[tokio::test]
async fn an_instance_that_has_waited_for_no_message_has_left_redis() {
    let Some(server) = RedisServer::start_if_installed() else { return };
    an_instance_that_has_left_is_not_found(Redis::open(&server.url()).unwrap()).await;
}

#[test]
fn the_store_in_memory_fulfils_the_contract() {
    fulfils_the_contract(InMemory::new());
}

#[test]
fn redis_fulfils_the_contract() {
    let Some(server) = RedisServer::start_if_installed() else { return };
    fulfils_the_contract(Redis::open(&server.url()).unwrap());
    // What is left expires, and no name has the id of a session.
    let keys = server.keys();
    assert!(keys.len() > 20, "{keys:?}");
    for key in keys {
        let left: i64 = server.ask(&format!("PTTL {key}")).trim_start_matches(':').parse().unwrap();
        // A key that has expired since is -2, one without an end -1.
        assert!(left == -2 || (0..=675_000).contains(&left), "{key}: {left}");
        assert!(key.starts_with("mcp:") && !key.contains("similar"), "{key}");
    }
}

fn stream(tag: u64) -> StreamId {
    StreamId { session: "0123456789abcdef0123456789abcdef".into(), tag }
}

fn append(tag: u64, event: &str) -> StoreAction {
    StoreAction::Append {
        key: KEY,
        stream: stream(tag),
        first: None,
        events: vec![Bytes::copy_from_slice(event.as_bytes())],
        label: Bytes::new(),
        is_last: false,
        keep: 1 << 20,
        expires_in: EXPIRES_IN,
    }
}

fn save(session: &str, expected: u64, bytes: &str) -> StoreAction {
    let bytes = Bytes::copy_from_slice(bytes.as_bytes());
    StoreAction::Save { key: KEY, session: session.into(), expected, bytes, expires_in: EXPIRES_IN }
}

fn load(session: &str) -> StoreAction {
    StoreAction::Load { key: KEY, session: session.into(), expires_in: EXPIRES_IN }
}

async fn until_found(store: &impl Store, instance: InstanceId) {
    tests::deadline::set();
    let until = Instant::now() + LONG;
    while store.carry_out(INSTANCE, StoreAction::Find { key: KEY, instance }).await != StoreResult::Found(true) {
        assert!(Instant::now() < until, "{instance}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The texts of the events of a stream.
async fn events(store: &impl Store, tag: u64) -> Vec<String> {
    let read = StoreAction::Read { key: KEY, stream: stream(tag), after: After::Number(0), max_bytes: usize::MAX };
    let StoreResult::Events(Some(read)) = store.carry_out(INSTANCE, read).await else { panic!("no events") };
    read.events.iter().map(|event| String::from_utf8(event.to_vec()).unwrap()).collect()
}

/// Several clients of one store add to one record at the same time. Each writes other bytes, because a record that is
/// stored already is not written again.
async fn count_together<S: Store>(stores: Vec<S>) {
    const EACH: u64 = 50;
    let all = stores.len() as u64 * EACH;
    let stores: Vec<_> = stores.into_iter().map(Arc::new).collect();
    assert_eq!(stores[0].carry_out(INSTANCE, save("counter", 0, "0 by the first")).await, StoreResult::Done);
    let counting = stores.iter().enumerate().map(|(number, store)| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for _ in 0..EACH {
                loop {
                    let StoreResult::Loaded(Some(record)) = store.carry_out(INSTANCE, load("counter")).await else {
                        panic!("no record")
                    };
                    let next = save("counter", record.version, &format!("{} by {number}", counted(&record) + 1));
                    if store.carry_out(INSTANCE, next).await == StoreResult::Done {
                        break;
                    }
                }
            }
        })
    });
    for counted in counting.collect::<Vec<_>>() {
        counted.await.unwrap();
    }
    let StoreResult::Loaded(Some(record)) = stores[0].carry_out(INSTANCE, load("counter")).await else { panic!() };
    assert_eq!((record.version, counted(&record)), (all + 1, all));
}

fn counted(record: &Record) -> u64 {
    std::str::from_utf8(&record.bytes).unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_change_of_a_record_is_lost() {
    let store = InMemory::new();
    count_together(vec![store.clone(), store.clone(), store]).await;
    let Some(server) = RedisServer::start_if_installed() else { return };
    count_together((0..3).map(|_| Redis::open(&server.url()).unwrap()).collect()).await;
}

/// A thread that closes all connections of a server again and again, until this is dropped.
struct Losses {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<u32>>,
}

impl Losses {
    fn begin(server: &Arc<RedisServer>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (server, ends) = (Arc::clone(server), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let mut lost = 0;
            while !ends.load(Ordering::Relaxed) {
                let answer = server.ask("CLIENT KILL TYPE normal SKIPME yes");
                lost += answer.trim_start_matches(':').parse::<u32>().unwrap_or(0);
                thread::sleep(Duration::from_millis(3));
            }
            lost
        });
        Self { is_over, thread: Some(thread) }
    }

    /// Returns the number of closed connections.
    fn end(mut self) -> u32 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Losses {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_repeated_after_a_lost_connection_takes_effect_once() {
    let Some(server) = RedisServer::start_if_installed() else { return };
    let server = Arc::new(server);
    // On a busy machine, several attempts in a row lose their connection.
    let store = Redis::open(&server.url()).unwrap().timeout(LONG);
    let receiver = InstanceId::new(8);
    let (sender, mut messages) = mpsc::channel(10_000);
    let attending = store.clone();
    let attending = tokio::spawn(async move { attending.attend(receiver, Messages::new(sender)).await });
    until_found(&store, receiver).await;
    let losses = Losses::begin(&server);
    let numbers: Vec<_> = (0..400).map(|number: u32| number.to_string()).collect();
    for number in &numbers {
        assert_eq!(store.carry_out(INSTANCE, append(1, number)).await, StoreResult::Done);
        let send = StoreAction::Send { to: Some(receiver), message: number.clone().into() };
        store.carry_out(INSTANCE, send).await;
    }
    let lost = losses.end();
    assert!(lost > 20, "{lost} connections were lost");
    assert_eq!(events(&store, 1).await, numbers);
    for number in &numbers {
        let message = timeout(LONG, messages.recv()).await.expect(number).unwrap();
        assert_eq!(message, number.as_bytes());
    }
    attending.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_a_failure_in_bounded_time() {
    let Some(mut server) = RedisServer::start_if_installed() else { return };
    let limit = Duration::from_millis(500);
    let store = Redis::open(&server.url()).unwrap().timeout(limit);
    assert_eq!(store.carry_out(INSTANCE, save("kept", 0, "a")).await, StoreResult::Done);
    assert_eq!(store.carry_out(INSTANCE, append(1, "a")).await, StoreResult::Done);
    for is_hanging in [true, false] {
        if is_hanging {
            server.signal("-STOP");
        } else {
            server.kill();
        }
        let began = Instant::now();
        let asked = (0..20).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.carry_out(INSTANCE, load("kept")).await })
        });
        for asked in asked.collect::<Vec<_>>() {
            assert_eq!(asked.await.unwrap(), StoreResult::Failed);
        }
        assert!(began.elapsed() < limit * 3, "{:?}", began.elapsed());
        if is_hanging {
            server.signal("-CONT");
        } else {
            server.start_again();
        }
        let mut loaded = StoreResult::Failed;
        let until = Instant::now() + LONG;
        while loaded == StoreResult::Failed && Instant::now() < until {
            loaded = store.carry_out(INSTANCE, load("kept")).await;
        }
        let StoreResult::Loaded(Some(record)) = loaded else { panic!("{loaded:?}") };
        assert_eq!((record.version, &record.bytes[..]), (1, &b"a"[..]));
        assert_eq!(events(&store, 1).await, ["a"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_repeated_over_another_connection_if_the_first_falls_silent() {
    let Some(server) = RedisServer::start_if_installed() else { return };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let store = Redis::open(&format!("redis://{}/", listener.local_addr().unwrap())).unwrap();
    let address = server.url().trim_start_matches("redis://").trim_end_matches('/').to_owned();
    let (falls_silent, silent) = tokio::sync::oneshot::channel::<()>();
    let between = tokio::spawn(async move {
        let mut silent = Some(silent);
        loop {
            let (mut ours, _) = listener.accept().await.unwrap();
            let (address, silent) = (address.clone(), silent.take());
            tokio::spawn(async move {
                let mut theirs = tokio::net::TcpStream::connect(address).await.unwrap();
                let passing = tokio::io::copy_bidirectional(&mut ours, &mut theirs);
                match silent {
                    Some(silent) => {
                        tokio::select! { _ = passing => return, _ = silent => {} }
                        std::future::pending::<()>().await;
                    }
                    None => drop(passing.await),
                }
            });
        }
    });
    assert_eq!(store.carry_out(INSTANCE, save("kept", 0, "a")).await, StoreResult::Done);
    falls_silent.send(()).unwrap();
    assert_eq!(store.carry_out(INSTANCE, save("kept", 1, "b")).await, StoreResult::Done);
    between.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_found_and_receives_messages_after_the_server_has_lost_its_data() {
    let Some(server) = RedisServer::start_if_installed() else { return };
    let (store, receiver) = (Redis::open(&server.url()).unwrap(), InstanceId::new(8));
    let (sender, mut messages) = mpsc::channel(10);
    let attending = store.clone();
    let attending = tokio::spawn(async move { attending.attend(receiver, Messages::new(sender)).await });
    let find = || StoreAction::Find { key: KEY, instance: receiver };
    until_found(&store, receiver).await;
    // Another server has taken its place, whose clock is behind.
    let key = format!("mcp:i:{receiver}");
    assert_eq!(server.ask(&format!("XADD {key} 99999999999999-0 m early")).chars().next(), Some('$'));
    assert_eq!(timeout(LONG, messages.recv()).await.unwrap().unwrap(), "early");
    assert_eq!(server.ask("FLUSHALL"), "+OK");
    assert_eq!(store.carry_out(INSTANCE, find()).await, StoreResult::Found(false));
    // What an instance stores makes it known at once, and otherwise it registers again.
    assert_eq!(store.carry_out(receiver, save("s", 0, "a")).await, StoreResult::Done);
    assert_eq!(store.carry_out(INSTANCE, find()).await, StoreResult::Found(true));
    let message = async {
        loop {
            let send = StoreAction::Send { to: Some(receiver), message: "late".into() };
            store.carry_out(INSTANCE, send).await;
            if let Ok(message) = timeout(Duration::from_millis(200), messages.recv()).await {
                return message;
            }
        }
    };
    assert_eq!(timeout(LONG, message).await.unwrap().unwrap(), "late");
    assert_eq!(server.ask("FLUSHALL"), "+OK");
    until_found(&store, receiver).await;
    attending.abort();
}

#[tokio::test]
async fn no_secret_is_shown() {
    let Some(server) = RedisServer::start_if_installed() else { return };
    let url = server.url().replace("redis://", "redis://ada:secret-word@");
    let store = Redis::open(&url).unwrap();
    assert_eq!(store.carry_out(INSTANCE, load("0123")).await, StoreResult::Failed, "there is no such user");
    let error = Redis::open("redis://ada:secret-word@host:port").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    let shown = format!("{store:?} {error} {error:?}");
    assert!(!shown.contains("secret-word") && !shown.contains("ada"), "{shown}");
}
