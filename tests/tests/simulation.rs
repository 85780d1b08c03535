//! Machines in a simulated network: plans of fixed seeds.

use mcp_proto::ProtocolVersion;
use tests::simulation::{Moment, Plan, Topology, run};

/// As many as take well under two minutes.
const SEEDS: u64 = 1500;

#[test]
fn b22_every_invariant_holds_in_every_plan() {
    let (mut calls, mut results) = (0, 0);
    for seed in 0..SEEDS {
        let plan = Plan::new(seed);
        let report = std::panic::catch_unwind(|| run(&plan, None));
        let report =
            report.unwrap_or_else(|_| panic!("seed {seed}: cargo run -p tests --bin simulate -- --seed {seed}"));
        calls += report.calls;
        results += report.results;
    }
    assert!(results * 4 > calls, "{results} results of {calls} calls");
}

#[test]
fn b22_the_same_seed_gives_the_same_run() {
    for seed in 0..50 {
        let plan = Plan::new(seed);
        assert_eq!(run(&plan, None), run(&plan, None), "seed {seed}");
    }
}

#[test]
fn in_a_calm_network_whatever_is_joined_answers() {
    let eras: [&[ProtocolVersion]; 2] = [&[ProtocolVersion::V2025_11_25], &[ProtocolVersion::V2026_07_28]];
    for topology in [Topology::Stdio, Topology::Http, Topology::StdioRelay, Topology::HttpRelay] {
        let is_joined = matches!(topology, Topology::StdioRelay | Topology::HttpRelay);
        for (client, server) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
            let (mut calls, mut results) = (0, 0);
            for seed in 0..60 {
                let mut plan = Plan { topology, client: eras[client], server: eras[server], ..Plan::new(seed) };
                (plan.trouble, plan.allowed) = (0, &ProtocolVersion::ALL);
                plan.moments.retain(|(_, moment)| matches!(moment, Moment::Call { .. } | Moment::Publish));
                // A flood takes a while, and some wait half a second only.
                plan.moments.truncate(40);
                let report = run(&plan, None);
                calls += report.calls;
                results += report.results;
            }
            // One in six is refused, some are never answered, some take too long, and some users refuse.
            let answers = if client == server || is_joined { results * 10 > calls * 4 } else { results == 0 };
            assert!(answers, "{topology:?} {client} {server}: {results} results of {calls} calls");
        }
    }
}
