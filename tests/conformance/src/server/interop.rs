//! The tools that the clients of `tests/interop` and `tests/scaling` use, with the names and results of
//! `tests/interop/servers/tools.py`.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use mcp_model::{CallToolRequestParams, CallToolResult};
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{InputRequired, Progress};
use mcp_proto::{ErrorObject, Json, Method, Notification};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::caller::Caller;
use super::{input, invalid};

/// The resource that `touch` updates.
pub(super) const BOARD: &str = "interop://board";

/// The key of what a tool requires from its client.
const ASKED: &str = "asked";

/// Name and description of each tool.
pub(super) const TOOLS: [(&str, &str); 10] = [
    ("echo", "Answers with its text"),
    ("work", "Takes a while, and reports progress after each step"),
    ("was_cancelled", "Returns whether the work with this name was cancelled at this instance"),
    ("ask_sampling", "Lets the client's model answer a prompt"),
    ("ask_elicitation", "Asks the client's user for a name"),
    ("ask_roots", "Asks for the client's roots"),
    ("add_tool", "Notifies of a changed list of tools"),
    ("touch", "Notifies of an update of the resource interop://board"),
    ("hang_up", "Ends the stream of this call before its answer"),
    ("instance", "Answers with the number of this instance"),
];

static INSTANCE: OnceLock<u32> = OnceLock::new();
static CANCELLED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Sets the number of this instance, once.
pub fn set_instance(number: u32) {
    let _ = INSTANCE.set(number);
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
struct Work {
    steps: u32,
    seconds: f64,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

#[derive(Deserialize)]
struct Prompt {
    prompt: String,
}

#[derive(Deserialize)]
struct Seconds {
    seconds: f64,
}

/// Calls the tool, if it is one of these.
pub(super) async fn call(caller: &Caller<'_>, params: &CallToolRequestParams) -> Option<Result<Json, ErrorObject>> {
    TOOLS.iter().any(|(name, _)| *name == params.name).then_some(())?;
    Some(text_of(caller, params).await.map(|called| match called {
        Called::Text(text) => CallToolResult::text(text).into(),
        Called::Fault(reason) => CallToolResult::error(reason).into(),
        Called::Asks(required) => required.into(),
    }))
}

/// What a call comes to.
enum Called {
    Text(String),
    /// The text of an error result.
    Fault(String),
    /// An answer of the client is needed, in a revision in which a server sends no requests.
    Asks(InputRequired),
}

impl From<Result<String, String>> for Called {
    fn from(result: Result<String, String>) -> Self {
        result.map_or_else(Self::Fault, Self::Text)
    }
}

async fn text_of(caller: &Caller<'_>, params: &CallToolRequestParams) -> Result<Called, ErrorObject> {
    let done: Result<String, String> = match params.name.as_str() {
        "echo" => Ok(read::<Text>(params)?.text),
        "work" => Ok(work(caller, read(params)?).await),
        "was_cancelled" => {
            let Name { name } = read(params)?;
            let is_cancelled = CANCELLED.lock().unwrap_or_else(PoisonError::into_inner).contains(&name);
            Ok(if is_cancelled { "yes" } else { "no" }.to_owned())
        }
        "ask_sampling" => {
            let message =
                json!({ "role": "user", "content": { "type": "text", "text": read::<Prompt>(params)?.prompt } });
            let asked = json!({ "messages": [message], "maxTokens": 10 });
            return Ok(ask(caller, "sampling/createMessage", to_json(&asked)?, |answer| {
                text_at(answer, "/content/text")
            })
            .await);
        }
        "ask_elicitation" => {
            let show = |answer: &Value| format!("{} {}", text_at(answer, "/action"), text_at(answer, "/content/name"));
            return Ok(ask(caller, "elicitation/create", input::form("Who?", "name", "string"), show).await);
        }
        "ask_roots" => {
            return Ok(ask(caller, "roots/list", Json::empty_object(), |answer| text_at(answer, "/roots/0/uri")).await);
        }
        "add_tool" => {
            publish(caller, Notification::new(Method::TOOLS_LIST_CHANGED)).await.map(|()| "added_1".to_owned())
        }
        "touch" => {
            let mut updated = Notification::new("notifications/resources/updated");
            updated.params = Some(Json::empty_object().with_member("uri", &Json::from(BOARD)));
            publish(caller, updated).await.map(|()| "touched".to_owned())
        }
        "hang_up" => {
            caller.release();
            caller.sleep(duration(read::<Seconds>(params)?.seconds)?).await;
            Ok("fetched".to_owned())
        }
        _ => Ok(INSTANCE.get().copied().unwrap_or(0).to_string()),
    };
    Ok(done.into())
}

/// Adds the name to those of cancelled calls unless the work is reported as done.
struct Working(Option<String>);

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(name) = self.0.take() {
            CANCELLED.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        }
    }
}

async fn work(caller: &Caller<'_>, work: Work) -> String {
    let Work { steps, seconds, name } = work;
    // The driver on tokio drops the future of a cancelled call.
    let mut working = Working(Some(name));
    for step in 1..=steps {
        caller.sleep(Duration::try_from_secs_f64(seconds / f64::from(steps)).unwrap_or_default()).await;
        let progress = Progress { progress: f64::from(step), total: Some(f64::from(steps)), message: None };
        caller.progress(progress).await;
    }
    working.0 = None;
    "worked".to_owned()
}

async fn publish(caller: &Caller<'_>, notification: Notification) -> Result<(), String> {
    caller.publish(notification).await.map_err(|error| error.to_string())
}

/// Asks the client, in the way of its revision.
async fn ask(caller: &Caller<'_>, method: &'static str, params: Json, show: impl Fn(&Value) -> String) -> Called {
    if caller.context().version.is_stateless() {
        return match input::answer(caller, ASKED) {
            Some(answer) => Called::Text(show(&answer)),
            None => Called::Asks(InputRequired::new().ask(ASKED, method, params)),
        };
    }
    match caller.ask(Call::new(method).params(params)).await {
        Ok(Outcome::Result(answer)) => {
            answer.read().map(|answer| show(&answer)).map_err(|error| error.to_string()).into()
        }
        Ok(Outcome::Error(error)) => Called::Fault(format!("the client refused: {}", error.message())),
        Ok(Outcome::Failed(reason)) => Called::Fault(format!("the client did not answer: {reason}")),
        Err(error) => Called::Fault(error.to_string()),
    }
}

fn text_at(answer: &Value, pointer: &str) -> String {
    answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn to_json(value: &Value) -> Result<Json, ErrorObject> {
    Json::from_serialize(value).map_err(|error| invalid(&error.to_string()))
}

fn duration(seconds: f64) -> Result<Duration, ErrorObject> {
    Duration::try_from_secs_f64(seconds).map_err(|error| invalid(&error.to_string()))
}

fn read<T: DeserializeOwned>(params: &CallToolRequestParams) -> Result<T, ErrorObject> {
    let arguments = Json::from(params.arguments.clone().unwrap_or_default());
    arguments.read().map_err(|error| invalid(&format!("the arguments are wrong: {error}")))
}
