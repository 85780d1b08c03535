//! Logs: to stderr or a file, never to stdout, one line each.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use env_logger::{Builder, Target};
use log::LevelFilter;

/// Sets up logging.
///
/// Only this program's own lines are logged: those of the HTTP library would show URLs and headers.
///
/// # Errors
///
/// The file cannot be written.
pub(crate) fn init(level: LevelFilter, file: Option<&Path>) -> io::Result<()> {
    let mut builder = Builder::new();
    builder
        .filter_level(LevelFilter::Off)
        .filter_module("mcp_proxy", level)
        .filter_module("mcp_blocking", level)
        .format(|out, record| {
            let level = record.level().as_str().to_ascii_lowercase();
            writeln!(out, "mcp-proxy: {level}: {}", one_line(&record.args().to_string()))
        });
    builder.target(match file {
        Some(path) => Target::Pipe(Box::new(OpenOptions::new().create(true).append(true).open(path)?)),
        None => Target::Stderr,
    });
    builder.init();
    Ok(())
}

/// PX8: what comes from the wire can neither begin a line of its own nor reach the terminal as a command.
fn one_line(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn px8_control_characters_are_escaped() {
        assert_eq!(super::one_line("a\r\nmcp-proxy: \u{1b}[31mé"), "a\\r\\nmcp-proxy: \\u{1b}[31mé");
    }
}
