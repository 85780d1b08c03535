//! What a server and its clones share: the configuration, and the streams and HTTP services over which they are served.

use std::time::Duration;

use mcp_proto::UsageError;
use mcp_proto::server::ChangeNotification;
use tokio::sync::{mpsc, oneshot};

use super::commands::FinalCommand;

/// Sends commands to the task of one stream or HTTP service, as long as it runs.
#[derive(Debug, Clone)]
pub(super) struct Handle(mpsc::WeakUnboundedSender<FinalCommand>);

/// The stage of a stream or an HTTP service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// Requests in progress are still answered.
    Draining,
    Closed,
}

/// What a server and its clones share.
pub(super) type Running = mcp_application::Running<Handle>;

/// Adds a stream or an HTTP service to what a server and its clones share.
pub(super) fn register(running: &Running, final_commands: &mpsc::UnboundedSender<FinalCommand>) {
    running.add(Handle(final_commands.downgrade()), |handle| handle.final_commands().is_some());
}

/// Publishes a change over each of the streams and HTTP services.
///
/// # Errors
///
/// [`UsageError`] if it is not a change, or was not declared.
pub(super) async fn publish_over_each(running: &Running, change: &ChangeNotification) -> Result<(), UsageError> {
    running.config().check_change(change)?;
    let running: Vec<_> = running.handles().iter().filter_map(Handle::final_commands).collect();
    let published: Vec<_> = running.iter().map(|running| publish(running, change.clone())).collect();
    for accepted in published {
        // One that has ended meanwhile has no clients.
        let _ = accepted.await;
    }
    Ok(())
}

/// Drains all streams and HTTP services at the same time. Returns the number of requests that were cancelled.
pub(super) async fn drain(running: &Running, timeout: Duration) -> usize {
    let draining: Vec<_> = running.handles().iter().map(|handle| handle.begin_to_drain(timeout)).collect();
    let mut cancelled = 0;
    for drained in draining {
        cancelled += drained.await.unwrap_or(0);
    }
    cancelled
}

impl Handle {
    /// Where its commands are sent; `None` if its task has ended, although a publisher of it may exist.
    fn final_commands(&self) -> Option<mpsc::UnboundedSender<FinalCommand>> {
        self.0.upgrade().filter(|final_commands| !final_commands.is_closed())
    }

    fn begin_to_drain(&self, timeout: Duration) -> oneshot::Receiver<usize> {
        let (done, drained) = oneshot::channel();
        if let Some(final_commands) = self.final_commands() {
            let _ = final_commands.send(FinalCommand::Drain { timeout, done });
        }
        drained
    }
}

/// Sends a change to the task of a stream or an HTTP service. The result is an error if the task has ended.
pub(super) fn publish(
    to: &mpsc::UnboundedSender<FinalCommand>,
    change: ChangeNotification,
) -> oneshot::Receiver<Result<(), UsageError>> {
    let (accept, accepted) = oneshot::channel();
    let _ = to.send(FinalCommand::Publish { change, accept });
    accepted
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use mcp_model::{ServerCapabilities, ToolsCapability};
    use mcp_proto::Notification;
    use mcp_proto::server::Config;

    use super::*;

    #[test]
    fn what_has_ended_is_forgotten_although_a_publisher_of_it_is_kept() {
        let running = Running::new(Config::new("s", "1"));
        let (kept, _received) = mpsc::unbounded_channel();
        register(&running, &kept);
        let mut publishers = Vec::new();
        for _ in 0..10 {
            let (ended, _) = mpsc::unbounded_channel();
            register(&running, &ended);
            publishers.push(ended);
            assert_eq!(running.handles().len(), 2);
        }
    }

    #[test]
    fn a_change_is_published_once_every_stream_has_accepted_it() {
        let capabilities = ServerCapabilities::new().tools(ToolsCapability::new().list_changed(true));
        let running = Running::new(Config::new("s", "1").capabilities(capabilities));
        let mut streams: Vec<_> = (0..3).map(|_| mpsc::unbounded_channel()).collect();
        for (final_commands, _) in &streams {
            register(&running, final_commands);
        }
        let change = Notification::new("notifications/tools/list_changed").into();
        let mut publishing = pin!(publish_over_each(&running, &change));
        let mut context = Context::from_waker(Waker::noop());
        for (_, received) in &mut streams {
            assert_eq!(publishing.as_mut().poll(&mut context), Poll::Pending);
            let Ok(FinalCommand::Publish { accept, .. }) = received.try_recv() else { panic!("no change") };
            accept.send(Ok(())).unwrap();
        }
        assert_eq!(publishing.poll(&mut context), Poll::Ready(Ok(())));
    }
}
