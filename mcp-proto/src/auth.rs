//! Signing in: OAuth 2.1 for clients and servers over HTTP, for all revisions that know it (2025-03-26 and later).
//!
//! A server that demands a token answers with 401 and a *challenge*. The client finds the *metadata* of the server, which
//! names its *authorization server*, and that server's metadata, which name its endpoints. It registers there, if it is
//! not known yet, and gets a token by one of the [`Grant`]s: in most cases, a person signs in with a browser. From then on
//! each request carries the token, until it expires, and is refreshed, or until the server challenges it again.
//!
//! # Which type for what
//!
//! | you write | take |
//! |---|---|
//! | a client that signs in | [`Authorizer`]: the whole flow as a machine, which a driver carries out; or a driver of this project, which has one |
//! | a client with a token of its own | nothing here: [`Credentials`](crate::auth::Credentials), or a header |
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
//! ```
//! # #[cfg(feature = "auth")] {
//! use http::{HeaderValue, StatusCode};
//! use mcp_proto::auth::{Action, Authorizer, Cause, Challenge, Config, Seed};
//! use mcp_proto::{Instant, Output};
//!
//! let mut authorizer = Authorizer::new(Config::new("https://mcp.example/v1/mcp", "my-app")?);
//! let challenges = Challenge::parse([&HeaderValue::from_static(r#"Bearer scope="read""#)]);
//! let cause = Cause::Challenged { status: StatusCode::UNAUTHORIZED, challenges, generation: None, is_background: false };
//! authorizer.begin(cause, Seed::new([7; 32]), 1_800_000_000, Instant::START);
//!
//! let Some(Output::Action(Action::Fetch { request, .. })) = authorizer.poll_output() else { panic!() };
//! assert_eq!(request.uri(), "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp");
//! # }
//! # Ok::<(), mcp_proto::UsageError>(())
//! ```
//!
//! # Rules
//!
//! `docs/rules.md` has the rules with their ids (OA-…); their sources are the chapters on authorization of each revision,
//! RFC 6749, 7636, 8252, 8414, 8628, 8707, 9207, 9449 and 9728.
//!
//! | file | what it does |
//! |---|---|
//! | `challenge` | the header `WWW-Authenticate`, read and written |
//! | `metadata`, `url` | metadata documents: where they are looked for, and what they must contain |
//! | `client` | who the client is: registration and authentication |
//! | `authorization` | the URL that a browser opens, and the redirect that comes back |
//! | `token` | responses of token endpoints |
//! | `key`, `jwt`, `proof` | keys, assertions of a client, proofs of possession |
//! | `record`, `imported` | what is stored, and tokens that another program has stored |
//! | `config`, `callback_host` | what a sign-in needs to know |
//! | `quirk` | in which ways authorization servers differ from the rules, and what is accepted |
//! | `action`, `reach` | what a sign-in asks of its driver, and which addresses requests may reach; what it reports |
//! | `error` | why a sign-in gives no token |
//! | `authorizer` | the machine; its flow, the tokens in use, and what limits the number of sign-ins have files of their own |
//! | `resource` | the metadata that a server publishes |

#[cfg(feature = "auth")]
mod action;
#[cfg(feature = "auth")]
mod authorization;
#[cfg(feature = "auth")]
mod authorizer;
#[cfg(feature = "auth")]
mod callback_host;
mod challenge;
mod challenged;
#[cfg(feature = "auth")]
mod client;
#[cfg(feature = "auth")]
mod config;
mod credentials;
#[cfg(feature = "auth")]
mod error;
#[cfg(feature = "auth")]
mod form;
#[cfg(feature = "auth")]
mod imported;
mod jwt;
mod key;
#[cfg(feature = "auth")]
mod metadata;
mod proof;
#[cfg(feature = "auth")]
mod quirk;
#[cfg(feature = "auth")]
mod reach;
#[cfg(feature = "auth")]
mod record;
mod resource;
mod secret;
#[cfg(feature = "auth")]
mod seed;
#[cfg(feature = "auth")]
mod token;
#[cfg(feature = "auth")]
mod url;

pub use challenge::Challenge;
pub use challenged::Challenged;
pub use credentials::Credentials;
pub use jwt::UnsignedJwt;
pub use key::{ClientKey, ProofKey, SigningAlgorithm};
pub use proof::ProofClaims;
pub use resource::ProtectedResource;
pub(crate) use resource::WELL_KNOWN;
pub use secret::Secret;
#[cfg(feature = "auth")]
pub use {
    action::{Action, Authorized, Event, FetchKey, KeyUse, Lock, SignKey, Step, Waiting},
    authorization::{InvalidAuthorization, RedirectError},
    authorizer::{Authorizer, Cause},
    callback_host::CallbackHost,
    client::{ClientAuthentication, ClientIdentity, InvalidRegistration},
    config::{Config, Exceptions, Grant, IdentityProvider, Proofs, ResourceParameter},
    error::{FetchFailure, SignInError},
    imported::Imported,
    metadata::{InvalidMetadata, IssuerMetadata, ResourceMetadata},
    quirk::{Acceptance, ProviderQuirk},
    reach::Reach,
    record::StoredSignIn,
    seed::Seed,
    token::{TokenError, TokenResponse, TokenScheme},
    url::UrlRefused,
};
