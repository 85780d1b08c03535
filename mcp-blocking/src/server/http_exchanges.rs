//! The exchanges of the connections: their requests are passed to the machine, and its responses to them.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use mcp_proto::Instant;
use mcp_proto::auth::Challenge;
use mcp_proto::machine::{HandleRequests, Machine};
use mcp_proto::server::{ExchangeKey, HttpAction, PeerKey, Principal, RequestInfo, refusal_reason};

use super::commands::ROOM;
use super::driver::Io;
use super::response_channel::{Replies, Reply, Unwritten};
use crate::clock::unix_time;

/// Logs why a request was refused.
pub(crate) fn log_refusal(response: &Response<Bytes>) {
    if let Some(reason) = refusal_reason(response) {
        log::info!("refused a request with {reason}");
    }
}

/// What arrives from the connections.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// A request has arrived, with the part of its body that arrived with it.
    Request {
        request: u64,
        head: Box<Parts>,
        authentication: Result<Option<Principal>, Challenge>,
        peer: PeerKey,
        body: Vec<u8>,
        is_whole: bool,
        replies: Replies,
    },
    /// A further part of its body.
    Body { request: u64, body: Vec<u8>, is_last: bool },
    /// The client has ended its sending side after the whole request.
    HalfClosed(u64),
    /// The connection of this request has ended, or is being closed after the answer.
    Disconnected(u64),
    /// A connection has written so much of its response that handlers which wait for it may continue.
    Written,
}

/// The exchanges of all connections.
#[derive(Default)]
pub(crate) struct HttpExchanges {
    pub(super) exchanges: BTreeMap<u64, ExchangeKey>,
    pub(super) replies: BTreeMap<ExchangeKey, (u64, Replies)>,
    /// Responses that connections have not written in full, with the number of their bytes that the machine counts as
    /// unwritten.
    pub(super) unwritten: BTreeMap<ExchangeKey, (Unwritten, usize)>,
    /// The exchange that was written to last, if its client has too much to read.
    behind: Option<ExchangeKey>,
}

impl HttpExchanges {
    /// Passes in what has arrived from a connection.
    pub(crate) fn pass_in(&mut self, machine: &mut impl HandleRequests, arrived: Arrived, now: Instant) {
        match arrived {
            Arrived::Request { request, head, authentication, peer, body, is_whole, replies } => {
                let mut nonce = [0; 32];
                if let Err(error) = getrandom::fill(&mut nonce) {
                    // Without random bytes, a session id could be guessed. Dropping `replies` leads to a 503 response.
                    log::error!("the system has no random bytes: {error}");
                    return;
                }
                let mut info = RequestInfo::new(nonce);
                (info.authentication, info.peer) = (authentication, Some(peer));
                info.unix_time = Some(unix_time());
                let exchange = machine.handle_request(*head, info, now);
                self.exchanges.insert(request, exchange);
                self.replies.insert(exchange, (request, replies));
                self.feed(machine, request, &body, is_whole, now);
            }
            Arrived::Body { request, body, is_last } => self.feed(machine, request, &body, is_last, now),
            Arrived::Disconnected(request) => {
                if let Some(exchange) = self.exchanges.remove(&request) {
                    self.replies.remove(&exchange);
                    self.unwritten.remove(&exchange);
                    machine.handle_disconnect(exchange, now);
                }
            }
            Arrived::HalfClosed(request) => {
                if let Some(exchange) = self.exchanges.get(&request) {
                    machine.handle_half_close(*exchange, now);
                }
            }
            // What was written is reported before each input.
            Arrived::Written => {}
        }
    }

    /// Carries out an action.
    pub(crate) fn carry_out(&mut self, machine: &mut impl HandleRequests, action: HttpAction, now: Instant) {
        match action {
            HttpAction::Continue { exchange } => self.reply(machine, exchange, Reply::Continue, false, now),
            HttpAction::Respond { exchange, response } => {
                log_refusal(&response);
                self.reply(machine, exchange, Reply::Whole(response), true, now);
            }
            HttpAction::Stream { exchange, head } => self.reply(machine, exchange, Reply::Stream(head), false, now),
            HttpAction::Write { exchange, chunk } => self.reply(machine, exchange, Reply::Piece(chunk), false, now),
            HttpAction::Finish { exchange } => self.reply(machine, exchange, Reply::End, true, now),
            HttpAction::Abort { exchange } => {
                if let Some((unwritten, _)) = self.unwritten.remove(&exchange) {
                    unwritten.abort();
                }
                if let Some((request, _)) = self.replies.remove(&exchange) {
                    self.exchanges.remove(&request);
                }
            }
            // A server with a store is refused at its start.
            HttpAction::Store(_) | _ => {}
        }
    }

    /// Reports to the machine what connections have written since the last call.
    pub(crate) fn report(&mut self, machine: &mut impl HandleRequests, now: Instant) {
        self.unwritten.retain(|exchange, (left, counted)| {
            let bytes = left.bytes();
            machine.handle_written(*exchange, counted.saturating_sub(bytes), now);
            *counted = bytes;
            bytes > 0
        });
    }

    fn feed(&self, machine: &mut impl HandleRequests, request: u64, body: &[u8], is_last: bool, now: Instant) {
        let Some(&exchange) = self.exchanges.get(&request) else { return };
        if !body.is_empty() {
            machine.handle_body(exchange, body, now);
        }
        if is_last {
            machine.handle_end(exchange, now);
        }
    }

    fn reply(
        &mut self,
        machine: &mut impl HandleRequests,
        exchange: ExchangeKey,
        reply: Reply,
        is_last: bool,
        now: Instant,
    ) {
        let Some((request, replies)) = self.replies.get(&exchange) else { return };
        let request = *request;
        let sent = replies.send(reply);
        if let Some(bytes) = sent.filter(|bytes| *bytes > 0) {
            let (_, counted) = self.unwritten.entry(exchange).or_insert_with(|| (replies.unwritten(), 0));
            *counted += bytes;
            self.behind = (replies.unwritten().bytes() >= ROOM).then_some(exchange);
        }
        let is_taken = sent.is_some();
        if is_last || !is_taken {
            self.replies.remove(&exchange);
            self.exchanges.remove(&request);
        }
        if !is_last && !is_taken {
            machine.handle_disconnect(exchange, now);
        }
    }
}

impl<M: HandleRequests + Machine<Action = HttpAction>> Io<M> for HttpExchanges {
    type Arrived = Arrived;
    type Outlet = ExchangeKey;

    const ENDS_WITH_SESSION: bool = false;

    fn on_arrived(&mut self, machine: &mut M, arrived: Arrived, now: Instant) {
        self.pass_in(machine, arrived, now);
    }

    fn act(&mut self, machine: &mut M, action: HttpAction, now: Instant) {
        self.carry_out(machine, action, now);
    }

    fn report_written(&mut self, machine: &mut M, now: Instant) {
        self.report(machine, now);
    }

    fn take_behind(&mut self) -> Option<ExchangeKey> {
        self.behind.take()
    }

    fn has_room(&mut self, exchange: ExchangeKey) -> bool {
        self.unwritten.get(&exchange).is_none_or(|(unwritten, _)| unwritten.has_room())
    }

    fn may_wait(&mut self, _: &M) -> bool {
        true
    }
}
