//! Messages that the server refused with an HTTP error, whose body may be a JSON-RPC error.

use std::time::Duration;

use http::StatusCode;

use super::Http;
use super::delivery::DeliveryKey;
use super::exchange::{OpenedIn, Posted, Purpose};
use super::lost_session::{self, SessionState};
use crate::Instant;
use crate::client::transport::{Inbound, Role, TransportOutput};
use crate::conversation::keys::RequestKey;
use crate::error::{BodyKind, Failed, Fault, Quirk, Refusal, find_explanation};
use crate::jsonrpc::{ErrorObject, Frame, Message, RequestId, Response};
use crate::limits::Limits;
use crate::spec::status::{asks_to_wait, is_inconclusive};
use crate::text::Excerpt;

impl Http {
    /// The refusal with what its body says, without the secrets of the client.
    pub(super) fn explained(&self, refusal: Refusal, body: &[u8]) -> Refusal {
        let explanation = find_explanation(body).map(|text| self.common().without_secrets(text, &self.config.endpoint));
        Refusal { explanation: explanation.map(|text| Excerpt::new(&text, EXPLANATION_CHARS)), ..refusal }
    }

    /// The server refused a message, or the stream of a two-endpoint server, with an HTTP error, whose body may be a
    /// JSON-RPC error.
    pub(super) fn refused(
        &mut self,
        purpose: Purpose,
        opened_in: OpenedIn,
        refusal: Refusal,
        body: Vec<u8>,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let posted = match purpose {
            Purpose::Post(posted) => posted,
            purpose @ Purpose::TwoEndpointStream { .. } => {
                return self.stream_failed(purpose, Failed::Refused(refusal), now, output);
            }
            Purpose::GetStream { .. } | Purpose::Resume { .. } | Purpose::Delete | Purpose::Drain => return,
        };
        let error = read_error(&refusal, body, &self.limits);
        let own_id = posted.role.request().map(RequestKey::to_wire);
        let is_for_us = error.as_ref().is_some_and(|(id, _)| id.is_some() && *id == own_id);
        if opened_in.in_session && self.is_lost_session(posted, &refusal, error.as_ref(), is_for_us, output) {
            let reason = Failed::Refused(refusal);
            self.lose_session(opened_in.generation, Some((posted.message, reason)), now, output);
            return;
        }
        if let Some(asked) = refusal.retry_after.filter(|_| asks_to_wait(refusal.status)) {
            return self.postpone(posted.message, asked, refusal, now, output);
        }
        if let (Role::Discover(request, _), true) = (posted.role, is_inconclusive(refusal.status)) {
            // Such a status shows nothing about the era, whatever the body contains (ER-26).
            self.unanswered(request, Failed::Refused(refusal), output);
            return;
        }
        let Some(request) = posted.role.request() else {
            self.undelivered(posted.message, Failed::Refused(refusal), output);
            return;
        };
        if !is_for_us && self.deliveries.contains(posted.message) && self.falls_back(posted.role, &refusal) {
            self.fall_back(posted.message, Failed::Refused(refusal), now, output);
            return;
        }
        let has_challenge = !refusal.challenges.is_empty();
        match error {
            // The challenge is more useful than an error without an id (AU-14).
            Some((None, _)) if has_challenge => self.unanswered(request, Failed::Refused(refusal), output),
            Some((id, error)) if is_explanation(id.as_ref(), is_for_us) => {
                if has_challenge {
                    output.fault(Fault::NotAccepted { reason: Failed::Refused(refusal) });
                }
                if id.is_some() && !is_for_us {
                    output.quirk(Quirk::ForeignErrorId);
                }
                self.answered(request, Response::Error { id: own_id, error }, output);
            }
            Some(_) | None => self.unanswered(request, Failed::Refused(refusal), output),
        }
    }

    /// The server has not handled a message, and asks to send it again later (HT8). The client ends a request that would be
    /// sent again after its timeout.
    fn postpone(
        &mut self,
        message: DeliveryKey,
        asked: Duration,
        refusal: Refusal,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let within = self.config.accept_timeout;
        let is_retried = !self.session.is_closing();
        let retry_in = is_retried
            .then(|| self.deliveries.retry_as_asked(message, asked, within, &mut self.jitter, now, output.timers))
            .flatten();
        match (retry_in, message.request()) {
            (Some(retry_in), Some(request)) => output.pass(Inbound::Postponed { request, refusal, retry_in }),
            (Some(_), None) => {}
            (None, _) => self.undelivered(message, Failed::Refused(refusal), output),
        }
    }

    /// Whether the refusal means that the session is lost. A message that may have been processed and must not be
    /// processed twice ends with the refusal.
    fn is_lost_session(
        &mut self,
        posted: Posted,
        refusal: &Refusal,
        error: Option<&(Option<RequestId>, ErrorObject)>,
        is_for_us: bool,
        output: &mut TransportOutput<'_, Http>,
    ) -> bool {
        let error = error.map(|(_, error)| (error, is_for_us));
        let explanation = refusal.explanation.as_ref().map(Excerpt::as_str);
        match lost_session::of_refusal(refusal.status, error, explanation) {
            SessionState::Known => return false,
            SessionState::Lost => {}
            SessionState::LostInError => {
                if self.deliveries.post(posted.message).is_some_and(|post| !post.may_repeat) {
                    self.undelivered(posted.message, Failed::Refused(refusal.clone()), output);
                }
            }
        }
        if refusal.status != StatusCode::NOT_FOUND {
            output.quirk(Quirk::SessionLostWithOtherStatus);
        }
        true
    }
}

/// The most characters of an explanation that an error shows.
const EXPLANATION_CHARS: usize = 300;

/// The JSON-RPC error in the body of an HTTP error, whatever the status (SH-C-15).
fn read_error(refusal: &Refusal, body: Vec<u8>, limits: &Limits) -> Option<(Option<RequestId>, ErrorObject)> {
    if refusal.body != BodyKind::Json {
        return None;
    }
    match Frame::parse(&body.into(), limits).ok()? {
        Frame::Single(Message::Response(Response::Error { id, error })) => Some((id, error)),
        Frame::Single(_) | Frame::Batch(_) => None,
    }
}

/// Whether an error explains why the message was refused: its id is that of the message, missing, or a string, which
/// some servers send when they could not read the id.
fn is_explanation(id: Option<&RequestId>, is_for_us: bool) -> bool {
    is_for_us || id.is_none_or(|id| id.as_str().is_some())
}
