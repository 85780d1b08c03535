//! The core does no I/O and reads no clock, and the blocking crate has no async runtime: neither in what they depend on
//! nor in what they say.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The crates that a crate is built from.
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
fn the_core_depends_on_nothing_that_does_io() {
    let allowed = [
        "base64",
        "bytes",
        "http",
        "itoa",
        "mcp-proto",
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
    let found = dependencies("mcp-proto", &["--all-features"]);
    let strangers: Vec<_> = found.iter().filter(|name| !allowed.contains(&name.as_str())).collect();
    assert!(strangers.is_empty(), "{strangers:?} came into mcp-proto");
}

#[test]
fn the_blocking_crate_has_no_async_runtime() {
    let found = dependencies("mcp-blocking", &["--all-features"]);
    for runtime in
        ["tokio", "async-std", "smol", "async-io", "futures-executor", "futures-util", "mio", "hyper", "reqwest"]
    {
        assert!(!found.contains(runtime), "{runtime} came into mcp-blocking");
    }
}

#[test]
fn the_core_names_nothing_that_does_io_or_reads_a_clock() {
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
    let mut files = 0;
    let mut folders = vec![root().join("mcp-proto/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
                // What an error is called does nothing.
                let line = if line == "use std::io::{Error, ErrorKind};" { "" } else { line };
                for name in banned {
                    assert!(!line.contains(name), "{name} in {} line {}", path.display(), number + 1);
                }
            }
        }
    }
    assert!(files > 30, "{files}");
}
