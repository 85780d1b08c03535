//! A proxy between a client and a server on byte streams that hides some tools: they are not listed, and a call of one is
//! refused. It is built on the public API only, as a gateway would be, and is a machine itself: without I/O and clock.
//!
//! `cargo run -p mcp-proto --example filtering_proxy` shows a dialogue through it.

use std::collections::BTreeMap;

use mcp_intermediary::relay::{Action, Event};
use mcp_proto::client::{self, Call, Client, Opening, Outcome, Unavailable};
use mcp_proto::machine::{ClientStream, HandleBytes, Machine, Outbox, ServerStream};
use mcp_proto::server::{self, Server};
use mcp_proto::{
    Era, ErrorObject, Instant, Json, Method, Notification, Output, ProtocolVersion, RequestKey, Stdio, Ticket,
    UsageError, code,
};

/// Joins a client to a server. It forwards the handshake, so that both sides must be of a revision with `initialize`.
pub struct FilteringProxy {
    /// Faces the client.
    server: Server<Stdio>,
    /// Faces the server.
    client: Client<Stdio>,
    is_hidden: fn(&str) -> bool,
    /// The client's `initialize`, until the server has answered it.
    opening: Option<Ticket>,
    /// The client's requests, by those to the server that they became.
    to_server: BTreeMap<RequestKey, (Ticket, Method)>,
    /// The server's requests, by those to the client.
    to_client: BTreeMap<RequestKey, Ticket>,
    out: Outbox<Action<mcp_proto::StdioAction>, Event>,
}

impl FilteringProxy {
    /// A proxy that hides the tools for whose names `is_hidden` returns `true`.
    ///
    /// # Errors
    ///
    /// None with this configuration.
    pub fn new(is_hidden: fn(&str) -> bool) -> Result<Self, UsageError> {
        let versions = ProtocolVersion::ALL.iter().copied().filter(|version| version.rules().era == Era::Legacy);
        let mut facing_client = server::Config::new("filtering-proxy", "1.0.0");
        facing_client.versions = versions.clone().collect();
        let mut facing_server = client::Config::new("filtering-proxy", "1.0.0");
        facing_server.versions = versions.collect();
        // The client behind the proxy answers the server's requests, `ping` and those that it refuses included.
        facing_server.reports_all_requests = true;
        Ok(Self {
            server: Server::pass_through(Stdio::new(), facing_client)?,
            client: Client::new(Stdio::new(), facing_server)?,
            is_hidden,
            opening: None,
            to_server: BTreeMap::new(),
            to_client: BTreeMap::new(),
            out: Outbox::new(),
        })
    }

    /// Passes the outputs of each machine to the other until neither has any.
    fn settle(&mut self, now: Instant) {
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
            } else {
                return;
            }
        }
    }

    /// Handles what the client has sent.
    #[allow(clippy::wildcard_enum_match_arm, reason = "other events need nothing from the proxy")]
    fn on_server_event(&mut self, event: server::Event, now: Instant) {
        use server::Event as E;
        match event {
            E::Requested { ticket, method, params } if method == Method::INITIALIZE => {
                match self.client.connect_with(Opening::Initialize(params.unwrap_or(Json::empty_object())), now) {
                    Ok(()) => self.opening = Some(ticket),
                    Err(error) => self.respond(ticket, Err(internal(&error)), now),
                }
            }
            E::Requested { ticket, method, params } if self.is_hidden_call(&method, params.as_ref()) => {
                self.respond(ticket, Err(ErrorObject::new(code::INVALID_PARAMS, "unknown tool")), now);
            }
            E::Requested { ticket, method, params } => {
                match self.client.request(call(&method, params).unchanged(), now) {
                    Ok(request) => drop(self.to_server.insert(request, (ticket, method))),
                    Err(error) => self.respond(ticket, Err(internal(&error)), now),
                }
            }
            E::Cancelled { ticket, params } => {
                let request = self.to_server.iter().find(|(_, (open, _))| open.key() == ticket).map(|(key, _)| *key);
                if let Some(request) = request.filter(|request| self.to_server.remove(request).is_some()) {
                    self.client.cancel_with(request, &params.unwrap_or(Json::empty_object()), now);
                }
            }
            E::Notified { method, params, .. } if method == Method::INITIALIZED => {
                // A second confirmation has no effect.
                let _ = self.client.confirm(params, now);
            }
            E::Notified { method, params, .. } => drop(self.client.notify(notification(method, params), now)),
            E::Progressed { params, .. } => {
                drop(self.client.notify(notification(Method::PROGRESS, Some(params)), now));
            }
            E::Responded { request, outcome } => {
                if let Some(ticket) = self.to_client.remove(&request) {
                    self.client.answer(ticket, answer(outcome, "the client"), now);
                }
            }
            E::Closed { .. } => self.client.close(now),
            _ => {}
        }
    }

    /// Handles what the server has sent.
    #[allow(clippy::wildcard_enum_match_arm, reason = "other events need nothing from the proxy")]
    fn on_client_event(&mut self, event: client::Event, now: Instant) {
        use client::Event as E;
        match event {
            E::Connected { result, .. } => {
                if let Some(ticket) = self.opening.take() {
                    self.respond(ticket, Ok(result), now);
                }
            }
            E::Unavailable { reason, .. } => {
                if let Some(ticket) = self.opening.take() {
                    let error = match reason {
                        Unavailable::Error(error) => error,
                        Unavailable::Failed(reason) => internal(&reason.describe("the server")),
                    };
                    self.respond(ticket, Err(error), now);
                }
            }
            E::Responded { request, outcome } => {
                let Some((ticket, method)) = self.to_server.remove(&request) else { return };
                let answer = answer(outcome, "the server");
                let answer =
                    if method == Method::TOOLS_LIST { answer.map(|list| self.without_hidden(&list)) } else { answer };
                self.respond(ticket, answer, now);
            }
            E::Progressed { request, params } => {
                if let Some((ticket, _)) = self.to_server.get(&request) {
                    drop(self.server.notify(ticket, notification(Method::PROGRESS, Some(params)), now));
                }
            }
            E::Requested { ticket, method, params, .. } => {
                match self.server.request(self.server.session(), call(&method, params), now) {
                    Ok(request) => drop(self.to_client.insert(request, ticket)),
                    Err(error) => self.client.answer(ticket, Err(internal(&error)), now),
                }
            }
            E::RequestCancelled { ticket, params } => {
                let request = self.to_client.iter().find(|(_, open)| open.key() == ticket).map(|(key, _)| *key);
                if let Some(request) = request.filter(|request| self.to_client.remove(request).is_some()) {
                    self.server.cancel_with(request, &params, now);
                }
            }
            E::Notified { method, params, .. } => {
                drop(self.server.notify(self.server.session(), notification(method, params), now));
            }
            E::Closed(reason) => {
                self.server.close(now);
                self.out.report(Event::Closed(reason));
            }
            _ => {}
        }
    }

    fn respond(&mut self, ticket: Ticket, answer: Result<Json, ErrorObject>, now: Instant) {
        // A server that passes through sends any code.
        let _ = self.server.respond(ticket, answer, now);
    }

    fn is_hidden_call(&self, method: &Method, params: Option<&Json>) -> bool {
        let name = params.and_then(|params| params.first_member("name"));
        let is_hidden = |name: &Json| name.as_string().is_some_and(|name| (self.is_hidden)(&name));
        *method == Method::TOOLS_CALL && name.as_ref().is_some_and(is_hidden)
    }

    /// A result of `tools/list` without the hidden tools; all other bytes stay.
    fn without_hidden(&self, list: &Json) -> Json {
        let Some(tools) = list.first_member("tools") else { return list.clone() };
        let name = |tool: &Json| tool.first_member("name");
        let is_shown = |tool: &Json| name(tool).and_then(|name| name.as_string().map(|name| !(self.is_hidden)(&name)));
        let shown: Vec<Json> = tools.elements().filter(|tool| is_shown(tool).unwrap_or(true)).collect();
        Json::from_serialize(&shown).map_or(list.clone(), |shown| list.with_member("tools", &shown))
    }
}

fn call(method: &Method, params: Option<Json>) -> Call {
    let call = Call::new(method.clone());
    match params {
        Some(params) => call.params(params),
        None => call,
    }
}

const fn notification(method: Method, params: Option<Json>) -> Notification {
    Notification { method, params }
}

fn answer(outcome: Outcome, peer: &str) -> Result<Json, ErrorObject> {
    match outcome {
        Outcome::Result(result) => Ok(result),
        Outcome::Error(error) => Err(error),
        Outcome::Failed(reason) => Err(internal(&reason.describe(peer))),
    }
}

fn internal(reason: &impl ToString) -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, &reason.to_string())
}

impl Machine for FilteringProxy {
    type Action = Action<mcp_proto::StdioAction>;
    type Event = Event;

    fn poll_output(&mut self) -> Option<Output<Self::Action, Self::Event>> {
        self.out.pop()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.server.poll_timeout(), self.client.poll_timeout()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.server.handle_timeout(now);
        self.client.handle_timeout(now);
        self.settle(now);
    }

    fn close(&mut self, now: Instant) {
        self.server.close(now);
        self.settle(now);
    }
}

/// Passes the inputs of one stream to the machine that faces it.
macro_rules! handle_bytes {
    ($stream:ty, $machine:ident) => {
        impl HandleBytes<$stream> for FilteringProxy {
            fn handle_bytes(&mut self, _: $stream, bytes: &[u8], now: Instant) {
                self.$machine.handle_bytes(bytes, now);
                self.settle(now);
            }

            fn handle_written(&mut self, _: $stream, bytes: usize, now: Instant) {
                self.$machine.handle_written(bytes, now);
                self.settle(now);
            }

            fn handle_eof(&mut self, _: $stream, now: Instant) {
                self.$machine.handle_eof(now);
                self.settle(now);
            }

            fn wants_bytes(&self, _: $stream) -> bool {
                self.server.wants_input() && self.server.has_room() && self.client.wants_input()
            }
        }
    };
}

handle_bytes!(ClientStream, server);
handle_bytes!(ServerStream, client);

#[allow(dead_code, reason = "a test contains this file as a module")]
#[expect(clippy::print_stdout, reason = "it is a demonstration")]
fn main() -> Result<(), UsageError> {
    let now = Instant::START;
    let mut proxy = FilteringProxy::new(|name| name == "shell")?;
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    let initialized =
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}"#;
    let listed = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"echo"},{"name":"shell"}]}}"#;
    let lines = [
        ("client", initialize),
        ("server", initialized),
        ("client", r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        ("client", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
        ("server", listed),
        ("client", r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shell"}}"#),
    ];
    for (sender, line) in lines {
        println!("the {sender} sends     {line}");
        let line = format!("{line}\n");
        if sender == "client" {
            proxy.handle_bytes(ClientStream, line.as_bytes(), now);
        } else {
            proxy.handle_bytes(ServerStream, line.as_bytes(), now);
        }
        while let Some(output) = proxy.poll_output() {
            if let Output::Action(Action::Client(mcp_proto::StdioAction::Write(line))) = &output {
                print!("the client receives  {}", String::from_utf8_lossy(line));
            } else if let Output::Action(Action::Server(mcp_proto::StdioAction::Write(line))) = &output {
                print!("the server receives  {}", String::from_utf8_lossy(line));
            }
        }
    }
    Ok(())
}
