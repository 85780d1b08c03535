//! Calls that have ended for their clients without an answer of the server, which may still work on them.
//!
//! A client cancels a call, its session ends, or the call takes too long. The server should stop then (CX-03), and many do
//! not: they ask a question or write a log line later. Such a message names no call. As long as one of these calls can be
//! its origin, it must not reach a client with another call.

use std::collections::VecDeque;
use std::time::Duration;

use mcp_proto::{Instant, Method, RequestKey, SessionKey};

/// The calls of the clients of one server that have ended without its answer.
#[derive(Debug)]
pub(super) struct PossiblyOpen {
    /// In the order of their ends.
    calls: VecDeque<EndedCall>,
    /// Calls were dropped because there were too many; the last of them counts until then.
    dropped_until: Option<Instant>,
    /// How long a call counts.
    time: Duration,
    limit: usize,
}

/// A call that has ended without an answer.
#[derive(Debug)]
pub(super) struct EndedCall {
    pub(super) request: RequestKey,
    /// The session of its client; `None` if the call was a stateless request.
    pub(super) session: Option<SessionKey>,
    pub(super) method: Method,
    until: Instant,
}

impl PossiblyOpen {
    /// No calls; each of at most `limit` counts for this time.
    pub(super) const fn new(time: Duration, limit: usize) -> Self {
        Self { calls: VecDeque::new(), dropped_until: None, time, limit }
    }

    pub(super) fn insert(&mut self, request: RequestKey, session: Option<SessionKey>, method: Method, now: Instant) {
        let until = now + self.time;
        self.calls.push_back(EndedCall { request, session, method, until });
        if self.calls.len() > self.limit {
            self.dropped_until = self.calls.pop_front().map(|dropped| dropped.until).max(self.dropped_until);
        }
    }

    /// Removes the calls that the server has answered since, and those that have ended too long ago.
    pub(super) fn update(&mut self, is_answered: impl Fn(RequestKey) -> bool, now: Instant) {
        self.calls.retain(|call| call.until > now && !is_answered(call.request));
        self.dropped_until = self.dropped_until.filter(|until| *until > now);
    }

    /// The calls, as of the last update.
    pub(super) fn calls(&self) -> impl Iterator<Item = &EndedCall> {
        self.calls.iter()
    }

    /// Whether calls may be open that were dropped because there were too many.
    pub(super) const fn has_unknown(&self) -> bool {
        self.dropped_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::Stdio;
    use mcp_proto::client::{Call, Client, Config};

    use super::*;

    #[test]
    fn a_call_counts_until_it_is_answered_or_its_time_is_over_also_if_it_was_dropped() {
        let (time, now) = (Duration::from_secs(300), Instant::START);
        let mut client = Client::new(Stdio::new(), Config::new("c", "1")).expect("a valid configuration");
        client.connect(now).expect("it was not connected");
        let keys = [(); 3].map(|()| client.request(Call::new("a"), now).expect("it waits for the handshake"));
        let mut open = PossiblyOpen::new(time, 2);
        let requests = |open: &PossiblyOpen| open.calls().map(|call| call.request).collect::<Vec<_>>();
        for (request, second) in keys.into_iter().zip(0..) {
            open.insert(request, None, Method::TOOLS_CALL, now + Duration::from_secs(second));
        }
        assert_eq!(requests(&open), keys[1..]);
        open.update(|request| request == keys[2], now + time - Duration::from_secs(1));
        assert!(open.has_unknown() && requests(&open) == keys[1..2]);
        open.update(|_| false, now + time);
        assert!(!open.has_unknown() && requests(&open) == keys[1..2]);
        open.update(|_| false, now + time + Duration::from_secs(1));
        assert!(requests(&open).is_empty());
    }
}
