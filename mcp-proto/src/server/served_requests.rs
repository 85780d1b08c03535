//! How stateless requests are handled by a server that passes through, but answers for the servers of some clients.

use std::collections::BTreeMap;

use super::config::Handling;
use super::principal::Principal;

/// The clients whose stateless requests a setting concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requesters {
    /// All clients.
    All,
    /// The clients with this principal, or with `None` those without a principal.
    Of(Option<Principal>),
}

/// The handling of stateless requests that differs from the default.
#[derive(Debug, Default)]
pub(super) struct ServedRequests {
    of_all: Option<Handling>,
    of: BTreeMap<Option<Principal>, Handling>,
}

impl ServedRequests {
    /// The handling for this principal; `None` if nothing is set for its requests.
    pub(super) fn handling(&self, principal: Option<&Principal>) -> Option<&Handling> {
        if self.of.is_empty() {
            return self.of_all.as_ref();
        }
        self.of.get(&principal.cloned()).or(self.of_all.as_ref())
    }

    /// Whether a handling is set for these clients.
    pub(super) fn contains(&self, requesters: &Requesters) -> bool {
        match requesters {
            Requesters::All => self.of_all.is_some(),
            Requesters::Of(principal) => self.of.contains_key(principal),
        }
    }

    pub(super) fn insert(&mut self, requesters: Requesters, handling: Handling) {
        match requesters {
            Requesters::All => self.of_all = Some(handling),
            Requesters::Of(principal) => drop(self.of.insert(principal, handling)),
        }
    }

    pub(super) fn remove(&mut self, requesters: &Requesters) {
        match requesters {
            Requesters::All => self.of_all = None,
            Requesters::Of(principal) => drop(self.of.remove(principal)),
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Handling> {
        self.of_all.iter_mut().chain(self.of.values_mut())
    }
}
