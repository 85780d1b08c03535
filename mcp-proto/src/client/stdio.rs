//! The client on a byte stream.

use super::Client;
use super::event::CloseReason;
use super::transport::Inbound;
use crate::Instant;
use crate::codec::jsonrpc::{ParseError, Subject};
use crate::error::{Failed, Fault, InvalidResponse};
use crate::transport::{Line, Stdio, too_long};

impl Client<Stdio> {
    /// Bytes have arrived from the server, in pieces of any size.
    pub fn handle_bytes(&mut self, mut bytes: &[u8], now: Instant) {
        while let Some(line) = self.transport.read(&mut bytes) {
            match line {
                Line::Message(message) => self.on_inbound(Inbound::Message { message, during: None }, now),
                Line::Batch(items) => {
                    for item in items {
                        match item {
                            Ok(message) => self.on_inbound(Inbound::Message { message, during: None }, now),
                            Err(error) => self.on_invalid_line(error, now),
                        }
                    }
                }
                Line::Invalid(_, Some(line)) => {
                    // A server that prints other text to its stream gets no error response (ST-25).
                    self.on_inbound(Inbound::Faulted(Fault::NotAMessage { line }), now);
                    self.count_garbage(now);
                }
                Line::Invalid(error, None) => self.on_invalid_line(error, now),
                Line::TooLong(subject) => self.on_long_line(subject, now),
            }
        }
    }

    /// This many more bytes of [`StdioAction::Write`](crate::StdioAction::Write) were written to the server's stream.
    ///
    /// Bytes that are not reported count against [`Limits::unwritten`](crate::Limits::unwritten). After
    /// [`StdioAction::Respawn`](crate::StdioAction::Respawn), bytes of the earlier process must not be reported any
    /// more.
    pub fn handle_written(&mut self, bytes: usize, _now: Instant) {
        self.transport.handle_written(bytes);
        self.report_not_written();
    }

    /// The server's stream has ended.
    pub fn handle_eof(&mut self, now: Instant) {
        match self.transport.end() {
            Some(Err(fault)) => self.on_inbound(Inbound::Faulted(fault), now),
            Some(Ok(())) => {}
            None => return,
        }
        self.on_inbound(Inbound::Ended, now);
    }

    fn on_invalid_line(&mut self, error: ParseError, now: Instant) {
        // A malformed response fails its request now, not at the timeout (RP5).
        let about = match &error.subject {
            Subject::Response(id) | Subject::Either(id) => Some(id.clone()),
            Subject::Request(_) | Subject::Unknown => None,
        };
        let reason = InvalidResponse::from(&error);
        self.on_inbound(Inbound::Invalid(error), now);
        if let Some(request) = about.and_then(|id| self.outgoing.on_wire(&id)) {
            self.on_inbound(Inbound::Unanswered { request, reason: Failed::InvalidResponse { reason } }, now);
        }
        self.count_garbage(now);
    }

    fn on_long_line(&mut self, subject: Subject, now: Instant) {
        let limit = self.config.limits.message;
        self.on_inbound(Inbound::Faulted(Fault::LineTooLong { limit }), now);
        match subject {
            Subject::Response(id) | Subject::Either(id) => {
                if let Some(request) = self.outgoing.on_wire(&id) {
                    self.on_inbound(Inbound::Unanswered { request, reason: Failed::TooLarge { limit } }, now);
                }
            }
            Subject::Request(id) => self.send_answer(id, Err(too_long(limit)), now),
            Subject::Unknown => {}
        }
        self.count_garbage(now);
    }

    fn count_garbage(&mut self, now: Instant) {
        if self.transport.counts_garbage(now) {
            self.close_because(CloseReason::Garbage, now);
        }
    }
}
