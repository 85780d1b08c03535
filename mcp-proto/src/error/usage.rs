//! Mistakes of the application.

use crate::client::InvalidUrl;
use crate::spec::{Method, ProtocolVersion};

/// A command that cannot be carried out as given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// A limit or a duration of the configuration is zero or larger than this crate supports (CL5).
    #[error("the limit '{field}' must be at least 1 and at most {largest}")]
    Limit {
        /// The field of `Limits` or of `HttpConfig`.
        field: &'static str,
        /// The largest value that it may have; in seconds if it is a duration.
        largest: usize,
    },
    /// The URL of the server cannot be used.
    #[error("the URL of the server {0}")]
    Endpoint(InvalidUrl),
    /// The name of a header is empty or has invalid characters.
    #[error("a header name may hold only ASCII letters, digits and the characters !#$%&'*+-.^_`|~")]
    HeaderName,
    /// The value of a header has invalid characters (HT15).
    #[error(
        "the value of the header '{name}' holds characters that no header may have: \
         a line break or another control character"
    )]
    HeaderValue {
        /// The name of the header.
        name: Box<str>,
    },
    /// The header is one that the protocol sets itself (HT16).
    #[error("the header '{name}' is set by the protocol")]
    ReservedHeader {
        /// Its name.
        name: Box<str>,
    },
    /// `connect` was not called yet, or the session is not open yet. For a server: the client cannot receive requests
    /// now, for example because it has not sent `notifications/initialized` (LC-10).
    #[error("not connected; connect first")]
    NotConnected,
    /// `connect` was called before.
    #[error("already connected")]
    AlreadyConnected,
    /// `serve` was called on a server that answers the requests of the protocol by itself already.
    #[error("the server answers by itself already")]
    AlreadyServing,
    /// The connection or the session is closed, or is being closed (CL3).
    #[error("the connection is closed")]
    Closed,
    /// The limit of requests without a response is reached.
    #[error("{limit} requests wait for their answers, which is the limit; wait for one of them to end")]
    TooManyRequests {
        /// `Limits::requests_out`.
        limit: usize,
    },
    /// The limit of open subscriptions is reached.
    #[error("{limit} subscriptions are open, which is the limit; end one of them first")]
    TooManySubscriptions {
        /// `Limits::subscriptions`.
        limit: usize,
    },
    /// The configuration contains no usable revision.
    #[error("the configuration allows no revision of MCP")]
    NoVersion,
    /// Only the machine itself may send a message with this method.
    #[error("the method '{method}' is sent by the protocol itself")]
    ReservedMethod {
        /// Its name.
        method: Method,
    },
    /// Parameters, a subscription filter, capabilities, or the information about a client or server are not a JSON
    /// object (JR-12).
    #[error("parameters must be a JSON object")]
    ParamsNotAnObject,
    /// The code is reserved for the protocol in this revision (RP15).
    #[error("the error code {code} is reserved for the protocol; choose one outside -32768 to -32000")]
    ReservedErrorCode {
        /// The code.
        code: i64,
    },
    /// The capability was not declared to the peer.
    #[error("the capability '{capability}' was not declared to the peer; declare it in the configuration")]
    NotDeclared {
        /// Its name.
        capability: &'static str,
    },
    /// A result that requires input needs input requests or a request state, and has neither (MD-I-02).
    #[error("a result that requires input must hold a request for input or a state")]
    NothingRequired,
    /// The notification is not a change notification, or does not state what has changed (MD-L-03).
    #[error("cannot publish '{method}': not a change notification")]
    NoChange {
        /// Its method.
        method: Method,
    },
    /// The revision does not have this feature.
    #[error("{what} does not exist in revision {version}")]
    NotInRevision {
        /// The feature.
        what: &'static str,
        /// The revision in use.
        version: ProtocolVersion,
    },
}
