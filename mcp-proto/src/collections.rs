//! What the machines keep their data in.

pub(crate) mod buffer;
pub(crate) mod deadlines;
pub(crate) mod outbox;
