//! The interface of a connection to the task that owns a machine.

/// A connection: it carries out the machine's actions, and receives input for the machine.
pub(crate) trait Link: Sized + Send + 'static {
    /// An action of the machine.
    type Action: Send;
    /// What the connection receives.
    type Received: Send;

    /// Carries out an action of the machine, or queues it. The machine limits what is queued.
    fn act(&mut self, action: Self::Action);

    /// Waits for something to [feed](Feed::feed) to the machine; it reads only if the machine `wants_input`. Dropping
    /// the future while it waits loses nothing.
    fn receive(&mut self, wants_input: bool) -> impl Future<Output = Self::Received> + Send;

    /// Closes the connection within the time that [`Client::close`](crate::Client::close) documents, whatever the
    /// other side does.
    fn end(self) -> impl Future<Output = ()> + Send;
}

/// A connection of this machine.
pub(crate) trait Feed<M>: Link {
    /// Passes to the machine what has changed besides what is received. This is called before each input of the machine.
    fn catch_up(&mut self, _machine: &mut M) {}

    /// Whether the machine accepts more input from this connection.
    fn wants_input(&self, machine: &M) -> bool;

    /// Passes what was received to the machine.
    fn feed(&mut self, machine: &mut M, received: Self::Received);
}
