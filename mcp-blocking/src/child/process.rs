//! A server's process: starts it, and ends it with all processes that it has started.

use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcp_application::{EXIT_TIMEOUT, not_started};
use mcp_proto::ProcessEnd;

use super::{group, watch};

/// The same as [`EXIT_TIMEOUT`] if the end is urgent, because the process that waits for this one has a timeout, too.
const URGENT_EXIT_TIMEOUT: Duration = Duration::from_millis(700);
/// How often to check whether a server has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// A server's process, if there is one now. Clones refer to the same process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Process(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    child: Option<Child>,
    /// No further process may be started.
    is_final: bool,
}

impl Process {
    /// Starts a server with piped stdin and stdout. A process that was started before is killed.
    pub(super) fn start(&self, command: &mut Command) -> io::Result<(ChildStdin, ChildStdout)> {
        let mut state = self.state();
        if state.is_final {
            return Err(io::Error::other("the server is not started, because this program is about to exit"));
        }
        kill(state.child.take());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        group::lead(command);
        let child = command.spawn();
        let mut child = child.map_err(|error| not_started(&command.get_program().to_string_lossy(), &error))?;
        let streams = (child.stdin.take(), child.stdout.take());
        state.child = Some(child);
        match streams {
            (Some(input), Some(output)) => Ok((input, output)),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Kills the server and the processes that it has started, if any are left.
    pub(crate) fn kill(&self) {
        kill(self.state().child.take());
    }

    /// Like [`Process::kill`], and no process is started afterwards: for a program that exits.
    pub(crate) fn kill_finally(&self) {
        let mut state = self.state();
        state.is_final = true;
        kill(state.child.take());
    }

    /// Calls `ended` on another thread when the server's process has ended.
    pub(super) fn watch(&self, ended: impl FnOnce(ProcessEnd) + Send + 'static) -> io::Result<()> {
        let Some(id) = self.state().child.as_ref().map(Child::id) else { return Ok(()) };
        watch::spawn(self.clone(), id, ended)
    }

    /// How this process has ended, if it has; an error once another one has taken its place.
    #[cfg(not(any(
        target_os = "android",
        target_os = "freebsd",
        all(target_os = "linux", not(target_env = "uclibc"))
    )))]
    pub(super) fn status_of(&self, id: u32) -> io::Result<Option<ExitStatus>> {
        let mut state = self.state();
        let child = state.child.as_mut().filter(|child| child.id() == id);
        child.map_or(Err(io::ErrorKind::NotFound.into()), Child::try_wait)
    }

    /// Waits for the server to end after its stdin was closed, then asks it to end (SIGTERM on Unix), and finally kills
    /// it (ST-17, ST-18).
    pub(super) fn end(&self, pause: &mut dyn FnMut(Duration) -> bool) {
        let mut is_urgent = false;
        let mut wait = || {
            let began = Instant::now();
            self.wait(|| {
                is_urgent |= pause(CHECK_INTERVAL);
                began.elapsed() < if is_urgent { URGENT_EXIT_TIMEOUT } else { EXIT_TIMEOUT }
            })
        };
        let mut status = wait();
        if status.is_none() && self.terminate() {
            log::info!("the server still runs although its stdin is closed; it is terminated");
            status = wait();
        }
        match status {
            Some(status) => log::debug!("the server has ended ({status})"),
            None if self.state().child.is_some() => log::warn!("the server does not exit; it is killed"),
            None => {}
        }
        self.kill();
    }

    /// Waits for the process to end while `goes_on` returns true.
    fn wait(&self, mut goes_on: impl FnMut() -> bool) -> Option<ExitStatus> {
        loop {
            match self.state().child.as_mut().map(Child::try_wait) {
                Some(Ok(Some(status))) => return Some(status),
                Some(Ok(None)) => {}
                Some(Err(error)) => {
                    log::warn!("the exit of the server cannot be waited for: {error}");
                    return None;
                }
                None => return None,
            }
            if !goes_on() {
                return None;
            }
        }
    }

    fn terminate(&self) -> bool {
        self.state().child.as_ref().is_some_and(group::terminate)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kill(child: Option<Child>) {
    let Some(mut child) = child else { return };
    group::kill(&child);
    // The process may have ended already.
    let _ = child.kill();
    let _ = child.wait();
}
