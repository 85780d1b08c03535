//! A request that waits for its outcome.

use std::sync::Arc;

use mcp_proto::client::Outcome;
use mcp_proto::driver::Error;
use mcp_proto::{Json, RequestKey, UsageError};

use super::driver::{Commands, Input};
use crate::response_slot::{ResponseSlot, ResponseUpdate};

/// A request that has no outcome yet. Dropping it cancels the request.
#[derive(Debug)]
#[must_use = "dropping a request cancels it"]
pub struct InFlight {
    request: RequestKey,
    slot: ResponseSlot,
    commands: Commands,
    server: Arc<str>,
    /// Received, but not returned to the caller yet.
    outcome: Option<Outcome>,
    has_ended: bool,
}

impl InFlight {
    pub(super) fn new(request: RequestKey, slot: ResponseSlot, commands: Commands, server: Arc<str>) -> Self {
        Self { request, slot, commands, server, outcome: None, has_ended: false }
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer.
    pub fn wait(self) -> Result<Json, Error> {
        self.wait_with(|_| {})
    }

    /// Waits for the outcome, and passes the parameters of each progress notification to `progressed` until then.
    ///
    /// # Errors
    ///
    /// As for [`InFlight::wait`].
    pub fn wait_with(mut self, mut progressed: impl FnMut(&Json)) -> Result<Json, Error> {
        while let Some(params) = self.progress() {
            progressed(&params);
        }
        match self.outcome.take() {
            Some(outcome) => Error::result_of(outcome, &self.server),
            None => Err(UsageError::Closed.into()),
        }
    }

    /// Waits for the next progress notification, and returns its parameters; `None` once the request has ended. At most
    /// 64 notifications are queued, and those of all calls of the client have at most 4 MiB; further ones replace the
    /// oldest.
    pub fn progress(&mut self) -> Option<Json> {
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

    /// Cancels the request. Its outcome is then [`Failed::Cancelled`](mcp_proto::Failed::Cancelled), unless it has
    /// already ended.
    pub fn cancel(&self) {
        let _ = self.commands.send(Input::Cancel(self.request));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.has_ended {
            self.cancel();
        }
    }
}
