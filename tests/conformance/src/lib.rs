//! What the programs answer and ask that the official conformance suite is run against.
//!
//! | file | what |
//! |---|---|
//! | `server` | what `everything-server` offers |

pub mod server;
