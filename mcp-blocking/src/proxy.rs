//! Drives a relay: a client on a pair of byte streams, a server over HTTP.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use mcp_proto::client::{ExchangeKey, Http, HttpAction, HttpConfig};
use mcp_proto::relay::{Action, Config, Event, Relay};
use mcp_proto::{Instant, Output, StdioAction, UsageError};

use crate::gate::Gate;
use crate::http_client::{HttpOptions, Pool, Received};
use crate::stdio::{Happened, Writer, spawn_reader};

/// How long the last lines may take to be written after everything else has ended.
const FLUSH: Duration = Duration::from_secs(1);
/// How often it is looked at whether a request has been sent that was not sent yet.
const UNSENT: Duration = Duration::from_millis(20);

/// Watches what a proxy does.
pub trait Observer {
    /// The relay tells something.
    fn told(&mut self, event: &Event);
    /// Bytes came from the client.
    fn received(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }
    /// Bytes go to the client.
    fn written(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }
}

/// A proxy between a client on byte streams and a server over HTTP.
///
/// # Example: a proxy on this process's stdin and stdout
///
/// ```no_run
/// use mcp_blocking::{HttpOptions, Observer, Proxy};
/// use mcp_proto::client::HttpConfig;
/// use mcp_proto::relay::{Config, Event};
///
/// struct Silent;
///
/// impl Observer for Silent {
///     fn told(&mut self, _: &Event) {}
/// }
///
/// let http = HttpConfig::new("https://example.com/mcp").unwrap();
/// let proxy = Proxy::new(http, Config::default(), HttpOptions::new()).unwrap();
/// proxy.run(std::io::stdin(), std::io::stdout(), &mut Silent).unwrap();
/// ```
#[derive(Debug)]
pub struct Proxy {
    relay: Relay,
    options: HttpOptions,
    inbox: SyncSender<Input>,
    inputs: Receiver<Input>,
}

/// Ends a proxy from another thread, such as one that waits for signals.
#[derive(Debug, Clone)]
pub struct Stopper(SyncSender<Input>);

#[derive(Debug)]
enum Input {
    Exchange(ExchangeKey, Received),
    Stdio(Happened),
    Stop,
}

impl Stopper {
    /// Ends the proxy: the client hears about every request that it still waits for, the session is ended.
    pub fn stop(&self) {
        // A proxy that is gone has stopped.
        let _ = self.0.send(Input::Stop);
    }
}

impl Proxy {
    /// A proxy to this server.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration cannot be worked with.
    pub fn new(http: HttpConfig, mut config: Config, options: HttpOptions) -> Result<Self, UsageError> {
        // One thread carries one exchange.
        config.limits.exchanges = options.max_workers;
        let (inbox, inputs) = sync_channel(64);
        Ok(Self { relay: Relay::new(Http::new(http), config)?, options, inbox, inputs })
    }

    /// A way to end this proxy.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.inbox.clone())
    }

    /// Runs until the client has gone or the proxy is stopped.
    ///
    /// # Errors
    ///
    /// A thread could not be started.
    pub fn run(
        self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        observer: &mut dyn Observer,
    ) -> io::Result<()> {
        let Self { mut relay, options, inbox, inputs } = self;
        let bytes_gate = Arc::new(Gate::new());
        let body_gate = Arc::new(Gate::new());
        let mut pool = Pool::new(options, inbox.clone(), Arc::clone(&body_gate));
        let writer = Writer::spawn(output, inbox.clone())?;
        spawn_reader(input, inbox, Arc::clone(&bytes_gate))?;

        let mut unwritten = None;
        loop {
            while let Some(output) = unwritten.take().or_else(|| relay.poll_output()) {
                match output {
                    Output::Action(Action::Client(StdioAction::Write(bytes))) => {
                        if let Err(bytes) = writer.push(bytes.clone()) {
                            unwritten = Some(Output::Action(Action::Client(StdioAction::Write(bytes))));
                            break;
                        }
                        observer.written(&bytes);
                    }
                    Output::Action(Action::Client(StdioAction::CloseWrite)) => writer.close(),
                    Output::Action(Action::Server(HttpAction::Open { exchange, request })) => {
                        pool.open(exchange, request);
                    }
                    Output::Action(Action::Server(HttpAction::Abort { exchange })) => pool.abort(exchange),
                    Output::Action(_) => {}
                    Output::Event(event) => {
                        observer.told(&event);
                        if matches!(event, Event::Closed(_)) {
                            writer.flush(FLUSH);
                            return Ok(());
                        }
                    }
                }
            }
            body_gate.set(relay.wants_body());
            bytes_gate.set(relay.wants_bytes());

            let now = Instant::now();
            let due = relay.poll_timeout().map_or(Duration::MAX, |at| at.saturating_duration_since(now));
            let wait = if pool.has_unsent() { due.min(UNSENT) } else { due };
            let input = inputs.recv_timeout(wait);
            let now = Instant::now();
            pool.report_sent(&mut relay, now);
            match input {
                Ok(Input::Exchange(exchange, received)) => pool.feed(&mut relay, exchange, received, now),
                Ok(Input::Stdio(Happened::Read(bytes))) => {
                    observer.received(&bytes);
                    relay.handle_bytes(&bytes, now);
                }
                Ok(Input::Stdio(Happened::InputEnded)) => relay.handle_eof(now),
                // Nobody is left to serve.
                Ok(Input::Stdio(Happened::OutputClosed) | Input::Stop) => relay.close(now),
                // `self` held one sender; the reader and the writer hold others as long as they live.
                Ok(Input::Stdio(Happened::Writable))
                | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if relay.poll_timeout().is_some_and(|at| at <= now) {
                relay.handle_timeout(now);
            }
        }
    }
}

impl From<(ExchangeKey, Received)> for Input {
    fn from((exchange, received): (ExchangeKey, Received)) -> Self {
        Self::Exchange(exchange, received)
    }
}

impl From<Happened> for Input {
    fn from(happened: Happened) -> Self {
        Self::Stdio(happened)
    }
}
