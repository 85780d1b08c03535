//! Bytes of responses that the driver has received but not written.
//!
//! ```text
//!             handed out                  a while without any of it taken, or room is needed (M3)
//!  (nothing) ────────────▶ waiting ──────────────────────────────────────────────────────────────▶ aborted
//!      ▲                     │ taken                                                                  │
//!      └─────────────────────┴──────────────────────────────── disconnect ◀───────────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::limits::Limits;
use crate::server::http::exchange::action::HttpAction;
use crate::server::http::exchange::{ExchangeKey, ExchangeTypes, Exchanges};
use crate::server::http::{HttpTimer, Output};

/// How long an exchange must have had a large number of unwritten bytes before it may be aborted for another one.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The unwritten bytes of each exchange, from its first byte until the last one was written.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    exchanges: BTreeMap<ExchangeKey, Waiting>,
    /// The sum over all exchanges.
    bytes: usize,
    /// The exchanges with more than [`Limits::SMALL`] bytes, ordered by the time since which they have them.
    large: BTreeSet<(Instant, ExchangeKey)>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: usize,
    /// Since when there are more than [`Limits::SMALL`] bytes.
    large_since: Option<Instant>,
    /// [`HttpAction::Abort`] was sent: no further bytes are sent to the driver.
    is_aborted: bool,
}

impl Unwritten {
    fn add(&mut self, exchange: ExchangeKey, bytes: usize, now: Instant) {
        let waiting = self.exchanges.entry(exchange).or_default();
        waiting.bytes += bytes;
        self.bytes += bytes;
        if waiting.bytes > Limits::SMALL && waiting.large_since.is_none() {
            waiting.large_since = Some(now);
            self.large.insert((now, exchange));
        }
    }

    /// The unwritten bytes of all responses.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The unwritten bytes of one response.
    pub(crate) fn of(&self, exchange: ExchangeKey) -> usize {
        self.exchanges.get(&exchange).map_or(0, |waiting| waiting.bytes)
    }

    /// Whether the exchange was aborted, so that no further bytes are sent to the driver.
    pub(crate) fn is_aborted(&self, exchange: ExchangeKey) -> bool {
        self.exchanges.get(&exchange).is_some_and(|waiting| waiting.is_aborted)
    }

    /// Subtracts written bytes, at most as many as are stored. Returns how many are left; `None` if none was
    /// subtracted.
    fn remove(&mut self, exchange: ExchangeKey, bytes: usize) -> Option<usize> {
        let waiting = self.exchanges.get_mut(&exchange)?;
        let taken = bytes.min(waiting.bytes);
        waiting.bytes -= taken;
        self.bytes -= taken;
        let left = waiting.bytes;
        if left <= Limits::SMALL {
            if let Some(since) = waiting.large_since.take() {
                self.large.remove(&(since, exchange));
            }
        }
        if left == 0 && !waiting.is_aborted {
            self.exchanges.remove(&exchange);
        }
        (taken > 0).then_some(left)
    }

    pub(crate) fn forget(&mut self, exchange: ExchangeKey) {
        self.remove(exchange, usize::MAX);
        self.exchanges.remove(&exchange);
    }

    /// The exchange that has been large for longest, if that is at least [`STALL_TIMEOUT`].
    fn oldest(&self, now: Instant) -> Option<ExchangeKey> {
        let (since, exchange) = self.large.first()?;
        (now.saturating_duration_since(*since) >= STALL_TIMEOUT).then_some(*exchange)
    }
}

impl<P: ExchangeTypes> Exchanges<P> {
    /// Sends a chunk of a stream to the driver. A stream with too many unwritten bytes is aborted; a stream without any
    /// accepts one chunk of any size (K1).
    pub(crate) fn write_chunk(&mut self, exchange: ExchangeKey, chunk: Bytes, output: &mut Output<'_>) {
        if let Some(waiting) = self.unwritten.exchanges.get(&exchange) {
            if waiting.is_aborted {
                return;
            }
            if waiting.bytes.saturating_add(chunk.len()) > self.limits.unwritten {
                return self.abort_unread(exchange, output);
            }
        }
        self.count_unwritten(exchange, chunk.len(), output);
        output.out.act(HttpAction::Write { exchange, chunk });
    }

    /// The driver has written bytes of a response.
    pub(crate) fn on_written(&mut self, exchange: ExchangeKey, bytes: usize, output: &mut Output<'_>) {
        match self.unwritten.remove(exchange, bytes) {
            _ if self.unwritten.is_aborted(exchange) => {}
            Some(0) => output.clear_timer(HttpTimer::Unread(exchange)),
            Some(_) => self.expect_reading(exchange, output),
            None => {}
        }
    }

    /// Whether a message of this many bytes may be sent in addition to all unwritten bytes, and to `queued` others (M3).
    /// Exchanges that have been large for long are aborted for it, so that clients that do not read cannot block those that
    /// do. Small messages are always allowed, because the number of connections bounds them.
    pub(crate) fn makes_room(&mut self, bytes: usize, queued: usize, output: &mut Output<'_>) -> bool {
        while bytes > Limits::SMALL && !self.limits.holds_beside(bytes, self.unwritten.bytes + queued) {
            let Some(oldest) = self.unwritten.oldest(output.now) else { return false };
            self.abort_unread(oldest, output);
        }
        true
    }

    /// Aborts the response of a client that does not read, and treats the client as disconnected (K1). For an open
    /// exchange, the disconnection takes effect at the next [`Server::handle_timeout`](crate::Server::handle_timeout).
    pub(crate) fn abort_unread(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        self.unwritten.forget(exchange);
        output.out.act(HttpAction::Abort { exchange });
        if self.get(exchange).is_some() {
            self.unwritten.exchanges.insert(exchange, Waiting { is_aborted: true, ..Waiting::default() });
            output.set_timer(HttpTimer::Unread(exchange), output.now);
        } else {
            output.clear_timer(HttpTimer::Unread(exchange));
        }
    }

    pub(crate) fn count_unwritten(&mut self, exchange: ExchangeKey, bytes: usize, output: &mut Output<'_>) {
        if bytes > 0 {
            let had_none = !self.unwritten.exchanges.contains_key(&exchange);
            self.unwritten.add(exchange, bytes, output.now);
            if had_none {
                self.expect_reading(exchange, output);
            }
        }
    }

    fn expect_reading(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        output.set_timer(HttpTimer::Unread(exchange), output.now + self.unread_timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        Instant::START
    }

    const A: ExchangeKey = ExchangeKey(1);
    const B: ExchangeKey = ExchangeKey(2);

    #[test]
    fn what_waits_is_counted_until_it_was_taken() {
        let now = now();
        let mut unwritten = Unwritten::default();
        unwritten.add(A, 10, now);
        unwritten.add(B, 5, now);
        unwritten.add(A, 20, now);
        assert_eq!(unwritten.bytes(), 35);
        for (exchange, taken, left, all) in
            [(A, 0, None, 35), (A, 12, Some(18), 23), (B, 6, Some(0), 18), (B, 1, None, 18), (A, 18, Some(0), 0)]
        {
            assert_eq!(unwritten.remove(exchange, taken), left, "{exchange:?}, {taken}");
            assert_eq!(unwritten.bytes(), all);
        }
        assert!(unwritten.exchanges.is_empty());
        unwritten.add(A, 10, now);
        unwritten.forget(A);
        assert!(unwritten.bytes() == 0 && unwritten.exchanges.is_empty() && !unwritten.is_aborted(A));
        let aborted = Waiting { is_aborted: true, ..Waiting::default() };
        unwritten.exchanges.insert(A, aborted);
        assert!(unwritten.is_aborted(A) && !unwritten.is_aborted(B));
        assert_eq!(unwritten.remove(A, 1), None);
        assert!(unwritten.is_aborted(A), "until the exchange has ended");
    }

    #[test]
    fn the_client_that_has_had_much_to_take_for_longest_goes_first() {
        let start = now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut unwritten = Unwritten::default();
        unwritten.add(A, Limits::SMALL, at(0));
        unwritten.add(B, Limits::SMALL + 1, at(1));
        unwritten.add(A, 1, at(2));
        unwritten.add(B, 1, at(3));
        assert_eq!((unwritten.oldest(at(10)), unwritten.oldest(at(11)), unwritten.large.len()), (None, Some(B), 2));
        // An exchange that is small again has no time since when it is large.
        assert_eq!(unwritten.remove(B, 2), Some(Limits::SMALL));
        assert_eq!((unwritten.oldest(at(11)), unwritten.oldest(at(12)), unwritten.large.len()), (None, Some(A), 1));
        unwritten.forget(A);
        assert_eq!((unwritten.oldest(at(100)), unwritten.large.len()), (None, 0));
        unwritten.add(B, 1, at(20));
        assert_eq!((unwritten.oldest(at(29)), unwritten.oldest(at(30))), (None, Some(B)));
    }
}
