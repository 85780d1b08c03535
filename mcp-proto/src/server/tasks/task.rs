//! One task: its status, and how messages describe it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::timestamp::timestamp;
use super::{TaskId, TaskLimits};
use crate::json::Json;
use crate::jsonrpc::ErrorObject;
use crate::server::principal::Principal;
use crate::time::Instant;

#[derive(Debug)]
pub(super) struct Task {
    /// The principal that has created it.
    pub(super) owner: Option<Principal>,
    pub(super) created: Instant,
    /// The time of its creation, since 1970.
    pub(super) created_unix: Duration,
    pub(super) updated: Instant,
    pub(super) message: Option<Box<str>>,
    pub(super) status: Status,
}

#[derive(Debug)]
pub(super) enum Status {
    Working,
    InputRequired {
        /// The requests without an answer, by key.
        requests: BTreeMap<Box<str>, Json>,
        answers: BTreeMap<Box<str>, Json>,
    },
    Completed(Json),
    Failed(ErrorObject),
    Cancelled,
}

impl Status {
    const fn name(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired { .. } => "input_required",
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub(super) const fn has_ended(&self) -> bool {
        match self {
            Self::Working | Self::InputRequired { .. } => false,
            Self::Completed(_) | Self::Failed(_) | Self::Cancelled => true,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let sum =
            |parts: &BTreeMap<Box<str>, Json>| parts.iter().map(|(key, json)| key.len() + json.len()).sum::<usize>();
        match self {
            Self::Working | Self::Cancelled => 0,
            Self::InputRequired { requests, answers } => sum(requests) + sum(answers),
            Self::Completed(result) => result.len(),
            Self::Failed(error) => error.as_json().len(),
        }
    }
}

impl Task {
    /// The members that describe the task in every message.
    pub(super) fn head(&self, id: &TaskId, limits: &TaskLimits) -> Json {
        let updated = self.created_unix.saturating_add(self.updated.saturating_duration_since(self.created));
        let milliseconds = |time: Duration| Json::from(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        let mut head = Json::empty_object();
        if let Some(message) = &self.message {
            head = head.with_member("statusMessage", &Json::from(&**message));
        }
        head.with_members(&[
            ("taskId", &Json::from(id.as_str())),
            ("status", &Json::from(self.status.name())),
            ("createdAt", &Json::from(&*timestamp(self.created_unix))),
            ("lastUpdatedAt", &Json::from(&*timestamp(updated))),
            ("ttlMs", &milliseconds(limits.lifetime)),
            ("pollIntervalMs", &milliseconds(limits.poll_interval)),
        ])
    }

    /// The head, and what belongs to the status: a result, an error, or requests for input.
    pub(super) fn describe(&self, id: &TaskId, limits: &TaskLimits) -> Json {
        let head = self.head(id, limits);
        match &self.status {
            Status::Working | Status::Cancelled => head,
            Status::InputRequired { requests, .. } => {
                let requests: Vec<_> = requests.iter().map(|(key, request)| (&**key, request)).collect();
                head.with_member("inputRequests", &Json::empty_object().with_members(&requests))
            }
            Status::Completed(result) => head.with_member("result", result),
            Status::Failed(error) => head.with_member("error", error.as_json()),
        }
    }
}
