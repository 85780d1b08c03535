//! What is under way through a relay, in both directions: each side's requests by the keys and tickets of the other.

use std::collections::BTreeMap;

use crate::codec::json::Json;
use crate::conversation::pending::{RequestKey, Ticket, TicketKey};
use crate::spec::Method;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Crossing {
    /// Requests of the client's that are with the server, by the key that they have there.
    upward: BTreeMap<RequestKey, Upward>,
    upward_by_ticket: BTreeMap<TicketKey, RequestKey>,
    /// Bytes that are kept for them.
    upward_bytes: usize,
    /// Requests of the server's that are with the client, by the key that they have there.
    downward: BTreeMap<RequestKey, Downward>,
    downward_by_ticket: BTreeMap<TicketKey, RequestKey>,
}

/// A request of the client's that is with the server.
#[derive(Debug)]
pub(super) struct Upward {
    pub(super) ticket: Ticket,
    pub(super) method: Method,
    /// Bytes of its parameters, which are kept until it has its outcome.
    pub(super) bytes: usize,
    /// What was passed on, where it may have to be again.
    pub(super) params: Option<Json>,
    /// What it is about, where the client may have to ask again.
    pub(super) name: Option<Json>,
    /// The progress token that the client knows it by now, if it has asked again.
    pub(super) token: Option<Json>,
    /// The last progress that was told (BR-L-12).
    pub(super) progress: f64,
}

impl Upward {
    pub(super) const fn new(ticket: Ticket, method: Method) -> Self {
        Self { ticket, method, bytes: 0, params: None, name: None, token: None, progress: f64::NEG_INFINITY }
    }
}

/// A request of the server's that is with the client.
#[derive(Debug)]
pub(super) struct Downward {
    pub(super) ticket: Ticket,
    pub(super) method: Method,
}

impl Crossing {
    pub(super) fn goes_up(&mut self, request: RequestKey, upward: Upward) {
        self.upward_by_ticket.insert(upward.ticket.key(), request);
        self.upward_bytes += upward.bytes;
        self.upward.insert(request, upward);
    }

    pub(super) fn is_up(&self, request: RequestKey) -> Option<&Upward> {
        self.upward.get(&request)
    }

    pub(super) fn is_up_mut(&mut self, request: RequestKey) -> Option<&mut Upward> {
        self.upward.get_mut(&request)
    }

    /// Bytes that are kept for requests that are with the server.
    pub(super) const fn bytes(&self) -> usize {
        self.upward_bytes
    }

    /// All that are with the server.
    pub(super) fn all_up(&self) -> impl Iterator<Item = (RequestKey, &Upward)> {
        self.upward.iter().map(|(request, upward)| (*request, upward))
    }

    /// Whoever has asked gets an answer, or has one.
    pub(super) fn comes_down(&mut self, request: RequestKey) -> Option<Upward> {
        let upward = self.upward.remove(&request)?;
        self.upward_bytes -= upward.bytes;
        self.upward_by_ticket.remove(&upward.ticket.key());
        Some(upward)
    }

    /// The client has taken its request back.
    pub(super) fn taken_back(&mut self, ticket: TicketKey) -> Option<RequestKey> {
        let request = self.upward_by_ticket.remove(&ticket)?;
        if let Some(upward) = self.upward.remove(&request) {
            self.upward_bytes -= upward.bytes;
        }
        Some(request)
    }

    pub(super) fn goes_down(&mut self, request: RequestKey, ticket: Ticket, method: Method) {
        self.downward_by_ticket.insert(ticket.key(), request);
        self.downward.insert(request, Downward { ticket, method });
    }

    pub(super) fn comes_up(&mut self, request: RequestKey) -> Option<Downward> {
        let downward = self.downward.remove(&request)?;
        self.downward_by_ticket.remove(&downward.ticket.key());
        Some(downward)
    }

    /// The server has taken its request back.
    pub(super) fn taken_back_below(&mut self, ticket: TicketKey) -> Option<RequestKey> {
        let request = self.downward_by_ticket.remove(&ticket)?;
        self.downward.remove(&request);
        Some(request)
    }

    /// What the client was asked is of no use any more.
    pub(super) fn forget_below(&mut self) -> impl Iterator<Item = RequestKey> + use<> {
        self.downward_by_ticket.clear();
        std::mem::take(&mut self.downward).into_keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::jsonrpc::RequestId;
    use crate::conversation::pending::{Incoming, Pending, SessionKey};

    /// A key and a ticket for each of some requests.
    fn requests(count: usize) -> Vec<(RequestKey, Ticket)> {
        let (mut pending, mut incoming) = (Pending::new(SessionKey::ONLY, 8), Incoming::new(SessionKey::ONLY));
        (0..count).map(|_| (pending.reserve(), incoming.insert(RequestId::from(1), (), 0))).collect()
    }

    #[test]
    fn a_ticket_finds_its_request_until_that_has_crossed_back_or_was_taken_back() {
        let mut crossing = Crossing::default();
        let mut tickets = Vec::new();
        for (request, ticket) in requests(3) {
            tickets.push((request, ticket.key()));
            crossing.goes_up(request, Upward { bytes: 10, ..Upward::new(ticket, Method::TOOLS_CALL) });
        }
        let [(first, first_ticket), (second, second_ticket), (third, third_ticket)] = tickets[..] else { panic!() };
        assert_eq!(crossing.bytes(), 30);
        assert!(crossing.comes_down(first).is_some_and(|upward| upward.ticket.key() == first_ticket));
        assert_eq!((crossing.taken_back(first_ticket), crossing.bytes()), (None, 20));
        assert_eq!((crossing.taken_back(second_ticket), crossing.bytes()), (Some(second), 10));
        assert!(crossing.comes_down(second).is_none());
        assert_eq!(crossing.taken_back(third_ticket), Some(third));
        assert_eq!((crossing.upward_by_ticket.len(), crossing.bytes()), (0, 0));
    }

    #[test]
    fn a_ticket_of_the_server_finds_its_request_until_that_is_answered_taken_back_or_forgotten() {
        let mut crossing = Crossing::default();
        let mut tickets = Vec::new();
        for (request, ticket) in requests(3) {
            tickets.push((request, ticket.key()));
            crossing.goes_down(request, ticket, Method::from("roots/list"));
        }
        let [(first, first_ticket), (second, second_ticket), (third, third_ticket)] = tickets[..] else { panic!() };
        assert!(crossing.comes_up(first).is_some());
        assert_eq!(crossing.taken_back_below(first_ticket), None);
        assert_eq!(crossing.taken_back_below(second_ticket), Some(second));
        assert_eq!(crossing.forget_below().collect::<Vec<_>>(), [third]);
        assert_eq!(crossing.taken_back_below(third_ticket), None);
    }
}
