//! Calls of tools whose results may be tasks.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use mcp_application::{Error, TaskCall};
use mcp_proto::client::Call;
use mcp_proto::{ErrorObject, Json, Method, UsageError};

use super::handlers::catch_panic;
use super::{Client, Handler, InFlight};
use crate::clock::now;

/// How long a pause continues at most after the client was closed.
const NOTICE: Duration = Duration::from_millis(200);

/// A call of a tool that the server runs as a task, or has answered at once. Dropping it does not cancel the task.
///
/// # Example
///
/// ```no_run
/// # fn example(client: mcp_blocking::Client) -> Result<(), mcp_blocking::Error> {
/// let mut call = client.call_tool_as_task("index", ())?;
/// println!("{}: {}", call.status()?, call.message().unwrap_or_default());
/// let result = call.wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ToolTask {
    client: Client,
    call: TaskCall,
}

mcp_application::tool_task_methods! {
    asynchronous: [] [],
    repeated: "This may be called again: after [`Error::Failed`](crate::Error::Failed), or to fetch the same outcome once more while the server keeps it."
}

impl Client {
    fn task_inputs(&self) -> &TaskInputs {
        &self.shared.input
    }

    fn shared_server_name(&self) -> Arc<str> {
        Arc::clone(&self.shared.server)
    }

    fn complete_call(&self, call: Call) -> Result<Json, Error> {
        self.call(call).and_then(InFlight::wait)
    }
}

impl ToolTask {
    fn pause(&self, time: Duration) -> Result<(), Error> {
        self.client.shared.input.pause(time)
    }
}

/// What gives the input that tasks require.
pub(super) struct TaskInputs {
    /// The thread that owns the machine holds the handler, until it ends.
    handler: Weak<dyn Handler>,
    /// What the client declares.
    capabilities: Json,
}

impl TaskInputs {
    pub(super) const fn new(handler: Weak<dyn Handler>, capabilities: Json) -> Self {
        Self { handler, capabilities }
    }

    /// Waits.
    ///
    /// # Errors
    ///
    /// [`UsageError::Closed`] if the client is closed meanwhile.
    fn pause(&self, time: Duration) -> Result<(), Error> {
        let mut left = time;
        while !left.is_zero() {
            if self.handler.strong_count() == 0 {
                return Err(UsageError::Closed.into());
            }
            let next = left.min(NOTICE);
            thread::sleep(next);
            left = left.saturating_sub(next);
        }
        Ok(())
    }

    /// # Errors
    ///
    /// [`UsageError::Closed`].
    fn answer(&self, method: Method, params: Option<Json>) -> Result<Result<Json, ErrorObject>, Error> {
        let handler = self.handler.upgrade().ok_or(UsageError::Closed)?;
        let answer = catch_panic(|| handler.requested(method, params));
        Ok(answer.unwrap_or_else(|| Err(ErrorObject::internal())))
    }
}

mcp_application::opaque_debug!(TaskInputs);
