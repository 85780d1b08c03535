//! `subscriptions/listen`: the filters of clients, and the notifications to them (RULES 8.7).

use std::sync::Arc;

use super::change_notification::ChangeNotification;
use super::config::Config;
use super::context::Context;
use super::principal::Principal;
use super::session::Session;
use super::shared::Shared;
use super::snapshot::Setting;
use super::stateless::{Stateless, complete, route};
use super::subscribed::Names;
use super::tasks::TaskId;
use super::transport::{Kind, ReplyTo, ServerTransport, TransportNotice};
use crate::conversation::keys::TicketKey;
use crate::error::{Fault, UsageError};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, Notification, RequestId, Response};
use crate::spec::meta::{SUBSCRIPTION_ID, stamp, with_subscription_id};
use crate::spec::{Change, List, Method, TASKS_EXTENSION, code};

/// An open `subscriptions/listen`.
#[derive(Debug)]
pub(super) struct Listen {
    reply_to: ReplyTo,
    filter: Filter,
    /// The principal that has opened it.
    principal: Option<Principal>,
    is_acknowledged: bool,
}

/// The changes of which a client wants to be notified.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Filter {
    /// For each of [`List::EACH`], whether its changes are wanted.
    lists: [bool; List::EACH.len()],
    uris: Names,
    task_ids: Names,
}

impl Filter {
    /// Reads `notifications` of the parameters (MD-L-01). `None` if it is invalid or contains too many names.
    fn read(params: Option<&Json>) -> Option<Self> {
        let wanted = params?.first_member("notifications").filter(Json::is_object)?;
        let [uris, task_ids] = wanted.first_members(["resourceSubscriptions", "taskIds"]);
        let is_true = |flag: Option<Json>| flag.is_some_and(|flag| flag.as_bytes() == b"true");
        Some(Self {
            lists: wanted.first_members(List::EACH.map(List::filter_member)).map(is_true),
            uris: Names::read(uris.as_ref())?,
            task_ids: Names::read(task_ids.as_ref())?,
        })
    }

    /// The part of the filter that the server supports (MD-L-02).
    fn honoured(self, config: &Config, context: &Context) -> Self {
        let declares = |capability: &str, flag: &str| config.declares_flag(capability, flag);
        let has_tasks = |capabilities: &Json| {
            let extensions = capabilities.first_member("extensions");
            extensions.and_then(|extensions| extensions.first_member(TASKS_EXTENSION)).is_some()
        };
        let serves_tasks = has_tasks(&config.capabilities) && has_tasks(&context.client_capabilities);
        let (resources, subscribe) = Change::Resource.capability();
        let mut lists = self.lists;
        for (list, wanted) in List::EACH.into_iter().zip(&mut lists) {
            let (capability, flag) = Change::List(list).capability();
            *wanted &= declares(capability, flag);
        }
        let mut task_ids = if serves_tasks { self.task_ids } else { Names::default() };
        // A client asks for the status of the tasks that the acknowledgement does not name.
        task_ids.retain(TaskId::is_published);
        Self { lists, uris: if declares(resources, subscribe) { self.uris } else { Names::default() }, task_ids }
    }

    fn to_json(&self) -> Json {
        let mut filter = Json::empty_object();
        for (name, names) in [("taskIds", &self.task_ids), ("resourceSubscriptions", &self.uris)] {
            if let Some(names) = names.to_json() {
                filter = filter.with_member(name, &names);
            }
        }
        for (list, _) in List::EACH.into_iter().zip(self.lists).rev().filter(|(_, wanted)| *wanted) {
            filter = filter.with_member(list.filter_member(), &Json::from(true));
        }
        filter
    }

    fn wants(&self, publication: &Publication<'_>) -> bool {
        match publication.change {
            Change::List(list) => List::EACH.into_iter().zip(self.lists).any(|(of, wanted)| of == list && wanted),
            Change::Resource => self.uris.contains(publication.name),
            Change::Task => self.task_ids.contains(publication.name),
        }
    }
}

/// A change of which clients are notified.
pub(super) struct Publication<'n> {
    change: Change,
    /// The name of the resource or the task; empty for a list.
    name: &'n str,
}

impl<'n> Publication<'n> {
    /// # Errors
    ///
    /// The method is not a change notification, or the name of the resource or task is missing.
    pub(super) fn of(method: &Method, name: Option<&'n str>) -> Result<Self, UsageError> {
        match (method.facts().change, name) {
            (Some(change @ Change::List(_)), _) => Ok(Self { change, name: "" }),
            (Some(change @ (Change::Resource | Change::Task)), Some(name)) => Ok(Self { change, name }),
            (Some(_), None) | (None, _) => Err(UsageError::NoChange { method: method.clone() }),
        }
    }

    pub(super) fn check(&self, config: &Config) -> Result<(), UsageError> {
        let (capability, flag) = self.change.capability();
        let found = config.capabilities.first_member(capability);
        match found.and_then(|found| found.first_member(flag)) {
            Some(flag) if flag.as_bytes() != b"false" => Ok(()),
            Some(_) | None => Err(UsageError::NotDeclared { capability }),
        }
    }
}

impl Config {
    /// Checks a change notification as [`Server::publish`](super::Server::publish) does, for a server that does not run
    /// yet.
    ///
    /// # Errors
    ///
    /// As for [`Server::publish`](super::Server::publish).
    pub fn check_change(&self, change: &ChangeNotification) -> Result<(), UsageError> {
        let notification = change.notification();
        Publication::of(&notification.method, name_of(notification).as_deref())?.check(self)
    }
}

/// The name of the changed resource or task, from the parameters of a change notification.
pub(super) fn name_of(notification: &Notification) -> Option<String> {
    let member = notification.method.facts().change?.named_by()?;
    let name = notification.params.as_ref()?.first_member(member)?;
    name.as_string().map(String::from)
}

impl Stateless {
    /// Opens a `subscriptions/listen`, which is answered only when it ends (MD-L-02).
    pub(super) fn listen<T: ServerTransport>(
        &mut self,
        id: RequestId,
        params: Option<&Json>,
        context: &Context,
        reply_to: ReplyTo,
        shared: &mut Shared<'_, T>,
    ) {
        let Some(filter) = Filter::read(params) else {
            let text = "invalid params: notifications is not a valid filter, or names too many resources or tasks";
            let error = ErrorObject::new(code::INVALID_PARAMS, text);
            return shared.refuse(Some(id), error, route(reply_to, Kind::Refusal));
        };
        // Over capacity, the request is refused before its acknowledgement (MD-L-14).
        let limit = shared.config().limits.subscriptions;
        if shared.usage.subscriptions >= limit && !self.end_listen_for(reply_to, shared) {
            shared.fault(Fault::TooManySubscriptions);
            return shared.refuse(Some(id), ErrorObject::too_many_subscriptions(), route(reply_to, Kind::Refusal));
        }
        shared.usage.subscriptions += 1;
        let mut filter = filter.honoured(shared.config(), context);
        filter.uris = shared.resources.add_all(&filter.uris);
        let is_held = shared.config().manual_acknowledgement && filter.uris.iter().next().is_some();
        let principal = context.principal.clone();
        let ticket = self.listens.insert(id, Listen { reply_to, filter, principal, is_acknowledged: false }, 0);
        if reply_to != ReplyTo::Stream {
            self.listening.insert(reply_to, ticket.key());
        }
        if is_held {
            self.has_unacknowledged = true;
        } else {
            self.acknowledge(ticket.key(), shared);
        }
    }

    /// Sends the first message of a subscription, which contains the supported part of the filter (MD-L-02).
    fn acknowledge<T: ServerTransport>(&mut self, key: TicketKey, shared: &mut Shared<'_, T>) {
        let Some(id) = self.listens.id(key).cloned() else { return };
        let Some(listen) = self.listens.get_mut(key).filter(|listen| !listen.is_acknowledged) else { return };
        listen.is_acknowledged = true;
        let params = Json::empty_object().with_member("notifications", &listen.filter.to_json());
        let params = with_subscription_id(&params, &id.to_json());
        let route = route(listen.reply_to, Kind::Message);
        shared.write(&Notification::with_params(Method::SUBSCRIPTIONS_ACKNOWLEDGED, params).into(), route);
    }

    pub(super) fn acknowledge_listens<T: ServerTransport>(
        &mut self,
        is_pending: impl Fn(&str) -> bool,
        shared: &mut Shared<'_, T>,
    ) {
        for key in self.listens.keys() {
            let listen = self.listens.get(key);
            let listen = listen.filter(|listen| !listen.is_acknowledged);
            if listen.is_some_and(|listen| !listen.filter.uris.iter().any(|uri| is_pending(uri))) {
                self.acknowledge(key, shared);
            }
        }
    }

    pub(super) fn exclude_resource<T: ServerTransport>(&mut self, uri: &str, shared: &mut Shared<'_, T>) {
        for key in self.listens.keys() {
            let listen = self.listens.get_mut(key).filter(|listen| !listen.is_acknowledged);
            if listen.is_some_and(|listen| listen.filter.uris.remove(uri)) {
                shared.resources.remove(uri);
            }
        }
    }

    /// Ends a subscription that is unused, or one of a client with many, so that another one can be opened (M4).
    fn end_listen_for<T: ServerTransport>(&mut self, newcomer: ReplyTo, shared: &mut Shared<'_, T>) -> bool {
        let evicted = shared.transport.listen_to_evict(newcomer, shared.output.now);
        let evicted = evicted.and_then(|evicted| self.listening.get(&evicted).copied());
        evicted.is_some_and(|key| self.end_listen(key, shared))
    }

    /// Sends a change notification to all matching subscriptions.
    pub(super) fn publish<T: ServerTransport>(
        &mut self,
        change: &ChangeNotification,
        publication: &Publication<'_>,
        shared: &mut Shared<'_, T>,
    ) {
        let notification = change.notification();
        let is_concerned = |listen: &&Listen| {
            // The result of a task is for its principal, like the answer to `tasks/get` (SE-10).
            let is_recipient = change.is_for(listen.principal.as_ref());
            listen.is_acknowledged && is_recipient && listen.filter.wants(publication)
        };
        let params = notification.params.clone().unwrap_or(Json::empty_object());
        for key in self.listens.keys() {
            let Some(listen) = self.listens.get(key).filter(is_concerned) else { continue };
            let (reply_to, Some(id)) = (listen.reply_to, self.listens.id(key)) else { continue };
            let params = with_subscription_id(&params, &id.to_json());
            let stamped = Notification::with_params(notification.method.clone(), params);
            shared.write_notification(stamped, route(reply_to, Kind::Message));
        }
    }

    /// Removes a subscription that its client has cancelled.
    pub(super) fn unlisten<T: ServerTransport>(&mut self, key: TicketKey, shared: &mut Shared<'_, T>) {
        self.take_listen(key, shared);
    }

    /// Ends all subscriptions with their results (MD-L-09).
    pub(super) fn end_listens<T: ServerTransport>(&mut self, shared: &mut Shared<'_, T>) {
        for key in self.listens.keys() {
            self.end_listen(key, shared);
        }
    }

    /// Ends the subscriptions of clients whose credentials were withdrawn.
    pub(super) fn end_listens_of<T: ServerTransport>(
        &mut self,
        is_withdrawn: &impl Fn(Option<&Principal>) -> bool,
        shared: &mut Shared<'_, T>,
    ) {
        for key in self.listens.keys() {
            if self.listens.get(key).is_some_and(|listen| is_withdrawn(listen.principal.as_ref())) {
                self.end_listen(key, shared);
            }
        }
    }

    /// Ends a subscription with its result (MD-L-09); `false` if there is none.
    fn end_listen<T: ServerTransport>(&mut self, key: TicketKey, shared: &mut Shared<'_, T>) -> bool {
        let Some((id, listen)) = self.take_listen(key, shared) else { return false };
        shared.handle_request_of(listen.principal.as_ref());
        let result = stamp(&Json::empty_object(), &[(SUBSCRIPTION_ID, &id.to_json())]);
        let result = complete(shared.config(), &Method::SUBSCRIPTIONS_LISTEN, &result);
        let message = Message::Response(Response::Result { id, result });
        shared.write(&message, route(listen.reply_to, Kind::Reply));
        true
    }

    fn take_listen<T: ServerTransport>(
        &mut self,
        key: TicketKey,
        shared: &mut Shared<'_, T>,
    ) -> Option<(RequestId, Listen)> {
        let (id, listen) = self.listens.remove(key)?;
        shared.usage.subscriptions = shared.usage.subscriptions.saturating_sub(1);
        shared.resources.remove_all(&listen.filter.uris);
        self.listening.remove(&listen.reply_to);
        Some((id, listen))
    }
}

impl Session {
    /// Sends a change notification to the client; changes of a resource only if it has subscribed to it.
    pub(super) fn publish<T: ServerTransport>(
        &self,
        change: &ChangeNotification,
        publication: &Publication<'_>,
        shared: &mut Shared<'_, T>,
    ) {
        let concerns_session = match publication.change {
            Change::List(_) => true,
            Change::Resource => self.settings.subscribed.contains(publication.name),
            Change::Task => false,
        };
        if self.is_open() && concerns_session && change.is_for_all() {
            shared.write_notification(change.notification().clone(), self.route(ReplyTo::Stream, Kind::Message));
        }
    }

    /// Answers `resources/subscribe` and `resources/unsubscribe` of a legacy session (B22).
    pub(super) fn subscribe<T: ServerTransport>(
        &mut self,
        method: &Method,
        params: Option<&Json>,
        reply_to: ReplyTo,
        shared: &mut Shared<'_, T>,
    ) -> Result<Json, ErrorObject> {
        // Methods of an undeclared capability do not exist (LC-19).
        if !shared.config().declares_flag("resources", "subscribe") {
            return Err(ErrorObject::method_not_found(method));
        }
        let uri = uri_of(params).ok_or_else(|| ErrorObject::invalid_params("uri must be a string"))?;
        self.on_subscription(method, &uri, reply_to, shared)?;
        Ok(Json::empty_object())
    }

    /// Adds or removes a subscription of a legacy session to a resource.
    ///
    /// # Errors
    ///
    /// The answer to the client, if there is no room for the subscription (MD-L-14).
    pub(super) fn on_subscription<T: ServerTransport>(
        &mut self,
        method: &Method,
        uri: &str,
        reply_to: ReplyTo,
        shared: &mut Shared<'_, T>,
    ) -> Result<(), ErrorObject> {
        if *method == Method::RESOURCES_UNSUBSCRIBE {
            if self.settings.subscribed.remove(uri) {
                shared.resources.remove(uri);
            }
            shared.notice(TransportNotice::Changed(self.key, reply_to, Setting::Unsubscribed(uri.into())));
        } else if !self.settings.subscribed.has_room_for(uri) {
            shared.fault(Fault::TooManySubscriptions);
            return Err(ErrorObject::too_many_subscriptions());
        } else if !self.settings.subscribed.contains(uri) {
            let uri = shared.resources.add(uri);
            self.settings.subscribed.insert(Arc::clone(&uri));
            shared.notice(TransportNotice::Changed(self.key, reply_to, Setting::Subscribed(uri)));
        }
        Ok(())
    }

    /// Removes all subscriptions to resources of a legacy session that has ended.
    pub(super) fn end_subscriptions<T: ServerTransport>(&mut self, shared: &mut Shared<'_, T>) {
        shared.resources.remove_all(&std::mem::take(&mut self.settings.subscribed));
    }
}

/// The `uri` of the parameters of `resources/subscribe` or `resources/unsubscribe`.
pub(super) fn uri_of(params: Option<&Json>) -> Option<Box<str>> {
    let uri = params?.first_member("uri")?;
    uri.as_string().map(|uri| Box::from(&*uri))
}
