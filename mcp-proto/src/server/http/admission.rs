//! Checks the head of a request, in the order of RULES 5.2.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use super::access::{is_host_allowed, is_origin_allowed};
use super::config::{Access, is_at};
use super::refusal::Refusal;
use super::{Http, RequestInfo, cors, header_check};
use crate::auth::Challenge;
use crate::conversation::keys::SessionKey;
use crate::error::BodyKind;
use crate::server::principal::Principal;
use crate::spec::ProtocolVersion;
use crate::spec::header::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID, accepts, body_kind};

/// What the server will do for a request, according to its head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Handle the message in the body. Without a session, it must be `initialize` or stateless.
    Post { session: Option<SessionKey> },
    /// Handle a message that is answered on the stream of a two-endpoint session.
    PostMessage { session: SessionKey },
    /// Open the GET stream, for messages that relate to no request.
    Get { session: SessionKey },
    /// Resume a stream after this event.
    Resume { session: SessionKey, after: Box<str> },
    /// Open a two-endpoint session.
    OpenStream,
    /// Send the metadata of the protected resource.
    Metadata,
    /// Permit a browser to request the metadata.
    MetadataPreflight,
    /// Permit a browser to send requests with these methods for a page.
    Preflight { methods: &'static str },
    /// End a session.
    Delete { session: SessionKey },
    /// Read the state of the session from the store, and plan again. `is_whole` if the request has arrived in full.
    LookUp { is_whole: bool },
}

impl Plan {
    /// The session of Streamable HTTP that the request names.
    pub(super) const fn session(&self) -> Option<SessionKey> {
        match self {
            Self::Post { session } => *session,
            Self::Get { session } | Self::Resume { session, .. } | Self::Delete { session } => Some(*session),
            Self::PostMessage { .. }
            | Self::OpenStream
            | Self::Metadata
            | Self::MetadataPreflight
            | Self::Preflight { .. }
            | Self::LookUp { .. } => None,
        }
    }
}

impl Http {
    pub(super) fn plan(&self, head: &Parts, info: &RequestInfo) -> Result<Plan, Refusal> {
        self.check_access(head)?;
        check_transfer(&head.headers)?;
        let path = head.uri.path();
        if self.config.metadata_at(path).is_some() {
            return Self::plan_metadata(&head.method);
        }
        let own = self.config.path.as_deref();
        let two = self.config.two_endpoints.as_ref();
        let is_stream = two.is_some_and(|two| is_at(path, &two.stream) && own.is_none_or(|own| !is_at(path, own)));
        let is_messages = two.is_some_and(|two| is_at(path, &two.messages));
        if !is_stream && !is_messages && !info.is_routed && own.is_some_and(|own| !is_at(path, own)) {
            return Err(Refusal::new(StatusCode::NOT_FOUND, "no endpoint has this path"));
        }
        // A browser asks without the credentials of the request that follows.
        if self.config.cors && cors::is_preflight(head) {
            return Ok(Plan::Preflight { methods: if is_stream { "GET" } else { self.methods(is_messages) } });
        }
        // The sender is authenticated before any session is looked up, so that others learn of no session (SE-02,
        // OA-Z-02).
        let principal = info.authentication.as_ref().map_err(|challenge| self.challenged(challenge))?.as_ref();
        if is_stream {
            return Self::plan_stream(head);
        }
        if is_messages {
            return self.plan_message(head, principal);
        }
        let is_stateless = self.versions.has_stateless() && header_check::names_stateless(&head.headers);
        let has_streams = self.has_sessions() && !is_stateless;
        match head.method {
            // A client of the modern era has neither a session nor a GET stream (SH-S-59).
            _ if head.method != Method::POST && !has_streams => Err(Refusal::method("POST")),
            Method::POST if is_stateless || !self.versions.has_sessions() => self.plan_stateless(head),
            Method::POST if !has_streams => self.plan_sessionless(head),
            Method::POST => self.plan_post(head, principal),
            Method::GET if self.config.get_stream => self.plan_get(head, principal),
            Method::DELETE if self.config.delete => {
                Ok(Plan::Delete { session: self.session_of_revision(head, principal)? })
            }
            _ => Err(Refusal::method(self.methods(false))),
        }
    }

    /// Whether the host and the web page of a request are allowed. The metadata are for every page.
    pub(super) fn check_access(&self, head: &Parts) -> Result<(), Refusal> {
        let is_for_some_pages = self.config.metadata_at(head.uri.path()).is_none();
        check_access(&self.config.access, head, is_for_some_pages)
    }

    /// Whether clients of revisions up to 2025-11-25 get sessions.
    fn has_sessions(&self) -> bool {
        self.config.has_sessions() && self.versions.has_sessions()
    }

    /// The allowed methods of the endpoint, or with `is_messages` of the message endpoint of two-endpoint sessions.
    fn methods(&self, is_messages: bool) -> &'static str {
        let has_streams = self.has_sessions() && !is_messages;
        match (self.config.get_stream && has_streams, self.config.delete && has_streams) {
            (true, true) => "GET, POST, DELETE",
            (true, false) => "GET, POST",
            (false, true) => "POST, DELETE",
            (false, false) => "POST",
        }
    }

    /// The refusal with a challenge, which names the metadata of this server (OA-Z-02).
    fn challenged(&self, challenge: &Challenge) -> Refusal {
        let resource = self.config.protected_resource.as_ref();
        match resource.filter(|_| challenge.resource_metadata().is_none()) {
            Some(resource) => Refusal::challenge(&challenge.clone().with("resource_metadata", resource.metadata_url())),
            None => Refusal::challenge(challenge),
        }
    }

    fn plan_stateless(&self, head: &Parts) -> Result<Plan, Refusal> {
        self.check_message(head)?;
        Ok(Plan::Post { session: None })
    }

    /// Plans a POST at a server without sessions. A session id, perhaps of an earlier configuration, is ignored.
    fn plan_sessionless(&self, head: &Parts) -> Result<Plan, Refusal> {
        self.check_message(head)?;
        self.check_version(&head.headers)?;
        Ok(Plan::Post { session: None })
    }

    fn plan_post(&self, head: &Parts, principal: Option<&Principal>) -> Result<Plan, Refusal> {
        self.check_message(head)?;
        if !head.headers.contains_key(SESSION_ID) {
            return Ok(Plan::Post { session: None });
        }
        let session = self.session_of_revision(head, principal)?;
        Ok(Plan::Post { session: Some(session) })
    }

    fn check_message(&self, head: &Parts) -> Result<(), Refusal> {
        self.check_body(head)?;
        if !accepts(&head.headers, "application/json") || !accepts(&head.headers, "text/event-stream") {
            let text = "the answer may be application/json or text/event-stream, and Accept must allow both";
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, text));
        }
        Ok(())
    }

    fn plan_get(&self, head: &Parts, principal: Option<&Principal>) -> Result<Plan, Refusal> {
        if !accepts(&head.headers, "text/event-stream") {
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, "the answer is text/event-stream"));
        }
        let session = self.session_of_revision(head, principal)?;
        match single(&head.headers, &LAST_EVENT_ID) {
            Ok(None) => Ok(Plan::Get { session }),
            Ok(Some(after)) => Ok(Plan::Resume { session, after: after.into() }),
            Err(()) => Err(unknown_event()),
        }
    }

    /// A GET of the stream endpoint opens a two-endpoint session (HS-01, HS-02).
    fn plan_stream(head: &Parts) -> Result<Plan, Refusal> {
        if head.method != Method::GET {
            return Err(Refusal::method("GET"));
        }
        if !accepts(&head.headers, "text/event-stream") {
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, "the answer is text/event-stream"));
        }
        Ok(Plan::OpenStream)
    }

    /// A POST to the message endpoint (HS-07) names its session in the query (HS-08).
    fn plan_message(&self, head: &Parts, principal: Option<&Principal>) -> Result<Plan, Refusal> {
        if head.method != Method::POST {
            return Err(Refusal::method("POST"));
        }
        self.check_body(head)?;
        let query = head.uri.query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
        let session = id.and_then(|id| self.sessions.find(id, true, principal)).ok_or_else(unknown_session)?;
        Ok(Plan::PostMessage { session })
    }

    fn check_body(&self, head: &Parts) -> Result<(), Refusal> {
        // A web page can send other content types to a foreign origin without a preflight (OR4).
        if body_kind(&head.headers) != BodyKind::Json {
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"));
        }
        if has_coding_besides(&head.headers, &CONTENT_ENCODING, "identity") {
            return Err(Refusal::encoding());
        }
        let length = single(&head.headers, &CONTENT_LENGTH).ok().flatten().and_then(|text| text.parse::<u64>().ok());
        if length.is_some_and(|length| length > self.limits.message as u64) {
            return Err(too_large());
        }
        Ok(())
    }

    /// The session of a request: 400 without a session id (row 16), 404 if it is unknown (row 17) or belongs to another
    /// principal (SE4).
    fn session_of(&self, head: &Parts, principal: Option<&Principal>) -> Result<SessionKey, Refusal> {
        match single(&head.headers, &SESSION_ID) {
            Ok(Some(id)) => self.sessions.find(id, false, principal).ok_or_else(unknown_session),
            Ok(None) => Err(no_session()),
            Err(()) => Err(unknown_session()),
        }
    }

    fn session_of_revision(&self, head: &Parts, principal: Option<&Principal>) -> Result<SessionKey, Refusal> {
        let session = self.session_of(head, principal)?;
        self.check_version(&head.headers)?;
        Ok(session)
    }

    /// Refuses a revision that is not served (row 20). Without the header, the revision of the session applies (row
    /// 21).
    fn check_version(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let version = match single(headers, &PROTOCOL_VERSION) {
            Ok(None) => return Ok(()),
            Ok(Some(text)) => ProtocolVersion::from_text(text),
            Err(()) => None,
        };
        if version.is_some_and(|version| !version.is_stateless() && self.versions.contains(version)) {
            return Ok(());
        }
        Err(Refusal::new(StatusCode::BAD_REQUEST, "the revision that MCP-Protocol-Version names is not served"))
    }
}

/// Refuses a body with a transfer coding besides `chunked` (RFC 9112, section 6.1). An HTTP library may have removed the chunks
/// and left the coding.
fn check_transfer(headers: &HeaderMap) -> Result<(), Refusal> {
    if has_coding_besides(headers, &TRANSFER_ENCODING, "chunked") {
        return Err(Refusal::transfer());
    }
    Ok(())
}

/// Whether a header names a coding besides this one, or names it twice.
fn has_coding_besides(headers: &HeaderMap, name: &http::HeaderName, only: &str) -> bool {
    single(headers, name).map_or(true, |coding| coding.is_some_and(|coding| !coding.eq_ignore_ascii_case(only)))
}

/// Whether the host of a request is allowed, and with `is_for_some_pages` also the web page that sends it.
pub(super) fn check_access(access: &Access, head: &Parts, is_for_some_pages: bool) -> Result<(), Refusal> {
    if !is_host_allowed(access, head) {
        let text = "the Host of the request is not allowed here; HttpConfig::access lists those that are";
        return Err(Refusal::new(StatusCode::FORBIDDEN, text));
    }
    if is_for_some_pages && !is_origin_allowed(access, head) {
        let text = "the Origin of the request is not allowed here; HttpConfig::access lists those that are";
        return Err(Refusal::new(StatusCode::FORBIDDEN, text));
    }
    Ok(())
}

/// The value of a header that must not be repeated.
pub(super) fn single<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

pub(super) const fn no_session() -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "there is no Mcp-Session-Id; a session begins with initialize")
}

pub(super) const fn unknown_session() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is no such session; begin a new one with initialize")
}

pub(super) const fn unknown_event() -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "the events after this Last-Event-ID are no longer stored")
}

pub(super) const fn too_large() -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large")
}

pub(super) const fn too_many_sessions() -> Refusal {
    let text = "there are too many sessions at this time: as many as max_sessions allows";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
}

pub(super) const fn too_many_streams() -> Refusal {
    let text = "there are too many streams at this time: half of max_connections, or max_streams if that is less";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// For requests beyond the common limit of stored bytes (M3).
pub(super) const fn overloaded() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is overloaded; try again later")
}

/// For a request that needs the store, if the store has failed or has not answered in time.
pub(super) const fn store_unavailable() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the store of sessions cannot be reached; try again later")
}

/// For a request about a task of another instance.
pub(super) const fn task_unavailable() -> Refusal {
    let text = "the instance of the server that has this task cannot be reached; try again later";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
}

pub(super) const fn has_get_stream() -> Refusal {
    Refusal::new(StatusCode::CONFLICT, "this session has its stream already")
}

pub(super) const fn stopped() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is being stopped")
}
