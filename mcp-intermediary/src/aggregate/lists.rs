//! Lists of several servers.
//!
//! All servers are asked at the same time, page by page, until each has its share of the answer. The answer contains
//! their items in the order of the configuration. If items are left, the cursor of the answer has the place where each
//! server's list goes on, and the next answer begins with the servers of which least was read. So the list of one
//! server does not end or delay those of others. Servers that a list does not wait for are in `late`.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_proto::client::Outcome;
use mcp_proto::spec::meta::without_keys;
use mcp_proto::{ErrorObject, Instant, Json, Load, RequestKey, Ticket, TicketKey, code};

use super::connection::Opener;
use super::event::ServerKey;
use super::fresh::are_plain;
use super::late::Start;
use super::list_kind::ListKind;
use super::pages::{Follows, Part, Place, Position, Share};
use super::pending::{Composed, ListKey, Purpose, Then};
use super::{Aggregate, AggregateTimer, lazy};

/// How long a list waits for further pages when it has a page of each server.
const FURTHER_PAGES: Duration = Duration::from_secs(1);

/// All lists that are being composed.
#[derive(Debug, Default)]
pub(super) struct Lists {
    open: BTreeMap<ListKey, Composed>,
    by_ticket: BTreeMap<TicketKey, ListKey>,
    /// The lists of servers that no client waits for.
    without_client: BTreeMap<(ServerKey, ListKind), ListKey>,
    next: u64,
    /// The bytes of all pages.
    bytes: usize,
}

impl Lists {
    pub(super) fn load(&self) -> Load {
        let mut load = Load::default();
        (load.held, load.waiting) = (self.bytes, self.by_ticket.len());
        load
    }

    /// Whether the list of a server is being read without a client that waits for it.
    pub(super) fn is_read(&self, server: ServerKey, kind: ListKind) -> bool {
        self.without_client.contains_key(&(server, kind))
    }

    /// The filter of a server has changed: what was read of its lists is not kept for further requests.
    pub(super) fn on_filter_changed(&mut self, server: ServerKey) {
        for part in self.open.values_mut().filter_map(|list| list.parts.get_mut(&server)) {
            part.is_stale |= !part.pages.is_empty();
        }
    }

    fn insert(&mut self, list: Composed) -> ListKey {
        self.next += 1;
        let key = ListKey(self.next);
        match &list.then {
            Then::Answer(ticket) | Then::LookUp { ticket, .. } | Then::Search { ticket, .. } => {
                self.by_ticket.insert(ticket.key(), key);
            }
            Then::Keep(server) => {
                self.without_client.insert((*server, list.kind), key);
            }
        }
        self.bytes += list.bytes();
        self.open.insert(key, list);
        key
    }

    fn remove(&mut self, key: ListKey) -> Option<Composed> {
        let list = self.open.remove(&key)?;
        self.bytes -= list.bytes();
        match &list.then {
            Then::Answer(ticket) | Then::LookUp { ticket, .. } | Then::Search { ticket, .. } => {
                self.by_ticket.remove(&ticket.key());
            }
            Then::Keep(server) => {
                self.without_client.remove(&(*server, list.kind));
            }
        }
        Some(list)
    }
}

impl Aggregate {
    /// The servers that may have items of a list.
    pub(super) fn servers_with(&self, kind: ListKind) -> Vec<ServerKey> {
        let all = self.members.iter().filter(|(_, member)| member.is_running() && member.has(kind.list().capability()));
        all.map(|(server, _)| *server).collect()
    }

    /// The client requests a list.
    pub(super) fn on_list(&mut self, ticket: Ticket, kind: ListKind, params: Option<Json>, now: Instant) {
        let cursor = params.as_ref().and_then(|params| params.first_member("cursor"));
        let positions = match &cursor {
            None => Some(self.servers_with(kind).into_iter().map(Position::first).collect()),
            Some(cursor) => Position::from_cursor(cursor, kind, &self.prefixes),
        };
        let Some(positions) = positions else {
            let error = ErrorObject::invalid_params("the cursor is not one of this list");
            return self.respond(ticket, Err(error), now);
        };
        let params = params.map(|params| params.without_members(&["cursor"]));
        self.begin_list(Then::Answer(ticket), kind, positions, cursor.is_some(), params, now);
    }

    /// Asks servers for a list from these positions on.
    pub(super) fn begin_list(
        &mut self,
        then: Then,
        kind: ListKind,
        positions: Vec<Position>,
        has_cursor: bool,
        params: Option<Json>,
        now: Instant,
    ) {
        // Progress of several requests cannot be that of one.
        let params = params.map(|params| without_keys(&params, &["progressToken"]));
        let is_answer = matches!(then, Then::Answer(_) | Then::Search { .. });
        let is_awaited = !matches!(then, Then::Keep(_));
        let mut list = Composed {
            then,
            kind,
            params: params.clone(),
            parts: BTreeMap::new(),
            has_cursor,
            begun: now,
            is_incomplete: false,
        };
        let (mut asked, mut late) = (Vec::new(), Vec::new());
        for position in positions {
            let server = position.server;
            let start = if is_answer { self.start_of(&position, kind, params.as_ref(), now) } else { Start::Ask };
            match start {
                Start::Ask => {
                    list.parts.insert(server, Part::new(&position));
                    asked.push((server, position.place));
                }
                Start::Kept(pages, next) => {
                    list.parts.insert(server, Part::of_kept(&position, pages, next));
                    list.is_incomplete = true;
                    late.push(server);
                }
                Start::Fresh(pages, until) => {
                    let mut part = Part::of_kept(&position, pages, None);
                    part.until = Some(until);
                    list.parts.insert(server, part);
                }
                Start::LeftOut => {
                    list.is_incomplete = true;
                    late.push(server);
                }
            }
        }
        let is_for_one = asked.len() == 1 && !is_answer;
        let key = self.lists.insert(list);
        for (server, place) in &asked {
            self.ask_for_page(key, *server, place.clone(), now);
        }
        // A server that is still starting is waited for if a request can be for no other one.
        let is_starting = |(server, _): &(ServerKey, Place)| !self.is_usable(*server);
        if is_awaited && !(is_for_one && asked.iter().any(is_starting)) {
            self.timers.set(AggregateTimer::List(key), now + self.config.server_timeout);
        }
        for server in late {
            self.read_again(server, kind, params.clone(), now);
        }
        self.finish_if_complete(key, now);
    }

    fn ask_for_page(&mut self, key: ListKey, server: ServerKey, place: Place, now: Instant) {
        let Some(list) = self.lists.open.get(&key) else { return };
        let params = place.params(list.params.as_ref());
        let asked = self.request(server, &list.kind.method(), params, now);
        let part = self.lists.open.get_mut(&key).and_then(|list| list.parts.get_mut(&server));
        match (asked, part) {
            (Ok(request), Some(part)) => {
                part.asked = Some((request, place));
                self.pending.insert(server, request, Purpose::Page(key));
            }
            (Err(error), Some(part)) => part.error = Some(error),
            (_, None) => {}
        }
    }

    /// The maximum of the bytes of one answer: it fits into a message, and the aggregate can hold several.
    pub(super) const fn most_of_answer(&self) -> usize {
        let limits = self.limits();
        let least = if limits.message < limits.held { limits.message } else { limits.held };
        least / 4
    }

    /// A server has answered the request for a page.
    pub(super) fn on_page(&mut self, server: ServerKey, key: ListKey, outcome: Outcome, now: Instant) {
        let (most, held, all) = (self.most_of_answer(), self.limits().held, self.lists.bytes);
        let Some(list) = self.lists.open.get_mut(&key) else { return };
        let kind = list.kind;
        // No client waits for a list that is kept.
        let (share, waited) = match &list.then {
            Then::Answer(_) | Then::LookUp { .. } => {
                let share = Share::of_answer(most / list.parts.len().max(1));
                (share, now.saturating_duration_since(list.begun))
            }
            Then::Search { .. } => (Share::of_kept(held / 16), now.saturating_duration_since(list.begun)),
            Then::Keep(_) => (Share::of_kept(held / 16), Duration::ZERO),
        };
        let Some(part) = list.parts.get_mut(&server) else { return };
        let Some((_, place)) = part.asked.take() else { return };
        let mut follows = Follows::Nothing;
        match outcome {
            Outcome::Result(page) if all == 0 || all.saturating_add(page.len()) <= held => {
                self.lists.bytes += page.len();
                follows = part.add(place, page, share, waited, &self.config);
            }
            Outcome::Result(_) => {
                part.error = Some(ErrorObject::overloaded());
                part.next = Some(place);
            }
            Outcome::Error(error) => part.error = Some(error),
            Outcome::Failed(reason) => {
                let error = ErrorObject::new(code::INTERNAL_ERROR, &reason.describe("the server"));
                part.error = Some(error);
            }
        }
        match follows {
            Follows::Page(place) => self.ask_for_page(key, server, place, now),
            Follows::TooMany => self.report_too_long(server, kind),
            Follows::Nothing | Follows::Later => {}
        }
        self.finish_if_complete(key, now);
    }

    fn finish_if_complete(&mut self, key: ListKey, now: Instant) {
        let Some(list) = self.lists.open.get(&key) else { return };
        let asked = || list.parts.values().filter(|part| part.asked.is_some());
        if asked().next().is_none() {
            return self.finish_list(key, now);
        }
        let timer = AggregateTimer::List(key);
        let soon = list.begun + FURTHER_PAGES;
        if asked().all(|part| !part.pages.is_empty()) && self.timers.get(timer).is_some_and(|at| at > soon) {
            self.timers.set(timer, soon.max(now));
        }
    }

    /// Answers with what servers have returned.
    pub(super) fn finish_list(&mut self, key: ListKey, now: Instant) {
        self.timers.clear(AggregateTimer::List(key));
        let Some(mut list) = self.lists.remove(key) else { return };
        let kind = list.kind;
        for (server, part) in &mut list.parts {
            let Some((request, place)) = part.asked.take() else { continue };
            let server = *server;
            if !part.pages.is_empty() {
                // The client continues with this page.
                part.next = Some(place);
                self.withdraw(server, request, now);
                continue;
            }
            list.is_incomplete = true;
            // One that is not connected is announced when it is.
            if self.is_usable(server) {
                self.set_late(server, kind, list.params.as_ref());
            }
            if place == Place::First && !self.lists.is_read(server, kind) {
                let mut part = Part::new(&Position::first(server));
                part.asked = Some((request, place));
                let key = self.lists.insert(Composed {
                    then: Then::Keep(server),
                    kind,
                    params: list.params.clone(),
                    parts: BTreeMap::from([(server, part)]),
                    has_cursor: false,
                    begun: list.begun,
                    is_incomplete: false,
                });
                self.pending.insert(server, request, Purpose::Page(key));
            } else {
                self.withdraw(server, request, now);
                self.read_again(server, kind, list.params.clone(), now);
            }
        }
        let answer = match &list.then {
            Then::Keep(server) => {
                let server = *server;
                return self.on_read_again(server, list, now);
            }
            Then::Answer(_) => Some(self.compose(&list, now)),
            Then::LookUp { .. } | Then::Search { .. } => {
                self.learn_all(&list, now);
                None
            }
        };
        match (list.then, answer) {
            (Then::Answer(ticket), Some(answer)) => self.respond(ticket, answer, now),
            (Then::LookUp { ticket, method, params, looked }, _) => {
                self.on_request(ticket, method, params, looked, now);
            }
            (Then::Search { ticket, query, limit }, _) => self.answer_search(ticket, &query, limit, now),
            (Then::Answer(_) | Then::Keep(_), _) => {}
        }
    }

    /// The page of a server is not needed any more. Its list is gone when the request has its outcome.
    fn withdraw(&mut self, server: ServerKey, request: RequestKey, now: Instant) {
        if let Some(connection) = self.connection(server) {
            connection.client.cancel(request, None, now);
        }
    }

    /// Chooses how many pages of each server the answer has. Servers of whose lists the client has read least come
    /// first, so that a list with large pages does not displace others.
    fn choose(&self, list: &Composed) -> BTreeMap<ServerKey, usize> {
        let mut pages = Vec::new();
        for (server, part) in &list.parts {
            for (number, page) in (part.before.pages..).zip(&part.pages) {
                pages.push((number, *server, page.content.len()));
            }
        }
        pages.sort_unstable();
        let mut chosen: BTreeMap<ServerKey, usize> = BTreeMap::new();
        let mut bytes = 0_usize;
        for (_, server, length) in pages {
            if bytes > 0 && bytes.saturating_add(length) > self.most_of_answer() {
                break;
            }
            bytes = bytes.saturating_add(length);
            *chosen.entry(server).or_default() += 1;
        }
        chosen
    }

    /// The result with the items of all servers, and what is learnt from them.
    fn compose(&mut self, list: &Composed, now: Instant) -> Result<Json, ErrorObject> {
        let kind = list.kind;
        // A server refuses a cursor that is not its own, or not any more.
        if list.has_cursor && list.parts.values().all(|part| part.pages.is_empty()) {
            if let Some(error) = list.parts.values().find_map(|part| part.error.clone()) {
                return Err(error);
            }
        }
        let chosen = self.choose(list);
        let waited = now.saturating_duration_since(list.begun);
        let (mut items, mut positions) = (Vec::new(), Vec::new());
        if self.config.lazy_tools.is_some() && kind == ListKind::Tools && !list.has_cursor {
            items.extend(lazy::definitions(self.is_stateless()));
        }
        let (mut ttl, mut is_public, mut is_complete) = (None, true, !list.is_incomplete);
        for (server, part) in &list.parts {
            let count = chosen.get(server).copied().unwrap_or_default();
            is_complete &= count > 0;
            for page in part.pages.iter().take(count) {
                let [of_page, page_ttl, scope] = page.content.first_members([kind.member(), "ttlMs", "cacheScope"]);
                for item in of_page.iter().flat_map(Json::elements) {
                    let item = self.learn(*server, kind, &item, now);
                    items.extend(item.filter(|item| self.is_visible(kind, item)));
                }
                let page_ttl = page_ttl.and_then(|ttl| ttl.read::<u64>().ok()).unwrap_or(0);
                let left = part.until.map(|until| until.saturating_duration_since(now).as_millis());
                let page_ttl = left.and_then(|left| u64::try_from(left).ok()).unwrap_or(page_ttl);
                ttl = Some(ttl.map_or(page_ttl, |ttl: u64| ttl.min(page_ttl)));
                is_public &= scope.is_some_and(|scope| scope.as_bytes() == b"\"public\"");
            }
            let position = part.position(*server, count, waited);
            if position.is_none() {
                if part.is_whole() && are_plain(list.params.as_ref()) {
                    self.keep_while_fresh(*server, kind, part, list.begun);
                }
                self.on_whole_list(*server, kind, part, now);
            }
            positions.extend(position);
        }
        let mut result = Json::empty_object().with_member(kind.member(), &Json::array(&items));
        if !positions.is_empty() {
            result = result.with_member("nextCursor", &Position::to_cursor(&positions, kind, &self.prefixes));
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

    /// The client has cancelled a request for which servers are asked for lists.
    pub(super) fn cancel_list(&mut self, ticket: TicketKey, now: Instant) {
        let Some(key) = self.lists.by_ticket.get(&ticket).copied() else { return };
        self.timers.clear(AggregateTimer::List(key));
        let Some(list) = self.lists.remove(key) else { return };
        for (server, part) in list.parts {
            if let Some((request, _)) = part.asked {
                self.withdraw(server, request, now);
            }
        }
    }
}
