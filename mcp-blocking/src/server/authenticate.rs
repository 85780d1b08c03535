//! The application's check of the credentials of requests.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use mcp_application::Authenticated;
use mcp_proto::auth::Challenge;

type Checked = Result<Authenticated, Challenge>;
type Check = dyn Fn(&Parts) -> Checked + Send + Sync;

/// The application's check, or none if the server demands no authentication.
#[derive(Clone, Default)]
pub(crate) struct Authenticate(Option<Arc<Check>>);

impl Authenticate {
    pub(crate) fn new<P>(check: impl Fn(&Parts) -> Result<P, Challenge> + Send + Sync + 'static) -> Self
    where
        P: Into<Authenticated>,
    {
        Self(Some(Arc::new(move |head| check(head).map(Into::into))))
    }

    pub(crate) fn check(&self, head: &Parts) -> Checked {
        self.0.as_ref().map_or_else(|| Ok(Authenticated::new()), |check| check(head))
    }

    /// The stack that the thread of a connection needs, in bytes, if this check or a later one may be used there.
    pub(crate) const fn stack_of(&self, may_change: bool) -> usize {
        // A check may make a request over TLS.
        if self.0.is_some() || may_change { 2 * 1024 * 1024 } else { 256 * 1024 }
    }
}

impl fmt::Debug for Authenticate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Authenticate" } else { "None" })
    }
}
