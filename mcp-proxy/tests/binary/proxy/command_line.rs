//! Tests of the command line: what it accepts, refuses and explains, and the files that the program writes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;

use mcp_testkit::loopback_server::{Connection, LoopbackServer, PostedMessage, mcp_server};
use mcp_testkit::messages::{event, initialize, request, result};
use tests::urls::{ACCEPTED_URLS, REFUSED_URLS};

use crate::editor::{Proxy, command};

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// A server in which `--check` finds no deviation.
fn flawless_server() -> LoopbackServer {
    LoopbackServer::start(mcp_server(|asked, connection| connection.json(result(&asked.id, r#"{"tools":[]}"#))))
}

/// Runs a proxy without input; returns its exit code, stdout and stderr.
fn run(args: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let output = tests::deadline::output_of(command(args).envs(environment.iter().copied()));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_line_reads_urls_as_the_core_does() {
    for (url, text) in REFUSED_URLS {
        // No process can be started with this argument.
        if url.contains('\0') {
            continue;
        }
        let (code, _, message) = run(&["--", url][1..], &[]);
        assert_eq!(code, Some(2), "{url:?}: {message}");
        assert!(message.contains(text), "{url:?}: {message}");
        assert!(!message.contains("password@") && !message.contains('\u{202e}'), "{message}");
    }
    let server = flawless_server();
    let (code, found, _) = run(&["--check", &format!("{}/ünï?q=ö", server.url())], &[]);
    assert_eq!(code, Some(0), "{found}");
    assert!(found.contains("/mcp/%C3%BCn%C3%AF\n"), "{found}");
    // That for the server's card has a path of its own.
    let (of_card, others): (Vec<_>, Vec<_>) =
        server.requests().into_iter().partition(|request| request.line.contains("server-card"));
    assert!(others.iter().all(|request| request.line.contains("/mcp/%C3%BCn%C3%AF?q=%C3%B6 ")), "{others:?}");
    let [of_card] = &of_card[..] else { panic!("{of_card:?}") };
    assert!(of_card.line.starts_with("GET /mcp/%C3%BCn%C3%AF/server-card "), "{of_card:?}");
    assert!(ACCEPTED_URLS.iter().any(|(_, sent)| sent.contains("%C3%BC")));
}

#[test]
fn options_of_a_file_apply_unless_the_command_line_has_them_and_a_mistake_is_named() {
    let file = folder("options").join("options.json");
    let server = flawless_server();
    let url = server.url();
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let check = |more: &[&str]| {
        let args = [&["--config", file.to_str().unwrap(), "--check"], more, &[&url]].concat();
        run(&args, &[("KEY", "marked-17")])
    };
    write(
        "{ // for a server with a key\n\"serve\": {\"listen\": 1},\n\"proxy\": {\"header\": {\"X-Key\": \"${KEY}\"}, \"protocol\": \"2025-06-18\"}}",
    );
    let (code, found, _) = check(&[]);
    assert!(code == Some(1) && found.contains("(2025-06-18)"), "the server has another revision: {found}");
    let (code, found, errors) = check(&["--protocol", "legacy"]);
    assert_eq!(code, Some(0), "{found}{errors}");
    assert!(
        server.requests().len() > 1 && server.requests().iter().all(|request| request.header("x-key") == "marked-17")
    );
    write("{\n\"proxy\": {\"requestTimeout\": \"${KEY}\"}}");
    let (code, _, errors) = check(&[]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("line 2: proxy.requestTimeout: "), "{errors}");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(check(&[]).0, Some(2));
}

#[test]
fn a_proxy_that_cannot_be_used_is_refused_with_the_name_of_its_variable() {
    let far = "http://server.invalid/mcp";
    let secret = "socks5://user:secret-pw@127.0.0.1:1080";
    for (args, environment, text) in [
        (vec!["--proxy", secret], vec![], "--proxy: the URL of the HTTP proxy is one of a SOCKS proxy"),
        (vec!["--proxy", "nonsense"], vec![], "--proxy: the URL of the HTTP proxy must begin with http://"),
        (vec!["--proxy", "http://127.0.0.1:80800"], vec![], "has an invalid port"),
        (vec![], vec![("ALL_PROXY", secret)], "the environment variable ALL_PROXY names"),
        (vec![], vec![("all_proxy", secret)], "the environment variable all_proxy names"),
        (vec![], vec![("HTTP_PROXY", secret)], "the environment variable HTTP_PROXY names"),
        (vec![], vec![("http_proxy", "socks4a://127.0.0.1")], "list its host in NO_PROXY"),
        (vec![], vec![("HTTP_PROXY", "nonsense")], "must begin with http://"),
    ] {
        for check in [true, false] {
            let mut args = args.clone();
            args.extend(if check { vec!["--check", far] } else { vec![far] });
            let (code, found, message) = run(&args, &environment);
            assert_eq!(code, Some(2), "{args:?} {environment:?}: {message}");
            assert!(names(&message, text) && found.is_empty(), "{args:?} {environment:?}: {message}");
            assert!(!message.contains("secret-pw"), "{message}");
        }
    }
    let (code, _, message) =
        run(&["https://server.invalid/mcp"], &[("HTTPS_PROXY", secret), ("HTTP_PROXY", "http://a:1")]);
    assert!(code == Some(2) && names(&message, "the environment variable HTTPS_PROXY names"), "{message}");
}

/// Whether a message has this part. On Windows, variables that differ only in the case of letters are one.
fn names(message: &str, text: &str) -> bool {
    let same_case = |text: &str| if cfg!(windows) { text.to_ascii_lowercase() } else { text.to_owned() };
    same_case(message).contains(&same_case(text))
}

#[test]
fn this_machine_is_reached_directly_despite_proxy_variables() {
    let server = flawless_server();
    let port = server.authority.rsplit(':').next().unwrap();
    for name in ["ALL_PROXY", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY"] {
        for proxy in ["socks5://127.0.0.1:1", "http://127.0.0.1:1", "nonsense"] {
            for host in ["127.0.0.1", "localhost"] {
                let (code, found, message) = run(&["--check", &format!("http://{host}:{port}/mcp")], &[(name, proxy)]);
                assert_eq!(code, Some(0), "{name}={proxy} {host}: {found}{message}");
            }
        }
    }
    let (code, found, _) = run(
        &["--check", "http://server.invalid/mcp"],
        &[("ALL_PROXY", "socks5://127.0.0.1:1"), ("NO_PROXY", "server.invalid")],
    );
    assert!(code == Some(1) && found.contains("server.invalid/mcp cannot be reached: its name"), "{found}");
}

#[test]
fn a_failure_of_the_http_proxy_is_not_reported_as_one_of_the_server() {
    let requires_password = LoopbackServer::start(|_, connection| {
        connection.close();
        connection.reply("407 Proxy Authentication Required", &[], "")
    });
    let refuses = LoopbackServer::start(|_, connection| {
        connection.close();
        connection.reply("502 Bad Gateway", &[], "")
    });
    // An address that no other test listens on, so that the port stays free.
    let free = TcpListener::bind("127.0.0.93:0").unwrap();
    let nothing = free.local_addr().unwrap().to_string();
    drop(free);
    for (proxy, text) in [
        (&requires_password.authority, "did not connect to the server: it requires a user name and a password"),
        (&refuses.authority, "did not connect to the server: it answered CONNECT with status 502"),
        (&nothing, "cannot be reached: nothing listens there (connection refused)"),
        (&"proxy.invalid:1".to_owned(), "cannot be reached: its name"),
    ] {
        for url in ["http://server.invalid/mcp", "https://server.invalid/mcp"] {
            let (code, found, _) = run(&["--check", "--proxy", &format!("http://{proxy}"), url], &[]);
            assert_eq!(code, Some(1), "{found}");
            let whole = format!("failed: the server at {url} cannot be reached: the HTTP proxy {proxy} {text}");
            assert!(found.contains(&whole), "{found} lacks {whole}");
        }
    }
}

#[test]
fn what_contradicts_itself_is_refused_and_a_misspelled_option_corrected() {
    for (args, text) in [
        (
            vec!["http://x/", "-H", "authorization: Bearer ${TOKEN}", "--bearer-env", "TOKEN"],
            "cannot be used with --bearer-env",
        ),
        (vec!["http://x/", "--bearer-env", "EMPTY"], "the environment variable EMPTY is empty"),
        (vec!["http://x/", "--bearer-env", "BROKEN"], "--bearer-env: the environment variable BROKEN holds characters"),
        (vec!["http://x/", "-H", "X-Key: ${BROKEN}"], "the value of the header 'x-key' holds characters"),
        (vec!["http://x/", "-H", "X Key: a"], "a header name may hold only"),
        (vec!["http://x/", "--chek"], "'--check'"),
        (vec!["http://x/", "--protocoll", "legacy"], "'--protocol'"),
    ] {
        let variables = [("TOKEN", "token-4711"), ("EMPTY", "\n"), ("BROKEN", "to\nken\n")];
        let (code, _, message) = run(&args, &variables);
        assert_eq!(code, Some(2), "{args:?}: {message}");
        assert!(message.contains(text), "{args:?}: {message}");
        assert!(!message.contains("token-4711") && !message.contains("to\nken"), "{message}");
    }
}

#[test]
fn a_token_may_end_in_the_line_break_of_its_file() {
    for value in ["token-4711\n", "token-4711\r\n", "token-4711"] {
        let server = flawless_server();
        let (code, found, message) =
            run(&["--check", "--bearer-env", "TOKEN", "-H", "X-Key: ${TOKEN}", &server.url()], &[("TOKEN", value)]);
        assert_eq!(code, Some(0), "{found}{message}");
        let requests = server.requests();
        assert!(requests.iter().all(|request| request.header("authorization") == "Bearer token-4711"));
        assert!(requests.iter().all(|request| request.header("x-key") == "token-4711"));
    }
}

/// A server that repeats the credentials in all spellings that JSON allows.
fn quoting_server() -> LoopbackServer {
    LoopbackServer::start(mcp_server(|asked, connection| {
        let spelled = |text: &str| text.bytes().map(|byte| format!("\\u{byte:04X}")).collect::<Vec<_>>().concat();
        let texts = [
            "Bearer tok/en-qxzv".to_owned(),
            "tok/en-qxzv".to_owned(),
            r"tok\/en-qxzv".to_owned(),
            spelled("tok/en-qxzv"),
            spelled("tok/en-qxzv").to_lowercase().replace("\\u002f", "/"),
            r#"{\"token\":\"tok\\/en-qxzv\"}"#.to_owned(),
            "header-wkjy!".to_owned(),
            r"h\u0065ader-wkjy".to_owned(),
            "the-pass-word".to_owned(),
        ];
        connection.json(result(&asked.id, &format!("{{\"text\":\"{}\"}}", texts.join(" "))))
    }))
}

#[test]
fn px9_no_secret_stands_in_a_record_in_any_spelling() {
    for (name, args) in [
        ("bearer", vec!["--bearer-env", "TOKEN", "-H", "X-Key: ${KEY}!", "-H", "X-Other: the-pass-word"]),
        (
            "header",
            vec!["-H", "Authorization: Bearer ${TOKEN}", "-H", "X-Key: ${KEY}!", "-H", "X-Other: the-pass-word"],
        ),
        (
            "literal",
            vec!["-H", "Authorization: Bearer tok/en-qxzv", "-H", "X-Key: ${KEY}!", "-H", "X-Other: the-pass-word"],
        ),
    ] {
        let server = quoting_server();
        let folder = folder(&format!("spellings-{name}"));
        let (record, log) = (folder.join("record.jsonl"), folder.join("log.txt"));
        let mut command = command(&args);
        command
            .arg("--record")
            .arg(&record)
            .arg("--log-file")
            .arg(&log)
            .args(["--log-level", "trace"])
            .arg(server.url());
        command.env("TOKEN", "tok/en-qxzv\n").env("KEY", "header-wkjy");
        let mut proxy = Proxy::spawn(command);
        proxy.initialize();
        proxy.write(&request("1", "tools/call", r#"{"a":1}"#));
        assert!(proxy.line().contains(r"tok\/en-qxzv"), "what crosses is not changed");
        proxy.end_input();
        assert!(proxy.wait().0.success());
        let (record, log) = (std::fs::read_to_string(record).unwrap(), std::fs::read_to_string(log).unwrap());
        let line = record.lines().find(|line| line.contains(r#""text":"#)).unwrap();
        let placeholders = line.matches("[secret]").count();
        assert_eq!(placeholders, 9, "{line}");
        for fragment in ["qxzv", "wkjy", "pass-word", r"\u00", "the-session"] {
            assert!(!record.contains(fragment) && !log.contains(fragment), "{fragment} in {record}{log}");
        }
        assert!(record.lines().all(is_json), "{record}");
    }
}

#[test]
fn a_server_that_repeats_the_credentials_puts_them_into_no_log() {
    let in_message = LoopbackServer::start(|request, connection| match PostedMessage::of(request) {
        Some(asked) => {
            let error = format!(r#"{{"code":-32001,"message":"no: {}"}}"#, request.header("authorization"));
            connection.json(format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, asked.id))
        }
        None => connection.reply("405 Method Not Allowed", &[], ""),
    });
    let in_challenge = LoopbackServer::start(|request, connection| {
        let challenge = format!("Bearer error=\"{}\"", request.header("authorization"));
        connection.reply("401 Unauthorized", &[("www-authenticate", &*challenge)], "")
    });
    for (server, text) in [(in_message, "no: Bearer [secret]"), (in_challenge, "error=\"Bearer [secret]\"")] {
        let url = server.url();
        let args = ["--log-level", "trace", "--bearer-env", "TOKEN", "-H", "X-Key: ab", &url];
        let mut command = command(&args);
        command.env("TOKEN", "tok/en-4711");
        let mut proxy = Proxy::spawn(command);
        proxy.write(&initialize("0", "2025-11-25"));
        let answer = proxy.line();
        assert!(answer.contains("4711"), "what crosses is not changed: {answer}");
        proxy.end_input();
        proxy.wait();
        let log = proxy.errors().join("\n");
        assert!(log.contains(text) && !log.contains("4711"), "{log}");
        let check = [&["--check"], &args[..]].concat();
        let (code, found, log) = run(&check, &[("TOKEN", "tok/en-4711")]);
        assert_eq!(code, Some(1), "{found}");
        assert!(found.contains(text) && !found.contains("4711") && !log.contains("4711"), "{found}{log}");
    }
}

fn is_json(line: &str) -> bool {
    mcp_proto::Json::parse(line.to_owned()).is_ok()
}

#[test]
fn a_record_that_a_secret_would_destroy_is_refused() {
    let folder = folder("short-secrets");
    for (args, text) in [
        (vec!["-H", "X-Key: ${ONE}"], "the value of the environment variable ONE has 1 characters"),
        (vec!["--bearer-env", "ONE"], "the value of the environment variable ONE has 1 characters"),
        (vec!["-H", "X-Key: 12345"], "the value of the header X-Key has 5 characters"),
        (vec!["-H", "Authorization: Bearer ab"], "the value of the header Authorization has 2 characters"),
        (vec!["--proxy", "http://user:pw@127.0.0.1:1"], "the value of the password of the HTTP proxy has 2 characters"),
        (vec!["-H", "X-Key: ${WORD}"], "is a word of the protocol"),
    ] {
        let record = folder.join("record.jsonl");
        let mut args = args.clone();
        let path = record.to_str().unwrap();
        args.extend(["--record", path, "http://server.invalid/mcp"]);
        let (code, _, message) = run(&args, &[("ONE", "o"), ("WORD", "jsonrpc")]);
        assert_eq!(code, Some(2), "{args:?}: {message}");
        assert!(message.contains("--record") && message.contains(text), "{args:?}: {message}");
        assert!(!record.exists());
    }
}

#[cfg(unix)]
#[test]
fn records_and_logs_are_private_and_follow_no_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let server = mcp_testkit::loopback_server::echo_server();
    let folder = folder("private-files");
    let mode = |name: &str| std::fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    std::fs::write(folder.join("old"), "what stood there before, and is longer than what comes".repeat(100)).unwrap();
    std::fs::set_permissions(folder.join("old"), std::fs::Permissions::from_mode(0o664)).unwrap();
    for record in ["new", "old"] {
        let log = format!("{record}.log");
        let mut proxy =
            Proxy::start(&["--record", &path(record), "--log-file", &path(&log), "--log-level", "info", &server.url()]);
        proxy.initialize();
        proxy.end_input();
        assert!(proxy.wait().0.success());
        assert_eq!((mode(record), mode(&log)), (0o600, 0o600), "{record}");
        let text = std::fs::read_to_string(folder.join(record)).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!text.contains("before") && !std::fs::read_to_string(folder.join(log)).unwrap().is_empty());
    }
    std::fs::write(folder.join("target"), "precious").unwrap();
    symlink(folder.join("target"), folder.join("link")).unwrap();
    symlink(folder.join("nowhere"), folder.join("dangling")).unwrap();
    for option in ["--record", "--log-file"] {
        for link in ["link", "dangling"] {
            let (code, _, message) = run(&[option, &path(link), &server.url()], &[]);
            assert_eq!(code, Some(2), "{message}");
            assert!(message.contains(option) && message.contains("is a symbolic link"), "{message}");
        }
    }
    assert_eq!(std::fs::read_to_string(folder.join("target")).unwrap(), "precious");
    assert!(!folder.join("nowhere").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_record_on_a_full_disk_warns_once() {
    let server = mcp_testkit::loopback_server::echo_server();
    let mut proxy = Proxy::start(&["--record", "/dev/full", &server.url()]);
    proxy.initialize();
    for id in 1..=20 {
        proxy.write(&request(&id.to_string(), "tools/call", "{}"));
        assert_eq!(proxy.line(), result(&id.to_string(), "{}"));
    }
    proxy.end_input();
    assert!(proxy.wait().0.success());
    let errors = proxy.errors();
    assert!(
        matches!(&errors[..], [one] if one.contains("--record: the record cannot be written, and ends here")),
        "{errors:?}"
    );
}

#[test]
fn check_is_bounded_whatever_the_server_does() {
    const STRAYS: usize = 20_000;
    let server = LoopbackServer::start(mcp_server(|asked, connection: &mut Connection| {
        if asked.method != "tools/list" {
            return connection.json(result(&asked.id, "{}"));
        }
        connection.begin_events()?;
        for round in 0..STRAYS / 100 {
            let events: String =
                (0..100).map(|id| event(&result(&format!("{}", 1000 + round * 100 + id), "{}"))).collect();
            connection.chunk(events)?;
        }
        connection.chunk(event(&result(&asked.id, r#"{"tools":[]}"#)))?;
        connection.finish()
    }));
    let (code, found, _) = run(&["--check", &server.url()], &[]);
    assert_eq!(code, Some(0), "{found}");
    assert!(found.len() < 30_000 && found.lines().count() < 80, "{} bytes", found.len());
    assert!(found.contains("more quirks and faults are not shown"), "{found}");
}

#[test]
fn what_has_no_glyph_reaches_neither_log_nor_check() {
    let name = r"safe\u202etxt.exe\u2028\u009b31m\u200b\udb40\udc41";
    let answer = format!(
        r#"{{"protocolVersion":"2025-11-25","capabilities":{{"{name}":{{}}}},"serverInfo":{{"name":"{name}","version":"1"}}}}"#
    );
    let server =
        LoopbackServer::start(move |request: &mcp_testkit::http1::HttpMessage, connection: &mut Connection| {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            if body.contains("server/discover") {
                return connection.reply("404 Not Found", &[], "");
            }
            if body.contains("\"initialize\"") {
                let id = body.split("\"id\":").nth(1).unwrap().split([',', '}']).next().unwrap().to_owned();
                return connection.json(result(&id, &answer));
            }
            connection.reply("202 Accepted", &[], "")
        });
    let (_, found, log) = run(&["--check", "--log-level", "trace", &server.url()], &[]);
    let shown = r"safe\u{202e}txt.exe\u{2028}\u{9b}31m\u{200b}\u{e0041}";
    assert_eq!(found.matches(shown).count(), 2, "{found}");
    let no_glyph = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{2028}\u{200b}\u{e0041}".contains(c);
    assert!(!found.contains(no_glyph) && !log.contains(no_glyph), "{found}{log}");
    // A refused message of the client is logged with its method.
    let mut proxy = Proxy::start(&["--log-level", "trace", &server.url()]);
    proxy.write(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}"}}"#));
    proxy.end_input();
    proxy.wait();
    let log = proxy.errors().join("\n");
    assert!(!log.contains(no_glyph), "{log}");
}

#[cfg(unix)]
#[test]
fn lines_that_are_no_messages_and_the_end_of_a_server_are_reported() {
    let noise = r#"printf 'Listening on port 3000 \342\200\256 %s\n{"secret-1": \n   ["secret-2"\n' 1234567890123456789012345678901234567890123456789012345678901234567890123; exec cat >/dev/null"#;
    let (code, found, _) = run(&["--check", "--request-timeout", "1", "--", "sh", "-c", noise], &[]);
    assert_eq!(code, Some(1), "{found}");
    let shown = r"fault: a line on the server's stdout is not a message: Listening on port 3000 \u{202e} 1234567890123456789012345678901234567890123456789012345… (";
    assert!(found.contains(shown), "{found}");
    // A line that begins like a message may contain a payload, so it is not shown.
    assert!(!found.contains("secret-") && found.contains("fault: not JSON at byte"), "{found}");
    assert!(found.contains("server:       sh (and 2 arguments, not shown because they may be secret)"), "{found}");

    let mut proxy = Proxy::start(&["--", "sh", "-c", "read line"]);
    proxy.write(&initialize("0", "2025-11-25"));
    proxy.line();
    let (status, _) = proxy.wait();
    assert_eq!(status.code(), Some(1));
    let errors = proxy.errors().join("\n");
    assert!(errors.contains("the server `sh` exited with code 0 before it answered initialize"), "{errors}");
    assert!(!errors.contains("the next request tries again"), "{errors}");
}

#[test]
fn a_legacy_server_with_protocol_modern_is_an_error_about_revisions() {
    let server = flawless_server();
    let (code, found, _) = run(&["--check", "--protocol", "modern", &server.url()], &[]);
    assert_eq!(code, Some(1));
    let text = "supports none of the revisions of MCP that this client may use (2026-07-28)";
    assert!(found.contains(text), "{found}");
}

#[test]
fn https_to_a_port_without_tls_is_explained_and_the_reverse() {
    for (scheme, answer, text) in [
        (
            "https",
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            "it does not use TLS; if it is a plain HTTP server, its URL begins with http://",
        ),
        (
            "http",
            &b"\x15\x03\x01\0\x02\x02\x46"[..],
            "it does not speak HTTP/1.1; if it is a TLS server, its URL begins with https://",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer);
            }
        });
        let (code, found, _) = run(&["--check", &format!("{scheme}://{address}/mcp")], &[]);
        assert_eq!(code, Some(1));
        assert!(found.contains(text), "{found}");
    }
}

#[test]
fn check_shows_challenges_and_where_a_redirect_leads() {
    let server = LoopbackServer::start(|_, connection| {
        connection.reply(
            "401 Unauthorized",
            &[("www-authenticate", "Bearer resource_metadata=\"https://a.example/x\"")],
            "",
        )
    });
    let (code, found, _) = run(&["--check", "--no-auth", &server.url()], &[]);
    assert_eq!(code, Some(1));
    assert!(found.contains("; its challenge is Bearer resource_metadata=\"https://a.example/x\"\n"), "{found}");
    let server = LoopbackServer::start(|_, connection| {
        connection.reply("307 Temporary Redirect", &[("location", "https://user:pw@b.example/mcp?key=secret")], "")
    });
    let (code, found, _) = run(&["--check", &server.url()], &[]);
    assert_eq!(code, Some(1));
    assert!(found.contains(" redirects to https://b.example/mcp, which is another origin"), "{found}");
}

#[cfg(unix)]
#[test]
fn a_record_whose_reader_does_not_keep_up_ends_and_the_proxy_goes_on() {
    let folder = folder("slow-record");
    let record = folder.join("record");
    assert!(std::process::Command::new("mkfifo").arg(&record).status().unwrap().success());
    // Opened for reading and writing, so that opening does not block. Nothing is read from it.
    let held = std::fs::OpenOptions::new().read(true).write(true).open(&record).unwrap();
    let server = mcp_testkit::loopback_server::echo_server();
    let mut proxy = Proxy::start(&["--record", record.to_str().unwrap(), &server.url()]);
    proxy.initialize();
    // More than a pipe holds.
    let much = format!("{{\"x\":\"{}\"}}", "x".repeat(1 << 20));
    for id in ["1", "2"] {
        proxy.write(&request(id, "tools/call", &much));
        assert!(proxy.line() == result(id, &much), "the answer to {id}");
    }
    proxy.end_input();
    assert!(proxy.wait().0.success());
    let errors = proxy.errors();
    assert!(
        matches!(&errors[..], [one] if one.ends_with("ends here: the reader of the pipe does not keep up")),
        "{errors:?}"
    );
    drop(held);
}
