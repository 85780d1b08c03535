//! Changes a relay's server from forwarding to serving, because its client and the server behind the relay use
//! different eras.

use super::context::Context;
use super::peer::{Peer, Phase, Source};
use super::stdio::SESSION;
use super::{LoggingLevel, Server};
use crate::Instant;
use crate::client::Forwarding;
use crate::codec::json::Json;
use crate::codec::jsonrpc::{Request, RequestId};
use crate::conversation::pending::{Ticket, TicketKey};
use crate::spec::Method;
use crate::spec::{Era, ProtocolVersion};
use crate::transport::Stdio;

/// What a relay's server announces after the change.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) server_info: Json,
    pub(crate) capabilities: Json,
    pub(crate) instructions: Option<Box<str>>,
}

impl Identity {
    /// Takes `instructions` from a result of `initialize` or `server/discover`. The caller reads `server_info`, because
    /// it is a member of the former and in `_meta` of the latter.
    pub(crate) fn new(result: &Json, server_info: Json, capabilities: Json) -> Self {
        let instructions = result.first_member("instructions");
        Self {
            server_info,
            capabilities,
            instructions: instructions.as_ref().and_then(Json::as_string).map(|text| Box::from(&*text)),
        }
    }
}

impl Server<Stdio> {
    /// Serves from now on with this identity, in the revisions of one era.
    pub(crate) fn serve_as(&mut self, identity: Identity, era: Era) {
        let Identity { server_info, capabilities, instructions } = identity;
        let versions = ProtocolVersion::ALL.iter().copied().filter(|version| version.rules().era == era);
        self.config.versions = versions.collect();
        self.config.forwarding = Forwarding::Own;
        self.config.server_info = server_info;
        self.config.capabilities = capabilities;
        self.config.instructions = instructions;
        // The server behind the relay decides about subscriptions (BR-L-04).
        self.config.hands_up_subscribe = true;
        self.config.holds_acknowledgements = true;
    }

    /// Whether there are new unacknowledged `subscriptions/listen` since the last call.
    pub(crate) fn takes_held_listens(&mut self) -> bool {
        self.peers.get_mut(&Some(SESSION)).is_some_and(|peer| std::mem::take(&mut peer.has_held_listens))
    }

    /// Acknowledges all `subscriptions/listen`, except those with a resource whose subscription is still pending.
    pub(crate) fn acknowledge_listens(&mut self, is_pending: impl Fn(&str) -> bool, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        if let Some(peer) = peers.get_mut(&Some(SESSION)) {
            peer.acknowledge_listens(is_pending, shared);
        }
    }

    /// Removes a resource from the unacknowledged `subscriptions/listen`, because it could not be subscribed to.
    pub(crate) fn leave_out(&mut self, uri: &str, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        if let Some(peer) = peers.get_mut(&Some(SESSION)) {
            peer.leave_out(uri, shared);
        }
    }

    /// Handles a request that was already reported as if it had only arrived now.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one answer")]
    pub(crate) fn redispatch(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        let Some(peer) = peers.get_mut(&Some(SESSION)) else { return };
        let Some((id, origin)) = peer.end_request(ticket.key(), shared) else { return };
        if origin.opens_session && peer.phase == Phase::Opening {
            peer.phase = Phase::Awaiting;
        }
        peer.on_request(Request { id, method, params }, Source::default(), shared);
        if let Some(early) = peer.early_confirmation.take().filter(|_| peer.phase == Phase::Open) {
            peer.on_initialized(early.params, shared);
        }
    }

    /// The context that a request of the modern era states; `None` for other requests and for ended ones.
    pub(crate) fn stated(&self, ticket: &Ticket) -> Option<&Context> {
        self.peer()?.incoming.get(ticket.key())?.stated.as_deref()
    }

    /// The client's id of an open request.
    pub(crate) fn id_of(&self, ticket: TicketKey) -> Option<&RequestId> {
        self.peer()?.incoming.id(ticket)
    }

    /// The log level that the client has set with `logging/setLevel`.
    pub(crate) fn chosen_level(&self) -> Option<LoggingLevel> {
        self.peer()?.logging_level
    }

    fn peer(&self) -> Option<&Peer> {
        self.peers.get(&Some(SESSION))
    }
}
