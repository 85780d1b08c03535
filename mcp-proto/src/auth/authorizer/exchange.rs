//! Requests to the token endpoint, and what follows from the responses (OA-K-01 to OA-K-05, OA-F-01 to OA-F-03).

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};

use super::{Authorizer, Flow, Step, without_query};
use crate::Instant;
use crate::auth::action::{Lock, SignInError};
use crate::auth::authorization::Attempt;
use crate::auth::client::ClientIdentity;
use crate::auth::form::Form;
use crate::auth::metadata::IssuerMetadata;
use crate::auth::record::Tokens;
use crate::auth::secret::Secret;
use crate::auth::token::{TokenError, TokenResponse, TokenScheme};
use crate::client::http::endpoint::Endpoint;

/// The largest response of a token endpoint, in bytes (OA-N-03).
const MAX_RESPONSE: usize = 1024 * 1024;

/// A request to a token endpoint.
#[derive(Debug)]
pub(super) struct TokenRequest {
    pub(super) issuer: IssuerMetadata,
    client: ClientIdentity,
    kind: Kind,
    /// The parameter `resource`, the same in all requests (OA-Q-05).
    resource: Option<String>,
    /// The requested scopes.
    scope: Option<String>,
}

/// What the tokens are exchanged for.
#[derive(Debug)]
enum Kind {
    Code { code: Secret, verifier: Secret, redirect_uri: String },
    Refresh { token: Secret, granted: Option<String> },
    ClientCredentials,
}

impl TokenRequest {
    pub(super) fn code(issuer: IssuerMetadata, client: ClientIdentity, attempt: Attempt, code: Secret) -> Self {
        Self {
            issuer,
            client,
            kind: Kind::Code { code, verifier: attempt.verifier, redirect_uri: attempt.redirect_uri },
            resource: attempt.resource,
            scope: attempt.scope,
        }
    }

    /// At the token endpoint that issued the tokens, as it was stored (OA-F-01).
    pub(super) fn refresh(tokens: &Tokens) -> Self {
        let token = tokens.refresh_token.clone().unwrap_or_else(|| Secret::new(String::new()));
        Self {
            issuer: tokens.issuer.clone(),
            client: tokens.client.clone(),
            kind: Kind::Refresh { token, granted: tokens.granted.clone() },
            resource: tokens.resource.clone(),
            scope: tokens.requested.clone(),
        }
    }

    fn client_credentials(
        issuer: IssuerMetadata,
        client: ClientIdentity,
        resource: Option<String>,
        scope: Option<String>,
    ) -> Self {
        Self { issuer, client, kind: Kind::ClientCredentials, resource, scope }
    }

    fn to_http(&self) -> Request<Bytes> {
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
        }
        form.add_some("resource", self.resource.as_deref());
        let method = self.client.authentication(&self.issuer, false);
        let authorization = self.client.authenticate(method, &mut form);
        let mut request = post(self.issuer.token_endpoint(), form.finish().into(), "application/x-www-form-urlencoded");
        request.headers_mut().extend(authorization.map(|value| (AUTHORIZATION, value)));
        request
    }

    /// The tokens of a response.
    fn tokens(self, response: TokenResponse, unix: u64) -> Result<Tokens, TokenError> {
        // A scheme that was not asked for cannot be presented (OA-K-03).
        let Some(TokenScheme::Bearer) = response.scheme else { return Err(TokenError::Unusable) };
        let (refresh_token, granted) = match self.kind {
            // Without a new refresh token, the old one stays valid (OA-F-03).
            Kind::Refresh { token, granted } => (response.refresh_token.or(Some(token)), granted),
            Kind::Code { .. } => (response.refresh_token, self.scope.clone()),
            // Such a client can always ask again (OA-X-01).
            Kind::ClientCredentials => (None, self.scope.clone()),
        };
        Ok(Tokens {
            issuer: self.issuer,
            client: self.client,
            access_token: response.access_token,
            scheme: TokenScheme::Bearer,
            issued_at: unix,
            expires_at: response.expires_in.map(|lifetime| unix.saturating_add(lifetime)),
            refresh_token,
            resource: self.resource,
            requested: self.scope,
            // Without a scope, what was requested was granted (RFC 6749, section 5.1).
            granted: response.scope.or(granted),
        })
    }
}

impl Authorizer {
    pub(super) fn request_token(&mut self, mut flow: Flow, request: TokenRequest, now: Instant) {
        let fetch = self.fetch(request.to_http(), MAX_RESPONSE, now);
        flow.step = Step::RequestingToken { fetch, request };
        self.flow = Some(flow);
    }

    /// Signs in as the client itself. The lock of the record is kept: one process asks for all.
    pub(super) fn request_client_credentials(&mut self, flow: Flow, now: Instant) {
        let Some(found) = &flow.found else { return self.fail(flow, SignInError::NoMetadata) };
        let issuer = found.issuer.clone();
        let (resource, scope) = (found.resource.parameter.clone(), self.scope(&flow));
        match self.registered_client(&issuer) {
            Ok(Some(client)) => {
                let request = TokenRequest::client_credentials(issuer, client, resource, scope);
                self.request_token(flow, request, now);
            }
            Ok(None) => {
                let issuer = issuer.issuer().to_owned();
                self.fail(flow, SignInError::NoClientId { issuer });
            }
            Err(error) => self.fail(flow, error),
        }
    }

    /// The token endpoint has answered.
    pub(super) fn on_token(&mut self, mut flow: Flow, status: StatusCode, body: &[u8], now: Instant) {
        let Step::RequestingToken { request, .. } = std::mem::replace(&mut flow.step, Step::Ready) else {
            return self.flow = Some(flow);
        };
        let unix = self.clock.unix(now);
        let refusal = match TokenResponse::parse(status, body) {
            Ok(response) => {
                let issuer = request.issuer.issuer().to_owned();
                return match request.tokens(response, unix) {
                    Ok(tokens) => self.store_tokens(flow, tokens, now),
                    Err(reason) => self.fail(flow, SignInError::Token { issuer, reason }),
                };
            }
            Err(TokenError::Temporary(status)) => {
                let url = without_query(request.issuer.token_endpoint());
                return self.fail(flow, SignInError::Temporary { url, status });
            }
            Err(refusal) => refusal,
        };
        let issuer = request.issuer.issuer().to_owned();
        match request.kind {
            Kind::Refresh { .. } => self.on_refresh_refused(flow, &issuer, &refusal, now),
            Kind::Code { .. } => self.on_code_refused(flow, issuer, refusal, now),
            Kind::ClientCredentials => self.fail(flow, SignInError::Token { issuer, reason: refusal }),
        }
    }

    /// The refresh token is of no use: it is dropped, and a person signs in again if somebody has asked for a token
    /// (OA-F-03). The record was read under the lock, so that no other process has a newer one.
    fn on_refresh_refused(&mut self, flow: Flow, issuer: &str, refusal: &TokenError, now: Instant) {
        if let Some(tokens) = &mut self.record.tokens {
            tokens.refresh_token = None;
        }
        if refusal.is("invalid_client") {
            self.record.remove_client(issuer);
        }
        self.store();
        self.decide(flow, now);
    }

    fn on_code_refused(&mut self, mut flow: Flow, issuer: String, refusal: TokenError, now: Instant) {
        if refusal.is("invalid_target") {
            return self.fail(flow, SignInError::ResourceRefused { issuer });
        }
        let once = &mut flow.repeated;
        let is_repeated = if refusal.is("invalid_grant") {
            !std::mem::replace(&mut once.has_restarted, true)
        } else if refusal.is("invalid_scope") {
            !std::mem::replace(&mut once.is_without_scope, true)
        } else if refusal.is("invalid_client") && self.config.registered.is_none() {
            flow.must_register = true;
            !std::mem::replace(&mut once.has_registered_again, true)
        } else {
            false
        };
        if is_repeated && flow.locks.contains(&Lock::SignIn) {
            self.lock_record(flow, super::Then::Decide, now);
        } else {
            self.fail(flow, SignInError::Token { issuer, reason: refusal });
        }
    }
}

/// A POST to an endpoint of an authorization server.
pub(super) fn post(url: &str, body: Bytes, content_type: &'static str) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    // The endpoints of metadata are checked when it is parsed.
    *request.uri_mut() = Endpoint::check(url).map(|url| url.to_uri()).unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    request
}
