//! Why a handler has no result.

use std::error::Error;
use std::fmt;

use super::input::InputRequired;
use crate::jsonrpc::ErrorObject;

/// Why a handler has no result. Any error converts to it with `?`, and so does a text.
///
/// This type is not an [`Error`] itself, because then not every error could be converted to it.
///
/// | made by | a tool answers with | others answer with |
/// |---|---|---|
/// | `?` on an error, or [`HandlerError::new`] | a result with `isError`, which the language model reads | error -32603 with the text |
/// | `?` on [`InputRequired`] | the request for input | the same |
/// | `?` on an [`ErrorObject`] | this error | the same |
///
/// # Example
///
/// ```
/// use mcp_proto::server::HandlerError;
///
/// fn divide(a: i64, b: &str) -> Result<i64, HandlerError> {
///     let b: i64 = b.parse()?;
///     if b == 0 {
///         return Err("division by zero".into());
///     }
///     Ok(a / b)
/// }
///
/// assert!(divide(1, "2").is_ok());
/// assert_eq!(divide(1, "0").unwrap_err().to_string(), "division by zero");
/// assert_eq!(divide(1, "x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Debug)]
pub struct HandlerError(HandlerFailure);

/// What a [`HandlerError`] was made of.
#[derive(Debug)]
pub enum HandlerFailure {
    /// A text, which the client receives.
    Failed(String),
    /// The request for input.
    InputRequired(InputRequired),
    /// The error to answer with.
    Protocol(ErrorObject),
}

impl HandlerError {
    /// A failure with this text, which the client receives.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(HandlerFailure::Failed(text.into()))
    }

    /// The cause, for the code that sends the answer.
    #[must_use]
    pub fn into_failure(self) -> HandlerFailure {
        self.0
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HandlerFailure::Failed(text) => f.write_str(text),
            HandlerFailure::InputRequired(_) => f.write_str("input of the user is required"),
            HandlerFailure::Protocol(error) => f.write_str(&error.message()),
        }
    }
}

/// The text is that of the error and of its sources.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let cause = error.to_string();
            // Many errors contain the text of their source.
            if !text.contains(&cause) {
                text.push_str(": ");
                text.push_str(&cause);
            }
            source = error.source();
        }
        Self::new(text)
    }
}

impl From<ErrorObject> for HandlerError {
    fn from(error: ErrorObject) -> Self {
        Self(HandlerFailure::Protocol(error))
    }
}

impl From<InputRequired> for HandlerError {
    fn from(required: InputRequired) -> Self {
        Self(HandlerFailure::InputRequired(required))
    }
}
