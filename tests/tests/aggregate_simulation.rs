//! Clients and servers of aggregates that act in random order, from fixed seeds.

use tests::aggregate_simulation::{Report, run};

/// The number of runs.
const SEEDS: u64 = 40;

#[test]
fn what_a_server_sends_reaches_only_the_call_that_it_is_for_and_delays_no_other_server() {
    let mut sum = Report::default();
    for seed in 0..SEEDS {
        let report = std::panic::catch_unwind(|| run(seed, false));
        sum.add(&report.unwrap_or_else(|_| panic!("seed {seed}")));
    }
    println!("{sum}");
    // An aggregate in which nothing works would keep the invariants too.
    let runs = usize::try_from(SEEDS).expect("small");
    assert!(sum.results > 5 * runs && sum.errors > runs && sum.exits > runs, "{sum}");
    assert!(sum.cancelled > runs && sum.asked > runs && sum.lists > runs && sum.injected > runs, "{sum}");
    assert!(sum.late > runs && sum.too_long > 0, "{sum}");
}

#[test]
fn b22_the_same_seed_gives_the_same_run() {
    for seed in 0..3 {
        assert_eq!(run(seed, false), run(seed, false), "seed {seed}");
    }
}
