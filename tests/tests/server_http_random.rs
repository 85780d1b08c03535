//! A server over HTTP under random drivers.

use mcp_testkit::random::{Choices, Random};
use tests::random_clients::run;

#[test]
fn whatever_happens_the_invariants_hold() {
    for seed in 0_u64..2000 {
        // The panic message contains the seed.
        let outcome = std::panic::catch_unwind(|| run(Choices::Seed(Random::new(seed)), 200));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
