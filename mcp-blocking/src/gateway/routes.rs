//! Which server answers a request, according to the configuration in force.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use mcp_proto::escape_text;
use mcp_proto::server::{HttpConfig, OpenSessions};

use super::AnswerToHead;
use super::driver::Input;
use super::status::Counters;
use crate::server::authenticate::Authenticate;
use crate::server::connection::{Destination, Routed};
use crate::server::http_exchanges::log_refusal;

/// Identifies a server among all that a gateway has ever served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServerId(pub(super) u64);

/// What a gateway serves at one time, and to whom. A request is routed and authenticated by the same value.
#[derive(Clone, Default)]
pub(super) struct Routes {
    pub(super) servers: Vec<Route>,
    /// Servers that are being drained. The requests of their sessions are still for them.
    pub(super) earlier: Vec<Earlier>,
    pub(super) authenticate: Authenticate,
    pub(super) pages: Option<Arc<AnswerToHead>>,
    pub(super) refuse: Option<Arc<AnswerToHead>>,
}

/// The way to a server.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) http: HttpConfig,
    pub(super) inbox: SyncSender<Input>,
    pub(super) counters: Arc<Counters>,
}

/// The way to a server that serves only the sessions that it has.
#[derive(Clone)]
pub(super) struct Earlier {
    pub(super) id: ServerId,
    pub(super) route: Route,
    pub(super) sessions: OpenSessions,
}

impl Routes {
    /// What answers the request with this head.
    pub(super) fn destination(self: Arc<Self>, head: &Parts) -> Destination {
        let path = head.uri.path();
        let has_session =
            |earlier: &&Earlier| earlier.route.http.serves_path(path) && earlier.sessions.are_named_by(head);
        let earlier = self.earlier.iter().find(has_session).map(|earlier| &earlier.route);
        let route = earlier.or_else(|| self.servers.iter().find(|route| route.http.serves_path(path)));
        if let Some(Route { inbox, counters, .. }) = route {
            if let Some(refusal) = self.refuse.as_ref().and_then(|refuse| refuse(head)) {
                counters.refused(refusal.status());
                log_refusal(&refusal);
                return Destination::Response(refusal);
            }
            let (driver, authenticate) = (Arc::new(inbox.clone()), self.authenticate.clone());
            return Destination::Machine(Routed { driver, authenticate, in_force: Some(self) });
        }
        let page = self.pages.as_ref().and_then(|pages| pages(head));
        Destination::Response(page.unwrap_or_else(|| {
            let response = self.no_server(head);
            log_refusal(&response);
            response
        }))
    }

    /// The response to a request whose path no server has. Clients that may use the servers receive their paths.
    fn no_server(&self, head: &Parts) -> Response<Bytes> {
        let (mut reached, mut forbidden) = (Vec::new(), None);
        for http in self.servers.iter().map(|route| &route.http) {
            match http.refusal(head, None) {
                Some(refusal) => forbidden = Some(refusal),
                None => reached.push(http),
            }
        }
        let Some(http) = reached.first() else { return forbidden.unwrap_or_else(|| not_found(None)) };
        match self.authenticate.check(head) {
            Ok(_) => {
                let paths: BTreeSet<_> = reached.into_iter().flat_map(paths).collect();
                not_found(Some(paths.into_iter().collect::<Vec<_>>().join(", ")))
            }
            // There is something for those with a token.
            Err(challenge) if head.uri.path() == "/" => {
                http.refusal(head, Some(&challenge)).unwrap_or_else(|| not_found(None))
            }
            Err(_) => not_found(None),
        }
    }
}

/// The paths at which clients connect to a server.
fn paths(http: &HttpConfig) -> impl Iterator<Item = &str> {
    let two = http.two_endpoints.iter().flat_map(|two| [&*two.stream, &*two.messages]);
    http.path.as_deref().into_iter().chain(two)
}

/// Checks that each path is that of one server.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidInput`] if it is not, or there is no server.
pub(super) fn check_paths<'s>(servers: impl ExactSizeIterator<Item = &'s HttpConfig>) -> io::Result<()> {
    let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    let mut found = BTreeSet::new();
    let number = servers.len();
    for http in servers {
        for path in paths(http) {
            if !found.insert(path) {
                return invalid(format!("two servers have the path {path}"));
            }
        }
        if http.path.is_none() && number > 1 {
            return invalid("a server without a path cannot be one of several".to_owned());
        }
    }
    if number == 0 {
        return invalid("the gateway has no server".to_owned());
    }
    Ok(())
}

fn not_found(paths: Option<String>) -> Response<Bytes> {
    let paths = paths.map(|paths| format!(" The paths are: {}", escape_text(&paths, 2000)));
    let text = format!("No MCP server has this path.{}\n", paths.unwrap_or_default());
    let mut response = Response::new(text.into());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
