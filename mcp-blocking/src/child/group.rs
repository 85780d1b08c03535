//! A server and the processes that it has started: a process group on Unix, the one process elsewhere.

use std::process::{Child, Command};

/// Makes the process that is about to be started the leader of a group of its own.
///
/// Servers are often started by others (`npx`, `uvx`, a shell), which do not hand signals on. A group is reached as a
/// whole; on the other hand, Ctrl-C in a terminal reaches this process and no longer the server, which learns of our end
/// when its stdin is closed (ST-19).
#[cfg(unix)]
pub(super) fn lead(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
pub(super) fn lead(_command: &mut Command) {}

/// Asks all of a server to end. `false` if there is no way to ask.
#[cfg(unix)]
pub(super) fn terminate(leader: &Child) -> bool {
    signal(leader, nix::sys::signal::Signal::SIGTERM);
    true
}

#[cfg(not(unix))]
pub(super) fn terminate(_leader: &Child) -> bool {
    false
}

/// Ends all of a server at once, as far as it is reached without its handle.
#[cfg(unix)]
pub(super) fn kill(leader: &Child) {
    signal(leader, nix::sys::signal::Signal::SIGKILL);
}

#[cfg(not(unix))]
pub(super) fn kill(_leader: &Child) {}

#[cfg(unix)]
fn signal(leader: &Child, signal: nix::sys::signal::Signal) {
    // A group of which nothing is left is no failure.
    let _ = i32::try_from(leader.id()).map(|id| nix::sys::signal::killpg(nix::unistd::Pid::from_raw(id), signal));
}
