//! The order, the sums and the timers of messages on their way, which follow from their states.

use std::collections::BTreeMap;

use super::{DeliveryKey, State};
use crate::client::transport::Backlog;
use crate::collections::deadlines::Deadlines;

/// What follows from the states of all messages.
#[derive(Debug)]
pub(super) struct Index {
    /// The messages that wait to be sent, in order.
    pub(super) order: BTreeMap<(Line, u64), DeliveryKey>,
    /// The sums of these messages.
    pub(super) backlog: Backlog,
    /// Bytes of messages that are not requests and are on exchanges.
    pub(super) being_sent: usize,
    pub(super) resuming: usize,
    pub(super) timers: Deadlines<Timer>,
}

/// What a waiting message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    Requests,
    Pings,
    Others,
    Retrying,
    NextSession,
    Authorization,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Retry {
        position: u64,
        key: DeliveryKey,
    },
    Resume(DeliveryKey),
    /// Its `position` is 0 if only the stream with the answer waits.
    Authorization {
        position: u64,
        key: DeliveryKey,
    },
}

impl Index {
    pub(super) fn enter(&mut self, key: DeliveryKey, state: &State) {
        if let Some((line, position, post)) = state.waiting() {
            self.order.insert((line, position), key);
            self.backlog = self.backlog.plus(post.weight());
        }
        match state {
            State::Retrying { position, at, .. } => self.timers.set(Timer::Retry { position: *position, key }, *at),
            State::Sending { post, .. } => self.being_sent += post.message_bytes(),
            State::Resuming { at, .. } => {
                self.resuming += 1;
                self.timers.set(Timer::Resume(key), *at);
            }
            State::WaitingForAuthorization { position, until, .. } => {
                self.timers.set(Timer::Authorization { position: *position, key }, *until);
            }
            State::WaitingToResume { until, .. } => {
                self.resuming += 1;
                self.timers.set(Timer::Authorization { position: 0, key }, *until);
            }
            State::Queued { .. } | State::WaitingForSession { .. } | State::Reading { .. } | State::Accepted => {}
        }
    }

    pub(super) fn leave(&mut self, key: DeliveryKey, state: &State) {
        if let Some((line, position, post)) = state.waiting() {
            self.order.remove(&(line, position));
            self.backlog = self.backlog.minus(post.weight());
        }
        match state {
            State::Retrying { position, .. } => self.timers.clear(Timer::Retry { position: *position, key }),
            State::Sending { post, .. } => self.being_sent -= post.message_bytes(),
            State::Resuming { .. } => {
                self.resuming -= 1;
                self.timers.clear(Timer::Resume(key));
            }
            State::WaitingForAuthorization { position, .. } => {
                self.timers.clear(Timer::Authorization { position: *position, key });
            }
            State::WaitingToResume { .. } => {
                self.resuming -= 1;
                self.timers.clear(Timer::Authorization { position: 0, key });
            }
            State::Queued { .. } | State::WaitingForSession { .. } | State::Reading { .. } | State::Accepted => {}
        }
    }

    /// The messages of a line, in order.
    pub(super) fn waiting_in(&self, line: Line) -> impl Iterator<Item = DeliveryKey> {
        self.order.range((line, 0)..=(line, u64::MAX)).map(|(_, key)| *key)
    }
}
