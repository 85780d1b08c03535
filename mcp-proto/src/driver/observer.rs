//! What the application sees of a relay.

use crate::relay::Event;

/// Observes what a relay does, for example for a log. Its methods are called one at a time.
pub trait Observer {
    /// The relay reported an event.
    fn event(&mut self, event: &Event);

    /// Bytes were received from the client.
    fn received(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// Bytes are about to be written to the client.
    fn written(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }
}

/// An observer that ignores everything.
impl Observer for () {
    fn event(&mut self, _: &Event) {}
}
