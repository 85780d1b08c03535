//! How a relay opens both connections: it forwards the client's first message unchanged, and the server's answer shows
//! whether the server is of the same era.

use mcp_proto::client::{self, ClientTransport, Unavailable};
use mcp_proto::server::ServerTransport;
use mcp_proto::spec::Era;
use mcp_proto::spec::meta::{LOG_LEVEL, SERVER_INFO};
use mcp_proto::{ErrorObject, Instant, Json, Method, ProtocolVersion, Ticket, code};

use super::legacy_client::LegacyClient;
use super::link::{HeldRequest, Joined, Opening, Path};
use super::modern_client::ModernClient;
use super::owner::Owner;
use super::upstream::identify_legacy;
use super::{Event, convert};

impl<S: ServerTransport, T: ClientTransport> Joined<'_, S, T> {
    /// Forwards the client's `initialize` and the server's answer unchanged (BR-T-09).
    pub(super) fn on_initialize(&mut self, ticket: Ticket, params: Json, now: Instant) {
        match std::mem::replace(self.path, Path::Opening(Opening::Awaited)) {
            Path::Opening(Opening::Prepared { params: prepared, version, result }) => {
                if version.is_stateless() {
                    return self.bridge_legacy_client(ticket, params, &result, now);
                }
                if prepared == params {
                    *self.path = Path::PassThrough { discovered: None };
                    return self.sides.respond(ticket, Ok(result), now);
                }
            }
            // The client has sent `initialize` before its discovery was answered.
            Path::Opening(Opening::Discovering { asked, mut held }) if !held.is_empty() => {
                held.push(HeldRequest { ticket, method: Method::INITIALIZE, params: Some(params) });
                *self.path = Path::Opening(Opening::Discovering { asked, held });
                return;
            }
            Path::PassThrough { discovered: Some(result) } => {
                return self.bridge_legacy_client(ticket, params, &result, now);
            }
            path @ (Path::PassThrough { .. } | Path::LegacyClient(_) | Path::ModernClient(_)) => *self.path = path,
            // If no request is held, discovery has failed, and the connection starts again.
            Path::Opening(
                Opening::Awaited
                | Opening::Sent { .. }
                | Opening::Answered(_)
                | Opening::Failed { .. }
                | Opening::Discovering { .. },
            ) => {}
        }
        identify_legacy(self.sides.client, &params);
        self.cold_start.on_initialize(&params);
        let connected = match self.offered(&params) {
            Some(offered) => self.sides.client.connect_with(client::Opening::Initialize(offered), now),
            None => self.sides.client.connect(now),
        };
        match connected {
            Ok(()) => *self.path = Path::Opening(Opening::Sent { ticket, params }),
            Err(error) => {
                self.sides.respond(ticket, Err(ErrorObject::new(code::INTERNAL_ERROR, &error.to_string())), now);
            }
        }
    }

    /// Holds the first request of a modern client, and those that follow until the era of the server is known.
    pub(super) fn on_discovering(&mut self, ticket: Ticket, method: Method, params: Option<Json>, now: Instant) {
        let asked = discovery(&method, params.as_ref());
        let (capabilities, client_info) = self
            .sides
            .server
            .context(&ticket)
            .map_or((Json::empty_object(), None), |context| (context.client_capabilities, context.client_info));
        let held = HeldRequest { ticket, method, params };
        if let Path::Opening(Opening::Discovering { held: waiting, .. }) = &mut *self.path {
            if !waiting.is_empty() {
                return waiting.push(held);
            }
        }
        *self.path = Path::Opening(Opening::Discovering { asked: asked.clone(), held: vec![held] });
        let client_info = client_info.unwrap_or_else(convert::unknown);
        let mut capabilities = convert::capabilities_to_legacy(&capabilities);
        if *self.sides.owner == Owner::Everyone {
            // The server would use those of any client for the calls of all.
            capabilities = capabilities.without_members(&["roots"]);
        }
        let newest = self.versions.iter().filter(|version| !version.is_stateless()).max();
        let opening = match newest.filter(|_| self.is_legacy_server) {
            Some(newest) => client::Opening::Initialize(Json::empty_object().with_members(&[
                ("protocolVersion", &Json::from(newest.as_str())),
                ("capabilities", &capabilities),
                ("clientInfo", &client_info),
            ])),
            None => client::Opening::Discover(asked),
        };
        let identified = self.sides.client.identify(client_info, capabilities);
        let connected = identified.and_then(|()| self.sides.client.connect_with(opening, now));
        if let Err(error) = connected {
            let error = ErrorObject::new(code::INTERNAL_ERROR, &error.to_string());
            self.refuse_held(&error, now);
        }
    }

    pub(super) fn on_connected(&mut self, version: ProtocolVersion, result: Json, is_reconnect: bool, now: Instant) {
        if is_reconnect {
            if let Path::ModernClient(state) = &mut *self.path {
                state.on_reconnected(&mut self.sides, now);
            }
            return;
        }
        let is_stateless = version.is_stateless();
        *self.sides.request_timeout = None;
        let Path::Opening(opening) = &mut *self.path else { return };
        let opening = std::mem::replace(opening, Opening::Awaited);
        *self.path = Path::PassThrough { discovered: None };
        match opening {
            Opening::Sent { ticket, params } if is_stateless => self.bridge_legacy_client(ticket, params, &result, now),
            Opening::Sent { ticket, .. } => self.sides.respond(ticket, Ok(result), now),
            Opening::Answered(early) => self.on_late_connection(early, version, &result, now),
            Opening::Failed { params } | Opening::Prepared { params, .. } => {
                *self.path = Path::Opening(Opening::Prepared { params, version, result });
            }
            Opening::Discovering { asked, held } => self.on_discovered(is_stateless, &asked, held, &result, now),
            Opening::Awaited => {}
        }
    }

    /// Continues the requests that were held until the server's era was known: whether it is stateless.
    fn on_discovered(&mut self, is_stateless: bool, asked: &Json, held: Vec<HeldRequest>, result: &Json, now: Instant) {
        // If the client has restarted the handshake, perhaps more than once, the latest opening request counts.
        let is_opener = |held: &&HeldRequest| held.method.facts().opens.is_some();
        let last = held.iter().rev().find(is_opener);
        let initialize = last.filter(|last| last.method == Method::INITIALIZE).map(|last| last.ticket.key());
        if is_stateless {
            *self.path = Path::PassThrough { discovered: Some(result.clone()) };
        } else if initialize.is_none() {
            self.bridge_modern_client(result, now);
        }
        for HeldRequest { ticket, method, params } in held {
            let is_last_request = initialize == Some(ticket.key());
            if is_last_request && !is_stateless {
                self.sides.respond(ticket, Ok(result.clone()), now);
            } else if is_last_request {
                self.on_initialize(ticket, params.unwrap_or(Json::empty_object()), now);
            } else if initialize.is_some() || method == Method::INITIALIZE {
                let error = ErrorObject::new(code::INVALID_REQUEST, "the client has restarted the handshake");
                self.sides.respond(ticket, Err(error), now);
            } else if !is_stateless {
                self.sides.server.handle_again(ticket, method, params, now);
            } else if method == Method::SERVER_DISCOVER && params.as_ref() == Some(asked) {
                self.sides.respond(ticket, Ok(result.clone()), now);
            } else {
                self.sides.pass_unchanged(ticket, method, params, now);
            }
        }
    }

    /// Answers the waiting requests with the error; the connection is retried in the background.
    pub(super) fn on_unavailable(&mut self, reason: &Unavailable, now: Instant) {
        let Path::Opening(opening) = &mut *self.path else { return };
        let (failed, ticket) = match std::mem::replace(opening, Opening::Awaited) {
            Opening::Sent { ticket, params } => (Opening::Failed { params }, Some(ticket)),
            Opening::Prepared { params, .. } | Opening::Failed { params } => (Opening::Failed { params }, None),
            opening @ (Opening::Awaited | Opening::Answered(_) | Opening::Discovering { .. }) => (opening, None),
        };
        *opening = failed;
        let error = match reason {
            Unavailable::Error(error) => error.clone(),
            Unavailable::Failed(reason) => self.sides.error_for(reason),
        };
        if let Some(ticket) = ticket {
            self.sides.respond(ticket, Err(error), now);
        } else {
            self.refuse_held(&error, now);
        }
    }

    /// Takes the requests that are held until the era of the server is known.
    pub(crate) fn take_held(&mut self) -> Vec<(Ticket, Method, Option<Json>)> {
        let Path::Opening(Opening::Discovering { held, .. }) = &mut *self.path else { return Vec::new() };
        std::mem::take(held)
            .into_iter()
            .map(|HeldRequest { ticket, method, params }| (ticket, method, params))
            .collect()
    }

    /// Answers the requests that are held with this error.
    fn refuse_held(&mut self, error: &ErrorObject, now: Instant) {
        let Path::Opening(Opening::Discovering { held, .. }) = &mut *self.path else { return };
        for held in std::mem::take(held) {
            self.sides.respond(held.ticket, Err(error.clone()), now);
        }
    }

    /// The parameters of `initialize`, with the newest allowed legacy revision if the requested one is not allowed.
    /// `None` if no legacy revision is allowed.
    fn offered(&self, params: &Json) -> Option<Json> {
        let legacy = || self.versions.iter().copied().filter(|version| !version.is_stateless());
        let newest = legacy().max()?;
        let asked = params.first_member("protocolVersion");
        let asked = asked.as_ref().and_then(Json::as_string);
        let is_allowed = asked.is_none_or(|asked| {
            ProtocolVersion::from_text(&asked).is_none_or(|asked| legacy().any(|version| version == asked))
        });
        if is_allowed {
            return Some(params.clone());
        }
        Some(params.with_member("protocolVersion", &Json::from(newest.as_str())))
    }

    /// Joins a legacy client to a modern server: from here on, the relay is the client's server (BR-L-01).
    fn bridge_legacy_client(&mut self, ticket: Ticket, params: Json, discovered: &Json, now: Instant) {
        identify_legacy(self.sides.client, &params);
        self.become_legacy_server(discovered);
        self.sides.server.handle_again(ticket, Method::INITIALIZE, Some(params), now);
    }

    /// Answers `initialize` of a client whose server was opened for another client before, in this revision and with this
    /// result.
    pub(crate) fn open_as_before(
        &mut self,
        ticket: Ticket,
        params: Json,
        version: ProtocolVersion,
        result: &Json,
        now: Instant,
    ) {
        if version.is_stateless() {
            self.become_legacy_server(result);
            return self.sides.server.handle_again(ticket, Method::INITIALIZE, Some(params), now);
        }
        *self.path = Path::PassThrough { discovered: None };
        let asked = params.first_member("protocolVersion");
        let asked = asked.as_ref().and_then(Json::as_string).and_then(|asked| ProtocolVersion::from_text(&asked));
        // A newer revision adds to an older one, which the client can ignore.
        let result = match asked.filter(|asked| *asked < version) {
            Some(asked) => result.with_member("protocolVersion", &Json::from(asked.as_str())),
            None => result.clone(),
        };
        self.sides.respond(ticket, Ok(result), now);
    }

    /// Makes the relay act as the server for a legacy client; `discovered` is what the modern server behind it has
    /// stated.
    pub(super) fn become_legacy_server(&mut self, discovered: &Json) {
        let [capabilities, meta] = discovered.first_members(["capabilities", "_meta"]);
        let capabilities = capabilities.filter(Json::is_object).unwrap_or(Json::empty_object());
        let server_info = meta.and_then(|meta| meta.first_member(SERVER_INFO));
        *self.path = Path::LegacyClient(LegacyClient::new(&capabilities));
        self.sides.out.report(Event::Bridging { client: Era::Legacy, server: Era::Modern });
        let capabilities = capabilities.without_members(&["extensions"]);
        let server_info = server_info.filter(Json::is_object).unwrap_or_else(convert::unknown);
        self.serve(discovered, server_info, capabilities, Era::Legacy);
    }

    /// Joins a modern client to a legacy server: from here on, the relay is the client's server (BR-M-01).
    fn bridge_modern_client(&mut self, initialized: &Json, now: Instant) {
        let [capabilities, server_info] = initialized.first_members(["capabilities", "serverInfo"]);
        let capabilities = capabilities.filter(Json::is_object).unwrap_or(Json::empty_object());
        *self.path = Path::ModernClient(ModernClient::new(&capabilities, self.parking_timeout));
        self.sides.out.report(Event::Bridging { client: Era::Modern, server: Era::Legacy });
        let capabilities = capabilities.without_members(&["tasks"]);
        let server_info = server_info.filter(Json::is_object).unwrap_or_else(convert::unknown);
        self.serve(initialized, server_info, capabilities, Era::Modern);
        if let Err(error) = self.sides.client.confirm(None, now) {
            self.sides.out.report(Event::NotPassed { method: Method::INITIALIZED, error });
        }
    }

    /// Answers the client from now on in the place of the server behind the relay, in the revisions of the client's era.
    /// `opened` is the server's result of `initialize` or `server/discover`.
    fn serve(&mut self, opened: &Json, server_info: Json, capabilities: Json, era: Era) {
        let instructions = opened.first_member("instructions");
        let instructions = instructions.as_ref().and_then(Json::as_string).map(|text| Box::from(&*text));
        let mut config = self.sides.server.config().clone();
        config.versions.retain(|version| version.rules().era == era);
        (config.server_info, config.capabilities, config.instructions) = (server_info, capabilities, instructions);
        // The server behind the relay decides about subscriptions (BR-L-04, BR-M-09).
        config.reports_subscribe = true;
        config.manual_acknowledgement = true;
        // Both values are objects. The relay bridges once, and all backends of one owner are the same, so that it does not
        // matter if this fails.
        let _ = if let Some(session) = self.sides.session {
            self.sides.server.serve_session(session, config)
        } else {
            config.capabilities = convert::without_changes(&config.capabilities);
            self.sides.server.serve_requests(self.sides.owner.requesters(), config)
        };
    }
}

/// The parameters of `server/discover` that the request implies: its own, or parameters with the same client metadata.
fn discovery(method: &Method, params: Option<&Json>) -> Json {
    let params = params.cloned().unwrap_or(Json::empty_object());
    if *method == Method::SERVER_DISCOVER {
        return params;
    }
    let meta = params.first_member("_meta").unwrap_or(Json::empty_object());
    Json::empty_object().with_member("_meta", &meta.without_members(&["progressToken", LOG_LEVEL]))
}
