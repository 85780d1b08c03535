//! A server and the processes that it has started: a process group on Unix, only the server's process elsewhere.

use tokio::process::{Child, Command};

/// Makes the process that is about to be started the leader of its own process group.
///
/// Servers are often started through other programs (`npx`, `uvx`, a shell) that do not forward signals; a signal to
/// the group reaches all of them. In return, Ctrl-C in a terminal reaches this process but not the server, which
/// detects the exit of this process when its stdin is closed (ST-19).
#[cfg(unix)]
pub(super) fn lead(command: &mut Command) {
    command.process_group(0);
}

#[cfg(not(unix))]
pub(super) fn lead(_command: &mut Command) {}

/// A server and the processes that it has started.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct Group(Option<nix::unistd::Pid>);

#[cfg(unix)]
impl Group {
    pub(super) fn of(leader: &Child) -> Self {
        Self(leader.id().and_then(|id| i32::try_from(id).ok()).map(nix::unistd::Pid::from_raw))
    }

    /// Sends SIGTERM to the group. Returns `false` where that does not exist.
    pub(super) fn terminate(&self) -> bool {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        true
    }

    /// The leader has ended, and its id is free. If no process of the group is left, there is nothing to signal any more:
    /// another group may get the id.
    pub(super) fn on_leader_ended(&mut self) {
        let is_empty = |leader| nix::sys::signal::killpg(leader, None) == Err(nix::errno::Errno::ESRCH);
        self.0 = self.0.filter(|leader| !is_empty(*leader));
    }

    /// Kills all of its processes.
    pub(super) fn kill(&self) {
        self.signal(nix::sys::signal::Signal::SIGKILL);
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        // A group without processes is not an error.
        let _ = self.0.map(|leader| nix::sys::signal::killpg(leader, signal));
    }
}

/// A server's process. Only `TerminateProcess` ends it, and dropping the process calls that.
#[cfg(not(unix))]
#[derive(Debug)]
pub(super) struct Group;

#[cfg(not(unix))]
impl Group {
    pub(super) fn of(_leader: &Child) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the platform has no such signal")]
    pub(super) fn terminate(&self) -> bool {
        false
    }

    #[expect(clippy::unused_self, reason = "the one process is killed by its handle")]
    pub(super) fn on_leader_ended(&mut self) {}

    #[expect(clippy::unused_self, reason = "the one process is killed by its handle")]
    pub(super) fn kill(&self) {}
}
