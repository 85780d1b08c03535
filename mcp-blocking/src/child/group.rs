//! A server and the processes that it has started: a process group on Unix, only the process itself elsewhere.

use std::process::{Child, Command};

/// Makes the process that is about to be started the leader of a new process group.
///
/// Servers are often started by wrappers (`npx`, `uvx`, a shell) that do not forward signals; a signal to a group
/// reaches all of its processes. On the other hand, Ctrl-C in a terminal then reaches only this process and not the
/// server, which detects the end of this process by the end of its stdin (ST-19).
#[cfg(unix)]
pub(super) fn lead(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
pub(super) fn lead(_command: &mut Command) {}

/// Sends SIGTERM to all processes of a server. Returns `false` if the platform has no such signal.
#[cfg(unix)]
pub(super) fn terminate(leader: &Child) -> bool {
    signal(leader, nix::sys::signal::Signal::SIGTERM);
    true
}

#[cfg(not(unix))]
pub(super) fn terminate(_leader: &Child) -> bool {
    false
}

/// Kills the process group of a server, if the platform has groups.
#[cfg(unix)]
pub(super) fn kill(leader: &Child) {
    signal(leader, nix::sys::signal::Signal::SIGKILL);
}

#[cfg(not(unix))]
pub(super) fn kill(_leader: &Child) {}

#[cfg(unix)]
fn signal(leader: &Child, signal: nix::sys::signal::Signal) {
    // A group without remaining processes is not an error.
    let _ = i32::try_from(leader.id()).map(|id| nix::sys::signal::killpg(nix::unistd::Pid::from_raw(id), signal));
}
