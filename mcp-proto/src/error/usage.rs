//! Mistakes of the application.

use std::io::{Error, ErrorKind};

use crate::limits::InvalidLimit;
use crate::spec::{Method, ProtocolVersion};
use crate::text::escape_text;
use crate::url::InvalidUrl;

/// A command that cannot be carried out as given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// No prefix for the names of tools can be made of the name of a server.
    #[error("the name '{}' of a server must contain an ASCII letter or digit", escape_text(name, 80))]
    ServerName {
        /// The name.
        name: Box<str>,
    },
    /// The names of two servers lead to the same prefix for the names of tools.
    #[error(
        "the names '{}' and '{}' of two servers both lead to the prefix '{prefix}'; rename one",
        escape_text(other, 80),
        escape_text(name, 80)
    )]
    SameServerName {
        /// The name of one server.
        name: Box<str>,
        /// The name of the other one.
        other: Box<str>,
        /// The prefix of both.
        prefix: Box<str>,
    },
    /// A text cannot be the prefix for the names of the tools of a server.
    #[error(
        "the prefix '{}' of the server '{}' must have 1 to 24 ASCII letters, digits, '-' and '_', without two '_' in a row \
         or one at the end",
        escape_text(prefix, 80),
        escape_text(name, 80)
    )]
    Prefix {
        /// The name of the server.
        name: Box<str>,
        /// The prefix.
        prefix: Box<str>,
    },
    /// The names of the tools of two servers would have the same prefix.
    #[error(
        "the servers '{}' and '{}' have the same prefix '{prefix}'; change one",
        escape_text(other, 80),
        escape_text(name, 80)
    )]
    SamePrefix {
        /// The name of one server.
        name: Box<str>,
        /// The name of the other one.
        other: Box<str>,
        /// The prefix of both.
        prefix: Box<str>,
    },
    /// An aggregate has too many servers.
    #[error("there can be at most {limit} servers; the limit is Limits::backends")]
    TooManyServers {
        /// `Limits::backends`.
        limit: usize,
    },
    /// A limit or a duration of the configuration is zero or larger than this crate supports.
    ///
    /// Rules: CL5.
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
    /// The URL of the server cannot be used.
    #[error("the URL of the server {0}")]
    Endpoint(InvalidUrl),
    /// The id of a client cannot be this URL.
    ///
    /// Rules: OA-R-02.
    #[error("the URL of the client's metadata must begin with https:// and have a path without '.' and '..'")]
    ClientMetadataUrl,
    /// The path to which the browser returns cannot be this text.
    ///
    /// Rules: OA-Q-09.
    #[error(
        "the path of the redirect URI must begin with one slash, and have letters, digits, '-', '.', '_', '~' and slashes only"
    )]
    CallbackPath,
    /// The token endpoint of an identity provider cannot be used.
    ///
    /// Rules: OA-A-06.
    #[error("the token endpoint of the identity provider must begin with https://, or be on this machine")]
    IdentityProvider,
    /// The public path of a server is not a path that begins with a slash and does not end with one.
    #[error("the public path must begin with a slash, must not end with one, and has neither a query nor a fragment")]
    PublicPath,
    /// A parameter of authorization requests is one that the flow sets itself.
    ///
    /// Rules: OA-Q-06.
    #[error("this parameter of authorization requests is set by the sign-in itself, or has no name")]
    AuthorizationParameter,
    /// The issuer of an authorization server is not a URL that a client may use.
    #[error("the URL of the authorization server {0}")]
    AuthorizationServer(InvalidUrl),
    /// The metadata of a protected resource name no authorization server.
    #[error("a protected resource must name at least one authorization server")]
    NoAuthorizationServer,
    /// A scope has characters that no scope may have, or is `offline_access`.
    ///
    /// Rules: OA-Z-01.
    #[error("a scope must be visible ASCII text without quotes and backslashes, and not 'offline_access'")]
    Scope,
    /// The name of a header is empty or has invalid characters.
    #[error("a header name may hold only ASCII letters, digits and the characters !#$%&'*+-.^_`|~")]
    HeaderName,
    /// The value of a header has invalid characters.
    ///
    /// Rules: HT15.
    #[error(
        "the value of the header '{name}' holds characters that no header may have: \
         a line break or another control character"
    )]
    HeaderValue {
        /// The name of the header.
        name: Box<str>,
    },
    /// The header is one that the protocol sets itself.
    ///
    /// Rules: HT16.
    #[error("the header '{name}' is set by the protocol")]
    ReservedHeader {
        /// Its name.
        name: Box<str>,
    },
    /// A client that sends an `Authorization` header would send none from now on, or the reverse, which changes how it is
    /// authorized.
    #[error("a client that is in use cannot begin or cease to have an Authorization header of its own")]
    AuthorizationHeader,
    /// The access token is empty, too long, or has characters that a header with credentials cannot have.
    #[error("the access token cannot be sent: it must consist of 1 to {limit} visible ASCII characters")]
    AccessToken {
        /// The most characters of a token.
        limit: usize,
    },
    /// A pattern of names is empty, or too long.
    #[error("a pattern of names must have at least 1 character and at most {limit}")]
    InvalidPattern {
        /// The maximum number of characters.
        limit: usize,
    },
    /// A pattern of URIs can match none, because URIs are compared in their canonical form.
    #[error("the pattern matches no URI, because a URI is compared in its canonical form, and this is none: {reason}")]
    NotCanonical {
        /// What is not canonical.
        reason: &'static str,
    },
    /// The value that stands for the access token in proofs is not a SHA-256 value in Base64url (RFC 9449, section 4.2).
    #[error("the hash of the access token must be a SHA-256 value: 43 characters of Base64url")]
    AccessTokenHash,
    /// `connect` was not called yet, or the session is not open yet. For a server: the client cannot receive requests
    /// now, for example because it has not sent `notifications/initialized`.
    ///
    /// Rules: LC-10.
    #[error("not connected; connect first")]
    NotConnected,
    /// `connect` was called before.
    #[error("already connected")]
    AlreadyConnected,
    /// `serve` was called on a server that answers the requests of the protocol by itself already.
    #[error("the server answers by itself already")]
    AlreadyServing,
    /// Sessions are sealed or stored, at a server that passes requests through.
    #[error("sealed and stored sessions need a server that answers initialize itself, and this one passes it through")]
    SealedSessions,
    /// The snapshot of a session is not a snapshot, has a form that this version does not read, or has a revision that
    /// is not served.
    #[error("this is no snapshot of a session that this server can continue")]
    UnreadableSnapshot,
    /// The session of a snapshot is open already.
    #[error("the session of the snapshot is open already")]
    SessionExists,
    /// The limit of sessions is reached.
    #[error("{limit} sessions are open, which is the limit; end one of them first")]
    TooManySessions {
        /// `HttpConfig::max_sessions`.
        limit: usize,
    },
    /// Only sessions in the memory of the process have snapshots.
    #[error("only a server with SessionMode::InMemory continues a session from a snapshot")]
    NotInMemory,
    /// Sessions are stored, and the driver of the server has no store.
    #[error(
        "stored sessions need a store: give one to Server::store of mcp-tokio; \
         mcp-blocking has none, but can serve sealed sessions"
    )]
    NoStore,
    /// The connection or the session is closed, or is being closed.
    ///
    /// Rules: CL3.
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
    /// object.
    ///
    /// Rules: JR-12.
    #[error("{what} must be a JSON object")]
    NotAnObject {
        /// What is not an object.
        what: &'static str,
    },
    /// The code is reserved for the protocol in this revision.
    ///
    /// Rules: RP15.
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
    /// A result that requires input needs input requests or a request state, and has neither.
    ///
    /// Rules: MD-I-02.
    #[error("a result that requires input must hold a request for input or a state")]
    NothingRequired,
    /// The notification is not a change notification, or does not state what has changed.
    ///
    /// Rules: MD-L-03.
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

/// For the functions of drivers that do I/O: the kind is [`ErrorKind::InvalidInput`].
impl From<UsageError> for Error {
    fn from(error: UsageError) -> Self {
        Self::new(ErrorKind::InvalidInput, error)
    }
}
