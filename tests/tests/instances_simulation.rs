//! Instances of a server that share a store, with clients, crashes and a store that fails, from fixed seeds.

use tests::instances_simulation::{Report, run};

/// The number of runs, which take a few seconds.
const SEEDS: u64 = 120;

#[test]
fn each_exchange_has_one_outcome_at_any_instance_and_no_event_is_lost_repeated_or_received_by_another() {
    let mut sum = Report::default();
    for seed in 0..SEEDS {
        let report = std::panic::catch_unwind(|| run(seed, false));
        sum.add(&report.unwrap_or_else(|_| panic!("seed {seed}")));
    }
    println!("{sum}");
    // Instances that do nothing would keep the invariants too.
    let runs = usize::try_from(SEEDS).unwrap();
    assert!(sum.sessions > 2 * runs && sum.results > 5 * runs && sum.resumed > runs, "{sum}");
    assert!(sum.errors > runs / 3 && sum.asked > runs / 2 && sum.notified > 2 * runs, "{sum}");
    assert!(sum.crashes > runs && sum.failed > runs && sum.snapshots > runs && sum.tasks > runs, "{sum}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..6 {
        assert_eq!(run(seed, false), run(seed, false), "seed {seed}");
    }
}
