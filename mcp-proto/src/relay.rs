//! The relay: a server that faces a client on a byte stream, joined to a client that faces a server over HTTP.
//!
//! It is an application of the two machines and speaks no protocol of its own. What crosses it are the payloads as they
//! were validated, byte for byte; ids are each side's own, and what names a request (a cancellation, progress) follows
//! its id across. The session to the server may be lost and opened again without the client knowing.
//!
//! ```text
//!    editor ── lines ──▶ Server<Stdio> ── events ──▶ Relay ── commands ──▶ Client<Http> ── exchanges ──▶ server
//!           ◀───────────               ◀── commands ──     ◀── events ────               ◀─────────────
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `config` | what the relay is told |
//! | `event` | what it does and tells |

mod config;
mod event;

use std::collections::BTreeMap;

use http::response::Parts;

use crate::Instant;
use crate::client::{self, Call, Client, ExchangeKey, Failure, Http, HttpAction, Occasion, Outcome, Unavailable};
use crate::error::{Failed, UsageError};
use crate::json::Json;
use crate::message::{ErrorObject, Method, Notification, code};
use crate::outbox::{Outbox, Output};
use crate::pending::{RequestKey, Ticket, TicketKey};
use crate::server::{self, Server};
use crate::transport::{Stdio, StdioAction};

pub use config::Config;
pub use event::{Action, Event, Side};

/// Joins a client on a byte stream to a server over HTTP.
///
/// # Example: the first line causes the first request
///
/// ```
/// use mcp_proto::client::HttpConfig;
/// use mcp_proto::relay::{Action, Config, Relay};
/// use mcp_proto::{Instant, Output};
///
/// let mut relay = Relay::new(HttpConfig::new("https://example.com/mcp")?, Config::default())?;
/// let line = br#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
/// relay.handle_bytes(line, Instant::now());
/// relay.handle_bytes(b"\n", Instant::now());
/// let Some(Output::Action(Action::Open { request, .. })) = relay.poll_output() else { panic!() };
/// let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
/// assert_eq!(request.body(), body);
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Debug)]
pub struct Relay {
    server: Server<Stdio>,
    client: Client<Http>,
    /// Requests of the client's that are with the server, by the key that they have there.
    upward: BTreeMap<RequestKey, Ticket>,
    upward_by_ticket: BTreeMap<TicketKey, RequestKey>,
    /// Requests of the server's that are with the client, by the key that they have there.
    downward: BTreeMap<RequestKey, Ticket>,
    downward_by_ticket: BTreeMap<TicketKey, RequestKey>,
    opening: Opening,
    limits: crate::limits::Limits,
    out: Outbox<Action, Event>,
}

/// How far the client's own `initialize` has come.
#[derive(Debug)]
enum Opening {
    /// The client has not sent it.
    Awaited,
    /// It is with the server.
    Sent { ticket: Ticket, params: Json },
    /// It failed, the client was told why, and the connection is tried again behind its back.
    Failed { params: Json },
    /// Behind its back, the connection was made. If the client tries again, this is the answer.
    Prepared { params: Json, result: Json },
    /// It was answered.
    Done,
}

impl Relay {
    /// A relay to this server.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration cannot be worked with.
    pub fn new(http: client::HttpConfig, config: Config) -> Result<Self, UsageError> {
        let limits = config.limits.clone();
        let (server, client, http) = config.split(http);
        Ok(Self {
            server: Server::new(Stdio::new(), server)?,
            client: Client::new(Http::new(http), client)?,
            upward: BTreeMap::new(),
            upward_by_ticket: BTreeMap::new(),
            downward: BTreeMap::new(),
            downward_by_ticket: BTreeMap::new(),
            opening: Opening::Awaited,
            limits,
            out: Outbox::new(),
        })
    }

    /// Bytes have arrived from the client, in pieces of any size.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.server.handle_bytes(bytes, now);
        self.settle(now);
    }

    /// The client's stream has ended: requests in flight are finished within a bound, then the session is ended.
    pub fn handle_eof(&mut self, now: Instant) {
        self.server.handle_eof(now);
        self.settle(now);
    }

    /// The request of an exchange was written in full.
    pub fn handle_sent(&mut self, exchange: ExchangeKey, now: Instant) {
        self.client.handle_sent(exchange, now);
        self.settle(now);
    }

    /// The head of the response of an exchange has arrived.
    pub fn handle_response(&mut self, exchange: ExchangeKey, head: &Parts, now: Instant) {
        self.client.handle_response(exchange, head, now);
        self.settle(now);
    }

    /// A part of the body of an exchange has arrived.
    pub fn handle_body(&mut self, exchange: ExchangeKey, chunk: &[u8], now: Instant) {
        self.client.handle_body(exchange, chunk, now);
        self.settle(now);
    }

    /// The body of an exchange has ended in good order.
    pub fn handle_end(&mut self, exchange: ExchangeKey, now: Instant) {
        self.client.handle_end(exchange, now);
        self.settle(now);
    }

    /// An exchange has failed.
    pub fn handle_failure(&mut self, exchange: ExchangeKey, failure: Failure, now: Instant) {
        self.client.handle_failure(exchange, failure, now);
        self.settle(now);
    }

    /// Lets everything happen that is due. Calling this early or twice does nothing (CL2).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.server.handle_timeout(now);
        self.settle(now);
        self.client.handle_timeout(now);
        self.settle(now);
    }

    /// Ends both sides: the client hears about every request that it still waits for, the session is ended.
    /// [`Event::Closed`] follows within the time that ending a session may take.
    pub fn close(&mut self, now: Instant) {
        self.server.close(now);
        self.settle(now);
    }

    /// The next thing to do or to know. Draining is needed for progress, never for correctness.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<Action, Event>> {
        self.out.pop()
    }

    /// When [`Relay::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.server.poll_timeout(), self.client.poll_timeout()].into_iter().flatten().min()
    }

    /// Whether more of the client's bytes should be read (PX7, H5).
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        self.wants_body() && self.server.wants_input()
    }

    /// Whether more of the server's answers should be read (PX7, H5).
    #[must_use]
    pub fn wants_body(&self) -> bool {
        self.out.has_room(&self.limits)
    }

    /// Requests of the client's that are not answered yet.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.server.requests_in_flight()
    }

    /// Lets each machine's output become the other's input until both are silent.
    fn settle(&mut self, now: Instant) {
        loop {
            if let Some(output) = self.server.poll_output() {
                match output {
                    Output::Action(StdioAction::Write(bytes)) => self.out.act(Action::Write(bytes)),
                    Output::Action(StdioAction::CloseWrite) => self.out.act(Action::CloseWrite),
                    // Who serves starts nobody.
                    Output::Action(StdioAction::Respawn) => {}
                    Output::Event(event) => self.on_server_event(event, now),
                }
            } else if let Some(output) = self.client.poll_output() {
                match output {
                    Output::Action(HttpAction::Open { exchange, request }) => {
                        self.out.act(Action::Open { exchange, request });
                    }
                    Output::Action(HttpAction::Abort { exchange }) => self.out.act(Action::Abort { exchange }),
                    Output::Event(event) => self.on_client_event(event, now),
                }
            } else {
                return;
            }
        }
    }

    /// What the machine that faces the client tells.
    fn on_server_event(&mut self, event: server::Event, now: Instant) {
        use server::Event as E;
        match event {
            E::Requested { ticket, method, params } if method == Method::INITIALIZE => {
                self.on_initialize(ticket, params.unwrap_or(Json::empty_object()), now);
            }
            E::Requested { ticket, method, params } => {
                let call = Call { method, params, timeout: None, progress: false };
                match self.client.request(call, now) {
                    Ok(request) => {
                        self.upward_by_ticket.insert(ticket.key(), request);
                        self.upward.insert(request, ticket);
                    }
                    Err(error) => {
                        self.respond(ticket, Err(ErrorObject::new(code::INTERNAL_ERROR, &error.to_string())), now);
                    }
                }
            }
            E::Cancelled { ticket, params } => {
                if let Some(request) = self.upward_by_ticket.remove(&ticket) {
                    self.upward.remove(&request);
                    self.client.cancel_with(request, &params.unwrap_or(Json::empty_object()), now);
                }
            }
            E::Notified { method, params, .. } if method == Method::INITIALIZED => {
                if let Err(error) = self.client.confirm(params, now) {
                    self.out.tell(Event::NotPassed { method, error });
                }
            }
            E::Notified { method, params, .. } => self.notify_server(method, params, now),
            E::Progressed { params, .. } => self.notify_server(Method::PROGRESS, Some(params), now),
            E::Responded { request, outcome } => {
                if let Some(ticket) = self.downward.remove(&request) {
                    self.downward_by_ticket.remove(&ticket.key());
                    let answer = match outcome {
                        Outcome::Result(result) => Ok(result),
                        Outcome::Error(error) => Err(error),
                        Outcome::Failed(reason) => {
                            Err(ErrorObject::new(code::INTERNAL_ERROR, &reason.describe("the client")))
                        }
                    };
                    self.client.answer(ticket, answer, now);
                }
            }
            E::Faulted(fault) => self.out.tell(Event::Faulted { side: Side::Client, fault }),
            E::Closed { reason, .. } => {
                self.out.tell(Event::ClientGone(reason));
                self.client.close(now);
            }
            E::Connected { .. } | E::Ready { .. } | E::InputEnded => {}
        }
    }

    /// What the machine that faces the server tells.
    fn on_client_event(&mut self, event: client::Event, now: Instant) {
        use client::Event as E;
        match event {
            E::Connected { version, result, occasion, .. } => {
                self.out.tell(Event::Connected { version, result: result.clone(), occasion });
                self.on_connected(result, occasion, now);
            }
            E::Unavailable { reason, retry_at } => {
                self.on_unavailable(&reason, now);
                self.out.tell(Event::Unavailable { reason, retry_at });
            }
            E::SessionLost => {
                self.out.tell(Event::SessionLost);
                self.cancel_downward(now);
            }
            E::Responded { request, outcome } => self.on_answer(request, outcome, now),
            // RP12: only for requests that are in flight, as they came.
            E::Progressed { request, params } if self.upward.contains_key(&request) => {
                self.notify_client(Method::PROGRESS, Some(params), now);
            }
            // Besides, it subscribes to nothing.
            E::Progressed { .. } | E::Listening { .. } | E::ListeningInterrupted { .. } | E::ListeningEnded { .. } => {}
            E::Requested { ticket, method, params, .. } => {
                let call = Call { method, params, timeout: None, progress: false };
                match self.server.request(self.server.session(), call, now) {
                    Ok(request) => {
                        self.downward_by_ticket.insert(ticket.key(), request);
                        self.downward.insert(request, ticket);
                    }
                    Err(error) => {
                        let error = ErrorObject::new(code::INTERNAL_ERROR, &error.to_string());
                        self.client.answer(ticket, Err(error), now);
                    }
                }
            }
            E::RequestCancelled { ticket, params } => {
                if let Some(request) = self.downward_by_ticket.remove(&ticket) {
                    self.downward.remove(&request);
                    self.server.cancel_with(request, &params, now);
                }
            }
            E::Notified { method, params, .. } => self.notify_client(method, params, now),
            E::Faulted(fault) => self.out.tell(Event::Faulted { side: Side::Server, fault }),
            E::QuirkMet(quirk) => self.out.tell(Event::QuirkMet(quirk)),
            E::Closed(reason) => {
                self.server.close(now);
                self.out.tell(Event::Closed(reason));
            }
        }
    }

    /// BR-T-09: the client's own `initialize` goes to the server as it is, and the server's answer comes back as it is.
    fn on_initialize(&mut self, ticket: Ticket, params: Json, now: Instant) {
        if let Opening::Prepared { params: prepared, result } = &self.opening {
            if *prepared == params {
                let result = result.clone();
                self.opening = Opening::Done;
                self.respond(ticket, Ok(result), now);
                return;
            }
        }
        match self.client.connect_with(params.clone(), now) {
            Ok(()) => self.opening = Opening::Sent { ticket, params },
            Err(error) => self.respond(ticket, Err(ErrorObject::new(code::INTERNAL_ERROR, &error.to_string())), now),
        }
    }

    fn on_connected(&mut self, result: Json, occasion: Occasion, now: Instant) {
        if occasion == Occasion::Again {
            return;
        }
        match std::mem::replace(&mut self.opening, Opening::Done) {
            Opening::Sent { ticket, .. } => self.respond(ticket, Ok(result), now),
            Opening::Failed { params } | Opening::Prepared { params, .. } => {
                self.opening = Opening::Prepared { params, result };
            }
            Opening::Awaited | Opening::Done => {}
        }
    }

    /// Whoever waits hears what is wrong; the connection is tried again behind it.
    fn on_unavailable(&mut self, reason: &Unavailable, now: Instant) {
        match std::mem::replace(&mut self.opening, Opening::Done) {
            Opening::Sent { ticket, params } => {
                self.opening = Opening::Failed { params };
                let error = match reason {
                    Unavailable::Error(error) => error.clone(),
                    Unavailable::Failed(reason) => self.error_for(reason),
                };
                self.respond(ticket, Err(error), now);
            }
            Opening::Prepared { params, .. } | Opening::Failed { params } => self.opening = Opening::Failed { params },
            opening @ (Opening::Awaited | Opening::Done) => self.opening = opening,
        }
    }

    fn on_answer(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        let Some(ticket) = self.upward.remove(&request) else { return };
        self.upward_by_ticket.remove(&ticket.key());
        let answer = match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(error),
            Outcome::Failed(reason) => {
                let error = self.error_for(&reason);
                self.out.tell(Event::Failed(reason));
                Err(error)
            }
        };
        self.respond(ticket, answer, now);
    }

    fn respond(&mut self, ticket: Ticket, answer: Result<Json, ErrorObject>, now: Instant) {
        // A relay may pass on any code: they are the server's.
        let _ = self.server.respond(ticket, answer, now);
    }

    /// A failure as the client sees it. The data tells a program that it is none of the server's own errors (JR-50).
    fn error_for(&self, reason: &Failed) -> ErrorObject {
        let server = format!("the server at {}", self.client.server());
        let mut data = Json::empty_object();
        if let Some(status) = reason.status() {
            data = data.with_member("status", &Json::from(i64::from(status.as_u16())));
        }
        let data = data.with_member("failure", &Json::from(reason.name()));
        let data = data.with_member("source", &Json::from("relay"));
        ErrorObject::with_data(code::INTERNAL_ERROR, &reason.describe(&server), &data)
    }

    fn notify_server(&mut self, method: Method, params: Option<Json>, now: Instant) {
        let notification = Notification { method: method.clone(), params };
        if let Err(error) = self.client.notify(notification, now) {
            self.out.tell(Event::NotPassed { method, error });
        }
    }

    fn notify_client(&mut self, method: Method, params: Option<Json>, now: Instant) {
        let notification = Notification { method: method.clone(), params };
        if let Err(error) = self.server.notify(self.server.session(), notification, now) {
            self.out.tell(Event::NotPassed { method, error });
        }
    }

    /// What the old session asked of the client is of no use to the next (SH-C-08).
    fn cancel_downward(&mut self, now: Instant) {
        self.downward_by_ticket.clear();
        for request in std::mem::take(&mut self.downward).into_keys() {
            self.server.cancel(request, Some("the session with the server was lost"), now);
        }
    }
}
