//! Clients that sign in, with plans from fixed seeds.

use tests::seeded::{Run, attempt, notices_each_defect, run_all};
use tests::sign_in_simulation::SignIns;

/// The number of plans that takes a few seconds.
const SEEDS: u64 = 200;

#[test]
fn au23_au24_every_call_ends_and_no_credential_leaves_its_issuer_in_every_plan() {
    let sum = run_all::<SignIns>(0..SEEDS);
    println!("{sum}");
    // Invariants would also hold in a world in which nothing works.
    assert!(sum.results * 5 > sum.calls * 2, "{} results of {} calls", sum.results, sum.calls);
    assert!(sum.sign_ins > SEEDS && sum.refreshes > SEEDS && sum.reuses > 0, "{sum}");
    for fault in [
        "absent person",
        "broken connection",
        "crash",
        "forged redirect",
        "forgotten clients",
        "lost request",
        "lost response",
        "migration",
        "outage",
        "page",
        "refusal of the person",
        "revocation",
        "silence",
        "silence of the server",
        "status 500",
        "status 502",
        "status 503",
        "storm of 401",
    ] {
        assert!(sum.faults.get(fault).is_some_and(|count| *count > 0), "{fault}: {:?}", sum.faults);
    }
}

#[test]
fn each_broken_sign_in_is_noticed_by_its_invariant() {
    println!("{:?}", notices_each_defect::<SignIns>(SEEDS));
}

#[test]
fn the_same_seed_gives_the_same_run_of_sign_ins() {
    for seed in 0..20 {
        assert_eq!(attempt::<SignIns>(Run::new(seed)), attempt::<SignIns>(Run::new(seed)), "seed {seed}");
    }
}
