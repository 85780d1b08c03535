//! Registered handlers in their order, and the pages of their list.

use std::collections::BTreeMap;
use std::ops::Bound;

use mcp_proto::Json;

/// Handlers by name, in the order of their registration.
#[derive(Debug, Clone)]
pub(super) struct Entries<E> {
    /// Numbers are never used again, so that a cursor stays valid when entries are added and removed.
    next: u64,
    by_number: BTreeMap<u64, Entry<E>>,
    numbers: BTreeMap<Box<str>, u64>,
}

#[derive(Debug, Clone)]
struct Entry<E> {
    /// The entry in the list.
    listed: Json,
    handler: E,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page {
    /// The entries: an array.
    pub(super) list: Json,
    /// The cursor of the next page, if there is one.
    pub(super) next: Option<String>,
}

impl<E> Default for Entries<E> {
    fn default() -> Self {
        Self { next: 0, by_number: BTreeMap::new(), numbers: BTreeMap::new() }
    }
}

impl<E> Entries<E> {
    /// Adds an entry at the end. Returns `false`, and changes nothing, if there is one of this name.
    pub(super) fn add(&mut self, name: &str, listed: Json, handler: E) -> bool {
        if self.numbers.contains_key(name) {
            return false;
        }
        self.numbers.insert(name.into(), self.next);
        self.by_number.insert(self.next, Entry { listed, handler });
        self.next += 1;
        true
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.numbers.remove(name).is_some_and(|number| self.by_number.remove(&number).is_some())
    }

    pub(super) fn get(&self, name: &str) -> Option<&E> {
        self.by_number.get(self.numbers.get(name)?).map(|entry| &entry.handler)
    }

    /// The entries as they are listed, in their order.
    #[cfg(feature = "validation")]
    pub(super) fn listed(&self) -> impl Iterator<Item = &Json> {
        self.by_number.values().map(|entry| &entry.listed)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &E> {
        self.by_number.values().map(|entry| &entry.handler)
    }

    /// Whether an entry was ever added: a client that has read the list may read it again.
    pub(super) const fn is_offered(&self) -> bool {
        self.next > 0
    }

    pub(super) fn has_same_list(&self, other: &Self) -> bool {
        let listed = |entries: &Self| entries.by_number.values().map(|entry| entry.listed.clone()).collect::<Vec<_>>();
        listed(self) == listed(other)
    }

    /// The entries after the one that the cursor names, at most `size`. `None` if no page has given out this cursor.
    pub(super) fn page(&self, cursor: Option<&str>, size: usize) -> Option<Page> {
        let after = match cursor {
            None => Bound::Unbounded,
            Some(cursor) => Bound::Excluded(cursor.parse::<u64>().ok().filter(|number| *number < self.next)?),
        };
        let mut entries = self.by_number.range((after, Bound::Unbounded));
        let page: Vec<_> = entries.by_ref().take(size).collect();
        let next = page.last().filter(|_| entries.next().is_some()).map(|(number, _)| number.to_string());
        Some(Page { list: Json::array(page.iter().map(|(_, entry)| &entry.listed)), next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_each_entry_once_in_order_although_others_are_added_and_removed() {
        let mut entries = Entries::default();
        for name in ["c", "a", "d", "b", "e"] {
            assert!(entries.add(name, Json::from(name), ()));
            assert!(!entries.add(name, Json::from("again"), ()));
        }
        let first = entries.page(None, 2).unwrap();
        assert_eq!(first.list.as_bytes(), br#"["c","a"]"#);
        // The entry that the cursor names is removed, and another one of its name is added at the end.
        assert!(entries.remove("a") && !entries.remove("a") && entries.add("a", Json::from("a"), ()));
        let second = entries.page(first.next.as_deref(), 2).unwrap();
        assert_eq!(second.list.as_bytes(), br#"["d","b"]"#);
        let last = entries.page(second.next.as_deref(), 2).unwrap();
        assert_eq!((last.list.as_bytes(), last.next), (&br#"["e","a"]"#[..], None));
    }

    #[test]
    fn a_cursor_that_no_page_has_given_out_is_refused() {
        let mut entries = Entries::default();
        entries.add("a", Json::from("a"), ());
        for cursor in ["", "1", "-1", "18446744073709551616", "a"] {
            assert!(entries.page(Some(cursor), 1).is_none(), "{cursor}");
        }
    }
}
