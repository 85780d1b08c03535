//! Limits on what a peer can make this crate hold, in bytes and counts.

mod load;

use std::time::Duration;

pub use load::Load;

use crate::json::DEFAULT_DEPTH;
use crate::json::scan::DEEPEST;

/// The most exchanges that are reserved for messages other than ordinary requests.
const MOST_KEPT: usize = 16;

/// The bounds on everything that a peer can make grow, all of them finite. The ids in brackets are rows of the
/// catalogue of bad input, or rules, that need the bound.
///
/// The same type is used by every machine, which ignores the fields that it does not need. The heap that a peer can
/// make a machine hold is at most
///
/// ```text
/// client over stdio   4 message + queue + requests + unwritten + 2 held + held + 2 small
/// server over stdio   the same + subscriptions * 160 KiB
/// client over HTTP    4 message + queue + requests + tool_headers + 2 session_settings + 2 held + held + 2 small
///                     + 2 queue_bytes + message + unwritten                         what the server does not take
///                     + min(exchanges * body, 4 (held + body + chunk)) + exchanges * (33 KiB + error_body + 2 event_id)
/// server over HTTP    4 message + queue + 5 held                                    from the first byte to the answer
///                     + held + connections * 64 KiB                                 what clients do not take
///                     + sessions * (146 KiB + 2 HttpConfig::replay + own)
///                     + requests_in_total * (66 KiB + id + head) + subscriptions * 160 KiB
/// relay               that of its server over stdio, that of its client, and one more queue
///                     + 2 held + 3 small + subscriptions * 160 KiB + session_settings + 1 MiB + message
///
/// aggregate           that of a server over stdio, held, 8 MiB; and for each server that of a relay and that of a client
///
/// requests            requests_in * (1 KiB + id) + own
/// own                 requests_out * (1 KiB + id) + tombstones * 128 bytes
/// queue               2 queue_bytes + queue * 2 KiB + 16 chunk
/// small               requests_in * 32 KiB
/// ```
///
/// where `unwritten` and `held` are those limits and one message each, `body` is the larger of `message` and `event`,
/// and `chunk`, `head` and `connections` are what the driver passes in at once ([`Intake`](crate::Intake), whose `exchanges` are the
/// `connections` here). [`Ceilings`](crate::Ceilings) computes the formula, and tests check it with a counting allocator for every flood
/// of the catalogue. A message counts several times because a growing buffer is moved and reserves more than its
/// content, because keys are compared with each other, and because kept values share the frame that they arrived in. An
/// idle session takes 2 KiB; the rest is what a hostile client can add to it.
///
/// The formula excludes the messages that the application sends, what the application keeps of received messages, and
/// the cache of a client ([`client::Config::cache`](crate::client::Config::cache)).
///
/// # Example: a small device
///
/// ```
/// use mcp_proto::Limits;
///
/// let mut limits = Limits::default();
/// limits.message = 256 * 1024;
/// limits.event = 256 * 1024;
/// limits.exchanges = 8;
/// limits.check()?;
/// # Ok::<(), mcp_proto::InvalidLimit>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one line or one JSON body, which bounds a line that never ends. Default 16 MiB.
    ///
    /// Rules: FR1.
    pub message: usize,
    /// Bytes of one server-sent event, its data, type and id together, which bounds a `data:` line that never ends.
    /// Default 16 MiB.
    ///
    /// Rules: SS1.
    pub event: usize,
    /// Nested arrays and objects in one message; at most 1024. Default 128.
    ///
    /// Rules: JS1.
    pub depth: usize,
    /// Bytes of a string id with its quotes, which is kept until the request has ended. Default 256.
    ///
    /// Rules: JS9.
    pub id: usize,
    /// Bytes of a method name. Default 256.
    pub method: usize,
    /// Messages in one batch. Default 100.
    ///
    /// Rules: RP8.
    pub batch: usize,
    /// Requests of the peer that are not answered yet; for a server, in one session or on one byte stream. Default
    /// 1024.
    ///
    /// Rules: RP10.
    pub requests_in: usize,
    /// The same for all clients of a server together, in sessions and of revision 2026-07-28. Default 10,000.
    pub requests_in_total: usize,
    /// Own requests that the peer has not answered yet. Default 4096.
    pub requests_out: usize,
    /// Output that the driver has not taken yet, in entries; beyond it `wants_input()` is `false`. Default 1024.
    ///
    /// Rules: H5.
    pub queue: usize,
    /// The same in bytes. Default 4 MiB.
    pub queue_bytes: usize,
    /// Bytes that may wait to be written to a peer that does not read, such as a child process. Beyond it, requests
    /// fail with [`Failed::QueueFull`](crate::Failed::QueueFull), and notifications are dropped. One message is
    /// accepted when nothing waits, so that at most the larger of this and of one message is held, and in addition
    /// `queue_bytes` of answers to the peer's own requests. Default 16 MiB.
    ///
    /// Rules: K1.
    pub unwritten: usize,
    /// Bytes of all messages that one machine holds because they are incomplete, unanswered or not read yet. There are
    /// several such sums, each with this limit:
    ///
    /// | role | what is held | effect if there is no room |
    /// |---|---|---|
    /// | server | requests from their first byte until they are answered, the input that was supplied to them, and answers that wait for the others of their batch | 503 with `Retry-After`, or an error |
    /// | server | answers that its clients have not read | an error in their place; over HTTP, answers that have waited for 10 s are dropped first |
    /// | client | answers of the server that arrive over HTTP | [`Failed::NoRoom`](crate::Failed::NoRoom) |
    /// | client | requests of the server until they are answered, and the data for sending calls again | an error, or [`Failed::NoInput`](crate::Failed::NoInput) |
    /// | client | answers that the server has not read | an error in their place |
    /// | relay | calls that have no outcome, and the server's requests during them | an error |
    ///
    /// Messages up to 16 KiB are always accepted where their number is bounded. One message is accepted where nothing
    /// else is held. At least four messages should fit. Default 64 MiB.
    ///
    /// Rules: M1, M3.
    pub held: usize,
    /// HTTP exchanges that a client has open at one time, each with its own buffer. A quarter of them, at most 16, is
    /// reserved for `ping`, for messages that are not requests, and for the stream of the server's own messages; the
    /// rest is for requests ([`Limits::requests_at_once`]), and further requests wait. With 1, that stream is not
    /// opened, and the transport of 2024-11-05 cannot be used. Default 64, which is 48 requests.
    pub exchanges: usize,
    /// Bytes read of a body that only explains an HTTP error, or that was not expected. Default 64 KiB.
    ///
    /// Rules: HT8, HT7.
    pub error_body: usize,
    /// Bytes of an SSE event id. Default 1 KiB.
    ///
    /// Rules: SS6.
    pub event_id: usize,
    /// Bytes of a session id. Default 1 KiB.
    ///
    /// Rules: HT3.
    pub session_id: usize,
    /// Redirects followed for one message, all on the same origin. Default 5.
    ///
    /// Rules: HT2.
    pub redirects: usize,
    /// The shortest wait before a stream is reopened, even if the server asks for a shorter one. Default 500 ms.
    ///
    /// Rules: SS7.
    pub min_retry: Duration,
    /// The longest wait that a server can ask for, by `retry` or `Retry-After`. Default 5 min.
    ///
    /// Rules: SS7.
    pub max_retry: Duration,
    /// How often one stream or session may be opened again within a minute. Default 10.
    ///
    /// Rules: SS7, H2.
    pub reconnects: u32,
    /// Lines within a minute that are not messages; beyond it, the connection to a peer that has sent no message yet is
    /// closed, because the peer evidently uses another protocol. Such lines of another peer are skipped, and beyond
    /// this number not answered either. Default 1000.
    ///
    /// Rules: FR10.
    pub garbage: usize,
    /// Requests `subscriptions/listen` that are open at one time, of all clients together; each holds at most 160 KiB.
    /// Default 256.
    ///
    /// Rules: MD-L-14.
    pub subscriptions: usize,
    /// How often a request may be answered with a result that requires input, before it fails. Default 10.
    ///
    /// Rules: MD-I-10.
    pub input_rounds: usize,
    /// Bytes that a client over HTTP stores of the `x-mcp-header` annotations of tools. Default 256 KiB.
    ///
    /// Rules: RULES 8.3.
    pub tool_headers: usize,
    /// Bytes of the `resources/subscribe` and `logging/setLevel` requests that a client over HTTP stores, to repeat
    /// them when a lost session was reopened; each counts 256 bytes more than its length. Default 256 KiB.
    pub session_settings: usize,
    /// Processes that a gateway starts, or connections that it opens, at one time; one that is being stopped counts until
    /// it has ended. Also the servers of an aggregate. Default 100.
    pub backends: usize,
    /// Ended requests that are still stored, so that a late response is reported as such. Default 1024.
    ///
    /// Rules: RP13.
    pub tombstones: usize,
}

impl Limits {
    /// Requests that a client over HTTP can send at one time: the exchanges that are not reserved for `ping` and for
    /// messages other than requests.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Limits;
    ///
    /// let mut limits = Limits::default();
    /// assert_eq!((limits.exchanges, limits.requests_at_once()), (64, 48));
    /// limits.exchanges = Limits::exchanges_for(200);
    /// assert_eq!(limits.requests_at_once(), 200);
    /// ```
    #[must_use]
    pub const fn requests_at_once(&self) -> usize {
        self.exchanges.saturating_sub(Self::kept(self.exchanges / 4, self.exchanges))
    }

    /// The value of `exchanges` that allows this many requests at one time.
    #[must_use]
    pub const fn exchanges_for(requests: usize) -> usize {
        requests.saturating_add(Self::kept(requests / 3, usize::MAX))
    }

    /// Exchanges that are reserved for messages other than ordinary requests. A single exchange serves everything.
    const fn kept(share: usize, exchanges: usize) -> usize {
        match (share, exchanges) {
            (_, 0 | 1) => 0,
            (0, _) => 1,
            (1..=MOST_KEPT, _) => share,
            (_, _) => MOST_KEPT,
        }
    }

    /// Messages up to this many bytes are held regardless of [`Limits::held`] where the number of such messages is
    /// bounded.
    pub(crate) const SMALL: usize = 16 * 1024;

    /// Whether a message of this many bytes may be held in addition to `others`, the bytes that are held already.
    /// `others` is called only for a message over 16 KiB. A message of any size is accepted where nothing is held. This
    /// is for a machine that another crate composes, which applies [`Limits::held`] to what it holds itself.
    pub fn holds(&self, bytes: usize, others: impl FnOnce() -> usize) -> bool {
        bytes <= Self::SMALL || self.holds_beside(bytes, others())
    }

    /// As `holds`, where the number of messages has no sufficient bound.
    pub(crate) const fn holds_beside(&self, bytes: usize, others: usize) -> bool {
        others == 0 || others.saturating_add(bytes) <= self.held
    }

    /// Checks that every value is in its valid range.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit`] has the first field that is zero or too large, or `max_retry` if that is shorter than
    /// `min_retry` or longer than a day.
    ///
    /// Rules: CL5.
    pub fn check(&self) -> Result<(), InvalidLimit> {
        // Where many positions in a frame are stored, each is stored in 32 bits.
        const LARGEST: usize = 1 << 30;
        const MANY: usize = 1 << 24;
        for (field, value, largest) in [
            ("message", self.message, LARGEST),
            ("event", self.event, LARGEST),
            ("depth", self.depth, DEEPEST),
            ("id", self.id, LARGEST),
            ("method", self.method, LARGEST),
            ("batch", self.batch, MANY),
            ("requests_in", self.requests_in, MANY),
            ("requests_in_total", self.requests_in_total, MANY),
            ("requests_out", self.requests_out, MANY),
            ("queue", self.queue, MANY),
            ("queue_bytes", self.queue_bytes, LARGEST),
            ("unwritten", self.unwritten, LARGEST),
            ("held", self.held, LARGEST),
            ("exchanges", self.exchanges, MANY),
            ("error_body", self.error_body, LARGEST),
            ("event_id", self.event_id, LARGEST),
            ("session_id", self.session_id, LARGEST),
            ("garbage", self.garbage, MANY),
            ("subscriptions", self.subscriptions, MANY),
            ("input_rounds", self.input_rounds, MANY),
            ("tool_headers", self.tool_headers, LARGEST),
            ("session_settings", self.session_settings, LARGEST),
            ("backends", self.backends, MANY),
            ("tombstones", self.tombstones, MANY),
        ] {
            if value == 0 || value > largest {
                return Err(InvalidLimit { field, largest });
            }
        }
        if self.min_retry > self.max_retry || self.max_retry > Duration::from_secs(86_400) {
            return Err(InvalidLimit { field: "max_retry", largest: 86_400 });
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 16 * 1024 * 1024,
            event: 16 * 1024 * 1024,
            depth: DEFAULT_DEPTH,
            id: 256,
            method: 256,
            batch: 100,
            requests_in: 1024,
            requests_in_total: 10_000,
            requests_out: 4096,
            queue: 1024,
            queue_bytes: 4 * 1024 * 1024,
            unwritten: 16 * 1024 * 1024,
            held: 64 * 1024 * 1024,
            exchanges: 64,
            error_body: 64 * 1024,
            event_id: 1024,
            session_id: 1024,
            redirects: 5,
            min_retry: Duration::from_millis(500),
            max_retry: Duration::from_secs(300),
            reconnects: 10,
            garbage: 1000,
            subscriptions: 256,
            input_rounds: 10,
            tool_headers: 256 * 1024,
            session_settings: 256 * 1024,
            backends: 100,
            tombstones: 1024,
        }
    }
}

/// A limit or a duration of a configuration is zero, or larger than this crate supports.
///
/// Rules: CL5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit '{field}' must be at least 1 and at most {largest}")]
pub struct InvalidLimit {
    /// The field of [`Limits`] or of [`HttpConfig`](crate::server::HttpConfig).
    pub field: &'static str,
    /// The largest value that it may have; in seconds if it is a duration.
    pub largest: usize,
}
