//! Signing out: the tokens are revoked where that is possible (RFC 7009), and the record is erased.

use mcp_proto::Instant;

use super::flow::Flow;
use super::request::{ClientRequest, Kind};
use super::{Authorizer, Timer};
use crate::action::{Action, Event};
use crate::record::Record;

impl Authorizer {
    /// The record is locked and was just read.
    pub(super) fn sign_out(&mut self, flow: Flow, now: Instant) {
        let tokens = self.record.tokens.take();
        let Some(tokens) = tokens.filter(|tokens| tokens.issuer.revocation_endpoint().is_some()) else {
            return self.on_revoked(flow, false);
        };
        // Revoking a refresh token ends the access tokens too (RFC 7009, section 2.1).
        let (token, hint) = match tokens.refresh_token {
            Some(token) => (token, "refresh_token"),
            None => (tokens.access_token, "access_token"),
        };
        let kind = Kind::Revocation { token, hint };
        self.request(flow, ClientRequest::new(tokens.issuer, tokens.client, kind), now);
    }

    /// The tokens are erased, whatever the server has answered.
    pub(super) fn on_revoked(&mut self, flow: Flow, is_revoked: bool) {
        self.record = Record::new();
        self.held = None;
        self.timers.clear(Timer::Refresh);
        self.outbox.act(Action::Erase);
        self.release(flow);
        self.outbox.report(Event::SignedOut { is_revoked });
    }
}
