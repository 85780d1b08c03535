//! The recorded and collected inputs in `tests/vectors`.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use mcp_proto::sse::{Decoder, Item};
use mcp_proto::{Frame, Limits, Message};
use mcp_testkit::http1;

/// A path below `tests/vectors`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name)
}

/// The files in a folder below `tests/vectors`, sorted by name.
///
/// # Panics
///
/// If the folder cannot be read.
pub fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path(folder))
        .expect("the vectors are part of the repository")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            (name, fs::read(path).expect("a readable vector"))
        })
        .collect();
    files.sort();
    files
}

/// The sender of the bytes of a [`Record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// One read of a recorded connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The sender.
    pub side: Side,
    /// The number of the connection.
    pub connection: u32,
    /// The bytes that were sent.
    pub bytes: Vec<u8>,
}

/// A recorded session (the format is described in `vectors/captures/README.md`).
#[derive(Debug, Clone)]
pub struct Capture {
    /// The name of the file.
    pub name: String,
    /// The bytes of all connections, in order.
    pub records: Vec<Record>,
}

impl Capture {
    /// All recorded sessions whose file names begin with `prefix`.
    pub fn all(prefix: &str) -> Vec<Self> {
        files("captures")
            .into_iter()
            .filter(|(name, _)| name.starts_with(prefix) && Path::new(name).extension().is_some_and(|end| end == "txt"))
            .map(|(name, text)| Self { records: Self::parse(&text), name })
            .collect()
    }

    /// Everything that `side` sent on `connection`, in one piece.
    pub fn stream(&self, connection: u32, side: Side) -> Vec<u8> {
        self.records
            .iter()
            .filter(|record| record.connection == connection && record.side == side)
            .flat_map(|record| record.bytes.iter().copied())
            .collect()
    }

    /// The numbers of the connections, in order of their first bytes.
    pub fn connections(&self) -> Vec<u32> {
        let mut numbers = Vec::new();
        for record in &self.records {
            if !numbers.contains(&record.connection) {
                numbers.push(record.connection);
            }
        }
        numbers
    }

    /// Every message that was sent, with its sender. Other bytes are skipped.
    pub fn messages(&self) -> Vec<(Side, Message)> {
        let mut messages = Vec::new();
        for connection in self.connections() {
            for side in [Side::Client, Side::Server] {
                for text in self.texts(connection, side) {
                    let frame = Frame::parse(&Bytes::from(text), &Limits::default());
                    messages.extend(frame.ok().into_iter().flat_map(of_frame).map(|message| (side, message)));
                }
            }
        }
        messages
    }

    /// The lines, bodies and events that `side` sent on `connection`.
    fn texts(&self, connection: u32, side: Side) -> Vec<Vec<u8>> {
        let stream = self.stream(connection, side);
        if self.name.starts_with("stdio-") {
            return stream.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        }
        let is_stream =
            |exchange: &http1::HttpMessage| exchange.header("content-type").starts_with("text/event-stream");
        let exchanges = http1::read_all(&stream).into_iter();
        exchanges.flat_map(|one| if is_stream(&one) { events(&one.body) } else { vec![one.body] }).collect()
    }

    fn parse(text: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        let mut rest = text;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let header = String::from_utf8_lossy(&rest[..end]).into_owned();
            rest = &rest[end + 1..];
            let mut fields = header.split(' ');
            let side = match fields.next() {
                Some("C") => Side::Client,
                Some("S") => Side::Server,
                _ => continue,
            };
            let number = |field: Option<&str>| field.and_then(|text| text.parse::<u32>().ok()).expect("a number");
            let connection = number(fields.next());
            let _milliseconds = number(fields.next());
            let length = number(fields.next()) as usize;
            records.push(Record { side, connection, bytes: rest[..length].to_vec() });
            rest = &rest[length + 1..];
        }
        records
    }
}

fn of_frame(frame: Frame) -> Vec<Message> {
    match frame {
        Frame::Single(message) => vec![message],
        Frame::Batch(messages) => messages.into_iter().filter_map(Result::ok).collect(),
    }
}

/// The data of the events in a body.
fn events(mut body: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new(1 << 24, 1024);
    let items = std::iter::from_fn(|| decoder.decode(&mut body));
    items.filter_map(|item| if let Ok(Item::Event(event)) = item { Some(event.data.to_vec()) } else { None }).collect()
}
