//! Authorization in requests (RFC 6750, RFC 9449), and the metadata that servers publish about theirs (RFC 9728).
//!
//! | you write | take |
//! |---|---|
//! | a client with a token of its own | [`Credentials`] |
//! | a client that signs in | the crate `mcp-auth`, with the whole flow as a machine |
//! | a server that demands tokens | [`ProtectedResource`] and [`Challenge`]; the tokens are validated by your own code |
//!
//! | file | what it does |
//! |---|---|
//! | `challenge` | the header `WWW-Authenticate`, read and written |
//! | `credentials` | the access token that requests carry |
//! | `proof`, `key`, `jwt` | proofs that the client has the key of its token, keys, and what the client signs |
//! | `resource` | the metadata of a server |
//! | `secret` | texts that are never shown |
//!
//! # Example: a server that demands a token
//!
//! ```
//! use http::HeaderValue;
//! use mcp_proto::auth::Challenge;
//!
//! let challenges = Challenge::parse([&HeaderValue::from_static(r#"Bearer scope="read", error="invalid_token""#)]);
//! assert_eq!(challenges[0].scope(), Some("read"));
//! ```

mod challenge;
mod credentials;
mod jwt;
mod key;
mod proof;
mod resource;
mod secret;

pub use challenge::{Challenge, Challenged};
pub use credentials::Credentials;
pub use jwt::UnsignedJwt;
pub use key::{ClientKey, ProofKey, SigningAlgorithm};
pub use proof::ProofClaims;
pub use resource::{ProtectedResource, WELL_KNOWN};
pub use secret::Secret;
