//! A request that has no outcome yet, as its caller holds it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use mcp_application::{Error, HookedCall, read_result};
use mcp_model::{Payload, ProgressNotificationParams, RequestMethod};
use mcp_proto::client::Outcome;
use mcp_proto::{Failed, Json, UsageError};
use tokio::sync::{mpsc, oneshot};

use super::driver::{CallNumber, Remark};
use super::progress::ProgressReceiver;

/// A request that has no outcome yet. Dropping it cancels the request. `R` is the type of its result: [`Json`], or a type
/// of [`mcp_model`].
///
/// # Example: a call with progress
///
/// ```no_run
/// use mcp_tokio::model::{CallToolRequest, CallToolRequestParams};
///
/// # async fn example(client: mcp_tokio::Client) -> Result<(), mcp_tokio::Error> {
/// let mut call = client.call_as::<CallToolRequest>(&CallToolRequestParams::new("index")).await?;
/// while let Some(progress) = call.typed_progress().await {
///     println!("{}", progress.progress);
/// }
/// let result = call.wait().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a request cancels it"]
pub struct InFlight<R = Json> {
    waiting: Waiting,
    progress: ProgressReceiver,
    result: PhantomData<fn() -> R>,
}

impl InFlight {
    pub(super) const fn new(waiting: Waiting, progress: ProgressReceiver) -> Self {
        Self { waiting, progress, result: PhantomData }
    }

    /// The same request, whose result is parsed as that of the method `M`.
    pub fn typed<M: RequestMethod>(self) -> InFlight<M::Result> {
        InFlight { waiting: self.waiting, progress: self.progress, result: PhantomData }
    }

    /// Waits for the outcome, and parses the result as that of the method `M`.
    ///
    /// # Errors
    ///
    /// As for [`InFlight::wait`].
    pub async fn wait_as<M: RequestMethod>(self) -> Result<M::Result, Error> {
        self.typed::<M>().wait().await
    }
}

impl<R: Payload> InFlight<R> {
    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer,
    /// [`Error::Result`] if the result does not have the shape of `R`.
    pub async fn wait(self) -> Result<R, Error> {
        let Self { waiting, progress, .. } = self;
        // Further progress is not queued.
        drop(progress);
        waiting.typed_outcome().await
    }

    /// Waits for the outcome, and passes the parameters of each progress notification to `progressed` until then.
    ///
    /// # Errors
    ///
    /// As for [`InFlight::wait`].
    pub async fn wait_with(mut self, mut progressed: impl FnMut(&Json)) -> Result<R, Error> {
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

    /// As [`InFlight::progress`], parsed. Notifications of another form are skipped.
    pub async fn typed_progress(&mut self) -> Option<ProgressNotificationParams> {
        loop {
            if let Ok(progress) = ProgressNotificationParams::from_json(&self.progress().await?) {
                return Some(progress);
            }
        }
    }

    /// Cancels the request. Its outcome is then [`Failed::Cancelled`], unless it has already ended.
    pub fn cancel(&self) {
        self.waiting.cancel();
    }
}

impl<R> fmt::Debug for InFlight<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("number", &self.waiting.number).finish_non_exhaustive()
    }
}

/// The receiver of an outcome. The request is cancelled if this is dropped before the outcome.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) number: CallNumber,
    pub(super) server: Arc<str>,
    pub(super) outcome: Option<oneshot::Receiver<Result<Outcome, UsageError>>>,
    pub(super) remarks: mpsc::UnboundedSender<Remark>,
    pub(super) hooked: HookedCall,
}

impl Waiting {
    /// The outcome, with its result parsed. What cannot be read of it is reported to the handler.
    pub(super) async fn typed_outcome<R: Payload>(self) -> Result<R, Error> {
        let remarks = self.remarks.clone();
        let (result, fault) = read_result(&self.outcome().await?).map_err(Error::Result)?;
        if let Some(fault) = fault {
            let _ = remarks.send(Remark::Faulted(fault));
        }
        Ok(result)
    }

    pub(super) async fn outcome(mut self) -> Result<Json, Error> {
        let outcome = ended(&mut self.outcome).await.unwrap_or(Ok(Outcome::Failed(Failed::Closed)));
        // A request that could not be sent has no outcome.
        let outcome = outcome.map_err(Error::Usage)?;
        std::mem::take(&mut self.hooked).finish(Error::result_of(outcome, &self.server))
    }

    /// Returns why the request was not accepted.
    pub(super) async fn refusal(mut self) -> Error {
        match ended(&mut self.outcome).await {
            Some(Err(refusal)) => Error::Usage(refusal),
            Some(Ok(_)) | None => Error::Usage(UsageError::Closed),
        }
    }

    fn cancel(&self) {
        let _ = self.remarks.send(Remark::Cancelled(self.number));
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
