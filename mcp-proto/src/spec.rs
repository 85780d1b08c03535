//! What the specification says, as tables: revisions, methods, error codes, and the names of headers and of `_meta` members.
//!
//! Other modules ask these tables. They do not compare revisions, and they do not list methods.

pub mod code;
pub(crate) mod header;
pub(crate) mod meta;
mod method;
pub(crate) mod param_headers;
mod revision;

pub use method::Method;
pub(crate) use method::{Change, List, SettingChange, TASKS_EXTENSION};
pub use revision::{CancelBy, Era, FallbackOn, ProtocolVersion, Rules};
