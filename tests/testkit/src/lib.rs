//! What tests of an MCP implementation need: inputs, oracles, and simulated environments in which machines run.

pub mod asked;
pub mod cells;
pub mod chunks;
pub mod crowd;
pub mod http1;
pub mod json_text;
pub mod loopback;
pub mod model;
pub mod oracle;
pub mod pair;
pub mod random;
pub mod schema;
pub mod simulation;
pub mod site;
pub mod socket;
pub mod stream;
pub mod transcript;
pub mod vectors;
pub mod waiting;
pub mod world;
