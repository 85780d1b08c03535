//! Prints the transcript of the machines of a fuzz target for one input:
//!
//! ```text
//! cargo run -p fuzz --bin transcript -- TARGET LINE          line LINE of corpus/TARGET, from 1 on
//! cargo run -p fuzz --bin transcript -- TARGET --seed SEED   the script of a seed
//! ```

#![expect(clippy::print_stderr, reason = "that is what it is for")]

use std::process::ExitCode;

use fuzz::{Target, inputs};
use mcp_testkit::transcript;

/// The named target, and its input.
fn input(args: &[String]) -> Option<(Target, Vec<u8>)> {
    let (target, input) = match args {
        [target, flag, seed] if flag == "--seed" => (target, inputs::script(seed.parse().ok()?)),
        [target, line] => {
            let line = line.parse::<usize>().ok()?.checked_sub(1)?;
            let is_target = fuzz::TARGETS.iter().any(|(name, _)| name == target);
            let kept = if is_target { inputs::kept(target) } else { Vec::new() };
            (target, kept.into_iter().nth(line)?)
        }
        _ => return None,
    };
    let target = fuzz::TARGETS.iter().find(|(name, _)| name == target)?;
    Some((*target, input))
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let Some(((_, run), input)) = input(&args) else {
        eprintln!("usage: transcript TARGET LINE, or transcript TARGET --seed SEED; of such a target, line or seed");
        return ExitCode::from(2);
    };
    transcript::print(|| run(&input));
    ExitCode::SUCCESS
}
