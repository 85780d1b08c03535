//! Data structures of the machines.

pub(crate) mod buffer;
pub(crate) mod deadlines;
pub(crate) mod outbox;
