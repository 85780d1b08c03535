//! Writes logs to stderr or a file, never to stdout, one line each.
//!
//! `line` has the form of a line, and `flood` limits how many a client can cause. A dedicated thread writes them, so that a slow or blocked reader of the log blocks no other thread.

mod flood;
mod line;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use env_logger::{Builder, Target};
use flood::Flood;
use jiff::Timestamp;
use line::Line;
use log::{Level, LevelFilter, Record};
use mcp_proto::escape_text;

use crate::private_file::{self, Existing};
use crate::secrets::Secrets;

/// The maximum number of characters of a message; the rest is cut.
const MAX_CHARS: usize = 4096;
/// The characters at the beginning of a message that are searched for secrets.
const SEARCHED_CHARS: usize = 64 * 1024;

/// Bytes of lines that are queued. Further lines are dropped and counted.
const QUEUE_BYTES: usize = 256 * 1024;
/// How long the last lines may take to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// Stack size of the writing thread, in bytes.
const STACK: usize = 256 * 1024;

/// Where the log is written.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct LogOptions {
    /// The level of the log
    #[arg(id = "log_level", long = "log-level", value_enum, default_value_t = LogLevel::Warn)]
    pub(crate) level: LogLevel,

    /// Logs to this file instead of stderr
    #[arg(id = "log_file", long = "log-file", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// The form of each line of the log
    #[arg(id = "log_format", long = "log-format", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) format: LogFormat,
}

impl LogOptions {
    /// The level and the form on a command line.
    pub(crate) fn words(&self) -> impl Iterator<Item = OsString> {
        let values =
            [("--log-level", self.level.to_possible_value()), ("--log-format", self.format.to_possible_value())];
        values.into_iter().filter_map(|(option, value)| Some([option.into(), value?.get_name().into()])).flatten()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people: the time, the level, the message, and fields as `name=value`
    Text,
    /// For programs: one JSON object
    Json,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::Off,
            LogLevel::Error => Self::Error,
            LogLevel::Warn => Self::Warn,
            LogLevel::Info => Self::Info,
            LogLevel::Debug => Self::Debug,
            LogLevel::Trace => Self::Trace,
        }
    }
}

/// Sets up logging.
///
/// Text from the peers can neither begin a new line nor send control sequences to the terminal (PX8), and the secrets
/// that [`Log::leave_out`] names are removed from it.
///
/// Only this program's own lines are logged, because those of the HTTP library would contain URLs and headers.
///
/// # Errors
///
/// If the file cannot be opened, or the thread not started.
pub(crate) fn init(options: &LogOptions) -> io::Result<Log> {
    let LogOptions { level, file, format } = options;
    let (level, format) = (LevelFilter::from(*level), *format);
    let output = open(file.as_deref())?;
    let log = Log::spawn(output, file.clone(), format)?;
    let (lines, flood) = (log.clone(), Flood::default());
    Builder::new()
        .filter_level(LevelFilter::Off)
        .filter_module("mcp_proxy", level)
        .filter_module("mcp_blocking", level)
        .format(move |out, record| {
            let Some(left_out) = flood.admit(record, Instant::now()) else { return Ok(()) };
            if left_out > 0 {
                let text = format!("lines like the next one were left out: {left_out}");
                writeln!(out, "{}", own_line(Level::Warn, text, format))?;
            }
            let line = Line::new(record, Timestamp::now(), |text| lines.shown(text));
            writeln!(out, "{}", line.format(format))
        })
        .target(Target::Pipe(Box::new(log.clone())))
        .init();
    Ok(log)
}

/// Stderr, or this file.
fn open(file: Option<&Path>) -> io::Result<Box<dyn Write + Send>> {
    Ok(match file {
        Some(path) => Box::new(private_file::open(path, Existing::Append)?),
        None => Box::new(io::stderr()),
    })
}

/// A line about the log or another record, which is not in the log.
pub(crate) fn own_line(level: Level, message: String, format: LogFormat) -> String {
    Line::plain(level, Timestamp::now(), message).format(format)
}

/// A queue of lines for the thread that writes them. Clones share the queue.
#[derive(Clone)]
pub(crate) struct Log(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Texts that no line may contain; none while the command line is being read.
    secrets: RwLock<Secrets>,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines dropped since the thread last wrote their count.
    dropped: u64,
    is_writing: bool,
    /// The file is to be opened again.
    is_moved: bool,
}

impl State {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0 && !self.is_moved
    }
}

impl Log {
    /// Writes to `output`, which may be opened again at `file`.
    fn spawn(output: impl Write + Send + 'static, file: Option<PathBuf>, format: LogFormat) -> io::Result<Self> {
        let log = Self(Arc::default());
        let shared = Arc::clone(&log.0);
        thread::Builder::new()
            .name("mcp-log".to_owned())
            .stack_size(STACK)
            .spawn(move || write_lines(Box::new(output), file.as_deref(), format, &shared))?;
        Ok(log)
    }

    /// Removes these texts from all further lines.
    pub(crate) fn leave_out(&self, secrets: &Secrets) {
        self.0.secrets.write().unwrap_or_else(PoisonError::into_inner).extend(secrets);
    }

    /// A record as a line of JSON, which is cut and has no secrets as those of the log.
    pub(crate) fn json_line(&self, record: &Record<'_>) -> String {
        Line::new(record, Timestamp::now(), |text| self.shown(text)).format(LogFormat::Json)
    }

    /// A log that writes nowhere.
    #[cfg(test)]
    pub(crate) fn discarding() -> Self {
        Self(Arc::default())
    }

    /// The message as it is written: on one line, without secrets, and not in full if it is long.
    fn shown(&self, message: &str) -> String {
        // Searching a message of any length would take too long.
        let start =
            message.char_indices().nth(SEARCHED_CHARS).and_then(|(end, _)| message.get(..end)).unwrap_or(message);
        let secrets = self.0.secrets.read().unwrap_or_else(PoisonError::into_inner);
        escape_text(&secrets.leave_out(start), MAX_CHARS)
    }

    /// Goes on with a new file, after the old one was renamed.
    pub(crate) fn reopen(&self) {
        self.0.state().is_moved = true;
        self.0.changed.notify_all();
    }

    /// Waits until every line is written, but not longer than [`FLUSH_TIMEOUT`].
    pub(crate) fn flush(&self) {
        let state = self.0.state();
        let is_behind = |state: &mut State| state.is_writing || !state.is_empty();
        drop(self.0.changed.wait_timeout_while(state, FLUSH_TIMEOUT, is_behind));
    }
}

/// One call takes one line, and never blocks.
impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        // Once a line was dropped, further ones are dropped too until the count is written, so the count is at the
        // right place.
        if state.dropped > 0 || state.bytes + line.len() > QUEUE_BYTES {
            state.dropped += 1;
        } else {
            state.bytes += line.len();
            state.lines.push_back(line.to_vec());
        }
        drop(state);
        self.0.changed.notify_all();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what is queued, for as long as the process runs. If the output is closed, the lines are lost.
fn write_lines(mut output: Box<dyn Write + Send>, file: Option<&Path>, format: LogFormat, shared: &Shared) {
    loop {
        let mut state = shared.state();
        state.is_writing = false;
        shared.changed.notify_all();
        state = shared.changed.wait_while(state, |state| state.is_empty()).unwrap_or_else(PoisonError::into_inner);
        let (lines, dropped) = (std::mem::take(&mut state.lines), std::mem::take(&mut state.dropped));
        let is_moved = std::mem::take(&mut state.is_moved);
        state.bytes = 0;
        state.is_writing = true;
        drop(state);
        if is_moved {
            // If the file cannot be opened, the old one is kept.
            if let Ok(opened) = open(file) {
                output = opened;
            }
        }
        for line in lines {
            let _ = output.write_all(&line);
        }
        if dropped > 0 {
            let text = format!("{dropped} lines of this log were dropped: they were not read in time");
            let _ = writeln!(output, "{}", own_line(Level::Warn, text, format));
        }
        let _ = output.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn lines_that_are_not_read_are_dropped_and_counted_and_block_no_thread() {
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut log = Log::spawn(writer, None, LogFormat::Text).unwrap();
        let line = [vec![b'x'; 999], vec![b'\n']].concat();
        // More than a socket and the queue hold, before anything is read: the writes must not block.
        let sent = 4000;
        for _ in 0..sent {
            log.write_all(&line).unwrap();
        }
        // The longest time that the end of the process waits for the log.
        log.flush();
        assert!(log.0.state().bytes <= QUEUE_BYTES);
        let (mut kept, mut dropped) = (0, 0);
        let mut lines = io::BufRead::lines(io::BufReader::new(&mut reader));
        while kept + dropped < sent {
            let line = lines.next().unwrap().unwrap();
            match line.split_once(" mcp-proxy: warn: ").map(|(_, text)| text) {
                Some(count) => dropped += count.split(' ').next().unwrap().parse::<usize>().unwrap(),
                None => kept += 1,
            }
        }
        assert!(dropped > sent / 2);
        // The log continues once it is read.
        log.write_all(b"next\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "next");
        log.flush();
    }

    #[test]
    fn a_line_is_short_and_has_no_secret() {
        let log = Log(Arc::default());
        assert_eq!(log.shown("a\nb token-4711"), "a\\nb token-4711");
        let mut secrets = Secrets::default();
        secrets.add("a test", "token-4711");
        log.leave_out(&secrets);
        assert_eq!(log.shown("a\nb token-4711"), "a\\nb [secret]");
        for length in [0, MAX_CHARS - 5, SEARCHED_CHARS - 1] {
            let message = format!("{}ééé token-4711", "x".repeat(length));
            let shown = log.shown(&message);
            assert!(!shown.contains("4711") && shown.chars().count() <= MAX_CHARS + 1, "{length}: {shown}");
        }
    }

    #[test]
    fn lines_are_queued_up_to_a_number_of_bytes_and_none_before_their_count() {
        // No thread takes the lines.
        let mut log = Log(Arc::default());
        let line = vec![b'x'; QUEUE_BYTES / 2];
        for (line, queued, dropped) in
            [(&line[..], 1, 0), (&line[1..], 2, 0), (b"x", 3, 0), (b"", 4, 0), (b"x", 4, 1), (b"", 4, 2)]
        {
            assert_eq!(log.write(line).unwrap(), line.len());
            let state = log.0.state();
            assert_eq!((state.lines.len(), state.dropped), (queued, dropped));
        }
        assert_eq!(log.0.state().bytes, QUEUE_BYTES);
    }

    #[test]
    fn an_end_waits_until_every_line_is_written_and_no_longer_than_it_may() {
        /// Writes slowly, and sends the name of each call once it is done.
        struct Slow(std::sync::mpsc::Sender<&'static str>);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                thread::sleep(Duration::from_millis(20));
                self.0.send("written").unwrap();
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                thread::sleep(Duration::from_millis(20));
                self.0.send("flushed").unwrap();
                Ok(())
            }
        }
        let (calls, done) = std::sync::mpsc::channel();
        let mut log = Log::spawn(Slow(calls), None, LogFormat::Text).unwrap();
        log.flush();
        for _ in 0..3 {
            log.write_all(b"line\n").unwrap();
            log.flush();
            assert_eq!(done.try_iter().collect::<Vec<_>>(), ["written", "flushed"]);
        }
        // Lines that were written free their room.
        let mut log = Log::spawn(io::sink(), None, LogFormat::Text).unwrap();
        for _ in 0..3 {
            log.write_all(&vec![b'x'; QUEUE_BYTES / 2 + 1]).unwrap();
            log.flush();
            let state = log.0.state();
            assert_eq!((state.bytes, state.dropped, state.lines.len()), (0, 0, 0));
        }
        // Without a thread that writes, `flush` returns after its timeout.
        let mut stuck = Log(Arc::default());
        stuck.write_all(b"line\n").unwrap();
        stuck.flush();
        assert_eq!(stuck.0.state().lines.len(), 1);
    }

    #[test]
    fn lines_and_their_count_are_to_be_written() {
        let state = |lines: usize, dropped| State { lines: vec![vec![]; lines].into(), dropped, ..State::default() };
        assert!(state(0, 0).is_empty() && !state(1, 0).is_empty() && !state(0, 1).is_empty());
    }
}
