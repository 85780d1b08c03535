//! For whom something works: a process, the session with a remote server, several servers as one, a parked call with its
//! `requestState`, and what is known from them.
//!
//! Nothing of one owner reaches a client of another. Clients are separated by their principal, whatever their revision
//! and that of the server. The sessions of one principal are separated only where each has its own process.

use mcp_proto::SessionKey;
use mcp_proto::server::{Principal, Requesters};

/// For whom something works.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// All clients, because they are those of one person.
    Everyone,
    /// The clients that are authenticated as this principal.
    Principal(Principal),
    /// The stateless requests without a principal, which nothing distinguishes.
    Unauthenticated,
    /// One session, and its principal if it has one.
    Session(SessionKey, Option<Principal>),
}

impl Owner {
    /// The owner for all stateless requests of this principal.
    pub(crate) fn of_requests(principal: Option<Principal>) -> Self {
        principal.map_or(Self::Unauthenticated, Self::Principal)
    }

    /// Whether a client with this principal, in this session if its request has one, may use it.
    pub(crate) fn admits(&self, session: Option<SessionKey>, principal: Option<&Principal>) -> bool {
        match self {
            Self::Everyone => true,
            Self::Principal(own) => principal == Some(own),
            Self::Unauthenticated => session.is_none() && principal.is_none(),
            Self::Session(own, _) => session == Some(*own),
        }
    }

    /// The senders of stateless requests that this owner stands for.
    pub(crate) fn requesters(&self) -> Requesters {
        match self {
            Self::Everyone => Requesters::All,
            Self::Principal(principal) => Requesters::Of(Some(principal.clone())),
            Self::Unauthenticated | Self::Session(..) => Requesters::Of(None),
        }
    }

    /// The principal, if the owner stands for exactly one.
    pub(crate) const fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Principal(principal) | Self::Session(_, Some(principal)) => Some(principal),
            Self::Everyone | Self::Unauthenticated | Self::Session(_, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::Stdio;
    use mcp_proto::server::{Config, Server};

    use super::*;

    #[test]
    fn an_owner_admits_its_own_clients_alone() {
        let server = Server::new(Stdio::new(), Config::new("s", "1")).expect("a valid configuration");
        let (session, ada, eve) = (server.session(), Principal::new("ada"), Principal::new("eve"));
        let clients =
            [None, Some(session)].map(|session| [None, Some(&ada), Some(&eve)].map(|client| (session, client)));
        for (owner, principal, stateless, in_session) in [
            (Owner::Everyone, None, [true; 3], [true; 3]),
            (Owner::of_requests(Some(ada.clone())), Some(&ada), [false, true, false], [false, true, false]),
            (Owner::of_requests(None), None, [true, false, false], [false; 3]),
            (Owner::Session(session, None), None, [false; 3], [true; 3]),
            (Owner::Session(session, Some(ada.clone())), Some(&ada), [false; 3], [true; 3]),
        ] {
            let admitted = clients.map(|kind| kind.map(|(session, client)| owner.admits(session, client)));
            assert_eq!(admitted, [stateless, in_session], "{owner:?}");
            assert_eq!(owner.principal(), principal);
        }
    }
}
