//! What a server and its clones share, and what receives the changes that a publisher publishes.

#![expect(clippy::disallowed_types, reason = "the clones of a server share this; no machine contains it")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mcp_proto::UsageError;
use mcp_proto::server::Config;

/// What a server and its clones share: the configuration, and the streams and HTTP services over which they are served. It
/// exists as long as one of them does. `H` is the driver's handle of a stream or an HTTP service.
#[derive(Debug)]
pub struct Running<H> {
    config: Config,
    handles: Mutex<Vec<H>>,
}

impl<H> Running<H> {
    /// A server that is not served yet.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self { config, handles: Mutex::new(Vec::new()) }
    }

    /// The configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Adds a stream or an HTTP service, and removes those that have ended.
    pub fn add(&self, handle: H, is_running: impl FnMut(&H) -> bool) {
        let mut handles = self.lock();
        handles.retain(is_running);
        handles.push(handle);
    }

    /// The handles of the streams and HTTP services.
    pub fn handles(&self) -> Vec<H>
    where
        H: Clone,
    {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<H>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What receives the changes of a publisher: `O` for one stream or HTTP service, or all of a server.
#[derive(Debug, Clone)]
pub enum ChangeReceiver<O, H> {
    /// One stream or HTTP service.
    One(O),
    /// Everything over which a server is served.
    All(Weak<Running<H>>),
}

impl<O, H> ChangeReceiver<O, H> {
    /// Everything over which this server is served.
    #[must_use]
    pub fn all(running: &Arc<Running<H>>) -> Self {
        Self::All(Arc::downgrade(running))
    }

    /// Whether nothing is left to which changes could be published.
    pub fn is_closed(&self, has_ended: impl FnOnce(&O) -> bool) -> bool {
        match self {
            Self::One(one) => has_ended(one),
            Self::All(running) => running.strong_count() == 0,
        }
    }

    /// Checks that the server has declared a capability. Only the publisher for everything knows the server.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if it has not.
    pub fn check_declared(&self, capability: &'static str) -> Result<(), UsageError> {
        match self {
            Self::One(_) => Ok(()),
            Self::All(running) => {
                running.upgrade().map_or(Ok(()), |running| running.config().check_declared(capability))
            }
        }
    }
}
