//! Servers that did not answer in time.
//!
//! The client waits for a server once. A server that has not answered a request for a list in time is late with it:
//! further lists do not wait for it, and its answer is kept. The client is notified when there is one, and its next
//! request for the list has the items. With each such request, the aggregate reads the server's list again, so that the
//! kept list stays current. The first reading in time ends this. A server whose request fails is asked again after a
//! pause.
//!
//! A server that was not connected in time when the aggregate was opened is left out of lists until it is connected.

use std::time::Duration;

use mcp_proto::{Instant, Json};

use super::event::ServerKey;
use super::fresh::are_plain;
use super::list_kind::ListKind;
use super::pages::{Page, Place, Position};
use super::pending::{Composed, Then};
use super::{Aggregate, AggregateTimer, Event};

/// The pauses after which a list that could not be read is requested again: the first one, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The maximum length of the parameters that are kept for a further request.
const PARAMS: usize = 16 * 1024;

/// A list with which a server is late.
#[derive(Debug)]
pub(super) struct Late {
    /// The parameters of the latest request for the list.
    params: Option<Json>,
    /// The list as the server has returned it, late; `None` if it has returned none.
    kept: Option<Kept>,
    /// The next pause.
    pause: Duration,
}

/// A list as a server has returned it.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    pages: Vec<Page>,
    /// The place of the next page, which was not read.
    next: Option<Place>,
}

/// How the list of a server begins.
#[derive(Debug)]
pub(super) enum Start {
    /// The server is asked.
    Ask,
    /// The list begins with these pages of an earlier reading, and goes on at this place.
    Kept(Vec<Page>, Option<Place>),
    /// The list has these pages, which are valid until this time.
    Fresh(Vec<Page>, Instant),
    LeftOut,
}

impl Late {
    pub(super) const fn new() -> Self {
        Self { params: None, kept: None, pause: FIRST_PAUSE }
    }

    fn set_params(&mut self, params: Option<&Json>) {
        let params = params.filter(|params| params.len() <= PARAMS);
        self.params = params.map(|params| params.clone().detached_from(usize::MAX));
    }

    pub(super) fn bytes(&self) -> usize {
        let pages = self.kept.iter().flat_map(|kept| &kept.pages);
        pages.map(|page| page.content.len()).sum()
    }

    /// Drops what the earlier process of the server has returned.
    pub(super) fn forget(&mut self) {
        (self.kept, self.pause) = (None, FIRST_PAUSE);
    }

    /// The beginning of the list from this place on.
    fn start_at(&self, place: &Place) -> Start {
        let Some(kept) = &self.kept else { return Start::LeftOut };
        let Some(first) = kept.pages.iter().position(|page| page.place == *place) else { return Start::LeftOut };
        Start::Kept(kept.pages.iter().skip(first).cloned().collect(), kept.next.clone())
    }
}

impl Aggregate {
    /// Whether a server is connected.
    pub(super) fn is_usable(&self, server: ServerKey) -> bool {
        self.members.get(&server).is_some_and(super::Member::is_usable)
    }

    /// How a list begins that the client requests of a server.
    pub(super) fn start_of(&self, position: &Position, kind: ListKind, params: Option<&Json>, now: Instant) -> Start {
        let Some(member) = self.members.get(&position.server) else { return Start::LeftOut };
        match member.late.get(&kind) {
            // The client is notified when it is connected.
            _ if !member.is_usable() => Start::LeftOut,
            None => {
                let fresh = member.fresh.get(&kind).filter(|_| are_plain(params));
                let pages = fresh.and_then(|fresh| fresh.start_at(&position.place, now));
                pages.map_or(Start::Ask, |(pages, until)| Start::Fresh(pages, until))
            }
            Some(late) => late.start_at(&position.place),
        }
    }

    /// A server has not answered a request for a list in time.
    pub(super) fn set_late(&mut self, server: ServerKey, kind: ListKind, params: Option<&Json>) {
        let Some(member) = self.members.get_mut(&server) else { return };
        let is_new = !member.late.contains_key(&kind);
        member.late.entry(kind).or_insert_with(Late::new).set_params(params);
        if is_new {
            self.out.report(Event::Late { server, method: kind.method() });
        }
    }

    /// Reads the list with which a server is late, unless a reading is in progress.
    pub(super) fn read_again(&mut self, server: ServerKey, kind: ListKind, params: Option<Json>, now: Instant) {
        let is_usable = self.is_usable(server);
        let late = self.members.get_mut(&server).and_then(|member| member.late.get_mut(&kind));
        let Some(late) = late.filter(|_| is_usable && !self.lists.is_read(server, kind)) else { return };
        late.set_params(params.as_ref());
        self.timers.clear(AggregateTimer::ReadAgain(server, kind));
        self.begin_list(Then::Keep(server), kind, vec![Position::first(server)], false, params, now);
    }

    /// The pause after which a list is read again is over.
    pub(super) fn on_pause_over(&mut self, server: ServerKey, kind: ListKind, now: Instant) {
        let late = self.members.get(&server).and_then(|member| member.late.get(&kind));
        let params = late.and_then(|late| late.params.clone());
        self.read_again(server, kind, params, now);
    }

    /// The bytes of the lists that are kept.
    pub(super) fn kept_bytes(&self) -> usize {
        self.members.values().flat_map(|member| member.late.values()).map(Late::bytes).sum()
    }

    /// The list of a server that was late was read, or could not be.
    pub(super) fn on_read_again(&mut self, server: ServerKey, list: Composed, now: Instant) {
        let kind = list.kind;
        self.learn_all(&list, now);
        let is_in_time = now.saturating_duration_since(list.begun) < self.config.server_timeout;
        let room = (self.limits().held / 4).saturating_sub(self.kept_bytes());
        let Some(member) = self.members.get_mut(&server) else { return };
        let Some(late) = member.late.get_mut(&kind) else { return };
        let Some(part) = list.parts.into_values().next() else { return };
        let room = room.saturating_add(late.bytes());
        let earlier = late.kept.take();
        let is_read = part.error.is_none() && !part.pages.is_empty();
        let is_stale = part.is_stale;
        let is_kept = is_read && !is_in_time && !is_stale && part.bytes() <= room;
        let read = Kept { pages: part.pages, next: part.next };
        let is_same = earlier.as_ref() == Some(&read);
        if !is_read {
            self.timers.set(AggregateTimer::ReadAgain(server, kind), now + late.pause);
            late.pause = (late.pause * 2).min(LONGEST_PAUSE);
        } else if is_in_time {
            member.late.remove(&kind);
            self.out.report(Event::InTime { server, method: kind.method() });
        } else {
            (late.kept, late.pause) = (Some(read).filter(|_| is_kept), FIRST_PAUSE);
        }
        // A list that is not kept for lack of room is not announced, because the next answer would not have it.
        let is_changed = if is_kept || (is_read && is_in_time) { !is_same } else { earlier.is_some() };
        if is_changed {
            self.announce_list(kind.list(), now);
        }
        if is_stale {
            self.read_again(server, kind, list.params, now);
        }
    }

    /// What a server was late with is read again, because it has passed an earlier filter.
    pub(super) fn drop_late(&mut self, server: ServerKey, now: Instant) {
        let Some(member) = self.members.get_mut(&server) else { return };
        let mut dropped = Vec::new();
        for (kind, late) in &mut member.late {
            late.forget();
            dropped.push((*kind, late.params.clone()));
        }
        for (kind, params) in dropped {
            self.read_again(server, kind, params, now);
        }
    }
}
