//! Tests with a server over HTTP, which the test plays.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use mcp_proto::Json;
use mcp_testkit::bad_answers::BAD_ANSWERS;
use mcp_testkit::bad_handshakes::BAD_HANDSHAKES;
use mcp_testkit::bad_lines::BAD_LINES;
use mcp_testkit::late_answers::{LATE_ANSWERS, PATIENCE};
use mcp_testkit::loopback_server::{Connection, LoopbackServer, echo_server, mcp_server, two_endpoint_server};
use mcp_testkit::messages::{INITIALIZED, event, initialize, initialize_result, request, result};

use crate::editor::{Proxy, command};

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

#[test]
fn px1_a_conversation_and_a_quiet_end() {
    let server = echo_server();
    let mut proxy = Proxy::start(&[&server.url()]);
    proxy.initialize();
    let params = r#"{"big":12345678901234567890,"f":1.0,"s":"\u00e9\/","k":{"b":1,"a":2}}"#;
    proxy.write(&request("\"x\"", "tools/call", params));
    assert_eq!(proxy.line(), result("\"x\"", params));
    proxy.end_input();
    assert!(proxy.wait().0.success());
    let delete = server.wait_for("DELETE /mcp");
    assert_eq!(delete.header("mcp-session-id"), "the-session");
    assert_eq!(delete.header("user-agent"), concat!("mcp-proxy/", env!("CARGO_PKG_VERSION")));
    assert_eq!(proxy.stderr.iter().collect::<Vec<_>>(), [] as [&str; 0]);
}

/// With a larger pipe, the proxy and its client switch less often while a large message is written.
#[test]
#[cfg(target_os = "linux")]
fn the_pipe_to_the_client_is_made_as_large_as_any_user_may_have_it() {
    use nix::fcntl::{FcntlArg, fcntl};

    let server = echo_server();
    let (mut proxy, stdout) = Proxy::spawn_unread(&mut command(&[&server.url()]));
    proxy.write(&initialize("0", "2025-11-25"));
    let mut stdout = BufReader::new(stdout);
    stdout.read_line(&mut String::new()).unwrap();
    let most: i32 = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap().trim().parse().unwrap();
    assert_eq!(fcntl(stdout.get_ref(), FcntlArg::F_GETPIPE_SZ), Ok(most.min(1 << 20)));
}

#[test]
fn fr15_requests_in_flight_are_finished_after_the_end_of_stdin() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        thread::sleep(Duration::from_millis(300));
        connection.json(result(&asked.id, "{}"))
    }));
    let mut proxy = Proxy::start(&[&server.url()]);
    proxy.initialize();
    proxy.write(&request("1", "tools/call", "{}"));
    proxy.end_input();
    assert_eq!(proxy.line(), result("1", "{}"));
    assert!(proxy.wait().0.success());
}

#[test]
fn no_more_requests_than_allowed_are_with_the_server_and_pings_get_through() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        if asked.method == "ping" { connection.json(result(&asked.id, "{}")) } else { connection.hang() }
    }));
    let mut proxy = Proxy::start(&[&server.url(), "--max-requests", "2"]);
    proxy.initialize();
    for id in ["1", "2", "3"] {
        proxy.write(&request(id, "tools/call", "{}"));
    }
    let count = |server: &LoopbackServer| server.asked().iter().filter(|asked| asked.method == "tools/call").count();
    assert!(server.wait(|server| (count(server) == 2).then_some(())).is_some());
    proxy.write(&request("4", "ping", "{}"));
    assert_eq!(proxy.line(), result("4", "{}"));
    assert_eq!(count(&server), 2);
}

#[test]
fn a_server_that_is_down_is_a_readable_error_and_is_used_once_it_is_up() {
    // An address that no other test listens on, so that the port stays free.
    let free = std::net::TcpListener::bind("127.0.0.92:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let mut proxy = Proxy::start(&[&format!("http://{address}/mcp")]);
    proxy.write(&initialize("7", "2025-11-25"));
    let line = proxy.line();
    assert!(
        line.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the server at http://"#),
        "{line}"
    );
    assert!(line.contains("cannot be reached: nothing listens there (connection refused)"), "{line}");
    let serve = mcp_server(|asked, connection: &mut Connection| connection.json(result(&asked.id, "{}")));
    let server = LoopbackServer::listen(&address, |stream| Ok(Box::new(stream)), serve).unwrap();
    proxy.write(&initialize("8", "2025-11-25"));
    assert_eq!(proxy.line(), result("8", &initialize_result("2025-11-25")));
    proxy.write(INITIALIZED);
    proxy.write(&request("9", "tools/list", "{}"));
    assert_eq!(proxy.line(), result("9", "{}"));
    assert!(server.connections() > 0);
}

#[cfg(unix)]
#[test]
fn signals_end_it_in_good_order_and_a_second_one_at_once() {
    use mcp_testkit::http1::HttpMessage;

    for signal in ["TERM", "INT", "HUP"] {
        let server = LoopbackServer::start(mcp_server(|_, connection| {
            connection.begin_events()?;
            connection.hang()
        }));
        let mut proxy = Proxy::start(&[&server.url()]);
        proxy.initialize();
        proxy.write(&request("1", "tools/call", "{}"));
        server
            .wait(|server| {
                server
                    .requests()
                    .iter()
                    .any(|request| {
                        request.body.contains(&b'/') && request.body.windows(10).any(|text| text == b"tools/call")
                    })
                    .then_some(())
            })
            .unwrap();
        proxy.signal(signal);
        let line = proxy.line();
        assert!(line.contains(r#""id":1,"error":"#), "{signal}: {line}");
        let (status, _) = proxy.wait();
        assert!(status.success(), "{signal}: {status}");
        server.wait_for("DELETE /mcp");
    }
    // A server that does not even respond to the DELETE that ends the session.
    let serve = mcp_server(|asked, connection| connection.json(result(&asked.id, "{}")));
    let server = LoopbackServer::start(move |request: &HttpMessage, connection: &mut Connection| {
        if request.line.starts_with("DELETE") { connection.hang() } else { serve(request, connection) }
    });
    let mut proxy = Proxy::start(&[&server.url()]);
    proxy.initialize();
    proxy.signal("TERM");
    server.wait_for("DELETE /mcp");
    proxy.signal("TERM");
    // After only one signal, the proxy would exit with 0 once the server's time is over.
    assert_eq!(proxy.wait().0.code(), Some(130));
}

#[test]
fn px5_a_closed_stdout_ends_it() {
    let server = echo_server();
    let mut command = command(&[&server.url()]);
    let (mut proxy, stdout) = Proxy::spawn_unread(&mut command);
    let mut stdout = BufReader::new(stdout);
    proxy.write(&initialize("0", "2025-11-25"));
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    proxy.write(&request("1", "tools/call", "{}"));
    // A process that another test is starting may have a copy of the pipe for a moment, into which the first answer goes.
    thread::sleep(Duration::from_millis(500));
    proxy.try_write(&request("2", "tools/call", "{}"));
    let (status, _) = proxy.wait();
    assert!(status.success(), "{status}");
    server.wait_for("DELETE /mcp");
}

#[test]
fn ten_megabytes_arrive_whole_as_json_and_as_an_event() {
    for as_event in [false, true] {
        let server = LoopbackServer::start(mcp_server(move |asked, connection| {
            let text = result(&asked.id, &format!("\"{}\"", "x".repeat(10 << 20)));
            if !as_event {
                return connection.json(text);
            }
            connection.begin_events()?;
            for chunk in event(&text).as_bytes().chunks(1448) {
                connection.chunk(chunk)?;
            }
            connection.finish()
        }));
        let mut proxy = Proxy::start(&[&server.url()]);
        proxy.initialize();
        proxy.write(&request("1", "tools/call", "{}"));
        let line = proxy.line();
        assert_eq!(line.len(), result("1", "\"\"").len() + (10 << 20));
        assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":1,"result":"xxx"#) && line.ends_with("x\"}"));
        #[cfg(target_os = "linux")]
        assert!(proxy.peak_memory() < 40 * 1024, "{} KiB", proxy.peak_memory());
    }
}

#[test]
fn px6_a_line_that_is_too_long_fails_and_the_proxy_continues() {
    let server = echo_server();
    let mut proxy = Proxy::start(&["--max-message", "64KiB", &server.url()]);
    proxy.initialize();
    proxy.write(&request("1", "tools/call", &format!("{{\"x\":\"{}\"}}", "x".repeat(1 << 20))));
    let line = proxy.line();
    assert!(line.contains(r#""id":1,"error":{"code":-32600"#) && line.contains("longer than 65536 bytes"), "{line}");
    proxy.write(&request("2", "tools/call", "{}"));
    assert_eq!(proxy.line(), result("2", "{}"));
}

#[test]
#[cfg(target_os = "linux")]
fn px7_fr14_a_client_that_does_not_read_makes_the_proxy_stop_reading() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Notifications of a thousand bytes: several times what the proxy and the buffers of a socket and a pipe hold.
    const NOTIFICATIONS: usize = 100_000;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let server = LoopbackServer::start(mcp_server(move |asked, connection| {
        connection.begin_events()?;
        let params = format!(r#"{{"data":"{}"}}"#, "x".repeat(1000));
        let notification = event(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#));
        for _ in 0..NOTIFICATIONS / 100 {
            connection.chunk(notification.repeat(100))?;
            count.fetch_add(100, Ordering::SeqCst);
        }
        connection.chunk(event(&result(&asked.id, "{}")))?;
        connection.finish()
    }));
    let mut command = command(&[&server.url()]);
    let (mut proxy, stdout) = Proxy::spawn_unread(&mut command);
    let mut stdout = BufReader::new(stdout);
    proxy.write(&initialize("0", "2025-11-25"));
    stdout.read_line(&mut String::new()).unwrap();
    proxy.write(INITIALIZED);
    proxy.write(&request("1", "tools/call", "{}"));
    // The server sends until it is blocked.
    let mut before = 0;
    let mut unchanged = 0;
    while unchanged < 10 && before < NOTIFICATIONS {
        thread::sleep(Duration::from_millis(200));
        let now = sent.load(Ordering::SeqCst);
        unchanged = if now == before && now > 0 { unchanged + 1 } else { 0 };
        before = now;
    }
    assert!(before < NOTIFICATIONS / 4, "the proxy reads on: {before} notifications were sent");
    assert!(proxy.peak_memory() < 64 * 1024, "{} KiB", proxy.peak_memory());
    // Nothing was lost.
    let mut count = 0;
    for line in stdout.lines() {
        count += 1;
        if line.unwrap() == result("1", "{}") {
            break;
        }
    }
    assert_eq!(count, NOTIFICATIONS + 1);
}

#[test]
fn the_time_for_requests_in_flight_after_the_end_of_stdin_can_be_chosen() {
    for (timeout, is_answered) in [("0.2", false), ("60", true)] {
        let server = LoopbackServer::start(mcp_server(|asked, connection| {
            thread::sleep(Duration::from_secs(3));
            connection.json(result(&asked.id, "{}"))
        }));
        let mut proxy = Proxy::start(&["--drain-timeout", timeout, &server.url()]);
        proxy.initialize();
        proxy.write(&request("1", "tools/call", "{}"));
        server.wait(|server| server.asked().iter().any(|asked| asked.method == "tools/call").then_some(())).unwrap();
        proxy.end_input();
        let line = proxy.line();
        assert_eq!(line == result("1", "{}"), is_answered, "{timeout}: {line}");
        assert!(proxy.wait().0.success());
    }
}

#[test]
fn a_delivered_request_is_never_sent_twice() {
    let server = LoopbackServer::start(mcp_server(|_, connection| {
        // The request was read in full, and may have been processed.
        connection.close();
        Ok(())
    }));
    let mut proxy = Proxy::start(&[&server.url()]);
    proxy.initialize();
    for _ in 0..3 {
        let error = proxy.call("tools/call").unwrap_err();
        assert!(error.contains("broke the connection before it answered"), "{error}");
    }
    let calls = server.asked().into_iter().filter(|asked| asked.method == "tools/call").count();
    assert_eq!(calls, 3);
}

#[test]
fn px4_every_failure_of_the_server_reaches_the_client_with_its_id() {
    let elsewhere = echo_server();
    let location = elsewhere.url();
    let server = LoopbackServer::start(mcp_server(move |asked, connection| match asked.params.as_str() {
        r#"{"a":401}"# => connection.reply("401 Unauthorized", &[("www-authenticate", "Bearer")], ""),
        r#"{"a":307}"# => connection.reply("307 Temporary Redirect", &[("location", &location)], ""),
        r#"{"a":500}"# => connection.reply("500 Oops", &[("content-type", "text/html")], "<p>"),
        r#"{"a":0}"# => connection.hang(),
        _ => connection.json(result(&asked.id, "{}")),
    }));
    let mut proxy = Proxy::start(&["--request-timeout", "0.5", "-H", "X-Api-Key: secret-key", &server.url()]);
    proxy.initialize();
    for (params, text) in [
        (
            r#"{"a":401}"#,
            "requires authorization, as its answer 401 Unauthorized states: the server demands authorization but publishes no \
             OAuth metadata; if it wants a key or a token of its own, send it in a header; else a person must sign in",
        ),
        (r#"{"a":307}"#, "which is another origin"),
        (r#"{"a":500}"#, "answered 500 Internal Server Error with an HTML page"),
        (r#"{"a":0}"#, "did not answer within 500ms"),
    ] {
        proxy.write(&request("\"id\"", "tools/call", params));
        let line = proxy.line();
        assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":"id","error":"#) && line.contains(text), "{line}");
    }
    // Nothing was sent to the other origin, and every request to the endpoint had the header (B6).
    assert_eq!(elsewhere.connections(), 0);
    let requests = server.requests().into_iter().filter(|request| request.line.contains(" /mcp "));
    assert!(requests.map(|request| request.header("x-api-key").to_owned()).all(|key| key == "secret-key"));
}

#[test]
fn bad_answers_reach_the_client_as_outcomes_and_the_next_call_succeeds() {
    for case in BAD_ANSWERS {
        let server = case.server();
        let mut proxy = Proxy::start(&["--no-auth", &server.url()]);
        proxy.initialize();
        case.judge(proxy.call("tools/call"));
        assert_eq!(proxy.call("tools/list"), Ok(Json::empty_object()), "{}", case.name);
    }
}

#[test]
fn bad_lines_are_answered_and_the_next_request_is_served() {
    let server = echo_server();
    for case in BAD_LINES {
        let mut proxy = Proxy::start(&[&server.url()]);
        proxy.initialize();
        let mut stdin = proxy.stdin.take().unwrap();
        let writing = thread::spawn(move || {
            stdin.write_all(&case.all()).unwrap();
            stdin
        });
        // The input stays open until the last response, because `drain_timeout` would apply after its end.
        let answer = || proxy.lines.recv_timeout(Duration::from_secs(120)).ok();
        let mut answers: Vec<_> = (0..case.answers()).map_while(|_| answer()).collect();
        drop(writing.join().unwrap());
        answers.extend(proxy.lines.iter());
        case.judge(answers);
        assert!(proxy.wait().0.success(), "{}", case.name);
    }
}

#[test]
fn late_answers_fail_in_time_and_the_next_call_succeeds() {
    thread::scope(|scope| {
        for case in LATE_ANSWERS {
            scope.spawn(|| {
                let server = case.server();
                let seconds = PATIENCE.0.as_secs().to_string();
                let mut proxy = Proxy::start(&["--request-timeout", &seconds, &server.url()]);
                proxy.initialize();
                case.judge(proxy.call("tools/call"));
                assert_eq!(proxy.call("tools/list"), Ok(Json::empty_object()), "{}", case.name);
            });
        }
    });
}

#[test]
fn fr9_an_unfinished_line_at_the_end_is_no_message() {
    let server = echo_server();
    let mut proxy = Proxy::start(&[&server.url()]);
    proxy.initialize();
    proxy.write(&request("1", "tools/call", "{}"));
    proxy.stdin.as_mut().unwrap().write_all(request("2", "tools/call", "{}").as_bytes()).unwrap();
    proxy.end_input();
    assert_eq!(proxy.lines.iter().collect::<Vec<_>>(), [result("1", "{}")]);
    assert!(proxy.wait().0.success());
}

#[test]
fn bad_handshakes_are_readable_errors_or_are_tolerated() {
    for case in BAD_HANDSHAKES {
        let server = (case.server)();
        let mut proxy = Proxy::start(&[&server.url()]);
        case.judge(proxy.open().and_then(|_| {
            proxy.write(INITIALIZED);
            proxy.call("tools/call")
        }));
    }
}

#[test]
fn px9_headers_and_tokens_come_from_the_environment_and_appear_nowhere() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        // A server that repeats the credentials that it received.
        let text = format!("{}\nBearer token-4711 header-0815", asked.params.replace('"', "'")).replace('\n', " ");
        connection.json(result(&asked.id, &format!("{{\"text\":\"{text}\"}}")))
    }));
    let folder = folder("secrets");
    let (record, log) = (folder.join("record.jsonl"), folder.join("log.txt"));
    let mut command = command(&["--bearer-env", "TOKEN", "-H", "X-Key: ${KEY}!", "--log-level", "trace"]);
    command.arg("--record").arg(&record).arg("--log-file").arg(&log).arg(server.url());
    command.env("TOKEN", "token-4711").env("KEY", "header-0815");
    let mut proxy = Proxy::spawn(command);
    proxy.initialize();
    proxy.write(&request("1", "tools/call", r#"{"a":1}"#));
    assert!(proxy.line().contains("token-4711"), "what crosses is not changed");
    proxy.write("nonsense");
    proxy.line();
    proxy.end_input();
    assert!(proxy.wait().0.success());
    assert!(
        server.requests().iter().all(|request| request.header("authorization") == "Bearer token-4711"
            && request.header("x-key") == "header-0815!")
    );
    let record = std::fs::read_to_string(record).unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    for secret in ["token-4711", "header-0815", "the-session"] {
        assert!(!record.contains(secret) && !log.contains(secret), "{secret} in {record} {log}");
    }
    let lines: Vec<_> = record.lines().collect();
    assert_eq!(lines.len(), 7, "{record}");
    assert!(
        lines[0].contains(r#""direction":"client-to-server","message":{"jsonrpc":"2.0","id":0,"method":"initialize""#)
    );
    assert!(lines[1].contains(r#""direction":"server-to-client","message":{"jsonrpc":"2.0","id":0,"result":"#));
    assert!(lines[4].contains("[secret]"));
    assert!(lines[5].ends_with(r#""direction":"client-to-server","text":"nonsense"}"#));
    assert!(log.contains("connected to the server at http://127.0.0.1"), "{log}");
}

#[test]
fn px8_text_from_a_peer_cannot_forge_log_lines() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        connection.begin_events()?;
        connection.chunk(event(
            &request("1", r"evil\r\nmcp-proxy: error: forged\u001b[31m", "{}").replace("\"id\":1,", ""),
        ))?;
        connection.chunk(event(&result(&asked.id, "{}")))?;
        connection.finish()
    }));
    let mut proxy = Proxy::start(&["--log-level", "trace", &server.url()]);
    proxy.initialize();
    proxy.write(&request("1", "tools/call", "{}"));
    while proxy.line() != result("1", "{}") {}
    // The client cannot forge log lines either.
    proxy.write(&format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, r"x\u001b\nmcp-proxy: error: forged"));
    proxy.end_input();
    proxy.wait();
    for line in &proxy.stderr {
        assert!(
            line.find("Z mcp-proxy: ") == Some("2026-11-28T00:00:00.000".len())
                && !line.contains('\u{1b}')
                && !line.contains("error: forged"),
            "{line}"
        );
    }
}

#[test]
fn check_prints_its_findings_and_exits_with_the_result() {
    let run = |args: &[&str]| {
        let output = tests::deadline::output_of(command(args).arg("--check"));
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    // A tool result without content, from a server that is correct otherwise.
    let tools = r#"{"tools":[{"name":"write"},{"name":"look","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}]}"#;
    let server = LoopbackServer::start(mcp_server(move |asked, connection| match asked.method.as_str() {
        "tools/list" => connection.json(result(&asked.id, tools)),
        _ => connection.json(result(&asked.id, r#"{"text":"no content"}"#)),
    }));
    let (code, text) = run(&[&server.url(), "--check-tool", "look"]);
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "transport:    Streamable HTTP",
        "revision:     2025-11-25",
        "name:         s 1",
        "capabilities: tools",
        "era:          legacy: it answered server/discover with something else",
        "connected:    ",
        "tools/list:   ",
        "tools:        2",
        "called:       look",
        "quirk: sends a tool result without 'content'; it is passed on unchanged",
    ] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
    assert!(text.ends_with("ok\n"));
    let calls =
        server.requests().into_iter().filter(|request| request.body.windows(10).any(|text| text == b"tools/call"));
    assert_eq!(calls.count(), 1, "no tool but the named one is called");
    server.wait_for("DELETE /mcp");

    let (code, text) = run(&["http://127.0.0.1:1/mcp"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("failed: the server at http://127.0.0.1:1/mcp cannot be reached"), "{text}");
    let page = LoopbackServer::start(|_, connection| {
        connection.reply("404 Not Found", &[("content-type", "text/html")], "<p>")
    });
    let (code, text) = run(&[&page.url()]);
    assert_eq!(code, Some(1));
    assert!(text.contains("answered 404 Not Found with an HTML page; is the path right?"), "{text}");
}

#[test]
fn ht16_a_wrong_command_line_is_explained() {
    for (args, text) in [
        (vec![], "required arguments were not provided"),
        (vec!["ftp://example.com"], "must begin with http:// or https://"),
        (vec!["http://user:pw@example.com/?key=secret"], "must not contain a user name or password"),
        (vec!["http://x/", "-H", "no colon"], "a header is written as 'Name: value'"),
        (vec!["http://x/", "-H", "Mcp-Session-Id: 1"], "is set by the protocol"),
        (vec!["http://x/", "-H", "A: ${NO_SUCH_VARIABLE}"], "NO_SUCH_VARIABLE is not set"),
        (vec!["http://x/", "--bearer-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE is not set"),
        (vec!["http://x/", "--ca-file", "/no/such/file"], "/no/such/file"),
        (vec!["http://x/", "--client-cert", "a.pem"], "--client-key"),
        (vec!["http://x/", "--request-timeout", "0"], "must be more than 0"),
        (vec!["http://x/", "--max-message", "0"], "--max-message"),
        (vec!["http://x/", "--max-message", "lots"], "lots"),
        (vec!["http://x/", "--transport", "pigeon"], "streamable-http"),
        (vec!["http://x/", "--proxy", "not a url"], "--proxy"),
        (vec!["http://x/", "--log-file", "/no/such/folder/log"], "--log-file"),
        (vec!["http://x/", "--frobnicate"], "--frobnicate"),
        (vec!["http://x/", "--protocol", "2025-06-19"], "2025-06-18"),
        (vec!["http://x/", "--", "server"], "cannot be used with"),
        (vec!["--"], "required arguments were not provided"),
        (vec!["-H", "A: b", "--", "server"], "--header <NAME: VALUE>' cannot be used with"),
        (vec!["--bearer-env", "A", "--", "server"], "--bearer-env <VAR>' cannot be used with"),
        (vec!["--transport", "auto", "--", "server"], "--transport <TRANSPORT>' cannot be used with"),
        (vec!["--connect-timeout", "1", "--", "server"], "--connect-timeout <SECONDS>' cannot be used with"),
        (vec!["--idle-timeout", "1", "--", "server"], "--idle-timeout <SECONDS>' cannot be used with"),
        (vec!["--ca-file", "a.pem", "--", "server"], "--ca-file <PEM>' cannot be used with"),
        (vec!["--client-cert", "a.pem", "--client-key", "b.pem", "--", "server"], "cannot be used with"),
        (vec!["--proxy", "http://x/", "--", "server"], "--proxy <URL>' cannot be used with"),
        (vec!["--shared", "http://x/"], "--shared' cannot be used with"),
        (vec!["--shared-env", "A", "--", "server"], "--shared"),
    ] {
        let output = tests::deadline::output_of(&mut command(&args));
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(text), "{args:?}: {message}");
        assert!(!message.contains("secret") && output.stdout.is_empty());
    }
    for (flag, text) in [
        ("--version", concat!("mcp-proxy ", env!("CARGO_PKG_VERSION"))),
        ("--help", "--bearer-env <VAR>"),
        ("-h", "--check"),
    ] {
        let output = tests::deadline::output_of(&mut command(&[flag]));
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains(text));
    }
}

#[test]
fn the_environment_names_the_http_proxy_and_the_exceptions() {
    // An HTTP proxy that records the requests and refuses them.
    let backpressure = LoopbackServer::start(|_, connection| {
        connection.close();
        connection.reply("403 Forbidden", &[], "")
    });
    let proxy = format!("http://{}", backpressure.authority);
    let check = |variables: &[(&str, &str)], args: &[&str], url: &str| {
        let before = backpressure.connections();
        let output = tests::deadline::output_of(command(args).arg(url).arg("--check").envs(variables.iter().copied()));
        assert_eq!(output.status.code(), Some(1));
        backpressure.connections() > before
    };
    let far = "http://server.invalid/mcp";
    assert!(check(&[("HTTP_PROXY", &proxy)], &[], far));
    assert!(check(&[("http_proxy", &proxy)], &[], far));
    assert!(check(&[("ALL_PROXY", &proxy)], &[], far));
    assert!(check(&[("HTTPS_PROXY", &proxy)], &[], "https://server.invalid/mcp"));
    assert!(!check(&[("HTTPS_PROXY", &proxy)], &[], far));
    assert!(!check(&[("HTTP_PROXY", &proxy), ("NO_PROXY", "other.example,server.invalid")], &[], far));
    assert!(!check(&[("HTTP_PROXY", &proxy)], &[], "http://127.0.0.1:1/mcp"));
    assert!(check(&[], &["--proxy", &proxy], far));
    assert!(!check(&[], &[], far));
}

#[test]
fn two_endpoints_over_real_sockets() {
    let server = two_endpoint_server(
        |asked| result(&asked.id, &asked.params),
        |_, connection| connection.reply("202 Accepted", &[], "Accepted"),
    );
    let mut proxy = Proxy::start(&[&server.url()]);
    proxy.write(&initialize("0", "2024-11-05"));
    assert_eq!(proxy.line(), result("0", &initialize_result("2024-11-05")));
    proxy.write(INITIALIZED);
    for id in 1..=20 {
        proxy.write(&request(&id.to_string(), "tools/call", "{\"a\":1.0}"));
        assert_eq!(proxy.line(), result(&id.to_string(), "{\"a\":1.0}"));
    }
    proxy.end_input();
    assert!(proxy.wait().0.success());
}

#[test]
fn the_demonstration_shows_a_whole_dialogue() {
    let output = tests::deadline::output_of(&mut command(&["demo"]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let mut rest = &text[..];
    for part in [
        "An editor starts this program before it:\n\n    mcp-proxy http://127.0.0.1:",
        "\n\nThe editor opens the connection, which for the server begins a session.\n\n",
        r#"editor  > {"jsonrpc":"2.0","id":1,"method":"initialize""#,
        "…\n",
        r#"editor  < {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}"#,
        "    editor  > {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
        "\nIt asks for the tools.\n",
        r#"editor  < {"jsonrpc":"2.0","id":2,"result":{"tools""#,
        "\nIt calls one, and asks for its progress. The server's answer becomes a stream.\n",
        r#""progress":1.0"#,
        r#""progress":2.0"#,
        r#""progress":3.0"#,
        "one, two, three",
        "\nIt calls another, which asks the person in front of the editor for a name before it answers.\n",
        r#"editor  < {"jsonrpc":"2.0","id":1,"method":"elicitation/create""#,
        r#"editor  > {"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"Ada"}}}"#,
        "Hello, Ada!",
        "\nIt closes the proxy's input. The proxy ends the session and exits.\n",
        "the session was ended by DELETE",
        if cfg!(windows) { "mcp-proxy ended with exit code: 0" } else { "mcp-proxy ended with exit status: 0" },
    ] {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part} is missing: {text}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn each_request_is_a_line_of_the_log_without_its_payload() {
    let server = echo_server();
    let mut proxy = Proxy::start(&["--log-level", "info", &server.url()]);
    proxy.initialize();
    proxy.write(&request("1", "tools/call", r#"{"name":"t","arguments":{"m":"mark-of-ada"}}"#));
    proxy.line();
    proxy.end_input();
    let status = proxy.wait().0;
    let errors = proxy.stderr.iter().collect::<Vec<_>>().join("\n");
    assert!(status.success() && !errors.contains("mark-of-ada"), "{errors}");
    let name = format!("server={}", server.url());
    for (method, more) in [("initialize", ""), ("tools/call", "gen_ai.tool.name=t")] {
        let method = format!("mcp.method.name={method}");
        let is_it = |line: &&str| {
            ["info: a request ended", &name, &method, more, "outcome=result", "duration="]
                .iter()
                .all(|part| line.contains(part))
        };
        assert_eq!(errors.lines().filter(is_it).count(), 1, "{method}: {errors}");
    }
}
