//! The sums that follow from `Limits`.

use std::fmt;

use super::Limits;
use crate::server::HttpConfig;

/// What one entry of a table or of a queue takes beside the bytes that it carries.
const ENTRY: usize = 1024;
/// A request that ended and whose answer may still come.
const TOMBSTONE: usize = 128;
/// How many times its size a chunk of the smallest messages can become as output.
const OUTPUT_OF_CHUNK: usize = 16;
/// A session of which nothing is under way.
const SESSION: usize = 2 * 1024;
/// What a session remembers of its client, and of what that subscribed to.
const REMEMBERED: usize = 144 * 1024;
/// An open `subscriptions/listen`.
const SUBSCRIPTION: usize = 160 * 1024;
/// A message that is kept although there is no room for more, in the frame that it came in.
const SMALL: usize = 2 * Limits::SMALL;
/// How many times its size a buffer can be that is still being filled.
const GROWTH: usize = 4;
/// What a relay asks the server by itself.
const OWN: usize = 1024 * 1024;

/// What a driver hands in at once, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intake {
    /// Bytes of a chunk.
    pub chunk: usize,
    /// Bytes of heap that the head of one HTTP request takes: a server keeps it until the request is answered.
    pub head: usize,
    /// HTTP requests that a server is sent or answers at one time: one for each connection.
    pub exchanges: usize,
}

/// The most bytes of heap that each machine can be made to hold by its peer: the formula of [`Limits`] in figures.
///
/// Counted are live bytes as an allocator sees them. A buffer that grows is moved, so that for a moment the old one
/// counts as well, and it is made up to four times as large as what is in it; many allocators move large buffers without
/// a copy, memory that was not written to is none yet, and so the resident memory stays smaller.
///
/// # Example: a client that must do with 4 MiB
///
/// ```
/// use mcp_proto::server::HttpConfig;
/// use mcp_proto::{Ceilings, Intake, Limits};
///
/// let mut limits = Limits::default();
/// limits.message = 256 * 1024;
/// (limits.queue_bytes, limits.unwritten, limits.held) = (128 * 1024, 256 * 1024, 256 * 1024);
/// (limits.queue, limits.requests_in, limits.requests_out) = (64, 16, 64);
/// let intake = Intake { chunk: 16 * 1024, head: 8 * 1024, exchanges: 16 };
/// let ceilings = Ceilings::new(&limits, &HttpConfig::new(), intake);
/// assert!(ceilings.client_over_stdio < 5 << 20);
/// println!("{ceilings}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ceilings {
    /// A `Client<Stdio>`.
    pub client_over_stdio: usize,
    /// A `Client<client::Http>`.
    pub client_over_http: usize,
    /// A `Server<Stdio>`.
    pub server_over_stdio: usize,
    /// A `Server<server::Http>`.
    pub server_over_http: usize,
    /// A `Relay<Stdio>`.
    pub relay_over_stdio: usize,
    /// A `Relay<client::Http>`.
    pub relay_over_http: usize,
}

impl Ceilings {
    /// The ceilings of machines with these limits.
    #[must_use]
    pub const fn new(limits: &Limits, http: &HttpConfig, intake: Intake) -> Self {
        let sum = Sum::new(limits, intake);
        let stdio = sum
            .reading()
            .plus(sum.queue)
            .plus(sum.requests)
            .plus(sum.unwritten)
            .plus(sum.asked())
            .plus(sum.small)
            .plus(sum.answers());
        let server_over_stdio = stdio.plus(sum.subscriptions);
        let client_over_http = sum
            .reading()
            .plus(sum.queue)
            .plus(sum.backlog())
            .plus(sum.requests)
            .plus(sum.asked())
            .plus(sum.small)
            .plus(sum.answers())
            .plus(sum.arriving())
            .plus(Bytes(limits.tool_headers))
            .plus(Bytes(limits.session_settings).times(2));
        let session = Bytes(SESSION + REMEMBERED).plus(sum.own).plus(Bytes(http.replay).times(2));
        let server_over_http = sum
            .reading()
            .plus(sum.queue)
            // From the first byte until the answer, and then answers of batches, put together.
            .plus(sum.held.times(GROWTH))
            .plus(sum.held)
            // What clients do not take.
            .plus(sum.held)
            .plus(Bytes(SMALL).times(2).times(intake.exchanges))
            .plus(session.times(http.max_sessions))
            .plus(sum.request_with_head.times(limits.requests_in_total))
            .plus(sum.subscriptions);
        let relay = server_over_stdio.plus(sum.queue).plus(sum.bridge()).plus(Bytes(limits.session_settings));
        Self {
            client_over_stdio: stdio.0,
            client_over_http: client_over_http.0,
            server_over_stdio: server_over_stdio.0,
            server_over_http: server_over_http.0,
            relay_over_stdio: relay.plus(stdio).0,
            relay_over_http: relay.plus(client_over_http).0,
        }
    }
}

/// Bytes that do not overflow.
#[derive(Clone, Copy)]
struct Bytes(usize);

impl Bytes {
    const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    const fn or_less(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }

    const fn times(self, count: usize) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

/// The terms of the formula.
struct Sum {
    message: Bytes,
    /// The larger of a message and of an event.
    body: Bytes,
    chunk: Bytes,
    queue: Bytes,
    queue_bytes: Bytes,
    /// What a peer that reads nothing is to be sent.
    unwritten: Bytes,
    /// What is kept because something of it is still to come; one message beyond the limit may be taken.
    held: Bytes,
    /// Small messages that are kept in any case, one for each request of the peer.
    small: Bytes,
    /// Of a client over HTTP, all exchanges with answers that are as large as they may be, and without.
    exchanges_in_full: Bytes,
    exchanges: Bytes,
    requests: Bytes,
    /// Requests to the peer, and those that ended before their answers.
    own: Bytes,
    /// A request of a client over HTTP.
    request_with_head: Bytes,
    subscriptions: Bytes,
}

impl Sum {
    const fn new(limits: &Limits, intake: Intake) -> Self {
        let body = Bytes(if limits.message > limits.event { limits.message } else { limits.event });
        let entry = Bytes(ENTRY).plus(Bytes(limits.id));
        let tombstones = Bytes(TOMBSTONE).times(limits.tombstones);
        let own = entry.times(limits.requests_out).plus(tombstones);
        let exchange = Bytes(ENTRY + SMALL).plus(Bytes(limits.error_body)).plus(Bytes(limits.event_id).times(2));
        Self {
            message: Bytes(limits.message),
            body,
            chunk: Bytes(intake.chunk),
            queue: Bytes(limits.queue_bytes)
                .plus(Bytes(ENTRY).times(limits.queue))
                .times(2)
                .plus(Bytes(intake.chunk).times(OUTPUT_OF_CHUNK)),
            queue_bytes: Bytes(limits.queue_bytes),
            unwritten: Bytes(limits.unwritten).plus(Bytes(limits.message)),
            held: Bytes(limits.held).plus(Bytes(limits.message)),
            small: Bytes(SMALL).times(limits.requests_in),
            exchanges_in_full: body.times(limits.exchanges),
            exchanges: exchange.times(limits.exchanges),
            requests: entry.times(limits.requests_in).plus(own),
            own,
            request_with_head: Bytes(ENTRY + 2 * SMALL).plus(entry).plus(Bytes(intake.head)),
            subscriptions: Bytes(SUBSCRIPTION).times(limits.subscriptions),
        }
    }

    /// One message that is read: the buffer that it grows in, and then its names without their escapes, or its keys,
    /// which are compared with each other.
    const fn reading(&self) -> Bytes {
        self.message.times(4)
    }

    /// What the peer has asked and what is kept to answer it, in the frames that it came in, and once more when it is put
    /// together.
    const fn asked(&self) -> Bytes {
        self.held.times(2)
    }

    /// Answers that the peer does not take.
    const fn answers(&self) -> Bytes {
        self.held.plus(self.small)
    }

    /// Answers that arrive over HTTP.
    const fn arriving(&self) -> Bytes {
        let held = self.held.plus(self.body).plus(self.chunk).times(GROWTH);
        self.exchanges_in_full.or_less(held).plus(self.exchanges)
    }

    /// What waits until the server takes it.
    const fn backlog(&self) -> Bytes {
        self.queue_bytes.times(2).plus(self.message).plus(self.unwritten)
    }

    /// What a relay keeps for requests that have no outcome: that of its limit, with as many small requests, questions
    /// and results, what is listened to, and one message more that may wait to be written.
    const fn bridge(&self) -> Bytes {
        self.held.times(2).plus(self.small.times(3)).plus(self.subscriptions).plus(Bytes(OWN)).plus(self.message)
    }
}

/// A table of MiB.
impl fmt::Display for Ceilings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (machine, bytes) in [
            ("client over stdio", self.client_over_stdio),
            ("client over HTTP", self.client_over_http),
            ("server over stdio", self.server_over_stdio),
            ("server over HTTP", self.server_over_http),
            ("relay to stdio", self.relay_over_stdio),
            ("relay to HTTP", self.relay_over_http),
        ] {
            writeln!(f, "{machine:<18} {:>7} MiB", bytes.div_ceil(1 << 20))?;
        }
        Ok(())
    }
}
