//! Transports: the sealed trait, and the byte stream that both roles share.

mod not_messages;

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use not_messages::NotMessages;

use crate::Instant;
use crate::collections::outbox::{Outbox, Weight};
use crate::conversation::outcome::CloseReason;
use crate::error::Fault;
use crate::jsonrpc::recover_id::recover_id;
use crate::jsonrpc::{ErrorObject, Frame, Message, Oddities, ParseError, Subject};
use crate::limits::{Limits, Load};
use crate::line::Decoder;
use crate::spec::{UnreadableId, code};
use crate::text::Excerpt;

pub(crate) mod sealed {
    /// Prevents implementations of `Transport` outside of this crate.
    pub trait Sealed {}
}

/// A transport for messages. Each is a separate type, because byte streams and HTTP have different inputs.
///
/// The trait is sealed. A custom byte stream (a socket, a pipe, a serial line) uses [`Stdio`].
///
/// Rules: ST-23.
pub trait Transport: sealed::Sealed {
    /// What the driver has to carry out.
    type Action;
}

/// A transport over any pair of byte streams, such as stdin and stdout: one JSON-RPC message in each line.
///
/// Rules: ST-02.
#[derive(Debug)]
pub struct Stdio {
    decoder: Option<Decoder>,
    limits: Limits,
    unreadable_id: UnreadableId,
    closed: bool,
    /// A response of the peer has repeated the method of its request (RP6), which is not reported yet.
    oddities: Oddities,
    not_messages: NotMessages,
    unwritten: Unwritten,
}

/// What the driver of a byte stream has to carry out.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StdioAction {
    /// Write these bytes, all of them and in this order. They are a line or a part of one. Report them with
    /// `handle_written` as the stream accepts them.
    Write(Bytes),
    /// Close the outgoing stream after everything before has been written.
    ///
    /// Rules: ST-17.
    CloseWrite,
    /// Start the server's program again, because its process has exited on a request that it does not support. Drop
    /// what was not written to the old process, and pass in no more of its output; later writes go to the new one. If
    /// it cannot be started, report the end of the stream.
    ///
    /// Rules: ER-06.
    Respawn,
}

/// Omits the written bytes.
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

/// The content of a line.
#[derive(Debug)]
pub(crate) enum Line {
    Message(Message),
    Batch(Vec<Result<Message, ParseError>>),
    /// Not a message; with the beginning of the line if it looks like a program's output rather than a malformed
    /// message.
    Invalid(ParseError, Option<Excerpt>),
    /// A line over the limit, and the request it was about if its beginning contains that.
    TooLong(Subject),
}

/// What follows when many lines are not messages.
#[derive(Debug)]
pub(crate) enum Excess {
    Report(Fault),
    End(CloseReason),
}

impl Stdio {
    /// A byte stream; the machine that takes ownership of it sets its limits.
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
            oddities: Oddities::default(),
            not_messages: NotMessages::new(limits.garbage),
            unwritten: Unwritten::default(),
        }
    }

    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        *self = Self::with_limits(limits);
    }

    /// Sets how errors without an id are written (A28).
    pub(crate) const fn set_unreadable_id(&mut self, unreadable_id: UnreadableId) {
        self.unreadable_id = unreadable_id;
    }

    /// Takes bytes from the front of `bytes` up to the end of the next line, and parses it. It reads one line at a
    /// time, since the messages of a chunk of tiny lines take many times as much memory as the chunk.
    pub(crate) fn read(&mut self, bytes: &mut &[u8]) -> Option<Line> {
        let line = self.decoder.as_mut()?.decode(bytes)?;
        Some(match line {
            Err(error) => Line::TooLong(recover_id(&error.start, &self.limits)),
            Ok(line) => {
                let line = line.into_bytes();
                match Frame::parse_noting(&line, &self.limits, &mut self.oddities) {
                    Ok(Frame::Single(message)) => {
                        self.not_messages.on_message();
                        Line::Message(message)
                    }
                    Ok(Frame::Batch(items)) => {
                        if items.iter().any(Result::is_ok) {
                            self.not_messages.on_message();
                        }
                        Line::Batch(items)
                    }
                    Err(error) => Line::Invalid(error, program_output(&line)),
                }
            }
        })
    }

    /// What deviated in the last line.
    pub(crate) fn take_oddities(&mut self) -> Oddities {
        std::mem::take(&mut self.oddities)
    }

    /// Ends the incoming stream; the fault is reported if the stream ended inside a line. `None` if it had ended
    /// before.
    pub(crate) fn end(&mut self) -> Option<Result<(), Fault>> {
        let decoder = self.decoder.take()?;
        Some(decoder.finish().map_err(|truncated| Fault::Truncated { bytes: truncated.bytes }))
    }

    /// Resets the stream for a new process at the other end.
    pub(crate) fn respawn<E: Weight>(&mut self, out: &mut Outbox<StdioAction, E>) {
        *self = Self::with_limits(&self.limits);
        out.act(StdioAction::Respawn);
    }

    /// Counts a line that is not a message, before it is handled (FR10).
    pub(crate) fn count_not_a_message(&mut self, now: Instant) {
        self.not_messages.on_line(now);
    }

    /// Whether the last line that is not a message is reported by itself. If there are many such lines, only their
    /// number is reported.
    pub(crate) const fn reports_line(&self) -> bool {
        self.not_messages.report_line()
    }

    /// Whether the last line that is not a message is skipped if it has no id to answer, because there are too many.
    pub(crate) const fn skips_line(&self) -> bool {
        self.not_messages.are_over()
    }

    /// What follows from the last line that is not a message: the number of such lines is reported, or the connection ends.
    pub(crate) fn after_not_a_message(&self) -> Option<Excess> {
        if self.not_messages.end_connection() {
            return Some(Excess::End(CloseReason::Garbage { limit: self.limits.garbage }));
        }
        self.not_messages.number_to_report().map(|lines| Excess::Report(Fault::NotMessages { lines }))
    }

    pub(crate) fn write<E: Weight>(&mut self, message: &Message, out: &mut Outbox<StdioAction, E>) {
        if self.closed {
            return;
        }
        let is_reply = matches!(message, Message::Response(_));
        message.write_line(self.unreadable_id, |bytes| {
            self.unwritten.add(bytes.len(), is_reply);
            out.act(StdioAction::Write(bytes));
        });
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Bytes that were queued or passed to the driver and not reported as written.
    pub(crate) const fn unwritten(&self) -> &Unwritten {
        &self.unwritten
    }

    /// The bytes held for incoming and outgoing lines.
    pub(crate) fn load(&self) -> Load {
        let held = self.decoder.as_ref().map_or(0, Decoder::held);
        Load { held, unwritten: self.unwritten.bytes(), ..Load::default() }
    }

    /// Whether a message with a payload of this many bytes may be added. A message of any size is accepted when nothing
    /// waits (K1).
    pub(crate) const fn has_room_for(&self, bytes: usize) -> bool {
        let waiting = self.unwritten.bytes();
        waiting == 0 || waiting.saturating_add(bytes) <= self.limits.unwritten
    }

    /// Whether an answer with a payload of this many bytes may be added to the waiting ones (M3).
    pub(crate) fn has_room_for_answer(&self, bytes: usize) -> bool {
        self.limits.holds(bytes, || self.unwritten.replies())
    }

    /// The stream has accepted this many bytes.
    pub(crate) fn handle_written(&mut self, bytes: usize) {
        self.unwritten.remove(bytes);
    }

    pub(crate) fn write_batch<E: Weight>(&mut self, messages: &[Message], out: &mut Outbox<StdioAction, E>) {
        if self.closed {
            return;
        }
        let mut line = Vec::new();
        for message in messages {
            line.push(if line.is_empty() { b'[' } else { b',' });
            line.extend_from_slice(&message.to_bytes_with(self.unreadable_id));
        }
        line.extend_from_slice(b"]\n");
        self.unwritten.add(line.len(), true);
        out.act(StdioAction::Write(line.into()));
    }

    pub(crate) fn close<E: Weight>(&mut self, out: &mut Outbox<StdioAction, E>) {
        if !std::mem::replace(&mut self.closed, true) {
            out.act(StdioAction::CloseWrite);
        }
    }
}

/// Bytes that were queued for a byte stream and not reported as written, in order.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    /// Adjacent bytes of one kind: how many, and whether they are responses.
    runs: VecDeque<(usize, bool)>,
    bytes: usize,
    replies: usize,
}

impl Unwritten {
    fn add(&mut self, bytes: usize, is_reply: bool) {
        self.bytes += bytes;
        if is_reply {
            self.replies += bytes;
        }
        match self.runs.back_mut() {
            Some((length, kind)) if *kind == is_reply => *length += bytes,
            Some(_) | None => self.runs.push_back((bytes, is_reply)),
        }
    }

    /// Removes up to `bytes` bytes; an excess is ignored.
    fn remove(&mut self, mut bytes: usize) {
        while let Some((length, is_reply)) = self.runs.front_mut() {
            let taken = bytes.min(*length);
            self.bytes -= taken;
            if *is_reply {
                self.replies -= taken;
            }
            if taken < *length {
                *length -= taken;
                return;
            }
            self.runs.pop_front();
            bytes -= taken;
        }
    }

    /// All unwritten bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Unwritten bytes of responses. Only these grow with the peer's input. Requests of this side do not stop the
    /// reading, since a peer that does not read while it writes may have to finish writing first.
    pub(crate) const fn replies(&self) -> usize {
        self.replies
    }
}

/// The beginning of a line that does not start like a message. It is not payload but output of a program, which a user
/// needs to see in order to find its source.
fn program_output(line: &[u8]) -> Option<Excerpt> {
    const SHOWN_CHARS: usize = 80;
    // A character has at most four bytes, and a truncated last one is not shown.
    const SHOWN_BYTES: usize = 4 * SHOWN_CHARS + 4;
    let start = line.trim_ascii_start();
    if matches!(start.first(), Some(b'{' | b'[') | None) {
        return None;
    }
    let start = start.get(..start.len().min(SHOWN_BYTES))?;
    Some(Excerpt::new(&String::from_utf8_lossy(start), SHOWN_CHARS))
}

/// The answer to a request in a line over the limit.
pub(crate) fn too_long(limit: usize) -> ErrorObject {
    ErrorObject::new(code::INVALID_REQUEST, &Fault::LineTooLong { limit }.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_weighs_the_bytes_that_it_carries() {
        let write = StdioAction::Write(Bytes::from_static(b"four"));
        for (action, weight) in [(write, 4), (StdioAction::CloseWrite, 0), (StdioAction::Respawn, 0)] {
            assert_eq!(action.weight(), weight, "{action:?}");
        }
    }

    #[test]
    fn of_what_a_program_prints_the_first_eighty_characters_are_shown() {
        for character in ["x", "é", "☃", "🦀"] {
            for (count, shown) in [(1, 1), (80, 80), (81, 80), (1000, 80)] {
                let output =
                    program_output(character.repeat(count).as_bytes()).expect("output of a program").to_string();
                assert_eq!(output.matches(character).count(), shown, "{count} times {character}: {output}");
            }
        }
        for message in ["{", "  [", "", " "] {
            assert!(program_output(message.as_bytes()).is_none(), "{message:?}");
        }
    }
}
