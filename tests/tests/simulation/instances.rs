//! Instances of a server that share a store, with clients, crashes and a store that fails, from fixed seeds.

use tests::instances_simulation::Instances;
use tests::seeded::{Run, attempt, notices_each_defect, run_all};

/// The number of runs, which take a few seconds.
const SEEDS: u64 = 120;

#[test]
fn each_exchange_has_one_outcome_at_any_instance_and_no_event_is_lost_repeated_or_received_by_another() {
    let sum = run_all::<Instances>(0..SEEDS);
    println!("{sum}");
    // Instances that do nothing would keep the invariants too.
    let runs = usize::try_from(SEEDS).unwrap();
    assert!(sum.sessions > 2 * runs && sum.results > 5 * runs && sum.resumed > runs, "{sum}");
    assert!(sum.errors > runs / 3 && sum.asked > runs / 2 && sum.notified > 2 * runs, "{sum}");
    assert!(sum.crashes > runs && sum.failed > runs && sum.snapshots > runs && sum.tasks > runs, "{sum}");
    assert!(sum.refused > runs / 4 && sum.ended > runs / 8, "{sum}");
}

#[test]
fn each_broken_instance_is_noticed_by_its_invariant() {
    println!("{:?}", notices_each_defect::<Instances>(SEEDS));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..6 {
        assert_eq!(attempt::<Instances>(Run::new(seed)), attempt::<Instances>(Run::new(seed)), "seed {seed}");
    }
}
