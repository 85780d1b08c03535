//! How stateless requests are handled by a server that passes through, but answers for the servers of some clients.

use std::collections::BTreeMap;

use super::config::Handling;
use super::principal::Principal;

/// Whose stateless requests something concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requesters {
    /// Those of all clients.
    All,
    /// Those of the clients with this principal, or of those without one.
    Of(Option<Principal>),
}

/// How stateless requests are handled where that is not as for all others.
#[derive(Debug, Default)]
pub(super) struct ServedRequests {
    of_all: Option<Handling>,
    of: BTreeMap<Option<Principal>, Handling>,
}

impl ServedRequests {
    /// How those of this principal are handled; `None` if they are passed through.
    pub(super) fn handling(&self, principal: Option<&Principal>) -> Option<&Handling> {
        if self.of.is_empty() {
            return self.of_all.as_ref();
        }
        self.of.get(&principal.cloned()).or(self.of_all.as_ref())
    }

    /// Whether those are handled already.
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
