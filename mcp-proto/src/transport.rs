//! What carries messages: the sealed trait, and the byte stream that both roles share.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::error::Fault;
use crate::limits::Limits;
use crate::line::Decoder;
use crate::message::salvage::salvage;
use crate::message::{ErrorObject, Frame, Message, ParseError, Subject, UnreadableId, code};
use crate::outbox::{Outbox, Weight};

pub(crate) mod sealed {
    /// Keeps the set of transports to those of this crate.
    pub trait Sealed {}
}

/// A way to carry messages, told apart by its type: what a byte stream is fed is not what HTTP is fed.
///
/// The trait is sealed. A custom byte stream (a socket, a pipe, a serial line) uses [`Stdio`] (ST-23).
pub trait Transport: sealed::Sealed {
    /// What the driver is asked to do.
    type Action;
}

/// One JSON-RPC message per line over any pair of byte streams, such as stdin and stdout (RULES section 2).
#[derive(Debug)]
pub struct Stdio {
    decoder: Option<Decoder>,
    limits: Limits,
    unreadable_id: UnreadableId,
    closed: bool,
    /// Lines that were no messages, in the minute that began then.
    garbage: Option<(Instant, usize)>,
}

/// What the driver of a byte stream is asked to do.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StdioAction {
    /// Write these bytes, all of them and in this order. They are a line or a part of one.
    Write(Bytes),
    /// Close the outgoing stream, once everything before was written (ST-17).
    CloseWrite,
    /// The server's process has ended because it was asked what it does not know (ER-06): start another one. What was
    /// not written yet to the old one is dropped, and nothing more of it is handed in; what follows goes to the new one.
    /// If it cannot be started, its stream has ended.
    Respawn,
}

/// Shows nothing of what is written.
impl fmt::Debug for StdioAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(bytes) => write!(f, "Write({} bytes)", bytes.len()),
            Self::CloseWrite => f.write_str("CloseWrite"),
            Self::Respawn => f.write_str("Respawn"),
        }
    }
}

impl Default for Stdio {
    fn default() -> Self {
        Self::new()
    }
}

impl sealed::Sealed for Stdio {}

impl Transport for Stdio {
    type Action = StdioAction;
}

impl Weight for StdioAction {
    fn weight(&self) -> usize {
        match self {
            Self::Write(bytes) => bytes.len(),
            Self::CloseWrite | Self::Respawn => 0,
        }
    }
}

/// What came in on a line.
#[derive(Debug)]
pub(crate) enum Line {
    Message(Message),
    Batch(Vec<Result<Message, ParseError>>),
    Invalid(ParseError),
    /// A line over the limit, and what it was as far as its beginning tells.
    TooLong(Subject),
}

impl Stdio {
    /// A byte stream; the machine that takes it over brings its own limits.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(&Limits::default())
    }

    pub(crate) fn with_limits(limits: &Limits) -> Self {
        Self {
            decoder: Some(Decoder::new(limits.message)),
            limits: limits.clone(),
            unreadable_id: UnreadableId::Null,
            closed: false,
            garbage: None,
        }
    }

    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        *self = Self::with_limits(limits);
    }

    /// How errors without an id are written from now on (A28).
    pub(crate) const fn set_unreadable_id(&mut self, unreadable_id: UnreadableId) {
        self.unreadable_id = unreadable_id;
    }

    /// Takes bytes from the front of `bytes` up to the end of the next line, and says what came in on it. One line at a
    /// time, since what is read of a chunk of tiny lines takes many times as much memory as the chunk.
    pub(crate) fn read(&mut self, bytes: &mut &[u8]) -> Option<Line> {
        let line = self.decoder.as_mut()?.decode(bytes)?;
        Some(match line {
            Err(error) => Line::TooLong(salvage(&error.start, &self.limits)),
            Ok(line) => match Frame::parse(&line.into_bytes(), &self.limits) {
                Ok(Frame::Single(message)) => Line::Message(message),
                Ok(Frame::Batch(items)) => Line::Batch(items),
                Err(error) => Line::Invalid(error),
            },
        })
    }

    /// Ends the incoming stream; says so if it ended inside a line. `None` if it had ended before.
    pub(crate) fn end(&mut self) -> Option<Result<(), Fault>> {
        let decoder = self.decoder.take()?;
        Some(decoder.finish().map_err(|truncated| Fault::Truncated { bytes: truncated.bytes }))
    }

    /// Begins anew, with another process at the other end.
    pub(crate) fn respawn<E: Weight>(&mut self, out: &mut Outbox<StdioAction, E>) {
        *self = Self::with_limits(&self.limits);
        out.act(StdioAction::Respawn);
    }

    /// FR10: counts lines that are no messages; `true` when a minute has seen more of them than the limit.
    pub(crate) fn counts_garbage(&mut self, now: Instant) -> bool {
        const MINUTE: Duration = Duration::from_secs(60);
        let (since, count) = self.garbage.get_or_insert((now, 0));
        if now.saturating_duration_since(*since) >= MINUTE {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count > self.limits.garbage
    }

    pub(crate) fn write<E: Weight>(&self, message: &Message, out: &mut Outbox<StdioAction, E>) {
        if !self.closed {
            message.write_line(self.unreadable_id, |bytes| out.act(StdioAction::Write(bytes)));
        }
    }

    pub(crate) fn write_batch<E: Weight>(&self, messages: &[Message], out: &mut Outbox<StdioAction, E>) {
        if self.closed {
            return;
        }
        let mut line = Vec::new();
        for message in messages {
            line.push(if line.is_empty() { b'[' } else { b',' });
            line.extend_from_slice(&message.to_bytes_with(self.unreadable_id));
        }
        line.extend_from_slice(b"]\n");
        out.act(StdioAction::Write(line.into()));
    }

    pub(crate) fn close<E: Weight>(&mut self, out: &mut Outbox<StdioAction, E>) {
        if !std::mem::replace(&mut self.closed, true) {
            out.act(StdioAction::CloseWrite);
        }
    }
}

/// The answer to a request that did not fit into a line.
pub(crate) fn too_long(limit: usize) -> ErrorObject {
    ErrorObject::new(code::INVALID_REQUEST, &Fault::LineTooLong { limit }.to_string())
}
