//! What the scenarios share: inputs, oracles, and the simulated world that machines run in.

pub mod asked;
pub mod bad_answers;
pub mod bad_lines;
pub mod bad_servers;
pub mod catalogue;
pub mod chunks;
pub mod crowd;
pub mod examples;
pub mod http1;
pub mod json_text;
pub mod ladder;
pub mod loopback;
pub mod model;
pub mod on_the_wire;
pub mod oracle;
pub mod pair;
pub mod random;
pub mod schema;
pub mod side_by_side;
pub mod simulation;
pub mod site;
pub mod socket;
pub mod stream;
pub mod tools;
pub mod vectors;
pub mod world;
