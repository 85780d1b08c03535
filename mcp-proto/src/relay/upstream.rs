//! The machine that faces the server, and the requests in flight over it.

use std::time::Duration;

use super::in_flight::InFlight;
use mcp_proto::Limits;
use mcp_proto::Load;
use mcp_proto::UsageError;
use mcp_proto::client::{self, Client, ClientTransport};

/// The machine that faces the server, and the requests in flight over it, of one client or of several.
pub(crate) struct Upstream<T: ClientTransport> {
    pub(crate) client: Client<T>,
    pub(super) in_flight: InFlight,
    pub(super) limits: Limits,
    /// The time for requests, if it is another one than that of the configuration.
    pub(super) request_timeout: Option<Duration>,
    /// Where a person signs in.
    pub(super) sign_in_url: Option<Box<str>>,
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
        })
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
