//! Tests of the HTTP proxy that the environment sets.

#![cfg(feature = "http-client")]

use std::io::Write;
use std::process::Command;

use mcp_testkit::loopback_server::LoopbackServer;
use mcp_tokio::{Client, HttpOptions};

/// A variable of the processes in which the variables of the proxy are set: whether they are not to be used.
const IS_DIRECT: &str = "MCP_TEST_IS_DIRECT";

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
