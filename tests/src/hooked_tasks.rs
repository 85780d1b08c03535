//! A tool whose task has a secret outcome, hooks that hide it, and what its client may receive, for every driver.

use mcp_application::router::HandlerError;
use mcp_application::{Error, IncomingRequest};
use mcp_model::JsonObject;
use mcp_proto::server::Config;
use mcp_proto::{ErrorObject, Json};

/// Arguments of the tool: its task completes, or fails.
pub const ARGUMENTS: [&str; 2] = ["{}", r#"{"fails":true}"#];

/// The code of the error with which [`refuse_results`] answers.
pub const REFUSED: i64 = 8;

/// A server that also publishes changes which have nothing to do with tasks.
#[must_use]
pub fn config() -> Config {
    Config::new("s", "1").capabilities(
        Json::empty_object().with_member("tools", &Json::empty_object().with_member("listChanged", &Json::from(true))),
    )
}

/// The outcome of the tool.
///
/// # Errors
///
/// The arguments demand it.
pub fn outcome(arguments: &JsonObject) -> Result<&'static str, HandlerError> {
    if arguments.as_json().first_member("fails").is_some() {
        return Err(ErrorObject::new(7, "secret").into());
    }
    Ok("secret")
}

/// What a hook makes of an outcome: one without the secret.
///
/// # Errors
///
/// The outcome is one.
///
/// # Panics
///
/// The outcome is not JSON.
pub fn redacted(outcome: Result<Json, ErrorObject>) -> Result<Json, ErrorObject> {
    let redact = |text: &str| text.replace("secret", "hidden");
    match outcome {
        Ok(result) => Ok(Json::parse(redact(&result.to_text())).expect("JSON")),
        Err(error) => Err(ErrorObject::new(error.code(), &redact(&error.message()))),
    }
}

/// A hook that refuses `tasks/get`.
///
/// # Errors
///
/// The request is one.
pub fn refuse_results(request: &IncomingRequest) -> Result<(), ErrorObject> {
    if request.method().as_str() == "tasks/get" { Err(ErrorObject::new(REFUSED, "refused")) } else { Ok(()) }
}

/// The parameters of requests about a task, and a filter with it and with the list of tools, from the answer to the call.
///
/// # Panics
///
/// The answer is no task.
#[must_use]
pub fn task_and_filter(created: &Json) -> (Json, Json) {
    let id = created.first_member("taskId").expect("a task");
    let filter = Json::empty_object().with_member("toolsListChanged", &Json::from(true));
    (Json::empty_object().with_member("taskId", &id), filter.with_member("taskIds", &Json::array([&id])))
}

/// Whether the answer to `tasks/get` is that of a task that has ended.
#[must_use]
pub fn has_ended(answer: &Result<Json, Error>) -> bool {
    let status = answer.as_ref().ok().and_then(|task| task.first_member("status"));
    status.is_some_and(|status| status != Json::from("working"))
}

/// Checks what a client has received about the task if there are no hooks.
///
/// # Panics
///
/// It has not received the outcome.
pub fn check_published(received: &str, answer: &Result<Json, Error>) {
    assert!(received.contains(r#""taskIds":["#), "it is acknowledged: {received}");
    let last = received.lines().last().expect("a notification");
    assert!(last.starts_with("notifications/tasks ") && last.contains("secret"), "{received}");
    assert!(last.contains(r#""result""#) || last.contains(r#""error""#), "{received}");
    assert!(text(answer).contains("secret"));
}

/// Checks what a client has received about the task if there are hooks.
///
/// # Panics
///
/// Its subscription was acknowledged with the task, or it was notified of the task.
pub fn check_hidden(received: &str) {
    assert!(!received.contains("taskIds") && !received.contains("notifications/tasks"), "{received}");
    assert!(!received.contains("secret"), "{received}");
}

/// Checks the answer to `tasks/get` that [`redacted`] has made.
///
/// # Panics
///
/// It has the secret, or no outcome.
pub fn check_redacted(answer: &Result<Json, Error>) {
    let text = text(answer);
    assert!(!text.contains("secret") && text.contains("hidden"), "{text}");
    assert!(text.contains(r#""result""#) || text.contains(r#""error""#), "{text}");
}

fn text(answer: &Result<Json, Error>) -> String {
    answer.as_ref().expect("a task").to_text().into_owned()
}
