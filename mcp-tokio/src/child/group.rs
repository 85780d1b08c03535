//! A server and the processes that it has started: a process group on Unix, the one process elsewhere.

use tokio::process::{Child, Command};

/// Makes the process that is about to be started the leader of a group of its own.
///
/// Servers are often started by others (`npx`, `uvx`, a shell), which do not hand signals on. A group is reached as a
/// whole; on the other hand, Ctrl-C in a terminal reaches this process and no longer the server, which learns of our end
/// when its stdin is closed (ST-19).
#[cfg(unix)]
pub(super) fn lead(command: &mut Command) {
    command.process_group(0);
}

#[cfg(not(unix))]
pub(super) fn lead(_command: &mut Command) {}

/// A server and what it has started.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct Group(Option<nix::unistd::Pid>);

#[cfg(unix)]
impl Group {
    pub(super) fn of(leader: &Child) -> Self {
        Self(leader.id().and_then(|id| i32::try_from(id).ok()).map(nix::unistd::Pid::from_raw))
    }

    /// Asks all of it to end. `false` if there is no way to ask.
    pub(super) fn terminate(&self) -> bool {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        true
    }

    /// Ends all of it at once.
    pub(super) fn kill(&self) {
        self.signal(nix::sys::signal::Signal::SIGKILL);
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        // A group of which nothing is left is no failure.
        let _ = self.0.map(|leader| nix::sys::signal::killpg(leader, signal));
    }
}

/// A server. Nothing but `TerminateProcess` ends it, and that is what dropping the process does.
#[cfg(not(unix))]
#[derive(Debug)]
pub(super) struct Group;

#[cfg(not(unix))]
impl Group {
    pub(super) fn of(_leader: &Child) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "there is no way to ask")]
    pub(super) fn terminate(&self) -> bool {
        false
    }

    #[expect(clippy::unused_self, reason = "the one process is killed by its handle")]
    pub(super) fn kill(&self) {}
}
