//! How much stack the machines use.

use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::messages::{event, request};

/// The drivers run machines on threads with small stacks: 256 KiB in `mcp-blocking`.
const STACK: usize = 256 * 1024;

#[test]
fn rp10_requests_of_a_server_in_one_chunk_take_no_stack_each() {
    let run = || {
        let mut harness = HttpClientHarness::connected_client();
        let (_, opened) = harness.request("tools/list");
        harness.begin(opened.key, &Reply::events(""));
        let asked = event(&request("1", "ping", "{}"));
        harness.send(opened.key, asked.repeat((1 << 20) / asked.len()).as_bytes());
    };
    std::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread").join().expect("it ends");
}
