//! What a machine holds at one time.

use std::fmt;
use std::ops::Add;

/// What a machine currently holds. [`Limits`](super::Limits) bounds each number, and [`Ceilings`](crate::Ceilings)
/// computes the most memory that all of it can take.
///
/// # Example: an answered call holds nothing
///
/// ```
/// use mcp_proto::server::{Config, Event, Server};
/// use mcp_proto::{Instant, Json, Output, Stdio};
///
/// let now = Instant::START;
/// let mut server = Server::new(Stdio::new(), Config::new("my-tools", "1.0.0"))?;
/// server.handle_bytes(
///     br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}
/// {"jsonrpc":"2.0","id":1,"method":"tools/list"}
/// "#,
///     now,
/// );
/// assert_eq!(server.load().requests_in, 1);
/// while let Some(output) = server.poll_output() {
///     if let Output::Event(Event::Requested { ticket, .. }) = output {
///         server.respond(ticket, Ok(Json::empty_object()), now)?;
///     }
/// }
/// assert_eq!(server.load().requests_in, 0);
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Load {
    /// Sessions with clients.
    pub sessions: usize,
    /// Requests of the peer that are not answered.
    pub requests_in: usize,
    /// Requests of this side that have no outcome, including those that the machine itself makes.
    pub requests_out: usize,
    /// Subscriptions that are open or are being opened: `subscriptions/listen` and resources.
    pub subscriptions: usize,
    /// HTTP exchanges.
    pub exchanges: usize,
    /// Exchanges of a server that stay open as streams: those that clients opened by GET, and those of
    /// `subscriptions/listen`.
    pub streams: usize,
    /// Messages that wait until they can be sent: for the handshake, an exchange, or another attempt.
    pub waiting: usize,
    /// Bytes of incomplete messages, unanswered requests and waiting messages.
    pub held: usize,
    /// Bytes that were passed to the driver to write and were not reported as written.
    pub unwritten: usize,
    /// Bytes of events that are kept for streams that may be resumed.
    pub replay: usize,
    /// Timers that are set.
    pub timers: usize,
}

impl Add for Load {
    type Output = Self;

    /// The sum of what two machines hold.
    fn add(self, other: Self) -> Self {
        Self {
            sessions: self.sessions + other.sessions,
            requests_in: self.requests_in + other.requests_in,
            requests_out: self.requests_out + other.requests_out,
            subscriptions: self.subscriptions + other.subscriptions,
            exchanges: self.exchanges + other.exchanges,
            streams: self.streams + other.streams,
            waiting: self.waiting + other.waiting,
            held: self.held + other.held,
            unwritten: self.unwritten + other.unwritten,
            replay: self.replay + other.replay,
            timers: self.timers + other.timers,
        }
    }
}

/// The numbers that are not zero, as text.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.sessions, "sessions"),
            (self.requests_in, "requests of the peer"),
            (self.requests_out, "requests of this side"),
            (self.subscriptions, "subscriptions"),
            (self.exchanges, "exchanges"),
            (self.streams, "streams"),
            (self.waiting, "messages that wait"),
            (self.held, "bytes held"),
            (self.unwritten, "bytes unwritten"),
            (self.replay, "bytes kept for replay"),
            (self.timers, "timers"),
        ];
        let mut is_first = true;
        for (count, what) in parts.into_iter().filter(|(count, _)| *count > 0) {
            if !std::mem::replace(&mut is_first, false) {
                f.write_str(", ")?;
            }
            write!(f, "{count} {what}")?;
        }
        if is_first { f.write_str("nothing") } else { Ok(()) }
    }
}
