//! A server and the processes that it has started.

use std::io;
use std::process::{Child, Command};

use crate::platform;

/// A server's process and the processes that it has started: a process group on Unix, a job object on Windows.
///
/// Servers are often started by other programs (`npx`, `uvx`, a shell), which do not pass on signals, and which leave what
/// they have started when they are killed.
#[derive(Debug, Default)]
pub struct ProcessTree(platform::Tree);

/// The process that was started first: a child process of the standard library, or with the feature `tokio` of tokio.
#[derive(Debug)]
pub struct Leader(platform::LeaderId);

impl From<&Child> for Leader {
    fn from(child: &Child) -> Self {
        Self(child.into())
    }
}

/// With the feature `tokio`.
#[cfg(feature = "tokio")]
impl From<&tokio::process::Child> for Leader {
    fn from(child: &tokio::process::Child) -> Self {
        Self(child.into())
    }
}

impl ProcessTree {
    /// Makes the process that is about to be started the first of a new tree.
    ///
    /// On Unix, Ctrl-C in a terminal then reaches this process and not the server, which detects the end of this process by
    /// the end of its stdin (ST-19). [`command`](crate::command) does the same on Windows.
    pub fn lead(command: &mut Command) {
        platform::lead(command);
    }

    /// The tree of a process that was just started. On Windows, its processes end when this is dropped, and when this process
    /// ends, however it does.
    ///
    /// # Errors
    ///
    /// On Windows, if the process cannot be put into a job, for example because it has ended.
    pub fn of<'a>(leader: impl Into<Leader> + 'a) -> io::Result<Self> {
        let Leader(leader) = leader.into();
        platform::Tree::of(leader).map(Self)
    }

    /// Sends SIGTERM to all processes. Returns `false` if the system has no such signal.
    #[must_use]
    pub fn terminate(&self) -> bool {
        self.0.terminate()
    }

    /// Must be called once the exit status of the first process was taken: from then on, its id may be that of another
    /// process. If no process of the tree is left, nothing is signalled any more.
    pub fn on_leader_ended(&mut self) {
        self.0.on_leader_ended();
    }

    /// Kills all processes.
    pub fn kill(&mut self) {
        self.0.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{ChildStdout, Stdio};
    use std::sync::mpsc;
    use std::time::Duration;
    use std::{env, thread};

    use super::*;

    /// Which of the processes below this one is.
    const ROLE: &str = "MCP_PLATFORM_TEST_ROLE";

    /// This program, which runs only the test that is one of the processes.
    fn this_program(role: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "process_tree::tests::one_of_the_processes_of_another_test", "--nocapture"]);
        command.env(ROLE, role);
        command
    }

    #[test]
    fn one_of_the_processes_of_another_test() {
        match env::var(ROLE).as_deref() {
            Ok("leader") => {
                let mut started = this_program("started").spawn().unwrap();
                started.wait().unwrap();
            }
            Ok("started") => {
                // The test harness may not have ended its line.
                io::stdout().write_all(b"\nready\n").unwrap();
                thread::sleep(Duration::from_secs(1000));
            }
            _ => {}
        }
    }

    /// Starts a process that starts another one, and waits until that one runs.
    fn start() -> (Child, ProcessTree, BufReader<ChildStdout>) {
        let mut command = this_program("leader");
        ProcessTree::lead(&mut command);
        let mut leader = command.stdout(Stdio::piped()).spawn().unwrap();
        let tree = ProcessTree::of(&leader).unwrap();
        let mut output = BufReader::new(leader.stdout.take().unwrap());
        let mut line = String::new();
        while line != "ready" {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "it has ended");
            line.truncate(line.trim_end().len());
        }
        (leader, tree, output)
    }

    /// The output ends when the last process that has it ends.
    fn wait_for_all(mut output: BufReader<ChildStdout>) {
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || sender.send(output.read_to_end(&mut Vec::new())));
        ended.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    }

    #[test]
    fn all_processes_of_a_tree_are_killed() {
        let (mut leader, mut tree, output) = start();
        tree.kill();
        wait_for_all(output);
        leader.wait().unwrap();
    }

    /// Other systems have no signal that asks a process to end.
    #[cfg(unix)]
    #[test]
    fn all_processes_of_a_tree_are_asked_to_end() {
        let (mut leader, tree, output) = start();
        assert!(tree.terminate());
        wait_for_all(output);
        leader.wait().unwrap();
    }

    #[test]
    fn what_is_left_of_a_tree_is_killed_after_its_leader_has_ended() {
        let (mut leader, mut tree, output) = start();
        leader.kill().unwrap();
        leader.wait().unwrap();
        tree.on_leader_ended();
        tree.kill();
        wait_for_all(output);
        tree.on_leader_ended();
        tree.kill();
    }
}
