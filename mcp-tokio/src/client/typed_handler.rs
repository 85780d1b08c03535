//! Calls the functions for single kinds of requests and notifications of the server.

use std::pin::Pin;
use std::sync::Arc;

use mcp_application::{ClientHandlers, Observation};
use mcp_proto::{ErrorObject, Json, Method, Notification};

use super::Handler;
use super::handler::AnyHandler;

pub(super) type Served<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type OnRequest = Box<dyn Fn(Option<Json>) -> Served<Result<Json, ErrorObject>> + Send + Sync>;
/// Returns `None` if the parameters do not have the form of the method's.
type OnNotification = Box<dyn Fn(Option<&Json>) -> Option<Served<()>> + Send + Sync>;

/// The functions of a [`Builder`](super::Builder).
pub(super) type TypedHandlers = ClientHandlers<OnRequest, OnNotification>;

/// Calls the functions, and the handler for everything else.
pub(super) struct TypedHandler {
    pub(super) typed: TypedHandlers,
    pub(super) rest: Arc<dyn AnyHandler>,
}

impl Handler for TypedHandler {
    async fn notified(&self, notification: Notification) {
        let typed = self.typed.for_notification(&notification.method);
        match typed.and_then(|handler| handler(notification.params.as_ref())) {
            Some(handling) => handling.await,
            None => self.rest.notified(notification).await,
        }
    }

    async fn requested(&self, method: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        match self.typed.for_request(&method, params.as_ref())? {
            Some(handler) => handler(params).await,
            None => self.rest.requested(method, params).await,
        }
    }

    async fn observed(&self, observation: Observation) {
        self.rest.observed(observation).await;
    }
}
