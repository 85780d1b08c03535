//! Tasks of the extension `io.modelcontextprotocol/tasks` (since 2026-07-28): the server decides which calls become
//! tasks. The extension has a specification of its own: the schema of the revision does not contain these types.

use std::collections::BTreeMap;

use mcp_proto::Json;

use super::define::object;
use super::input::{InputRequest, InputResponses};
use super::tasks::{TaskStatus, Ttl};
use super::value::{JsonObject, Meta, Number};

object! {
    /// A task of the extension: the result of the call that became a task, with the `resultType` `task`; the result of
    /// `tasks/get`; and the parameters of `notifications/tasks`.
    ExtensionTask {
        required {
            /// The task's id.
            task_id: String = "taskId",
            /// Its status.
            status: TaskStatus = "status",
        }
        optional {
            /// When it was created, as an ISO 8601 time.
            created_at: String = "createdAt",
            /// When its status last changed, as an ISO 8601 time.
            last_updated_at: String = "lastUpdatedAt",
            /// How long the server keeps it, in milliseconds.
            ttl_ms: Ttl = "ttlMs",
            /// How many milliseconds to wait before the next poll.
            poll_interval_ms: Number = "pollIntervalMs",
            /// A description of its status for display.
            status_message: String = "statusMessage",
            /// The result of the call, once the task has completed.
            result: JsonObject = "result",
            /// The JSON-RPC error of the call, once the task has failed.
            error: Json = "error",
            /// The requests for input by key, while the task waits for input.
            input_requests: BTreeMap<String, InputRequest> = "inputRequests",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `tasks/update`, which supply input to a task of the extension.
    UpdateTaskRequestParams {
        required {
            /// The task's id.
            task_id: String = "taskId",
            /// The input by the key of its request.
            input_responses: InputResponses = "inputResponses",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}
