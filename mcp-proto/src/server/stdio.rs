//! The server on a byte stream, which has one session.

use super::change_notification::ChangeNotification;
use super::principal::Principal;
use super::snapshot::Setting;
use super::transport::{Inbound, ReplyTo, Route, ServerTransport, TransportOutput};
use super::{Config, Event, Server, Timer};
use crate::Instant;
use crate::conversation::keys::{InstanceId, SessionKey};
use crate::conversation::outcome::CloseReason;
use crate::error::UsageError;
use crate::json::Json;
use crate::jsonrpc::{Message, ParseError, Subject};
use crate::limits::Load;
use crate::spec::ProtocolVersion;
use crate::transport::{Excess, Line, Stdio, StdioAction};

impl Server<Stdio> {
    /// Bytes have arrived from the client, in chunks of any size.
    pub fn handle_bytes(&mut self, mut bytes: &[u8], now: Instant) {
        while let Some(line) = self.transport.read(&mut bytes) {
            if self.is_closed() {
                return;
            }
            let (session, reply_to) = (SessionKey::FIRST, ReplyTo::Stream);
            match line {
                Line::Message(message) => self.on_inbound(Inbound::Message { session, message, reply_to }, now),
                Line::Batch(items) => self.on_inbound(Inbound::Batch { session, items, reply_to }, now),
                Line::Invalid(error, _) => {
                    let has_id = !matches!(error.subject, Subject::Unknown | Subject::Notification);
                    self.on_not_a_message(Inbound::Invalid { session, error, reply_to }, has_id, now);
                }
                Line::TooLong(subject) => {
                    let has_id = !matches!(subject, Subject::Unknown | Subject::Notification);
                    self.on_not_a_message(Inbound::TooLong { session, subject }, has_id, now);
                }
            }
            // The client may have cancelled the last request.
            self.close_if_drained(now);
        }
    }

    /// Handles a line that is not a message.
    fn on_not_a_message(&mut self, inbound: Inbound, has_id: bool, now: Instant) {
        self.transport.count_not_a_message(now);
        // An answer is several times as long as a short line, and names nothing that the client waits for.
        if has_id || !self.transport.skips_line() {
            self.on_inbound(inbound, now);
        }
        match self.transport.after_not_a_message() {
            Some(Excess::Report(fault)) => self.out.report(Event::Faulted(fault)),
            Some(Excess::End(reason)) => {
                self.on_inbound(Inbound::Ended { session: SessionKey::FIRST, reason }, now);
            }
            None => {}
        }
    }

    /// The driver has written this many more bytes of [`StdioAction::Write`] to the client's stream.
    ///
    /// Bytes that were not reported count against [`Limits::unwritten`](crate::Limits::unwritten).
    pub fn handle_written(&mut self, bytes: usize, now: Instant) {
        self.transport.handle_written(bytes);
        self.report_not_written(now);
    }

    /// The client's stream has ended. Requests in flight are still answered within [`Config::drain_timeout`], then the
    /// connection closes.
    ///
    /// Rules: FR15.
    pub fn handle_eof(&mut self, now: Instant) {
        let Some(end) = self.transport.end() else { return };
        if self.is_closed() {
            return;
        }
        let (session, _, shared) = &mut self.split_at(SessionKey::FIRST, now);
        let Some(session) = session else { return };
        if let Err(fault) = end {
            shared.fault(fault);
        }
        shared.report(Event::InputEnded);
        shared.timers.set(Timer::InputEnded, now + shared.config().drain_timeout);
        session.end_input(shared);
        self.close_if_drained(now);
    }

    /// The only session.
    #[must_use]
    pub const fn session(&self) -> SessionKey {
        SessionKey::FIRST
    }

    /// Whether [`Event::Closed`] was reported or will be returned by the next polls.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.check_connection().is_err()
    }
}

impl ServerTransport for Stdio {
    const IS_ONE_CONNECTION: bool = true;

    fn configure(&mut self, config: &Config, _is_serving: bool) -> Result<(), UsageError> {
        self.set_limits(&config.limits);
        Ok(())
    }

    fn proceed(&mut self, _output: &mut TransportOutput<'_, StdioAction>) -> bool {
        false
    }

    fn handle_timeout(&mut self, _output: &mut TransportOutput<'_, StdioAction>) -> bool {
        false
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn drain(&mut self, _output: &mut TransportOutput<'_, StdioAction>) {}

    fn is_drained(&self) -> bool {
        true
    }

    fn stop(&mut self) {}

    fn wants_input(&self, requests: usize) -> bool {
        let limits = self.limits();
        self.unwritten().replies() < limits.queue_bytes && requests < limits.requests_in.min(limits.requests_in_total)
    }

    fn write(&mut self, message: &Message, _route: Route, output: &mut TransportOutput<'_, StdioAction>) {
        Self::write(self, message, output.out);
    }

    fn write_batch(&mut self, answers: &[Message], _route: Route, output: &mut TransportOutput<'_, StdioAction>) {
        Self::write_batch(self, answers, output.out);
    }

    fn no_answer(&mut self, _route: Route, _output: &mut TransportOutput<'_, StdioAction>) {}

    fn reject(&mut self, _error: &ParseError, _route: Route, _output: &mut TransportOutput<'_, StdioAction>) {}

    fn reports_invalid(&self) -> bool {
        self.reports_line()
    }

    fn takes(&mut self, bytes: usize, _output: &mut TransportOutput<'_, StdioAction>) -> bool {
        self.has_room_for(bytes)
    }

    fn takes_answer(&mut self, bytes: usize, _output: &mut TransportOutput<'_, StdioAction>) -> bool {
        self.has_room_for_answer(bytes)
    }

    fn opened(&mut self, _session: SessionKey, _client: Option<&Json>) {}

    fn negotiated(&mut self, _session: Option<SessionKey>, version: ProtocolVersion) {
        self.set_unreadable_id(version.rules().unreadable_id);
    }

    fn instance(&self, _session: SessionKey) -> Option<InstanceId> {
        None
    }

    fn stored_instance(&self) -> Option<InstanceId> {
        None
    }

    fn changed(&mut self, _session: SessionKey, _reply_to: ReplyTo, _setting: Setting) {}

    fn has_client(&self, _session: SessionKey) -> bool {
        true
    }

    fn published(&mut self, _change: &ChangeNotification, _output: &mut TransportOutput<'_, StdioAction>) {}

    fn set_serving(&mut self, _session: SessionKey, _is_serving: bool) {}

    fn listed_tools(&mut self, _result: &Json) {}

    fn release(&mut self, _session: SessionKey, _reply_to: ReplyTo, _output: &mut TransportOutput<'_, StdioAction>) {}

    fn ended(&mut self, _session: SessionKey, _reason: CloseReason, output: &mut TransportOutput<'_, StdioAction>) {
        self.close(output.out);
    }

    fn listen_to_evict(&mut self, _newcomer: ReplyTo, _now: Instant) -> Option<ReplyTo> {
        None
    }

    fn held(&self) -> usize {
        0
    }

    fn load(&self) -> Load {
        Self::load(self)
    }

    fn principal(&self, _session: SessionKey) -> Option<&Principal> {
        None
    }

    fn request_head(&self, _reply_to: ReplyTo) -> Option<&http::request::Parts> {
        None
    }

    fn extensions(&self, _session: Option<SessionKey>, _reply_to: ReplyTo) -> http::Extensions {
        http::Extensions::new()
    }
}
