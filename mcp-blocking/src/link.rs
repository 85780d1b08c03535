//! The interface through which a client or a proxy carries out a machine's actions towards a server, and receives
//! input.

use std::time::Duration;

use mcp_proto::Instant;

/// A connection to a server: over HTTP ([`Pool`](crate::http_client::Pool)), or to a child process
/// ([`Child`](crate::child::Child)).
pub(crate) trait Link {
    /// An action of the machine.
    type Action;
    /// What the threads of the link send to the driver's inbox.
    type Received;

    /// Carries an action out. What is to be written is queued: this never waits for a peer, and refuses nothing.
    fn act(&mut self, action: Self::Action);

    /// How long the driver may wait before it calls [`Feed::catch_up`], whether something was received or not. While
    /// the machine `is_stalled`, the link sends to the inbox once the server has taken more of what was written.
    fn max_wait(&self, is_stalled: bool, now: Instant) -> Duration;

    /// Ends the connection, and the server's process if there is one, once the machine is closed. `pause` waits for
    /// something to be received, but no longer than its argument, and returns whether the end is urgent.
    fn end(&mut self, pause: &mut dyn FnMut(Duration) -> bool);
}

/// A link that passes input to this machine.
pub(crate) trait Feed<M>: Link {
    /// Reports to the machine what changed without a message in the inbox. Called whenever the driver has waited.
    fn catch_up(&mut self, machine: &mut M, now: Instant);

    /// Passes what was received to the machine.
    fn feed(&mut self, machine: &mut M, received: Self::Received, now: Instant);
}
