//! What follows from the responses to requests in which the client authenticates (OA-F-01 to OA-F-03).

use http::response;
use mcp_proto::Instant;

use super::flow::{Flow, Step, Then};
use super::request::{ClientRequest, Kind};
use super::{Authorizer, without_query};
use crate::action::Lock;
use crate::error::{FetchFailure, SignInError};
use crate::token_response::{TokenError, TokenResponse};

impl Authorizer {
    /// The authorization server has answered.
    pub(super) fn on_response(&mut self, mut flow: Flow, head: &response::Parts, body: &[u8], now: Instant) {
        let Step::Requesting { request, .. } = std::mem::replace(&mut flow.step, Step::Ready) else {
            return self.flow = Some(flow);
        };
        self.learn_nonce(request.endpoint(), &head.headers);
        match request.kind {
            Kind::StartDevice => return self.on_codes(flow, *request, head.status, body, now),
            Kind::Revocation { .. } => return self.on_revoked(flow, head.status.is_success()),
            Kind::Code { .. }
            | Kind::Refresh { .. }
            | Kind::ClientCredentials
            | Kind::Assertion(_)
            | Kind::Exchange { .. }
            | Kind::Device(_) => {}
        }
        match TokenResponse::parse(head.status, body) {
            Ok(response) => {
                for quirk in &response.quirks {
                    self.report_quirk(*quirk, request.issuer.issuer());
                }
                self.on_issued(flow, *request, response, now);
            }
            Err(TokenError::Temporary(status)) => {
                let url = without_query(request.endpoint());
                self.on_unanswered(flow, *request, SignInError::temporary(url, status, body), now);
            }
            // The same request again, with another proof; this is no refusal (OA-X-07).
            Err(refusal) if refusal.is("use_dpop_nonce") && self.may_repeat_for_nonce(&mut flow, &request) => {
                self.request(flow, *request, now);
            }
            Err(refusal) => self.on_refused(flow, *request, refusal, now),
        }
    }

    /// A request had no usable response. It may succeed later.
    pub(super) fn on_unanswered(&mut self, flow: Flow, request: ClientRequest, error: SignInError, now: Instant) {
        match request.kind {
            // A person may be signing in meanwhile (OA-X-08).
            Kind::Device(_) => self.wait_longer_for_device(flow, request, now),
            Kind::Revocation { .. } => self.on_revoked(flow, false),
            Kind::Code { .. }
            | Kind::Refresh { .. }
            | Kind::ClientCredentials
            | Kind::Assertion(_)
            | Kind::Exchange { .. }
            | Kind::StartDevice => self.fail(flow, error, now),
        }
    }

    fn on_issued(&mut self, flow: Flow, request: ClientRequest, response: TokenResponse, now: Instant) {
        let issuer = request.issuer.issuer().to_owned();
        if let Kind::Exchange { .. } = request.kind {
            return self.on_exchanged(flow, &request, response, now);
        }
        if matches!(request.kind, Kind::Code { .. } | Kind::Device(_)) {
            self.history.signed_in(now);
        }
        match request.tokens(response, self.config.uses_id_token, self.clock.unix(now)) {
            Ok(tokens) => self.store_tokens(flow, tokens, now),
            Err(reason) => self.fail(flow, SignInError::Token { issuer, reason }, now),
        }
    }

    fn on_refused(&mut self, flow: Flow, request: ClientRequest, refusal: TokenError, now: Instant) {
        let issuer = request.issuer.issuer().to_owned();
        match request.kind {
            Kind::Refresh { .. } => self.on_refresh_refused(flow, &issuer, &refusal, now),
            Kind::Code { .. } => self.on_code_refused(flow, issuer, refusal, now),
            Kind::Device(_) => self.on_device_refused(flow, request, refusal, now),
            Kind::Exchange { provider, .. } => {
                let issuer = provider.issuer().to_owned();
                self.fail(flow, SignInError::Token { issuer, reason: refusal }, now);
            }
            // No other attempt, and no other grant (OA-X-05).
            Kind::ClientCredentials | Kind::Assertion(_) | Kind::StartDevice | Kind::Revocation { .. } => {
                self.fail(flow, refused(issuer, refusal), now);
            }
        }
    }

    /// The refresh token is of no use: it is dropped, and a person signs in again if a token is demanded
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

    pub(super) fn on_code_refused(&mut self, mut flow: Flow, issuer: String, refusal: TokenError, now: Instant) {
        let may_register = self.may_register_scopes(&flow);
        let once = &mut flow.repeated;
        let is_repeated = if refusal.is("invalid_grant") {
            !std::mem::replace(&mut once.has_restarted, true)
        } else if refusal.is("invalid_scope") && may_register {
            flow.must_register = true;
            true
        } else if refusal.is("invalid_scope") {
            !std::mem::replace(&mut once.is_without_scope, true)
        } else if refusal.is("invalid_client") && self.config.registered.is_none() {
            flow.must_register = true;
            !std::mem::replace(&mut flow.registering.is_repeated, true)
        } else {
            false
        };
        if is_repeated && flow.locks.contains(&Lock::SignIn) {
            self.lock_record(flow, Then::Decide, now);
        } else {
            self.fail(flow, refused(issuer, refusal), now);
        }
    }

    /// The request has no response at all.
    pub(super) fn on_failed(&mut self, mut flow: Flow, reason: FetchFailure, now: Instant) {
        let url = without_query(flow.step.request().map_or("", |(_, url)| url));
        let error = SignInError::Fetch { url, reason };
        match std::mem::replace(&mut flow.step, Step::Ready) {
            Step::Requesting { request, .. } => self.on_unanswered(flow, *request, error, now),
            Step::Discovering(discovery) => self.on_unreached(flow, discovery, error, now),
            Step::Ready
            | Step::Locking(_)
            | Step::Loading(_)
            | Step::LockingSignIn
            | Step::Listening
            | Step::Registering { .. }
            | Step::AwaitingRedirect(_)
            | Step::AwaitingDevice(_)
            | Step::Obtaining
            | Step::CreatingKey(_)
            | Step::Signing(_) => self.fail(flow, error, now),
        }
    }
}

/// Why a token was refused, with what to do where the reason is known (OA-K-04).
fn refused(issuer: String, refusal: TokenError) -> SignInError {
    if refusal.is("invalid_target") {
        SignInError::ResourceRefused { issuer }
    } else {
        SignInError::Token { issuer, reason: refusal }
    }
}
