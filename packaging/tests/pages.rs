//! The man pages and the completions name every option of the command line.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

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

    /// The names of the files.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp-proxy/src")
}

/// The source of a part of the program, without its tests.
fn source(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    text.split("#[cfg(test)]").next().unwrap().to_owned()
}

/// The subcommands that the source of the command line declares, read without `clap`: the variants of its `enum`.
fn subcommands() -> BTreeSet<String> {
    let code = source(&sources().join("args.rs"));
    let body = code.split("enum Command {\n").nth(1).unwrap().split("\n}").next().unwrap();
    let variants = body.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    variants.map(|line| line.split([' ', '(', ',']).next().unwrap().to_lowercase()).collect()
}

/// The long options that the source of the command line declares, read without `clap`: `#[arg(long…)]`, and the name of
/// the field unless the attribute has another.
fn declared() -> BTreeSet<String> {
    let files = source_files(&sources());
    let options: BTreeSet<_> = files.iter().flat_map(|file| declared_in(file)).collect();
    assert!(options.len() > 30, "{options:?}");
    options
}

/// All files of the program.
fn source_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.into_iter().chain(folders.iter().flat_map(|folder| source_files(folder))).collect()
}

/// Those in one file.
fn declared_in(file: &Path) -> BTreeSet<String> {
    let mut options = BTreeSet::new();
    let code = source(file);
    let mut lines = code.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(attribute) = line.strip_prefix("#[arg(") else { continue };
        let long = attribute.split([',', ')']).map(str::trim).find(|part| part.starts_with("long"));
        let Some(long) = long else { continue };
        let field = lines.next().unwrap().trim_start_matches("pub(crate) ").split(':').next().unwrap();
        let name = long.split('"').nth(1).map_or_else(|| field.replace('_', "-"), str::to_owned);
        options.insert(name);
    }
    options
}

/// Whether a text contains this word, which letters, digits, hyphens and underscores do not continue.
fn has_word(text: &str, word: &str) -> bool {
    let continues = |next: char| next.is_alphanumeric() || next == '-' || next == '_';
    let mut places = text.match_indices(word).map(|(at, _)| (&text[..at], &text[at + word.len()..]));
    places.any(|(before, after)| !before.ends_with(continues) && !after.starts_with(continues))
}

/// The long options that a man page explains: `\fB\-\-name\fR` in roff.
fn explained(page: &str) -> BTreeSet<String> {
    let names = page.split(r"\fB\-\-").skip(1).filter_map(|rest| rest.split(r"\fR").next());
    names.map(|name| name.replace(r"\-", "-")).collect()
}

#[test]
fn every_option_is_in_the_man_pages_and_in_the_completions_of_each_shell() {
    let pages = Pages::write("options");
    let mut in_man_pages = BTreeSet::new();
    for name in pages.names().iter().filter(|name| name.ends_with(".1")) {
        let options = explained(&pages.read(name));
        assert!(options.contains("help"), "{name}: {options:?}");
        in_man_pages.extend(options);
    }
    // `clap` adds these.
    let options = declared().into_iter().chain(["help".to_owned(), "version".to_owned()]).collect();
    assert_eq!(in_man_pages, options);
    for option in options {
        let is_named = |text: &str| {
            let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-');
            text.match_indices(&option).any(|(at, _)| {
                let before = &text[..at];
                // In the completions for fish: `-l name`.
                (before.ends_with("--") || before.ends_with("-l ")) && ends(&text[at + option.len()..])
            })
        };
        for shell in SHELLS {
            assert!(is_named(&pages.read(shell)), "--{option} is not in {shell}");
        }
    }
}

#[test]
fn every_option_is_explained_in_the_documents() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let read = |name: &str| fs::read_to_string(documents.join(name)).unwrap();
    let (proxy, gateway) = (read("proxy.md"), read("gateway.md"));
    for option in declared() {
        let option = format!("--{option}");
        assert!(has_word(&proxy, &option) || has_word(&gateway, &option), "{option} is in neither document");
    }
    // What only `serve` has.
    for option in declared_in(&sources().join("args/serve.rs")) {
        assert!(has_word(&gateway, &format!("--{option}")), "--{option} is not in docs/gateway.md");
    }
}

#[test]
fn every_subcommand_has_a_man_page_and_a_completion() {
    let pages = Pages::write("subcommands");
    let names = pages.names();
    let written = names.iter().filter_map(|name| name.strip_prefix("mcp-proxy-")?.strip_suffix(".1"));
    let written: BTreeSet<_> = written.map(str::to_owned).collect();
    assert_eq!(written, subcommands());
    for command in written {
        let title = pages.read(&format!("mcp-proxy-{command}.1"));
        assert!(title.contains(&format!(".TH mcp-proxy-{command} ")), "{title}");
        for shell in SHELLS {
            assert!(has_word(&pages.read(shell), &command), "{command} is not in {shell}");
        }
    }
}
