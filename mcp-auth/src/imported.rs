//! Tokens that another program has stored.

use mcp_proto::auth::Secret;
use serde::Deserialize;

use super::client::ClientIdentity;
use super::metadata::IssuerMetadata;
use super::quirk::is_bearer_by_another_name;
use super::record::Tokens;
use super::token_response::TokenScheme;

/// Tokens that another program has obtained for the same server, and the client to which they were issued, for
/// [`Cause::Imported`](super::Cause).
///
/// # Example
///
/// ```
/// use mcp_auth::Imported;
///
/// let tokens = br#"{"access_token":"a","token_type":"Bearer","refresh_token":"r","expires_at":1800000000000}"#;
/// let client = br#"{"client_id":"id","redirect_uris":["http://localhost:3334/oauth/callback"]}"#;
/// assert!(Imported::from_mcp_remote(tokens, client).is_some());
/// assert!(Imported::from_mcp_remote(b"{}", client).is_none());
/// ```
#[derive(Debug, Clone)]
pub struct Imported {
    tokens: StoredTokens,
    client: ClientIdentity,
}

/// A token response, as `mcp-remote` stores it: with its absolute expiry.
#[derive(Debug, Clone, Deserialize)]
struct StoredTokens {
    access_token: Secret,
    token_type: String,
    refresh_token: Option<Secret>,
    /// Milliseconds since 1970.
    expires_at: Option<f64>,
    scope: Option<String>,
    requested_scope: Option<String>,
    issuer: Option<String>,
}

impl Imported {
    /// Reads the files `…_tokens.json` and `…_client_info.json` of `mcp-remote`; `None` if they are not of that form.
    #[must_use]
    pub fn from_mcp_remote(tokens: &[u8], client: &[u8]) -> Option<Self> {
        let tokens: StoredTokens = serde_json::from_slice(tokens).ok()?;
        let is_bearer =
            tokens.token_type.eq_ignore_ascii_case("bearer") || is_bearer_by_another_name(&tokens.token_type);
        let is_usable = !tokens.access_token.reveal().is_empty() && is_bearer;
        let client = ClientIdentity::parse_registered(client).ok()?;
        is_usable.then_some(Self { tokens, client })
    }

    /// The tokens as they are stored; `None` if another issuer has issued them (OA-M-01).
    pub(super) fn to_tokens(&self, issuer: &IssuerMetadata, resource: Option<&str>, unix: u64) -> Option<Tokens> {
        let StoredTokens { access_token, refresh_token, expires_at, scope, requested_scope, issuer: own, .. } =
            self.tokens.clone();
        if own.is_some_and(|own| own != issuer.issuer()) {
            return None;
        }
        Some(Tokens {
            issuer: issuer.clone(),
            client: self.client.clone(),
            access_token,
            scheme: TokenScheme::Bearer,
            issued_at: unix,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
            expires_at: expires_at.map(|milliseconds| (milliseconds / 1000.0) as u64),
            refresh_token,
            resource: resource.map(str::to_owned),
            requested: requested_scope.clone(),
            granted: scope.or(requested_scope),
            proof_key: None,
        })
    }
}
