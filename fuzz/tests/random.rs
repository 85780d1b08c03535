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

/// Runs a target of texts with inputs that are made of parts of its corpus and of entries of its dictionary.
fn run_mixed(name: &str, target: fn(&[u8])) {
    let (kept, entries) = (inputs::kept(name), inputs::dictionary(name));
    for seed in 0..3000 {
        target(&inputs::mixed(seed, &kept, &entries));
    }
}

#[test]
fn au1_au2_au3_au4_au5_no_mixture_of_challenges_or_metadata_breaks_the_rules() {
    run_mixed("challenge", fuzz::challenge);
    run_mixed("metadata", fuzz::metadata);
}

#[test]
fn au9_au10_au11_au12_au13_a_code_is_sent_only_with_the_right_state_and_issuer_and_once() {
    run_mixed("redirect", fuzz::redirect);
}

#[test]
fn au14_au22_no_mixture_of_token_responses_breaks_the_rules() {
    run_mixed("token_response", fuzz::token_response);
}

#[test]
fn no_mixture_of_frontmatters_gives_what_is_not_json_or_changes_when_it_is_read_again() {
    run_mixed("frontmatter", fuzz::frontmatter);
}

#[test]
fn requests_reach_the_extension_that_has_their_method() {
    run_mixed("extensions", fuzz::extensions);
}

#[test]
fn no_mixture_of_schemas_and_values_is_validated_in_two_ways_or_shown() {
    run_mixed("schema", fuzz::schema);
}

#[test]
fn values_are_found_again_in_the_uris_that_templates_make_of_them() {
    run_mixed("uri_template", fuzz::uri_template);
}

#[test]
fn whatever_clients_and_processes_of_a_gateway_send_nothing_reaches_another_client() {
    run_mixed("gateway", fuzz::gateway);
}

#[test]
fn whatever_the_servers_of_an_aggregate_send_each_request_has_one_outcome_of_its_server() {
    run_mixed("aggregate", fuzz::aggregate);
}

/// Fewer than for other targets: after each step, another session is asked at every instance.
#[test]
fn no_content_of_a_store_harms_more_than_the_session_whose_it_is() {
    let (kept, entries) = (inputs::kept("stored"), inputs::dictionary("stored"));
    for (seed, script) in (0..300).zip(inputs::scripts()) {
        fuzz::stored(&script);
        fuzz::stored(&inputs::mixed(seed, &kept, &entries));
    }
}

#[test]
fn no_mixture_of_patterns_and_uris_passes_what_a_parser_reads_as_denied() {
    run_mixed("rules", fuzz::rules);
}
