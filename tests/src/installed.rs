//! Programs that some tests need.

use std::io::ErrorKind::NotFound;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::{env, thread};

/// The environment variable with which a test fails, rather than being skipped, where a program that it needs is missing.
const ALL: &str = "MCP_ALL_TESTS";

/// Whether a test that needs a program can run. Where the program is not installed, this writes to stderr that the test is
/// skipped, unless the environment variable `MCP_ALL_TESTS` is set, with which the test runs, and fails.
///
/// # Panics
///
/// If stderr is closed.
pub fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut is_missing = || command.status().is_err_and(|error| error.kind() == NotFound);
    if env::var_os(ALL).is_some() || !is_missing() {
        return true;
    }
    let thread = thread::current();
    let name = thread.name().unwrap_or("a test");
    // Not with a macro, whose output is shown for failed tests alone.
    let skipped = format!("NOT RUN: {name}, which needs {program}\n");
    io::stderr().write_all(skipped.as_bytes()).expect("stderr is open");
    false
}
