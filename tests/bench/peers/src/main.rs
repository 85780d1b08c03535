//! Compares `mcp-tokio` with rmcp: clients and servers in one process, in turns. `tests/bench/peers/run` builds and runs it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use peers_bench::load::{many_at_once, one_at_a_time};
use peers_bench::{Caller, HttpServer};
use tokio::runtime;

/// The number is odd, so that one round is the median.
const ROUNDS: usize = 9;

/// The target of a figure: whether more is better, and the ratio of `mcp-tokio` to rmcp that is required.
#[derive(Clone, Copy)]
enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// At most this much, independent of rmcp.
    Below(f64),
    None,
}

const RATE: Target = Target::AtLeast(1.5);
const COST: Target = Target::AtMost(0.5);
const SESSION: Target = Target::Below(2048.0);

/// The figures of one contender in one round.
#[derive(Clone, Copy, Default)]
struct Figures {
    /// Calls per second, one at a time.
    rate: f64,
    /// The median time of one call, in microseconds.
    median: f64,
    /// Calls per second, many at once.
    rate_at_once: f64,
    /// Processor time in microseconds per call, over calls one at a time and many at once.
    cpu: f64,
    cpu_at_once: f64,
}

fn main() {
    let is_single = std::env::args().skip(1).any(|argument| argument == "--current-thread");
    let mut builder =
        if is_single { runtime::Builder::new_current_thread() } else { runtime::Builder::new_multi_thread() };
    let runtime = if is_single { &mut builder } else { builder.worker_threads(2) };
    let runtime = runtime.enable_all().build().expect("a runtime");
    let heap = heap_figures();
    let mut heap = heap.iter().copied();
    println!("medians of {ROUNDS} rounds, client and server together\n");
    println!("{:<52}{:>10}{:>10}{:>8}  target", "", "mcp-tokio", "rmcp", "ratio");
    runtime.block_on(async {
        let in_memory = [Caller::mcp_tokio_in_memory().await, Caller::rmcp_in_memory().await];
        contest("in memory", &in_memory, 2_000, heap.next()).await;
        for (name, own, peer) in [
            ("HTTP, both with their defaults", HttpServer::McpTokio, HttpServer::Rmcp),
            ("HTTP, both in axum", HttpServer::McpTokioInAxum, HttpServer::Rmcp),
            ("HTTP, rmcp with JSON and no session", HttpServer::McpTokio, HttpServer::RmcpJson),
        ] {
            let over_http = [own.connect().await, peer.connect().await];
            contest(name, &over_http, 500, heap.next()).await;
        }
    });
    println!("idle sessions over HTTP");
    if let Some(bytes) = heap.next() {
        print("bytes of heap each", bytes, SESSION);
    }
}

/// The figures of `peers-heap`, which is in the same folder as this program.
fn heap_figures() -> Vec<[f64; 2]> {
    let program = std::env::current_exe().expect("a running program has a file");
    let counted = Command::new(program.with_file_name(Path::new("peers-heap"))).output().expect("it was built too");
    assert!(counted.status.success(), "{}", String::from_utf8_lossy(&counted.stderr));
    let line = |line: &str| {
        let (own, peer) = line.split_once(' ')?;
        Some([own.parse().ok()?, peer.parse().ok()?])
    };
    let text = String::from_utf8_lossy(&counted.stdout);
    text.lines().map(|figures| line(figures).expect("two figures")).collect()
}

async fn contest(name: &str, callers: &[Caller; 2], calls: u32, allocations: Option<[f64; 2]>) {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for caller in callers {
        round(caller, calls).await;
    }
    for _ in 0..ROUNDS {
        let [own, peer] = callers;
        rounds.push([round(own, calls).await, round(peer, calls).await]);
    }
    let medians = |figure: fn(&Figures) -> f64| {
        [0, 1].map(|contender| median(rounds.iter().filter_map(|round| round.get(contender)).map(figure).collect()))
    };
    println!("{name}");
    print("calls/s, one at a time", medians(|figures| figures.rate), RATE);
    print("median of a call, us", medians(|figures| figures.median), Target::None);
    print("calls/s, 64 at once", medians(|figures| figures.rate_at_once), RATE);
    print("CPU per call, us, one at a time", medians(|figures| figures.cpu), COST);
    print("CPU per call, us, 64 at once", medians(|figures| figures.cpu_at_once), COST);
    if let Some(allocations) = allocations {
        print("allocations per call", allocations, COST);
    }
}

async fn round(caller: &Caller, calls: u32) -> Figures {
    let calls_at_once = calls * 4;
    let (times, taken, cpu) = measured(one_at_a_time(caller, calls)).await;
    let ((), taken_at_once, cpu_at_once) = measured(many_at_once(caller, calls_at_once)).await;
    Figures {
        rate: f64::from(calls) / taken,
        median: median(times.iter().map(Duration::as_secs_f64).collect()) * 1e6,
        rate_at_once: f64::from(calls_at_once) / taken_at_once,
        cpu: cpu * 1e6 / f64::from(calls),
        cpu_at_once: cpu_at_once * 1e6 / f64::from(calls_at_once),
    }
}

/// The result of some work, and the seconds that it takes: elapsed time, and processor time.
async fn measured<T>(work: impl Future<Output = T>) -> (T, f64, f64) {
    let (start, before) = (Instant::now(), cpu_time());
    let outcome = work.await;
    (outcome, start.elapsed().as_secs_f64(), cpu_time().saturating_sub(before).as_secs_f64())
}

/// The processor time of all threads of this process.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock that every process has").into()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn print(name: &str, [own, peer]: [f64; 2], target: Target) {
    let ratio = own / peer;
    let (wanted, is_met) = match target {
        Target::AtLeast(least) => (format!(">= {least} x rmcp"), ratio >= least),
        Target::AtMost(most) => (format!("<= {most} x rmcp"), ratio <= most),
        Target::Below(most) => (format!("<= {most:.0}"), own <= most),
        Target::None => (String::new(), true),
    };
    let rating = if wanted.is_empty() {
        ""
    } else if is_met {
        "met"
    } else {
        "missed"
    };
    println!("  {name:<50}{:>10}{:>10}{ratio:>8.2}  {wanted:<15} {rating}", shown(own), shown(peer));
}

fn shown(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
