//! `subscriptions/listen`: what clients want to be told of, and telling them (RULES 8.7).

use std::collections::BTreeSet;

use super::carrier::{Carrier, Hub, Kind};
use super::config::Config;
use super::context::Context;
use super::era;
use super::http::ExchangeKey;
use super::peer::{Peer, Phase, Source};
use crate::error::{Fault, UsageError};
use crate::json::Json;
use crate::message::{ErrorObject, Message, Method, Notification, RequestId, Response, code};
use crate::meta::{SUBSCRIPTION_ID, stamp, with_subscription_id};
use crate::pending::TicketKey;

/// Resources, or tasks, that one filter may name.
const NAMES: usize = 512;
/// Bytes that their names may have together.
const NAME_BYTES: usize = 32 * 1024;
/// The extension whose tasks can be listened to.
const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A `subscriptions/listen` that is open.
#[derive(Debug)]
pub(super) struct Listen {
    exchange: Option<ExchangeKey>,
    filter: Filter,
}

/// What a client wants to be told of.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: BTreeSet<Box<str>>,
    task_ids: BTreeSet<Box<str>>,
}

/// One kind of change.
enum Change<'n> {
    Tools,
    Prompts,
    Resources,
    Resource(&'n str),
    Task(&'n str),
}

impl Filter {
    /// Reads `notifications` of the parameters (MD-L-01). `None` if it is none, or names too much.
    fn read(params: Option<&Json>) -> Option<Self> {
        let wanted = params?.first_member("notifications").filter(Json::is_object)?;
        let [tools, prompts, resources, uris, task_ids] = wanted.first_members([
            "toolsListChanged",
            "promptsListChanged",
            "resourcesListChanged",
            "resourceSubscriptions",
            "taskIds",
        ]);
        let is_true = |flag: Option<Json>| flag.is_some_and(|flag| flag.as_bytes() == b"true");
        Some(Self {
            tools: is_true(tools),
            prompts: is_true(prompts),
            resources: is_true(resources),
            uris: names(uris.as_ref())?,
            task_ids: names(task_ids.as_ref())?,
        })
    }

    /// MD-L-02: what of it is served.
    fn honoured(self, config: &Config, context: &Context) -> Self {
        let declares = |capability: &str, flag: &str| {
            let capability = config.capabilities.first_member(capability);
            let flag = capability.and_then(|capability| capability.first_member(flag));
            flag.is_some_and(|flag| flag.as_bytes() == b"true")
        };
        let has_tasks = |capabilities: &Json| {
            let extensions = capabilities.first_member("extensions");
            extensions.and_then(|extensions| extensions.first_member(TASKS_EXTENSION)).is_some()
        };
        let serves_tasks = has_tasks(&config.capabilities) && has_tasks(&context.client_capabilities);
        Self {
            tools: self.tools && declares("tools", "listChanged"),
            prompts: self.prompts && declares("prompts", "listChanged"),
            resources: self.resources && declares("resources", "listChanged"),
            uris: if declares("resources", "subscribe") { self.uris } else { BTreeSet::new() },
            task_ids: if serves_tasks { self.task_ids } else { BTreeSet::new() },
        }
    }

    fn to_json(&self) -> Json {
        let mut filter = Json::empty_object();
        for (name, names) in [("taskIds", &self.task_ids), ("resourceSubscriptions", &self.uris)] {
            let names = (!names.is_empty()).then(|| Json::from_serialize(names).ok()).flatten();
            if let Some(names) = names {
                filter = filter.with_member(name, &names);
            }
        }
        for (name, wanted) in [
            ("resourcesListChanged", self.resources),
            ("promptsListChanged", self.prompts),
            ("toolsListChanged", self.tools),
        ] {
            if wanted {
                filter = filter.with_member(name, &Json::from(true));
            }
        }
        filter
    }

    fn wants(&self, change: &Change<'_>) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::Resource(uri) => self.uris.contains(*uri),
            Change::Task(id) => self.task_ids.contains(*id),
        }
    }
}

fn names(array: Option<&Json>) -> Option<BTreeSet<Box<str>>> {
    let mut names = BTreeSet::new();
    let mut bytes = 0;
    for name in array.into_iter().flat_map(Json::elements) {
        let name = name.as_string()?;
        bytes += name.len();
        if names.len() >= NAMES || bytes > NAME_BYTES {
            return None;
        }
        names.insert((&*name).into());
    }
    Some(names)
}

/// What has changed, and the capability that must be declared for it (LC-18).
pub(super) struct Publication<'n> {
    change: Change<'n>,
    capability: (&'static str, &'static str),
}

impl<'n> Publication<'n> {
    /// # Errors
    ///
    /// The notification tells of no change that anybody could listen to, or not of which.
    pub(super) fn of(method: &Method, name: Option<&'n str>) -> Result<Self, UsageError> {
        let (change, capability) = match (method.as_str(), name) {
            ("notifications/tools/list_changed", _) => (Change::Tools, ("tools", "listChanged")),
            ("notifications/prompts/list_changed", _) => (Change::Prompts, ("prompts", "listChanged")),
            ("notifications/resources/list_changed", _) => (Change::Resources, ("resources", "listChanged")),
            ("notifications/resources/updated", Some(uri)) => (Change::Resource(uri), ("resources", "subscribe")),
            ("notifications/tasks", Some(id)) => (Change::Task(id), ("extensions", TASKS_EXTENSION)),
            _ => return Err(UsageError::NoChange { method: method.clone() }),
        };
        Ok(Self { change, capability })
    }

    pub(super) fn check(&self, config: &Config) -> Result<(), UsageError> {
        let (capability, flag) = self.capability;
        let found = config.capabilities.first_member(capability);
        match found.and_then(|found| found.first_member(flag)) {
            Some(flag) if flag.as_bytes() != b"false" => Ok(()),
            Some(_) | None => Err(UsageError::NotDeclared { capability }),
        }
    }
}

/// The member of a change's parameters that says of what it tells.
pub(super) fn name_of(notification: &Notification) -> Option<String> {
    let member = match notification.method.as_str() {
        "notifications/resources/updated" => "uri",
        "notifications/tasks" => "taskId",
        _ => return None,
    };
    let name = notification.params.as_ref()?.first_member(member)?;
    name.as_string().map(String::from)
}

impl Peer {
    /// Answers `subscriptions/listen`, which then stays open (MD-L-02).
    pub(super) fn listen<T: Carrier>(
        &mut self,
        id: RequestId,
        params: Option<&Json>,
        context: &Context,
        source: Source,
        hub: &mut Hub<'_, T>,
    ) {
        let Some(filter) = Filter::read(params) else {
            let text = "invalid params: notifications must be a filter, and not name too much";
            return self.refuse(Some(id), &ErrorObject::new(code::INVALID_PARAMS, text), source, hub);
        };
        // MD-L-14
        let limit = hub.config.limits.subscriptions;
        if *hub.subscriptions >= limit && !self.end_listen_for(source.exchange, hub) {
            hub.wire.out.tell(crate::server::Event::Faulted(Fault::TooManyRequests { limit }));
            let error = ErrorObject::new(code::INTERNAL_ERROR, "too many subscriptions at one time");
            return self.refuse(Some(id), &error, source, hub);
        }
        *hub.subscriptions += 1;
        let filter = filter.honoured(hub.config, context);
        let params = Json::empty_object().with_member("notifications", &filter.to_json());
        let params = with_subscription_id(&params, &id);
        let exchange = source.exchange;
        let ticket = self.listens.insert(id, Listen { exchange, filter });
        self.listens_have_changed = true;
        if let Some(exchange) = exchange {
            self.listening.insert(exchange, ticket.key());
        }
        self.write(&Notification::with_params(Method::SUBSCRIPTIONS_ACKNOWLEDGED, params).into(), exchange, hub);
    }

    /// M4: ends one that is unused, or of a client with many, so that another one can be opened.
    fn end_listen_for<T: Carrier>(&mut self, newcomer: Option<ExchangeKey>, hub: &mut Hub<'_, T>) -> bool {
        let now = hub.wire.now;
        let evicted = newcomer.and_then(|newcomer| hub.transport.listen_to_evict(newcomer, now));
        let evicted = evicted.and_then(|exchange| self.listening.get(&exchange).copied());
        evicted.is_some_and(|key| self.end_listen(key, hub))
    }

    /// Tells everybody who wants to know; a legacy session as far as it has subscribed.
    pub(super) fn publish<T: Carrier>(
        &mut self,
        notification: &Notification,
        publication: &Publication<'_>,
        hub: &mut Hub<'_, T>,
    ) {
        let params = notification.params.clone().unwrap_or(Json::empty_object());
        for key in self.listens.keys() {
            let Some(listen) = self.listens.get(key).filter(|listen| listen.filter.wants(&publication.change)) else {
                continue;
            };
            let (exchange, Some(id)) = (listen.exchange, self.listens.id(key)) else { continue };
            let params = with_subscription_id(&params, id);
            let stamped = Notification::with_params(notification.method.clone(), params);
            self.write_notification(stamped, exchange, hub);
        }
        let is_open = matches!(self.phase, Phase::Open | Phase::Ready);
        let concerns_session = match publication.change {
            Change::Tools | Change::Prompts | Change::Resources => true,
            Change::Resource(uri) => self.subscribed.contains(uri),
            Change::Task(_) => false,
        };
        if is_open && concerns_session {
            self.write_notification(notification.clone(), None, hub);
        }
    }

    /// The resources that are listened to.
    pub(super) fn watched(&self) -> BTreeSet<Box<str>> {
        let listens = self.listens.keys().into_iter().filter_map(|key| self.listens.get(key));
        listens.flat_map(|listen| listen.filter.uris.iter().cloned()).collect()
    }

    /// A client in a legacy session has subscribed to a resource, or no longer does.
    pub(super) fn on_subscription(&mut self, method: &Method, uri: &str) {
        if *method == Method::RESOURCES_UNSUBSCRIBE {
            self.subscribed.remove(uri);
        } else if !self.subscribed.contains(uri) {
            let bytes: usize = self.subscribed.iter().map(|uri| uri.len()).sum();
            if self.subscribed.len() < NAMES && bytes + uri.len() <= NAME_BYTES {
                self.subscribed.insert(uri.into());
            }
        }
    }

    /// The client no longer listens.
    pub(super) fn unlisten<T: Carrier>(&mut self, key: TicketKey, hub: &mut Hub<'_, T>) {
        if let Some((_, listen)) = self.listens.remove(key) {
            self.listens_have_changed = true;
            *hub.subscriptions = hub.subscriptions.saturating_sub(1);
            if let Some(exchange) = listen.exchange {
                self.listening.remove(&exchange);
            }
        }
    }

    /// MD-L-09: ends all subscriptions with their results.
    pub(super) fn end_listens<T: Carrier>(&mut self, hub: &mut Hub<'_, T>) {
        for key in self.listens.keys() {
            self.end_listen(key, hub);
        }
    }

    /// MD-L-09: ends a subscription with its result; `false` if there is none.
    fn end_listen<T: Carrier>(&mut self, key: TicketKey, hub: &mut Hub<'_, T>) -> bool {
        let Some((id, listen)) = self.listens.remove(key) else { return false };
        self.listens_have_changed = true;
        *hub.subscriptions = hub.subscriptions.saturating_sub(1);
        if let Some(exchange) = listen.exchange {
            self.listening.remove(&exchange);
        }
        let result = stamp(&Json::empty_object(), &[(SUBSCRIPTION_ID, &id.to_json())]);
        let result = era::complete(hub.config, &Method::SUBSCRIPTIONS_LISTEN, &result);
        let message = Message::Response(Response::Result { id, result });
        hub.transport.write(&message, self.route(listen.exchange, Kind::Reply), &mut hub.wire);
        true
    }
}
