//! Resources that clients of both eras have subscribed to, and the changes that are not reported to the application
//! yet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::json::Json;

/// The maximum number of names for one client or one filter.
const NAMES: usize = 512;
/// The maximum number of bytes of these names together.
const NAME_BYTES: usize = 32 * 1024;

/// A resource that gained its first subscription or lost its last one, from [`Server::poll_subscription`].
///
/// [`Server::poll_subscription`]: super::Server::poll_subscription
#[derive(Clone, PartialEq, Eq)]
pub enum SubscriptionChange {
    /// A client has subscribed to the resource with this URI, to which no client was subscribed.
    Subscribed(Arc<str>),
    /// No client is subscribed to the resource with this URI any more.
    Unsubscribed(Arc<str>),
}

/// Shows no URI.
impl fmt::Debug for SubscriptionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Subscribed(_) => "Subscribed",
            Self::Unsubscribed(_) => "Unsubscribed",
        })
    }
}

/// Names of resources or tasks, bounded in number and bytes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Names {
    names: BTreeSet<Arc<str>>,
    bytes: usize,
}

impl Names {
    /// Reads an array of names; `None` if an element is not a string, or if they exceed the bounds.
    pub(super) fn read(array: Option<&Json>) -> Option<Self> {
        let mut names = Self::default();
        for name in array.into_iter().flat_map(Json::elements) {
            let name = name.as_string()?;
            if !names.has_room_for(&name) {
                return None;
            }
            names.insert((&*name).into());
        }
        Some(names)
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether this name is contained or can be added.
    pub(super) fn has_room_for(&self, name: &str) -> bool {
        self.contains(name) || (self.names.len() < NAMES && self.bytes + name.len() <= NAME_BYTES)
    }

    /// Adds a name; the caller has checked that there is room.
    pub(super) fn insert(&mut self, name: Arc<str>) {
        let length = name.len();
        if self.names.insert(name) {
            self.bytes += length;
        }
    }

    /// Removes a name; returns whether it was contained.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let was_there = self.names.remove(name);
        if was_there {
            self.bytes -= name.len();
        }
        was_there
    }

    /// Removes the other names.
    pub(super) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.names.retain(|name| keeps(name));
        self.bytes = self.names.iter().map(|name| name.len()).sum();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter()
    }

    /// The names as an array; `None` if there are none.
    pub(super) fn to_json(&self) -> Option<Json> {
        let names: Vec<&str> = self.iter().map(|name| &**name).collect();
        if names.is_empty() { None } else { Json::from_serialize(&names).ok() }
    }
}

/// The resources that clients have subscribed to, each with its number of subscriptions.
///
/// Unreported changes are stored as the difference from what was reported last, not as a queue, so that a client that
/// subscribes and unsubscribes without end uses no memory.
#[derive(Debug, Default)]
pub(super) struct SubscribedResources {
    resources: BTreeMap<Arc<str>, Resource>,
    /// The resources whose state differs from what was reported last.
    pub(super) changed: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Resource {
    subscriptions: usize,
    /// Whether the resource was last reported as subscribed.
    is_told: bool,
}

impl SubscribedResources {
    pub(super) const fn new() -> Self {
        Self { resources: BTreeMap::new(), changed: BTreeSet::new() }
    }

    /// Adds a subscription to a resource. Returns the shared name, so that it is stored once for all subscriptions.
    pub(super) fn add(&mut self, uri: &str) -> Arc<str> {
        let known = self.resources.get_key_value(uri).map(|(uri, _)| Arc::clone(uri));
        let uri = known.unwrap_or_else(|| uri.into());
        let resource = self.resources.entry(Arc::clone(&uri)).or_default();
        resource.subscriptions += 1;
        if resource.is_told {
            self.changed.remove(&uri);
        } else {
            self.changed.insert(Arc::clone(&uri));
        }
        uri
    }

    /// Adds a subscription to each of these.
    pub(super) fn add_all(&mut self, uris: &Names) -> Names {
        Names { names: uris.iter().map(|uri| self.add(uri)).collect(), bytes: uris.bytes }
    }

    /// Removes a subscription to each of these.
    pub(super) fn remove_all(&mut self, uris: &Names) {
        for uri in uris.iter() {
            self.remove(uri);
        }
    }

    /// Removes a subscription to a resource.
    pub(super) fn remove(&mut self, uri: &str) {
        let Some(resource) = self.resources.get_mut(uri) else { return };
        resource.subscriptions = resource.subscriptions.saturating_sub(1);
        if resource.subscriptions > 0 {
            return;
        }
        if resource.is_told {
            let uri = self.resources.get_key_value(uri).map(|(uri, _)| Arc::clone(uri));
            self.changed.extend(uri);
        } else {
            self.changed.remove(uri);
            self.resources.remove(uri);
        }
    }

    /// The next change to report to the application.
    pub(super) fn next_change(&mut self) -> Option<SubscriptionChange> {
        let uri = self.changed.pop_first()?;
        let resource = self.resources.get_mut(&uri)?;
        if resource.subscriptions > 0 {
            resource.is_told = true;
            return Some(SubscriptionChange::Subscribed(uri));
        }
        self.resources.remove(&uri);
        Some(SubscriptionChange::Unsubscribed(uri))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_in_number_and_in_bytes_by_what_is_there() {
        let mut names = Names::default();
        let half = "h".repeat(NAME_BYTES / 2);
        names.insert(half.as_str().into());
        names.insert(half.as_str().into());
        assert_eq!((names.len(), names.bytes), (1, NAME_BYTES / 2));
        let rest = "r".repeat(NAME_BYTES / 2);
        assert!(names.has_room_for(&rest) && !names.has_room_for(&format!("{rest}x")) && names.has_room_for(&half));
        names.insert(rest.as_str().into());
        assert!(!names.has_room_for("x") && names.has_room_for(&rest) && names.contains(&rest));
        assert!(names.remove(&half) && !names.remove(&half) && !names.contains(&half));
        assert_eq!((names.len(), names.bytes), (1, NAME_BYTES / 2));
        assert!(names.has_room_for(&half) && !names.has_room_for(&format!("{half}x")));
        names.insert("x".into());
        names.retain(|name| name != rest);
        assert_eq!((names.len(), names.bytes), (1, 1));

        let array = |count: usize| {
            let names: Vec<_> = (0..count).map(|number| format!("\"{number}\"")).collect();
            Json::parse(format!("[{}]", names.join(","))).unwrap()
        };
        let full = Names::read(Some(&array(NAMES))).unwrap();
        assert_eq!(full.len(), NAMES);
        assert!(!full.has_room_for("x") && full.has_room_for("0"));
        assert_eq!(Names::read(full.to_json().as_ref()), Some(full));
        assert_eq!(Names::read(Some(&array(NAMES + 1))), None);
        assert_eq!(Names::read(Some(&Json::parse("[1]").unwrap())), None);
        assert_eq!((Names::read(None).unwrap(), Names::default().to_json()), (Names::default(), None));
    }

    fn changes(resources: &mut SubscribedResources) -> Vec<String> {
        let changes = std::iter::from_fn(|| resources.next_change());
        let text = |change| match change {
            SubscriptionChange::Subscribed(uri) => format!("+{uri}"),
            SubscriptionChange::Unsubscribed(uri) => format!("-{uri}"),
        };
        changes.map(text).collect()
    }

    #[test]
    fn the_first_subscription_and_the_end_of_the_last_are_changes() {
        let mut resources = SubscribedResources::new();
        let first = resources.add("a:b");
        let second = resources.add("a:b");
        assert!(Arc::ptr_eq(&first, &second), "a name is kept once");
        assert_eq!(changes(&mut resources), ["+a:b"]);
        resources.add("a:b");
        resources.remove(&first);
        resources.remove(&first);
        assert!(changes(&mut resources).is_empty());
        resources.remove(&first);
        assert_eq!(changes(&mut resources), ["-a:b"]);
        assert!(resources.resources.is_empty());
        resources.remove(&first);
        assert!(changes(&mut resources).is_empty());
    }

    #[test]
    fn a_subscription_that_ends_before_it_was_reported_is_no_change() {
        let mut resources = SubscribedResources::new();
        for number in 0..1000 {
            let uri = resources.add(&format!("a:{number}"));
            resources.remove(&uri);
        }
        assert!(resources.resources.is_empty() && resources.changed.is_empty());
        let uri = resources.add("a:b");
        assert_eq!(changes(&mut resources), ["+a:b"]);
        resources.remove(&uri);
        resources.add("a:b");
        assert!(changes(&mut resources).is_empty());
    }
}
