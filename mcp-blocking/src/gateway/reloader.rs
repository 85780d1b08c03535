//! Changes what a running gateway serves, from another thread.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mcp_intermediary::gateway::Config;
use mcp_intermediary::relay::Filter;
use mcp_proto::server::{OpenSessions, Principal};

use super::driver::{Driver, Input};
use super::routes::{Earlier, Route, Routes, ServerId, check_paths};
use super::status::{Counters, GatewayStatus};
use super::stopper::{Ending, GatewayStopper, StopOnPanic};
use super::{Gateway, Served};
use crate::server::listener::Closer;

/// How often it is looked whether the requests that began to arrive before a change have arrived.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Changes what a running gateway serves, from another thread, such as one that waits for signals.
///
/// # Example: a server is added
///
/// ```
/// use std::net::TcpListener;
/// use std::process::Command;
///
/// use mcp_blocking::{Backend, Gateway};
/// use mcp_blocking::intermediary::gateway::Config;
///
/// let config = |name: &str| {
///     let mut config = Config::default();
///     config.http.path = Some(format!("/{name}/mcp").into());
///     config
/// };
/// let backend = |name: &'static str| Backend::command(move |_| Command::new(name));
/// let gateway = Gateway::new().server(config("files"), backend("files"))?;
/// let (reloader, status, stopper) = (gateway.reloader(), gateway.status(), gateway.stopper());
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let running = std::thread::spawn(move || gateway.serve(listener));
/// reloader.wait_until_running();
///
/// let next = Gateway::new().kept_server(config("files"), backend("files"))?.server(config("time"), backend("time"))?;
/// reloader.reload(next)?;
/// assert_eq!(status.servers().len(), 2);
/// stopper.stop();
/// running.join().expect("it does not panic")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct GatewayReloader(pub(super) Arc<Running>);

mcp_application::opaque_debug!(GatewayReloader);

/// What a gateway serves, for its threads and those that change it.
#[derive(Default)]
pub(super) struct Running {
    routes: RwLock<Arc<Routes>>,
    /// `None` before it is served, and after its end. Locked during a change, so that there is one at a time.
    serving: Mutex<Option<Serving>>,
    /// Whether there is a reloader, so that checks of credentials may come to the gateway.
    is_reloadable: AtomicBool,
    has_begun: AtomicBool,
}

/// A gateway that is being served.
pub(super) struct Serving {
    pub(super) closer: Weak<Closer>,
    pub(super) stopper: GatewayStopper,
    pub(super) status: GatewayStatus,
    pub(super) max_connections: usize,
    servers: Vec<RunningServer>,
    threads: Vec<JoinHandle<()>>,
    next: u64,
}

/// A server that is being served.
struct RunningServer {
    id: ServerId,
    config: Config,
    members: BTreeMap<Box<str>, Filter>,
    inbox: SyncSender<Input>,
    counters: Arc<Counters>,
}

impl RunningServer {
    fn route(&self) -> Route {
        Route { http: self.config.http.clone(), inbox: self.inbox.clone(), counters: Arc::clone(&self.counters) }
    }

    fn has_path_of(&self, other: &Config) -> bool {
        self.config.http.path == other.http.path
    }

    /// The sessions that are open; none if the server has ended.
    fn open_sessions(&self) -> OpenSessions {
        let (reply, sessions) = sync_channel(1);
        let is_sent = self.inbox.send(Input::ListSessions(reply)).is_ok();
        sessions.recv().ok().filter(|_| is_sent).unwrap_or_default()
    }
}

impl GatewayReloader {
    /// Waits until [`Gateway::serve`] was called.
    pub fn wait_until_running(&self) {
        while !self.0.has_begun.load(Ordering::Acquire) {
            thread::sleep(CHECK_INTERVAL);
        }
    }

    /// Serves the servers of `next` in the place of those that are served now, with its check of credentials, pages and
    /// refusals. Its `max_connections`, timeouts and `leave_after` have no effect.
    ///
    /// * A server of [`Gateway::kept_server`] keeps its processes and sessions. Its filter and access apply to the requests
    ///   that follow, and its backend to processes that are started later.
    /// * A server of [`Gateway::server`] is a new one, also at the path of one that is served now.
    /// * Each server that is served now and is not kept is drained: its requests in progress are answered, within the
    ///   `drain_timeout` of its [`relay`](Config::relay), and its sessions end with its processes.
    ///
    /// A tool, prompt or resource that neither the earlier nor the later configuration permits to a client is refused: until
    /// each request has arrived whose credentials were checked according to the earlier one, a kept server permits what both
    /// permit. Until then, the hosts and origins of the earlier one are allowed. This method returns after that; it does not
    /// wait for servers that are being drained.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if `next` has no server, two with the same path, or one that is to be kept and is
    /// not served; [`io::ErrorKind::NotConnected`] if the gateway is not served; or if a thread could not be started. Then
    /// nothing has changed.
    pub fn reload(&self, next: Gateway) -> io::Result<()> {
        self.0.reload(next)
    }

    /// Ends the sessions and subscriptions of clients whose credentials were withdrawn: those for which `is_withdrawn`
    /// returns `true`. It receives `None` for a client without a principal. Call this after the reload whose check refuses
    /// their requests.
    pub fn end_withdrawn(&self, is_withdrawn: impl Fn(Option<&Principal>) -> bool + Send + Sync + 'static) {
        let is_withdrawn = Arc::new(is_withdrawn);
        if let Some(serving) = &*self.0.serving() {
            for server in &serving.servers {
                // One that has ended has no sessions.
                let _ = server.inbox.send(Input::EndWithdrawn(is_withdrawn.clone()));
            }
        }
    }
}

impl Running {
    pub(super) fn set_reloadable(&self) {
        self.is_reloadable.store(true, Ordering::Release);
    }

    pub(super) fn is_reloadable(&self) -> bool {
        self.is_reloadable.load(Ordering::Acquire)
    }

    /// What is in force.
    pub(super) fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change_routes(&self, change: impl FnOnce(&mut Routes)) {
        let mut current = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        let mut routes = Routes::clone(&current);
        change(&mut routes);
        *current = Arc::new(routes);
    }

    fn serving(&self) -> MutexGuard<'_, Option<Serving>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to serve.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if the configuration is invalid, or if a thread could not be started. Then nothing is
    /// served.
    pub(super) fn begin(self: &Arc<Self>, first: Gateway, closer: &Arc<Closer>) -> io::Result<()> {
        let Gateway { stopper, status, max_connections, .. } = &first;
        let mut serving = Serving {
            closer: Arc::downgrade(closer),
            stopper: stopper.clone(),
            status: status.clone(),
            max_connections: *max_connections,
            servers: Vec::new(),
            threads: Vec::new(),
            next: 0,
        };
        let outcome = self.start_all(&mut serving, first, closer);
        *self.serving() = Some(serving);
        self.has_begun.store(true, Ordering::Release);
        outcome
    }

    fn start_all(self: &Arc<Self>, serving: &mut Serving, first: Gateway, closer: &Arc<Closer>) -> io::Result<()> {
        let Gateway { servers, authenticate, pages, refuse, .. } = first;
        let number = servers.len();
        for served in servers {
            let server = self.start(serving, served, number, closer)?;
            serving.servers.push(server);
        }
        let routes = serving.servers.iter().map(RunningServer::route).collect();
        self.change_routes(|current| {
            *current = Routes { servers: routes, earlier: Vec::new(), authenticate, pages, refuse };
        });
        Ok(())
    }

    /// Waits for the end of all servers, after which nothing is served any more.
    ///
    /// # Errors
    ///
    /// If the thread of one has panicked.
    pub(super) fn join(&self) -> io::Result<()> {
        let threads = self.serving().take().map(|serving| serving.threads);
        let mut outcome = Ok(());
        for driver in threads.unwrap_or_default() {
            if driver.join().is_err() {
                outcome = Err(io::Error::other("the thread that owns the machine of a server has panicked"));
            }
        }
        outcome
    }

    /// Starts the thread of a server.
    fn start(
        self: &Arc<Self>,
        serving: &mut Serving,
        served: Served,
        number: usize,
        closer: &Arc<Closer>,
    ) -> io::Result<RunningServer> {
        let Served { config, backend, counters, inbox, inputs, is_kept: _ } = served;
        let (id, members, own) = (ServerId(serving.next), backend.members.clone(), config.clone());
        serving.next += 1;
        let mut machine = mcp_intermediary::Gateway::new(config)?;
        machine.limit_to_connections(serving.max_connections.div_ceil(number));
        let driver = Driver::new(machine, backend, inbox.clone(), serving.stopper.clone(), Arc::clone(&counters));
        let registered = serving.stopper.add(inbox.clone());
        let (closer, on_panic, running) = (Arc::clone(closer), StopOnPanic(serving.stopper.clone()), Arc::clone(self));
        let thread = thread::Builder::new().name("mcp-gateway".to_owned()).spawn(move || {
            // The receiver is dropped before the closer: then no connection waits for the driver any more.
            let (_closer, _on_panic, _registered, inputs) = (closer, on_panic, registered, inputs);
            driver.run(&inputs);
            running.change_routes(|routes| routes.earlier.retain(|earlier| earlier.id != id));
        })?;
        serving.threads.push(thread);
        Ok(RunningServer { id, config: own, members, inbox, counters })
    }

    fn reload(self: &Arc<Self>, next: Gateway) -> io::Result<()> {
        let Gateway { servers, authenticate, pages, refuse, .. } = next;
        check_paths(servers.iter().map(|served| &served.config.http))?;
        let mut serving = self.serving();
        let not_served = || io::Error::new(io::ErrorKind::NotConnected, "the gateway is not served");
        let serving = serving.as_mut().ok_or_else(not_served)?;
        serving.threads.retain(|thread| !thread.is_finished());
        let closer = serving.closer.upgrade().ok_or_else(not_served)?;
        let is_served = |config: &Config| serving.servers.iter().any(|server| server.has_path_of(config));
        if let Some(unknown) = servers.iter().find(|served| served.is_kept && !is_served(&served.config)) {
            let path = unknown.config.http.path.as_deref().unwrap_or_default();
            let text = format!("no server is served at {path} that could be kept");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }

        let number = servers.len();
        let (mut later, mut changed) = (Vec::new(), Vec::new());
        for served in servers {
            if served.is_kept {
                let found = serving.servers.iter().position(|server| server.has_path_of(&served.config));
                let Some(found) = found else { continue };
                let earlier = serving.servers.remove(found);
                earlier.narrow(&served);
                changed.push((later.len(), served));
                later.push(earlier);
            } else {
                match self.start(serving, served, number, &closer) {
                    Ok(server) => later.push(server),
                    Err(error) => {
                        // Those that are kept have what both configurations allow, which this undoes.
                        return Err(undo(serving, later, &changed, error));
                    }
                }
            }
        }
        let earlier = std::mem::take(&mut serving.servers);
        for (index, served) in &changed {
            if let Some(server) = later.get_mut(*index) {
                server.config = served.config.clone();
                server.members.clone_from(&served.backend.members);
            }
        }
        let before = self.routes();
        let leaving: Vec<_> = earlier.iter().map(RunningServer::leaving).collect();
        let servers = later.iter().map(RunningServer::route).collect();
        self.change_routes(move |routes| {
            let earlier = std::mem::take(&mut routes.earlier).into_iter().chain(leaving).collect();
            *routes = Routes { servers, earlier, authenticate, pages, refuse };
        });
        serving.status.replace(later.iter().map(|server| Arc::clone(&server.counters)).collect());
        // Requests whose credentials were checked by the earlier configuration are passed in before what follows.
        let is_stopping = serving.stopper.is_stopping();
        while Arc::strong_count(&before) > 1 && !is_stopping.load(Ordering::Acquire) {
            thread::sleep(CHECK_INTERVAL);
        }
        drop(before);
        for (index, served) in changed {
            if let Some(server) = later.get(index) {
                let (config, backend) = (served.config, served.backend);
                let _ = server.inbox.send(Input::Change { http: Box::new(config.http), start: backend.start });
                let (own, members) = (config.relay.filter, backend.members);
                let _ = server.inbox.send(Input::Filter { own, members });
            }
        }
        for server in earlier {
            // Those were opened meanwhile, too.
            let leaving = server.leaving();
            self.change_routes(|routes| {
                routes.earlier.retain(|earlier| earlier.id != server.id);
                routes.earlier.push(leaving);
            });
            let drained = Ending::Drained(server.config.relay.drain_timeout);
            if server.inbox.send(Input::End(drained)).is_err() {
                self.change_routes(|routes| routes.earlier.retain(|earlier| earlier.id != server.id));
            }
        }
        serving.servers = later;
        Ok(())
    }
}

impl RunningServer {
    /// Serves only what both the current configuration and this one allow.
    fn narrow(&self, later: &Served) {
        let own = self.config.relay.filter.clone().and(later.config.relay.filter.clone());
        let later = &later.backend.members;
        let mut members = self.members.clone();
        for (name, filter) in &mut members {
            let other = later.get(name).cloned().unwrap_or_default();
            *filter = std::mem::take(filter).and(other);
        }
        let _ = self.inbox.send(Input::Filter { own, members });
    }

    /// The way to it for the clients of its sessions, while it is being drained.
    fn leaving(&self) -> Earlier {
        Earlier { id: self.id, route: self.route(), sessions: self.open_sessions() }
    }
}

/// Ends the servers that were started, and lets the others go on as before. Returns the reason.
fn undo(serving: &mut Serving, later: Vec<RunningServer>, changed: &[(usize, Served)], error: io::Error) -> io::Error {
    for (index, server) in later.into_iter().enumerate() {
        if changed.iter().any(|(kept, _)| *kept == index) {
            let (own, members) = (server.config.relay.filter.clone(), server.members.clone());
            let _ = server.inbox.send(Input::Filter { own, members });
            serving.servers.push(server);
        } else {
            let _ = server.inbox.send(Input::End(Ending::AtOnce));
        }
    }
    error
}
