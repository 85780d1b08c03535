//! Requests and their outcomes, for both roles: ids, deadlines, backoff and the output queue.

pub(crate) mod backoff;
pub(crate) mod deadlines;
pub(crate) mod outbox;
pub(crate) mod pending;
