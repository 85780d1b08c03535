//! A client that begins with `initialize`, and a modern server: the relay is the client's server (RULES 13.1).

use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_proto::client::{self, ClientTransport, NotRestored, Outcome, SubscriptionKey};
use mcp_proto::server::{self, ServerTransport};
use mcp_proto::spec::meta::{LOG_LEVEL, RequestMeta, stamp};
use mcp_proto::spec::{List, SettingChange};
use mcp_proto::{
    ErrorObject, Failed, Instant, Json, Method, Notification, ProtocolVersion, RequestKey, Ticket, TicketKey, code,
};

use super::in_flight::{ToClient, ToServer};
use super::sides::Sides;
use super::watched::Watched;
use super::{Event, convert};

/// What the relay stores for the client (BR-L-02).
#[derive(Debug)]
pub(super) struct LegacyClient {
    /// The lists whose changes the server announces.
    lists: Vec<List>,
    /// The resources that the client has subscribed to.
    uris: Watched,
    /// The subscription that is in effect at the server.
    subscription: Option<SubscriptionKey>,
    /// The server has ended the subscription. It is opened again with the client's next request.
    is_lost: bool,
    /// The subscription that replaces `subscription`, until the server has acknowledged it; `waiting` holds the
    /// client's requests until then (BR-L-04).
    next: Option<SubscriptionKey>,
    waiting: Vec<WaitingSubscription>,
}

/// A `resources/subscribe` of the client that is not answered yet.
#[derive(Debug)]
struct WaitingSubscription {
    ticket: Ticket,
    uri: Arc<str>,
    /// The client had not subscribed to the resource before.
    is_new: bool,
}

impl LegacyClient {
    /// `capabilities` are the server's.
    pub(super) fn new(capabilities: &Json) -> Self {
        let changes = |name| {
            let flag = capabilities.first_member(name).and_then(|capability| capability.first_member("listChanged"));
            flag.is_some_and(|flag| flag.as_bytes() == b"true")
        };
        let lists = List::ALL.iter().copied().filter(|list| changes(list.capability())).collect();
        Self { lists, uris: Watched::default(), subscription: None, is_lost: false, next: None, waiting: Vec::new() }
    }

    /// Whether this is the subscription of the client, or its replacement.
    pub(super) fn has_subscription(&self, subscription: SubscriptionKey) -> bool {
        self.subscription == Some(subscription) || self.next == Some(subscription)
    }

    /// The filter of `subscriptions/listen`; `None` if there is nothing to subscribe to.
    fn filter(&self) -> Option<Json> {
        let mut filter = Json::empty_object();
        if let Some(uris) = self.uris.to_json() {
            filter = filter.with_member("resourceSubscriptions", &uris);
        }
        for list in &self.lists {
            filter = filter.with_member(list.filter_member(), &Json::from(true));
        }
        (filter != Json::empty_object()).then_some(filter)
    }
}

/// The `uri` of the parameters of `resources/subscribe` or `resources/unsubscribe`.
fn uri_of(params: Option<&Json>) -> Option<Arc<str>> {
    let uri = params?.first_member("uri")?;
    uri.as_string().map(|uri| Arc::from(&*uri))
}

impl LegacyClient {
    pub(super) fn on_request<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        ticket: Ticket,
        method: Method,
        params: Option<Json>,
        now: Instant,
    ) {
        if RequestMeta::read(params.as_ref()).is_claimed {
            let text = "the client has begun with initialize, and its session has one revision";
            return sides.respond(ticket, Err(ErrorObject::new(code::INVALID_REQUEST, text)), now);
        }
        if self.is_lost && self.next.is_none() {
            self.listen_anew(sides, now);
        }
        let setting = method.facts().changes_setting;
        if let Some(SettingChange::Subscribe | SettingChange::Unsubscribe) = setting {
            let Some(uri) = uri_of(params.as_ref()) else {
                return sides.respond(ticket, Err(ErrorObject::invalid_params("uri must be a string")), now);
            };
            if setting == Some(SettingChange::Subscribe) {
                if !self.uris.has_room_for(&uri) {
                    return sides.respond(ticket, Err(ErrorObject::too_many_subscriptions()), now);
                }
                let is_new = !self.uris.contains(&uri);
                self.uris.insert(Arc::clone(&uri));
                self.waiting.push(WaitingSubscription { ticket, uri, is_new });
            } else {
                self.uris.remove(&uri);
                // The client has subscribed before, and no subscription will be made for that any more.
                let waiting = std::mem::take(&mut self.waiting).into_iter();
                let (ended, waiting): (Vec<_>, _) = waiting.partition(|waiting| waiting.uri == uri);
                self.waiting = waiting;
                for ticket in ended.into_iter().map(|waiting| waiting.ticket).chain([ticket]) {
                    sides.respond(ticket, Ok(Json::empty_object()), now);
                }
            }
            return self.listen_anew(sides, now);
        }
        let params = match sides.session.and_then(|session| sides.server.logging_level(session)) {
            // The client's log level is sent with each request (BR-L-03).
            Some(level) => {
                let params = params.unwrap_or(Json::empty_object());
                Some(stamp(&params, &[(LOG_LEVEL, &Json::from(level.as_str()))]))
            }
            None => params,
        };
        sides.pass(ticket, method, params, now);
    }

    /// Replaces the subscription, because the filter of an open one cannot be changed (BR-L-04).
    pub(super) fn listen_anew<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        now: Instant,
    ) {
        if let Some(next) = self.next.take() {
            sides.client.unlisten(next, now);
        }
        let Some(filter) = self.filter() else {
            if let Some(subscription) = self.subscription.take() {
                sides.client.unlisten(subscription, now);
            }
            return;
        };
        match sides.client.listen(filter, now) {
            Ok(next) => self.next = Some(next),
            Err(error) => {
                self.refuse_subscribers(sides, &ErrorObject::new(code::INTERNAL_ERROR, &error.to_string()), now);
            }
        }
    }

    /// The server has acknowledged a subscription; `filter` is the part of it that the server honours.
    pub(super) fn on_listening<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        subscription: SubscriptionKey,
        filter: &Json,
        now: Instant,
    ) {
        if self.subscription == Some(subscription) {
            // The subscription was interrupted and is open again: changes in between may have been missed.
            return self.report_gap(sides, now);
        }
        if self.next != Some(subscription) {
            return;
        }
        self.next = None;
        let waiting = std::mem::take(&mut self.waiting);
        if let Some(old) = self.subscription.replace(subscription) {
            sides.client.unlisten(old, now);
        }
        if std::mem::take(&mut self.is_lost) {
            self.report_gap(sides, now);
        }
        let honoured = filter.first_member("resourceSubscriptions").unwrap_or(Json::empty_object());
        // A server may list resources that were not requested.
        let asked: BTreeSet<&str> = waiting.iter().map(|waiting| &*waiting.uri).collect();
        let honoured = honoured.elements();
        let honoured = honoured.filter_map(|uri| uri.as_string().and_then(|uri| asked.get(&*uri).copied()));
        let honoured: BTreeSet<Box<str>> = honoured.map(Box::from).collect();
        for WaitingSubscription { ticket, uri, .. } in waiting {
            let answer = if honoured.contains(&*uri) {
                Ok(Json::empty_object())
            } else {
                self.uris.remove(&uri);
                Err(ErrorObject::new(code::INVALID_PARAMS, "the server does not notify of changes of this resource"))
            };
            sides.respond(ticket, answer, now);
        }
    }

    pub(super) fn on_listening_ended<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        subscription: SubscriptionKey,
        outcome: &Outcome,
        now: Instant,
    ) {
        if self.subscription == Some(subscription) {
            self.subscription = None;
            self.is_lost = true;
            report_not_in_effect(sides, outcome);
        }
        if self.next != Some(subscription) {
            return;
        }
        self.next = None;
        if let Outcome::Error(_) = outcome {
            // The server would refuse it again.
            self.is_lost = false;
        }
        // Otherwise, the error that the client receives states it, or the earlier subscription stays in effect.
        if self.subscription.is_none() && self.waiting.is_empty() {
            report_not_in_effect(sides, outcome);
        }
        let error = match outcome {
            Outcome::Error(error) => convert::error_to_legacy(&Method::RESOURCES_SUBSCRIBE, error, version(sides)),
            Outcome::Failed(reason) => sides.error_for(reason),
            Outcome::Result(_) => ErrorObject::new(code::INTERNAL_ERROR, "the server notifies of no changes"),
        };
        self.refuse_subscribers(sides, &error, now);
    }

    fn refuse_subscribers<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        error: &ErrorObject,
        now: Instant,
    ) {
        for WaitingSubscription { ticket, uri, .. } in std::mem::take(&mut self.waiting) {
            self.uris.remove(&uri);
            sides.respond(ticket, Err(error.clone()), now);
        }
    }

    fn report_gap<S: ServerTransport, T: ClientTransport>(&mut self, sides: &mut Sides<'_, S, T>, now: Instant) {
        let lists = self.lists.iter().map(|list| Notification::new(list.notification()));
        let resources = self.uris.iter().map(|uri| {
            let params = Json::empty_object().with_member("uri", &Json::from(&**uri));
            Notification::with_params(Method::RESOURCES_UPDATED, params)
        });
        for notification in lists.chain(resources).collect::<Vec<_>>() {
            sides.publish_to_session(notification, now);
        }
    }

    /// The client cancels a `resources/subscribe` that is not answered yet: no subscription is made for it.
    pub(super) fn on_cancelled<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        ticket: TicketKey,
        now: Instant,
    ) {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.ticket.key() == ticket) else { return };
        let WaitingSubscription { uri, is_new, .. } = self.waiting.remove(at);
        if !is_new {
            return;
        }
        if let Some(other) = self.waiting.iter_mut().find(|waiting| waiting.uri == uri) {
            other.is_new = true;
        } else {
            self.uris.remove(&uri);
            self.listen_anew(sides, now);
        }
    }
}

/// Reports that the subscription has ended with this outcome, unless the whole connection has ended.
fn report_not_in_effect<S: ServerTransport, T: ClientTransport>(sides: &mut Sides<'_, S, T>, outcome: &Outcome) {
    let reason = match outcome {
        Outcome::Failed(reason) if reason.is_end_of_connection() => return,
        Outcome::Error(error) => NotRestored::Error(error.clone()),
        Outcome::Failed(reason) => NotRestored::Failed(reason.clone()),
        Outcome::Result(_) => NotRestored::Failed(Failed::EndedByServer),
    };
    sides.out.report(Event::NotInEffect { method: Method::SUBSCRIPTIONS_LISTEN, reason });
}

/// Answers the client with the outcome of its request.
pub(super) fn on_outcome<S: ServerTransport, T: ClientTransport>(
    sides: &mut Sides<'_, S, T>,
    forwarded: ToServer,
    outcome: Outcome,
    now: Instant,
) {
    let ToServer { ticket, method, .. } = forwarded;
    let answer = match outcome {
        Outcome::Result(result) => Ok(convert::result_to_legacy(&method, &result)),
        Outcome::Error(error) => Err(convert::error_to_legacy(&method, &error, version(sides))),
        // A tool call whose client does not provide the required input gets an error result (BR-L-06).
        Outcome::Failed(reason @ Failed::NoInput { .. }) if method == Method::TOOLS_CALL => {
            Ok(convert::tool_error(&reason.describe(&sides.client.peer())))
        }
        Outcome::Failed(reason) => Err(sides.report_failure(reason)),
    };
    sides.respond(ticket, answer, now);
}

/// Forwards only increasing progress, because the server's progress restarts with each retry (BR-L-12).
pub(super) fn on_progress<S: ServerTransport, T: ClientTransport>(
    sides: &mut Sides<'_, S, T>,
    request: RequestKey,
    params: Json,
    now: Instant,
) {
    let Some(forwarded) = sides.in_flight.get_to_server_mut(request) else { return };
    let progress = params.first_member("progress").and_then(|progress| progress.read::<f64>().ok());
    let Some(progress) = progress.filter(|progress| *progress > forwarded.progress) else { return };
    forwarded.progress = progress;
    let (scope, params) = (server::Scope::from(&forwarded.ticket), forwarded.with_own_token(params));
    sides.notify_client(scope, Method::PROGRESS, Some(params), now);
}

/// Forwards a notification of the server; a change goes to the client only if it has subscribed to it.
pub(super) fn on_notification<S: ServerTransport, T: ClientTransport>(
    sides: &mut Sides<'_, S, T>,
    scope: client::Scope,
    method: Method,
    params: Option<Json>,
    now: Instant,
) {
    let about = match scope {
        client::Scope::Subscription(_) => {
            let notification = Notification { method, params: convert::without_subscription(params) };
            return sides.publish_to_session(notification, now);
        }
        client::Scope::Request(request) => sides.in_flight.get_to_server(request),
        client::Scope::Connection => None,
    };
    let scope = about.map_or_else(|| sides.scope_of_session(), |forwarded| Some((&forwarded.ticket).into()));
    sides.notify_client(scope, method, params, now);
}

/// Turns each input request of a call into a request to the client, within the scope of that call (BR-L-05).
pub(super) fn on_input_required<S: ServerTransport, T: ClientTransport>(
    sides: &mut Sides<'_, S, T>,
    scope: client::Scope,
    ticket: Ticket,
    method: Method,
    params: Option<Json>,
    now: Instant,
) {
    let about = match scope {
        client::Scope::Request(request) => sides.in_flight.get_to_server(request),
        client::Scope::Connection | client::Scope::Subscription(_) => None,
    };
    let scope = about.map_or_else(|| sides.scope_of_session(), |forwarded| Some((&forwarded.ticket).into()));
    let id = format!("relay-{}", ticket.key().number());
    let params = params.map(|params| convert::question_to_legacy(&method, &params, &id));
    sides.ask_client(scope, ticket, method, params, now);
}

/// An elicitation that failed counts as cancelled by the user; other failures are forwarded as errors (BR-L-06).
pub(super) fn on_answer<S: ServerTransport, T: ClientTransport>(
    sides: &mut Sides<'_, S, T>,
    forwarded: ToClient,
    outcome: Outcome,
    now: Instant,
) {
    let ToClient { ticket, method } = forwarded;
    match outcome {
        Outcome::Error(_) | Outcome::Failed(_) if method == Method::ELICITATION_CREATE => {
            let cancel = Json::empty_object().with_member("action", &Json::from("cancel"));
            sides.client.answer(ticket, Ok(cancel), now);
        }
        outcome @ (Outcome::Result(_) | Outcome::Error(_) | Outcome::Failed(_)) => {
            sides.pass_answer(ticket, outcome, now);
        }
    }
}

/// The revision of the client's session.
fn version<S: ServerTransport, T: ClientTransport>(sides: &Sides<'_, S, T>) -> ProtocolVersion {
    sides.session.and_then(|session| sides.server.version(session)).unwrap_or(ProtocolVersion::LATEST_LEGACY)
}
