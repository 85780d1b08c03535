//! Calls the functions for single kinds of requests and notifications of the server.

use std::sync::Arc;

use mcp_application::{ClientHandlers, Observation};
use mcp_proto::{ErrorObject, Json, Method, Notification};

use super::Handler;

type OnRequest = Box<dyn Fn(Option<Json>) -> Result<Json, ErrorObject> + Send + Sync>;
/// Returns whether the parameters have the form of the method's, so that the notification was handled.
type OnNotification = Box<dyn Fn(Option<&Json>) -> bool + Send + Sync>;

/// The functions of a [`Builder`](super::Builder).
pub(super) type TypedHandlers = ClientHandlers<OnRequest, OnNotification>;

/// Calls the functions, and the handler for everything else.
pub(super) struct TypedHandler {
    pub(super) typed: TypedHandlers,
    pub(super) rest: Arc<dyn Handler>,
}

impl Handler for TypedHandler {
    fn notified(&self, notification: Notification) {
        let typed = self.typed.for_notification(&notification.method);
        if !typed.is_some_and(|handler| handler(notification.params.as_ref())) {
            self.rest.notified(notification);
        }
    }

    fn requested(&self, method: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        match self.typed.for_request(&method, params.as_ref())? {
            Some(handler) => handler(params),
            None => self.rest.requested(method, params),
        }
    }

    fn observed(&self, observation: Observation) {
        self.rest.observed(observation);
    }
}
