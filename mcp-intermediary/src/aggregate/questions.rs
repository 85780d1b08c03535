//! Requests of servers to the client, while they are open.

use std::collections::BTreeMap;

use mcp_proto::spec::meta::stamp;
use mcp_proto::{Json, RequestKey, Ticket, TicketKey};

use super::event::ServerKey;

/// All open requests of servers to the client.
#[derive(Debug, Default)]
pub(super) struct Questions {
    by_request: BTreeMap<RequestKey, Question>,
    by_ticket: BTreeMap<(ServerKey, TicketKey), RequestKey>,
    /// The last progress token that was given to a request.
    token: i64,
}

/// A request of a server to the client.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) server: ServerKey,
    pub(super) ticket: Ticket,
    /// The server's progress token; the client has another one, because servers may use equal tokens.
    token: Option<Json>,
}

impl Question {
    /// Progress of the client on the request, with the token of the server.
    pub(super) fn with_own_token(&self, progress: Json) -> Json {
        match &self.token {
            Some(token) => progress.with_member("progressToken", token),
            None => progress,
        }
    }
}

impl Questions {
    /// The parameters for the client, and the progress token of the server, if it has one.
    pub(super) fn with_token_of_its_own(&mut self, params: Option<Json>) -> (Option<Json>, Option<Json>) {
        let meta = params.as_ref().and_then(|params| params.first_member("_meta"));
        match (params, meta.and_then(|meta| meta.first_member("progressToken"))) {
            (Some(params), Some(token)) => {
                // Counting up from one, no aggregate runs long enough to reach the bound.
                self.token = self.token.saturating_add(1);
                let stamped = stamp(&params, &[("progressToken", &Json::from(self.token))]);
                (Some(stamped), Some(token.detached_from(params.len())))
            }
            (params, None) | (params @ None, Some(_)) => (params, None),
        }
    }

    pub(super) fn insert(&mut self, request: RequestKey, server: ServerKey, ticket: Ticket, token: Option<Json>) {
        self.by_ticket.insert((server, ticket.key()), request);
        self.by_request.insert(request, Question { server, ticket, token });
    }

    pub(super) fn get(&self, request: RequestKey) -> Option<&Question> {
        self.by_request.get(&request)
    }

    /// Removes a request that the client has answered.
    pub(super) fn remove(&mut self, request: RequestKey) -> Option<Question> {
        let question = self.by_request.remove(&request)?;
        self.by_ticket.remove(&(question.server, question.ticket.key()));
        Some(question)
    }

    /// Removes a request that the server has cancelled.
    pub(super) fn cancel(&mut self, server: ServerKey, ticket: TicketKey) -> Option<RequestKey> {
        let request = *self.by_ticket.get(&(server, ticket))?;
        self.remove(request);
        Some(request)
    }

    /// Removes the requests of a server that has ended.
    pub(super) fn remove_server(&mut self, server: ServerKey) -> Vec<RequestKey> {
        let all = self.by_request.iter().filter(|(_, question)| question.server == server);
        let requests: Vec<_> = all.map(|(request, _)| *request).collect();
        for request in &requests {
            self.remove(*request);
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::client::{self, Call, Client};
    use mcp_proto::{Instant, Json, Output, Stdio, server};

    use super::*;

    /// The keys of four requests of a server to its client.
    fn requests() -> Vec<RequestKey> {
        let mut client = Client::new(Stdio::new(), client::Config::new("my-app", "1")).unwrap();
        client.connect(Instant::START).unwrap();
        (0..4).map(|_| client.request(Call::new("tools/list"), Instant::START).unwrap()).collect()
    }

    /// The tickets of the first two requests that a machine receives.
    fn tickets() -> [Ticket; 2] {
        let now = Instant::START;
        let config = server::Config::new("my-tools", "1").capabilities(Json::parse(r#"{"tools":{}}"#).unwrap());
        let mut machine = server::Server::new(Stdio::new(), config).unwrap();
        let opening = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
        let opening = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{opening}}}"#);
        machine.handle_bytes(format!("{opening}\n").as_bytes(), now);
        for id in [1, 2] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
            machine.handle_bytes(format!("{line}\n").as_bytes(), now);
        }
        let outputs = std::iter::from_fn(|| machine.poll_output());
        let tickets = outputs.filter_map(|output| match output {
            Output::Event(server::Event::Requested { ticket, .. }) => Some(ticket),
            Output::Action(_) | Output::Event(_) => None,
        });
        tickets.collect::<Vec<_>>().try_into().unwrap()
    }

    #[test]
    fn nothing_is_kept_of_a_question_that_has_ended() {
        let servers = [ServerKey::new(0), ServerKey::new(1)];
        let requests = requests();
        let request = |number: usize| requests[number - 1];
        for (end, left) in [
            ("answered", vec![2, 3, 4]),
            ("cancelled", vec![1, 3, 4]),
            ("the first server has ended", vec![3, 4]),
            ("the second server has ended", vec![1, 2]),
        ] {
            let mut questions = Questions::default();
            // The tickets of the two servers are equal.
            for (number, ticket) in tickets().into_iter().chain(tickets()).enumerate() {
                questions.insert(requests[number], servers[number / 2], ticket, None);
            }
            match end {
                "answered" => {
                    assert!(questions.remove(request(1)).is_some_and(|question| question.server == servers[0]));
                }
                "cancelled" => {
                    let ticket = tickets()[1].key();
                    assert_eq!(questions.cancel(servers[0], ticket), Some(request(2)));
                    assert_eq!(questions.cancel(servers[0], ticket), None);
                }
                "the first server has ended" => {
                    assert_eq!(questions.remove_server(servers[0]), [request(1), request(2)]);
                }
                _ => assert_eq!(questions.remove_server(servers[1]), [request(3), request(4)]),
            }
            let left: Vec<_> = left.into_iter().map(request).collect();
            assert_eq!(questions.by_request.keys().copied().collect::<Vec<_>>(), left, "{end}");
            assert_eq!(questions.by_ticket.values().copied().collect::<Vec<_>>(), left, "{end}");
        }
    }
}
