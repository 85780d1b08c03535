//! The bodies of the fuzz targets.
//!
//! Each function takes arbitrary bytes and panics when an invariant does not hold. `cargo fuzz run NAME --features
//! libfuzzer` runs it with new inputs; `cargo test` runs it with the inputs of `corpus/NAME`.

#![expect(clippy::panic, clippy::missing_panics_doc, reason = "a panic is how a finding is told")]
#![expect(clippy::indexing_slicing, reason = "so is an index that is out of bounds")]
#![expect(clippy::wildcard_enum_match_arm, reason = "what matters is looked at, the rest need not be listed")]

mod api;
mod codecs;
mod era;
pub mod inputs;
mod machines;
mod mirror;
mod script;
mod streams;

use mcp_testkit::random::Choices;
use mcp_testkit::random_clients;

pub use api::api;
pub use codecs::{line, message, splice, sse};
pub use era::era;
pub use machines::{client, relay};
pub use mirror::mirror;
pub use streams::{client_stdio, server_stdio};

/// A target's name and function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 12] = [
    ("api", api),
    ("client", client),
    ("client_stdio", client_stdio),
    ("era", era),
    ("line", line),
    ("message", message),
    ("mirror", mirror),
    ("relay", relay),
    ("server", server),
    ("server_stdio", server_stdio),
    ("splice", splice),
    ("sse", sse),
];

/// The server machine over HTTP, for both eras at once, with many clients: every complete request is answered once or
/// cancelled by its client, no client receives the answer to another, and the machine holds nothing at the end.
pub fn server(data: &[u8]) {
    random_clients::run(Choices::Bytes(data), 2000);
}
