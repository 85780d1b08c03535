//! The code that depends on the operating system.
//!
//! | file | what differs |
//! |---|---|
//! | `local_socket` | Unix sockets, or on systems without them types that have no values |
//! | `output` | writing to a pipe without blocking, and how large pipes are |
//! | `process_end` | waiting for the end of a process |
//! | `server_output` | ending a read of a pipe |
//! | `socket_write` | ending a write to a socket |
//! | `watched` | waiting until one of many sockets can be read or written |
//!
//! And which authorities the store of the system has, and how it states that a client is gone.

mod local_socket;
mod output;
mod process_end;
mod server_output;
mod socket_write;
mod watched;

pub(crate) use local_socket::{LocalListener, LocalStream, Quiet, Wakeable, Waker, connect};
pub(crate) use output::{OwnedOutput, WriteMode, stdout};
pub(crate) use process_end::wait_for_end;
pub(crate) use server_output::{Reading, ServerOutput};
pub(crate) use socket_write::write_all;
pub(crate) use watched::Watched;

/// Whether the store of the system has all authorities that it trusts. Windows adds some only when they are first needed by a
/// program that uses its own verifier.
pub(crate) const HAS_ALL_AUTHORITIES: bool = !cfg!(windows);

/// How many writes show whether a client that has ended its sending side is gone. The first is refused by such a client, which
/// Unix states as an error of the socket, and Windows only when there is another write.
pub(crate) const WRITES_TO_HALF_CLOSED: u8 = if cfg!(windows) { 2 } else { 1 };
