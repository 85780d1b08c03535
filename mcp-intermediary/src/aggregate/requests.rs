//! Which server a request of the client is for, and its answer.

use mcp_proto::client::{Call, NotRestored, Outcome};
use mcp_proto::spec::{Change, SettingChange};
use mcp_proto::{
    ErrorObject, Instant, Json, Method, ProtocolVersion, RequestKey, Ticket, TicketKey, code, escape_text,
};

use super::apps::is_page;
use super::connection::Opener;
use super::event::ServerKey;
use super::lazy::LazyCall;
use super::list_kind::ListKind;
use super::member::MemberState;
use super::names::Named;
use super::origin::{add_origin, origin_of};
use super::pages::Position;
use super::pending::{Forwarded, Looked, Purpose, Then};
use super::{Aggregate, lazy};
use crate::relay;

/// The destination of a request.
enum Route {
    To(ServerKey, Option<Json>),
    /// The server is known after these servers have listed what they have.
    LookUp(Vec<ServerKey>, ListKind, Looked),
    /// No server is known to have the resource.
    InTurn(Box<str>),
    /// No server has the page of an app.
    NoSuchPage(Box<str>),
    /// No server has this name, for this reason.
    NoSuchName(String),
}

impl Aggregate {
    /// Answers a request of the client.
    pub(super) fn respond(&mut self, ticket: Ticket, answer: Result<Json, ErrorObject>, now: Instant) {
        // An error code that servers must not use is replaced by that of an internal error.
        let _ = self.server.respond(ticket, answer, now);
    }

    /// Handles a request of the client; `looked` states which lists were read for it.
    pub(super) fn on_request(
        &mut self,
        ticket: Ticket,
        method: Method,
        params: Option<Json>,
        looked: Looked,
        now: Instant,
    ) {
        if let Some(kind) = ListKind::of(&method) {
            return self.on_list(ticket, kind, params, now);
        }
        let lazy = self.lazy_call(&method, params.as_ref());
        let of_tool = match lazy {
            Some(LazyCall::Search { query, limit }) => {
                return self.on_search(ticket, query, limit, params.as_ref(), now);
            }
            Some(LazyCall::Wrong(reason)) => return self.respond(ticket, Ok(lazy::tool_error(reason)), now),
            Some(LazyCall::Call(params)) => Some(params),
            None => None,
        };
        let is_lazy = of_tool.is_some();
        let route = self.route(&method, of_tool.as_ref().or(params.as_ref()), looked);
        let route = if is_lazy { route.map(|route| self.to_known_tool(route, looked)) } else { route };
        match route {
            Ok(Route::To(server, params)) => {
                let uri = uri_of(&method, params.as_ref());
                let forwarded = Forwarded { ticket, method, uri, to_others: None, asked: Vec::new() };
                self.forward(server, forwarded, params, now);
            }
            Ok(Route::InTurn(uri)) => {
                let (uri, asked) = (Some(uri), Vec::new());
                let forwarded = Forwarded { ticket, method, uri, to_others: params, asked };
                let answer =
                    Err(self.resource_not_found(&forwarded.ticket, forwarded.uri.as_deref().unwrap_or_default()));
                self.ask_next(forwarded, answer, now);
            }
            Ok(Route::NoSuchPage(uri)) => {
                let error = self.resource_not_found(&ticket, &uri);
                self.respond(ticket, Err(error), now);
            }
            Ok(Route::LookUp(servers, kind, looked)) => {
                let meta = params.as_ref().and_then(|params| params.first_member("_meta"));
                let asked = meta.map(|meta| Json::empty_object().with_member("_meta", &meta));
                let positions = servers.into_iter().map(Position::first).collect();
                let then = Then::LookUp { ticket, method, params, looked };
                self.begin_list(then, kind, positions, false, asked, now);
            }
            Ok(Route::NoSuchName(reason)) if is_lazy => {
                let text = format!("{reason}; search_tools finds the names of tools");
                self.respond(ticket, Ok(lazy::tool_error(&text)), now);
            }
            Ok(Route::NoSuchName(reason)) => self.respond(ticket, Err(ErrorObject::invalid_params(&reason)), now),
            Err(error) => self.respond(ticket, Err(error), now),
        }
    }

    /// Finds the server for a request.
    ///
    /// # Errors
    ///
    /// The answer to the request.
    fn route(&self, method: &Method, params: Option<&Json>, looked: Looked) -> Result<Route, ErrorObject> {
        let member = |name: &'static str| {
            let member = params.and_then(|params| params.first_member(name));
            let text = member.as_ref().and_then(Json::as_string).map(String::from);
            text.ok_or_else(|| ErrorObject::invalid_params(&format!("{name} must be a string")))
        };
        let facts = method.facts();
        let empty = Json::empty_object();
        let params = params.unwrap_or(&empty);
        if *method == Method::COMPLETION_COMPLETE {
            let reference = params.first_member("ref").unwrap_or(Json::empty_object());
            let [name, uri] = reference.first_members(["name", "uri"]);
            if let Some(name) = name.as_ref().and_then(Json::as_string) {
                let to = |name: &Json| params.with_member("ref", &reference.with_member("name", name));
                return self.route_name(&name, ListKind::Prompts, looked, to);
            }
            let uri = uri.as_ref().and_then(Json::as_string);
            let uri = uri.ok_or_else(|| ErrorObject::invalid_params("ref must have a name or a uri"))?;
            return self.route_uri(&uri, self.resources.template_owner(&uri), params, looked);
        }
        if facts.named_by == Some("taskId") || *method == Method::TASKS_RESULT {
            let id = member("taskId")?;
            let found = origin_of(&id).and_then(|(tag, id)| Some((self.prefixes.with_tag(tag)?, id)));
            let (server, id) = found.ok_or_else(|| ErrorObject::invalid_params("unknown task"))?;
            return Ok(Route::To(server, Some(params.with_member("taskId", &Json::from(id)))));
        }
        if facts.named_by == Some("name") {
            let kind = if *method == Method::TOOLS_CALL { ListKind::Tools } else { ListKind::Prompts };
            let to = |name: &Json| params.with_member("name", name);
            return self.route_name(&member("name")?, kind, looked, to);
        }
        if is_about_resource(method) {
            return self.route_uri(&member("uri")?, None, params, looked);
        }
        Err(ErrorObject::method_not_found(method))
    }

    fn route_name(
        &self,
        name: &str,
        kind: ListKind,
        looked: Looked,
        to: impl FnOnce(&Json) -> Json,
    ) -> Result<Route, ErrorObject> {
        let names = if kind == ListKind::Tools { &self.tools } else { &self.prompts };
        let what = if kind == ListKind::Tools { "a tool" } else { "a prompt" };
        match names.resolve(name, &self.prefixes, looked > Looked::Nothing) {
            Named::Known(server, name) => {
                let params = to(&Json::from(name));
                let params = self.without_origin_of_state(Some(server), &params)?.1;
                Ok(Route::To(server, Some(params)))
            }
            Named::Unlisted(servers) => Ok(Route::LookUp(self.in_time(servers, kind), kind, Looked::Items)),
            Named::Undetermined(server) => {
                Ok(Route::NoSuchName(self.undetermined(&format!("{what} of this name"), server)))
            }
            Named::Unknown => Ok(Route::NoSuchName(format!("no server has {what} of this name"))),
        }
    }

    /// Why it is not known which server has something: this one has not listed what it has.
    fn undetermined(&self, what: &str, server: ServerKey) -> String {
        let server = self.describe(server);
        format!("no server is known to have {what}: {server} has not listed what it has")
    }

    /// The servers of these that may be asked which names they have. One that is late is not waited for again.
    fn in_time(&self, mut servers: Vec<ServerKey>, kind: ListKind) -> Vec<ServerKey> {
        servers.retain(|server| {
            self.members.get(server).is_some_and(|member| {
                let is_late = member.is_late || member.late.contains_key(&kind);
                member.is_running() && member.has(kind.list().capability()) && !is_late
            })
        });
        servers
    }

    /// The route of a call whose tool was found with a search: only to a server that lists the tool, as far as is known.
    fn to_known_tool(&self, route: Route, looked: Looked) -> Route {
        let Route::To(server, Some(params)) = &route else { return route };
        let name = params.first_member("name");
        match self.catalogue.has(*server, &name.as_ref().and_then(Json::as_string).unwrap_or_default()) {
            Some(true) => route,
            Some(false) => Route::NoSuchName("no server has a tool of this name".to_owned()),
            None => {
                let servers = self.in_time(vec![*server], ListKind::Tools);
                let is_read = looked > Looked::Nothing || servers.is_empty() || self.catalogue.is_current(*server);
                if is_read { route } else { Route::LookUp(servers, ListKind::Tools, Looked::Items) }
            }
        }
    }

    /// Finds the server of a resource, or of the template that `of_template` owns. A URI that was not listed is looked
    /// up first: another server than the one with a template for it may list it. A page to which no known tool is linked
    /// is requested of no server as long as there may be a tool that is not known, and then only of one that lists it.
    fn route_uri(
        &self,
        uri: &str,
        of_template: Option<ServerKey>,
        params: &Json,
        looked: Looked,
    ) -> Result<Route, ErrorObject> {
        let (server, params) = self.without_origin_of_state(None, params)?;
        if let Some(server) = server.or_else(|| self.app_pages.owner(uri)) {
            return Ok(Route::To(server, Some(params)));
        }
        let unread = |kind, of_kind| {
            let servers = self.unknown_lists(kind);
            (looked < of_kind && !servers.is_empty()).then_some(Route::LookUp(servers, kind, of_kind))
        };
        let is_page = is_page(uri);
        if is_page {
            if let Some(route) = unread(ListKind::Tools, Looked::Links) {
                return Ok(route);
            }
            if let Some(server) = self.with_unknown_tools() {
                let text = self.undetermined("a tool with this page", server);
                return Err(ErrorObject::invalid_params(&text));
            }
        }
        if let Some(server) = of_template.or_else(|| self.resources.lister(uri)) {
            return Ok(Route::To(server, Some(params)));
        }
        let unread =
            unread(ListKind::Resources, Looked::Items).or_else(|| unread(ListKind::Templates, Looked::Templates));
        if let Some(route) = unread {
            return Ok(route);
        }
        match self.resources.owner(uri) {
            Some(server) => Ok(Route::To(server, Some(params))),
            None if is_page => Ok(Route::NoSuchPage(uri.into())),
            None => Ok(Route::InTurn(uri.into())),
        }
    }

    /// The servers whose list was not read since its last change. Servers that are late with the list are left out.
    fn unknown_lists(&self, kind: ListKind) -> Vec<ServerKey> {
        let mut servers = self.servers_with(kind);
        servers.retain(|server| {
            let member = self.members.get(server);
            let is_in_time = member.is_some_and(|member| member.is_usable() && !member.late.contains_key(&kind));
            let is_known = match kind {
                ListKind::Tools => self.app_pages.is_known(*server),
                ListKind::Prompts | ListKind::Resources | ListKind::Templates => self.resources.is_known(*server, kind),
            };
            is_in_time && !is_known
        });
        servers
    }

    /// The server that has sent the `requestState` of a retry, and the parameters with the state as it was sent.
    ///
    /// # Errors
    ///
    /// The state is not one that the client was sent, or is from another server than `expected`.
    fn without_origin_of_state(
        &self,
        expected: Option<ServerKey>,
        params: &Json,
    ) -> Result<(Option<ServerKey>, Json), ErrorObject> {
        let Some(state) = params.first_member("requestState") else { return Ok((None, params.clone())) };
        let state = state.as_string();
        let found = state.as_deref().and_then(origin_of);
        let found = found.and_then(|(tag, state)| Some((self.prefixes.with_tag(tag)?, state)));
        let found = found.filter(|(server, _)| expected.is_none_or(|expected| expected == *server));
        let (server, state) = found.ok_or_else(|| {
            ErrorObject::invalid_params("requestState is not one that this request was answered with")
        })?;
        Ok((Some(server), params.with_member("requestState", &Json::from(state))))
    }

    /// Forwards a request to a server.
    fn forward(&mut self, server: ServerKey, forwarded: Forwarded, params: Option<Json>, now: Instant) {
        match self.request(server, &forwarded.method, params, now) {
            Ok(request) => self.pending.insert(server, request, Purpose::Forwarded(forwarded)),
            Err(error) => self.respond(forwarded.ticket, Err(error), now),
        }
    }

    /// Makes a request to a server.
    ///
    /// # Errors
    ///
    /// The answer to the client.
    pub(super) fn request(
        &mut self,
        server: ServerKey,
        method: &Method,
        params: Option<Json>,
        now: Instant,
    ) -> Result<RequestKey, ErrorObject> {
        let mut call = Call::new(method.clone());
        if let Some(params) = params {
            call = call.params(params);
        }
        if self.stage.opener().is_some_and(Opener::is_stateless) {
            call = call.unchanged();
        }
        match self.connection(server).map(|connection| connection.client.request(call, now)) {
            Some(Ok(request)) => Ok(request),
            Some(Err(error)) => {
                let text = format!("{}: {error}", self.describe(server));
                Err(ErrorObject::new(code::INTERNAL_ERROR, &text))
            }
            None => Err(self.not_running(server, now)),
        }
    }

    /// Asks the next server that may have a resource, connected servers first. If no server is left, the client
    /// receives `answer`, that of the last one.
    fn ask_next(&mut self, mut forwarded: Forwarded, mut answer: Result<Json, ErrorObject>, now: Instant) {
        let (resources, subscribe) = Change::Resource.capability();
        let is_setting = forwarded.method.facts().changes_setting.is_some();
        loop {
            let may_have = self.members.iter().filter(|(server, member)| {
                let has = if is_setting { member.has_flag(resources, subscribe) } else { member.has(resources) };
                has && member.is_running() && !forwarded.asked.contains(server)
            });
            let next = may_have.min_by_key(|(server, member)| (!member.is_usable(), **server));
            let (Some(next), Some(params)) = (next.map(|(server, _)| *server), &forwarded.to_others) else {
                return self.respond(forwarded.ticket, answer, now);
            };
            forwarded.asked.push(next);
            match self.request(next, &forwarded.method, Some(params.clone()), now) {
                Ok(request) => return self.pending.insert(next, request, Purpose::Forwarded(forwarded)),
                Err(error) => answer = Err(error),
            }
        }
    }

    /// The client has cancelled a request.
    pub(super) fn cancel(&mut self, ticket: TicketKey, params: Option<Json>, now: Instant) {
        if let Some((server, request)) = self.pending.find(ticket) {
            self.pending.remove(server, request);
            self.on_unanswered(server, now);
            if let Some(connection) = self.connection(server) {
                connection.client.cancel_with(request, &params.unwrap_or(Json::empty_object()), now);
            }
        }
        self.cancel_list(ticket, now);
    }

    /// Handles the outcome of a request to a server.
    pub(super) fn on_outcome(&mut self, server: ServerKey, request: RequestKey, outcome: Outcome, now: Instant) {
        match self.pending.remove(server, request) {
            Some(Purpose::Forwarded(forwarded)) => self.on_answered(server, forwarded, outcome, now),
            Some(Purpose::Page(list)) => self.on_page(server, list, outcome, now),
            Some(Purpose::Setting(method)) => self.on_setting(server, method, outcome),
            // The client has cancelled it.
            None => {}
        }
    }

    /// A request has ended for the client without the server's answer.
    fn on_unanswered(&mut self, server: ServerKey, now: Instant) {
        if let Some(member) = self.members.get_mut(&server) {
            member.on_unanswered(now);
        }
    }

    fn on_answered(&mut self, server: ServerKey, forwarded: Forwarded, outcome: Outcome, now: Instant) {
        let is_of_server = match &outcome {
            Outcome::Result(_) => true,
            Outcome::Error(error) => !is_of_relay(error),
            Outcome::Failed(_) => false,
        };
        if !is_of_server {
            self.on_unanswered(server, now);
        }
        let answer = match outcome {
            Outcome::Result(result) => Ok(self.with_origins(server, &result)),
            Outcome::Error(error) => Err(self.with_name_of(server, error)),
            Outcome::Failed(reason) => {
                Err(ErrorObject::new(code::INTERNAL_ERROR, &reason.describe(&self.describe(server))))
            }
        };
        if answer.is_err() && forwarded.to_others.is_some() {
            return self.ask_next(forwarded, answer, now);
        }
        if let (Ok(_), Some(uri)) = (&answer, &forwarded.uri) {
            let watch = self.members.get_mut(&server).map(|member| &mut member.watch);
            match (forwarded.method.facts().changes_setting, watch) {
                (Some(SettingChange::Subscribe), Some(watch)) => watch.insert(uri),
                (Some(SettingChange::Unsubscribe), Some(watch)) => watch.remove(uri),
                (Some(_) | None, _) => {}
            }
            if forwarded.to_others.is_some() {
                self.resources.on_found(uri, server);
            }
        }
        self.respond(forwarded.ticket, answer, now);
    }

    /// Adds the name of the server to the states and ids that the client may send back.
    fn with_origins(&self, server: ServerKey, result: &Json) -> Json {
        let mentions = |name: &[u8]| memchr::memmem::find(result.as_bytes(), name).is_some();
        let tag = self.prefixes.tag(server);
        let mut result = result.clone();
        if mentions(b"\"requestState\"") {
            result = add_origin(&result, "requestState", tag);
        }
        if mentions(b"\"taskId\"") {
            result = add_origin(&result, "taskId", tag);
            if let Some(task) = result.first_member("task") {
                result = result.with_member("task", &add_origin(&task, "taskId", tag));
            }
        }
        result
    }

    /// An error of a server; one of its relay names the server.
    fn with_name_of(&self, server: ServerKey, error: ErrorObject) -> ErrorObject {
        match error.data().filter(|_| is_of_relay(&error)) {
            Some(data) => {
                let text = format!("{}: {}", self.describe(server), error.message());
                ErrorObject::with_data(error.code(), &text, &data)
            }
            None => error,
        }
    }

    /// A server, for messages to people.
    pub(super) fn describe(&self, server: ServerKey) -> String {
        format!("the server '{}'", escape_text(self.server_name(server).unwrap_or_default(), 80))
    }

    /// The answer to a request to a server that is not running.
    fn not_running(&self, server: ServerKey, now: Instant) -> ErrorObject {
        let at = self.timers.get(super::AggregateTimer::Start(server));
        let seconds = at.map_or(0, |at| at.saturating_duration_since(now).as_secs() + 1);
        let member = self.members.get(&server);
        let is_stopping = member.is_some_and(|member| matches!(member.state, MemberState::Stopping));
        let why = member.and_then(|member| member.end.as_deref()).unwrap_or("is not running");
        let when = if at.is_none() && is_stopping { "when it has ended".into() } else { format!("in {seconds} s") };
        let text = format!("{} {why}; it is started again {when}", self.describe(server));
        ErrorObject::new(code::INTERNAL_ERROR, &text)
    }

    fn resource_not_found(&self, ticket: &Ticket, uri: &str) -> ErrorObject {
        let version = self.server.context(ticket).map_or(ProtocolVersion::LATEST, |context| context.version);
        ErrorObject::resource_not_found(uri, version)
    }

    /// A setting was made again, or not.
    fn on_setting(&mut self, server: ServerKey, method: Method, outcome: Outcome) {
        let reason = match outcome {
            Outcome::Result(_) => return,
            Outcome::Error(error) => NotRestored::Error(error),
            Outcome::Failed(reason) => NotRestored::Failed(reason),
        };
        let event = relay::Event::NotInEffect { method, reason };
        self.out.report(super::Event::Server { server, event });
    }
}

/// Whether an error is from the relay to a server, not from the server.
fn is_of_relay(error: &ErrorObject) -> bool {
    let source = error.data().and_then(|data| data.first_member("source"));
    source.is_some_and(|source| source.as_bytes() == b"\"relay\"")
}

/// Whether a request is about the resource that its member `uri` names.
fn is_about_resource(method: &Method) -> bool {
    let facts = method.facts();
    let subscribes = matches!(facts.changes_setting, Some(SettingChange::Subscribe | SettingChange::Unsubscribe));
    facts.named_by == Some("uri") || subscribes || *method == Method::RESOURCES_DIRECTORY_READ
}

/// The resource that a request is about.
fn uri_of(method: &Method, params: Option<&Json>) -> Option<Box<str>> {
    let uri = params.filter(|_| is_about_resource(method))?.first_member("uri")?;
    uri.as_string().map(|uri| Box::from(&*uri))
}
