//! Why a request has no response.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::process_end::{ProcessEnd, StartFailure};
use super::refusal::Refusal;
use crate::json::JsonError;
use crate::jsonrpc::{ParseError, ParseErrorKind};
use crate::spec::header::BodyKind;
use crate::spec::{Method, ProtocolVersion};
use crate::text::Excerpt;

/// Why a request ended without a response from the peer.
///
/// The texts are predicates about the peer, which is the server for a client and the client for a server;
/// [`Failed::describe`] inserts the subject.
///
/// # Example
///
/// ```
/// use mcp_proto::Failed;
///
/// let failed = Failed::StreamEnded;
/// assert_eq!(failed.to_string(), "the peer ended the stream without an answer");
/// assert_eq!(
///     failed.describe("the server at http://localhost:3000/mcp"),
///     "the server at http://localhost:3000/mcp ended the stream without an answer",
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failed {
    /// No response arrived in time. The request was cancelled.
    TimedOut {
        /// How long the request waited.
        after: Duration,
    },
    /// The application cancelled the request.
    Cancelled,
    /// The request was certainly not delivered: no connection to the server could be made.
    Unreachable {
        /// A short description by the driver.
        detail: Box<str>,
    },
    /// The connection broke, and it is not known whether the request was executed.
    Broken {
        /// A short description by the driver.
        detail: Box<str>,
    },
    /// The stream ended regularly, but without the response.
    ///
    /// Rules: H1.
    StreamEnded,
    /// The server answered with an HTTP error and no JSON-RPC error.
    Refused(Refusal),
    /// The server accepted a request as if it were a notification, with a status that has no answer.
    ///
    /// Rules: SH-C-16, HT6.
    NoAnswer {
        /// The status.
        status: StatusCode,
    },
    /// The body is neither JSON nor a stream of events.
    ///
    /// Rules: HT5.
    ContentType {
        /// The kind of body.
        body: BodyKind,
    },
    /// The answer to GET is no stream of events.
    ///
    /// Rules: HT5.
    NotAStream {
        /// The kind of body.
        body: BodyKind,
    },
    /// The body is compressed although the client did not accept that.
    ///
    /// Rules: HT10.
    ContentEncoding,
    /// The answer is not a valid response to this request.
    ///
    /// Rules: RP5.
    InvalidResponse {
        /// What is wrong with it.
        reason: InvalidResponse,
    },
    /// The server redirects, and following it was not allowed.
    ///
    /// Rules: HT1, HT2.
    Redirected {
        /// Why it was not followed.
        reason: RedirectRefused,
        /// The target without user name and query, if the server sent one.
        to: Option<Excerpt>,
    },
    /// The answer is larger than the limit.
    ///
    /// Rules: SS1.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The session was lost while the request was in flight, so that it may or may not have been executed.
    ///
    /// Rules: HT9.
    SessionLost,
    /// The session was lost, and the server opened a new one with another revision.
    ///
    /// Rules: BR-T-07.
    VersionChanged {
        /// The revision of the new session.
        version: ProtocolVersion,
    },
    /// The server supports none of the revisions that this client is configured to use.
    ///
    /// Rules: LC-06.
    NoCommonVersion {
        /// The revisions that the client is configured to use.
        supported: Box<[ProtocolVersion]>,
    },
    /// The server's session id is invalid, so that it cannot be sent back.
    ///
    /// Rules: HT3.
    InvalidSessionId,
    /// The server's `endpoint` event contains a URL that must not be used.
    ///
    /// Rules: LE1.
    EndpointRejected {
        /// The URL without user name and query.
        endpoint: Excerpt,
    },
    /// The stream of a two-endpoint server did not begin with an `endpoint` event, or not in time.
    ///
    /// Rules: HS-02.
    NoEndpoint,
    /// The server required input that it does not get.
    ///
    /// Rules: MD-I-10.
    NoInput {
        /// Why not.
        reason: NoInput,
    },
    /// The server ended the subscription by cancelling it.
    ///
    /// Rules: A6.
    EndedByServer,
    /// The revision in use does not have this feature.
    NotInRevision {
        /// The revision.
        version: ProtocolVersion,
    },
    /// The server reads nothing, and the limit of unwritten bytes is reached; the request was not sent.
    QueueFull {
        /// `Limits::unwritten`, in bytes.
        limit: usize,
    },
    /// There was no room for this response, because all responses that have not arrived in full share a limit, which is
    /// reached.
    ///
    /// Rules: M3.
    NoRoom {
        /// `Limits::held`, in bytes.
        limit: usize,
    },
    /// The server demands authorization, and the message has waited for it in vain. The message was not processed.
    NotAuthorized {
        /// The answer with the demand, which another message may have received.
        refusal: Refusal,
        /// Why there is no authorization, and what to do about it. It may contain a URL to open.
        reason: Box<str>,
    },
    /// The process of the server ended before the response arrived.
    ProcessEnded {
        /// How it ended.
        end: ProcessEnd,
        /// The method of the request that was to open the connection, if the server has not answered it.
        opening: Option<Method>,
    },
    /// The process of the server could not be started.
    NotStarted(StartFailure),
    /// The server wrote too many lines that are not messages, and no message, so that the connection was closed.
    ///
    /// Rules: FR10.
    NoMessages {
        /// `Limits::garbage`, in lines within a minute.
        limit: usize,
    },
    /// The connection was closed before the response arrived.
    Closed,
}

impl Failed {
    /// The text with `peer` as its subject, such as `the server at https://example.com/mcp`.
    #[must_use]
    pub fn describe(&self, peer: &str) -> String {
        match self {
            Self::TimedOut { after } => format!("{peer} did not answer within {after:?}"),
            Self::Cancelled => "the request was cancelled".to_owned(),
            Self::Unreachable { detail } => format!("{peer} cannot be reached: {detail}"),
            Self::Broken { detail } => format!("{peer} broke the connection before it answered: {detail}"),
            Self::StreamEnded => format!("{peer} ended the stream without an answer"),
            Self::Refused(refusal) => format!("{peer} answered {refusal}"),
            Self::NoAnswer { status } => {
                format!("{peer} answered {status} and no result; it treated the request as a notification")
            }
            Self::ContentType { body } => format!("{peer} answered with {body} instead of JSON; is the path right?"),
            Self::NotAStream { body } => {
                format!("{peer} answered GET with {body} instead of a stream of events; is the path right?")
            }
            Self::ContentEncoding => format!("{peer} compressed its answer although it was asked not to"),
            Self::InvalidResponse { reason } => {
                format!("{peer} answered with something that is no valid response: {reason}")
            }
            Self::Redirected { reason, to: Some(to) } => format!("{peer} redirects to {to}, {reason}"),
            Self::Redirected { reason, to: None } => format!("{peer} redirects, {reason}"),
            Self::TooLarge { limit } => format!("{peer} answered with more than {limit} bytes"),
            Self::SessionLost => format!("{peer} lost the session; it is not known whether the request was served"),
            Self::VersionChanged { version } => {
                format!("{peer} lost the session and now uses revision {version}; start the client again")
            }
            Self::NoCommonVersion { supported } => {
                let supported: Vec<_> = supported.iter().map(|version| version.as_str()).collect();
                let supported = supported.join(", ");
                format!("{peer} supports none of the revisions of MCP that this client may use ({supported})")
            }
            Self::InvalidSessionId => format!("{peer} gave a session id that cannot be sent back"),
            Self::EndpointRejected { endpoint } => format!(
                "{peer} names {endpoint} as the endpoint for messages, which is on another origin or no URL, and is refused; \
                 if the server is behind a proxy, it has to know its public URL"
            ),
            Self::NoEndpoint => format!("{peer} did not name the endpoint for messages"),
            Self::NoInput { reason } => format!("{peer} required input that was not supplied: {reason}"),
            Self::EndedByServer => format!("{peer} ended the subscription"),
            Self::NotInRevision { version } => format!("{peer} uses revision {version}, which does not have this"),
            Self::QueueFull { limit } => {
                format!("{peer} does not read: {limit} bytes wait to be written to it, which is the limit")
            }
            Self::NoRoom { limit } => format!(
                "{peer} sends more than {limit} bytes of answers at one time; make fewer requests at one time, or \
                 allow for more bytes"
            ),
            Self::NotAuthorized { refusal, reason } => {
                format!("{peer} requires authorization, as its answer {} states: {reason}", refusal.status)
            }
            Self::ProcessEnded { end, opening: Some(method) } => {
                format!("{peer} {end} before it answered {method}; see its stderr for the reason")
            }
            Self::ProcessEnded { end, opening: None } => {
                format!("{peer} {end}; it is not known whether the request was served")
            }
            Self::NotStarted(failure) => {
                format!("{peer} could not be started: {failure}; the log of the program that starts it has more")
            }
            Self::NoMessages { limit } => format!(
                "{peer} wrote more than {limit} lines within a minute that are not MCP messages, and no message; is it an \
                 MCP server? Its log belongs on its stderr"
            ),
            Self::Closed => format!("the connection to {peer} was closed"),
        }
    }

    /// Whether the request certainly never reached the server, so that it is safe to send it again.
    #[must_use]
    pub const fn is_undelivered(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::QueueFull { .. } | Self::NotStarted(_))
    }

    /// Whether the whole connection has ended, and with it all requests.
    #[must_use]
    pub const fn is_end_of_connection(&self) -> bool {
        matches!(self, Self::ProcessEnded { .. } | Self::NotStarted(_) | Self::NoMessages { .. } | Self::Closed)
    }

    /// A short name by which programs can distinguish failures.
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
            Self::NotAStream { .. } => "not_a_stream",
            Self::ContentEncoding => "content_encoding",
            Self::InvalidResponse { .. } => "invalid_response",
            Self::Redirected { .. } => "redirected",
            Self::TooLarge { .. } => "too_large",
            Self::SessionLost => "session_lost",
            Self::VersionChanged { .. } => "version_changed",
            Self::NoCommonVersion { .. } => "no_common_version",
            Self::InvalidSessionId => "invalid_session_id",
            Self::EndpointRejected { .. } => "endpoint_rejected",
            Self::NoEndpoint => "no_endpoint",
            Self::NoInput { .. } => "no_input",
            Self::EndedByServer => "ended_by_server",
            Self::NotInRevision { .. } => "not_in_revision",
            Self::QueueFull { .. } => "queue_full",
            Self::NoRoom { .. } => "no_room",
            Self::NotAuthorized { .. } => "not_authorized",
            Self::ProcessEnded { .. } => "process_ended",
            Self::NotStarted(_) => "not_started",
            Self::NoMessages { .. } => "no_messages",
            Self::Closed => "closed",
        }
    }

    /// The HTTP status, if the failure is about one.
    #[must_use]
    pub const fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) | Self::NotAuthorized { refusal, .. } => Some(refusal.status),
            Self::NoAnswer { status } => Some(*status),
            Self::TimedOut { .. }
            | Self::Cancelled
            | Self::Unreachable { .. }
            | Self::Broken { .. }
            | Self::StreamEnded
            | Self::ContentType { .. }
            | Self::NotAStream { .. }
            | Self::ContentEncoding
            | Self::InvalidResponse { .. }
            | Self::Redirected { .. }
            | Self::TooLarge { .. }
            | Self::SessionLost
            | Self::VersionChanged { .. }
            | Self::NoCommonVersion { .. }
            | Self::InvalidSessionId
            | Self::EndpointRejected { .. }
            | Self::NoEndpoint
            | Self::NoInput { .. }
            | Self::EndedByServer
            | Self::NotInRevision { .. }
            | Self::QueueFull { .. }
            | Self::NoRoom { .. }
            | Self::ProcessEnded { .. }
            | Self::NotStarted(_)
            | Self::NoMessages { .. }
            | Self::Closed => None,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe("the peer"))
    }
}

impl std::error::Error for Failed {}

/// Why a request that requires input from the client did not get the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoInput {
    /// It requires a capability that this client did not declare.
    ///
    /// Rules: MD-I-04.
    #[error("the client did not declare that it can do that")]
    NotDeclared,
    /// The application answered with an error of this code.
    #[error("it was refused with error {code}")]
    Refused {
        /// The code.
        code: i64,
    },
    /// It required input more often than the limit allows.
    #[error("it required input {limit} times, which is the limit")]
    TooManyRounds {
        /// `Limits::input_rounds`.
        limit: usize,
    },
    /// Its input requests, or the state to be sent back, exceed the limit for all requests together.
    #[error("it needs more than the {limit} bytes that may be kept for all requests")]
    TooLarge {
        /// `Limits::held`, in bytes.
        limit: usize,
    },
    /// It contains more input requests than may be unanswered at one time.
    #[error("it required more than {limit} inputs at one time")]
    TooMuch {
        /// `Limits::requests_in`.
        limit: usize,
    },
}

/// What is wrong with a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidResponse {
    /// The text is not acceptable JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// JSON, but not a JSON-RPC response.
    #[error("it is no JSON-RPC response")]
    NotAResponse,
    /// A response to another request.
    #[error("it has another id than the request")]
    WrongId,
    /// A result with an unknown or undeclared `resultType`.
    ///
    /// Rules: JR-15.
    #[error("its 'resultType' is unknown")]
    ResultType,
    /// A result that requires input without stating which, or for a method that must not require any.
    ///
    /// Rules: MD-I-02, MD-I-01.
    #[error("it requires input without stating which, or for a method that takes none")]
    InputRequired,
    /// A result without a member that the method requires.
    #[error("a member is missing that every '{method}' result has")]
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
    /// It leads to another origin, to which no credentials may be sent.
    ///
    /// Rules: invariant 8.
    #[error("which is another origin, where no credentials may go; if that is the right server, use its URL instead")]
    CrossOrigin,
    /// It leads from `https` to `http`: mostly a server behind a proxy that ends TLS, which does not know its public URL.
    #[error(
        "which is not encrypted, and is refused; the server does not know its public URL, or has no such path: try the URL \
         with a slash at its end, or without"
    )]
    Unencrypted,
    /// The status is 301, 302 or 303, after which clients may repeat the request without its body.
    #[error("with a status that does not keep the message; use the new URL instead")]
    DropsBody,
    /// There is no usable `Location`.
    #[error("without a usable Location; is the path right?")]
    NoLocation,
    /// The limit of redirects is reached.
    #[error("after more redirects than are followed; is the path right?")]
    TooOften,
}
