//! The error member of a response.

use std::fmt;

use crate::codec::json::Json;
use crate::codec::json::string::quote_into;
use crate::codec::jsonrpc::RequestId;
use crate::spec::{Method, code};

/// A JSON-RPC error object: an integer code, a message, and optional data (JR-10).
///
/// A received error is stored as its JSON text and can be forwarded unchanged, like every other payload.
///
/// # Example
///
/// ```
/// use mcp_proto::{ErrorObject, code};
///
/// let error = ErrorObject::new(code::INVALID_PARAMS, "unknown tool: \"frobnicate\"");
/// assert_eq!(error.code(), -32602);
/// assert_eq!(error.message(), "unknown tool: \"frobnicate\"");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorObject {
    code: i64,
    text: Json,
}

impl ErrorObject {
    /// An error without data.
    #[must_use]
    pub fn new(code: i64, message: &str) -> Self {
        Self::build(code, message, None)
    }

    /// The answer to a request for an unknown method.
    #[must_use]
    pub fn method_not_found(method: &Method) -> Self {
        Self::new(code::METHOD_NOT_FOUND, &format!("method not found: {method}"))
    }

    /// The answer to parameters that are invalid for the method; `reason` becomes part of the message.
    #[must_use]
    pub fn invalid_params(reason: &str) -> Self {
        Self::new(code::INVALID_PARAMS, &format!("invalid params: {reason}"))
    }

    /// The answer to a request that is refused because of overload (RP10).
    #[must_use]
    pub fn overloaded() -> Self {
        Self::new(code::INTERNAL_ERROR, "the server is overloaded; try again later")
    }

    /// The answer to a request that is refused because the server is being stopped.
    #[must_use]
    pub fn stopping() -> Self {
        Self::new(code::INTERNAL_ERROR, "the server is being stopped; try again later")
    }

    /// The answer to a subscription that is refused because the limit is reached (MD-L-14).
    #[must_use]
    pub fn too_many_subscriptions() -> Self {
        Self::new(code::INTERNAL_ERROR, "too many subscriptions at one time")
    }

    /// The answer to a request whose handler failed in a way that is not disclosed to the peer, such as a panic.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(code::INTERNAL_ERROR, "internal error")
    }

    /// An error with data.
    #[must_use]
    pub fn with_data(code: i64, message: &str, data: &Json) -> Self {
        Self::build(code, message, Some(data))
    }

    fn build(code: i64, message: &str, data: Option<&Json>) -> Self {
        let mut text = format!("{{\"code\":{code},\"message\":").into_bytes();
        quote_into(&mut text, message);
        if let Some(data) = data {
            text.extend_from_slice(b",\"data\":");
            text.extend_from_slice(data.as_bytes());
        }
        text.push(b'}');
        Self { code, text: Json::from_validated(text.into()) }
    }

    /// The same error with another code.
    #[must_use]
    pub fn with_code(&self, code: i64) -> Self {
        Self { code, text: self.text.with_member("code", &Json::from(code)) }
    }

    /// Reads an error object; `None` if this is not an object, or lacks an integer code or a string message (RP5).
    pub(crate) fn from_json(text: Json) -> Option<Self> {
        let code = text.member("code").ok()??;
        let code = RequestId::from_json_text(code.as_bytes())?.as_i64()?;
        text.member("message").ok()??.as_string()?;
        Some(Self { code, text })
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> i64 {
        self.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> String {
        let message = self.text.first_member("message");
        message.and_then(|text| text.as_string().map(std::borrow::Cow::into_owned)).unwrap_or_default()
    }

    /// The data, if there is any.
    #[must_use]
    pub fn data(&self) -> Option<Json> {
        self.text.first_member("data")
    }

    /// The whole object as JSON text, unchanged if it was received.
    #[must_use]
    pub const fn as_json(&self) -> &Json {
        &self.text
    }
}

impl fmt::Debug for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorObject({}, {} bytes)", self.code, self.text.len())
    }
}
