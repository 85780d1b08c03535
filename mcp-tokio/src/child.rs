//! Servers that run as child processes: starting them, and ending them together with the processes that they have
//! started.

use std::io;
use std::process::{ExitStatus, Stdio};

use bytes::BytesMut;
use mcp_application::EXIT_TIMEOUT;
use mcp_platform::{ProcessTree, not_started};
use mcp_proto::ProcessEnd;
use mcp_proto::line::{Decoder, TooLong};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::Instrument;

/// How many bytes of a line of stderr are logged.
const LOG_LINE: usize = 4096;

/// A server in a child process. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: tokio::process::Child,
    tree: ProcessTree,
    stderr: Option<JoinHandle<()>>,
    /// The whole tree was killed.
    is_killed: bool,
}

/// Starts a server with its stdin and stdout connected to pipes of this process.
pub(crate) fn start(command: &mut Command, log_stderr: bool) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    if log_stderr {
        command.stderr(Stdio::piped());
    }
    ProcessTree::lead(command.as_std_mut());
    let process = command.spawn();
    let mut process =
        process.map_err(|error| not_started(&command.as_std().get_program().to_string_lossy(), &error))?;
    let tree = ProcessTree::of(&process).unwrap_or_else(|error| {
        tracing::warn!(%error, "what the server starts may not end with it");
        ProcessTree::default()
    });
    let stderr = process.stderr.take().map(|stderr| tokio::spawn(log(stderr).in_current_span()));
    match (process.stdin.take(), process.stdout.take()) {
        (Some(input), Some(output)) => Ok((Child { process, tree, stderr, is_killed: false }, input, output)),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

impl Child {
    /// Waits for the end of the server's process. Dropping the future while it waits loses nothing.
    pub(crate) async fn ended(&mut self) -> ProcessEnd {
        let ended = self.process.wait().await;
        self.tree.on_leader_ended();
        ended.map_or_else(
            |error| {
                tracing::warn!(%error, "the exit of the server cannot be waited for");
                ProcessEnd::Unknown
            },
            ProcessEnd::from,
        )
    }

    /// Ends the server, whose stdin is already closed: waits, sends SIGTERM, waits again, and kills it (ST-17, ST-18).
    pub(crate) async fn end(mut self) {
        let mut status = self.wait().await;
        if status.is_none() && self.tree.terminate() {
            tracing::info!("the server still runs although its stdin is closed; it is terminated");
            status = self.wait().await;
        }
        if let Some(status) = status {
            tracing::debug!(%status, "the server has ended");
        } else {
            tracing::warn!("the server does not exit; it is killed");
        }
        self.kill().await;
    }

    async fn wait(&mut self) -> Option<ExitStatus> {
        match timeout(EXIT_TIMEOUT, self.process.wait()).await {
            Ok(Ok(status)) => Some(status),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the exit of the server cannot be waited for");
                None
            }
            Err(_) => None,
        }
    }

    /// Kills the server and the processes that it has started.
    async fn kill(&mut self) {
        self.tree.kill();
        self.is_killed = true;
        // The process has exited already or does so now, unless the operating system delays it.
        if timeout(EXIT_TIMEOUT, self.process.kill()).await.is_err() {
            tracing::warn!("the server was killed, and its process is still there");
        }
    }
}

/// Kills the tree, because a runtime that shuts down does not wait for tasks: no process must be left over.
impl Drop for Child {
    fn drop(&mut self) {
        if let Some(stderr) = &self.stderr {
            stderr.abort();
        }
        // Also if the server has exited: processes that it has started may still run.
        if !self.is_killed {
            self.tree.kill();
        }
    }
}

/// Logs the lines of a stream until it ends. A long line is truncated.
async fn log(mut stderr: impl AsyncRead + Unpin) {
    let mut decoder = Decoder::new(LOG_LINE);
    let mut buffer = BytesMut::with_capacity(LOG_LINE);
    while stderr.read_buf(&mut buffer).await.is_ok_and(|length| length > 0) {
        let mut unread = &buffer[..];
        while let Some(line) = decoder.decode(&mut unread) {
            match line {
                Ok(line) => write(&line.into_bytes(), ""),
                Err(TooLong { start, .. }) => write(&start, " …"),
            }
        }
        buffer.clear();
    }
}

fn write(line: &[u8], rest: &str) {
    tracing::info!(target: "mcp_tokio::stderr", "{}{rest}", String::from_utf8_lossy(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn logging_ends_with_the_stream_or_with_the_server() {
        log(&b"one\ntwo"[..]).await;

        let mut command = Command::new("sleep");
        let (child, _input, _output) = start(command.arg("1000"), true).unwrap();
        let logging = child.stderr.as_ref().unwrap().abort_handle();
        tokio::task::yield_now().await;
        assert!(!logging.is_finished());
        drop(child);
        // Before the end of the process can have been noticed.
        tokio::task::yield_now().await;
        assert!(logging.is_finished());
    }
}
