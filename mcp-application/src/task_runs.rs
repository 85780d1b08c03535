//! The tasks of a server, and the functions that work on them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mcp_proto::server::{ChangeNotification, Context, InputRequired, TaskEvent, TaskId, TaskLimits, Tasks};
use mcp_proto::{ErrorObject, Instant, Json, Method};

/// The tasks of a server, and the functions that work on them. `W` stops a function; `I` passes input to a function that
/// waits for it, and is dropped if there will be none.
///
/// A function counts until it has returned, also if its task has ended before: so there are never more functions at one
/// time than [`TaskLimits::tasks`], and of one principal [`TaskLimits::tasks_of_principal`].
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use mcp_application::TaskRuns;
/// use mcp_proto::server::{Context, TaskId, TaskLimits};
/// use mcp_proto::{ErrorObject, Instant, Json};
///
/// # fn example(context: &Context, unix: Duration, now: Instant) -> Result<(), ErrorObject> {
/// let mut runs = TaskRuns::<(), ()>::new(TaskLimits::default());
/// let id = TaskId::new([7; 16]); // 16 random bytes
/// let answer_to_the_call = runs.create(&id, context, unix, now, || { /* start the function */ })?;
/// assert!(runs.is_running(&id));
/// runs.finish(&id, Ok(Json::empty_object()), now);
/// assert_eq!(runs.poll_notification().unwrap().notification().method.as_str(), "notifications/tasks");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TaskRuns<W, I> {
    limits: TaskLimits,
    tasks: Tasks,
    runs: BTreeMap<TaskId, Run<W, I>>,
    effects: VecDeque<TaskEffect<W, I>>,
    /// The tasks whose last change is not published yet.
    changed: BTreeSet<TaskId>,
}

/// A function that has not returned.
#[derive(Debug)]
struct Run<W, I> {
    /// The name of the principal that has created the task.
    owner: Option<Box<str>>,
    /// `None` once the task has ended.
    work: Option<W>,
    input: Option<I>,
}

/// What a driver does about a function.
#[derive(Debug)]
#[non_exhaustive]
pub enum TaskEffect<W, I> {
    /// The task has ended: the function should end, too. A driver that has ended it calls [`TaskRuns::stopped`].
    Stop {
        /// The task.
        task: TaskId,
        /// The driver's value that stops the function.
        work: W,
    },
    /// The client has given the input that the function waits for.
    Answer {
        /// The driver's value that passes the answers to the function.
        to: I,
        /// An object: each answer under the key of its request.
        answers: Json,
    },
}

impl<W, I> TaskRuns<W, I> {
    /// No tasks yet.
    #[must_use]
    pub fn new(limits: TaskLimits) -> Self {
        let tasks = Tasks::new(limits.clone());
        Self { limits, tasks, runs: BTreeMap::new(), effects: VecDeque::new(), changed: BTreeSet::new() }
    }

    /// Creates a task for a call, starts the function that works on it, and returns the answer to the call. `unix` is the
    /// time since 1970.
    ///
    /// # Errors
    ///
    /// The answer if the client cannot be given a task (-32021), or there are too many tasks or functions. The function was
    /// not started.
    pub fn create(
        &mut self,
        id: &TaskId,
        context: &Context,
        unix: Duration,
        now: Instant,
        start: impl FnOnce() -> W,
    ) -> Result<Json, ErrorObject> {
        let owner: Option<Box<str>> = context.principal.as_ref().map(|principal| principal.as_str().into());
        let own = self.runs.values().filter(|run| run.owner == owner).count();
        if self.runs.len() >= self.limits.tasks || own >= self.limits.tasks_of_principal {
            return Err(ErrorObject::overloaded());
        }
        let created = self.change(|tasks| tasks.create(id, context, unix, now))?;
        self.runs.insert(id.clone(), Run { owner, work: Some(start()), input: None });
        Ok(created)
    }

    /// Answers a request about a task; `None` for every other request.
    pub fn answer(
        &mut self,
        method: &Method,
        params: Option<&Json>,
        context: &Context,
        now: Instant,
    ) -> Option<Result<Json, ErrorObject>> {
        self.change(|tasks| tasks.answer(method, params, context, now))
    }

    /// A function requires input. Its keys are not those of earlier requests of the task. `input` is dropped if the client
    /// cannot be asked, because the task has ended, or there is no room.
    pub fn ask(&mut self, id: &TaskId, required: &InputRequired, input: I, now: Instant) {
        let is_asked = self.change(|tasks| tasks.require_input(id, required, now));
        if let Some(run) = self.runs.get_mut(id).filter(|_| is_asked) {
            run.input = Some(input);
        }
    }

    /// Sets the text about what the function of a task is doing.
    pub fn set_message(&mut self, id: &TaskId, message: &str, now: Instant) {
        self.change(|tasks| tasks.set_message(id, message, now));
    }

    /// A function has returned.
    pub fn finish(&mut self, id: &TaskId, outcome: Result<Json, ErrorObject>, now: Instant) {
        self.runs.remove(id);
        self.change(|tasks| tasks.finish(id, outcome, now));
    }

    /// A function was stopped, and does not return.
    pub fn stopped(&mut self, id: &TaskId) {
        self.runs.remove(id);
    }

    /// Whether a function works on the task, and the task has not ended.
    #[must_use]
    pub fn is_running(&self, id: &TaskId) -> bool {
        self.runs.get(id).is_some_and(|run| run.work.is_some())
    }

    /// What to do next about a function.
    pub fn poll_effect(&mut self) -> Option<TaskEffect<W, I>> {
        self.effects.pop_front()
    }

    /// Whether there is a change to publish.
    #[must_use]
    pub fn has_notification(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The next change to publish. Changes are published one after the other, so that the last one of a task arrives last.
    pub fn poll_notification(&mut self) -> Option<ChangeNotification> {
        loop {
            let task = self.changed.pop_first()?;
            // A task that was dropped has no status.
            if let Some(notification) = self.tasks.notification(&task) {
                return Some(notification);
            }
        }
    }

    /// When [`TaskRuns::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.tasks.poll_timeout()
    }

    /// Drops the tasks whose time is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.change(|tasks| tasks.handle_timeout(now));
    }

    /// Changes the tasks, and sorts what follows from it.
    fn change<T>(&mut self, change: impl FnOnce(&mut Tasks) -> T) -> T {
        let outcome = change(&mut self.tasks);
        while let Some(event) = self.tasks.poll_event() {
            match event {
                TaskEvent::Ended(task) => {
                    let Some(run) = self.runs.get_mut(&task) else { continue };
                    run.input = None;
                    if let Some(work) = run.work.take() {
                        self.effects.push_back(TaskEffect::Stop { task, work });
                    }
                }
                TaskEvent::Answered { task, answers } => {
                    if let Some(to) = self.runs.get_mut(&task).and_then(|run| run.input.take()) {
                        self.effects.push_back(TaskEffect::Answer { to, answers });
                    }
                }
                TaskEvent::Changed(task) => {
                    self.changed.insert(task);
                }
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::ProtocolVersion;
    use mcp_proto::server::Principal;

    use super::*;

    const UNIX: Duration = Duration::from_secs(1_800_000_000);

    fn context(principal: &str) -> Context {
        let mut context = Context::new(ProtocolVersion::LATEST, Tasks::capabilities());
        context.principal = Some(Principal::new(principal));
        context
    }

    fn at(seconds: u64) -> Instant {
        Instant::after_start(Duration::from_secs(seconds))
    }

    fn id(number: u8) -> TaskId {
        TaskId::new([number; 16])
    }

    fn request(runs: &mut TaskRuns<u8, char>, task: u8, method: &Method, more: &str, now: Instant) {
        let params = Json::parse(format!(r#"{{"taskId":"{}"{more}}}"#, id(task).as_str())).unwrap();
        runs.answer(method, Some(&params), &context("ada"), now).unwrap().unwrap();
    }

    fn with_task(limits: TaskLimits) -> TaskRuns<u8, char> {
        let mut runs = TaskRuns::new(limits);
        runs.create(&id(1), &context("ada"), UNIX, at(1), || 1).unwrap();
        runs
    }

    #[test]
    fn a_function_that_outlives_its_task_still_counts() {
        let mut limits = TaskLimits::default();
        (limits.tasks, limits.tasks_of_principal) = (3, 2);
        let mut runs = with_task(limits);
        let create = |runs: &mut TaskRuns<_, _>, number, principal| {
            runs.create(&id(number), &context(principal), UNIX, at(2), || number).is_ok()
        };
        request(&mut runs, 1, &Method::TASKS_CANCEL, "", at(2));
        assert!(matches!(runs.poll_effect(), Some(TaskEffect::Stop { work: 1, task }) if task == id(1)));
        assert!(!runs.is_running(&id(1)));
        assert!(create(&mut runs, 2, "ada") && !create(&mut runs, 3, "ada"), "two functions of one principal");
        assert!(create(&mut runs, 4, "bob") && !create(&mut runs, 5, "eve"), "three functions");
        runs.finish(&id(1), Ok(Json::empty_object()), at(3));
        assert!(create(&mut runs, 6, "eve"));
        request(&mut runs, 2, &Method::TASKS_CANCEL, "", at(3));
        assert!(!create(&mut runs, 7, "ada"));
        runs.stopped(&id(2));
        assert!(create(&mut runs, 7, "ada"));
    }

    #[test]
    fn input_reaches_the_function_that_waits_for_it_until_the_task_has_ended() {
        let mut runs = with_task(TaskLimits::default());
        let required = InputRequired::new().ask("a", "roots/list", Json::empty_object());
        runs.ask(&id(1), &required, 'i', at(2));
        request(&mut runs, 1, &Method::TASKS_UPDATE, r#","inputResponses":{"a":7}"#, at(3));
        let Some(TaskEffect::Answer { to: 'i', answers }) = runs.poll_effect() else { panic!("an answer") };
        assert_eq!(answers.to_text(), r#"{"a":7}"#);

        let required = InputRequired::new().ask("b", "roots/list", Json::empty_object());
        runs.ask(&id(1), &required, 'j', at(4));
        assert_eq!(runs.runs[&id(1)].input, Some('j'));
        runs.handle_timeout(at(601));
        assert!(matches!(runs.poll_effect(), Some(TaskEffect::Stop { .. })));
        assert_eq!(runs.runs[&id(1)].input, None, "the function waits no longer");
        runs.ask(&id(1), &required, 'k', at(602));
        assert_eq!(runs.runs[&id(1)].input, None, "the task has ended");
        assert!(runs.poll_effect().is_none() && runs.poll_timeout().is_none());
    }

    #[test]
    fn the_last_change_of_a_task_is_published_once() {
        let mut runs = with_task(TaskLimits::default());
        assert!(!runs.has_notification());
        for message in ["one", "two"] {
            runs.set_message(&id(1), message, at(2));
        }
        let params = runs.poll_notification().unwrap().notification().params.clone().unwrap();
        assert_eq!(params.first_member("statusMessage"), Some(Json::from("two")));
        assert_eq!(runs.poll_notification(), None);
        runs.set_message(&id(1), "three", at(3));
        runs.handle_timeout(at(601));
        assert!(runs.has_notification() && runs.poll_notification().is_none(), "the task was dropped");
    }
}
