//! Lists that are not requested again, because their servers have stated how long they are valid (`ttlMs`).
//!
//! A list is kept until its time is over, the server notifies of a change, or its process ends. What was requested before a
//! change is not kept. If several clients use the connection, only lists that are public are.
//!
//! Rules: MD-K-02, MD-K-03.

use std::time::Duration;

use mcp_proto::spec::List;
use mcp_proto::{Instant, Json};

use super::Aggregate;
use super::event::ServerKey;
use super::list_kind::ListKind;
use super::pages::{Page, Part, Place};

/// A list that is still valid.
#[derive(Debug)]
pub(super) struct Fresh {
    pages: Vec<Page>,
    until: Instant,
}

impl Fresh {
    /// The pages from this place on, and how long they are valid; `None` if they are not, or do not have the place.
    pub(super) fn start_at(&self, place: &Place, now: Instant) -> Option<(Vec<Page>, Instant)> {
        let first = self.pages.iter().position(|page| page.place == *place)?;
        (now < self.until).then(|| (self.pages.iter().skip(first).cloned().collect(), self.until))
    }

    pub(super) fn bytes(&self) -> usize {
        self.pages.iter().map(|page| page.content.len()).sum()
    }
}

/// Whether parameters have no influence on a list.
pub(super) fn are_plain(params: Option<&Json>) -> bool {
    params.is_none_or(|params| params.without_members(&["_meta", "cursor"]) == Json::empty_object())
}

impl Aggregate {
    /// Keeps the list of a server that was requested at this time and read to its end, if its pages may be kept.
    pub(super) fn keep_while_fresh(&mut self, server: ServerKey, kind: ListKind, part: &Part, begun: Instant) {
        let room = (self.limits().held / 4).saturating_sub(self.fresh_bytes());
        let is_shared = self.config.is_shared;
        let Some(member) = self.members.get_mut(&server) else { return };
        member.fresh.remove(&kind);
        let mut shortest: Option<u64> = None;
        for page in &part.pages {
            let [ttl, scope] = page.content.first_members(["ttlMs", "cacheScope"]);
            let ttl = ttl.and_then(|ttl| ttl.read::<u64>().ok()).unwrap_or(0);
            let is_public = scope.is_some_and(|scope| scope.as_bytes() == b"\"public\"");
            let ttl = if is_shared && !is_public { 0 } else { ttl };
            shortest = Some(shortest.map_or(ttl, |shortest| shortest.min(ttl)));
        }
        let is_changed = member.changed.get(&kind).is_some_and(|changed| *changed >= begun);
        let ttl = shortest.filter(|ttl| *ttl > 0 && !is_changed && part.bytes() <= room);
        if let Some(ttl) = ttl {
            let until = begun + Duration::from_millis(ttl);
            member.fresh.insert(kind, Fresh { pages: part.pages.clone(), until });
        }
    }

    /// The lists of a server have changed.
    pub(super) fn drop_fresh(&mut self, server: ServerKey, list: List, now: Instant) {
        let Some(member) = self.members.get_mut(&server) else { return };
        for kind in ListKind::ALL.into_iter().filter(|kind| kind.list() == list) {
            member.changed.insert(kind, now);
            member.fresh.remove(&kind);
        }
    }

    /// The bytes of the lists that are kept.
    pub(super) fn fresh_bytes(&self) -> usize {
        self.members.values().flat_map(|member| member.fresh.values()).map(Fresh::bytes).sum()
    }
}
