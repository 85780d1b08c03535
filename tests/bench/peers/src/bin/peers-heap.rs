//! The cost of calls and idle sessions in allocations and bytes of heap.
//!
//! This is a separate program because counting costs time, and more time for a library that allocates more. Each line
//! of its output is a figure of `mcp-tokio` and one of rmcp.

use std::alloc::System;

use mcp_proto::ProtocolVersion;
use peers_bench::load::one_at_a_time;
use peers_bench::{Caller, HttpServer};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CALLS: u32 = 2_000;
const SESSIONS: u32 = 2_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let in_memory = [Caller::mcp_tokio_in_memory().await, Caller::rmcp_in_memory().await];
        print(allocations(&in_memory).await);
        for (own, peer) in [
            (HttpServer::McpTokio, HttpServer::Rmcp),
            (HttpServer::McpTokioInAxum, HttpServer::Rmcp),
            (HttpServer::McpTokio, HttpServer::RmcpJson),
        ] {
            let over_http = [own.connect().await, peer.connect().await];
            print(allocations(&over_http).await);
        }
        print([bytes_per_session(HttpServer::McpTokio).await, bytes_per_session(HttpServer::Rmcp).await]);
    });
}

fn print([own, peer]: [f64; 2]) {
    println!("{own} {peer}");
}

/// The allocations of each library per call: new and grown ones, of client and server together.
async fn allocations(callers: &[Caller; 2]) -> [f64; 2] {
    let mut counts = [0.0; 2];
    for (caller, count) in callers.iter().zip(&mut counts) {
        one_at_a_time(caller, CALLS).await;
        let before = ALLOCATOR.stats();
        one_at_a_time(caller, CALLS).await;
        let stats = ALLOCATOR.stats() - before;
        *count = float(stats.allocations + stats.reallocations) / f64::from(CALLS);
    }
    counts
}

/// The bytes of heap that an idle session takes after its client has opened and confirmed it.
async fn bytes_per_session(server: HttpServer) -> f64 {
    let (url, client) = (server.start().await, reqwest::Client::new());
    open(&client, &url).await;
    let before = bytes_in_use();
    for _ in 0..SESSIONS {
        open(&client, &url).await;
    }
    float(bytes_in_use() - before) / f64::from(SESSIONS)
}

fn bytes_in_use() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Opens a session without a client that would keep memory of its own for it.
async fn open(client: &reqwest::Client, url: &str) {
    let version = ProtocolVersion::V2025_11_25.as_str();
    let post = |body: String| {
        let post = client.post(url).header(ACCEPT, "application/json, text/event-stream");
        post.header(CONTENT_TYPE, "application/json").body(body)
    };
    let opening = post(format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"bench","version":"1"}}}}}}"#
    ));
    let opened = opening.send().await.expect("an answer");
    let session = opened.headers().get("mcp-session-id").expect("a session").clone();
    opened.bytes().await.expect("a whole answer");
    let confirming = post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned());
    let confirming = confirming.header("mcp-session-id", session).header("mcp-protocol-version", version);
    let confirmed = confirming.send().await.expect("an answer").error_for_status().expect("a session that is known");
    confirmed.bytes().await.expect("a whole answer");
}

/// Counts and sizes here are far below the integers that an `f64` represents exactly.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn float(count: usize) -> f64 {
    count as f64
}
