//! The file of `--config` with random changes: each is read, or is a mistake in one of its lines.
//!
//! `RANDOM_FILES=1000000 cargo test --release -p mcp-proto-proxy random_files` reads so many.

use clap::CommandFactory;
use mcp_testkit::random::Random;

use super::config_file;
use crate::args::serve::OPTIONS;
use crate::args::{Args, file_options};
use crate::secrets::Secrets;

const FILES: [&str; 3] = [
    r#"{
    // A comment
    "serve": { "listen": "127.0.0.1:1", "tokens": { "ada": "${PATH}", "bob": "x" }, "allowHost": ["a", "b",], "health": true },
    "mcpServers": {
        "a": { "command": "x", "args": ["-y", "z\u00e9\ud83e\udd80"], "env": { "B": "${PATH}" }, "timeout": 1.5e1, "share": "all" },
        "b": { "url": "https://a.example/mcp", "headers": { "X-Key": "1" }, "tools": { "allow": ["a*"], "deny": [] }, "prefix": false },
    },
}"#,
    "\u{feff}{\"servers\":{\"a\":{\"command\":\"x\",\"disabled\":true},\"b\":{\"command\":\"y\",\"cwd\":\"/\",\"disabledTools\":[\"t\"]}}}",
    r#"{"mcpServers":{"a":{"command":"x"}},/* */"serve":{"env":{"A":"1"},"lazyTools":["a*"],"maxSessions":5,"share":"principal"}}"#,
];

/// What is put into a file.
const PIECES: [&str; 25] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    ",",
    ":",
    "//",
    "/*",
    "*/",
    "\\",
    "\\u",
    "\n",
    "${",
    "}",
    "null",
    "true",
    "-1e999",
    "\u{0}",
    "\u{2028}",
    "\u{1f980}",
    "${file:/dev/null}",
    "\"mcpServers\":",
    "{\"a\":[{\"a\":[",
];

/// A number below `end`.
fn below(end: usize, random: &mut Random) -> usize {
    usize::try_from(random.below(u64::try_from(end).unwrap())).unwrap()
}

/// A place between two characters of a text.
fn place(text: &str, random: &mut Random) -> usize {
    let at = below(text.len() + 1, random);
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap()
}

fn changed(text: &str, random: &mut Random) -> String {
    let mut text = text.to_owned();
    for _ in 0..=below(4, random) {
        let (first, second) = (place(&text, random), place(&text, random));
        let (start, end) = (first.min(second), first.max(second));
        let end = if below(3, random) == 0 { end } else { start };
        let piece = match below(4, random) {
            0 => text[place(&text, random)..].chars().take(20).collect(),
            _ => random.pick(&PIECES).repeat(1 + below(2, random) * below(200, random)),
        };
        text.replace_range(start..end, &piece);
    }
    text
}

#[test]
fn a_file_with_random_changes_is_read_or_is_a_mistake_in_one_of_its_lines() {
    let mut command = Args::command();
    command.build();
    let serve = command.find_subcommand("serve").unwrap();
    let mut random = Random::new(1);
    let (mut read, mut mistakes) = (0, 0);
    let rounds = std::env::var("RANDOM_FILES").map_or(3000, |rounds| rounds.parse().expect("a number"));
    for round in 0..rounds {
        let text = changed(FILES[round % FILES.len()], &mut random);
        let servers = config_file::servers(&text, &mut Secrets::default()).map(|servers| servers.len());
        let words = file_options::words(serve, OPTIONS, &text, |_| false).map(|words| words.len());
        let tokens = file_options::tokens(&text).map(|tokens| tokens.len());
        for outcome in [servers, words, tokens] {
            let Err(mistake) = outcome else {
                read += 1;
                continue;
            };
            mistakes += 1;
            let shown = mistake.to_string();
            let line = shown.strip_prefix("line ").and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
            let lines = text.matches('\n').count() + 1;
            assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "{shown}\nof {lines} lines in\n{text}");
        }
    }
    assert!(read > 500 && mistakes > 500, "{read} {mistakes}");
}
