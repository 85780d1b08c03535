//! What a server reports about each request that has ended: for logs, metrics and audits.

use std::collections::BTreeMap;
use std::time::Duration;

use super::principal::Principal;
use crate::Instant;
use crate::conversation::keys::TicketKey;
use crate::json::Json;
use crate::jsonrpc::ErrorObject;
use crate::spec::{Method, TraceContext};
use crate::text::Excerpt;

/// A request of a client that has ended, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedRequest {
    /// The request, with the key of its session.
    pub ticket: TicketKey,
    /// The authenticated client.
    pub principal: Option<Principal>,
    /// The method.
    pub method: Method,
    /// What the request is about ([`Method::target`]).
    pub target: Option<Excerpt>,
    /// How the request ended.
    pub outcome: RequestOutcome,
    /// From the arrival of the request to its end.
    pub duration: Duration,
    /// Bytes of its parameters.
    pub params_bytes: usize,
    /// Bytes of the result or the error.
    pub answer_bytes: usize,
    /// The trace to which the request belongs, as 32 hexadecimal digits.
    ///
    /// Rules: JR-20.
    pub trace_id: Option<Box<str>>,
}

/// How a request of a client ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// With a result.
    Result,
    /// With the result of a tool that states a failure of the tool (`isError`).
    ToolError,
    /// With a result that requires input from the client, which then makes a new request.
    InputRequired,
    /// With a JSON-RPC error of this code.
    Error(i64),
    /// The client has cancelled it.
    Cancelled,
    /// Its HTTP exchange or its session ended before the answer.
    Disconnected,
}

impl RequestOutcome {
    /// A stable name for logs and metrics; all errors have the same.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::ToolError => "tool_error",
            Self::InputRequired => "input_required",
            Self::Error(_) => "error",
            Self::Cancelled => "cancelled",
            Self::Disconnected => "disconnected",
        }
    }

    /// The code of the JSON-RPC error.
    #[must_use]
    pub const fn error_code(self) -> Option<i64> {
        if let Self::Error(code) = self { Some(code) } else { None }
    }

    /// How a request has ended that was answered so.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::RequestOutcome;
    /// use mcp_proto::{ErrorObject, Json};
    ///
    /// let failed = Json::parse(r#"{"content":[],"isError":true}"#)?;
    /// assert_eq!(RequestOutcome::of_answer(&Ok(failed)), RequestOutcome::ToolError);
    /// assert_eq!(RequestOutcome::of_answer(&Err(ErrorObject::internal())), RequestOutcome::Error(-32603));
    /// # Ok::<(), mcp_proto::JsonError>(())
    /// ```
    #[must_use]
    pub fn of_answer(answer: &Result<Json, ErrorObject>) -> Self {
        match answer {
            Ok(result) => Self::of_result(result),
            Err(error) => Self::Error(error.code()),
        }
    }

    /// How a request has ended that has this result: [`Self::Result`], [`Self::ToolError`] or [`Self::InputRequired`].
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Json;
    /// use mcp_proto::server::RequestOutcome;
    ///
    /// assert_eq!(RequestOutcome::of_result(&Json::empty_object()), RequestOutcome::Result);
    /// ```
    #[must_use]
    pub fn of_result(result: &Json) -> Self {
        let [kind, is_error] = result.first_members(["resultType", "isError"]);
        if is_error.is_some_and(|is_error| is_error.as_bytes() == b"true") {
            Self::ToolError
        } else if kind.is_some_and(|kind| kind.as_string().is_some_and(|kind| &*kind == "input_required")) {
            Self::InputRequired
        } else {
            Self::Result
        }
    }
}

/// The requests that have not ended.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    open: BTreeMap<TicketKey, Begun>,
    /// When the request began that is being handled again under another ticket.
    renewed: Option<Instant>,
}

/// What is known about a request from its beginning.
#[derive(Debug)]
struct Begun {
    principal: Option<Principal>,
    method: Method,
    target: Option<Excerpt>,
    at: Instant,
    params_bytes: usize,
    trace_id: Option<Box<str>>,
}

impl OpenRequests {
    pub(super) fn begin(
        &mut self,
        ticket: TicketKey,
        principal: Option<Principal>,
        method: &Method,
        params: Option<&Json>,
        now: Instant,
    ) {
        let begun = Begun {
            principal,
            method: method.clone(),
            target: method.target(params),
            at: self.renewed.take().unwrap_or(now),
            params_bytes: params.map_or(0, Json::len),
            trace_id: trace_id(params),
        };
        self.open.insert(ticket, begun);
    }

    /// The request was answered; `None` if it is not known.
    pub(super) fn answered(
        &mut self,
        ticket: TicketKey,
        answer: &Result<Json, ErrorObject>,
        now: Instant,
    ) -> Option<EndedRequest> {
        let begun = self.open.remove(&ticket)?;
        let bytes = match answer {
            Ok(result) => result.len(),
            Err(error) => error.as_json().len(),
        };
        Some(begun.ended(ticket, RequestOutcome::of_answer(answer), bytes, now))
    }

    /// The request has ended without an answer; `None` if it is not known.
    pub(super) fn end_unanswered(
        &mut self,
        ticket: TicketKey,
        outcome: RequestOutcome,
        now: Instant,
    ) -> Option<EndedRequest> {
        Some(self.open.remove(&ticket)?.ended(ticket, outcome, 0, now))
    }

    /// The request is handled again: it may begin once more, under another ticket, until `renewed` is called.
    pub(super) fn renew(&mut self, ticket: TicketKey) {
        self.renewed = self.open.remove(&ticket).map(|begun| begun.at);
    }

    /// A request was handled again.
    pub(super) const fn renewed(&mut self) {
        self.renewed = None;
    }
}

impl Begun {
    fn ended(self, ticket: TicketKey, outcome: RequestOutcome, answer_bytes: usize, now: Instant) -> EndedRequest {
        let Self { principal, method, target, at, params_bytes, trace_id } = self;
        let duration = now.saturating_duration_since(at);
        EndedRequest { ticket, principal, method, target, outcome, duration, params_bytes, answer_bytes, trace_id }
    }
}

/// The trace id in `traceparent` (W3C Trace Context, section 3.2).
fn trace_id(params: Option<&Json>) -> Option<Box<str>> {
    TraceContext::from_params(params).traceparent()?.split('-').nth(1).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::keys::SessionKey;

    #[test]
    fn a_request_is_kept_until_it_has_ended() {
        let ticket = |number| TicketKey::new(Some(SessionKey::FIRST), number);
        let mut requests = OpenRequests::default();
        for number in 0..3 {
            requests.begin(ticket(number), None, &Method::TOOLS_LIST, None, Instant::START);
        }
        let answer = Ok(Json::empty_object().clone());
        assert!(requests.answered(ticket(0), &answer, Instant::START).is_some());
        assert!(requests.answered(ticket(0), &answer, Instant::START).is_none());
        assert!(requests.end_unanswered(ticket(1), RequestOutcome::Cancelled, Instant::START).is_some());
        requests.renew(ticket(2));
        assert_eq!((requests.open.len(), requests.renewed), (0, Some(Instant::START)));
        requests.renewed();
        assert_eq!(requests.renewed, None);
    }
}
