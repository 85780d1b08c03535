//! Each row of the catalogue of bad input has a test, and the committed table is up to date.

use tests::catalogue::{ROWS, find, table};

#[test]
fn b1_every_row_of_the_catalogue_has_a_test_of_its_name() {
    let found = find();
    let missing: Vec<_> = ROWS.iter().filter(|(row, _)| !found.contains_key(*row)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_table_is_what_would_be_written() {
    let written = include_str!("../CATALOGUE.md");
    assert!(written == table(), "cargo run -p tests --bin catalogue > tests/CATALOGUE.md");
}
