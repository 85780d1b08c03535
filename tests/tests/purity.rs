//! The crates without I/O contain none and read no clock, and the blocking crate has no async runtime: neither their dependencies nor
//! their source contain one.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tests::workspace::{PURE, packages, published, root, sources};

/// The crates on which a crate depends.
fn dependencies(package: &str, features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "normal", "--prefix", "none", "--package", package])
        .args(features)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_crates_without_io_depend_on_nothing_that_does_io() {
    let allowed = [
        "base64",
        "bytes",
        "http",
        "itoa",
        "memchr",
        "proc-macro2",
        "quote",
        "serde",
        "serde_core",
        "serde_derive",
        "serde_json",
        "syn",
        "thiserror",
        "thiserror-impl",
        "unicode-ident",
        "zmij",
    ];
    // Those of signing in, of pins, and of the feature `seal`.
    let computing = [
        "block-buffer",
        "form_urlencoded",
        "percent-encoding",
        "cfg-if",
        "cmov",
        "const-oid",
        "cpufeatures",
        "crypto-common",
        "ctutils",
        "digest",
        "hmac",
        "hybrid-array",
        "sha2",
        "typenum",
    ];
    // Those of the feature `schema`.
    let schemas =
        ["dyn-clone", "equivalent", "foldhash", "hashbrown", "indexmap", "ref-cast", "ref-cast-impl", "schemars"];
    // Those of the feature `skills`.
    let yaml = ["arraydeque", "saphyr-parser"];
    // Those of the feature `validation` of the application layer, without what fetches schemas. Its hash maps take random
    // numbers from the system.
    let validating = [
        "ahash",
        "aho-corasick",
        "allocator-api2",
        "autocfg",
        "bit-set",
        "bit-vec",
        "borrow-or-share",
        "bytecount",
        "data-encoding",
        "email_address",
        "fancy-regex",
        "fluent-uri",
        "fraction",
        "getrandom",
        "heck",
        "jsonschema",
        "jsonschema-regex",
        "jsonschema-value",
        "libc",
        "lock_api",
        "micromap",
        "num",
        "num-bigint",
        "num-cmp",
        "num-complex",
        "num-integer",
        "num-iter",
        "num-rational",
        "num-traits",
        "once_cell",
        "outref",
        "parking_lot",
        "parking_lot_core",
        "referencing",
        "regex",
        "regex-automata",
        "regex-syntax",
        "scopeguard",
        "smallvec",
        "strum",
        "strum_macros",
        "unicode-general-category",
        "uuid-simd",
        "vsimd",
        "zerocopy",
    ];
    let allowed = [&allowed[..], &computing, &schemas, &yaml, &PURE].concat();
    for package in PURE {
        let found = dependencies(package, &["--all-features"]);
        let is_allowed =
            |name: &str| allowed.contains(&name) || (package == "mcp-application" && validating.contains(&name));
        let strangers: Vec<_> = found.iter().filter(|name| !is_allowed(name)).collect();
        assert!(strangers.is_empty(), "{strangers:?} came into {package}");
    }
    let found = dependencies("mcp-proto", &["--all-features"]);
    let above: Vec<_> = PURE.iter().filter(|name| **name != "mcp-proto" && found.contains(**name)).collect();
    assert!(above.is_empty(), "mcp-proto depends on {above:?}");
}

#[test]
fn the_blocking_crate_and_the_program_have_no_async_runtime() {
    for package in ["mcp-blocking", "mcp-proto-proxy"] {
        let found = dependencies(package, &["--all-features"]);
        // `mio` is not one: it waits for sockets, and runs nothing.
        for runtime in
            ["tokio", "async-std", "smol", "async-io", "futures-executor", "futures-util", "hyper", "reqwest"]
        {
            assert!(!found.contains(runtime), "{runtime} came into {package}");
        }
    }
}

#[test]
fn the_crates_without_io_name_nothing_that_does_io_or_reads_a_clock() {
    let banned = [
        "Instant::now",
        "SystemTime",
        "std::net",
        "std::fs",
        "std::env",
        "std::process",
        "std::thread",
        "std::io",
        "RandomState",
        "HashMap",
        "HashSet",
        "println!",
        "serde_json::Value",
        "unsafe",
    ];
    for (file, number, line) in pure_lines() {
        // The types of errors and of exit statuses do no I/O.
        let line = if line == "use std::io::{Error, ErrorKind};" { "" } else { &line };
        let line = line.replace("std::io::Error", "").replace("std::process::ExitStatus", "");
        // A tree of the application becomes text.
        let is_conversion = file == "mcp-proto/src/json.rs";
        let line = if is_conversion { line.replace("serde_json::Value) -> Self", "") } else { line };
        let line = if is_conversion { line.replace("From<serde_json::Value> for Json", "") } else { line };
        // The library that validates needs a tree, beside the path of messages.
        let line = if file.starts_with("mcp-application/src/validation/") {
            line.replace("serde_json::Value;", "")
        } else {
            line
        };
        // A source expression of the Content-Security-Policy.
        let line = line.replace("'unsafe-inline'", "").replace("'unsafe-eval'", "");
        for name in banned {
            assert!(!line.contains(name), "{name} in {file} line {number}");
        }
    }
}

/// Only the tables may list methods, `match` on method names or compare revisions, so that each fact is stated once.
#[test]
fn only_the_tables_of_the_specification_list_methods_and_compare_revisions() {
    let mut before = String::new();
    for (file, number, line) in pure_lines() {
        if file.starts_with("mcp-proto/src/spec/") || file.starts_with("mcp-model/") {
            continue;
        }
        let place = format!("{file} line {number}: {line}");
        let names_method = |line: &str| {
            let name = line.trim().strip_prefix("Method::").and_then(|name| name.strip_suffix(','));
            name.is_some_and(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        };
        assert!(!(names_method(&before) && names_method(&line)), "a list of methods in {place}");
        let listed = line.split('[').skip(1).filter_map(|list| list.split(']').next());
        assert!(listed.into_iter().all(|list| list.matches("Method::").count() < 2), "a list of methods in {place}");
        let arm = line.split_once("=>").map_or("", |(pattern, _)| pattern);
        let is_method_name =
            |text: &str| text.contains('/') && text.split('/').all(|part| part.chars().all(char::is_alphabetic));
        assert!(!arm.split('"').skip(1).step_by(2).any(is_method_name), "a match on method names in {place}");
        assert!(!line.contains("ProtocolVersion::V2"), "a revision in {place}");
        before = line;
    }
}

/// Elsewhere, the table of revisions is asked what follows from an era.
#[test]
fn eras_are_named_only_where_they_are_detected_and_bridged() {
    let homes = [
        "mcp-proto/src/client/detected_era.rs",
        "mcp-proto/src/client/detection.rs",
        "mcp-proto/src/lib.rs",
        "mcp-intermediary/src/relay/event.rs",
        "mcp-intermediary/src/relay/opening.rs",
    ];
    for (file, number, line) in pure_lines() {
        let is_home = file.starts_with("mcp-proto/src/spec") || homes.contains(&file.as_str());
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(is_home || !words.into_iter().any(|word| word == "Era"), "an era in {file} line {number}: {line}");
    }
}

/// The files that the documents name exist, and have the functions that are named behind them: `file.rs` (`function`).
#[test]
fn the_documents_name_files_and_functions_that_exist() {
    let bases = ["", "mcp-proto/src", "tests/fuzz-example"];
    let (mut named, mut functions) = (0, 0);
    for document in [
        "README.md",
        "docs/architecture.md",
        "docs/assurance.md",
        "docs/drivers.md",
        "docs/features.md",
        "docs/proxy.md",
        "docs/releasing.md",
        "docs/testing-your-server.md",
        "docs/versioning.md",
        "CONTRIBUTING.md",
    ] {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        for name in text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|name| !name.contains(' ') && Path::new(name).extension().is_some_and(|end| end == "rs"))
        {
            named += 1;
            assert!(bases.iter().any(|base| root().join(base).join(name).exists()), "{name} in {document}");
        }
        for (before, after) in text.match_indices("` (`").map(|(at, _)| text.split_at(at)) {
            let file = before.rsplit('`').next().unwrap();
            let name = after[4..].split('`').next().unwrap().rsplit("::").next().unwrap();
            if Path::new(file).extension().is_some_and(|end| end == "rs") {
                let found = bases.iter().find_map(|base| std::fs::read_to_string(root().join(base).join(file)).ok());
                let is_there = found.is_some_and(|text| text.contains(&format!("fn {name}")));
                assert!(is_there, "{name} in {file}, which {document} names");
                functions += 1;
            }
        }
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let is_file = !target.starts_with("http") && !target.starts_with('#');
            let folder = Path::new(document).parent().unwrap();
            let target = target.split('#').next().unwrap();
            assert!(!is_file || root().join(folder).join(target).exists(), "{target} in {document}");
            named += usize::from(is_file);
        }
    }
    assert!(named > 40 && functions > 10, "{named}, {functions}");
}

/// The table of the small drivers has their lines as `examples/count` counts them.
#[test]
#[cfg(unix)]
fn the_small_drivers_have_as_many_lines_as_the_documents_state() {
    let output = Command::new(root().join("examples/count")).output().expect("a shell with awk");
    let counted = String::from_utf8(output.stdout).unwrap();
    let counted: BTreeSet<_> = counted.lines().filter_map(|line| line.trim().split_once(' ')).collect();
    let document = std::fs::read_to_string(root().join("docs/drivers.md")).unwrap();
    let rows = document.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let stated: BTreeSet<_> = rows
        .filter(|(lines, _)| lines.parse::<usize>().is_ok())
        .filter_map(|(lines, rest)| Some((lines, rest.split("](../").nth(1)?.split(')').next()?)))
        .collect();
    assert_eq!(stated, counted);
    assert!(counted.len() > 5, "{counted:?}");
}

/// The table of sizes has the lines of each program that are neither blank nor comments.
#[test]
fn the_programs_have_as_many_lines_as_the_documents_state() {
    let document = std::fs::read_to_string(root().join("docs/features.md")).unwrap();
    let (_, sizes) = document.split_once("## Size of programs").unwrap();
    let mut found = 0;
    for (name, stated) in sizes.lines().filter_map(|row| row.strip_prefix("| `")?.split_once("`: lines | ")) {
        let folders = [&["mcp-tokio/examples", "mcp-blocking/examples"][..], &["tests/comparison/rmcp/src/bin"]];
        for (stated, folders) in stated.trim_end_matches(" |").split(" | ").zip(folders) {
            let texts = folders.iter().map(|folder| root().join(folder).join(name).with_extension("rs"));
            let Some(text) = texts.into_iter().find_map(|file| std::fs::read_to_string(file).ok()) else {
                assert!(stated.parse::<usize>().is_err(), "{name}");
                continue;
            };
            let lines = text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("//"));
            assert_eq!(stated, lines.count().to_string(), "{name} in {folders:?}");
            found += 1;
        }
    }
    assert_eq!(found, 7);
}

/// The table of features in `docs/versioning.md` has those of the manifests, and marks those that are the default.
#[test]
fn the_documents_list_the_features_of_every_published_crate() {
    let document = std::fs::read_to_string(root().join("docs/versioning.md")).unwrap();
    let table = document.split("\n## Features\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut stated = BTreeSet::new();
    for row in table.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (package, features) = row.split_once("` | ").unwrap();
        // Text before the first name, then each name and the text after it.
        let parts: Vec<_> = features.split('`').skip(1).collect();
        for feature in parts.chunks(2) {
            let is_default = feature.get(1).is_some_and(|text| text.starts_with(" (default)"));
            stated.insert((package.to_owned(), feature[0].to_owned(), is_default));
        }
    }
    let mut declared = BTreeSet::new();
    for package in published() {
        let features = package["features"].as_object().unwrap();
        let defaults: Vec<_> = features.get("default").and_then(|list| list.as_array()).into_iter().flatten().collect();
        for feature in features.keys().filter(|feature| *feature != "default") {
            let is_default = defaults.iter().any(|default| *default == feature);
            declared.insert((package["name"].as_str().unwrap().to_owned(), feature.clone(), is_default));
        }
    }
    assert_eq!(stated, declared);
    assert!(declared.len() > 5, "{declared:?}");
}

/// The workflow and the instructions of a release name every published crate.
#[test]
fn a_release_publishes_every_published_crate() {
    let expected: BTreeSet<_> =
        published().iter().map(|package| package["name"].as_str().unwrap().to_owned()).collect();
    for file in [".github/workflows/release.yml", "docs/releasing.md"] {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let command = text.lines().find(|line| line.contains("cargo publish ")).expect("a command");
        let words: Vec<_> = command.split_whitespace().collect();
        let named: BTreeSet<_> = words
            .windows(2)
            .filter(|pair| matches!(pair[0], "-p" | "--package"))
            .map(|pair| pair[1].to_owned())
            .collect();
        assert_eq!(named, expected, "{file}");
    }
    let instructions = std::fs::read_to_string(root().join("docs/releasing.md")).unwrap();
    let reserved = instructions.split("Reserve the names").nth(1).unwrap().split("\n* ").next().unwrap();
    assert!(expected.iter().all(|name| reserved.contains(&format!("`{name}`"))), "{reserved}");
}

/// Programs of one name are written to one file, so that a test would start the other one.
#[test]
fn each_program_of_the_workspace_has_a_name_of_its_own() {
    for kind in ["bin", "example"] {
        let mut names = BTreeSet::new();
        for package in packages() {
            let targets = package["targets"].as_array().unwrap();
            for target in targets.iter().filter(|target| target["kind"][0] == kind) {
                let name = target["name"].as_str().unwrap();
                assert!(names.insert(name.to_owned()), "{kind} {name} of {}", package["name"]);
            }
        }
        assert!(names.len() > 10, "{names:?}");
    }
}

/// Every id of a rule that the source of the crates refers to has a row in `docs/rules.md`.
#[test]
fn every_rule_that_the_source_refers_to_is_explained() {
    let explained = std::fs::read_to_string(root().join("docs/rules.md")).unwrap();
    let rows: BTreeSet<_> = explained.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()).collect();
    let mut found = 0;
    for source in PURE.iter().chain(&["mcp-platform", "mcp-token-store", "mcp-blocking", "mcp-tokio", "mcp-proxy"]) {
        for (file, text) in sources(&root().join(source).join("src")) {
            for line in text.lines().filter_map(|line| line.split_once("//")).map(|(_, comment)| comment) {
                for id in line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|word| is_rule(word)) {
                    assert!(rows.contains(id), "{id} in {source}/src/{file} has no row in docs/rules.md");
                    found += 1;
                }
            }
        }
    }
    assert!(found > 500, "{found}");
}

/// Whether a word is the id of a rule, such as `SH-C-01`, `HT6` or `BR-M-05`.
fn is_rule(word: &str) -> bool {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &word[letters.len()..];
    let family = letters.strip_suffix('-').unwrap_or(letters);
    let is_family =
        family.split('-').all(|part| (1..=3).contains(&part.len()) && part.chars().all(|c| c.is_ascii_uppercase()));
    let other = ["UTF", "SHA", "ISO", "RFC", "U", "C", "R", "B", "V", "HTTP", "IPV", "SEP", "DB", "L"];
    !number.is_empty() && number.len() <= 2 && is_family && !other.contains(&family)
}

/// The lines of the crates without I/O that are code and not tests, each with its file and line number.
fn pure_lines() -> Vec<(String, usize, String)> {
    let mut lines = Vec::new();
    for name in PURE {
        let files = sources(&root().join(name).join("src"));
        assert!(files.len() > 15, "{name}: {}", files.len());
        for (file, text) in files {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
                lines.push((format!("{name}/src/{file}"), number + 1, line.to_owned()));
            }
        }
    }
    lines
}
