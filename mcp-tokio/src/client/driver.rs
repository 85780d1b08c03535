//! The task that owns the machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_application::{
    Change, ClientEvent, Connected, MAX_CHANGE_BYTES, MAX_CHANGES, NOTICE_BYTES, NOTICES, NotConnected, Notice,
    Observation, OperationEnd, SharedConnected,
};
use mcp_proto::client::{
    self as proto, Call, ClientTransport, CloseReason, DetectedEra, HttpTransport, Outcome, SubscriptionKey,
    Unavailable,
};
use mcp_proto::machine::Machine;
use mcp_proto::{
    ErrorObject, Fault, Json, Notification, ProtocolVersion, RequestKey, Severity, Ticket, TicketKey, UsageError,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tracing::Instrument;

use super::Subscription;
use super::handler::AnyHandler;
use super::progress::ProgressSender;
use crate::authorize::Authorize;
use crate::bounded::{self, Entry, Sender, bounded};
use crate::clock::{Alarm, now};
use crate::link::Feed;
use crate::operations::Begun;
use crate::panics::caught;

/// How long the handler may take for the last notifications after everything else has ended.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

/// A command of a client to its task.
#[derive(Debug)]
pub(super) enum Input {
    Request { call: Call, caller: Caller, accept: Option<oneshot::Sender<()>> },
    Listen { filter: Json, accept: oneshot::Sender<Result<Subscription, UsageError>> },
    Notify { notification: Notification, accept: oneshot::Sender<Result<(), UsageError>> },
    Close(Option<oneshot::Sender<()>>),
}

/// Identifies a request before the machine has assigned its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallNumber(pub(super) u64);

/// What a caller adds to its request.
#[derive(Debug)]
pub(super) enum Remark {
    Cancelled(CallNumber),
    /// Parts of the result could not be read.
    Faulted(Fault),
}

/// The caller of a request.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) number: CallNumber,
    pub(super) outcome: oneshot::Sender<Result<Outcome, UsageError>>,
    /// Receives progress, if the caller has requested it.
    pub(super) progress: Option<ProgressSender>,
    pub(super) begun: Begun,
}

impl Entry for Notice {
    fn weight(&self) -> usize {
        self.weight()
    }

    fn missed(count: u64) -> Self {
        Self::dropped(count)
    }
}

pub(super) struct Driver<T: ClientTransport, L, A> {
    machine: proto::Client<T>,
    link: L,
    authorize: A,
    handler: Arc<dyn AnyHandler>,
    /// The server's description for error messages.
    server: Arc<str>,
    /// Returns the machine's HTTP transport; `None` on a byte stream.
    http_transport: fn(&proto::Client<T>) -> Option<HttpTransport>,
    /// Whether the first connection was begun.
    has_begun: bool,
    connected: Option<oneshot::Sender<Result<SharedConnected, NotConnected>>>,
    /// What is known about the server, once it was connected.
    known: Option<SharedConnected>,
    refused: Option<Unavailable>,
    callers: BTreeMap<RequestKey, Caller>,
    requests: BTreeMap<CallNumber, RequestKey>,
    listeners: BTreeMap<SubscriptionKey, Sender<Change>>,
    /// Unbounded, because `Drop` cannot wait; each subscription sends one of these.
    unlisten: mpsc::UnboundedSender<SubscriptionKey>,
    unlistened: mpsc::UnboundedReceiver<SubscriptionKey>,
    /// The requests of the server that the handler is processing.
    serving: BTreeMap<TicketKey, (Ticket, AbortHandle)>,
    answers: mpsc::UnboundedSender<(TicketKey, Result<Json, ErrorObject>)>,
    answered: mpsc::UnboundedReceiver<(TicketKey, Result<Json, ErrorObject>)>,
    remarks: mpsc::UnboundedReceiver<Remark>,
    /// The callers that wait for the end of the connection.
    closing: Vec<oneshot::Sender<()>>,
}

impl<T, L, A> Driver<T, L, A>
where
    T: ClientTransport,
    L: Feed<proto::Client<T>, Action = T::Action>,
    A: Authorize<proto::Client<T>>,
{
    pub(super) fn new(
        machine: proto::Client<T>,
        (link, authorize): (L, A),
        handler: Arc<dyn AnyHandler>,
        server: Arc<str>,
        http_transport: fn(&proto::Client<T>) -> Option<HttpTransport>,
        connected: oneshot::Sender<Result<SharedConnected, NotConnected>>,
        remarks: mpsc::UnboundedReceiver<Remark>,
    ) -> Self {
        // Unbounded: the machine limits the server's requests in flight.
        let (answers, answered) = mpsc::unbounded_channel();
        let (unlisten, unlistened) = mpsc::unbounded_channel();
        Self {
            machine,
            link,
            authorize,
            handler,
            server,
            http_transport,
            has_begun: false,
            connected: Some(connected),
            known: None,
            refused: None,
            callers: BTreeMap::new(),
            requests: BTreeMap::new(),
            listeners: BTreeMap::new(),
            unlisten,
            unlistened,
            serving: BTreeMap::new(),
            answers,
            answered,
            remarks,
            closing: Vec::new(),
        }
    }

    /// Runs until the connection has ended.
    pub(super) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let (notices, noticing) = self.spawn_notifier();
        let (mut has_clients, mut alarm) = (true, Alarm::new());
        // The first request is sent with the stored token, if there is one.
        if !self.authorize.start() {
            self.connect();
        }

        while !self.drain(&notices) {
            let (due, wants_input) = (self.machine.poll_timeout(), self.link.wants_input(&self.machine));
            tokio::select! {
                received = self.link.receive(wants_input) => self.link.feed(&mut self.machine, received),
                input = inputs.recv(), if has_clients => if let Some(input) = input {
                    self.on_input(input);
                } else {
                    has_clients = false;
                    self.machine.close(now());
                },
                outcome = self.authorize.outcome() => {
                    if self.authorize.apply(&mut self.machine, outcome) {
                        self.connect();
                    }
                }
                Some(remark) = self.remarks.recv() => self.on_remark(remark, &notices),
                Some(subscription) = self.unlistened.recv() => self.machine.unlisten(subscription, now()),
                Some((ticket, answer)) = self.answered.recv() => {
                    if let Some((ticket, _)) = self.serving.remove(&ticket) {
                        self.machine.answer(ticket, answer, now());
                    }
                }
                () = alarm.wait(due) => self.machine.handle_timeout(now()),
            }
        }
        drop(notices);
        // Inputs that were sent to this task and not read yet are refused, like those that are sent later.
        inputs.close();
        while let Some(input) = inputs.recv().await {
            self.on_input(input);
        }
        self.end(noticing).await;
    }

    /// Begins the first connection, unless it was begun before.
    fn connect(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let connecting = self.machine.connect(now());
            debug_assert!(connecting.is_ok(), "nothing was connected before");
        }
    }

    async fn end(mut self, mut noticing: JoinHandle<()>) {
        drop(self.authorize);
        for (_, (_, task)) in std::mem::take(&mut self.serving) {
            task.abort();
        }
        self.link.end().await;
        // The handler gets a limited time for the last notifications.
        if timeout(NOTICE_TIMEOUT, &mut noticing).await.is_err() {
            noticing.abort();
        }
        if let (Some(connected), Some(reason)) = (self.connected, self.refused) {
            let _ = connected.send(Err(NotConnected { reason }));
        }
        for done in self.closing {
            let _ = done.send(());
        }
    }

    /// Carries out all outputs of the machine. Returns whether the connection has ended. Nothing here waits for the
    /// server, so that no outcome is delayed by it.
    fn drain(&mut self, notices: &Sender<Notice>) -> bool {
        while let Some(event) = self.machine.next_event(|action| self.link.act(action)) {
            let event = ClientEvent::new(event, &self.server, self.connected.is_none());
            if let ClientEvent::Closed(reason) = event {
                if reason == CloseReason::Local {
                    tracing::debug!("the connection has ended");
                } else {
                    tracing::warn!(?reason, "the connection has ended without having been closed here");
                }
                return true;
            }
            self.on_event(event, notices);
        }
        false
    }

    fn on_input(&mut self, input: Input) {
        match input {
            Input::Request { call, caller, accept } => self.on_request(call, caller, accept),
            Input::Listen { filter, accept } => {
                let accepted = self.machine.listen(filter, now()).map(|key| {
                    let (listener, changes) = bounded(MAX_CHANGES, MAX_CHANGE_BYTES);
                    self.listeners.insert(key, listener);
                    Subscription { key, changes, unlisten: self.unlisten.clone() }
                });
                let _ = accept.send(accepted);
            }
            Input::Notify { notification, accept } => {
                let _ = accept.send(self.machine.notify(notification, now()));
            }
            Input::Close(done) => {
                self.closing.extend(done);
                self.machine.close(now());
            }
        }
    }

    fn on_request(&mut self, call: Call, mut caller: Caller, accept: Option<oneshot::Sender<()>>) {
        // The caller has cancelled it before the machine assigned a key.
        if caller.outcome.is_closed() {
            return;
        }
        match self.machine.request(call, now()) {
            Ok(request) => {
                caller.begun.accepted(request, self.machine.version());
                self.requests.insert(caller.number, request);
                self.callers.insert(request, caller);
                let _ = accept.map(|accept| accept.send(()));
            }
            Err(refusal) => {
                let _ = caller.outcome.send(Err(refusal));
            }
        }
    }

    fn on_remark(&mut self, remark: Remark, notices: &Sender<Notice>) {
        match remark {
            Remark::Cancelled(number) => {
                if let Some(&request) = self.requests.get(&number) {
                    self.machine.cancel(request, None, now());
                }
            }
            Remark::Faulted(fault) => observe(Observation::Faulted(fault), notices),
        }
    }

    fn on_event(&mut self, event: ClientEvent, notices: &Sender<Notice>) {
        match event {
            ClientEvent::Connected { version, result, detected_era } => {
                let server = SharedConnected::new(self.connected_to(version, result, detected_era));
                self.known = Some(server.clone());
                if let Some(connected) = self.connected.take() {
                    let _ = connected.send(Ok(server));
                }
            }
            ClientEvent::Reconnected { version, result, detected_era } => {
                let server = self.connected_to(version, result.clone(), detected_era);
                if let Some(known) = &self.known {
                    known.set(server);
                }
                observe(Observation::Reconnected { version, result }, notices);
            }
            ClientEvent::Refused(reason) => {
                self.refused = Some(reason);
                self.machine.close(now());
            }
            ClientEvent::Challenged(challenged) => {
                tracing::debug!("{} demands authorization: {challenged:?}", self.server);
                self.authorize.challenged(challenged);
            }
            ClientEvent::Responded { request, outcome } => {
                if let Some(caller) = self.callers.remove(&request) {
                    self.requests.remove(&caller.number);
                    caller.ended(outcome);
                }
            }
            ClientEvent::Progressed { request, params } => {
                if let Some(progress) = self.callers.get(&request).and_then(|caller| caller.progress.as_ref()) {
                    progress.send(params);
                }
            }
            ClientEvent::Requested { ticket, method, params } => {
                tracing::debug!(%method, "the server has made a request");
                let (handler, answers, key) = (Arc::clone(&self.handler), self.answers.clone(), ticket.key());
                let task = async move {
                    // A handler that panics fails only this request.
                    let answer = caught(async { handler.requested(method, params).await }).await;
                    let _ = answers.send((key, answer.unwrap_or_else(|| Err(ErrorObject::internal()))));
                };
                let task = tokio::spawn(task.in_current_span());
                self.serving.insert(key, (ticket, task.abort_handle()));
            }
            ClientEvent::RequestCancelled { ticket } => {
                if let Some((_, task)) = self.serving.remove(&ticket) {
                    task.abort();
                }
            }
            ClientEvent::Changed { subscription, change: change @ Change::Ended(_) } => {
                if let Some(listener) = self.listeners.remove(&subscription) {
                    listener.finish(change);
                }
            }
            ClientEvent::Changed { subscription, change } => {
                if let Some(listener) = self.listeners.get(&subscription) {
                    listener.send(change);
                }
            }
            ClientEvent::Notified(notification) => {
                if !notices.send(Notice::Notified(notification)) {
                    tracing::warn!("a notification was dropped: the handler is too slow");
                }
            }
            ClientEvent::Observed(observation) => observe(observation, notices),
            ClientEvent::Closed(_) => {}
        }
    }

    fn connected_to(&self, version: ProtocolVersion, result: Json, detected_era: DetectedEra) -> Connected {
        tracing::debug!(era = ?detected_era.era, "{}", detected_era.by);
        let transport = (self.http_transport)(&self.machine);
        tracing::debug!(%version, transport = transport.map(tracing::field::display), "connected");
        Connected { version, result, transport, detected_era }
    }

    fn spawn_notifier(&self) -> (Sender<Notice>, JoinHandle<()>) {
        let (notices, queued) = bounded(NOTICES, NOTICE_BYTES);
        let task = notify(Arc::clone(&self.handler), queued);
        (notices, tokio::spawn(task.in_current_span()))
    }
}

/// Logs an observation, and passes it to the handler.
fn observe(observation: Observation, notices: &Sender<Notice>) {
    match observation.severity() {
        Severity::Warning => tracing::warn!("{observation}"),
        Severity::Info => tracing::info!("{observation}"),
        Severity::Debug => tracing::debug!("{observation}"),
    }
    notices.send(Notice::Observed(observation));
}

/// Calls the handler, one event after the other.
async fn notify(handler: Arc<dyn AnyHandler>, mut notices: bounded::Receiver<Notice>) {
    while let Some(notice) = notices.recv().await {
        match notice {
            Notice::Notified(notification) => {
                let method = notification.method.clone();
                if caught(async { handler.notified(notification).await }).await.is_none() {
                    tracing::error!(%method, "the handler of a notification panicked");
                }
            }
            Notice::Observed(observation) => {
                if caught(async { handler.observed(observation).await }).await.is_none() {
                    tracing::error!("the handler of an observation panicked");
                }
            }
        }
    }
}

impl Caller {
    fn ended(self, outcome: Outcome) {
        self.begun.ended(|| OperationEnd::of_outcome(&outcome));
        let _ = self.outcome.send(Ok(outcome));
    }
}

#[cfg(test)]
mod tests {

    use mcp_proto::client::{Config, Event, Http, HttpAction, HttpConfig, Scope};
    use mcp_proto::{Failed, Stdio, StdioAction};

    use super::*;
    use crate::link::Link;
    use crate::operations::Operations;

    /// A link that does nothing: the test passes the input to the machine.
    #[derive(Default)]
    struct Nothing;

    impl Link for Nothing {
        type Action = StdioAction;
        type Received = ();

        fn act(&mut self, _: StdioAction) {}

        async fn receive(&mut self, _: bool) {
            std::future::pending::<()>().await;
        }

        async fn end(self) {}
    }

    impl<M> Feed<M> for Nothing {
        fn wants_input(&self, _: &M) -> bool {
            false
        }

        fn feed(&mut self, _: &mut M, (): ()) {}
    }

    /// A driver whose server has answered the handshake, and the channel of its notifications.
    fn connected() -> (Driver<Stdio, Nothing, ()>, Sender<Notice>, bounded::Receiver<Notice>) {
        let mut config = Config::new("t", "1");
        config.versions = vec![ProtocolVersion::V2025_11_25];
        let machine = proto::Client::new(Stdio::new(), config).unwrap();
        let (connected, _) = oneshot::channel();
        let (_, remarks) = mpsc::unbounded_channel();
        let mut driver =
            Driver::new(machine, (Nothing, ()), Arc::new(()), Arc::from("the server"), |_| None, connected, remarks);
        driver.machine.connect(now()).unwrap();
        let (notices, received) = bounded(NOTICES, NOTICE_BYTES);
        let version = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
        feed(&mut driver, &notices, &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{version}}}"#));
        assert!(driver.connected.is_none());
        (driver, notices, received)
    }

    fn feed(driver: &mut Driver<Stdio, Nothing, ()>, notices: &Sender<Notice>, line: &str) {
        driver.machine.handle_bytes(format!("{line}\n").as_bytes(), now());
        assert!(!driver.drain(notices));
    }

    #[tokio::test]
    async fn nothing_is_kept_of_ended_requests() {
        let (mut driver, notices, _received) = connected();
        let operations = Operations::of_client();
        for number in 0..3 {
            let (outcome, mut ended) = oneshot::channel();
            let (begun, call) = operations.calling(Call::new("ping"));
            let caller = Caller { number: CallNumber(number), outcome, progress: None, begun };
            driver.on_input(Input::Request { call, caller, accept: None });
            assert_eq!((driver.callers.len(), driver.requests.len()), (1, 1));
            feed(&mut driver, &notices, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, number + 2));
            assert!(matches!(ended.try_recv(), Ok(Ok(Outcome::Result(_)))));
            assert_eq!((driver.callers.len(), driver.requests.len()), (0, 0));
        }
        // A refused request gets the reason.
        driver.machine.close(now());
        let (outcome, mut ended) = oneshot::channel();
        let (begun, call) = operations.calling(Call::new("ping"));
        let caller = Caller { number: CallNumber(7), outcome, progress: None, begun };
        driver.on_input(Input::Request { call, caller, accept: None });
        assert!(matches!(ended.try_recv(), Ok(Err(UsageError::Closed))));
        assert_eq!((driver.callers.len(), driver.requests.len()), (0, 0));
    }

    /// Events of a subscription arrive in order; those for which a full channel has no room are dropped.
    #[tokio::test]
    async fn a_subscription_receives_all_of_its_events_in_order() {
        let key = {
            let mut config = Config::new("t", "1");
            config.versions = vec![ProtocolVersion::V2026_07_28];
            let mut machine = proto::Client::new(Http::new(HttpConfig::new("http://a/").unwrap()), config).unwrap();
            machine.connect(now()).unwrap();
            let mut opened = None;
            while let Some(output) = machine.poll_output() {
                if let mcp_proto::Output::Action(HttpAction::Open { exchange, .. }) = output {
                    opened = Some(exchange);
                }
            }
            let head = http::Response::builder().header("content-type", "application/json").body(()).unwrap();
            let (head, ()) = head.into_parts();
            let exchange = opened.unwrap();
            machine.handle_response(exchange, &head, now());
            let found = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private"}}"#;
            machine.handle_body(exchange, found.as_bytes(), now());
            machine.handle_end(exchange, now());
            machine.listen(Json::empty_object().with_member("toolsListChanged", &true.into()), now()).unwrap()
        };
        let (mut driver, notices, mut received) = connected();
        let (listener, mut changes) = bounded(4, 1000);
        driver.listeners.insert(key, listener);
        let scope = Scope::Subscription(key);
        let reason = Failed::Closed;
        for event in [
            Event::Listening { subscription: key, filter: Json::empty_object() },
            Event::Notified { scope, method: "a".into(), params: None },
            Event::ListeningInterrupted { subscription: key, reason: reason.clone(), retry_in: Duration::ZERO },
            Event::Notified { scope, method: "b".into(), params: None },
            Event::Notified { scope, method: "one too many".into(), params: None },
            Event::ListeningEnded { subscription: key, outcome: Outcome::Failed(reason) },
            Event::Notified { scope, method: "too late".into(), params: None },
        ] {
            driver.on_event(ClientEvent::new(event, "the server", true), &notices);
        }
        let mut all = Vec::new();
        while let Some(change) = changes.recv().await {
            all.push(format!("{change:?}"));
        }
        let starts = ["Listening(", "Notified(", "Interrupted(Closed", "Notified(", "Missed(1", "Ended(Err(Failed"];
        assert!(all.len() == 6 && all.iter().zip(starts).all(|(event, start)| event.starts_with(start)), "{all:?}");
        drop(notices);
        assert!(received.recv().await.is_none(), "what belongs to a subscription is its listener's alone");

        let unlisten = driver.unlisten.clone();
        drop(Subscription { key, changes, unlisten });
        assert_eq!(driver.unlistened.try_recv(), Ok(key), "dropping a subscription ends it");
    }

    #[tokio::test]
    async fn notifications_wait_for_a_slow_handler_up_to_a_limit_of_bytes() {
        let (mut driver, notices, mut received) = connected();
        let text = "x".repeat(NOTICE_BYTES / 2);
        for _ in 0..4 {
            let notification =
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/own","params":{{"text":"{text}"}}}}"#);
            feed(&mut driver, &notices, &notification);
        }
        drop((driver, notices));
        let mut taken = 0;
        while received.recv().await.is_some() {
            taken += 1;
        }
        assert_eq!(taken, 2, "one, and the number of those that were dropped");
    }
}
