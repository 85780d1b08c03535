//! What carries out what a machine asks for on the server's side, and hands in what comes of it.

use std::process::ExitStatus;
use std::time::Duration;

use mcp_proto::Instant;

/// The way to a server: over HTTP ([`Pool`](crate::http_client::Pool)), or to a process of its own
/// ([`Child`](crate::child::Child)).
pub(crate) trait Link {
    /// What a machine asks for.
    type Action;
    /// What the threads of the link put into the driver's inbox.
    type Received;

    /// Carries an action out. What is to be written is queued: this waits for no peer, and refuses nothing.
    fn act(&mut self, action: Self::Action);

    /// How long the driver may wait before the machine has to be fed, whether something was received or not. While the
    /// machine `is_stalled`, something is received once the server has taken more of what was written.
    fn patience(&self, is_stalled: bool, now: Instant) -> Duration;

    /// Ends what is left of the server, once the machine is closed. `pause` waits for something to be received, but not
    /// longer than it is told, and says whether the end is urgent. Returns how the server's process ended, if it did so
    /// before it was to.
    fn end(&mut self, pause: &mut dyn FnMut(Duration) -> bool) -> Option<ExitStatus>;
}

/// A link that feeds this machine.
pub(crate) trait Feed<M>: Link {
    /// Reports to the machine what nothing was received about. Called whenever the driver has waited.
    fn catch_up(&mut self, machine: &mut M, now: Instant);

    /// Hands what was received to the machine.
    fn feed(&mut self, machine: &mut M, received: Self::Received, now: Instant);
}
