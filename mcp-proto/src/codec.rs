//! Decoding of bytes into lines, events, JSON texts and messages, and encoding.

pub(crate) mod buffer;
pub(crate) mod json;
pub(crate) mod jsonrpc;
pub mod line;
pub mod sse;
mod swar;
pub(crate) mod text;
