//! A blocking server on a byte stream, such as stdin and stdout.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use mcp_proto::client::CloseReason;
use mcp_proto::machine::{ClientStream, HandleBytes, Machine};
use mcp_proto::server::{Config, Server};
use mcp_proto::{Instant, Stdio, StdioAction};

use super::commands::{Command, Commands, Input};
use super::driver::{Driver, Io};
use super::handlers::Handlers;
use super::{FLUSH_TIMEOUT, ServerPublisher, Service, unusable};
use crate::backpressure::Backpressure;
use crate::clock;
use crate::inbox::Inbox;
use crate::stdio::{Happened, Unknown, Writer, spawn_reader};

/// A server for one client on a byte stream, in every revision that the configuration allows.
///
/// One thread owns the machine, two read and write, and requests are handled on a pool of threads.
///
/// # Example: a tool for an editor that starts this program
///
/// ```no_run
/// use mcp_blocking::{Incoming, StdioServer};
/// use mcp_proto::server::Config;
/// use mcp_proto::{ErrorObject, Json};
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
/// let config = Config::new("my-tools", "1.0.0").with_capabilities(Json::parse(r#"{"tools":{}}"#)?);
/// StdioServer::new(config).run(serve)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StdioServer {
    config: Config,
    /// The maximum number of threads on which requests are handled. Default 32.
    pub max_handlers: usize,
    inbox: SyncSender<Input<Happened>>,
    inputs: Receiver<Input<Happened>>,
}

/// Stops a server on a byte stream from another thread.
#[derive(Debug, Clone)]
pub struct StdioServerStopper {
    commands: Commands,
}

impl StdioServer {
    /// Creates a server that does not run yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let (inbox, inputs) = sync_channel(256);
        Self { config, max_handlers: 32, inbox, inputs }
    }

    /// Returns a handle that publishes changes to the client while the server runs.
    #[must_use]
    pub fn publisher(&self) -> ServerPublisher {
        ServerPublisher { commands: Commands::to(self.inbox.clone()) }
    }

    /// Returns a handle that stops the server.
    #[must_use]
    pub fn stopper(&self) -> StdioServerStopper {
        StdioServerStopper { commands: Commands::to(self.inbox.clone()) }
    }

    /// Serves the process that started this one over stdin and stdout, until stdin is closed or the server is stopped.
    /// Nothing else may be written to stdout meanwhile (ST-04).
    ///
    /// Returns why the connection has ended. After the end of stdin, pending requests have [`Config::drain_timeout`] to
    /// be answered, by default 5 s; then the client has 5 s to read the last messages.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid, if a thread could not be started, or if the client does not read the last
    /// messages in time.
    pub fn run(self, service: impl Service) -> io::Result<CloseReason> {
        self.run_on(io::stdin(), io::stdout(), service)
    }

    /// Like [`StdioServer::run`], on another pair of byte streams. Reading and writing may block; each has its own
    /// thread.
    ///
    /// # Errors
    ///
    /// As for [`StdioServer::run`].
    pub fn run_on(
        self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        service: impl Service,
    ) -> io::Result<CloseReason> {
        let Self { config, max_handlers, inbox, inputs } = self;
        let machine = Server::new(Stdio::new(), config).map_err(unusable)?;
        let shared: Arc<dyn Inbox<_>> = Arc::new(inbox.clone());
        let backpressure = Arc::new(Backpressure::new());
        let writer = Writer::spawn(Unknown(output), Arc::clone(&shared), Input::Arrived)?;
        spawn_reader(input, shared, Arc::clone(&backpressure), Input::Arrived)?;
        let io = StdioIo { writer, backpressure };
        let driver = Driver::new(machine, io, Commands::to(inbox), Handlers::new(max_handlers), Arc::new(service));
        let (io, reason) = driver.run(&inputs);
        flush(&io.writer, &inputs)?;
        Ok(reason.unwrap_or(CloseReason::Local))
    }
}

impl StdioServerStopper {
    /// Stops the server: pending requests are answered with an error; then [`StdioServer::run`] returns.
    pub fn stop(&self) {
        let _ = self.commands.send(Command::Stop);
    }
}

/// Waits until everything is written.
fn flush(writer: &Writer, inputs: &Receiver<Input<Happened>>) -> io::Result<()> {
    writer.close();
    let until = clock::now() + FLUSH_TIMEOUT;
    while !writer.is_done() {
        let left = until - clock::now();
        if left.is_zero() {
            let text = format!("the client does not read: {} bytes were not written to it", writer.waiting());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
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
}

impl<M: HandleBytes<ClientStream> + Machine<Action = StdioAction>> Io<M> for StdioIo {
    type Arrived = Happened;

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
        machine.handle_written(ClientStream, self.writer.take_written(), now);
    }

    fn may_wait(&mut self, machine: &M) -> bool {
        let wants_input = machine.wants_bytes(ClientStream);
        self.backpressure.set(wants_input);
        wants_input || self.writer.wake_when_written()
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;
    use std::thread::{self, JoinHandle};

    use ::mcp_testkit::messages::{INITIALIZED, initialize, request, result};
    use ::mcp_testkit::waiting::{LONG, wait_until};
    use mcp_proto::{ErrorObject, Json};

    use super::*;
    use crate::Incoming;

    /// A server on a socket, with the test as its client.
    struct Served {
        client: UnixStream,
        lines: BufReader<UnixStream>,
        stopper: StdioServerStopper,
        thread: JoinHandle<io::Result<CloseReason>>,
    }

    impl Served {
        fn start(service: impl Service) -> Self {
            Self::start_with(|_| {}, service)
        }

        fn start_with(change: impl FnOnce(&mut Config), service: impl Service) -> Self {
            let mut config = Config::new("s", "1").with_capabilities(Json::parse(r#"{"tools":{}}"#).unwrap());
            change(&mut config);
            let server = StdioServer::new(config);
            let (client, end) = UnixStream::pair().unwrap();
            client.set_read_timeout(Some(LONG)).unwrap();
            let (lines, stopper) = (BufReader::new(client.try_clone().unwrap()), server.stopper());
            let thread = thread::spawn(move || server.run_on(end.try_clone().unwrap(), end, service));
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
        served.client.set_write_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
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
    fn defect_k4_a_server_on_a_byte_stream_ends_in_time_whether_its_client_reads_or_not() {
        let mut served = Served::start(|_: &Incoming| Ok(Json::from("x".repeat(1 << 20).as_str())));
        served.write(&initialize("1", "2025-11-25"));
        served.line();
        served.write(INITIALIZED);
        served.write(&request("2", "tools/call", "{}"));
        thread::sleep(std::time::Duration::from_millis(100));
        assert!(!served.thread.is_finished());
        served.client.shutdown(std::net::Shutdown::Write).unwrap();
        wait_until(|| served.thread.is_finished());
        let error = served.thread.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().starts_with("the client does not read: "), "{error}");
    }
}
