//! The rooms of each crate, which are the modules of its root, import each other in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tests::workspace::{PURE, root, sources};

/// The files of `mcp-model` are not rooms: they contain types that name each other as the schemas of the specification do.
const DRIVERS: [&str; 4] = ["mcp-platform", "mcp-token-store", "mcp-tokio", "mcp-blocking"];

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

/// The crates whose files also import each other in one direction, except for pairs of files.
const FILES: [&str; 9] = [
    "mcp-proto",
    "mcp-auth",
    "mcp-intermediary",
    "mcp-application",
    "mcp-platform",
    "mcp-token-store",
    "mcp-tokio",
    "mcp-blocking",
    "mcp-proxy",
];

#[test]
fn no_more_than_two_files_of_a_crate_import_each_other_in_a_circle() {
    for name in FILES {
        let circles = circles_of_files(sources(&root().join(name).join("src")));
        assert!(circles.iter().all(|files| files.len() <= 2), "{name}: {circles:?}");
    }
}

/// From this number of files on, a folder has a table of them in the documentation of its module.
const LARGE: usize = 5;

#[test]
fn each_large_folder_has_a_table_of_its_files() {
    let mut tables = 0;
    for name in FILES {
        let files = sources(&root().join(name).join("src"));
        for (path, text) in &files {
            let Some(folder) = path.strip_suffix(".rs").filter(|module| !["lib", "main"].contains(module)) else {
                continue;
            };
            let children = children(text);
            let listed = listed_files(text);
            tables += usize::from(!listed.is_empty());
            if listed.is_empty() && children.len() < LARGE {
                continue;
            }
            for child in &children {
                assert!(listed.contains(child), "{name}/src/{path} does not list `{child}`");
            }
            for file in listed {
                let exists = files.iter().any(|(path, _)| *path == format!("{folder}/{file}.rs"));
                assert!(exists, "{name}/src/{path} lists `{file}`, which is not there");
            }
        }
    }
    assert!(tables > 25, "{tables}");
}

/// The modules of a file that have files of their own, without those of tests.
fn children(text: &str) -> BTreeSet<String> {
    let mut children = BTreeSet::new();
    let mut is_for_tests = false;
    for line in text.lines() {
        if line.starts_with("#[") {
            is_for_tests |= line.starts_with("#[cfg(test)") || line.starts_with("#[cfg(all(test");
            continue;
        }
        let declared = line.strip_prefix("pub ").or(line.strip_prefix("pub(crate) ")).unwrap_or(line);
        if let Some(name) = declared.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            if !is_for_tests {
                children.insert(name.to_owned());
            }
        }
        is_for_tests = false;
    }
    children
}

/// The files in the tables of a module's documentation whose first column is named `file` or `part`.
fn listed_files(text: &str) -> BTreeSet<String> {
    let mut listed = BTreeSet::new();
    let mut is_listing = false;
    for line in text.lines().take_while(|line| line.starts_with("//!")) {
        let Some(first) = line.strip_prefix("//! |").and_then(|row| row.split('|').next()) else {
            is_listing = false;
            continue;
        };
        is_listing |= ["file", "part"].contains(&first.trim());
        if is_listing {
            listed.extend(first.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    listed
}

#[test]
fn a_circle_of_files_is_found_through_what_modules_export() {
    let files = |last: &str| {
        [
            ("room.rs", "mod a; mod b; mod c;\nuse a::A;\npub(super) use c::{C as Renamed, other};"),
            ("room/a.rs", "use super::b::B;\npub struct A;"),
            ("room/b.rs", "use crate::room::Renamed;\npub struct B;"),
            ("room/c.rs", last),
        ]
        .map(|(file, text)| (file.to_owned(), text.to_owned()))
        .to_vec()
    };
    for innocent in ["pub struct C;", "use super::Renamed;\npub struct C;", "pub struct C;\n// use super::a::A;"] {
        assert!(circles_of_files(files(innocent)).is_empty(), "{innocent}");
    }
    for guilty in [
        "use super::a::A;\npub struct C;",
        "use crate::room::A;\npub struct C;",
        "pub struct C;\nfn f() -> super::a::A {}",
        "pub struct C;\nuse super::{\n    a::{A},\n};",
    ] {
        let expected = ["room/a", "room/b", "room/c"].map(str::to_owned).to_vec();
        assert_eq!(circles_of_files(files(guilty)), [expected], "{guilty}");
    }
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

/// A file, as the module that it is.
struct Module {
    path: Vec<String>,
    code: String,
    /// The names that its `use` declarations make, with the paths that they stand for.
    imports: BTreeMap<String, Vec<String>>,
}

impl Module {
    fn new(file: &str, text: &str) -> Self {
        let path: Vec<_> = file.trim_end_matches(".rs").split(['/', '\\']).map(str::to_owned).collect();
        let path = if path == ["lib"] || path == ["main"] { Vec::new() } else { path };
        let code = code_of(text);
        let imports = uses(&code).into_iter().map(|(name, named)| (name, absolute(&named, &path))).collect();
        Self { path, code, imports }
    }

    fn defines(&self, name: &str) -> bool {
        let kinds = ["struct", "enum", "trait", "fn", "const", "static", "type", "union", "macro_rules!"];
        self.code.lines().filter(|line| !line.starts_with([' ', '}'])).any(|line| {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '!');
            words.any(|word| kinds.contains(&word)) && words.any(|word| word == name)
        })
    }
}

/// Every name that a `use` declaration makes, with its path as it is written.
fn uses(code: &str) -> Vec<(String, Vec<String>)> {
    let mut named = Vec::new();
    for line in code.split(';') {
        let line = line.trim_start();
        let declaration = line.lines().find_map(|start| {
            let at = start.find("use ").filter(|at| *at == 0 || start.starts_with("pub"))?;
            Some(&line[line.find(start)? + at + "use ".len()..])
        });
        let Some(declaration) = declaration else { continue };
        let tree = declaration.split_whitespace().collect::<Vec<_>>().join(" ").replace(" as ", " as::");
        let mut paths = Vec::new();
        expand(&[], &tree, &mut paths);
        for mut path in paths {
            let name = path.last().cloned().unwrap_or_default();
            if let Some(at) = path.iter().position(|part| part.ends_with(" as")) {
                path.truncate(at + 1);
                let original = path.pop().unwrap_or_default();
                path.push(original.trim_end_matches(" as").to_owned());
            }
            named.push((name, path));
        }
    }
    named
}

/// A path from the root of the crate. One that begins with neither `crate`, `self` nor `super` may name a module inside.
fn absolute(named: &[String], module: &[String]) -> Vec<String> {
    let (up, rest) = match named.first().map(String::as_str) {
        Some("crate") => (module.len(), &named[1..]),
        Some("self") => (0, &named[1..]),
        Some("super") => {
            let up = named.iter().take_while(|part| *part == "super").count();
            (up, &named[up..])
        }
        Some(_) | None => (0, named),
    };
    let base = module.get(..module.len().saturating_sub(up)).unwrap_or_default();
    base.iter().chain(rest).cloned().collect()
}

/// The module that defines what a path names.
fn home<'m>(modules: &'m [Module], path: &[String], depth: usize) -> Option<&'m Module> {
    let module = (0..=path.len()).rev().find_map(|end| modules.iter().find(|module| module.path == path[..end]))?;
    let Some(name) = path.get(module.path.len()) else { return Some(module) };
    if module.defines(name) || depth == 0 {
        return Some(module);
    }
    match module.imports.get(name) {
        Some(imported) if imported != path => home(modules, imported, depth - 1),
        Some(_) | None => Some(module),
    }
}

/// The sets of files of which each imports all others, directly or not. A module and those inside of it are one unit: what
/// a parent declares, its children may use, and the reverse.
fn circles_of_files(files: Vec<(String, String)>) -> Vec<Vec<String>> {
    let modules: Vec<_> = files.iter().map(|(file, text)| Module::new(file, text)).collect();
    let mut next: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for module in &modules {
        for named in paths_in(&module.code) {
            let Some(target) = home(&modules, &absolute(&named, &module.path), 8) else { continue };
            if !target.path.starts_with(&module.path) && !module.path.starts_with(&target.path) {
                next.entry(&module.path).or_default().insert(&target.path);
            }
        }
    }
    let reached = |from: &[String]| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from.to_vec()]);
        while let Some(module) = left.pop() {
            for target in next.get(&module[..]).into_iter().flatten() {
                if seen.insert(target.to_vec()) {
                    left.push(target.to_vec());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = modules.iter().map(|module| (module.path.clone(), reached(&module.path))).collect();
    let circle = |path: &Vec<String>| -> Vec<String> {
        let others = reached[path].iter().filter(|other| reached[*other].contains(path));
        others.map(|other| other.join("/")).collect()
    };
    let circles: BTreeSet<_> = reached.keys().map(circle).filter(|files| files.len() > 1).collect();
    circles.into_iter().collect()
}
