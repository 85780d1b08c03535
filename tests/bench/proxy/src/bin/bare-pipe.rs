//! The least that a proxy between stdio and HTTP can cost: threads and sockets, without an HTTP library.
//!
//! It writes a constant head, and can read only answers with a `content-length`. It checks nothing.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, Read, Stdin, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{env, thread};

use memchr::memmem;

const THREADS: usize = 64;
const STACK: usize = 64 * 1024;

struct Pipe {
    authority: String,
    path: String,
    session: OnceLock<String>,
    input: Stdin,
    output: Mutex<File>,
    /// Threads that wait for a line.
    idle: AtomicUsize,
    threads: AtomicUsize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).ok_or("usage: bare-pipe URL")?;
    let (authority, path) =
        url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).ok_or("not http://host:port/path")?;
    let pipe = Arc::new(Pipe {
        authority: authority.to_owned(),
        path: path.to_owned(),
        session: OnceLock::new(),
        input: io::stdin(),
        output: Mutex::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        idle: AtomicUsize::new(1),
        threads: AtomicUsize::new(1),
    });
    serve(&pipe)
}

/// Reads lines in turns with the other threads. The thread that reads a line also forwards it; this saves a thread
/// switch.
fn serve(pipe: &Arc<Pipe>) -> Result<(), Box<dyn Error>> {
    let mut stream = TcpStream::connect(&pipe.authority)?;
    stream.set_nodelay(true)?;
    let (mut line, mut request, mut answer) = (String::new(), Vec::new(), Vec::new());
    loop {
        line.clear();
        if pipe.input.lock().read_line(&mut line)? == 0 {
            exit(0);
        }
        let was_last = pipe.idle.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_last && pipe.threads.fetch_add(1, Ordering::Relaxed) < THREADS {
            pipe.idle.fetch_add(1, Ordering::Relaxed);
            let pipe = Arc::clone(pipe);
            thread::Builder::new().stack_size(STACK).spawn(move || {
                if let Err(error) = serve(&pipe) {
                    let _ = writeln!(io::stderr(), "{error}");
                    exit(1);
                }
            })?;
        }
        carry(pipe, &mut stream, line.trim_end(), &mut request, &mut answer)?;
        pipe.idle.fetch_add(1, Ordering::Relaxed);
    }
}

fn carry(
    pipe: &Pipe,
    stream: &mut TcpStream,
    line: &str,
    request: &mut Vec<u8>,
    answer: &mut Vec<u8>,
) -> Result<(), Box<dyn Error>> {
    request.clear();
    let Pipe { authority, path, .. } = pipe;
    write!(request, "POST /{path} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n")?;
    write!(request, "accept: application/json, text/event-stream\r\ncontent-length: {}\r\n", line.len())?;
    if let Some(session) = pipe.session.get() {
        write!(request, "mcp-session-id: {session}\r\n")?;
    }
    write!(request, "\r\n{line}")?;
    stream.write_all(request)?;
    answer.clear();
    let mut buffer = [0; 16 * 1024];
    let mut more = |answer: &mut Vec<u8>| -> io::Result<()> {
        let length = stream.read(&mut buffer)?;
        answer.extend_from_slice(&buffer[..length]);
        if length == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    };
    let head = loop {
        match memmem::find(answer, b"\r\n\r\n") {
            Some(head) => break head + 4,
            None => more(answer)?,
        }
    };
    let text = str::from_utf8(&answer[..head])?;
    let header = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    if let Some(session) = header("mcp-session-id") {
        let _ = pipe.session.set(session.to_owned());
    }
    let length: usize = header("content-length").ok_or("an answer without a length")?.parse()?;
    while answer.len() < head + length {
        more(answer)?;
    }
    if length > 0 {
        answer.push(b'\n');
        pipe.output.lock().unwrap_or_else(PoisonError::into_inner).write_all(&answer[head..])?;
    }
    Ok(())
}
