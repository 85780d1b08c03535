//! Elicitation: a server requests input from the client's user (since 2025-06-18).

use mcp_proto::Json;

use super::define::{object, string_enum, union};
use super::error::ModelError;
use super::form::RequestedSchema;
use super::object::{Value, optional_tag};
use super::tasks::TaskMetadata;
use super::value::{JsonObject, Meta};

union! {
    /// The parameters of `elicitation/create`.
    ElicitRequestParams {
        /// The client shows a form.
        Form(ElicitRequestFormParams),
        /// The client sends the user to a URL (since 2025-11-25).
        Url(ElicitRequestURLParams),
    }
}

impl ElicitRequestParams {
    fn choose(json: &Json) -> Result<Self, ModelError> {
        match optional_tag(json, "mode")?.as_deref() {
            None | Some("form") => Value::read(json).map(Self::Form),
            Some("url") => Value::read(json).map(Self::Url),
            Some(_) => Ok(Self::Other(json.clone())),
        }
    }
}

object! {
    /// The client shows a form to its user.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{ElicitRequestFormParams, Payload, RequestedSchema, StringSchema};
    ///
    /// let form = RequestedSchema::form().with_required("name", StringSchema::new().title("Your name"));
    /// let params = ElicitRequestFormParams::new("Who are you?", form);
    /// assert_eq!(
    ///     params.requested_schema.to_json().as_bytes(),
    ///     br#"{"type":"object","properties":{"name":{"type":"string","title":"Your name"}},"required":["name"]}"#,
    /// );
    /// ```
    ElicitRequestFormParams {
        required {
            /// The message for the user.
            message: String = "message",
            /// The form.
            requested_schema: RequestedSchema = "requestedSchema",
        }
        optional {
            /// Absent, or `form` (since 2025-11-25).
            mode: String = "mode",
            /// Requests a task (2025-11-25 only): the result is a [`CreateTaskResult`](super::CreateTaskResult).
            task: TaskMetadata = "task",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The client sends its user to a URL (since 2025-11-25).
    ElicitRequestURLParams("mode" = "url") {
        required {
            /// The message for the user.
            message: String = "message",
            /// The URL to open.
            url: String = "url",
        }
        optional {
            /// The id that `notifications/elicitation/complete` repeats. 2025-11-25 requires it.
            elicitation_id: String = "elicitationId",
            /// Requests a task (2025-11-25 only): the result is a [`CreateTaskResult`](super::CreateTaskResult).
            task: TaskMetadata = "task",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of `elicitation/create`.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{ElicitAction, ElicitResult, JsonObject};
    ///
    /// let result = ElicitResult::accept(JsonObject::new().with("name", "Ada"));
    /// assert_eq!(result.action, ElicitAction::Accept);
    /// assert_eq!(ElicitResult::decline().content, None);
    /// ```
    ElicitResult {
        required {
            /// The user's response.
            action: ElicitAction = "action",
        }
        optional {
            /// The values of an accepted form: strings, numbers, booleans, and since 2025-11-25 arrays of strings.
            content: JsonObject = "content",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

impl ElicitResult {
    /// The user accepted, and submitted the form.
    #[must_use]
    pub fn accept(content: JsonObject) -> Self {
        Self::new(ElicitAction::Accept).content(content)
    }

    /// The user declined.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// The user dismissed the request.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

string_enum! {
    /// The user's response to an elicitation.
    ElicitAction {
        /// The user accepted.
        Accept = "accept",
        /// The user declined.
        Decline = "decline",
        /// The user dismissed the request.
        Cancel = "cancel",
    }
}

object! {
    /// The parameters of `notifications/elicitation/complete` (2025-11-25 only).
    ElicitationCompleteNotificationParams {
        required {
            /// The id of the elicitation that has ended.
            elicitation_id: String = "elicitationId",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}
