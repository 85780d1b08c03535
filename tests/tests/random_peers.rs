//! Machines whose peers and applications behave at random, with fixed seeds: each request ends once, and all output of a play equals the
//! recorded digests.

use std::path::Path;

use mcp_testkit::random::{Choices, Random};
use mcp_testkit::transcript;
use tests::plays;
use tests::random_clients::run;

fn play(name: &str) {
    let (_, play) = plays::ALL.iter().find(|(of, _)| *of == name).expect("a play of that name");
    let digests: Vec<_> = (0..250)
        .map(|seed| {
            println!("seed {seed}");
            transcript::digest(|| play(seed))
        })
        .collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts").join(name);
    transcript::compare(&file, &digests, |position| {
        format!("cargo run -p tests --bin play -- {name} {}", position - 1)
    });
}

#[test]
fn plays_of_a_client_over_http_have_the_stored_transcripts() {
    play("client");
}

#[test]
fn plays_of_a_client_on_a_byte_stream_have_the_stored_transcripts() {
    play("client_stdio");
}

#[test]
fn plays_of_a_server_on_a_byte_stream_have_the_stored_transcripts() {
    play("server");
}

#[test]
fn plays_of_a_server_over_http_have_the_stored_transcripts() {
    play("server_http");
}

#[test]
fn plays_of_a_relay_have_the_stored_transcripts() {
    play("relay");
}

#[test]
fn whatever_happens_the_invariants_hold() {
    for seed in 0_u64..2000 {
        // The panic message contains the seed.
        let outcome = std::panic::catch_unwind(|| run(Choices::Seed(Random::new(seed)), 200));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
