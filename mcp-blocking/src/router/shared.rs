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

mcp_application::shared_router! { asynchronous: [] [], incoming: &Incoming, caller: thread::current().id() }
