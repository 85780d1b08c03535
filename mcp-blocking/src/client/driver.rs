//! The thread that owns the machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use mcp_application::{Change, ClientEvent, Connected, NotConnected, Notice, Observation, SharedConnected};
use mcp_auth::{Cause, SignInOutcome, SignInReport};
use mcp_proto::client::{self as proto, ClientTransport, DetectedEra, HttpTransport, SubscriptionKey, Unavailable};
use mcp_proto::machine::Machine;
use mcp_proto::{ErrorObject, Instant, Json, ProtocolVersion, RequestKey};

use super::commands::{DriverInput, Input};
use super::handlers::Handlers;
use crate::backpressure::Backpressure;
use crate::bounded::Sender;
use crate::clock;
use crate::link::{Feed, Link};
use crate::log_level::level_of;
use crate::response_slot::ResponseSender;
use crate::sign_in::SignIn;

/// The thread that owns the machine.
pub(super) struct Driver<T: ClientTransport, L: Link> {
    pub(super) machine: proto::Client<T>,
    pub(super) link: L,
    /// Closed while nothing more should be read from the server.
    pub(super) backpressure: Arc<Backpressure>,
    pub(super) connected: Option<SyncSender<Result<SharedConnected, NotConnected>>>,
    /// Returns the machine's HTTP transport; `None` for stdio.
    pub(super) http_transport: fn(&proto::Client<T>) -> Option<HttpTransport>,
    /// Passes the outcome of a sign-in to the machine; does nothing for stdio.
    pub(super) authorize: fn(&mut proto::Client<T>, SignInOutcome, Instant),
    /// The server's name for errors.
    pub(super) server: Arc<str>,
    pub(super) state: State,
}

/// The state of a driver.
#[derive(Default)]
pub(super) struct State {
    pub(super) sign_in: Option<SignIn>,
    has_begun: bool,
    refused: Option<Unavailable>,
    /// What is known about the server, once it was connected.
    server: Option<SharedConnected>,
    callers: BTreeMap<RequestKey, ResponseSender>,
    listeners: BTreeMap<SubscriptionKey, Sender<Change>>,
}

impl<T, L> Driver<T, L>
where
    T: ClientTransport,
    L: Feed<proto::Client<T>, Action = T::Action, Received: Send + 'static>,
{
    pub(super) fn run(mut self, inputs: &Receiver<DriverInput<L::Received>>, handlers: &Handlers) {
        match &self.state.sign_in {
            // The first request is sent with the stored token, if there is one.
            Some(sign_in) => sign_in.begin(Cause::Start),
            None => self.connect(),
        }
        while !self.drain(handlers) {
            self.wait(inputs, handlers);
        }
        self.link.end(&mut |time| {
            // The link itself holds a sender to the inbox, so the channel stays open and this waits.
            let _ = inputs.recv_timeout(time);
            false
        });
        if let (Some(connected), Some(reason)) = (self.connected, self.state.refused) {
            let _ = connected.send(Err(NotConnected { reason }));
        }
    }

    /// Begins the connection, once.
    fn connect(&mut self) {
        if !std::mem::replace(&mut self.state.has_begun, true) {
            // The machine is new: nothing prevents it.
            let _ = self.machine.connect(clock::now());
        }
    }

    /// Carries out all outputs of the machine. Returns whether the machine has closed.
    fn drain(&mut self, handlers: &Handlers) -> bool {
        while let Some(event) = self.machine.next_event(|action| self.link.act(action)) {
            let event = ClientEvent::new(event, &self.server, self.connected.is_none());
            if let ClientEvent::Closed(_) = event {
                return true;
            }
            self.on_event(event, handlers);
        }
        false
    }

    fn wait(&mut self, inputs: &Receiver<DriverInput<L::Received>>, handlers: &Handlers) {
        let (is_stalled, now) = (!self.machine.wants_input(), clock::now());
        self.backpressure.set(!is_stalled);
        let due = self.machine.poll_timeout().map_or(Duration::MAX, |at| at.saturating_duration_since(now));
        let input = inputs.recv_timeout(due.min(self.link.max_wait(is_stalled, now)));
        let now = clock::now();
        self.link.catch_up(&mut self.machine, now);
        match input {
            Ok(DriverInput::Server(received)) => self.link.feed(&mut self.machine, received, now),
            Ok(DriverInput::Client(input)) => self.on_input(input, handlers, now),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.machine.handle_timeout(now);
        }
    }

    fn on_input(&mut self, input: Input, handlers: &Handlers, now: Instant) {
        match input {
            Input::Request { call, responder, accept } => {
                let accepted = self.machine.request(call, now);
                if let Ok(request) = accepted {
                    self.state.callers.insert(request, responder);
                }
                // The caller waits for this result, unless its thread has ended.
                let _ = accept.send(accepted);
            }
            Input::Notify { notification, accept } => {
                let _ = accept.send(self.machine.notify(notification, now));
            }
            Input::Cancel(request) => self.machine.cancel(request, None, now),
            Input::Listen { filter, listener, accept } => {
                let accepted = self.machine.listen(filter, now);
                if let Ok(subscription) = accepted {
                    self.state.listeners.insert(subscription, listener);
                }
                let _ = accept.send(accepted);
            }
            Input::Unlisten(subscription) => self.machine.unlisten(subscription, now),
            Input::Answer { ticket, answer } => self.machine.answer(ticket, answer, now),
            Input::SignIn(event) => self.on_sign_in(event, now),
            Input::Faulted(fault) => observe(Observation::Faulted(fault), handlers),
            Input::Close => self.machine.close(now),
        }
    }

    fn on_sign_in(&mut self, event: mcp_auth::Event, now: Instant) {
        let SignInReport { outcome, log, .. } = SignInReport::new(event, &self.server);
        if let Some((severity, text)) = log {
            log::log!(level_of(severity), "{text}");
        }
        let Some(outcome) = outcome else { return };
        let ends_sign_in = outcome.ends_sign_in();
        (self.authorize)(&mut self.machine, outcome, now);
        if ends_sign_in {
            self.connect();
        }
    }

    /// Delivers an event to its caller, its subscription or the handler.
    fn on_event(&mut self, event: ClientEvent, handlers: &Handlers) {
        match event {
            ClientEvent::Connected { version, result, detected_era } => {
                let server = SharedConnected::new(self.connected_to(version, result, detected_era));
                self.state.server = Some(server.clone());
                if let Some(connected) = self.connected.take() {
                    let _ = connected.send(Ok(server));
                }
            }
            ClientEvent::Reconnected { version, result, detected_era } => {
                if let Some(server) = &self.state.server {
                    server.set(self.connected_to(version, result.clone(), detected_era));
                }
                observe(Observation::Reconnected { version, result }, handlers);
            }
            ClientEvent::Refused(reason) => {
                self.state.refused = Some(reason);
                self.machine.close(clock::now());
            }
            ClientEvent::Responded { request, outcome } => {
                if let Some(caller) = self.state.callers.remove(&request) {
                    caller.outcome(outcome);
                }
            }
            ClientEvent::Progressed { request, params } => {
                if let Some(caller) = self.state.callers.get(&request) {
                    caller.progress(params);
                }
            }
            ClientEvent::Changed { subscription, change: change @ Change::Ended(_) } => {
                if let Some(listener) = self.state.listeners.remove(&subscription) {
                    listener.finish(change);
                }
            }
            ClientEvent::Changed { subscription, change } => self.report(subscription, change),
            ClientEvent::Requested { ticket, method, params } => {
                if let Err(ticket) = handlers.request(ticket, method, params) {
                    self.machine.answer(ticket, Err(ErrorObject::overloaded()), clock::now());
                }
            }
            ClientEvent::Notified(notification) => handlers.notice(Notice::Notified(notification)),
            ClientEvent::Observed(observation) => {
                observe(observation, handlers);
            }
            ClientEvent::Challenged(challenged) => {
                log::debug!("{} demands authorization: {challenged:?}", self.server);
                if let Some(sign_in) = &self.state.sign_in {
                    sign_in.begin(challenged.into());
                }
            }
            // The machine discards the handler's answer to a request that the server has cancelled.
            ClientEvent::RequestCancelled { .. } | ClientEvent::Closed(_) => {}
        }
    }

    fn connected_to(&self, version: ProtocolVersion, result: Json, detected_era: DetectedEra) -> Connected {
        Connected { version, result, transport: (self.http_transport)(&self.machine), detected_era }
    }

    /// Sends a change to a subscription. If its queue is full, the change is dropped and counted.
    fn report(&self, subscription: SubscriptionKey, change: Change) {
        if let Some(listener) = self.state.listeners.get(&subscription) {
            let weight = change.weight();
            if listener.try_send(change, weight).is_err() {
                listener.miss();
            }
        }
    }
}

/// Logs an observation, and passes it to the handler.
fn observe(observation: Observation, handlers: &Handlers) {
    log::log!(level_of(observation.severity()), "{observation}");
    handlers.notice(Notice::Observed(observation));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use ::mcp_testkit::messages::{DISCOVERED, complete, initialize_result, result};
    use mcp_application::ProgressBytes;
    use mcp_proto::client::{Call, Config, Outcome};
    use mcp_proto::{Notification, Stdio};

    use super::*;
    use crate::bounded::{self, Next, bounded};
    use crate::client::commands::Commands;
    use crate::response_slot::{ResponseSlot, ResponseUpdate};

    /// A link that records what is written, and passes the test's lines to the machine as the server's.
    #[derive(Default)]
    struct Wire {
        written: Vec<u8>,
        is_closed: bool,
    }

    impl Link for Wire {
        type Action = mcp_proto::StdioAction;
        type Received = String;

        fn act(&mut self, action: Self::Action) {
            match action {
                mcp_proto::StdioAction::Write(bytes) => self.written.extend_from_slice(&bytes),
                mcp_proto::StdioAction::CloseWrite => self.is_closed = true,
                other @ (mcp_proto::StdioAction::Respawn | _) => panic!("{other:?}"),
            }
        }

        fn max_wait(&self, _: bool, _: Instant) -> Duration {
            Duration::MAX
        }

        fn end(&mut self, _: &mut dyn FnMut(Duration) -> bool) {
            self.is_closed = true;
        }
    }

    impl Feed<proto::Client<Stdio>> for Wire {
        fn catch_up(&mut self, machine: &mut proto::Client<Stdio>, now: Instant) {
            machine.handle_written(self.written.len(), now);
        }

        fn feed(&mut self, machine: &mut proto::Client<Stdio>, line: String, now: Instant) {
            machine.handle_bytes(format!("{line}\n").as_bytes(), now);
        }
    }

    /// A driver that runs one step at a time, for tests.
    struct Turns {
        driver: Driver<Stdio, Wire>,
        handlers: Handlers,
        received: bounded::Receiver<Notice>,
        commands: Commands,
        inbox: SyncSender<DriverInput<String>>,
        inputs: Receiver<DriverInput<String>>,
        answer: Receiver<Result<SharedConnected, NotConnected>>,
    }

    impl Turns {
        fn new(change: impl FnOnce(&mut Config)) -> Self {
            let mut config = Config::new("t", "1");
            config.versions = vec![ProtocolVersion::V2025_11_25];
            config.capabilities = Json::parse(r#"{"roots":{}}"#).unwrap();
            change(&mut config);
            let mut machine = proto::Client::new(Stdio::new(), config).unwrap();
            machine.connect(clock::now()).unwrap();
            let ((inbox, inputs), (connected, answer)) = (sync_channel(16), sync_channel(1));
            let (notices, received) = bounded(1, 1000);
            let commands = Commands::to(inbox.clone());
            let handlers = Handlers::new(Arc::new(()), notices, commands.clone());
            let mut driver = Driver {
                machine,
                link: Wire::default(),
                backpressure: Arc::new(Backpressure::new()),
                connected: Some(connected),
                http_transport: |_| None,
                authorize: |_, _, _| {},
                server: Arc::from("the server"),
                state: State::default(),
            };
            assert!(!driver.drain(&handlers));
            Self { driver, handlers, received, commands, inbox, inputs, answer }
        }

        /// A driver that is connected to a server of this revision.
        fn connected(version: ProtocolVersion) -> Self {
            let mut turns = Self::new(|config| config.versions = vec![version]);
            let asked = turns.line();
            let is_modern = version == ProtocolVersion::V2026_07_28;
            let greeting = if is_modern { DISCOVERED.to_owned() } else { initialize_result(version.as_str()) };
            turns.receive(result(&id(&asked), &greeting));
            if !is_modern {
                assert!(turns.line().contains("notifications/initialized"));
            }
            assert_eq!(turns.answer.try_recv().unwrap().unwrap().get().version, version);
            turns
        }

        /// Runs one step. Returns whether it was the last.
        fn turn(&mut self) -> bool {
            self.driver.wait(&self.inputs, &self.handlers);
            self.driver.drain(&self.handlers)
        }

        fn receive(&mut self, line: String) {
            self.inbox.send(DriverInput::from(line)).unwrap();
            assert!(!self.turn());
        }

        fn report(&mut self, input: Input) {
            self.commands.send(input).unwrap();
            assert!(!self.turn());
        }

        /// Takes the one line that was written.
        fn line(&mut self) -> String {
            let written = String::from_utf8(std::mem::take(&mut self.driver.link.written)).unwrap();
            assert_eq!(written.matches('\n').count(), 1, "{written}");
            written
        }

        fn request(&mut self, method: &'static str) -> (RequestKey, ResponseSlot, String) {
            let ((responder, slot), (accept, accepted)) =
                (ResponseSlot::new(ProgressBytes::default().queue()), sync_channel(1));
            self.report(Input::Request { call: Call::new(method).with_progress(), responder, accept });
            let line = self.line();
            assert!(line.contains(&format!(r#""method":"{method}""#)), "{line}");
            (accepted.try_recv().unwrap().unwrap(), slot, line)
        }
    }

    /// A member of the message, as JSON.
    fn member(line: &str, name: &str) -> String {
        let message = Json::parse(line.trim().to_owned()).unwrap();
        message.member(name).unwrap().unwrap().to_text().to_string()
    }

    fn id(line: &str) -> String {
        member(line, "id")
    }

    #[test]
    fn requests_come_to_their_callers_with_their_progress() {
        let mut turns = Turns::connected(ProtocolVersion::V2025_11_25);
        let (_, first, first_line) = turns.request("tools/call");
        let (second_key, second, second_line) = turns.request("tools/list");
        let token = Json::parse(member(&first_line, "params")).unwrap();
        let token = token.member("_meta").unwrap().unwrap().member("progressToken").unwrap().unwrap();
        let params = format!(r#"{{"progressToken":{},"progress":1}}"#, token.to_text());
        turns.receive(format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#));
        let ResponseUpdate::Progress(progress) = first.wait() else { panic!("progress comes first") };
        assert_eq!(progress, Json::parse(params).unwrap());
        turns.receive(result(&id(&first_line), r#"{"content":[]}"#));
        assert!(matches!(first.wait(), ResponseUpdate::Outcome(Outcome::Result(_))));
        turns.report(Input::Cancel(second_key));
        let cancelled = turns.line();
        assert!(cancelled.contains("notifications/cancelled") && cancelled.contains(&id(&second_line)), "{cancelled}");
        assert!(matches!(second.wait(), ResponseUpdate::Outcome(Outcome::Failed(mcp_proto::Failed::Cancelled))));
        assert!(turns.driver.state.callers.is_empty());

        let (accept, accepted) = sync_channel(2);
        turns.report(Input::Notify { notification: Notification::new("notifications/x"), accept: accept.clone() });
        assert!(turns.line().contains("notifications/x"));
        accepted.try_recv().unwrap().unwrap();

        turns.commands.send(Input::Close).unwrap();
        assert!(turns.turn(), "nothing comes after it");
    }

    #[test]
    fn notifications_and_observations_wait_for_the_handler_and_what_has_no_room_is_counted() {
        let mut turns = Turns::connected(ProtocolVersion::V2025_11_25);
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        turns.receive(changed.to_owned());
        turns.receive(changed.to_owned());
        turns.receive("no JSON".to_owned());
        let received = turns.received.recv();
        assert!(
            matches!(&received, Some(Next::Entry(Notice::Notified(notification)))
            if notification.method.as_str() == "notifications/tools/list_changed"),
            "{received:?}"
        );
        assert!(matches!(turns.received.recv(), Some(Next::Missed(2))));
        turns.receive("no JSON".to_owned());
        let received = turns.received.recv();
        assert!(matches!(&received, Some(Next::Entry(Notice::Observed(Observation::Faulted(_))))), "{received:?}");
    }

    #[test]
    fn a_subscription_receives_changes_and_counts_dropped_ones_until_its_end() {
        let mut turns = Turns::connected(ProtocolVersion::V2026_07_28);
        let listen = |turns: &mut Turns, room| {
            let ((listener, events), (accept, accepted)) = (bounded(room, 1000), sync_channel(1));
            let filter = Json::parse(r#"{"toolsListChanged":true}"#).unwrap();
            turns.report(Input::Listen { filter, listener, accept });
            let line = turns.line();
            assert!(line.contains("subscriptions/listen"), "{line}");
            (accepted.try_recv().unwrap().unwrap(), events, id(&line))
        };
        let meta = |id: &str| format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        let notified = |method: &str, params: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{params}}}}}"#)
        };
        let (_, events, number) = listen(&mut turns, 2);
        let filter = format!(r#"{},"notifications":{{"toolsListChanged":true}}"#, meta(&number));
        turns.receive(notified("subscriptions/acknowledged", &filter));
        for _ in 0..3 {
            turns.receive(notified("tools/list_changed", &meta(&number)));
        }
        assert!(matches!(events.recv(), Some(Next::Entry(Change::Listening(_)))));
        assert!(matches!(events.recv(), Some(Next::Entry(Change::Notified(_)))));
        turns.receive(complete(&number));
        assert!(matches!(events.recv(), Some(Next::Missed(2))));
        assert!(matches!(events.recv(), Some(Next::Entry(Change::Ended(Ok(_))))));
        assert!(events.recv().is_none() && turns.driver.state.listeners.is_empty());

        let (key, _changes, number) = listen(&mut turns, 2);
        turns.report(Input::Unlisten(key));
        let line = turns.line();
        assert!(line.contains("notifications/cancelled") && line.contains(&number), "{line}");
    }

    #[test]
    fn a_request_has_a_timeout_and_a_refused_connection_a_reason() {
        let mut turns = Turns::new(|config| {
            config.versions = vec![ProtocolVersion::V2025_11_25];
            config.initialize_timeout = Duration::from_millis(5);
        });
        while !turns.turn() {}
        let refused = &turns.driver.state.refused;
        assert!(matches!(refused, Some(Unavailable::Failed(mcp_proto::Failed::TimedOut { .. }))), "{refused:?}");

        let mut turns = Turns::new(|config| config.versions = vec![ProtocolVersion::V2025_11_25]);
        let line = turns.line();
        let error = r#"{"code":-32603,"message":"not today"}"#;
        turns
            .inbox
            .send(DriverInput::from(format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id(&line))))
            .unwrap();
        while !turns.turn() {}
        assert!(
            matches!(&turns.driver.state.refused, Some(Unavailable::Error(error)) if error.message() == "not today")
        );
    }

    #[test]
    fn a_driver_runs_until_it_is_closed_and_then_reports_why_there_was_no_connection() {
        for is_refused in [true, false] {
            let mut config = Config::new("t", "1");
            config.versions = vec![ProtocolVersion::V2025_11_25];
            let machine = proto::Client::new(Stdio::new(), config).unwrap();
            let ((inbox, inputs), (connected, answer)) = (sync_channel(16), sync_channel(1));
            let handlers = Handlers::start(Arc::new(()), Commands::to(inbox.clone())).unwrap();
            let (link, backpressure) = (Wire::default(), Arc::new(Backpressure::new()));
            let (http_transport, state): (fn(&_) -> _, _) = (|_| None, State::default());
            let (connected, server) = (Some(connected), Arc::from("the server"));
            let authorize = |_: &mut _, _, _| {};
            let driver = Driver { machine, link, backpressure, connected, http_transport, authorize, server, state };
            let message = if is_refused {
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"not today"}}"#.to_owned()
            } else {
                result("1", &initialize_result("2025-11-25"))
            };
            inbox.send(DriverInput::from(message)).unwrap();
            inbox.send(DriverInput::Client(Input::Close)).unwrap();
            let running = thread::spawn(move || driver.run(&inputs, &handlers));
            running.join().unwrap();
            match answer.try_recv().unwrap() {
                Ok(greeting) => assert!(!is_refused && greeting.get().version == ProtocolVersion::V2025_11_25),
                Err(NotConnected { reason }) => {
                    assert!(is_refused && matches!(reason, Unavailable::Error(_)), "{reason:?}");
                }
            }
        }
    }
}
