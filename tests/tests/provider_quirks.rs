//! Authorization servers that differ from the rules: with the machine alone, and in the documents.

use std::fs;
use std::path::Path;

use mcp_auth::{Acceptance, ProviderQuirk};
use tests::provider_quirks::play_in_memory;

#[test]
fn each_quirk_of_a_provider_is_accepted_or_named() {
    play_in_memory();
}

#[test]
fn the_document_for_users_has_each_quirk_with_its_cost() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/proxy.md");
    let document = fs::read_to_string(path).unwrap();
    let lines: Vec<_> = document.lines().collect();
    for quirk in ProviderQuirk::ALL {
        let accepted = match quirk.acceptance() {
            Acceptance::Always => "always".to_owned(),
            Acceptance::WithResource => "with `--resource`".to_owned(),
            Acceptance::Tolerated(name) => format!("`--tolerate {name}`"),
            other => panic!("{other:?}"),
        };
        let row = format!("| {} | {} | {accepted} | {} |", quirk.description(), quirk.seen_at(), quirk.cost());
        assert!(lines.contains(&&*row), "docs/proxy.md lacks this row:\n{row}");
    }
}
