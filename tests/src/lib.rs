//! What the scenarios share: inputs, oracles, and the simulated world that machines run in.

pub mod chunks;
pub mod json_text;
pub mod oracle;
pub mod pair;
pub mod stream;
pub mod vectors;
pub mod world;
