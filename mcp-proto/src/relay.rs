//! The relay: joins a [`Server`], which faces a client on a byte stream, to a [`Client`], which faces a server over
//! HTTP or on another byte stream.
//!
//! It is an application of these two machines and implements no protocol of its own. The client's first message is
//! forwarded unchanged. If the server is of the same era, everything else is too: payloads are forwarded byte for byte
//! as they were validated, each side has its own request ids, and the ids in cancellations and progress notifications
//! are mapped. If the server is of the other era, the relay acts as a server of the client's era and as a client of the
//! server's era (RULES section 13). If the session to a legacy server is lost, the relay opens it again without an
//! effect on the client's session.
//!
//! ```text
//!  client ── lines ──▶ Server<Stdio> ── events ──▶ Relay ── commands ──▶ Client<T> ── exchanges, lines ──▶ server
//!         ◀───────────               ◀── commands ──     ◀── events ────           ◀───────────────────
//! ```
//!
//! | client | server | what the relay does |
//! |---|---|---|
//! | legacy | legacy | forwards messages (`pass_through`) and opens lost sessions again |
//! | modern | modern | forwards messages (`pass_through`) and adds the HTTP headers |
//! | legacy | modern | acts as a legacy server (`legacy_client`): sends input requests of a call to the client |
//! | modern | legacy | acts as a modern server (`modern_client`): parks a call while its server waits for input |
//!
//! | file | what it does |
//! |---|---|
//! | `config` | the configuration of a relay |
//! | `event` | actions for the driver, and events |
//! | `opening` | the first messages, which determine the eras of both sides |
//! | `pace` | whether the server accepts data fast enough |
//! | `in_flight` | requests in flight in both directions |
//! | `pass_through` | client and server of the same era |
//! | `legacy_client` | a legacy client and a modern server |
//! | `modern_client` | a modern client and a legacy server |
//! | `convert` | conversion of payloads between the eras |

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
/// `Relay<Http>` takes the events of HTTP exchanges as input, `Relay<Stdio>` the server's bytes. All other methods are
/// the same.
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
/// relay.handle_bytes(line, Instant::START);
/// relay.handle_bytes(b"\n", Instant::START);
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
    /// The revisions that may be used with the server.
    versions: Vec<ProtocolVersion>,
    /// The deadlines of parked calls.
    timers: Deadlines<ParkKey>,
    parking_timeout: Duration,
    limits: Limits,
    pace: Pace,
    out: Outbox<Action<T::Action>, Event>,
}

/// How the relay joins the two sides.
#[derive(Debug)]
enum Path {
    /// The eras are not known yet.
    Opening(Opening),
    /// Both sides are of the same era.
    PassThrough {
        /// The `server/discover` result of a modern server.
        discovered: Option<Json>,
    },
    /// The client is legacy, the server modern.
    LegacyClient(LegacyClient),
    /// The client is modern, the server legacy.
    ModernClient(ModernClient),
}

impl<T: ClientTransport> Relay<T> {
    /// Creates a relay that reaches the server through this transport.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
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

    /// The client's stream has ended: requests in flight may still finish within a bound, then the session is ended.
    pub fn handle_eof(&mut self, now: Instant) {
        self.server.handle_eof(now);
        self.settle(now);
    }

    /// Does everything that is due. Calling this early or twice has no effect (CL2).
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(key) = self.timers.pop_due(now) {
            self.on_parked_too_long(key, now);
        }
        self.server.handle_timeout(now);
        self.settle(now);
        self.client.handle_timeout(now);
        self.settle(now);
    }

    /// Ends both sides: each unanswered request of the client is answered with an error, and the session is ended.
    /// [`Event::Closed`] follows within the time limit for ending a session.
    pub fn close(&mut self, now: Instant) {
        self.server.close(now);
        self.settle(now);
    }

    /// Returns the next action or event. All outputs must be taken for the relay to make progress; taking them late is
    /// harmless.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<Action<T::Action>, Event>> {
        self.out.pop()
    }

    /// When [`Relay::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let own = [self.timers.next(), self.pace.poll_timeout()];
        let machines = [self.server.poll_timeout(), self.client.poll_timeout()];
        own.into_iter().chain(machines).flatten().min()
    }

    /// Whether the driver should read more of the client's bytes (PX7, H5). `false` means that the client does not read
    /// its answers, or that the server is slow. Once the server has taken nothing for 5 seconds, or for the request
    /// timeout if that is shorter, this returns `true` again, and requests for which there is no room are answered with
    /// an error at once (K5).
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        self.out.has_room(&self.limits) && self.server.wants_input() && self.pace.lets_read()
    }

    /// Whether the driver should read more of the server's data (PX7, H5). `false` means that the client does not read,
    /// or that the server does not read the answers to its own requests.
    #[must_use]
    pub fn wants_body(&self) -> bool {
        self.out.has_room(&self.limits) && self.server.takes_output() && self.client.wants_input()
    }

    /// The load of the relay: both sides, and what the relay itself holds.
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

    /// The number of the client's requests that are not answered yet.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.server.requests_in_flight()
    }

    /// Feeds the outputs of each machine into the other until both have none left.
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

    /// Handles an event of the server machine, which faces the client.
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

    /// Whether this many bytes may be held in addition to those of requests without an outcome (M1).
    fn holds(&self, bytes: usize) -> bool {
        self.limits.holds(bytes, || {
            let parked = if let Path::ModernClient(state) = &self.path { state.held() } else { 0 };
            self.in_flight.bytes() + parked
        })
    }

    fn on_notification(&mut self, method: Method, params: Option<Json>, now: Instant) {
        match self.path {
            // The relay itself is the server for a legacy client's notifications (BR-L-03); a modern client sends none
            // to forward.
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

    /// The client has cancelled a request that was not sent to the server.
    fn forget(&mut self, ticket: TicketKey) {
        self.forget_held(ticket);
        self.on_legacy_cancelled(ticket);
    }

    /// Handles an event of the client machine, which faces the server.
    fn on_client_event(&mut self, event: client::Event, now: Instant) {
        use client::Event as E;
        match event {
            E::Connected { version, result, is_reconnect, .. } => {
                self.out.report(Event::Connected { version, result: result.clone(), is_reconnect });
                self.on_connected(version, result, is_reconnect, now);
            }
            E::Unavailable { reason, retry_in } => {
                self.on_unavailable(&reason, now);
                self.out.report(Event::Unavailable { reason, retry_in });
            }
            E::SessionLost => {
                self.out.report(Event::SessionLost);
                self.forget_roots_questions();
                // The next session has no use for the answers to the old session's requests (SH-C-08).
                for request in self.in_flight.clear_to_client() {
                    self.server.cancel(request, Some("the session with the server was lost"), now);
                }
            }
            E::Responded { request, outcome } => self.on_outcome(request, outcome, now),
            // Progress is valid only for requests in flight (RP12).
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
        // A relay may forward any error code, since the server chose it.
        let _ = self.server.respond(ticket, answer, now);
    }

    /// Forwards a request of the server to the client.
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

    /// Publishes a change to the client if the client has subscribed to it.
    fn publish(&mut self, notification: Notification, now: Instant) {
        let method = notification.method.clone();
        if let Err(error) = self.server.publish(notification, now) {
            self.out.report(Event::NotPassed { method, error });
        }
    }

    /// Reports a request that got no answer, and returns the error for the client.
    fn report_failure(&mut self, reason: Failed) -> ErrorObject {
        let error = self.error_for(&reason);
        self.out.report(Event::Failed(reason));
        error
    }

    /// Converts a failure into an error for the client. Its data marks it as an error of the relay, not of the server
    /// (JR-50).
    fn error_for(&self, reason: &Failed) -> ErrorObject {
        let mut data = Json::empty_object();
        if let Some(status) = reason.status() {
            data = data.with_member("status", &Json::from(i64::from(status.as_u16())));
        }
        if let Failed::Refused(refusal) = reason {
            let shown: Vec<_> = refusal.challenges().collect();
            let shown: Vec<_> = shown.iter().map(Excerpt::as_str).collect();
            if !shown.is_empty() {
                // One header with all challenges has the same meaning as several (RFC 9110, section 5.3).
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

    /// The body of an exchange has ended normally.
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
    /// [`StdioAction::Respawn`](crate::StdioAction::Respawn), bytes of the earlier process must no longer be reported.
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
