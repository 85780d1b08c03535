//! The streams and HTTP services over which a server and its clones are served.

use std::sync::Arc;
use std::time::Duration;

use super::ServerStopper;
use super::publisher::{Handle, Running, ServerPublisher};

/// What one stream or HTTP service keeps until it ends.
#[derive(Debug)]
pub(super) struct Registration {
    /// Publishers reach the server as long as it runs.
    _running: Arc<Running>,
    is_running: Arc<()>,
}

impl Registration {
    /// Adds a stream or an HTTP service, which keeps the returned value, to what a server and its clones share.
    pub(super) fn new(running: &Arc<Running>, publisher: ServerPublisher, stopper: ServerStopper) -> Self {
        let registration = Self { _running: Arc::clone(running), is_running: Arc::default() };
        let is_running = Arc::downgrade(&registration.is_running);
        running.add(Handle { is_running, publisher, stopper }, |handle| handle.is_running.strong_count() > 0);
        registration
    }
}

/// Drains all streams and HTTP services at the same time.
pub(super) fn shutdown(running: &Running, timeout: Duration) {
    for Handle { stopper, .. } in running.handles() {
        stopper.shutdown(timeout);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use mcp_proto::server::Config;

    use super::*;
    use crate::server::commands::{Commands, Input};

    #[test]
    fn what_has_ended_is_forgotten_although_a_publisher_of_it_is_kept() {
        let running = Arc::new(Running::new(Config::new("s", "1")));
        let (inbox, _inputs) = sync_channel::<Input<()>>(1);
        let publisher = ServerPublisher::new(Commands::to(inbox.clone()));
        let add = || Registration::new(&running, publisher.clone(), ServerStopper::new(Commands::to(inbox.clone())));
        let _kept = add();
        for _ in 0..10 {
            drop(add());
            assert_eq!(running.handles().len(), 2);
        }
    }
}
