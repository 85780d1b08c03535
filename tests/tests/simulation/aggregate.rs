//! Clients and servers of aggregates that act in random order, from fixed seeds.

use std::path::Path;

use mcp_testkit::transcript;
use tests::aggregate_simulation::Aggregates;
use tests::seeded::{Run, attempt, notices_each_defect, run_all};

/// The number of runs.
const SEEDS: u64 = 40;

#[test]
fn what_a_server_sends_reaches_only_the_call_that_it_is_for_and_delays_no_other_server() {
    let sum = run_all::<Aggregates>(0..SEEDS);
    println!("{sum}");
    // An aggregate in which nothing works would keep the invariants too.
    let runs = usize::try_from(SEEDS).expect("small");
    assert!(sum.results > 5 * runs && sum.errors > runs && sum.exits > runs, "{sum}");
    assert!(sum.cancelled > runs && sum.asked > runs && sum.lists > runs && sum.injected > runs, "{sum}");
    assert!(sum.late > runs && sum.too_long > 0, "{sum}");
    assert!(sum.reloads > runs && sum.denied > 0, "{sum}");
}

#[test]
fn each_broken_aggregate_is_noticed_by_its_invariant() {
    println!("{:?}", notices_each_defect::<Aggregates>(SEEDS));
}

#[test]
fn b22_the_same_seed_gives_the_same_run() {
    for seed in 0..3 {
        assert_eq!(attempt::<Aggregates>(Run::new(seed)), attempt::<Aggregates>(Run::new(seed)), "seed {seed}");
    }
}

#[test]
fn the_first_runs_have_the_stored_transcripts() {
    let digests: Vec<_> =
        (0..20).map(|seed| transcript::digest(|| drop(attempt::<Aggregates>(Run::new(seed))))).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts/aggregate_simulation");
    transcript::compare(&file, &digests, |position| {
        format!("cargo run -p tests --bin simulate -- --aggregates --transcript {}", position - 1)
    });
}
