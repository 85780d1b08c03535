//! The thread that owns the machine.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};

use mcp_application::IncomingRequest;
use mcp_proto::client::{CloseReason, Outcome};
use mcp_proto::machine::Machine;
use mcp_proto::server::{Event, Scope, Server, ServerTransport};
use mcp_proto::{Instant, Json, Notification, Output, RequestKey, Ticket, TicketKey, UsageError};

use super::Service;
use super::commands::{Accept, Command, Commands, Input};
use super::handlers::{Handlers, Job};
use super::incoming::{Incoming, Shared};
use super::subscriptions::Subscriptions;
use crate::clock;

/// Carries out the actions of a machine, and passes in what arrives.
pub(super) trait Io<M: Machine> {
    /// What arrives from clients.
    type Arrived: Send + 'static;

    /// A stream of bytes to a client.
    type Outlet: Copy;

    /// The machine's only session is over: nothing is left to serve.
    const ENDS_WITH_SESSION: bool;

    /// Passes in what has arrived.
    fn on_arrived(&mut self, machine: &mut M, arrived: Self::Arrived, now: Instant);

    /// Carries out an action.
    fn act(&mut self, machine: &mut M, action: M::Action, now: Instant);

    /// Reports to the machine what was written since the last call.
    fn report_written(&mut self, machine: &mut M, now: Instant);

    /// Returns the outlet that was written to last since this was called last, if more than [`ROOM`](super::commands::ROOM)
    /// of it is unwritten.
    fn take_behind(&mut self) -> Option<Self::Outlet>;

    /// Whether less than [`ROOM`](super::commands::ROOM) of an outlet is unwritten. If not, the driver is woken when
    /// more is written.
    fn has_room(&mut self, outlet: Self::Outlet) -> bool;

    /// Called when nothing is left to carry out. Returns `false` if more was written meanwhile, which must be reported
    /// to the machine before the driver waits.
    fn may_wait(&mut self, machine: &M) -> bool;
}

/// A handler that waits until its client has read more.
struct Waiting<O> {
    ticket: TicketKey,
    outlet: O,
    _accepted: Accepted,
}

/// The result of a command, which is sent when this is dropped.
struct Accepted(Option<(Accept, Result<(), UsageError>)>);

impl Drop for Accepted {
    fn drop(&mut self) {
        if let Some((accept, outcome)) = self.0.take() {
            let _ = accept.send(outcome);
        }
    }
}

pub(super) struct Driver<T: ServerTransport, I: Io<Server<T>>>
where
    Server<T>: Machine<Action = T::Action>,
{
    machine: Server<T>,
    io: I,
    commands: Commands,
    handlers: Handlers,
    service: Arc<dyn Service>,
    tickets: BTreeMap<TicketKey, (Ticket, Arc<Shared>)>,
    /// The handlers that wait for a client's response to their request.
    asked: BTreeMap<RequestKey, SyncSender<Result<Outcome, UsageError>>>,
    /// At most one for each thread of the application that sends messages about a request.
    waiting: Vec<Waiting<I::Outlet>>,
    subscriptions: Arc<Subscriptions>,
    /// The service is still handling subscription changes. Meanwhile, the machine collects further ones.
    is_reporting: bool,
    /// Why the only session has ended, if there is only one.
    closed: Option<CloseReason>,
    /// No requests are left, and no new ones are served.
    is_drained: bool,
}

impl<T: ServerTransport, I: Io<Server<T>>> Driver<T, I>
where
    Server<T>: Machine<Action = T::Action>,
{
    pub(super) fn new(
        machine: Server<T>,
        io: I,
        commands: Commands,
        handlers: Handlers,
        service: Arc<dyn Service>,
    ) -> Self {
        let subscriptions = Subscriptions::new(commands.clone());
        Self {
            machine,
            io,
            commands,
            handlers,
            service,
            tickets: BTreeMap::new(),
            asked: BTreeMap::new(),
            waiting: Vec::new(),
            subscriptions,
            is_reporting: false,
            closed: None,
            is_drained: false,
        }
    }

    /// Runs until the server is stopped, or its only session has ended. Returns why it has, if there is one.
    pub(super) fn run(mut self, inputs: &Receiver<Input<I::Arrived>>) -> (I, Option<CloseReason>) {
        loop {
            let due = self.machine.poll_timeout();
            let input = match due {
                Some(at) => inputs.recv_timeout(at.saturating_duration_since(clock::now())),
                None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let now = clock::now();
            self.io.report_written(&mut self.machine, now);
            let is_stopped = match input {
                Ok(Input::Command(Command::Stop)) | Err(RecvTimeoutError::Disconnected) => true,
                Ok(input) => {
                    self.on_input(input, now);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
            };
            if is_stopped {
                Machine::close(&mut self.machine, now);
            } else if self.machine.poll_timeout().is_some_and(|at| at <= now) {
                Machine::handle_timeout(&mut self.machine, now);
            }
            self.settle(now);
            if is_stopped || self.is_drained || self.closed.is_some() {
                self.report_subscriptions();
                return (self.io, self.closed);
            }
            if !self.is_reporting {
                self.report_subscriptions();
            }
        }
    }

    /// Carries out all that the machine returns.
    fn settle(&mut self, now: Instant) {
        loop {
            while let Some(output) = self.machine.poll_output() {
                match output {
                    Output::Action(action) => self.io.act(&mut self.machine, action, now),
                    Output::Event(event) => self.on_event(event),
                }
            }
            let Self { io, waiting, .. } = self;
            waiting.retain(|waiting| !io.has_room(waiting.outlet));
            if self.io.may_wait(&self.machine) {
                return;
            }
            self.io.report_written(&mut self.machine, now);
        }
    }

    /// Queues a job that reports subscription changes to the service.
    fn report_subscriptions(&mut self) {
        let Self { machine, subscriptions, .. } = self;
        if subscriptions.extend(std::iter::from_fn(|| machine.poll_subscription())) {
            self.is_reporting = true;
            let (service, subscriptions) = (Arc::clone(&self.service), Arc::clone(&self.subscriptions));
            self.handlers.push(Job::Subscriptions { service, subscriptions });
        }
    }

    fn on_input(&mut self, input: Input<I::Arrived>, now: Instant) {
        match input {
            Input::Arrived(arrived) => self.io.on_arrived(&mut self.machine, arrived, now),
            Input::Command(command) => self.on_command(command, now),
        }
    }

    /// Sends the result of a command to its handler; if the client has too much to read, only after it has read more.
    fn accept(&mut self, ticket: TicketKey, accept: Accept, outcome: Result<(), UsageError>, now: Instant) {
        let accepted = Accepted(Some((accept, outcome)));
        self.settle(now);
        if let Some(outlet) = self.io.take_behind().filter(|_| self.tickets.contains_key(&ticket)) {
            self.waiting.push(Waiting { ticket, outlet, _accepted: accepted });
        }
    }

    fn on_command(&mut self, command: Command, now: Instant) {
        // Earlier writes concern other handlers.
        let _ = self.io.take_behind();
        match command {
            Command::Answer { ticket, answer } => {
                if let Some((ticket, _)) = self.tickets.remove(&ticket) {
                    if let Err(error) = self.machine.respond(ticket, answer, now) {
                        log::warn!("a handler's answer was replaced: {error}");
                    }
                }
            }
            Command::Progress { ticket, progress, accept } => {
                if let Some((ticket, _)) = self.tickets.get(&ticket) {
                    self.machine.progress(ticket, &progress, now);
                }
                self.accept(ticket, accept, Ok(()), now);
            }
            Command::Release(ticket) => {
                if let Some((ticket, _)) = self.tickets.get(&ticket) {
                    self.machine.release(ticket, now);
                }
            }
            Command::Notify { ticket, notification, accept } => {
                let outcome = self.machine.notify(Scope::Request(ticket), notification, now);
                self.accept(ticket, accept, outcome, now);
            }
            Command::Log { ticket, level, logger, data, accept } => {
                let scope = Scope::Request(ticket);
                let outcome = self.machine.log(scope, level, logger.as_deref(), &data, now);
                self.accept(ticket, accept, outcome, now);
            }
            Command::Publish { change, accept } => {
                let _ = accept.send(self.machine.publish(change, now));
            }
            Command::Ask { ticket, call, outcome } => match self.machine.request(Scope::Request(ticket), call, now) {
                Ok(request) => {
                    self.asked.insert(request, outcome);
                }
                Err(error) => {
                    let _ = outcome.send(Err(error));
                }
            },
            Command::Reported => self.is_reporting = false,
            Command::Drain(timeout) => self.machine.drain(timeout, now),
            Command::Stop => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other events concern no handler")]
    fn on_event(&mut self, event: Event) {
        match event {
            Event::Requested { ticket, method, params } => {
                let key = ticket.key();
                // The client may have cancelled the request meanwhile.
                let request = IncomingRequest::new(&self.machine, &ticket, method, params, clock::unix_time);
                let Some(request) = request else { return };
                let shared = Arc::new(Shared::default());
                self.tickets.insert(key, (ticket, Arc::clone(&shared)));
                let incoming = Incoming::new(request, shared, self.commands.clone());
                self.handlers.push(Job::Call { service: Arc::clone(&self.service), incoming });
            }
            Event::Cancelled { ticket, .. } => {
                if let Some((_, shared)) = self.tickets.remove(&ticket) {
                    shared.cancel();
                    self.handlers.cancel(ticket);
                }
                self.waiting.retain(|waiting| waiting.ticket != ticket);
            }
            Event::Notified { session, method, params } => {
                let notification = Notification { method, params };
                let capabilities = self.machine.client_capabilities(session).unwrap_or(Json::empty_object());
                if self.takes(&notification, &capabilities) {
                    self.handlers.push(Job::Notified { service: Arc::clone(&self.service), session, notification });
                }
            }
            Event::Responded { request, outcome } => {
                if let Some(waiting) = self.asked.remove(&request) {
                    let _ = waiting.send(Ok(outcome));
                }
            }
            Event::Faulted(fault) => log::info!("a client caused a fault: {fault}"),
            Event::Drained { cancelled } => {
                self.is_drained = true;
                if cancelled > 0 {
                    log::warn!("requests were cancelled, because the server is being stopped: {cancelled}");
                }
            }
            Event::Closed { session, reason } => {
                if I::ENDS_WITH_SESSION {
                    self.closed = Some(reason);
                }
                self.handlers.push(Job::Ended { service: Arc::clone(&self.service), session, reason });
            }
            _ => {}
        }
    }

    /// Whether the service takes a notification: not if it panics when it is asked, which must not end the server.
    fn takes(&self, notification: &Notification, capabilities: &Json) -> bool {
        let takes = catch_unwind(AssertUnwindSafe(|| self.service.takes(notification, capabilities)));
        takes.unwrap_or_else(|_| {
            log::error!("the service panicked when asked whether it takes {}", notification.method);
            false
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use ::mcp_testkit::waiting::wait_until;
    use http::request::Parts;
    use mcp_proto::client::Call;
    use mcp_proto::server::{Config, Http, HttpConfig, PeerKey, Progress};
    use mcp_proto::spec::LoggingLevel;
    use mcp_proto::{ErrorObject, Json};

    use super::super::http_exchanges::{Arrived, HttpExchanges};
    use super::super::response_channel::{Replies, Reply, Responses};
    use super::*;
    use crate::socket::Socket;

    /// A driver without handler threads, so that all calls stay queued, and a connection.
    fn without_threads(service: &Arc<dyn Service>) -> (Driver<Http, HttpExchanges>, Arc<Socket>) {
        let commands = Commands::to::<Arrived>(sync_channel(1).0);
        let config = Config::new("s", "1").capabilities(Json::parse(r#"{"tools":{}}"#).unwrap());
        let machine = Server::new(Http::new(HttpConfig::new()), config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = Arc::new(Socket::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap()));
        (
            Driver::new(
                machine,
                HttpExchanges::default(),
                commands,
                Handlers::with_idle(0, Duration::ZERO),
                Arc::clone(service),
            ),
            stream,
        )
    }

    /// Both ends of a response, which never wakes the driver.
    fn replies(stream: &Arc<Socket>) -> (Replies, Responses) {
        super::super::response_channel::replies(stream, Arc::new(sync_channel::<Arrived>(1).0))
    }

    /// A command of a handler that does not wait for its result.
    fn progress(ticket: TicketKey, progress: f64, message: Option<Box<str>>) -> Command {
        let (progress, accept) = (Progress { progress, total: None, message }, sync_channel(1).0);
        Command::Progress { ticket, progress, accept }
    }

    /// The head of a call of the tool `t` in revision 2026-07-28.
    fn head() -> Box<Parts> {
        let head = http::Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
        let head = head.header("accept", "application/json, text/event-stream").header("mcp-method", "tools/call");
        let head = head.header("mcp-protocol-version", "2026-07-28").header("mcp-name", "t");
        Box::new(head.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn nothing_is_left_of_calls_of_disconnected_clients() {
        let service: Arc<dyn Service> = Arc::new(|_: &Incoming| Ok(Json::empty_object()));
        let (mut driver, stream) = without_threads(&service);
        let before = Arc::strong_count(&service);
        for request in 0..100 {
            let call = ::mcp_testkit::http_exchange::modern("1", "tools/call", r#""name":"t","#);
            let (replies, _responses) = replies(&stream);
            let (head, peer, body) = (head(), PeerKey::new(&[1]), call.into_bytes());
            let now = clock::now();
            driver.on_input(
                Input::Arrived(Arrived::Request {
                    request,
                    head,
                    authentication: Ok(None),
                    peer,
                    body,
                    is_whole: true,
                    replies,
                }),
                now,
            );
            driver.settle(now);
            assert_eq!(Arc::strong_count(&service), before + 1, "the call waits");
            driver.on_input(Input::Arrived(Arrived::Disconnected(request)), now);
            driver.settle(now);
            assert_eq!(Arc::strong_count(&service), before, "it waits no longer");
            assert_eq!((driver.tickets.len(), driver.io.replies.len(), driver.io.exchanges.len()), (0, 0, 0));
        }
    }

    /// The machine is notified at once when a reply cannot be sent, whether or not the connection reports its end.
    #[test]
    fn a_stream_that_is_not_taken_ends_its_call() {
        let service: Arc<dyn Service> = Arc::new(|_: &Incoming| Ok(Json::empty_object()));
        let (mut driver, stream) = without_threads(&service);
        for is_taken in [true, false] {
            let params = r#""name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}"#;
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{params}}}}}"#).into_bytes();
            let (replies, responses) = replies(&stream);
            let (head, peer, now) = (head(), PeerKey::new(&[1]), clock::now());
            driver.on_input(
                Input::Arrived(Arrived::Request {
                    request: 1,
                    head,
                    authentication: Ok(None),
                    peer,
                    body,
                    is_whole: true,
                    replies,
                }),
                now,
            );
            driver.settle(now);
            let ticket = *driver.tickets.keys().next().unwrap();
            let mut responses = Some(responses);
            if !is_taken {
                responses = None;
            }
            driver.on_command(progress(ticket, 1.0, None), now);
            driver.settle(now);
            let left = (driver.tickets.len(), driver.io.replies.len(), driver.io.exchanges.len());
            assert_eq!(left, if is_taken { (1, 1, 1) } else { (0, 0, 0) });
            // The answer removes all remaining state.
            driver.on_command(Command::Answer { ticket, answer: Ok(Json::empty_object()) }, now);
            driver.settle(now);
            assert_eq!((driver.tickets.len(), driver.io.replies.len(), driver.io.exchanges.len()), (0, 0, 0));
            drop(responses);
            driver.io.report_written(&mut driver.machine, now);
            assert!(driver.io.unwritten.is_empty());
        }
    }

    #[test]
    fn nothing_is_left_of_a_stream_of_a_disconnected_client() {
        let service: Arc<dyn Service> = Arc::new(|_: &Incoming| Ok(Json::empty_object()));
        let (mut driver, stream) = without_threads(&service);
        let call = ::mcp_testkit::http_exchange::modern("1", "tools/call", r#""name":"t","#);
        let (replies, responses) = replies(&stream);
        let (peer, now) = (PeerKey::new(&[1]), clock::now());
        let body = call.replace(r#""_meta":{"#, r#""_meta":{"progressToken":1,"#).into_bytes();
        driver.on_input(
            Input::Arrived(Arrived::Request {
                request: 1,
                head: head(),
                authentication: Ok(None),
                peer,
                body,
                is_whole: true,
                replies,
            }),
            now,
        );
        driver.settle(now);
        let ticket = *driver.tickets.keys().next().unwrap();
        driver.on_command(progress(ticket, 1.0, None), now);
        driver.settle(now);
        assert!(matches!(responses.try_recv(), Ok(Reply::Stream(_))));
        assert!(matches!(responses.try_recv(), Ok(Reply::Piece(_))));
        assert_eq!(driver.io.unwritten.len(), 1);
        driver.on_input(Input::Arrived(Arrived::Disconnected(1)), now);
        driver.settle(now);
        assert_eq!((driver.io.replies.len(), driver.io.exchanges.len(), driver.io.unwritten.len()), (0, 0, 0));
    }

    /// The connection that writes the stream is shut down, because it may be blocked in a write to its client.
    #[test]
    fn a_stream_that_is_not_read_is_aborted_with_its_connection() {
        let service: Arc<dyn Service> = Arc::new(|_: &Incoming| Ok(Json::empty_object()));
        let (mut driver, _) = without_threads(&service);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = Arc::new(Socket::from(listener.accept().unwrap().0));
        let call = ::mcp_testkit::http_exchange::modern("1", "tools/call", r#""name":"t","#);
        let body = call.replace(r#""_meta":{"#, r#""_meta":{"progressToken":1,"#).into_bytes();
        let (replies, _responses) = replies(&stream);
        let (peer, now) = (PeerKey::new(&[1]), clock::now());
        driver.on_input(
            Input::Arrived(Arrived::Request {
                request: 1,
                head: head(),
                authentication: Ok(None),
                peer,
                body,
                is_whole: true,
                replies,
            }),
            now,
        );
        driver.settle(now);
        let ticket = *driver.tickets.keys().next().unwrap();
        let message = Some("x".repeat(mcp_proto::Limits::default().unwritten / 8).into());
        let is_shut = |client: &mut TcpStream| {
            client.set_nonblocking(true).unwrap();
            matches!(client.read(&mut [0]), Ok(0))
        };
        for step in 1..20 {
            assert!(!is_shut(&mut client), "after {step} pieces");
            driver.on_command(progress(ticket, f64::from(step), message.clone()), now);
            driver.settle(now);
            if driver.io.unwritten.is_empty() {
                break;
            }
        }
        assert!(driver.io.unwritten.is_empty() && driver.io.replies.is_empty());
        wait_until(|| is_shut(&mut client.try_clone().unwrap()));
    }

    /// What a handler can read of its call, and what it may do.
    #[test]
    fn a_handler_receives_its_call_and_forbidden_commands_fail_at_once() {
        let (seen, shown) = sync_channel(16);
        let service: Arc<dyn Service> = Arc::new(move |incoming: &Incoming| {
            let json = |json: Option<&Json>| json.map(|json| json.to_text().to_string()).unwrap_or_default();
            let say = |text: String| seen.send(text).unwrap();
            say(format!("{} of {}", incoming.method(), incoming.version()));
            say(json(incoming.params().and_then(|params| params.member("name").unwrap()).as_ref()));
            say(json(Some(&incoming.client_capabilities().into())));
            say(json(incoming.client_info().map(Json::from).as_ref()));
            say(incoming.headers()["mcp-name"].to_str().unwrap().to_owned());
            say(incoming.is_cancelled().to_string());
            incoming.release();
            say(format!("{:?}", incoming.notify(Notification::new("notifications/message"))));
            let is_refused =
                |error: Option<UsageError>| error.is_some_and(|error| !matches!(error, UsageError::Closed));
            say(is_refused(incoming.log(LoggingLevel::Alert, None, Json::from(1)).err()).to_string());
            say(is_refused(incoming.publish(Notification::new("notifications/tools/list_changed")).err()).to_string());
            say(is_refused(incoming.ask(Call::new("roots/list")).err()).to_string());
            Err(ErrorObject::new(-32000, "enough"))
        });
        let (mut driver, stream) = without_threads(&service);
        let (inbox, inputs) = sync_channel(16);
        (driver.commands, driver.handlers) = (Commands::to(inbox), Handlers::new(1).unwrap());
        let info = r#""io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}"#;
        let call = ::mcp_testkit::http_exchange::modern("1", "tools/call", r#""name":"t","#);
        let body = call.replace(r#""_meta":{"#, &format!(r#""_meta":{{{info},"#)).into_bytes();
        let (replies, responses) = replies(&stream);
        let (peer, now) = (PeerKey::new(&[1]), clock::now());
        driver.on_input(
            Input::Arrived(Arrived::Request {
                request: 1,
                head: head(),
                authentication: Ok(None),
                peer,
                body,
                is_whole: true,
                replies,
            }),
            now,
        );
        driver.settle(now);
        while !driver.tickets.is_empty() {
            let input = inputs.recv_timeout(Duration::from_secs(10)).unwrap();
            driver.on_input(input, now);
            driver.settle(now);
        }
        let expected = [
            "tools/call of 2026-07-28",
            r#""t""#,
            "{}",
            r#"{"name":"c","version":"1"}"#,
            "t",
            "false",
            "Ok(())",
            "true",
            "true",
            "true",
        ];
        assert_eq!(shown.try_iter().collect::<Vec<_>>(), expected);
        let replies: Vec<_> = std::iter::from_fn(|| responses.try_recv().ok()).collect();
        let [Reply::Whole(whole)] = &replies[..] else { panic!("{replies:?}") };
        assert!(std::str::from_utf8(whole.body()).unwrap().contains(r#""error":{"code":-32000,"message":"enough"}"#));
    }
}
