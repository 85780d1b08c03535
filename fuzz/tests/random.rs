//! Scripts out of nothing, of servers of both eras, run through the body of the client's fuzz target.

use tests::pair::Random;

#[test]
fn b22_every_request_and_every_subscription_of_a_client_ends_once_whatever_the_server_does() {
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let length = 20 + random.below(300);
        let mut script: Vec<_> =
            (0..length).map(|_| u8::try_from(random.below(256)).expect("it is below 256")).collect();
        // The bit that decides whether the client may speak 2026-07-28.
        script[0] = if seed % 3 == 0 { script[0] & 0x7f } else { script[0] | 0x80 };
        fuzz::client(&script);
    }
}
