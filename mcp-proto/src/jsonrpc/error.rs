//! The error member of a response.

use std::fmt;

use crate::json::Json;
use crate::json::string::quote_into;
use crate::jsonrpc::RequestId;
use crate::spec::{Method, ProtocolVersion, code};
use crate::text::escape_text;

/// The most characters of a message that are displayed (PX8).
const SHOWN: usize = 500;

/// A JSON-RPC error object: an integer code, a message, and optional data.
///
/// A received error is stored as its JSON text and can be forwarded unchanged, like every other payload. The `Debug`
/// form has the code and the message, escaped and shortened, because JSON-RPC intends the message for display; it omits
/// the data, which is payload.
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
///
/// Rules: JR-10.
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

    /// The answer to a request for a resource that does not exist, with the code of `version`, such as that of
    /// `IncomingRequest::version`. The URI becomes the data.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::{ErrorObject, ProtocolVersion, code};
    ///
    /// let error = ErrorObject::resource_not_found("file:///a", ProtocolVersion::V2025_11_25);
    /// assert_eq!(error.code(), code::RESOURCE_NOT_FOUND);
    /// let error = ErrorObject::resource_not_found("file:///a", ProtocolVersion::V2026_07_28);
    /// assert_eq!(error.code(), code::INVALID_PARAMS);
    /// assert_eq!(error.data().unwrap().as_bytes(), br#"{"uri":"file:///a"}"#);
    /// ```
    ///
    /// Rules: RULES 1.3.
    #[must_use]
    pub fn resource_not_found(uri: &str, version: ProtocolVersion) -> Self {
        let data = Json::empty_object().with_member("uri", &Json::from(uri));
        Self::with_data(version.rules().resource_not_found, "resource not found", &data)
    }

    /// The answer to a request that is refused because of overload.
    ///
    /// Rules: RP10.
    #[must_use]
    pub fn overloaded() -> Self {
        Self::new(code::INTERNAL_ERROR, "the server is overloaded; try again later")
    }

    /// The answer to a request that is refused because the server is being stopped.
    #[must_use]
    pub fn stopping() -> Self {
        Self::new(code::INTERNAL_ERROR, "the server is being stopped; try again later")
    }

    /// The answer to a subscription that is refused because the limit is reached.
    ///
    /// Rules: MD-L-14.
    #[must_use]
    pub fn too_many_subscriptions() -> Self {
        let text = "too many subscriptions at one time: as many as Limits::subscriptions allows, and over HTTP at most a quarter of \
                    max_connections";
        Self::new(code::INTERNAL_ERROR, text)
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
        Self { code, text: Json::from_valid_text(text.into()) }
    }

    /// The same error with another code.
    #[must_use]
    pub fn with_code(&self, code: i64) -> Self {
        Self { code, text: self.text.with_member("code", &Json::from(code)) }
    }

    /// Reads an error object; `None` if this is not an object, or lacks an integer code or a string message.
    ///
    /// Rules: RP5.
    #[must_use]
    pub fn from_json(text: Json) -> Option<Self> {
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

    /// The message for display, escaped and shortened.
    ///
    /// Rules: PX8.
    #[must_use]
    pub fn shown_message(&self) -> String {
        escape_text(&self.message(), SHOWN)
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
        write!(f, "ErrorObject({}, \"{}\")", self.code, self.shown_message())
    }
}

/// The error response to a request whose parameters do not have the shape of their type, with code
/// [`code::INVALID_PARAMS`] and the position in the text that was read. The text of the error itself is not sent, because
/// it may quote the text that was read.
///
/// An error without a position is one of writing, or of converting a tree. It becomes [`ErrorObject::internal`], because
/// the client may have no part in it.
///
/// # Example
///
/// ```
/// use mcp_proto::{ErrorObject, Json, code};
///
/// fn count(params: &Json) -> Result<u32, ErrorObject> {
///     Ok(params.read()?)
/// }
///
/// let error = count(&Json::from("secret")).unwrap_err();
/// assert_eq!((error.code(), error.message().contains("secret")), (code::INVALID_PARAMS, false));
/// ```
impl From<serde_json::Error> for ErrorObject {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        if line == 0 {
            return Self::internal();
        }
        Self::invalid_params(&format!("a value of another form is expected at line {line}, column {column}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn px8_the_debug_form_has_the_message_escaped_and_shortened_and_no_data() {
        let message = format!("no such tool\n\u{1b}[31m{}", "a".repeat(1000));
        let shown = format!("{:?}", ErrorObject::with_data(-32602, &message, &Json::from("secret")));
        assert!(shown.starts_with(r#"ErrorObject(-32602, "no such tool\n\u{1b}[31maaa"#), "{shown}");
        assert!(shown.ends_with("a…\")") && shown.chars().count() < 600 && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn an_error_of_serde_is_the_clients_only_if_it_has_a_position() {
        let read = serde_json::from_str::<u32>("{\n \"secret\"").unwrap_err();
        assert_eq!(
            ErrorObject::from(read).message(),
            "invalid params: a value of another form is expected at line 1, column 0",
        );
        for error in [
            serde_json::from_value::<u32>("secret".into()).unwrap_err(),
            Json::from_serialize(&std::collections::BTreeMap::from([(vec!["secret"], 1)])).unwrap_err(),
        ] {
            assert_eq!(ErrorObject::from(error), ErrorObject::internal());
        }
    }
}
