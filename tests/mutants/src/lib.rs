//! Mutants: small changes that break the code. One copy of the code contains all of them; an environment variable
//! chooses one when a program starts.

mod attributes;
mod find;
mod instrument;
mod macros;
mod operators;
mod scope;
mod values;

pub use find::{Found, Function, Mutant, find};
pub use instrument::{Chunk, Inserted, Instrumented, instrument};

/// The module that provides the chosen mutant in an instrumented crate.
pub const SWITCH: &str = include_str!("switch.txt");
