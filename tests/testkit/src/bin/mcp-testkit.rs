//! Writes what a fuzzer needs: `mcp-testkit` prints its usage.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use mcp_testkit::vocabulary::Vocabulary;
use mcp_testkit::{corpus, dictionary};

const USAGE: &str = "\
Usage:
    mcp-testkit dictionary                     prints the tokens of the protocol, for -dict= of libFuzzer
    mcp-testkit corpus lines FOLDER            writes inputs for a target that takes the bytes of a client
    mcp-testkit corpus conversations FOLDER    writes inputs for a target that takes a Conversation
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["dictionary"] => io::stdout().write_all(dictionary::file().as_bytes()),
        ["corpus", "lines", folder] => write(Path::new(folder), &corpus::lines(&Vocabulary::new())),
        ["corpus", "conversations", folder] => write(Path::new(folder), &corpus::conversations()),
        _ => {
            let _ = io::stderr().write_all(USAGE.as_bytes());
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "mcp-testkit: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path, inputs: &[Vec<u8>]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (number, input) in inputs.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number:03}")), input)?;
    }
    Ok(())
}
