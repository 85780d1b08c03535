//! A server on a byte stream, such as stdin and stdout.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use mcp_application::not_read;
use mcp_proto::client::CloseReason;
use mcp_proto::machine::{ClientStream, HandleBytes, Machine};
use mcp_proto::server::{Config, Server};
use mcp_proto::{Instant, Stdio, StdioAction, UsageError};

use super::commands::{Commands, Input, ROOM};
use super::connections::FLUSH_TIMEOUT;
use super::driver::{Driver, Io};
use super::handlers::Handlers;
use super::publisher::Running;
use super::running::Registration;
use super::{INPUTS, MAX_HANDLERS, ServerPublisher, ServerStopper, Service};
use crate::backpressure::Backpressure;
use crate::clock;
use crate::inbox::Inbox;
use crate::stdio::{Happened, MayBlock, Writer, spawn_reader};

/// A server of one client on a byte stream, made by [`Server::stream`](super::Server::stream). It serves every revision
/// that the configuration allows.
///
/// One thread owns the machine, two read and write, and requests are handled on a pool of threads.
///
/// # Example: a tool for an editor that starts this program
///
/// ```no_run
/// use mcp_blocking::{Incoming, Server};
/// use mcp_blocking::proto::server::Config;
/// use mcp_blocking::proto::{ErrorObject, Json};
///
/// fn serve(incoming: &Incoming) -> Result<Json, ErrorObject> {
///     let text = match incoming.method().as_str() {
///         "tools/list" => r#"{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}"#,
///         "tools/call" => r#"{"content":[{"type":"text","text":"Hello!"}]}"#,
///         _ => return Err(ErrorObject::method_not_found(incoming.method())),
///     };
///     Ok(Json::parse(text).expect("JSON"))
/// }
///
/// let config = Config::new("my-tools", "1.0.0").capabilities(Json::parse(r#"{"tools":{}}"#)?);
/// let mut service = Server::new(config, serve).stream()?;
/// service.max_handlers = 4;
/// service.serve_stdio()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StreamService {
    machine: Server<Stdio>,
    /// Publishers check changes against it until the server runs.
    config: Arc<Config>,
    service: Arc<dyn Service>,
    /// The maximum number of threads on which requests are handled. A handler that waits until its client has read more
    /// occupies one. Default 32.
    pub max_handlers: usize,
    inbox: SyncSender<Input<Happened>>,
    inputs: Receiver<Input<Happened>>,
    stopper: ServerStopper,
    registration: Registration,
}

impl StreamService {
    pub(super) fn new(config: Config, service: Arc<dyn Service>, running: &Arc<Running>) -> Result<Self, UsageError> {
        let machine = Server::new(Stdio::new(), config.clone())?;
        let (inbox, inputs) = sync_channel(INPUTS);
        let stopper = ServerStopper::new(Commands::to(inbox.clone()));
        let config = Arc::new(config);
        let publisher = ServerPublisher::of_unserved(Commands::to(inbox.clone()), &config);
        let registration = Registration::new(running, publisher, stopper.clone());
        Ok(Self { machine, config, service, max_handlers: MAX_HANDLERS, inbox, inputs, stopper, registration })
    }

    /// Returns a handle that publishes changes to the client while the server runs.
    #[must_use]
    pub fn publisher(&self) -> ServerPublisher {
        ServerPublisher::of_unserved(Commands::to(self.inbox.clone()), &self.config)
    }

    /// Returns a handle that stops the server.
    #[must_use]
    pub fn stopper(&self) -> ServerStopper {
        self.stopper.clone()
    }

    /// Serves the process that started this one over stdin and stdout, until stdin is closed or the server is stopped.
    /// Nothing else may be written to stdout meanwhile.
    ///
    /// # Errors
    ///
    /// As for [`StreamService::serve`].
    ///
    /// Rules: ST-04.
    pub fn serve_stdio(self) -> io::Result<CloseReason> {
        self.serve(io::stdin(), io::stdout())
    }

    /// Serves one client on a pair of byte streams, until `read` ends or the server is stopped. Reading and writing may
    /// block; each has its own thread.
    ///
    /// Returns why the connection has ended. After the end of the input, pending requests have
    /// [`Config::drain_timeout`] to be answered, by default 5 s; then the client has 5 s to read the last messages.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if [`StreamService::max_handlers`] is 0. If a thread could not be started, or if
    /// the client does not read the last messages in time.
    pub fn serve(
        self,
        read: impl Read + Send + 'static,
        write: impl Write + Send + 'static,
    ) -> io::Result<CloseReason> {
        let Self { machine, config, service, max_handlers, inbox, inputs, registration: _registration, .. } = self;
        let handlers = Handlers::new(max_handlers)?;
        let shared: Arc<dyn Inbox<_>> = Arc::new(inbox.clone());
        let backpressure = Arc::new(Backpressure::new());
        let writer = Writer::spawn(MayBlock(write), Arc::clone(&shared), Input::Arrived)?;
        spawn_reader(read, shared, Arc::clone(&backpressure), Input::Arrived)?;
        let io = StdioIo { writer, backpressure, is_awaited: false };
        // From this time on, publishers send changes to the driver.
        drop(config);
        let driver = Driver::new(machine, io, Commands::to(inbox), handlers, service);
        let (io, reason) = driver.run(&inputs);
        flush(&io.writer, &inputs)?;
        Ok(reason.unwrap_or(CloseReason::Local))
    }
}

impl fmt::Debug for StreamService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamService").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Waits until everything is written.
fn flush(writer: &Writer, inputs: &Receiver<Input<Happened>>) -> io::Result<()> {
    writer.close();
    let until = clock::now() + FLUSH_TIMEOUT;
    while !writer.is_done() {
        let left = until - clock::now();
        if left.is_zero() {
            return Err(not_read(writer.waiting()));
        }
        // The writer reports its end.
        let _ = inputs.recv_timeout(left);
    }
    Ok(())
}

/// The two threads of the byte stream.
struct StdioIo {
    writer: Writer,
    /// Closed while the machine has no room for more input.
    backpressure: Arc<Backpressure>,
    /// A handler waits until more is written.
    is_awaited: bool,
}

impl<M: HandleBytes<ClientStream> + Machine<Action = StdioAction>> Io<M> for StdioIo {
    type Arrived = Happened;
    type Outlet = ();

    const ENDS_WITH_SESSION: bool = true;

    fn on_arrived(&mut self, machine: &mut M, happened: Happened, now: Instant) {
        match happened {
            Happened::Read(bytes) => machine.handle_bytes(ClientStream, &bytes, now),
            Happened::InputEnded => machine.handle_eof(ClientStream, now),
            // No client is left to serve.
            Happened::OutputClosed => machine.close(now),
            Happened::Written => {}
        }
    }

    fn act(&mut self, _: &mut M, action: StdioAction, _: Instant) {
        match action {
            StdioAction::Write(bytes) => self.writer.push(bytes),
            StdioAction::CloseWrite => self.writer.close(),
            // A server starts no process.
            StdioAction::Respawn | _ => {}
        }
    }

    fn report_written(&mut self, machine: &mut M, now: Instant) {
        let written = self.writer.take_written();
        if written > 0 {
            machine.handle_written(ClientStream, written, now);
        }
    }

    fn take_behind(&mut self) -> Option<()> {
        (self.writer.waiting() >= ROOM).then_some(())
    }

    fn has_room(&mut self, (): ()) -> bool {
        let has_room = self.writer.waiting() < ROOM;
        self.is_awaited |= !has_room;
        has_room
    }

    fn may_wait(&mut self, machine: &M) -> bool {
        let wants_input = machine.wants_bytes(ClientStream);
        self.backpressure.set(wants_input);
        let must_wake = std::mem::take(&mut self.is_awaited) || !wants_input;
        !must_wake || self.writer.wake_when_written()
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    use ::mcp_testkit::messages::{INITIALIZED, initialize, request, result};
    use ::mcp_testkit::waiting::{LONG, wait_until};
    use mcp_proto::{ErrorObject, Json};

    use super::*;
    use crate::Incoming;

    /// A server on a socket, with the test as its client.
    struct Served {
        client: UnixStream,
        lines: BufReader<UnixStream>,
        stopper: ServerStopper,
        thread: JoinHandle<io::Result<CloseReason>>,
    }

    impl Served {
        fn start(service: impl Service) -> Self {
            Self::start_with(|_| {}, service)
        }

        fn start_with(change: impl FnOnce(&mut Config), service: impl Service) -> Self {
            let mut config = Config::new("s", "1").capabilities(Json::parse(r#"{"tools":{}}"#).unwrap());
            change(&mut config);
            let server = crate::Server::new(config, service).stream().unwrap();
            let (client, end) = UnixStream::pair().unwrap();
            client.set_read_timeout(Some(LONG)).unwrap();
            let (lines, stopper) = (BufReader::new(client.try_clone().unwrap()), server.stopper());
            let thread = thread::spawn(move || server.serve(end.try_clone().unwrap(), end));
            Self { client, lines, stopper, thread }
        }

        fn write(&mut self, line: &str) {
            self.client.write_all(format!("{line}\n").as_bytes()).unwrap();
        }

        fn line(&mut self) -> String {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        }

        /// What is left to read, once the server has ended.
        fn ends(mut self) -> (io::Result<CloseReason>, String) {
            wait_until(|| self.thread.is_finished());
            let mut rest = String::new();
            self.lines.read_to_string(&mut rest).unwrap();
            (self.thread.join().unwrap(), rest)
        }
    }

    #[test]
    fn a_server_on_a_byte_stream_answers_each_era_and_all_that_came_before_the_end_of_input() {
        let mut served =
            Served::start(|incoming: &Incoming| Ok(incoming.params().cloned().unwrap_or(Json::empty_object())));
        served.write(&initialize("1", "2025-11-25"));
        assert!(served.line().starts_with(r#"{"jsonrpc":"2.0","id":1,"result":{"#));
        served.write(INITIALIZED);
        served.write(&request("2", "tools/call", r#"{"n":1.0}"#));
        assert_eq!(served.line(), result("2", r#"{"n":1.0}"#));
        served.write(&::mcp_testkit::http_exchange::modern("3", "tools/list", ""));
        let line = served.line();
        assert!(line.contains(r#""id":3"#) && line.contains(r#""resultType":"complete""#), "{line}");
        served.write(&request("4", "tools/call", "{}"));
        served.client.shutdown(std::net::Shutdown::Write).unwrap();
        let (reason, rest) = served.ends();
        assert_eq!((reason.unwrap(), rest.trim_end()), (CloseReason::Peer, result("4", "{}").as_str()));
    }

    #[test]
    fn h5_a_server_on_a_byte_stream_whose_client_does_not_read_stops_reading() {
        // Several times what sockets and queues hold.
        const FLOOD: usize = 16 << 20;
        let mut served = Served::start_with(
            |config| config.limits.queue_bytes = 64 * 1024,
            |incoming: &Incoming| Err(ErrorObject::method_not_found(incoming.method())),
        );
        served.write(&initialize("1", "2025-11-25"));
        served.line();
        served.write(INITIALIZED);
        let ping = request("2", "ping", "{}") + "\n";
        let pings = ping.repeat(1000);
        served.client.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut written = 0;
        let stopped = loop {
            assert!(written < FLOOD, "the server reads on");
            match served.client.write(&pings.as_bytes()[written % pings.len()..]) {
                Ok(length) => written += length,
                Err(error) => break error.kind(),
            }
        };
        assert_eq!(stopped, io::ErrorKind::WouldBlock);
        // Every ping that was written is answered, once the client reads.
        for _ in 0..written / ping.len() {
            assert_eq!(served.line(), result("2", "{}"));
        }
    }

    /// More than the machine keeps for a client that does not read.
    #[test]
    fn fr14_a_handler_waits_for_a_client_that_reads_slowly() {
        const STEPS: u32 = 640;
        let mut served = Served::start(|incoming: &Incoming| {
            let text = "x".repeat(100_000);
            for step in 1..=STEPS {
                let message = Some(text.as_str().into());
                incoming.progress(mcp_proto::server::Progress { progress: step.into(), total: None, message });
            }
            Ok(Json::empty_object())
        });
        served.write(&initialize("1", "2025-11-25"));
        served.line();
        served.write(INITIALIZED);
        served.write(&request("2", "tools/call", r#"{"_meta":{"progressToken":1}}"#));
        thread::sleep(Duration::from_millis(500));
        for step in 1..=STEPS {
            assert!(served.line().contains(&format!(r#""progress":{step}"#)), "{step}");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(served.line(), result("2", "{}"));
    }

    /// A handler that waits continues when its request is cancelled, and when the connection ends.
    #[test]
    fn fr14_a_handler_does_not_wait_for_a_client_that_has_cancelled_or_gone() {
        for is_cancelled in [true, false] {
            let (report, reported) = std::sync::mpsc::channel();
            let report = std::sync::Mutex::new(report);
            let mut served = Served::start(move |incoming: &Incoming| {
                let params = Json::from_serialize(&["x".repeat(1 << 20)]).unwrap();
                let large = Json::empty_object().with_member("data", &params);
                let outcome = incoming.notify(mcp_proto::Notification::with_params("notifications/x", large));
                report.lock().unwrap().send(outcome).unwrap();
                Ok(Json::empty_object())
            });
            served.write(&initialize("1", "2025-11-25"));
            served.line();
            served.write(INITIALIZED);
            served.write(&request("2", "tools/call", "{}"));
            thread::sleep(Duration::from_millis(200));
            assert!(reported.try_recv().is_err(), "it waits");
            if is_cancelled {
                let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
                served.write(cancelled);
            } else {
                served.client.shutdown(std::net::Shutdown::Both).unwrap();
            }
            assert_eq!(reported.recv_timeout(LONG), Ok(Ok(())));
            served.client.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }

    #[test]
    fn a_stopped_server_on_a_byte_stream_answers_pending_requests() {
        let mut served = Served::start(|_: &Incoming| {
            thread::sleep(LONG);
            Ok(Json::empty_object())
        });
        served.write(&initialize("1", "2025-11-25"));
        served.line();
        served.write(INITIALIZED);
        served.write(&request("2", "tools/call", "{}"));
        served.write(&request("3", "ping", "{}"));
        assert_eq!(served.line(), result("3", "{}"), "the call is with its handler");
        served.stopper.stop();
        let line = served.line();
        assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":2,"error":"#), "{line}");
        wait_until(|| served.thread.is_finished());
        assert_eq!(served.thread.join().unwrap().unwrap(), CloseReason::Local);
    }

    #[test]
    fn fr15_a_server_on_a_byte_stream_that_is_shut_down_answers_what_is_in_progress() {
        for (time, answer) in [(LONG, r#"{"jsonrpc":"2.0","id":2,"result":{"#), (Duration::ZERO, r#""id":2,"error":"#)]
        {
            let (ends, may_end) = std::sync::mpsc::channel::<()>();
            let may_end = std::sync::Mutex::new(may_end);
            let mut served = Served::start(move |_: &Incoming| {
                let _ = may_end.lock().unwrap().recv();
                Ok(Json::empty_object())
            });
            served.write(&initialize("1", "2025-11-25"));
            served.line();
            served.write(INITIALIZED);
            served.write(&request("2", "tools/call", "{}"));
            served.write(&request("3", "ping", "{}"));
            assert_eq!(served.line(), result("3", "{}"), "the call is with its handler");
            served.stopper.shutdown(time);
            if time > Duration::ZERO {
                served.write(&request("4", "tools/call", "{}"));
                assert!(served.line().contains(r#""id":4,"error":{"code":-32603"#));
            }
            drop(ends);
            let line = served.line();
            assert!(line.contains(answer), "{line}");
            // The thread that reads keeps its end open.
            wait_until(|| served.thread.is_finished());
            assert_eq!(served.thread.join().unwrap().unwrap(), CloseReason::Local);
        }
    }

    #[test]
    fn a_server_on_a_byte_stream_ends_in_time_whether_its_client_reads_or_not() {
        let mut served = Served::start(|_: &Incoming| Ok(Json::from("x".repeat(1 << 20).as_str())));
        served.write(&initialize("1", "2025-11-25"));
        served.line();
        served.write(INITIALIZED);
        served.write(&request("2", "tools/call", "{}"));
        thread::sleep(Duration::from_millis(100));
        assert!(!served.thread.is_finished());
        served.client.shutdown(std::net::Shutdown::Write).unwrap();
        wait_until(|| served.thread.is_finished());
        let error = served.thread.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().starts_with("the client does not read: "), "{error}");
    }
}
