//! Runs the fuzz targets that are controlled by scripts with scripts that are generated from seeds.

use fuzz::inputs;
use mcp_testkit::transcript;

/// Runs every script, and compares the transcripts of the machines with the stored ones.
fn run(name: &str, target: fn(&[u8])) {
    let digests: Vec<_> = inputs::scripts().map(|script| transcript::digest(|| target(&script))).collect();
    let command = |position| format!("cargo run -p fuzz --bin transcript -- {name} --seed {}", position - 1);
    transcript::compare(&inputs::folder("transcripts").join(format!("{name}_of_seeds")), &digests, command);
}

#[test]
fn b22_every_request_and_every_subscription_of_a_client_ends_once_whatever_the_server_does() {
    run("client", fuzz::client);
}

#[test]
fn b22_every_request_of_a_relays_client_is_answered_once_whatever_the_server_does() {
    run("relay", fuzz::relay);
}

#[test]
fn b21_no_order_of_calls_panics() {
    run("api", fuzz::api);
    run("server", fuzz::server);
    for script in inputs::scripts() {
        for run in [fuzz::server_stdio, fuzz::client_stdio, fuzz::param_headers, fuzz::splice, fuzz::era] {
            run(&script);
        }
    }
}
