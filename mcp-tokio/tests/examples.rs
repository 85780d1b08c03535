//! The examples, run against each other.

use tests::examples::Serving;

#[test]
fn the_client_calls_the_tool_of_either_server() {
    for server in ["tokio_server", "axum_server"] {
        let output = Serving::start(server).called_by("tokio_client");
        assert_eq!(output, "revision 2026-07-28\nhello: Says hello.\nHello!\n", "{server}");
    }
}
