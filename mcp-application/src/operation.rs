//! What spans and metrics state about a request, by OpenTelemetry's semantic conventions for MCP.

use std::borrow::Cow;

use mcp_proto::client::Outcome;
use mcp_proto::server::RequestOutcome;
use mcp_proto::spec::Reference;
use mcp_proto::{ErrorObject, Excerpt, Json, Method, RequestId, code};

/// The upper bounds of the buckets of `mcp.server.operation.duration` and `mcp.client.operation.duration`, in seconds.
pub const DURATION_BUCKETS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The most characters of a method, or of the id of a request.
const MOST_CHARS: usize = 128;

/// A request without its payload, as spans and metrics describe it.
///
/// # Example
///
/// ```
/// use mcp_application::Operation;
/// use mcp_proto::{Json, Method};
///
/// let params = Json::parse(r#"{"name":"add","arguments":{"a":1}}"#)?;
/// let operation = Operation::new(&Method::TOOLS_CALL, Some(&params));
/// assert_eq!((operation.method(), operation.tool(), operation.prompt()), ("tools/call", Some("add"), None));
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub(crate) method: MethodName,
    target: Option<Excerpt>,
    refers_to: Option<Reference>,
}

/// The name of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MethodName {
    /// One of the specification.
    Standard(&'static str),
    /// Of an application, or made up by a peer.
    Other(Excerpt),
}

impl Operation {
    /// Describes a request.
    #[must_use]
    pub fn new(method: &Method, params: Option<&Json>) -> Self {
        let standard = Method::ALL.iter().find(|standard| *standard == method);
        Self {
            method: match standard {
                Some(standard) => MethodName::Standard(standard.as_str()),
                None => MethodName::Other(Excerpt::new(method.as_str(), MOST_CHARS)),
            },
            target: method.target(params),
            refers_to: method.facts().refers_to,
        }
    }

    /// `mcp.method.name`: the method, of which at most 128 characters are kept.
    #[must_use]
    pub fn method(&self) -> &str {
        match &self.method {
            MethodName::Standard(name) => name,
            MethodName::Other(name) => name.as_str(),
        }
    }

    /// `gen_ai.tool.name`: the tool that is called.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        self.named(Reference::Tool)
    }

    /// `gen_ai.prompt.name`: the prompt that is requested.
    #[must_use]
    pub fn prompt(&self) -> Option<&str> {
        self.named(Reference::Prompt)
    }

    /// `mcp.resource.scheme`: the scheme of the resource's URI. The conventions have the whole URI, which may be private.
    #[must_use]
    pub fn resource_scheme(&self) -> Option<&str> {
        self.named(Reference::Resource)
    }

    /// `gen_ai.operation.name`: `execute_tool` for a call of a tool.
    #[must_use]
    pub fn gen_ai_operation(&self) -> Option<&'static str> {
        (self.refers_to == Some(Reference::Tool)).then_some("execute_tool")
    }

    fn named(&self, by: Reference) -> Option<&str> {
        self.target.as_ref().filter(|_| self.refers_to == Some(by)).map(Excerpt::as_str)
    }
}

/// `jsonrpc.request.id`: the id without the quotes of JSON, of which at most 128 characters are kept.
///
/// # Example
///
/// ```
/// use mcp_application::request_id_text;
/// use mcp_proto::RequestId;
///
/// assert_eq!(request_id_text(&RequestId::from(7)).as_str(), "7");
/// assert_eq!(request_id_text(&RequestId::from("request-7")).as_str(), "request-7");
/// ```
#[must_use]
pub fn request_id_text(id: &RequestId) -> Excerpt {
    match id.as_str() {
        Some(text) => Excerpt::new(text, MOST_CHARS),
        None => Excerpt::new(&id.to_string(), MOST_CHARS),
    }
}

/// How a request has ended, as spans and metrics state it.
///
/// # Example
///
/// ```
/// use mcp_application::OperationEnd;
/// use mcp_proto::ErrorObject;
///
/// let refused = OperationEnd::of_answer(&Err(ErrorObject::invalid_params("unknown tool")));
/// assert_eq!((refused.outcome(), refused.error_type().as_deref()), ("error", Some("-32602")));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationEnd {
    outcome: &'static str,
    code: Option<i64>,
    has_failed: bool,
    /// The receiver knows the method, and the tool or prompt.
    pub(crate) is_known: bool,
}

impl OperationEnd {
    /// The client has cancelled the request, or has left.
    pub const CANCELLED: Self = Self { outcome: "cancelled", code: None, has_failed: true, is_known: false };

    /// The handler panicked, so that the client receives an internal error.
    pub const PANICKED: Self =
        Self { outcome: "panicked", code: Some(code::INTERNAL_ERROR), has_failed: true, is_known: false };

    /// The end of a request of which a handler returned this answer.
    #[must_use]
    pub fn of_answer(answer: &Result<Json, ErrorObject>) -> Self {
        Self::of(RequestOutcome::of_answer(answer))
    }

    /// The end of a request of which a client received this outcome.
    #[must_use]
    pub fn of_outcome(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Result(result) => Self::of(RequestOutcome::of_result(result)),
            Outcome::Error(error) => Self::of(RequestOutcome::Error(error.code())),
            Outcome::Failed(failed) => Self { outcome: failed.name(), code: None, has_failed: true, is_known: false },
        }
    }

    fn of(outcome: RequestOutcome) -> Self {
        let has_result = matches!(outcome, RequestOutcome::Result | RequestOutcome::InputRequired);
        Self {
            outcome: outcome.name(),
            code: outcome.error_code(),
            has_failed: !has_result,
            // A peer can invent names, but no results.
            is_known: has_result || outcome == RequestOutcome::ToolError,
        }
    }

    /// The name of the outcome: that of a [`RequestOutcome`] or of a [`Failed`](mcp_proto::Failed), or `panicked`.
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        self.outcome
    }

    /// `error.type`, if the request has failed: the code of the JSON-RPC error if there is one, otherwise the name of the
    /// outcome, such as `tool_error`, `cancelled` or `timed_out`.
    #[must_use]
    pub fn error_type(&self) -> Option<Cow<'static, str>> {
        match self.code {
            Some(code) => Some(code.to_string().into()),
            None => self.has_failed.then_some(self.outcome.into()),
        }
    }

    /// `rpc.response.status_code`: the code of the JSON-RPC error.
    #[must_use]
    pub const fn status_code(&self) -> Option<i64> {
        self.code
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::Failed;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).expect("JSON")
    }

    #[test]
    fn a_request_is_described_without_its_payload() {
        let long = "m".repeat(MOST_CHARS + 1);
        for (method, params, [tool, prompt, scheme]) in [
            ("tools/call", r#"{"name":"add","arguments":{"a":"secret"}}"#, [Some("add"), None, None]),
            ("tools/call", r#"{"arguments":"secret"}"#, [None; 3]),
            ("prompts/get", r#"{"name":"review","arguments":{"a":"secret"}}"#, [None, Some("review"), None]),
            ("resources/read", r#"{"uri":"file:///secret"}"#, [None, None, Some("file")]),
            ("tools/list", r#"{"name":"secret"}"#, [None; 3]),
            ("x/y", r#"{"name":"secret"}"#, [None; 3]),
            (long.as_str(), "{}", [None; 3]),
        ] {
            let operation = Operation::new(&method.into(), Some(&json(params)));
            assert_eq!((operation.tool(), operation.prompt(), operation.resource_scheme()), (tool, prompt, scheme));
            assert_eq!(operation.gen_ai_operation().is_some(), method == "tools/call");
            let shown = operation.method();
            assert!(shown == method || (shown.chars().count() == MOST_CHARS + 1 && shown.ends_with('…')), "{shown}");
            assert!(!format!("{operation:?}").contains("secret"), "{operation:?}");
        }
    }

    #[test]
    fn each_end_has_an_outcome_and_only_failures_have_an_error() {
        let answered = |text: &str| OperationEnd::of_answer(&Ok(json(text)));
        let received = |outcome| OperationEnd::of_outcome(&outcome);
        let error = || ErrorObject::new(-32000, "secret");
        for (end, outcome, error_type, is_known) in [
            (answered("{}"), "result", None, true),
            (answered(r#"{"isError":true}"#), "tool_error", Some("tool_error"), true),
            (answered(r#"{"resultType":"input_required"}"#), "input_required", None, true),
            (OperationEnd::of_answer(&Err(error())), "error", Some("-32000"), false),
            (OperationEnd::CANCELLED, "cancelled", Some("cancelled"), false),
            (OperationEnd::PANICKED, "panicked", Some("-32603"), false),
            (received(Outcome::Result(json("{}"))), "result", None, true),
            (received(Outcome::Error(error())), "error", Some("-32000"), false),
            (received(Outcome::Failed(Failed::Cancelled)), "cancelled", Some("cancelled"), false),
            (received(Outcome::Failed(Failed::StreamEnded)), "stream_ended", Some("stream_ended"), false),
        ] {
            assert_eq!((end.outcome(), end.error_type().as_deref(), end.is_known), (outcome, error_type, is_known));
            assert_eq!(
                end.status_code().map(|code| code.to_string()).as_deref(),
                error_type.filter(|it| it.starts_with('-'))
            );
        }
    }

    #[test]
    fn an_id_is_shown_as_text_of_limited_length() {
        for (id, shown) in [
            (RequestId::from(-3), "-3".to_owned()),
            (RequestId::from("a\n"), "a\\n".to_owned()),
            (RequestId::from("x".repeat(500).as_str()), format!("{}…", "x".repeat(MOST_CHARS))),
        ] {
            assert_eq!(request_id_text(&id).as_str(), shown);
        }
    }
}
