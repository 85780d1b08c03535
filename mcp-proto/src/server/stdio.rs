//! The server on a byte stream, which has one session.

use std::convert::Infallible;

use super::transport::{
    Inbound, ReplyTo, Route, Sender, ServerTimer, ServerTransport, Sharing, ToWrite, TransportNotice, TransportOutput,
};
use super::{Config, Event, Server};
use crate::Instant;
use crate::conversation::keys::SessionKey;
use crate::error::UsageError;
use crate::jsonrpc::Subject;
use crate::limits::Load;
use crate::transport::{Excess, Line, Stdio};

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
    fn on_not_a_message(&mut self, inbound: Inbound<Infallible>, has_id: bool, now: Instant) {
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

    /// The driver has written this many more bytes of [`StdioAction::Write`](crate::StdioAction::Write) to the client's stream.
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
        shared.output.timers.set(ServerTimer::InputEnded, now + shared.config().drain_timeout);
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
    type Step = Infallible;
    type Timer = Infallible;

    fn configure(&mut self, config: &Config, _is_serving: bool) -> Result<(), UsageError> {
        self.set_limits(&config.limits);
        Ok(())
    }

    fn proceed(&mut self, step: Infallible, _output: &mut TransportOutput<'_, Self>) {
        match step {}
    }

    fn on_timer(&mut self, timer: Infallible, _output: &mut TransportOutput<'_, Self>) {
        match timer {}
    }

    fn wants_input(&self, requests: usize) -> bool {
        let limits = self.limits();
        self.unwritten().replies() < limits.queue_bytes && requests < limits.requests_in.min(limits.requests_in_total)
    }

    fn write(&mut self, what: ToWrite<'_>, _route: Route, output: &mut TransportOutput<'_, Self>) {
        match what {
            ToWrite::Message(message) => Self::write(self, message, output.out),
            ToWrite::Batch(answers) => Self::write_batch(self, answers, output.out),
            // Without a message, there is no line.
            ToWrite::Nothing | ToWrite::Invalid(_) => {}
        }
    }

    fn takes(&mut self, bytes: usize, _output: &mut TransportOutput<'_, Self>) -> bool {
        self.has_room_for(bytes)
    }

    fn takes_answer(&mut self, bytes: usize, _output: &mut TransportOutput<'_, Self>) -> bool {
        self.has_room_for_answer(bytes)
    }

    fn reports_invalid(&self) -> bool {
        self.reports_line()
    }

    fn on_notice(&mut self, notice: TransportNotice<'_>, output: &mut TransportOutput<'_, Self>) {
        match notice {
            TransportNotice::Negotiated(_, version) => self.set_unreadable_id(version.rules().unreadable_id),
            TransportNotice::Ended(..) => self.close(output.out),
            // The stream carries all messages of the only session, which no other instance serves.
            TransportNotice::Opened(..)
            | TransportNotice::Changed(..)
            | TransportNotice::Busy(_)
            | TransportNotice::Idle(_)
            | TransportNotice::Released(..)
            | TransportNotice::Published(_)
            | TransportNotice::ListedTools(_)
            | TransportNotice::Draining
            | TransportNotice::Stopped => {}
        }
    }

    fn sharing(&self, _session: Option<SessionKey>) -> Sharing {
        Sharing::NONE
    }

    fn sender(&self, _session: Option<SessionKey>, _reply_to: ReplyTo) -> Sender<'_> {
        Sender::default()
    }

    /// All subscriptions are those of one client.
    fn listen_to_evict(&mut self, _newcomer: ReplyTo, _now: Instant) -> Option<ReplyTo> {
        None
    }

    /// An answer that was written is not kept.
    fn is_drained(&self) -> bool {
        true
    }

    /// The one line that has not arrived in full is bounded by itself.
    fn held(&self) -> usize {
        0
    }

    fn load(&self) -> Load {
        Self::load(self)
    }
}
