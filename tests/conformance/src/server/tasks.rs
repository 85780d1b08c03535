//! The extension `io.modelcontextprotocol/tasks`: calls whose results are fetched later.

use std::thread;
use std::time::{Duration, Instant};

use mcp_application::router::HandlerError;
use mcp_model::{CallToolResult, Tool};
use mcp_proto::server::{InputRequired, TaskLimits, Tasks};
use mcp_proto::{ErrorObject, Json};

use super::caller::{Caller, run};
use super::input::{Answers, ask_for_name, form};
use super::tools::nothing;

/// How often a function on a thread checks whether it was cancelled.
const SLICE: Duration = Duration::from_millis(20);

/// The names and descriptions of the tools whose calls create tasks.
const TOOLS: [(&str, &str); 6] = [
    ("slow_compute", "Computes for this many seconds"),
    ("failing_job", "Fails after a second"),
    ("protocol_error_job", "Breaks down"),
    ("confirm_delete", "Deletes a file once the user has confirmed"),
    ("multi_input", "Asks for two names at once"),
    ("test_tool_with_task", "Asks for a name, and then takes its time"),
];

/// What a function works on.
enum Work {
    Compute(Duration),
    Fail,
    Break,
    Ask(&'static [&'static str]),
    Greet(String),
}

/// The tools and how long their tasks are kept, on `mcp-blocking`.
pub(super) fn blocking(router: mcp_blocking::Router) -> mcp_blocking::Router {
    tools().into_iter().fold(router.task_limits(limits()), |router, tool| {
        let name = tool.name.clone();
        router.prepared_task_tool(
            &tool,
            move |arguments: Json, incoming: &mcp_blocking::Incoming| {
                prepare(&name, &arguments, &Caller::Blocking(incoming))
            },
            |work, context| run(work.result(&mut TaskCaller::Blocking(context))),
        )
    })
}

/// The same on `mcp-tokio`.
pub(super) fn tokio(router: mcp_tokio::Router) -> mcp_tokio::Router {
    tools().into_iter().fold(router.task_limits(limits()), |router, tool| {
        let name = tool.name.clone();
        router.prepared_task_tool(
            &tool,
            move |arguments: Json, incoming: &mcp_tokio::Incoming| prepare(&name, &arguments, &Caller::Tokio(incoming)),
            |work: Work, mut context| async move { work.result(&mut TaskCaller::Tokio(&mut context)).await },
        )
    })
}

fn tools() -> [Tool; 6] {
    TOOLS.map(|(name, description)| Tool::new(name, nothing()).description(description))
}

fn limits() -> TaskLimits {
    let mut limits = TaskLimits::default();
    limits.poll_interval = Duration::from_millis(200);
    limits
}

/// What is done before a task is created.
fn prepare(name: &str, arguments: &Json, caller: &Caller<'_>) -> Result<Work, HandlerError> {
    if name == "slow_compute" {
        let seconds = arguments.first_member("seconds").and_then(|seconds| seconds.read().ok());
        return Ok(Work::Compute(Duration::from_secs(seconds.unwrap_or(0_u64).min(3600))));
    }
    caller.context().require(&Tasks::capabilities())?;
    Ok(match name {
        "failing_job" => Work::Fail,
        "protocol_error_job" => Work::Break,
        "confirm_delete" => Work::Ask(&["confirm"]),
        "multi_input" => Work::Ask(&["first", "second"]),
        _ => Work::Greet(Answers::of(caller).text("user_name", "name").ok_or_else(ask_for_name)?),
    })
}

impl Work {
    async fn result(self, caller: &mut TaskCaller<'_, '_>) -> Result<CallToolResult, HandlerError> {
        match self {
            Self::Compute(time) => {
                caller.sleep(time).await;
                Ok(CallToolResult::text("The result is 42."))
            }
            Self::Fail => {
                caller.sleep(Duration::from_secs(1)).await;
                Err("The job has failed.".into())
            }
            Self::Break => Err(ErrorObject::internal().into()),
            Self::Ask(keys) => {
                let required = keys.iter().fold(InputRequired::new(), |required, key| {
                    let (message, field, kind) = match *key {
                        "confirm" => ("Delete the file?", "confirm", "boolean"),
                        _ => ("Which name?", "name", "string"),
                    };
                    required.ask(key, "elicitation/create", form(message, field, kind))
                });
                let answers = caller.ask_all(required).await?;
                Ok(CallToolResult::text(format!("The answers were {}", answers.to_text())))
            }
            Self::Greet(name) => {
                caller.sleep(Duration::from_millis(200)).await;
                Ok(CallToolResult::text(format!("It was done for {name}.")))
            }
        }
    }
}

/// The client of a task. On `mcp-blocking`, each future is ready at its first poll, because the driver blocks.
enum TaskCaller<'t, 'c> {
    Blocking(&'t mut mcp_blocking::TaskContext<'c>),
    Tokio(&'t mut mcp_tokio::TaskContext),
}

impl TaskCaller<'_, '_> {
    /// Sleeps, or until the task is cancelled.
    async fn sleep(&self, time: Duration) {
        match self {
            Self::Blocking(context) => {
                let until = Instant::now() + time;
                while Instant::now() < until && !context.is_cancelled() {
                    thread::sleep(until.saturating_duration_since(Instant::now()).min(SLICE));
                }
            }
            Self::Tokio(_) => tokio::time::sleep(time).await,
        }
    }

    async fn ask_all(&mut self, required: InputRequired) -> Result<Json, HandlerError> {
        match self {
            Self::Blocking(context) => context.ask_all(required),
            Self::Tokio(context) => context.ask_all(required).await,
        }
    }
}
