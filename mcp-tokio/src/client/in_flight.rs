//! A request that has no outcome yet, as its caller holds it.

use std::sync::Arc;

use mcp_proto::client::Outcome;
use mcp_proto::driver::Error;
use mcp_proto::{Failed, Json, UsageError};
use tokio::sync::{mpsc, oneshot};

use super::driver::CallNumber;
use super::progress::ProgressReceiver;

/// A request that has no outcome yet. Dropping it cancels the request.
#[derive(Debug)]
#[must_use = "dropping a request cancels it"]
pub struct InFlight {
    pub(super) waiting: Waiting,
    pub(super) progress: ProgressReceiver,
}

impl InFlight {
    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer.
    pub async fn wait(self) -> Result<Json, Error> {
        let Self { waiting, progress } = self;
        // Further progress is not queued.
        drop(progress);
        waiting.outcome().await
    }

    /// Waits for the outcome, and passes the parameters of each progress notification to `progressed` until then.
    ///
    /// # Errors
    ///
    /// As for [`InFlight::wait`].
    pub async fn wait_with(mut self, mut progressed: impl FnMut(&Json)) -> Result<Json, Error> {
        while let Some(params) = self.progress().await {
            progressed(&params);
        }
        self.wait().await
    }

    /// Waits for the next progress notification, and returns its parameters; `None` once the request has ended. At most
    /// 64 notifications are queued, and those of all calls of the client have at most 4 MiB; further ones replace the
    /// oldest.
    pub async fn progress(&mut self) -> Option<Json> {
        self.progress.recv().await
    }

    /// Cancels the request. Its outcome is then [`Failed::Cancelled`], unless it has already ended.
    pub fn cancel(&self) {
        self.waiting.cancel();
    }
}

/// The receiver of an outcome. The request is cancelled if this is dropped before the outcome.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) number: CallNumber,
    pub(super) server: Arc<str>,
    pub(super) outcome: Option<oneshot::Receiver<Result<Outcome, UsageError>>>,
    pub(super) cancel: mpsc::UnboundedSender<CallNumber>,
}

impl Waiting {
    pub(super) async fn outcome(mut self) -> Result<Json, Error> {
        let outcome = ended(&mut self.outcome).await.unwrap_or(Ok(Outcome::Failed(Failed::Closed)));
        Error::result_of(outcome.map_err(Error::Usage)?, &self.server)
    }

    /// Returns why the request was not accepted.
    pub(super) async fn refusal(mut self) -> Error {
        match ended(&mut self.outcome).await {
            Some(Err(refusal)) => Error::Usage(refusal),
            Some(Ok(_)) | None => Error::Usage(UsageError::Closed),
        }
    }

    fn cancel(&self) {
        let _ = self.cancel.send(self.number);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(outcome) = &mut self.outcome {
            // The order matters: a task that has not received the request yet detects that the receiver is closed.
            outcome.close();
            self.cancel();
        }
    }
}

/// Returns the outcome of a request; `None` if the task has ended before.
async fn ended<T>(outcome: &mut Option<oneshot::Receiver<T>>) -> Option<T> {
    let ended = outcome.as_mut()?.await.ok();
    *outcome = None;
    ended
}
