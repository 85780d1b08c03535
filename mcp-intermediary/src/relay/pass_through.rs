//! Both sides are of the same era: payloads are forwarded unchanged, and ids that refer to requests are mapped (RULES
//! 13.3).

use std::time::Duration;

use mcp_proto::client::{self, ClientTransport, Outcome};
use mcp_proto::server::{self, ServerTransport};
use mcp_proto::spec::meta::{SUBSCRIPTION_ID, stamp, with_subscription_id};
use mcp_proto::{ErrorObject, Instant, Json, Method, Notification, RequestId, RequestKey, Ticket, code};

use super::Event;
use super::in_flight::ToServer;
use super::sides::{Connection, Sides, call};

impl<S: ServerTransport, T: ClientTransport> Sides<'_, S, T> {
    /// Forwards a request of a modern client to a modern server: the client supplies `_meta` and input itself.
    pub(super) fn pass_unchanged(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        let forwarded = ToServer { is_unchanged: true, ..ToServer::new(ticket, method) };
        self.send_to_server(forwarded, params, || 0, now);
    }

    /// Forwards a request of the client.
    pub(super) fn pass(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        self.send_to_server(ToServer::new(ticket, method), params, || 0, now);
    }

    /// Sends a request to the server whose outcome answers a request of the client. `parked` returns the bytes that parked
    /// calls hold.
    pub(super) fn send_to_server(
        &mut self,
        mut forwarded: ToServer,
        params: Option<Json>,
        parked: impl FnOnce() -> usize,
        now: Instant,
    ) {
        forwarded.bytes = params.as_ref().map_or(0, Json::len);
        if !self.holds(forwarded.bytes, parked) {
            return self.respond(forwarded.ticket, Err(ErrorObject::overloaded()), now);
        }
        let params = self.with_token_of_its_own(&mut forwarded, params);
        let mut call = call(forwarded.method.clone(), params);
        // A subscription has no response timeout: it lasts until one side ends it (MD-L-13).
        if forwarded.method == Method::SUBSCRIPTIONS_LISTEN {
            call = call.timeout(Duration::MAX);
        }
        if let Some(timeout) = *self.request_timeout {
            call = call.timeout(timeout);
        }
        if forwarded.is_unchanged {
            call = call.unchanged();
        }
        match self.client.request(call, now) {
            Ok(request) => self.in_flight.insert_to_server(request, forwarded),
            Err(error) => {
                self.respond(forwarded.ticket, Err(ErrorObject::new(code::INTERNAL_ERROR, &error.to_string())), now);
            }
        }
    }

    /// Replaces the progress token of a request if other clients of the server may use the same (BR-T-04).
    fn with_token_of_its_own(&mut self, forwarded: &mut ToServer, params: Option<Json>) -> Option<Json> {
        if !self.connection.is_shared() {
            return params;
        }
        let params = params?;
        let Some(token) = params.first_member("_meta").and_then(|meta| meta.first_member("progressToken")) else {
            return Some(params);
        };
        forwarded.token = Some(token.detached_from(params.len()));
        Some(stamp(&params, &[("progressToken", &self.in_flight.new_token())]))
    }

    /// Forwards the outcome of a request to the client.
    pub(super) fn pass_outcome(&mut self, forwarded: ToServer, outcome: Outcome, now: Instant) {
        let answer = match outcome {
            Outcome::Result(result) if forwarded.method == Method::SUBSCRIPTIONS_LISTEN => {
                Ok(self.with_id_of(&forwarded, result))
            }
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(error),
            Outcome::Failed(reason) => Err(self.report_failure(reason)),
        };
        self.respond(forwarded.ticket, answer, now);
    }

    /// Forwards a notification of the server.
    pub(super) fn pass_notification(
        &mut self,
        scope: client::Scope,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        let about = match scope {
            client::Scope::Request(request) => Some(request),
            client::Scope::Connection | client::Scope::Subscription(_) => None,
        };
        if let Some(forwarded) = about.and_then(|request| self.in_flight.get_to_server_mut(request)) {
            if method == Method::SUBSCRIPTIONS_ACKNOWLEDGED {
                forwarded.acknowledge(params.as_ref());
            }
        }
        let about = about.and_then(|request| self.in_flight.get_to_server(request));
        let (to, params) = match about {
            Some(forwarded) if forwarded.method == Method::SUBSCRIPTIONS_LISTEN => {
                (Some((&forwarded.ticket).into()), params.map(|params| self.with_id_of(forwarded, params)))
            }
            Some(forwarded) => (Some((&forwarded.ticket).into()), params),
            None => (self.anywhere(&method, now), params),
        };
        self.notify_client(to, method, params, now);
    }

    /// Forwards a notification of the client.
    pub(super) fn pass_to_server(&mut self, method: Method, params: Option<Json>, now: Instant) {
        let passed = if method == Method::INITIALIZED {
            self.client.confirm(params, now)
        } else {
            self.client.notify(Notification { method: method.clone(), params }, now)
        };
        if let Err(error) = passed {
            self.out.report(Event::NotPassed { method, error });
        }
    }

    /// Forwards progress of the server on a request of the client.
    pub(super) fn pass_progress(&mut self, request: RequestKey, params: Json, now: Instant) {
        if let Some(forwarded) = self.in_flight.get_to_server(request) {
            let (scope, params) = (server::Scope::from(&forwarded.ticket), forwarded.with_own_token(params));
            self.notify_client(scope, Method::PROGRESS, Some(params), now);
        }
    }

    /// Forwards a request of the server.
    pub(super) fn pass_to_client(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        self.ask_client(self.scope_of_session(), ticket, method, params, now);
    }

    /// Forwards the client's answer to a request of the server.
    pub(super) fn pass_answer(&mut self, ticket: Ticket, outcome: Outcome, now: Instant) {
        let answer = match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(error),
            Outcome::Failed(reason) => Err(ErrorObject::new(code::INTERNAL_ERROR, &reason.describe("the client"))),
        };
        self.client.answer(ticket, answer, now);
    }

    /// Ends the client's subscriptions with their results, since no more changes follow (MD-L-09). Nothing else would
    /// end them.
    pub(super) fn end_subscriptions(&mut self, now: Instant) {
        let is_listen = |(_, forwarded): &(RequestKey, &ToServer)| forwarded.method == Method::SUBSCRIPTIONS_LISTEN;
        let listens: Vec<_> = self.in_flight.all_to_server().filter(is_listen).map(|(request, _)| request).collect();
        for request in listens {
            self.client.cancel(request, None, now);
            let Some(forwarded) = self.in_flight.remove_to_server(request) else { continue };
            let result = Json::empty_object().with_member("resultType", &Json::from("complete"));
            let id = self.server.request_id(&forwarded.ticket).map(RequestId::to_json);
            let result = id.map_or(result.clone(), |id| stamp(&result, &[(SUBSCRIPTION_ID, &id)]));
            self.respond(forwarded.ticket, Ok(result), now);
        }
    }

    /// Replaces the subscription id in a payload by the id that the client uses for it (BR-T-04).
    fn with_id_of(&self, forwarded: &ToServer, params: Json) -> Json {
        let is_named = params.first_member("_meta").is_some_and(|meta| meta.first_member(SUBSCRIPTION_ID).is_some());
        match self.server.request_id(&forwarded.ticket) {
            Some(id) if is_named => with_subscription_id(&params, &id.to_json()),
            Some(_) | None => params,
        }
    }

    /// The scope for a notification that belongs to no request: the session, or without a session any open request. If
    /// the requests are those of several clients, it is the one that a log message can belong to (BR-T-05).
    fn anywhere(&mut self, method: &Method, now: Instant) -> Option<server::Scope> {
        if self.connection == Connection::Requests {
            let cause = if *method == Method::MESSAGE { self.sole_cause_of_log(false, now) } else { None };
            return cause.map(|forwarded| (&forwarded.ticket).into());
        }
        if self.session.is_some_and(|session| self.server.version(session).is_some()) {
            return self.scope_of_session();
        }
        let open = self.in_flight.all_to_server().next();
        open.map_or_else(|| self.session.map(server::Scope::from), |(_, forwarded)| Some((&forwarded.ticket).into()))
    }
}
