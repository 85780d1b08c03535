//! A server as a service of HTTP requests.

mod authenticate;
mod body;
mod connection;
mod driver;
mod listener;
mod pieces;
mod request_body;

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use mcp_proto::auth::Challenge;
use mcp_proto::driver::{Authenticated, ConnectionTimeouts};
use mcp_proto::server::{Http, PeerKey, Server, expects_continue, server_stopped};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use super::ServerPublisher;
use super::requests::{Commands, Requests};
use super::running::{Handle, Stage};
use authenticate::Authenticate;
use driver::{Arrived, Driver, From, Input, Presence, Reply};
use request_body::{Part, next_accepted, ready};

pub use body::HttpBody;

/// The capacity of the channel from connections to the driver. A connection that finds it full waits.
const INPUTS: usize = 256;

/// A server that answers HTTP requests: a [`tower_service::Service`] whose clones share the same sessions.
///
/// It requires a runtime with timers enabled. [`HttpService::authenticate`] decides who sent a request. A layer in front
/// of it may put a [`PeerKey`] into the extensions of a request: clients without a principal share the limits of one
/// client if their keys are equal ([`HttpConfig::evict_after`]); [`HttpService::serve`] adds the key itself.
///
/// As a service, it answers requests at every path, because the router has already selected the path. Only
/// [`HttpService::serve`] checks [`HttpConfig::path`]. The paths of [`HttpConfig::two_endpoints`] and of
/// [`HttpConfig::protected_resource`] are always checked, against the part of the request's path that the router has
/// left.
///
/// [`HttpConfig::path`]: mcp_proto::server::HttpConfig::path
/// [`HttpConfig::two_endpoints`]: mcp_proto::server::HttpConfig::two_endpoints
/// [`HttpConfig::protected_resource`]: mcp_proto::server::HttpConfig::protected_resource
/// [`HttpConfig::evict_after`]: mcp_proto::server::HttpConfig::evict_after
///
/// # Example: in a router of axum
///
/// ```
/// use mcp_proto::server::{Config, HttpConfig};
/// use mcp_proto::{ErrorObject, Json};
/// use mcp_tokio::{Incoming, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_proto::UsageError> {
/// let serve = async |incoming: Incoming| Ok::<_, ErrorObject>(Json::from(incoming.method().as_str()));
/// let service = Server::new(Config::new("my-tools", "1.0.0"), serve).http(HttpConfig::new())?;
/// let app: axum::Router = axum::Router::new().route_service("/mcp", service.clone()).nest_service("/tools", service);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HttpService {
    inbox: mpsc::Sender<Input>,
    disconnects: mpsc::UnboundedSender<Arrived>,
    next: Arc<AtomicU64>,
    stage: Arc<watch::Sender<Stage>>,
    handle: Handle,
    publisher: ServerPublisher,
    authenticate: Authenticate,
    /// The maximum number of connections of [`HttpService::serve`] at one time. For one more, an idle connection is
    /// closed: of the address with the most connections, the one that has been idle for longest. If none is idle, the
    /// new connection is answered with 503. Streams that clients opened by GET take at most half of the connections,
    /// whatever [`HttpConfig::max_streams`](mcp_proto::server::HttpConfig::max_streams) is, and subscriptions at most a
    /// quarter, whatever `Limits::subscriptions` is. Default 1024.
    pub max_connections: usize,
    /// How long the head of a request to [`HttpService::serve`] may take, from its first byte on. After that, the
    /// request is answered with 408. Default 10 s.
    pub head_timeout: Duration,
    /// How long a connection of [`HttpService::serve`] may be idle before it is closed. Default 60 s.
    pub idle_timeout: Duration,
}

impl HttpService {
    pub(super) fn start(machine: Server<Http>, requests: Requests, commands: Commands) -> Self {
        let (inbox, inputs) = mpsc::channel(INPUTS);
        let (disconnects, disconnected) = mpsc::unbounded_channel();
        let (publisher, timeouts) = (requests.publisher(), ConnectionTimeouts::default());
        let (stage, handle) = (requests.stage(), requests.handle());
        tokio::spawn(Driver::new(machine, requests).run(commands, inputs, disconnected));
        Self {
            inbox,
            disconnects,
            next: Arc::default(),
            stage,
            handle,
            publisher,
            authenticate: Authenticate::default(),
            max_connections: 1024,
            head_timeout: timeouts.head,
            idle_timeout: timeouts.idle,
        }
    }

    /// Sets the function that decides who sent a request, from its head: it returns a
    /// [`Principal`](mcp_proto::server::Principal), to which sessions then belong (SE-02), or the challenge with which
    /// the request is refused (OA-Z-02). If it returns `None`, the request is served for an unknown sender. Without this
    /// function, all requests are. With [`Authenticated`], it also returns values for the handler of the request.
    ///
    /// The function checks that a token was issued for this server
    /// ([`ProtectedResource::resource`](mcp_proto::auth::ProtectedResource::resource)) by its authorization server, and
    /// has not expired, and it never passes the token on (OA-Z-03). It runs for each request before the body is read,
    /// and is dropped if the client disconnects; if it panics, the connection is closed without a response. The
    /// principal that a layer in front of the service has put into the extensions of a request can be taken from there;
    /// handlers receive all of these extensions ([`IncomingRequest::extensions`]). Clones that were made before do not have the function.
    ///
    /// [`IncomingRequest::extensions`]: mcp_proto::driver::IncomingRequest::extensions
    ///
    /// # Example
    ///
    /// ```
    /// use http::header::AUTHORIZATION;
    /// use mcp_proto::auth::{Challenge, ProtectedResource};
    /// use mcp_proto::server::{Config, HttpConfig, Principal};
    /// use mcp_proto::{ErrorObject, Json};
    /// use mcp_tokio::{Incoming, Server};
    ///
    /// /// Asks the authorization server about a token, for example.
    /// async fn look_up(token: Option<String>) -> Result<Principal, Challenge> {
    ///     match token.as_deref() {
    ///         None => Err(Challenge::bearer().with("scope", "tools:call")),
    ///         Some("Bearer the-token-of-ada") => Ok(Principal::new("ada").with_scopes("tools:call")),
    ///         Some(_) => Err(Challenge::bearer().with("error", "invalid_token")),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_proto::UsageError> {
    /// let mut http = HttpConfig::new();
    /// let resource = ProtectedResource::new("http://127.0.0.1:3000/mcp")?;
    /// http.protected_resource = Some(resource.authorization_server("https://auth.example.com")?);
    /// let serve = async |incoming: Incoming| Ok::<_, ErrorObject>(Json::from(incoming.method().as_str()));
    /// let service = Server::new(Config::new("my-tools", "1.0.0"), serve).http(http)?.authenticate(|head| {
    ///     let token = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    ///     look_up(token.map(str::to_owned))
    /// });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn authenticate<R, P>(mut self, check: impl Fn(&Parts) -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = Result<P, Challenge>> + Send + 'static,
        P: Into<Authenticated>,
    {
        self.authenticate = Authenticate::new(check);
        self
    }

    /// Accepts and serves connections until the service is closed. Other clones may serve other listeners.
    ///
    /// # Errors
    ///
    /// The listener's error, if it cannot accept connections any more.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use mcp_proto::server::{Config, HttpConfig};
    /// use mcp_proto::{ErrorObject, Json};
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
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        // An error means that the driver has ended: then every request is answered with 503.
        let _ = self.inbox.send(Input::Listening { max_connections: self.max_connections }).await;
        listener::serve(self, listener, self.stage.subscribe()).await
    }

    /// Returns a handle that publishes changes to clients while the service runs.
    #[must_use]
    pub fn publisher(&self) -> ServerPublisher {
        self.publisher.clone()
    }

    /// Ends all sessions: pending requests are answered with an error, later ones with 503; then [`HttpService::serve`]
    /// returns.
    pub async fn close(&self) {
        let (done, is_done) = oneshot::channel();
        if self.inbox.send(Input::Close(done)).await.is_ok() {
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
        self.handle.drain(timeout).await
    }

    async fn answer<B>(self, request: Request<B>, is_routed: bool) -> Response<HttpBody>
    where
        B: Body,
    {
        let (mut head, body) = request.into_parts();
        let mut body = pin!(body);
        let authentication = self.authenticate.check(&head).await.map(|authenticated| {
            let (principal, extensions) = authenticated.into_parts();
            head.extensions.extend(extensions);
            principal
        });
        let peer = head.extensions.remove::<PeerKey>();
        let arrived = Arrived(self.next.fetch_add(1, Ordering::Relaxed));
        let mut presence = Presence::new(arrived, self.disconnects);
        // Most bodies arrive together with their head. A client that expects `100 Continue` gets it only after the head
        // was accepted.
        let waits = expects_continue(&head);
        let first = if waits { Ok(Part::default()) } else { ready(body.as_mut()).await };
        let Ok(Part { bytes: first, is_last: mut is_whole }) = first else { return empty(StatusCode::BAD_REQUEST) };
        let (reply, mut replied) = oneshot::channel();
        // hyper sends `100 Continue` when the body is polled for the first time.
        let (accept, accepted) = oneshot::channel();
        let mut accepted = waits.then_some(accepted);
        let from = From { authentication, peer, is_routed };
        let mut input = Input::Request { arrived, head: Box::new(head), from, body: first, is_whole, accept, reply };
        let reply = loop {
            if self.inbox.send(input).await.is_err() {
                return server_stopped().map(HttpBody::whole);
            }
            tokio::select! {
                biased;
                reply = &mut replied => break reply,
                part = next_accepted(body.as_mut(), &mut accepted), if !is_whole => {
                    let Ok(Part { bytes, is_last }) = part else { return empty(StatusCode::BAD_REQUEST) };
                    is_whole = is_last;
                    input = Input::Body { arrived, body: bytes, is_last };
                }
            }
        };
        match reply {
            Ok(Reply::Small(response)) => {
                presence.is_served();
                response.map(HttpBody::whole)
            }
            Ok(Reply::Whole(head, unread)) => {
                presence.is_served();
                head.map(|()| HttpBody::pieces(unread, None))
            }
            Ok(Reply::Stream(head, unread)) => head.map(|()| HttpBody::pieces(unread, Some(presence))),
            Err(_) => server_stopped().map(HttpBody::whole),
        }
    }
}

impl<B> tower_service::Service<Request<B>> for HttpService
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
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request, true).await) })
    }
}

/// Waits until the service is in a later stage than this one.
async fn until_past(stage: &mut watch::Receiver<Stage>, past: Stage) {
    // An error means that there is no sender and therefore no service.
    let _ = stage.wait_for(|stage| *stage > past).await;
}

fn empty(status: StatusCode) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;

    use http_body::Frame;
    use mcp_proto::server::{Config, HttpConfig};
    use mcp_proto::{ErrorObject, Json};

    use super::*;
    use crate::Incoming;

    /// A body whose polls return these items in order, and then the end.
    #[derive(Debug, Default)]
    struct Scripted(VecDeque<Poll<Result<&'static str, io::ErrorKind>>>);

    impl Body for Scripted {
        type Data = Bytes;
        type Error = io::ErrorKind;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, io::ErrorKind>>> {
            // The body is polled again at once.
            cx.waker().wake_by_ref();
            match self.0.pop_front() {
                Some(Poll::Ready(Ok("trailers"))) => Poll::Ready(Some(Ok(Frame::trailers(http::HeaderMap::new())))),
                Some(polled) => polled.map(|part| Some(part.map(|text| Frame::data(Bytes::from(text))))),
                None => Poll::Ready(None),
            }
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }
    }

    const HALF: Poll<Result<&str, io::ErrorKind>> =
        Poll::Ready(Ok(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","#));
    const REST: Poll<Result<&str, io::ErrorKind>> = Poll::Ready(Ok(
        r#""params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    ));
    const NOTHING: Poll<Result<&str, io::ErrorKind>> = Poll::Pending;
    const TRAILERS: Poll<Result<&str, io::ErrorKind>> = Poll::Ready(Ok("trailers"));
    const BREAK: Poll<Result<&str, io::ErrorKind>> = Poll::Ready(Err(io::ErrorKind::Other));

    #[tokio::test]
    async fn a_body_is_read_however_it_comes_and_one_that_breaks_off_is_refused() {
        let serve = async |_: Incoming| Ok::<_, ErrorObject>(Json::empty_object());
        let service = crate::Server::new(Config::new("s", "1"), serve).http(HttpConfig::new()).unwrap();
        for (parts, expected) in [
            (vec![HALF, REST], Ok(())),
            (vec![NOTHING, HALF, NOTHING, REST, NOTHING], Ok(())),
            (vec![HALF, REST, TRAILERS], Ok(())),
            (vec![BREAK], Err("")),
            (vec![HALF, BREAK], Err("")),
            (vec![NOTHING, BREAK], Err("")),
            (vec![HALF], Err("-32700")),
            (vec![], Err("-32700")),
        ] {
            for waits in [false, true] {
                let mut request = Request::post("/mcp")
                    .header("host", "localhost")
                    .header("content-type", "application/json")
                    .header("accept", "application/json, text/event-stream");
                if waits {
                    request = request.header("expect", "100-continue");
                }
                let request = request.body(Scripted(parts.clone().into())).unwrap();
                let response = service.clone().answer(request, true).await;
                let (status, mut body) = (response.status(), response.into_body());
                let mut text = Vec::new();
                while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                    text.extend_from_slice(&frame.unwrap().into_data().unwrap());
                }
                let text = String::from_utf8(text).unwrap();
                match expected {
                    Ok(()) => assert!(status == 200 && text.contains("protocolVersion"), "{parts:?}: {status}, {text}"),
                    Err("") => assert_eq!((status.as_u16(), text.as_str()), (400, ""), "{parts:?}"),
                    Err(part) => assert!(status == 400 && text.contains(part), "{parts:?}: {status}, {text}"),
                }
            }
        }
    }
}
