//! The least that a proxy between stdio and HTTP costs with threads and `ureq`: each line becomes a POST, each body a
//! line.
//!
//! It checks nothing, parses nothing but `data:` at the start of a line, and recovers from nothing.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, Read, Stdin, Write};
use std::os::fd::AsFd;
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{env, thread};

use ureq::Agent;
use ureq::http::header::{ACCEPT, CONTENT_TYPE};

const THREADS: usize = 64;
const CHUNK: usize = 64 * 1024;
const DATA: &[u8] = b"data: ";

struct Bare {
    url: String,
    agent: Agent,
    session: OnceLock<String>,
    input: Stdin,
    output: Mutex<File>,
    /// Threads that wait for a line.
    idle: AtomicUsize,
    threads: AtomicUsize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).ok_or("usage: bare-proxy URL")?;
    let agent = Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .max_idle_connections(THREADS)
        .max_idle_connections_per_host(THREADS)
        .build()
        .new_agent();
    let bare = Arc::new(Bare {
        url,
        agent,
        session: OnceLock::new(),
        input: io::stdin(),
        output: Mutex::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        idle: AtomicUsize::new(1),
        threads: AtomicUsize::new(1),
    });
    serve(&bare)
}

/// Reads lines in turns with the other threads. The thread that reads a line also forwards it; this saves a thread
/// switch.
fn serve(bare: &Arc<Bare>) -> Result<(), Box<dyn Error>> {
    let mut line = String::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        line.clear();
        if bare.input.lock().read_line(&mut line)? == 0 {
            exit(0);
        }
        let was_last = bare.idle.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_last && bare.threads.fetch_add(1, Ordering::Relaxed) < THREADS {
            bare.idle.fetch_add(1, Ordering::Relaxed);
            let bare = Arc::clone(bare);
            thread::spawn(move || {
                if let Err(error) = serve(&bare) {
                    let _ = writeln!(io::stderr(), "{error}");
                    exit(1);
                }
            });
        }
        carry(bare, line.trim_end(), &mut buffer)?;
        bare.idle.fetch_add(1, Ordering::Relaxed);
    }
}

fn carry(bare: &Bare, line: &str, buffer: &mut [u8]) -> Result<(), Box<dyn Error>> {
    let mut request = bare
        .agent
        .post(&bare.url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream");
    if let Some(session) = bare.session.get() {
        request = request.header("mcp-session-id", session);
    }
    let response = request.send(line)?;
    let headers = response.headers();
    if let Some(session) = headers.get("mcp-session-id") {
        let _ = bare.session.set(session.to_str()?.to_owned());
    }
    let is_stream = headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let mut body = response.into_body().into_reader();
    if is_stream {
        pass_events(bare, &mut body, buffer)?;
    } else {
        pass_json(bare, &mut body, buffer)?;
    }
    Ok(())
}

fn pass_json(bare: &Bare, body: &mut impl Read, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    let mut output = None;
    loop {
        let length = body.read(&mut buffer[filled..])?;
        filled += length;
        if length > 0 && filled < buffer.len() {
            continue;
        }
        if length == 0 {
            if filled == 0 && output.is_none() {
                return Ok(());
            }
            buffer[filled] = b'\n';
            filled += 1;
        }
        // Held from the first byte of a line to its last.
        let output = output.get_or_insert_with(|| bare.output.lock().unwrap_or_else(PoisonError::into_inner));
        output.write_all(&buffer[..filled])?;
        if length == 0 {
            return Ok(());
        }
        filled = 0;
    }
}

fn pass_events(bare: &Bare, body: &mut impl Read, buffer: &mut [u8]) -> io::Result<()> {
    /// The kind of line to which the next bytes belong.
    enum Line<'b> {
        New,
        Data(std::sync::MutexGuard<'b, File>),
        Other,
    }
    let mut line = Line::New;
    let mut filled = 0;
    loop {
        let length = body.read(&mut buffer[filled..])?;
        if length == 0 {
            return Ok(());
        }
        filled += length;
        let mut rest = &buffer[..filled];
        while !rest.is_empty() {
            line = match line {
                // There are too few bytes to recognise the kind of the line.
                Line::New if rest.len() < DATA.len() && DATA.starts_with(rest) => {
                    line = Line::New;
                    break;
                }
                Line::New if rest.starts_with(DATA) => {
                    rest = &rest[DATA.len()..];
                    Line::Data(bare.output.lock().unwrap_or_else(PoisonError::into_inner))
                }
                Line::New => Line::Other,
                Line::Data(_) | Line::Other => {
                    let end = memchr::memchr(b'\n', rest);
                    let (part, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
                    if let Line::Data(output) = &mut line {
                        output.write_all(part)?;
                    }
                    rest = after;
                    if end.is_some() { Line::New } else { line }
                }
            };
        }
        let kept = rest.len();
        buffer.copy_within(filled - kept..filled, 0);
        filled = kept;
    }
}
