//! Input that the function of a task needs from the client: one, or several at one time.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use mcp_model::{Payload, RequestMethod};
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::InputRequired;
use mcp_proto::{ErrorObject, Json};

use crate::router::HandlerError;

/// Input that the function of a task needs from the client: a request of the method `R`. If the client was given a task, it
/// finds the request there; else, the request is sent to it.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
/// use mcp_application::TaskInput;
/// use mcp_model::{ListRootsRequest, RequestParams};
///
/// let input = TaskInput::<ListRootsRequest>::new("roots", &RequestParams::new());
/// assert_eq!(input.call().method().as_str(), "roots/list");
/// let answers = Json::parse(r#"{"roots":{"roots":[]}}"#)?;
/// assert!(input.from_answers(Some(&answers)).unwrap().roots.is_empty());
/// assert!(input.from_answers(None).is_err());
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Debug)]
pub struct TaskInput<R> {
    key: Box<str>,
    params: Json,
    method: PhantomData<fn() -> R>,
}

impl<R: RequestMethod> TaskInput<R> {
    /// Input with this key, which is unique in the task.
    #[must_use]
    pub fn new(key: &str, params: &R::Params) -> Self {
        Self { key: key.into(), params: params.to_json(), method: PhantomData }
    }

    /// The request to a client that waits for the result.
    #[must_use]
    pub fn call(&self) -> Call {
        Call::new(R::METHOD).params(self.params.clone())
    }

    /// The requirement of the task.
    pub fn required(&self) -> InputRequired {
        InputRequired::new().ask(&self.key, R::METHOD, self.params.clone())
    }

    /// The input in the outcome of [`TaskInput::call`].
    ///
    /// # Errors
    ///
    /// The client has not given it, or it does not have the form of the method's results.
    pub fn from_outcome(&self, outcome: Outcome) -> Result<R::Result, HandlerError> {
        Self::read(answer_of(outcome))
    }

    /// The input in the answers that the client has given to the task; `None` if it has not, because the task has ended.
    ///
    /// # Errors
    ///
    /// As for [`TaskInput::from_outcome`].
    pub fn from_answers(&self, answers: Option<&Json>) -> Result<R::Result, HandlerError> {
        Self::read(answers.and_then(|answers| answers.first_member(&self.key)))
    }

    fn read(answer: Option<Json>) -> Result<R::Result, HandlerError> {
        let answer = answer.ok_or_else(not_given)?;
        Ok(R::Result::from_json(&answer).map_err(ErrorObject::from)?)
    }
}

/// Several inputs that the function of a task needs from the client at one time.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
/// use mcp_proto::client::Outcome;
/// use mcp_application::TaskInputs;
/// use mcp_proto::server::InputRequired;
///
/// let required = InputRequired::new().ask("a", "roots/list", Json::empty_object());
/// let mut inputs = TaskInputs::new(required);
/// let (key, call) = inputs.next_call().unwrap();
/// assert_eq!((&*key, call.method().as_str()), ("a", "roots/list"));
/// inputs.add(&key, Outcome::Result(Json::parse(r#"{"roots":[]}"#)?)).unwrap();
/// assert!(inputs.next_call().is_none());
/// assert_eq!(inputs.answers().to_text(), r#"{"a":{"roots":[]}}"#);
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Debug)]
pub struct TaskInputs {
    required: InputRequired,
    answers: BTreeMap<Box<str>, Json>,
}

impl TaskInputs {
    /// Nothing is answered yet.
    #[must_use]
    pub const fn new(required: InputRequired) -> Self {
        Self { required, answers: BTreeMap::new() }
    }

    /// The next request to a client that waits for the result, with its key; `None` once all are answered.
    #[must_use]
    pub fn next_call(&self) -> Option<(Box<str>, Call)> {
        let mut calls = self.required.calls();
        let (key, call) = calls.find(|(key, _)| !self.answers.contains_key(*key))?;
        Some((key.into(), call))
    }

    /// Adds the outcome of [`TaskInputs::next_call`].
    ///
    /// # Errors
    ///
    /// The client has not given this input.
    pub fn add(&mut self, key: &str, outcome: Outcome) -> Result<(), HandlerError> {
        let answer = answer_of(outcome).ok_or_else(not_given)?;
        self.answers.insert(key.into(), answer);
        Ok(())
    }

    /// The requirement of the task.
    pub const fn required(&self) -> &InputRequired {
        &self.required
    }

    /// The answers of [`TaskInputs::add`]: an object.
    #[must_use]
    pub fn answers(self) -> Json {
        let answers: Vec<_> = self.answers.iter().map(|(key, answer)| (&**key, answer)).collect();
        Json::empty_object().with_members(&answers)
    }

    /// The answers that the client has given to the task; `None` if it has not, because the task has ended.
    ///
    /// # Errors
    ///
    /// The client has not given them.
    pub fn from_answers(answers: Option<Json>) -> Result<Json, HandlerError> {
        answers.ok_or_else(not_given)
    }
}

fn answer_of(outcome: Outcome) -> Option<Json> {
    match outcome {
        Outcome::Result(answer) => Some(answer),
        Outcome::Error(_) | Outcome::Failed(_) => None,
    }
}

fn not_given() -> HandlerError {
    HandlerError::new("the client did not give what the tool needs")
}
