//! The code that depends on the operating system.
//!
//! | file | what differs |
//! |---|---|
//! | `output` | writing to a pipe without blocking, and how large pipes are |
//! | `process_end` | waiting for the end of a process |
//! | `server_output` | ending a read of a pipe |

mod output;
mod process_end;
mod server_output;

pub(crate) use output::{OwnedOutput, WriteMode, stdout};
pub(crate) use process_end::wait_for_end;
pub(crate) use server_output::{Reading, ServerOutput};
