//! Clients that sign in, with a server on loopback that demands tokens, and its authorization server.

#![cfg(feature = "http-client")]

use std::collections::{BTreeMap, HashSet};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;
use std::{fs, io};

use mcp_auth::{Cause, ClientIdentity, Config as SignInConfig, Event, Grant, Lock};
use mcp_intermediary::relay::Config;
use mcp_proto::client::HttpConfig;
use mcp_proto::{Failed, Json};
use mcp_testkit::authorization::{ProtectedServer, browse, exchange};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::http1::HttpMessage;
use mcp_testkit::messages;
use mcp_tokio::sign_in::{Authorization, FileStore, MemoryStore, Store};
use mcp_tokio::{Builder, Client, Error, HttpOptions, HttpServer, Proxy};
use tests::given_up_locks::{SignIn, a_lock_that_is_no_longer_wanted_is_not_taken};
use tests::provider_quirks::{self, OpenUrl};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex, split};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// More than any of these tests waits for.
const LONG: Duration = Duration::from_secs(20);

fn builder(server: &ProtectedServer) -> Builder<HttpServer> {
    tests::deadline::set();
    Client::builder().versions(legacy_versions()).http(&server.url()).unwrap()
}

/// A person who signs in at once.
fn authorization(server: &ProtectedServer, store: impl Store) -> Authorization {
    tests::deadline::set();
    let signed_in = |url: &str| assert_eq!(browse(url).status(), 200);
    Authorization::new(&server.url(), "my-app").unwrap().store(store).open_url(signed_in)
}

async fn connect(server: &ProtectedServer, store: impl Store) -> Client {
    timeout(LONG, builder(server).authorization(authorization(server, store)).connect()).await.unwrap().unwrap()
}

/// A person who is away: the URL is passed to the test.
fn away(server: &ProtectedServer, store: impl Store) -> (Authorization, mpsc::UnboundedReceiver<String>) {
    tests::deadline::set();
    let (show, shown) = mpsc::unbounded_channel();
    let show = move |url: &str| show.send(url.to_owned()).unwrap();
    (Authorization::new(&server.url(), "my-app").unwrap().store(store).open_url(show), shown)
}

async fn echo(client: &Client) {
    let params = Json::parse(r#"{"name":"echo"}"#).unwrap();
    assert_eq!(client.request("tools/call", Some(params.clone())).await.unwrap(), params);
}

async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, waiting).await.unwrap();
}

/// The counts of sign-ins and of requests for tokens.
fn counts(server: &ProtectedServer) -> (usize, usize) {
    server.issuer(|issuer| (issuer.authorizations.len(), issuer.token_requests.len()))
}

/// The `Authorization` headers of the requests to the MCP server.
fn tokens(server: &ProtectedServer) -> Vec<String> {
    let asked = |request: &HttpMessage| request.line.starts_with("POST /mcp ");
    server.requests().iter().filter(|request| asked(request)).map(|r| r.header("authorization").to_owned()).collect()
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_client_signs_in_when_it_is_challenged_and_later_ones_use_its_tokens() {
    let (server, store) = (ProtectedServer::start(), MemoryStore::new());
    let client = connect(&server, store.clone()).await;
    echo(&client).await;
    assert_eq!(counts(&server), (1, 1));
    let sent = tokens(&server);
    assert!(sent[0].is_empty() && sent[1..].iter().all(|token| token == "Bearer access-1"), "{sent:?}");
    client.close().await;

    let client = connect(&server, store).await;
    echo(&client).await;
    assert_eq!(counts(&server), (1, 1));
    assert_eq!(tokens(&server)[sent.len()], "Bearer access-1", "the first request carries the stored token");
    server.check();
}

#[tokio::test]
async fn au15_oa_t_05_requests_that_are_refused_together_wait_for_one_refresh() {
    let server = ProtectedServer::start();
    let client = connect(&server, MemoryStore::new()).await;
    server.refuse_tokens();
    let calls = (0..8).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { echo(&client).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!(counts(&server), (1, 2));
    server.check();
}

#[tokio::test]
async fn au23_oa_g_03_clients_with_one_store_open_one_browser() {
    let (server, directory) = (ProtectedServer::start(), Directory::new("one-browser"));
    let clients = (0..4).map(|_| {
        let server = server.clone();
        let store = FileStore::new(&directory.0);
        tokio::spawn(async move {
            echo(&connect(&server, store).await).await;
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    assert_eq!(counts(&server), (1, 1));
    server.check();
}

#[tokio::test]
async fn au24_oa_n_01_headers_of_the_configuration_are_sent_to_the_server_only() {
    let server = ProtectedServer::start();
    let own = [(http::HeaderName::from_static("x-own"), http::HeaderValue::from_static("marked-secret"))];
    let own = reqwest::Client::builder().no_proxy().default_headers(own.into_iter().collect());
    let builder = builder(&server).header("x-key", "marked-secret").unwrap();
    let builder = builder.http_options(HttpOptions::new().client(own));
    let client = builder.authorization(authorization(&server, MemoryStore::new())).connect().await.unwrap();
    echo(&client).await;
    for request in server.requests() {
        let is_own = request.line.contains(" /mcp ");
        for name in ["x-key", "x-own"] {
            assert_eq!(request.header(name) == "marked-secret", is_own, "{name} in {request:?}");
        }
    }
    server.check();
}

#[tokio::test]
async fn au13_oa_b_01_only_the_redirect_of_the_sign_in_ends_it_and_the_port_is_closed_then() {
    let server = ProtectedServer::start();
    let (authorization, mut shown) = away(&server, MemoryStore::new());
    let connecting = tokio::spawn(builder(&server).authorization(authorization).connect());
    let url = shown.recv().await.unwrap();
    let authority = spawn_blocking(move || {
        let redirect = form_of(&url)["redirect_uri"].clone();
        let authority = redirect.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        let ask = |line: &str, host: &str| {
            exchange(&authority, &format!("{line} HTTP/1.1\r\nhost: {host}\r\n\r\n")).unwrap().status()
        };
        assert_eq!(ask("GET /favicon.ico", &authority), 404);
        assert_eq!(ask("GET /callback?code=c&state=s", "evil.example"), 404);
        assert_eq!(ask("POST /callback?code=c&state=s", &authority), 404);
        assert_eq!(ask("GET /callback?code=c&state=s", &authority), 400);
        let page = browse(&url);
        assert_eq!((page.status(), page.header("cache-control")), (200, "no-store"));
        authority
    });
    let authority = authority.await.unwrap();
    echo(&timeout(LONG, connecting).await.unwrap().unwrap().unwrap()).await;
    assert!(TcpStream::connect(&authority).is_err(), "nothing listens any more");
    server.check();
}

/// The parameters in the query of a URL.
fn form_of(url: &str) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(url).unwrap();
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

#[tokio::test]
async fn au23_a_sign_in_that_no_person_finishes_ends_in_time_and_its_reason_reaches_the_caller() {
    let server = ProtectedServer::start();
    let (authorization, _shown) = away(&server, MemoryStore::new());
    let authorization = authorization.configure(|config| config.user_timeout = Duration::from_millis(300));
    let error = timeout(LONG, builder(&server).authorization(authorization).connect()).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Failed { reason: Failed::NotAuthorized { .. }, .. }), "{error:?}");
    assert!(error.to_string().contains("no sign-in was completed"), "{error}");
}

#[tokio::test]
async fn a_client_that_is_given_up_while_a_person_signs_in_releases_the_locks_and_the_port() {
    let (server, store) = (ProtectedServer::start(), MemoryStore::new());
    let (authorization, mut shown) = away(&server, store.clone());
    let connecting = tokio::spawn(builder(&server).authorization(authorization).connect());
    let redirect = form_of(&shown.recv().await.unwrap())["redirect_uri"].clone();
    connecting.abort();
    echo(&connect(&server, store).await).await;
    let authority = redirect.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    assert!(TcpStream::connect(&authority).is_err(), "nothing listens any more");
    server.check();
}

#[tokio::test]
async fn au6_a_silent_authorization_server_delays_neither_timeouts_nor_the_end_of_the_client() {
    let server = ProtectedServer::start();
    let client = connect(&server, MemoryStore::new()).await;
    server.refuse_tokens();
    server.delay_tokens(None);
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.request("ping", None).await });
    until(|| counts(&server).1 == 2).await;
    timeout(LONG / 2, client.close()).await.expect("it is closed although a token is requested");
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Failed { reason: Failed::Closed, .. }), "{error:?}");
}

#[tokio::test]
async fn oa_f_03_tokens_that_arrive_after_the_client_was_closed_are_stored() {
    let (server, store) = (ProtectedServer::start(), SlowStore::default());
    let client = connect(&server, store.clone()).await;
    server.refuse_tokens();
    server.delay_tokens(Some(Duration::from_millis(300)));
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.request("ping", None).await });
    until(|| counts(&server).1 == 2).await;
    client.close().await;
    waiting.await.unwrap().unwrap_err();
    until(|| !store.is_locked(Lock::Record)).await;
    echo(&connect(&server, store).await).await;
    assert_eq!(counts(&server), (1, 2), "no person has to sign in again");
    server.check();
}

/// A store whose functions block the thread for some time.
#[derive(Clone, Default)]
struct SlowStore {
    inner: MemoryStore,
    locked: Arc<Mutex<Vec<Lock>>>,
    /// The threads that have called it.
    threads: Arc<Mutex<HashSet<ThreadId>>>,
}

impl SlowStore {
    fn is_locked(&self, lock: Lock) -> bool {
        self.locked.lock().unwrap().contains(&lock)
    }

    fn wait(&self) {
        self.threads.lock().unwrap().insert(thread::current().id());
        thread::sleep(Duration::from_millis(50));
    }
}

impl Store for SlowStore {
    fn load(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.wait();
        self.inner.load(key)
    }

    fn store(&mut self, key: &str, record: &[u8]) -> io::Result<()> {
        self.wait();
        self.inner.store(key, record)
    }

    fn erase(&mut self, key: &str) -> io::Result<()> {
        self.wait();
        self.inner.erase(key)
    }

    fn try_lock(&mut self, key: &str, lock: Lock) -> io::Result<bool> {
        self.wait();
        let is_taken = self.inner.try_lock(key, lock)?;
        if is_taken {
            self.locked.lock().unwrap().push(lock);
        }
        Ok(is_taken)
    }

    fn unlock(&mut self, key: &str, lock: Lock) {
        self.wait();
        self.locked.lock().unwrap().retain(|own| *own != lock);
        self.inner.unlock(key, lock);
    }
}

/// All tasks run on the thread of the test.
#[tokio::test(flavor = "current_thread")]
async fn a_slow_store_does_not_block_the_runtime() {
    let (server, store) = (ProtectedServer::start(), SlowStore::default());
    echo(&connect(&server, store.clone()).await).await;
    let threads = store.threads.lock().unwrap();
    assert!(!threads.is_empty() && !threads.contains(&thread::current().id()));
}

/// A store none of whose functions work.
struct BrokenStore {
    panics: bool,
}

impl BrokenStore {
    fn fail<R>(&self) -> io::Result<R> {
        if self.panics { panic!("the store is broken") } else { Err(io::ErrorKind::Unsupported.into()) }
    }
}

impl Store for BrokenStore {
    fn load(&mut self, _: &str) -> io::Result<Option<Vec<u8>>> {
        self.fail()
    }

    fn store(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
        self.fail()
    }

    fn erase(&mut self, _: &str) -> io::Result<()> {
        self.fail()
    }

    fn try_lock(&mut self, _: &str, _: Lock) -> io::Result<bool> {
        self.fail()
    }

    fn unlock(&mut self, _: &str, _: Lock) {
        let _ = self.fail::<()>();
    }
}

#[tokio::test]
async fn without_a_store_that_works_tokens_are_used_until_the_client_ends() {
    for panics in [false, true] {
        let server = ProtectedServer::start();
        echo(&connect(&server, BrokenStore { panics }).await).await;
        assert_eq!(counts(&server), (1, 1));
        server.check();
    }
}

#[tokio::test]
async fn no_person_is_asked_with_a_header_of_the_application_or_with_metadata_of_another_issuer() {
    let server = ProtectedServer::start();
    let own = builder(&server).bearer("own").unwrap().authorization(authorization(&server, MemoryStore::new()));
    let error = own.connect().await.unwrap_err();
    assert!(error.to_string().contains("401"), "{error}");
    assert_eq!(counts(&server), (0, 0), "OA-T-06");

    server.issuer(|issuer| issuer.metadata["issuer"] = "http://127.0.0.1:1/other".into());
    let error = builder(&server).authorization(authorization(&server, MemoryStore::new())).connect().await.unwrap_err();
    assert!(error.to_string().contains("issuer"), "{error}");
    assert_eq!(counts(&server), (0, 0), "OA-A-03");
}

#[tokio::test]
async fn oa_b_04_a_person_may_paste_the_redirect() {
    let server = ProtectedServer::start();
    let (authorization, mut shown) = away(&server, MemoryStore::new());
    let redirects = authorization.redirects();
    let connecting = tokio::spawn(builder(&server).authorization(authorization).connect());
    let url = shown.recv().await.unwrap();
    let (origin, path) = url.split_once("/authorize").unwrap();
    let authority = origin.strip_prefix("http://").unwrap();
    let asked = format!("GET /authorize{path} HTTP/1.1\r\nhost: {authority}\r\n\r\n");
    let redirect = exchange(authority, &asked).unwrap().header("location").to_owned();
    assert!(!redirects.pass("https://evil.example/?code=c&state=s").await);
    assert!(redirects.pass(&redirect).await);
    assert!(!redirects.pass(&redirect).await, "it is used once");
    let client = timeout(LONG, connecting).await.unwrap().unwrap().unwrap();
    echo(&client).await;
    client.close().await;
    drop(client);
    timeout(LONG, async { while redirects.pass(&redirect).await {} }).await.unwrap();
    server.check();
}

#[tokio::test]
async fn a_sign_in_without_a_client_reports_its_events_and_stores_and_erases_the_tokens() {
    let (server, store) = (ProtectedServer::start(), MemoryStore::new());
    let (report, mut events) = mpsc::unbounded_channel();
    let report = move |event| {
        let _ = report.send(event);
    };
    let authorization = authorization(&server, store.clone());
    let key = authorization.config().store_key();
    let sign_in = authorization.start(HttpOptions::new(), report).unwrap();
    sign_in.begin(Cause::Requested);
    let authorized = async { while !matches!(events.recv().await, Some(Event::Authorized(_))) {} };
    timeout(LONG, authorized).await.unwrap();
    assert!(store.clone().load(&key).unwrap().is_some());
    sign_in.begin(Cause::SignOut);
    let signed_out = async { while !matches!(events.recv().await, Some(Event::SignedOut { .. })) {} };
    timeout(LONG, signed_out).await.unwrap();
    assert_eq!(store.clone().load(&key).unwrap(), None);
    drop(sign_in);
    timeout(LONG, async { while events.recv().await.is_some() {} }).await.expect("the task ends");
    server.check();
}

#[tokio::test]
async fn a_lock_that_is_no_longer_wanted_is_neither_kept_nor_released_for_another_process() {
    let running = spawn_blocking(|| {
        a_lock_that_is_no_longer_wanted_is_not_taken(&|url, store, change, events| {
            let authorization = Authorization::new(url, "my-app").unwrap().store(store).open_url(|_| {});
            let report = move |event| drop(events.send(event));
            let sign_in = authorization.configure(change).start(HttpOptions::new(), report).unwrap();
            Box::new(move |cause| sign_in.begin(cause))
        });
    });
    running.await.unwrap();
}

fn start(
    url: &str,
    store: MemoryStore,
    change: &dyn Fn(&mut SignInConfig),
    mut open: OpenUrl,
    events: Sender<Event>,
) -> SignIn {
    tests::deadline::set();
    let authorization = Authorization::new(url, "my-app").unwrap().store(store).open_url(move |url| open(url));
    let report = move |event| drop(events.send(event));
    let sign_in = authorization.configure(change).start(HttpOptions::new(), report).unwrap();
    Box::new(move |cause| sign_in.begin(cause))
}

#[tokio::test]
async fn each_quirk_of_a_provider_is_accepted_or_named() {
    spawn_blocking(|| provider_quirks::play(&start)).await.unwrap();
}

#[tokio::test]
async fn oa_r_06_a_client_that_the_authorization_server_has_forgotten_is_registered_again() {
    spawn_blocking(|| provider_quirks::a_forgotten_client_is_registered_again(&start)).await.unwrap();
}

#[tokio::test]
async fn oa_s_03_a_token_that_is_refused_for_a_scope_that_it_has_is_refreshed_once() {
    let played = spawn_blocking(|| {
        provider_quirks::a_token_that_is_refused_for_a_scope_that_it_has_is_refreshed_once(&start);
    });
    played.await.unwrap();
}

#[test]
fn outside_of_a_runtime_no_sign_in_can_be_started() {
    let authorization = Authorization::new("http://127.0.0.1:1/mcp", "my-app").unwrap();
    let outcome = authorization.start(HttpOptions::new(), |_| {});
    assert!(matches!(outcome, Err(Error::SetUp(_))), "{outcome:?}");
}

/// A program that issues assertions.
type Issue = fn() -> io::Result<String>;

#[tokio::test]
async fn oa_x_05_the_token_of_another_program_is_exchanged_and_its_failure_is_reported() {
    let obtained: [(Issue, bool); 3] = [
        (|| Ok("assertion".to_owned()), true),
        (|| Err(io::ErrorKind::NotFound.into()), false),
        (|| panic!("the program is broken"), false),
    ];
    for (obtain, works) in obtained {
        let server = ProtectedServer::start();
        server.issuer(|issuer| issuer.assertions.insert("assertion".to_owned()));
        let authorization = authorization(&server, MemoryStore::new()).obtain_token(obtain).configure(|config| {
            config.grant = Grant::WorkloadIdentity;
            config.registered = Some(ClientIdentity::new("job"));
        });
        let connected = timeout(LONG, builder(&server).authorization(authorization).connect()).await.unwrap();
        match connected {
            Ok(client) => {
                assert!(works);
                echo(&client).await;
            }
            Err(error) => assert!(!works && matches!(error, Error::Failed { .. }), "{error}"),
        }
        assert_eq!(counts(&server), (0, usize::from(works)));
        server.check();
    }
}

#[tokio::test]
async fn a_proxy_signs_in_for_its_client_and_sends_its_first_message_with_the_stored_token() {
    let (server, store) = (ProtectedServer::start(), MemoryStore::new());
    for number in 0..2 {
        let http = HttpConfig::new(&server.url()).unwrap();
        let proxy = Proxy::http(http, HttpOptions::new(), Config::default()).unwrap();
        let proxy = proxy.authorization(authorization(&server, store.clone()));
        let (ours, theirs) = duplex(64 * 1024);
        let (read, write) = split(theirs);
        let running = tokio::spawn(proxy.run(read, write, ()));
        let (read, mut write) = split(ours);
        let mut lines = BufReader::new(read).lines();
        let asked = tokens(&server).len();
        for (message, expected) in [
            (messages::initialize("1", "2025-11-25"), "protocolVersion"),
            (messages::INITIALIZED.to_owned(), ""),
            (messages::request("2", "tools/call", r#"{"name":"echo"}"#), r#""name":"echo""#),
        ] {
            write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            if !expected.is_empty() {
                let line = timeout(LONG, lines.next_line()).await.unwrap().unwrap().unwrap();
                assert!(line.contains(expected), "{line}");
            }
        }
        assert_eq!(tokens(&server)[asked], if number == 0 { "" } else { "Bearer access-1" });
        write.shutdown().await.unwrap();
        drop(write);
        timeout(LONG, running).await.unwrap().unwrap().unwrap();
    }
    assert_eq!(counts(&server), (1, 1));
    server.check();
}

#[tokio::test]
async fn a_proxy_whose_client_leaves_during_a_sign_in_ends() {
    let server = ProtectedServer::start();
    let (authorization, mut shown) = away(&server, MemoryStore::new());
    let http = HttpConfig::new(&server.url()).unwrap();
    let proxy = Proxy::http(http, HttpOptions::new(), Config::default()).unwrap().authorization(authorization);
    let (ours, theirs) = duplex(64 * 1024);
    let (read, write) = split(theirs);
    let running = tokio::spawn(proxy.run(read, write, ()));
    let (_read, mut write) = split(ours);
    write.write_all(format!("{}\n", messages::initialize("1", "2025-11-25")).as_bytes()).await.unwrap();
    let redirect = form_of(&shown.recv().await.unwrap())["redirect_uri"].clone();
    write.shutdown().await.unwrap();
    timeout(LONG, running).await.unwrap().unwrap().unwrap();
    let authority = redirect.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    until(|| TcpStream::connect(&authority).is_err()).await;
}

#[test]
fn au22_the_debug_form_of_a_sign_in_has_no_secret() {
    let url = "http://127.0.0.1:1/mcp?key=marked-secret";
    let store = MemoryStore::new();
    store.clone().store("5a", b"marked-secret").unwrap();
    let authorization = Authorization::new(url, "my-app").unwrap().store(store.clone());
    let builder = Client::builder().http(url).unwrap().authorization(authorization);
    let form = format!("{builder:#?} {store:?}");
    assert!(form.contains("Authorization") && !form.contains("marked-secret"), "{form}");
}
