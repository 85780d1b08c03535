//! The stream for messages that belong to no request (SH-C-38 to SH-C-40).

use std::time::Duration;

use http::StatusCode;
use http::response::Parts;

use super::answer::{is_temporary, not_a_stream};
use super::exchange::{OpenedIn, Purpose};
use super::headers::refusal;
use super::resume::FRUITLESS_RESUMPTIONS;
use super::session::Closing;
use super::{Http, HttpAction, Timer};
use crate::Instant;
use crate::client::carrier::Wire;
use crate::error::{Fault, Quirk};

impl Http {
    /// Opens the stream for messages that belong to no request.
    pub(super) fn open_server_stream(&mut self, wire: &mut Wire<'_, HttpAction>) {
        let has_one = self.exchanges.any(|purpose| matches!(purpose, Purpose::ServerStream { .. }));
        // With a single exchange, the stream would leave none for requests.
        if !has_one && self.closing == Closing::No && self.limits.exchanges > 1 {
            self.get(None, Purpose::ServerStream { redirects: 0 }, wire);
        }
    }

    /// The server did not open the stream for its own messages.
    pub(super) fn no_server_stream(
        &mut self,
        opened_in: OpenedIn,
        head: &Parts,
        now: Instant,
        wire: &mut Wire<'_, HttpAction>,
    ) {
        if opened_in.generation != self.generation {
            return;
        }
        match head.status {
            // The server does not offer the stream (SH-C-38).
            StatusCode::METHOD_NOT_ALLOWED => {}
            StatusCode::NOT_FOUND if opened_in.in_session && self.server_stream.was_open => {
                self.lose_session(opened_in.generation, None, now, wire);
            }
            // The next message shows whether the session still exists.
            StatusCode::NOT_FOUND => wire.quirk(Quirk::GetNotFound),
            status if is_temporary(status) && self.server_stream.cursor.failures() < 10 => {
                let after = refusal(status, &head.headers, &self.limits).retry_after;
                self.reopen_server_stream(after, now);
            }
            // The server still holds the stream that broke (A15).
            StatusCode::CONFLICT if self.server_stream.cursor.failures() < FRUITLESS_RESUMPTIONS => {
                self.reopen_server_stream(None, now);
            }
            _ => wire.fault(Fault::NoServerStream { reason: not_a_stream(head, &self.limits) }),
        }
    }

    pub(super) fn reopen_server_stream(&mut self, after: Option<Duration>, now: Instant) {
        let at = self.server_stream.cursor.next_attempt(after, &self.limits, &mut self.jitter, now);
        self.timers.set(Timer::ServerStream, at);
    }
}
