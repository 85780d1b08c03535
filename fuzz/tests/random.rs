//! Scripts out of nothing, run through the bodies of the fuzz targets that have machines.

use tests::random::Random;

/// As many scripts as there are seeds.
fn scripts() -> impl Iterator<Item = (u64, Vec<u8>)> {
    (0..3000).map(|seed| {
        let mut random = Random::new(seed);
        let length = 20 + random.below(300);
        let byte = |_| u8::try_from(random.below(256)).expect("it is below 256");
        (seed, (0..length).map(byte).collect())
    })
}

#[test]
fn b22_every_request_and_every_subscription_of_a_client_ends_once_whatever_the_server_does() {
    for (seed, mut script) in scripts() {
        // The bit that decides whether the client may speak 2026-07-28.
        script[0] = if seed % 3 == 0 { script[0] & 0x7f } else { script[0] | 0x80 };
        fuzz::client(&script);
    }
}

#[test]
fn b22_every_request_of_a_relays_client_is_answered_once_whatever_the_server_does() {
    for (_, script) in scripts() {
        fuzz::relay(&script);
    }
}

#[test]
fn b21_nothing_that_anybody_does_in_whatever_order_panics() {
    for (_, script) in scripts() {
        for run in
            [fuzz::api, fuzz::server, fuzz::server_stdio, fuzz::client_stdio, fuzz::mirror, fuzz::splice, fuzz::era]
        {
            run(&script);
        }
    }
}
