//! Elicitation: a server asks the client's user (since 2025-06-18).

use super::define::{object, union, words};
use super::error::ModelError;
use super::form::RequestedSchema;
use super::object::{Value, optional_tag};
use super::tasks::TaskMetadata;
use super::value::{JsonObject, Meta};
use crate::codec::json::Json;

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
    /// use mcp_proto::model::{ElicitRequestFormParams, Payload, RequestedSchema, StringSchema};
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
            /// What the user is told.
            message: String = "message",
            /// The form.
            requested_schema: RequestedSchema = "requestedSchema",
        }
        optional {
            /// Absent, or `form` (since 2025-11-25).
            mode: String = "mode",
            /// Asks for a task (2025-11-25 only): the result is a [`CreateTaskResult`](super::CreateTaskResult).
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
            /// What the user is told.
            message: String = "message",
            /// Where the user is sent.
            url: String = "url",
        }
        optional {
            /// The id that `notifications/elicitation/complete` repeats. 2025-11-25 requires it.
            elicitation_id: String = "elicitationId",
            /// Asks for a task (2025-11-25 only): the result is a [`CreateTaskResult`](super::CreateTaskResult).
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
    /// use mcp_proto::model::{ElicitAction, ElicitResult, JsonObject};
    ///
    /// let result = ElicitResult::accept(JsonObject::new().with("name", "Ada"));
    /// assert_eq!(result.action, ElicitAction::Accept);
    /// assert_eq!(ElicitResult::decline().content, None);
    /// ```
    ElicitResult {
        required {
            /// What the user did.
            action: ElicitAction = "action",
        }
        optional {
            /// What was filled in, if a form was accepted: texts, numbers, booleans, and since 2025-11-25 arrays of
            /// texts.
            content: JsonObject = "content",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

impl ElicitResult {
    /// The user sent the form.
    #[must_use]
    pub fn accept(content: JsonObject) -> Self {
        Self::new(ElicitAction::Accept).content(content)
    }

    /// The user said no.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// The user did not decide.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

words! {
    /// What a user did who was asked.
    ElicitAction {
        /// Said yes.
        Accept = "accept",
        /// Said no.
        Decline = "decline",
        /// Did not decide.
        Cancel = "cancel",
    }
}

object! {
    /// The parameters of `notifications/elicitation/complete` (2025-11-25 only).
    ElicitationCompleteNotificationParams {
        required {
            /// Which elicitation has ended.
            elicitation_id: String = "elicitationId",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}
