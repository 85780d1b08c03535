//! The machine that faces the server, and the requests in flight over it.

use std::time::Duration;

use mcp_proto::client::{self, Client, ClientTransport, Opening, Outcome};
use mcp_proto::server::{Server, ServerTransport};
use mcp_proto::spec::List;
use mcp_proto::spec::meta::{SUBSCRIPTION_ID, stamp};
use mcp_proto::{
    ErrorObject, Failed, Instant, Json, Limits, Load, Method, Notification, ProtocolVersion, RequestId, RequestKey,
    SessionKey, Ticket, TicketKey, UsageError,
};

use super::in_flight::InFlight;
use super::owner::Owner;
use super::possibly_open::PossiblyOpen;
use super::sides::{Reports, error_for};
use super::{Event, convert};

/// The session of a message of the server that names no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// No call that could have caused it may be open.
    NoCall,
    /// All calls that could have caused the message are of this session, which may have ended.
    Session(SessionKey),
    /// Several clients have calls that could have caused it.
    Unknown,
}

/// The machine that faces the server, and the requests in flight over it, of one client or of several.
pub(crate) struct Upstream<T: ClientTransport> {
    pub(crate) client: Client<T>,
    pub(super) owner: Owner,
    pub(super) in_flight: InFlight,
    pub(super) possibly_open: PossiblyOpen,
    pub(super) limits: Limits,
    /// The time for requests, if it differs from that of the configuration.
    pub(super) request_timeout: Option<Duration>,
    /// Where a person signs in.
    pub(super) sign_in_url: Option<Box<str>>,
    pub(super) reports: Reports,
    /// Lists of tools that wait until new pins are stored, with the requests that they answer.
    pub(super) held_lists: Vec<(RequestKey, Json)>,
}

impl<T: ClientTransport> Upstream<T> {
    /// Reaches the server through this transport, for clients of this owner. `redelivery` is that of the relay or gateway,
    /// and `client` the configuration of the machine that faces the server.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub(crate) fn new(
        mut transport: T,
        owner: Owner,
        redelivery: Duration,
        client: client::Config,
    ) -> Result<Self, UsageError> {
        transport.set_redelivery_time(redelivery);
        let limits = client.limits.clone();
        let possibly_open = PossiblyOpen::new(client.request_timeout, limits.tombstones);
        Ok(Self {
            client: Client::new(transport, client)?,
            owner,
            in_flight: InFlight::default(),
            possibly_open,
            limits,
            request_timeout: None,
            sign_in_url: None,
            reports: Reports::default(),
            held_lists: Vec::new(),
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

    /// The events of lists that were held until new pins are stored.
    pub(crate) fn take_held_lists(&mut self) -> Vec<client::Event> {
        let held = std::mem::take(&mut self.held_lists).into_iter();
        held.map(|(request, list)| client::Event::Responded { request, outcome: Outcome::Result(list) }).collect()
    }

    /// The method of a request of a client.
    pub(crate) fn method_of(&self, request: RequestKey) -> Option<&Method> {
        Some(&self.in_flight.get_to_server(request)?.method)
    }

    /// The ticket of a request of a client.
    pub(crate) fn ticket_of(&self, request: RequestKey) -> Option<&Ticket> {
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

    /// For whom the server works.
    pub(crate) const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Finds the session of a message of the server that names no request. `takes_input` states whether the message is
    /// a request for input, which only some calls may cause (BR-M-05, BR-T-05).
    pub(crate) fn origin(&mut self, takes_input: bool, now: Instant) -> Origin {
        self.possibly_open.update(|request| self.client.is_answered_late(request), now);
        if self.possibly_open.has_unknown() {
            return Origin::Unknown;
        }
        let causes_it = |method: &Method| if takes_input { method.facts().takes_input } else { true };
        let open = self.in_flight.all_to_server().map(|(_, forwarded)| forwarded);
        let open =
            open.filter(|forwarded| causes_it(&forwarded.method)).map(|forwarded| forwarded.ticket.key().session());
        let ended = self.possibly_open.calls().filter(|call| causes_it(&call.method)).map(|call| call.session);
        let mut sessions = open.chain(ended);
        match sessions.next() {
            None => Origin::NoCall,
            Some(Some(session)) if sessions.all(|other| other == Some(session)) => Origin::Session(session),
            Some(_) => Origin::Unknown,
        }
    }

    /// The number of open subscriptions that clients have made by themselves.
    pub(crate) fn subscriptions(&self) -> usize {
        let all = self.in_flight.all_to_server();
        all.filter(|(_, forwarded)| forwarded.method == Method::SUBSCRIPTIONS_LISTEN).count()
    }

    /// Notifies the clients whose subscriptions are about this list that it has changed for them, although the server has
    /// changed nothing.
    pub(crate) fn notify_subscriptions<S: ServerTransport>(&self, list: List, server: &mut Server<S>, now: Instant) {
        for (_, forwarded) in self.in_flight.all_to_server().filter(|(_, forwarded)| forwarded.lists.contains(&list)) {
            let Some(id) = server.request_id(&forwarded.ticket).map(RequestId::to_json) else { continue };
            let params = stamp(&Json::empty_object(), &[(SUBSCRIPTION_ID, &id)]);
            let notification = Notification { method: list.notification(), params: Some(params) };
            // A client that has just gone needs no notification.
            let _ = server.notify(&forwarded.ticket, notification, now);
        }
    }

    /// Whether no request of a client is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.all_to_server().next().is_none()
    }

    /// The error for clients whose request has failed.
    pub(crate) fn error_for(&self, reason: &Failed) -> ErrorObject {
        error_for(&self.client, self.sign_in_url.as_deref(), reason)
    }

    /// Sets the URL at which a person signs in; `None` removes it.
    pub(crate) fn set_sign_in_url(&mut self, url: Option<&str>) {
        self.sign_in_url = url.map(Box::from);
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What is held for requests in flight, and by the client machine.
    pub(crate) fn load(&self) -> Load {
        let mut in_flight = Load::default();
        in_flight.held = self.in_flight.bytes() + self.held_lists.iter().map(|(_, list)| list.len()).sum::<usize>();
        in_flight + self.client.load()
    }
}

/// Passes on what the parameters of `initialize` state about the client, because a modern server expects it in each request.
pub(super) fn identify_legacy<T: ClientTransport>(client: &mut Client<T>, params: &Json) {
    let [client_info, capabilities, version] = params.first_members(["clientInfo", "capabilities", "protocolVersion"]);
    let client_info = client_info.filter(Json::is_object).unwrap_or_else(convert::unknown);
    let version = version.as_ref().and_then(Json::as_string);
    let version = version.and_then(|version| ProtocolVersion::from_text(&version));
    let capabilities = convert::capabilities_to_modern(
        &capabilities.filter(Json::is_object).unwrap_or(Json::empty_object()),
        version.unwrap_or(ProtocolVersion::LATEST_LEGACY),
    );
    // This cannot fail: both are objects.
    let _ = client.identify(client_info, capabilities);
}
