//! Requests of servers to the client, while they are open.

use std::collections::BTreeMap;

use super::event::ServerKey;
use mcp_proto::Json;
use mcp_proto::spec::meta::stamp;
use mcp_proto::{RequestKey, Ticket, TicketKey};

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
        let request = self.by_ticket.remove(&(server, ticket))?;
        self.by_request.remove(&request);
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
