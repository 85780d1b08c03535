//! A router whose functions change while the server runs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::client::CloseReason;
use mcp_proto::{ErrorObject, Json, Notification, SessionKey, UsageError};

use super::Router;
use crate::{Incoming, ServerPublisher, Service};

/// A [`Router`] that can be changed while the server runs. Its clients are notified of changed lists.
///
/// Clones share the functions. The server declares its capabilities when it is created, by the functions that there are
/// then: begin with at least one of each kind (tools, prompts, resources) that may change. A kind whose last function is
/// removed has an empty list.
///
/// # Example
///
/// ```
/// use mcp_proto::model::{JsonObject, Tool};
/// use mcp_blocking::{Incoming, SharedRouter};
///
/// fn add(router: &SharedRouter) -> Result<(), mcp_proto::UsageError> {
///     let tool = Tool::without_arguments("hello");
///     router.change(|router| router.tool_with_schema(&tool, |_: JsonObject, _: &Incoming| Ok("Hello!")))
/// }
/// ```
#[derive(Clone)]
pub struct SharedRouter(Arc<Shared>);

struct Shared {
    router: Mutex<Arc<Router>>,
    /// Those of the servers that were created with this router.
    publishers: Mutex<Vec<ServerPublisher>>,
}

impl SharedRouter {
    /// A router that can be changed, with these functions first.
    #[must_use]
    pub fn new(router: Router) -> Self {
        Self(Arc::new(Shared { router: Mutex::new(Arc::new(router)), publishers: Mutex::default() }))
    }

    /// Changes the functions, and notifies the clients of the lists that differ then. Requests that are served already
    /// are completed by the earlier functions. Changes that are made at one time are made one after the other.
    ///
    /// # Errors
    ///
    /// The mistakes of the new functions: then nothing has changed. [`UsageError::NotDeclared`] if the first function of a
    /// kind was added: it is served, but the clients were not notified.
    pub fn change(&self, change: impl FnOnce(Router) -> Router) -> Result<(), UsageError> {
        let notifications = {
            let mut router = locked(&self.0.router);
            let later = change(Router::clone(&router));
            later.routed_capabilities(true)?;
            let notifications = router.routes.changes(&later.routes);
            *router = Arc::new(later);
            notifications
        };
        let mut refused = None;
        let publishers = locked(&self.0.publishers).clone();
        for publisher in publishers {
            for notification in &notifications {
                if let Err(error) = publisher.publish(notification.clone()) {
                    refused = Some(error);
                }
            }
        }
        refused.map_or(Ok(()), Err)
    }

    fn router(&self) -> Arc<Router> {
        Arc::clone(&locked(&self.0.router))
    }
}

/// A panic while the lock is held leaves the earlier functions in place.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service for SharedRouter {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        self.router().serve(incoming)
    }

    fn capabilities(&self) -> Result<Json, UsageError> {
        self.router().routed_capabilities(true)
    }

    fn created(&self, publisher: ServerPublisher) {
        locked(&self.0.publishers).push(publisher.clone());
        self.router().created(publisher);
    }

    fn notified(&self, session: SessionKey, notification: Notification) {
        self.router().notified(session, notification);
    }

    fn ended(&self, session: SessionKey, reason: CloseReason) {
        self.router().ended(session, reason);
    }

    fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) {
        self.router().subscribed(uri, publisher);
    }

    fn unsubscribed(&self, uri: Arc<str>) {
        self.router().unsubscribed(uri);
    }
}

impl fmt::Debug for SharedRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRouter").finish_non_exhaustive()
    }
}
