//! Which server has listed a text first. Each server has a bound of its own on what is stored.

use std::collections::{BTreeMap, BTreeSet};

use super::event::ServerKey;

/// The servers that have listed a text, the earliest first.
#[derive(Debug)]
pub(super) struct Claims {
    pub(super) by_text: BTreeMap<Box<str>, Vec<ServerKey>>,
    /// The number of texts of each server, and of their bytes.
    pub(super) usage: BTreeMap<ServerKey, (usize, usize)>,
    /// The maximum number of texts of one server, and of their bytes.
    most: (usize, usize),
    longest: usize,
}

impl Claims {
    /// None yet, with these maxima of each server: the number of texts, their bytes, and the length of one.
    pub(super) const fn new(most: (usize, usize), longest: usize) -> Self {
        Self { by_text: BTreeMap::new(), usage: BTreeMap::new(), most, longest }
    }

    /// Stores a text that a server has listed, if there is room. Returns the server that the text belongs to.
    pub(super) fn learn(&mut self, text: &str, server: ServerKey) -> ServerKey {
        let owner = self.owner(text).unwrap_or(server);
        let is_known = self.by_text.get(text).is_some_and(|servers| servers.contains(&server));
        let (count, bytes) = self.usage.get(&server).copied().unwrap_or_default();
        let has_room = count < self.most.0 && bytes + text.len() <= self.most.1 && text.len() <= self.longest;
        if !is_known && has_room {
            self.usage.insert(server, (count + 1, bytes + text.len()));
            self.by_text.entry(text.into()).or_default().push(server);
        }
        owner
    }

    /// Drops what a server has listed earlier, except for these texts.
    pub(super) fn retain(&mut self, server: ServerKey, texts: &BTreeSet<Box<str>>) {
        let (mut count, mut bytes) = (0, 0);
        self.by_text.retain(|text, servers| {
            if servers.contains(&server) && !texts.contains(text) {
                servers.retain(|claimant| *claimant != server);
            } else if servers.contains(&server) {
                (count, bytes) = (count + 1, bytes + text.len());
            }
            !servers.is_empty()
        });
        self.usage.insert(server, (count, bytes));
    }

    pub(super) fn owner(&self, text: &str) -> Option<ServerKey> {
        self.by_text.get(text)?.first().copied()
    }
}
