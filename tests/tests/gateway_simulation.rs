//! Clients and processes of a gateway that act in random order, from fixed seeds.

use mcp_proto::gateway::Sharing;
use tests::gateway_simulation::{Report, run};

/// The number of runs with each sharing, which take a few seconds.
const SEEDS: u64 = 150;

#[test]
fn nothing_of_a_session_reaches_another_and_each_call_has_one_outcome() {
    for sharing in [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared] {
        let mut sum = Report::default();
        for seed in 0..SEEDS {
            let report = std::panic::catch_unwind(|| run(seed, sharing));
            sum.add(&report.unwrap_or_else(|_| panic!("seed {seed}, {sharing:?}")));
        }
        println!("{sharing:?}: {sum}");
        // A gateway in which nothing works would keep the invariants too.
        let Report { starts, results, errors, exits, asked, notified, late, continued, stolen } = sum;
        let runs = usize::try_from(SEEDS).unwrap();
        assert!(starts > runs && results > 3 * runs && errors > runs, "{starts}, {results}, {errors}");
        assert!(exits > runs && asked > runs && notified > runs, "{exits}, {asked}, {notified}");
        if sharing != Sharing::PerSession {
            assert!(late > runs, "{late}");
            assert!(continued > runs / 8 && stolen > runs / 8, "{continued}, {stolen}");
        }
    }
}

#[test]
fn b22_the_same_seed_gives_the_same_run() {
    for seed in 0..5 {
        assert_eq!(run(seed, Sharing::Shared), run(seed, Sharing::Shared), "seed {seed}");
    }
}
