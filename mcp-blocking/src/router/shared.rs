//! A router whose functions change while the server runs.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use mcp_application::InvalidService;
use mcp_application::router::SharedRoutes;
use mcp_proto::client::CloseReason;
use mcp_proto::{ErrorObject, Json, Notification, SessionKey};

use super::Router;
use crate::server::{Publishers, publish_to_all};
use crate::{Incoming, ServerPublisher, Service};

/// A [`Router`] that can be changed while the server runs. Its clients are notified of changed lists, except for those
/// without a session and without a subscription ([`HttpConfig::sessions`](mcp_proto::server::HttpConfig::sessions)).
///
/// Clones share the functions. The server declares its capabilities when it is created, by the functions that there are
/// then: begin with at least one of each kind (tools, prompts, resources) that may change. A kind whose last function is
/// removed has an empty list.
///
/// # Example
///
/// ```
/// use mcp_blocking::model::{JsonObject, Tool};
/// use mcp_blocking::{Incoming, SharedRouter};
///
/// fn add(router: &SharedRouter) -> Result<(), mcp_blocking::application::InvalidService> {
///     let tool = Tool::without_arguments("hello");
///     router.change(|router| router.tool_with_schema(&tool, |_: JsonObject, _: &Incoming| Ok("Hello!")))
/// }
/// ```
#[derive(Clone)]
pub struct SharedRouter(Arc<SharedRoutes<Router, Publishers, ThreadId>>);

impl SharedRouter {
    /// A router that can be changed, with these functions first.
    #[must_use]
    pub fn new(router: Router) -> Self {
        Self(Arc::new(SharedRoutes::new(router)))
    }

    /// Changes the functions, and notifies the clients of the lists that differ then. Requests that are served already
    /// are completed by the earlier functions. Changes that are made at one time are made one after the other.
    ///
    /// Requests are served while `change` runs, by the earlier functions. It must not wait for another change. A fallback
    /// that it sets receives the publishers of all servers ([`Service::created`]), but not the subscriptions that the
    /// earlier fallback has received.
    ///
    /// # Errors
    ///
    /// The mistakes of the new functions: then nothing has changed. [`InvalidService::NestedChange`] if it is called by
    /// `change`. [`InvalidService::Usage`] with [`UsageError::NotDeclared`](mcp_proto::UsageError::NotDeclared) if the first function of a kind was added (also the first completion) after a
    /// server was created which does not declare the capability: it is served, but the clients of that server were not
    /// notified.
    pub fn change(&self, change: impl FnOnce(Router) -> Router) -> Result<(), InvalidService> {
        let changed = self.0.change(thread::current().id(), change)?;
        let mut outcome = changed.announce(|earlier, later, publisher| later.created_since(earlier, publisher));
        for notification in changed.notifications {
            outcome = outcome.and(publish_to_all(&changed.publishers, &notification.into()));
        }
        Ok(outcome?)
    }
}

impl Service for SharedRouter {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        self.0.current().serve(incoming)
    }

    fn capabilities(&self) -> Result<Json, InvalidService> {
        self.0.current().routed_capabilities(true)
    }

    fn created(&self, publisher: ServerPublisher) {
        let router = self.0.add(|publishers| publishers.add(publisher.clone()));
        router.created(publisher);
    }

    fn notified(&self, session: SessionKey, notification: Notification) {
        self.0.current().notified(session, notification);
    }

    fn ended(&self, session: SessionKey, reason: CloseReason) {
        self.0.current().ended(session, reason);
    }

    fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) {
        self.0.current().subscribed(uri, publisher);
    }

    fn unsubscribed(&self, uri: Arc<str>) {
        self.0.current().unsubscribed(uri);
    }
}

mcp_application::opaque_debug!(SharedRouter);
