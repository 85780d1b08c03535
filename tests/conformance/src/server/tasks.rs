//! The extension `io.modelcontextprotocol/tasks`: calls whose results are fetched later.
//!
//! No code runs for a task between requests: its status is computed from the time and from the client's answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mcp_proto::model::CallToolResult;
use mcp_proto::{ErrorObject, Json, code};
use serde_json::{Map, Value, json};

use super::caller::Caller;
use super::input::{Answers, form};
use super::invalid;

/// The name of the extension.
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The time for which a task is kept.
const LIFETIME: Duration = Duration::from_secs(600);
/// The interval at which clients should poll a task.
const POLL: Duration = Duration::from_millis(200);
/// The most tasks at one time. Beyond it, the oldest are dropped.
const MOST: usize = 1000;

/// The names and descriptions of the tools whose calls create tasks.
pub(super) const TOOLS: [(&str, &str); 6] = [
    ("slow_compute", "Computes for as many seconds as it is told"),
    ("failing_job", "Fails after a second"),
    ("protocol_error_job", "Breaks down"),
    ("confirm_delete", "Deletes a file once the user has confirmed"),
    ("multi_input", "Asks for two names at once"),
    ("test_tool_with_task", "Asks for a name, and then takes its time"),
];

static TASKS: Mutex<Tasks> = Mutex::new(Tasks { next: 1, open: BTreeMap::new() });

struct Tasks {
    next: u64,
    open: BTreeMap<u64, Task>,
}

struct Task {
    created: SystemTime,
    updated: SystemTime,
    work: Work,
    is_cancelled: bool,
    /// The input requests of the task, by key, each with the client's answer.
    asked: BTreeMap<&'static str, Option<Value>>,
}

enum Work {
    /// Takes this long, and ends with this result.
    Takes(Duration, Json),
    /// Ends with an error.
    Breaks,
    /// Requires input, and ends with the client's answers.
    Asks,
}

/// The capability, as client and server declare it.
pub(super) fn capability() -> Json {
    to_json(&json!({ EXTENSION: {} }))
}

/// Answers a call of one of [`TOOLS`].
pub(super) async fn call(caller: &Caller<'_>, name: &str) -> Result<Json, ErrorObject> {
    let arguments = arguments(caller);
    let seconds = Duration::from_secs(arguments["seconds"].as_u64().unwrap_or_default().min(3600));
    let required = Json::empty_object().with_member("extensions", &capability());
    let declared = caller.context().require(&required);
    if name == "slow_compute" && declared.is_err() {
        caller.sleep(seconds).await;
        return Ok(computed());
    }
    declared?;
    let (work, asked) = match name {
        "slow_compute" => (Work::Takes(seconds, computed()), &[][..]),
        "failing_job" => {
            (Work::Takes(Duration::from_secs(1), CallToolResult::error("The job has failed.").into()), &[][..])
        }
        "protocol_error_job" => (Work::Breaks, &[][..]),
        "confirm_delete" => (Work::Asks, &["confirm"][..]),
        "multi_input" => (Work::Asks, &["first", "second"][..]),
        _ => {
            let Some(name) = Answers::of(caller).text("user_name", "name") else {
                return Ok(super::input::ask_for_name());
            };
            (Work::Takes(POLL, CallToolResult::text(format!("It was done for {name}.")).into()), &[][..])
        }
    };
    let now = SystemTime::now();
    let asked = asked.iter().map(|key| (*key, None)).collect();
    let task = Task { created: now, updated: now, work, is_cancelled: false, asked };
    let mut tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    let id = tasks.next;
    let mut created = task.head(id, now);
    // The status is `working` even if input is required: the client sees the input requests in `tasks/get`.
    created.insert("resultType".to_owned(), json!("task"));
    created.insert("status".to_owned(), json!("working"));
    tasks.open.insert(id, task);
    tasks.next += 1;
    while tasks.open.len() > MOST {
        tasks.open.pop_first();
    }
    Ok(to_json(&Value::Object(created)))
}

/// Answers `tasks/get`, `tasks/update` and `tasks/cancel`.
pub(super) fn on_task(caller: &Caller<'_>) -> Result<Json, ErrorObject> {
    caller.context().require(&Json::empty_object().with_member("extensions", &capability()))?;
    let id = params(caller)["taskId"].as_str().and_then(|id| id.strip_prefix("task-")?.parse::<u64>().ok());
    let now = SystemTime::now();
    let mut tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    let found =
        id.and_then(|id| tasks.open.get_mut(&id).filter(|task| task.age(now) < LIFETIME).map(|task| (id, task)));
    let (id, task) = found.ok_or_else(|| invalid("there is no such task"))?;
    match caller.method().as_str() {
        "tasks/get" => return Ok(to_json(&Value::Object(task.describe(id, now)))),
        "tasks/cancel" if !task.is_over(now) => (task.is_cancelled, task.updated) = (true, now),
        "tasks/update" => {
            let answers = Answers::of(caller);
            for (key, answer) in &mut task.asked {
                if answer.is_none() {
                    *answer = answers.content(key).cloned();
                }
            }
            task.updated = now;
        }
        _ => {}
    }
    Ok(Json::empty_object())
}

impl Task {
    fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.created).unwrap_or_default()
    }

    fn status(&self, now: SystemTime) -> &'static str {
        match &self.work {
            _ if self.is_cancelled => "cancelled",
            Work::Takes(time, _) if self.age(now) < *time => "working",
            Work::Asks if self.asked.values().any(Option::is_none) => "input_required",
            Work::Breaks => "failed",
            Work::Takes(..) | Work::Asks => "completed",
        }
    }

    fn is_over(&self, now: SystemTime) -> bool {
        !matches!(self.status(now), "working" | "input_required")
    }

    fn head(&self, id: u64, now: SystemTime) -> Map<String, Value> {
        let time = |time| humantime::format_rfc3339_millis(time).to_string();
        let head = json!({
            "taskId": format!("task-{id}"),
            "status": self.status(now),
            "createdAt": time(self.created),
            "lastUpdatedAt": time(self.updated),
            "ttlMs": LIFETIME.as_secs() * 1000,
            "pollIntervalMs": POLL.subsec_millis(),
        });
        head.as_object().cloned().unwrap_or_default()
    }

    fn describe(&self, id: u64, now: SystemTime) -> Map<String, Value> {
        let mut described = self.head(id, now);
        match (self.status(now), &self.work) {
            ("completed", Work::Takes(_, result)) => drop(described.insert("result".to_owned(), to_value(result))),
            ("completed", _) => {
                let answers = json!(self.asked).to_string();
                let result = CallToolResult::text(format!("The answers were {answers}")).into();
                described.insert("result".to_owned(), to_value(&result));
            }
            ("failed", _) => {
                let error = json!({ "code": code::INTERNAL_ERROR, "message": "the job broke down" });
                described.insert("error".to_owned(), error);
            }
            ("input_required", _) => {
                let waiting = self.asked.iter().filter(|(_, answer)| answer.is_none());
                let requests: Map<_, _> = waiting.map(|(key, _)| ((*key).to_owned(), request(key))).collect();
                described.insert("inputRequests".to_owned(), Value::Object(requests));
            }
            _ => {}
        }
        described
    }
}

fn request(key: &str) -> Value {
    let (message, field, kind) = match key {
        "confirm" => ("Delete the file?", "confirm", "boolean"),
        _ => ("Which name?", "name", "string"),
    };
    json!({ "method": "elicitation/create", "params": to_value(&form(message, field, kind)) })
}

fn computed() -> Json {
    CallToolResult::text("The result is 42.").into()
}

fn params(caller: &Caller<'_>) -> Value {
    caller.params().map(to_value).unwrap_or_default()
}

fn arguments(caller: &Caller<'_>) -> Value {
    params(caller)["arguments"].take()
}

fn to_value(json: &Json) -> Value {
    json.read().unwrap_or_default()
}

fn to_json(value: &Value) -> Json {
    Json::from_serialize(value).expect("a tree of JSON is JSON")
}
