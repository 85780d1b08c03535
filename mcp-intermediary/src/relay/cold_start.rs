//! The cold start: while a person signs in, the client's `initialize` is answered in the place of the server (OA-G-07).
//!
//! Clients give `initialize` less time than a person takes. Further requests of the client wait for the server, and the
//! client is notified of changes that the server's own answer makes.

use std::time::Duration;

use mcp_proto::client::{Call, ClientTransport};
use mcp_proto::server::{Scope, ServerTransport};
use mcp_proto::spec::List;
use mcp_proto::spec::meta::SERVER_INFO;
use mcp_proto::{Instant, Json, Method, Notification, ProtocolVersion};

use super::link::{Joined, Path};
use super::opening::Opening;
use super::{Config, Event, convert};

/// How long a request waits for the server at most after such an answer. Clients give up after a minute.
const WAIT: Duration = Duration::from_secs(50);

/// What a server has stated about itself earlier: the result of `initialize` or `server/discover`, as
/// [`Event::Connected`] reports it.
///
/// # Example
///
/// ```
/// use mcp_intermediary::relay::KnownServer;
/// use mcp_proto::{Json, ProtocolVersion};
///
/// let result = Json::parse(r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#).unwrap();
/// let server = KnownServer::new(ProtocolVersion::V2025_11_25, result);
/// assert_eq!(KnownServer::parse(server.to_text().as_bytes()), Some(server));
/// assert_eq!(KnownServer::parse(b"{}"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownServer {
    version: ProtocolVersion,
    result: Json,
}

impl KnownServer {
    /// A server that has answered in this revision with this result.
    #[must_use]
    pub const fn new(version: ProtocolVersion, result: Json) -> Self {
        Self { version, result }
    }

    /// The text under which it can be stored.
    #[must_use]
    pub fn to_text(&self) -> String {
        let stored = Json::empty_object().with_member("result", &self.result);
        stored.with_member("version", &Json::from(self.version.as_str())).to_text().into_owned()
    }

    /// Reads a stored text; `None` if it is not one.
    #[must_use]
    pub fn parse(stored: &[u8]) -> Option<Self> {
        let stored = Json::parse(stored.to_vec()).ok()?;
        let [version, result] = stored.first_members(["version", "result"]);
        let version = ProtocolVersion::from_text(&version?.as_string()?)?;
        Some(Self { version, result: result.filter(Json::is_object)? })
    }

    /// The result of `initialize` that the server would give to a legacy client that has asked for this revision.
    fn to_legacy(&self, asked: &Json) -> Json {
        if !self.version.is_stateless() {
            return self.result.clone();
        }
        let [capabilities, instructions, meta] = self.result.first_members(["capabilities", "instructions", "_meta"]);
        let capabilities = capabilities.filter(Json::is_object).unwrap_or(Json::empty_object());
        let server_info = meta.and_then(|meta| meta.first_member(SERVER_INFO)).filter(Json::is_object);
        let mut result = Json::empty_object().with_member("protocolVersion", asked);
        result = result.with_member("capabilities", &capabilities.without_members(&["extensions"]));
        result = result.with_member("serverInfo", &server_info.unwrap_or_else(convert::unknown));
        match instructions {
            Some(instructions) => result.with_member("instructions", &instructions),
            None => result,
        }
    }
}

/// The state of the cold start.
#[derive(Debug)]
pub(super) struct ColdStart {
    known: Option<KnownServer>,
    answer_after: Duration,
    /// How long a request waits for the server after such an answer.
    wait: Duration,
    /// When the client's `initialize` is answered in the place of the server.
    pub(super) answer_at: Option<Instant>,
    /// The client has declared that it opens URLs (`elicitation.url`).
    pub(super) opens_urls: bool,
    /// The client accepts requests.
    is_initialized: bool,
    /// The URL that the client is to open once it accepts requests.
    url: Option<Box<str>>,
}

/// An answer to `initialize` in the place of the server.
#[derive(Debug)]
pub(super) struct EarlyAnswer {
    /// The capabilities that the client was given.
    capabilities: Json,
    /// `notifications/initialized`, once the client has sent it.
    initialized: Option<Notification>,
}

impl ColdStart {
    pub(super) fn new(config: &Config) -> Self {
        let wait = WAIT.min(config.request_timeout);
        Self {
            known: config.opening.clone(),
            answer_after: config.answer_after,
            wait,
            answer_at: None,
            opens_urls: false,
            is_initialized: false,
            url: None,
        }
    }

    /// The client has sent `initialize` with these parameters.
    pub(super) fn on_initialize(&mut self, params: &Json) {
        let declared = params.first_member("capabilities").and_then(|own| own.first_member("elicitation"));
        self.opens_urls = declared.and_then(|elicitation| elicitation.first_member("url")).is_some();
        self.is_initialized = false;
    }

    /// The answer to `initialize` with these parameters.
    fn answer(&self, params: &Json) -> Json {
        let newest = || Json::from(ProtocolVersion::LATEST_LEGACY.as_str());
        let asked = params.first_member("protocolVersion").unwrap_or_else(newest);
        if let Some(known) = &self.known {
            return known.to_legacy(&asked);
        }
        let changes = Json::empty_object().with_member("listChanged", &Json::from(true));
        let add = |capabilities: Json, list: &List| capabilities.with_member(list.capability(), &changes);
        let capabilities = List::ALL.iter().fold(Json::empty_object(), add);
        let result = Json::empty_object().with_member("protocolVersion", &asked);
        result.with_member("capabilities", &capabilities).with_member("serverInfo", &convert::unknown())
    }
}

impl EarlyAnswer {
    /// The client has sent `notifications/initialized`.
    pub(super) fn on_initialized(&mut self, params: Option<Json>) {
        self.initialized = Some(Notification { method: Method::INITIALIZED, params });
    }
}

impl<S: ServerTransport, T: ClientTransport> Joined<'_, S, T> {
    /// The server demands authorization.
    pub(super) fn await_sign_in(&mut self, now: Instant) {
        if let Path::Opening(Opening::Sent { .. }) = *self.path {
            self.cold_start.answer_at.get_or_insert(now + self.cold_start.answer_after);
        }
    }

    /// Asks the client to open a URL at which a person signs in. A client that still waits for the answer to
    /// `initialize` gets that answer now, because it accepts no request before. This has no effect if the client does
    /// not open URLs.
    pub(super) fn send_or_keep_url(&mut self, url: &str, now: Instant) {
        if self.cold_start.opens_urls {
            self.cold_start.url = Some(url.into());
            if let Path::Opening(Opening::Sent { .. }) = *self.path {
                self.cold_start.answer_at = Some(now);
                self.answer_early(now);
            }
            self.send_url(now);
        }
    }

    /// The client accepts requests from now on.
    pub(super) fn on_client_initialized(&mut self, now: Instant) {
        self.cold_start.is_initialized = true;
        self.send_url(now);
    }

    fn send_url(&mut self, now: Instant) {
        if !self.cold_start.is_initialized {
            return;
        }
        let Some(url) = self.cold_start.url.take() else { return };
        let text = format!("Sign in to use {}.", self.sides.client.peer());
        // The URL is new for each sign-in, so that it identifies this one.
        let params = [("url", &*url), ("elicitationId", &*url), ("mode", "url"), ("message", &*text)];
        let add = |params: Json, (name, value): (&str, &str)| params.with_member(name, &Json::from(value));
        let call = Call::new(Method::ELICITATION_CREATE).params(params.into_iter().fold(Json::empty_object(), add));
        // The answer of the client is not needed: the redirect shows whether the person has signed in.
        let Some(session) = self.sides.session else { return };
        if let Err(error) = self.sides.server.request(session, call, now) {
            self.sides.out.report(Event::NotPassed { method: Method::ELICITATION_CREATE, error });
        }
    }

    /// Answers the client's `initialize` in the place of the server, if that is due.
    pub(super) fn answer_early(&mut self, now: Instant) {
        if self.cold_start.answer_at.is_none_or(|at| at > now) {
            return;
        }
        self.cold_start.answer_at = None;
        let Path::Opening(opening) = &mut *self.path else { return };
        match std::mem::replace(opening, Opening::Awaited) {
            Opening::Sent { ticket, params } => {
                let answer = self.cold_start.answer(&params);
                let capabilities = answer.first_member("capabilities").unwrap_or(Json::empty_object());
                *opening = Opening::Answered(EarlyAnswer { capabilities, initialized: None });
                *self.sides.request_timeout = Some(self.cold_start.wait);
                self.sides.respond(ticket, Ok(answer), now);
                self.sides.out.report(Event::AnsweredEarly);
            }
            other @ (Opening::Awaited
            | Opening::Answered(_)
            | Opening::Failed { .. }
            | Opening::Prepared { .. }
            | Opening::Discovering { .. }) => *opening = other,
        }
    }

    /// The server has answered after the client had an answer already.
    pub(super) fn on_late_connection(
        &mut self,
        early: EarlyAnswer,
        version: ProtocolVersion,
        result: &Json,
        now: Instant,
    ) {
        let EarlyAnswer { capabilities: given, initialized } = early;
        let is_initialized = initialized.is_some();
        let capabilities = result.first_member("capabilities").filter(Json::is_object).unwrap_or(Json::empty_object());
        if version.is_stateless() {
            self.become_legacy_server(result);
            if let Path::LegacyClient(state) = &mut *self.path {
                state.listen_anew(&mut self.sides, now);
            }
        } else if let Some(Notification { method, params }) = initialized {
            self.sides.pass_to_server(method, params, now);
        }
        // A client that is not initialized asks for the lists later.
        if !is_initialized {
            return;
        }
        let Some(session) = self.sides.session else { return };
        for list in List::ALL {
            let declared = given.first_member(list.capability());
            let is_told = declared.and_then(|declared| declared.first_member("listChanged")) == Some(Json::from(true));
            if is_told && capabilities.first_member(list.capability()).is_some() {
                self.sides.notify_client(Scope::from(session), list.notification(), None, now);
            }
        }
    }
}
