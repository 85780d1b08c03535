//! How a process of a server is started, and its end.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use mcp_application::EXIT_TIMEOUT;
use mcp_intermediary::relay::Filter;
use mcp_proto::StdioAction;
use mcp_proto::client::CloseReason;
use mcp_proto::machine::{HandleBytes, ServerStream};
use mcp_proto::server::Principal;

use super::GatewayObserver;
use super::stopper::{GatewayStopper, Registered};
use crate::aggregate::{AggregateFilters, AggregateProxy};
use crate::backpressure::Backpressure;
use crate::child::{Child, FromChild, Process};
use crate::inbox::Inbox;
use crate::link::{Feed, Link};
use crate::pipe::{PipeReader, PipeWriter, pipe};
use crate::proxy::Proxy;

/// How often a process that is being stopped is looked at.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

type MakeCommand = dyn Fn(Option<&Principal>) -> Command + Send + Sync;
type MakeProxy = dyn Fn(Option<&Principal>) -> io::Result<Proxy> + Send + Sync;
type MakeAggregate = dyn Fn(Option<&Principal>) -> io::Result<AggregateProxy> + Send + Sync;

/// How the processes of a server behind a [`Gateway`](super::Gateway) are started. A remote server is served by a
/// [`Proxy`] in this process, in the place of each process, and several servers by an [`AggregateProxy`].
pub struct Backend {
    pub(super) start: Start,
    pub(super) observer: Box<dyn GatewayObserver>,
    /// The filters of the servers of an aggregate, which may change while it runs.
    pub(super) members: BTreeMap<Box<str>, Filter>,
}

/// Makes what a process is started from, anew for each.
#[derive(Clone)]
pub(super) enum Start {
    Command(Arc<MakeCommand>),
    Proxy(Arc<MakeProxy>),
    Aggregate(Arc<MakeAggregate>),
}

impl Backend {
    /// A server over stdio, whose processes are started by the returned commands. They inherit this process's stderr unless
    /// the command sets another. The argument is the authenticated client for which a process is started, if there is only
    /// one and it is known: never with [`Sharing::Shared`](mcp_intermediary::gateway::Sharing::Shared).
    ///
    /// # Example: the server receives the name of the client in its environment
    ///
    /// ```
    /// use std::process::Command;
    /// use mcp_blocking::Backend;
    ///
    /// let backend = Backend::command(|principal| {
    ///     let mut command = Command::new("my-server");
    ///     if let Some(principal) = principal {
    ///         command.env("MCP_USER", principal.as_str());
    ///     }
    ///     command
    /// });
    /// ```
    #[must_use]
    pub fn command(make: impl Fn(Option<&Principal>) -> Command + Send + Sync + 'static) -> Self {
        Self { start: Start::Command(Arc::new(make)), observer: Box::new(()), members: BTreeMap::new() }
    }

    /// A server that is reached through a proxy in this process, such as a remote one with [`Proxy::http`]: signing in and
    /// reconnecting are those of the proxy. The argument is as for [`Backend::command`].
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_blocking::{Backend, HttpOptions, Proxy};
    /// use mcp_blocking::proto::client::HttpConfig;
    /// use mcp_blocking::intermediary::relay::Config;
    ///
    /// let http = HttpConfig::new("https://example.com/mcp")?;
    /// let backend = Backend::proxy(move |_| Ok(Proxy::http(http.clone(), HttpOptions::new(), Config::default())?));
    /// # Ok::<(), mcp_blocking::proto::UsageError>(())
    /// ```
    #[must_use]
    pub fn proxy(make: impl Fn(Option<&Principal>) -> io::Result<Proxy> + Send + Sync + 'static) -> Self {
        Self { start: Start::Proxy(Arc::new(make)), observer: Box::new(()), members: BTreeMap::new() }
    }

    /// Several servers as one, with the tools, prompts and resources of all. In the place of each process, the returned
    /// aggregate runs in this process, with processes of its own. The argument is as for [`Backend::command`].
    ///
    /// If sessions share it, set a random [`Config::secret`](mcp_intermediary::aggregate::Config::secret).
    ///
    /// # Example
    ///
    /// ```
    /// use std::process::Command;
    /// use mcp_blocking::{AggregateProxy, AggregateServer, Backend};
    /// use mcp_blocking::intermediary::aggregate::Config;
    /// use mcp_blocking::intermediary::relay;
    ///
    /// let backend = Backend::aggregate(|_| {
    ///     let files = AggregateServer::command(|| Command::new("files-server"));
    ///     Ok(AggregateProxy::new(Config::new("all", "1.0.0")).server("files", relay::Config::default(), files))
    /// });
    /// ```
    #[must_use]
    pub fn aggregate(make: impl Fn(Option<&Principal>) -> io::Result<AggregateProxy> + Send + Sync + 'static) -> Self {
        Self { start: Start::Aggregate(Arc::new(make)), observer: Box::new(()), members: BTreeMap::new() }
    }

    /// States the filter of a server of an aggregate, by its name. [`GatewayReloader::reload`](super::GatewayReloader::reload)
    /// needs it to change the filter while aggregates run; those that are started have the one of their configuration.
    #[must_use]
    pub fn member_filter(mut self, name: &str, filter: Filter) -> Self {
        self.members.insert(name.into(), filter);
        self
    }

    /// Sets what receives the events and bytes of this server.
    #[must_use]
    pub fn observer(mut self, observer: impl GatewayObserver + 'static) -> Self {
        self.observer = Box::new(observer);
        self
    }
}

/// Omits everything else: the command's arguments and environment may contain credentials.
impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.start {
            Start::Command(_) => "command",
            Start::Proxy(_) => "proxy",
            Start::Aggregate(_) => "aggregate",
        };
        f.debug_struct("Backend").field("start", &kind).finish_non_exhaustive()
    }
}

/// A process that was started, or a proxy in its place.
pub(super) struct Started {
    child: Child<FromChild>,
    backpressure: Arc<Backpressure>,
    /// Whether the backpressure is open.
    is_read: bool,
    /// The proxy or aggregate that runs in the place of a process.
    local: Option<Local>,
    _registered: Vec<Registered>,
}

/// A proxy or an aggregate in this process.
struct Local {
    stop: Box<dyn Fn() + Send>,
    thread: JoinHandle<()>,
    /// The filters of the servers of an aggregate.
    filters: Option<AggregateFilters>,
}

impl Local {
    /// Runs it at the other end of a byte stream, whose ends on this side are returned.
    fn start(
        stop: impl Fn() + Send + 'static,
        run: impl FnOnce(PipeReader, PipeWriter) -> io::Result<CloseReason> + Send + 'static,
    ) -> io::Result<(PipeReader, PipeWriter, Self)> {
        let ((from_local, to_gateway), (from_gateway, to_local)) = (pipe(), pipe());
        let thread = thread::Builder::new().name("mcp-proxy".to_owned()).spawn(move || {
            if let Err(error) = run(from_gateway, to_gateway) {
                log::warn!("{error}");
            }
        })?;
        Ok((from_local, to_local, Self { stop: Box::new(stop), thread, filters: None }))
    }
}

impl Start {
    /// Starts a process, whose output is sent to `inbox`. This may take long.
    pub(super) fn start(
        &self,
        principal: Option<&Principal>,
        inbox: Arc<dyn Inbox<FromChild>>,
        stopper: &GatewayStopper,
    ) -> io::Result<Started> {
        let (process, backpressure) = (Process::default(), Arc::new(Backpressure::new()));
        // Nothing is read until the driver knows of the process.
        backpressure.set(false);
        let mut registered = vec![stopper.register(&process)];
        let open = Arc::clone(&backpressure);
        let (child, local) = match self {
            Self::Command(make) => (Child::start(make(principal), process, inbox, open)?, None),
            Self::Proxy(make) => {
                let proxy = make(principal)?;
                let stopper = proxy.stopper();
                let run = move |input, output| proxy.run(input, output, ());
                let (read, write, local) = Local::start(move || stopper.stop(), run)?;
                (Child::over(read, write, inbox, open)?, Some(local))
            }
            Self::Aggregate(make) => {
                let aggregate = make(principal)?;
                registered.extend(aggregate.processes().iter().map(|process| stopper.register(process)));
                let (stopper, filters) = (aggregate.stopper(), aggregate.filters());
                let run = move |input, output| aggregate.run(input, output);
                let (read, write, mut local) = Local::start(move || stopper.stop(), run)?;
                local.filters = Some(filters);
                (Child::over(read, write, inbox, open)?, Some(local))
            }
        };
        Ok(Started { child, backpressure, is_read: false, local, _registered: registered })
    }
}

impl Started {
    /// Applies these filters to the servers of an aggregate, by their names.
    pub(super) fn set_filters(&self, filters: &BTreeMap<Box<str>, Filter>) {
        if let Some(own) = self.local.as_ref().and_then(|local| local.filters.as_ref()) {
            own.set(filters);
        }
    }

    /// Carries an action out. This never waits.
    pub(super) fn act(&mut self, action: StdioAction) {
        self.child.act(action);
    }

    /// Passes what was received to the machine.
    pub(super) fn feed(
        &mut self,
        machine: &mut impl HandleBytes<ServerStream>,
        received: FromChild,
        now: mcp_proto::Instant,
    ) {
        self.child.feed(machine, received, now);
    }

    /// Reports to the machine what was written meanwhile, and whether it wants more.
    pub(super) fn catch_up(&mut self, machine: &mut impl HandleBytes<ServerStream>, now: mcp_proto::Instant) {
        self.child.catch_up(machine, now);
        self.is_read = machine.wants_bytes(ServerStream);
        self.backpressure.set(self.is_read);
    }

    /// How long the driver may wait before it calls [`Started::catch_up`]; `None` if that is necessary only after another
    /// action or input. Until then, the driver is woken when more is written.
    pub(super) fn max_wait(&self, now: mcp_proto::Instant) -> Option<Duration> {
        let wait = self.child.max_wait(true, now);
        (self.child.waiting() > 0 || wait != Duration::MAX || !self.is_read).then_some(wait)
    }

    /// Stops the process, and all processes that it has started (ST-17, ST-18). This takes up to some seconds.
    pub(super) fn stop(mut self, stopper: &GatewayStopper) {
        self.child.end(&mut |time| {
            thread::sleep(time);
            stopper.is_urgent()
        });
        if let Some(Local { stop, thread, .. }) = self.local.take() {
            let until = Instant::now() + EXIT_TIMEOUT;
            while !thread.is_finished() && !stopper.is_urgent() && Instant::now() < until {
                thread::sleep(CHECK_INTERVAL);
            }
            stop();
            // A panic is its end, too.
            let _ = thread.join();
        }
    }
}
