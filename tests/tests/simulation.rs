//! Machines in a simulated network: plans of fixed seeds.

use tests::simulation::{Plan, run};

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
