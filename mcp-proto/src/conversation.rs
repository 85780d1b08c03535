//! Requests and their outcomes, for both roles.
//!
//! | file | what it does |
//! |---|---|
//! | `outgoing` | this side's own requests: states, ids, progress, deadlines, late responses |
//! | `pending` | the keys of requests, and the peer's requests; also the server's own requests |
//! | `cancellation` | `notifications/cancelled` |
//! | `deadlines` | a set of timers |
//! | `backoff` | pauses between attempts |
//! | `outbox` | the one queue of outputs |

pub(crate) mod backoff;
pub(crate) mod cancellation;
pub(crate) mod deadlines;
pub(crate) mod outbox;
pub(crate) mod outgoing;
pub(crate) mod pending;
