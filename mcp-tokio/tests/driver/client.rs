//! The client against a server in memory.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_proto::client::{self, Call, CloseReason};
use mcp_proto::server::{Config, Event, Progress, Server};
use mcp_proto::{
    ErrorObject, Failed, Instant, Json, Method, Notification, Output, ProtocolVersion, SessionKey, Stdio, StdioAction,
    Ticket, code,
};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::waiting::LONG;
use mcp_tokio::{Builder, Client, Error, Handler, Incoming, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    tests::deadline::set();
    Client::builder().versions(legacy_versions())
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

/// Serves until the client has disconnected; reports which requests were cancelled.
async fn serve(mut stream: DuplexStream, cancelled: mpsc::UnboundedSender<()>) {
    let mut server = Server::new(Stdio::new(), Config::new("s", "1")).unwrap();
    let mut buffer = vec![0; 4096];
    let mut asking: Vec<Ticket> = Vec::new();
    loop {
        while let Some(output) = server.poll_output() {
            match output {
                // A client that has disconnected is detected when nothing more can be read.
                Output::Action(StdioAction::Write(line)) => drop(stream.write_all(&line).await),
                Output::Event(Event::Requested { ticket, method, params }) => {
                    answer(&mut server, ticket, &method, params, &mut asking);
                }
                Output::Event(Event::Responded { outcome, .. }) => {
                    let text = Json::from(format!("{outcome:?}").as_str());
                    let result = Json::empty_object().with_member("outcome", &text);
                    server.respond(asking.remove(0), Ok(result), Instant::START).unwrap();
                }
                Output::Event(Event::Cancelled { .. }) => cancelled.send(()).unwrap(),
                Output::Event(Event::Closed { .. }) => return,
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => server.handle_eof(Instant::START),
            Ok(length) => server.handle_bytes(&buffer[..length], Instant::START),
        }
    }
}

fn answer(server: &mut Server<Stdio>, ticket: Ticket, method: &Method, params: Option<Json>, asking: &mut Vec<Ticket>) {
    let now = Instant::START;
    match method.as_str() {
        "echo" => server.respond(ticket, Ok(params.unwrap_or(Json::empty_object())), now).unwrap(),
        "count" => {
            for step in [1.0, 2.0, 3.0] {
                server.progress(&ticket, &Progress { progress: step, total: None, message: None }, now);
            }
            server.notify(server.session(), Notification::new("counted"), now).unwrap();
            server.respond(ticket, Ok(json("{}")), now).unwrap();
        }
        "ask" => {
            server.request(server.session(), Call::new("roots/list"), now).unwrap();
            asking.push(ticket);
        }
        "wait" => asking.push(ticket),
        _ => server.respond(ticket, Err(ErrorObject::new(code::METHOD_NOT_FOUND, "no such method")), now).unwrap(),
    }
}

async fn connect(builder: Builder) -> (Client, mpsc::UnboundedReceiver<()>) {
    let (ours, theirs) = duplex(1024);
    let (cancelled, is_cancelled) = mpsc::unbounded_channel();
    tokio::spawn(serve(theirs, cancelled));
    let (read, write) = split(ours);
    (builder.stream(read, write).connect().await.unwrap(), is_cancelled)
}

#[tokio::test]
async fn a_conversation_in_memory() {
    struct Roots(mpsc::UnboundedSender<String>);
    impl Handler for Roots {
        async fn notified(&self, notification: Notification) {
            self.0.send(notification.method.to_string()).unwrap();
        }

        async fn requested(&self, method: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
            tokio::task::yield_now().await;
            assert_eq!(method.as_str(), "roots/list");
            Ok(json(r#"{"roots":[]}"#))
        }
    }
    let (sender, mut received) = mpsc::unbounded_channel();
    let builder = legacy_client().capabilities(json(r#"{"roots":{}}"#)).handler(Roots(sender));
    let (client, _) = connect(builder).await;
    assert_eq!(client.version().as_str(), "2025-11-25");
    assert_eq!(client.transport(), None, "a byte stream is no HTTP");
    let server = client.initialize_result().member("serverInfo").unwrap().unwrap();
    assert_eq!(server.to_text(), r#"{"name":"s","version":"1"}"#);
    let odd = json(r#"{"a":12345678901234567890,"b":1.0}"#);
    assert_eq!(client.request("echo", Some(odd.clone())).await.unwrap(), odd);
    let mut call = client.call(Call::new("count").with_progress()).await.unwrap();
    let mut steps = 0;
    while call.progress().await.is_some() {
        steps += 1;
    }
    assert_eq!((steps, call.wait().await.unwrap()), (3, json("{}")));
    assert_eq!(received.recv().await.unwrap(), "counted");
    let call = client.call(Call::new("count").with_progress()).await.unwrap();
    let mut steps = 0;
    assert_eq!(call.wait_with(|_| steps += 1).await.unwrap(), json("{}"));
    assert_eq!((steps, received.recv().await.as_deref()), (3, Some("counted")));
    let asked = client.request("ask", None).await.unwrap();
    assert!(asked.to_text().contains("Result"), "{}", asked.to_text());
    assert!(matches!(client.request("nothing", None).await, Err(Error::Server(error)) if error.code() == -32601));
    client.close().await;
    assert!(matches!(client.request("echo", None).await, Err(Error::Usage(_))));
}

#[tokio::test]
async fn the_server_receives_what_the_builder_was_given() {
    let builder = legacy_client().name("app", "7").capabilities(json(r#"{"roots":{}}"#));
    let (ours, mut theirs) = duplex(4096);
    let (read, write) = split(ours);
    tokio::spawn(builder.versions([ProtocolVersion::V2025_03_26]).stream(read, write).connect());
    let mut buffer = [0; 1024];
    let length = theirs.read(&mut buffer).await.unwrap();
    let line = String::from_utf8_lossy(&buffer[..length]).into_owned();
    for part in [
        r#""protocolVersion":"2025-03-26""#,
        r#""capabilities":{"roots":{}}"#,
        r#""clientInfo":{"name":"app","version":"7"}"#,
    ] {
        assert!(line.contains(part), "{line}");
    }
}

/// On a stream that the application provides, no process can be restarted.
#[tokio::test]
async fn er06_a_stream_that_ends_at_the_first_question_is_an_error_at_once() {
    let builder =
        Client::builder().versions(ProtocolVersion::ALL.iter().copied()).configure(|config| config.respawn = true);
    let (ours, mut theirs) = duplex(4096);
    let (read, write) = split(ours);
    let connecting = tokio::spawn(builder.stream(read, write).connect());
    assert!(theirs.read(&mut [0; 1024]).await.unwrap() > 0);
    drop(theirs);
    let outcome = timeout(LONG, connecting).await.unwrap().unwrap();
    assert!(matches!(outcome, Err(Error::Failed { reason: Failed::Closed, .. })), "{outcome:?}");
}

/// A guard in a future of the application, which reports when that is dropped.
struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A handler that never returns from a notification or a request.
struct Stuck {
    begun: mpsc::UnboundedSender<()>,
    dropped: mpsc::UnboundedSender<()>,
}

impl Stuck {
    async fn hang(&self) {
        let _guard = Dropped(self.dropped.clone());
        self.begun.send(()).unwrap();
        std::future::pending::<()>().await;
    }
}

impl Handler for Stuck {
    async fn notified(&self, _: Notification) {
        self.hang().await;
    }

    async fn requested(&self, _: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
        self.hang().await;
        unreachable!("it hangs")
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_that_are_stuck_are_ended_with_the_client() {
    for message in [
        r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1,"level":"info"}}"#,
    ] {
        let ((begun, mut has_begun), (dropped, mut is_dropped)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let builder = legacy_client().capabilities(json(r#"{"roots":{}}"#)).handler(Stuck { begun, dropped });
        let (client, mut theirs) = connect_by_hand(builder).await;
        theirs.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        has_begun.recv().await.unwrap();
        assert!(is_dropped.try_recv().is_err());
        let reading = tokio::spawn(async move { theirs.read_to_end(&mut Vec::new()).await });
        let started = tokio::time::Instant::now();
        client.close().await;
        assert!(timeout(Duration::from_secs(60), is_dropped.recv()).await.is_ok(), "{message}");
        // A request is aborted at once; the last notification may take one second.
        let waited = u64::from(!message.contains("\"id\""));
        assert_eq!(started.elapsed().as_secs(), waited, "{message}");
        reading.await.unwrap().unwrap();
    }
}

/// Messages that were accepted before the end are written, as long as the server reads.
#[tokio::test(start_paused = true)]
async fn the_last_lines_are_written_before_the_stream_ends_and_the_end_takes_no_time() {
    let (client, mut theirs) = connect_by_hand(legacy_client()).await;
    let filler = json(&format!("{{\"filler\":\"{}\"}}", "x".repeat(100_000)));
    client.notify(Notification::with_params("notifications/last", filler)).await.unwrap();
    let mut written = String::new();
    let started = tokio::time::Instant::now();
    let (read, ()) = tokio::join!(theirs.read_to_string(&mut written), client.close());
    read.unwrap();
    let last = written.lines().last().unwrap();
    assert!(last.contains("notifications/last") && last.ends_with("x\"}}"), "{} bytes", last.len());
    assert_eq!(started.elapsed(), Duration::ZERO);
}

/// A server that does not read any more may still send messages, for two seconds.
#[tokio::test(start_paused = true)]
async fn a_server_that_has_closed_its_input_is_read_for_a_limited_time() {
    let ((ours, mut theirs), (answers, mut answering)) = (duplex(4096), duplex(4096));
    let connecting = tokio::spawn(legacy_client().stream(answers, ours).connect());
    assert!(theirs.read(&mut [0; 1024]).await.unwrap() > 0);
    let result = r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n");
    answering.write_all(line.as_bytes()).await.unwrap();
    let client = connecting.await.unwrap().unwrap();
    let first = client.call(Call::new("tools/list")).await.unwrap();
    while !String::from_utf8_lossy(&read_some(&mut theirs).await).contains("tools/list") {}
    drop(theirs);
    let second = client.call(Call::new("tools/list")).await.unwrap();
    let started = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_millis(1900)).await;
    answering.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"late\":1}}\n").await.unwrap();
    assert_eq!(first.wait().await.unwrap(), json(r#"{"late":1}"#));
    assert_eq!(started.elapsed().as_millis(), 1900);
    assert!(matches!(second.wait().await, Err(Error::Failed { reason: Failed::Closed, .. })));
    assert_eq!(started.elapsed().as_secs(), 2);
}

async fn read_some(stream: &mut DuplexStream) -> Vec<u8> {
    let mut buffer = vec![0; 4096];
    let length = stream.read(&mut buffer).await.unwrap();
    buffer.truncate(length);
    buffer
}

#[tokio::test]
async fn many_calls_at_one_time_through_a_narrow_pipe() {
    let (client, _) = connect(legacy_client()).await;
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                let params = json(&format!(r#"{{"n":{n},"filler":"{}"}}"#, "x".repeat(3000)));
                assert_eq!(client.request("echo", Some(params.clone())).await.unwrap(), params);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_request_and_is_called_again() {
    struct Panics(mpsc::UnboundedSender<usize>, AtomicUsize);
    impl Panics {
        fn panic_at_first(&self) {
            let count = self.1.fetch_add(1, Ordering::SeqCst);
            assert!(count > 1, "the premise of this test");
            self.0.send(count).unwrap();
        }
    }
    impl Handler for Panics {
        fn notified(&self, _: Notification) -> impl Future<Output = ()> + Send {
            self.panic_at_first();
            async {}
        }

        async fn requested(&self, _: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
            tokio::task::yield_now().await;
            self.panic_at_first();
            Ok(json(r#"{"roots":[]}"#))
        }
    }
    let (sender, mut received) = mpsc::unbounded_channel();
    let handler = Panics(sender.clone(), AtomicUsize::new(0));
    let (client, _) = connect(legacy_client().capabilities(json(r#"{"roots":{}}"#)).handler(handler)).await;
    for expected in ["Error", "Error", "Result", "Result"] {
        let asked = client.request("ask", None).await.unwrap();
        assert!(asked.to_text().contains(expected), "{}", asked.to_text());
    }
    assert_eq!((received.recv().await, received.recv().await), (Some(2), Some(3)));

    let (client, _) = connect(legacy_client().handler(Panics(sender, AtomicUsize::new(0)))).await;
    for _ in 0..4 {
        client.request("count", None).await.unwrap();
    }
    assert_eq!((received.recv().await, received.recv().await), (Some(2), Some(3)));
}

#[tokio::test]
async fn a_service_whose_notification_handler_panics_receives_the_next_one() {
    struct Panics(mpsc::UnboundedSender<String>);
    impl Service for Panics {
        async fn serve(&self, _: Incoming) -> Result<Json, ErrorObject> {
            Ok(json("{}"))
        }

        async fn notified(&self, _: SessionKey, notification: Notification) {
            assert_ne!(notification.method.as_str(), "notifications/first", "the premise of this test");
            let _ = self.0.send(notification.method.to_string());
        }

        async fn ended(&self, _: SessionKey, _: CloseReason) {
            let _ = self.0.send("ended".to_owned());
        }
    }
    let (sender, mut received) = mpsc::unbounded_channel();
    let (ours, theirs) = duplex(1024);
    tokio::spawn(async move {
        let (read, write) = split(theirs);
        mcp_tokio::Server::new(Config::new("s", "1"), Panics(sender)).serve_stream(read, write).await
    });
    let (read, write) = split(ours);
    let client = legacy_client().stream(read, write).connect().await.unwrap();
    for method in ["notifications/first", "notifications/second"] {
        client.notify(Notification::new(method)).await.unwrap();
    }
    client.close().await;
    let mut all = Vec::new();
    while let Some(event) = received.recv().await {
        all.push(event);
    }
    assert!(all.ends_with(&["notifications/second".to_owned(), "ended".to_owned()]), "{all:?}");
}

/// Time is paused: it advances only when the runtime is idle.
#[tokio::test(start_paused = true)]
async fn while_the_answers_to_a_flood_wait_no_more_of_it_is_read() {
    let few = |config: &mut client::Config| config.limits.queue_bytes = 64 * 1024;
    let (client, mut theirs) = connect_by_hand(legacy_client().configure(few)).await;
    let flood = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n".repeat(100);
    let mut read = 0;
    while timeout(Duration::from_secs(1), theirs.write_all(flood.as_bytes())).await.is_ok() {
        read += flood.len();
        assert!(read < 1 << 20, "{read} bytes were read");
    }
    // The other direction: once the answers are read, there is room again.
    let call = client.call(Call::new("tools/list").timeout(Duration::from_secs(60))).await.unwrap();
    let (mut reading, mut writing) = split(theirs);
    let answers = tokio::spawn(async move { tokio::io::copy(&mut reading, &mut tokio::io::sink()).await });
    writing.write_all(b"\n").await.unwrap();
    for _ in 0..20 {
        timeout(Duration::from_secs(1), writing.write_all(flood.as_bytes())).await.unwrap().unwrap();
    }
    drop(call);
    client.close().await;
    assert!(answers.await.unwrap().unwrap() > 64 * 1024);
}

/// Outcomes do not wait until there is room for other messages.
#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_timeout_while_the_server_reads_nothing() {
    let (client, theirs) = connect_by_hand(legacy_client()).await;
    let large = json(&format!("{{\"x\":\"{}\"}}", "x".repeat(1 << 20)));
    let started = tokio::time::Instant::now();
    let mut calls = Vec::new();
    for seconds in [3, 2, 1] {
        let call = Call::new("tools/call").params(large.clone()).timeout(Duration::from_secs(seconds));
        calls.push((seconds, client.call(call).await.unwrap()));
    }
    while let Some((seconds, call)) = calls.pop() {
        let outcome = call.wait().await;
        assert!(matches!(outcome, Err(Error::Failed { reason: Failed::TimedOut { .. }, .. })), "{outcome:?}");
        assert_eq!(started.elapsed().as_secs(), seconds);
    }
    client.close().await;
    assert!(started.elapsed() < Duration::from_secs(3 + 6), "{:?}", started.elapsed());
    drop(theirs);
}

#[test]
fn clients_do_not_share_a_seed() {
    let mut seeds = Vec::new();
    for _ in 0..3 {
        let _ = legacy_client().configure(|config| seeds.push(config.seed));
    }
    assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2] && seeds[0] != 0, "{seeds:?}");
}

#[tokio::test]
async fn dropping_a_calls_future_cancels_the_call() {
    let (client, mut cancelled) = connect(legacy_client()).await;
    assert!(timeout(Duration::from_millis(50), client.request("wait", None)).await.is_err());
    timeout(LONG, cancelled.recv()).await.unwrap().unwrap();
    let call = client.call(Call::new("wait")).await.unwrap();
    call.cancel();
    assert!(matches!(call.wait().await, Err(Error::Failed { reason: Failed::Cancelled, .. })));
    assert!(client.request("echo", None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_answered_fails_in_time() {
    let (client, mut cancelled) = connect(legacy_client().request_timeout(Duration::from_secs(20))).await;
    let outcome = client.request("wait", None).await;
    assert!(matches!(outcome, Err(Error::Failed { reason: Failed::TimedOut { .. }, .. })), "{outcome:?}");
    cancelled.recv().await.unwrap();
}

#[tokio::test]
async fn a_call_that_is_dropped_before_the_task_took_it_is_not_sent() {
    let (client, mut theirs) = connect_by_hand(legacy_client()).await;
    tokio::select! {
        biased;
        outcome = client.request("dropped", None) => panic!("{outcome:?}"),
        // The task runs on this thread, and has not been polled yet.
        () = std::future::ready(()) => {}
    }
    let call = client.call(Call::new("kept")).await.unwrap();
    drop(client);
    let mut written = String::new();
    theirs.read_to_string(&mut written).await.unwrap();
    assert!(written.contains("kept") && !written.contains("dropped"), "{written}");
    assert!(matches!(call.wait().await, Err(Error::Failed { reason: Failed::Closed, .. })));
}

#[tokio::test]
async fn the_end_of_the_stream_fails_what_waits() {
    let (client, theirs) = connect_by_hand(legacy_client()).await;
    let call = client.call(Call::new("tools/list")).await.unwrap();
    drop(theirs);
    assert!(matches!(call.wait().await, Err(Error::Failed { reason: Failed::Closed, .. })));
}

/// A client that is connected to the returned stream, with `initialize` answered.
async fn connect_by_hand(builder: Builder) -> (Client, DuplexStream) {
    let (ours, mut theirs) = duplex(4096);
    let (read, write) = split(ours);
    let connecting = tokio::spawn(builder.stream(read, write).connect());
    let mut buffer = [0; 1024];
    assert!(theirs.read(&mut buffer).await.unwrap() > 0);
    let result = r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n");
    theirs.write_all(line.as_bytes()).await.unwrap();
    (connecting.await.unwrap().unwrap(), theirs)
}
