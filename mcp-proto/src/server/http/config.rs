//! The configuration of a server's HTTP transport.

use crate::Json;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use crate::auth::{Challenge, ProtectedResource, WELL_KNOWN};
use crate::conversation::keys::InstanceId;
use crate::error::UsageError;
use crate::limits::InvalidLimit;
use crate::server::http::exchange::access::Access;
use crate::server::http::exchange::head::is_at;
use crate::server::http::exchange::refusal::Refusal;
use crate::server::http::sessions::sealed::SealedSessions;
use crate::server::setters::setters;
use crate::spec::UnreadableId;

/// Where the sessions of clients of revisions up to 2025-11-25 are. This determines which instances of a server can
/// serve them. Sessions of the two-endpoint transport are always in the memory of the instance that has opened them.
///
/// | | instances that serve a session | across instances |
/// |---|---|---|
/// | [`None`](SessionMode::None) | all | single requests only |
/// | [`InMemory`](SessionMode::InMemory) | the one that has opened it | nothing |
/// | [`Sealed`](SessionMode::Sealed) | all with the same keys | requests, with the capabilities of the client |
/// | [`Stored`](SessionMode::Stored) | all with the same store | everything that one instance has |
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum SessionMode {
    /// There are no sessions. `initialize` is answered without a session id, and each later request is served by
    /// itself, so that several processes behind a load balancer can serve a client. The server cannot send requests to
    /// clients. Clients cannot cancel, subscribe, set a log level, open a stream by GET or resume one. Batches are
    /// refused. The context of a request has no capabilities of the client, and no session.
    None,
    /// In the memory of this process.
    #[default]
    InMemory,
    /// In the session ids, so that every instance with the same keys serves the sessions. A client whose state is too
    /// large for an id gets a session in the memory of this process.
    Sealed(SealedSessions),
    /// In a store that several instances share, with the events for replay and what one instance has to pass to another.
    Stored(StoredSessions),
}

/// The streams that clients may open by GET if the number of connections is not known.
const MAX_STREAMS: usize = 768;

/// The paths of the two-endpoint transport of 2024-11-05.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwoEndpoints {
    /// The path at which a client opens the stream by GET.
    pub stream: Box<str>,
    /// The path to which a client sends its messages by POST.
    pub messages: Box<str>,
}

/// Sessions in a store ([`store`](crate::store)), so that every instance with the same store serves them: requests, streams,
/// resumptions, cancellations, and answers to requests of the server reach a session wherever they arrive, and changes
/// that one instance publishes reach the clients of all.
///
/// Each request of a session begins with reading the record of the session. If a request changes the record, its
/// response is sent after the record was written. Events of streams are stored before they are sent. If the store
/// cannot be reached, requests of sessions are answered with 503 and `Retry-After`.
///
/// # Example
///
/// ```
/// use mcp_proto::server::{HttpConfig, SessionMode, StoredSessions};
/// use mcp_proto::InstanceId;
///
/// # let random = 7;
/// let mut http = HttpConfig::new();
/// http.sessions = SessionMode::Stored(StoredSessions::new(InstanceId::new(random)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSessions {
    /// The id of this instance among those that share the store.
    pub instance: InstanceId,
    /// How long the store may take for an action, after which it counts as unreachable. Default 5 s.
    pub timeout: Duration,
}

impl StoredSessions {
    /// The configuration of this instance, with the default timeout.
    #[must_use]
    pub const fn new(instance: InstanceId) -> Self {
        Self { instance, timeout: Duration::from_secs(5) }
    }
}

/// The end of the path of the server card.
const CARD: &str = "/server-card";

/// What a server serves to everybody.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PublicDocument<'c> {
    Metadata(&'c ProtectedResource),
    Card(&'c Json),
}

/// The configuration of a server's HTTP transport. Each field may be set as such, or by the method of its name.
///
/// # Example: both HTTP transports, for one origin
///
/// ```
/// use mcp_proto::server::{Access, HttpConfig, TwoEndpoints};
///
/// let config = HttpConfig::new()
///     .access(Access::Listed {
///         hosts: vec!["mcp.example.com".into()],
///         origins: vec!["https://app.example.com".into()],
///     })
///     .two_endpoints(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
/// assert!(config.two_endpoints.is_some() && config.get_stream);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The path of the endpoint of Streamable HTTP; `None` if the driver or a router has checked it. Default `/mcp`.
    ///
    /// Rules: SH-S-01.
    pub path: Option<Box<str>>,
    /// The two-endpoint transport of 2024-11-05, if it is also served. Default `None`.
    ///
    /// Rules: ER-45.
    pub two_endpoints: Option<TwoEndpoints>,
    /// The path prefix, such as `/v1`, that a reverse proxy or a router removes before the server receives a request.
    /// The URI in the `endpoint` event of [`HttpConfig::two_endpoints`] begins with it. The URL of
    /// [`HttpConfig::protected_resource`] contains it, too. Default: empty.
    pub public_path: Box<str>,
    /// Which hosts and origins may access the server. Default [`Access::Loopback`].
    pub access: Access,
    /// Whether web pages of the origins that [`HttpConfig::access`] allows may read responses (CORS): then their browsers
    /// are permitted to send the requests of the transport with all of its headers, but without cookies. With
    /// [`Access::Anybody`], these are all pages. Default `false`.
    pub cors: bool,
    /// The metadata with which clients find out where they get a token for this server. They are served at
    /// [`ProtectedResource::path`], also for requests that a router has matched, and every challenge names them. The
    /// driver's `authenticate` checks the tokens. Default `None`.
    ///
    /// Rules: OA-Z-01.
    pub protected_resource: Option<ProtectedResource>,
    /// The server card: what a client or a catalogue can know about the server before it connects, such as `ServerCard` of
    /// `mcp-model`. It is public, and served at the path of the endpoint with `/server-card` after it. SEP-2127, which states
    /// this, is a draft. Default `None`.
    pub server_card: Option<Json>,
    /// Where the sessions of clients of revisions up to 2025-11-25 are. Revision 2026-07-28 has no sessions. Default
    /// [`SessionMode::InMemory`].
    pub sessions: SessionMode,
    /// Whether a client may open a stream by GET for messages that relate to no request. Default `true`.
    ///
    /// Rules: SH-S-46.
    pub get_stream: bool,
    /// Whether a client may end its session by DELETE. Default `true`.
    ///
    /// Rules: SH-S-44.
    pub delete: bool,
    /// The maximum number of sessions at one time. At the limit, an unused one is ended as specified by
    /// [`HttpConfig::evict_after`]; if there is none, `initialize` is answered with 503. Default 10,000.
    ///
    /// Rules: SE6.
    pub max_sessions: usize,
    /// The maximum number of streams at one time that clients opened by GET. At the limit, the one unused for longest
    /// is ended as specified by [`HttpConfig::evict_after`]; if there is none, the GET is answered with 503. Default
    /// `None`: half of the connections that the driver accepts
    /// ([`Server::limit_to_connections`](super::super::Server::limit_to_connections)), which is also the largest value
    /// that has an effect. If the driver states no number of connections, the default is 768.
    ///
    /// Rules: SE6.
    pub max_streams: Option<usize>,
    /// How long a session without an open exchange, or a stream without an event, must be unused before it is ended for
    /// a new one of any client. This time does not apply to a new client that would still hold fewer than the client
    /// that holds the most: then the longest unused session or stream of the client with the most is ended at once.
    /// Clients are distinguished by [`RequestInfo::authentication`], or without that by [`RequestInfo::peer`]. Default
    /// 60 s.
    ///
    /// [`RequestInfo::authentication`]: super::super::RequestInfo::authentication
    /// [`RequestInfo::peer`]: super::super::RequestInfo::peer
    pub evict_after: Duration,
    /// How long a session is kept without a request or an open stream. Default 30 min.
    ///
    /// Rules: SE6.
    pub session_idle: Duration,
    /// Bytes of events that a session keeps so that a client can resume a broken stream; zero for none. A larger event
    /// is not kept: a client that was disconnected when it was sent receives 400 when it resumes the stream. Default
    /// 256 KiB.
    ///
    /// Rules: SE9.
    pub replay: usize,
    /// How long the events of an answered request are stored for replay. Default 2 min.
    pub replay_for: Duration,
    /// How long a client should wait before it resumes a broken stream. It is sent as `retry` at the start of a stream,
    /// in revisions that allow the server to end streams early. Default `None`: the client decides.
    ///
    /// Rules: SH-S-55.
    pub retry: Option<Duration>,
    /// The pause after which a comment is sent on an idle stream, so that no proxy closes it; up to an eighth of it less, so that
    /// several streams are due at the same time. Default 15 s.
    pub keep_alive: Duration,
    /// How long the body of a request may take to arrive. Default 30 s.
    ///
    /// Rules: OR6.
    pub body_timeout: Duration,
    /// How long a client may read nothing of its response before the response is dropped and the connection closed.
    /// Default 30 s.
    pub unread_timeout: Duration,
}

setters! { HttpConfig:
    path(impl Into<Box<str>>) => Some,
    two_endpoints(TwoEndpoints) => Some,
    public_path(impl Into<Box<str>>),
    access(Access),
    cors(bool),
    protected_resource(ProtectedResource) => Some,
    server_card(impl Into<Json>) => Some,
    sessions(SessionMode),
    get_stream(bool),
    delete(bool),
    max_sessions(usize),
    max_streams(usize) => Some,
    evict_after(Duration),
    session_idle(Duration),
    replay(usize),
    replay_for(Duration),
    retry(Duration) => Some,
    keep_alive(Duration),
    body_timeout(Duration),
    unread_timeout(Duration),
}

impl HttpConfig {
    /// Streamable HTTP at `/mcp`, for clients on the same host.
    #[must_use]
    pub fn new() -> Self {
        Self {
            path: Some("/mcp".into()),
            two_endpoints: None,
            public_path: "".into(),
            access: Access::Loopback,
            cors: false,
            protected_resource: None,
            server_card: None,
            sessions: SessionMode::InMemory,
            get_stream: true,
            delete: true,
            max_sessions: 10_000,
            max_streams: None,
            evict_after: Duration::from_secs(60),
            session_idle: Duration::from_secs(30 * 60),
            replay: 256 * 1024,
            replay_for: Duration::from_secs(120),
            retry: None,
            keep_alive: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            unread_timeout: Duration::from_secs(30),
        }
    }

    /// Whether something is served at this path: an endpoint of one of the transports, or the metadata. A driver of
    /// several servers uses this to select the server for a request.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::HttpConfig;
    ///
    /// let config = HttpConfig::new();
    /// assert!(config.serves_path("/mcp") && !config.serves_path("/mcp/other"));
    /// ```
    #[must_use]
    pub fn serves_path(&self, path: &str) -> bool {
        let is_own = self.path.as_deref().is_none_or(|own| is_at(path, own));
        let is_either = |two: &TwoEndpoints| is_at(path, &two.stream) || is_at(path, &two.messages);
        is_own || self.two_endpoints.as_ref().is_some_and(is_either) || self.public_document_at(path).is_some()
    }

    /// The refusal of a request for a path that only the driver knows, such as a list of servers; `None` if the request
    /// may be answered. The status is 403 if the host or the origin is not allowed. Otherwise, the refusal is that of
    /// `challenge`, which the application's check of credentials has returned.
    ///
    /// # Example
    ///
    /// ```
    /// use http::Request;
    /// use mcp_proto::auth::Challenge;
    /// use mcp_proto::server::HttpConfig;
    ///
    /// let status = |host: &str, challenge: Option<Challenge>| {
    ///     let (head, ()) = Request::get("/").header("host", host).body(()).unwrap().into_parts();
    ///     HttpConfig::new().refusal(&head, challenge.as_ref()).map(|refused| refused.status().as_u16())
    /// };
    /// assert_eq!(status("localhost:8080", None), None);
    /// assert_eq!(status("localhost:8080", Some(Challenge::bearer())), Some(401));
    /// assert_eq!(status("evil.example", None), Some(403));
    /// ```
    ///
    /// Rules: SH-S-03, SH-S-05.
    #[must_use]
    pub fn refusal(&self, head: &Parts, challenge: Option<&Challenge>) -> Option<Response<Bytes>> {
        let refusal = self.access.check(head, true).err().or_else(|| challenge.map(Refusal::challenge))?;
        Some(refusal.into_response(UnreadableId::Null))
    }

    /// What is served to everybody at this path.
    pub(crate) fn public_document_at(&self, path: &str) -> Option<PublicDocument<'_>> {
        if let Some(resource) = self.metadata_at(path) {
            return Some(PublicDocument::Metadata(resource));
        }
        let card = self.server_card.as_ref()?;
        let endpoint = path.strip_suffix(CARD)?;
        let is_own = self.path.as_deref().is_none_or(|own| is_at(endpoint, own) || (own == "/" && endpoint.is_empty()));
        is_own.then_some(PublicDocument::Card(card))
    }

    /// The metadata, if they are served at this path. For an endpoint at `/`, this includes the well-known path without
    /// a suffix (OA-Z-01).
    pub(crate) fn metadata_at(&self, path: &str) -> Option<&ProtectedResource> {
        let resource = self.protected_resource.as_ref()?;
        let is_root = self.path.as_deref() == Some("/") && path == WELL_KNOWN;
        (is_root || path == resource.path()).then_some(resource)
    }

    /// The maximum number of streams that clients opened by GET.
    pub(super) fn most_streams(&self) -> usize {
        self.max_streams.unwrap_or(MAX_STREAMS)
    }

    pub(super) const fn has_sessions(&self) -> bool {
        !matches!(self.sessions, SessionMode::None)
    }

    pub(super) const fn sealed(&self) -> Option<&SealedSessions> {
        if let SessionMode::Sealed(sealed) = &self.sessions { Some(sealed) } else { None }
    }

    pub(super) const fn stored(&self) -> Option<&StoredSessions> {
        if let SessionMode::Stored(stored) = &self.sessions { Some(stored) } else { None }
    }

    pub(super) fn check(&self) -> Result<(), UsageError> {
        const LARGEST: usize = 1 << 30;
        for (field, value) in
            [("max_sessions", self.max_sessions), ("max_streams", self.most_streams()), ("replay", self.replay.max(1))]
        {
            if value == 0 || value > LARGEST {
                return Err(InvalidLimit { field, largest: LARGEST }.into());
            }
        }
        let of_sessions = match &self.sessions {
            SessionMode::None | SessionMode::InMemory => None,
            SessionMode::Sealed(sealed) => Some(("lifetime", sealed.session_lifetime())),
            SessionMode::Stored(stored) => Some(("timeout", stored.timeout)),
        };
        // A pause of zero would loop forever, and a huge one would overflow `Instant`.
        for (field, value) in [
            ("session_idle", self.session_idle),
            ("replay_for", self.replay_for),
            ("keep_alive", self.keep_alive),
            ("body_timeout", self.body_timeout),
            ("unread_timeout", self.unread_timeout),
        ]
        .into_iter()
        .chain(of_sessions)
        {
            if value.is_zero() || value > Duration::from_secs(LARGEST as u64) {
                return Err(InvalidLimit { field, largest: LARGEST }.into());
            }
        }
        let is_path = |path: &str| {
            let is_visible =
                path.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !matches!(byte, b'?' | b'#' | b'\\'));
            path.is_empty() || (is_visible && path.starts_with('/') && !path.starts_with("//") && !path.ends_with('/'))
        };
        if !is_path(&self.public_path) {
            return Err(UsageError::PublicPath);
        }
        self.protected_resource.as_ref().map_or(Ok(()), ProtectedResource::check)
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Set<T> = fn(&mut HttpConfig, T);

    #[test]
    fn a_server_has_the_paths_of_its_transports_and_of_its_metadata() {
        let resource = ProtectedResource::new("https://mcp.example/a/mcp").unwrap();
        let resource = resource.authorization_server("https://auth.example").unwrap();
        let mut http = HttpConfig::new();
        http.path = Some("/a/mcp".into());
        let paths =
            ["/a/mcp", "/a/sse", "/a/messages", "/.well-known/oauth-protected-resource/a/mcp", "/mcp", "/a/mcp/", "/"];
        let served = |http: &HttpConfig| paths.map(|path| http.serves_path(path));
        assert_eq!(served(&http), [true, false, false, false, false, true, false]);
        http.two_endpoints = Some(TwoEndpoints { stream: "/a/sse".into(), messages: "/a/messages".into() });
        assert_eq!(served(&http), [true, true, true, false, false, true, false]);
        http.protected_resource = Some(resource);
        assert_eq!(served(&http), [true, true, true, true, false, true, false]);
        http.path = None;
        assert_eq!(served(&http), [true; 7], "a router has checked it");
    }

    #[test]
    fn a_path_that_only_the_driver_knows_has_the_same_checks() {
        let status = |host: &str, challenge: Option<Challenge>| {
            let (head, ()) = http::Request::get("/").header("host", host).body(()).unwrap().into_parts();
            HttpConfig::new().refusal(&head, challenge.as_ref()).map(|refused| refused.status().as_u16())
        };
        for (host, code) in [("localhost", None), ("evil.example", Some(403))] {
            assert_eq!(status(host, None), code, "{host}");
            assert_eq!(status(host, Some(Challenge::bearer())), code.or(Some(401)), "{host}");
        }
    }

    #[test]
    fn a_public_path_begins_with_a_slash_and_does_not_end_with_one() {
        for (path, is_valid) in [
            ("", true),
            ("/v1", true),
            ("/a/b", true),
            ("v1", false),
            ("/v1/", false),
            ("/", false),
            ("//evil.example", false),
            ("/v1?x", false),
            ("/v1#x", false),
            ("/v 1", false),
            ("/v1\n", false),
        ] {
            let mut http = HttpConfig::new();
            http.public_path = path.into();
            assert_eq!(http.check(), if is_valid { Ok(()) } else { Err(UsageError::PublicPath) }, "{path:?}");
        }
    }

    #[test]
    fn numbers_and_times_are_neither_nothing_nor_more_than_can_be_counted() {
        let largest = 1 << 30;
        let counts: [(&str, Set<usize>); 3] = [
            ("max_sessions", |http, value| http.max_sessions = value),
            ("max_streams", |http, value| http.max_streams = Some(value)),
            ("replay", |http, value| http.replay = value),
        ];
        let times: [(&str, Set<Duration>); 5] = [
            ("session_idle", |http, value| http.session_idle = value),
            ("replay_for", |http, value| http.replay_for = value),
            ("keep_alive", |http, value| http.keep_alive = value),
            ("body_timeout", |http, value| http.body_timeout = value),
            ("unread_timeout", |http, value| http.unread_timeout = value),
        ];
        let check = |field, is_fine, set: &dyn Fn(&mut HttpConfig)| {
            let mut http = HttpConfig::new();
            set(&mut http);
            let expected = if is_fine { Ok(()) } else { Err(InvalidLimit { field, largest }.into()) };
            assert_eq!(http.check(), expected, "{field}");
        };
        for (field, set) in counts {
            for (value, is_fine) in
                [(0, field == "replay"), (1, true), (largest, true), (largest + 1, false), (usize::MAX, false)]
            {
                check(field, is_fine, &|http| set(http, value));
            }
        }
        let seconds = |count: usize| Duration::from_secs(count as u64);
        for (field, set) in times {
            for (value, is_fine) in [
                (Duration::ZERO, false),
                (Duration::from_nanos(1), true),
                (seconds(largest), true),
                (seconds(largest + 1), false),
                (Duration::MAX, false),
            ] {
                check(field, is_fine, &|http| set(http, value));
            }
        }
    }
}
