//! The bodies of the targets, by subject.

mod api;
mod codecs;
mod era;
mod http;
mod param_headers;
mod stdio;

pub use api::api;
pub use codecs::{line, message, splice, sse};
pub use era::era;
pub use http::{client, relay, server};
pub use param_headers::param_headers;
pub use stdio::{client_stdio, server_stdio};
