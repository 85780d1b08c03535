//! The programs on the first pages of the repository and its crates, and the lines of `cargo add` that they need.
//!
//! A page is a README, or the documentation of a crate as docs.rs shows it. Its programs are the blocks of Rust. Each must be
//! a whole program, and a block of `sh` above it must contain the lines of `cargo add` for an empty project: under the same
//! heading, or under one that this heading is part of. A block of `text` below it is what it prints.
//!
//! A program that names [`ADDRESS`] without `http://` is a server; one that names it only with `http://` is a client of the
//! last server above it on the page.

use std::fmt::Write as _;
use std::mem;

/// Where the servers of the pages listen.
pub const ADDRESS: &str = "127.0.0.1:3000";

/// A page that was read.
#[derive(Debug, Default)]
pub struct Page {
    /// Its programs, in their order.
    pub programs: Vec<Program>,
    /// All dependencies that it states, also those without a program.
    pub dependencies: Vec<Dependency>,
}

/// A program on a page.
#[derive(Debug)]
pub struct Program {
    /// The page and the line.
    pub place: String,
    /// Its text.
    pub source: String,
    /// What an empty project needs for it.
    pub dependencies: Vec<Dependency>,
    /// Whether rustdoc only compiles it.
    pub is_no_run: bool,
    /// What it prints, if the page states that.
    pub prints: Option<String>,
}

/// A line of `cargo add`, for one crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The name of the crate.
    pub name: String,
    /// Its features.
    pub features: Vec<String>,
    /// Whether the line leaves out the default features.
    pub is_lean: bool,
}

/// What a program is for the others of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It serves at [`ADDRESS`] until it is ended.
    Server,
    /// It calls the server above it, and ends.
    Client,
    /// It needs no other program, and ends.
    Alone,
    /// It is compiled only: it needs what a test does not have, such as another server.
    Compiled,
}

impl Program {
    /// What the program is. Rustdoc cannot run a server, nor a client without it, so that these may be `no_run`.
    pub fn part(&self) -> Part {
        let mut uses = self.source.match_indices(ADDRESS).map(|(at, _)| !self.source[..at].ends_with("http://"));
        if uses.any(|is_without_scheme| is_without_scheme) {
            Part::Server
        } else if self.source.contains(ADDRESS) {
            Part::Client
        } else if self.is_no_run {
            Part::Compiled
        } else {
            Part::Alone
        }
    }
}

impl Dependency {
    /// The line of a manifest. Any version is right: a file `Cargo.lock` selects it.
    pub fn manifest_line(&self) -> String {
        let Self { name, features, is_lean } = self;
        format!("{name} = {{ version = \"*\", default-features = {}, features = {features:?} }}\n", !is_lean)
    }
}

/// The manifest of an empty project to which these dependencies were added.
pub fn manifest(name: &str, dependencies: &[Dependency]) -> String {
    let mut text = format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n");
    for dependency in dependencies {
        let _ = write!(text, "{}", dependency.manifest_line());
    }
    text
}

/// The documentation at the beginning of the source of a crate, without the lines that rustdoc hides. Its lines keep their
/// numbers.
pub fn module_documentation(source: &str) -> String {
    let mut text = String::new();
    let mut is_block = false;
    for line in source.lines().map_while(|line| line.strip_prefix("//!")) {
        let line = line.strip_prefix(' ').unwrap_or(line);
        is_block ^= line.starts_with("```");
        let is_hidden = is_block && (line == "#" || line.trim_start().starts_with("# "));
        text.push_str(if is_hidden { HIDDEN } else { line });
        text.push('\n');
    }
    text
}

/// Stands for a line that rustdoc hides.
const HIDDEN: &str = "\0";

/// Reads a page in Markdown.
///
/// # Errors
///
/// What is wrong with it, with the line.
pub fn read(name: &str, text: &str) -> Result<Page, String> {
    let mut page = Page::default();
    // Those of the current heading and of the ones it is part of, each with its level, and whether the last block is a program.
    let (mut stated, mut follows_program) = (vec![(0, Vec::new())], false);
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let place = format!("{name} line {}", number + 1);
        if line.starts_with('#') {
            let level = line.bytes().take_while(|byte| *byte == b'#').count();
            stated.retain(|(other, _)| (1..level).contains(other));
            stated.push((level, Vec::new()));
            follows_program = false;
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let mut block = String::new();
        loop {
            let (_, line) = lines.next().ok_or_else(|| format!("{place}: the block does not end"))?;
            if line == "```" {
                break;
            }
            if line != HIDDEN {
                block.push_str(line);
                block.push('\n');
            }
        }
        let follows = mem::take(&mut follows_program);
        match language {
            "" | "rust" | "no_run" | "rust,no_run" => {
                let dependencies = joined(stated.iter().flat_map(|(_, added)| added));
                if dependencies.is_empty() {
                    return Err(format!("{place}: no `cargo add` above this program, under this heading"));
                }
                follows_program = true;
                let is_no_run = language.ends_with("no_run");
                page.programs.push(Program { place, source: block, dependencies, is_no_run, prints: None });
            }
            "sh" => {
                let mut added = Vec::new();
                for line in block.lines().filter_map(|line| line.strip_prefix("cargo add ")) {
                    added
                        .extend(added_by(line).map_err(|problem| format!("{place}: {problem} in `cargo add {line}`"))?);
                }
                page.dependencies.extend_from_slice(&added);
                if let Some((_, dependencies)) = stated.last_mut().filter(|_| !added.is_empty()) {
                    *dependencies = added;
                }
            }
            "text" => {
                if let Some(program) = page.programs.last_mut().filter(|_| follows) {
                    program.prints = Some(block);
                }
            }
            "toml" | "json" | "nginx" => {}
            // Each attribute with which rustdoc would leave out a block, too.
            other => return Err(format!("{place}: a block of `{other}`")),
        }
    }
    check_pairs(&page.programs)?;
    Ok(page)
}

/// What `cargo add` makes of these lines: a crate that is added again has the features of both.
fn joined<'a>(added: impl Iterator<Item = &'a Dependency>) -> Vec<Dependency> {
    let mut all: Vec<Dependency> = Vec::new();
    for one in added {
        match all.iter_mut().find(|earlier| earlier.name == one.name) {
            Some(earlier) => earlier.features.extend_from_slice(&one.features),
            None => all.push(one.clone()),
        }
    }
    all
}

/// Each client has a server above it, and each server a client that is run.
fn check_pairs(programs: &[Program]) -> Result<(), String> {
    let mut server: Option<&Program> = None;
    let mut is_called = true;
    for program in programs {
        match program.part() {
            Part::Client if server.is_none() => return Err(format!("{}: no server above this client", program.place)),
            Part::Client => is_called = true,
            Part::Server if is_called => (server, is_called) = (Some(program), false),
            Part::Server | Part::Alone | Part::Compiled => {}
        }
    }
    match server.filter(|_| !is_called) {
        Some(server) => Err(format!("{}: no client below this server", server.place)),
        None => Ok(()),
    }
}

/// The crates that a line of `cargo add` names, and their features.
fn added_by(line: &str) -> Result<Vec<Dependency>, String> {
    let mut names = Vec::new();
    let (mut features, mut is_lean) = (Vec::new(), false);
    let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--features" => features = words.next().unwrap_or_default().split(',').map(str::to_owned).collect(),
            "--no-default-features" => is_lean = true,
            _ if word.starts_with('-') => return Err(format!("`{word}`, which is not read here,")),
            _ => names.push(word),
        }
    }
    if names.len() > 1 && !features.is_empty() {
        return Err("features of more than one crate".to_owned());
    }
    let dependency = |name: &str| Dependency { name: name.to_owned(), features: features.clone(), is_lean };
    Ok(names.into_iter().map(dependency).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDED: &str =
        "```sh\ncargo add mcp-proto serde\ncargo add tokio --no-default-features --features net,rt # small\n```\n";

    #[test]
    fn a_program_has_the_dependencies_above_it_and_the_output_below_it() {
        let page = read("page", &format!("# A\n{ADDED}\n```rust\nfn main() {{}}\n```\nIt prints:\n```text\n6\n```\n"))
            .unwrap();
        let [program] = &*page.programs else { panic!("{page:?}") };
        assert_eq!((&*program.place, &*program.source), ("page line 7", "fn main() {}\n"));
        assert_eq!(program.prints.as_deref(), Some("6\n"));
        assert_eq!(program.part(), Part::Alone);
        let manifest = manifest("page-1", &program.dependencies);
        assert!(
            manifest.contains("\nserde = { version = \"*\", default-features = true, features = [] }\n"),
            "{manifest}"
        );
        let lean = "\ntokio = { version = \"*\", default-features = false, features = [\"net\", \"rt\"] }\n";
        assert!(manifest.contains(lean), "{manifest}");
    }

    #[test]
    fn a_section_adds_to_the_dependencies_of_the_sections_that_it_is_part_of() {
        let text = |added: &str| format!("{added}```rust\nfn main() {{}}\n```\n");
        let other = text("```sh\ncargo add axum\ncargo add serde --features derive\n```\n");
        let page = read("page", &format!("# A\n{}## B\n{other}## C\n{}", text(ADDED), text(""))).unwrap();
        let names: Vec<Vec<_>> = page
            .programs
            .iter()
            .map(|program| program.dependencies.iter().map(|added| added.name.as_str()).collect())
            .collect();
        let above = ["mcp-proto", "serde", "tokio"];
        assert_eq!(names, [above.to_vec(), [&above[..], &["axum"]].concat(), above.to_vec()]);
        assert_eq!(page.programs[1].dependencies[1].features, ["derive"]);
    }

    #[test]
    fn what_a_reader_could_not_paste_is_an_error() {
        let program = "```rust\nfn main() {}\n```\n";
        let server = format!("{ADDED}```no_run\nserve(\"{ADDRESS}\")\n```\n");
        let client = format!("{ADDED}```no_run\ncall(\"http://{ADDRESS}/mcp\")\n```\n");
        for (text, problem) in [
            (program.to_owned(), "page line 1: no `cargo add` above this program, under this heading"),
            (
                format!("{ADDED}# Another heading\n{program}"),
                "page line 6: no `cargo add` above this program, under this heading",
            ),
            (format!("{ADDED}```ignore\n```\n"), "page line 5: a block of `ignore`"),
            (format!("{ADDED}```rust\nfn main() {{}}\n"), "page line 5: the block does not end"),
            (server.clone(), "page line 5: no client below this server"),
            (format!("{client}{server}"), "page line 5: no server above this client"),
            (
                "```sh\ncargo add a b --features c\n```\n".to_owned(),
                "page line 1: features of more than one crate in `cargo add a b --features c`",
            ),
            (
                "```sh\ncargo add a --path b\n```\n".to_owned(),
                "page line 1: `--path`, which is not read here, in `cargo add a --path b`",
            ),
        ] {
            assert_eq!(read("page", &text).map(|_| ()), Err(problem.to_owned()), "{text}");
        }
        assert!(read("page", &format!("{server}{client}")).is_ok());
    }

    #[test]
    fn hidden_lines_are_left_out_as_docs_rs_leaves_them_out() {
        let source = "//! # A page\n//!\n//! ```\n//! # use std::io;\n//! #[derive(Debug)]\n//! struct A;\n//! #\n//! ```\n\nmod a;\n";
        let documentation = module_documentation(source);
        assert_eq!(documentation.lines().count(), 8);
        let page = read("lib.rs", &format!("{ADDED}{}", documentation.replacen("# A page", "", 1))).unwrap();
        assert_eq!(page.programs[0].source, "#[derive(Debug)]\nstruct A;\n");
        assert_eq!(page.programs[0].place, "lib.rs line 7");
    }
}
