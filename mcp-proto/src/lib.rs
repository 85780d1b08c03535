//! tmp
#![warn(clippy::indexing_slicing)]
mod buffer;
mod error;
mod json;
mod limits;
pub mod line;
mod message;
pub mod sse;
pub use buffer::CowBytes;
pub use error::UsageError;
pub use json::{DuplicateKey, Json, JsonError};
pub use limits::Limits;
pub use message::*;
