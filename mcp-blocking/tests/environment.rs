//! Tests of the HTTP proxy that the environment sets.

use std::io::Write;

use mcp_blocking::{Client, HttpOptions};
use tests::proxy_environment::{self, IS_DIRECT};

/// Does nothing, except in the processes that the next test starts: tries to reach a server.
#[test]
fn reach_a_server() {
    let Ok(is_direct) = std::env::var(IS_DIRECT) else { return };
    let mut options = HttpOptions::new();
    if is_direct == "true" {
        options.no_proxy();
    }
    let builder = Client::builder().http("http://server.invalid/mcp").unwrap().http_options(options);
    let error = builder.connect().unwrap_err();
    writeln!(std::io::stdout(), "found: {error}").unwrap();
}

#[test]
fn the_environment_sets_the_proxy_unless_it_is_not_to_be_used() {
    proxy_environment::check_when_it_is_used("reach_a_server");
}

/// Does nothing, except in the process that the next test starts: tries to reach a server by its Unix socket.
#[cfg(unix)]
#[test]
fn reach_a_server_by_its_socket() {
    let Ok(path) = std::env::var(proxy_environment::SOCKET) else { return };
    let builder = || {
        let mut options = HttpOptions::new();
        options.unix_socket(&path);
        Client::builder().http("http://localhost/mcp").unwrap().http_options(options)
    };
    assert!(builder().connect().is_err() && builder().server_card().is_err());
}

#[cfg(unix)]
#[test]
fn a_server_on_a_unix_socket_does_not_receive_the_password_of_the_proxy() {
    proxy_environment::check_password_on_a_socket("reach_a_server_by_its_socket");
}
