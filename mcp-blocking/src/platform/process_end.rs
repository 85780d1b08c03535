//! Waits for the end of a process that another thread may kill at any time.

use std::io;
use std::process::ExitStatus;

use mcp_proto::ProcessEnd;

/// Waits without taking the exit status, so that the process keeps its id until the thread that ends it has signalled all
/// processes of its group.
#[cfg(any(target_os = "android", target_os = "freebsd", all(target_os = "linux", not(target_env = "uclibc"))))]
pub(crate) fn wait_for_end(id: u32, _: impl Fn() -> io::Result<Option<ExitStatus>>) -> ProcessEnd {
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

/// Takes the exit status once there is one. `status` is asked again and again where the system cannot be waited for.
#[cfg(not(any(target_os = "android", target_os = "freebsd", all(target_os = "linux", not(target_env = "uclibc")))))]
pub(crate) fn wait_for_end(id: u32, status: impl Fn() -> io::Result<Option<ExitStatus>>) -> ProcessEnd {
    const INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);
    wait_for_notice(id);
    loop {
        match status() {
            Ok(None) => std::thread::sleep(INTERVAL),
            Ok(Some(status)) => return status.into(),
            Err(_) => return ProcessEnd::Unknown,
        }
    }
}

/// Returns when the process has ended, or at once if the system does not tell.
#[cfg(target_vendor = "apple")]
fn wait_for_notice(id: u32) {
    use nix::errno::Errno;
    use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};

    let Ok(queue) = Kqueue::new() else { return };
    let Ok(id) = usize::try_from(id) else { return };
    let exit = KEvent::new(id, EventFilter::EVFILT_PROC, EvFlags::EV_ADD, FilterFlag::NOTE_EXIT, 0, 0);
    let mut notices = [exit];
    while queue.kevent(&[exit], &mut notices, None) == Err(Errno::EINTR) {}
}

#[cfg(not(any(
    target_vendor = "apple",
    target_os = "android",
    target_os = "freebsd",
    all(target_os = "linux", not(target_env = "uclibc"))
)))]
fn wait_for_notice(_: u32) {}
