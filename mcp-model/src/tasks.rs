//! Tasks (2025-11-25 only): requests whose results are fetched later.

use mcp_proto::Json;

use super::define::{object, payload, string_enum};
use super::error::ModelError;
use super::object::Value;
use super::value::{Meta, Number};

macro_rules! task {
    ($(#[$doc:meta])* $name:ident) => {
        object! {
            $(#[$doc])*
            $name {
                required {
                    /// The task's id.
                    task_id: String = "taskId",
                    /// Its status.
                    status: TaskStatus = "status",
                    /// When it was created, as an ISO 8601 time.
                    created_at: String = "createdAt",
                    /// When its status last changed, as an ISO 8601 time.
                    last_updated_at: String = "lastUpdatedAt",
                    /// How long the server keeps it.
                    ttl: Ttl = "ttl",
                }
                optional {
                    /// A description of its status for display.
                    status_message: String = "statusMessage",
                    /// How many milliseconds to wait before the next poll.
                    poll_interval: Number = "pollInterval",
                    /// Metadata.
                    meta: Meta = "_meta",
                }
            }
        }
    };
}

task! {
    /// A task.
    Task
}

task! {
    /// The result of `tasks/get`: a task.
    GetTaskResult
}

task! {
    /// The result of `tasks/cancel`: a task that has been cancelled.
    CancelTaskResult
}

task! {
    /// The parameters of `notifications/tasks/status`: a task.
    TaskStatusNotificationParams
}

macro_rules! from_task {
    ($($name:ident)*) => {
        $(impl From<Task> for $name {
            fn from(task: Task) -> Self {
                Self {
                    task_id: task.task_id,
                    status: task.status,
                    created_at: task.created_at,
                    last_updated_at: task.last_updated_at,
                    ttl: task.ttl,
                    status_message: task.status_message,
                    poll_interval: task.poll_interval,
                    meta: task.meta,
                    extra: task.extra,
                }
            }
        })*
    };
}

from_task! { GetTaskResult CancelTaskResult TaskStatusNotificationParams }

string_enum! {
    /// The status of a task.
    TaskStatus {
        /// The task is running.
        Working = "working",
        /// The task waits for input.
        InputRequired = "input_required",
        /// The task has completed, and has a result.
        Completed = "completed",
        /// The task has failed, and has an error or a result that indicates one.
        Failed = "failed",
        /// The task was cancelled.
        Cancelled = "cancelled",
    }
}

/// How long a task is kept, counted from its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ttl {
    /// This many milliseconds.
    Milliseconds(Number),
    /// Without limit, which is `null` on the wire.
    Unlimited,
}

impl<N: Into<Number>> From<N> for Ttl {
    fn from(milliseconds: N) -> Self {
        Self::Milliseconds(milliseconds.into())
    }
}

impl Value for Ttl {
    const TAKES_NULL: bool = true;

    fn read(json: &Json) -> Result<Self, ModelError> {
        if json.as_bytes() == b"null" { Ok(Self::Unlimited) } else { Number::read(json).map(Self::Milliseconds) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Milliseconds(number) => number.write(out),
            Self::Unlimited => out.extend_from_slice(b"null"),
        }
    }
}

payload! { Ttl }

object! {
    /// The member of a request's parameters that requests a task.
    TaskMetadata {
        optional {
            /// How many milliseconds to keep the task.
            ttl: Number = "ttl",
        }
    }
}

object! {
    /// The result of a request that requested a task.
    CreateTaskResult {
        required {
            /// The task.
            task: Task = "task",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `tasks/get`.
    GetTaskRequestParams {
        required {
            /// The task's id.
            task_id: String = "taskId",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `tasks/result`.
    GetTaskPayloadRequestParams {
        required {
            /// The task's id.
            task_id: String = "taskId",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of `tasks/result`: the members of the result of the original request, in `extra`.
    GetTaskPayloadResult {
        optional {
            /// Metadata, with [`Meta::related_task`].
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `tasks/cancel`.
    CancelTaskRequestParams {
        required {
            /// The task's id.
            task_id: String = "taskId",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of `tasks/list`.
    ListTasksResult {
        required {
            /// The tasks of this page.
            tasks: Vec<Task> = "tasks",
        }
        optional {
            /// The cursor of the next page; absent on the last page.
            next_cursor: String = "nextCursor",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}
