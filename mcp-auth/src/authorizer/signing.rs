//! Signatures in requests to an authorization server: assertions of the client (OA-X-03), and proofs that it has the
//! key of its tokens (OA-X-06, OA-X-07).

use std::sync::Arc;

use http::HeaderMap;
use mcp_proto::Instant;
use mcp_proto::auth::{ClientKey, ProofKey, SigningAlgorithm, UnsignedJwt};
use mcp_proto::spec::header::DPOP_NONCE;
use mcp_proto::url::HttpUrl;
use serde::Serialize;

use super::flow::{Flow, Need, Part, Signing, Step};
use super::request::{ClientRequest, MAX_RESPONSE, Signed};
use super::{Authorizer, Timer};
use crate::action::{Action, KeyUse, SignKey};
use crate::client::ClientAuthentication;
use crate::config::Proofs;
use crate::error::SignInError;
use crate::url::Origin;

/// The lifetime of an assertion in seconds (OA-X-03).
const ASSERTION_LIFETIME: u64 = 300;

/// How often a request is repeated because the server demands a nonce (OA-X-07).
const MAX_FOR_NONCE: u8 = 2;

/// The most characters of a nonce.
const MAX_NONCE: usize = 1024;

/// The newest nonce of an authorization server.
#[derive(Debug)]
pub(super) struct Nonce {
    origin: Origin,
    value: String,
}

#[derive(Serialize)]
struct AssertionHeader<'a> {
    typ: &'static str,
    alg: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
}

#[derive(Serialize)]
struct AssertionClaims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
    jti: &'a str,
}

impl Authorizer {
    /// Sends a request once everything is signed that it needs.
    pub(super) fn request(&mut self, mut flow: Flow, request: ClientRequest, now: Instant) {
        if request.proof_key.is_none() && request.is_for_access() && self.wants_proofs(&flow, &request) {
            self.timers.set(Timer::Step, now + self.config.request_timeout);
            self.outbox.act(Action::CreateKey);
            flow.step = Step::CreatingKey(Box::new(request));
            self.flow = Some(flow);
        } else {
            self.sign_or_send(flow, request, Signed::default(), now);
        }
    }

    /// Whether the tokens of a request are to be bound to a key.
    fn wants_proofs(&self, flow: &Flow, request: &ClientRequest) -> bool {
        let is_demanded = matches!(flow.need, Need::New { demands_proofs: true, .. })
            || flow.found.as_ref().is_some_and(|found| found.resource.requires_proofs);
        let is_supported = request.issuer.supports_dpop(SigningAlgorithm::Es256.as_str());
        match self.config.proofs {
            Proofs::Never => false,
            Proofs::Demanded => is_demanded,
            Proofs::Supported => is_demanded || is_supported,
        }
    }

    pub(super) fn on_key(&mut self, flow: Flow, mut request: ClientRequest, key: Option<ProofKey>, now: Instant) {
        let Some(key) = key else { return self.fail(flow, SignInError::NotSigned, now) };
        request.proof_key = Some(Arc::new(key));
        self.sign_or_send(flow, request, Signed::default(), now);
    }

    fn sign_or_send(&mut self, mut flow: Flow, request: ClientRequest, signed: Signed, now: Instant) {
        if request.authentication() == ClientAuthentication::PrivateKeyJwt && signed.assertion.is_none() {
            let Some(key) = request.client.key().cloned() else { return self.fail(flow, SignInError::NotSigned, now) };
            let unsigned = self.assertion(&request, &key, now);
            return self.sign(flow, KeyUse::Client(key.algorithm()), unsigned, (request, signed, Part::Assertion), now);
        }
        let nonce = self.nonce_of(request.endpoint());
        if let Some(claims) = request.proof_claims(nonce).filter(|_| signed.proof.is_none()) {
            let unsigned = claims.to_jwt_with_id(&self.nonces.draw(), self.clock.unix(now));
            return self.sign(flow, KeyUse::Proof(claims.key), unsigned, (request, signed, Part::Proof), now);
        }
        let fetch = self.fetch(request.to_http(&signed), MAX_RESPONSE, now);
        flow.step = Step::Requesting { fetch, request: Box::new(request) };
        self.flow = Some(flow);
    }

    /// Who the client is (RFC 7523, section 3).
    fn assertion(&mut self, request: &ClientRequest, key: &ClientKey, now: Instant) -> UnsignedJwt {
        let (iat, jti) = (self.clock.unix(now), self.nonces.draw());
        let header = AssertionHeader { typ: "JWT", alg: key.algorithm().as_str(), kid: key.id() };
        let id = request.client.id();
        let exp = iat.saturating_add(ASSERTION_LIFETIME);
        UnsignedJwt::new(&header, &AssertionClaims { iss: id, sub: id, aud: request.audience(), iat, exp, jti: &jti })
    }

    fn sign(
        &mut self,
        mut flow: Flow,
        key: KeyUse,
        unsigned: UnsignedJwt,
        (request, signed, part): (ClientRequest, Signed, Part),
        now: Instant,
    ) {
        self.last_sign += 1;
        let sign = SignKey(self.last_sign);
        self.timers.set(Timer::Step, now + self.config.request_timeout);
        self.outbox.act(Action::Sign { sign, key, message: unsigned.message().to_vec().into() });
        flow.step = Step::Signing(Box::new(Signing { sign, unsigned, request, signed, part }));
        self.flow = Some(flow);
    }

    pub(super) fn on_signed(
        &mut self,
        mut flow: Flow,
        signing: Signing,
        sign: SignKey,
        signature: Option<&[u8]>,
        now: Instant,
    ) {
        if signing.sign != sign {
            flow.step = Step::Signing(Box::new(signing));
            return self.flow = Some(flow);
        }
        let Some(signature) = signature else { return self.fail(flow, SignInError::NotSigned, now) };
        let Signing { unsigned, request, mut signed, part, .. } = signing;
        let token = Some(unsigned.sign(signature));
        match part {
            Part::Assertion => signed.assertion = token,
            Part::Proof => signed.proof = token,
        }
        self.sign_or_send(flow, request, signed, now);
    }

    /// Keeps the nonce that a response contains; a newer one replaces it (OA-X-07).
    pub(super) fn learn_nonce(&mut self, url: &str, headers: &HeaderMap) {
        let value = headers.get(DPOP_NONCE).and_then(|value| value.to_str().ok());
        if let (Some(value), Ok(url)) = (value.filter(|value| value.len() <= MAX_NONCE), HttpUrl::parse(url)) {
            self.nonce = Some(Nonce { origin: Origin::of(&url), value: value.to_owned() });
        }
    }

    /// The nonce for a proof: only of the origin that has sent it.
    fn nonce_of(&self, url: &str) -> Option<&str> {
        let origin = Origin::of(&HttpUrl::parse(url).ok()?);
        self.nonce.as_ref().filter(|nonce| nonce.origin == origin).map(|nonce| nonce.value.as_str())
    }

    /// Whether a request is sent again because the server demands a nonce (OA-X-07).
    pub(super) fn may_repeat_for_nonce(&self, flow: &mut Flow, request: &ClientRequest) -> bool {
        let has_nonce = request.proof_key.is_some() && self.nonce_of(request.endpoint()).is_some();
        let is_allowed = has_nonce && flow.repeated.for_nonce < MAX_FOR_NONCE;
        flow.repeated.for_nonce += u8::from(is_allowed);
        is_allowed
    }
}
