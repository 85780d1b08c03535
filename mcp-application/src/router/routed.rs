//! A request whose handler was found: its arguments and its answer.

use std::collections::BTreeMap;
use std::fmt;

use mcp_model::CallToolResult;
#[cfg(feature = "validation")]
use mcp_model::Payload as _;
use mcp_proto::server::{HandlerError, HandlerFailure};
use mcp_proto::spec::structured;
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion, code};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::answer::IntoAnswer;
use super::arguments;
#[cfg(feature = "validation")]
use crate::validation::CheckedTool;

/// What a client wants to have completed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct CompletionInput {
    /// The text that its user has entered so far.
    pub value: String,
    /// The values of other arguments, which were completed before (since 2025-06-18).
    pub arguments: BTreeMap<String, String>,
}

/// A request whose handler was found. The driver reads the arguments, calls the handler, and makes the answer of what it
/// returns. Its `Debug` form contains nothing of the request but its size.
#[derive(Clone)]
pub struct RoutedCall {
    arguments: Json,
    target: Target,
    version: ProtocolVersion,
    /// Receives an error instead of the client, with the method of the request and the tool or the prompt.
    log_error: Option<fn(&str, &str)>,
    /// The schemas of the tool.
    #[cfg(feature = "validation")]
    schemas: Option<CheckedTool>,
}

/// The text that replaces that of an error.
const HIDDEN: &str = "the server has failed to do this; its log has the error";

#[derive(Clone)]
enum Target {
    Tool { name: String },
    Prompt { name: String },
    Resource { uri: String, mime_type: Option<Box<str>> },
    Extension { method: Method },
    Other,
}

impl fmt::Debug for RoutedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RoutedCall({} bytes)", self.arguments.len())
    }
}

impl RoutedCall {
    pub(super) const fn new(arguments: Json, version: ProtocolVersion) -> Self {
        Self {
            arguments,
            target: Target::Other,
            version,
            log_error: None,
            #[cfg(feature = "validation")]
            schemas: None,
        }
    }

    pub(super) fn tool(name: String, arguments: Json, version: ProtocolVersion) -> Self {
        Self { target: Target::Tool { name }, ..Self::new(arguments, version) }
    }

    pub(super) fn prompt(name: String, arguments: Json, version: ProtocolVersion) -> Self {
        Self { target: Target::Prompt { name }, ..Self::new(arguments, version) }
    }

    pub(super) fn resource(
        variables: Json,
        uri: String,
        mime_type: Option<Box<str>>,
        version: ProtocolVersion,
    ) -> Self {
        Self { target: Target::Resource { uri, mime_type }, ..Self::new(variables, version) }
    }

    pub(super) fn extended(params: Json, method: Method, version: ProtocolVersion) -> Self {
        Self { target: Target::Extension { method }, ..Self::new(params, version) }
    }

    /// Passes errors that are not meant for the client to this function.
    pub(super) const fn log_errors(mut self, log_error: Option<fn(&str, &str)>) -> Self {
        self.log_error = log_error;
        self
    }

    /// Validates the arguments and the result by these schemas.
    #[cfg(feature = "validation")]
    pub(super) fn checked_by(mut self, schemas: Option<CheckedTool>) -> Self {
        self.schemas = schemas;
        self
    }

    pub(super) fn resource_not_found(&self) -> ErrorObject {
        ErrorObject::resource_not_found(self.uri(), self.version)
    }

    /// Reads the arguments of a tool or a prompt, the variables of a resource template, or what is to be completed:
    /// an object. A number such as `5.0` is read for an integer; and the texts that are the arguments of a prompt and the
    /// variables of a template, for numbers and booleans.
    ///
    /// # Errors
    ///
    /// They do not have the shape of `A`. The text states the argument or the variable and what is wrong, and may quote
    /// them: it is for the client that has sent them.
    pub fn arguments<A: DeserializeOwned>(&self) -> Result<A, HandlerError> {
        let arguments = &self.arguments;
        match self.target {
            // The language model reads the text, and can correct its call.
            Target::Tool { .. } => {
                #[cfg(feature = "validation")]
                let arguments = &self.accepted_arguments()?;
                arguments::read(arguments).map_err(|reason| HandlerError::new(format!("invalid arguments: {reason}")))
            }
            Target::Prompt { .. } => arguments::read_texts(arguments)
                .map_err(|reason| ErrorObject::invalid_params(&format!("invalid arguments: {reason}")).into()),
            Target::Resource { .. } => arguments::read_texts(arguments)
                .map_err(|reason| ErrorObject::invalid_params(&format!("invalid variables: {reason}")).into()),
            Target::Extension { .. } => {
                arguments::read(arguments).map_err(|reason| ErrorObject::invalid_params(&reason).into())
            }
            Target::Other => arguments::read(arguments)
                .map_err(|reason| ErrorObject::invalid_params(&format!("invalid arguments: {reason}")).into()),
        }
    }

    /// The URI of the resource that is read; empty for other requests.
    #[must_use]
    pub fn uri(&self) -> &str {
        match &self.target {
            Target::Resource { uri, .. } => uri,
            Target::Tool { .. } | Target::Prompt { .. } | Target::Extension { .. } | Target::Other => "",
        }
    }

    /// The media type with which the resource was registered.
    #[must_use]
    pub fn mime_type(&self) -> Option<&str> {
        match &self.target {
            Target::Resource { mime_type, .. } => mime_type.as_deref(),
            Target::Tool { .. } | Target::Prompt { .. } | Target::Extension { .. } | Target::Other => None,
        }
    }

    /// Makes the answer to the request, whose type is `R`, of what its handler has returned.
    ///
    /// # Errors
    ///
    /// The error that is sent to the client.
    pub fn answer<R, O: IntoAnswer<R>>(&self, outcome: Result<O, HandlerError>) -> Result<Json, ErrorObject> {
        match outcome.map_err(HandlerError::into_failure) {
            Ok(output) => {
                let result = output.into_answer(self)?;
                #[cfg(feature = "validation")]
                self.check_result(&result)?;
                Ok(match self.target {
                    Target::Tool { .. } => structured::result_for(self.version, &Method::TOOLS_CALL, result),
                    Target::Prompt { .. } | Target::Resource { .. } | Target::Extension { .. } | Target::Other => {
                        result
                    }
                })
            }
            Err(HandlerFailure::Failed(text)) => self.failed(&text),
            Err(HandlerFailure::Error(text)) => match self.log_error {
                Some(log_error) => {
                    log_error(&self.request(), &text);
                    self.failed(HIDDEN)
                }
                None => self.failed(&text),
            },
            Err(HandlerFailure::InputRequired(required)) => Ok(required.into()),
            Err(HandlerFailure::Protocol(error)) => Err(error),
        }
    }

    #[cfg(feature = "validation")]
    fn accepted_arguments(&self) -> Result<Json, HandlerError> {
        let Some(schemas) = &self.schemas else { return Ok(self.arguments.clone()) };
        let accepted = schemas.accept_arguments(&self.arguments);
        accepted.map_err(|mismatch| HandlerError::new(format!("invalid arguments: {mismatch}")))
    }

    /// A mistake of the function, which its client cannot mend.
    #[cfg(feature = "validation")]
    fn check_result(&self, result: &Json) -> Result<(), ErrorObject> {
        let Some(schemas) = &self.schemas else { return Ok(()) };
        let mismatch = match CallToolResult::from_json(result) {
            Ok(result) => schemas.check_result(&result).err().map(|mismatch| mismatch.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let Some(mismatch) = mismatch else { return Ok(()) };
        let text = format!("the result of the tool does not conform to its outputSchema: {mismatch}");
        let Some(log_error) = self.log_error else { return Err(ErrorObject::new(code::INTERNAL_ERROR, &text)) };
        // It names members of the result.
        log_error(&self.request(), &text);
        Err(ErrorObject::new(code::INTERNAL_ERROR, HIDDEN))
    }

    fn failed(&self, text: &str) -> Result<Json, ErrorObject> {
        match self.target {
            Target::Tool { .. } => Ok(CallToolResult::error(text).into()),
            Target::Prompt { .. } | Target::Resource { .. } | Target::Extension { .. } | Target::Other => {
                Err(ErrorObject::new(code::INTERNAL_ERROR, text))
            }
        }
    }

    /// The method, with the tool or the prompt. The URI of a resource may be private.
    fn request(&self) -> String {
        match &self.target {
            Target::Tool { name } => format!("{} {name}", Method::TOOLS_CALL),
            Target::Prompt { name } => format!("{} {name}", Method::PROMPTS_GET),
            Target::Resource { .. } => Method::RESOURCES_READ.to_string(),
            Target::Extension { method } => method.to_string(),
            Target::Other => Method::COMPLETION_COMPLETE.to_string(),
        }
    }
}
