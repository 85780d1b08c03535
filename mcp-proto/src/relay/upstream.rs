//! The machine that faces the server, and the requests in flight over it.

use std::time::Duration;

use super::Event;
use super::in_flight::InFlight;
use super::opening::identify_legacy;
use super::sides::{Reports, error_for};
use mcp_proto::ErrorObject;
use mcp_proto::Failed;
use mcp_proto::Instant;
use mcp_proto::Json;
use mcp_proto::Limits;
use mcp_proto::Load;
use mcp_proto::Method;
use mcp_proto::ProtocolVersion;
use mcp_proto::SessionKey;
use mcp_proto::UsageError;
use mcp_proto::client::{self, Client, ClientTransport, Opening};
use mcp_proto::{RequestKey, Ticket, TicketKey};

/// The machine that faces the server, and the requests in flight over it, of one client or of several.
pub(crate) struct Upstream<T: ClientTransport> {
    pub(crate) client: Client<T>,
    pub(super) in_flight: InFlight,
    pub(super) limits: Limits,
    /// The time for requests, if it is another one than that of the configuration.
    pub(super) request_timeout: Option<Duration>,
    /// Where a person signs in.
    pub(super) sign_in_url: Option<Box<str>>,
    pub(super) reports: Reports,
}

impl<T: ClientTransport> Upstream<T> {
    /// Reaches the server through this transport. `redelivery` is that of the relay or gateway, and `client` the
    /// configuration of the machine that faces the server.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub(crate) fn new(mut transport: T, redelivery: Duration, client: client::Config) -> Result<Self, UsageError> {
        transport.set_redelivery_time(redelivery);
        let limits = client.limits.clone();
        Ok(Self {
            client: Client::new(transport, client)?,
            in_flight: InFlight::default(),
            limits,
            request_timeout: None,
            sign_in_url: None,
            reports: Reports::default(),
        })
    }

    /// Opens the session of a server that several clients use, with the parameters of the `initialize` of the first one: in
    /// the newest of these revisions, and without these capabilities.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it is open, or closed.
    pub(crate) fn open(
        &mut self,
        params: &Json,
        without: &[&str],
        versions: &[ProtocolVersion],
        now: Instant,
    ) -> Result<(), UsageError> {
        let capabilities = params.first_member("capabilities").filter(Json::is_object);
        let capabilities = capabilities.unwrap_or(Json::empty_object()).without_members(without);
        let mut params = params.with_member("capabilities", &capabilities);
        let newest = versions.iter().filter(|version| !version.is_stateless()).max();
        let Some(newest) = newest else {
            identify_legacy(&mut self.client, &params);
            return self.client.connect(now);
        };
        params = params.with_member("protocolVersion", &Json::from(newest.as_str()));
        identify_legacy(&mut self.client, &params);
        self.client.connect_with(Opening::Initialize(params), now)
    }

    /// The next event. The owner takes all events after each input, so that they precede what is caused later.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.reports.pop()
    }

    pub(crate) fn report(&mut self, event: Event) {
        self.reports.report(event);
    }

    /// The method of a request of a client.
    pub(super) fn method_of(&self, request: RequestKey) -> Option<&Method> {
        Some(&self.in_flight.get_to_server(request)?.method)
    }

    /// The ticket of a request of a client.
    pub(super) fn ticket_of(&self, request: RequestKey) -> Option<&Ticket> {
        Some(&self.in_flight.get_to_server(request)?.ticket)
    }

    /// The session of the client that has made a request; `None` if the gateway has made it.
    pub(crate) fn session_of(&self, request: RequestKey) -> Option<SessionKey> {
        self.in_flight.get_to_server(request)?.ticket.key().session()
    }

    /// The session of the client to which a request of the server was forwarded.
    pub(crate) fn session_asked(&self, ticket: TicketKey) -> Option<SessionKey> {
        self.in_flight.get_to_client(ticket)?.session()
    }

    /// The session of the only open request; if `takes_input`, of the only one during which a client can be asked.
    pub(crate) fn session_of_only_request(&self, takes_input: bool) -> Option<SessionKey> {
        let all = self.in_flight.all_to_server().map(|(_, forwarded)| forwarded);
        let mut all = all.filter(|forwarded| !takes_input || forwarded.method.facts().takes_input);
        let only = all.next()?;
        if all.next().is_some() { None } else { only.ticket.key().session() }
    }

    /// The number of open subscriptions that clients have made by themselves.
    pub(crate) fn subscriptions(&self) -> usize {
        let all = self.in_flight.all_to_server();
        all.filter(|(_, forwarded)| forwarded.method == Method::SUBSCRIPTIONS_LISTEN).count()
    }

    /// Whether no request of a client is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.all_to_server().next().is_none()
    }

    /// The error for clients whose request has failed.
    pub(crate) fn error_for(&self, reason: &Failed) -> ErrorObject {
        error_for(&self.client, self.sign_in_url.as_deref(), reason)
    }

    /// A person signs in at this URL; `None` ends that.
    pub(crate) fn set_sign_in_url(&mut self, url: Option<&str>) {
        self.sign_in_url = url.map(Box::from);
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What is held for requests in flight, and by the client machine.
    pub(crate) fn load(&self) -> Load {
        let mut in_flight = Load::default();
        in_flight.held = self.in_flight.bytes();
        in_flight + self.client.load()
    }
}
