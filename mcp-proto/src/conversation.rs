//! Requests and their outcomes, for either role: ids, deadlines, and what is to be sent or reported.

pub(crate) mod backoff;
pub(crate) mod deadlines;
pub(crate) mod outbox;
pub(crate) mod pending;
