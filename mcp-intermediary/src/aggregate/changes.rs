//! Notifications that lists and resources have changed.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_proto::spec::List;
use mcp_proto::{Instant, Json, Notification};

use super::event::ServerKey;
use super::{Aggregate, AggregateTimer};

/// The shortest time between two notifications of changes of one list: a server that sends many does not make the client
/// request the lists of all servers as often.
const INTERVAL: Duration = Duration::from_secs(1);

/// The position of a list in [`List::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListIndex(usize);

/// When the client was notified of changes of each list.
#[derive(Debug, Default)]
pub(super) struct Changes {
    last: BTreeMap<ListIndex, Instant>,
}

impl Aggregate {
    /// Notifies the client that a list has changed: at once, or after the interval.
    pub(super) fn announce_list(&mut self, list: List, now: Instant) {
        let Some(index) = List::ALL.iter().position(|known| *known == list).map(ListIndex) else { return };
        let next = self.changes.last.get(&index).map(|last| *last + INTERVAL);
        match next.filter(|next| *next > now) {
            Some(next) => self.timers.set(AggregateTimer::Changed(index), next),
            None => self.publish_change(index, now),
        }
    }

    pub(super) fn publish_change(&mut self, index: ListIndex, now: Instant) {
        let Some(list) = List::ALL.get(index.0) else { return };
        self.timers.clear(AggregateTimer::Changed(index));
        self.changes.last.insert(index, now);
        self.publish(Notification::new(list.notification()), now);
    }

    /// A server has stated that its list has changed.
    pub(super) fn on_list_changed(&mut self, server: ServerKey, list: List, now: Instant) {
        self.drop_fresh(server, list, now);
        match list {
            List::Resources => self.resources.on_changed(server),
            List::Tools => {
                self.tools.on_changed(server);
                self.catalogue.on_changed(server);
                self.app_pages.on_changed(server);
            }
            List::Prompts => self.prompts.on_changed(server),
            _ => {}
        }
        self.announce_list(list, now);
    }

    /// Whether a server may state that a resource has changed: unless only other servers were asked to.
    pub(super) fn may_update(&self, server: ServerKey, params: Option<&Json>) -> bool {
        let uri = params.and_then(|params| params.first_member("uri"));
        let uri = uri.as_ref().and_then(Json::as_string).unwrap_or_default();
        let watches = |member: &super::Member| member.watch.contains(&uri);
        let is_of_other = self.resources.lister(&uri).is_some_and(|owner| owner != server);
        self.members.get(&server).is_some_and(watches) || !(is_of_other || self.members.values().any(watches))
    }
}
