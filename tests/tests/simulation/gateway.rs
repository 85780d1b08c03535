//! Clients and processes of a gateway that act in random order, from fixed seeds.

use std::path::Path;

use mcp_intermediary::gateway::Sharing;
use mcp_testkit::transcript;
use tests::gateway_simulation::{Gateways, Report, sharing};
use tests::seeded::{Run, attempt, notices_each_defect, run_all};

/// The number of runs, which take a few seconds. One third is with each sharing.
const SEEDS: u64 = 450;

#[test]
fn nothing_of_a_session_reaches_another_and_each_call_has_one_outcome() {
    for kind in [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared] {
        let sum = run_all::<Gateways>((0..SEEDS).filter(|seed| sharing(*seed) == kind));
        println!("{kind:?}: {sum}");
        // A gateway in which nothing works would keep the invariants too.
        let Report { starts, results, errors, exits, asked, notified, late, continued, stolen, reloads, denied } = sum;
        let runs = usize::try_from(SEEDS / 3).unwrap();
        assert!(starts > runs && results > 3 * runs && errors > runs, "{starts}, {results}, {errors}");
        assert!(exits > runs && asked > runs && notified > runs, "{exits}, {asked}, {notified}");
        assert!(reloads > runs && denied > runs, "{reloads}, {denied}");
        if kind != Sharing::PerSession {
            assert!(late > runs, "{late}");
            assert!(continued > runs / 8 && stolen > runs / 8, "{continued}, {stolen}");
        }
    }
}

#[test]
fn each_broken_gateway_is_noticed_by_its_invariant() {
    println!("{:?}", notices_each_defect::<Gateways>(SEEDS));
}

#[test]
fn b22_the_same_seed_gives_the_same_run() {
    for seed in 0..9 {
        assert_eq!(attempt::<Gateways>(Run::new(seed)), attempt::<Gateways>(Run::new(seed)), "seed {seed}");
    }
}

#[test]
fn the_first_runs_have_the_stored_transcripts() {
    let digests: Vec<_> =
        (0..60).map(|seed| transcript::digest(|| drop(attempt::<Gateways>(Run::new(seed))))).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts/gateway_simulation");
    transcript::compare(&file, &digests, |position| {
        format!("cargo run -p tests --bin simulate -- --gateway --transcript {}", position - 1)
    });
}
