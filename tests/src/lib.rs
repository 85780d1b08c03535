//! Code that the tests share: inputs, oracles, and the simulated environments in which machines run.

pub mod admission;
pub mod bad_answers;
pub mod bad_handshakes;
pub mod bad_lines;
pub mod bad_servers;
pub mod catalogue;
pub mod defects;
pub mod error_texts;
pub mod examples;
pub mod late_answers;
pub mod modern_answers;
pub mod on_the_wire;
pub mod plays;
pub mod side_by_side;
pub mod tools;
pub mod unread_pipes;
pub mod urls;
