//! Signing in to servers of the Model Context Protocol with OAuth 2.1, for all revisions that know it (2025-03-26 and
//! later), as a state machine without I/O.
//!
//! A server that demands a token answers with 401 and a *challenge*. The client reads the *metadata* of the server,
//! which name its *authorization server*, and then the metadata of the authorization server, which name its endpoints.
//! A client that is not known there registers. The client gets a token by one of the [`Grant`]s: in most cases, a
//! person signs in with a browser. From then on each request carries the token, which is refreshed when it expires. The
//! server may also challenge the client again.
//!
//! # Which type for what
//!
//! | you write | take |
//! |---|---|
//! | a client that signs in | [`Authorizer`]: the whole flow as a machine, which a driver carries out; or a driver of this project, which has one |
//! | a client with a token of its own | nothing here: [`Credentials`], or a header |
//! | a flow of your own | the parts: [`Challenge`], [`ResourceMetadata`], [`IssuerMetadata`], [`TokenResponse`] |
//! | a server that demands tokens | [`ProtectedResource`] and [`Challenge`]; the tokens are validated by your own code |
//!
//! # The machine
//!
//! An [`Authorizer`] belongs to one server. It asks its driver for [`Action`]s: requests to authorization servers, the
//! stored record and its locks, a port for the redirect, a browser, signatures. It draws no random numbers and reads no
//! clock: [`Authorizer::begin`] takes a [`Seed`] and the time. Its [`Event`]s are a new token, a refusal, or what a person
//! has to do. The driver passes tokens to its clients, which send everything again that has waited:
//!
//! ```text
//!   Client<Http>                        driver                          Authorizer
//!        │ Event::Challenged ─────────────▶ begin(Cause::Challenged) ────────▶ │
//!        │ (messages wait)                                                     │ Action::Fetch, Lock, Load,
//!        │                                  handle_response, handle_loaded, …  │ Listen, OpenBrowser, Store …
//!        │ ◀───── authorize(credentials) ◀──────────────── Event::Authorized ──┤
//!        │ ◀───── refuse_authorization(reason) ◀───────────── Event::Refused ──┘
//! ```
//!
//! Several processes of a user share one record: tokens and registrations, bound to their issuers. The lock of the record
//! is held from reading it until it is replaced, so that a refresh token is sent once; the lock of sign-ins while a person
//! signs in, so that one browser is opened.
//!
//! # Example: from a challenge to the first request
//!
//! ```sh
//! cargo add http mcp-auth mcp-proto
//! ```
//!
//! ```
//! use http::{HeaderValue, StatusCode};
//! use mcp_auth::{Action, Authorizer, Cause, Challenge, Config, Seed};
//! use mcp_proto::{Instant, Output};
//!
//! fn main() -> Result<(), mcp_proto::UsageError> {
//!     let mut authorizer = Authorizer::new(Config::new("https://mcp.example/v1/mcp", "my-app")?);
//!     let challenges = Challenge::parse([&HeaderValue::from_static(r#"Bearer scope="read""#)]);
//!     let status = StatusCode::UNAUTHORIZED;
//!     let cause = Cause::Challenged { status, challenges, generation: None, is_background: false };
//!     authorizer.begin(cause, Seed::new([7; 32]), 1_800_000_000, Instant::START);
//!
//!     let Some(Output::Action(Action::Fetch { request, .. })) = authorizer.poll_output() else { panic!() };
//!     assert_eq!(request.uri(), "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp");
//!     Ok(())
//! }
//! ```
//!
//! # Rules
//!
//! `docs/rules.md` has the rules with their ids (OA-…); their sources are the chapters on authorization of each revision,
//! RFC 6749, 7636, 8252, 8414, 8628, 8707, 9207, 9449 and 9728.
//!
//! The headers of requests and the metadata that servers publish are in [`mcp_proto::auth`].

// How the source is laid out:
//
// | file | what it does |
// |---|---|
// | `metadata`, `url` | metadata documents: where they are looked for, and what they must contain |
// | `client` | who the client is: registration and authentication |
// | `authorization` | the URL that a browser opens, and the redirect that comes back |
// | `token_response` | responses of token endpoints |
// | `record`, `imported` | what is stored, and tokens that another program has stored |
// | `config`, `callback_host` | what a sign-in needs to know |
// | `settings` | what an application sets besides: where tokens are kept, and its functions |
// | `quirk` | in which ways authorization servers differ from the rules, and what is accepted |
// | `action`, `reach`, `awaited_lock`, `report` | what a sign-in asks of its driver, which addresses requests may reach, and which lock is awaited; what its events mean for a log |
// | `form` | bodies of requests, and queries |
// | `seed` | random values, from those that the driver passes in |
// | `cryptography` | keys and signatures, of which a driver has the cryptography |
// | `error` | why a sign-in gives no token |
// | `authorizer` | the machine; its flow, the tokens in use, and what limits the number of sign-ins have files of their own |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::indexing_slicing)]

mod action;
mod authorization;
mod authorizer;
mod awaited_lock;
mod callback_host;
mod client;
mod config;
mod cryptography;
mod error;
mod form;
mod imported;
mod metadata;
mod quirk;
mod reach;
mod record;
mod report;
mod seed;
mod settings;
mod token_response;
mod url;

pub use action::{Action, Authorized, Event, FetchKey, KeyUse, Lock, SignKey, Step, Waiting};
pub use authorization::{InvalidAuthorization, RedirectError};
pub use authorizer::{Authorizer, Cause};
pub use awaited_lock::AwaitedLock;
pub use callback_host::{CALLBACK_TIME, CallbackHost, MAX_CALLBACK_HEAD, MAX_CALLBACKS};
pub use client::{ClientAuthentication, ClientIdentity, InvalidRegistration};
pub use config::{Config, Grant, IdentityProvider, Proofs};
pub use cryptography::{Cryptography, PrivateKey, Signer};
pub use error::{FetchFailure, SignInError};
pub use imported::Imported;
pub use mcp_proto::auth::{
    Challenge, Challenged, ClientKey, Credentials, ProofClaims, ProofKey, ProtectedResource, Secret, SigningAlgorithm,
    UnsignedJwt,
};
pub use metadata::{InvalidMetadata, IssuerMetadata, ResourceMetadata};
pub use quirk::{Acceptance, Exceptions, ProviderQuirk, ResourceParameter};
pub use reach::{AddressRefused, Reach};
pub use record::StoredSignIn;
pub use report::{SignInOutcome, SignInReport};
pub use seed::Seed;
pub use settings::{ObtainToken, OpenUrl, Settings, Sign, SignInInput};
pub use token_response::{TokenError, TokenResponse, TokenScheme};
pub use url::UrlRefused;

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
