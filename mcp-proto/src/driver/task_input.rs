//! Input that the function of a task needs from the client.

use std::marker::PhantomData;

use crate::codec::json::Json;
use crate::codec::jsonrpc::ErrorObject;
use crate::conversation::call::Call;
use crate::conversation::outcome::Outcome;
use crate::model::{Payload, RequestMethod};
use crate::router::HandlerError;
use crate::server::InputRequired;

/// Input that the function of a task needs from the client: a request of the method `R`. If the client was given a task, it
/// finds the request there; else, the request is sent to it.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
/// use mcp_proto::driver::TaskInput;
/// use mcp_proto::model::{ListRootsRequest, RequestParams};
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
        Self::read(match outcome {
            Outcome::Result(answer) => Some(answer),
            Outcome::Error(_) | Outcome::Failed(_) => None,
        })
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
        let answer = answer.ok_or_else(|| HandlerError::new("the client did not give what the tool needs"))?;
        Ok(R::Result::from_json(&answer).map_err(ErrorObject::from)?)
    }
}
