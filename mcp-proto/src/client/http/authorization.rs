//! Authorization: the credentials that requests carry, and what waits for others.
//!
//! ```text
//!              a challenge, reported once (OA-T-05)
//! not awaited ──────────────────────────────────────▶ awaited: everything waits
//!      ▲                                                  │          │
//!      ├──────── authorize: all of it is sent again ──────┘          │
//!      └──────── refuse_authorization: all of it fails ──────────────┘
//! ```

use http::header::WWW_AUTHENTICATE;
use http::response::Parts;
use http::{HeaderMap, StatusCode};

use super::delivery::{DeliveryKey, Demand, Resent};
use super::exchange::{Exchange, ExchangeKey, Purpose};
use super::headers::refusal;
use super::{Http, HttpConfig, HttpTimer};
use crate::Instant;
use crate::auth::{Challenge, Challenged, Credentials, ProofClaims};
use crate::client::transport::{Inbound, TransportOutput};
use crate::error::{Failed, Fault, Refusal};
use crate::spec::header::DPOP_NONCE;

/// The most characters of a nonce.
const MAX_NONCE: usize = 1024;

/// The credentials of the client, and the streams that wait for others. The messages that wait are in `delivery`.
#[derive(Debug)]
pub(super) struct Authorization {
    /// Messages wait for authorization instead of being refused.
    is_managed: bool,
    /// The application has its own `Authorization` header (OA-T-06).
    is_fixed: bool,
    /// Those that requests carry.
    pub(super) credentials: Option<Credentials>,
    /// The newest nonce for proofs (OA-X-07).
    nonce: Option<Box<str>>,
    /// The challenge that was reported, and that the application has not answered.
    pub(super) awaited: Option<Awaited>,
    refused: Option<Refused>,
    pub(super) get_stream: WaitingStream,
    pub(super) two_endpoint_stream: WaitingStream,
}

/// A challenge.
#[derive(Debug)]
pub(super) struct Awaited {
    refusal: Refusal,
    /// The demanded scopes; `None` if the challenge demands credentials, without which nothing can be sent.
    scope: Option<Box<str>>,
}

/// Authorization that was refused, or not given in time.
#[derive(Debug)]
struct Refused {
    /// Exchanges with smaller keys were open then.
    before: ExchangeKey,
    scope: Option<Box<str>>,
    reason: Box<str>,
}

impl Refused {
    /// Whether the demand of a response was refused already. Refused credentials refuse all scopes, too.
    fn answers(&self, exchange: ExchangeKey, scope: Option<&str>) -> bool {
        exchange < self.before && (self.scope.is_none() || self.scope.as_deref() == scope)
    }
}

/// A stream that belongs to no request.
#[derive(Debug, Default)]
pub(super) struct WaitingStream {
    /// It waits for authorization.
    waits: bool,
    resent: Resent,
}

impl WaitingStream {
    /// The server has opened it, or it is not needed any more.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(super) const fn wait(&mut self) {
        self.waits = true;
    }

    /// Ends the wait; returns whether the stream waited.
    const fn take(&mut self) -> bool {
        std::mem::replace(&mut self.waits, false)
    }
}

impl Authorization {
    pub(super) fn new(config: &HttpConfig) -> Self {
        let is_fixed = config.has_authorization();
        Self {
            is_managed: config.managed_authorization && !is_fixed,
            is_fixed,
            credentials: None,
            nonce: None,
            awaited: None,
            refused: None,
            get_stream: WaitingStream::default(),
            two_endpoint_stream: WaitingStream::default(),
        }
    }

    /// Whether no message can be sent before the application answers a challenge.
    pub(super) fn blocks_all(&self) -> bool {
        // The stream of a two-endpoint server names where messages are sent.
        self.awaited.as_ref().is_some_and(|awaited| awaited.scope.is_none() || self.two_endpoint_stream.waits)
    }

    fn generation(&self) -> Option<u64> {
        self.credentials.as_ref().map(Credentials::generation)
    }

    /// The claims of the proof that a request needs.
    pub(super) fn proof<B>(&self, request: &http::Request<B>) -> Option<ProofClaims> {
        let bound = self.credentials.as_ref()?.bound()?;
        let (hash, nonce) = (Some(&*bound.hash), self.nonce.as_deref());
        Some(ProofClaims::new(request.method(), request.uri(), hash, nonce, bound.key.clone()))
    }

    /// Keeps the nonce that a response has; a newer one replaces it (OA-X-07).
    pub(super) fn learn_nonce(&mut self, headers: &HeaderMap) {
        if let Some(nonce) = nonce(headers) {
            self.nonce = Some(nonce.into());
        }
    }

    /// The demand in a response that another request may fulfil; `None` if there is none (OA-T-02, OA-T-07).
    fn demand(&self, head: &Parts) -> Option<(Demand, Vec<Challenge>)> {
        let is_candidate = matches!(head.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !is_candidate {
            return None;
        }
        let challenges = Challenge::parse(head.headers.get_all(WWW_AUTHENTICATE));
        let error = Challenge::for_token(&challenges).and_then(Challenge::error);
        let wants_nonce =
            challenges.iter().any(|challenge| challenge.is_dpop() && challenge.error() == Some("use_dpop_nonce"));
        let has_proof = self.credentials.as_ref().is_some_and(|credentials| credentials.bound().is_some());
        let demand = match head.status {
            StatusCode::UNAUTHORIZED if wants_nonce && has_proof && nonce(&head.headers).is_some() => Demand::Nonce,
            StatusCode::UNAUTHORIZED if self.is_managed => Demand::Credentials,
            StatusCode::FORBIDDEN if self.is_managed && error == Some("insufficient_scope") => Demand::Scope,
            _ => return None,
        };
        Some((demand, challenges))
    }

    /// The failure of everything that waited for authorization, with this reason.
    fn failure(&self, reason: Box<str>) -> Option<Failed> {
        self.awaited.as_ref().map(|awaited| Failed::NotAuthorized { refusal: awaited.refusal.clone(), reason })
    }
}

impl Http {
    /// Uses these credentials from now on, and sends everything again that waited for them.
    pub(super) fn authorize(&mut self, credentials: Credentials, now: Instant, output: &mut TransportOutput<'_, Http>) {
        if self.authorization.is_fixed {
            return;
        }
        self.authorization.credentials = Some(credentials);
        if self.authorization.awaited.take().is_some() {
            self.send_waiting(now, output);
        }
    }

    /// Sends everything again that waited for authorization.
    fn send_waiting(&mut self, now: Instant, output: &mut TransportOutput<'_, Http>) {
        if let Some(opening) = self.deliveries.release_authorized(output.timers) {
            output.pass(Inbound::OpeningContinues(opening));
        }
        if self.authorization.two_endpoint_stream.take() {
            self.get_endpoint(now, output);
        }
        for request in self.deliveries.waiting_to_resume() {
            self.reopen(request, now, output);
        }
        if self.authorization.get_stream.take() {
            self.open_get_stream(output);
        }
        self.pump(now, output);
    }

    /// Fails what waits for the authorization that the last challenge demands. Messages that wait for another one are sent
    /// again.
    pub(super) fn refuse_authorization(&mut self, reason: &str, now: Instant, output: &mut TransportOutput<'_, Http>) {
        let Some(failed) = self.authorization.failure(reason.into()) else { return };
        let blocks_all = self.authorization.blocks_all();
        let scope = self.authorization.awaited.take().and_then(|awaited| awaited.scope).filter(|_| !blocks_all);
        // Messages on their way may still meet the challenge that is answered here (OA-T-05).
        let (before, reason) = (self.exchanges.next_key(), reason.into());
        self.authorization.refused = Some(Refused { before, scope: scope.clone(), reason });
        self.fail_unauthorized(&failed, scope.as_deref(), output);
        self.send_waiting(now, output);
    }

    /// Fails what waits for these scopes, or everything that waits for authorization, for this reason.
    fn fail_unauthorized(&mut self, failed: &Failed, scope: Option<&str>, output: &mut TransportOutput<'_, Http>) {
        let waits_for = |resent: &Resent| scope.is_none() || resent.demanded.as_deref() == scope;
        for message in self.deliveries.waiting_for_authorization() {
            if self.deliveries.resent(message).is_some_and(waits_for) {
                self.undelivered(message, failed.clone(), output);
            }
        }
        for request in self.deliveries.waiting_to_resume() {
            if self.deliveries.resent(DeliveryKey::Request(request)).is_some_and(waits_for) {
                self.unanswered(request, failed.clone(), output);
            }
        }
        if waits_for(&self.authorization.get_stream.resent) && self.authorization.get_stream.take() {
            output.fault(Fault::NoServerStream { reason: failed.clone() });
        }
        if waits_for(&self.authorization.two_endpoint_stream.resent) && self.authorization.two_endpoint_stream.take() {
            self.opening_failed(failed.clone(), output);
        }
    }

    /// The connection ends: nothing is worth waiting for any more.
    pub(super) fn stop_awaiting_authorization(&mut self, output: &mut TransportOutput<'_, Http>) {
        self.authorization.awaited = None;
        self.fail_unauthorized(&Failed::Closed, None, output);
    }

    /// A message, or the stream of a request, has waited for authorization for too long.
    pub(super) fn on_no_authorization(&mut self, message: DeliveryKey, output: &mut TransportOutput<'_, Http>) {
        let reason =
            format!("no sign-in was completed within {:?}; sign in, then try again", self.config.authorization_timeout);
        let failed = self.authorization.failure(reason.into()).unwrap_or(Failed::Closed);
        // Without the stream of a two-endpoint server, nothing can be sent.
        if self.authorization.two_endpoint_stream.take() {
            self.opening_failed(failed.clone(), output);
        }
        self.undelivered(message, failed, output);
    }

    /// The end of a wait for authorization that begins now.
    pub(super) fn authorization_deadline(&self, now: Instant) -> Instant {
        now + self.config.authorization_timeout
    }

    /// Lets the queued messages wait, because they would only meet the same challenge.
    pub(super) fn hold_queued(&mut self, now: Instant, output: &mut TransportOutput<'_, Http>) {
        if self.authorization.blocks_all() && !self.session.is_closing() {
            let until = self.authorization_deadline(now);
            if let Some(opening) = self.deliveries.hold_queued(until, output.timers) {
                output.pass(Inbound::OpeningWaits(opening));
            }
        }
    }

    /// Handles a response that demands authorization. Returns whether its request is sent again, now or later; the body
    /// is not needed then.
    pub(super) fn is_challenged(
        &mut self,
        key: ExchangeKey,
        exchange: &Exchange,
        head: &Parts,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) -> bool {
        if self.session.is_closing() {
            return false;
        }
        let Some((demand, challenges)) = self.authorization.demand(head) else { return false };
        let purpose = exchange.purpose;
        // The request would now be sent with other credentials than those that it carried (OA-T-05).
        let is_stale = exchange.opened_in.credentials != self.authorization.generation();
        let scope: Option<Box<str>> = match demand {
            Demand::Scope => Challenge::for_token(&challenges).and_then(Challenge::scope).map(Into::into),
            Demand::Credentials | Demand::Nonce => None,
        };
        // The application has not answered another challenge yet, so this attempt is not counted.
        let is_behind = self.authorization.awaited.as_ref().is_some_and(|awaited| awaited.scope != scope);
        let Some(resent) = self.resent_mut(purpose) else { return false };
        if !is_stale && !is_behind && !resent.try_count(demand) {
            return false;
        }
        resent.demanded.clone_from(&scope);
        if self.authorization.awaited.is_none() {
            if is_stale || demand == Demand::Nonce {
                self.send_again(purpose, now, output);
                return true;
            }
            let refusal = refusal(head.status, &head.headers, &self.limits);
            let refused = self.authorization.refused.as_ref();
            if let Some(refused) = refused.filter(|refused| refused.answers(key, scope.as_deref())) {
                let reason = refused.reason.clone();
                self.not_authorized(purpose, Failed::NotAuthorized { refusal, reason }, now, output);
                return true;
            }
            self.authorization.awaited = Some(Awaited { refusal, scope });
            let bytes = head.headers.get_all(WWW_AUTHENTICATE).iter().map(http::HeaderValue::len).sum();
            let sent_with = exchange.opened_in.credentials;
            let (status, is_background) = (head.status, false);
            output.pass(Inbound::Challenged(Challenged { status, challenges, sent_with, is_background, bytes }));
        }
        self.wait_for_authorization(purpose, now, output);
        true
    }

    /// How often the message or stream of an exchange was sent again; `None` if it is not needed any more, or is never
    /// sent again.
    fn resent_mut(&mut self, purpose: Purpose) -> Option<&mut Resent> {
        match purpose {
            Purpose::Post(posted) => self.deliveries.resent_mut(posted.message),
            Purpose::Resume { request, .. } => self.deliveries.resent_mut(DeliveryKey::Request(request)),
            Purpose::GetStream { .. } => Some(&mut self.authorization.get_stream.resent),
            Purpose::TwoEndpointStream { .. } => Some(&mut self.authorization.two_endpoint_stream.resent),
            // The session ends without anybody signing in (OA-G-05).
            Purpose::Delete | Purpose::Drain => None,
        }
    }

    fn send_again(&mut self, purpose: Purpose, now: Instant, output: &mut TransportOutput<'_, Http>) {
        match purpose {
            Purpose::Post(posted) => self.deliveries.enqueue_in_place(posted.message, output.timers),
            Purpose::Resume { request, .. } => self.reopen(request, now, output),
            Purpose::GetStream { .. } => {
                self.get(None, Purpose::GetStream { redirects: 0 }, output);
            }
            Purpose::TwoEndpointStream { .. } => self.get_endpoint(now, output),
            Purpose::Delete | Purpose::Drain => {}
        }
    }

    fn wait_for_authorization(&mut self, purpose: Purpose, now: Instant, output: &mut TransportOutput<'_, Http>) {
        let until = self.authorization_deadline(now);
        match purpose {
            Purpose::Post(posted) => {
                self.deliveries.wait_for_authorization(posted.message, until, output.timers);
                if let Some(opening) = posted.role.opening() {
                    output.pass(Inbound::OpeningWaits(opening));
                }
            }
            Purpose::Resume { request, .. } => self.deliveries.wait_to_resume(request, until, output.timers),
            Purpose::GetStream { .. } => self.authorization.get_stream.wait(),
            Purpose::TwoEndpointStream { .. } => {
                output.clear_timer(HttpTimer::Endpoint);
                self.authorization.two_endpoint_stream.wait();
            }
            Purpose::Delete | Purpose::Drain => {}
        }
    }

    fn not_authorized(
        &mut self,
        purpose: Purpose,
        failed: Failed,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        match purpose {
            Purpose::Post(posted) => self.undelivered(posted.message, failed, output),
            Purpose::Resume { request, .. } => self.unanswered(request, failed, output),
            Purpose::GetStream { .. } => output.fault(Fault::NoServerStream { reason: failed }),
            Purpose::TwoEndpointStream { .. } => self.two_endpoint_stream_failed(failed, now, output),
            Purpose::Delete | Purpose::Drain => {}
        }
    }
}

/// The nonce in the headers of a response (RFC 9449, section 8.1).
fn nonce(headers: &HeaderMap) -> Option<&str> {
    let nonce = headers.get(DPOP_NONCE)?.to_str().ok()?;
    let is_valid = |byte: u8| matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'\\');
    (!nonce.is_empty() && nonce.len() <= MAX_NONCE && nonce.bytes().all(is_valid)).then_some(nonce)
}
