//! Drives an aggregate between a client on a pair of byte streams and several servers.
//!
//! One thread runs the machine. Others read from the client and the servers, write to them, and end processes.
//!
//! | file | what it does |
//! |---|---|
//! | `filters` | changes the filters of servers, from another thread |
//! | `server` | how the byte stream of a server is made |
//! | `aggregate_loop` | passes input to the machine, and carries out its actions |

mod aggregate_loop;
mod filters;
mod server;

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use aggregate_loop::{AggregateLoop, Input};
use mcp_intermediary::aggregate::{Aggregate, Config, Event, Prefix};
use mcp_intermediary::relay;
use mcp_proto::client::CloseReason;
use mcp_proto::{Method, UsageError};

pub use filters::AggregateFilters;
use filters::ChangedFilters;
pub use server::AggregateServer;

use crate::child::{INBOX, Process};
use crate::stdio::{MayBlock, Output, Pipe};

/// One server for a client on a pair of byte streams that has the tools, prompts and resources of several servers.
///
/// # Example: two programs as one server on this process's stdin and stdout
///
/// ```no_run
/// use std::process::Command;
/// use mcp_blocking::{AggregateProxy, AggregateServer};
/// use mcp_blocking::intermediary::aggregate::Config;
/// use mcp_blocking::intermediary::relay;
///
/// let proxy = AggregateProxy::new(Config::new("my-tools", "1.0.0"))
///     .server("files", relay::Config::default(), AggregateServer::command(|| Command::new("files-server")))
///     .server("mail", relay::Config::default(), AggregateServer::command(|| Command::new("mail-server")));
/// proxy.run_on_stdio().unwrap();
/// ```
pub struct AggregateProxy {
    config: Config,
    servers: Vec<AggregateServer>,
    on_event: Box<dyn FnMut(&Event) + Send>,
    processes: Vec<Process>,
    is_stopped: Arc<AtomicBool>,
    changed: Arc<ChangedFilters>,
    inbox: SyncSender<Input>,
    inputs: Receiver<Input>,
}

impl AggregateProxy {
    /// An aggregate without servers. Those of `config` are replaced by those of [`AggregateProxy::server`].
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        config.servers.clear();
        let (inbox, inputs) = sync_channel(INBOX);
        Self {
            config,
            servers: Vec::new(),
            on_event: Box::new(|_| {}),
            processes: Vec::new(),
            is_stopped: Arc::default(),
            changed: Arc::default(),
            inbox,
            inputs,
        }
    }

    /// Adds a server.
    #[must_use]
    pub fn server(mut self, name: &str, relay: relay::Config, server: AggregateServer) -> Self {
        self.config = self.config.server(name, relay);
        self.servers.push(server);
        self.processes.push(Process::default());
        self
    }

    /// Sets the methods with which the server that was added last was late in an earlier proxy, so that the client does
    /// not wait for it again. They are those of [`Event::Late`] without those of [`Event::InTime`].
    #[must_use]
    pub fn late(mut self, methods: Vec<Method>) -> Self {
        if let Some(server) = self.config.servers.last_mut() {
            server.late = methods;
        }
        self
    }

    /// Sets what the names of the tools and prompts of the server that was added last begin with.
    ///
    /// # Example
    ///
    /// ```
    /// use std::process::Command;
    /// use mcp_blocking::{AggregateProxy, AggregateServer};
    /// use mcp_blocking::intermediary::aggregate::{Config, Prefix};
    /// use mcp_blocking::intermediary::relay;
    ///
    /// let server = AggregateServer::command(|| Command::new("issue-server"));
    /// let proxy = AggregateProxy::new(Config::new("my-tools", "1.0.0"))
    ///     .server("issues", relay::Config::default(), server)
    ///     .prefix(Prefix::Text("gh".into()));
    /// assert_eq!(proxy.check(), Ok(()));
    /// ```
    #[must_use]
    pub fn prefix(mut self, prefix: Prefix) -> Self {
        if let Some(server) = self.config.servers.last_mut() {
            server.prefix = prefix;
        }
        self
    }

    /// Sets what receives the events, for example for a log.
    #[must_use]
    pub fn on_event(mut self, on_event: impl FnMut(&Event) + Send + 'static) -> Self {
        self.on_event = Box::new(on_event);
        self
    }

    /// The processes of the servers, which may not run yet.
    pub(crate) fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Checks the configuration.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if it is invalid.
    pub fn check(&self) -> Result<(), UsageError> {
        Aggregate::new(self.config.clone()).map(drop)
    }

    /// Returns a handle that stops this proxy. It has an effect on the servers that were added before.
    #[must_use]
    pub fn stopper(&self) -> AggregateStopper {
        let (inbox, is_stopped) = (self.inbox.clone(), Arc::clone(&self.is_stopped));
        AggregateStopper { inbox, is_stopped, processes: self.processes.clone() }
    }

    /// Returns a handle that changes the filters of servers while the proxy runs.
    #[must_use]
    pub fn filters(&self) -> AggregateFilters {
        AggregateFilters::new(Arc::clone(&self.changed), self.inbox.clone())
    }

    /// Runs until the client has closed its side and all servers have ended, or the proxy is stopped; returns the reason.
    ///
    /// The processes of servers are ended as those of [`Proxy::child`](crate::Proxy::child). The client then has 5 seconds
    /// to read the rest of `output`, or 1 second after [`AggregateStopper::stop`].
    ///
    /// # Errors
    ///
    /// If the configuration is invalid, or a thread could not be started. [`io::ErrorKind::TimedOut`] if the client did not
    /// read all of `output` in time.
    pub fn run(
        self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> io::Result<CloseReason> {
        self.join(input, MayBlock(output))
    }

    /// Like [`AggregateProxy::run`], on this process's stdin and stdout.
    ///
    /// # Errors
    ///
    /// As for [`AggregateProxy::run`].
    pub fn run_on_stdio(self) -> io::Result<CloseReason> {
        self.join(io::stdin(), Pipe::of_stdout()?)
    }

    fn join(self, input: impl Read + Send + 'static, output: impl Output + 'static) -> io::Result<CloseReason> {
        let aggregate = Aggregate::new(self.config.clone()).map_err(io::Error::other)?;
        AggregateLoop::start(aggregate, self, input, output)?.run()
    }
}

/// Omits everything else: commands may contain credentials.
impl fmt::Debug for AggregateProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggregateProxy").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}

/// Stops an [`AggregateProxy`] from another thread, such as a thread that waits for signals.
#[derive(Clone)]
pub struct AggregateStopper {
    inbox: SyncSender<Input>,
    is_stopped: Arc<AtomicBool>,
    processes: Vec<Process>,
}

impl AggregateStopper {
    /// Stops the proxy: the client gets an error for every pending request, and the servers are ended. Returns without
    /// waiting for the end.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        // If the channel is full, the thread is about to read the flag anyway.
        let _ = self.inbox.try_send(Input::Woken);
    }

    /// Kills the processes of the servers and those that they have started, for a program that exits immediately
    /// afterwards.
    pub fn kill(&self) {
        for process in &self.processes {
            process.kill_finally();
        }
    }
}

mcp_application::opaque_debug!(AggregateStopper);
