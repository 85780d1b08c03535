//! The traits of [`mcp_proto::machine`] for the machines of this crate.

use http::{request, response};
use mcp_proto::auth::{Challenged, Credentials};
use mcp_proto::client::{self, ClientTransport};
use mcp_proto::machine::{
    ClientStream, HandleAuthorization, HandleBytes, HandleRequests, HandleResponses, ServerStream,
};
use mcp_proto::{Instant, ProcessEnd, StartFailure, Stdio, UsageError, impl_handle_bytes, impl_machine, server};

use crate::aggregate::{self, Aggregate, ServerKey};
use crate::gateway::{self, BackendKey, Gateway};
use crate::relay::{self, Relay};

impl_machine!([T: ClientTransport] Relay<T>, relay::Action<T::Action>, relay::Event);
impl_machine!([] Gateway, gateway::Action, gateway::Event);
impl_machine!([] Aggregate, aggregate::Action, aggregate::Event);

impl_handle_bytes!(
    [T: ClientTransport] Relay<T>, ClientStream: handle_bytes, handle_written, handle_eof, wants_bytes
);
impl_handle_bytes!(
    [] Relay<Stdio>, ServerStream: handle_server_bytes, handle_server_written, handle_server_eof, wants_body;
    handle_server_process_end, handle_server_not_started
);
impl_handle_bytes!([] Aggregate, ClientStream: handle_bytes, handle_written, handle_eof, wants_bytes);

impl HandleResponses for Relay<client::Http> {
    fn handle_sent(&mut self, exchange: client::ExchangeKey, now: Instant) {
        Self::handle_sent(self, exchange, now);
    }

    fn handle_response(&mut self, exchange: client::ExchangeKey, head: &response::Parts, now: Instant) {
        Self::handle_response(self, exchange, head, now);
    }

    fn handle_body(&mut self, exchange: client::ExchangeKey, chunk: &[u8], now: Instant) {
        Self::handle_body(self, exchange, chunk, now);
    }

    fn handle_end(&mut self, exchange: client::ExchangeKey, now: Instant) {
        Self::handle_end(self, exchange, now);
    }

    fn handle_failure(&mut self, exchange: client::ExchangeKey, failure: client::Failure, now: Instant) {
        Self::handle_failure(self, exchange, failure, now);
    }

    fn set_headers(&mut self, from: &client::HttpConfig) -> Result<(), UsageError> {
        Self::set_headers(self, from)
    }

    fn wants_body(&self) -> bool {
        Self::wants_body(self)
    }
}

impl HandleAuthorization for Relay<client::Http> {
    fn challenged(event: &Self::Event) -> Option<&Challenged> {
        if let relay::Event::Challenged(challenged) = event { Some(challenged) } else { None }
    }

    fn authorize(&mut self, credentials: Credentials, now: Instant) {
        Self::authorize(self, credentials, now);
    }

    fn refuse_authorization(&mut self, reason: &str, now: Instant) {
        Self::refuse_authorization(self, reason, now);
    }
    fn set_sign_in_url(&mut self, url: Option<&str>) {
        Self::set_sign_in_url(self, url);
    }
}

impl HandleRequests for Gateway {
    fn handle_request(&mut self, head: request::Parts, info: server::RequestInfo, now: Instant) -> server::ExchangeKey {
        Self::handle_request(self, head, info, now)
    }

    fn handle_body(&mut self, exchange: server::ExchangeKey, chunk: &[u8], now: Instant) {
        Self::handle_body(self, exchange, chunk, now);
    }

    fn handle_end(&mut self, exchange: server::ExchangeKey, now: Instant) {
        Self::handle_end(self, exchange, now);
    }

    fn handle_written(&mut self, exchange: server::ExchangeKey, bytes: usize, now: Instant) {
        Self::handle_written(self, exchange, bytes, now);
    }

    fn handle_disconnect(&mut self, exchange: server::ExchangeKey, now: Instant) {
        Self::handle_disconnect(self, exchange, now);
    }

    fn handle_half_close(&mut self, exchange: server::ExchangeKey, now: Instant) {
        Self::handle_half_close(self, exchange, now);
    }

    fn wants_request(&self) -> bool {
        self.wants_request()
    }
}

/// The byte streams of an aggregate are those of its servers and that of its client.
impl HandleBytes<ServerKey> for Aggregate {
    fn handle_bytes(&mut self, server: ServerKey, bytes: &[u8], now: Instant) {
        self.handle_server_bytes(server, bytes, now);
    }

    fn handle_written(&mut self, server: ServerKey, bytes: usize, now: Instant) {
        self.handle_server_written(server, bytes, now);
    }

    fn handle_eof(&mut self, server: ServerKey, now: Instant) {
        self.handle_server_eof(server, now);
    }

    fn handle_process_end(&mut self, server: ServerKey, end: ProcessEnd, now: Instant) {
        self.handle_server_process_end(server, end, now);
    }

    fn handle_not_started(&mut self, server: ServerKey, failure: StartFailure, now: Instant) {
        Aggregate::handle_not_started(self, server, failure, now);
    }

    fn wants_bytes(&self, server: ServerKey) -> bool {
        self.wants_server_bytes(server)
    }
}

/// The byte streams of a gateway are those of its backends.
impl HandleBytes<BackendKey> for Gateway {
    fn handle_bytes(&mut self, backend: BackendKey, bytes: &[u8], now: Instant) {
        self.handle_backend_bytes(backend, bytes, now);
    }

    fn handle_written(&mut self, backend: BackendKey, bytes: usize, now: Instant) {
        self.handle_backend_written(backend, bytes, now);
    }

    fn handle_eof(&mut self, backend: BackendKey, now: Instant) {
        self.handle_backend_eof(backend, now);
    }

    fn handle_process_end(&mut self, backend: BackendKey, end: ProcessEnd, now: Instant) {
        self.handle_backend_process_end(backend, end, now);
    }

    fn handle_not_started(&mut self, backend: BackendKey, failure: StartFailure, now: Instant) {
        Gateway::handle_not_started(self, backend, failure, now);
    }

    fn wants_bytes(&self, backend: BackendKey) -> bool {
        self.wants_backend_bytes(backend)
    }
}
