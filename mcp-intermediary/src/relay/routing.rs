//! Passes the events of each machine on, according to how the relay joins the two sides.

use mcp_proto::client::{self, ClientTransport, Outcome};
use mcp_proto::server::{self, ServerTransport};
use mcp_proto::{Failed, Instant, Json, Method, RequestKey, Ticket};

use super::link::{Joined, Opening, Path};
use super::{Event, Side, legacy_client, modern_client};

impl<S: ServerTransport, T: ClientTransport> Joined<'_, S, T> {
    /// Handles an event of the server machine, which faces the client.
    pub(crate) fn on_server_event(&mut self, event: server::Event, now: Instant) {
        use server::Event as E;
        match event {
            E::Requested { ticket, method, params } => self.on_request(ticket, method, params, now),
            E::Cancelled { ticket, params } => match self.sides.in_flight.cancel_to_server(ticket) {
                Some((request, forwarded)) => {
                    self.sides.client.cancel_with(request, &params.unwrap_or(Json::empty_object()), now);
                    self.sides.ended_unanswered(request, ticket.session(), forwarded.method, now);
                }
                // The request was not sent to the server.
                None => match &mut *self.path {
                    Path::Opening(opening) => opening.on_cancelled(ticket),
                    Path::LegacyClient(state) => state.on_cancelled(&mut self.sides, ticket, now),
                    Path::PassThrough { .. } | Path::ModernClient(_) => {}
                },
            },
            E::Notified { method, params, .. } => self.on_notification(method, params, now),
            E::Progressed { params, .. } => self.on_notification(Method::PROGRESS, Some(params), now),
            E::Responded { request, outcome } => {
                let Some(forwarded) = self.sides.in_flight.remove_to_client(request) else { return };
                match &mut *self.path {
                    Path::LegacyClient(_) => legacy_client::on_answer(&mut self.sides, forwarded, outcome, now),
                    Path::Opening(_) | Path::PassThrough { .. } | Path::ModernClient(_) => {
                        self.sides.pass_answer(forwarded.ticket, outcome, now);
                    }
                }
            }
            E::Faulted(fault) => self.sides.out.report(Event::Faulted { side: Side::Client, fault }),
            E::RequestEnded(ended) => self.sides.out.report(Event::RequestEnded(ended)),
            E::InputEnded => {
                if let Path::PassThrough { .. } = *self.path {
                    self.sides.end_subscriptions(now);
                }
            }
            E::Closed { reason, .. } => {
                self.sides.out.report(Event::ClientGone(reason));
                // What waits for the connection ends with it.
                self.sides.client.close(now);
            }
            E::Ready { .. } => {
                self.on_client_initialized(now);
                if let Path::LegacyClient(state) = &mut *self.path {
                    state.listen_anew(&mut self.sides, now);
                }
            }
            E::Connected { .. } | E::Restored { .. } | E::Drained { .. } => {}
        }
    }

    fn on_request(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        match &mut *self.path {
            Path::LegacyClient(state) => state.on_request(&mut self.sides, ticket, method, params, now),
            Path::ModernClient(state) => state.on_request(&mut self.sides, ticket, method, params, now),
            Path::Opening(_) | Path::PassThrough { .. } if method == Method::INITIALIZE => {
                self.on_initialize(ticket, params.unwrap_or(Json::empty_object()), now);
            }
            Path::Opening(_) if self.sides.is_stateless(&ticket) => {
                self.on_discovering(ticket, method, params, now);
            }
            // A ping must be answered promptly (LC-17), and the server cannot answer while it starts or a person signs in.
            Path::Opening(_) if method == Method::PING => self.answer_ping(ticket, now),
            Path::PassThrough { .. } if method == Method::PING && self.sides.sign_in_url.is_some() => {
                self.answer_ping(ticket, now);
            }
            Path::Opening(Opening::Discovering { .. }) | Path::PassThrough { discovered: Some(_) } => {
                self.sides.pass_unchanged(ticket, method, params, now);
            }
            Path::Opening(_) | Path::PassThrough { discovered: None } => self.sides.pass(ticket, method, params, now),
        }
    }

    fn answer_ping(&mut self, ticket: Ticket, now: Instant) {
        self.sides.respond(ticket, Ok(Json::empty_object()), now);
    }

    fn on_notification(&mut self, method: Method, params: Option<Json>, now: Instant) {
        let is_initialized = method == Method::INITIALIZED;
        match &mut *self.path {
            // The relay itself is the server for a legacy client's notifications (BR-L-03); a modern client sends none
            // to forward.
            Path::LegacyClient(_) | Path::ModernClient(_) => {}
            Path::Opening(Opening::Answered(early)) if method == Method::INITIALIZED => early.on_initialized(params),
            Path::Opening(_) | Path::PassThrough { .. } => self.sides.pass_to_server(method, params, now),
        }
        if is_initialized {
            self.on_client_initialized(now);
        }
    }

    /// Handles an event of the client machine, which faces the server.
    pub(crate) fn on_client_event(&mut self, event: client::Event, now: Instant) {
        use client::Event as E;
        match event {
            E::Connected { version, result, is_reconnect, .. } => {
                self.sides.out.report(Event::Connected { version, result: result.clone(), is_reconnect });
                self.on_connected(version, result, is_reconnect, now);
            }
            E::Unavailable { reason, retry_in } => {
                self.on_unavailable(&reason, now);
                self.sides.out.report(Event::Unavailable { reason, retry_in });
            }
            E::SessionLost => {
                self.sides.out.report(Event::SessionLost);
                if let Path::ModernClient(state) = &mut *self.path {
                    state.forget_roots_questions();
                }
                // The next session has no use for the answers to the old session's requests (SH-C-08).
                for request in self.sides.in_flight.clear_to_client() {
                    self.sides.server.cancel(request, Some("the session with the server was lost"), now);
                }
            }
            E::Responded { request, outcome } => self.on_outcome(request, outcome, now),
            // Progress is valid only for requests in flight (RP12).
            E::Progressed { request, params } if self.sides.in_flight.get_to_server(request).is_some() => {
                match &*self.path {
                    Path::LegacyClient(_) => legacy_client::on_progress(&mut self.sides, request, params, now),
                    Path::ModernClient(_) => modern_client::on_progress(&mut self.sides, request, params, now),
                    Path::Opening(_) | Path::PassThrough { .. } => self.sides.pass_progress(request, params, now),
                }
            }
            E::NotRestored { method, reason, .. } => self.sides.out.report(Event::NotInEffect { method, reason }),
            E::Listening { subscription, filter } => {
                if let Path::LegacyClient(state) = &mut *self.path {
                    state.on_listening(&mut self.sides, subscription, &filter, now);
                }
            }
            E::ListeningEnded { subscription, outcome } => {
                if let Path::LegacyClient(state) = &mut *self.path {
                    state.on_listening_ended(&mut self.sides, subscription, &outcome, now);
                }
            }
            E::Requested { ticket, scope, method, params } => match &mut *self.path {
                Path::LegacyClient(_) => {
                    legacy_client::on_input_required(&mut self.sides, scope, ticket, method, params, now);
                }
                Path::ModernClient(state) => state.on_question(&mut self.sides, scope, ticket, method, params, now),
                Path::Opening(_) | Path::PassThrough { .. } => self.sides.pass_to_client(ticket, method, params, now),
            },
            E::RequestCancelled { ticket, params } => match self.sides.in_flight.cancel_to_client(ticket) {
                Some(request) => self.sides.server.cancel_with(request, &params, now),
                None => {
                    if let Path::ModernClient(state) = &mut *self.path {
                        state.on_question_cancelled(ticket);
                    }
                }
            },
            E::Notified { scope, method, params } => match &*self.path {
                Path::LegacyClient(_) => {
                    legacy_client::on_notification(&mut self.sides, scope, method, params, now);
                }
                Path::ModernClient(state) => state.on_notification(&mut self.sides, scope, method, params, now),
                Path::Opening(_) | Path::PassThrough { .. } => {
                    self.sides.pass_notification(scope, method, params, now);
                }
            },
            E::Challenged(mut challenged) => {
                challenged.is_background = self.sides.server.requests_in_flight() == 0;
                self.await_sign_in(now);
                self.sides.out.report(Event::Challenged(challenged));
            }
            E::Postponed { refusal, retry_in, .. } => {
                self.sides.out.report(Event::Postponed { refusal, retry_in });
            }
            E::RequestWaits { limit } => self.sides.out.report(Event::RequestWaits { limit }),
            E::Faulted(fault) => self.sides.out.report(Event::Faulted { side: Side::Server, fault }),
            E::QuirkObserved(quirk) => self.sides.out.report(Event::QuirkObserved(quirk)),
            E::Closed(reason) => self.sides.out.report(Event::Closed(reason)),
            // Progress of a request that is not in flight any more.
            E::Progressed { .. } | E::Restored { .. } | E::ListeningInterrupted { .. } => {}
        }
    }

    fn on_outcome(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        let forwarded = self.sides.in_flight.remove_to_server(request);
        if let (Some(forwarded), Outcome::Failed(Failed::TimedOut { .. } | Failed::Cancelled)) = (&forwarded, &outcome)
        {
            let session = forwarded.ticket.key().session();
            self.sides.ended_unanswered(request, session, forwarded.method.clone(), now);
        }
        match (forwarded, &mut *self.path) {
            (Some(forwarded), Path::LegacyClient(_)) => {
                legacy_client::on_outcome(&mut self.sides, forwarded, outcome, now);
            }
            (Some(forwarded), Path::ModernClient(state)) => {
                state.on_outcome(&mut self.sides, forwarded, outcome, now);
            }
            (Some(forwarded), Path::Opening(_) | Path::PassThrough { .. }) => {
                self.sides.pass_outcome(forwarded, outcome, now);
            }
            (None, Path::ModernClient(state)) => state.on_unforwarded_outcome(&mut self.sides, request, outcome, now),
            (None, Path::Opening(_) | Path::PassThrough { .. } | Path::LegacyClient(_)) => {}
        }
    }
}
