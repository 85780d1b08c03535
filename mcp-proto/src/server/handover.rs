//! A relay's server that begins to serve by itself, because nobody behind it speaks as its client does.

use super::context::Context;
use super::peer::{Peer, Phase, Source};
use super::{LoggingLevel, Server};
use crate::Instant;
use crate::client::Forwarding;
use crate::codec::json::Json;
use crate::codec::jsonrpc::{Request, RequestId};
use crate::conversation::pending::{SessionKey, Ticket, TicketKey};
use crate::spec::Method;
use crate::spec::{Era, ProtocolVersion};
use crate::transport::Stdio;

/// What a relay's server is from then on.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) server_info: Json,
    pub(crate) capabilities: Json,
    pub(crate) instructions: Option<Box<str>>,
}

impl Identity {
    /// What the results of `initialize` and `server/discover` say alike; `server_info` is in the one a member, and in the
    /// other in `_meta`.
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
    /// Serves by itself from now on, in the revisions of one era.
    pub(crate) fn serve_as(&mut self, identity: Identity, era: Era) {
        let Identity { server_info, capabilities, instructions } = identity;
        let versions = ProtocolVersion::ALL.into_iter().filter(|version| version.rules().era == era);
        self.config.versions = versions.collect();
        self.config.forwarding = Forwarding::Own;
        self.config.server_info = server_info;
        self.config.capabilities = capabilities;
        self.config.instructions = instructions;
        // BR-L-04: the answer depends on the server behind the relay.
        self.config.hands_up_subscribe = true;
        self.config.holds_acknowledgements = true;
    }

    /// Whether more is listened to that is not acknowledged, since this was last asked.
    pub(crate) fn takes_held_listens(&mut self) -> bool {
        self.peers.get_mut(&SessionKey::ONLY).is_some_and(|peer| std::mem::take(&mut peer.has_held_listens))
    }

    /// Acknowledges what is listened to, unless it names a resource that is still to be subscribed to.
    pub(crate) fn acknowledge_listens(&mut self, is_pending: impl Fn(&str) -> bool, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        if let Some(peer) = peers.get_mut(&SessionKey::ONLY) {
            peer.acknowledge_listens(is_pending, shared);
        }
    }

    /// A resource could not be subscribed to: what is not acknowledged does not cover it.
    pub(crate) fn leave_out(&mut self, uri: &str, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        if let Some(peer) = peers.get_mut(&SessionKey::ONLY) {
            peer.leave_out(uri, shared);
        }
    }

    /// Takes a request that was handed up as if it came only now.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one answer")]
    pub(crate) fn reconsider(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        let Some(peer) = peers.get_mut(&SessionKey::ONLY) else { return };
        let Some((id, origin)) = peer.end_request(ticket.key(), shared) else { return };
        if origin.opens_session && peer.phase == Phase::Opening {
            peer.phase = Phase::Awaiting;
        }
        peer.on_request(Request { id, method, params }, Source::default(), shared);
        if let Some(early) = peer.early_confirmation.take().filter(|_| peer.phase == Phase::Open) {
            peer.on_initialized(early.params, shared);
        }
    }

    /// What a request of the modern era says of itself; nothing for others, and for those that have ended.
    pub(crate) fn stated(&self, ticket: &Ticket) -> Option<&Context> {
        self.peer()?.incoming.get(ticket.key())?.stated.as_deref()
    }

    /// The id that the client gave to a request that is open.
    pub(crate) fn id_of(&self, ticket: TicketKey) -> Option<&RequestId> {
        self.peer()?.incoming.id(ticket)
    }

    /// From which level on the client of a session wants log messages, if it has said so.
    pub(crate) fn chosen_level(&self) -> Option<LoggingLevel> {
        self.peer()?.logging_level
    }

    fn peer(&self) -> Option<&Peer> {
        self.peers.get(&SessionKey::ONLY)
    }
}
