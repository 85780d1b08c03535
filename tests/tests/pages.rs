//! The programs on the first pages can be pasted into an empty project. `tests/packages/run` builds and runs them; the tests
//! here find what is wrong without building: a crate or a feature that is not stated, or that does not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tests::pages::{self, Page};
use tests::workspace::{self, root};

/// Crates that need not be added.
const OWN: &[&str] = &["std", "core", "alloc", "crate", "self", "super"];

/// The crates that are published, with their folders and their features.
fn published() -> BTreeMap<String, (PathBuf, BTreeSet<String>)> {
    let described = |package: &serde_json::Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let features = package["features"].as_object().unwrap().keys().cloned().collect();
        (package["name"].as_str().unwrap().to_owned(), (manifest.parent().unwrap().to_owned(), features))
    };
    workspace::published().iter().map(described).collect()
}

fn page(name: &str, file: &Path, convert: fn(&str) -> String) -> Page {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    pages::read(name, &convert(&text)).unwrap_or_else(|problem| panic!("{problem}"))
}

fn readme() -> Page {
    page("README.md", &root().join("README.md"), str::to_owned)
}

fn documentation(name: &str, folder: &Path) -> Page {
    page(&format!("lib.rs of {name}"), &folder.join("src/lib.rs"), pages::module_documentation)
}

fn all_pages() -> Vec<Page> {
    let mut all = vec![readme(), page("guide.md", &root().join("docs/guide.md"), str::to_owned)];
    for (name, (folder, _)) in published() {
        all.push(page(&format!("README.md of {name}"), &folder.join("README.md"), str::to_owned));
        // Programs have none.
        if folder.join("src/lib.rs").exists() {
            all.push(documentation(&name, &folder));
        }
    }
    all
}

#[test]
fn the_crates_and_features_that_the_first_pages_add_exist() {
    let published = published();
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    for page in all_pages() {
        for added in page.dependencies {
            if let Some((_, features)) = published.get(&added.name) {
                for feature in &added.features {
                    assert!(features.contains(feature), "{} has no feature {feature}", added.name);
                }
            }
            // `tests/packages/run` would otherwise build with a version that nothing else has tried.
            assert!(lock.contains(&format!("\nname = \"{}\"\n", added.name)), "{} is not in Cargo.lock", added.name);
        }
    }
}

#[test]
fn the_programs_of_the_first_pages_import_only_what_they_add() {
    let mut found = 0;
    for program in all_pages().into_iter().flat_map(|page| page.programs) {
        assert!(program.source.contains("fn main()"), "{} has no `main`", program.place);
        let imports = program.source.lines().filter_map(|line| line.strip_prefix("use "));
        for name in imports.filter_map(|import| import.split("::").next()).filter(|name| !OWN.contains(name)) {
            let is_added = program.dependencies.iter().any(|added| added.name.replace('-', "_") == name);
            assert!(is_added, "{} imports `{name}`, which it does not add", program.place);
            found += 1;
        }
    }
    assert!(found > 20, "{found}");
}

/// The words outside of programs.
fn prose(documentation: &str) -> usize {
    let outside = documentation.split("```").step_by(2);
    outside.flat_map(str::split_whitespace).filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[test]
fn a_first_page_is_short() {
    for (name, (folder, _)) in published() {
        let Ok(source) = fs::read_to_string(folder.join("src/lib.rs")) else { continue };
        let words = prose(&pages::module_documentation(&source));
        assert!(
            (50..=600).contains(&words),
            "the first page of {name} has {words} words: move what few look for to `documentation`"
        );
    }
}

/// The doctests of mcp-tokio compile them there.
#[test]
fn the_programs_of_the_readme_are_on_the_first_page_of_mcp_tokio() {
    let (folder, _) = &published()["mcp-tokio"];
    let compiled = documentation("mcp-tokio", folder);
    let readme = readme();
    assert!(!readme.programs.is_empty());
    for program in readme.programs {
        let is_there = compiled.programs.iter().any(|other| other.source == program.source);
        assert!(is_there, "{} is not on the first page of mcp-tokio", program.place);
    }
}

/// Names of metrics that begin with one of these are the gateway's.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| word.starts_with("mcp_proxy_") || word.starts_with("mcp_server_"))
        // The series of a histogram.
        .map(|word| word.trim_end_matches("_bucket").trim_end_matches("_count").trim_end_matches("_sum"))
        .collect()
}

#[test]
fn the_dashboard_shows_every_metric_of_the_page_for_gateways_and_no_other() {
    let read = |name: &str| fs::read_to_string(root().join("docs").join(name)).expect("a file");
    let dashboard: serde_json::Value = serde_json::from_str(&read("grafana-dashboard.json")).expect("it is JSON");
    let shown: String =
        dashboard["panels"].as_array().expect("panels").iter().map(serde_json::Value::to_string).collect();
    let documented = read("gateway.md");
    let (shown, documented) = (metrics_in(&shown), metrics_in(&documented));
    assert_eq!(shown, documented);
    assert!(documented.len() > 10, "{documented:?}");
}
