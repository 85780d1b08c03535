//! The relay: a server that faces a client on a byte stream, joined to a client that faces a server, over HTTP or on a
//! byte stream of its own.
//!
//! It is an application of the two machines and speaks no protocol of its own. What the client says first is passed on
//! as it is. If the server speaks the same era, so is everything else: payloads cross byte for byte as they were
//! validated, ids are each side's own, and what names a request (a cancellation, progress) follows its id across. If it
//! does not, the relay becomes the server that its client expects, and the client that the server expects (RULES section
//! 13). The session to a legacy server may be lost and opened again without the client knowing.
//!
//! ```text
//!  client ── lines ──▶ Server<Stdio> ── events ──▶ Relay ── commands ──▶ Client<T> ── exchanges, lines ──▶ server
//!         ◀───────────               ◀── commands ──     ◀── events ────           ◀───────────────────
//! ```
//!
//! | client | server | what the relay is |
//! |---|---|---|
//! | legacy | legacy | a pipe (`straight`) that opens lost sessions again |
//! | modern | modern | a pipe (`straight`) that writes the headers |
//! | legacy | modern | the client's legacy server (`legacy_client`): what a call needs is asked for by requests |
//! | modern | legacy | the client's modern server (`modern_client`): calls whose server asks are parked |
//!
//! | file | what it does |
//! |---|---|
//! | `config` | what the relay is told |
//! | `event` | what it does and tells |
//! | `opening` | how the two sides find together |
//! | `pace` | whether the server takes what the client sends |
//! | `in_flight` | what is under way |
//! | `straight` | both speak the same era |
//! | `legacy_client` | a legacy client, a modern server |
//! | `modern_client` | a modern client, a legacy server |
//! | `convert` | what payloads lose and gain between the eras |

mod config;
mod convert;
mod event;
mod in_flight;
mod legacy_client;
mod modern_client;
mod opening;
mod pace;
mod pass_through;

use std::time::Duration;

use http::response::Parts;

use crate::Instant;
use crate::client::{self, Call, Client, ClientTransport, ExchangeKey, Failure, Http, Outcome};
use crate::codec::json::Json;
use crate::codec::jsonrpc::{ErrorObject, Notification};
use crate::codec::text::Excerpt;
use crate::conversation::deadlines::Deadlines;
use crate::conversation::outbox::{Outbox, Output};
use crate::conversation::pending::{RequestKey, Ticket, TicketKey};
use crate::error::{Failed, UsageError};
use crate::limits::{Limits, Load};
use crate::server::{self, Server};
use crate::spec::ProtocolVersion;
use crate::spec::{Method, code};
use crate::transport::Stdio;
use in_flight::InFlight;
use legacy_client::LegacyClient;
use modern_client::{ModernClient, ParkKey};
use opening::Opening;
use pace::Pace;

pub use config::Config;
pub use event::{Action, Event, Side};

/// Joins a client on a byte stream to a server.
///
/// `Relay<Http>` is fed what happens to HTTP exchanges, `Relay<Stdio>` the server's bytes. All other methods are the same.
///
/// # Example: the first line causes the first request
///
/// ```
/// use mcp_proto::client::{Http, HttpAction, HttpConfig};
/// use mcp_proto::relay::{Action, Config, Relay};
/// use mcp_proto::{Instant, Output};
///
/// let http = Http::new(HttpConfig::new("https://example.com/mcp")?);
/// let mut relay = Relay::new(http, Config::default())?;
/// let line = br#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
/// relay.handle_bytes(line, Instant::now());
/// relay.handle_bytes(b"\n", Instant::now());
/// let Some(Output::Action(Action::Server(HttpAction::Open { request, .. }))) = relay.poll_output() else { panic!() };
/// let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
/// assert_eq!(request.body(), body);
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Debug)]
pub struct Relay<T: ClientTransport = Http> {
    server: Server<Stdio>,
    client: Client<T>,
    path: Path,
    in_flight: InFlight,
    /// The revisions that the server may be spoken to in.
    versions: Vec<ProtocolVersion>,
    /// Calls whose clients do not come back.
    timers: Deadlines<ParkKey>,
    parking_timeout: Duration,
    limits: Limits,
    pace: Pace,
    out: Outbox<Action<T::Action>, Event>,
}

/// How the two sides are joined.
#[derive(Debug)]
enum Path {
    /// It is not known yet.
    Opening(Opening),
    /// They speak the same era.
    PassThrough {
        /// What a modern server has said of itself.
        discovered: Option<Json>,
    },
    /// The client is a legacy one, the server a modern one.
    LegacyClient(LegacyClient),
    /// The client is a modern one, the server a legacy one.
    ModernClient(ModernClient),
}

impl<T: ClientTransport> Relay<T> {
    /// A relay that reaches the server through this transport.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration cannot be worked with.
    pub fn new(mut transport: T, config: Config) -> Result<Self, UsageError> {
        transport.redeliver_for(config.redelivery);
        let (limits, versions, parking_timeout) =
            (config.limits.clone(), config.versions.clone(), config.parking_timeout);
        let request_timeout = config.request_timeout;
        let (server, client) = config.split();
        Ok(Self {
            server: Server::new(Stdio::new(), server)?,
            client: Client::new(transport, client)?,
            path: Path::Opening(Opening::Awaited),
            in_flight: InFlight::default(),
            versions,
            timers: Deadlines::new(),
            parking_timeout,
            pace: Pace::new(request_timeout, &limits),
            limits,
            out: Outbox::new(),
        })
    }

    /// Bytes have arrived from the client, in pieces of any size.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.server.handle_bytes(bytes, now);
        self.settle(now);
    }

    /// The client's stream has taken this many more bytes of [`Action::Client`].
    pub fn handle_written(&mut self, bytes: usize, now: Instant) {
        self.server.handle_written(bytes, now);
        self.settle(now);
    }

    /// The client's stream has ended: requests in flight are finished within a bound, then the session is ended.
    pub fn handle_eof(&mut self, now: Instant) {
        self.server.handle_eof(now);
        self.settle(now);
    }

    /// Lets everything happen that is due. Calling this early or twice does nothing (CL2).
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(key) = self.timers.pop_due(now) {
            self.on_parked_too_long(key, now);
        }
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
    pub fn poll_output(&mut self) -> Option<Output<Action<T::Action>, Event>> {
        self.out.pop()
    }

    /// When [`Relay::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let own = [self.timers.next(), self.pace.poll_timeout()];
        let machines = [self.server.poll_timeout(), self.client.poll_timeout()];
        own.into_iter().chain(machines).flatten().min()
    }

    /// Whether more of the client's bytes should be read (PX7, H5). With `false`, the client does not read its answers, or
    /// the server is slow. A server that takes nothing at all for 5 seconds, or for as long as a request may take, is no
    /// reason to wait: reading goes on, and requests that find no room are answered with an error at once (K5).
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        self.out.has_room(&self.limits) && self.server.wants_input() && self.pace.lets_read()
    }

    /// Whether more of what the server says should be read (PX7, H5). With `false`, the client does not read, or the
    /// server does not read the answers to its own requests.
    #[must_use]
    pub fn wants_body(&self) -> bool {
        self.out.has_room(&self.limits) && self.server.takes_output() && self.client.wants_input()
    }

    /// What the relay holds now, on both sides and in between.
    #[must_use]
    pub fn load(&self) -> Load {
        let (waiting, parked) = match &self.path {
            Path::Opening(opening) => opening.waiting(),
            Path::ModernClient(state) => (0, state.held()),
            Path::PassThrough { .. } | Path::LegacyClient(_) => (0, 0),
        };
        let own = Load { waiting, held: self.in_flight.bytes() + parked, timers: self.timers.len(), ..Load::default() };
        own + self.server.load() + self.client.load()
    }

    /// Requests of the client's that are not answered yet.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.server.requests_in_flight()
    }

    /// Lets each machine's output become the other's input until both are silent.
    fn settle(&mut self, now: Instant) {
        self.exchange_outputs(now);
        self.pace.update(self.client.backlog(), now);
    }

    fn exchange_outputs(&mut self, now: Instant) {
        loop {
            if let Some(output) = self.server.poll_output() {
                match output {
                    Output::Action(action) => self.out.act(Action::Client(action)),
                    Output::Event(event) => self.on_server_event(event, now),
                }
            } else if let Some(output) = self.client.poll_output() {
                match output {
                    Output::Action(action) => self.out.act(Action::Server(action)),
                    Output::Event(event) => self.on_client_event(event, now),
                }
            } else if let Some(change) = self.server.poll_subscription() {
                self.on_subscription_change(change, now);
            } else if self.server.takes_held_listens() {
                self.acknowledge_listens(now);
            } else {
                return;
            }
        }
    }

    /// What the machine that faces the client tells.
    fn on_server_event(&mut self, event: server::Event, now: Instant) {
        use server::Event as E;
        match event {
            E::Requested { ticket, method, params } => self.on_request(ticket, method, params, now),
            E::Cancelled { ticket, params } => match self.in_flight.cancel_to_server(ticket) {
                Some(request) => self.client.cancel_with(request, &params.unwrap_or(Json::empty_object()), now),
                None => self.forget(ticket),
            },
            E::Notified { method, params, .. } => self.on_notification(method, params, now),
            E::Progressed { params, .. } => self.on_notification(Method::PROGRESS, Some(params), now),
            E::Responded { request, outcome } => {
                let Some(forwarded) = self.in_flight.remove_to_client(request) else { return };
                match self.path {
                    Path::LegacyClient(_) => self.on_legacy_answer(forwarded, outcome, now),
                    Path::Opening(_) | Path::PassThrough { .. } | Path::ModernClient(_) => {
                        self.pass_answer(forwarded.ticket, outcome, now);
                    }
                }
            }
            E::Faulted(fault) => self.out.report(Event::Faulted { side: Side::Client, fault }),
            E::InputEnded => {
                if let Path::PassThrough { .. } = self.path {
                    self.end_subscriptions(now);
                }
            }
            E::Closed { reason, .. } => {
                self.out.report(Event::ClientGone(reason));
                self.forget_all_held();
                self.client.close(now);
            }
            E::Ready { .. } => self.listen_anew(now),
            E::Connected { .. } => {}
        }
    }

    fn on_request(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        match &self.path {
            Path::LegacyClient(_) => self.on_legacy_request(ticket, method, params, now),
            Path::ModernClient(_) => self.on_modern_request(ticket, method, params, now),
            Path::Opening(_) | Path::PassThrough { .. } if method == Method::INITIALIZE => {
                self.on_initialize(ticket, params.unwrap_or(Json::empty_object()), now);
            }
            Path::Opening(_) if self.server.stated(&ticket).is_some() => {
                self.on_discovering(ticket, method, params, now);
            }
            Path::Opening(_) | Path::PassThrough { .. } => self.pass(ticket, method, params, now),
        }
    }

    /// Whether so much may be kept beside what is kept for requests that have no outcome (M1).
    fn holds(&self, bytes: usize) -> bool {
        self.limits.holds(bytes, || {
            let parked = if let Path::ModernClient(state) = &self.path { state.held() } else { 0 };
            self.in_flight.bytes() + parked
        })
    }

    fn on_notification(&mut self, method: Method, params: Option<Json>, now: Instant) {
        match self.path {
            // BR-L-03; clients of the modern era tell nothing.
            Path::LegacyClient(_) | Path::ModernClient(_) => {}
            Path::Opening(_) | Path::PassThrough { .. } => {
                let told = if method == Method::INITIALIZED {
                    self.client.confirm(params, now)
                } else {
                    self.client.notify(Notification { method: method.clone(), params }, now)
                };
                if let Err(error) = told {
                    self.out.report(Event::NotPassed { method, error });
                }
            }
        }
    }

    /// The client has taken a request back that is not with the server.
    fn forget(&mut self, ticket: TicketKey) {
        self.forget_held(ticket);
        self.on_legacy_cancelled(ticket);
    }

    /// What the machine that faces the server tells.
    fn on_client_event(&mut self, event: client::Event, now: Instant) {
        use client::Event as E;
        match event {
            E::Connected { version, result, is_reconnect, .. } => {
                self.out.report(Event::Connected { version, result: result.clone(), is_reconnect });
                self.on_connected(version, result, is_reconnect, now);
            }
            E::Unavailable { reason, retry_at } => {
                self.on_unavailable(&reason, now);
                self.out.report(Event::Unavailable { reason, retry_at });
            }
            E::SessionLost => {
                self.out.report(Event::SessionLost);
                self.forget_roots_questions();
                // SH-C-08: what the old session asked is of no use to the next.
                for request in self.in_flight.clear_to_client() {
                    self.server.cancel(request, Some("the session with the server was lost"), now);
                }
            }
            E::Responded { request, outcome } => self.on_outcome(request, outcome, now),
            // RP12: only for requests that are in flight.
            E::Progressed { request, params } => match (&self.path, self.in_flight.get_to_server(request)) {
                (_, None) => {}
                (Path::LegacyClient(_), Some(_)) => self.on_legacy_progress(request, params, now),
                (Path::ModernClient(_), Some(_)) => self.on_modern_progress(request, params, now),
                (Path::Opening(_) | Path::PassThrough { .. }, Some(forwarded)) => {
                    self.notify_client((&forwarded.ticket).into(), Method::PROGRESS, Some(params), now);
                }
            },
            E::NotRestored { method, reason, .. } => self.out.report(Event::NotInEffect { method, reason }),
            E::Listening { subscription, filter } => self.on_listening(subscription, &filter, now),
            E::ListeningEnded { subscription, outcome } => self.on_listening_ended(subscription, &outcome, now),
            E::ListeningInterrupted { .. } => {}
            E::Requested { ticket, scope, method, params } => match self.path {
                Path::LegacyClient(_) => self.on_input_required(scope, ticket, method, params, now),
                Path::ModernClient(_) => self.on_question(scope, ticket, method, params, now),
                Path::Opening(_) | Path::PassThrough { .. } => self.pass_down(ticket, method, params, now),
            },
            E::RequestCancelled { ticket, params } => match self.in_flight.cancel_to_client(ticket) {
                Some(request) => self.server.cancel_with(request, &params, now),
                None => self.on_question_cancelled(ticket),
            },
            E::Notified { scope, method, params } => match self.path {
                Path::LegacyClient(_) => self.on_modern_notification(scope, method, params, now),
                Path::ModernClient(_) => self.on_legacy_notification(scope, method, params, now),
                Path::Opening(_) | Path::PassThrough { .. } => self.pass_notification(scope, method, params, now),
            },
            E::RequestWaits { limit } => self.out.report(Event::RequestWaits { limit }),
            E::Faulted(fault) => self.out.report(Event::Faulted { side: Side::Server, fault }),
            E::QuirkMet(quirk) => self.out.report(Event::QuirkMet(quirk)),
            E::Closed(reason) => {
                self.server.close(now);
                self.out.report(Event::Closed(reason));
            }
        }
    }

    fn on_outcome(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        let Some(forwarded) = self.in_flight.remove_to_server(request) else {
            return self.on_parked_outcome(request, outcome, now);
        };
        match self.path {
            Path::LegacyClient(_) => self.on_legacy_outcome(forwarded, outcome, now),
            Path::ModernClient(_) => self.on_modern_outcome(forwarded, outcome, now),
            Path::Opening(_) | Path::PassThrough { .. } => self.pass_outcome(forwarded, outcome, now),
        }
    }

    fn respond(&mut self, ticket: Ticket, answer: Result<Json, ErrorObject>, now: Instant) {
        // A relay may pass on any code: they are the server's.
        let _ = self.server.respond(ticket, answer, now);
    }

    /// Asks the client for something that the server wants to know.
    fn ask_client(&mut self, scope: server::Scope, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        let call = Call { method: method.clone(), params, timeout: None, progress: false };
        match self.server.request(scope, call, now) {
            Ok(request) => self.in_flight.insert_to_client(request, ticket, method),
            Err(error) => {
                let error = ErrorObject::new(code::INTERNAL_ERROR, &error.to_string());
                self.client.answer(ticket, Err(error), now);
            }
        }
    }

    fn notify_client(&mut self, scope: server::Scope, method: Method, params: Option<Json>, now: Instant) {
        let notification = Notification { method: method.clone(), params };
        if let Err(error) = self.server.notify(scope, notification, now) {
            self.out.report(Event::NotPassed { method, error });
        }
    }

    /// Tells the client of a change, if it wants to know.
    fn publish(&mut self, notification: Notification, now: Instant) {
        let method = notification.method.clone();
        if let Err(error) = self.server.publish(notification, now) {
            self.out.report(Event::NotPassed { method, error });
        }
    }

    /// Tells of a request that got no answer; returns what the client is told.
    fn report_failure(&mut self, reason: Failed) -> ErrorObject {
        let error = self.error_for(&reason);
        self.out.report(Event::Failed(reason));
        error
    }

    /// A failure as the client sees it. The data tells a program that it is none of the server's own errors (JR-50).
    fn error_for(&self, reason: &Failed) -> ErrorObject {
        let mut data = Json::empty_object();
        if let Some(status) = reason.status() {
            data = data.with_member("status", &Json::from(i64::from(status.as_u16())));
        }
        if let Failed::Refused(refusal) = reason {
            let shown: Vec<_> = refusal.challenges().collect();
            let shown: Vec<_> = shown.iter().map(Excerpt::as_str).collect();
            if !shown.is_empty() {
                // RFC 9110, section 5.3: one header with all of them means the same.
                data = data.with_member("challenge", &Json::from(shown.join(", ").as_str()));
            }
        }
        let data = data.with_member("failure", &Json::from(reason.name()));
        let data = data.with_member("source", &Json::from("relay"));
        ErrorObject::with_data(code::INTERNAL_ERROR, &reason.describe(&self.client.peer()), &data)
    }
}

impl Relay<Http> {
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
}

impl Relay<Stdio> {
    /// Bytes have arrived from the server, in pieces of any size.
    pub fn handle_server_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.client.handle_bytes(bytes, now);
        self.settle(now);
    }

    /// The server's stream has taken this many more bytes of [`Action::Server`]. After
    /// [`StdioAction::Respawn`](crate::StdioAction::Respawn), bytes of the earlier process are not reported any more.
    pub fn handle_server_written(&mut self, bytes: usize, now: Instant) {
        self.client.handle_written(bytes, now);
        self.settle(now);
    }

    /// The server's stream has ended.
    pub fn handle_server_eof(&mut self, now: Instant) {
        self.client.handle_eof(now);
        self.settle(now);
    }
}
