//! Tasks: calls whose results are fetched later, by the extension `io.modelcontextprotocol/tasks` of 2026-07-28
//! (RULES 8.9).
//!
//! | file | what it does |
//! |---|---|
//! | `task` | one task: its status, and how messages describe it |
//! | `timestamp` | times as text |

mod task;
mod timestamp;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use task::{Status, Task};

use super::change_notification::ChangeNotification;
use super::context::Context;
use super::input::InputRequired;
use super::principal::Principal;
use crate::conversation::keys::InstanceId;
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Notification};
use crate::spec::{Method, tasks_capability};
use crate::time::Instant;

/// The tasks of a server: a machine that answers `tasks/get`, `tasks/update` and `tasks/cancel`, and that keeps results
/// until they expire.
///
/// ```text
///            finish                 ┌────────────▶ completed, failed ─┐
///  create ──▶ working ──────────────┤                                 ├─ lifetime over ──▶ dropped
///               │  ▲                └─ tasks/cancel ─▶ cancelled ─────┘
///   require_input  │ tasks/update, with all answers
///               ▼  │
///          input_required
/// ```
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use mcp_proto::server::{TaskId, TaskLimits, Tasks};
/// use mcp_proto::{Instant, Json};
///
/// # fn example(context: &mcp_proto::server::Context, now: Instant) -> Result<(), mcp_proto::ErrorObject> {
/// let mut tasks = Tasks::new(TaskLimits::default());
/// let id = TaskId::new([7; 16]); // 16 random bytes
/// let answer_to_the_call = tasks.create(&id, context, Duration::from_secs(1_800_000_000), now)?;
/// tasks.finish(&id, Ok(Json::empty_object()), now);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Tasks {
    limits: TaskLimits,
    open: BTreeMap<TaskId, Task>,
    by_expiry: BTreeSet<(Instant, TaskId)>,
    events: VecDeque<TaskEvent>,
    /// The bytes of all results, requests for input and answers.
    bytes: usize,
}

/// How long tasks are kept, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLimits {
    /// How long a task is kept after it was created, whether it has ended or not. Default 10 min.
    pub lifetime: Duration,
    /// How often clients should ask for the status of a task. Default 1 s.
    pub poll_interval: Duration,
    /// The most tasks at one time. At the limit, an ended task of the principal with the most is dropped for a new one.
    /// Default 1024.
    pub tasks: usize,
    /// The most tasks of one principal, or of all clients without one. Default 256.
    ///
    /// Both numbers also limit the functions that work on tasks at one time (`TaskRuns` of the crate `mcp-application`): in
    /// `mcp-blocking` these are threads.
    pub tasks_of_principal: usize,
    /// The most bytes of all results, requests for input and answers. Default 16 MiB.
    pub bytes: usize,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(600),
            poll_interval: Duration::from_secs(1),
            tasks: 1024,
            tasks_of_principal: 256,
            bytes: 16 << 20,
        }
    }
}

/// The end of the id of a task whose changes are not published.
const UNPUBLISHED: &str = "-unpublished";

/// The id of a task. Unless clients are authenticated, everyone who knows the id may fetch the result, so that it must
/// not be guessable. Its `Debug` form does not show it.
///
/// Rules: SE-10.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(Arc<str>);

impl TaskId {
    /// An id of 16 random bytes from a secure source.
    #[must_use]
    pub fn new(random: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(random)).into())
    }

    /// An id for a task of this call, of 16 random bytes from a secure source. If the server shares a store with other
    /// instances, the id names the one that serves the call. The others pass requests about the task on to it.
    #[must_use]
    pub fn for_call(context: &Context, random: [u8; 16]) -> Self {
        let Self(random) = Self::new(random);
        Self(context.instance.map_or(random.clone(), |instance| format!("{instance}{random}").into()))
    }

    /// The id of a task whose changes are not published: [`Tasks::notification`] has none, and a subscription to the task is
    /// acknowledged without its id, so that its client asks for the status. A server need not notify, and a notification
    /// would contain the outcome.
    #[must_use]
    pub fn unpublished(self) -> Self {
        if Self::is_published(&self.0) { Self(format!("{}{UNPUBLISHED}", self.0).into()) } else { self }
    }

    pub(crate) fn is_published(id: &str) -> bool {
        !id.ends_with(UNPUBLISHED)
    }

    /// The instance that an id names.
    pub(crate) fn instance_of(id: &str) -> Option<InstanceId> {
        let id = id.strip_suffix(UNPUBLISHED).unwrap_or(id);
        let is_hex = id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let instance = id.get(..16).filter(|_| id.len() == 48 && is_hex)?;
        u64::from_str_radix(instance, 16).ok().map(InstanceId::new)
    }

    /// The id on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskId").finish_non_exhaustive()
    }
}

/// What an application does about a task, or publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent {
    /// The client has cancelled the task, or its time is over: its work ends.
    Ended(TaskId),
    /// The client has given all input that was required, by the keys of the requests for it.
    Answered {
        /// The task.
        task: TaskId,
        /// An object: each answer under the key of its request.
        answers: Json,
    },
    /// The status has changed: [`Tasks::notification`] is published to the subscribers of the task.
    Changed(TaskId),
}

impl Tasks {
    /// No tasks yet.
    #[must_use]
    pub const fn new(limits: TaskLimits) -> Self {
        Self { limits, open: BTreeMap::new(), by_expiry: BTreeSet::new(), events: VecDeque::new(), bytes: 0 }
    }

    /// The capability that the server declares, and that a client has declared if it is given tasks.
    #[must_use]
    pub fn capabilities() -> Json {
        tasks_capability()
    }

    /// Whether the client of this request supports tasks, so that it can be given one instead of a result.
    #[must_use]
    pub fn are_supported(context: &Context) -> bool {
        context.version.is_stateless() && context.require(&Self::capabilities()).is_ok()
    }

    /// Checks whether a function can ask the client of this request while it runs, although the client is given no task: in
    /// a session it can, without one only a client that has declared the extension.
    ///
    /// # Errors
    ///
    /// The answer to the request, which needs the extension (-32021).
    pub fn check_question(context: &Context) -> Result<(), ErrorObject> {
        if context.version.is_stateless() { context.require(&Self::capabilities()) } else { Ok(()) }
    }

    /// Creates a task for a call, and returns the answer to it. `unix` is the time since 1970.
    ///
    /// # Errors
    ///
    /// The answer if the client cannot be given a task (-32021), or there are too many tasks.
    pub fn create(
        &mut self,
        id: &TaskId,
        context: &Context,
        unix: Duration,
        now: Instant,
    ) -> Result<Json, ErrorObject> {
        context.require(&Self::capabilities())?;
        self.handle_timeout(now);
        // The owner is stored without the claims of its token.
        let owner = context.principal.as_ref().map(|principal| Principal::new(principal.as_str()));
        let own = self.open.values().filter(|task| task.owner == owner).count();
        let is_dropped = if own >= self.limits.tasks_of_principal {
            self.drop_ended(|task| task.owner == owner, |_, _| 1)
        } else {
            self.open.len() < self.limits.tasks || self.drop_ended(|_| true, |_, _| 1)
        };
        if !is_dropped {
            return Err(ErrorObject::overloaded());
        }
        let task =
            Task { owner, created: now, created_unix: unix, updated: now, message: None, status: Status::Working };
        let created = task.head(id, &self.limits).with_member("resultType", &Json::from("task"));
        self.by_expiry.insert((now + self.limits.lifetime, id.clone()));
        self.open.insert(id.clone(), task);
        Ok(created)
    }

    /// Answers a request about a task; `None` for a request of another method, or of an earlier revision, whose tasks
    /// are others.
    pub fn answer(
        &mut self,
        method: &Method,
        params: Option<&Json>,
        context: &Context,
        now: Instant,
    ) -> Option<Result<Json, ErrorObject>> {
        let request = Request::of(method).filter(|_| context.version.is_stateless())?;
        Some(self.answered(request, params, context, now))
    }

    fn answered(
        &mut self,
        request: Request,
        params: Option<&Json>,
        context: &Context,
        now: Instant,
    ) -> Result<Json, ErrorObject> {
        context.require(&Self::capabilities())?;
        self.handle_timeout(now);
        let [id, responses] =
            params.map(|params| params.first_members(["taskId", "inputResponses"])).unwrap_or_default();
        let id = id.as_ref().and_then(Json::as_string);
        let id = id.ok_or_else(|| ErrorObject::invalid_params("taskId: expected a string"))?;
        let found = self.open.get_key_value(&*id).filter(|(_, task)| task.owner == context.principal);
        let none = || ErrorObject::invalid_params("there is no task of this id, or its time is over");
        let (id, task) = found.map(|(id, task)| (id.clone(), task)).ok_or_else(none)?;
        match request {
            Request::Get => return Ok(task.describe(&id, &self.limits)),
            Request::Cancel => {
                if !task.status.has_ended() {
                    self.set(&id, Status::Cancelled, now);
                    self.events.push_back(TaskEvent::Ended(id));
                }
            }
            Request::Update => {
                let responses = responses.filter(Json::is_object);
                let responses =
                    responses.ok_or_else(|| ErrorObject::invalid_params("inputResponses: expected an object"))?;
                self.update(&id, &responses, now)?;
            }
        }
        Ok(Json::empty_object())
    }

    /// The client gives input; answers to other keys are ignored (MD-I-11).
    fn update(&mut self, id: &TaskId, responses: &Json, now: Instant) -> Result<(), ErrorObject> {
        let room = self.limits.bytes.saturating_sub(self.bytes);
        let Some(Task { status: Status::InputRequired { requests, answers }, .. }) = self.open.get_mut(id) else {
            return Ok(());
        };
        if responses.len() > room {
            return Err(ErrorObject::overloaded());
        }
        let mut given = Vec::new();
        for (key, answer) in responses.entries() {
            if let Some((key, request)) = key.and_then(|key| requests.remove_entry(&*key)) {
                self.bytes = self.bytes + answer.len() - request.len();
                // The answer is copied, so that the whole message is not kept (M3).
                answers.insert(key.clone(), answer.detached_from(usize::MAX));
                given.push(key);
            }
        }
        if given.is_empty() {
            return Ok(());
        }
        if !requests.is_empty() {
            self.changed(id, now);
            return Ok(());
        }
        let answers: Vec<_> = answers.iter().map(|(key, answer)| (&**key, answer)).collect();
        let answers = Json::empty_object().with_members(&answers);
        self.set(id, Status::Working, now);
        self.events.push_back(TaskEvent::Answered { task: id.clone(), answers });
        Ok(())
    }

    /// A task has ended. A task that was dropped or cancelled meanwhile is ignored.
    pub fn finish(&mut self, id: &TaskId, outcome: Result<Json, ErrorObject>, now: Instant) {
        if !self.is_running(id) {
            return;
        }
        let status = match outcome {
            // The function has ended, so that it could not receive the input.
            Ok(result) if InputRequired::read(&result).is_some() => Status::Failed(ErrorObject::internal()),
            Ok(result) if self.has_room_for(id, result.len()) => Status::Completed(result),
            Err(error) if self.has_room_for(id, error.as_json().len()) => Status::Failed(error),
            Ok(_) | Err(_) => Status::Failed(ErrorObject::overloaded()),
        };
        self.set(id, status, now);
    }

    /// A task needs input from its client. Its keys are not those of earlier requests of the task. Returns whether the
    /// client will be asked: not if the task has ended, or there is no room.
    pub fn require_input(&mut self, id: &TaskId, required: &InputRequired, now: Instant) -> bool {
        let requests: BTreeMap<Box<str>, Json> = required.requests().collect();
        let bytes = requests.iter().map(|(key, request)| key.len() + request.len()).sum();
        if requests.is_empty() || !self.is_running(id) || !self.has_room_for(id, bytes) {
            return false;
        }
        self.set(id, Status::InputRequired { requests, answers: BTreeMap::new() }, now);
        true
    }

    /// Sets the text about what the task is doing.
    pub fn set_message(&mut self, id: &TaskId, message: &str, now: Instant) {
        if self.is_running(id) {
            if let Some(task) = self.open.get_mut(id) {
                task.message = Some(message.into());
            }
            self.changed(id, now);
        }
    }

    fn is_running(&self, id: &TaskId) -> bool {
        self.open.get(id).is_some_and(|task| !task.status.has_ended())
    }

    /// Makes room for this many bytes of a task by dropping ended tasks. Returns whether there is room.
    fn has_room_for(&mut self, id: &TaskId, bytes: usize) -> bool {
        // Nothing is dropped for what cannot be kept anyway.
        if bytes > self.limits.bytes {
            return false;
        }
        while self.limits.bytes.saturating_sub(self.bytes) < bytes {
            let weight = |other: &TaskId, task: &Task| task.status.bytes() + if other == id { bytes } else { 0 };
            if !self.drop_ended(|task| task.status.bytes() > 0, weight) {
                return false;
            }
        }
        true
    }

    /// Drops an ended task of the principal whose tasks have the greatest weight together: the one that has not changed
    /// for longest. So a principal with many results drops its own first. Returns whether there was one.
    fn drop_ended(&mut self, may_drop: impl Fn(&Task) -> bool, weight: impl Fn(&TaskId, &Task) -> usize) -> bool {
        let mut weights = BTreeMap::<_, usize>::new();
        for (id, task) in &self.open {
            *weights.entry(&task.owner).or_default() += weight(id, task);
        }
        let droppable = self.open.iter().filter(|(_, task)| task.status.has_ended() && may_drop(task));
        let dropped = droppable.max_by_key(|(_, task)| (weights.get(&task.owner), Reverse(task.updated)));
        let dropped = dropped.map(|(id, _)| id.clone());
        if let Some(id) = &dropped {
            self.drop_task(id);
        }
        dropped.is_some()
    }

    fn set(&mut self, id: &TaskId, status: Status, now: Instant) {
        let Some(task) = self.open.get_mut(id) else { return };
        self.bytes = self.bytes + status.bytes() - task.status.bytes();
        task.status = status;
        self.changed(id, now);
    }

    fn changed(&mut self, id: &TaskId, now: Instant) {
        if let Some(task) = self.open.get_mut(id) {
            task.updated = now;
            self.events.push_back(TaskEvent::Changed(id.clone()));
        }
    }

    fn drop_task(&mut self, id: &TaskId) {
        if let Some(task) = self.open.remove(id) {
            self.bytes -= task.status.bytes();
            self.by_expiry.remove(&(task.created + self.limits.lifetime, id.clone()));
        }
    }

    /// `notifications/tasks` with the status of a task, for the principal that has created it; `None` if the task was
    /// dropped, or its id is [`TaskId::unpublished`].
    ///
    /// Rules: SE-10.
    #[must_use]
    pub fn notification(&self, id: &TaskId) -> Option<ChangeNotification> {
        let task = self.open.get(id).filter(|_| TaskId::is_published(&id.0))?;
        let notification = Notification::with_params(Method::TASKS, task.describe(id, &self.limits));
        Some(ChangeNotification::for_principal(notification, task.owner.as_ref()))
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<TaskEvent> {
        self.events.pop_front()
    }

    /// When [`Tasks::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.by_expiry.first().map(|(at, _)| *at)
    }

    /// Drops the tasks whose time is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, id)) = self.by_expiry.first().filter(|(at, _)| *at <= now).cloned() {
            if self.is_running(&id) {
                self.events.push_back(TaskEvent::Ended(id.clone()));
            }
            self.drop_task(&id);
        }
    }
}

/// A request about a task.
#[derive(Debug, Clone, Copy)]
enum Request {
    Get,
    Update,
    Cancel,
}

impl Request {
    fn of(method: &Method) -> Option<Self> {
        if *method == Method::TASKS_GET {
            Some(Self::Get)
        } else if *method == Method::TASKS_UPDATE {
            Some(Self::Update)
        } else if *method == Method::TASKS_CANCEL {
            Some(Self::Cancel)
        } else {
            None
        }
    }
}

impl std::borrow::Borrow<str> for TaskId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ProtocolVersion;

    const UNIX: Duration = Duration::from_secs(1_800_000_000);

    fn context(principal: Option<&str>) -> Context {
        Context {
            version: ProtocolVersion::LATEST,
            client_capabilities: Tasks::capabilities(),
            client_info: None,
            logging_level: None,
            principal: principal.map(Principal::new),
            instance: None,
        }
    }

    fn json(text: &'static str) -> Json {
        Json::parse(text).unwrap()
    }

    fn seconds(seconds: u64) -> Instant {
        Instant::after_start(Duration::from_secs(seconds))
    }

    fn id(number: u8) -> TaskId {
        TaskId::new([number; 16])
    }

    /// The answer to a request about the task 1.
    fn ask(tasks: &mut Tasks, method: &Method, more: &str, now: Instant) -> Result<Json, ErrorObject> {
        let params = Json::parse(format!(r#"{{"taskId":"{}"{more}}}"#, id(1).as_str())).unwrap();
        tasks.answer(method, Some(&params), &context(Some("ada")), now).unwrap()
    }

    fn status(tasks: &mut Tasks, now: Instant) -> String {
        let status = ask(tasks, &Method::TASKS_GET, "", now).unwrap().first_member("status").unwrap();
        status.as_string().unwrap().into_owned()
    }

    /// The events besides changes.
    fn events(tasks: &mut Tasks) -> Vec<TaskEvent> {
        let events = std::iter::from_fn(|| tasks.poll_event());
        events.filter(|event| !matches!(event, TaskEvent::Changed(_))).collect()
    }

    fn with_task() -> Tasks {
        let mut tasks = Tasks::new(TaskLimits::default());
        let created = tasks.create(&id(1), &context(Some("ada")), UNIX, seconds(1)).unwrap();
        let expected = r#"{"taskId":"01010101010101010101010101010101","status":"working","createdAt":"2027-01-15T08:00:00.000Z","lastUpdatedAt":"2027-01-15T08:00:00.000Z","ttlMs":600000,"pollIntervalMs":1000}"#;
        assert_eq!(created.first_member("resultType"), Some(Json::from("task")));
        assert_eq!(created.without_members(&["resultType"]).to_text(), expected);
        tasks
    }

    #[test]
    fn a_result_is_kept_until_the_time_of_its_task_is_over() {
        let mut tasks = with_task();
        assert_eq!(status(&mut tasks, seconds(2)), "working");
        tasks.set_message(&id(1), "half of it", seconds(3));
        tasks.finish(&id(1), Ok(json(r#"{"content":[]}"#)), seconds(61));
        tasks.finish(&id(1), Err(ErrorObject::internal()), seconds(62));
        let found = ask(&mut tasks, &Method::TASKS_GET, "", seconds(600)).unwrap();
        let [status, result, message, updated] =
            found.first_members(["status", "result", "statusMessage", "lastUpdatedAt"]).map(Option::unwrap);
        assert_eq!((status, result), (Json::from("completed"), json(r#"{"content":[]}"#)));
        assert_eq!((message, updated), (Json::from("half of it"), Json::from("2027-01-15T08:01:00.000Z")));
        assert_eq!(tasks.poll_timeout(), Some(seconds(601)));
        assert_eq!(ask(&mut tasks, &Method::TASKS_GET, "", seconds(601)).unwrap_err().code(), -32602);
        assert_eq!((tasks.bytes, tasks.poll_timeout(), events(&mut tasks)), (0, None, vec![]));
    }

    #[test]
    fn se_10_a_task_is_found_by_its_principal_only() {
        let mut tasks = with_task();
        let params = Json::parse(format!(r#"{{"taskId":"{}"}}"#, id(1).as_str())).unwrap();
        for (principal, is_found) in [(Some("ada"), true), (Some("bob"), false), (None, false)] {
            let answer = tasks.answer(&Method::TASKS_GET, Some(&params), &context(principal), seconds(2)).unwrap();
            assert_eq!(answer.is_ok(), is_found, "{principal:?}");
        }
        assert!(!format!("{:?}", id(1)).contains('1'));
    }

    #[test]
    fn se_10_the_changes_of_a_task_are_for_its_principal_only() {
        let principals = [Some("ada"), Some("bob"), None];
        for owner in principals {
            let mut tasks = Tasks::new(TaskLimits::default());
            tasks.create(&id(1), &context(owner), UNIX, seconds(1)).unwrap();
            let change = tasks.notification(&id(1)).unwrap();
            let receive = principals.map(|principal| change.is_for(principal.map(Principal::new).as_ref()));
            assert_eq!(receive, principals.map(|principal| principal == owner), "{owner:?}");
        }
    }

    #[test]
    fn a_task_with_an_unpublished_id_is_answered_for_and_has_no_notification() {
        let mut tasks = Tasks::new(TaskLimits::default());
        let context = Context { instance: Some(InstanceId::new(9)), ..context(Some("ada")) };
        let [published, unpublished] =
            [TaskId::for_call(&context, [1; 16]), TaskId::for_call(&context, [2; 16]).unpublished()];
        assert_eq!(unpublished.clone().unpublished(), unpublished);
        for (id, is_published) in [(published, true), (unpublished, false), (id(3), true), (id(4).unpublished(), false)]
        {
            tasks.create(&id, &context, UNIX, seconds(1)).unwrap();
            tasks.finish(&id, Ok(json(r#"{"content":[]}"#)), seconds(2));
            assert_eq!(tasks.notification(&id).is_some(), is_published, "{}", id.as_str());
            let params = Json::parse(format!(r#"{{"taskId":"{}"}}"#, id.as_str())).unwrap();
            let found = tasks.answer(&Method::TASKS_GET, Some(&params), &context, seconds(3)).unwrap().unwrap();
            assert!(found.first_member("result").is_some(), "{}", id.as_str());
            let instance = TaskId::instance_of(id.as_str());
            assert_eq!(instance, context.instance.filter(|_| id.as_str().len() > 47), "{}", id.as_str());
        }
    }

    #[test]
    fn a_client_gives_the_input_of_a_task_in_parts() {
        let mut tasks = with_task();
        let required = InputRequired::new().ask("a", "roots/list", json("{}")).ask("b", "roots/list", json("{}"));
        assert!(tasks.require_input(&id(1), &required, seconds(2)));
        let found = ask(&mut tasks, &Method::TASKS_GET, "", seconds(2)).unwrap();
        let requests = r#"{"a":{"params":{},"method":"roots/list"},"b":{"params":{},"method":"roots/list"}}"#;
        let read = |json: &Json| json.read::<serde_json::Value>().unwrap();
        assert_eq!(
            read(&found.first_member("inputRequests").unwrap()),
            serde_json::from_str::<serde_json::Value>(requests).unwrap()
        );

        let part = r#","inputResponses":{"b":{"roots":[]},"c":1}"#;
        assert_eq!(ask(&mut tasks, &Method::TASKS_UPDATE, part, seconds(3)), Ok(json("{}")));
        assert_eq!((status(&mut tasks, seconds(3)), events(&mut tasks)), ("input_required".to_owned(), vec![]));
        ask(&mut tasks, &Method::TASKS_UPDATE, r#","inputResponses":{"a":7,"b":8}"#, seconds(4)).unwrap();
        let [TaskEvent::Answered { task, answers }] = &events(&mut tasks)[..] else { panic!("one answer") };
        assert_eq!((task, read(answers)), (&id(1), serde_json::json!({ "a": 7, "b": { "roots": [] } })));
        assert_eq!((status(&mut tasks, seconds(4)), tasks.bytes), ("working".to_owned(), 0));
        assert_eq!(ask(&mut tasks, &Method::TASKS_UPDATE, "", seconds(5)).unwrap_err().code(), -32602);
    }

    #[test]
    fn a_task_ends_when_it_is_cancelled_or_its_time_is_over() {
        let mut tasks = with_task();
        for _ in 0..2 {
            assert_eq!(ask(&mut tasks, &Method::TASKS_CANCEL, "", seconds(2)), Ok(json("{}")));
        }
        tasks.finish(&id(1), Ok(json("{}")), seconds(3));
        assert!(!tasks.require_input(&id(1), &InputRequired::new().ask("a", "roots/list", json("{}")), seconds(3)));
        assert_eq!(
            (status(&mut tasks, seconds(3)), events(&mut tasks)),
            ("cancelled".to_owned(), vec![TaskEvent::Ended(id(1))])
        );

        let mut tasks = with_task();
        tasks.handle_timeout(seconds(601));
        assert_eq!(events(&mut tasks), [TaskEvent::Ended(id(1))]);
    }

    #[test]
    fn a_client_that_has_not_declared_the_extension_gets_no_task() {
        let mut tasks = Tasks::new(TaskLimits::default());
        let mut without = context(None);
        without.client_capabilities = json("{}");
        assert_eq!(tasks.create(&id(1), &without, UNIX, seconds(1)).unwrap_err().code(), -32021);
        let answer = tasks.answer(&Method::TASKS_GET, Some(&json(r#"{"taskId":"x"}"#)), &without, seconds(1));
        assert_eq!(answer.unwrap().unwrap_err().code(), -32021);
        let mut legacy = context(None);
        legacy.version = ProtocolVersion::LATEST_LEGACY;
        assert!(
            !Tasks::are_supported(&without) && !Tasks::are_supported(&legacy) && Tasks::are_supported(&context(None))
        );
        assert_eq!(tasks.answer(&Method::TASKS_GET, None, &legacy, seconds(1)), None);
        assert_eq!(tasks.answer(&Method::TOOLS_CALL, None, &context(None), seconds(1)), None);
    }

    #[test]
    fn tasks_and_their_bytes_are_limited_and_those_that_have_ended_are_dropped_first() {
        let limits = TaskLimits { tasks: 3, tasks_of_principal: 2, bytes: 10, ..TaskLimits::default() };
        let mut tasks = Tasks::new(limits);
        let create = |tasks: &mut Tasks, number, principal| {
            tasks.create(&id(number), &context(Some(principal)), UNIX, seconds(number.into())).is_ok()
        };
        assert!(create(&mut tasks, 1, "ada") && create(&mut tasks, 2, "ada") && create(&mut tasks, 3, "bob"));
        assert!(!create(&mut tasks, 4, "bob"), "all tasks run");
        tasks.finish(&id(3), Ok(json("[1,2,3]")), seconds(5));
        assert!(!create(&mut tasks, 6, "ada"), "the task that has ended is not hers");
        tasks.finish(&id(1), Ok(json("[4,5,6]")), seconds(7));
        assert!(!tasks.open.contains_key(&id(3)), "there was no room for both results");
        tasks.finish(&id(2), Ok(Json::from("more than ten bytes")), seconds(8));
        assert!(matches!(tasks.open[&id(2)].status, Status::Failed(_)), "there is no room at all");
        assert!(tasks.open.contains_key(&id(1)), "nothing is dropped for what cannot be kept");
        assert!(create(&mut tasks, 9, "ada") && tasks.open.len() <= 3);
    }

    #[test]
    fn the_principal_with_the_largest_results_drops_its_own_first() {
        let mut tasks = Tasks::new(TaskLimits { bytes: 20, ..TaskLimits::default() });
        for (number, principal, result) in [(1, "bob", "[1,2,3]"), (2, "ada", "[1,2,3]"), (3, "ada", "[1,2,3]")] {
            tasks.create(&id(number), &context(Some(principal)), UNIX, seconds(number.into())).unwrap();
            tasks.finish(&id(number), Ok(json(result)), seconds(number.into()));
        }
        let left: Vec<_> = tasks.open.keys().cloned().collect();
        assert_eq!(left, [id(1), id(3)]);
    }

    #[test]
    fn tasks_whose_time_is_over_make_room_for_new_ones() {
        let mut tasks = Tasks::new(TaskLimits { tasks: 1, ..TaskLimits::default() });
        let mut create = |number, now| tasks.create(&id(number), &context(None), UNIX, seconds(now)).is_ok();
        assert!(create(1, 1) && !create(2, 600) && create(3, 601));
    }

    #[test]
    fn a_task_fails_if_its_function_ends_with_a_request_for_input() {
        let mut tasks = with_task();
        let required = InputRequired::new().ask("a", "roots/list", json("{}"));
        tasks.finish(&id(1), Ok(required.into()), seconds(2));
        assert_eq!(status(&mut tasks, seconds(2)), "failed");
    }

    #[test]
    fn arbitrary_operations_keep_within_the_limits_and_count_what_is_stored() {
        let limits = TaskLimits { tasks: 6, tasks_of_principal: 4, bytes: 200, ..TaskLimits::default() };
        for seed in 1..200_u64 {
            let mut tasks = Tasks::new(limits.clone());
            let (mut state, mut now) = (seed, 1);
            // xorshift64
            let mut draw = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            for _ in 0..60 {
                let task = id(u8::try_from(draw(8)).unwrap());
                let context = context([None, Some("ada"), Some("bob")][usize::try_from(draw(3)).unwrap()]);
                now += draw(60);
                let now = seconds(now);
                match draw(6) {
                    0 if !tasks.open.contains_key(&task) => drop(tasks.create(&task, &context, UNIX, now)),
                    1 => tasks.finish(&task, Ok(Json::from(&*"r".repeat(usize::try_from(draw(120)).unwrap()))), now),
                    2 => {
                        let required = InputRequired::new().ask("a", "roots/list", json("{}"));
                        tasks.require_input(&task, &required.ask("b", "roots/list", json("{}")), now);
                    }
                    kind => {
                        let method = [Method::TASKS_UPDATE, Method::TASKS_CANCEL][usize::from(kind == 5)].clone();
                        let (key, answer) = (["a", "b", "c"][usize::try_from(draw(3)).unwrap()], "x".repeat(30));
                        let params =
                            format!(r#"{{"taskId":"{}","inputResponses":{{"{key}":"{answer}"}}}}"#, task.as_str());
                        let params = Json::parse(params).unwrap();
                        let _ = tasks.answer(&method, Some(&params), &context, now);
                    }
                }
                let stored: usize = tasks.open.values().map(|task| task.status.bytes()).sum();
                assert_eq!(tasks.bytes, stored, "seed {seed}");
                assert!(stored <= limits.bytes + 200 && tasks.open.len() <= limits.tasks, "seed {seed}: {stored}");
                assert_eq!(tasks.by_expiry.len(), tasks.open.len(), "seed {seed}");
            }
        }
    }
}
