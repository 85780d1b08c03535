//! The aggregate: one server that has the tools, prompts and resources of several.
//!
//! The aggregate is a server on one byte stream, whose client may be an editor or a [`Gateway`](crate::Gateway). Each
//! server behind it has a relay, so that the revisions of all sides may differ, and the aggregate forwards messages of
//! its client's era only.
//!
//! ```text
//!                                               ┌─ Client ── Relay ── lines ──▶ server 0
//!  client ── lines ──▶ Server<Stdio> ── Aggregate
//!                                               └─ Client ── Relay ── lines ──▶ server 1
//! ```
//!
//! | what | how it is aggregated |
//! |---|---|
//! | tools, prompts | under names from which their servers follow ([`Prefix`]); a name that several servers without a prefix list belongs to the first of them in the configuration |
//! | resources | a URI belongs to the server that lists it first, and only if none lists it to the one with the most specific template for it; a URI that no server has listed is requested from the servers in turn, until one answers with a result |
//! | pages of MCP Apps | a `ui://` URI belongs to the first server with a tool that is linked to it, whatever others list; tools of others are listed without the link; while the tools of a server are not known, a page without an owner is requested of none |
//! | lists | those of all servers in the order of the configuration; a cursor contains the places where the lists of servers go on |
//! | capabilities | those of any server; that lists change is always announced |
//! | instructions | those of all servers, each with the name of its server |
//! | log level, changed roots | sent to all servers |
//! | requests of servers | sent to the client, and the answer to the server |
//! | subscriptions | each server has the part that concerns it |
//! | `requestState`, ids of tasks | with the server that has sent them |
//!
//! The first message of the client starts the servers. It is answered when each server can be used, has failed, or is
//! not ready in time. A server that was late once, at its start or with a list, is not waited for again until it
//! answers in time. When its items arrive late, the client is notified that lists have changed. The first message also
//! determines the era of all requests: those of the other era are refused. A server that exits is started again after a
//! pause, and the client is notified that lists have changed when it can be used. Until then, requests to it are
//! answered with an error that names it.
//!
//! | file | what it does |
//! |---|---|
//! | `config` | the configuration |
//! | `event` | actions for the driver, and events |
//! | `member` | one server: its configuration, and whether it is running |
//! | `connection` | a server that is running: a relay to it, and a client of this relay |
//! | `opening` | the first message of the client, and what the aggregate states about itself |
//! | `servers` | events of servers; when they are started and stopped |
//! | `requests`, `pending` | which server a request of the client is for, and its answer |
//! | `lists` | lists of several servers |
//! | `learnt` | what is learnt from lists |
//! | `list_kind` | the kinds of lists |
//! | `pages` | the pages of one server's list, their bounds, and cursors |
//! | `fresh` | lists that are valid for a time, and not requested again |
//! | `late` | servers that did not answer in time |
//! | `changes` | notifications of changes |
//! | `prefixes` | what names of tools and prompts begin with |
//! | `names` | the names of tools and prompts, and which server has them |
//! | `lazy` | two tools in the place of all: one that searches, and one that calls |
//! | `catalogue` | the definitions that are searched |
//! | `ranking` | which texts match a query best |
//! | `resources` | which server has a resource |
//! | `apps` | which server has the page of an app, and which tools only pages call |
//! | `claims` | which server has listed a text first |
//! | `origin` | cursors, states and ids that contain the server they are from |
//! | `questions` | requests of servers to the client |
//! | `subscriptions` | subscriptions to changes |

mod apps;
mod catalogue;
mod changes;
mod claims;
mod config;
mod connection;
mod event;
mod fresh;
mod late;
mod lazy;
mod learnt;
mod list_kind;
mod lists;
mod member;
mod names;
mod opening;
mod origin;
mod pages;
mod pending;
mod prefixes;
mod questions;
mod ranking;
mod requests;
mod resources;
mod servers;
mod subscriptions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use apps::AppPages;
use catalogue::Catalogue;
use changes::Changes;
pub use config::{Config, Prefix, ServerConfig};
use connection::Connection;
pub use event::{Action, Event, ServerKey};
use list_kind::ListKind;
use lists::Lists;
use mcp_proto::client::CloseReason;
use mcp_proto::machine::{Deadlines, Outbox};
use mcp_proto::server::Server;
use mcp_proto::spec::{List, LoggingLevel};
use mcp_proto::{Instant, Limits, Load, Output, ProcessEnd, StartFailure, Stdio, UsageError, server};
use member::{Member, MemberState};
use names::Names;
use opening::Stage;
use pending::{ListKey, Looked, Pending};
use prefixes::Prefixes;
use questions::Questions;
use resources::Resources;

use crate::relay;

/// One server that has the tools, prompts and resources of several.
///
/// # Example: the client's first message starts the servers
///
/// ```
/// use mcp_intermediary::aggregate::{Action, Aggregate, Config};
/// use mcp_intermediary::relay;
/// use mcp_proto::{Instant, Output, StdioAction};
///
/// let now = Instant::START;
/// let config = Config::new("my-tools", "1.0.0").server("files", relay::Config::default());
/// let mut aggregate = Aggregate::new(config)?;
/// let line = br#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
/// aggregate.handle_bytes(line, now);
/// aggregate.handle_bytes(b"\n", now);
///
/// let Some(Output::Action(Action::Start { server: files })) = aggregate.poll_output() else { panic!() };
/// assert_eq!(files.index(), 0);
/// assert!(matches!(aggregate.poll_output(), Some(Output::Action(Action::Server { .. }))), "its `initialize`");
/// let result = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}"#;
/// let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n");
/// aggregate.handle_server_bytes(files, line.as_bytes(), now);
///
/// let outputs = std::iter::from_fn(|| aggregate.poll_output());
/// let answers = outputs.filter(|output| matches!(output, Output::Action(Action::Client(StdioAction::Write(_)))));
/// assert_eq!(answers.count(), 1, "the answer to `initialize`");
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
pub struct Aggregate {
    /// The machine that faces the client.
    server: Server<Stdio>,
    config: Config,
    stage: Stage,
    members: BTreeMap<ServerKey, Member>,
    prefixes: Prefixes,
    tools: Names,
    prompts: Names,
    resources: Resources,
    app_pages: AppPages,
    /// Empty if all tools are listed.
    catalogue: Catalogue,
    changes: Changes,
    /// Requests to servers without an outcome.
    pending: Pending,
    lists: Lists,
    questions: Questions,
    /// The client accepts requests.
    is_client_ready: bool,
    /// The log level that was sent to the servers.
    level: Option<LoggingLevel>,
    /// The servers whose machines may have outputs.
    active: BTreeSet<ServerKey>,
    timers: Deadlines<AggregateTimer>,
    out: Outbox<Action, Event>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AggregateTimer {
    /// The client's first message is answered, although servers are not ready.
    Opening,
    /// A server is started again.
    Start(ServerKey),
    /// One of the machines of a server.
    Machine(ServerKey),
    /// A list is answered, although servers have not answered.
    List(ListKey),
    /// The list of a server that is late is read again.
    ReadAgain(ServerKey, ListKind),
    /// The client is notified of a change of a list that followed an earlier one closely.
    Changed(changes::ListIndex),
    /// Subscriptions are acknowledged, although this server has not acknowledged its own.
    Watch(ServerKey),
}

/// Shows only counts, because the state contains payloads.
impl fmt::Debug for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aggregate")
            .field("server", &self.server)
            .field("servers", &self.members.len())
            .field("running", &self.running())
            .finish_non_exhaustive()
    }
}

impl Aggregate {
    /// Creates an aggregate.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub fn new(config: Config) -> Result<Self, UsageError> {
        config.check()?;
        let prefixes = Prefixes::new(&config.servers)?;
        let (mut server, _) = config.relay.clone().split();
        server.server_info = config.server_info.clone();
        let (resources, app_pages) = (Resources::new(config.servers.len()), AppPages::new(config.servers.len()));
        let members = config.servers.iter().cloned().map(Member::new);
        let members = members.collect::<Result<Vec<_>, _>>()?.into_iter().enumerate();
        Ok(Self {
            server: Server::pass_through(Stdio::new(), server)?,
            config,
            stage: Stage::Awaiting,
            members: members.map(|(index, member)| (ServerKey::new(index), member)).collect(),
            prefixes,
            tools: Names::default(),
            prompts: Names::default(),
            resources,
            app_pages,
            catalogue: Catalogue::default(),
            changes: Changes::default(),
            pending: Pending::default(),
            lists: Lists::default(),
            questions: Questions::default(),
            is_client_ready: false,
            level: None,
            active: BTreeSet::new(),
            timers: Deadlines::new(),
            out: Outbox::new(),
        })
    }

    /// Bytes have arrived from the client, in pieces of any size.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.server.handle_bytes(bytes, now);
        self.settle(now);
    }

    /// The client's stream has accepted this many more bytes of [`Action::Client`].
    pub fn handle_written(&mut self, bytes: usize, now: Instant) {
        self.server.handle_written(bytes, now);
        self.settle(now);
    }

    /// The client's stream has ended. Requests in flight may still be answered within the `drain_timeout` of
    /// [`Config::relay`]; then all servers are stopped.
    pub fn handle_eof(&mut self, now: Instant) {
        self.server.handle_eof(now);
        self.settle(now);
    }

    /// Bytes have arrived from a server, in pieces of any size.
    pub fn handle_server_bytes(&mut self, server: ServerKey, bytes: &[u8], now: Instant) {
        if let Some(connection) = self.connection(server) {
            connection.handle_bytes(bytes, now);
        }
        self.settle(now);
    }

    /// The stream of a server has accepted this many more bytes of [`Action::Server`].
    pub fn handle_server_written(&mut self, server: ServerKey, bytes: usize, now: Instant) {
        if let Some(connection) = self.connection(server) {
            connection.handle_written(bytes, now);
        }
        self.settle(now);
    }

    /// The stream of a server has ended: each open request to it is answered with an error.
    pub fn handle_server_eof(&mut self, server: ServerKey, now: Instant) {
        if let Some(connection) = self.connection(server) {
            connection.handle_eof(now);
        }
        self.settle(now);
    }

    /// The process of a server has ended, and what it had written was passed in: each open request to it is answered with
    /// an error. [`Action::Stop`] follows, as after the end of its stream.
    pub fn handle_server_process_end(&mut self, server: ServerKey, end: ProcessEnd, now: Instant) {
        if let Some(connection) = self.connection(server) {
            connection.handle_process_end(end, now);
        }
        self.settle(now);
    }

    /// The process of a server could not be started. Like [`Aggregate::handle_stopped`], it is the last report after an
    /// [`Action::Start`].
    pub fn handle_not_started(&mut self, server: ServerKey, failure: StartFailure, now: Instant) {
        if let Some(connection) = self.connection(server) {
            connection.has_stopped = true;
            connection.handle_not_started(failure, now);
        } else {
            self.on_stopped(server, now);
        }
        self.settle(now);
    }

    /// The process of a server has ended, or was not started. This is reported once for each [`Action::Start`].
    pub fn handle_stopped(&mut self, server: ServerKey, now: Instant) {
        if let Some(connection) = self.connection(server) {
            connection.has_stopped = true;
            connection.handle_eof(now);
        } else {
            self.on_stopped(server, now);
        }
        self.settle(now);
    }

    /// Handles all timers that are due. Calling this early or twice has no effect.
    ///
    /// Rules: CL2.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.server.handle_timeout(now);
        self.settle(now);
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                AggregateTimer::Opening => self.open_without_late(now),
                AggregateTimer::Start(server) => self.start(server, now),
                AggregateTimer::List(list) => self.finish_list(list, now),
                AggregateTimer::ReadAgain(server, kind) => self.on_pause_over(server, kind, now),
                AggregateTimer::Changed(list) => self.publish_change(list, now),
                AggregateTimer::Watch(server) => self.on_watch_overdue(server, now),
                AggregateTimer::Machine(server) => {
                    if let Some(connection) = self.connection(server) {
                        connection.handle_timeout(now);
                    }
                }
            }
            self.settle(now);
        }
    }

    /// Applies another filter to what clients request of a server from now on, also after it was started again, and notifies
    /// the client of the lists that may have changed.
    pub fn set_filter(&mut self, server: ServerKey, filter: relay::Filter, now: Instant) {
        if let Some(member) = self.members.get_mut(&server) {
            member.set_filter(filter, now);
            self.active.insert(server);
            // What is kept of its lists has passed the earlier filter.
            for list in List::ALL {
                self.on_list_changed(server, *list, now);
            }
            self.lists.on_filter_changed(server);
            self.drop_late(server, now);
        }
        self.settle(now);
    }

    /// The server with this name in the configuration.
    #[must_use]
    pub fn server_named(&self, name: &str) -> Option<ServerKey> {
        self.members.iter().find_map(|(key, member)| (*member.name == *name).then_some(*key))
    }

    /// Ends the session with the client, whose open requests are answered with errors, and stops all servers.
    /// [`Event::Closed`] follows when they have ended.
    pub fn close(&mut self, now: Instant) {
        self.server.close(now);
        self.settle(now);
    }

    /// The next action for the driver or event for the application. Call this after every input until it returns
    /// `None`.
    #[must_use = "an output that is dropped is lost"]
    pub fn poll_output(&mut self) -> Option<Output<Action, Event>> {
        self.out.pop()
    }

    /// When [`Aggregate::handle_timeout`] must be called next; `None` if no timer is set.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.server.poll_timeout(), self.timers.next()].into_iter().flatten().min()
    }

    /// Whether the driver should read more of the client's bytes. A server that is slow does not make this `false`:
    /// requests to it are answered with an error when too many wait.
    ///
    /// Rules: H5, K1.
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        self.out.has_room(self.limits()) && self.server.wants_input()
    }

    /// Whether the driver should read more of a server's bytes. `false` means that the client does not read, or that
    /// the server does not read the answers to its own requests.
    ///
    /// Rules: H5.
    #[must_use]
    pub fn wants_server_bytes(&self, server: ServerKey) -> bool {
        match self.members.get(&server).map(|member| &member.state) {
            Some(MemberState::Running(connection)) => {
                self.out.has_room(self.limits()) && self.server.has_room() && connection.wants_bytes()
            }
            Some(MemberState::Stopped | MemberState::Stopping) | None => true,
        }
    }

    /// The name of a server in the configuration.
    #[must_use]
    pub fn server_name(&self, server: ServerKey) -> Option<&str> {
        self.members.get(&server).map(|member| &*member.name)
    }

    /// The number of servers that were started and are not reported as stopped.
    #[must_use]
    pub fn running(&self) -> usize {
        self.members.values().filter(|member| !matches!(member.state, MemberState::Stopped)).count()
    }

    /// The resources that the aggregate holds now, those of its machines included. Names and URIs that were learnt from
    /// lists are not counted; they take at most 8 MiB.
    #[must_use]
    pub fn load(&self) -> Load {
        let mut own = self.server.load() + self.stage.load() + self.lists.load();
        own.held += self.kept_bytes() + self.fresh_bytes() + self.catalogue.bytes();
        let members = self.members.values().filter_map(|member| match &member.state {
            MemberState::Running(connection) => Some(connection.load()),
            MemberState::Stopped | MemberState::Stopping => None,
        });
        members.fold(own, |sum, member| sum + member)
    }

    const fn limits(&self) -> &Limits {
        &self.config.relay.limits
    }

    /// Passes the outputs of each machine on until all have none left.
    fn settle(&mut self, now: Instant) {
        loop {
            if let Some(server) = self.active.first().copied() {
                let Some(connection) = self.connection(server) else {
                    self.active.remove(&server);
                    continue;
                };
                let output = connection.poll_output(now);
                let due = connection.poll_timeout();
                match (output, due) {
                    (Some(output), _) => self.on_server_output(server, output, now),
                    (None, Some(due)) => {
                        self.timers.set(AggregateTimer::Machine(server), due);
                        self.active.remove(&server);
                    }
                    (None, None) => {
                        self.timers.clear(AggregateTimer::Machine(server));
                        self.active.remove(&server);
                    }
                }
            } else if let Some(output) = self.server.poll_output() {
                match output {
                    Output::Action(action) => self.out.act(Action::Client(action)),
                    Output::Event(event) => self.on_client_event(event, now),
                }
            } else if !self.take_subscription(now) && !self.take_level(now) {
                return;
            }
        }
    }

    /// Handles an event of the machine that faces the client.
    fn on_client_event(&mut self, event: server::Event, now: Instant) {
        use server::Event as E;
        match event {
            E::Requested { ticket, method, params } => match &mut self.stage {
                Stage::Awaiting => self.on_first_request(ticket, method, params, now),
                Stage::Opening { held, .. } => held.push((ticket, method, params)),
                Stage::Open { .. } => self.on_request(ticket, method, params, Looked::Nothing, now),
                // The machine that faces the client answers requests itself after its end.
                Stage::Closed { .. } => drop(ticket),
            },
            E::Cancelled { ticket, params } => {
                if let Stage::Opening { held, .. } = &mut self.stage {
                    held.retain(|(held, ..)| held.key() != ticket);
                }
                self.cancel(ticket, params, now);
            }
            E::Ready { .. } => {
                self.is_client_ready = true;
                for server in self.keys() {
                    self.confirm(server, now);
                }
            }
            E::Notified { method, params, .. } => self.notify_servers(&method, params.as_ref(), now),
            E::Responded { request, outcome } => self.on_answer(request, outcome, now),
            E::Progressed { request, params } => self.on_progress_of_client(request, params, now),
            E::Faulted(fault) => self.out.report(Event::Faulted(fault)),
            E::Closed { reason, .. } => self.on_client_gone(reason),
            E::Connected { .. } | E::Restored { .. } | E::RequestEnded(_) | E::InputEnded | E::Drained { .. } => {}
        }
    }

    /// The client has gone: all servers are stopped.
    fn on_client_gone(&mut self, reason: CloseReason) {
        self.stage = Stage::Closed { reason };
        self.timers.clear_all();
        self.active.clear();
        self.pending = Pending::default();
        self.lists = Lists::default();
        self.catalogue = Catalogue::default();
        self.questions = Questions::default();
        for (server, member) in &mut self.members {
            member.late.clear();
            member.fresh.clear();
            if let MemberState::Running(connection) = &member.state {
                if connection.has_stopped {
                    member.state = MemberState::Stopped;
                } else {
                    member.state = MemberState::Stopping;
                    self.out.act(Action::Stop { server: *server });
                }
            }
        }
        self.report_end();
    }

    /// Reports the end after the last server has ended.
    fn report_end(&mut self) {
        if let Stage::Closed { reason } = self.stage {
            if self.running() == 0 {
                self.out.report(Event::Closed(reason));
            }
        }
    }

    fn keys(&self) -> Vec<ServerKey> {
        self.members.keys().copied().collect()
    }

    /// Borrows a running server and marks it as active, because the caller's use of it may cause outputs.
    fn connection(&mut self, server: ServerKey) -> Option<&mut Connection> {
        let member = self.members.get_mut(&server)?;
        let secret = member.secret_of(self.config.secret, server);
        match &mut member.state {
            MemberState::Running(connection) => {
                connection.set_secret(secret);
                self.active.insert(server);
                Some(connection)
            }
            MemberState::Stopped | MemberState::Stopping => None,
        }
    }
}
