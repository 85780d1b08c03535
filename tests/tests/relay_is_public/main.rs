//! The relay and the gateway use public paths only: they compile as parts of another crate, as a gateway of another author
//! would be. The modules here are links to their source.

#[allow(dead_code, unreachable_pub, unused_imports, reason = "it is a module of a library")]
mod gateway;
#[allow(dead_code, unreachable_pub, unused_imports, reason = "it is a module of a library")]
mod relay;

use mcp_proto::client::{Http, HttpAction, HttpConfig};
use mcp_proto::{Instant, Output};

#[test]
fn a_relay_of_another_crate_forwards_the_first_line_unchanged() {
    let http = Http::new(HttpConfig::new("https://example.com/mcp").expect("a URL"));
    let mut relay = relay::Relay::new(http, relay::Config::default()).expect("a configuration");
    let params = r#"{"protocolVersion":"2025-06-18","mine":1.0}"#;
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"initialize\",\"params\":{params}}}\n");
    relay.handle_bytes(line.as_bytes(), Instant::START);
    let Some(Output::Action(relay::Action::Server(HttpAction::Open { request, .. }))) = relay.poll_output() else {
        panic!("the first output is a request")
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
    assert_eq!(request.body(), &body);
}
