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
mod jwt;
mod key;
#[cfg(feature = "auth")]
mod metadata;
mod proof;
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
pub use jwt::UnsignedJwt;
pub use key::{ClientKey, ProofKey, SigningAlgorithm};
pub use proof::ProofClaims;
pub use resource::ProtectedResource;
pub(crate) use resource::WELL_KNOWN;
pub use secret::Secret;
#[cfg(feature = "auth")]
pub use {
    action::{
        Action, Authorized, Event, FetchFailure, FetchKey, KeyUse, Lock, Reach, SignInError, SignKey, Step, Waiting,
    },
    authorization::{InvalidAuthorization, RedirectError},
    authorizer::{Authorizer, Cause},
    client::{ClientAuthentication, ClientIdentity, InvalidRegistration},
    config::{Config, Exceptions, Grant, IdentityProvider, Proofs, ResourceParameter},
    imported::Imported,
    metadata::{InvalidMetadata, IssuerMetadata, ResourceMetadata},
    record::StoredSignIn,
    seed::Seed,
    token::{TokenError, TokenResponse, TokenScheme},
    url::UrlRefused,
};
