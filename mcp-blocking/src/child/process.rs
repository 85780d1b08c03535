//! A server's process: starts it, and ends it with all processes that it has started.

use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcp_application::EXIT_TIMEOUT;
use mcp_platform::{ProcessTree, not_started};
use mcp_proto::ProcessEnd;

use super::watch;

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
    /// The child, and what it has started.
    tree: ProcessTree,
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
        state.kill();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        ProcessTree::lead(command);
        let child = command.spawn();
        let mut child = child.map_err(|error| not_started(&command.get_program().to_string_lossy(), &error))?;
        state.tree = ProcessTree::of(&child).unwrap_or_else(|error| {
            log::warn!("what the server starts may not end with it: {error}");
            ProcessTree::default()
        });
        let streams = (child.stdin.take(), child.stdout.take());
        state.child = Some(child);
        match streams {
            (Some(input), Some(output)) => Ok((input, output)),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Kills the server and the processes that it has started, if any are left.
    pub(crate) fn kill(&self) {
        self.state().kill();
    }

    /// Like [`Process::kill`], and no process is started afterwards: for a program that exits.
    pub(crate) fn kill_finally(&self) {
        let mut state = self.state();
        state.is_final = true;
        state.kill();
    }

    /// Calls `ended` on another thread when the server's process has ended.
    pub(super) fn watch(&self, ended: impl FnOnce(ProcessEnd) + Send + 'static) -> io::Result<()> {
        let Some(id) = self.state().child.as_ref().map(Child::id) else { return Ok(()) };
        watch::spawn(self.clone(), id, ended)
    }

    /// How this process has ended, if it has; an error once another one has taken its place.
    pub(crate) fn status_of(&self, id: u32) -> io::Result<Option<ExitStatus>> {
        let mut state = self.state();
        match &state.child {
            Some(child) if child.id() == id => state.status().transpose().map(Option::flatten),
            Some(_) | None => Err(io::ErrorKind::NotFound.into()),
        }
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
            let status = self.state().status();
            match status {
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
        let state = self.state();
        state.child.is_some() && state.tree.terminate()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How the process has ended, if there is one.
    fn status(&mut self) -> Option<io::Result<Option<ExitStatus>>> {
        let status = self.child.as_mut()?.try_wait();
        if let Ok(Some(_)) = &status {
            self.tree.on_leader_ended();
        }
        Some(status)
    }

    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        self.tree.kill();
        // The process may have ended already.
        let _ = child.kill();
        let _ = child.wait();
    }
}
