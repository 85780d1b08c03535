//! Requests to servers, and what their answers are for; the lists that are being composed of them.

use std::collections::BTreeMap;

use mcp_proto::{Instant, Json, Method, RequestKey, Ticket, TicketKey};

use super::event::ServerKey;
use super::list_kind::ListKind;
use super::pages::Part;

/// All requests to servers without an outcome.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) by_request: BTreeMap<(ServerKey, RequestKey), Purpose>,
    pub(super) by_ticket: BTreeMap<TicketKey, (ServerKey, RequestKey)>,
}

/// Why a request was made to a server.
#[derive(Debug)]
pub(super) enum Purpose {
    /// To answer a request of the client.
    Forwarded(Forwarded),
    /// To read a page of a list.
    Page(ListKey),
    /// To make a setting again in the session of a server.
    Setting(Method),
}

/// A request of the client that was forwarded.
#[derive(Debug)]
pub(super) struct Forwarded {
    pub(super) ticket: Ticket,
    pub(super) method: Method,
    /// The resource that the request is about.
    pub(super) uri: Option<Box<str>>,
    /// The parameters, if no server is known to have the resource: further servers are asked.
    pub(super) to_others: Option<Json>,
    /// The servers that were asked then.
    pub(super) asked: Vec<ServerKey>,
}

/// Which lists were read to find the server for a request of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Looked {
    Nothing,
    /// The tools, of which one may be linked to the page of an app.
    Links,
    /// The tools, prompts or resources.
    Items,
    /// The templates of resources too.
    Templates,
}

impl Pending {
    /// The client's request that a request to a server answers.
    pub(super) fn ticket(&self, server: ServerKey, request: RequestKey) -> Option<TicketKey> {
        match self.by_request.get(&(server, request))? {
            Purpose::Forwarded(forwarded) => Some(forwarded.ticket.key()),
            Purpose::Page(_) | Purpose::Setting(_) => None,
        }
    }

    pub(super) fn insert(&mut self, server: ServerKey, request: RequestKey, purpose: Purpose) {
        if let Purpose::Forwarded(forwarded) = &purpose {
            self.by_ticket.insert(forwarded.ticket.key(), (server, request));
        }
        self.by_request.insert((server, request), purpose);
    }

    pub(super) fn insert_setting(&mut self, server: ServerKey, request: RequestKey, method: Method) {
        self.insert(server, request, Purpose::Setting(method));
    }

    pub(super) fn remove(&mut self, server: ServerKey, request: RequestKey) -> Option<Purpose> {
        let purpose = self.by_request.remove(&(server, request))?;
        if let Purpose::Forwarded(forwarded) = &purpose {
            self.by_ticket.remove(&forwarded.ticket.key());
        }
        Some(purpose)
    }

    /// Whether a request of the client is open at a server.
    pub(super) fn has_call(&self, server: ServerKey) -> bool {
        let all = self.by_request.iter().filter(|((of, _), _)| *of == server);
        all.into_iter().any(|(_, purpose)| matches!(purpose, Purpose::Forwarded(_)))
    }

    /// Where a request of the client was forwarded to.
    pub(super) fn find(&self, ticket: TicketKey) -> Option<(ServerKey, RequestKey)> {
        self.by_ticket.get(&ticket).copied()
    }
}

/// Identifies a list that is being composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListKey(pub(super) u64);

/// What a list is for.
#[derive(Debug)]
pub(super) enum Then {
    /// To answer this request of the client.
    Answer(Ticket),
    /// To find the server of this request of the client, which names something that was not listed yet.
    LookUp { ticket: Ticket, method: Method, params: Option<Json>, looked: Looked },
    /// To answer this request with the definitions that match a query best, of this number at most.
    Search { ticket: Ticket, query: String, limit: usize },
    /// To keep the list of this late server for later requests.
    Keep(ServerKey),
}

/// A list that is being composed.
#[derive(Debug)]
pub(super) struct Composed {
    pub(super) then: Then,
    pub(super) kind: ListKind,
    /// The parameters of the client, without a cursor.
    pub(super) params: Option<Json>,
    /// In the order of the servers.
    pub(super) parts: BTreeMap<ServerKey, Part>,
    /// The client has supplied a cursor.
    pub(super) has_cursor: bool,
    pub(super) begun: Instant,
    /// The list of a server is left out, or may be older than that of the server.
    pub(super) is_incomplete: bool,
}

impl Composed {
    pub(super) fn bytes(&self) -> usize {
        self.parts.values().map(Part::bytes).sum()
    }
}
