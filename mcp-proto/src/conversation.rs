//! Requests and their outcomes, for both roles.
//!
//! | file | what it does |
//! |---|---|
//! | `call` | a request to be made |
//! | `outcome` | how requests and connections end |
//! | `outgoing` | this side's own requests: states, ids, progress, deadlines, late responses |
//! | `given_up` | keys of those that were given up but may still be answered |
//! | `incoming` | the peer's requests that are not answered |
//! | `keys` | keys of sessions and requests, and the right to answer a request |
//! | `cancellation` | `notifications/cancelled` |
//! | `backoff` | pauses between attempts |

pub(crate) mod backoff;
pub(crate) mod call;
pub(crate) mod cancellation;
mod given_up;
pub(crate) mod incoming;
pub(crate) mod keys;
pub(crate) mod outcome;
pub(crate) mod outgoing;
