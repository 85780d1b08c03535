//! Why a handler has no result.

use std::any::type_name;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use super::input::InputRequired;
use crate::jsonrpc::ErrorObject;
use crate::spec::code;

/// Why a handler has no result. Any error converts to it with `?`, also that of `anyhow`, and so does a text.
///
/// This type is not an [`Error`] itself, because then not every error could be converted to it.
///
/// | made by | a tool answers with | others answer with |
/// |---|---|---|
/// | `?` on a text, or [`HandlerError::new`] | a result with `isError`, which the language model reads | error -32603 with the text |
/// | `?` on an error | the same, with the text of the error and of its sources; or a text without the reason | the same in an error -32603 |
/// | `?` on [`InputRequired`] | the request for input | the same |
/// | `?` on an [`ErrorObject`] | this error | the same |
///
/// The text of an error of another crate may state what a client should not know, such as a path or an address. A router
/// has `hide_errors` for that: such a text is logged, and the client receives another one. Texts that the application
/// has written for the client, those of the first line, are sent in any case.
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
    /// A text that is meant for the client.
    Failed(String),
    /// The text of an error, with those of its sources. It may not be meant for the client.
    Error(String),
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
            HandlerFailure::Failed(text) | HandlerFailure::Error(text) => f.write_str(text),
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
        Self(if is_text::<E>() { HandlerFailure::Failed(text) } else { HandlerFailure::Error(text) })
    }
}

/// Whether the error is a text. The name of a type depends on the compiler, but is the same for the same type.
fn is_text<E>() -> bool {
    [type_name::<&str>(), type_name::<String>(), type_name::<Cow<'_, str>>()].contains(&type_name::<E>())
}

/// The error that a request without a tool is answered with. A handler that cannot require input has failed if it does.
impl From<HandlerFailure> for ErrorObject {
    fn from(failure: HandlerFailure) -> Self {
        match failure {
            HandlerFailure::Failed(text) | HandlerFailure::Error(text) => Self::new(code::INTERNAL_ERROR, &text),
            HandlerFailure::InputRequired(_) => Self::internal(),
            HandlerFailure::Protocol(error) => error,
        }
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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn only_texts_are_meant_for_the_client() {
        fn fails<E: Into<Box<dyn Error + Send + Sync>>>(error: E) -> HandlerFailure {
            HandlerError::from(error).into_failure()
        }
        let local = "a".to_owned();
        let texts = [fails("a"), fails(local.as_str()), fails(local.clone()), fails(Cow::Borrowed(local.as_str()))];
        for failure in texts.into_iter().chain([HandlerError::new("a").into_failure()]) {
            assert!(matches!(failure, HandlerFailure::Failed(text) if text == "a"));
        }
        let boxed: Box<dyn Error + Send + Sync> = "a".into();
        for failure in [fails(io::Error::other("a")), fails(boxed)] {
            assert!(matches!(failure, HandlerFailure::Error(text) if text == "a"));
        }
    }
}
