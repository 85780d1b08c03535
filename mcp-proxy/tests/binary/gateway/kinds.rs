//! The kinds of servers, of sockets and of transports.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use mcp_blocking::{Client, Incoming, Server};
use mcp_proto::Json;
use mcp_proto::client::HttpTransport;
use mcp_proto::server::{Config, HttpConfig};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::loopback_server::LoopbackServer;
use mcp_testkit::messages::request;
use mcp_testkit::raw_client::{RawClient, text};
use mcp_testkit::waiting::{LONG, wait_until};
use tests::ending_servers::runs;
use tests::installed::is_installed;
use tests::reverse_proxy::{ReverseProxy, ReverseProxyKind};

use super::serving::{Asks, SERVER, Serving, before, folder, gateway, member, script};
use crate::editor::{Proxy, command};
use crate::running::Running;

/// Prometheus itself finds no fault with the page.
fn check_with_promtool(metrics: &str) {
    if !is_installed("promtool") {
        return;
    }
    let mut promtool = Command::new("promtool");
    let promtool =
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().expect("it is installed");
    promtool.stdin.take().expect("a pipe").write_all(metrics.as_bytes()).expect("it reads");
    let found = promtool.wait_with_output().expect("it ends");
    let found =
        (found.status.success(), String::from_utf8_lossy(&found.stdout), String::from_utf8_lossy(&found.stderr));
    assert_eq!((found.0, &*found.1, &*found.2), (true, "", ""));
}

#[test]
fn several_servers_have_a_path_each() {
    let script = script(&folder("several"));
    let one = format!("one=sh '{script}'");
    let two = format!("two=sh \"{script}\"");
    let serving = Serving::spawn(gateway(&["--health", "--metrics", "--sse", "--name", &one, "--name", &two]));
    assert!(serving.announced.contains("/one/mcp serves the server one (`sh`)"), "{}", serving.announced);
    let sessions = ["/one/mcp", "/two/mcp"].map(|path| serving.open(Asks::at(path)).unwrap());
    assert_ne!(sessions[0].pid(), sessions[1].pid());
    // A session is that of one server.
    let other = TestRequest::post(request("1", "pid", "{}")).at("/two/mcp").in_session(&sessions[0].id);
    assert_eq!(serving.raw.answer(&other).code(), 404);
    let unknown = serving.raw.answer(&TestRequest::post(initialize("2025-11-25")).at("/three/mcp"));
    assert_eq!(unknown.code(), 404);
    let paths = "/mcp, /messages, /one/mcp, /one/messages, /one/sse, /sse, /two/mcp, /two/messages, /two/sse";
    assert!(unknown.text().contains(paths), "{}", unknown.text());
    let metrics = serving.page("/metrics");
    for line in [
        r#"mcp_proxy_sessions{server="one"} 1"#,
        r#"mcp_proxy_backends_started_total{server="two"} 1"#,
        r#"mcp_proxy_refusals_total{server="two",status="404"} 1"#,
        "# TYPE mcp_proxy_sent_bytes_total counter",
        r#"mcp_server_operation_duration_seconds_count{server="one",mcp_method_name="initialize",target="",outcome="result"} 1"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    assert!(!metrics.contains(&sessions[0].id));
    check_with_promtool(&metrics);
    assert_eq!(serving.load(), (2, 2));
}

#[test]
fn one_endpoint_has_the_tools_of_all_servers() {
    let folder = folder("all");
    let tools = r#"*'"tools/list"'*) result='{"tools":[{"name":"pid","inputSchema":{}},{"name":"danger","inputSchema":{}}]}' ;;
        *'"wait"'*)"#;
    let capable =
        SERVER.replace(r#"*'"wait"'*)"#, tools).replace(r#""capabilities":{}"#, r#""capabilities":{"tools":{}}"#);
    let path = folder.join("tools.sh");
    std::fs::write(&path, capable).unwrap();
    let [one, two] = ["one", "two"].map(|name| format!("{name}=sh '{}'", path.display()));
    let options = ["--health", "--deny-tool", "dang*", "--name", &one, "--name", &two];
    let serving = Serving::spawn(gateway(&options));
    let session = serving.session();
    let call = |name: &str| {
        session.send(&request("3", "tools/call", &format!(r#"{{"name":"{name}","arguments":{{}}}}"#))).text()
    };
    let listed = session.call("tools/list");
    for (name, is_there) in [("one__pid", true), ("two__pid", true), ("danger", false)] {
        assert_eq!(listed.contains(name), is_there, "{listed}");
    }
    let pids = ["one__pid", "two__pid"].map(|name| member(&call(name), "pid").parse().unwrap());
    assert!(pids[0] != pids[1] && pids.iter().all(|pid| runs(*pid)));
    assert!(call("one__danger").contains("error"));
    assert!(call("three__pid").contains("error"));
    session.delete();
    wait_until(|| pids.iter().all(|pid| !runs(*pid)));
    // A signal ends the processes of a session that is open.
    let session = serving.session();
    let answer = session.send(&request("3", "tools/call", r#"{"name":"one__pid","arguments":{}}"#)).text();
    let pid: u32 = member(&answer, "pid").parse().unwrap();
    assert_eq!(serving.end("INT").0, Some(0));
    assert!(!runs(pid));
}

#[test]
fn a_file_of_an_editor_is_served_commands_and_remote_servers_alike() {
    let folder = folder("config");
    let remote = Running::new();
    let text = format!(
        r#"{{"mcpServers":{{
            "files":{{"command":"sh","args":["{}"],"env":{{"SETTING":"${{WHAT}}"}},"cwd":"/","colour":"red"}},
            "remote":{{"type":"http","url":"{}","headers":{{"X-Key":"some-key"}}}},
            "off":{{"command":"x","disabled":true}}
        }}}}"#,
        script(&folder),
        remote.url
    );
    let path = folder.join("servers.json");
    std::fs::write(&path, text).unwrap();
    let record = folder.join("record.jsonl");
    let (path, recorded) = (path.to_str().unwrap(), record.to_str().unwrap());
    let mut command = gateway(&["--health", "--config", path, "--record", recorded, "--env", "SETTING=less"]);
    command.env("WHAT", "from the environment");
    let serving = Serving::spawn_after_warnings(command);
    let open = |path| serving.open(Asks::at(path)).unwrap();
    let (files, far) = (open("/files/mcp"), open("/remote/mcp"));
    let answer = files.call("pid");
    assert_eq!(["folder", "setting"].map(|name| member(&answer, name)), ["/", "from the environment"]);
    let echoed = far.send(&request("5", "echo", r#"{"f":1.0,"text":"far"}"#));
    assert_eq!(echoed.text(), r#"{"jsonrpc":"2.0","id":5,"result":{"f":1.0,"text":"far"}}"#);
    let counted = far.send(&request("6", "count", r#"{"_meta":{"progressToken":"p"}}"#)).data();
    assert_eq!(counted.iter().filter(|event| event.contains("notifications/progress")).count(), 3, "{counted:?}");
    assert_eq!(serving.load(), (2, 2));
    far.delete();
    serving.wait_for_load((1, 1));
    let (code, errors) = serving.end("INT");
    assert_eq!(code, Some(0), "{errors}");
    let record = std::fs::read_to_string(record).unwrap();
    let is_recorded = |parts: [&str; 3]| record.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(is_recorded([r#""server":"files","process":1"#, "client-to-server", r#""method":"pid""#]), "{record}");
    assert!(is_recorded([r#""server":"remote","process":1"#, "server-to-client", r#""text":"far""#]), "{record}");
    assert!(record.contains(r#""setting":"[secret]""#) && !record.contains("from the environment"), "{record}");
}

#[test]
fn a_remote_server_that_is_not_there_is_an_error_for_its_clients_only() {
    let folder = folder("not-there");
    let remote = RawClient::free();
    let text = format!(
        r#"{{"mcpServers":{{"far":{{"url":"http://{}/mcp"}},"near":{{"command":"sh","args":["{}"]}}}}}}"#,
        remote.address(),
        script(&folder)
    );
    let path = folder.join("servers.json");
    std::fs::write(&path, text).unwrap();
    let serving = Serving::spawn(gateway(&["--health", "--config", path.to_str().unwrap()]));
    let refused = serving.open(Asks::at("/far/mcp")).err().unwrap();
    assert!(refused.contains(r#""error":"#), "{refused}");
    let session = serving.open(Asks::at("/near/mcp")).unwrap();
    assert!(session.pid() > 0);
    assert_eq!(serving.end("TERM").0, Some(0));
}

#[test]
fn oa_t_06_no_sign_in_is_begun_at_a_remote_server_with_credentials_or_where_none_is_wanted() {
    let path = folder("remote-401").join("servers.json");
    for (headers, options, signs_in) in
        [("{}", &[][..], true), ("{}", &["--no-auth"], false), (r#"{"Authorization":"Basic eA=="}"#, &[], false)]
    {
        let remote = LoopbackServer::start(|_, connection| connection.reply("401 Unauthorized", &[], ""));
        let server = format!(r#"{{"url":"{}","headers":{headers}}}"#, remote.url());
        std::fs::write(&path, format!(r#"{{"mcpServers":{{"far":{server}}}}}"#)).unwrap();
        let serving = Serving::spawn(gateway(&[options, &["--config", path.to_str().unwrap()]].concat()));
        let refused = serving.open(Asks::at("/far/mcp")).err().unwrap();
        assert!(refused.contains(r#""error":"#), "{refused}");
        let is_begun = remote.requests().iter().any(|request| request.line.contains("/.well-known/"));
        assert_eq!(is_begun, signs_in, "{headers} {options:?} {refused}");
        serving.end("TERM");
    }
}

/// mcp-proxy of `PyPI` #75 and #149: a gateway stayed broken after a remote server was started again.
#[test]
fn a_remote_server_that_was_started_again_is_used_again() {
    let remote = Running::new();
    let (address, url) = (remote.address.clone(), remote.url.clone());
    let path = folder("restarted").join("servers.json");
    std::fs::write(&path, format!(r#"{{"mcpServers":{{"far":{{"url":"{url}"}}}}}}"#)).unwrap();
    let serving = Serving::spawn(gateway(&["--health", "--config", path.to_str().unwrap()]));
    let session = serving.open(Asks::at("/far/mcp")).unwrap();
    let echo = || session.send(&request("5", "echo", r#"{"text":"far"}"#)).text();
    let expected = r#"{"jsonrpc":"2.0","id":5,"result":{"text":"far"}}"#;
    assert_eq!(echo(), expected);
    drop(remote);
    assert!(echo().contains(r#""error":"#), "it is down");
    let service = Server::new(Config::new("test", "1"), |_: &Incoming| Ok(Json::parse(r#"{"text":"far"}"#).unwrap()));
    let _remote = Running::at(&address, service.http(HttpConfig::new()).unwrap());
    wait_until(|| echo() == expected);
    assert_eq!(serving.end("TERM").0, Some(0));
}

/// Sends a request on a Unix socket.
fn answer(path: &std::path::Path, asked: &TestRequest) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(&text(asked)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_unix_socket_is_for_its_owner_and_there_is_one_gateway_on_it() {
    let path = folder("unix").join("mcp.sock");
    // A program that was killed has left it.
    drop(UnixListener::bind(&path).unwrap());
    let listen = format!("unix:{}", path.display());
    let start = || {
        let mut gateway = command(&["serve", "--listen", &listen, "--", "sh", "-c", SERVER]);
        gateway.stdin(Stdio::null());
        gateway
    };
    let mut proxy = Proxy::spawn(start());
    let announced = proxy.error();
    assert!(announced.contains("http://localhost/mcp on the socket "), "{announced}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let opening = TestRequest::post(initialize("2025-11-25"));
    let opened = answer(&path, &opening);
    assert!(opened.starts_with("HTTP/1.1 200 OK\r\n") && opened.contains("mcp-session-id: "), "{opened}");
    let foreign = answer(&path, &opening.clone().with("host", "evil.example"));
    assert!(foreign.starts_with("HTTP/1.1 403 "), "{foreign}");
    let output = tests::deadline::output_of(&mut start());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("a program accepts connections on it"), "{message}");
    assert!(answer(&path, &opening).starts_with("HTTP/1.1 200 OK\r\n"));
    proxy.signal("TERM");
    assert_eq!(proxy.wait().0.code(), Some(0));
    assert!(!path.exists());
    assert_eq!(proxy.errors(), [] as [&str; 0]);
}

#[test]
fn a_listening_socket_can_be_passed_as_stdin() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap().to_string();
    let path = folder("stdin").join("mcp.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let opening = TestRequest::post(initialize("2025-11-25"));
    let ask_tcp = || RawClient::new(&address).answer(&opening).headers.contains_key("mcp-session-id");
    let ask_unix = || answer(&path, &opening).contains("mcp-session-id: ");
    let sockets: [(OwnedFd, &dyn Fn() -> bool); 2] = [(tcp.into(), &ask_tcp), (unix.into(), &ask_unix)];
    for (socket, is_served) in sockets {
        let mut gateway = command(&["serve", "--listen", "stdin", "--", "sh", "-c", SERVER]);
        let mut child = gateway.stdin(socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Only the gateway has the socket from now on. A connection waits until it accepts.
        drop(gateway);
        let is_served = is_served();
        Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(is_served);
        assert!(child.wait().unwrap().success());
    }
    assert!(path.exists(), "it belongs to the service manager");
}

#[test]
fn the_older_transport_is_served_beside_the_newer_one() {
    let serving = Serving::spawn(before(&["--sse"], SERVER));
    assert!(serving.announced.ends_with("and the older transport beside it"), "{}", serving.announced);
    let mut stream = serving.raw.open(&TestRequest::get().at("/sse"));
    let endpoint = stream.events(1).remove(0);
    assert!(endpoint.starts_with("/messages?"), "{endpoint}");
    let send = |body: String| serving.raw.answer(&TestRequest::post(body).at(&endpoint)).code();
    assert_eq!(send(initialize("2024-11-05")), 202);
    assert!(
        stream.events(2)[1].contains(r#""protocolVersion":"2025-11-25""#) || stream.events(2)[1].contains("2024-11-05")
    );
    assert_eq!(send(request("2", "pid", "{}")), 202);
    assert!(stream.events(3)[2].contains(r#""id":2,"result":{"pid":"#));
}

#[test]
fn a_gateway_is_reached_below_a_path_of_a_reverse_proxy() {
    let place = RawClient::free();
    let public = format!("http://{}/v1", place.address());
    let serving = Serving::start(&["--sse", "--public-url", &public]);
    for kind in ReverseProxyKind::ALL {
        let at = RawClient::new(place.address());
        let Some(proxy) = ReverseProxy::start(kind, at, serving.raw.address(), "/v1") else { continue };
        for (url, transport) in [
            (format!("{public}/mcp"), HttpTransport::StreamableHttp),
            (format!("{public}/sse"), HttpTransport::HttpSse),
        ] {
            let client = Client::builder().versions(legacy_versions()).http(&url).unwrap();
            let client = client.configure_http(|http| http.transport = transport).connect().unwrap();
            let answer = client.request("pid", None).unwrap();
            assert!(answer.first_member("pid").is_some(), "{url}");
        }
        drop(proxy);
    }
}
