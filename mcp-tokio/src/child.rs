//! Servers that are started as processes, and ended with all that they have started.

mod group;

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::BytesMut;
use mcp_proto::line::{Decoder, TooLong};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::Instrument;

use group::Group;

/// How long a server may take to end once its stdin is closed, and again once it was asked to.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a line of stderr that are logged.
const LOG_LINE: usize = 4096;

/// A server in a process of its own. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: tokio::process::Child,
    group: Group,
    stderr: Option<JoinHandle<()>>,
    /// Nothing is left of the group.
    is_killed: bool,
}

/// Starts a server whose stdin and stdout are ours.
pub(crate) fn start(command: &mut Command, log_stderr: bool) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    if log_stderr {
        command.stderr(Stdio::piped());
    }
    group::lead(command);
    let mut process = command.spawn()?;
    let group = Group::of(&process);
    let stderr = process.stderr.take().map(|stderr| tokio::spawn(log(stderr).in_current_span()));
    match (process.stdin.take(), process.stdout.take()) {
        (Some(input), Some(output)) => Ok((Child { process, group, stderr, is_killed: false }, input, output)),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

impl Child {
    /// ST-17, ST-18: its stdin is closed by now; what goes on then is asked to end, and at last killed.
    ///
    /// Returns how it ended, if it did so by itself.
    pub(crate) async fn end(mut self) -> Option<ExitStatus> {
        let mut status = self.wait().await;
        let by_itself = status;
        if status.is_none() && self.group.terminate() {
            tracing::info!("the server goes on although its stdin is closed; it is asked to end");
            status = self.wait().await;
        }
        if let Some(status) = status {
            tracing::debug!(%status, "the server has ended");
        } else {
            tracing::warn!("the server does not end; it is killed");
        }
        self.kill().await;
        by_itself
    }

    async fn wait(&mut self) -> Option<ExitStatus> {
        match timeout(PATIENCE, self.process.wait()).await {
            Ok(Ok(status)) => Some(status),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the server's end cannot be waited for");
                None
            }
            Err(_) => None,
        }
    }

    /// Kills what is left of the server and of what it has started.
    async fn kill(&mut self) {
        self.group.kill();
        self.is_killed = true;
        // It has ended already, or does so now, unless the system holds it back.
        if timeout(PATIENCE, self.process.kill()).await.is_err() {
            tracing::warn!("the server was killed, and its process is still there");
        }
    }
}

/// A runtime that is shut down waits for nobody: nothing is left behind either.
impl Drop for Child {
    fn drop(&mut self) {
        if let Some(stderr) = &self.stderr {
            stderr.abort();
        }
        // Also if the server has ended: what it has started may go on.
        if !self.is_killed {
            self.group.kill();
        }
    }
}

/// Logs lines until there are no more; of long ones, the beginning.
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
