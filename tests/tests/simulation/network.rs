//! Machines in a simulated network, with plans from fixed seeds.

use std::path::Path;
use std::time::Duration;

use mcp_proto::ProtocolVersion;
use mcp_testkit::transcript;
use tests::seeded::{notices_each_defect, run_all};
use tests::simulation::{Moment, Networks, Plan, Topology, run};

/// The number of plans that takes less than twenty seconds on an idle machine.
const SEEDS: u64 = 300;

#[test]
fn b22_b3_b4_b5_every_call_ends_as_its_faults_allow_in_every_plan() {
    let sum = run_all::<Networks>(0..SEEDS);
    println!("{sum}");
    // A model that accepts everything would also accept a network in which nothing works.
    assert!(sum.results * 4 > sum.calls, "{} results of {} calls", sum.results, sum.calls);
    assert!(sum.changes > 1000, "{} changes delivered", sum.changes);
    // Time counts while a request is in flight.
    assert!(sum.busy > Duration::from_secs(3600), "{:?}", sum.busy);
    // Every kind of fault was injected.
    for fault in [
        "unreachable",
        "broken request",
        "lost head",
        "broken response",
        "short response",
        "silent response",
        "foreign id",
        "garbage",
        "stray event",
        "duplicate",
        "restart",
        "exit",
        "respawn",
        "leap",
        "slow reader",
        "intruder",
        "status 404",
        "status 429",
        "status 503",
    ] {
        assert!(sum.faults.get(fault).is_some_and(|count| *count > 0), "{fault}: {:?}", sum.faults);
    }
}

#[test]
fn each_broken_machine_is_noticed_by_its_invariant() {
    println!("{:?}", notices_each_defect::<Networks>(SEEDS));
}

#[test]
fn b22_the_same_seed_gives_the_same_run() {
    for seed in 0..50 {
        let plan = Plan::new(seed);
        assert_eq!(run(&plan), run(&plan), "seed {seed}");
    }
}

#[test]
fn in_a_calm_network_every_pair_that_can_be_joined_answers() {
    let eras: [&[ProtocolVersion]; 2] = [&[ProtocolVersion::V2025_11_25], &[ProtocolVersion::V2026_07_28]];
    for topology in [Topology::Stdio, Topology::Http, Topology::StdioRelay, Topology::HttpRelay] {
        for (client, server) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
            let (mut calls, mut results) = (0, 0);
            for seed in 0..60 {
                let mut plan = Plan { topology, client: eras[client], server: eras[server], ..Plan::new(seed) };
                plan.clients = if topology.is_http() { plan.clients } else { 1 };
                (plan.trouble, plan.malformed, plan.allowed) = (0, false, ProtocolVersion::ALL);
                plan.unwritten = 16 * 1024 * 1024;
                let clients = plan.clients;
                plan.moments.retain(|(_, moment)| match moment {
                    Moment::Call { client, .. } => *client < clients,
                    moment => matches!(moment, Moment::Publish),
                });
                // A long plan takes a while, and some calls wait for half a second only.
                plan.moments.truncate(40);
                let report = run(&plan);
                assert_eq!(report.faults.values().sum::<u64>() - report.faults.get("respawn").unwrap_or(&0), 0);
                calls += report.calls;
                results += report.results;
            }
            // One call in six is refused, some are never answered, some take too long, and some users refuse.
            let is_joined = client == server || topology.has_relay();
            let answers = if is_joined { results * 10 > calls * 4 } else { results == 0 };
            assert!(answers, "{topology:?} {client} {server}: {results} results of {calls} calls");
        }
    }
}

#[test]
fn the_first_plans_have_the_stored_transcripts() {
    let digests: Vec<_> = (0..100).map(|seed| transcript::digest(|| drop(run(&Plan::new(seed))))).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts/simulation");
    transcript::compare(&file, &digests, |position| {
        format!("cargo run -p tests --bin simulate -- --transcript {}", position - 1)
    });
}
