//! Publishes changes to clients, from any thread.

use std::sync::{Arc, Weak};

use mcp_application::{ChangeReceiver, Publisher};
use mcp_proto::UsageError;
use mcp_proto::server::{ChangeNotification, Config};

use super::ServerStopper;
use super::commands::{Command, Commands};

/// Publishes changes to clients, from any thread: see [`Service::subscribed`](super::Service::subscribed).
#[derive(Debug, Clone)]
pub struct ServerPublisher(ChangeReceiver<One, Handle>);

/// The driver of one stream or HTTP service.
#[derive(Debug, Clone)]
struct One {
    commands: Commands,
    /// The configuration of a server that does not run yet.
    unserved: Weak<Config>,
}

/// A stream or an HTTP service of a server.
#[derive(Debug, Clone)]
pub(super) struct Handle {
    pub(super) is_running: Weak<()>,
    pub(super) publisher: ServerPublisher,
    pub(super) stopper: ServerStopper,
}

/// What a server and its clones share.
pub(super) type Running = mcp_application::Running<Handle>;

impl ServerPublisher {
    /// A publisher for a server that runs.
    pub(super) const fn new(commands: Commands) -> Self {
        Self(ChangeReceiver::One(One { commands, unserved: Weak::new() }))
    }

    /// A publisher for a server that runs once this configuration is dropped.
    pub(super) fn of_unserved(commands: Commands, config: &Arc<Config>) -> Self {
        Self(ChangeReceiver::One(One { commands, unserved: Arc::downgrade(config) }))
    }

    pub(super) fn of_all(running: &Arc<Running>) -> Self {
        Self(ChangeReceiver::all(running))
    }

    /// Publishes a change to all clients concerned: `list_changed` of tools, prompts or resources, or
    /// `resources/updated`. Clients without a session and without a subscription are not concerned
    /// ([`HttpConfig::sessions`](mcp_proto::server::HttpConfig::sessions)). Before the server runs, no client is: the
    /// notification is checked and dropped.
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
    pub fn publish(&self, change: impl Into<ChangeNotification>) -> Result<(), UsageError> {
        let change = change.into();
        match &self.0 {
            ChangeReceiver::One(One { commands, unserved }) => match unserved.upgrade() {
                Some(config) => config.check_change(&change),
                None => commands.accepted(|accept| Command::Publish { change, accept }),
            },
            ChangeReceiver::All(running) => publish_over_each(&*running.upgrade().ok_or(UsageError::Closed)?, &change),
        }
    }
}

impl Publisher for ServerPublisher {
    fn is_closed(&self) -> bool {
        self.0.is_closed(|_| false)
    }

    fn check_declared(&self, capability: &'static str) -> Result<(), UsageError> {
        self.0.check_declared(capability)
    }
}

/// Publishes a change over each of the streams and HTTP services.
///
/// # Errors
///
/// [`UsageError`] if it is not a change, or was not declared.
fn publish_over_each(running: &Running, change: &ChangeNotification) -> Result<(), UsageError> {
    running.config().check_change(change)?;
    for Handle { publisher, .. } in running.handles() {
        // One that has ended has no clients.
        let _: Result<(), UsageError> = publisher.publish(change.clone());
    }
    Ok(())
}

/// The publishers of several servers.
pub(crate) type Publishers = mcp_application::Publishers<ServerPublisher>;

/// Publishes a change to the clients of all servers.
///
/// # Errors
///
/// The first error, but it is published to the clients of the other servers. A server that has ended is none.
pub(crate) fn publish_to_all(publishers: &Publishers, change: &ChangeNotification) -> Result<(), UsageError> {
    // Each of them is asked, also after an error.
    let published: Vec<_> = publishers.iter().map(|publisher| publisher.publish(change.clone())).collect();
    Publishers::outcome(published)
}

#[cfg(test)]
mod tests {
    use mcp_proto::Json;

    use super::*;
    use crate::{Incoming, Server};

    fn server() -> Server {
        Server::new(Config::new("s", "1"), |_: &Incoming| Ok(Json::empty_object()))
    }

    #[test]
    fn the_publishers_of_servers_that_have_ended_are_forgotten() {
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
