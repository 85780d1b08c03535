//! The relay: joins a [`Server`], with a client on a byte stream, to a [`Client`], with a server over HTTP or on
//! another byte stream.
//!
//! The relay is an application of these two machines and implements no protocol of its own. The client's first message
//! is forwarded unchanged. If the server is of the same era, everything else is too: payloads are forwarded byte for
//! byte as they were validated, each side has its own request ids, and the ids in cancellations and progress
//! notifications are mapped. If the server is of the other era, the relay acts as a server of the client's era and as a
//! client of the server's era. If the session to a legacy server is lost, the relay opens it again
//! without an effect on the client's session.
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
//! | `cold_start`, `known_server` | what the client is answered while a person signs in |
//! | `pace` | whether the server accepts data fast enough |
//! | `link` | how one client is joined to the server, also for the gateway: its state, and the machines of both sides |
//! | `upstream` | the machine that faces the server, and the requests in flight over it |
//! | `owner` | for whom a server, a parked call or a process works |
//! | `policy` | applies the filter and the pins to requests, lists and notifications |
//! | `filter` | the rules by which tools, prompts and resources are allowed; `policy` applies them |
//! | `canonical_uri` | the form of URIs that every parser reads alike |
//! | `readings` | what servers may read instead of a name or URI, compared with the pattern of a rule |
//! | `glob` | patterns with wildcards |
//! | `pinning` | compares listed tools with their pinned definitions |
//! | `pins` | the pinned definitions, and their text form |
//! | `definition` | what is pinned of a tool, and how two definitions differ |
//! | `sides` | the two machines, and the functions for all combinations of eras |
//! | `in_flight` | requests in flight in both directions |
//! | `possibly_open` | calls that have ended for their clients, and on which a shared server may still work |
//! | `routing` | passes the events of each machine on, according to the eras |
//! | `pass_through` | client and server of the same era |
//! | `legacy_client` | a legacy client and a modern server |
//! | `modern_client` | a modern client and a legacy server |
//! | `watched` | the resources that a legacy client has subscribed to |
//! | `parked_calls` | calls of a modern client that wait for its retry, and the input requests that it receives meanwhile |
//! | `session_settings` | log level and subscriptions that are set in the session of a legacy server |
//! | `convert` | conversion of payloads between the eras |
//!
//! Rules: RULES 13.

mod canonical_uri;
mod cold_start;
mod config;
mod convert;
mod definition;
mod event;
mod filter;
mod glob;
mod in_flight;
mod known_server;
mod legacy_client;
mod link;
mod modern_client;
mod opening;
mod owner;
mod pace;
mod parked_calls;
mod pass_through;
mod pinning;
mod pins;
mod policy;
mod possibly_open;
mod readings;
mod routing;
mod session_settings;
mod sides;
mod upstream;
mod watched;

use std::fmt;

use http::response::Parts;

pub use config::Config;
pub use definition::{FieldChange, ToolField};
pub use event::{Action, Event, Side};
pub use filter::{Filter, Rule};
pub use known_server::KnownServer;
pub(crate) use link::{Joined, Link};
// For the gateway.
use mcp_proto::auth::Credentials;
#[cfg(doc)]
use mcp_proto::client::Client;
use mcp_proto::client::{ClientTransport, ExchangeKey, Failure, Http, HttpConfig};
use mcp_proto::machine::Outbox;
use mcp_proto::server::Server;
use mcp_proto::{Instant, Load, Notification, Output, ProcessEnd, StartFailure, Stdio, UsageError, client};
pub(crate) use owner::Owner;
use pace::Pace;
pub(crate) use parked_calls::derived_secret;
pub use pinning::{DeviationKind, NewTools, PinMode, Pinning, ToolDeviation};
pub use pins::{InvalidPins, Pins};
pub(crate) use policy::Policy;
pub(crate) use upstream::{Origin, Upstream};
pub(crate) use watched::Watched;

/// Joins a client on a byte stream to a server.
///
/// `Relay<Http>` takes the events of HTTP exchanges as input, `Relay<Stdio>` the server's bytes. All other methods are
/// the same.
///
/// # Example: the first line causes the first request
///
/// ```
/// use mcp_proto::client::{Http, HttpAction, HttpConfig};
/// use mcp_intermediary::relay::{Action, Config, Relay};
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
pub struct Relay<T: ClientTransport = Http> {
    /// The machine that faces the client.
    server: Server<Stdio>,
    upstream: Upstream<T>,
    link: Link,
    /// What the client may use, if that is not everything.
    policy: Option<Policy>,
    pace: Pace,
    out: Outbox<Action<T::Action>, Event>,
}

/// Shows the two machines, which show only counts.
impl<T: ClientTransport> fmt::Debug for Relay<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("server", &self.server)
            .field("client", &self.upstream.client)
            .finish_non_exhaustive()
    }
}

impl<T: ClientTransport> Relay<T> {
    /// Creates a relay that reaches the server through this transport.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub fn new(transport: T, config: Config) -> Result<Self, UsageError> {
        let pace = Pace::new(config.request_timeout, &config.limits);
        let (link, policy, redelivery) = (Link::new(&config), Policy::new(&config), config.redelivery);
        let (server, client) = config.split();
        let server = Server::pass_through(Stdio::new(), server)?;
        let owner = Owner::Session(server.session(), None);
        Ok(Self {
            server,
            upstream: Upstream::new(transport, owner, redelivery, client)?,
            link,
            policy,
            pace,
            out: Outbox::new(),
        })
    }

    /// Bytes have arrived from the client, in pieces of any size.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.server.handle_bytes(bytes, now);
        self.settle(now);
    }

    /// The client's stream has accepted this many more bytes of [`Action::Client`].
    pub fn handle_written(&mut self, bytes: usize, now: Instant) {
        self.server.handle_written(bytes, now);
        self.settle(now);
    }

    /// The client's stream has ended. Requests in flight may still be answered within [`Config::drain_timeout`]; then
    /// the session is ended.
    pub fn handle_eof(&mut self, now: Instant) {
        self.server.handle_eof(now);
        self.settle(now);
    }

    /// Handles all timers that are due. Calling this early or twice has no effect.
    ///
    /// Rules: CL2.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.joined().handle_timeout(now);
        self.server.handle_timeout(now);
        self.settle(now);
        self.upstream.client.handle_timeout(now);
        self.settle(now);
    }

    /// Ends both sides: each unanswered request of the client is answered with an error, and the session is ended.
    /// [`Event::Closed`] follows within the time limit for ending a session.
    pub fn close(&mut self, now: Instant) {
        self.server.close(now);
        self.settle(now);
    }

    /// The next action for the driver or event for the application. Call this after every input until it returns
    /// `None`.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<Action<T::Action>, Event>> {
        self.out.pop()
    }

    /// When [`Relay::handle_timeout`] must be called next; `None` if no timer is set.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let machines = [self.server.poll_timeout(), self.upstream.client.poll_timeout()];
        let own = [self.link.poll_timeout(), self.pace.poll_timeout()];
        own.into_iter().chain(machines).flatten().min()
    }

    /// Whether the driver should read more of the client's bytes. `false` means that the client does not read its
    /// answers, or that the server is slow. Once the server has taken nothing for 5 seconds, or for the request timeout
    /// if that is shorter, this returns `true` again, and requests for which there is no room are answered with an
    /// error at once.
    ///
    /// Rules: PX7, H5, K5.
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        self.out.has_room(self.upstream.limits()) && self.server.wants_input() && self.pace.may_read_client()
    }

    /// Whether the driver should read more of the server's data. `false` means that the client does not read, or that
    /// the server does not read the answers to its own requests.
    ///
    /// Rules: PX7, H5.
    #[must_use]
    pub fn wants_body(&self) -> bool {
        self.out.has_room(self.upstream.limits()) && self.server.has_room() && self.upstream.client.wants_input()
    }

    /// Sets the URL at which a person signs in; `None` removes it. The error of a request that waits for the sign-in in
    /// vain contains the URL.
    ///
    /// Rules: OA-G-07.
    pub fn set_sign_in_url(&mut self, url: Option<&str>) {
        self.upstream.set_sign_in_url(url);
    }

    /// Whether the client has declared that it opens URLs for the server (`elicitation.url`).
    #[must_use]
    pub const fn client_opens_urls(&self) -> bool {
        self.link.client_opens_urls()
    }

    /// Asks the client to open a URL at which a person signs in, with `elicitation/create`. It has no effect if the client
    /// does not open URLs. If the client still waits for the answer to `initialize`, it is answered now, because it accepts
    /// no request before.
    pub fn ask_to_open_url(&mut self, url: &str, now: Instant) {
        self.joined().send_or_keep_url(url, now);
        self.settle(now);
    }

    /// The resources that the relay holds now, those of its two machines included.
    #[must_use]
    pub fn load(&self) -> Load {
        self.link.load() + self.upstream.load() + self.server.load()
    }

    /// The number of the client's requests that are not answered yet.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.server.requests_in_flight()
    }

    /// The driver has stored the pins of [`Event::PinsChanged`] beside those of other processes; `stored` are all. A pin of
    /// another process applies: a tool that differs from it has changed. See [`Pinning::is_shared`].
    pub fn handle_pins(&mut self, stored: Pins, now: Instant) {
        if let Some(policy) = &mut self.policy {
            policy.set_stored_pins(stored);
        }
        for event in self.upstream.take_held_lists() {
            self.on_client_event(event, now);
        }
        self.settle(now);
    }

    /// Applies another filter to the requests, lists and notifications that follow, and notifies the client of the lists that
    /// may have changed for it: in its session, or in the subscriptions that are passed on to the server.
    pub fn set_filter(&mut self, filter: Filter, now: Instant) {
        for list in Policy::set_filter(&mut self.policy, filter) {
            let session = self.server.session();
            // A client that has no session yet, or none at all, requests the lists later.
            let _ = self.server.notify(session, Notification::new(list.notification()), now);
            self.upstream.notify_subscriptions(list, &mut self.server, now);
        }
        self.settle(now);
    }

    /// Sets a number that clients do not know. It is needed if the client passes on the requests of several clients:
    /// only the client that receives a `requestState` made from the number can retry a call that is parked from now on.
    pub(crate) const fn set_secret(&mut self, secret: u128) {
        self.link.set_secret(secret);
    }

    /// Feeds the outputs of each machine into the other until both have none left.
    fn settle(&mut self, now: Instant) {
        self.exchange_outputs(now);
        self.pace.update(self.upstream.client.backlog(), now);
    }

    fn exchange_outputs(&mut self, now: Instant) {
        loop {
            while let Some(event) = self.upstream.poll_event() {
                if let Event::Closed(_) = event {
                    self.server.close(now);
                }
                self.out.report(event);
            }
            if let Some(output) = self.server.poll_output() {
                match output {
                    Output::Action(action) => self.out.act(Action::Client(action)),
                    Output::Event(event) => {
                        let event = match &self.policy {
                            Some(policy) => policy.check_client(event, &mut self.server, now),
                            None => Some(event),
                        };
                        if let Some(event) = event {
                            self.joined().on_server_event(event, now);
                        }
                    }
                }
            } else if let Some(output) = self.upstream.client.poll_output() {
                match output {
                    Output::Action(action) => self.out.act(Action::Server(action)),
                    Output::Event(event) => self.on_client_event(event, now),
                }
            } else {
                let session = self.server.session();
                let mut joined = self.link.join(&mut self.server, session, &mut self.upstream);
                if !joined.take_subscription(self.policy.as_ref(), now) {
                    return;
                }
            }
        }
    }

    /// Handles an event of the machine that faces the server.
    fn on_client_event(&mut self, event: client::Event, now: Instant) {
        let session = self.server.session();
        let event = match &mut self.policy {
            Some(policy) => policy.check_server(event, Some(session), &self.server, &mut self.upstream),
            None => Some(event),
        };
        if let Some(event) = event {
            self.joined().on_client_event(event, now);
        }
    }

    fn joined(&mut self) -> Joined<'_, Stdio, T> {
        let session = self.server.session();
        self.link.join(&mut self.server, session, &mut self.upstream)
    }
}

impl Relay<Http> {
    /// The request of an exchange was written in full. This call is optional, as [`Client::handle_sent`] is.
    pub fn handle_sent(&mut self, exchange: ExchangeKey, now: Instant) {
        self.upstream.client.handle_sent(exchange, now);
        self.settle(now);
    }

    /// The head of the response of an exchange has arrived. Interim responses (1xx) must not be passed in.
    pub fn handle_response(&mut self, exchange: ExchangeKey, head: &Parts, now: Instant) {
        self.upstream.client.handle_response(exchange, head, now);
        self.settle(now);
    }

    /// A part of the body of an exchange has arrived, without the chunked transfer coding.
    pub fn handle_body(&mut self, exchange: ExchangeKey, chunk: &[u8], now: Instant) {
        self.upstream.client.handle_body(exchange, chunk, now);
        self.settle(now);
    }

    /// The body of an exchange is complete.
    pub fn handle_end(&mut self, exchange: ExchangeKey, now: Instant) {
        self.upstream.client.handle_end(exchange, now);
        self.settle(now);
    }

    /// Sends requests with these credentials from now on, and sends everything again that waits for authorization, as
    /// [`Client::authorize`] does.
    pub fn authorize(&mut self, credentials: Credentials, now: Instant) {
        self.upstream.client.authorize(credentials, now);
        self.settle(now);
    }

    /// Sends every request to the server from now on with the headers of this configuration, as [`Client::set_headers`] does.
    ///
    /// # Errors
    ///
    /// [`UsageError::AuthorizationHeader`] if only one of the two configurations has an `Authorization` header.
    pub fn set_headers(&mut self, from: &HttpConfig) -> Result<(), UsageError> {
        self.upstream.client.set_headers(from)
    }

    /// There will be no authorization: everything that waits for it fails for this reason, as after
    /// [`Client::refuse_authorization`].
    pub fn refuse_authorization(&mut self, reason: &str, now: Instant) {
        self.upstream.client.refuse_authorization(reason, now);
        self.settle(now);
    }

    /// An exchange has failed: it could not be started, or it broke off.
    pub fn handle_failure(&mut self, exchange: ExchangeKey, failure: Failure, now: Instant) {
        self.upstream.client.handle_failure(exchange, failure, now);
        self.settle(now);
    }
}

impl Relay<Stdio> {
    /// Bytes have arrived from the server, in pieces of any size.
    pub fn handle_server_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.upstream.client.handle_bytes(bytes, now);
        self.settle(now);
    }

    /// The server's stream has accepted this many more bytes of [`Action::Server`]. After
    /// [`StdioAction::Respawn`](mcp_proto::StdioAction::Respawn), bytes of the earlier process must no longer be
    /// reported.
    pub fn handle_server_written(&mut self, bytes: usize, now: Instant) {
        self.upstream.client.handle_written(bytes, now);
        self.settle(now);
    }

    /// The server's stream has ended.
    pub fn handle_server_eof(&mut self, now: Instant) {
        self.upstream.client.handle_eof(now);
        self.settle(now);
    }

    /// The server's process has ended, as for [`Client::handle_process_end`].
    pub fn handle_server_process_end(&mut self, end: ProcessEnd, now: Instant) {
        self.upstream.client.handle_process_end(end, now);
        self.settle(now);
    }

    /// The server's process could not be started, as for [`Client::handle_not_started`].
    pub fn handle_server_not_started(&mut self, failure: StartFailure, now: Instant) {
        self.upstream.client.handle_not_started(failure, now);
        self.settle(now);
    }
}
