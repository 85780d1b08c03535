//! The small drivers, run against the drivers of the workspace, against each other, and against servers and clients that
//! the test scripts.

use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Bytes;
use mcp_blocking::{Client, Incoming, Server};
use mcp_model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ListToolsResult, ServerCapabilities, Tool, ToolsCapability,
};
use mcp_proto::server::{Config, HttpConfig, TwoEndpoints};
use mcp_proto::{ErrorObject, Json, ProtocolVersion};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::loopback_server::{Connection, LoopbackServer, PostedMessage, mcp_server};
use mcp_testkit::messages::{NOTIFICATION, error, event, result};
use mcp_testkit::raw_client::{RawClient, text};
use mcp_testkit::waiting::wait_until;
use tests::examples::{Serving, example};

const STD_STDIO_CLIENT: &str = env!("CARGO_BIN_EXE_std_stdio_client");
const STD_STDIO_SERVER: &str = env!("CARGO_BIN_EXE_std_stdio_server");
const STD_HTTP_SERVER: &str = env!("CARGO_BIN_EXE_std_http_server");
/// The clients over HTTP.
const HTTP_CLIENTS: [&str; 2] = [env!("CARGO_BIN_EXE_std_http_client"), env!("CARGO_BIN_EXE_smol_client")];

const TOOLS: &str = r#"{"tools":[{"name":"hello","description":"Says hello.","inputSchema":{"type":"object"}}]}"#;
const HELLO: &str = r#"{"content":[{"type":"text","text":"Hello!"}]}"#;

/// Runs a client; returns what it prints, or if it fails, its error.
fn run(client: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(client).args(arguments).output().expect("the client is built");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// What each client prints about a server of this revision.
fn greeted(revision: &str) -> String {
    format!("revision {revision}\nhello: Says hello.\nHello!\n")
}

fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "tools/list" => Ok(ListToolsResult::new([Tool::without_arguments("hello").description("Says hello.")]).into()),
        "tools/call" => Ok(CallToolResult::text("Hello!").into()),
        _ => Err(ErrorObject::method_not_found(incoming.method())),
    }
}

/// Starts a server on `mcp-blocking` that serves these revisions; returns its URL without a path.
fn blocking_server(versions: &[ProtocolVersion]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let mut config = Config::new("s", "1").capabilities(capabilities);
    config.versions = versions.to_vec();
    let mut http = HttpConfig::new();
    http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    let service = Server::new(config, serve).http(http).expect("a configuration");
    thread::spawn(move || service.serve(listener));
    url
}

/// Starts a server of 2025-11-25 that answers `tools/list` and `tools/call` with these functions.
fn scripted_server(
    list: impl Fn(&str, &mut Connection) -> io::Result<()> + Send + Sync + 'static,
    call: impl Fn(&str, &mut Connection) -> io::Result<()> + Send + Sync + 'static,
) -> LoopbackServer {
    LoopbackServer::start(mcp_server(move |PostedMessage { method, id, .. }, connection| match method.as_str() {
        "tools/list" => list(&result(id, TOOLS), connection),
        "tools/call" => call(&result(id, HELLO), connection),
        _ => connection.json(error(id, -32601, "unknown")),
    }))
}

#[test]
fn the_http_clients_call_a_tool_of_servers_of_both_eras() {
    let small = Serving::start_command(Command::new(STD_HTTP_SERVER), &[]);
    let small = format!("http://{}/mcp", small.remote().address());
    let newest = format!("{}/mcp", blocking_server(ProtocolVersion::ALL));
    let with_sessions = format!("{}/mcp", blocking_server(&[ProtocolVersion::V2025_11_25]));
    let two_endpoints = format!("{}/sse", blocking_server(&[ProtocolVersion::V2024_11_05]));
    for client in HTTP_CLIENTS {
        for (url, revision) in [
            (&small, "2026-07-28"),
            (&newest, "2026-07-28"),
            (&with_sessions, "2025-11-25"),
            (&two_endpoints, "2024-11-05"),
        ] {
            assert_eq!(run(client, &[url, "hello"]), Ok(greeted(revision)), "{client} {url}");
        }
    }
}

#[test]
fn the_http_clients_read_events_and_bodies_in_pieces_of_one_byte() {
    let server = scripted_server(
        |list, connection| {
            connection.raw("HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n")?;
            connection.begin_events()?;
            for byte in [event(NOTIFICATION), event(list)].concat().as_bytes() {
                connection.chunk([*byte])?;
            }
            connection.finish()
        },
        // The body ends with the connection.
        |hello, connection| {
            connection.close();
            connection.raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")?;
            hello.as_bytes().iter().try_for_each(|byte| connection.raw([*byte]))
        },
    );
    for client in HTTP_CLIENTS {
        assert_eq!(run(client, &[&server.url(), "hello"]), Ok(greeted("2025-11-25")), "{client}");
    }
}

#[test]
fn the_http_clients_state_why_a_call_failed() {
    let cut = scripted_server(
        |list, connection| {
            connection.close();
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", list.len());
            connection.raw([head.as_bytes(), &list.as_bytes()[..list.len() - 1]].concat())
        },
        |_, connection| connection.hang(),
    );
    let nothing = RawClient::free();
    for client in HTTP_CLIENTS {
        for (url, reason) in [
            (cut.url(), "Broken"),
            (format!("http://{}/mcp", nothing.address()), "nothing listens there"),
            ("https://localhost/mcp".to_owned(), "no TLS"),
        ] {
            let failed = run(client, &[&url, "hello"]).unwrap_err();
            assert!(failed.contains(reason), "{client} {url}: {failed}");
        }
    }
}

/// A stream that continues after its answer is aborted at a limit.
#[test]
fn the_http_clients_close_the_connection_of_an_aborted_exchange() {
    for client in HTTP_CLIENTS {
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&is_closed);
        let server = scripted_server(
            move |list, connection| {
                connection.begin_events()?;
                connection.chunk(event(list))?;
                while connection.chunk(":".repeat(1000) + "\n").is_ok() {}
                closed.store(true, Ordering::SeqCst);
                connection.finish()
            },
            move |hello, connection| {
                wait_until(|| is_closed.load(Ordering::SeqCst));
                connection.json(hello)
            },
        );
        assert_eq!(run(client, &[&server.url(), "hello"]), Ok(greeted("2025-11-25")), "{client}");
    }
}

/// A server that does not answer the request that ends the session delays the end of a client by three seconds.
#[test]
fn the_http_clients_keep_deadlines() {
    const UNANSWERED: Duration = Duration::from_secs(60);
    let answers = mcp_server(|PostedMessage { method, id, .. }, connection| match method.as_str() {
        "tools/list" => connection.json(result(id, TOOLS)),
        "tools/call" => connection.json(result(id, HELLO)),
        _ => connection.json(error(id, -32601, "unknown")),
    });
    let server = LoopbackServer::start(move |request, connection| {
        if request.line.starts_with("DELETE") {
            thread::sleep(UNANSWERED);
        }
        answers(request, connection)
    });
    let start = Instant::now();
    thread::scope(|scope| {
        for client in HTTP_CLIENTS {
            let url = server.url();
            scope.spawn(move || assert_eq!(run(client, &[&url, "hello"]), Ok(greeted("2025-11-25")), "{client}"));
        }
    });
    assert!(start.elapsed() < UNANSWERED / 2, "{:?}", start.elapsed());
    server.wait_for("DELETE");
}

#[test]
fn the_http_server_serves_clients_of_every_revision() {
    let server = Serving::start_command(Command::new(STD_HTTP_SERVER), &[]);
    for version in ProtocolVersion::ALL.iter().filter(|version| **version != ProtocolVersion::V2024_11_05) {
        let url = format!("http://{}/mcp", server.remote().address());
        let client = Client::builder().http(&url).unwrap().versions([*version]).connect().unwrap();
        assert_eq!(client.version(), *version);
        let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello")).unwrap();
        assert_eq!(called.content[0].as_text(), Some("Hello!"), "{version}");
        client.close();
    }
}

#[test]
fn the_http_server_reads_requests_in_pieces_and_in_chunks() {
    let server = Serving::start_command(Command::new(STD_HTTP_SERVER), &[]);
    let request = TestRequest::post(initialize("2025-06-18"));

    let mut connection = server.remote().connect();
    for byte in text(&request) {
        connection.write(&[byte]);
    }
    assert_eq!(connection.until(|response| response.is_over).code(), 200);

    let (first, rest) = request.body.split_at(20);
    let mut connection = server.remote().open(
        &TestRequest { body: Bytes::new(), ..request.clone() }
            .with("transfer-encoding", "chunked")
            .with("content-length", "1"),
    );
    for chunk in [first, rest] {
        connection.write(format!("{:x};extension\r\n", chunk.len()).as_bytes());
        connection.write(&[chunk, b"\r\n"].concat());
    }
    connection.write(b"0\r\n\r\n");
    assert_eq!(connection.until(|response| response.is_over).code(), 200);
}

#[test]
fn the_http_server_decides_before_the_body_whether_it_is_sent() {
    let server = Serving::start_command(Command::new(STD_HTTP_SERVER), &[]);
    let waiting = TestRequest::post(initialize("2025-06-18")).with("expect", "100-continue");
    let body = waiting.body.clone();
    let head = String::from_utf8(text(&waiting)).unwrap();
    let head = head.strip_suffix(std::str::from_utf8(&body).unwrap()).unwrap().to_owned();

    let mut connection = server.remote().connect();
    connection.write(head.as_bytes());
    connection.read_bytes("HTTP/1.1 100 Continue\r\n\r\n".len());
    connection.write(&body);
    assert_eq!(connection.until(|response| response.is_over).code(), 200);

    let mut connection = server.remote().connect();
    connection.write(head.replace("localhost:3000", "evil.example").as_bytes());
    assert_eq!(connection.until(|response| response.is_over).code(), 403);
}

#[test]
fn an_open_stream_and_clients_that_send_no_request_do_not_block_the_http_server() {
    let server = Serving::start_command(Command::new(STD_HTTP_SERVER), &[]);
    let session = server.remote().session("2025-11-25");
    let mut stream = server.remote().open(&TestRequest::new("GET", "").in_session(&session));
    assert!(stream.until(|response| response.is_stream).data().is_empty());
    for garbage in ["\r\n\r\n", "GET\r\n\r\n", "POST /mcp HTTP/1.1\r\nhost\r\n\r\n"] {
        assert_eq!(server.remote().raw(garbage.as_bytes()), "", "{garbage:?}");
    }
    assert!(stream.is_silent());

    let ended = server.remote().answer(&TestRequest::new("DELETE", "").in_session(&session));
    assert_eq!(ended.code(), 204);
    stream.rest();
    assert_eq!(server.remote().answer(&TestRequest::new("GET", "").in_session(&session)).code(), 404);
}

#[test]
fn the_stdio_client_calls_a_tool_of_servers_of_both_eras_and_ends_them() {
    let legacy = example("legacy_stdio_server");
    for (server, revision) in [(STD_STDIO_SERVER, "2026-07-28"), (legacy.get_program().to_str().unwrap(), "2025-11-25")]
    {
        assert_eq!(run(STD_STDIO_CLIENT, &["hello", server]), Ok(greeted(revision)));
    }
}

#[test]
fn the_stdio_client_states_that_its_server_has_ended() {
    let failed = run(STD_STDIO_CLIENT, &["hello", STD_HTTP_SERVER, "no address"]).unwrap_err();
    assert!(failed.contains("reason: Closed"), "{failed}");
}

#[test]
fn the_stdio_server_serves_clients_of_both_eras() {
    for version in [ProtocolVersion::V2024_11_05, ProtocolVersion::LATEST] {
        let client = Client::builder().versions([version]).child(Command::new(STD_STDIO_SERVER)).connect().unwrap();
        let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello")).unwrap();
        assert_eq!(called.content[0].as_text(), Some("Hello!"), "{version}");
        client.close();
    }
}
