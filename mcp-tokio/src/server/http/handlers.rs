//! The handlers of a server, as what is behind its machine.

use std::time::Duration;

use mcp_proto::server::{Event, Http, HttpAction, Server};
use mcp_proto::{Instant, Output};
use tokio::sync::oneshot;

use super::application::Application;
use crate::server::commands::{Command, FinalCommand};
use crate::server::requests::{Accepted, Commands, Requests};
use crate::store::{FromStore, StoreLink};

/// The machine of a server, its handlers, and the store of its sessions.
pub(in crate::server) struct Handlers {
    machine: Server<Http>,
    requests: Requests,
    commands: Commands,
    store: Option<StoreLink>,
    ending: Ending,
}

/// What is reported when everything is in the store.
#[derive(Default)]
struct Ending {
    drained: Option<Event>,
    closing: Vec<oneshot::Sender<()>>,
    is_flushing: bool,
}

/// A command of a handler, or something from the store.
pub(crate) enum Commanded {
    Final(FinalCommand),
    Ordinary(Command),
    Store(FromStore),
}

impl Handlers {
    pub(in crate::server) fn new(
        machine: Server<Http>,
        requests: Requests,
        commands: Commands,
        store: Option<StoreLink>,
    ) -> Self {
        Self { machine, requests, commands, store, ending: Ending::default() }
    }

    fn on_stored(&mut self, stored: FromStore, now: Instant) {
        match stored {
            FromStore::Stored(key, result) => self.machine.handle_stored(key, result, now),
            FromStore::Message(message) => self.machine.handle_message(&message, now),
            FromStore::Flushed => {
                let Ending { drained, closing, .. } = std::mem::take(&mut self.ending);
                if let Some(drained) = drained {
                    self.requests.on_event(drained, &mut self.machine);
                }
                for done in closing {
                    let _ = done.send(());
                }
            }
        }
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
        let stored = async {
            match &mut self.store {
                Some(store) => store.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            stored = stored => Commanded::Store(stored),
            Some(command) = self.commands.final_commands.recv() => Commanded::Final(command),
            Some(command) = self.commands.commands.recv() => Commanded::Ordinary(command),
        }
    }

    fn handle(&mut self, commanded: Commanded, now: Instant) -> Option<Accepted> {
        match commanded {
            Commanded::Final(command) => {
                self.requests.on_final_command(command, &mut self.machine, now);
                None
            }
            Commanded::Ordinary(command) => Some(self.requests.on_command(command, &mut self.machine, now)),
            Commanded::Store(stored) => {
                self.on_stored(stored, now);
                None
            }
        }
    }

    fn poll_action(&mut self) -> Option<HttpAction> {
        loop {
            match self.machine.poll_output()? {
                Output::Action(HttpAction::Store(action)) => {
                    if let Some(store) = &self.store {
                        store.carry_out(action);
                    }
                }
                Output::Action(action) => return Some(action),
                Output::Event(event @ Event::Drained { .. }) if self.store.is_some() => {
                    self.ending.drained = Some(event);
                }
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

    /// The handlers are aborted, and nothing else runs but what the store is still to do.
    fn on_closed(&mut self, done: oneshot::Sender<()>) {
        if self.store.is_some() {
            self.ending.closing.push(done);
        } else {
            let _ = done.send(());
        }
    }

    fn on_settled(&mut self) {
        let Ending { drained, closing, is_flushing } = &mut self.ending;
        let has_ended = drained.is_some() || !closing.is_empty();
        if let (Some(store), true, false) = (&mut self.store, has_ended, *is_flushing) {
            store.flush();
            *is_flushing = true;
        }
        self.requests.report_subscriptions(&mut self.machine);
    }

    fn on_dropped(&mut self) {
        self.requests.report_end(&mut self.machine);
    }
}
