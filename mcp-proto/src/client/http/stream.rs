//! Streams of events that break and are opened again: those of requests (SH-C-32 to SH-C-36), and the one for messages
//! that belong to no request (SH-C-38 to SH-C-40).

use std::time::Duration;

use http::StatusCode;
use http::response::Parts;

use super::cursor::Cursor;
use super::exchange::{OpenedIn, Purpose};
use super::headers::{not_a_stream, refusal};
use super::lost_session::is_gone;
use super::{Http, HttpTimer};
use crate::Instant;
use crate::client::transport::TransportOutput;
use crate::conversation::keys::RequestKey;
use crate::error::{Failed, Fault, Quirk};
use crate::spec::status::is_temporary;

/// The number of resumptions without an event after which a stream's request fails.
pub(super) const MAX_RESUMPTIONS_WITHOUT_EVENT: u32 = 3;

/// The number of temporary refusals in a row after which the stream for messages that belong to no request is given up.
const MAX_TEMPORARY_REFUSALS: u32 = 10;

/// The stream for messages that belong to no request.
#[derive(Debug)]
pub(super) struct GetStream {
    pub(super) cursor: Cursor,
    /// The server has offered it in this session.
    was_open: bool,
}

impl GetStream {
    pub(super) const fn new() -> Self {
        Self { cursor: Cursor::new(), was_open: false }
    }

    /// A session begins, which has a stream of its own.
    pub(super) fn begin(&mut self) {
        self.was_open = false;
        self.cursor.moved(None);
    }

    /// The server offers it.
    pub(super) const fn opened(&mut self) {
        self.was_open = true;
    }
}

impl Http {
    /// Resumes a stream that ended without the answer, after the time that a refusal has asked for. If that is not possible,
    /// the request fails at once (H1).
    pub(super) fn resume(
        &mut self,
        request: RequestKey,
        reason: Failed,
        retry_after: Option<Duration>,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let resumable =
            self.session.version().is_some_and(|version| version.rules().resumable) && self.mode.is_streamable();
        // Without an event id, there is nothing to resume after (SH-C-35).
        let may_resume = |cursor: &&mut Cursor| {
            resumable && cursor.resume_after().is_some() && cursor.failures() < MAX_RESUMPTIONS_WITHOUT_EVENT
        };
        let Some(cursor) = self.deliveries.cursor_mut(request).filter(may_resume) else {
            self.unanswered(request, reason, output);
            return;
        };
        let at = cursor.next_attempt(retry_after, &self.limits, &mut self.jitter, now);
        self.deliveries.resume_later(request, at, output.timers);
    }

    /// The pause before a stream is opened again is over.
    pub(super) fn reopen(&mut self, request: RequestKey, now: Instant, output: &mut TransportOutput<'_, Http>) {
        if self.authorization.blocks_all() {
            let until = self.authorization_deadline(now);
            return self.deliveries.wait_to_resume(request, until, output.timers);
        }
        let exchange = self.get(None, Purpose::Resume { request, redirects: 0 }, output);
        self.deliveries.read_on(request, exchange, output.timers);
    }

    pub(super) fn not_resumed(
        &mut self,
        opened_in: OpenedIn,
        request: RequestKey,
        head: &Parts,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        if is_gone(head.status) && opened_in.in_session {
            self.lose_session(opened_in.generation, None, now, output);
        } else if is_temporary(head.status) {
            let after = refusal(head.status, &head.headers, &self.limits).retry_after;
            self.resume(request, not_a_stream(head, &self.limits), after, now, output);
        } else {
            self.unanswered(request, Failed::StreamEnded, output);
        }
    }

    /// Opens the stream for messages that belong to no request.
    pub(super) fn open_get_stream(&mut self, output: &mut TransportOutput<'_, Http>) {
        let has_one = self.exchanges.any(|purpose| matches!(purpose, Purpose::GetStream { .. }));
        // With a single exchange, the stream would leave none for requests.
        if has_one || self.session.is_closing() || self.limits.exchanges <= 1 {
            return;
        }
        if self.authorization.blocks_all() {
            self.authorization.get_stream.wait();
        } else {
            self.get(None, Purpose::GetStream { redirects: 0 }, output);
        }
    }

    /// The server did not open the stream for its own messages.
    pub(super) fn no_get_stream(
        &mut self,
        opened_in: OpenedIn,
        head: &Parts,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        if opened_in.generation != self.session.generation() {
            return;
        }
        match head.status {
            // The server does not offer the stream (SH-C-38).
            StatusCode::METHOD_NOT_ALLOWED => {}
            status if is_gone(status) && opened_in.in_session && self.get_stream.was_open => {
                self.lose_session(opened_in.generation, None, now, output);
            }
            // The next message shows whether the session still exists.
            StatusCode::NOT_FOUND => output.quirk(Quirk::GetNotFound),
            status if is_temporary(status) && self.get_stream.cursor.failures() < MAX_TEMPORARY_REFUSALS => {
                let after = refusal(status, &head.headers, &self.limits).retry_after;
                self.reopen_get_stream(after, now, output);
            }
            // The server still holds the stream that broke (A15).
            StatusCode::CONFLICT if self.get_stream.cursor.failures() < MAX_RESUMPTIONS_WITHOUT_EVENT => {
                self.reopen_get_stream(None, now, output);
            }
            _ => output.fault(Fault::NoServerStream { reason: not_a_stream(head, &self.limits) }),
        }
    }

    pub(super) fn reopen_get_stream(
        &mut self,
        after: Option<Duration>,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let at = self.get_stream.cursor.next_attempt(after, &self.limits, &mut self.jitter, now);
        output.set_timer(HttpTimer::GetStream, at);
    }
}
