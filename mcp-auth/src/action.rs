//! What a sign-in asks of its driver, and what it reports.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use mcp_proto::auth::{Credentials, ProofKey, Secret, SigningAlgorithm};
use mcp_proto::machine::Weight;

use super::authorization::RedirectError;
use super::callback_host::CallbackHost;
use super::error::SignInError;
use super::quirk::ProviderQuirk;
use super::reach::Reach;
use super::token_response::TokenScheme;

/// An action that the driver of a sign-in must carry out.
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "a sign-in has a dozen actions")]
pub enum Action {
    /// Send this request and pass the whole response to [`Authorizer::handle_response`](super::Authorizer). Redirects
    /// must not be followed, and no headers added.
    ///
    /// Rules: OA-N-01.
    Fetch {
        /// The key under which the response is passed in.
        fetch: FetchKey,
        /// The request, with an absolute URL.
        request: Request<Bytes>,
        /// To which addresses the host may resolve.
        reach: Reach,
        /// The largest body, in bytes; a larger one is a [`FetchFailure::TooLarge`](super::FetchFailure).
        limit: usize,
        /// The time for the whole exchange.
        timeout: Duration,
    },
    /// Take a lock that all processes of this user share, then call `handle_locked`. The operating system must release
    /// it when the process ends.
    ///
    /// Rules: OA-G-02.
    Lock(Lock),
    /// Release a lock, or stop waiting for it.
    Unlock(Lock),
    /// Read the stored record, then call `handle_loaded`. Its lock may not be held: the store replaces records as a whole.
    Load,
    /// Replace the stored record, durably, before any later action or event is carried out.
    ///
    /// Rules: OA-F-03.
    Store(Secret),
    /// Listen for the redirect at the addresses of this host, on this port or on any free one, then call
    /// `handle_listening`.
    Listen {
        /// The host of the redirect URI.
        host: CallbackHost,
        /// The port; `None` for any.
        port: Option<u16>,
    },
    /// Stop listening.
    Unlisten,
    /// Open this URL in the person's browser, as one argument and without a shell. It is also shown as
    /// [`Event::Waiting`], for people without a browser on this machine.
    ///
    /// Rules: OA-Q-10.
    OpenBrowser {
        /// `https`, or `http` to this machine.
        url: String,
    },
    /// Get a token that another program issues, such as the platform's assertion or an ID token, then call
    /// `handle_obtained`.
    ///
    /// Rules: OA-X-04, OA-X-05.
    ObtainToken,
    /// Create a P-256 key, then call `handle_key`.
    ///
    /// Rules: OA-X-06.
    CreateKey,
    /// Sign a message, then call `handle_signed` with the signature in the form of RFC 7518: for ECDSA, both numbers one
    /// after the other.
    Sign {
        /// The key under which the signature is passed in.
        sign: SignKey,
        /// What to sign with.
        key: KeyUse,
        /// The message.
        message: Bytes,
    },
    /// Remove the stored record, before any later action or event is carried out.
    Erase,
}

/// Identifies a message to sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignKey(pub(super) u64);

/// The key that signs a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyUse {
    /// The configured key of the client, by this algorithm.
    ///
    /// Rules: OA-X-03.
    Client(SigningAlgorithm),
    /// A key that the driver has created, by ES256.
    Proof(Arc<ProofKey>),
}

/// A lock that processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Lock {
    /// The stored record: held from reading it until it is replaced. Short.
    ///
    /// Rules: OA-F-04.
    Record,
    /// The sign-in by a person: one browser window for all processes. Up to `Config::user_timeout`.
    ///
    /// Rules: OA-G-03.
    SignIn,
}

/// Identifies a request to an authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FetchKey(pub(super) u64);

/// What a sign-in reports to the application.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Requests to the server are sent with this token from now on.
    Authorized(Authorized),
    /// No token was obtained. Messages that wait for one fail.
    Refused(SignInError),
    /// No usable token is stored; a challenge of the server will start a sign-in.
    NoToken,
    /// The sign-in continues after an action of a person or of another process.
    Waiting(Waiting),
    /// A step of discovery, for people who look for the reason of a failure.
    Step(Step),
    /// The tokens were erased.
    SignedOut {
        /// Whether the authorization server has revoked them (RFC 7009); without that they work until they expire.
        is_revoked: bool,
    },
}

/// A token for the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Authorized {
    /// What requests are sent with: pass it to `authorize` of each client that uses the server.
    pub credentials: Credentials,
    /// The token.
    pub token: Secret,
    /// How it is presented.
    pub scheme: TokenScheme,
    /// Counts the tokens of this machine, beginning with 1.
    pub generation: u64,
}

/// What a sign-in waits for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Waiting {
    /// A person signs in with a browser.
    #[error("open this URL in a browser to sign in: {url}")]
    Browser {
        /// The URL to open.
        url: String,
    },
    /// A person signs in on another device.
    #[error("open {url} in a browser, on any device, and enter the code {code}")]
    Device {
        /// The URL to open.
        url: String,
        /// The code to enter there.
        code: String,
        /// A URL that contains the code already.
        url_with_code: Option<String>,
    },
    /// Another process of the same user signs in.
    #[error("another process is signing in to this server; its tokens will be used")]
    OtherProcess,
}

/// A step of discovery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Step {
    /// A document was looked for.
    #[error("{document} at {url}: {found}")]
    Document {
        /// Which document.
        document: &'static str,
        /// Its URL.
        url: String,
        /// What was found there.
        found: String,
    },
    /// The authorization server was found.
    #[error(
        "tokens are issued by {issuer}; {}; {}; {}",
        if *.registers { "clients are registered by themselves" } else { "a client id is needed" },
        if *.lists_pkce { "it supports PKCE with S256" } else { "it does not list PKCE with S256" },
        scope.as_deref().map_or("no scopes are named".to_owned(), |scope| format!("scopes: {scope}"))
    )]
    AuthorizationServer {
        /// The issuer.
        issuer: String,
        /// Clients can register, or this client has a URL of its metadata that the server accepts as its id.
        registers: bool,
        /// The metadata lists S256 as a method of PKCE.
        lists_pkce: bool,
        /// The scopes that are requested, separated by spaces.
        scope: Option<String>,
    },
    /// An accepted deviation from the rules, by the authorization server or by the server that names it.
    #[error("accepted of {from}: {quirk}")]
    Quirk {
        /// What differs.
        quirk: ProviderQuirk,
        /// The issuer, or the URL of the server.
        from: String,
    },
    /// The browser has returned with an error that names no sign-in. Another program may have sent the browser there,
    /// so the sign-in goes on.
    #[error(
        "the browser returned with an error that names no sign-in (it lacks `state`); the sign-in waits for another return: {error}"
    )]
    ErrorWithoutState {
        /// The error, which the authorization server reports unless another program has sent the browser.
        error: RedirectError,
    },
    /// The client was registered.
    #[error("registered at {issuer}")]
    Registered {
        /// The issuer.
        issuer: String,
    },
    /// The server publishes no metadata, neither its own nor those of an authorization server. The endpoints of revision
    /// 2025-03-26 are used, which a server that expects a token of its own does not have.
    #[error("no metadata of an authorization server were found")]
    NoMetadata {
        /// The origin of the server, where the endpoints are looked for.
        origin: String,
    },
}

/// Shows neither URLs nor bodies, because they contain codes and secrets.
///
/// Rules: OA-N-04.
impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch { fetch, request, .. } => f
                .debug_struct("Fetch")
                .field("fetch", fetch)
                .field("method", request.method())
                .field("host", &request.uri().host())
                .finish_non_exhaustive(),
            Self::Lock(lock) => f.debug_tuple("Lock").field(lock).finish(),
            Self::Unlock(lock) => f.debug_tuple("Unlock").field(lock).finish(),
            Self::Load => f.write_str("Load"),
            Self::Store(_) => f.write_str("Store"),
            Self::Listen { host, port } => f.debug_struct("Listen").field("host", host).field("port", port).finish(),
            Self::Unlisten => f.write_str("Unlisten"),
            Self::OpenBrowser { .. } => f.write_str("OpenBrowser"),
            Self::ObtainToken => f.write_str("ObtainToken"),
            Self::CreateKey => f.write_str("CreateKey"),
            Self::Sign { sign, key, .. } => {
                f.debug_struct("Sign").field("sign", sign).field("key", key).finish_non_exhaustive()
            }
            Self::Erase => f.write_str("Erase"),
        }
    }
}

impl Weight for Action {
    fn weight(&self) -> usize {
        match self {
            Self::Fetch { request, .. } => request.body().len() + 1024,
            Self::Store(record) => record.reveal().len(),
            Self::OpenBrowser { url } => url.len(),
            Self::Sign { message, .. } => message.len(),
            Self::Lock(_)
            | Self::Unlock(_)
            | Self::Load
            | Self::Listen { .. }
            | Self::Unlisten
            | Self::ObtainToken
            | Self::CreateKey
            | Self::Erase => 0,
        }
    }
}

impl Weight for Event {
    fn weight(&self) -> usize {
        match self {
            Self::Authorized(authorized) => authorized.token.reveal().len(),
            Self::Refused(_) | Self::Waiting(_) | Self::Step(_) => 1024,
            Self::NoToken | Self::SignedOut { .. } => 0,
        }
    }
}
