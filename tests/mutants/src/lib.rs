//! Mutants: small changes that break the code, all of them in one copy of it, of which an environment variable chooses
//! one when a program starts.

mod attributes;
mod find;
mod instrument;
mod macros;
mod operators;
mod values;

pub use find::{Found, Function, Mutant, find};
pub use instrument::{Chunk, Inserted, Instrumented, instrument};

/// The module that tells an instrumented crate which mutant is chosen.
pub const SWITCH: &str = include_str!("switch.txt");
