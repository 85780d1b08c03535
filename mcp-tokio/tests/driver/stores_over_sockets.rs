//! Servers over sockets that share a store: what begins at one of them continues at another.

#![cfg(all(feature = "http-server", feature = "redis"))]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{Config, HttpConfig, SessionMode, StoredSessions};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::store::{StoreAction, StoreKey, StoreResult};
use mcp_proto::{ErrorObject, InstanceId, Json, Notification, UsageError};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::request;
use mcp_testkit::raw_client::RawClient;
use mcp_testkit::waiting::LONG;
use mcp_tokio::store::{InMemory, Redis, Store, random_instance};
use mcp_tokio::{HttpService, Incoming, Server, ServerPublisher};
use tests::redis_server::RedisServer;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

const CAPABILITIES: &str = r#"{"logging":{},"tools":{"listChanged":true}}"#;
/// How long a store may take in these tests.
const STORE_TIME: Duration = Duration::from_secs(1);

/// A server with a runtime of its own.
struct Instance {
    id: InstanceId,
    client: RawClient,
    service: HttpService,
    publisher: ServerPublisher,
    runtime: Option<Runtime>,
}

/// Servers with one store, and what lets their handlers answer.
struct Instances {
    all: Vec<Instance>,
    may_answer: Arc<Semaphore>,
}

fn http(instance: InstanceId) -> HttpConfig {
    let mut http = HttpConfig::new();
    let mut stored = StoredSessions::new(instance);
    stored.timeout = STORE_TIME * 2;
    http.sessions = SessionMode::Stored(stored);
    http
}

async fn serve(incoming: Incoming, may_answer: Arc<Semaphore>) -> Result<Json, ErrorObject> {
    tests::deadline::set();
    match incoming.method().as_str() {
        "ask" => match incoming.ask(Call::new("elicitation/create")).await {
            Ok(Outcome::Result(answer)) => Ok(answer),
            outcome => panic!("{outcome:?}"),
        },
        "count" => {
            for number in 0..3_u64 {
                incoming.log(LoggingLevel::Error, None, Json::from(number.to_string().as_str())).await.unwrap();
            }
            may_answer.acquire().await.unwrap().forget();
            incoming.log(LoggingLevel::Error, None, Json::from("rest")).await.unwrap();
            Ok(Json::from("counted"))
        }
        "tools/list" => Ok(Json::parse(r#"{"tools":[]}"#).unwrap()),
        _ => Err(ErrorObject::method_not_found(incoming.method())),
    }
}

impl Instances {
    fn start(count: usize, store: &(impl Store + Clone)) -> Self {
        let may_answer = Arc::new(Semaphore::new(0));
        let all = (0..count).map(|_| Instance::start(store.clone(), Arc::clone(&may_answer))).collect();
        let instances = Self { all, may_answer };
        // The store gets to know an instance soon after its start, and passes on no message to it before.
        for at in 0..count {
            let mut tries = 0..1000;
            while instances.find(at, store) == StoreResult::Found(false) && tries.next().is_some() {
                thread::sleep(Duration::from_millis(10));
            }
        }
        instances
    }

    /// Whether the store knows an instance as one that runs.
    fn find(&self, at: usize, store: &impl Store) -> StoreResult {
        let (asked, by) = (&self.all[at], self.all.get(1).unwrap_or(&self.all[0]));
        let find = StoreAction::Find { key: StoreKey::new(1), instance: asked.id };
        by.block_on(store.carry_out(by.id, find))
    }

    fn at(&self, at: usize) -> &RawClient {
        &self.all[at].client
    }

    /// Opens a session at one instance and confirms it at another.
    fn session(&self, at: usize, confirmed_at: usize) -> String {
        let opened = self.at(at).answer(&TestRequest::post(
            initialize("2025-11-25").replace(r#""capabilities":{}"#, r#""capabilities":{"elicitation":{}}"#),
        ));
        assert_eq!(opened.code(), 200, "{}", opened.text());
        let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let confirm = TestRequest::post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).in_session(&id);
        assert_eq!(self.at(confirmed_at).answer(&confirm).code(), 202);
        id
    }
}

impl Instance {
    fn start(store: impl Store, may_answer: Arc<Semaphore>) -> Self {
        let id = random_instance().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (listener, service, publisher) = runtime.block_on(async {
            let config = Config::new("test", "1").capabilities(Json::parse(CAPABILITIES).unwrap());
            let server = Server::new(config, move |incoming| serve(incoming, Arc::clone(&may_answer))).store(store);
            let (service, publisher) = (server.http(http(id)).unwrap(), server.publisher());
            (TcpListener::bind("127.0.0.1:0").await.unwrap(), service, publisher)
        });
        let client = RawClient::new(&listener.local_addr().unwrap().to_string());
        let serving = service.clone();
        runtime.spawn(async move { serving.serve(listener).await });
        Self { id, client, service, publisher, runtime: Some(runtime) }
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(future)
    }

    /// Ends the instance as a crash of its process would.
    fn crash(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.crash();
    }
}

fn call(session: &str, method: &str) -> TestRequest {
    TestRequest::post(request("7", method, "{}")).in_session(session)
}

fn ping(session: &str) -> TestRequest {
    TestRequest::post(request("1", "ping", "{}")).in_session(session)
}

fn resume(session: &str, after: &str) -> TestRequest {
    TestRequest::get().in_session(session).with("last-event-id", after)
}

/// Runs a scenario for each engine.
macro_rules! for_each_store {
    ($($scenario:ident)*) => {
        mod in_memory {
            use super::*;
            $(
                #[test]
                fn $scenario() {
                    super::$scenario(&InMemory::new());
                }
            )*
        }
        mod redis {
            use super::*;
            $(
                #[test]
                fn $scenario() {
                    let Some(server) = RedisServer::start_if_installed() else { return };
                    super::$scenario(&Redis::open(&server.url()).unwrap());
                }
            )*
        }
    };
}

for_each_store! {
    a_session_is_served_at_any_instance
    the_answer_to_a_request_of_the_server_may_be_posted_to_another_instance
    a_stream_is_resumed_at_another_instance
    a_change_reaches_a_client_at_another_instance
    a_stream_of_an_instance_that_has_crashed_ends_with_an_error
    an_instance_that_is_shut_down_ends_the_sessions_of_no_other
}

fn a_session_is_served_at_any_instance(store: &(impl Store + Clone)) {
    let instances = Instances::start(3, store);
    let session = instances.session(0, 1);
    for at in 0..3 {
        let answer = instances.at(at).answer(&call(&session, "tools/list"));
        assert_eq!(answer.text(), r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}"#);
    }
    assert_eq!(instances.at(2).answer(&TestRequest::new("DELETE", "").in_session(&session)).code(), 204);
    for at in 0..3 {
        assert_eq!(instances.at(at).answer(&ping(&session)).code(), 404);
    }
}

fn the_answer_to_a_request_of_the_server_may_be_posted_to_another_instance(store: &(impl Store + Clone)) {
    let instances = Instances::start(2, store);
    let session = instances.session(0, 1);
    let mut asking = instances.at(0).open(&call(&session, "ask"));
    let asked = Json::parse(asking.events(1).remove(0)).unwrap();
    assert_eq!(asked.first_member("method").unwrap().to_text(), r#""elicitation/create""#);
    let id = asked.first_member("id").unwrap();
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"decline"}}}}"#, id.to_text());
    assert_eq!(instances.at(1).answer(&TestRequest::post(answer).in_session(&session)).code(), 202);
    let events = asking.until(|sent| sent.is_over).data();
    assert_eq!(events[1], r#"{"jsonrpc":"2.0","id":7,"result":{"action":"decline"}}"#);
}

fn a_stream_is_resumed_at_another_instance(store: &(impl Store + Clone)) {
    let instances = Instances::start(3, store);
    let session = instances.session(0, 1);
    let mut counting = instances.at(0).open(&call(&session, "count"));
    let sent = counting.until(|sent| sent.data().len() == 3);
    drop(counting);
    // After the first of them, at an instance where nothing has happened in this session.
    let mut resumed = instances.at(2).open(&resume(&session, &sent.ids()[1]));
    assert_eq!(resumed.events(2), sent.data()[1..]);
    let mut again = instances.at(1).open(&resume(&session, &sent.ids()[3]));
    instances.may_answer.add_permits(1);
    let rest = again.until(|sent| sent.is_over).data();
    assert_eq!(rest.len(), 2);
    assert!(rest[0].contains(r#""data":"rest""#), "{rest:?}");
    assert_eq!(rest[1], r#"{"jsonrpc":"2.0","id":7,"result":"counted"}"#);
}

fn a_change_reaches_a_client_at_another_instance(store: &(impl Store + Clone)) {
    let instances = Instances::start(2, store);
    let session = instances.session(0, 0);
    let mut stream = instances.at(1).open(&TestRequest::get().in_session(&session));
    stream.until(|sent| sent.code() == 200);
    // From the record of the session, this instance learns that another one has the stream.
    assert_eq!(instances.at(0).answer(&ping(&session)).code(), 200);
    let change = Notification::new("notifications/tools/list_changed");
    instances.all[0].block_on(instances.all[0].publisher.publish(change)).unwrap();
    assert_eq!(stream.events(1), [r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#]);
}

fn a_stream_of_an_instance_that_has_crashed_ends_with_an_error(store: &(impl Store + Clone)) {
    let mut instances = Instances::start(2, store);
    let session = instances.session(0, 0);
    let sent = instances.at(0).open(&call(&session, "count")).until(|sent| sent.data().len() == 3);
    let mut resumed = instances.at(1).open(&resume(&session, sent.ids().last().unwrap()));
    resumed.until(|sent| sent.code() == 200);
    instances.all[0].crash();
    let rest = resumed.until(|sent| sent.is_over).data();
    assert!(rest.len() == 1 && rest[0].contains(r#""id":7,"error""#), "{rest:?}");
    assert_eq!(instances.at(1).answer(&ping(&session)).code(), 200);
}

fn an_instance_that_is_shut_down_ends_the_sessions_of_no_other(store: &(impl Store + Clone)) {
    let instances = Instances::start(3, store);
    let session = instances.session(0, 1);
    let mut counting = instances.at(0).open(&call(&session, "count"));
    let sent = counting.until(|sent| sent.data().len() == 3);
    instances.may_answer.add_permits(1);
    let stopping = &instances.all[0];
    assert_eq!(stopping.block_on(stopping.service.shutdown(LONG)), 0);
    let closing = &instances.all[2];
    closing.block_on(closing.service.close());
    // The store has all events, and knows that the instances have ended.
    for (at, is_found) in [(0, false), (1, true), (2, false)] {
        assert_eq!(instances.find(at, store), StoreResult::Found(is_found), "{at}");
    }
    let resumed = instances.at(1).answer(&resume(&session, &sent.ids()[0]));
    assert_eq!(resumed.data().len(), 5);
    assert_eq!(resumed.data()[4], r#"{"jsonrpc":"2.0","id":7,"result":"counted"}"#);
    assert_eq!(instances.at(1).answer(&ping(&session)).code(), 200);
}

#[tokio::test]
async fn a_server_with_stored_sessions_and_no_store_is_refused() {
    let server = Server::new(Config::new("s", "1"), async |_: Incoming| Ok::<_, ErrorObject>(Json::empty_object()));
    let instance = InstanceId::new(1);
    assert_eq!(server.http(http(instance)).err(), Some(UsageError::NoStore.into()));
    assert!(server.store(InMemory::new()).http(http(instance)).is_ok());
}

#[test]
fn requests_are_refused_while_redis_is_down_and_sessions_continue_afterwards() {
    let Some(mut server) = RedisServer::start_if_installed() else { return };
    let store = Redis::open(&server.url()).unwrap().timeout(STORE_TIME);
    let instances = Instances::start(2, &store);
    let session = instances.session(0, 1);
    for is_hanging in [false, true] {
        if is_hanging {
            server.signal("-STOP");
        } else {
            server.kill();
        }
        for at in 0..2 {
            for asked in [ping(&session), TestRequest::post(initialize("2025-11-25"))] {
                let began = Instant::now();
                let refused = instances.at(at).answer(&asked);
                assert_eq!(refused.code(), 503, "{}", refused.text());
                assert!(refused.headers.contains_key("retry-after"));
                assert!(began.elapsed() < STORE_TIME * 2, "{:?}", began.elapsed());
                assert!(!refused.text().contains(&session));
            }
        }
        if is_hanging {
            server.signal("-CONT");
        } else {
            server.start_again();
        }
        for at in 0..2 {
            let until = Instant::now() + LONG;
            while instances.at(at).answer(&ping(&session)).code() != 200 {
                assert!(Instant::now() < until);
                thread::sleep(Duration::from_millis(50));
            }
        }
        let answer = instances.at(1).answer(&call(&session, "tools/list"));
        assert_eq!(answer.text(), r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}"#);
    }
}
