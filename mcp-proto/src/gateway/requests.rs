//! A modern backend that serves the stateless requests of all clients.
//!
//! Each request states its client and revision itself, so that clients share the backend as they would share a server over
//! HTTP. Ids, progress tokens and subscription ids are mapped (BR-T-04), and the end of an exchange cancels its request.

use super::shared::Ends;
use crate::relay::{self, Joined, Link};
use mcp_proto::ErrorObject;
use mcp_proto::Instant;
use mcp_proto::Json;
use mcp_proto::Load;
use mcp_proto::Method;
use mcp_proto::ProtocolVersion;
use mcp_proto::Stdio;
use mcp_proto::Ticket;
use mcp_proto::client;
use mcp_proto::server::{self, Http};
use mcp_proto::spec::code;

/// What joins the stateless requests of all clients to a backend.
pub(super) struct Requests {
    link: Link,
}

impl Requests {
    pub(super) fn new(config: &relay::Config) -> Self {
        Self { link: Link::for_requests(config) }
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
            // The code is that of an internal error, which may always be sent.
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
            if !version.is_stateless() {
                let event = relay::Event::Connected { version: *version, result: result.clone(), is_reconnect: false };
                ends.upstream.report(event);
                let error = unsupported(&ends.server.config().versions);
                self.join(ends).refuse_held(&error, now);
                return ends.upstream.client.close(now);
            }
        }
        self.join(ends).on_client_event(event, now);
    }

    /// Whether no request waits for the backend to be opened.
    pub(super) fn is_idle(&self) -> bool {
        self.link.load().waiting == 0
    }

    pub(super) fn load(&self) -> Load {
        self.link.load()
    }

    fn join<'j>(&'j mut self, ends: &'j mut Ends<'_>) -> Joined<'j, Http, Stdio> {
        self.link.join(ends.server, None, ends.upstream)
    }
}

/// The answer to a stateless request if backends begin with `initialize`. Its client can open a session in one of the
/// revisions that it contains (MD-V-01).
pub(super) fn unsupported(versions: &[ProtocolVersion]) -> ErrorObject {
    let supported = versions.iter().rev().filter(|version| !version.is_stateless()).map(|version| version.as_str());
    let supported = Json::from_serialize(&supported.collect::<Vec<_>>()).unwrap_or(Json::empty_object());
    let requested = Json::from(ProtocolVersion::LATEST.as_str());
    let data = Json::empty_object().with_members(&[("supported", &supported), ("requested", &requested)]);
    let text = "the server behind this gateway begins with initialize";
    ErrorObject::with_data(code::UNSUPPORTED_PROTOCOL_VERSION, text, &data)
}
