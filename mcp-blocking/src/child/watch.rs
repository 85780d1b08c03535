//! Waits for the end of a server's process on a thread of its own, because the end of its stdout may never come: another
//! process may keep it open.

use std::{io, thread};

use mcp_proto::ProcessEnd;

use super::process::Process;

/// Stack size of the thread, in bytes.
const STACK: usize = 64 * 1024;

/// Calls `ended` on a thread when the process with this id has ended, for any reason.
pub(super) fn spawn(process: Process, id: u32, ended: impl FnOnce(ProcessEnd) + Send + 'static) -> io::Result<()> {
    let wait = move || ended(wait(&process, id));
    thread::Builder::new().name("mcp-waiter".to_owned()).stack_size(STACK).spawn(wait)?;
    Ok(())
}

/// Waits without taking the exit status, so that the process keeps its id until the thread that ends it has signalled all
/// processes of its group.
#[cfg(any(target_os = "android", target_os = "freebsd", all(target_os = "linux", not(target_env = "uclibc"))))]
fn wait(_: &Process, id: u32) -> ProcessEnd {
    use nix::errno::Errno;
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    let Ok(id) = i32::try_from(id) else { return ProcessEnd::Unknown };
    loop {
        return match waitid(Id::Pid(nix::unistd::Pid::from_raw(id)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Err(Errno::EINTR) => continue,
            Ok(WaitStatus::Exited(_, code)) => ProcessEnd::Code(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => ProcessEnd::Signal(signal as i32),
            // Another thread has taken the status, or it is discarded because this process was started so.
            Ok(_) | Err(_) => ProcessEnd::Unknown,
        };
    }
}

/// Looks at the process again and again, where the standard library alone cannot wait for a process that another thread may
/// kill.
#[cfg(not(any(target_os = "android", target_os = "freebsd", all(target_os = "linux", not(target_env = "uclibc")))))]
fn wait(process: &Process, id: u32) -> ProcessEnd {
    const INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);
    loop {
        match process.status_of(id) {
            Ok(None) => thread::sleep(INTERVAL),
            Ok(Some(status)) => return status.into(),
            Err(_) => return ProcessEnd::Unknown,
        }
    }
}
