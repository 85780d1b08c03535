//! A server in a child process that does what its arguments say, for tests on systems without `sh`.
//!
//! Each word is a step, and some have an argument, which is the next word:
//!
//! | step | what it does |
//! |---|---|
//! | `read` | reads a line |
//! | `at` TEXT | reads lines until one contains the text |
//! | `drain` | reads until the end of stdin |
//! | `say` TEXT | writes a line to stdout |
//! | `print` FILE | writes the contents of a file to stdout |
//! | `tell` TEXT | writes a line to stderr |
//! | `arguments` … | writes each of the remaining words to stderr, as [`Json`] |
//! | `create` FILE | creates an empty file |
//! | `sleep` SECONDS | waits |
//! | `start` … | starts another process with the remaining words as its steps, which has the same streams |
//! | `session` | answers requests until the end of stdin, as `mcp-proxy/tests/binary/gateway/serving.rs` states |
//! | `exit` CODE | exits |

use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, id};
use std::time::{Duration, Instant};
use std::{env, thread};

use mcp_proto::Json;
use mcp_testkit::waiting::LONG;

/// Does what the arguments of this process say.
///
/// # Errors
///
/// A step fails.
pub fn run() -> io::Result<ExitCode> {
    let _life = Life::begin()?;
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut words = env::args().skip(1);
    while let Some(step) = words.next() {
        let mut argument = || words.next().ok_or_else(|| io::Error::other(format!("the step {step} has no argument")));
        match step.as_str() {
            "read" => drop(stdin.read_line(&mut String::new())?),
            "at" => {
                let text = argument()?;
                let mut line = String::new();
                while !line.contains(&text) {
                    line.clear();
                    if stdin.read_line(&mut line)? == 0 {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
            }
            "drain" => drop(io::copy(&mut stdin, &mut io::sink())?),
            "say" => writeln!(stdout, "{}", argument()?)?,
            "print" => stdout.write_all(&fs::read(argument()?)?)?,
            "tell" => writeln!(io::stderr(), "{}", argument()?)?,
            "arguments" => {
                for word in words.by_ref() {
                    writeln!(io::stderr(), "{}", Json::from(word.as_str()).to_text())?;
                }
            }
            "create" => drop(File::create(argument()?)?),
            "sleep" => thread::sleep(Duration::from_secs_f64(argument()?.parse().map_err(io::Error::other)?)),
            "start" => drop(Command::new(env::current_exe()?).args(words.by_ref()).spawn()?),
            "session" => {
                if let Some(code) = session(&mut stdin, &mut stdout)? {
                    return Ok(code);
                }
            }
            "exit" => return Ok(ExitCode::from(argument()?.parse::<u8>().map_err(io::Error::other)?)),
            other => return Err(io::Error::other(format!("there is no step {other}"))),
        }
        stdout.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Answers requests until the end of stdin, or until one asks for the end.
fn session(stdin: &mut impl BufRead, stdout: &mut impl Write) -> io::Result<Option<ExitCode>> {
    for line in stdin.lines() {
        let Ok(message) = Json::parse(line?) else { continue };
        let (Some(id), Some(method)) = (message.first_member("id"), message.first_member("method")) else { continue };
        let result = match method.to_text().trim_matches('"') {
            "initialize" => {
                r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#
                    .to_owned()
            }
            "wait" => {
                writeln!(io::stderr(), "waits")?;
                continue;
            }
            "exit" => return Ok(Some(ExitCode::from(3))),
            "sleep" => {
                writeln!(io::stderr(), "sleeps")?;
                thread::sleep(Duration::from_secs(1000));
                continue;
            }
            "fork" => {
                let child = Command::new(env::current_exe()?).args(["sleep", "1000"]).spawn()?;
                // Until then, the process could be taken for one that has ended.
                while !runs(child.id()) {
                    thread::sleep(Duration::from_millis(5));
                }
                format!("{{\"pid\":{}}}", child.id())
            }
            "flood" => format!("{{\"text\":\"{}\"}}", "x".repeat(1 << 20)),
            _ => {
                let variable = |name| Json::from(env::var(name).unwrap_or_default().as_str());
                let folder = env::current_dir()?;
                let folder = Json::from(folder.to_string_lossy().as_ref());
                format!(
                    r#"{{"pid":{},"user":{},"folder":{},"setting":{}}}"#,
                    std::process::id(),
                    variable("MCP_USER").to_text(),
                    folder.to_text(),
                    variable("SETTING").to_text()
                )
            }
        };
        writeln!(stdout, r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.to_text())?;
        stdout.flush()?;
    }
    Ok(None)
}

/// A file that this process has open, which nobody can open for writing while it lives: Windows has no call of the standard
/// library that asks whether another process runs.
struct Life {
    _file: File,
}

impl Life {
    fn begin() -> io::Result<Self> {
        let path = path(id());
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        let until = Instant::now() + LONG;
        loop {
            match exclusive().create(true).open(&path) {
                // The process that has started this one opens the file while it looks whether this one runs.
                Err(_) if cfg!(windows) && Instant::now() < until => thread::sleep(Duration::from_millis(1)),
                opened => return opened.map(|file| Self { _file: file }),
            }
        }
    }
}

fn path(pid: u32) -> PathBuf {
    env::temp_dir().join("mcp-scripted").join(pid.to_string())
}

#[cfg(windows)]
fn exclusive() -> fs::OpenOptions {
    use std::os::windows::fs::OpenOptionsExt;

    let mut options = File::options();
    options.write(true).share_mode(0);
    options
}

#[cfg(not(windows))]
fn exclusive() -> fs::OpenOptions {
    let mut options = File::options();
    options.write(true).truncate(true);
    options
}

/// Whether a process runs that does what its arguments say. Only on Windows.
#[must_use]
pub fn runs(pid: u32) -> bool {
    // It is no error if the process has never existed.
    let path = path(pid);
    path.exists() && exclusive().open(path).is_err()
}
