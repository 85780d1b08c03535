//! `--record`: writes every message between the client and the proxy as one JSON line.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use mcp_proto::line::Decoder;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::private_file::{self, Existing};
use crate::secrets::Secrets;

/// Writes messages to a file as the proxy passes them on.
pub(crate) struct Recorder {
    /// `None` once a write has failed.
    file: Option<BufWriter<File>>,
    started: Instant,
    from_client: Decoder,
    from_server: Decoder,
    secrets: Arc<Secrets>,
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
    direction: Direction,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'m RawValue>,
    /// A line that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'m str>,
}

impl Recorder {
    /// Creates a recording in a new file that only this user can read; an existing file is replaced.
    ///
    /// # Errors
    ///
    /// If the file cannot be written or made private, is a symbolic link, or is a pipe without a reader; or if a secret
    /// cannot be removed from the recording.
    pub(crate) fn new(path: &Path, max_message: usize, secrets: Arc<Secrets>) -> io::Result<Self> {
        secrets.check().map_err(io::Error::other)?;
        let file = private_file::open(path, Existing::Replace)?;
        Ok(Self {
            file: Some(BufWriter::new(file)),
            started: Instant::now(),
            from_client: Decoder::new(max_message),
            from_server: Decoder::new(max_message.saturating_mul(2)),
            secrets,
        })
    }

    pub(crate) fn client_sent(&mut self, bytes: &[u8]) {
        self.add(bytes, Direction::ClientToServer);
    }

    pub(crate) fn server_sent(&mut self, bytes: &[u8]) {
        self.add(bytes, Direction::ServerToClient);
    }

    fn add(&mut self, mut bytes: &[u8], direction: Direction) {
        if self.file.is_none() {
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
            if let Err(error) = self.write(&line, direction) {
                // The next message would fail too, for instance on a full disk.
                let is_slow = error.kind() == io::ErrorKind::WouldBlock;
                let reason = if is_slow { "the reader of the pipe does not keep up" } else { &*error.to_string() };
                log::warn!("--record: the record cannot be written, and ends here: {reason}");
                self.file = None;
                return;
            }
        }
    }

    fn write(&mut self, line: &[u8], direction: Direction) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let text = self.secrets.leave_out(&String::from_utf8_lossy(line));
        let message = serde_json::from_str::<&RawValue>(&text).ok();
        let line = Line {
            ms: self.started.elapsed().as_millis(),
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
        let mut recorder = Recorder::new(&path, 20, Arc::new(secrets)).unwrap();
        recorder.client_sent(b"{\"a\":");
        recorder.server_sent(b"[1.0,\"token-4711\"]\nno JSON\n{");
        recorder.client_sent(b"1}\n");
        recorder.server_sent(b"}\n");
        // A message that exceeds the limit is not passed on, and not recorded. Responses may be larger, because the
        // proxy may have expanded them.
        recorder.client_sent(&[&b"0"[..], &[b'1'; 20], b"\n2\n"].concat());
        recorder.server_sent(&[&[b'1'; 40][..], b"\n", &[b'1'; 41], b"\n"].concat());
        drop(recorder);
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
            ]
        );
        assert!(record.lines().all(|line| line.starts_with("{\"ms\":")));
    }

    #[test]
    fn defect_x3_a_record_without_its_secrets_is_not_begun_where_they_cannot_be_left_out() {
        let path = std::env::current_exe().unwrap().with_extension("no-record");
        let mut secrets = Secrets::default();
        secrets.add("a test", "short");
        assert!(Recorder::new(&path, 20, Arc::new(secrets)).is_err());
        assert!(!path.exists());
    }
}
