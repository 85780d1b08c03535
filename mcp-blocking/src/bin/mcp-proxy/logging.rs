//! Logs: to stderr or a file, never to stdout, one line each.

use std::io::{self, Write};
use std::path::Path;

use env_logger::{Builder, Target};
use log::LevelFilter;
use mcp_proto::escape_text;

use crate::private_file::{self, Existing};

/// A longer message is cut.
const MAX_CHARS: usize = 4096;

/// Sets up logging.
///
/// PX8: what comes from the wire can neither begin a line of its own nor reach the terminal as a command.
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
            writeln!(out, "mcp-proxy: {level}: {}", escape_text(&record.args().to_string(), MAX_CHARS))
        });
    builder.target(match file {
        Some(path) => Target::Pipe(Box::new(private_file::open(path, Existing::Append)?)),
        None => Target::Stderr,
    });
    builder.init();
    Ok(())
}
