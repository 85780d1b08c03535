//! What a sign-in asks of its driver, and what it reports.

use core::net::{IpAddr, Ipv6Addr};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;

use super::authorization::{InvalidAuthorization, RedirectError};
use super::client::InvalidRegistration;
use super::key::{ProofKey, SigningAlgorithm};
use super::metadata::InvalidMetadata;
use super::secret::Secret;
use super::token::{TokenError, TokenScheme};
use super::url::UrlRefused;
use crate::client::Credentials;
use crate::codec::text::Excerpt;
use crate::conversation::outbox::Weight;

/// An action that the driver of a sign-in must carry out.
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "a sign-in has a dozen actions")]
pub enum Action {
    /// Send this request and pass the whole response to [`Authorizer::handle_response`](super::Authorizer). Redirects
    /// must not be followed, and no headers added (OA-N-01).
    Fetch {
        /// The key under which the response is passed in.
        fetch: FetchKey,
        /// The request, with an absolute URL.
        request: Request<Bytes>,
        /// To which addresses the host may resolve.
        reach: Reach,
        /// The largest body, in bytes; a larger one is a [`FetchFailure::TooLarge`].
        limit: usize,
        /// The time for the whole exchange.
        timeout: Duration,
    },
    /// Take a lock that all processes of this user share, then call `handle_locked`. The operating system must release
    /// it when the process ends (OA-G-02).
    Lock(Lock),
    /// Release a lock, or stop waiting for it.
    Unlock(Lock),
    /// Read the stored record, then call `handle_loaded`.
    Load,
    /// Replace the stored record, durably, before any later action or event is carried out (OA-F-03).
    Store(Secret),
    /// Listen for the redirect on this port of 127.0.0.1, or on any free one, then call `handle_listening`.
    Listen {
        /// The port; `None` for any.
        port: Option<u16>,
    },
    /// Stop listening.
    Unlisten,
    /// Open this URL in the person's browser, as one argument and without a shell (OA-Q-10). It is also shown as
    /// [`Event::Waiting`], for people without a browser on this machine.
    OpenBrowser {
        /// `https`, or `http` to this machine.
        url: String,
    },
    /// Get a token that another program issues, such as the platform's assertion or an ID token, then call
    /// `handle_obtained` (OA-X-04, OA-X-05).
    ObtainToken,
    /// Create a P-256 key, then call `handle_key` (OA-X-06).
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
    /// The configured key of the client, by this algorithm (OA-X-03).
    Client(SigningAlgorithm),
    /// A key that the driver has created, by ES256.
    Proof(Arc<ProofKey>),
}

/// A lock that processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Lock {
    /// The stored record: held from reading it until it is replaced (OA-F-04). Short.
    Record,
    /// The sign-in by a person: one browser window for all processes (OA-G-03). Up to `Config::user_timeout`.
    SignIn,
}

/// Identifies a request to an authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FetchKey(pub(super) u64);

/// To which addresses the host of a request may resolve (OA-N-02).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// Public addresses only: a server that we do not trust named the host.
    Public,
    /// Any address but those that no server should have: link-local, multicast and unspecified ones.
    Private,
}

impl Reach {
    /// Whether a request may be sent to an address.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::auth::Reach;
    ///
    /// assert!(Reach::Public.allows("93.184.216.34".parse()?));
    /// assert!(!Reach::Public.allows("::ffff:10.0.0.1".parse()?));
    /// assert!(Reach::Private.allows("127.0.0.1".parse()?));
    /// assert!(!Reach::Private.allows("169.254.169.254".parse()?), "where clouds keep credentials");
    /// # Ok::<(), core::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        match Class::of(address) {
            Class::Never => false,
            Class::Private => self == Self::Private,
            Class::Public => true,
        }
    }
}

/// What an address is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Public,
    Private,
    Never,
}

impl Class {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                if address.is_link_local() || address.is_multicast() || a == 0 || address.is_broadcast() {
                    Self::Never
                } else if address.is_private()
                    || address.is_loopback()
                    // Shared by carriers, benchmarks, and reserved (RFC 6890).
                    || (a == 100 && b & 0xC0 == 64)
                    || (a == 198 && b & 0xFE == 18)
                    || (a == 192 && b == 0 && c == 0)
                    || a >= 240
                {
                    Self::Private
                } else {
                    Self::Public
                }
            }
            IpAddr::V6(address) => match Self::embedded(address) {
                Some(embedded) => Self::of(embedded),
                None if address.is_unspecified()
                    || address.is_multicast()
                    || address.segments()[0] & 0xFFC0 == 0xFE80 =>
                {
                    Self::Never
                }
                // Unique local addresses (RFC 4193).
                None if address.is_loopback() || address.segments()[0] & 0xFE00 == 0xFC00 => Self::Private,
                None => Self::Public,
            },
        }
    }

    /// The IPv4 address inside an IPv6 address: mapped (RFC 4291), translated (RFC 6052) or 6to4 (RFC 3056).
    fn embedded(address: Ipv6Addr) -> Option<IpAddr> {
        let segments = address.segments();
        let join = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            IpAddr::from([a, b, c, d])
        };
        match segments {
            [0, 0, 0, 0, 0, 0, 0, _] => None,
            [0, 0, 0, 0, 0, 0xFFFF | 0, high, low]
            | [0x64, 0xFF9B, 0, 0, 0, 0, high, low]
            | [0x2002, high, low, ..] => Some(join(high, low)),
            _ => None,
        }
    }
}

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
    /// Somebody must do something before the sign-in continues.
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
        /// Clients can register, or use the URL of their metadata, if they have one, as their id.
        registers: bool,
        /// The metadata lists S256 as a method of PKCE.
        lists_pkce: bool,
        /// The scopes that are requested, separated by spaces.
        scope: Option<String>,
    },
    /// The client was registered.
    #[error("registered at {issuer}")]
    Registered {
        /// The issuer.
        issuer: String,
    },
}

/// Why a request to an authorization server has no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchFailure {
    /// The connection failed or broke.
    #[error("it cannot be reached")]
    Unreachable,
    /// The time is over.
    #[error("it did not answer in time")]
    TimedOut,
    /// The body is larger than the limit.
    #[error("its response is too large")]
    TooLarge,
    /// The host resolves to an address that the request must not reach (OA-N-02).
    #[error(
        "its address is private or reserved, and the server that names it is not on a private network; \
         allow private addresses if this is intended"
    )]
    AddressRefused,
}

/// Why a sign-in gave no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignInError {
    /// The server demands a token, and nothing states where to get one (OA-T-07).
    #[error(
        "the server demands authorization but publishes no OAuth metadata; \
         if it wants a key or a token of its own, send it in a header"
    )]
    NoMetadata,
    /// A metadata document must not be used.
    #[error("the metadata at {url} {reason}")]
    Metadata {
        /// The URL of the document.
        url: String,
        /// Why.
        reason: InvalidMetadata,
    },
    /// A URL that the server or its metadata named is refused.
    #[error("{what} {reason}")]
    Url {
        /// Which URL.
        what: &'static str,
        /// Why.
        reason: UrlRefused,
    },
    /// A request failed; it may succeed later.
    #[error("no response from {url}: {reason}")]
    Fetch {
        /// The URL, without its query.
        url: String,
        /// Why.
        reason: FetchFailure,
    },
    /// A server is overloaded or defective; the request may succeed later (OA-P-03).
    #[error("{url} answered with status {status}; try again later")]
    Temporary {
        /// The URL, without its query.
        url: String,
        /// The status.
        status: http::StatusCode,
    },
    /// The authorization server publishes no metadata.
    #[error("the authorization server {issuer}, which the server names, publishes no metadata")]
    NoIssuerMetadata {
        /// The issuer.
        issuer: String,
    },
    /// The client is unknown at the issuer, which does not register clients itself.
    #[error(
        "the authorization server {issuer} registers no clients by itself; \
         register one there, and configure its client id"
    )]
    NoClientId {
        /// The issuer.
        issuer: String,
    },
    /// The configured client belongs to another issuer (OA-M-02).
    #[error("the configured client id belongs to {registered_at}, but the server now demands tokens of {issuer}")]
    OtherIssuer {
        /// Where the client was registered.
        registered_at: String,
        /// What the server demands.
        issuer: String,
    },
    /// The registration was refused (OA-R-05).
    #[error("the authorization server refused to register this client: {0}")]
    NotRegistered(Excerpt),
    /// The registration cannot be used.
    #[error("this client cannot use its registration: {0}")]
    Registration(InvalidRegistration),
    /// The port of the redirect URI is taken (OA-G-06).
    #[error(
        "port {port} on 127.0.0.1, to which the browser returns, is in use; end the program that uses it, or choose another port"
    )]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// No port can be opened.
    #[error("no port on 127.0.0.1 can be opened, to which the browser could return")]
    NotListening,
    /// No authorization request can be made.
    #[error("{0}")]
    Authorization(InvalidAuthorization),
    /// The redirect gave no code.
    #[error("{0}")]
    Redirect(RedirectError),
    /// The token endpoint issued no token.
    #[error("the token endpoint of {issuer} {reason}")]
    Token {
        /// The issuer.
        issuer: String,
        /// Why.
        reason: TokenError,
    },
    /// The stored token cannot be sent.
    #[error("the token cannot be sent in a header: it must consist of visible ASCII characters")]
    UnusableToken,
    /// The program that issues the token gave none.
    #[error("the program that issues the token for this server gave none")]
    NotObtained,
    /// A key could not be created, or did not sign.
    #[error("the key of this client could not sign; check that it fits the algorithm")]
    NotSigned,
    /// The authorization server does not issue tokens for this server (OA-K-04).
    #[error(
        "the authorization server {issuer} refuses the parameter `resource`; \
         omit it, or configure the value under which it knows this server"
    )]
    ResourceRefused {
        /// The issuer.
        issuer: String,
    },
    /// A person would have to sign in, and may not be asked (OA-G-05).
    #[error("a person must sign in to this server, and this program may not ask one now{}", run(command.as_deref()))]
    NotInteractive {
        /// The command by which a person signs in.
        command: Option<String>,
    },
    /// The tokens that were to be imported belong to another issuer (OA-M-01).
    #[error("the tokens to import were not issued by {issuer}, whose tokens the server demands")]
    ImportedFromOther {
        /// What the server demands.
        issuer: String,
    },
    /// Nobody has signed in in time.
    #[error("nobody signed in within {} s; the sign-in was given up", after.as_secs())]
    UserTimedOut {
        /// The time that was given.
        after: Duration,
    },
    /// The stored record could not be locked or read in time.
    #[error("the stored tokens could not be read in time: another process holds their lock")]
    StoreTimedOut,
    /// The server refuses tokens with all scopes that it asks for (OA-S-03).
    #[error("the server demands scopes that are granted already, or that it was refused before: access stays denied")]
    ScopesGranted,
    /// The server refuses the tokens that its authorization server issues (OA-T-04).
    #[error("the server refused {0} tokens in a row that its authorization server had just issued")]
    TokensRefused(u32),
}

/// The end of a sentence that names a command to run.
fn run(command: Option<&str>) -> String {
    command.map(|command| format!("; run `{command}`")).unwrap_or_default()
}

/// Shows neither URLs nor bodies, because they contain codes and secrets (OA-N-04).
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
            Self::Listen { port } => f.debug_struct("Listen").field("port", port).finish(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn au17_oa_n_02_addresses_are_classified_and_embedded_ones_unfolded() {
        for (address, public, private) in [
            ("8.8.8.8", true, true),
            ("2606:4700::1111", true, true),
            ("127.0.0.1", false, true),
            ("10.1.2.3", false, true),
            ("172.31.0.1", false, true),
            ("192.168.0.1", false, true),
            ("100.64.0.1", false, true),
            ("100.128.0.1", true, true),
            ("198.19.0.1", false, true),
            ("192.0.0.1", false, true),
            ("250.0.0.1", false, true),
            ("::1", false, true),
            ("fd00::1", false, true),
            ("::ffff:10.0.0.1", false, true),
            ("64:ff9b::a00:1", false, true),
            ("2002:a00:1::", false, true),
            ("2002:808:808::", true, true),
            ("::ffff:8.8.8.8", true, true),
            ("169.254.169.254", false, false),
            ("::ffff:169.254.169.254", false, false),
            ("64:ff9b::a9fe:a9fe", false, false),
            ("fe80::1", false, false),
            ("febf::1", false, false),
            ("0.0.0.0", false, false),
            ("0.1.2.3", false, false),
            ("255.255.255.255", false, false),
            ("224.0.0.1", false, false),
            ("ff02::1", false, false),
            ("::", false, false),
        ] {
            let ip: IpAddr = address.parse().unwrap();
            assert_eq!((Reach::Public.allows(ip), Reach::Private.allows(ip)), (public, private), "{address}");
        }
    }
}
