//! Input that a request requires from its client, as a result and as parameters (since 2026-07-28).

use std::collections::BTreeMap;

use mcp_proto::{Json, Method};

use super::common::RequestParams;
use super::define::{object, payload, union};
use super::elicitation::{ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams};
use super::error::ModelError;
use super::method::RequestMethod;
use super::object::{Reader, Value};
use super::sampling::CreateMessageRequestParams;
use super::value::Meta;
use super::{CallToolRequestParams, GetPromptRequestParams, Payload, ReadResourceRequestParams};

object! {
    /// A result that requires input: the client sends the request again, with the input and the state (MD-I-02).
    ///
    /// Servers of older revisions send requests instead; a handler of a server that returns this value works with
    /// clients of both kinds.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{ElicitRequestFormParams, InputRequiredResult, Payload, RequestedSchema};
    ///
    /// let form = ElicitRequestFormParams::new("Sure?", RequestedSchema::form());
    /// let result = InputRequiredResult::new().ask("sure", form).request_state("asked once");
    /// assert_eq!(
    ///     result.to_json().to_text(),
    ///     r#"{"resultType":"input_required","inputRequests":{"sure":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"asked once"}"#,
    /// );
    /// ```
    InputRequiredResult("resultType" = "input_required") {
        optional {
            /// The requests for input by key, which the server chooses.
            input_requests: BTreeMap<String, InputRequest> = "inputRequests",
            /// A state that the client returns unchanged (MD-I-07), and could alter (MD-I-12).
            request_state: String = "requestState",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

impl InputRequiredResult {
    /// Adds a request for input, whose response will have the same key.
    #[must_use]
    pub fn ask(mut self, key: &str, request: impl Into<InputRequest>) -> Self {
        self.input_requests.get_or_insert_default().insert(key.to_owned(), request.into());
        self
    }
}

union! {
    /// A request for input (MD-I-03).
    InputRequest("method") {
        /// Input from the client's user.
        Elicit(ElicitInputRequest) = "elicitation/create",
        /// A message from the client's language model.
        CreateMessage(CreateMessageInputRequest) = "sampling/createMessage",
        /// The client's roots.
        ListRoots(ListRootsInputRequest) = "roots/list",
    }
}

impl InputRequest {
    /// A request for the client's roots.
    #[must_use]
    pub fn list_roots() -> Self {
        Self::ListRoots(ListRootsInputRequest::new())
    }

    /// The method and the parameters, as those of a request of an older revision; `None` if they cannot be read.
    #[must_use]
    pub fn to_request(&self) -> Option<(Method, Option<Json>)> {
        match self {
            Self::Elicit(request) => Some((Method::ELICITATION_CREATE, Some(request.params.to_json()))),
            Self::CreateMessage(request) => Some((Method::SAMPLING_CREATE_MESSAGE, Some(request.params.to_json()))),
            Self::ListRoots(request) => Some((Method::ROOTS_LIST, request.params.as_ref().map(Payload::to_json))),
            Self::Other(json) => {
                let [method, params] = json.first_members(["method", "params"]);
                Some((Method::from(&*method.as_ref()?.as_string()?), params))
            }
        }
    }
}

macro_rules! from_params {
    ($($params:ident => $variant:ident($request:ident of $all:ident);)*) => {
        $(impl From<$params> for InputRequest {
            fn from(params: $params) -> Self {
                Self::$variant($request::new($all::from(params)))
            }
        })*
    };
}

from_params! {
    ElicitRequestParams => Elicit(ElicitInputRequest of ElicitRequestParams);
    ElicitRequestFormParams => Elicit(ElicitInputRequest of ElicitRequestParams);
    ElicitRequestURLParams => Elicit(ElicitInputRequest of ElicitRequestParams);
    CreateMessageRequestParams => CreateMessage(CreateMessageInputRequest of CreateMessageRequestParams);
}

object! {
    /// A request for input from the client's user.
    ElicitInputRequest("method" = "elicitation/create") {
        required {
            /// The parameters.
            params: Box<ElicitRequestParams> = "params",
        }
    }
}

object! {
    /// A request for a message from the client's language model.
    CreateMessageInputRequest("method" = "sampling/createMessage") {
        required {
            /// The parameters.
            params: Box<CreateMessageRequestParams> = "params",
        }
    }
}

object! {
    /// A request for the client's roots.
    ListRootsInputRequest("method" = "roots/list") {
        optional {
            /// The parameters, which have only metadata.
            params: RequestParams = "params",
        }
    }
}

/// The input that a client supplies, by the key of its request: results of the methods that were requested (MD-I-05).
///
/// An entry is parsed when it is read, because only the server has stored which method has which key.
///
/// # Example
///
/// ```
/// use mcp_model::{ElicitAction, ElicitRequest, ElicitResult, InputResponses};
///
/// let responses = InputResponses::new().with("sure", ElicitResult::decline());
/// let sure = responses.read::<ElicitRequest>("sure")?.expect("the response");
/// assert_eq!(sure.action, ElicitAction::Decline);
/// assert_eq!(responses.read::<ElicitRequest>("other")?, None);
/// # Ok::<(), mcp_model::ModelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InputResponses {
    /// All entries.
    pub entries: BTreeMap<String, Json>,
}

impl InputResponses {
    /// No input.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the input with this key.
    #[must_use]
    pub fn with(mut self, key: &str, response: impl Into<Json>) -> Self {
        self.entries.insert(key.to_owned(), response.into());
        self
    }

    /// Reads the input with this key, as the result of the method that was requested; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The input does not have the shape of that result.
    pub fn read<R: RequestMethod>(&self, key: &str) -> Result<Option<R::Result>, ModelError> {
        self.entries.get(key).map(R::Result::from_json).transpose().map_err(|error| error.inside(key))
    }
}

impl Value for InputResponses {
    fn read(json: &Json) -> Result<Self, ModelError> {
        Reader::new(json).map(|object| Self { entries: object.rest() })
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.entries.write(out);
    }
}

payload! { InputResponses }

macro_rules! input_response {
    ($($params:ident)*) => {
        $(impl $params {
            /// Reads the input with this key, as the result of the method that was requested; `None` if the client has
            /// supplied none, as with the first attempt of a request (MD-I-05).
            ///
            /// # Errors
            ///
            /// The input does not have the shape of that result (MD-I-11).
            ///
            /// # Example
            ///
            /// ```
            #[doc = concat!("use mcp_model::{", stringify!($params), ", ElicitRequest, ElicitRequestFormParams};")]
            /// use mcp_model::{InputRequiredResult, ModelError, RequestedSchema};
            ///
            #[doc = concat!("fn ask_once(params: &", stringify!($params), ") -> Result<Option<InputRequiredResult>, ModelError> {")]
            ///     if params.input_response::<ElicitRequest>("sure")?.is_some() {
            ///         return Ok(None);
            ///     }
            ///     let form = ElicitRequestFormParams::new("Sure?", RequestedSchema::form());
            ///     Ok(Some(InputRequiredResult::new().ask("sure", form)))
            /// }
            ///
            #[doc = concat!("assert!(ask_once(&", stringify!($params), "::new(\"a\"))?.is_some());")]
            /// # Ok::<(), ModelError>(())
            /// ```
            pub fn input_response<R: RequestMethod>(&self, key: &str) -> Result<Option<R::Result>, ModelError> {
                let Some(responses) = &self.input_responses else { return Ok(None) };
                responses.read::<R>(key).map_err(|error| error.inside("inputResponses"))
            }
        })*
    };
}

input_response! { CallToolRequestParams GetPromptRequestParams ReadResourceRequestParams }
