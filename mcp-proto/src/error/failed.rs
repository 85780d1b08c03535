//! Why a request has no answer.

use std::fmt;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use crate::codec::json::JsonError;
use crate::codec::jsonrpc::{ParseError, ParseErrorKind};
use crate::codec::text::Excerpt;
use crate::spec::ProtocolVersion;

/// Why a request ended without an answer of the peer.
///
/// The texts are predicates about the peer, which is the server for a client and the client for a server:
/// [`Failed::describe`] gives them a subject.
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
        /// Where to, without user name and query, as far as the server says so.
        to: Option<Excerpt>,
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
    /// The server speaks no revision that this client may speak (LC-06).
    NoCommonVersion {
        /// The revisions that the client may speak.
        spoken: Box<[ProtocolVersion]>,
    },
    /// The server's session id cannot be sent back (HT3).
    InvalidSessionId,
    /// The server wants its messages at a place that may not be used (LE1).
    EndpointRejected,
    /// The stream of a two-endpoint server did not begin with its endpoint (HS-02).
    NoEndpoint,
    /// The server asked for input that it does not get (MD-I-10).
    NoInput {
        /// Why not.
        reason: NoInput,
    },
    /// The server ended the subscription by taking it back (A6).
    EndedByServer,
    /// The revision in force has no such thing.
    NotInRevision {
        /// The revision.
        version: ProtocolVersion,
    },
    /// The server reads nothing, and as much waits to be written to it as may; the request was not sent.
    QueueFull {
        /// `Limits::unwritten`, in bytes.
        limit: usize,
    },
    /// All answers that have not arrived in full are as large together as they may be, and this one found no room among
    /// them (M3).
    NoRoom {
        /// `Limits::held`, in bytes.
        limit: usize,
    },
    /// The connection was closed before the answer came.
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
                format!("{peer} answered {status} and no result; it took the request for a notification")
            }
            Self::ContentType { body } => format!("{peer} answered with {body} instead of JSON; is the path right?"),
            Self::ContentEncoding => format!("{peer} compressed its answer although it was asked not to"),
            Self::InvalidResponse { reason } => {
                format!("{peer} answered with something that is no valid response: {reason}")
            }
            Self::Redirected { reason, to: Some(to) } => format!("{peer} redirects to {to}, {reason}"),
            Self::Redirected { reason, to: None } => format!("{peer} redirects, {reason}"),
            Self::TooLarge { limit } => format!("{peer} answered with more than {limit} bytes"),
            Self::SessionLost => format!("{peer} lost the session; it is not known whether the request was served"),
            Self::VersionChanged { version } => {
                format!("{peer} lost the session and now speaks revision {version}; start the client again")
            }
            Self::NoCommonVersion { spoken } => {
                let spoken: Vec<_> = spoken.iter().map(|version| version.as_str()).collect();
                let spoken = spoken.join(", ");
                format!("{peer} speaks none of the revisions of MCP that this client is set to speak ({spoken})")
            }
            Self::InvalidSessionId => format!("{peer} gave a session id that cannot be sent back"),
            Self::EndpointRejected => format!("{peer} wants its messages on another origin, which is refused"),
            Self::NoEndpoint => format!("{peer} did not name the endpoint for messages"),
            Self::NoInput { reason } => format!("{peer} asked for input that it does not get: {reason}"),
            Self::EndedByServer => format!("{peer} ended the subscription"),
            Self::NotInRevision { version } => format!("{peer} speaks revision {version}, which has no such thing"),
            Self::QueueFull { limit } => {
                format!("{peer} does not read: up to {limit} bytes may wait to be written to it, and they do")
            }
            Self::NoRoom { limit } => format!(
                "{peer} sends more than {limit} bytes of answers at one time; make fewer requests at one time, or \
                 allow for more bytes"
            ),
            Self::Closed => format!("the connection to {peer} was closed"),
        }
    }

    /// Whether the request surely never reached the server, so that sending it again cannot do anything twice.
    #[must_use]
    pub const fn is_undelivered(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::QueueFull { .. })
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
            Self::NoCommonVersion { .. } => "no_common_version",
            Self::InvalidSessionId => "invalid_session_id",
            Self::EndpointRejected => "endpoint_rejected",
            Self::NoEndpoint => "no_endpoint",
            Self::NoInput { .. } => "no_input",
            Self::EndedByServer => "ended_by_server",
            Self::NotInRevision { .. } => "not_in_revision",
            Self::QueueFull { .. } => "queue_full",
            Self::NoRoom { .. } => "no_room",
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
            | Self::NoCommonVersion { .. }
            | Self::InvalidSessionId
            | Self::EndpointRejected
            | Self::NoEndpoint
            | Self::NoInput { .. }
            | Self::EndedByServer
            | Self::NotInRevision { .. }
            | Self::QueueFull { .. }
            | Self::NoRoom { .. }
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

/// Why a request that needs input does not get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoInput {
    /// It asks for what this client did not declare (MD-I-04).
    #[error("the client did not declare that it can do that")]
    NotDeclared,
    /// The application answered with an error of this code.
    #[error("it was refused with error {code}")]
    Refused {
        /// The code.
        code: i64,
    },
    /// It asked again and again.
    #[error("it asked {limit} times")]
    TooManyRounds {
        /// `Limits::input_rounds`.
        limit: usize,
    },
    /// What it asked for, or wants back, is larger than what may be kept for all requests.
    #[error("it needs more than the {limit} bytes that may be kept for all requests")]
    TooLarge {
        /// `Limits::held`, in bytes.
        limit: usize,
    },
    /// It asked for more than may be unanswered at one time.
    #[error("it asked for more than {limit} things")]
    TooMuch {
        /// `Limits::requests_in`.
        limit: usize,
    },
}

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
            407 => f.write_str("; an HTTP proxy on the way wants a user name and a password")?,
            404 | 405 => write!(f, " with {}; is the path right?", self.body)?,
            _ => write!(f, " with {}", self.body)?,
        }
        if let Some(after) = self.retry_after {
            write!(f, "; it asks to wait {after:?}")?;
        }
        for (position, challenge) in self.challenges().enumerate() {
            f.write_str(if position == 0 { "; its challenge is " } else { ", " })?;
            write!(f, "{challenge}")?;
        }
        Ok(())
    }
}

impl Refusal {
    /// The first challenges for people to read, each escaped and cut. They say how to get credentials, and hold none.
    pub fn challenges(&self) -> impl Iterator<Item = Excerpt> + '_ {
        let read = |value: &HeaderValue| Excerpt::new(&String::from_utf8_lossy(value.as_bytes()), CHALLENGE_CHARS);
        self.challenges.iter().take(SHOWN_CHALLENGES).map(read)
    }
}

/// Challenges that an error shows.
const SHOWN_CHALLENGES: usize = 4;
/// Characters of each.
const CHALLENGE_CHARS: usize = 300;

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
    /// A result of a kind that was not agreed on (JR-15).
    #[error("its 'resultType' is unknown")]
    ResultType,
    /// A result that requires input, and does not say which (MD-I-02), or where there is none (MD-I-01).
    #[error("it requires input in a way that there is not")]
    InputRequired,
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
    #[error("which is another origin, where no credentials may go; if that is the right server, use its URL instead")]
    CrossOrigin,
    /// 301, 302 and 303 make other clients drop the body.
    #[error("with a status that does not keep the message; use the new URL instead")]
    DropsBody,
    /// There is no usable `Location`.
    #[error("and does not say where; is the path right?")]
    NoLocation,
    /// It was redirected as often as the limit allows.
    #[error("after more redirects than are followed; is the path right?")]
    TooOften,
}
