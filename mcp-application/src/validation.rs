//! Validation by JSON Schema (feature `validation`): what a schema states beyond the types of functions, such as lengths,
//! patterns and ranges.
//!
//! A [`Router`](crate::router::Router) validates the arguments of its tools and their structured results, and
//! [`Inputs`](crate::Inputs) the answers to forms. A client validates by [`CheckedTool`], because the schema belongs to the
//! server: schemas that only mean to cost much can do so whatever their size, so that a client validates with those of servers
//! that it trusts.
//!
//! Schemas have the dialect that their `$schema` names, or 2020-12. Nothing is fetched: a `$ref` to another document is an
//! error. Patterns are matched in linear time, so that one with a look-around or a backreference is an error. `format` is not
//! asserted, as 2020-12 has it, except in forms.

mod checked_tool;
mod compiled_schema;

pub use checked_tool::CheckedTool;
pub use compiled_schema::{CompiledSchema, InvalidSchema, SchemaMismatch};
