//! Requests to an authorization server in which the client authenticates (OA-K-01 to OA-K-05).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use mcp_proto::Instant;
use mcp_proto::auth::{ProofClaims, ProofKey, Secret};
use mcp_proto::spec::header::DPOP;
use mcp_proto::url::HttpUrl;
use serde::Deserialize;

use crate::authorization::Attempt;
use crate::client::{ClientAuthentication, ClientIdentity};
use crate::config::IdentityProvider;
use crate::form::Form;
use crate::metadata::IssuerMetadata;
use crate::record::Tokens;
use crate::token_response::{ID_JAG, TokenError, TokenResponse, TokenScheme};

/// The codes of a sign-in on another device.
#[derive(Debug)]
pub(super) struct Codes {
    pub(super) device_code: Secret,
    pub(super) interval: Duration,
    pub(super) lifetime: Duration,
    /// When the codes expire, or the person has had enough time.
    pub(super) until: Instant,
}

impl Codes {
    pub(super) fn device_code(&self) -> &str {
        self.device_code.reveal()
    }
}

/// The largest response, in bytes (OA-N-03).
pub(super) const MAX_RESPONSE: usize = 1024 * 1024;

const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

pub(super) const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A request to an authorization server.
#[derive(Debug)]
pub(super) struct ClientRequest {
    /// The issuer of the tokens that are wanted in the end.
    pub(super) issuer: IssuerMetadata,
    pub(super) client: ClientIdentity,
    pub(super) kind: Kind,
    /// The parameter `resource`, the same in all requests (OA-Q-05).
    pub(super) resource: Option<String>,
    /// The requested scopes.
    pub(super) scope: Option<String>,
    /// The key to which the tokens are to be bound.
    pub(super) proof_key: Option<Arc<ProofKey>>,
}

/// What is requested, and with what.
#[derive(Debug)]
pub(super) enum Kind {
    /// Tokens for an authorization code.
    Code { code: Secret, verifier: Secret, redirect_uri: String },
    /// Tokens for a refresh token.
    Refresh { token: Secret, granted: Option<String> },
    /// A token for the client itself.
    ClientCredentials,
    /// A token for an assertion (RFC 7523, section 2.1).
    Assertion(Secret),
    /// An assertion for an ID token (RFC 8693), from an identity provider (OA-X-04).
    Exchange { provider: IdentityProvider, id_token: Secret },
    /// The codes of a device grant.
    StartDevice,
    /// Tokens for the code of a device grant.
    Device(Codes),
    /// The end of a token (RFC 7009).
    Revocation { token: Secret, hint: &'static str },
}

/// What was signed for a request.
#[derive(Debug, Default)]
pub(super) struct Signed {
    /// The client's assertion of who it is (RFC 7523, section 2.2).
    pub(super) assertion: Option<Secret>,
    /// The proof that the client has the key of the tokens (RFC 9449, section 5).
    pub(super) proof: Option<Secret>,
}

impl ClientRequest {
    pub(super) fn new(issuer: IssuerMetadata, client: ClientIdentity, kind: Kind) -> Self {
        Self { issuer, client, kind, resource: None, scope: None, proof_key: None }
    }

    pub(super) fn code(issuer: IssuerMetadata, client: ClientIdentity, attempt: Attempt, code: Secret) -> Self {
        let kind = Kind::Code { code, verifier: attempt.verifier, redirect_uri: attempt.redirect_uri };
        Self { resource: attempt.resource, scope: attempt.scope, ..Self::new(issuer, client, kind) }
    }

    /// A refresh at the stored token endpoint, which issued the tokens (OA-F-01).
    pub(super) fn refresh(tokens: &Tokens, refresh_token: Secret) -> Self {
        let kind = Kind::Refresh { token: refresh_token, granted: tokens.granted.clone() };
        Self {
            resource: tokens.resource.clone(),
            scope: tokens.requested.clone(),
            proof_key: tokens.proof_key.clone().map(Arc::new),
            ..Self::new(tokens.issuer.clone(), tokens.client.clone(), kind)
        }
    }

    /// The URL of the request. Requests are made only for endpoints that exist.
    pub(super) fn endpoint(&self) -> &str {
        match &self.kind {
            Kind::Code { .. }
            | Kind::Refresh { .. }
            | Kind::ClientCredentials
            | Kind::Assertion(_)
            | Kind::Device(_) => self.issuer.token_endpoint(),
            Kind::Exchange { provider, .. } => provider.token_endpoint(),
            Kind::StartDevice => self.issuer.device_authorization_endpoint().unwrap_or_default(),
            Kind::Revocation { .. } => self.issuer.revocation_endpoint().unwrap_or_default(),
        }
    }

    /// The issuer for which an assertion of the client is made (OA-X-03).
    pub(super) fn audience(&self) -> &str {
        if let Kind::Exchange { provider, .. } = &self.kind { provider.issuer() } else { self.issuer.issuer() }
    }

    /// Whether access tokens for the server are requested: other tokens are not bound to its key.
    pub(super) const fn is_for_access(&self) -> bool {
        match self.kind {
            Kind::Code { .. }
            | Kind::Refresh { .. }
            | Kind::ClientCredentials
            | Kind::Assertion(_)
            | Kind::Device(_) => true,
            Kind::Exchange { .. } | Kind::StartDevice | Kind::Revocation { .. } => false,
        }
    }

    /// How the client authenticates. The metadata of an identity provider are not known.
    pub(super) fn authentication(&self) -> ClientAuthentication {
        if let Kind::Exchange { .. } = self.kind {
            self.client.own_authentication()
        } else {
            self.client.authentication(&self.issuer)
        }
    }

    /// The claims of the proof that the request carries, if its tokens are to be bound to a key.
    pub(super) fn proof_claims(&self, nonce: Option<&str>) -> Option<ProofClaims> {
        let key = self.proof_key.clone().filter(|_| self.is_for_access())?;
        let url = HttpUrl::parse(self.endpoint()).ok()?;
        Some(ProofClaims::new(&Method::POST, &url.to_uri(), None, nonce, key))
    }

    pub(super) fn to_http(&self, signed: &Signed) -> Request<Bytes> {
        let mut form = Form::new();
        match &self.kind {
            Kind::Code { code, verifier, redirect_uri } => {
                form.add("grant_type", "authorization_code");
                form.add("code", code.reveal());
                form.add("redirect_uri", redirect_uri);
                form.add("code_verifier", verifier.reveal());
            }
            Kind::Refresh { token, granted } => {
                form.add("grant_type", "refresh_token");
                form.add("refresh_token", token.reveal());
                // No more than what was granted (OA-F-01).
                form.add_some("scope", granted.as_deref());
            }
            Kind::ClientCredentials => {
                form.add("grant_type", "client_credentials");
                form.add_some("scope", self.scope.as_deref());
            }
            Kind::Assertion(assertion) => {
                form.add("grant_type", JWT_BEARER);
                form.add("assertion", assertion.reveal());
                form.add_some("scope", self.scope.as_deref());
            }
            Kind::Exchange { provider, id_token } => {
                form.add("grant_type", TOKEN_EXCHANGE);
                form.add("requested_token_type", ID_JAG);
                form.add("audience", self.issuer.issuer());
                form.add("subject_token", id_token.reveal());
                form.add("subject_token_type", provider.subject_token_type());
                form.add_some("scope", self.scope.as_deref());
            }
            Kind::StartDevice => form.add_some("scope", self.scope.as_deref()),
            Kind::Device(codes) => {
                form.add("grant_type", DEVICE_CODE);
                form.add("device_code", codes.device_code());
            }
            Kind::Revocation { token, hint } => {
                form.add("token", token.reveal());
                form.add("token_type_hint", hint);
            }
        }
        if !matches!(self.kind, Kind::Revocation { .. }) {
            form.add_some("resource", self.resource.as_deref());
        }
        let method = self.authentication();
        let authorization = self.client.authenticate(method, &mut form);
        if let Some(assertion) = &signed.assertion {
            form.add("client_assertion_type", CLIENT_ASSERTION);
            form.add("client_assertion", assertion.reveal());
        }
        let mut request = post(self.endpoint(), form.finish().into(), "application/x-www-form-urlencoded");
        let headers = request.headers_mut();
        headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
        if let Some(Ok(mut proof)) = signed.proof.as_ref().map(|proof| HeaderValue::from_str(proof.reveal())) {
            proof.set_sensitive(true);
            headers.insert(DPOP, proof);
        }
        request
    }

    /// The tokens of a response.
    ///
    /// # Errors
    ///
    /// The token cannot be presented as it was asked for (OA-K-03).
    pub(super) fn tokens(self, response: TokenResponse, is_identity: bool, unix: u64) -> Result<Tokens, TokenError> {
        let scheme = match (response.scheme, &self.proof_key) {
            (Some(TokenScheme::Bearer), None) => TokenScheme::Bearer,
            (Some(TokenScheme::Dpop), Some(_)) => TokenScheme::Dpop,
            (Some(TokenScheme::Bearer), Some(_)) => return Err(TokenError::NotBound),
            (Some(TokenScheme::Dpop), None) => return Err(TokenError::unknown_type("DPoP")),
            (None, _) => return Err(TokenError::unknown_type("N_A")),
        };
        let (refresh_token, granted) = match self.kind {
            // Without a new refresh token, the old one stays valid (OA-F-03).
            Kind::Refresh { token, granted } => (response.refresh_token.or(Some(token)), granted),
            Kind::Code { .. } | Kind::Device(_) => (response.refresh_token, self.scope.clone()),
            // Such a client can always ask again (OA-X-01).
            Kind::ClientCredentials | Kind::Assertion(_) => (None, self.scope.clone()),
            Kind::Exchange { .. } | Kind::StartDevice | Kind::Revocation { .. } => return Err(TokenError::Unusable),
        };
        let expires_at = response.expires_in.map(|lifetime| unix.saturating_add(lifetime));
        let (access_token, expires_at) = if is_identity {
            // Its own expiry counts, not that of the access token beside it (OA-X-09).
            let token = response.id_token.ok_or(TokenError::NoIdToken)?;
            let expiry = expiry(&token);
            (token, expiry)
        } else {
            (response.access_token, expires_at)
        };
        Ok(Tokens {
            issuer: self.issuer,
            client: self.client,
            access_token,
            scheme,
            issued_at: unix,
            expires_at,
            refresh_token,
            resource: self.resource,
            requested: self.scope,
            // Without a scope, what was requested was granted (RFC 6749, section 5.1).
            granted: response.scope.or(granted),
            proof_key: self.proof_key.as_deref().cloned(),
        })
    }
}

/// A POST to an endpoint of an authorization server.
pub(super) fn post(url: &str, body: Bytes, content_type: &'static str) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    // The endpoints of metadata are checked when it is parsed.
    *request.uri_mut() = HttpUrl::parse(url).map(|url| url.to_uri()).unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    request
}

/// When a token of another issuer expires, in seconds since 1970. Its signature is not verified: the token is only
/// passed on.
fn expiry(token: &Secret) -> Option<u64> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let claims = token.reveal().split('.').nth(1)?;
    let Claims { exp } = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let whole = exp as u64;
    Some(whole)
}

#[cfg(test)]
mod tests {
    use mcp_proto::auth::UnsignedJwt;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_expiry_of_a_token_is_read_from_its_claims() {
        let of = |claims: &serde_json::Value| expiry(&UnsignedJwt::new(&json!({}), claims).sign(&[]));
        assert_eq!(of(&json!({ "exp": 1_700_000_000 })), Some(1_700_000_000));
        assert_eq!(of(&json!({ "exp": 1.7e9 })), Some(1_700_000_000), "a NumericDate may have a fraction");
        assert_eq!(of(&json!({ "iat": 1 })), None);
        assert_eq!(expiry(&"opaque".into()), None);
    }
}
