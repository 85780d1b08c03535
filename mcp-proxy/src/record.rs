//! `--record`: writes every message between the client and the proxy as one JSON line, or between the processes and the
//! gateway.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use mcp_proto::line::Decoder;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::private_file::{self, Existing};
use crate::secrets::Secrets;

/// A file of messages. Clones write to the same one.
#[derive(Clone)]
pub(crate) struct Record(Arc<Mutex<Destination>>);

struct Destination {
    /// `None` once a write has failed.
    file: Option<BufWriter<File>>,
    started: Instant,
    secrets: Arc<Secrets>,
}

/// Writes the messages of one client and its server to a file as they are passed on.
pub(crate) struct Recorder {
    record: Record,
    source: Source,
    from_client: Decoder,
    from_server: Decoder,
}

/// Which process a message is from, or for, if there are several.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Source {
    /// The name of its server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<Box<str>>,
    /// The number of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Direction {
    ClientToServer,
    ServerToClient,
}

/// One line of the recording.
#[derive(Serialize)]
struct Line<'m> {
    /// Milliseconds since the proxy started.
    ms: u128,
    #[serde(flatten)]
    source: &'m Source,
    direction: Direction,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'m RawValue>,
    /// A line that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'m str>,
}

impl Record {
    /// Creates a recording in a new file that only this user can read; an existing file is replaced.
    ///
    /// # Errors
    ///
    /// If the file cannot be written or made private, is a symbolic link, or is a pipe without a reader; or if a secret
    /// cannot be removed from the recording.
    pub(crate) fn new(path: &Path, secrets: Arc<Secrets>) -> io::Result<Self> {
        secrets.check().map_err(io::Error::other)?;
        let file = private_file::open(path, Existing::Replace)?;
        let destination = Destination { file: Some(BufWriter::new(file)), started: Instant::now(), secrets };
        Ok(Self(Arc::new(Mutex::new(destination))))
    }

    /// Removes these secrets from what follows, too.
    pub(crate) fn leave_out(&self, secrets: &Secrets) {
        let mut destination = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut destination.secrets).extend(secrets);
    }

    /// A recorder of messages of at most this size, in bytes.
    pub(crate) fn recorder(&self, max_message: usize, source: Source) -> Recorder {
        let from_server = Decoder::new(max_message.saturating_mul(2));
        Recorder { record: self.clone(), source, from_client: Decoder::new(max_message), from_server }
    }
}

impl Recorder {
    pub(crate) fn client_sent(&mut self, bytes: &[u8]) {
        self.add(bytes, Direction::ClientToServer);
    }

    pub(crate) fn server_sent(&mut self, bytes: &[u8]) {
        self.add(bytes, Direction::ServerToClient);
    }

    fn add(&mut self, mut bytes: &[u8], direction: Direction) {
        let mut destination = self.record.0.lock().unwrap_or_else(PoisonError::into_inner);
        if destination.file.is_none() {
            return;
        }
        let mut lines = Vec::new();
        let decoder = match direction {
            Direction::ClientToServer => &mut self.from_client,
            Direction::ServerToClient => &mut self.from_server,
        };
        while let Some(line) = decoder.decode(&mut bytes) {
            lines.extend(line.map(mcp_proto::CowBytes::into_bytes));
        }
        for line in lines {
            if let Err(error) = destination.write(&line, &self.source, direction) {
                // The next message would fail too, for instance on a full disk.
                let is_slow = error.kind() == io::ErrorKind::WouldBlock;
                let reason = if is_slow { "the reader of the pipe does not keep up" } else { &*error.to_string() };
                log::warn!("--record: the record cannot be written, and ends here: {reason}");
                destination.file = None;
                return;
            }
        }
    }
}

impl Destination {
    fn write(&mut self, line: &[u8], source: &Source, direction: Direction) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let text = self.secrets.leave_out(&String::from_utf8_lossy(line));
        let message = serde_json::from_str::<&RawValue>(&text).ok();
        let line = Line {
            ms: self.started.elapsed().as_millis(),
            source,
            direction,
            message,
            text: if message.is_none() { Some(&text) } else { None },
        };
        serde_json::to_writer(&mut *file, &line)?;
        file.write_all(b"\n")?;
        file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_a_line_for_each_message_however_it_was_cut() {
        let path = std::env::current_exe().unwrap().with_extension("record");
        let mut secrets = Secrets::default();
        secrets.add("a test", "token-4711");
        let record = Record::new(&path, Arc::new(secrets)).unwrap();
        let mut recorder = record.recorder(20, Source::default());
        recorder.client_sent(b"{\"a\":");
        recorder.server_sent(b"[1.0,\"token-4711\"]\nno JSON\n{");
        recorder.client_sent(b"1}\n");
        recorder.server_sent(b"}\n");
        // A message that exceeds the limit is not passed on, and not recorded. Responses may be larger, because the
        // proxy may have expanded them.
        recorder.client_sent(&[&b"0"[..], &[b'1'; 20], b"\n2\n"].concat());
        recorder.server_sent(&[&[b'1'; 40][..], b"\n", &[b'1'; 41], b"\n"].concat());
        let source = Source { server: Some("files".into()), process: Some(2) };
        record.recorder(20, source).client_sent(b"3\n");
        let record = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let lines: Vec<_> = record.lines().map(|line| line.split_once(',').unwrap().1).collect();
        let ones = "1".repeat(40);
        assert_eq!(
            lines,
            [
                r#""direction":"server-to-client","message":[1.0,"[secret]"]}"#,
                r#""direction":"server-to-client","text":"no JSON"}"#,
                r#""direction":"client-to-server","message":{"a":1}}"#,
                r#""direction":"server-to-client","message":{}}"#,
                r#""direction":"client-to-server","message":2}"#,
                &format!(r#""direction":"server-to-client","message":{ones}}}"#),
                r#""server":"files","process":2,"direction":"client-to-server","message":3}"#,
            ]
        );
        assert!(record.lines().all(|line| line.starts_with("{\"ms\":")));
    }

    #[test]
    fn a_record_without_its_secrets_is_not_begun_where_they_cannot_be_left_out() {
        let path = std::env::current_exe().unwrap().with_extension("no-record");
        let mut secrets = Secrets::default();
        secrets.add("a test", "short");
        assert!(Record::new(&path, Arc::new(secrets)).is_err());
        assert!(!path.exists());
    }
}
