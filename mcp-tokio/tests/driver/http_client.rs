//! The client over HTTP and real sockets: against the blocking server, and against scripted servers.

#![cfg(feature = "http-client")]

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use mcp_proto::client::{Call, HttpConfig, HttpTransport};
use mcp_proto::server::TwoEndpoints;
use mcp_proto::{ErrorObject, Failed, Json, Method, Notification, RedirectRefused};
use mcp_testkit::bad_answers::BAD_ANSWERS;
use mcp_testkit::bad_handshakes::BAD_HANDSHAKES;
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::late_answers::{LATE_ANSWERS, PATIENCE};
use mcp_testkit::loopback_server::{Duplex, LoopbackServer, echo_server, mcp_server};
use mcp_testkit::messages::{event, result};
use mcp_tokio::{Builder, Client, Error, Handler, HttpOptions, Observation, reqwest};
use tests::dripping::{BOUND, Dripping};
use tests::urls::{ACCEPTED_URLS, REFUSED_URLS};
use tokio::time::timeout;

use crate::authority::{self, Authority};
use crate::running::{Running, json};

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    tests::deadline::set();
    Client::builder().versions(legacy_versions())
}

async fn connect(url: &str) -> Client {
    legacy_client().http(url).unwrap().connect().await.unwrap()
}

fn failure(outcome: Result<Json, Error>) -> Failed {
    match outcome {
        Err(Error::Failed { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Whether a server has received a request whose body contains this text.
fn has_seen(server: &LoopbackServer, text: &str) -> bool {
    server.requests().iter().any(|request| String::from_utf8_lossy(&request.body).contains(text))
}

#[tokio::test]
async fn a_url_that_has_no_one_reading_is_refused() {
    for (url, text) in REFUSED_URLS {
        let error = legacy_client().http(url).err().unwrap_or_else(|| panic!("{url}"));
        assert!(error.to_string().contains(text), "{url:?}: {error}");
    }
    for (url, _) in ACCEPTED_URLS {
        assert!(legacy_client().http(url).is_ok(), "{url}");
    }
    let server = echo_server();
    connect(&format!("{}/münchen?q=ö", server.url())).await.close().await;
    assert!(server.requests().iter().all(|request| request.line.contains("/mcp/m%C3%BCnchen?q=%C3%B6 ")));
}

/// Waits on a separate thread, so that the runtime continues to run.
async fn eventually(server: &LoopbackServer, text: &'static str) {
    let server = server.clone();
    let seen = tokio::task::spawn_blocking(move || server.wait(|server| has_seen(server, text).then_some(())));
    assert!(seen.await.unwrap().is_some(), "no {text}");
}

#[tokio::test]
async fn a_whole_conversation() {
    struct Person(Sender<Method>);
    impl Handler for Person {
        async fn notified(&self, notification: Notification) {
            self.0.send(notification.method).unwrap();
        }

        async fn requested(&self, method: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
            assert_eq!(method.as_str(), "elicitation/create");
            Ok(json(r#"{"action":"accept"}"#))
        }
    }
    let server = Running::new();
    let (sender, received) = channel();
    let builder = legacy_client().capabilities(json(r#"{"elicitation":{}}"#)).handler(Person(sender));
    let client = builder.http(&server.url).unwrap().connect().await.unwrap();
    assert_eq!(client.version().as_str(), "2025-11-25");
    assert_eq!(client.transport(), Some(HttpTransport::StreamableHttp));
    let odd = json(r#"{"a":12345678901234567890,"b":1.0,"c":"\u00e9"}"#);
    assert_eq!(client.request("echo", Some(odd.clone())).await.unwrap(), odd, "byte for byte");
    let mut call = client.call(Call::new("count").with_progress()).await.unwrap();
    let mut steps = 0;
    while call.progress().await.is_some() {
        steps += 1;
    }
    assert_eq!((steps, call.wait().await.unwrap()), (3, json(r#"{"counted":3}"#)));
    assert_eq!(client.request("ask", None).await.unwrap(), json(r#"{"action":"accept"}"#));
    // The stream ends before the answer, and is resumed.
    assert_eq!(client.request("away", None).await.unwrap(), json(r#"{"back":true}"#));
    assert!(matches!(client.request("nothing", None).await, Err(Error::Server(error)) if error.code() == -32601));
    // Dropping the future of a call cancels the call; otherwise the server could not be stopped.
    assert!(timeout(Duration::from_millis(100), client.request("wait", None)).await.is_err());
    client.close().await;
    assert_eq!(received.recv().unwrap().as_str(), "notifications/message");
    assert!(matches!(client.request("echo", None).await, Err(Error::Usage(_))));
}

#[tokio::test]
async fn a_server_with_two_endpoints_is_found() {
    let server = Running::with(|http, _| {
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    });
    let client = connect(&format!("http://{}/sse", server.address)).await;
    assert_eq!(client.transport(), Some(HttpTransport::HttpSse));
    assert_eq!(client.request("echo", Some(json(r#"{"old":1}"#))).await.unwrap(), json(r#"{"old":1}"#));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_calls_at_one_time_each_get_their_own_answer() {
    let server = echo_server();
    let client = connect(&server.url()).await;
    let calls: Vec<_> = (0..300)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let params = json(&format!(r#"{{"number":{number}.0}}"#));
                assert_eq!(client.request("tools/call", Some(params.clone())).await.unwrap(), params);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    // Each call has one exchange, the limit applies to all of them, and connections are reused.
    assert!(server.connections() <= 64, "{}", server.connections());
    client.close().await;
    assert_eq!(server.wait_for("DELETE /mcp").header("mcp-session-id"), "the-session");
}

#[tokio::test]
async fn dropping_a_call_cancels_it_at_the_server_and_delays_no_other() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        if asked.params.contains("forever") {
            return connection.hang();
        }
        connection.json(result(&asked.id, "{}"))
    }));
    // The cancellation is sent because the server has read the request, not because the stream was given up after
    // `linger`.
    let patient = |http: &mut HttpConfig| http.linger = Duration::from_secs(3600);
    let client = legacy_client().http(&server.url()).unwrap().configure_http(patient).connect().await.unwrap();
    let call = client.call(Call::new("tools/call").params(json(r#"{"forever":1}"#))).await.unwrap();
    client.request("tools/call", None).await.unwrap();
    eventually(&server, "forever").await;
    drop(call);
    eventually(&server, "notifications/cancelled").await;
}

#[tokio::test]
async fn rp16_a_lost_session_is_opened_again_and_the_refused_call_succeeds() {
    let calls = AtomicUsize::new(0);
    let serve = mcp_server(|asked, connection| connection.json(result(&asked.id, "{}")));
    let server = LoopbackServer::start(move |request, connection| {
        let is_call = String::from_utf8_lossy(&request.body).contains("tools/call");
        if is_call && calls.fetch_add(1, Ordering::SeqCst) == 1 {
            return connection.reply("404 Not Found", &[], "");
        }
        serve(request, connection)
    });
    let client = connect(&server.url()).await;
    for _ in 0..3 {
        client.request("tools/call", None).await.unwrap();
    }
    let asked = server.asked();
    assert_eq!(asked.iter().filter(|asked| asked.method == "initialize").count(), 2);
    let ids: BTreeSet<_> = asked.iter().map(|asked| &asked.id).collect();
    assert_eq!(ids.len(), asked.len() - 1, "only what was refused has the id of another: {asked:?}");
}

/// The connection is made again without a request of the application.
#[tokio::test]
async fn rp16_opening_a_lost_session_again_is_retried() {
    let opened = AtomicUsize::new(0);
    let serve = mcp_server(|_, connection| connection.reply("404 Not Found", &[], ""));
    let server = LoopbackServer::start(move |request, connection| {
        let is_initialize = String::from_utf8_lossy(&request.body).contains(r#""method":"initialize""#);
        if is_initialize && opened.fetch_add(1, Ordering::SeqCst) == 1 {
            return connection.reply("503 Service Unavailable", &[], "");
        }
        serve(request, connection)
    });
    let client = connect(&server.url()).await;
    assert!(client.request("tools/call", None).await.is_err());
    let seen = server.clone();
    let count = |server: &LoopbackServer| server.asked().iter().filter(|asked| asked.method == "initialize").count();
    let again = move || seen.wait(|server| (count(server) >= 3).then_some(()));
    assert!(tokio::task::spawn_blocking(again).await.unwrap().is_some(), "{} times", count(&server));
}

/// All exchanges of a client end before `close` returns, because nothing may run the runtime after that.
#[test]
fn closing_ends_every_exchange() {
    let server = LoopbackServer::start(mcp_server(|_, connection| connection.hang()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let patient = |http: &mut HttpConfig| http.linger = Duration::from_secs(3600);
        let client = legacy_client().http(&server.url()).unwrap().configure_http(patient).connect().await.unwrap();
        let call = client.call(Call::new("tools/call")).await.unwrap();
        eventually(&server, "tools/call").await;
        client.close().await;
        drop(call);
    });
    assert!(server.wait(|server| (server.closed_connections() > 0).then_some(())).is_some());
}

#[tokio::test]
async fn an_http_client_that_cannot_be_set_up_is_a_readable_error() {
    let builder = legacy_client().http("http://127.0.0.1:1/mcp").unwrap();
    let error = builder
        .http_options(HttpOptions::new().client(reqwest::Client::builder().user_agent("\n")))
        .connect()
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "the HTTP client cannot be set up: failed to parse header value");
}

#[tokio::test]
async fn bad_answers_are_outcomes_at_once_and_the_next_call_succeeds() {
    for case in BAD_ANSWERS {
        let server = case.server();
        let client = connect(&server.url()).await;
        // The outcome must come at once: a later one would be a timeout.
        case.judge(client.request("tools/call", None).await);
        assert_eq!(client.request("tools/list", None).await.unwrap(), json("{}"), "{}", case.name);
    }
}

#[tokio::test]
async fn late_answers_fail_in_time_and_the_next_call_succeeds() {
    let calls = LATE_ANSWERS.iter().map(|case| {
        tokio::spawn(async {
            let server = case.server();
            let builder = legacy_client().http(&server.url()).unwrap().request_timeout(PATIENCE.0);
            let client = builder.connect().await.unwrap();
            let outcome = client.request("tools/call", None).await;
            case.judge(outcome);
            assert_eq!(client.request("tools/list", None).await.unwrap(), json("{}"), "{}", case.name);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn bad_handshakes_are_readable_errors_or_are_tolerated() {
    for case in BAD_HANDSHAKES {
        let server = (case.server)();
        let outcome = match legacy_client().http(&server.url()).unwrap().connect().await {
            Ok(client) => client.request("tools/call", None).await,
            Err(error) => Err(error),
        };
        case.judge(outcome);
    }
}

#[tokio::test]
async fn credentials_stay_on_their_origin() {
    let elsewhere = echo_server();
    let away = elsewhere.url();
    let serve = mcp_server(|asked, connection| connection.json(result(&asked.id, "{}")));
    let server = LoopbackServer::start(move |request, connection| {
        let to = match request.line.split(' ').nth(1) {
            // Only the first redirect leads to another origin.
            Some("/mcp") if String::from_utf8_lossy(&request.body).contains("away") => away.as_str(),
            Some("/mcp") if String::from_utf8_lossy(&request.body).contains("near") => "/other",
            _ => return serve(request, connection),
        };
        connection.reply("307 Temporary Redirect", &[("location", to)], "")
    });
    let builder = legacy_client().http(&server.url()).unwrap().bearer("secret").unwrap();
    let client = builder.header("X-Api-Key", "key").unwrap().connect().await.unwrap();
    let reason = failure(client.request("tools/call", Some(json(r#"{"away":1}"#))).await);
    assert!(matches!(reason, Failed::Redirected { reason: RedirectRefused::CrossOrigin, to: Some(_) }), "{reason}");
    client.request("tools/call", Some(json(r#"{"near":1}"#))).await.unwrap();
    client.close().await;
    assert!(elsewhere.requests().is_empty());
    for request in server.requests() {
        assert_eq!((request.header("authorization"), request.header("x-api-key")), ("Bearer secret", "key"));
        assert_eq!((request.header("referer"), request.header("accept-encoding")), ("", "identity"));
        assert_eq!(request.header("transfer-encoding"), "", "the length of a body is known: {request:?}");
    }

    let far = elsewhere.url();
    let server = LoopbackServer::start(move |request, connection| {
        if request.line.starts_with("POST") {
            return connection.reply("404 Not Found", &[], "");
        }
        connection.begin_events()?;
        connection.chunk(format!("event: endpoint\ndata: {far}\n\n"))?;
        connection.hang()
    });
    let builder = legacy_client().http(&server.url()).unwrap().bearer("secret").unwrap();
    let Err(Error::Failed { reason, .. }) = builder.connect().await else { panic!() };
    assert!(matches!(reason, Failed::EndpointRejected { .. }), "{reason}");
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn an_unreachable_server_is_a_readable_error() {
    for (url, text) in [
        (
            "http://127.0.0.1:1/mcp?key=secret",
            "the server at http://127.0.0.1:1/mcp cannot be reached: nothing listens there (connection refused)",
        ),
        (
            "http://no-such-host.invalid/mcp",
            "the server at http://no-such-host.invalid/mcp cannot be reached: its name cannot be looked up",
        ),
    ] {
        let direct = reqwest::Client::builder().no_proxy();
        let outcome =
            legacy_client().http(url).unwrap().http_options(HttpOptions::new().client(direct)).connect().await;
        let error = outcome.unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
    assert!(matches!(legacy_client().http("no url"), Err(Error::Usage(_))));
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let hurried = legacy_client().configure(|config| config.initialize_timeout = Duration::from_millis(100));
    let error = hurried.http(&url).unwrap().connect().await.unwrap_err().to_string();
    assert_eq!(error, format!("the server at {url} did not answer within 100ms"));
}

#[tokio::test]
async fn a_large_answer_is_read_and_one_without_end_is_not() {
    let (sent, is_closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (server_sent, server_closed) = (Arc::clone(&sent), Arc::clone(&is_closed));
    let server = LoopbackServer::start(mcp_server(move |asked, connection| {
        if asked.params.contains("large") {
            return connection.json(result(&asked.id, &format!("\"{}\"", "x".repeat(10 << 20))));
        }
        connection.raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")?;
        connection.chunk("\"")?;
        let part = "x".repeat(1 << 16);
        loop {
            if let Err(error) = connection.chunk(&part) {
                server_closed.store(1, Ordering::SeqCst);
                return Err(error);
            }
            server_sent.fetch_add(part.len(), Ordering::SeqCst);
        }
    }));
    let client = connect(&server.url()).await;
    let large = client.request("tools/call", Some(json(r#"{"large":1}"#))).await.unwrap();
    assert_eq!(large.len(), (10 << 20) + 2);
    let endless = client.request("tools/call", None).await;
    assert_eq!(failure(endless), Failed::TooLarge { limit: 16 << 20 });
    let waiting =
        tokio::task::spawn_blocking(move || server.wait(|_| (is_closed.load(Ordering::SeqCst) == 1).then_some(())));
    assert!(waiting.await.unwrap().is_some(), "the connection is closed");
    assert!(sent.load(Ordering::SeqCst) < 64 << 20, "{sent:?}");
}

#[tokio::test]
async fn nothing_more_is_read_while_the_application_is_behind() {
    const ALL: usize = 64 << 20;
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let server = LoopbackServer::start(mcp_server(move |asked, connection| {
        connection.begin_events()?;
        let notification = event(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":"{}"}}}}"#,
            "x".repeat(1 << 16)
        ));
        while counter.fetch_add(notification.len(), Ordering::SeqCst) < ALL {
            connection.chunk(&notification)?;
        }
        connection.chunk(event(&result(&asked.id, "{}")))?;
        connection.finish()
    }));
    let client = connect(&server.url()).await;
    let call = client.call(Call::new("tools/call")).await.unwrap();
    // This is the only thread of the runtime, and it is blocked here.
    let mut before = usize::MAX;
    while before != sent.load(Ordering::SeqCst) || before == 0 {
        before = sent.load(Ordering::SeqCst);
        thread::sleep(Duration::from_millis(200));
        if before == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert!(before < ALL / 2, "{before} bytes went into buffers");
    assert_eq!(call.wait().await.unwrap(), json("{}"));
}

#[tokio::test]
async fn as_many_requests_are_with_the_server_as_the_application_allows() {
    const MANY: usize = 70;
    let server = LoopbackServer::start(mcp_server(|_, connection| connection.hang()));
    let client = legacy_client().http(&server.url()).unwrap().max_requests(MANY).connect().await.unwrap();
    let mut calls = Vec::new();
    for _ in 0..=MANY {
        calls.push(client.call(Call::new("tools/call")).await.unwrap());
    }
    let count = |server: &LoopbackServer| server.asked().iter().filter(|asked| asked.method == "tools/call").count();
    let seen = server.clone();
    let all = move || seen.wait(|server| (count(server) >= MANY).then_some(()));
    assert!(tokio::task::spawn_blocking(all).await.unwrap().is_some(), "{} of {MANY}", count(&server));
    // A later exchange: by its answer, an additional call would have been sent, too.
    client.request("ping", None).await.unwrap();
    assert_eq!(count(&server), MANY);
    calls.truncate(1);
    eventually(&server, "notifications/cancelled").await;
    client.close().await;
}

#[tokio::test]
async fn a_url_with_the_wrong_scheme_is_an_error_that_names_the_cause() {
    let direct = || reqwest::Client::builder().no_proxy();
    // The response of a plain HTTP server to the beginning of a TLS handshake.
    let refuse = |mut stream: TcpStream| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
        Ok(Box::new(stream) as Box<dyn Duplex>)
    };
    let plain = LoopbackServer::start_with(refuse, |_, connection| connection.hang());
    let url = plain.url().replace("http:", "https:");
    let outcome = legacy_client().http(&url).unwrap().http_options(HttpOptions::new().client(direct())).connect().await;
    assert_eq!(
        outcome.unwrap_err().to_string(),
        format!(
            "the server at {url} cannot be reached: it does not use TLS; if it is a plain HTTP server, its URL begins with \
             http://"
        )
    );

    // The alert that a TLS server sends to a client without TLS.
    let encrypted = LoopbackServer::start(|_, connection| {
        connection.close();
        connection.raw(b"\x15\x03\x01\x00\x02\x02\x46")
    });
    let url = encrypted.url();
    let error = legacy_client().http(&url).unwrap().connect().await.unwrap_err().to_string();
    let reason = "it does not speak HTTP/1.1; if it is a TLS server, its URL begins with https://";
    assert!(error.starts_with(&format!("the server at {url} ")) && error.ends_with(reason), "{error}");
}

#[tokio::test]
async fn a_self_signed_certificate_of_an_authority_is_an_error_that_states_what_to_do() {
    // Like a certificate that `openssl req -x509` creates: the server's own certificate claims to be an authority's.
    let own = authority::self_signed(true);
    let trusted = reqwest::Certificate::from_pem(own.certificate.as_bytes()).unwrap();
    let server = authority::server_with(own);
    let url = authority::url(&server);
    let client = reqwest::Client::builder().tls_certs_only([trusted]);
    let error = legacy_client()
        .http(&url)
        .unwrap()
        .http_options(HttpOptions::new().client(client))
        .connect()
        .await
        .unwrap_err()
        .to_string();
    let reason = "its certificate is one of an authority (CA:TRUE), which no server may use as its own; ";
    assert!(error.contains(reason), "{error}");
}

struct Observing(tokio::sync::mpsc::UnboundedSender<Observation>);

impl Handler for Observing {
    async fn observed(&self, observation: Observation) {
        let _ = self.0.send(observation);
    }
}

#[tokio::test]
async fn a_handler_observes_what_needs_no_answer() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        connection.begin_events()?;
        connection.chunk(event("no JSON"))?;
        connection.chunk(event(&result(&asked.id, "{}")))?;
        connection.finish()
    }));
    let (seen, mut observed) = tokio::sync::mpsc::unbounded_channel();
    let client = legacy_client().handler(Observing(seen)).http(&server.url()).unwrap().connect().await.unwrap();
    client.request("tools/call", None).await.unwrap();
    let observation = timeout(Duration::from_secs(20), observed.recv()).await.unwrap();
    assert!(matches!(observation, Some(Observation::Faulted(_))), "{observation:?}");
}

#[tokio::test]
async fn certificates_are_checked_as_the_callers_http_client_is_configured() {
    let (private, other) = (Authority::new(), Authority::new());
    let server = authority::server(&private, true);
    let url = authority::url(&server);
    let certificate = |authority: &Authority| reqwest::Certificate::from_pem(authority.pem().as_bytes()).unwrap();
    let connect = |client: reqwest::ClientBuilder| {
        legacy_client().http(&url).unwrap().http_options(HttpOptions::new().client(client)).connect()
    };

    for (trusted, text) in [
        (vec![], "cannot be reached: its certificate comes from an authority that is not trusted here"),
        (vec![certificate(&other)], "cannot be reached: TLS failed: "),
    ] {
        let outcome = connect(reqwest::Client::builder().tls_certs_only(trusted)).await;
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let trusting = || reqwest::Client::builder().tls_certs_only([certificate(&private)]);
    assert!(connect(trusting()).await.is_err(), "the server demands a certificate");
    let own = private.issue("client");
    let own = reqwest::Identity::from_pem(format!("{}{}", own.certificate, own.key).as_bytes()).unwrap();
    let client = connect(trusting().identity(own)).await.unwrap();
    client.request("tools/call", None).await.unwrap();
}

#[tokio::test]
async fn connecting_is_bounded_as_a_whole_although_the_server_or_the_proxy_sends_a_byte_now_and_then() {
    for dripping in [Dripping::Handshake, Dripping::ProxyResponse] {
        let address = dripping.start();
        let mut options = HttpOptions::new();
        options.connect_timeout = Duration::from_secs(1);
        let (url, options) = match dripping {
            Dripping::Handshake => (format!("https://{address}/mcp"), options),
            Dripping::ProxyResponse => {
                let proxy = reqwest::Proxy::all(format!("http://{address}")).unwrap();
                let client = reqwest::Client::builder().connect_timeout(options.connect_timeout).proxy(proxy);
                ("https://192.0.2.1/mcp".to_owned(), options.client(client))
            }
        };
        let builder = legacy_client().http(&url).unwrap().http_options(options);
        let error = timeout(BOUND, builder.connect()).await.unwrap_or_else(|_| panic!("{dripping:?}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("cannot be reached"), "{dripping:?}: {error}");
    }
}
