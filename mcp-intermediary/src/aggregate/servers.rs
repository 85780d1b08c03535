//! Events of servers; when they are started and stopped.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_proto::client::{self, Call, Outcome};
use mcp_proto::spec::meta::{SUBSCRIPTION_ID, without_keys};
use mcp_proto::spec::{Change, List};
use mcp_proto::{
    ErrorObject, Instant, Json, LoggingLevel, Method, Notification, ProtocolVersion, RequestKey, Ticket, code, server,
};

use super::connection::{ConnectionOutput, Opener};
use super::event::ServerKey;
use super::list_kind::ListKind;
use super::member::MemberState;
use super::opening::{Stage, instructions_of};
use super::origin::add_origin;
use super::{Action, Aggregate, AggregateTimer, Event};
use crate::relay;

/// How long a server must have been usable so that its exit counts as the first failure.
const STABLE: Duration = Duration::from_secs(60);

impl Aggregate {
    /// Handles an output of a server.
    pub(super) fn on_server_output(&mut self, server: ServerKey, output: ConnectionOutput, now: Instant) {
        match output {
            ConnectionOutput::Action(action) => {
                if self.connection(server).is_some_and(|connection| !connection.has_stopped) {
                    self.out.act(Action::Server { server, action });
                }
            }
            ConnectionOutput::Relay(event) => {
                if let (relay::Event::Connected { version, .. }, Some(member)) = (&event, self.members.get_mut(&server))
                {
                    member.version = Some(*version);
                }
                self.out.report(Event::Server { server, event });
            }
            ConnectionOutput::Client(event) => self.on_server_event(server, event, now),
        }
    }

    /// Handles an event of the client of a server's relay.
    fn on_server_event(&mut self, server: ServerKey, event: client::Event, now: Instant) {
        use client::Event as E;
        match event {
            E::Connected { result, .. } => self.on_connected(server, &result, now),
            E::Unavailable { .. } => {
                if let Some(connection) = self.connection(server) {
                    connection.client.close(now);
                }
            }
            E::Responded { request, outcome } => self.on_outcome(server, request, outcome, now),
            E::Progressed { request, params } => {
                if let Some(ticket) = self.pending.ticket(server, request) {
                    self.notify_client(server::Scope::Request(ticket), Method::PROGRESS, Some(params), now);
                }
            }
            E::Requested { ticket, scope, method, params } => {
                self.ask_client(server, ticket, scope, method, params, now);
            }
            E::RequestCancelled { ticket, params } => {
                if let Some(request) = self.questions.cancel(server, ticket) {
                    self.server.cancel_with(request, &params, now);
                }
            }
            E::Notified { scope, method, params } => self.on_notification(server, scope, method, params, now),
            E::Listening { subscription, filter } => self.on_listening(server, subscription, &filter, now),
            E::ListeningEnded { subscription, .. } => self.on_listening_ended(server, subscription, now),
            E::Closed(_) => self.on_closed(server, now),
            // The relay reports these itself.
            E::SessionLost
            | E::Restored { .. }
            | E::NotRestored { .. }
            | E::ListeningInterrupted { .. }
            | E::RequestWaits { .. }
            | E::Postponed { .. }
            | E::Challenged(_)
            | E::Faulted(_)
            | E::QuirkObserved(_) => {}
        }
    }

    /// A server can be used.
    fn on_connected(&mut self, server: ServerKey, result: &Json, now: Instant) {
        let Some(member) = self.members.get_mut(&server) else { return };
        let capabilities = result.first_member("capabilities").filter(Json::is_object);
        let capabilities = capabilities.unwrap_or(Json::empty_object()).detached_from(result.len());
        member.capabilities = Some(capabilities);
        member.instructions = instructions_of(result);
        member.is_settled = true;
        member.forget();
        if let MemberState::Running(connection) = &mut member.state {
            connection.usable_since = Some(now);
        }
        if member.age(now) < self.config.server_timeout && std::mem::take(&mut member.is_late) {
            self.out.report(Event::InTime { server, method: Method::INITIALIZE });
        }
        self.resources.on_changed(server);
        self.catalogue.remove(server);
        self.app_pages.on_changed(server);
        for kind in [ListKind::Tools, ListKind::Prompts] {
            self.on_names_unread(server, kind, now);
        }
        if self.is_client_ready {
            self.confirm(server, now);
        }
        if let Stage::Open { .. } = self.stage {
            self.restore(server, now);
            self.announce(server, now);
        } else {
            self.open_if_settled(now);
        }
        self.listen_anew(server, now);
    }

    /// The names of a process are not known yet; those of one without such a list are.
    fn on_names_unread(&mut self, server: ServerKey, kind: ListKind, now: Instant) {
        let names = if kind == ListKind::Tools { &mut self.tools } else { &mut self.prompts };
        names.on_changed(server);
        if self.members.get(&server).is_some_and(|member| !member.has(kind.list().capability())) {
            self.on_names_listed(server, kind, Some(&BTreeSet::new()), now);
        }
    }

    /// Sends `notifications/initialized` to a server of a session.
    pub(super) fn confirm(&mut self, server: ServerKey, now: Instant) {
        let is_session = self.stage.opener().is_some_and(|opener| !opener.is_stateless());
        if let Some(connection) = self.connection(server).filter(|_| is_session) {
            // Only the first call after the answer to `initialize` has an effect.
            let _ = connection.client.confirm(None, now);
        }
    }

    /// Notifies the client that the lists with the items of this server may have changed.
    pub(super) fn announce(&mut self, server: ServerKey, now: Instant) {
        for list in List::ALL {
            if self.members.get(&server).is_some_and(|member| member.has(list.capability())) {
                self.announce_list(*list, now);
            }
        }
    }

    /// Notifies the client of a change, if it has asked for that.
    pub(super) fn publish(&mut self, change: Notification, now: Instant) {
        // Publishing fails if the aggregate did not state the capability when it was opened.
        let _ = self.server.publish(change, now);
    }

    /// Repeats the settings of the earlier session in that of a server that was started again.
    fn restore(&mut self, server: ServerKey, now: Instant) {
        if self.stage.opener().is_none_or(Opener::is_stateless) {
            return;
        }
        if let Some(level) = self.level {
            self.set_level(server, level, now);
        }
        let watched = self.members.get(&server).map(|member| member.watch.uris());
        for uri in watched.unwrap_or_default() {
            let params = Json::empty_object().with_member("uri", &Json::from(&*uri));
            self.set(server, Method::RESOURCES_SUBSCRIBE, params, now);
        }
    }

    /// The log level that the client has set is sent to all servers. Returns whether there was a new one.
    pub(super) fn take_level(&mut self, now: Instant) -> bool {
        let level = self.server.logging_level(self.server.session());
        let Some(level) = level.filter(|level| self.level != Some(*level)) else { return false };
        self.level = Some(level);
        for server in self.keys() {
            self.set_level(server, level, now);
        }
        true
    }

    fn set_level(&mut self, server: ServerKey, level: LoggingLevel, now: Instant) {
        if self.members.get(&server).is_some_and(|member| member.capabilities.is_some() && member.has("logging")) {
            let params = Json::empty_object().with_member("level", &Json::from(level.as_str()));
            self.set(server, Method::LOGGING_SET_LEVEL, params, now);
        }
    }

    /// Makes a request for a setting, for whose outcome no client waits.
    fn set(&mut self, server: ServerKey, method: Method, params: Json, now: Instant) {
        if let Some(connection) = self.connection(server) {
            if let Ok(request) = connection.client.request(Call::new(method.clone()).params(params), now) {
                self.pending.insert_setting(server, request, method);
            }
        }
    }

    /// Sends a notification of the client to all servers.
    pub(super) fn notify_servers(&mut self, method: &Method, params: Option<&Json>, now: Instant) {
        for server in self.keys() {
            if let Some(connection) = self.connection(server) {
                let notification = Notification { method: method.clone(), params: params.cloned() };
                // A server that is not connected yet has nothing to be notified of.
                let _ = connection.client.notify(notification, now);
            }
        }
    }

    /// Handles a notification of a server.
    fn on_notification(
        &mut self,
        server: ServerKey,
        scope: client::Scope,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        let tag = self.prefixes.tag(server);
        let params = params.map(|params| add_origin(&params, "taskId", tag));
        if let Some(change) = method.facts().change {
            let params = params.map(|params| without_keys(&params, &[SUBSCRIPTION_ID]));
            return match change {
                Change::List(list) => self.on_list_changed(server, list, now),
                Change::Resource if !self.may_update(server, params.as_ref()) => {}
                Change::Resource | Change::Task => self.publish(Notification { method, params }, now),
            };
        }
        let about = match scope {
            client::Scope::Request(request) => self.pending.ticket(server, request),
            client::Scope::Connection | client::Scope::Subscription(_) => None,
        };
        let is_stateless = self.stage.opener().is_some_and(Opener::is_stateless);
        if about.is_none() && !self.is_attributable(server, now) {
            return;
        }
        let scope = about.map(server::Scope::Request);
        let scope = scope.or_else(|| (!is_stateless).then(|| self.server.session().into()));
        if let Some(scope) = scope {
            self.notify_client(scope, method, params, now);
        }
    }

    fn notify_client(&mut self, scope: server::Scope, method: Method, params: Option<Json>, now: Instant) {
        // The client may have gone, or may not have been answered yet.
        let _ = self.server.notify(scope, Notification { method, params }, now);
    }

    /// Forwards a request of a server to the client.
    fn ask_client(
        &mut self,
        server: ServerKey,
        ticket: Ticket,
        scope: client::Scope,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        if method == Method::PING {
            return self.answer_server(server, ticket, Ok(Json::empty_object()), now);
        }
        let about = match scope {
            client::Scope::Request(request) => self.pending.ticket(server, request),
            client::Scope::Connection | client::Scope::Subscription(_) => None,
        };
        if about.is_none() && method != Method::ROOTS_LIST && !self.is_attributable(server, now) {
            let text = "it is not known which client is asked: there is no call that the request can only be about";
            return self.answer_server(server, ticket, Err(ErrorObject::new(code::INVALID_REQUEST, text)), now);
        }
        let scope = about.map_or_else(|| self.server.session().into(), server::Scope::Request);
        let (params, token) = self.questions.with_token_of_its_own(params);
        let call = match params {
            Some(params) => Call::new(method).params(params),
            None => Call::new(method),
        };
        match self.server.request(scope, call, now) {
            Ok(request) => self.questions.insert(request, server, ticket, token),
            Err(error) => {
                let error = ErrorObject::new(code::INTERNAL_ERROR, &error.to_string());
                self.answer_server(server, ticket, Err(error), now);
            }
        }
    }

    /// Whether what a server sends without stating a call can only be about an open one, if several clients use the
    /// aggregate (BR-M-05).
    fn is_attributable(&self, server: ServerKey, now: Instant) -> bool {
        let Some(member) = self.members.get(&server).filter(|_| self.config.is_shared) else { return true };
        // Each message of a server without sessions states the request that it is about.
        if member.version.is_some_and(ProtocolVersion::is_stateless) {
            return true;
        }
        self.pending.has_call(server) && member.works_until.is_none_or(|until| until <= now)
    }

    /// Forwards the client's answer to the server that has asked.
    pub(super) fn on_answer(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        let Some(question) = self.questions.remove(request) else { return };
        let answer = match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(error),
            Outcome::Failed(reason) => Err(ErrorObject::new(code::INTERNAL_ERROR, &reason.describe("the client"))),
        };
        self.answer_server(question.server, question.ticket, answer, now);
    }

    fn answer_server(&mut self, server: ServerKey, ticket: Ticket, answer: Result<Json, ErrorObject>, now: Instant) {
        if let Some(connection) = self.connection(server) {
            connection.client.answer(ticket, answer, now);
        }
    }

    /// Forwards the client's progress on a request of a server.
    pub(super) fn on_progress_of_client(&mut self, request: RequestKey, params: Json, now: Instant) {
        let Some(question) = self.questions.get(request) else { return };
        let (server, params) = (question.server, question.with_own_token(params));
        if let Some(connection) = self.connection(server) {
            let _ = connection.client.notify(Notification::with_params(Method::PROGRESS, params), now);
        }
    }

    /// The connection to a server has ended, and all requests to it have their outcomes.
    fn on_closed(&mut self, server: ServerKey, now: Instant) {
        let Some(member) = self.members.get_mut(&server) else { return };
        let state = std::mem::replace(&mut member.state, MemberState::Stopping);
        let MemberState::Running(connection) = state else { return };
        self.active.remove(&server);
        self.timers.clear(AggregateTimer::Machine(server));
        if connection.has_stopped {
            member.state = MemberState::Stopped;
        } else {
            self.out.act(Action::Stop { server });
        }
        member.end.clone_from(&connection.end);
        member.is_settled = true;
        let may_begin_with_initialize = member.may_begin_with_initialize();
        let was_usable = connection.usable_since.is_some();
        if connection.usable_since.is_some_and(|since| now.saturating_duration_since(since) >= STABLE) {
            member.restart.on_success();
        }
        // Some servers of older revisions exit on a request that they do not know (ER-06).
        let asks_for_revisions = self.stage.opener().is_some_and(Opener::is_stateless);
        let is_retried = connection.has_ended
            && !was_usable
            && asks_for_revisions
            && may_begin_with_initialize
            && !member.begins_with_initialize;
        if !was_usable {
            member.begins_with_initialize = is_retried;
        }
        if is_retried {
            member.is_settled = false;
            // If the process has not ended, it is started when it has.
            self.start(server, now);
        } else {
            let pause = member.restart.on_failure(now).or_else(|| member.restart.pause(now));
            let retry_in = pause.unwrap_or_default();
            self.out.report(Event::ServerFailed { server, retry_in });
            self.timers.set(AggregateTimer::Start(server), now + retry_in);
        }
        for request in self.questions.remove_server(server) {
            self.server.cancel(request, Some("the server that has asked has ended"), now);
        }
        self.on_connection_lost(server, now);
        self.open_if_settled(now);
    }

    /// The process of a server has ended.
    pub(super) fn on_stopped(&mut self, server: ServerKey, now: Instant) {
        let Some(member) = self.members.get_mut(&server) else { return };
        member.state = MemberState::Stopped;
        if let Stage::Closed { .. } = self.stage {
            self.report_end();
        } else if !self.timers.is_set(AggregateTimer::Start(server)) {
            self.start(server, now);
        }
    }
}
