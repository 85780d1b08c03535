//! A proxy under measurement: a process that exchanges messages over its stdin and stdout.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use crate::server::Era;

/// The `_meta` that a modern client sends with each request.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"0"}}"#;

/// How one of the contenders is started.
pub struct Contender {
    pub name: &'static str,
    command: Vec<OsString>,
    /// The era of the client that uses it.
    client: Era,
    /// Arguments that raise its limit to the largest message that is measured.
    any_size: &'static [&'static str],
    /// Its file or folder on disk.
    pub installed: PathBuf,
}

impl Contender {
    pub fn proxy(program: &Path, url: &str) -> Self {
        Self {
            name: "mcp-proxy",
            command: vec![program.into(), url.into()],
            client: Era::Legacy,
            any_size: &["--max-message", "64MiB"],
            installed: program.into(),
        }
    }

    pub fn bare(program: &Path, url: &str) -> Self {
        let command = vec![program.into(), url.into()];
        Self { name: "bare", command, client: Era::Legacy, any_size: &[], installed: program.into() }
    }

    /// The same contender with a client of this era.
    pub fn with_client(self, client: Era) -> Self {
        Self { client, ..self }
    }

    pub fn remote(modules: &Path, url: &str) -> Self {
        let script = modules.join("mcp-remote/dist/proxy.js");
        let mut command = vec!["node".into(), script.into(), url.into()];
        command.extend(["--allow-http", "--transport", "http-only"].map(OsString::from));
        Self { name: "mcp-remote", command, client: Era::Legacy, any_size: &[], installed: modules.into() }
    }

    /// Starts it, and returns it with the time until it has answered the first request.
    pub fn start(&self, any_size: bool) -> io::Result<(Running, Duration)> {
        let start = Instant::now();
        let mut child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .args(if any_size { self.any_size } else { &[] })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes"));
        };
        let output = BufReader::with_capacity(256 * 1024, output);
        let mut running = Running { child, input, output, client: self.client, line: Vec::new(), last_id: 0 };
        running.begin()?;
        Ok((running, start.elapsed()))
    }
}

/// A running contender. It is killed when this is dropped.
pub struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    client: Era,
    line: Vec<u8>,
    last_id: u32,
}

/// A call: the size of its result, and how the server sends that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub bytes: usize,
    pub sse: bool,
}

/// The resources that a process has used, as the kernel reports them.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub cpu: Duration,
    /// How often its threads have waited (voluntary context switches); threads that have ended are not counted.
    pub waits: u64,
}

impl Running {
    fn begin(&mut self) -> io::Result<()> {
        self.last_id = 1;
        if self.client == Era::Modern {
            let params = format!("{{{META}}}");
            writeln!(self.input, r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{params}}}"#)?;
            return self.receive();
        }
        let params =
            r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}"#;
        writeln!(self.input, r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#)?;
        self.receive()?;
        self.input.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
    }

    fn send(&mut self, call: Call) -> io::Result<()> {
        self.last_id += 1;
        let Self { last_id: id, .. } = self;
        let arguments = format!(r#"{{"bytes":{},"sse":{}}}"#, call.bytes, call.sse);
        let meta = if self.client == Era::Modern { format!(",{META}") } else { String::new() };
        let params = format!(r#"{{"name":"read","arguments":{arguments}{meta}}}"#);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#) + "\n";
        self.input.write_all(line.as_bytes())
    }

    fn receive(&mut self) -> io::Result<()> {
        self.line.clear();
        if self.output.read_until(b'\n', &mut self.line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if memchr::memmem::find(&self.line[..self.line.len().min(100)], b"\"result\"").is_none() {
            return Err(io::Error::other(String::from_utf8_lossy(&self.line[..self.line.len().min(300)])));
        }
        Ok(())
    }

    /// Calls once, and returns how long that took.
    pub fn call(&mut self, call: Call) -> io::Result<Duration> {
        let start = Instant::now();
        self.send(call)?;
        self.receive()?;
        let taken = start.elapsed();
        let id = format!("\"id\":{}", self.last_id);
        let ends = [&self.line[..self.line.len().min(60)], &self.line[self.line.len().saturating_sub(60)..]];
        if self.line.len() < call.bytes || !ends.iter().any(|end| memchr::memmem::find(end, id.as_bytes()).is_some()) {
            return Err(io::Error::other("that is not the answer"));
        }
        Ok(taken)
    }

    /// Calls `count` times, `at_once` of them in flight, and returns how long that took.
    pub fn calls(&mut self, call: Call, count: usize, at_once: usize) -> io::Result<Duration> {
        let start = Instant::now();
        for _ in 0..at_once {
            self.send(call)?;
        }
        for received in 1..=count {
            self.receive()?;
            if received + at_once <= count {
                self.send(call)?;
            }
        }
        Ok(start.elapsed())
    }

    /// The most memory that was ever resident, in bytes.
    pub fn peak_memory(&self) -> io::Result<f64> {
        self.memory("VmHWM:")
    }

    /// The memory that is resident now, in bytes.
    pub fn resident_memory(&self) -> io::Result<f64> {
        self.memory("VmRSS:")
    }

    /// The resident memory that belongs to no file and therefore to this process alone, in bytes.
    pub fn own_memory(&self) -> io::Result<f64> {
        self.memory("RssAnon:")
    }

    fn memory(&self, name: &str) -> io::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib: u32 = field(&status, name)?;
        Ok(f64::from(kib) * 1024.0)
    }

    /// The resources that the process has used. The processor time includes threads that have ended.
    pub fn usage(&self) -> io::Result<Usage> {
        let id = self.child.id();
        let clock = clock_getcpuclockid(Pid::from_raw(id.cast_signed()))?;
        let mut usage = Usage { cpu: clock.now()?.into(), waits: 0 };
        for thread in fs::read_dir(format!("/proc/{id}/task"))? {
            // A thread may have ended meanwhile.
            if let Ok(status) = fs::read_to_string(thread?.path().join("status")) {
                usage.waits += field::<u64>(&status, "voluntary_ctxt_switches:")?;
            }
        }
        Ok(usage)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number after `name` at the start of a line.
fn field<T: std::str::FromStr>(text: &str, name: &str) -> io::Result<T> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| io::Error::other(format!("no {name} in /proc")))
}

/// The bytes of a file, or of all files in a folder.
pub fn size_on_disk(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    fs::read_dir(path)?.map(|entry| size_on_disk(&entry?.path())).sum()
}
