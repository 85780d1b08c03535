//! The man pages and the completions name every option of the command line.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

const SUBCOMMANDS: [&str; 4] = ["demo", "login", "logout", "whoami"];
/// The name of the completions of each shell.
const SHELLS: [&str; 5] = ["mcp-proxy.bash", "mcp-proxy.elv", "mcp-proxy.fish", "_mcp-proxy", "_mcp-proxy.ps1"];

/// A folder with all pages. It is removed on drop.
struct Pages(PathBuf);

impl Pages {
    fn write(test: &str) -> Self {
        let folder = env::temp_dir().join(format!("mcp-proxy-pages-{}-{test}", process::id()));
        let status = Command::new(env!("CARGO_BIN_EXE_pages")).arg(&folder).status().unwrap();
        assert!(status.success());
        Self(folder)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The long options that the source of the command line declares, read without `clap`: `#[arg(long…)]`, and the name of
/// the field unless the attribute has another.
fn declared() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp-blocking/src/bin/mcp-proxy");
    let mut options = BTreeSet::new();
    for file in ["args.rs", "sign_in/options.rs"] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let mut lines = code.lines().map(str::trim);
        while let Some(line) = lines.next() {
            let Some(attribute) = line.strip_prefix("#[arg(") else { continue };
            let long = attribute.split([',', ')']).map(str::trim).find(|part| part.starts_with("long"));
            let Some(long) = long else { continue };
            let field = lines.next().unwrap().trim_start_matches("pub(crate) ").split(':').next().unwrap();
            let name = long.split('"').nth(1).map_or_else(|| field.replace('_', "-"), str::to_owned);
            options.insert(name);
        }
    }
    assert!(options.len() > 30, "{options:?}");
    options
}

#[test]
fn every_option_is_in_the_man_pages_and_in_the_completions_of_each_shell() {
    let pages = Pages::write("options");
    // roff escapes hyphens.
    let man = ["", "-login"].map(|command| pages.read(&format!("mcp-proxy{command}.1")).replace(r"\-", "-"));
    for option in declared() {
        let is_named = |text: &str| {
            let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-');
            text.match_indices(&option).any(|(at, _)| {
                let before = &text[..at];
                // In the completions for fish: `-l name`.
                (before.ends_with("--") || before.ends_with("-l ")) && ends(&text[at + option.len()..])
            })
        };
        assert!(man.iter().any(|page| is_named(page)), "--{option} is in no man page");
        for shell in SHELLS {
            assert!(is_named(&pages.read(shell)), "--{option} is not in {shell}");
        }
    }
}

#[test]
fn every_subcommand_has_a_man_page_and_a_completion() {
    let pages = Pages::write("subcommands");
    for command in SUBCOMMANDS {
        let title = pages.read(&format!("mcp-proxy-{command}.1"));
        assert!(title.contains(".TH"), "{title}");
        for shell in SHELLS {
            assert!(pages.read(shell).contains(command), "{command} is not in {shell}");
        }
    }
}
