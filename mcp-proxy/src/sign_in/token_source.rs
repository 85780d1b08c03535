//! Tokens that other programs issue: in an environment variable, or printed by a command.

use std::io::{self, Read};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::environment::environment;
use crate::platform::shell;

/// How long a command may take.
const COMMAND_TIME: Duration = Duration::from_secs(25);
/// The longest token, in bytes.
const MAX_TOKEN: u64 = 64 * 1024;

/// Where a token comes from.
#[derive(Debug, Clone)]
pub(super) enum TokenSource {
    Variable(String),
    /// A command of the shell, which prints it.
    Command(String),
}

impl TokenSource {
    /// Gets the token.
    ///
    /// # Errors
    ///
    /// The variable is not set, or the command failed or took too long. The text contains nothing that it printed.
    pub(super) fn read(&self) -> io::Result<String> {
        match self {
            Self::Variable(name) => environment(name).map_err(io::Error::other),
            Self::Command(command) => run(command, COMMAND_TIME),
        }
    }
}

fn run(command: &str, time: Duration) -> io::Result<String> {
    // Standard input and output are those of the messages.
    let mut child = shell(command).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let until = Instant::now() + time;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("it took more than {} s", time.as_secs())));
        }
        thread::sleep(Duration::from_millis(10));
    };
    if !status.success() {
        return Err(io::Error::other(format!("it ended with {status}")));
    }
    let mut token = String::new();
    if let Some(stdout) = child.stdout {
        stdout.take(MAX_TOKEN).read_to_string(&mut token)?;
    }
    Ok(token.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_the_shell_of_each_system_prints_the_token() {
        let time = Duration::from_secs(20);
        assert_eq!(run("echo token-4711", time).unwrap(), "token-4711");
        assert_eq!(run("echo \"a b\"&& exit 0", time).unwrap().trim_matches('"'), "a b");
        assert!(run("exit 3", time).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_command_prints_the_token_and_fails_without_showing_it() {
        let time = Duration::from_secs(10);
        assert_eq!(run("printf ' token-%s\\n' 4711", time).unwrap(), "token-4711");
        let error = run("echo token-4711; exit 3", time).unwrap_err().to_string();
        assert_eq!(error, "it ended with exit status: 3");
        let started = Instant::now();
        assert_eq!(run("sleep 20", Duration::from_millis(100)).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(TokenSource::Variable("NO_SUCH_VARIABLE".to_owned()).read().is_err());
    }
}
