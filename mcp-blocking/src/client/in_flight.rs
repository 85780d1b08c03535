//! A request that waits for its outcome.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use mcp_application::{Error, HookedCall, read_result};
use mcp_model::{Payload, ProgressNotificationParams, RequestMethod};
use mcp_proto::client::Outcome;
use mcp_proto::{Json, RequestKey, UsageError};

use super::commands::{Commands, Input};
use crate::response_slot::{ResponseSlot, ResponseUpdate};

/// A request that has no outcome yet. Dropping it cancels the request. `R` is the type of its result: [`Json`], or a type
/// of [`mcp_model`].
///
/// # Example: a call with progress
///
/// ```no_run
/// use mcp_blocking::model::{CallToolRequest, CallToolRequestParams};
///
/// # fn example(client: mcp_blocking::Client) -> Result<(), mcp_blocking::Error> {
/// let mut call = client.call_as::<CallToolRequest>(&CallToolRequestParams::new("index"))?;
/// while let Some(progress) = call.typed_progress() {
///     println!("{}", progress.progress);
/// }
/// let result = call.wait()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a request cancels it"]
pub struct InFlight<R = Json> {
    waiting: Waiting,
    result: PhantomData<fn() -> R>,
}

/// Receives the outcome of a request, which is cancelled if this is dropped before.
struct Waiting {
    request: RequestKey,
    slot: ResponseSlot,
    commands: Commands,
    server: Arc<str>,
    /// Received, but not returned to the caller yet.
    outcome: Option<Outcome>,
    has_ended: bool,
    hooked: HookedCall,
}

impl InFlight {
    pub(super) fn new(
        request: RequestKey,
        slot: ResponseSlot,
        commands: Commands,
        server: Arc<str>,
        hooked: HookedCall,
    ) -> Self {
        let waiting = Waiting { request, slot, commands, server, outcome: None, has_ended: false, hooked };
        Self { waiting, result: PhantomData }
    }

    /// The same request, whose result is parsed as that of the method `M`.
    pub fn typed<M: RequestMethod>(self) -> InFlight<M::Result> {
        InFlight { waiting: self.waiting, result: PhantomData }
    }

    /// Waits for the outcome, and parses the result as that of the method `M`.
    ///
    /// # Errors
    ///
    /// As for [`InFlight::wait`].
    pub fn wait_as<M: RequestMethod>(self) -> Result<M::Result, Error> {
        self.typed::<M>().wait()
    }
}

impl<R: Payload> InFlight<R> {
    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer,
    /// [`Error::Result`] if the result does not have the shape of `R`.
    pub fn wait(self) -> Result<R, Error> {
        self.wait_with(|_| {})
    }

    /// Waits for the outcome, and passes the parameters of each progress notification to `progressed` until then.
    ///
    /// # Errors
    ///
    /// As for [`InFlight::wait`].
    pub fn wait_with(mut self, mut progressed: impl FnMut(&Json)) -> Result<R, Error> {
        while let Some(params) = self.progress() {
            progressed(&params);
        }
        let Some(outcome) = self.waiting.outcome.take() else { return Err(UsageError::Closed.into()) };
        let outcome = Error::result_of(outcome, &self.waiting.server);
        let result = std::mem::take(&mut self.waiting.hooked).finish(outcome)?;
        let (result, fault) = read_result(&result).map_err(Error::Result)?;
        if let Some(fault) = fault {
            let _ = self.waiting.commands.send(Input::Faulted(fault));
        }
        Ok(result)
    }

    /// Waits for the next progress notification, and returns its parameters; `None` once the request has ended. At most
    /// 64 notifications are queued, and those of all calls of the client have at most 4 MiB; further ones replace the
    /// oldest.
    pub fn progress(&mut self) -> Option<Json> {
        self.waiting.progress()
    }

    /// As [`InFlight::progress`], parsed. Notifications of another form are skipped.
    pub fn typed_progress(&mut self) -> Option<ProgressNotificationParams> {
        loop {
            if let Ok(progress) = ProgressNotificationParams::from_json(&self.progress()?) {
                return Some(progress);
            }
        }
    }

    /// Cancels the request. Its outcome is then [`Failed::Cancelled`](mcp_proto::Failed::Cancelled), unless it has
    /// already ended.
    pub fn cancel(&self) {
        self.waiting.cancel();
    }
}

impl<R> fmt::Debug for InFlight<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("request", &self.waiting.request).finish_non_exhaustive()
    }
}

impl Waiting {
    fn progress(&mut self) -> Option<Json> {
        if self.has_ended {
            return None;
        }
        match self.slot.wait() {
            ResponseUpdate::Progress(params) => Some(params),
            ResponseUpdate::Outcome(outcome) => {
                self.has_ended = true;
                self.outcome = Some(outcome);
                None
            }
        }
    }

    fn cancel(&self) {
        let _ = self.commands.send(Input::Cancel(self.request));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.has_ended {
            self.cancel();
        }
    }
}
