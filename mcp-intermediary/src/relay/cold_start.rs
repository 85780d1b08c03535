//! The cold start: while a person signs in, the client's `initialize` is answered in the place of the server (OA-G-07).
//!
//! Clients give `initialize` less time than a person takes. Further requests of the client wait for the server, and the
//! client is notified of changes that the server's own answer makes.

use mcp_proto::client::{Call, ClientTransport};
use mcp_proto::server::{Scope, ServerTransport};
use mcp_proto::spec::List;
use mcp_proto::{Instant, Json, Method, Notification, ProtocolVersion};

use super::Event;
use super::link::{EarlyAnswer, Joined, Opening, Path};

impl<S: ServerTransport, T: ClientTransport> Joined<'_, S, T> {
    /// The server demands authorization.
    pub(super) fn await_sign_in(&mut self, now: Instant) {
        if let Path::Opening(Opening::Sent { .. }) = *self.path {
            self.cold_start.answer_at.get_or_insert(now + self.cold_start.answer_after);
        }
    }

    /// Asks the client to open a URL at which a person signs in. A client that still waits for the answer to
    /// `initialize` gets that answer now, because it accepts no request before. This has no effect if the client does
    /// not open URLs.
    pub(super) fn send_or_keep_url(&mut self, url: &str, now: Instant) {
        if self.cold_start.opens_urls {
            self.cold_start.url = Some(url.into());
            if let Path::Opening(Opening::Sent { .. }) = *self.path {
                self.cold_start.answer_at = Some(now);
                self.answer_early(now);
            }
            self.send_url(now);
        }
    }

    /// The client accepts requests from now on.
    pub(super) fn on_client_initialized(&mut self, now: Instant) {
        self.cold_start.is_initialized = true;
        self.send_url(now);
    }

    fn send_url(&mut self, now: Instant) {
        if !self.cold_start.is_initialized {
            return;
        }
        let Some(url) = self.cold_start.url.take() else { return };
        let text = format!("Sign in to use {}.", self.sides.client.peer());
        // The URL is new for each sign-in, so that it identifies this one.
        let params = [("url", &*url), ("elicitationId", &*url), ("mode", "url"), ("message", &*text)];
        let add = |params: Json, (name, value): (&str, &str)| params.with_member(name, &Json::from(value));
        let call = Call::new(Method::ELICITATION_CREATE).params(params.into_iter().fold(Json::empty_object(), add));
        // The answer of the client is not needed: the redirect shows whether the person has signed in.
        let Some(session) = self.sides.session else { return };
        if let Err(error) = self.sides.server.request(session, call, now) {
            self.sides.out.report(Event::NotPassed { method: Method::ELICITATION_CREATE, error });
        }
    }

    /// Answers the client's `initialize` in the place of the server, if that is due.
    pub(super) fn answer_early(&mut self, now: Instant) {
        if self.cold_start.answer_at.is_none_or(|at| at > now) {
            return;
        }
        self.cold_start.answer_at = None;
        let Path::Opening(opening) = &mut *self.path else { return };
        match std::mem::replace(opening, Opening::Awaited) {
            Opening::Sent { ticket, params } => {
                let answer = self.cold_start.answer(&params);
                let capabilities = answer.first_member("capabilities").unwrap_or(Json::empty_object());
                *opening = Opening::Answered(EarlyAnswer { capabilities, initialized: None });
                *self.sides.request_timeout = Some(self.cold_start.wait);
                self.sides.respond(ticket, Ok(answer), now);
                self.sides.out.report(Event::AnsweredEarly);
            }
            other @ (Opening::Awaited
            | Opening::Answered(_)
            | Opening::Failed { .. }
            | Opening::Prepared { .. }
            | Opening::Discovering { .. }) => *opening = other,
        }
    }

    /// The server has answered after the client had an answer already.
    pub(super) fn on_late_connection(
        &mut self,
        early: EarlyAnswer,
        version: ProtocolVersion,
        result: &Json,
        now: Instant,
    ) {
        let EarlyAnswer { capabilities: given, initialized } = early;
        let is_initialized = initialized.is_some();
        let capabilities = result.first_member("capabilities").filter(Json::is_object).unwrap_or(Json::empty_object());
        if version.is_stateless() {
            self.become_legacy_server(result);
            if let Path::LegacyClient(state) = &mut *self.path {
                state.listen_anew(&mut self.sides, now);
            }
        } else if let Some(Notification { method, params }) = initialized {
            self.sides.pass_to_server(method, params, now);
        }
        // A client that is not initialized asks for the lists later.
        if !is_initialized {
            return;
        }
        let Some(session) = self.sides.session else { return };
        for list in List::ALL {
            let declared = given.first_member(list.capability());
            let is_told = declared.and_then(|declared| declared.first_member("listChanged")) == Some(Json::from(true));
            if is_told && capabilities.first_member(list.capability()).is_some() {
                self.sides.notify_client(Scope::from(session), list.notification(), None, now);
            }
        }
    }
}
