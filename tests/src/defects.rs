//! The defects of `tests/DEFECTS.md`, and the tests that cover them, which are found by their names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::catalogue::names;

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Defect {
    /// The id, such as `K1`.
    pub id: &'static str,
    title: &'static str,
    /// The reason why it has no test, or empty.
    pub reason: &'static str,
}

/// The rows of `tests/DEFECTS.md`.
pub fn defects() -> Vec<Defect> {
    let cells = |line: &'static str| -> Option<Defect> {
        let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
        let [id, title, reason] = [cells.next()?, cells.next()?, cells.next()?];
        is_id(&id.to_ascii_lowercase()).then_some(Defect { id, title, reason })
    };
    include_str!("../DEFECTS.md").lines().filter_map(cells).collect()
}

/// The names of the tests of every defect.
pub fn find() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, name) in names() {
        for id in ids_in(&name) {
            found.entry(id).or_default().insert(name.clone());
        }
    }
    found
}

/// The table with the tests in the column of the reasons.
pub fn table() -> String {
    let found = find();
    let mut table = "| id | defect | tests |\n|---|---|---|\n".to_owned();
    for Defect { id, title, reason } in defects() {
        let tests: Vec<_> = found.get(id).into_iter().flatten().map(|name| format!("`{name}`")).collect();
        let tests = if tests.is_empty() { reason.to_owned() } else { tests.join("<br>") };
        writeln!(table, "| {id} | {title} | {tests} |").expect("a string");
    }
    table
}

/// The ids that follow `defect_` in the name of a test.
pub fn ids_in(name: &str) -> impl Iterator<Item = String> {
    let ids = name.split('_').skip_while(|part| *part != "defect").skip(1).take_while(|part| is_id(part));
    ids.map(str::to_ascii_uppercase)
}

fn is_id(text: &str) -> bool {
    text.strip_prefix(['k', 'm', 'x', 'b', 'p', 'f'])
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
