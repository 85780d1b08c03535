//! The rooms of each crate, which are the modules of its root, import each other in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tests::workspace::{PURE, root, sources};

/// The files of `mcp-model` are not rooms: they contain types that name each other as the schemas of the specification do.
const DRIVERS: [&str; 3] = ["mcp-token-store", "mcp-tokio", "mcp-blocking"];

/// The rooms that each room imports, with a file that does.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn no_rooms_import_each_other_in_a_circle() {
    let crates = PURE.iter().chain(&DRIVERS).filter(|name| **name != "mcp-model");
    let mut rooms = 0;
    for name in crates {
        let imports = imports(&root().join(name).join("src"));
        rooms += imports.len();
        let circle = circle(&imports);
        assert!(circle.is_empty(), "{name}:\n{}", circle.join("\n"));
    }
    assert!(rooms > 60, "{rooms}");
}

#[test]
fn a_circle_is_found_by_every_kind_of_path() {
    let files = |below: &str| {
        [
            ("above.rs", "use crate::middle::Middle;"),
            ("middle/part.rs", "use super::super::below::Below;"),
            ("below.rs", below),
        ]
        .map(|(file, text)| (file.to_owned(), text.to_owned()))
        .to_vec()
    };
    for innocent in ["", "use std::above;", "// use crate::above::Above;", "#[cfg(doc)]\nuse crate::above::Above;"] {
        assert!(circle(&imports_of(files(innocent))).is_empty(), "{innocent}");
    }
    let test = "#[cfg(test)]\nmod tests {\n    use crate::above::Above;\n}";
    assert!(circle(&imports_of(files(test))).is_empty(), "tests may import everything");
    for guilty in [
        "use crate::above::Above;",
        "use super::{above};",
        "use crate::{self, above::{Above, Other}};",
        "fn f(a: crate::above::A) {}",
    ] {
        assert!(!circle(&imports_of(files(guilty))).is_empty(), "{guilty}");
    }
}

fn imports(folder: &Path) -> Imports {
    imports_of(sources(folder))
}

fn imports_of(files: Vec<(String, String)>) -> Imports {
    let modules: Vec<(Vec<String>, String, String)> = files
        .into_iter()
        .filter(|(file, _)| file != "lib.rs")
        .map(|(file, text)| {
            let path = file.trim_end_matches(".rs").split(['/', '\\']).map(str::to_owned).collect();
            (path, code_of(&text), file)
        })
        .collect();
    let rooms: BTreeSet<_> = modules.iter().map(|(path, ..)| path[0].clone()).collect();
    let mut imports = Imports::new();
    for (path, code, file) in &modules {
        let room = imports.entry(path[0].clone()).or_default();
        for named in paths_in(code) {
            let target = room_of(&named, path);
            if let Some(target) = target.filter(|target| *target != path[0] && rooms.contains(target)) {
                room.entry(target).or_insert_with(|| format!("{file} names {}", named.join("::")));
            }
        }
    }
    imports
}

/// The text without comments, tests and imports for the documentation.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut code = String::new();
    let mut is_for_documentation = false;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        if line.trim() == "#[cfg(doc)]" {
            is_for_documentation = true;
        }
        if !is_for_documentation {
            code.push_str(line);
            code.push('\n');
        } else if line.ends_with(';') {
            is_for_documentation = false;
        }
    }
    code
}

/// Each path that begins with `crate` or `super`, and each one of a `use` with braces.
fn paths_in(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut rest = code;
    while let Some(at) = ["crate", "super"].iter().filter_map(|word| rest.find(&format!("{word}::"))).min() {
        let is_whole = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$'));
        let (path, after) = rest[at..].split_at(end_of_path(&rest[at..]));
        if is_whole {
            expand(&[], path, &mut paths);
        }
        rest = if after.is_empty() { "" } else { &rest[at + path.len().max(5)..] };
    }
    paths
}

/// Where a path ends, with the braces behind it.
fn end_of_path(text: &str) -> usize {
    let mut depth = 0;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '{' if before == ':' || depth > 0 => depth += 1,
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ if depth > 0 || c.is_alphanumeric() || matches!(c, '_' | ':') => {}
            _ => return at,
        }
        before = c;
    }
    text.len()
}

/// Appends each path of a tree of imports, such as `crate::{a, b::{c, d}}`.
fn expand(before: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    let (head, inside) = match tree.split_once('{') {
        Some((head, inside)) => (head, Some(inside.strip_suffix('}').unwrap_or(inside))),
        None => (tree, None),
    };
    let mut path = before.to_vec();
    path.extend(head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    let Some(inside) = inside else { return paths.push(path) };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&path, inside[start..at].trim(), paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The room that a path in a module leads to.
fn room_of(named: &[String], module: &[String]) -> Option<String> {
    if named[0] == "crate" {
        return named.get(1).cloned();
    }
    let up = named.iter().take_while(|part| *part == "super").count();
    let mut path = module.get(..module.len().checked_sub(up)?)?.to_vec();
    path.extend_from_slice(&named[up..]);
    path.first().cloned()
}

/// What each room of a circle imports of the next one; empty if there is no circle.
fn circle(imports: &Imports) -> Vec<String> {
    for start in imports.keys() {
        let mut from: BTreeMap<&String, &String> = BTreeMap::new();
        let mut next = vec![start];
        while let Some(room) = next.pop() {
            for target in imports.get(room).into_iter().flat_map(BTreeMap::keys) {
                if target == start {
                    let mut steps = vec![format!("{room} -> {start}: {}", imports[room][start])];
                    let mut last = room;
                    while let Some(before) = from.get(last) {
                        steps.push(format!("{before} -> {last}: {}", imports[*before][last]));
                        last = before;
                    }
                    steps.reverse();
                    return steps;
                }
                if !from.contains_key(target) && target != start {
                    from.insert(target, room);
                    next.push(target);
                }
            }
        }
    }
    Vec::new()
}
