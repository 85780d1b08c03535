//! Tests of the HTTP proxy that the environment sets.

#![cfg(feature = "http-client")]

#[cfg(unix)]
use std::io::Read;
use std::io::Write;
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::process::Command;

use mcp_testkit::loopback_server::LoopbackServer;
use mcp_tokio::{Client, HttpOptions};

/// A variable of the processes in which the variables of the proxy are set: whether they are not to be used.
const IS_DIRECT: &str = "MCP_TEST_IS_DIRECT";

/// A variable of the process that reaches a server by its Unix socket: the path of the socket.
#[cfg(unix)]
const SOCKET: &str = "MCP_TEST_SOCKET";

/// Does nothing, except in the processes that the other test starts: tries to reach a server.
#[tokio::test]
async fn reach_a_server() {
    let Ok(is_direct) = std::env::var(IS_DIRECT) else { return };
    let mut options = HttpOptions::new();
    if is_direct == "true" {
        options.no_proxy();
    }
    let builder = Client::builder().http("http://server.invalid/mcp").unwrap().http_options(options);
    let error = builder.connect().await.unwrap_err();
    writeln!(std::io::stdout(), "found: {error}").unwrap();
}

#[test]
fn the_environment_sets_the_proxy_unless_it_is_not_to_be_used() {
    let proxy = LoopbackServer::start(|_, connection| {
        connection.close();
        connection.reply("502 Bad Gateway", &[], "")
    });
    let url = format!("http://{}", proxy.authority);
    for (is_direct, excepted, is_used) in [
        (false, "", true),
        (true, "", false),
        (false, "server.invalid", false),
        (false, "invalid", false),
        (false, "other.invalid, server.invalid:80", false),
        (false, "server.invalid:81", true),
        (false, "10.0.0.0/8 other.invalid", true),
        (false, "*", false),
    ] {
        let before = proxy.requests().len();
        let mut process = Command::new(std::env::current_exe().unwrap());
        for name in ["no_proxy", "ALL_PROXY", "all_proxy", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
            process.env_remove(name);
        }
        process.args(["--exact", "reach_a_server", "--nocapture"]);
        process.env("HTTP_PROXY", &url).env("NO_PROXY", excepted).env(IS_DIRECT, is_direct.to_string());
        let output = tests::deadline::output_of(&mut process);
        let found = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && found.contains("found: "), "{found}");
        assert_eq!(proxy.requests().len() > before, is_used, "{is_direct} {excepted:?}: {found}");
    }
}

/// Does nothing, except in the process that the other test starts: tries to reach a server by its Unix socket.
#[cfg(unix)]
#[tokio::test]
async fn reach_a_server_by_its_socket() {
    let Ok(path) = std::env::var(SOCKET) else { return };
    let builder = || {
        let mut options = HttpOptions::new();
        options.unix_socket(&path);
        Client::builder().http("http://localhost/mcp").unwrap().http_options(options)
    };
    assert!(builder().connect().await.is_err() && builder().server_card().await.is_err());
}

#[cfg(unix)]
#[test]
fn a_server_on_a_unix_socket_does_not_receive_the_password_of_the_proxy() {
    let folder = std::env::temp_dir().join(format!("mcp-tokio-environment-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let received = std::thread::spawn(move || {
        let mut all = String::new();
        while !(all.contains("POST ") && all.contains("GET ")) {
            let mut request = [0; 4096];
            let length = listener.accept().unwrap().0.read(&mut request).unwrap();
            all.push_str(&String::from_utf8_lossy(&request[..length]));
        }
        all
    });
    let mut process = Command::new(std::env::current_exe().unwrap());
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        process.env(name, "http://user:secret@127.0.0.1:9");
    }
    for name in ["NO_PROXY", "no_proxy"] {
        process.env_remove(name);
    }
    process.args(["--exact", "reach_a_server_by_its_socket", "--nocapture"]).env(SOCKET, &path);
    let output = tests::deadline::output_of(&mut process);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let received = received.join().unwrap().to_lowercase();
    std::fs::remove_dir_all(folder).unwrap();
    assert!(!received.contains("proxy-authorization"), "{received}");
}
