//! Signing in: OAuth 2.1 for clients and servers over HTTP.

#[cfg(feature = "auth")]
mod action;
#[cfg(feature = "auth")]
mod authorization;
#[cfg(feature = "auth")]
mod authorizer;
mod challenge;
#[cfg(feature = "auth")]
mod client;
#[cfg(feature = "auth")]
mod config;
#[cfg(feature = "auth")]
mod form;
#[cfg(feature = "auth")]
mod imported;
#[cfg(feature = "auth")]
mod metadata;
mod proof;
#[cfg(feature = "auth")]
mod record;
mod resource;
#[cfg(feature = "auth")]
mod secret;
#[cfg(feature = "auth")]
mod seed;
#[cfg(feature = "auth")]
mod token;
#[cfg(feature = "auth")]
mod url;

pub use challenge::Challenge;
pub use proof::ProofClaims;
pub use resource::ProtectedResource;
pub(crate) use resource::WELL_KNOWN;
#[cfg(feature = "auth")]
pub use {
    action::{Action, Authorized, Event, FetchFailure, FetchKey, Lock, Reach, SignInError, Step, Waiting},
    authorization::{InvalidAuthorization, RedirectError},
    authorizer::{Authorizer, Cause},
    client::{ClientAuthentication, ClientIdentity, InvalidRegistration},
    config::{Config, Exceptions, Grant, ResourceParameter},
    imported::Imported,
    metadata::{InvalidMetadata, IssuerMetadata, ResourceMetadata},
    record::StoredSignIn,
    secret::Secret,
    seed::Seed,
    token::{TokenError, TokenResponse, TokenScheme},
    url::UrlRefused,
};
