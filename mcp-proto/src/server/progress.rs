//! Progress of requests of clients.

use crate::conversation::outgoing::progress_token;
use crate::json::Json;
use crate::jsonrpc::{Notification, RequestId};
use crate::spec::Method;

/// The progress of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The progress so far; a finite number that must grow each time.
    ///
    /// Rules: PR-02.
    pub progress: f64,
    /// The value of `progress` at the end, if it is known.
    pub total: Option<f64>,
    /// A text about the current step.
    pub message: Option<Box<str>>,
}

impl Progress {
    /// A progress without a total and a text.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::Progress;
    ///
    /// let progress = Progress::new(2.0).total(3.0).message("two of three");
    /// assert_eq!(progress.total, Some(3.0));
    /// ```
    #[must_use]
    pub const fn new(progress: f64) -> Self {
        Self { progress, total: None, message: None }
    }

    /// Sets the value of `progress` at the end.
    #[must_use]
    pub fn total(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets the text about the current step.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into().into());
        self
    }

    fn to_params(&self, token: &RequestId) -> Json {
        let mut params = Json::empty_object();
        if let Some(message) = &self.message {
            params = params.with_member("message", &Json::from(&**message));
        }
        for (name, value) in [("total", self.total), ("progress", Some(self.progress))] {
            // JSON cannot represent NaN and infinity: `serde_json` would write null.
            let value = value.filter(|value| value.is_finite());
            if let Some(value) = value.and_then(|value| Json::from_serialize(&value).ok()) {
                params = params.with_member(name, &value);
            }
        }
        params.with_member("progressToken", &token.to_json())
    }
}

/// The progress of one request of a client.
#[derive(Debug)]
pub(super) struct ProgressToken {
    token: Option<RequestId>,
    /// The last progress that was sent (PR-02).
    last: f64,
}

impl ProgressToken {
    /// Reads the token of the parameters of a request.
    pub(super) fn read(params: Option<&Json>) -> Self {
        Self { token: progress_token(params), last: f64::NEG_INFINITY }
    }

    /// The notification of this progress; `None` if the client has requested none, or if the progress does not grow.
    pub(super) fn advance(&mut self, progress: &Progress) -> Option<Notification> {
        let token = self.token.as_ref()?;
        if !progress.progress.is_finite() || progress.progress <= self.last {
            return None;
        }
        self.last = progress.progress;
        Some(Notification::with_params(Method::PROGRESS, progress.to_params(token)))
    }
}
