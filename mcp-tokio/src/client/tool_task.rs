//! Calls of tools whose results may be tasks.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mcp_application::{Error, TaskCall};
use mcp_proto::{ErrorObject, Json, Method, UsageError};
use tokio::time::sleep;

use super::Client;
use super::handler::AnyHandler;
use crate::clock::now;
use crate::panics::caught;

/// A call of a tool that the server runs as a task, or has answered at once. Dropping it does not cancel the task.
///
/// # Example
///
/// ```no_run
/// # async fn example(client: mcp_tokio::Client) -> Result<(), mcp_tokio::Error> {
/// let mut call = client.call_tool_as_task("index", ()).await?;
/// println!("{}: {}", call.status().await?, call.message().unwrap_or_default());
/// let result = call.wait().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ToolTask {
    client: Client,
    call: TaskCall,
}

mcp_application::tool_task_methods! {
    asynchronous: [async] [.await],
    repeated: "This may be called again: after it was dropped, after [`Error::Failed`](crate::Error::Failed), or to fetch the same outcome once more while the server keeps it."
}

impl Client {
    fn task_inputs(&self) -> &TaskInputs {
        &self.input
    }

    fn shared_server_name(&self) -> Arc<str> {
        Arc::clone(&self.server)
    }
}

impl ToolTask {
    /// Waits.
    ///
    /// # Errors
    ///
    /// [`UsageError::Closed`] if the client is closed meanwhile.
    async fn pause(&self, time: Duration) -> Result<(), Error> {
        tokio::select! {
            () = sleep(time) => Ok(()),
            () = self.client.commands.closed() => Err(UsageError::Closed.into()),
        }
    }
}

/// What gives the input that tasks require.
pub(super) struct TaskInputs {
    /// The task that owns the machine holds the handler, until it ends.
    handler: Weak<dyn AnyHandler>,
    /// What the client declares.
    capabilities: Json,
}

impl TaskInputs {
    pub(super) const fn new(handler: Weak<dyn AnyHandler>, capabilities: Json) -> Self {
        Self { handler, capabilities }
    }

    /// # Errors
    ///
    /// [`UsageError::Closed`].
    async fn answer(&self, method: Method, params: Option<Json>) -> Result<Result<Json, ErrorObject>, Error> {
        let handler = self.handler.upgrade().ok_or(UsageError::Closed)?;
        let answer = caught(async { handler.requested(method, params).await }).await;
        Ok(answer.unwrap_or_else(|| Err(ErrorObject::internal())))
    }
}

mcp_application::opaque_debug!(TaskInputs);
