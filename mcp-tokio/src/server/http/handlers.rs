//! The handlers of a server, as what is behind its machine.

use std::time::Duration;

use mcp_proto::server::{Http, HttpAction, Server};
use mcp_proto::{Instant, Output};
use tokio::sync::oneshot;

use super::application::Application;
use crate::server::commands::{Command, FinalCommand};
use crate::server::requests::{Accepted, Commands, Requests};

/// The machine of a server, and its handlers.
pub(in crate::server) struct Handlers {
    machine: Server<Http>,
    requests: Requests,
    commands: Commands,
}

/// A command of a handler.
pub(crate) enum Commanded {
    Final(FinalCommand),
    Ordinary(Command),
}

impl Handlers {
    pub(in crate::server) const fn new(machine: Server<Http>, requests: Requests, commands: Commands) -> Self {
        Self { machine, requests, commands }
    }
}

impl Application for Handlers {
    type Machine = Server<Http>;
    type Happened = Commanded;

    fn machine(&self) -> &Server<Http> {
        &self.machine
    }

    fn machine_mut(&mut self) -> &mut Server<Http> {
        &mut self.machine
    }

    async fn happened(&mut self) -> Commanded {
        tokio::select! {
            Some(command) = self.commands.final_commands.recv() => Commanded::Final(command),
            Some(command) = self.commands.commands.recv() => Commanded::Ordinary(command),
            // The requests have senders themselves, so that this does not occur.
            else => std::future::pending().await,
        }
    }

    fn handle(&mut self, commanded: Commanded, now: Instant) -> Option<Accepted> {
        match commanded {
            Commanded::Final(command) => {
                self.requests.on_final_command(command, &mut self.machine, now);
                None
            }
            Commanded::Ordinary(command) => Some(self.requests.on_command(command, &mut self.machine, now)),
        }
    }

    fn poll_action(&mut self) -> Option<HttpAction> {
        loop {
            match self.machine.poll_output()? {
                Output::Action(action) => return Some(action),
                Output::Event(event) => self.requests.on_event(event, &mut self.machine),
            }
        }
    }

    fn limit_to_connections(&mut self, connections: usize) {
        self.machine.limit_to_connections(connections);
    }

    fn drain(&mut self, timeout: Duration, done: oneshot::Sender<usize>, now: Instant) {
        self.requests.on_final_command(FinalCommand::Drain { timeout, done }, &mut self.machine, now);
    }

    /// The handlers are aborted, and nothing else runs.
    fn on_closed(&mut self, done: oneshot::Sender<()>) {
        let _ = done.send(());
    }

    fn on_settled(&mut self) {
        self.requests.report_subscriptions(&mut self.machine);
    }

    fn on_dropped(&mut self) {
        self.requests.report_end(&mut self.machine);
    }
}
