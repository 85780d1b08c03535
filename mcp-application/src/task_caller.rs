//! The client of a tool that may take long, and the sender of its call.

use std::fmt;
use std::sync::Arc;

use http::Extensions;
use mcp_proto::server::{Principal, TaskId};

/// How the client of a tool that may take long gets the result. `I` is the driver's request, and `R` what runs its tasks.
pub enum TaskCaller<I, R> {
    /// It waits for the result.
    Waits(I),
    /// It fetches the result later.
    Fetches {
        /// What runs the task.
        runner: Arc<R>,
        /// The task.
        id: TaskId,
    },
}

impl<I, R> fmt::Debug for TaskCaller<I, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waits(_) => "Waits",
            Self::Fetches { .. } => "Fetches",
        })
    }
}

/// The sender of a call, which the function of a task knows also after the request was answered.
#[derive(Debug, Clone)]
pub struct CallSender {
    pub(crate) principal: Option<Principal>,
    pub(crate) extensions: Extensions,
}

impl CallSender {
    /// The authenticated sender of the call.
    #[must_use]
    pub const fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// The extensions of the HTTP request that contained the call.
    #[must_use]
    pub const fn extensions(&self) -> &Extensions {
        &self.extensions
    }
}
