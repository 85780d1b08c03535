//! Each row of the catalogue of bad input has a test, and the printed table has each of them.

use tests::catalogue::{ROWS, find, table};

#[test]
fn b1_every_row_of_the_catalogue_has_a_test_of_its_name() {
    let found = find();
    let missing: Vec<_> = ROWS.iter().filter(|(row, _)| !found.contains_key(*row)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_table_has_every_row_once_with_all_of_its_tests() {
    let (found, table) = (find(), table());
    let printed: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(printed.len(), ROWS.len());
    for ((row, what), line) in ROWS.iter().zip(printed) {
        assert!(line.starts_with(&format!("| {row} | {what} |")), "{line}");
        for name in found[*row].values().flatten() {
            assert!(line.contains(&format!("`{name}`")), "{name} in {line}");
        }
    }
}
