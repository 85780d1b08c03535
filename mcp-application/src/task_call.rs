//! A call of a tool whose result may be a task, from the client's side (RULES 8.9).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, mem};

use mcp_model::{
    CallToolRequestParams, CallToolResult, CancelTaskRequestParams, ExtensionTask, GetTaskRequestParams, InputRequest,
    InputResponses, ModelError, Number, Payload, TaskStatus, UpdateTaskRequestParams,
};
use mcp_proto::client::Call;
use mcp_proto::{ErrorObject, Failed, Fault, Instant, Json, Method, NoInput};

use super::{Error, read_result};

/// The time between two requests for a task, if the server states none.
const INTERVAL: Duration = Duration::from_secs(1);
/// The shortest and the longest time, whatever the server states: it could otherwise keep a client busy, or hide a result.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// The most input that is given to one task: a server that requires more asks without end (MD-I-10).
const MAX_INPUTS: usize = 100;

/// A call of a tool whose result may be a task of the extension `io.modelcontextprotocol/tasks` (2026-07-28). The server
/// decides; one of an older revision always answers with the result. The tasks of 2025-11-25, which clients request, are
/// not supported: they were experimental.
///
/// ```text
///               working                      input_required
///  pause ◀────────────────── tasks/get ──────────────────────▶ ask the application
///    │                       ▲   │                                │           │
///    └───────────────────────┘   │ completed, failed, cancelled   │ answers   │ refused
///                                ▼                                ▼           ▼
///                             outcome              tasks/update, pause    tasks/cancel, outcome
/// ```
///
/// # Example: the loop of a driver
///
/// ```
/// use mcp_proto::client::Call;
/// use mcp_application::{Error, TaskCall, TaskStep};
/// use mcp_model::CallToolResult;
/// use mcp_proto::{ErrorObject, Instant, Json, Method};
///
/// fn wait(
///     task: &mut TaskCall,
///     now: impl Fn() -> Instant,
///     request: impl Fn(Call) -> Result<Json, Error>,
///     handler: impl Fn(Method, Option<Json>) -> Result<Json, ErrorObject>,
/// ) -> Result<CallToolResult, Error> {
///     loop {
///         match task.next_step(now()) {
///             TaskStep::Wait(time) => std::thread::sleep(time),
///             TaskStep::Request(call) => task.handle(request(call)),
///             TaskStep::Ask { method, params } => task.answer(handler(method, params)),
///             TaskStep::Report(fault) => eprintln!("{fault}"),
///             TaskStep::Done(outcome) => return outcome,
///         }
///     }
/// }
///
/// let result = Json::parse(r#"{"content":[]}"#).unwrap();
/// let mut task = TaskCall::new(&result, "the server".into(), Json::empty_object())?;
/// assert!(task.id().is_none());
/// assert!(wait(&mut task, || Instant::START, |_| panic!(), |_, _| panic!())?.content.is_empty());
/// # Ok::<(), Error>(())
/// ```
pub struct TaskCall {
    /// The server's name for errors.
    server: Arc<str>,
    /// The capabilities that the client declares: the server may require no other input.
    capabilities: Json,
    answer: Answer,
    status: TaskStatus,
    message: Option<String>,
    interval: Duration,
    state: State,
    /// The parts of the result that could not be read, until they are reported.
    fault: Option<Fault>,
    /// The keys of given input that the server still shows.
    given: BTreeSet<String>,
    /// The number of requests for input that were answered.
    inputs: usize,
}

/// The answer of the server to the call.
enum Answer {
    Result(Box<CallToolResult>),
    /// The id of a task.
    Task(String),
}

enum State {
    /// The server is asked at this time, which is set when the pause begins.
    Pausing(Option<Instant>),
    Polling,
    /// The requests for input that are not answered yet, the next one last, and the answers to others.
    Asking {
        asked: Vec<Asked>,
        answers: InputResponses,
    },
    /// The task cannot go on.
    Cancelling(NoInput),
    Ended(Result<Box<CallToolResult>, Error>),
}

struct Asked {
    key: String,
    method: Method,
    params: Option<Json>,
}

/// What to do next for a task.
#[derive(Debug)]
pub enum TaskStep {
    /// Wait for this time, as the server demands.
    Wait(Duration),
    /// Make this request, and pass its outcome to [`TaskCall::handle`].
    Request(Call),
    /// Pass a request for input to the application, and its answer to [`TaskCall::answer`].
    Ask {
        /// The method.
        method: Method,
        /// The parameters.
        params: Option<Json>,
    },
    /// Report that parts of the result could not be read.
    Report(Fault),
    /// The outcome of the call. The next step would be to ask the server for it again.
    Done(Result<CallToolResult, Error>),
}

impl TaskCall {
    /// The request that calls a tool, and permits the server to answer with a task.
    #[must_use]
    pub fn request(params: &CallToolRequestParams) -> Call {
        Call::new(Method::TOOLS_CALL).params(params.to_json()).with_tasks()
    }

    /// Reads the result of [`TaskCall::request`]: that of the tool, or a task. `server` is the name of the server for
    /// errors, and `capabilities` is what the client declares.
    ///
    /// # Errors
    ///
    /// [`Error::Result`] if it has neither form.
    pub fn new(result: &Json, server: Arc<str>, capabilities: Json) -> Result<Self, Error> {
        let is_task = result.first_member("resultType").is_some_and(|kind| kind.as_bytes() == b"\"task\"");
        let mut call = Self {
            server,
            capabilities,
            answer: Answer::Task(String::new()),
            status: TaskStatus::Completed,
            message: None,
            interval: INTERVAL,
            state: State::Pausing(None),
            fault: None,
            given: BTreeSet::new(),
            inputs: 0,
        };
        call.answer = if is_task {
            let task = ExtensionTask::from_json(result).map_err(Error::Result)?;
            let id = task.task_id.clone();
            call.note(&task);
            Answer::Task(id)
        } else {
            Answer::Result(Box::new(call.read(result)?))
        };
        Ok(call)
    }

    /// What to do next.
    pub fn next_step(&mut self, now: Instant) -> TaskStep {
        if let Some(fault) = self.fault.take() {
            return TaskStep::Report(fault);
        }
        let id = match &self.answer {
            Answer::Result(result) => return TaskStep::Done(Ok(result.as_ref().clone())),
            Answer::Task(id) => id.as_str(),
        };
        let (state, step) = match mem::replace(&mut self.state, State::Polling) {
            State::Pausing(until) => {
                let until = until.unwrap_or(now + self.interval);
                let left = until.saturating_duration_since(now);
                if left.is_zero() {
                    (State::Polling, TaskStep::Request(polling(id)))
                } else {
                    (State::Pausing(Some(until)), TaskStep::Wait(left))
                }
            }
            State::Polling => (State::Polling, TaskStep::Request(polling(id))),
            State::Asking { asked, answers } => {
                let step = if let Some(Asked { method, params, .. }) = asked.last() {
                    TaskStep::Ask { method: method.clone(), params: params.clone() }
                } else {
                    let params = UpdateTaskRequestParams::new(id, answers.clone());
                    TaskStep::Request(Call::new(Method::TASKS_UPDATE).params(params).with_tasks())
                };
                (State::Asking { asked, answers }, step)
            }
            State::Cancelling(reason) => (State::Cancelling(reason), TaskStep::Request(cancelling(id))),
            State::Ended(outcome) => (State::Polling, TaskStep::Done(outcome.map(|result| *result))),
        };
        self.state = state;
        step
    }

    /// Handles the outcome of the request of [`TaskStep::Request`].
    pub fn handle(&mut self, outcome: Result<Json, Error>) {
        let state = mem::replace(&mut self.state, State::Polling);
        self.state = match (state, outcome) {
            // Whether the server has cancelled the task or not, it has no result without the input.
            (State::Cancelling(reason), _) => {
                let reason = Failed::NoInput { reason };
                State::Ended(Err(Error::Failed { server: (&*self.server).into(), reason }))
            }
            (_, Err(error)) => State::Ended(Err(error)),
            (State::Polling, Ok(result)) => self.on_polled(&result).unwrap_or_else(|error| State::Ended(Err(error))),
            (State::Asking { answers, .. }, Ok(_)) => {
                self.inputs += answers.entries.len();
                self.given.extend(answers.entries.into_keys());
                State::Pausing(None)
            }
            (state @ (State::Pausing(_) | State::Ended(_)), Ok(_)) => state,
        };
    }

    /// Handles the answer of the application to [`TaskStep::Ask`]. If it is an error, the task is cancelled: the protocol
    /// has no message that refuses input.
    ///
    /// Rules: MD-I-10.
    pub fn answer(&mut self, answer: Result<Json, ErrorObject>) {
        let State::Asking { asked, answers } = &mut self.state else { return };
        match answer {
            Ok(answer) => {
                if let Some(Asked { key, .. }) = asked.pop() {
                    answers.entries.insert(key, answer);
                }
            }
            Err(error) => self.state = State::Cancelling(NoInput::Refused { code: error.code() }),
        }
    }

    /// The request for the status of the task, whose result is passed to [`TaskCall::on_status`]; `None` if the server has
    /// answered without a task.
    #[must_use]
    pub fn status_request(&self) -> Option<Call> {
        self.id().map(polling)
    }

    /// Handles the result of [`TaskCall::status_request`].
    ///
    /// # Errors
    ///
    /// [`Error::Result`] if it does not have the form of a task.
    pub fn on_status(&mut self, result: &Json) -> Result<(), Error> {
        self.note(&ExtensionTask::from_json(result).map_err(Error::Result)?);
        Ok(())
    }

    /// The request that cancels the task; `None` if the server has answered without one. The notification for other
    /// requests does not cancel tasks.
    ///
    /// Rules: CX-05.
    #[must_use]
    pub fn cancellation(&self) -> Option<Call> {
        self.id().map(cancelling)
    }

    /// The id of the task; `None` if the server has answered without one. With it, everyone may fetch the result, unless
    /// clients are authenticated.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match &self.answer {
            Answer::Result(_) => None,
            Answer::Task(id) => Some(id.as_str()),
        }
    }

    /// The status, as the server has last stated it.
    #[must_use]
    pub const fn status(&self) -> &TaskStatus {
        &self.status
    }

    /// The text about what the tool is doing, as the server has last stated it.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Stores what the server states about the task.
    fn note(&mut self, task: &ExtensionTask) {
        self.status = task.status.clone();
        self.message.clone_from(&task.status_message);
        self.interval = interval(task.poll_interval_ms.as_ref());
        if matches!(self.state, State::Pausing(_)) && self.status != TaskStatus::Working {
            self.state = State::Polling;
        }
    }

    /// Reads the result of the tool.
    fn read(&mut self, result: &Json) -> Result<CallToolResult, Error> {
        let (result, fault) = read_result(result).map_err(Error::Result)?;
        self.fault = fault;
        Ok(result)
    }

    fn on_polled(&mut self, result: &Json) -> Result<State, Error> {
        let task = ExtensionTask::from_json(result).map_err(Error::Result)?;
        self.note(&task);
        match task.status {
            TaskStatus::Working => Ok(State::Pausing(None)),
            TaskStatus::InputRequired => Ok(self.on_input_required(task.input_requests.unwrap_or_default())),
            TaskStatus::Completed => {
                let result = task.result.ok_or(Error::Result(ModelError::expected("a task with its result")))?;
                Ok(State::Ended(Ok(Box::new(self.read(result.as_json())?))))
            }
            status @ (TaskStatus::Failed | TaskStatus::Cancelled | TaskStatus::Other(_) | _) => {
                let error = task.error.and_then(ErrorObject::from_json);
                Err(error.map_or(Error::TaskEnded { status }, Error::Server))
            }
        }
    }

    fn on_input_required(&mut self, mut requests: BTreeMap<String, InputRequest>) -> State {
        // The server may show a request until it has received the answer. Keys are not used again.
        self.given.retain(|key| requests.contains_key(key));
        requests.retain(|key, _| !self.given.contains(key));
        if requests.is_empty() {
            return State::Pausing(None);
        }
        if self.inputs + requests.len() > MAX_INPUTS {
            return State::Cancelling(NoInput::TooManyRounds { limit: MAX_INPUTS });
        }
        let mut asked = Vec::new();
        for (key, request) in requests.into_iter().rev() {
            match request.to_request().filter(|(method, _)| self.declares(method)) {
                Some((method, params)) => asked.push(Asked { key, method, params }),
                None => return State::Cancelling(NoInput::NotDeclared),
            }
        }
        State::Asking { asked, answers: InputResponses::new() }
    }

    /// Whether the client has declared that it can answer this method (MD-I-04).
    fn declares(&self, method: &Method) -> bool {
        let capability = method.facts().client_capability;
        capability.is_some_and(|name| self.capabilities.first_member(name).is_some())
    }
}

/// Omits the id.
impl fmt::Debug for TaskCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCall").field("status", &self.status).finish_non_exhaustive()
    }
}

fn polling(id: &str) -> Call {
    Call::new(Method::TASKS_GET).params(GetTaskRequestParams::new(id)).with_tasks()
}

fn cancelling(id: &str) -> Call {
    Call::new(Method::TASKS_CANCEL).params(CancelTaskRequestParams::new(id)).with_tasks()
}

/// The time between two requests that the server demands, within the limits.
fn interval(milliseconds: Option<&Number>) -> Duration {
    let (shortest, longest) = INTERVALS;
    let stated = milliseconds.map(Number::as_f64).filter(|stated| !stated.is_nan());
    let in_limits =
        |stated: f64| Duration::from_secs_f64((stated / 1000.0).clamp(shortest.as_secs_f64(), longest.as_secs_f64()));
    stated.map_or(INTERVAL, in_limits)
}

#[cfg(test)]
mod tests {
    use mcp_proto::ProtocolVersion;
    use mcp_proto::server::{Context, InputRequired, TaskId, TaskLimits, Tasks};

    use super::*;

    const UNIX: Duration = Duration::from_secs(1_800_000_000);

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn call_with(created: &str) -> TaskCall {
        TaskCall::new(&json(created), "the server".into(), json(r#"{"elicitation":{},"roots":{}}"#)).unwrap()
    }

    fn created() -> TaskCall {
        call_with(r#"{"resultType":"task","taskId":"t","status":"working"}"#)
    }

    /// A call that waits no longer, because the server answers with this status and these members.
    fn polled(more: &str) -> TaskCall {
        let mut call = created();
        assert_eq!(pause(&mut call), INTERVAL);
        assert_eq!(requested(&mut call), ("tasks/get".to_owned(), r#"{"taskId":"t"}"#.to_owned()));
        call.handle(Ok(json(&format!(r#"{{"taskId":"t","status":{more}}}"#))));
        call
    }

    /// How long the call waits, from the start on.
    fn pause(call: &mut TaskCall) -> Duration {
        let TaskStep::Wait(time) = call.next_step(Instant::START) else { panic!("a pause") };
        time
    }

    /// What is requested after every pause.
    fn requested(call: &mut TaskCall) -> (String, String) {
        let TaskStep::Request(request) = call.next_step(Instant::START + INTERVALS.1) else { panic!("a request") };
        (request.method().as_str().to_owned(), request.parameters().unwrap().to_text().into_owned())
    }

    fn asked(call: &mut TaskCall) -> String {
        let TaskStep::Ask { method, .. } = call.next_step(Instant::START) else { panic!("a request for input") };
        method.as_str().to_owned()
    }

    fn outcome(call: &mut TaskCall) -> Result<CallToolResult, Error> {
        let TaskStep::Done(outcome) = call.next_step(Instant::START) else { panic!("an outcome") };
        outcome
    }

    #[test]
    fn the_machine_of_a_server_and_that_of_a_client_complete_a_task() {
        let context = Context::new(ProtocolVersion::LATEST, Tasks::capabilities());
        let (mut tasks, id, mut now) = (Tasks::new(TaskLimits::default()), TaskId::new([1; 16]), Instant::START);
        let created = tasks.create(&id, &context, UNIX, now).unwrap();
        let mut call = TaskCall::new(&created, "the server".into(), json(r#"{"roots":{}}"#)).unwrap();
        let mut steps = Vec::new();
        let result = loop {
            assert!(steps.len() < 10, "{steps:?}");
            match call.next_step(now) {
                TaskStep::Wait(time) => {
                    steps.push("wait".to_owned());
                    now += time;
                    if steps.len() == 1 {
                        let roots = InputRequired::new().ask("a", "roots/list", Json::empty_object());
                        tasks.require_input(&id, &roots.ask("b", "roots/list", Json::empty_object()), now);
                    } else {
                        tasks.finish(&id, Ok(json(r#"{"content":[]}"#)), now);
                    }
                }
                TaskStep::Request(request) => {
                    steps.push(request.method().as_str().to_owned());
                    let answer = tasks.answer(request.method(), request.parameters(), &context, now).unwrap();
                    call.handle(answer.map_err(Error::Server));
                }
                TaskStep::Ask { method, .. } => {
                    steps.push(method.as_str().to_owned());
                    call.answer(Ok(json(r#"{"roots":[]}"#)));
                }
                TaskStep::Report(fault) => panic!("{fault}"),
                TaskStep::Done(outcome) => break outcome.unwrap(),
            }
        };
        assert_eq!(steps, ["wait", "tasks/get", "roots/list", "roots/list", "tasks/update", "wait", "tasks/get"]);
        assert!(result.content.is_empty());
        assert_eq!(call.status(), &TaskStatus::Completed);
    }

    #[test]
    fn an_answer_without_a_task_is_the_outcome() {
        let mut call = call_with(r#"{"content":[]}"#);
        assert!(call.id().is_none() && call.status_request().is_none() && call.cancellation().is_none());
        assert_eq!(call.status(), &TaskStatus::Completed);
        for _ in 0..2 {
            assert!(outcome(&mut call).unwrap().content.is_empty());
        }
        let call = TaskCall::new(&json(r#"{"resultType":"task"}"#), "the server".into(), Json::empty_object());
        assert!(matches!(call, Err(Error::Result(_))));
    }

    #[test]
    fn what_cannot_be_read_of_a_result_is_reported_once_before_the_outcome() {
        let result = r#"{"content":[{"type":"text","text":1}]}"#;
        for mut call in [call_with(result), polled(&format!(r#""completed","result":{result}"#))] {
            let TaskStep::Report(fault) = call.next_step(Instant::START) else { panic!("no report") };
            assert!(matches!(fault, Fault::UnreadableParts { entries: 1, members: 1, .. }), "{fault:?}");
            assert!(outcome(&mut call).unwrap().content.is_empty());
        }
    }

    #[test]
    fn a_task_that_has_ended_has_an_outcome_which_can_be_fetched_again() {
        for (status, expected) in [
            (r#""completed","result":{"content":[]}"#, "ok"),
            (r#""completed","result":{"content":[],"isError":true}"#, "ok"),
            (
                r#""completed""#,
                "the server's result does not have the form of this method's results: expected a task with its result",
            ),
            (r#""failed","error":{"code":7,"message":"m"}"#, "the server answered with error 7: m"),
            (r#""failed""#, "the server has ended the task without a result"),
            (r#""cancelled""#, "the task was cancelled"),
            (r#""lost""#, "the server has ended the task without a result"),
        ] {
            let mut call = polled(status);
            let text = outcome(&mut call).map_or_else(|error| error.to_string(), |_| "ok".to_owned());
            assert_eq!(text, expected, "{status}");
            assert_eq!(requested(&mut call).0, "tasks/get");
        }
        // A request that has failed says nothing about the task.
        let mut call = polled(r#""working""#);
        pause(&mut call);
        requested(&mut call);
        call.handle(Err(Error::Failed { server: "the server".into(), reason: Failed::Closed }));
        assert!(matches!(outcome(&mut call), Err(Error::Failed { .. })));
        call.handle(Ok(json(r#"{"taskId":"t","status":"completed","result":{"content":[]}}"#)));
        assert!(outcome(&mut call).is_ok());
    }

    #[test]
    fn the_server_is_asked_as_often_as_it_demands_within_limits() {
        for (stated, expected) in [
            ("", 1_000),
            (r#","pollIntervalMs":2500"#, 2_500),
            (r#","pollIntervalMs":0"#, 100),
            (r#","pollIntervalMs":-7"#, 100),
            (r#","pollIntervalMs":1e300"#, 60_000),
        ] {
            let mut call = polled(&format!(r#""working"{stated}"#));
            let expected = Duration::from_millis(expected);
            assert_eq!(pause(&mut call), expected, "{stated}");
            // A driver that waits again asks at the same time.
            let TaskStep::Wait(left) = call.next_step(Instant::START + expected / 4) else { panic!("a pause") };
            assert_eq!(left, expected * 3 / 4);
        }
        // What is known already is not waited for.
        let mut call = call_with(r#"{"resultType":"task","taskId":"t","status":"completed"}"#);
        assert_eq!(requested(&mut call).0, "tasks/get");
        let mut call = created();
        call.on_status(&json(r#"{"taskId":"t","status":"completed","statusMessage":"done"}"#)).unwrap();
        assert_eq!(call.message(), Some("done"));
        assert_eq!(requested(&mut call).0, "tasks/get");
    }

    const ROOTS: &str = r#"{"method":"roots/list"}"#;
    const FORM: &str = r#"{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}"#;

    #[test]
    fn input_is_given_once_and_a_refusal_cancels_the_task() {
        let required = format!(r#""input_required","inputRequests":{{"a":{FORM},"b":{ROOTS}}}"#);
        let mut call = polled(&required);
        assert_eq!(asked(&mut call), "elicitation/create");
        assert_eq!(asked(&mut call), "elicitation/create", "it is not answered yet");
        call.answer(Ok(json("1")));
        assert_eq!(asked(&mut call), "roots/list");
        call.answer(Ok(json("2")));
        let update = r#"{"taskId":"t","inputResponses":{"a":1,"b":2}}"#;
        assert_eq!(requested(&mut call), ("tasks/update".to_owned(), update.to_owned()));
        call.handle(Ok(Json::empty_object()));
        assert_eq!(pause(&mut call), INTERVAL);
        assert_eq!(requested(&mut call).0, "tasks/get");
        call.handle(Ok(json(&format!(r#"{{"taskId":"t","status":{required}}}"#))));
        assert_eq!(pause(&mut call), INTERVAL, "the answers are on their way");

        let mut call = polled(&required);
        asked(&mut call);
        call.answer(Err(ErrorObject::internal()));
        assert_eq!(requested(&mut call), ("tasks/cancel".to_owned(), r#"{"taskId":"t"}"#.to_owned()));
        call.handle(Err(Error::Server(ErrorObject::internal())));
        let Err(Error::Failed { reason, .. }) = outcome(&mut call) else { panic!("a failure") };
        assert_eq!(reason, Failed::NoInput { reason: NoInput::Refused { code: -32603 } });
    }

    #[test]
    fn md_i_04_a_server_that_asks_for_what_was_not_declared_or_without_end_gets_no_input() {
        for request in [
            r#"{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#,
            r#"{"method":"tools/call"}"#,
        ] {
            let mut call = polled(&format!(r#""input_required","inputRequests":{{"a":{request}}}"#));
            assert_eq!(requested(&mut call).0, "tasks/cancel", "{request}");
            call.handle(Ok(Json::empty_object()));
            let Err(Error::Failed { reason, .. }) = outcome(&mut call) else { panic!("a failure") };
            assert_eq!(reason, Failed::NoInput { reason: NoInput::NotDeclared }, "{request}");
        }
        let mut call = created();
        for round in 0..MAX_INPUTS {
            call.state = State::Polling;
            let required =
                format!(r#"{{"taskId":"t","status":"input_required","inputRequests":{{"{round}":{ROOTS}}}}}"#);
            call.handle(Ok(json(&required)));
            asked(&mut call);
            call.answer(Ok(json("1")));
            call.handle(Ok(Json::empty_object()));
            assert!(call.given.len() <= 2, "only what the server shows is kept");
        }
        call.state = State::Polling;
        call.handle(Ok(json(&format!(
            r#"{{"taskId":"t","status":"input_required","inputRequests":{{"x":{ROOTS}}}}}"#
        ))));
        assert_eq!(requested(&mut call).0, "tasks/cancel");
    }

    #[test]
    fn the_id_of_a_task_is_not_shown() {
        assert!(
            !format!("{:?}", call_with(r#"{"resultType":"task","taskId":"secret","status":"working"}"#))
                .contains("secret")
        );
    }
}
