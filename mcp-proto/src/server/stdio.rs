//! The server on a byte stream, which has one session.

use http::request::Parts;

use super::carrier::{Carrier, Route, Shared, Wire};
use super::http::{ExchangeKey, Principal};
use super::peer::{Peer, Source};
use super::{Config, Event, Server, Timer};
use crate::Instant;
use crate::client::CloseReason;
use crate::codec::jsonrpc::Message;
use crate::conversation::pending::SessionKey;
use crate::error::UsageError;
use crate::limits::Load;
use crate::spec::ProtocolVersion;
use crate::transport::{Line, Stdio, StdioAction};

/// The only session of a byte stream.
pub(super) const SESSION: SessionKey = SessionKey::FIRST;

impl Server<Stdio> {
    /// Bytes have arrived from the client, in chunks of any size.
    pub fn handle_bytes(&mut self, mut bytes: &[u8], now: Instant) {
        let (peers, shared) = &mut self.split(now);
        let Some(peer) = peers.get_mut(&Some(SESSION)) else { return };
        while let Some(line) = shared.transport.read(&mut bytes) {
            if peer.is_closed() {
                return;
            }
            match line {
                Line::Message(message) => peer.on_message(message, Source::default(), shared),
                Line::Batch(items) => peer.on_batch(items, Source::default(), shared),
                Line::Invalid(error, _) => {
                    peer.on_invalid(error, Source::default(), shared);
                    count_garbage(peer, shared);
                }
                Line::TooLong(subject) => {
                    peer.on_too_long(subject, Source::default(), shared);
                    count_garbage(peer, shared);
                }
            }
        }
    }

    /// The driver has written this many more bytes of [`StdioAction::Write`] to the client's stream.
    ///
    /// Bytes that were not reported count against [`Limits::unwritten`](crate::Limits::unwritten).
    pub fn handle_written(&mut self, bytes: usize, now: Instant) {
        self.transport.handle_written(bytes);
        self.report_not_written(now);
    }

    /// The client's stream has ended. Requests in flight are still answered within [`Config::drain_timeout`], then the
    /// connection closes (FR15).
    pub fn handle_eof(&mut self, now: Instant) {
        let (peers, shared) = &mut self.split(now);
        let Some(peer) = peers.get_mut(&Some(SESSION)) else { return };
        let Some(end) = shared.transport.end() else { return };
        if peer.is_closed() {
            return;
        }
        if let Err(fault) = end {
            shared.wire.out.report(Event::Faulted(fault));
        }
        shared.wire.out.report(Event::InputEnded);
        shared.timers.set(Timer::Drain, now + shared.config().drain_timeout);
        peer.drain(shared);
    }

    /// Handles all timers that are due. Calling this early or twice does nothing (CL2).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.on_own_timers(now);
    }

    /// Ends the connection at once.
    pub fn close(&mut self, now: Instant) {
        self.close_session(Some(SESSION), CloseReason::Local, now);
    }

    /// The only session.
    #[must_use]
    pub const fn session(&self) -> SessionKey {
        SESSION
    }

    /// Whether the driver should read more input. `false` if the client does not read its answers, outputs are not
    /// polled fast enough, or the application has as many unanswered requests as the limit allows (H5, RP10).
    #[must_use]
    pub fn wants_input(&self) -> bool {
        let limits = &self.config().limits;
        let reads = self.transport.unwritten().replies() < limits.queue_bytes;
        let requests = limits.requests_in.min(limits.requests_in_total);
        reads && self.out.has_room(limits) && self.requests_in_flight() < requests
    }

    /// Whether [`Event::Closed`] was reported or will be returned by the next polls.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.peers.get(&Some(SESSION)).is_none_or(Peer::is_closed)
    }
}

/// Closes the connection after too many lines that are no messages (FR10).
fn count_garbage(peer: &mut Peer, shared: &mut Shared<'_, Stdio>) {
    if shared.transport.counts_garbage(shared.wire.now) {
        peer.close(CloseReason::Garbage, shared);
    }
}

impl Carrier for Stdio {
    fn configure(&mut self, config: &Config) -> Result<Option<Option<SessionKey>>, UsageError> {
        self.set_limits(&config.limits);
        Ok(Some(Some(SESSION)))
    }

    fn write(&mut self, message: &Message, _route: Route, wire: &mut Wire<'_, StdioAction>) {
        Self::write(self, message, wire.out);
    }

    fn peer_of(_session: Option<SessionKey>) -> Option<SessionKey> {
        Some(SESSION)
    }

    fn held(&self) -> usize {
        0
    }

    fn load(&self) -> Load {
        Self::load(self)
    }

    fn takes(&mut self, bytes: usize, _wire: &mut Wire<'_, StdioAction>) -> bool {
        self.has_room_for(bytes)
    }

    fn takes_answer(&mut self, bytes: usize, _wire: &mut Wire<'_, StdioAction>) -> bool {
        self.has_room_for_answer(bytes)
    }

    fn write_batch(&mut self, answers: &[Message], _route: Route, wire: &mut Wire<'_, StdioAction>) {
        Self::write_batch(self, answers, wire.out);
    }

    fn no_answer(&mut self, _route: Route, _wire: &mut Wire<'_, StdioAction>) {}

    fn negotiated(&mut self, _session: Option<SessionKey>, version: ProtocolVersion) {
        self.set_unreadable_id(version.rules().unreadable_id);
    }

    fn release(&mut self, _session: Option<SessionKey>, _exchange: ExchangeKey, _wire: &mut Wire<'_, StdioAction>) {}

    fn ended(&mut self, _session: Option<SessionKey>, wire: &mut Wire<'_, StdioAction>) {
        self.close(wire.out);
    }

    fn listen_to_evict(&mut self, _newcomer: ExchangeKey, _now: Instant) -> Option<ExchangeKey> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn request_head(&self, _exchange: ExchangeKey) -> Option<&Parts> {
        None
    }

    fn principal(&self, _session: Option<SessionKey>) -> Option<&Principal> {
        None
    }
}
