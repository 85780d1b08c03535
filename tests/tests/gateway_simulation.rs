//! Clients and processes of a gateway that act in random order, from fixed seeds.

use tests::gateway_simulation::{Report, run};

/// The number of runs, which take a few seconds.
const SEEDS: u64 = 200;

#[test]
fn nothing_of_a_session_reaches_another_and_each_call_has_one_outcome() {
    let mut sum = Report::default();
    for seed in 0..SEEDS {
        let report = std::panic::catch_unwind(|| run(seed)).unwrap_or_else(|_| panic!("seed {seed}"));
        sum.add(&report);
    }
    println!("{sum:?}");
    // A gateway in which nothing works would keep the invariants too.
    let Report { starts, results, errors, exits, asked, notified } = sum;
    let runs = usize::try_from(SEEDS).unwrap();
    assert!(starts > 3 * runs && results > 3 * runs && errors > runs, "{starts}, {results}, {errors}");
    assert!(exits > runs && asked > runs && notified > runs, "{exits}, {asked}, {notified}");
}

#[test]
fn b22_the_same_seed_gives_the_same_run() {
    for seed in 0..10 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
