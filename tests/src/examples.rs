//! Examples of the package whose test asks for them.

use std::path::PathBuf;
use std::process::Command;

/// The example `name`, ready to be run. `cargo test` builds the examples beside the tests, unless it is asked for one
/// test only.
pub fn example(name: &str) -> Command {
    let mut folder: PathBuf = std::env::current_exe().expect("a test is a program");
    folder.pop();
    folder.pop();
    Command::new(folder.join("examples").join(name))
}
