//! What the scenarios share: inputs, oracles, and the simulated world that machines run in.

pub mod chunks;
pub mod examples;
pub mod http1;
pub mod json_text;
pub mod loopback;
pub mod oracle;
pub mod pair;
pub mod side_by_side;
pub mod site;
pub mod stream;
pub mod vectors;
pub mod world;
