//! Publishes changes to clients, from any task.

use std::sync::Arc;

use mcp_application::{ChangeReceiver, Publisher};
use mcp_proto::UsageError;
use mcp_proto::server::ChangeNotification;
use tokio::sync::mpsc;

use super::commands::FinalCommand;
use super::running::{Handle, Running, publish, publish_over_each};

/// Publishes changes to clients, from any task: see [`Service::subscribed`](super::Service::subscribed).
#[derive(Debug, Clone)]
pub struct ServerPublisher(ChangeReceiver<mpsc::UnboundedSender<FinalCommand>, Handle>);

impl ServerPublisher {
    pub(super) const fn of(final_commands: mpsc::UnboundedSender<FinalCommand>) -> Self {
        Self(ChangeReceiver::One(final_commands))
    }

    pub(super) fn of_all(running: &Arc<Running>) -> Self {
        Self(ChangeReceiver::all(running))
    }

    /// Publishes a change to all clients concerned: `list_changed` of tools, prompts or resources, or
    /// `resources/updated`. Clients without a session and without a subscription are not concerned
    /// ([`HttpConfig::sessions`](mcp_proto::server::HttpConfig::sessions)).
    ///
    /// It does not wait until clients read. For one that does not, at most
    /// [`Limits::unwritten`](mcp_proto::Limits::unwritten) bytes are queued: then further changes are dropped, and over
    /// HTTP its stream is broken off.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it is another notification, or if the server's capabilities do not declare it.
    /// [`UsageError::Closed`] if the stream or the HTTP service to which the publisher belongs has ended; that of
    /// [`Server::publisher`](super::Server::publisher) belongs to the server, all of its clones, streams and HTTP
    /// services.
    pub async fn publish(&self, change: impl Into<ChangeNotification>) -> Result<(), UsageError> {
        let change = change.into();
        match &self.0 {
            ChangeReceiver::One(final_commands) => {
                publish(final_commands, change).await.map_err(|_| UsageError::Closed)?
            }
            ChangeReceiver::All(running) => {
                publish_over_each(&*running.upgrade().ok_or(UsageError::Closed)?, &change).await
            }
        }
    }
}

impl Publisher for ServerPublisher {
    fn is_closed(&self) -> bool {
        self.0.is_closed(mpsc::UnboundedSender::is_closed)
    }

    fn check_declared(&self, capability: &'static str) -> Result<(), UsageError> {
        self.0.check_declared(capability)
    }
}

/// The publishers of several servers.
pub(crate) type Publishers = mcp_application::Publishers<ServerPublisher>;

/// Publishes a change to the clients of all servers.
///
/// # Errors
///
/// The first error, but it is published to the clients of the other servers. A server that has ended is none.
pub(crate) async fn publish_to_all(publishers: &Publishers, change: &ChangeNotification) -> Result<(), UsageError> {
    let mut published = Vec::new();
    for publisher in publishers.iter() {
        published.push(publisher.publish(change.clone()).await);
    }
    Publishers::outcome(published)
}

#[cfg(test)]
mod tests {
    use mcp_proto::server::Config;
    use mcp_proto::{ErrorObject, Json};

    use super::*;
    use crate::{Incoming, Server};

    fn server() -> Server {
        Server::new(Config::new("s", "1"), async |_: Incoming| Ok::<_, ErrorObject>(Json::empty_object()))
    }

    #[tokio::test]
    async fn the_publishers_of_servers_that_have_ended_are_forgotten() {
        let mut publishers = Publishers::default();
        let kept = server();
        publishers.add(kept.publisher());
        for _ in 0..10 {
            publishers.add(server().publisher());
            assert_eq!(publishers.iter().count(), 2);
        }
        let clone = kept.clone();
        drop(kept);
        publishers.add(clone.publisher());
        assert_eq!(publishers.iter().count(), 2, "a clone is the same server");
    }
}
