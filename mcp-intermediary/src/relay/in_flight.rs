//! Requests in flight through a relay, in both directions: maps the requests of each side to those of the other.

use std::collections::BTreeMap;

use mcp_proto::spec::List;
use mcp_proto::{Json, Method, RequestKey, Ticket, TicketKey};

/// All requests in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Requests of the client that were sent to the server, by the key of the request to the server.
    at_server: BTreeMap<RequestKey, ToServer>,
    server_by_ticket: BTreeMap<TicketKey, RequestKey>,
    /// The bytes that are held for them.
    server_bytes: usize,
    /// The last progress token that was given to a request.
    token: i64,
    /// Requests of the server that were sent to the client, by the key of the request to the client.
    at_client: BTreeMap<RequestKey, ToClient>,
    client_by_ticket: BTreeMap<TicketKey, RequestKey>,
}

/// A request of the client that was sent to the server.
#[derive(Debug)]
pub(super) struct ToServer {
    pub(super) ticket: Ticket,
    pub(super) method: Method,
    /// The parameters and the outcome are passed on unchanged.
    pub(super) is_unchanged: bool,
    /// The bytes of the parameters, which are held until the outcome.
    pub(super) bytes: usize,
    /// The forwarded parameters, if they may have to be sent again.
    pub(super) params: Option<Json>,
    /// The name of its target, if the client may have to retry it.
    pub(super) name: Option<Json>,
    /// The client's own token, where the server was given a substitute (after a retry, or in a shared process).
    pub(super) token: Option<Json>,
    /// The last progress that was forwarded (BR-L-12).
    pub(super) progress: f64,
    /// Of a subscription: the lists of whose changes it is notified, as the server has acknowledged.
    pub(super) lists: Vec<List>,
}

impl ToServer {
    pub(super) const fn new(ticket: Ticket, method: Method) -> Self {
        Self {
            ticket,
            method,
            is_unchanged: false,
            bytes: 0,
            params: None,
            name: None,
            token: None,
            progress: f64::NEG_INFINITY,
            lists: Vec::new(),
        }
    }

    /// The server has acknowledged the subscription with these parameters.
    pub(super) fn acknowledge(&mut self, params: Option<&Json>) {
        let filter = params.and_then(|params| params.first_member("notifications"));
        let is_notified = |list: &List| {
            let member = filter.as_ref().and_then(|filter| filter.first_member(list.filter_member()));
            member.is_some_and(|flag| flag.as_bytes() == b"true")
        };
        self.lists = List::ALL.iter().copied().filter(is_notified).collect();
    }

    /// Progress of the request, with the client's token.
    pub(super) fn with_own_token(&self, progress: Json) -> Json {
        match &self.token {
            Some(token) => progress.with_member("progressToken", token),
            None => progress,
        }
    }
}

/// A request of the server that was sent to the client.
#[derive(Debug)]
pub(super) struct ToClient {
    pub(super) ticket: Ticket,
    pub(super) method: Method,
}

impl InFlight {
    pub(super) fn insert_to_server(&mut self, request: RequestKey, forwarded: ToServer) {
        self.server_by_ticket.insert(forwarded.ticket.key(), request);
        self.server_bytes += forwarded.bytes;
        self.at_server.insert(request, forwarded);
    }

    pub(super) fn get_to_server(&self, request: RequestKey) -> Option<&ToServer> {
        self.at_server.get(&request)
    }

    pub(super) fn get_to_server_mut(&mut self, request: RequestKey) -> Option<&mut ToServer> {
        self.at_server.get_mut(&request)
    }

    /// A progress token that no other request has.
    pub(super) fn new_token(&mut self) -> Json {
        // Counting up from one, no relay runs long enough to reach the bound.
        self.token = self.token.saturating_add(1);
        Json::from(self.token)
    }

    /// The bytes that are held for requests at the server.
    pub(super) const fn bytes(&self) -> usize {
        self.server_bytes
    }

    /// All requests at the server.
    pub(super) fn all_to_server(&self) -> impl Iterator<Item = (RequestKey, &ToServer)> {
        self.at_server.iter().map(|(request, forwarded)| (*request, forwarded))
    }

    /// Removes a request whose outcome is about to be forwarded, or that the relay answers itself.
    pub(super) fn remove_to_server(&mut self, request: RequestKey) -> Option<ToServer> {
        let forwarded = self.at_server.remove(&request)?;
        self.server_bytes -= forwarded.bytes;
        self.server_by_ticket.remove(&forwarded.ticket.key());
        Some(forwarded)
    }

    /// Removes the request that the client has cancelled.
    pub(super) fn cancel_to_server(&mut self, ticket: TicketKey) -> Option<(RequestKey, ToServer)> {
        let request = *self.server_by_ticket.get(&ticket)?;
        Some((request, self.remove_to_server(request)?))
    }

    pub(super) fn insert_to_client(&mut self, request: RequestKey, ticket: Ticket, method: Method) {
        self.client_by_ticket.insert(ticket.key(), request);
        self.at_client.insert(request, ToClient { ticket, method });
    }

    pub(super) fn remove_to_client(&mut self, request: RequestKey) -> Option<ToClient> {
        let forwarded = self.at_client.remove(&request)?;
        self.client_by_ticket.remove(&forwarded.ticket.key());
        Some(forwarded)
    }

    /// The request to the client that forwards this request of the server.
    pub(super) fn get_to_client(&self, ticket: TicketKey) -> Option<RequestKey> {
        self.client_by_ticket.get(&ticket).copied()
    }

    /// The server has cancelled its request.
    pub(super) fn cancel_to_client(&mut self, ticket: TicketKey) -> Option<RequestKey> {
        let request = self.client_by_ticket.remove(&ticket)?;
        self.at_client.remove(&request);
        Some(request)
    }

    /// Removes all requests at the client, because their answers are not needed any more.
    pub(super) fn clear_to_client(&mut self) -> impl Iterator<Item = RequestKey> + use<> {
        self.client_by_ticket.clear();
        std::mem::take(&mut self.at_client).into_keys()
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::client::{self, Call, Client};
    use mcp_proto::server::{self, Event, Server};
    use mcp_proto::{Instant, Output, Stdio};

    use super::*;

    /// A key and a ticket for each of `count` requests.
    /// Requests of a client, and as many tickets for requests to a server.
    fn requests(count: usize) -> Vec<(RequestKey, Ticket)> {
        let now = Instant::START;
        let mut client = Client::new(Stdio::new(), client::Config::new("c", "1")).expect("a configuration");
        client.connect(now).expect("it was not connected");
        let mut server = Server::pass_through(Stdio::new(), server::Config::new("s", "1")).expect("a configuration");
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        for id in 0..count {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
            server.handle_bytes(format!("{line}\n").as_bytes(), now);
        }
        let tickets = std::iter::from_fn(|| server.poll_output()).filter_map(|output| {
            if let Output::Event(Event::Requested { ticket, .. }) = output { Some(ticket) } else { None }
        });
        let tickets: Vec<_> = tickets.collect();
        assert_eq!(tickets.len(), count);
        let mut request = || client.request(Call::new("tools/list"), now).expect("it waits for the handshake");
        tickets.into_iter().map(|ticket| (request(), ticket)).collect()
    }

    #[test]
    fn a_ticket_finds_its_request_until_that_has_crossed_back_or_was_taken_back() {
        let mut in_flight = InFlight::default();
        let mut tickets = Vec::new();
        for (request, ticket) in requests(3) {
            tickets.push((request, ticket.key()));
            in_flight.insert_to_server(request, ToServer { bytes: 10, ..ToServer::new(ticket, Method::TOOLS_CALL) });
        }
        let [(first, first_ticket), (second, second_ticket), (third, third_ticket)] = tickets[..] else { panic!() };
        assert_eq!(in_flight.bytes(), 30);
        assert!(in_flight.remove_to_server(first).is_some_and(|forwarded| forwarded.ticket.key() == first_ticket));
        let cancel = |in_flight: &mut InFlight, ticket| in_flight.cancel_to_server(ticket).map(|(request, _)| request);
        assert_eq!((cancel(&mut in_flight, first_ticket), in_flight.bytes()), (None, 20));
        assert_eq!((cancel(&mut in_flight, second_ticket), in_flight.bytes()), (Some(second), 10));
        assert!(in_flight.remove_to_server(second).is_none());
        assert_eq!(cancel(&mut in_flight, third_ticket), Some(third));
        assert_eq!((in_flight.server_by_ticket.len(), in_flight.bytes()), (0, 0));
    }

    #[test]
    fn a_ticket_of_the_server_finds_its_request_until_that_is_answered_taken_back_or_forgotten() {
        let mut in_flight = InFlight::default();
        let mut tickets = Vec::new();
        for (request, ticket) in requests(3) {
            tickets.push((request, ticket.key()));
            in_flight.insert_to_client(request, ticket, Method::from("roots/list"));
        }
        let [(first, first_ticket), (second, second_ticket), (third, third_ticket)] = tickets[..] else { panic!() };
        assert!(in_flight.remove_to_client(first).is_some());
        assert_eq!(in_flight.cancel_to_client(first_ticket), None);
        assert_eq!(in_flight.cancel_to_client(second_ticket), Some(second));
        assert_eq!(in_flight.clear_to_client().collect::<Vec<_>>(), [third]);
        assert_eq!(in_flight.cancel_to_client(third_ticket), None);
    }
}
