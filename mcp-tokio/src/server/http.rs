//! A server as a service of HTTP requests.
//!
//! | file | what it does |
//! |---|---|
//! | `application` | what is behind the machine of an HTTP server |
//! | `handlers` | the handlers of a server, as what is behind its machine |
//! | `authenticate` | the application's check of credentials |
//! | `driver` | the task that owns the machine of an HTTP server |
//! | `inbox` | the way of a request to this task, and of the response back |
//! | `request_body` | reads the bodies of requests |
//! | `body` | bodies of responses |
//! | `pieces` | the pieces of such a body, which the connection takes as its client reads them |
//! | `listener` | accepts the connections of a server |
//! | `client_socket` | the socket of a connection |
//! | `connection` | one connection |
//! | `half_close` | clients that have ended their sending side |
//! | `request_lines` | refuses requests that another HTTP parser may delimit otherwise |

mod application;
mod authenticate;
mod body;
mod client_socket;
mod connection;
mod driver;
mod half_close;
mod handlers;
mod inbox;
mod listener;
mod pieces;
mod request_body;
mod request_lines;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use driver::{Driver, Input, Urgent};
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use inbox::Inbox;
use mcp_application::{Authenticated, ConnectionTimeouts};
use mcp_proto::auth::Challenge;
use mcp_proto::client::CloseReason;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use application::Application;
pub use body::HttpBody;
pub(super) use handlers::Handlers;
pub use listener::Listener;

use super::ServerPublisher;
use super::running::Stage;

/// The capacity of the channel from connections to the driver. A connection that finds it full waits.
const INPUTS: usize = 256;

/// A server or a gateway that answers HTTP requests: a [`tower_service::Service`] whose clones share the same sessions.
/// `H` is what else can be done with it: a server publishes changes ([`ServerPublisher`]), a gateway reports what it
/// holds ([`GatewayMonitor`](crate::GatewayMonitor)).
///
/// It requires a runtime with timers enabled. [`HttpService::authenticate`] decides who sent a request. A layer in front
/// of it may put a [`PeerKey`](mcp_proto::server::PeerKey) into the extensions of a request: clients without a principal share the limits of one
/// client if their keys are equal ([`HttpConfig::evict_after`]); [`HttpService::serve`] adds the key itself.
///
/// As a service, it answers requests at every path, because the router has already selected the path. Only
/// [`HttpService::serve`] checks [`HttpConfig::path`]. The paths of [`HttpConfig::two_endpoints`], of
/// [`HttpConfig::protected_resource`] and of [`HttpConfig::server_card`] are always checked, against the part of the
/// request's path that the router has left.
///
/// [`HttpConfig::path`]: mcp_proto::server::HttpConfig::path
/// [`HttpConfig::two_endpoints`]: mcp_proto::server::HttpConfig::two_endpoints
/// [`HttpConfig::server_card`]: mcp_proto::server::HttpConfig::server_card
/// [`HttpConfig::protected_resource`]: mcp_proto::server::HttpConfig::protected_resource
/// [`HttpConfig::evict_after`]: mcp_proto::server::HttpConfig::evict_after
///
/// # Example: in a router of axum
///
/// ```
/// use mcp_tokio::proto::server::{Config, HttpConfig};
/// use mcp_tokio::proto::{ErrorObject, Json};
/// use mcp_tokio::{Incoming, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let serve = async |incoming: Incoming| Ok::<_, ErrorObject>(Json::from(incoming.method().as_str()));
/// let service = Server::new(Config::new("my-tools", "1.0.0"), serve).http(HttpConfig::new())?;
/// let app: axum::Router = axum::Router::new().route_service("/mcp", service.clone()).nest_service("/tools", service);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HttpService<H = ServerPublisher> {
    inbox: Inbox,
    stage: Arc<watch::Sender<Stage>>,
    handle: H,
    /// The maximum number of connections of [`HttpService::serve`] at one time. For one more, an idle connection is
    /// closed: of the address with the most connections, the one that has been idle for longest. If none is idle, the
    /// new connection is answered with 503. Streams that clients opened by GET take at most half of the connections, or
    /// fewer with [`HttpConfig::max_streams`](mcp_proto::server::HttpConfig::max_streams), and subscriptions at most a
    /// quarter, or fewer with `Limits::subscriptions`. Default 1024.
    pub max_connections: usize,
    /// How long the head of a request to [`HttpService::serve`] may take, from its first byte on. After that, the
    /// request is answered with 408. Default 10 s.
    pub head_timeout: Duration,
    /// How long a connection of [`HttpService::serve`] may be idle before it is closed. Default 60 s.
    pub idle_timeout: Duration,
}

impl HttpService {
    /// Returns a handle that publishes changes to clients while the service runs.
    #[must_use]
    pub fn publisher(&self) -> ServerPublisher {
        self.handle.clone()
    }
}

impl<H> HttpService<H> {
    /// What is given to those who ask the service for its handle.
    pub(crate) const fn handle(&self) -> &H {
        &self.handle
    }

    pub(crate) fn start(application: impl Application, stage: Arc<watch::Sender<Stage>>, handle: H) -> Self {
        let (inputs, received) = mpsc::channel(INPUTS);
        let (urgent, received_urgently) = mpsc::unbounded_channel();
        let timeouts = ConnectionTimeouts::default();
        tokio::spawn(Driver::new(application).run(received, received_urgently));
        Self {
            inbox: Inbox::new(inputs, urgent),
            stage,
            handle,
            max_connections: 1024,
            head_timeout: timeouts.head,
            idle_timeout: timeouts.idle,
        }
    }

    /// Sets the function that decides who sent a request, from its head: it returns a
    /// [`Principal`](mcp_proto::server::Principal), to which sessions then belong, or the challenge with which the
    /// request is refused. If it returns `None`, the request is served for an unknown sender. Without this function,
    /// all requests are. With [`Authenticated`], it also returns values for the handler of the request.
    ///
    /// The function checks that a token was issued for this server
    /// ([`ProtectedResource::resource`](mcp_proto::auth::ProtectedResource::resource)) by its authorization server, and
    /// has not expired, and it never passes the token on. It runs for each request before the body is read, and is
    /// dropped if the client disconnects; if it panics, the connection is closed without a response. The principal that
    /// a layer in front of the service has put into the extensions of a request can be taken from there; handlers
    /// receive all of these extensions ([`IncomingRequest::extensions`]). Clones that were made before do not have the
    /// function.
    ///
    /// [`IncomingRequest::extensions`]: mcp_application::IncomingRequest::extensions
    ///
    /// # Example
    ///
    /// ```
    /// use http::header::AUTHORIZATION;
    /// use mcp_tokio::proto::auth::{Challenge, ProtectedResource};
    /// use mcp_tokio::proto::server::{Config, HttpConfig, Principal};
    /// use mcp_tokio::proto::{ErrorObject, Json};
    /// use mcp_tokio::{Incoming, Server};
    ///
    /// /// Asks the authorization server about a token, for example.
    /// async fn look_up(token: Option<String>) -> Result<Principal, Challenge> {
    ///     match token.as_deref() {
    ///         None => Err(Challenge::bearer().with("scope", "tools:call")),
    ///         Some("Bearer the-token-of-ada") => Ok(Principal::new("ada").with_subject("ada").with_scopes("tools:call")),
    ///         Some(_) => Err(Challenge::bearer().with("error", "invalid_token")),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let resource = ProtectedResource::new("http://127.0.0.1:3000/mcp")?;
    /// let http = HttpConfig::new().protected_resource(resource.authorization_server("https://auth.example.com")?);
    /// let serve = async |incoming: Incoming| Ok::<_, ErrorObject>(Json::from(incoming.method().as_str()));
    /// let service = Server::new(Config::new("my-tools", "1.0.0"), serve).http(http)?.authenticate(|head| {
    ///     let token = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    ///     look_up(token.map(str::to_owned))
    /// });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Rules: SE-02, OA-Z-02, OA-Z-03.
    #[must_use]
    pub fn authenticate<R, P>(mut self, check: impl Fn(&Parts) -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = Result<P, Challenge>> + Send + 'static,
        P: Into<Authenticated>,
    {
        self.inbox.authenticate(check);
        self
    }

    /// Accepts and serves connections until the service is closed. Other clones may serve other listeners.
    ///
    /// Returns [`CloseReason::Local`], as only the application ends a service: the type is that of
    /// [`Server::serve_stdio`](crate::Server::serve_stdio), where there are other reasons.
    ///
    /// # Errors
    ///
    /// The listener's error, if it cannot accept connections any more.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use mcp_tokio::proto::server::{Config, HttpConfig};
    /// use mcp_tokio::proto::{ErrorObject, Json};
    /// use mcp_tokio::{Incoming, Server};
    /// use tokio::net::TcpListener;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let serve = async |incoming: Incoming| Ok::<_, ErrorObject>(Json::from(incoming.method().as_str()));
    /// let service = Server::new(Config::new("my-tools", "1.0.0"), serve).http(HttpConfig::new())?;
    /// service.serve(TcpListener::bind("127.0.0.1:3000").await?).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn serve(&self, listener: impl Into<Listener>) -> io::Result<CloseReason> {
        let listener = listener.into();
        // An error means that the driver has ended: then every request is answered with 503.
        let _ = self.inbox.inputs().send(Input::Listening { max_connections: self.max_connections }).await;
        let timeouts = ConnectionTimeouts { head: self.head_timeout, idle: self.idle_timeout };
        listener::serve(&self.inbox, listener, self.max_connections, timeouts, self.stage.subscribe()).await?;
        Ok(CloseReason::Local)
    }

    /// Ends all sessions: pending requests are answered with an error, later ones with 503; then [`HttpService::serve`]
    /// returns.
    pub async fn close(&self) {
        let (done, is_done) = oneshot::channel();
        if self.inbox.inputs().send(Input::Close(done)).await.is_ok() {
            let _ = is_done.await;
        }
        self.stage.send_replace(Stage::Closed);
    }

    /// Stops the service once the requests in progress are answered. Requests that are not answered after `timeout` are
    /// cancelled; returns their number. Then [`HttpService::serve`] returns, when the last responses were written.
    ///
    /// Meanwhile, connections are still accepted, because clients may have to answer or cancel something. New requests
    /// are refused with 503 ([`mcp_proto::Server::drain`]). Connections are closed once they are idle.
    pub async fn shutdown(&self, timeout: Duration) -> usize {
        let (done, drained) = oneshot::channel();
        let _ = self.inbox.urgent().send(Urgent::Drain { timeout, done });
        // An error means that the driver has ended, so that nothing is left to cancel.
        drained.await.unwrap_or(0)
    }
}

impl<B, H> tower_service::Service<Request<B>> for HttpService<H>
where
    B: Body<Data: Buf + Send> + Send + 'static,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<HttpBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inbox = self.inbox.clone();
        Box::pin(async move { Ok(inbox.answer(request, true).await) })
    }
}

/// Waits until the service is in a later stage than this one.
async fn until_past(stage: &mut watch::Receiver<Stage>, past: Stage) {
    // An error means that there is no sender and therefore no service.
    let _ = stage.wait_for(|stage| *stage > past).await;
}
