//! Lists of several servers.
//!
//! All servers are asked at the same time, page by page, until the limit on a list is reached. The list contains their items
//! in the order of the configuration. What is behind the limit follows under a cursor, which contains the next server and
//! the cursor of this server, so that nothing is stored between two requests. A server that does not answer in time, or with
//! an error, is left out.

use std::collections::BTreeMap;

use super::connection::Opener;
use super::event::ServerKey;
use super::origin::{origin_of, with_origin};
use super::requests::Purpose;
use super::{Aggregate, Timer};
use mcp_proto::ErrorObject;
use mcp_proto::Instant;
use mcp_proto::Json;
use mcp_proto::Load;
use mcp_proto::Method;
use mcp_proto::Notification;
use mcp_proto::client::Outcome;
use mcp_proto::spec::meta::without_keys;
use mcp_proto::spec::{List, code};
use mcp_proto::{RequestKey, Ticket, TicketKey};

/// The maximum number of pages of one server in one list.
const PAGES: usize = 64;

/// A list that a client can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listing {
    list: List,
    /// The list of templates of resources.
    is_templates: bool,
}

impl Listing {
    pub(super) const TOOLS: Self = Self { list: List::Tools, is_templates: false };
    pub(super) const PROMPTS: Self = Self { list: List::Prompts, is_templates: false };

    pub(super) fn of(method: &Method) -> Option<Self> {
        let list = List::ALL.iter().copied().find(|list| list.requests().contains(method))?;
        Some(Self { list, is_templates: list.requests().first() != Some(method) })
    }

    fn method(self) -> Method {
        let at = usize::from(self.is_templates);
        self.list.requests().get(at).cloned().unwrap_or(Method::TOOLS_LIST)
    }

    /// The member of the result with the items.
    const fn member(self) -> &'static str {
        if self.is_templates { "resourceTemplates" } else { self.list.capability() }
    }
}

/// Identifies a list that is being composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListKey(u64);

/// All lists that are being composed.
#[derive(Debug, Default)]
pub(super) struct Lists {
    open: BTreeMap<ListKey, Composed>,
    by_ticket: BTreeMap<TicketKey, ListKey>,
    next: u64,
    /// The bytes of all pages.
    bytes: usize,
}

impl Lists {
    pub(super) fn load(&self) -> Load {
        let mut load = Load::default();
        (load.held, load.waiting) = (self.bytes, self.open.len());
        load
    }

    fn remove(&mut self, key: ListKey) -> Option<Composed> {
        let list = self.open.remove(&key)?;
        self.bytes -= list.bytes;
        self.by_ticket.remove(&list.then.ticket().key());
        Some(list)
    }
}

/// What a list is for.
#[derive(Debug)]
pub(super) enum Then {
    /// It answers a request of the client.
    Answer(Ticket),
    /// This request of the client names something that was not listed yet.
    Handle { ticket: Ticket, method: Method, params: Option<Json> },
}

impl Then {
    const fn ticket(&self) -> &Ticket {
        match self {
            Self::Answer(ticket) | Self::Handle { ticket, .. } => ticket,
        }
    }
}

/// A list that is being composed.
#[derive(Debug)]
struct Composed {
    then: Then,
    listing: Listing,
    /// The parameters of the client, without a cursor.
    params: Option<Json>,
    /// In the order of the servers.
    parts: BTreeMap<ServerKey, Part>,
    /// The client has supplied a cursor of the first server.
    has_cursor: bool,
    bytes: usize,
}

/// The part of one server.
#[derive(Debug, Default)]
struct Part {
    /// The request for the next page.
    asked: Option<RequestKey>,
    pages: Vec<Json>,
    /// The cursor of the page that follows.
    next: Option<Json>,
    /// Why the next page is missing.
    error: Option<ErrorObject>,
}

impl Aggregate {
    /// The servers from this position on that may have items of a list.
    pub(super) fn servers_with(&self, listing: Listing, first: usize) -> Vec<ServerKey> {
        let all = self.members.iter().filter(|(server, member)| {
            server.index() >= first && member.is_running() && member.has(listing.list.capability())
        });
        all.map(|(server, _)| *server).collect()
    }

    /// The client requests a list.
    pub(super) fn on_list(
        &mut self,
        ticket: Ticket,
        method: &Method,
        listing: Listing,
        params: Option<Json>,
        now: Instant,
    ) {
        let cursor = params.as_ref().and_then(|params| params.first_member("cursor"));
        let position = match &cursor {
            None => Some((ServerKey::new(0), None)),
            Some(cursor) => self.position(method, cursor),
        };
        let Some((first, cursor)) = position else {
            let error = ErrorObject::invalid_params("the cursor is not one of this list");
            return self.respond(ticket, Err(error), now);
        };
        let params = params.map(|params| params.without_members(&["cursor"]));
        let servers = self.servers_with(listing, first.index());
        let cursor = cursor.as_ref().map(|cursor| (first, cursor));
        self.begin_list(Then::Answer(ticket), listing, servers, cursor, params, now);
    }

    /// The server and its cursor in a cursor of the client.
    fn position(&self, method: &Method, cursor: &Json) -> Option<(ServerKey, Option<Json>)> {
        let cursor = cursor.as_string()?;
        let (prefix, rest) = origin_of(&cursor)?;
        let (list, cursor) = rest.split_once('?')?;
        let cursor = cursor.strip_prefix('=').map(Json::from);
        (list == method.as_str()).then_some((self.prefixes.find(prefix)?, cursor))
    }

    /// A cursor of the client for this position.
    fn cursor(&self, listing: Listing, server: ServerKey, cursor: Option<&Json>) -> Json {
        let cursor = cursor.and_then(Json::as_string).map(|cursor| format!("={cursor}")).unwrap_or_default();
        let text = format!("{}?{cursor}", listing.method());
        Json::from(with_origin(self.prefixes.get(server), &text))
    }

    /// Asks servers for a list, the first one from this cursor on.
    pub(super) fn begin_list(
        &mut self,
        then: Then,
        listing: Listing,
        servers: Vec<ServerKey>,
        cursor: Option<(ServerKey, &Json)>,
        params: Option<Json>,
        now: Instant,
    ) {
        // Progress of several requests cannot be that of one.
        let params = params.map(|params| without_keys(&params, &["progressToken"]));
        self.lists.next += 1;
        let key = ListKey(self.lists.next);
        let parts = servers.iter().map(|server| (*server, Part::default())).collect();
        let has_cursor = cursor.is_some();
        self.lists.by_ticket.insert(then.ticket().key(), key);
        self.lists.open.insert(key, Composed { then, listing, params, parts, has_cursor, bytes: 0 });
        for server in servers {
            let cursor = cursor.filter(|(first, _)| *first == server).map(|(_, cursor)| cursor.clone());
            self.ask_for_page(key, server, cursor, now);
        }
        self.timers.set(Timer::List(key), now + self.config.server_timeout);
        self.finish_if_complete(key, now);
    }

    fn ask_for_page(&mut self, key: ListKey, server: ServerKey, cursor: Option<Json>, now: Instant) {
        let Some(list) = self.lists.open.get(&key) else { return };
        let params = match (&list.params, &cursor) {
            (Some(params), Some(cursor)) => Some(params.with_member("cursor", cursor)),
            (None, Some(cursor)) => Some(Json::empty_object().with_member("cursor", cursor)),
            (params, None) => params.clone(),
        };
        let asked = self.request(server, &list.listing.method(), params, now);
        let part = self.lists.open.get_mut(&key).and_then(|list| list.parts.get_mut(&server));
        match (asked, part) {
            (Ok(request), Some(part)) => {
                part.asked = Some(request);
                part.next = cursor;
                self.pending.insert(server, request, Purpose::Page(key));
            }
            (Err(error), Some(part)) => part.error = Some(error),
            (_, None) => {}
        }
    }

    /// A server has answered the request for a page.
    pub(super) fn on_page(&mut self, server: ServerKey, key: ListKey, outcome: Outcome, now: Instant) {
        // So that the list that the client waits for fits into one message, and all lists into the limit.
        let limits = self.limits();
        let (most, held) = (limits.message.min(limits.held) / 4, limits.held);
        let all = self.lists.bytes;
        let Some(list) = self.lists.open.get_mut(&key) else { return };
        let is_too_much = list.bytes >= most;
        let Some(part) = list.parts.get_mut(&server) else { return };
        part.asked = None;
        let mut follows = None;
        match outcome {
            Outcome::Result(page) if all == 0 || all.saturating_add(page.len()) <= held => {
                let next = page.first_member("nextCursor").filter(|next| next.as_string().is_some());
                list.bytes += page.len();
                self.lists.bytes += page.len();
                part.pages.push(page);
                part.next.clone_from(&next);
                let is_last = is_too_much || list.bytes >= most || part.pages.len() >= PAGES;
                follows = next.filter(|_| !is_last);
            }
            // The page follows under a cursor, unless there is none before it.
            Outcome::Result(_) => part.error = Some(ErrorObject::overloaded()),
            Outcome::Error(error) => (part.error, part.next) = (Some(error), None),
            Outcome::Failed(reason) => {
                let error = ErrorObject::new(code::INTERNAL_ERROR, &reason.describe("the server"));
                (part.error, part.next) = (Some(error), None);
            }
        }
        if let Some(member) = self.members.get_mut(&server).filter(|_| follows.is_none()) {
            member.late.retain(|late| self.lists.open.get(&key).is_none_or(|list| list.listing.list != *late));
        }
        if follows.is_some() {
            self.ask_for_page(key, server, follows, now);
        }
        self.finish_if_complete(key, now);
    }

    fn finish_if_complete(&mut self, key: ListKey, now: Instant) {
        let list = self.lists.open.get(&key);
        if list.is_some_and(|list| list.parts.values().all(|part| part.asked.is_none())) {
            self.finish_list(key, now);
        }
    }

    /// Answers with what servers have returned.
    pub(super) fn finish_list(&mut self, key: ListKey, now: Instant) {
        self.timers.clear(Timer::List(key));
        let Some(mut list) = self.lists.remove(key) else { return };
        for (server, part) in &mut list.parts {
            if let Some(request) = part.asked.take() {
                part.next = None;
                self.pending.insert(*server, request, Purpose::LatePage(list.listing));
            }
        }
        let answer = self.compose(&list);
        match list.then {
            Then::Answer(ticket) => self.respond(ticket, answer, now),
            Then::Handle { ticket, method, params } => self.on_request(ticket, method, params, true, now),
        }
    }

    /// The result with the items of all servers, and what is learnt from them.
    fn compose(&mut self, list: &Composed) -> Result<Json, ErrorObject> {
        let listing = list.listing;
        // A server refuses a cursor that is not its own, or not any more.
        let refused = list.parts.values().next().filter(|part| list.has_cursor && part.pages.is_empty());
        if let Some(error) = refused.and_then(|part| part.error.clone()) {
            return Err(error);
        }
        let mut items = Vec::new();
        let mut next = None;
        let (mut ttl, mut is_public, mut is_complete) = (None, true, true);
        for (server, part) in &list.parts {
            if next.is_some() {
                break;
            }
            is_complete &= !part.pages.is_empty();
            for page in &part.pages {
                let [of_page, page_ttl, scope] = page.first_members([listing.member(), "ttlMs", "cacheScope"]);
                for item in of_page.iter().flat_map(Json::elements) {
                    items.extend(self.learn(*server, listing, &item));
                }
                let page_ttl = page_ttl.and_then(|ttl| ttl.read::<u64>().ok()).unwrap_or(0);
                ttl = Some(ttl.map_or(page_ttl, |ttl: u64| ttl.min(page_ttl)));
                is_public &= scope.is_some_and(|scope| scope.as_bytes() == b"\"public\"");
            }
            if let (Some(cursor), false) = (&part.next, part.pages.is_empty()) {
                next = Some(self.cursor(listing, *server, Some(cursor)));
            }
        }
        let mut result = Json::empty_object().with_member(listing.member(), &Json::array(&items));
        if let Some(next) = next {
            result = result.with_member("nextCursor", &next);
        }
        if let (Some(ttl), true, true) = (ttl, is_complete, self.is_stateless()) {
            let scope = Json::from(if is_public { "public" } else { "private" });
            result = result.with_members(&[("ttlMs", &Json::from(ttl)), ("cacheScope", &scope)]);
        }
        Ok(result)
    }

    fn is_stateless(&self) -> bool {
        self.stage.opener().is_some_and(Opener::is_stateless)
    }

    /// An item as the client sees it, and what is learnt from it. `None` if the client could not use it.
    fn learn(&mut self, server: ServerKey, listing: Listing, item: &Json) -> Option<Json> {
        let name = match listing.list {
            List::Resources if listing.is_templates => "uriTemplate",
            List::Resources => "uri",
            List::Tools | List::Prompts => "name",
        };
        let text = item.first_member(name)?;
        let text = text.as_string()?;
        let names = match listing.list {
            List::Resources if listing.is_templates => {
                self.resources.learn_template(&text, server);
                return Some(item.clone());
            }
            List::Resources => return self.resources.learn(&text, server).then(|| item.clone()),
            List::Prompts => &mut self.prompts,
            List::Tools => &mut self.tools,
        };
        let public = names.publish(server, &text, self.config.naming, &self.prefixes)?;
        Some(item.with_member(name, &Json::from(public)))
    }

    /// A page has arrived after its list was answered without it. Of each list, the client is notified once until the
    /// server is in time again.
    pub(super) fn on_late_page(&mut self, server: ServerKey, listing: Listing, outcome: &Outcome, now: Instant) {
        let Some(member) = self.members.get_mut(&server) else { return };
        if matches!(outcome, Outcome::Result(_)) && !member.late.contains(&listing.list) {
            member.late.push(listing.list);
            self.publish(Notification::new(listing.list.notification()), now);
        }
    }

    /// The client has cancelled a request for which servers are asked for lists.
    pub(super) fn cancel_list(&mut self, ticket: TicketKey, now: Instant) {
        let Some(key) = self.lists.by_ticket.get(&ticket).copied() else { return };
        self.timers.clear(Timer::List(key));
        let Some(list) = self.lists.remove(key) else { return };
        for (server, part) in list.parts {
            if let (Some(request), Some(connection)) = (part.asked, self.connection(server)) {
                connection.client.cancel(request, None, now);
            }
        }
    }
}
