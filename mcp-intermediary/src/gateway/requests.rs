//! A backend that serves stateless requests.
//!
//! A modern backend serves the stateless requests of all clients. Each request states its client and revision itself,
//! so that clients share the backend as they would share a server over HTTP. Ids, progress tokens and subscription ids
//! are mapped (BR-T-04), and the end of an exchange cancels its request.
//!
//! A legacy backend has one session for the clients of one group (BR-M-02). The backend may ask a client for input
//! during a call. The call stays open at the backend until the client retries it (BR-M-03); only a client that knows
//! its `requestState` can do that. Clients of a legacy backend are not notified of changes.

use mcp_proto::client::{self, Unavailable};
use mcp_proto::server::{self, Http};
use mcp_proto::{ErrorObject, Failed, Instant, Json, Load, Method, ProtocolVersion, Stdio, Ticket, code};

use super::shared::Ends;
use crate::relay::{self, Joined, Link};

/// Joins the stateless requests of all clients to a backend.
pub(super) struct Requests {
    link: Link,
    is_legacy: bool,
    /// Requests that this backend does not serve, because its era is not the expected one.
    unserved: Vec<(Ticket, Method, Option<Json>)>,
}

impl Requests {
    /// `is_legacy` states whether the backend is known to begin with `initialize`.
    pub(super) fn new(is_legacy: bool, config: &relay::Config) -> Self {
        let link = if is_legacy { Link::for_requests_to_legacy(config) } else { Link::for_requests(config) };
        Self { link, is_legacy, unserved: Vec::new() }
    }

    /// Handles a request. The first one opens the backend; further ones wait until it can be used.
    pub(super) fn on_request(
        &mut self,
        ticket: Ticket,
        method: Method,
        params: Option<Json>,
        ends: &mut Ends<'_>,
        now: Instant,
    ) {
        // Over capacity, a subscription is refused before its acknowledgement (MD-L-14).
        let limit = ends.server.config().limits.subscriptions;
        if method == Method::SUBSCRIPTIONS_LISTEN && ends.upstream.subscriptions() >= limit {
            // The code of an internal error may always be sent.
            let _ = ends.server.respond(ticket, Err(ErrorObject::too_many_subscriptions()), now);
            return;
        }
        self.on_server_event(server::Event::Requested { ticket, method, params }, ends, now);
    }

    /// Handles an event of the machine that the clients are connected to.
    pub(super) fn on_server_event(&mut self, event: server::Event, ends: &mut Ends<'_>, now: Instant) {
        self.join(ends).on_server_event(event, now);
    }

    /// Handles an event of the machine that faces the backend.
    pub(super) fn on_client_event(&mut self, event: client::Event, ends: &mut Ends<'_>, now: Instant) {
        if let client::Event::Connected { version, result, .. } = &event {
            if !version.is_stateless() && !self.is_legacy {
                let event = relay::Event::Connected { version: *version, result: result.clone(), is_reconnect: false };
                ends.upstream.report(event);
                self.unserved = self.join(ends).take_held();
                return ends.upstream.client.close(now);
            }
        }
        // A process that has exited may be one of an older revision.
        if let client::Event::Unavailable {
            reason: Unavailable::Failed(Failed::Closed | Failed::ProcessEnded { .. }),
            ..
        } = &event
        {
            if !self.is_legacy {
                self.unserved = self.join(ends).take_held();
            }
        }
        self.join(ends).on_client_event(event, now);
    }

    /// Takes the requests that need another backend.
    pub(super) fn take_unserved(&mut self) -> Vec<(Ticket, Method, Option<Json>)> {
        std::mem::take(&mut self.unserved)
    }

    /// Handles the timers of parked calls.
    pub(super) fn handle_timeout(&mut self, ends: &mut Ends<'_>, now: Instant) {
        self.join(ends).handle_timeout(now);
    }

    /// When a parked call ends.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.link.poll_timeout()
    }

    /// Sets the number from which the `requestState` of calls that are parked from now on is made.
    pub(super) const fn set_secret(&mut self, secret: u128) {
        self.link.set_secret(secret);
    }

    /// Whether no request waits for the backend to be opened, and no call for its client.
    pub(super) fn is_idle(&self) -> bool {
        let load = self.link.load();
        load.waiting == 0 && load.timers == 0
    }

    pub(super) fn load(&self) -> Load {
        self.link.load()
    }

    fn join<'j>(&'j mut self, ends: &'j mut Ends<'_>) -> Joined<'j, Http, Stdio> {
        self.link.join(ends.server, None, ends.upstream)
    }
}

/// The answer to a stateless request if backends begin with `initialize`, and it may not share one. Its client can open a session in one of the
/// revisions that it contains (MD-V-01).
pub(super) fn unsupported(versions: &[ProtocolVersion]) -> ErrorObject {
    let supported = versions.iter().rev().filter(|version| !version.is_stateless()).map(|version| version.as_str());
    let supported = Json::from_serialize(&supported.collect::<Vec<_>>()).unwrap_or(Json::empty_object());
    let requested = Json::from(ProtocolVersion::LATEST.as_str());
    let data = Json::empty_object().with_members(&[("supported", &supported), ("requested", &requested)]);
    let text = "the server behind this gateway begins with initialize";
    ErrorObject::with_data(code::UNSUPPORTED_PROTOCOL_VERSION, text, &data)
}
