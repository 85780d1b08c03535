//! Mistakes and deviations of the peer.

use super::Failed;
use crate::jsonrpc::{Oddities, ParseError, RequestId};
use crate::spec::Method;
use crate::spec::param_headers::InvalidAnnotation;
use crate::text::Excerpt;

/// A mistake of the peer, or messages that were lost because one side did not read in time. The connection continues
/// unless a `Closed` event follows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A line, body or event is not a JSON-RPC message. It was skipped, or answered if it was a request.
    #[error("{0}")]
    Parse(ParseError),
    /// A server on a byte stream printed a line that does not begin like a message; the line was skipped.
    ///
    /// Rules: FR10.
    #[error("a line on the server's stdout is not a message: {line} (a server must log to its stderr)")]
    NotAMessage {
        /// The beginning of the line.
        line: Excerpt,
    },
    /// Many lines within a minute were not messages, and were skipped. Those that follow the first ten are not
    /// reported, only their number at 100, at 1,000 and so on.
    ///
    /// Rules: FR10.
    #[error("{lines} lines within a minute were not messages, and were skipped")]
    NotMessages {
        /// The number of lines within the minute.
        lines: usize,
    },
    /// The parameters of a message have two members with the same name. A request was refused, a notification ignored.
    ///
    /// Rules: JS6.
    #[error("parameters with two members of the same name")]
    DuplicateKey,
    /// A line was longer than the limit, and was skipped.
    ///
    /// Rules: FR1.
    #[error("a line longer than {limit} bytes was skipped")]
    LineTooLong {
        /// `Limits::message`.
        limit: usize,
    },
    /// The stream ended inside a line, which was dropped.
    ///
    /// Rules: FR9.
    #[error("the stream ended {bytes} bytes into a line")]
    Truncated {
        /// Bytes of the line that had arrived.
        bytes: usize,
    },
    /// A response to a request that was not sent, or that was answered before.
    ///
    /// Rules: RP1, RP2.
    #[error("a response to the unknown request {id}")]
    UnknownResponse {
        /// Its id.
        id: RequestId,
    },
    /// A response after the request was cancelled or timed out; it was ignored.
    ///
    /// Rules: RP11, RP13.
    #[error("a late response to request {id}")]
    LateResponse {
        /// Its id.
        id: RequestId,
    },
    /// An error that answers no request.
    ///
    /// Rules: RP7.
    #[error("an error with code {code} that names no request")]
    PeerError {
        /// Its code.
        code: i64,
    },
    /// Progress with a token that belongs to no request in flight.
    ///
    /// Rules: RP12.
    #[error("progress for an unknown token")]
    UnknownProgressToken,
    /// A request with the id of one that is not answered yet. Both are served.
    ///
    /// Rules: RP4.
    #[error("the id {id} is in use by another request")]
    DuplicateId {
        /// The id.
        id: RequestId,
    },
    /// A request of a kind that the peer may not send here, or with the method of a notification; answered with an
    /// error.
    ///
    /// Rules: RP14.
    #[error("the request '{method}' is not allowed here")]
    UnexpectedRequest {
        /// Its method.
        method: Method,
    },
    /// A message without an id whose method is that of a request; it was dropped.
    ///
    /// Rules: JR-11.
    #[error("the request '{method}' had no id, and was dropped")]
    MissingId {
        /// Its method.
        method: Method,
    },
    /// A batch where the revision has none.
    ///
    /// Rules: JR-37.
    #[error("a batch, which this revision does not allow")]
    UnexpectedBatch,
    /// The limit of unanswered requests of the peer is reached; this one was refused.
    ///
    /// Rules: RP10.
    #[error("{limit} requests of the peer are unanswered, which is the limit; one more was refused")]
    TooManyRequests {
        /// `Limits::requests_in`, or `Limits::requests_in_total` for the requests of all clients of a server.
        limit: usize,
    },
    /// The limit of open subscriptions, of this client or of all, is reached; this one was refused.
    ///
    /// Rules: MD-L-14.
    #[error("as many subscriptions are open as the limits allow; one more was refused")]
    TooManySubscriptions,
    /// Notifications were dropped, because the application did not read the events in time.
    ///
    /// Rules: RP9.
    #[error("{count} notifications were dropped because the application did not take them in time")]
    Dropped {
        /// How many.
        count: u64,
    },
    /// Notifications were not sent, because the peer reads nothing and the limit of unwritten bytes is reached.
    ///
    /// Rules: K1.
    #[error("{count} notifications were not sent because the peer reads nothing")]
    NotWritten {
        /// How many since the last fault of this kind.
        count: u64,
    },
    /// The server did not accept a notification or a response.
    #[error("the server did not accept a message: {}", reason.describe("it"))]
    NotAccepted {
        /// Why.
        reason: Failed,
    },
    /// The stream for messages of the server that belong to no request could not be opened, or was lost permanently.
    #[error("no stream for the server's own messages: {}", reason.describe("the server"))]
    NoServerStream {
        /// Why.
        reason: Failed,
    },
    /// An SSE event of an unknown type, which was ignored.
    ///
    /// Rules: EV-19.
    #[error("an event of an unknown type")]
    UnknownEvent,
    /// A session id in a response that must not set one.
    ///
    /// Rules: HT4.
    #[error("the session id changed in a later response")]
    SessionIdChanged,
    /// An `endpoint` event where none is allowed.
    ///
    /// Rules: LE2.
    #[error("a second endpoint event")]
    SecondEndpoint,
    /// A tool cannot be called over HTTP, and was removed from the list.
    ///
    /// Rules: MD-P-05.
    #[error("the tool {tool:?} was taken out of the list: {reason}")]
    InvalidTool {
        /// Its name, or the beginning of it.
        tool: Box<str>,
        /// Why not.
        reason: InvalidAnnotation,
    },
    /// Parts of a typed result do not have the form of the specification, and were left out or replaced.
    #[error("parts of a result could not be read: {entries} entries and {members} members; the first: {first}")]
    UnreadableParts {
        /// Entries of its list that were left out.
        entries: usize,
        /// Members that were left out or replaced.
        members: usize,
        /// The place of the first one, by names of the specification and positions, and what is wrong there.
        first: Box<str>,
    },
    /// The request to the server to end the session failed.
    #[error("the session could not be ended: {}", reason.describe("the server"))]
    SessionNotEnded {
        /// Why.
        reason: Failed,
    },
}

/// A deviation that was tolerated, reported for the operator of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum Quirk {
    /// A single request was answered with an array of one response.
    #[error("answers a single request with an array")]
    ResponseInArray,
    /// A notification was answered with a status other than 202.
    #[error("answers a notification with another status than 202")]
    NotificationNotAccepted202,
    /// A lost session was reported otherwise than with status 404.
    #[error("reports a lost session otherwise than with status 404")]
    SessionLostWithOtherStatus,
    /// `initialize` was refused because of its revision, instead of being answered with another one.
    ///
    /// Rules: LC-05.
    #[error("refuses a revision that it does not know instead of answering with one that it knows")]
    VersionRefused,
    /// A GET for messages that belong to no request was answered with 404 instead of 405.
    ///
    /// Rules: SH-C-38.
    #[error("answers GET with 404 instead of 405")]
    GetNotFound,
    /// A tool result has no `content`.
    #[error("sends a tool result without 'content'")]
    ToolResultWithoutContent,
    /// A JSON-RPC message arrived in an event of another type than `message`.
    #[error("sends messages in events of another type than 'message'")]
    MessageInOtherEvent,
    /// The revision 2024-11-05, which defines another HTTP transport, was negotiated over Streamable HTTP.
    #[error("negotiates 2024-11-05 over Streamable HTTP")]
    FirstRevisionOverStreamableHttp,
    /// A body began with a byte order mark.
    #[error("begins a body with a byte order mark")]
    ByteOrderMark,
    /// A result of revision 2026-07-28 has no `resultType`.
    ///
    /// Rules: JR-16, A7.
    #[error("sends results without 'resultType'")]
    ResultTypeMissing,
    /// A response repeated the method of its request.
    ///
    /// Rules: RP6.
    #[error("repeats the method of a request in the response")]
    MethodInResponse,
    /// A message has `null` instead of no parameters.
    #[error("sends null instead of no parameters")]
    NullParams,
    /// An HTTP error contained a JSON-RPC error whose id was not the request's.
    #[error("explains HTTP errors with a foreign request id")]
    ForeignErrorId,
}

impl Quirk {
    /// The quirks that the messages of a frame show.
    pub(crate) fn all_of(oddities: Oddities) -> impl Iterator<Item = Self> {
        let quirks = [(oddities.repeats_method, Self::MethodInResponse), (oddities.null_params, Self::NullParams)];
        quirks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, quirk)| quirk)
    }
}

/// How important a report of a client is for the operator of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For the diagnosis of a server.
    Debug,
    /// The client has handled it.
    Info,
    /// Requests may fail or wait because of it, or settings have no effect.
    Warning,
}
