//! `--record`: every message between the client and the proxy, as one JSON line each.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use mcp_proto::line::Decoder;
use serde::Serialize;
use serde_json::value::RawValue;

/// Writes messages to a file as they cross.
pub(crate) struct Recorder {
    file: BufWriter<File>,
    started: Instant,
    from_client: Decoder,
    from_server: Decoder,
    secrets: Vec<String>,
}

/// One line of the record.
#[derive(Serialize)]
struct Line<'m> {
    /// Milliseconds since the proxy started.
    ms: u128,
    direction: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'m RawValue>,
    /// What was no JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'m str>,
}

impl Recorder {
    /// A record in a new file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn new(path: &Path, max_message: usize, secrets: Vec<String>) -> io::Result<Self> {
        Ok(Self {
            file: BufWriter::new(File::create(path)?),
            started: Instant::now(),
            from_client: Decoder::new(max_message),
            from_server: Decoder::new(max_message.saturating_mul(2)),
            secrets: secrets.into_iter().filter(|secret| !secret.is_empty()).collect(),
        })
    }

    pub(crate) fn client_sent(&mut self, bytes: &[u8]) {
        self.add(bytes, "client-to-server");
    }

    pub(crate) fn server_sent(&mut self, bytes: &[u8]) {
        self.add(bytes, "server-to-client");
    }

    fn add(&mut self, mut bytes: &[u8], direction: &'static str) {
        let mut lines = Vec::new();
        let decoder = if direction == "client-to-server" { &mut self.from_client } else { &mut self.from_server };
        while let Some(line) = decoder.decode(&mut bytes) {
            lines.extend(line.map(mcp_proto::CowBytes::into_bytes));
        }
        for line in lines {
            if let Err(error) = self.write(&line, direction) {
                log::warn!("the record cannot be written: {error}");
            }
        }
    }

    fn write(&mut self, line: &[u8], direction: &'static str) -> io::Result<()> {
        let text = self.without_secrets(&String::from_utf8_lossy(line));
        let message = serde_json::from_str::<&RawValue>(&text).ok();
        let line = Line {
            ms: self.started.elapsed().as_millis(),
            direction,
            message,
            text: if message.is_none() { Some(&text) } else { None },
        };
        serde_json::to_writer(&mut self.file, &line)?;
        self.file.write_all(b"\n")?;
        self.file.flush()
    }

    /// What the user gave as the value of a header may come back in a message, such as an error that quotes it.
    fn without_secrets(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "[secret]"))
    }
}
