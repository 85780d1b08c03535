//! Three kinds of trouble, kept apart by whose it is.
//!
//! * [`UsageError`] is yours: a command was wrong, and nothing happened.
//! * [`Fault`] is theirs: the peer did something that it should not, the machine coped, and tells.
//! * [`Failed`] is nobody's answer: a request ended without one, and this says why. It is a type of its own, so that a
//!   local failure can never be taken for an error that the peer sent (JR-50).

use std::fmt;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use crate::json::JsonError;
use crate::message::{Method, ParseError, ParseErrorKind, RequestId, code};
use crate::version::ProtocolVersion;

/// A command that cannot be carried out as given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// A limit is zero or larger than this crate can work with (CL5).
    #[error("the limit '{field}' must be at least 1 and at most {largest}")]
    Limit {
        /// The field of `Limits`.
        field: &'static str,
        /// The largest value that it may have.
        largest: usize,
    },
    /// The endpoint is no absolute `http` or `https` URL, or holds credentials.
    #[error("the endpoint must be an absolute http or https URL without user name or fragment")]
    Endpoint,
    /// The name or the value of a header has characters that no header may have.
    #[error("a header with that name or value cannot be sent")]
    Header,
    /// The header is one that the protocol sets itself (HT16).
    #[error("the header '{name}' is set by the protocol")]
    ReservedHeader {
        /// Its name.
        name: Box<str>,
    },
    /// `connect` was not called yet, or the connection could not be made.
    #[error("not connected")]
    NotConnected,
    /// `connect` was called before.
    #[error("already connected")]
    AlreadyConnected,
    /// The connection is closed, or is being closed (CL3).
    #[error("the connection is closed")]
    Closed,
    /// As many requests wait for their answers as the limit allows.
    #[error("{limit} requests wait for their answers")]
    TooManyRequests {
        /// `Limits::requests_out`.
        limit: usize,
    },
    /// The method is one that the machine sends itself, at its time.
    #[error("the method '{method}' is sent by the protocol itself")]
    ReservedMethod {
        /// Its name.
        method: Method,
    },
    /// Parameters must be an object (JR-12).
    #[error("parameters must be a JSON object")]
    ParamsNotAnObject,
    /// The code is reserved for the protocol in this revision (RP15).
    #[error("the error code {code} is reserved")]
    ReservedErrorCode {
        /// The code.
        code: i64,
    },
    /// The revision has no such thing.
    #[error("{what} does not exist in revision {version}")]
    NotInRevision {
        /// What was asked for.
        what: &'static str,
        /// The revision in force.
        version: ProtocolVersion,
    },
}

/// Something that the peer did wrong, and that did not stop the connection unless a `Closed` event says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A line, body or event is no JSON-RPC message. It was skipped, or answered if it was a request.
    #[error("{0}")]
    Parse(ParseError),
    /// The parameters of a message have two members of one name (JS6). A request was refused, a notification ignored.
    #[error("parameters with two members of one name")]
    DuplicateKey,
    /// A line was longer than the limit, and was skipped (FR1).
    #[error("a line longer than {limit} bytes was skipped")]
    LineTooLong {
        /// `Limits::message`.
        limit: usize,
    },
    /// The stream ended inside a line, which was dropped (FR9).
    #[error("the stream ended {bytes} bytes into a line")]
    Truncated {
        /// How much of the line had arrived.
        bytes: usize,
    },
    /// A response to a request that nobody sent, or that was answered before (RP1, RP2).
    #[error("a response to the unknown request {id}")]
    UnknownResponse {
        /// Its id.
        id: RequestId,
    },
    /// A response after the request was cancelled or timed out; swallowed (RP11, RP13).
    #[error("a late response to request {id}")]
    LateResponse {
        /// Its id.
        id: RequestId,
    },
    /// An error that answers no request (RP7).
    #[error("an error with code {code} that names no request")]
    PeerError {
        /// Its code.
        code: i64,
    },
    /// Progress for a token that no request in flight has (RP12).
    #[error("progress for an unknown token")]
    UnknownProgressToken,
    /// A request with the id of one that is not answered yet (RP4). Both are served.
    #[error("the id {id} is in use by another request")]
    DuplicateId {
        /// The id.
        id: RequestId,
    },
    /// A request of a kind that the peer may not send here; answered with an error (RP14).
    #[error("the request '{method}' is not allowed here")]
    UnexpectedRequest {
        /// Its method.
        method: Method,
    },
    /// A batch where the revision has none (JR-37).
    #[error("a batch where the revision has none")]
    UnexpectedBatch,
    /// As many requests of the peer are unanswered as the limit allows; this one was refused (RP10).
    #[error("{limit} requests of the peer are unanswered")]
    TooManyRequests {
        /// `Limits::requests_in`.
        limit: usize,
    },
    /// Notifications that the application did not take in time were dropped (RP9).
    #[error("{count} notifications were dropped because nobody took them")]
    Dropped {
        /// How many.
        count: u64,
    },
    /// The server did not accept a notification or a response.
    #[error("the server did not accept a message: {reason}")]
    NotAccepted {
        /// Why.
        reason: Failed,
    },
    /// The stream for messages of the server's own could not be opened, or was lost for good.
    #[error("no stream for the server's own messages: {reason}")]
    NoServerStream {
        /// Why.
        reason: Failed,
    },
    /// An SSE event of a type that means nothing here (EV-19).
    #[error("an event of an unknown type")]
    UnknownEvent,
    /// A session id in a response that may not set one (HT4).
    #[error("the session id changed in a later response")]
    SessionIdChanged,
    /// An `endpoint` event where none may come (LE2).
    #[error("a second endpoint event")]
    SecondEndpoint,
    /// The server could not be told to end the session.
    #[error("the session could not be ended: {reason}")]
    SessionNotEnded {
        /// Why.
        reason: Failed,
    },
}

impl Fault {
    /// The JSON-RPC code that answers it, where an answer is due.
    #[must_use]
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Parse(error) => Some(error.code()),
            Self::LineTooLong { .. } | Self::UnexpectedBatch => Some(code::INVALID_REQUEST),
            Self::UnexpectedRequest { .. } => Some(code::METHOD_NOT_FOUND),
            Self::TooManyRequests { .. } => Some(crate::message::BUSY),
            Self::DuplicateKey => Some(code::INVALID_PARAMS),
            Self::Truncated { .. }
            | Self::UnknownResponse { .. }
            | Self::LateResponse { .. }
            | Self::PeerError { .. }
            | Self::UnknownProgressToken
            | Self::DuplicateId { .. }
            | Self::Dropped { .. }
            | Self::NotAccepted { .. }
            | Self::NoServerStream { .. }
            | Self::UnknownEvent
            | Self::SessionIdChanged
            | Self::SecondEndpoint
            | Self::SessionNotEnded { .. } => None,
        }
    }
}

/// A deviation that was put up with, and that whoever looks after the server may want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum Quirk {
    /// A single request was answered with an array of one response.
    #[error("answers a single request with an array")]
    ResponseInArray,
    /// A notification was answered with something else than 202.
    #[error("answers a notification with another status than 202")]
    NotificationNotAccepted202,
    /// A lost session was reported as 400 instead of 404.
    #[error("reports a lost session with status 400 instead of 404")]
    SessionLostAsBadRequest,
    /// A GET for the server's own messages was answered with 404 instead of 405.
    #[error("answers GET with 404 instead of 405")]
    GetNotFound,
    /// A tool result has no `content`.
    #[error("a tool result has no 'content'")]
    ToolResultWithoutContent,
    /// A JSON-RPC message came in an event of another type than `message`.
    #[error("sends messages in events of another type than 'message'")]
    MessageInOtherEvent,
    /// The first revision, which has a transport of its own, was negotiated over Streamable HTTP.
    #[error("negotiates 2024-11-05 over Streamable HTTP")]
    FirstRevisionOverStreamableHttp,
    /// A body began with a byte order mark.
    #[error("begins a body with a byte order mark")]
    ByteOrderMark,
    /// An HTTP error explained itself with a JSON-RPC error whose id was not the request's.
    #[error("explains HTTP errors with a foreign request id")]
    ForeignErrorId,
}

/// Why a request ended without an answer of the peer.
///
/// The texts are predicates about the server: [`Failed::describe`] gives them a subject.
///
/// # Example
///
/// ```
/// use mcp_proto::Failed;
///
/// let failed = Failed::StreamEnded;
/// assert_eq!(failed.to_string(), "the server ended the stream without an answer");
/// assert_eq!(
///     failed.describe("the server at http://localhost:3000/mcp"),
///     "the server at http://localhost:3000/mcp ended the stream without an answer",
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failed {
    /// No answer came in time. The peer was told to stop.
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },
    /// The application cancelled the request.
    Cancelled,
    /// The request was surely not delivered: nothing answered where the server should be.
    Unreachable {
        /// What the driver saw, in a few words.
        detail: Box<str>,
    },
    /// The connection broke, and it is not known whether the request was served.
    Broken {
        /// What the driver saw, in a few words.
        detail: Box<str>,
    },
    /// The stream ended in good order, but without the answer (H1).
    StreamEnded,
    /// The server answered with an HTTP error and no JSON-RPC error.
    Refused(Refusal),
    /// The server accepted a request as if it were a notification (SH-C-16, HT6).
    NoAnswer {
        /// The status.
        status: StatusCode,
    },
    /// The body is neither JSON nor a stream of events (HT5).
    ContentType {
        /// What it is.
        body: BodyKind,
    },
    /// The body is compressed although that was not asked for (HT10).
    ContentEncoding,
    /// The answer is no valid response to this request (RP5).
    InvalidResponse {
        /// What is wrong with it.
        reason: InvalidResponse,
    },
    /// The server redirects, and following it was not allowed (HT1, HT2).
    Redirected {
        /// Why it was not followed.
        reason: RedirectRefused,
    },
    /// The answer is larger than the limit (SS1).
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The session was lost while the request was in flight (HT9).
    SessionLost,
    /// The session was lost, and the server that opened a new one now speaks another revision (BR-T-07).
    VersionChanged {
        /// The revision that it speaks now.
        version: ProtocolVersion,
    },
    /// The server answered `initialize` with a revision that this client does not know (LC-06).
    NoCommonVersion,
    /// The server's session id cannot be sent back (HT3).
    InvalidSessionId,
    /// The server wants its messages at a place that may not be used (LE1).
    EndpointRejected,
    /// The stream of a two-endpoint server did not begin with its endpoint (HS-02).
    NoEndpoint,
    /// The connection was closed before the answer came.
    Closed,
}

impl Failed {
    /// The text with `server` as its subject, such as `the server at https://example.com/mcp`.
    #[must_use]
    pub fn describe(&self, server: &str) -> String {
        match self {
            Self::TimedOut { after } => format!("{server} did not answer within {after:?}"),
            Self::Cancelled => "the request was cancelled".to_owned(),
            Self::Unreachable { detail } => format!("{server} cannot be reached: {detail}"),
            Self::Broken { detail } => format!("{server} broke the connection before it answered: {detail}"),
            Self::StreamEnded => format!("{server} ended the stream without an answer"),
            Self::Refused(refusal) => format!("{server} answered {refusal}"),
            Self::NoAnswer { status } => {
                format!("{server} answered {status} and no result; it took the request for a notification")
            }
            Self::ContentType { body } => format!("{server} answered with {body} instead of JSON; is the path right?"),
            Self::ContentEncoding => format!("{server} compressed its answer although it was asked not to"),
            Self::InvalidResponse { reason } => {
                format!("{server} answered with something that is no valid response: {reason}")
            }
            Self::Redirected { reason } => format!("{server} redirects elsewhere: {reason}"),
            Self::TooLarge { limit } => format!("{server} answered with more than {limit} bytes"),
            Self::SessionLost => format!("{server} lost the session; it is not known whether the request was served"),
            Self::VersionChanged { version } => {
                format!("{server} lost the session and now speaks revision {version}; start the client again")
            }
            Self::NoCommonVersion => format!("{server} speaks no revision of MCP that this client knows"),
            Self::InvalidSessionId => format!("{server} gave a session id that cannot be sent back"),
            Self::EndpointRejected => format!("{server} wants its messages on another origin, which is refused"),
            Self::NoEndpoint => format!("{server} did not name the endpoint for messages"),
            Self::Closed => "the connection was closed".to_owned(),
        }
    }

    /// Whether the request surely never reached the server, so that sending it again cannot do anything twice.
    #[must_use]
    pub const fn is_undelivered(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// A short name for programs to tell failures apart.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TimedOut { .. } => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Unreachable { .. } => "unreachable",
            Self::Broken { .. } => "broken",
            Self::StreamEnded => "stream_ended",
            Self::Refused(_) => "refused",
            Self::NoAnswer { .. } => "no_answer",
            Self::ContentType { .. } => "content_type",
            Self::ContentEncoding => "content_encoding",
            Self::InvalidResponse { .. } => "invalid_response",
            Self::Redirected { .. } => "redirected",
            Self::TooLarge { .. } => "too_large",
            Self::SessionLost => "session_lost",
            Self::VersionChanged { .. } => "version_changed",
            Self::NoCommonVersion => "no_common_version",
            Self::InvalidSessionId => "invalid_session_id",
            Self::EndpointRejected => "endpoint_rejected",
            Self::NoEndpoint => "no_endpoint",
            Self::Closed => "closed",
        }
    }

    /// The HTTP status that it came with, if that is what failed.
    #[must_use]
    pub const fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            Self::NoAnswer { status } => Some(*status),
            Self::TimedOut { .. }
            | Self::Cancelled
            | Self::Unreachable { .. }
            | Self::Broken { .. }
            | Self::StreamEnded
            | Self::ContentType { .. }
            | Self::ContentEncoding
            | Self::InvalidResponse { .. }
            | Self::Redirected { .. }
            | Self::TooLarge { .. }
            | Self::SessionLost
            | Self::VersionChanged { .. }
            | Self::NoCommonVersion
            | Self::InvalidSessionId
            | Self::EndpointRejected
            | Self::NoEndpoint
            | Self::Closed => None,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe("the server"))
    }
}

impl std::error::Error for Failed {}

/// An HTTP answer that refuses a message without saying why in JSON-RPC (HT8).
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// What the body is.
    pub body: BodyKind,
    /// How long the server asks to wait, from `Retry-After`.
    pub retry_after: Option<Duration>,
    /// All values of `WWW-Authenticate` (AU-14).
    pub challenges: Vec<HeaderValue>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        match self.status.as_u16() {
            401 => f.write_str("; it wants credentials, or other ones")?,
            403 => f.write_str("; these credentials are not allowed to do that")?,
            404 | 405 => write!(f, " with {}; is the path right?", self.body)?,
            _ => write!(f, " with {}", self.body)?,
        }
        if let Some(after) = self.retry_after {
            write!(f, "; it asks to wait {after:?}")?;
        }
        Ok(())
    }
}

/// Challenges may name tokens and users: the `Debug` form counts them.
impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("status", &self.status)
            .field("body", &self.body)
            .field("retry_after", &self.retry_after)
            .field("challenges", &self.challenges.len())
            .finish()
    }
}

/// What kind of body an HTTP answer has, as far as its headers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyKind {
    /// No body.
    #[error("no body")]
    Empty,
    /// `application/json`
    #[error("JSON")]
    Json,
    /// `text/event-stream`
    #[error("a stream of events")]
    EventStream,
    /// `text/html`
    #[error("an HTML page")]
    Html,
    /// `text/plain`
    #[error("plain text")]
    PlainText,
    /// Two `Content-Type` headers, or one that cannot be read.
    #[error("a body of unclear type")]
    Unclear,
    /// No `Content-Type` header.
    #[error("a body without a type")]
    Untyped,
    /// Anything else.
    #[error("a body of another type")]
    Other,
}

/// What is wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidResponse {
    /// The text is not acceptable JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// JSON, but no JSON-RPC response.
    #[error("it is no JSON-RPC response")]
    NotAResponse,
    /// A response to another request.
    #[error("it has another id than the request")]
    WrongId,
    /// A result that lacks what the method's results have.
    #[error("the result lacks what every '{method}' result has")]
    Incomplete {
        /// The method.
        method: &'static str,
    },
}

impl From<&ParseError> for InvalidResponse {
    fn from(error: &ParseError) -> Self {
        if let ParseErrorKind::Json(error) = error.kind { Self::Json(error) } else { Self::NotAResponse }
    }
}

/// Why a redirect was not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectRefused {
    /// It leads to another origin, where no credentials may go (invariant 8).
    #[error("to another origin; if that is right, use its URL instead")]
    CrossOrigin,
    /// 301, 302 and 303 make other clients drop the body.
    #[error("with a status that does not keep the message; use the new URL instead")]
    DropsBody,
    /// There is no usable `Location`.
    #[error("without saying where")]
    NoLocation,
    /// It was redirected as often as the limit allows.
    #[error("too often")]
    TooOften,
}
