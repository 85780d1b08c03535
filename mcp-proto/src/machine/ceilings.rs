//! The sums that follow from `Limits`.

use std::fmt;

use crate::limits::Limits;
use crate::server::HttpConfig;

/// Bytes that one entry of a table or queue takes in addition to its content.
const ENTRY: usize = 1024;
/// Bytes for an ended request whose response may still arrive.
const TOMBSTONE: usize = 128;
/// The output for a chunk of the smallest messages is at most this many times its size.
const OUTPUT_OF_CHUNK: usize = 16;
/// Bytes of an idle session.
const SESSION: usize = 2 * 1024;
/// Bytes that a session stores of its client and of the client's subscriptions.
const REMEMBERED: usize = 144 * 1024;
/// Bytes of an open `subscriptions/listen`.
const SUBSCRIPTION: usize = 160 * 1024;
/// Bytes of a small message that is kept regardless of the limits, with the frame that it arrived in.
const SMALL: usize = 2 * Limits::SMALL;
/// A buffer that is still being filled is at most this many times as large as its content.
const GROWTH: usize = 4;
/// Bytes of the requests that a relay itself sends to the server.
const OWN: usize = 1024 * 1024;

/// The most that a driver passes in at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intake {
    /// Bytes of a chunk.
    pub chunk: usize,
    /// Bytes of heap that the head of one HTTP request takes; a server keeps it until the request is answered.
    pub head: usize,
    /// HTTP requests that a server receives or answers at one time: one for each connection.
    pub exchanges: usize,
}

/// The most bytes of heap that each machine can be made to hold by its peer: the results of the formula of [`Limits`].
///
/// These are allocated bytes. A growing buffer is moved, so that the old one counts as well for a moment, and it is up
/// to four times as large as its content. The resident memory is smaller: many allocators move large buffers without a
/// copy, and memory that was not written to is not resident.
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
            // Requests from their first byte until they are answered, and then the joined answers of batches.
            .plus(sum.held.times(GROWTH))
            .plus(sum.held)
            // Answers that clients do not read.
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

/// A number of bytes with saturating arithmetic.
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
    /// Messages to a peer that reads nothing.
    unwritten: Bytes,
    /// Messages that are incomplete or unanswered; one message beyond the limit may be accepted.
    held: Bytes,
    /// Small messages that are always kept, one for each request of the peer.
    small: Bytes,
    /// The bodies of all exchanges of a client over HTTP, each of the greatest size.
    exchanges_in_full: Bytes,
    exchanges: Bytes,
    requests: Bytes,
    /// Requests to the peer, and those that ended before their responses.
    own: Bytes,
    /// A request that a server over HTTP holds, with its head.
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

    /// One message that is read: its growing buffer, and then its unescaped names, or its keys, which are compared with
    /// each other.
    const fn reading(&self) -> Bytes {
        self.message.times(4)
    }

    /// The peer's requests and the data kept to answer them, in the frames that they arrived in, and once more when
    /// joined.
    const fn asked(&self) -> Bytes {
        self.held.times(2)
    }

    /// Answers that the peer does not read.
    const fn answers(&self) -> Bytes {
        self.held.plus(self.small)
    }

    /// Answers that arrive over HTTP.
    const fn arriving(&self) -> Bytes {
        let held = self.held.plus(self.body).plus(self.chunk).times(GROWTH);
        self.exchanges_in_full.or_less(held).plus(self.exchanges)
    }

    /// Messages that wait until the server accepts them.
    const fn backlog(&self) -> Bytes {
        self.queue_bytes.times(2).plus(self.message).plus(self.unwritten)
    }

    /// What a relay keeps for requests that have no outcome: its own share of `held`, small requests from both sides
    /// and small results, subscriptions, and one more message that may wait to be written.
    const fn bridge(&self) -> Bytes {
        self.held.times(2).plus(self.small.times(3)).plus(self.subscriptions).plus(Bytes(OWN)).plus(self.message)
    }
}

/// A table in MiB.
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
