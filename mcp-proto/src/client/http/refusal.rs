//! Messages that the server refused with an HTTP error, whose body may be a JSON-RPC error.

use http::StatusCode;

use super::exchange::{OpenedIn, Purpose};
use super::{Http, HttpAction};
use crate::Instant;
use crate::client::transport::{Role, TransportOutput};
use crate::codec::jsonrpc::{ErrorObject, Frame, Message, RequestId, Response};
use crate::conversation::keys::RequestKey;
use crate::error::{BodyKind, Failed, Fault, Quirk, Refusal};
use crate::limits::Limits;
use crate::spec::code;
use crate::spec::status::is_inconclusive;

impl Http {
    /// The server refused a message with an HTTP error, whose body may be a JSON-RPC error.
    pub(super) fn refused(
        &mut self,
        purpose: Purpose,
        opened_in: OpenedIn,
        refusal: Refusal,
        body: Vec<u8>,
        now: Instant,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Purpose::Post(posted) = purpose else { return };
        if let (Role::Discover(request, _), true) = (posted.role, is_inconclusive(refusal.status)) {
            // Such a status shows nothing about the era, whatever the body contains (ER-26).
            self.unanswered(request, Failed::Refused(refusal), output);
            return;
        }
        let error = read_error(&refusal, body, &self.limits);
        let own_id = posted.role.request().map(RequestKey::to_wire);
        let is_for_us = error.as_ref().is_some_and(|(id, _)| id.is_some() && *id == own_id);
        if opened_in.in_session && is_lost_session(&refusal, error.as_ref(), is_for_us, output) {
            self.lose_session(opened_in.generation, Some(posted.message), now, output);
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
}

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

/// Whether the refusal means that the session is lost (SH-C-08, A16).
fn is_lost_session(
    refusal: &Refusal,
    error: Option<&(Option<RequestId>, ErrorObject)>,
    is_for_us: bool,
    output: &mut TransportOutput<'_, HttpAction>,
) -> bool {
    match refusal.status {
        // With this code and the id of the request, the method was not found.
        StatusCode::NOT_FOUND => !(is_for_us && error.is_some_and(|(_, error)| error.code() == code::METHOD_NOT_FOUND)),
        StatusCode::BAD_REQUEST => {
            let says_so = error.is_some_and(|(_, error)| error.message().to_ascii_lowercase().contains("session"));
            let lost = says_so && !is_for_us;
            if lost {
                output.quirk(Quirk::SessionLostAsBadRequest);
            }
            lost
        }
        _ => false,
    }
}
