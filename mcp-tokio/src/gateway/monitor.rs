//! What a gateway holds, for the application.

use mcp_proto::Load;
use tokio::sync::{mpsc, oneshot};

use crate::server::HttpService;

/// Reports what a gateway holds, from any task.
#[derive(Debug, Clone)]
pub struct GatewayMonitor {
    asked: mpsc::UnboundedSender<oneshot::Sender<GatewayStatus>>,
}

impl GatewayMonitor {
    pub(super) const fn new(asked: mpsc::UnboundedSender<oneshot::Sender<GatewayStatus>>) -> Self {
        Self { asked }
    }

    /// What the gateway holds now; `None` if all clones of its service were dropped.
    pub async fn status(&self) -> Option<GatewayStatus> {
        let (answer, answered) = oneshot::channel();
        self.asked.send(answer).ok()?;
        answered.await.ok()
    }
}

impl HttpService<GatewayMonitor> {
    /// Returns a handle that reports what the gateway holds while the service runs.
    #[must_use]
    pub fn monitor(&self) -> GatewayMonitor {
        self.handle().clone()
    }
}

/// What a gateway holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayStatus {
    /// Sessions with clients.
    pub sessions: usize,
    /// Backends that were started and have not ended.
    pub backends: usize,
    /// What the machine holds, in which [`Limits`](mcp_proto::Limits) bound each number.
    pub load: Load,
}
