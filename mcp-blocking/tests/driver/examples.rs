//! Tests the examples against each other.

use mcp_blocking::Client;
use mcp_model::{CallToolRequest, CallToolRequestParams};
use tests::examples::{Serving, check_tool_client, example};

#[test]
fn the_client_calls_the_servers_tool() {
    assert_eq!(Serving::start("server").called_by("client"), "revision 2026-07-28\nhello: Says hello.\nHello!\n");
}

#[test]
fn a_client_starts_the_server_over_stdio_and_calls_its_tool() {
    let client = Client::builder().child(example("stdio_server")).connect().unwrap();
    let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello")).unwrap();
    assert_eq!(called.content[0].as_text(), Some("Hello!"));
}

#[test]
fn the_client_of_tools_uses_everything_that_their_server_offers() {
    check_tool_client("blocking_tool_client", "blocking_tool_server");
}

#[test]
#[cfg(unix)]
fn a_server_over_stdio_waits_for_streams_that_are_not_ready() {
    tests::examples::check_non_blocking_streams("blocking_tool_server");
}

#[test]
fn each_line_of_json_texts_is_answered_and_the_next_one_is_served() {
    tests::json_over_the_wire::each_line_is_answered_and_the_next_one_is_served(example("stdio_server"));
}
