//! Tables of the specification: revisions, methods, error codes, classes of HTTP statuses, and the names of headers and of
//! `_meta` members.
//!
//! All other modules use these tables; none of them compares revisions or lists methods itself.
//!
//! | file | what it does |
//! |---|---|
//! | `revision` | the revisions, and everything that differs between them |
//! | `supported` | the revisions that one side of a connection supports |
//! | `method` | the methods, with the properties of each |
//! | `target` | what a request is about, as far as a log may show it |
//! | `meta` | the keys of `_meta` |
//! | `capability` | the capabilities of clients and servers |
//! | `code` | the codes of errors |
//! | `values` | levels of log messages, and who may use a cached result |
//! | `structured`, `schema_keyword` | schemas of tools, and which of their members contain schemas |
//! | `header` | the names of HTTP headers |
//! | `param_headers` | headers that repeat parts of the body |
//! | `trace_context` | the trace context in `_meta` and in headers |
//! | `status` | classes of HTTP statuses |

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
mod target;
pub(crate) mod trace_context;
mod values;

pub use header::{HEADERS, PARAM_PREFIX};
pub(crate) use method::tasks_capability;
pub use method::{
    Change, List, Listing, Method, MethodFacts, Primitive, Reference, SKILLS_EXTENSION, SettingChange, TASKS_EXTENSION,
    TASKS_REQUESTS, UI_EXTENSION,
};
pub(crate) use revision::{CancelBy, FallbackOn, UnreadableId, names_stateless};
pub use revision::{Era, ProtocolVersion, Rules};
pub(crate) use supported::SupportedVersions;
pub use trace_context::TraceContext;
pub use values::{CacheScope, LoggingLevel};
