//! Validation by JSON Schema (feature `validation`): what a schema states beyond the types of functions, such as lengths,
//! patterns and ranges.
//!
//! A [`Router`](crate::router::Router) validates the arguments of its tools and their structured results, and
//! [`Inputs`](crate::Inputs) the answers to forms. A client validates by [`CheckedTool`], because the schema belongs to the
//! server: schemas that only mean to cost much can do so whatever their size, so that a client validates with those of servers
//! that it trusts. The work and the memory for one value are in proportion to it, for values that conform and for others. A schema
//! with more than 1000 references, with a long chain of them, or with more than 10,000 ways to one part of a value is refused.
//!
//! An error names the path at which a value deviates, or that of a choice or of a schema that leads to itself in several ways.
//!
//! Schemas have the dialect that their `$schema` names, or 2020-12. Nothing is fetched: a `$ref` to another document is an
//! error. Patterns are matched in linear time, so that one with a look-around or a backreference is an error. `format` is not
//! asserted, as 2020-12 has it, except in forms. Numbers with a fraction or an exponent are compared as 64-bit floats.
//!
//! | file | what it does |
//! |---|---|
//! | `checked_tool` | a tool whose calls are validated |
//! | `compiled_schema` | a schema, and values that conform to it or do not |
//! | `deviations` | where a value deviates, and how |
//! | `nulls` | members that are null where a schema accepts none |
//! | `references` | references that lead too deep |

mod checked_tool;
mod compiled_schema;
mod deviations;
mod nulls;
mod references;

pub use checked_tool::CheckedTool;
pub use compiled_schema::{CompiledSchema, InvalidSchema, SchemaMismatch};
