//! Three kinds of errors, separated by their cause.
//!
//! * [`UsageError`]: the application's command was wrong, and had no effect.
//! * [`Fault`]: the peer violated the protocol; the machine handled it and reports it.
//! * [`Failed`]: why a request ended without a response. It is a separate type, so that a local failure can never be
//!   confused with an error that the peer sent (JR-50).
//!
//! | file | what it does |
//! |---|---|
//! | `usage` | mistakes of the application |
//! | `fault` | mistakes and deviations of the peer |
//! | `failed` | why a request has no response |
//! | `refusal`, `explanation` | HTTP errors, and what their bodies say to a person |
//! | `process_end` | how the process of a server has ended, and why it could not be started |

mod explanation;
mod failed;
mod fault;
mod process_end;
mod refusal;
mod usage;

pub use explanation::find_explanation;
pub use failed::{Failed, InvalidResponse, NoInput, RedirectRefused};
pub use fault::{Fault, Quirk, Severity};
pub use process_end::{ProcessEnd, StartFailure};
pub use refusal::Refusal;
pub use usage::UsageError;

pub use crate::spec::header::BodyKind;
