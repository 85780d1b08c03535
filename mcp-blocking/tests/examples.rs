//! Tests the examples against each other.

use tests::examples::Serving;

#[test]
fn the_client_calls_the_servers_tool() {
    assert_eq!(Serving::start("server").called_by("client"), "revision 2026-07-28\nhello: Says hello.\nHello!\n");
}
