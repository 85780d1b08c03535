//! Calls of tools whose results may be tasks.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use mcp_application::{Error, TaskCall, TaskStep, tool_call};
use mcp_model::{CallToolResult, TaskStatus};
use mcp_proto::{ErrorObject, Json, Method, UsageError};
use serde::Serialize;

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

impl Client {
    /// Calls a tool, and permits the server to run the call as a task (the extension `io.modelcontextprotocol/tasks` of
    /// 2026-07-28): the result is fetched later, and the call may take longer than a request. The extension is declared
    /// for this call only. `arguments` is as for [`Client::call_tool`].
    ///
    /// Servers without the extension, and those of older revisions, answer at once. The tasks of 2025-11-25 were
    /// experimental, and are not supported.
    ///
    /// # Errors
    ///
    /// As for [`Client::call_tool`].
    pub fn call_tool_as_task(&self, name: &str, arguments: impl Serialize) -> Result<ToolTask, Error> {
        let result = self.call(TaskCall::request(&tool_call(name, arguments)?))?.wait()?;
        let (server, capabilities) = (Arc::clone(&self.shared.server), self.shared.input.capabilities.clone());
        Ok(ToolTask { client: self.clone(), call: TaskCall::new(&result, server, capabilities)? })
    }
}

impl ToolTask {
    /// Waits for the outcome of the call, and asks for it as often as the server demands, but at least once in a minute,
    /// and at most ten times in a second. The input that the task requires is given by the functions and the [`Handler`]
    /// of the client, on this thread; if they refuse, the task is cancelled.
    ///
    /// This may be called again: after [`Error::Failed`], or to fetch the same outcome once more while the server keeps it.
    ///
    /// # Errors
    ///
    /// As for [`Client::call_tool`], and [`Error::TaskEnded`].
    pub fn wait(&mut self) -> Result<CallToolResult, Error> {
        loop {
            match self.call.next_step(now()) {
                TaskStep::Wait(time) => self.client.shared.input.pause(time)?,
                TaskStep::Request(call) => {
                    let outcome = self.client.call(call).and_then(InFlight::wait);
                    self.call.handle(outcome);
                }
                TaskStep::Ask { method, params } => {
                    let answer = self.client.shared.input.answer(method, params)?;
                    self.call.answer(answer);
                }
                TaskStep::Report(fault) => self.client.report(fault),
                TaskStep::Done(outcome) => return outcome,
            }
        }
    }

    /// Asks the server for the status.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub fn status(&mut self) -> Result<TaskStatus, Error> {
        if let Some(call) = self.call.status_request() {
            let result: Json = self.client.call(call)?.wait()?;
            self.call.on_status(&result)?;
        }
        Ok(self.call.status().clone())
    }

    /// Cancels the task. This does nothing if the server has answered without one, or the task has ended.
    ///
    /// # Errors
    ///
    /// As for [`Client::request`].
    pub fn cancel(&self) -> Result<(), Error> {
        let Some(call) = self.call.cancellation() else { return Ok(()) };
        let _: Json = self.client.call(call)?.wait()?;
        Ok(())
    }

    /// The id of the task; `None` if the server has answered without one. With it, everyone may fetch the result, unless
    /// clients are authenticated.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.call.id()
    }

    /// The text about what the tool is doing, as the server has last stated it.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.call.message()
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
