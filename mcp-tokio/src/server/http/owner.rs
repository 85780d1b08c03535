//! The task that owns the machine of an HTTP server.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::request::Parts;
use mcp_proto::server::{Arrival, ExchangeKey, Http, HttpAction, PeerKey, Principal, Server};
use mcp_proto::{Instant, Output};
use tokio::sync::{mpsc, oneshot};

use super::body::{Pieces, Unread, is_small, stream, whole};
use crate::clock::{Alarm, now};
use crate::server::requests::{Accepted, Heard, Requests};

/// Names a request of some connection's, before the machine has named its exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrived(pub(super) u64);

/// What connections tell.
#[derive(Debug)]
pub(super) enum Input {
    /// A request, with as much of its body as came with it.
    Request {
        arrived: Arrived,
        head: Box<Parts>,
        from: From,
        body: Bytes,
        is_whole: bool,
        /// Told when the head is accepted.
        accept: oneshot::Sender<()>,
        reply: oneshot::Sender<Reply>,
    },
    /// More of its body.
    Body { arrived: Arrived, body: Bytes, is_last: bool },
    /// The server shall end; whoever says so hears when everybody was answered.
    Close(oneshot::Sender<()>),
}

/// Where a request comes from.
#[derive(Debug)]
pub(super) struct From {
    pub(super) principal: Option<Principal>,
    pub(super) peer: Option<PeerKey>,
    pub(super) is_routed: bool,
}

/// How a request is answered.
#[derive(Debug)]
pub(super) enum Reply {
    /// A response that the connection takes at once.
    Small(http::Response<Bytes>),
    /// A whole response that the connection takes piece by piece.
    Whole(http::Response<()>, Unread),
    /// A response whose pieces are still to come.
    Stream(http::Response<()>, Unread),
}

/// A client that waits for its response. If it is dropped before that is over, the client is gone.
#[derive(Debug)]
pub(super) struct Presence {
    arrived: Option<Arrived>,
    /// Each request is gone once, so this is bounded by their number.
    gone: mpsc::UnboundedSender<Arrived>,
}

impl Presence {
    pub(super) const fn new(arrived: Arrived, gone: mpsc::UnboundedSender<Arrived>) -> Self {
        Self { arrived: Some(arrived), gone }
    }

    pub(super) const fn is_served(&mut self) {
        self.arrived = None;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(arrived) = self.arrived {
            let _ = self.gone.send(arrived);
        }
    }
}

pub(super) struct Owner {
    machine: Server<Http>,
    requests: Requests,
    exchanges: BTreeMap<Arrived, ExchangeKey>,
    responses: BTreeMap<ExchangeKey, (Arrived, Response)>,
    /// Clients that wait to be told that the head of their request is accepted.
    accepts: BTreeMap<ExchangeKey, oneshot::Sender<()>>,
    /// The exchange that was written to last, if its client is behind.
    behind: Option<ExchangeKey>,
    /// Responses that clients have not taken in full, and the bytes of them that the machine counts.
    unwritten: BTreeMap<ExchangeKey, (Pieces, usize)>,
}

/// A response that is not over.
#[derive(Debug)]
enum Response {
    Awaited(oneshot::Sender<Reply>),
    Streamed(Pieces),
}

impl Owner {
    pub(super) const fn new(machine: Server<Http>, requests: Requests) -> Self {
        Self {
            machine,
            requests,
            exchanges: BTreeMap::new(),
            responses: BTreeMap::new(),
            accepts: BTreeMap::new(),
            behind: None,
            unwritten: BTreeMap::new(),
        }
    }

    /// Runs until nobody is left who could hand in a request.
    pub(super) async fn run(
        mut self,
        mut heard: Heard,
        mut inputs: mpsc::Receiver<Input>,
        mut gone: mpsc::UnboundedReceiver<Arrived>,
    ) {
        let mut alarm = Alarm::new();
        loop {
            let due = self.machine.poll_timeout();
            tokio::select! {
                input = inputs.recv(), if self.machine.wants_input() => match input {
                    Some(input) => {
                        self.report_written(now());
                        self.on_input(input, now());
                    }
                    None => break,
                },
                Some(last) = heard.last.recv() => {
                    self.report_written(now());
                    self.requests.on_last(last, &mut self.machine, now());
                }
                Some(said) = heard.said.recv() => {
                    self.report_written(now());
                    let accepted = self.requests.on_said(said, &mut self.machine, now());
                    self.settle(now());
                    self.accept(accepted);
                }
                Some(arrived) = gone.recv() => self.on_gone(arrived, now()),
                () = alarm.wait(due) => self.report_written(now()),
            }
            if self.machine.poll_timeout().is_some_and(|at| at <= now()) {
                self.machine.handle_timeout(now());
            }
            self.settle(now());
            self.requests.report_subscriptions(&mut self.machine);
        }
        self.machine.close(now());
        self.settle(now());
        self.requests.report_end(&mut self.machine);
    }

    fn on_input(&mut self, input: Input, now: Instant) {
        match input {
            // B14: that the client is gone may be known before the request is.
            Input::Request { reply, .. } if reply.is_closed() => {}
            Input::Request { arrived, head, from, body, is_whole, accept, reply } => {
                let mut nonce = [0; 32];
                if let Err(error) = getrandom::fill(&mut nonce) {
                    // Without them there is no id that could not be guessed. The request is not answered from here.
                    tracing::error!(%error, "the system has no random bytes");
                    return;
                }
                let From { principal, peer, is_routed } = from;
                let arrival = Arrival { principal, peer, is_routed, nonce };
                let exchange = self.machine.handle_request(*head, arrival, now);
                self.exchanges.insert(arrived, exchange);
                self.responses.insert(exchange, (arrived, Response::Awaited(reply)));
                self.accepts.insert(exchange, accept);
                self.feed(arrived, &body, is_whole, now);
                self.settle(now);
                self.accepts.remove(&exchange);
            }
            Input::Body { arrived, body, is_last } => self.feed(arrived, &body, is_last, now),
            Input::Close(done) => {
                self.machine.close(now);
                self.settle(now);
                let _ = done.send(());
            }
        }
    }

    fn feed(&mut self, arrived: Arrived, body: &[u8], is_last: bool, now: Instant) {
        let Some(&exchange) = self.exchanges.get(&arrived) else { return };
        if !body.is_empty() {
            self.machine.handle_body(exchange, body, now);
        }
        if is_last {
            self.machine.handle_end(exchange, now);
        }
    }

    fn on_gone(&mut self, arrived: Arrived, now: Instant) {
        if let Some(exchange) = self.exchanges.remove(&arrived) {
            self.responses.remove(&exchange);
            self.unwritten.remove(&exchange);
            self.machine.handle_disconnect(exchange, now);
        }
    }

    /// A handler whose client is behind waits until that has caught up.
    fn accept(&mut self, accepted: Accepted) {
        match self.behind.take().and_then(|exchange| self.responses.get(&exchange)) {
            Some((_, Response::Streamed(pieces))) => pieces.accept(accepted),
            Some((_, Response::Awaited(_))) | None => accepted.tell(),
        }
    }

    fn settle(&mut self, now: Instant) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Action(HttpAction::Respond { exchange, response }) => {
                    if let Some(Response::Awaited(reply)) = self.take(exchange) {
                        self.respond(exchange, reply, response, now);
                    }
                }
                Output::Action(HttpAction::Continue { exchange }) => {
                    if let Some(accept) = self.accepts.remove(&exchange) {
                        let _ = accept.send(());
                    }
                }
                Output::Action(HttpAction::Stream { exchange, head }) => self.stream(exchange, head),
                Output::Action(HttpAction::Write { exchange, chunk }) => self.write(exchange, chunk),
                Output::Action(HttpAction::Finish { exchange }) => {
                    if let Some(Response::Streamed(pieces)) = self.take(exchange) {
                        pieces.end();
                    }
                }
                Output::Action(HttpAction::Abort { exchange }) => {
                    let streamed = match self.take(exchange) {
                        Some(Response::Streamed(pieces)) => Some(pieces),
                        Some(Response::Awaited(_)) | None => None,
                    };
                    let unwritten = self.unwritten.remove(&exchange).map(|(pieces, _)| pieces);
                    if let Some(pieces) = unwritten.or(streamed) {
                        pieces.abort();
                    }
                }
                Output::Action(_) => {}
                Output::Event(event) => self.requests.on_event(event, &mut self.machine),
            }
        }
    }

    fn take(&mut self, exchange: ExchangeKey) -> Option<Response> {
        let (arrived, response) = self.responses.remove(&exchange)?;
        self.exchanges.remove(&arrived);
        Some(response)
    }

    fn respond(
        &mut self,
        exchange: ExchangeKey,
        reply: oneshot::Sender<Reply>,
        response: http::Response<Bytes>,
        now: Instant,
    ) {
        let length = response.body().len();
        if is_small(response.body()) {
            let _ = reply.send(Reply::Small(response));
            return self.machine.handle_written(exchange, length, now);
        }
        let (head, body) = response.into_parts();
        let (pieces, unread) = whole(body);
        self.unwritten.insert(exchange, (pieces, length));
        // If nobody takes it, the client is gone, and nothing is left of it.
        let _ = reply.send(Reply::Whole(http::Response::from_parts(head, ()), unread));
    }

    fn stream(&mut self, exchange: ExchangeKey, head: http::Response<()>) {
        let Some((_, response)) = self.responses.get_mut(&exchange) else { return };
        let (pieces, unread) = stream();
        if let Response::Awaited(reply) = std::mem::replace(response, Response::Streamed(pieces)) {
            // If nobody takes it, the client is gone, which is told elsewhere.
            let _ = reply.send(Reply::Stream(head, unread));
        }
    }

    fn write(&mut self, exchange: ExchangeKey, chunk: Bytes) {
        let Some((_, Response::Streamed(pieces))) = self.responses.get(&exchange) else { return };
        let (_, counted) = self.unwritten.entry(exchange).or_insert_with(|| (pieces.clone(), 0));
        *counted += chunk.len();
        pieces.send(chunk);
        if !pieces.has_room() {
            self.behind = Some(exchange);
        }
    }

    /// Reports what clients have taken of their responses since this was last called.
    fn report_written(&mut self, now: Instant) {
        let Self { machine, unwritten, .. } = self;
        unwritten.retain(|exchange, (pieces, counted)| {
            // Of a client that is gone, nothing is left.
            let waiting = pieces.waiting();
            machine.handle_written(*exchange, counted.saturating_sub(waiting), now);
            *counted = waiting;
            waiting > 0
        });
    }
}
