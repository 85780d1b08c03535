//! What the file of `--config` states for one server, in the place of the options for all.

use std::time::Duration;

use mcp_intermediary::aggregate::Prefix;

use crate::args::serve::{ServeArgs, Share};
use crate::restrictions::Restrictions;

/// The settings of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerSettings {
    /// What clients may use, in addition to the options.
    pub(super) restrictions: Vec<Restrictions>,
    pub(super) request_timeout: Option<Duration>,
    pub(super) start_timeout: Option<Duration>,
    pub(super) share: Option<Share>,
    /// What its names begin with where several servers are one.
    pub(super) prefix: Prefix,
}

impl ServerSettings {
    /// How long the server may take to answer a request.
    pub(super) fn request_timeout(&self, args: &ServeArgs) -> Duration {
        self.request_timeout.unwrap_or(args.request_timeout)
    }

    /// How long the server may take until it has answered `initialize`.
    pub(super) fn start_timeout(&self, args: &ServeArgs) -> Duration {
        self.start_timeout.unwrap_or(args.start_timeout)
    }

    /// Which sessions use one process.
    pub(super) fn share(&self, args: &ServeArgs) -> Share {
        self.share.unwrap_or(args.share)
    }

    /// Whether they differ at most in what clients may use.
    pub(super) fn has_process_of(&self, other: &Self) -> bool {
        let without = |settings: &Self| Self { restrictions: Vec::new(), ..settings.clone() };
        without(self) == without(other)
    }

    /// What clients may use of the server.
    ///
    /// # Errors
    ///
    /// A text for the user: the options and the file both allow only some names of a kind.
    pub(super) fn restrictions(&self, args: &ServeArgs) -> Result<Restrictions, String> {
        self.restrictions.iter().try_fold(args.restrictions.clone(), |all, own| all.and(own))
    }
}
