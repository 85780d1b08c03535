//! Servers that are started as processes, and ended.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// How long a server may take to end once its stdin is closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server in a process of its own. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Child(tokio::process::Child);

/// Starts a server whose stdin and stdout are ours.
pub(crate) fn start(mut command: Command) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(input), Some(output)) => Ok((Child(child), input, output)),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

impl Child {
    /// ST-17, ST-18: its stdin is closed by now; what does not end then is killed.
    pub(crate) async fn end(mut self) {
        match timeout(PATIENCE, self.0.wait()).await {
            Ok(Ok(status)) => tracing::debug!(%status, "the server has ended"),
            Ok(Err(error)) => tracing::warn!(%error, "the server's end cannot be waited for"),
            Err(_) => {
                tracing::warn!("the server does not end; it is killed");
                let _ = self.0.kill().await;
            }
        }
    }
}
