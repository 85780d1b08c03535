//! Waits for the end of a server's process on a thread of its own, because the end of its stdout may never come: another
//! process may keep it open.

use std::{io, thread};

use mcp_proto::ProcessEnd;

use super::process::Process;
use crate::platform::wait_for_end;

/// Stack size of the thread, in bytes.
const STACK: usize = 64 * 1024;

/// Calls `ended` on a thread when the process with this id has ended, for any reason.
pub(super) fn spawn(process: Process, id: u32, ended: impl FnOnce(ProcessEnd) + Send + 'static) -> io::Result<()> {
    let wait = move || ended(wait_for_end(id, || process.status_of(id)));
    thread::Builder::new().name("mcp-waiter".to_owned()).stack_size(STACK).spawn(wait)?;
    Ok(())
}
