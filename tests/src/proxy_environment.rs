//! The HTTP proxy that the environment sets, for tests of every driver. Variables are set in processes that run one test of the
//! program which calls this.

#[cfg(unix)]
use std::io::{Read, Write};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use mcp_testkit::loopback_server::LoopbackServer;

use crate::deadline;

/// A variable of the processes that are to reach `http://server.invalid/mcp`: whether the proxy is not to be used.
pub const IS_DIRECT: &str = "MCP_TEST_IS_DIRECT";

/// A variable of the process that is to reach a server by its Unix socket: the path of the socket.
pub const SOCKET: &str = "MCP_TEST_SOCKET";

/// What follows the requests of the process.
#[cfg(unix)]
const END: &str = "end";

const VARIABLES: [&str; 8] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"];

/// A process that runs one test of this program, without variables for a proxy.
fn process_of(test: &str) -> Command {
    let mut process = Command::new(std::env::current_exe().expect("a program"));
    for name in VARIABLES {
        process.env_remove(name);
    }
    process.args(["--exact", test, "--nocapture"]);
    process
}

/// Checks that the proxy is used unless it is not to be. `test` tries to reach the server if [`IS_DIRECT`] is set, and prints what
/// it has found after `found: `.
///
/// # Panics
///
/// The proxy is used although it is not to be, or not used although it is to be.
pub fn check_when_it_is_used(test: &str) {
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
        let mut process = process_of(test);
        process.env("HTTP_PROXY", &url).env("NO_PROXY", excepted).env(IS_DIRECT, is_direct.to_string());
        let output = deadline::output_of(&mut process);
        let found = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && found.contains("found: "), "{found}");
        assert_eq!(proxy.requests().len() > before, is_used, "{is_direct} {excepted:?}: {found}");
    }
}

/// Checks that a server on a Unix socket does not receive the password of the proxy. If [`SOCKET`] is set, `test` tries to connect
/// to the server, and to read its card.
///
/// # Panics
///
/// The server receives it.
#[cfg(unix)]
pub fn check_password_on_a_socket(test: &str) {
    let folder = std::env::temp_dir().join(format!("mcp-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("s");
    let listener = UnixListener::bind(&path).expect("a socket");
    let received = std::thread::spawn(move || {
        let mut all = String::new();
        while !all.ends_with(END) {
            let mut request = [0; 4096];
            let (mut stream, _) = listener.accept().expect("a connection");
            let length = stream.read(&mut request).expect("a request");
            all.push_str(&String::from_utf8_lossy(request.get(..length).unwrap_or_default()));
        }
        all
    });
    let mut process = process_of(test);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        process.env(name, "http://user:secret@127.0.0.1:9");
    }
    let output = deadline::output_of(process.env(SOCKET, &path));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    UnixStream::connect(&path).and_then(|mut stream| stream.write_all(END.as_bytes())).expect("a connection");
    let received = received.join().expect("requests").to_lowercase();
    std::fs::remove_dir_all(folder).expect("it is removed");
    assert!(received.contains("post /mcp ") && received.contains("get /mcp/server-card "), "{received}");
    assert!(!received.contains("proxy-authorization"), "{received}");
}
