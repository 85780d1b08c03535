//! Why a sign-in gives no token.

use std::time::Duration;

use mcp_proto::{Excerpt, find_explanation};

use super::authorization::{InvalidAuthorization, RedirectError};
use super::client::InvalidRegistration;
use super::metadata::InvalidMetadata;
use super::token_response::TokenError;
use super::url::UrlRefused;

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
    /// The host resolves to an address that the request must not reach.
    ///
    /// Rules: OA-N-02.
    #[error(
        "its address is private or reserved, and the server that names it is not on a private network; \
         tolerate that if it is intended (`--tolerate private-addresses`)"
    )]
    AddressRefused,
}

/// The characters of what a server says that are shown.
const SHOWN: usize = 200;

/// Why a sign-in gave no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignInError {
    /// The server demands a token, and nothing states where to get one.
    ///
    /// Rules: OA-T-07.
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
    /// A server is overloaded or defective; the request may succeed later.
    ///
    /// Rules: OA-P-03.
    #[error("{url} answered with status {status}{}; try again later", said(text.as_ref()))]
    Temporary {
        /// The URL, without its query.
        url: String,
        /// The status.
        status: http::StatusCode,
        /// What the server says about it.
        text: Option<Excerpt>,
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
    /// The configured client belongs to another issuer.
    ///
    /// Rules: OA-M-02.
    #[error("the configured client id belongs to {registered_at}, but the server now demands tokens of {issuer}")]
    OtherIssuer {
        /// Where the client was registered.
        registered_at: String,
        /// What the server demands.
        issuer: String,
    },
    /// The registration was refused.
    ///
    /// Rules: OA-R-05.
    #[error("the authorization server refused to register this client: {0}")]
    NotRegistered(Excerpt),
    /// The registration cannot be used.
    #[error("this client cannot use its registration: {0}")]
    Registration(InvalidRegistration),
    /// The port of the redirect URI is taken.
    ///
    /// Rules: OA-G-06.
    #[error(
        "port {port} of this machine, to which the browser returns, is in use; end the program that uses it, or choose another port"
    )]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// No port can be opened.
    #[error("no port of this machine can be opened, to which the browser could return")]
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
    /// The authorization server does not issue tokens for this server.
    ///
    /// Rules: OA-K-04.
    #[error(
        "the authorization server {issuer} refuses the parameter `resource`; \
         omit it, or configure the value under which it knows this server"
    )]
    ResourceRefused {
        /// The issuer.
        issuer: String,
    },
    /// A person would have to sign in, and may not be asked.
    ///
    /// Rules: OA-G-05.
    #[error("a person must sign in to this server, and this program may not ask one now{}", run(command.as_deref()))]
    NotInteractive {
        /// The command by which a person signs in.
        command: Option<String>,
    },
    /// A person would have to sign in, and may not be asked; the server publishes no metadata, so that it may also expect a
    /// token that no sign-in gives.
    ///
    /// Rules: OA-G-05, and OA-L-02 for the endpoints of a server without metadata.
    #[error(
        "the server demands authorization but publishes no OAuth metadata; \
         if it wants a key or a token of its own, send it in a header; else a person must sign in{}",
        run(command.as_deref())
    )]
    NotInteractiveWithoutMetadata {
        /// The command by which a person signs in.
        command: Option<String>,
    },
    /// A person has signed out while a token was needed.
    #[error("a person signed out meanwhile")]
    SignedOut,
    /// The tokens that were to be imported belong to another issuer.
    ///
    /// Rules: OA-M-01.
    #[error("the tokens to import were not issued by {issuer}, whose tokens the server demands")]
    ImportedFromOther {
        /// What the server demands.
        issuer: String,
    },
    /// No person has signed in in time.
    #[error("no sign-in was completed within {} s; it was given up{}", after.as_secs(), before(reported.as_ref()))]
    UserTimedOut {
        /// The time that was given.
        after: Duration,
        /// The error with which the browser had returned, although nothing shows that it belongs to this sign-in.
        reported: Option<RedirectError>,
    },
    /// The stored record could not be locked or read in time.
    #[error("the stored tokens could not be read in time: another process holds their lock")]
    StoreTimedOut,
    /// The server refuses tokens with all scopes that it asks for.
    ///
    /// Rules: OA-S-03.
    #[error("the server demands scopes that are granted already, or that it was refused before: access stays denied")]
    ScopesGranted,
    /// The server refuses the tokens that its authorization server issues.
    ///
    /// Rules: OA-T-04.
    #[error("the server refused {0} tokens in a row that its authorization server had just issued")]
    TokensRefused(u32),
    /// The server demands another sign-in, although a person has just signed in this often. It is not known whether the
    /// server has accepted the tokens.
    ///
    /// Rules: OA-T-04.
    #[error("the server demands a sign-in again after {0} within a minute; no person is asked for the rest of it")]
    SignedInTooOften(u32),
}

impl SignInError {
    /// The response of a server that is overloaded or defective.
    pub(super) fn temporary(url: String, status: http::StatusCode, body: &[u8]) -> Self {
        let text = find_explanation(body).map(|text| Excerpt::new(&text, SHOWN));
        Self::Temporary { url, status, text }
    }
}

/// The end of a sentence: the error with which the browser had returned.
fn before(reported: Option<&RedirectError>) -> String {
    reported
        .map(|error| format!("; before that, the browser had returned with an error that names no sign-in: {error}"))
        .unwrap_or_default()
}

/// What a server says about a status.
fn said(text: Option<&Excerpt>) -> String {
    text.map(|text| format!(" ({text})")).unwrap_or_default()
}

/// The end of a sentence that names a command to run.
fn run(command: Option<&str>) -> String {
    command.map(|command| format!("; run `{command}`")).unwrap_or_default()
}
