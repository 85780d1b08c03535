//! The relay: joins a [`Server`], to which a client is connected by a byte stream, and a [`Client`], which is connected
//! to a server over HTTP or by another byte stream.
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
//! | modern | legacy | acts as a modern server (`modern_client`): keeps a call open at the server while the server waits for input (a *parked* call) |
//!
//! | file | what it does |
//! |---|---|
//! | `config` | the configuration of a relay |
//! | `event` | actions for the driver, and events |
//! | `opening` | the first messages, which determine the eras of both sides |
//! | `pace` | whether the server accepts data fast enough |
//! | `sides` | the two machines, and the functions for all combinations of eras |
//! | `in_flight` | requests in flight in both directions |
//! | `pass_through` | client and server of the same era |
//! | `legacy_client` | a legacy client and a modern server |
//! | `modern_client` | a modern client and a legacy server |
//! | `watched` | the resources that a legacy client has subscribed to |
//! | `parked_calls` | calls of a modern client that wait for its retry |
//! | `session_settings` | log level and subscriptions that are set in the session of a legacy server |
//! | `convert` | conversion of payloads between the eras |

mod config;
mod convert;
mod event;
mod in_flight;
mod legacy_client;
mod modern_client;
mod opening;
mod pace;
mod parked_calls;
mod pass_through;
mod session_settings;
mod sides;
mod watched;

use std::time::Duration;

use http::response::Parts;

use in_flight::InFlight;
use legacy_client::LegacyClient;
use mcp_proto::Instant;
use mcp_proto::Json;
use mcp_proto::Load;
use mcp_proto::Output;
use mcp_proto::Stdio;
use mcp_proto::UsageError;
use mcp_proto::client::{self, Client, ClientTransport, ExchangeKey, Failure, Http, Outcome};
use mcp_proto::machine::Outbox;
use mcp_proto::server::{self, Server};
use mcp_proto::spec::{Method, ProtocolVersion};
use mcp_proto::{RequestKey, Ticket};
use modern_client::ModernClient;
use opening::Opening;
use pace::Pace;
use sides::Sides;

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
    sides: Sides<T>,
    path: Path,
    /// The revisions that may be used with the server.
    versions: Vec<ProtocolVersion>,
    /// How long a parked call waits for its retry.
    parking_timeout: Duration,
    pace: Pace,
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
        transport.set_redelivery_time(config.redelivery);
        let (limits, versions, parking_timeout) =
            (config.limits.clone(), config.versions.clone(), config.parking_timeout);
        let pace = Pace::new(config.request_timeout, &limits);
        let (server, client) = config.split();
        let sides = Sides {
            server: Server::pass_through(Stdio::new(), server)?,
            client: Client::new(transport, client)?,
            in_flight: InFlight::default(),
            limits,
            out: Outbox::new(),
        };
        Ok(Self { sides, path: Path::Opening(Opening::Awaited), versions, parking_timeout, pace })
    }

    /// Bytes have arrived from the client, in pieces of any size.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.sides.server.handle_bytes(bytes, now);
        self.settle(now);
    }

    /// The client's stream has accepted this many more bytes of [`Action::Client`].
    pub fn handle_written(&mut self, bytes: usize, now: Instant) {
        self.sides.server.handle_written(bytes, now);
        self.settle(now);
    }

    /// The client's stream has ended. Requests in flight may still be answered within [`Config::drain_timeout`]; then
    /// the session is ended.
    pub fn handle_eof(&mut self, now: Instant) {
        self.sides.server.handle_eof(now);
        self.settle(now);
    }

    /// Handles all timers that are due. Calling this early or twice has no effect (CL2).
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Path::ModernClient(state) = &mut self.path {
            state.handle_timeout(&mut self.sides, now);
        }
        self.sides.server.handle_timeout(now);
        self.settle(now);
        self.sides.client.handle_timeout(now);
        self.settle(now);
    }

    /// Ends both sides: each unanswered request of the client is answered with an error, and the session is ended.
    /// [`Event::Closed`] follows within the time limit for ending a session.
    pub fn close(&mut self, now: Instant) {
        self.sides.server.close(now);
        self.settle(now);
    }

    /// The next action for the driver or event for the application. Call this after every input until it returns
    /// `None`.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<Action<T::Action>, Event>> {
        self.sides.out.pop()
    }

    /// When [`Relay::handle_timeout`] must be called next; `None` if no timer is set.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let parked = if let Path::ModernClient(state) = &self.path { state.poll_timeout() } else { None };
        let own = [parked, self.pace.poll_timeout()];
        let machines = [self.sides.server.poll_timeout(), self.sides.client.poll_timeout()];
        own.into_iter().chain(machines).flatten().min()
    }

    /// Whether the driver should read more of the client's bytes (PX7, H5). `false` means that the client does not read
    /// its answers, or that the server is slow. Once the server has taken nothing for 5 seconds, or for the request
    /// timeout if that is shorter, this returns `true` again, and requests for which there is no room are answered with
    /// an error at once (K5).
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        self.sides.out.has_room(&self.sides.limits) && self.sides.server.wants_input() && self.pace.may_read_client()
    }

    /// Whether the driver should read more of the server's data (PX7, H5). `false` means that the client does not read,
    /// or that the server does not read the answers to its own requests.
    #[must_use]
    pub fn wants_body(&self) -> bool {
        self.sides.out.has_room(&self.sides.limits) && self.sides.server.has_room() && self.sides.client.wants_input()
    }

    /// The resources that the relay holds now, those of its two machines included.
    #[must_use]
    pub fn load(&self) -> Load {
        let own = match &self.path {
            Path::Opening(opening) => opening.load(),
            Path::ModernClient(state) => state.load(),
            Path::PassThrough { .. } | Path::LegacyClient(_) => Load::default(),
        };
        let mut in_flight = Load::default();
        in_flight.held = self.sides.in_flight.bytes();
        own + in_flight + self.sides.server.load() + self.sides.client.load()
    }

    /// The number of the client's requests that are not answered yet.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.sides.server.requests_in_flight()
    }

    /// Feeds the outputs of each machine into the other until both have none left.
    fn settle(&mut self, now: Instant) {
        self.exchange_outputs(now);
        self.pace.update(self.sides.client.backlog(), now);
    }

    fn exchange_outputs(&mut self, now: Instant) {
        loop {
            if let Some(output) = self.sides.server.poll_output() {
                match output {
                    Output::Action(action) => self.sides.out.act(Action::Client(action)),
                    Output::Event(event) => self.on_server_event(event, now),
                }
            } else if let Some(output) = self.sides.client.poll_output() {
                match output {
                    Output::Action(action) => self.sides.out.act(Action::Server(action)),
                    Output::Event(event) => self.on_client_event(event, now),
                }
            } else if let Some(change) = self.sides.server.poll_subscription() {
                if let Path::ModernClient(state) = &mut self.path {
                    state.on_subscription_change(&mut self.sides, change, now);
                }
            } else if self.sides.server.poll_unacknowledged() {
                if let Path::ModernClient(state) = &mut self.path {
                    state.acknowledge_listens(&mut self.sides, now);
                }
            } else {
                return;
            }
        }
    }

    /// Handles an event of the server machine, which faces the client.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum may grow")]
    fn on_server_event(&mut self, event: server::Event, now: Instant) {
        use server::Event as E;
        match event {
            E::Requested { ticket, method, params } => self.on_request(ticket, method, params, now),
            E::Cancelled { ticket, params } => match self.sides.in_flight.cancel_to_server(ticket) {
                Some(request) => {
                    self.sides.client.cancel_with(request, &params.unwrap_or(Json::empty_object()), now);
                }
                // It was not sent to the server.
                None => match &mut self.path {
                    Path::Opening(opening) => opening.on_cancelled(ticket),
                    Path::LegacyClient(state) => state.on_cancelled(ticket),
                    Path::PassThrough { .. } | Path::ModernClient(_) => {}
                },
            },
            E::Notified { method, params, .. } => self.on_notification(method, params, now),
            E::Progressed { params, .. } => self.on_notification(Method::PROGRESS, Some(params), now),
            E::Responded { request, outcome } => {
                let Some(forwarded) = self.sides.in_flight.remove_to_client(request) else { return };
                match &mut self.path {
                    Path::LegacyClient(_) => legacy_client::on_answer(&mut self.sides, forwarded, outcome, now),
                    Path::Opening(_) | Path::PassThrough { .. } | Path::ModernClient(_) => {
                        self.sides.pass_answer(forwarded.ticket, outcome, now);
                    }
                }
            }
            E::Faulted(fault) => self.sides.out.report(Event::Faulted { side: Side::Client, fault }),
            E::InputEnded => {
                if let Path::PassThrough { .. } = self.path {
                    self.sides.end_subscriptions(now);
                }
            }
            E::Closed { reason, .. } => {
                self.sides.out.report(Event::ClientGone(reason));
                if let Path::Opening(opening) = &mut self.path {
                    opening.on_client_gone();
                }
                self.sides.client.close(now);
            }
            E::Ready { .. } => {
                if let Path::LegacyClient(state) = &mut self.path {
                    state.listen_anew(&mut self.sides, now);
                }
            }
            // Other events need nothing from the relay.
            _ => {}
        }
    }

    fn on_request(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        match &mut self.path {
            Path::LegacyClient(state) => state.on_request(&mut self.sides, ticket, method, params, now),
            Path::ModernClient(state) => state.on_request(&mut self.sides, ticket, method, params, now),
            Path::Opening(_) | Path::PassThrough { .. } if method == Method::INITIALIZE => {
                self.on_initialize(ticket, params.unwrap_or(Json::empty_object()), now);
            }
            Path::Opening(_) if self.sides.is_stateless(&ticket) => {
                self.on_discovering(ticket, method, params, now);
            }
            Path::Opening(Opening::Discovering { .. }) | Path::PassThrough { discovered: Some(_) } => {
                self.sides.pass_unchanged(ticket, method, params, now);
            }
            Path::Opening(_) | Path::PassThrough { discovered: None } => self.sides.pass(ticket, method, params, now),
        }
    }

    fn on_notification(&mut self, method: Method, params: Option<Json>, now: Instant) {
        match self.path {
            // The relay itself is the server for a legacy client's notifications (BR-L-03); a modern client sends none
            // to forward.
            Path::LegacyClient(_) | Path::ModernClient(_) => {}
            Path::Opening(_) | Path::PassThrough { .. } => self.sides.pass_to_server(method, params, now),
        }
    }

    /// Handles an event of the client machine, which faces the server.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum may grow")]
    fn on_client_event(&mut self, event: client::Event, now: Instant) {
        use client::Event as E;
        match event {
            E::Connected { version, result, is_reconnect, .. } => {
                self.sides.out.report(Event::Connected { version, result: result.clone(), is_reconnect });
                self.on_connected(version, result, is_reconnect, now);
            }
            E::Unavailable { reason, retry_in } => {
                self.on_unavailable(&reason, now);
                self.sides.out.report(Event::Unavailable { reason, retry_in });
            }
            E::SessionLost => {
                self.sides.out.report(Event::SessionLost);
                if let Path::ModernClient(state) = &mut self.path {
                    state.forget_roots_questions();
                }
                // The next session has no use for the answers to the old session's requests (SH-C-08).
                for request in self.sides.in_flight.clear_to_client() {
                    self.sides.server.cancel(request, Some("the session with the server was lost"), now);
                }
            }
            E::Responded { request, outcome } => self.on_outcome(request, outcome, now),
            // Progress is valid only for requests in flight (RP12).
            E::Progressed { request, params } if self.sides.in_flight.get_to_server(request).is_some() => {
                match &self.path {
                    Path::LegacyClient(_) => legacy_client::on_progress(&mut self.sides, request, params, now),
                    Path::ModernClient(_) => modern_client::on_progress(&mut self.sides, request, params, now),
                    Path::Opening(_) | Path::PassThrough { .. } => self.sides.pass_progress(request, params, now),
                }
            }
            E::NotRestored { method, reason, .. } => self.sides.out.report(Event::NotInEffect { method, reason }),
            E::Listening { subscription, filter } => {
                if let Path::LegacyClient(state) = &mut self.path {
                    state.on_listening(&mut self.sides, subscription, &filter, now);
                }
            }
            E::ListeningEnded { subscription, outcome } => {
                if let Path::LegacyClient(state) = &mut self.path {
                    state.on_listening_ended(&mut self.sides, subscription, &outcome, now);
                }
            }
            E::Requested { ticket, scope, method, params } => match &mut self.path {
                Path::LegacyClient(_) => {
                    legacy_client::on_input_required(&mut self.sides, scope, ticket, method, params, now);
                }
                Path::ModernClient(state) => state.on_question(&mut self.sides, scope, ticket, method, params, now),
                Path::Opening(_) | Path::PassThrough { .. } => self.sides.pass_to_client(ticket, method, params, now),
            },
            E::RequestCancelled { ticket, params } => match self.sides.in_flight.cancel_to_client(ticket) {
                Some(request) => self.sides.server.cancel_with(request, &params, now),
                None => {
                    if let Path::ModernClient(state) = &mut self.path {
                        state.on_question_cancelled(ticket);
                    }
                }
            },
            E::Notified { scope, method, params } => match &self.path {
                Path::LegacyClient(_) => {
                    legacy_client::on_notification(&mut self.sides, scope, method, params, now);
                }
                Path::ModernClient(_) => {
                    modern_client::on_notification(&mut self.sides, scope, method, params, now);
                }
                Path::Opening(_) | Path::PassThrough { .. } => {
                    self.sides.pass_notification(scope, method, params, now);
                }
            },
            E::RequestWaits { limit } => self.sides.out.report(Event::RequestWaits { limit }),
            E::Faulted(fault) => self.sides.out.report(Event::Faulted { side: Side::Server, fault }),
            E::QuirkObserved(quirk) => self.sides.out.report(Event::QuirkObserved(quirk)),
            E::Closed(reason) => {
                self.sides.server.close(now);
                self.sides.out.report(Event::Closed(reason));
            }
            // Other events need nothing from the relay.
            _ => {}
        }
    }

    fn on_outcome(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        match (self.sides.in_flight.remove_to_server(request), &mut self.path) {
            (Some(forwarded), Path::LegacyClient(_)) => {
                legacy_client::on_outcome(&mut self.sides, forwarded, outcome, now);
            }
            (Some(forwarded), Path::ModernClient(state)) => {
                state.on_outcome(&mut self.sides, forwarded, outcome, now);
            }
            (Some(forwarded), Path::Opening(_) | Path::PassThrough { .. }) => {
                self.sides.pass_outcome(forwarded, outcome, now);
            }
            (None, Path::ModernClient(state)) => state.on_unforwarded_outcome(&mut self.sides, request, outcome, now),
            (None, Path::Opening(_) | Path::PassThrough { .. } | Path::LegacyClient(_)) => {}
        }
    }
}

impl Relay<Http> {
    /// The request of an exchange was written in full. This call is optional, as [`Client::handle_sent`] is.
    pub fn handle_sent(&mut self, exchange: ExchangeKey, now: Instant) {
        self.sides.client.handle_sent(exchange, now);
        self.settle(now);
    }

    /// The head of the response of an exchange has arrived. Interim responses (1xx) must not be passed in.
    pub fn handle_response(&mut self, exchange: ExchangeKey, head: &Parts, now: Instant) {
        self.sides.client.handle_response(exchange, head, now);
        self.settle(now);
    }

    /// A part of the body of an exchange has arrived, without the chunked transfer coding.
    pub fn handle_body(&mut self, exchange: ExchangeKey, chunk: &[u8], now: Instant) {
        self.sides.client.handle_body(exchange, chunk, now);
        self.settle(now);
    }

    /// The body of an exchange is complete.
    pub fn handle_end(&mut self, exchange: ExchangeKey, now: Instant) {
        self.sides.client.handle_end(exchange, now);
        self.settle(now);
    }

    /// An exchange has failed: it could not be started, or it broke off.
    pub fn handle_failure(&mut self, exchange: ExchangeKey, failure: Failure, now: Instant) {
        self.sides.client.handle_failure(exchange, failure, now);
        self.settle(now);
    }
}

impl Relay<Stdio> {
    /// Bytes have arrived from the server, in pieces of any size.
    pub fn handle_server_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.sides.client.handle_bytes(bytes, now);
        self.settle(now);
    }

    /// The server's stream has accepted this many more bytes of [`Action::Server`]. After
    /// [`StdioAction::Respawn`](mcp_proto::StdioAction::Respawn), bytes of the earlier process must no longer be
    /// reported.
    pub fn handle_server_written(&mut self, bytes: usize, now: Instant) {
        self.sides.client.handle_written(bytes, now);
        self.settle(now);
    }

    /// The server's stream has ended.
    pub fn handle_server_eof(&mut self, now: Instant) {
        self.sides.client.handle_eof(now);
        self.settle(now);
    }
}
