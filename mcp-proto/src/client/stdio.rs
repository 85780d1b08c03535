//! The client on a byte stream: what it receives, and its transport.

use std::convert::Infallible;
use std::time::Duration;

use super::Client;
use super::transport::{Backlog, ClientTransport, Inbound, Role, TransportOutput};
use crate::Instant;
use crate::conversation::keys::RequestKey;
use crate::conversation::outcome::CloseReason;
use crate::error::{Failed, Fault, InvalidResponse, ProcessEnd, Quirk, StartFailure};
use crate::jsonrpc::{Message, ParseError, Subject};
use crate::limits::{Limits, Load};
use crate::spec::ProtocolVersion;
use crate::transport::{Excess, Line, Stdio, too_long};

impl Client<Stdio> {
    /// Bytes have arrived from the server, in pieces of any size.
    pub fn handle_bytes(&mut self, mut bytes: &[u8], now: Instant) {
        while let Some(line) = self.transport.read(&mut bytes) {
            for quirk in Quirk::all_of(self.transport.take_oddities()) {
                self.on_inbound(Inbound::QuirkObserved(quirk), now);
            }
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
                    self.transport.count_not_a_message(now);
                    self.report_line(Inbound::Faulted(Fault::NotAMessage { line }), now);
                    self.after_not_a_message(now);
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
        self.on_end(CloseReason::Peer, now);
    }

    /// The server's process has ended, and what it had written was passed in. A driver that starts the process calls this
    /// instead of [`Client::handle_eof`], also if another process keeps the stream open;
    /// `ChildEnd` of the crate `mcp-application` decides when. Each open request fails with [`Failed::ProcessEnded`].
    pub fn handle_process_end(&mut self, end: ProcessEnd, now: Instant) {
        self.on_end(CloseReason::ProcessEnded(end), now);
    }

    /// The server's process could not be started. Each open request fails with [`Failed::NotStarted`].
    pub fn handle_not_started(&mut self, failure: StartFailure, now: Instant) {
        self.on_end(CloseReason::NotStarted(failure), now);
    }

    fn on_end(&mut self, reason: CloseReason, now: Instant) {
        match self.transport.end() {
            Some(Err(fault)) => self.on_inbound(Inbound::Faulted(fault), now),
            Some(Ok(())) => {}
            None => return,
        }
        self.on_inbound(Inbound::Ended(reason), now);
    }

    fn on_invalid_line(&mut self, error: ParseError, now: Instant) {
        // A malformed response fails its request now, not at the timeout (RP5).
        let about = match &error.subject {
            Subject::Response(id) | Subject::Either(id) => Some(id.clone()),
            Subject::Request(_) | Subject::Notification | Subject::Unknown => None,
        };
        let reason = InvalidResponse::from(&error);
        self.transport.count_not_a_message(now);
        if self.transport.reports_line() {
            self.on_inbound(Inbound::Invalid(error), now);
        } else {
            self.refuse_invalid(&error, now);
        }
        if let Some(request) = about.and_then(|id| self.outgoing.on_wire(&id)) {
            self.on_inbound(Inbound::Unanswered { request, reason: Failed::InvalidResponse { reason } }, now);
        }
        self.after_not_a_message(now);
    }

    fn on_long_line(&mut self, subject: Subject, now: Instant) {
        let limit = self.config.limits.message;
        self.transport.count_not_a_message(now);
        self.report_line(Inbound::Faulted(Fault::LineTooLong { limit }), now);
        match subject {
            Subject::Response(id) | Subject::Either(id) => {
                if let Some(request) = self.outgoing.on_wire(&id) {
                    self.on_inbound(Inbound::Unanswered { request, reason: Failed::TooLarge { limit } }, now);
                }
            }
            Subject::Request(id) => self.send_answer(id, Err(too_long(limit)), now),
            Subject::Notification | Subject::Unknown => {}
        }
        self.after_not_a_message(now);
    }

    /// Reports a line that is not a message, unless there are many.
    fn report_line(&mut self, fault: Inbound, now: Instant) {
        if self.transport.reports_line() {
            self.on_inbound(fault, now);
        }
    }

    fn after_not_a_message(&mut self, now: Instant) {
        match self.transport.after_not_a_message() {
            Some(Excess::Report(fault)) => self.on_inbound(Inbound::Faulted(fault), now),
            Some(Excess::End(reason)) => self.close_because(reason, now),
            None => {}
        }
    }
}

impl ClientTransport for Stdio {
    const SILENCE_MEANS_LEGACY: bool = true;
    const CAN_LOSE_SESSION: bool = false;
    type Timer = Infallible;

    fn set_redelivery_time(&mut self, _time: Duration) {}

    fn peer(&self) -> String {
        "the server".to_owned()
    }

    fn configure(&mut self, limits: &Limits, _seed: u64) {
        self.set_limits(limits);
    }

    fn begin(&mut self, _now: Instant, _output: &mut TransportOutput<'_, Self>) {}

    fn send(&mut self, message: &Message, role: Role, _now: Instant, output: &mut TransportOutput<'_, Self>) {
        self.write(message, output.out);
        if role == Role::Confirmation {
            output.pass(Inbound::Confirmed);
        }
    }

    fn backlog(&self) -> Backlog {
        // Answers are not counted: the client stops reading before there are too many of them.
        Backlog { bytes: self.unwritten().bytes(), ..Backlog::default() }
    }

    fn takes_answer(&self, bytes: usize, _limits: &Limits) -> bool {
        self.has_room_for_answer(bytes)
    }

    fn wants_input(&self, limits: &Limits) -> bool {
        self.unwritten().replies() < limits.queue_bytes
    }

    fn may_be_modern(&self) -> bool {
        true
    }

    fn repeats_arguments(&self) -> bool {
        false
    }

    fn respawn(&mut self, output: &mut TransportOutput<'_, Self>) {
        Self::respawn(self, output.out);
    }

    fn cancel(
        &mut self,
        _request: RequestKey,
        notice: &Message,
        _now: Instant,
        output: &mut TransportOutput<'_, Self>,
    ) {
        self.write(notice, output.out);
    }

    fn abandon(&mut self, _request: RequestKey, _now: Instant, _output: &mut TransportOutput<'_, Self>) {}

    fn negotiated(&mut self, version: ProtocolVersion, _output: &mut TransportOutput<'_, Self>) {
        self.set_unreadable_id(version.rules().unreadable_id);
    }

    fn ready(&mut self, _now: Instant, _output: &mut TransportOutput<'_, Self>) {}

    fn close(&mut self, _now: Instant, output: &mut TransportOutput<'_, Self>) {
        Self::close(self, output.out);
        output.pass(Inbound::Closed);
    }

    fn on_timer(&mut self, timer: Infallible, _now: Instant, _output: &mut TransportOutput<'_, Self>) {
        match timer {}
    }

    fn after_timers(&mut self, _now: Instant, _output: &mut TransportOutput<'_, Self>) {}

    fn load(&self) -> Load {
        Self::load(self)
    }
}
