//! The task that owns the machine of an HTTP server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use mcp_proto::Instant;
use mcp_proto::auth::Challenge;
use mcp_proto::machine::{HandleRequests, Machine};
use mcp_proto::server::{ExchangeKey, HttpAction, PeerKey, Principal, RequestInfo, refusal_reason};
use tokio::sync::{Notify, mpsc, oneshot};

use super::application::Application;
use super::pieces::{Pieces, Unread, is_small, stream, whole};
use crate::clock::{Alarm, now, unix_time};
use crate::server::requests::Accepted;

/// Identifies a request of a connection before the machine has assigned the key of its exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrived(pub(super) u64);

/// A message of a connection to the driver.
#[derive(Debug)]
pub(super) enum Input {
    /// A request, with the part of its body that arrived with it.
    Request {
        arrived: Arrived,
        head: Box<Parts>,
        from: From,
        body: Bytes,
        is_whole: bool,
        /// Receives a value when the head is accepted.
        accept: oneshot::Sender<()>,
        reply: oneshot::Sender<Reply>,
    },
    /// More of the body of a request.
    Body { arrived: Arrived, body: Bytes, is_last: bool },
    /// A listener will accept up to this many connections.
    Listening { max_connections: usize },
    /// Closes the server. The sender is used when all requests were answered, and everything has ended.
    Close(oneshot::Sender<()>),
}

/// A message to the driver that it also handles while the machine accepts no requests.
#[derive(Debug)]
pub(super) enum Urgent {
    /// The client has disconnected. Each request sends this at most once.
    Disconnected(Arrived),
    /// The client has ended its sending side. The connection sends `100 Continue` when it is notified.
    HalfClosed(Arrived, Arc<Notify>),
    /// Stops the server, as [`Application::drain`] does.
    Drain { timeout: Duration, done: oneshot::Sender<usize> },
}

/// The origin of a request.
#[derive(Debug)]
pub(super) struct From {
    pub(super) authentication: Result<Option<Principal>, Challenge>,
    pub(super) peer: Option<PeerKey>,
    pub(super) is_routed: bool,
}

/// The response to a request.
#[derive(Debug)]
pub(super) enum Reply {
    /// A response that the connection takes at once.
    Small(http::Response<Bytes>),
    /// A complete response that the connection takes in pieces.
    Whole(http::Response<()>, Unread),
    /// A response whose pieces follow.
    Stream(http::Response<()>, Unread),
}

/// A client that waits for its response. Dropping this before the end of the response reports the client as
/// disconnected.
#[derive(Debug)]
pub(super) struct Presence {
    arrived: Option<Arrived>,
    urgent: mpsc::UnboundedSender<Urgent>,
}

impl Presence {
    pub(super) const fn new(arrived: Arrived, urgent: mpsc::UnboundedSender<Urgent>) -> Self {
        Self { arrived: Some(arrived), urgent }
    }

    pub(super) const fn is_served(&mut self) {
        self.arrived = None;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(arrived) = self.arrived {
            let _ = self.urgent.send(Urgent::Disconnected(arrived));
        }
    }
}

pub(super) struct Driver<A> {
    application: A,
    exchanges: BTreeMap<Arrived, ExchangeKey>,
    responses: BTreeMap<ExchangeKey, (Arrived, Response)>,
    /// For clients that wait for `100 Continue`: send a value when the head of their request is accepted.
    accepts: BTreeMap<ExchangeKey, oneshot::Sender<()>>,
    /// The clients that have ended their sending side and wait for a response.
    half_closed: BTreeMap<ExchangeKey, Arc<Notify>>,
    /// The exchange that was written to last, if its client has too much unread.
    behind: Option<ExchangeKey>,
    /// Responses that clients have not read in full, and how many of their bytes the machine counts as unwritten.
    unwritten: BTreeMap<ExchangeKey, (Pieces, usize)>,
}

/// The event that has woken the driver.
enum Wakeup<H> {
    Input(Input),
    Urgent(Urgent),
    Happened(H),
    /// The machine's timeout has passed.
    Nothing,
}

/// A response that has not ended.
#[derive(Debug)]
enum Response {
    Awaited(oneshot::Sender<Reply>),
    Streamed(Pieces),
}

impl<A: Application> Driver<A> {
    pub(super) const fn new(application: A) -> Self {
        Self {
            application,
            exchanges: BTreeMap::new(),
            responses: BTreeMap::new(),
            accepts: BTreeMap::new(),
            half_closed: BTreeMap::new(),
            behind: None,
            unwritten: BTreeMap::new(),
        }
    }

    /// Runs until all clones of the service are dropped.
    pub(super) async fn run(mut self, mut inputs: mpsc::Receiver<Input>, mut urgent: mpsc::UnboundedReceiver<Urgent>) {
        let mut alarm = Alarm::new();
        loop {
            let (due, wants_request) = (self.machine().poll_timeout(), self.machine().wants_request());
            let wakeup = tokio::select! {
                input = inputs.recv(), if wants_request => match input {
                    Some(input) => Wakeup::Input(input),
                    None => break,
                },
                happened = self.application.happened() => Wakeup::Happened(happened),
                Some(urgent) = urgent.recv() => Wakeup::Urgent(urgent),
                () = alarm.wait(due) => Wakeup::Nothing,
            };
            self.turn(wakeup, now());
        }
        self.machine_mut().close(now());
        self.settle(now());
        self.application.on_dropped();
    }

    fn machine(&self) -> &A::Machine {
        self.application.machine()
    }

    fn machine_mut(&mut self) -> &mut A::Machine {
        self.application.machine_mut()
    }

    fn turn(&mut self, wakeup: Wakeup<A::Happened>, now: Instant) {
        // The machine needs to be informed of what clients have read before new data is added.
        self.report_written(now);
        match wakeup {
            Wakeup::Input(input) => self.on_input(input, now),
            Wakeup::Happened(happened) => {
                // Earlier writes concern other handlers.
                self.behind = None;
                if let Some(accepted) = self.application.handle(happened, now) {
                    self.settle(now);
                    self.accept(accepted);
                }
            }
            Wakeup::Urgent(Urgent::Disconnected(arrived)) => self.on_disconnect(arrived, now),
            Wakeup::Urgent(Urgent::HalfClosed(arrived, probe)) => {
                if let Some(&exchange) = self.exchanges.get(&arrived) {
                    self.half_closed.insert(exchange, probe);
                    self.machine_mut().handle_half_close(exchange, now);
                }
            }
            Wakeup::Urgent(Urgent::Drain { timeout, done }) => self.application.drain(timeout, done, now),
            Wakeup::Nothing => {}
        }
        if self.machine().poll_timeout().is_some_and(|at| at <= now) {
            self.machine_mut().handle_timeout(now);
        }
        self.settle(now);
        self.application.on_settled();
    }

    fn on_input(&mut self, input: Input, now: Instant) {
        match input {
            // The disconnect of the client may be known before its request is handled (B14).
            Input::Request { reply, .. } if reply.is_closed() => {}
            Input::Request { arrived, head, from, body, is_whole, accept, reply } => {
                let mut nonce = [0; 32];
                if let Err(error) = getrandom::fill(&mut nonce) {
                    // Without random bytes, a session id could be guessed. Dropping `reply` leads to a 503 response.
                    tracing::error!(%error, "the system has no random bytes");
                    return;
                }
                let mut arrival = RequestInfo::new(nonce);
                arrival.authentication = from.authentication;
                (arrival.peer, arrival.is_routed) = (from.peer, from.is_routed);
                arrival.unix_time = Some(unix_time());
                let exchange = self.machine_mut().handle_request(*head, arrival, now);
                self.exchanges.insert(arrived, exchange);
                self.responses.insert(exchange, (arrived, Response::Awaited(reply)));
                self.accepts.insert(exchange, accept);
                self.feed(arrived, &body, is_whole, now);
                self.settle(now);
                self.accepts.remove(&exchange);
            }
            Input::Body { arrived, body, is_last } => self.feed(arrived, &body, is_last, now),
            Input::Listening { max_connections } => self.application.limit_to_connections(max_connections),
            Input::Close(done) => {
                self.machine_mut().close(now);
                self.settle(now);
                self.application.on_closed(done);
            }
        }
    }

    fn feed(&mut self, arrived: Arrived, body: &[u8], is_last: bool, now: Instant) {
        let Some(&exchange) = self.exchanges.get(&arrived) else { return };
        if !body.is_empty() {
            self.machine_mut().handle_body(exchange, body, now);
        }
        if is_last {
            self.machine_mut().handle_end(exchange, now);
        }
    }

    fn on_disconnect(&mut self, arrived: Arrived, now: Instant) {
        if let Some(exchange) = self.exchanges.remove(&arrived) {
            self.responses.remove(&exchange);
            self.half_closed.remove(&exchange);
            self.unwritten.remove(&exchange);
            self.machine_mut().handle_disconnect(exchange, now);
        }
    }

    /// Sends the result to the handler; if its client has too much unread, only after the client has read it.
    fn accept(&mut self, accepted: Accepted) {
        match self.behind.take().and_then(|exchange| self.responses.get(&exchange)) {
            Some((_, Response::Streamed(pieces))) => pieces.accept(accepted),
            Some((_, Response::Awaited(_))) | None => accepted.report(),
        }
    }

    fn settle(&mut self, now: Instant) {
        while let Some(action) = self.application.poll_action() {
            match action {
                HttpAction::Respond { exchange, response } => {
                    if let Some(reason) = refusal_reason(&response) {
                        tracing::info!("refused a request with {reason}");
                    }
                    if let Some(Response::Awaited(reply)) = self.take(exchange) {
                        self.respond(exchange, reply, response, now);
                    }
                }
                HttpAction::Continue { exchange } => {
                    if let Some(accept) = self.accepts.remove(&exchange) {
                        let _ = accept.send(());
                    } else if let Some(probe) = self.half_closed.get(&exchange) {
                        probe.notify_one();
                    }
                }
                HttpAction::Stream { exchange, head } => self.stream(exchange, head),
                HttpAction::Write { exchange, chunk } => self.write(exchange, chunk),
                HttpAction::Finish { exchange } => {
                    if let Some(Response::Streamed(pieces)) = self.take(exchange) {
                        pieces.end();
                    }
                }
                HttpAction::Abort { exchange } => {
                    let streamed = match self.take(exchange) {
                        Some(Response::Streamed(pieces)) => Some(pieces),
                        Some(Response::Awaited(_)) | None => None,
                    };
                    let unwritten = self.unwritten.remove(&exchange).map(|(pieces, _)| pieces);
                    if let Some(pieces) = unwritten.or(streamed) {
                        pieces.abort();
                    }
                }
                // The application carries out those of a store.
                HttpAction::Store(_) | _ => {}
            }
        }
    }

    fn take(&mut self, exchange: ExchangeKey) -> Option<Response> {
        let (arrived, response) = self.responses.remove(&exchange)?;
        self.half_closed.remove(&exchange);
        self.exchanges.remove(&arrived);
        Some(response)
    }

    fn respond(
        &mut self,
        exchange: ExchangeKey,
        reply: oneshot::Sender<Reply>,
        response: http::Response<Bytes>,
        now: Instant,
    ) {
        let length = response.body().len();
        if is_small(response.body()) {
            let _ = reply.send(Reply::Small(response));
            return self.machine_mut().handle_written(exchange, length, now);
        }
        let (head, body) = response.into_parts();
        let (pieces, unread) = whole(body);
        self.unwritten.insert(exchange, (pieces, length));
        // If the receiver is closed, the client has disconnected, and the pieces are dropped with it.
        let _ = reply.send(Reply::Whole(http::Response::from_parts(head, ()), unread));
    }

    fn stream(&mut self, exchange: ExchangeKey, head: http::Response<()>) {
        let Some((_, response)) = self.responses.get_mut(&exchange) else { return };
        let (pieces, unread) = stream();
        if let Response::Awaited(reply) = std::mem::replace(response, Response::Streamed(pieces)) {
            // If the receiver is closed, the client has disconnected, which `Presence` reports.
            let _ = reply.send(Reply::Stream(head, unread));
        }
    }

    fn write(&mut self, exchange: ExchangeKey, chunk: Bytes) {
        let Some((_, Response::Streamed(pieces))) = self.responses.get(&exchange) else { return };
        let (_, counted) = self.unwritten.entry(exchange).or_insert_with(|| (pieces.clone(), 0));
        *counted += chunk.len();
        pieces.send(chunk);
        if !pieces.has_room() {
            self.behind = Some(exchange);
        }
    }

    /// Reports to the machine how many bytes clients have read since the last call.
    fn report_written(&mut self, now: Instant) {
        let Self { application, unwritten, .. } = self;
        unwritten.retain(|exchange, (pieces, counted)| {
            // The queue of a disconnected client is empty.
            let waiting = pieces.waiting();
            application.machine_mut().handle_written(*exchange, counted.saturating_sub(waiting), now);
            *counted = waiting;
            waiting > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use http_body::Body;
    use mcp_proto::server::{Config, Http, HttpConfig, Server};
    use mcp_proto::{ErrorObject, Json, Notification};
    use tokio::sync::Semaphore;

    use super::super::HttpBody;
    use super::super::handlers::{Commanded, Handlers};
    use super::*;
    use crate::operations::Operations;
    use crate::server::commands::FinalCommand;
    use crate::server::incoming::Incoming;
    use crate::server::requests::Requests;
    use crate::server::running::Running;
    use crate::server::service::AnyService;

    /// A driver that the test runs step by step, whose tools send a message and then wait until they may answer.
    struct Stepped {
        driver: Driver<Handlers>,
        may_answer: Arc<Semaphore>,
        /// One reference for each handler that has not ended.
        handlers: Arc<()>,
    }

    impl Stepped {
        fn new() -> Self {
            let (may_answer, handlers) = (Arc::new(Semaphore::new(0)), Arc::new(()));
            let (allowed, held) = (Arc::clone(&may_answer), Arc::clone(&handlers));
            let service = move |incoming: Incoming| {
                let (allowed, held) = (Arc::clone(&allowed), Arc::clone(&held));
                async move {
                    let tool = incoming.params().unwrap().member("name").unwrap().unwrap();
                    let tool = tool.as_string().unwrap().into_owned();
                    let size = if tool.contains("large") { 100_000 } else { 10 };
                    let params = Json::empty_object().with_member("data", &Json::from("x".repeat(size).as_str()));
                    if tool.starts_with("say") {
                        incoming.notify(Notification::with_params("notifications/x", params.clone())).await.unwrap();
                    }
                    allowed.acquire().await.unwrap().forget();
                    drop(held);
                    Ok::<_, ErrorObject>(Json::empty_object().with_member("text", &params))
                }
            };
            let config = Config::new("s", "1").capabilities(Json::parse(r#"{"tools":{"listChanged":true}}"#).unwrap());
            let running = Arc::new(Running::new(config.clone()));
            let (requests, commands) =
                Requests::new(Arc::new(service) as Arc<dyn AnyService>, &running, Operations::of_server());
            let machine = Server::new(Http::new(HttpConfig::new()), config).unwrap();
            Self { driver: Driver::new(Handlers::new(machine, requests, commands, None)), may_answer, handlers }
        }

        /// Calls a tool, with the body of the request in two parts.
        fn call(&mut self, number: u64, tool: &str) -> oneshot::Receiver<Reply> {
            let (reply, replied) = oneshot::channel();
            self.ask(number, tool, reply);
            replied
        }

        fn ask(&mut self, number: u64, tool: &str, reply: oneshot::Sender<Reply>) {
            let is_awaited = !reply.is_closed();
            let head = http::Request::post("/mcp").header("host", "localhost").header("mcp-name", tool);
            let head = head.header("content-type", "application/json").header("mcp-method", "tools/call");
            let head = head.header("accept", "application/json, text/event-stream");
            let (head, ()) = head.header("mcp-protocol-version", "2026-07-28").body(()).unwrap().into_parts();
            let body = ::mcp_testkit::http_exchange::modern("1", "tools/call", &format!(r#""name":"{tool}","#));
            let (first, rest) = body.split_at(10);
            let (accept, _) = oneshot::channel();
            let from = From { authentication: Ok(None), peer: Some(PeerKey::new(&[1])), is_routed: false };
            let arrived = Arrived(number);
            let body = Bytes::copy_from_slice(first.as_bytes());
            let input = Input::Request { arrived, head: Box::new(head), from, body, is_whole: false, accept, reply };
            let before = self.driver.exchanges.len();
            self.driver.turn(Wakeup::Input(input), now());
            assert_eq!(self.driver.exchanges.len(), before + usize::from(is_awaited));
            assert_eq!(self.driver.accepts.len(), 0);
            let body = Bytes::copy_from_slice(rest.as_bytes());
            self.driver.turn(Wakeup::Input(Input::Body { arrived, body, is_last: true }), now());
        }

        /// Opens a subscription.
        fn listen(&mut self, number: u64, filter: &str) -> oneshot::Receiver<Reply> {
            let (reply, replied) = oneshot::channel();
            let head = http::Request::post("/mcp").header("host", "localhost");
            let head = head.header("mcp-method", "subscriptions/listen").header("content-type", "application/json");
            let head = head.header("accept", "application/json, text/event-stream");
            let (head, ()) = head.header("mcp-protocol-version", "2026-07-28").body(()).unwrap().into_parts();
            let body = Bytes::from(::mcp_testkit::http_exchange::modern("1", "subscriptions/listen", filter));
            let from = From { authentication: Ok(None), peer: Some(PeerKey::new(&[1])), is_routed: false };
            let (arrived, head, accept) = (Arrived(number), Box::new(head), oneshot::channel().0);
            let input = Input::Request { arrived, head, from, body, is_whole: true, accept, reply };
            self.driver.turn(Wakeup::Input(input), now());
            replied
        }

        /// Carries out one command of a handler.
        async fn turn(&mut self) {
            let happened = self.driver.application.happened().await;
            self.driver.turn(Wakeup::Happened(happened), now());
        }

        /// The number of exchanges, of responses, and of responses with unread bytes.
        fn left(&mut self) -> (usize, usize, usize) {
            self.driver.report_written(now());
            // The machine counts exactly what clients have not read.
            assert!(self.driver.unwritten.values().all(|(pieces, counted)| pieces.waiting() == *counted));
            (self.driver.exchanges.len(), self.driver.responses.len(), self.driver.unwritten.len())
        }

        /// Waits until the handlers have ended.
        async fn handlers_end(&self) {
            while Arc::strong_count(&self.handlers) > 2 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Reads the next frame; returns the number of its bytes.
    async fn take(body: &mut HttpBody) -> Option<usize> {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        Some(frame.unwrap().into_data().unwrap().len())
    }

    #[tokio::test]
    async fn nothing_is_left_of_a_response_that_was_taken() {
        let mut stepped = Stepped::new();
        let mut replied = stepped.call(1, "small");
        assert_eq!(stepped.left(), (1, 1, 0));
        assert!(replied.try_recv().is_err());
        stepped.may_answer.add_permits(3);
        stepped.turn().await;
        assert!(matches!(replied.try_recv(), Ok(Reply::Small(_))));
        assert_eq!(stepped.left(), (0, 0, 0));

        let mut replied = stepped.call(2, "large");
        stepped.turn().await;
        let Ok(Reply::Whole(_, unread)) = replied.try_recv() else { panic!("a whole body") };
        assert_eq!(stepped.left(), (0, 0, 1));
        let mut body = HttpBody::pieces(unread, None);
        while take(&mut body).await.is_some() {
            assert!(stepped.left().2 <= 1);
        }
        assert_eq!(stepped.left(), (0, 0, 0));

        let mut replied = stepped.call(3, "say-large");
        stepped.turn().await;
        let Ok(Reply::Stream(_, unread)) = replied.try_recv() else { panic!("a stream") };
        let mut body = HttpBody::pieces(unread, None);
        assert_eq!(stepped.left(), (1, 1, 1));
        // The handler waits until all of this was read, and then answers.
        let mut taken = 0;
        while taken < 100_000 {
            taken += take(&mut body).await.unwrap();
        }
        assert_eq!(stepped.left(), (1, 1, 0));
        assert!(poll_fn(|cx| std::task::Poll::Ready(Pin::new(&mut body).poll_frame(cx).is_pending())).await);
        stepped.turn().await;
        while take(&mut body).await.is_some() {}
        assert_eq!(stepped.left(), (0, 0, 0));
        stepped.handlers_end().await;
    }

    #[tokio::test]
    async fn fr14_a_handler_does_not_wait_for_a_client_that_has_not_read_what_was_published() {
        let mut stepped = Stepped::new();
        let filter = r#""notifications":{"toolsListChanged":true},"#;
        let mut replied = stepped.listen(1, filter);
        let Ok(Reply::Stream(_, _unread)) = replied.try_recv() else { panic!("a stream") };
        while stepped.driver.behind.is_none() {
            let (accept, mut accepted) = oneshot::channel();
            let notification = Notification::new("notifications/tools/list_changed");
            let publishing = Commanded::Final(FinalCommand::Publish { change: notification.into(), accept });
            stepped.driver.turn(Wakeup::Happened(publishing), now());
            assert_eq!(accepted.try_recv(), Ok(Ok(())));
        }
        stepped.may_answer.add_permits(1);
        let mut replied = stepped.call(2, "say-small");
        for _ in 0..2 {
            tokio::time::timeout(Duration::from_secs(10), stepped.turn()).await.expect("a command of the handler");
        }
        assert!(matches!(replied.try_recv(), Ok(Reply::Stream(..))));
        assert_eq!(stepped.left(), (1, 1, 1), "the call was answered");
        stepped.handlers_end().await;
    }

    #[tokio::test]
    async fn nothing_is_left_of_a_disconnected_client() {
        for (tool, has_said) in [("small", false), ("say-small", true), ("say-large", true)] {
            let mut stepped = Stepped::new();
            let replied = stepped.call(1, tool);
            if has_said {
                stepped.turn().await;
            }
            assert_eq!(stepped.left(), (1, 1, usize::from(has_said)));
            stepped.driver.on_disconnect(Arrived(1), now());
            assert_eq!(
                (stepped.driver.exchanges.len(), stepped.driver.responses.len(), stepped.driver.unwritten.len()),
                (0, 0, 0)
            );
            stepped.driver.settle(now());
            stepped.handlers_end().await;
            drop(replied);
            // A request whose client disconnected before it was handled is ignored.
            let (reply, _) = oneshot::channel();
            stepped.ask(2, "small", reply);
            assert_eq!(stepped.left(), (0, 0, 0));
        }
    }

    #[tokio::test]
    async fn a_closed_service_answers_all_requests_and_leaves_nothing() {
        for tool in ["small", "say-small"] {
            let mut stepped = Stepped::new();
            let mut replied = stepped.call(1, tool);
            if tool != "small" {
                stepped.turn().await;
            }
            let (done, is_done) = oneshot::channel();
            stepped.driver.on_input(Input::Close(done), now());
            is_done.await.unwrap();
            match replied.try_recv() {
                Ok(Reply::Small(_)) => {}
                Ok(Reply::Stream(_, unread)) => {
                    let mut body = HttpBody::pieces(unread, None);
                    while take(&mut body).await.is_some() {}
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(stepped.left(), (0, 0, 0));
            stepped.handlers_end().await;
        }
    }
}
