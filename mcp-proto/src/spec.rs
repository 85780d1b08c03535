//! Tables of the specification: revisions, methods, error codes, classes of HTTP statuses, and the names of headers and of
//! `_meta` members.
//!
//! All other modules use these tables; none of them compares revisions or lists methods itself.

pub mod capability;
pub mod code;
pub mod header;
pub mod meta;
mod method;
pub mod param_headers;
mod revision;
pub mod schema_keyword;
pub mod status;
pub mod structured;
mod supported;
pub(crate) mod trace_context;
mod values;

pub use header::{HEADERS, PARAM_PREFIX};
pub(crate) use method::tasks_capability;
pub use method::{
    Change, List, Listing, Method, MethodFacts, Primitive, Reference, SKILLS_EXTENSION, SettingChange, TASKS_EXTENSION,
};
pub(crate) use revision::{CancelBy, FallbackOn, UnreadableId, names_stateless};
pub use revision::{Era, ProtocolVersion, Rules};
pub(crate) use supported::SupportedVersions;
pub use trace_context::TraceContext;
pub use values::{CacheScope, LoggingLevel};
