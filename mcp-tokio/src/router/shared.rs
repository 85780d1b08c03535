//! A router whose functions change while the server runs.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use mcp_application::router::SharedRoutes;

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
/// use mcp_tokio::model::{JsonObject, Tool};
/// use mcp_tokio::{Incoming, SharedRouter};
///
/// async fn add(router: &SharedRouter) -> Result<(), mcp_tokio::application::InvalidService> {
///     let tool = Tool::without_arguments("hello");
///     router.change(|router| router.tool_with_schema(&tool, |_: JsonObject, _: Incoming| async { Ok("Hello!") })).await
/// }
/// ```
#[derive(Clone)]
pub struct SharedRouter(Arc<SharedRoutes<Router, Publishers, ThreadId>>);

mcp_application::shared_router! { asynchronous: [async] [.await], incoming: Incoming, caller: thread::current().id() }
