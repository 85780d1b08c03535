//! What a relay reports to the application.

use mcp_proto::auth::Challenged;
use mcp_proto::client::{ClientTransport, CloseReason};
use mcp_proto::{Output, StdioAction};

use crate::relay::{Action, Event, Pins, Relay};

/// Receives what a relay does, for example for a log. Its methods are called one at a time, by the driver of the relay.
pub trait Observer {
    /// The relay reported an event.
    fn event(&mut self, event: &Event);

    /// Stores new pins beside those of other processes, and returns all; `None` if they are not stored.
    fn store_pins(&mut self, pins: &Pins) -> Option<Pins> {
        let _ = pins;
        None
    }

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

/// An output of a relay on which the driver must act, from [`poll_observed`].
#[derive(Debug)]
pub enum ObservedOutput<A> {
    /// Carry out this action.
    Action(Action<A>),
    /// The server demands authorization: obtain it, then call [`Relay::authorize`], or else
    /// [`Relay::refuse_authorization`].
    Challenged(Challenged),
    /// The observer has stored new pins: call [`Relay::handle_pins`] with these.
    PinsStored(Pins),
    /// The relay has ended.
    Closed(CloseReason),
}

/// Takes outputs of a relay up to the next one on which the driver must act, and returns that; `None` if there is none.
/// The observer receives the events among them, and the bytes that are to be written to the client.
///
/// # Example
///
/// ```
/// use mcp_proto::client::{CloseReason, Http, HttpConfig};
/// use mcp_intermediary::{poll_observed, ObservedOutput, Observer};
/// use mcp_intermediary::relay::{Config, Event};
/// use mcp_intermediary::Relay;
/// use mcp_proto::Instant;
///
/// struct Events(Vec<Event>);
///
/// impl Observer for Events {
///     fn event(&mut self, event: &Event) {
///         self.0.push(event.clone());
///     }
/// }
///
/// let mut relay = Relay::new(Http::new(HttpConfig::new("http://localhost/mcp")?), Config::default())?;
/// let mut events = Events(Vec::new());
/// relay.close(Instant::START);
/// let outputs = std::iter::from_fn(|| poll_observed(&mut relay, &mut events));
/// assert!(matches!(outputs.last(), Some(ObservedOutput::Closed(CloseReason::Local))));
/// assert_eq!(events.0.last(), Some(&Event::Closed(CloseReason::Local)));
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
pub fn poll_observed<T: ClientTransport>(
    relay: &mut Relay<T>,
    observer: &mut (impl Observer + ?Sized),
) -> Option<ObservedOutput<T::Action>> {
    loop {
        match relay.poll_output()? {
            Output::Action(action) => {
                if let Action::Client(StdioAction::Write(bytes)) = &action {
                    observer.written(bytes);
                }
                return Some(ObservedOutput::Action(action));
            }
            Output::Event(event) => {
                observer.event(&event);
                if let Event::Closed(reason) = event {
                    return Some(ObservedOutput::Closed(reason));
                }
                if let Event::PinsChanged(pins) = event {
                    return Some(ObservedOutput::PinsStored(observer.store_pins(&pins).unwrap_or(pins)));
                }
                if let Event::Challenged(challenged) = event {
                    return Some(ObservedOutput::Challenged(challenged));
                }
            }
        }
    }
}
