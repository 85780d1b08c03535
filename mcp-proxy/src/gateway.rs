//! `mcp-proxy serve`: serves clients over HTTP by processes of servers, or by remote servers.
//!
//! | file | what it does |
//! |---|---|
//! | `servers` | the servers of the command line |
//! | `audit` | the file of `--audit` |
//! | `server_settings` | the settings of one server of that file |
//! | `config_file` | the servers of a file in the form that editors have |
//! | `listen` | the listening socket, and who may connect to it |
//! | `tokens` | the tokens of users |
//! | `jwt` | the tokens of an authorization server |
//! | `key_file` | the file with the keys of an authorization server |
//! | `metrics` | the numbers of `--metrics` |
//! | `pages` | the pages of `--health` and `--metrics` |

mod audit;
mod config_file;
mod jwt;
mod key_file;
mod listen;
mod metrics;
mod pages;
mod server_settings;
mod servers;
mod tokens;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use audit::Audit;
use jwt::Jwts;
use listen::Listening;
use log::Level;
use mcp_blocking::{Gateway, GatewayObserver};
use mcp_intermediary::gateway::{BackendKey, Event};
use mcp_intermediary::relay::Pins;
use mcp_intermediary::{gateway, relay};
use mcp_proto::UsageError;
use mcp_proto::server::TwoEndpoints;
use metrics::Metrics;
use pages::Pages;
use servers::{Described, Kind};
use tokens::Tokens;

use crate::args::serve::{ServeArgs, Share};
use crate::args::{Args, limits_of_messages};
use crate::logging::Log;
use crate::pin_file::PinFile;
use crate::platform::Reopen;
use crate::printed::Printed;
use crate::record::{Record, Recorder, Source};
use crate::restrictions::Restrictions;
use crate::secrets::Secrets;
use crate::signals::Signals;
use crate::{END_TIMEOUT, request_log, seed};

/// Serves until a signal ends it. Returns `true`.
///
/// # Errors
///
/// The socket cannot be listened on, or the gateway has failed.
pub(crate) fn run(args: &Arc<ServeArgs>, log: &Log) -> io::Result<bool> {
    let mut secrets = Secrets::default();
    let or_exit = |message: String| -> ! { Args::exit_with_usage(&message) };
    let servers = servers::all(args, &mut secrets).unwrap_or_else(|message| or_exit(message));
    let tokens = Tokens::new(&args.token_env, &mut secrets).unwrap_or_else(|message| or_exit(message));
    let jwts = Jwts::new(args, &servers).unwrap_or_else(|message| or_exit(message));
    let has_users = !tokens.is_empty() || jwts.is_some();
    check(args, &servers, has_users).unwrap_or_else(|message| or_exit(message));
    if args.check_config {
        return check_config(args, &servers);
    }
    let secrets = Arc::new(secrets);
    log.leave_out(Arc::clone(&secrets));
    let record = args.record.as_ref().map(|path| {
        Record::new(path, secrets)
            .unwrap_or_else(|error| Args::exit_with_usage(&format!("--record {}: {error}", path.display())))
    });
    let listening = Listening::open(args, has_users)?;
    let audit = args.audit.file.as_ref().map(|path| {
        let audit = Audit::open(path, args.audit.is_required, log.clone());
        Arc::new(audit.unwrap_or_else(|error| or_exit(format!("--audit {}: {error}", path.display()))))
    });

    let mut gateway = Gateway::new();
    gateway.max_connections = args.max_connections.into();
    gateway.leave_after = args.leave_after;
    let names = servers.iter().map(|server| server.label().to_owned()).collect();
    let metrics = Arc::new(Metrics::new(gateway.status(), names, audit.clone()));
    for server in &servers {
        let mut config = config(args, server, &listening);
        config.http.protected_resource = jwt::resource(args, server).map_err(io::Error::other)?;
        let restrictions = restrictions(args, server).unwrap_or_else(|message| or_exit(message));
        let pins = restrictions.apply(&mut config.relay).unwrap_or_else(|message| or_exit(message));
        let observer = Observer {
            name: server.name.clone(),
            label: server.label().to_owned(),
            metrics: args.metrics.is_some().then(|| Arc::clone(&metrics)),
            audit: audit.clone(),
            pins,
            shown: server.in_words(),
            record: record.clone(),
            max_message: config.relay.limits.message,
            recorders: BTreeMap::new(),
        };
        gateway = gateway
            .server(config, server.backend(args)?.observer(observer))
            .unwrap_or_else(|error| or_exit(in_words(&error)));
    }
    if let Some(jwts) = jwts {
        gateway = gateway.authenticate(move |head| jwts.authenticate(head));
    } else if !tokens.is_empty() {
        gateway = gateway.authenticate(move |head| tokens.authenticate(head));
    }
    let pages = Pages::new(args, gateway.status(), metrics);
    gateway = gateway.pages(move |head| pages.answer(head));
    if let Some(audit) = audit.clone() {
        gateway = gateway.refuse(move |_| audit.refusal());
    }
    // Requests in progress are answered, then the processes are stopped.
    let (drain, stop, kill) = (args.drain_timeout, gateway.stopper(), gateway.stopper());
    let within = drain.saturating_add(END_TIMEOUT);
    let signals =
        Signals::stop(within, move || stop.shutdown(drain), move || kill.kill(), reopening(log.clone(), audit))?;
    warn_without_user_env(args, &servers);
    for server in &servers {
        if let Some(problem) = server.problem() {
            log::error!(
                "{} cannot be started now: {problem} Until it can be, its clients get an error",
                server.in_words()
            );
        }
    }
    // So that warnings are printed before.
    log.flush();
    announce(&listening, &servers, args)?;
    let Listening { listener, file, .. } = listening;
    let outcome = gateway.serve(listener);
    drop(file);
    signals.exit_after(2);
    outcome.map(|()| true)
}

/// What clients may use of a server.
fn restrictions(args: &ServeArgs, server: &Described) -> Result<Restrictions, String> {
    match &server.kind {
        // The filters are those of its servers, and so are the pins of tools that are not listed.
        Kind::All(_) if args.lazy_tools.is_some() => Ok(Restrictions::default()),
        Kind::All(_) => Ok(args.restrictions.pins()),
        Kind::Command(_) | Kind::Remote(_) => {
            let restrictions = server.settings.restrictions(args);
            let restrictions = restrictions.map_err(|error| format!("{}: {error}", server.in_words()))?;
            Ok(restrictions.of_server(server.name.as_deref()))
        }
    }
}

/// Prints the servers of a configuration without a mistake, and what is wrong with their programs. Returns whether nothing is.
fn check_config(args: &ServeArgs, servers: &[Described]) -> io::Result<bool> {
    let mut out = Printed::new();
    let mut is_fine = true;
    let mut outcome = Ok(());
    for server in servers {
        let restrictions = restrictions(args, server).unwrap_or_else(|message| Args::exit_with_usage(&message));
        let filter = restrictions.filters().apply(&mut relay::Config::default());
        filter.unwrap_or_else(|message| Args::exit_with_usage(&message));
        let problem = server.problem();
        is_fine &= problem.is_none();
        let found = problem.map_or_else(|| "fine".to_owned(), |problem| problem.to_string());
        outcome = outcome.and_then(|()| writeln!(out, "{} {}: {found}", server.path("mcp"), server.in_words()));
    }
    out.end(outcome.map(|()| is_fine))
}

/// What SIGHUP does for a service, whose files are renamed from time to time. From a terminal, it says that this has gone.
fn reopening(log: Log, audit: Option<Arc<Audit>>) -> Option<Reopen> {
    if io::stdin().is_terminal() || io::stderr().is_terminal() {
        return None;
    }
    Some(Box::new(move || {
        log.reopen();
        if let Some(audit) = &audit {
            audit.reopen();
        }
    }))
}

/// Names the servers for which `--user-env` has no effect.
fn warn_without_user_env(args: &ServeArgs, servers: &[Described]) {
    let Some(variable) = &args.user_env else { return };
    let is_remote = |server: &&Described| matches!(server.kind, Kind::Remote(_));
    for name in servers.iter().filter(is_remote).filter_map(|server| server.name.as_deref()) {
        log::warn!(
            "--user-env {variable} has no effect for the remote server {name}: each user has a session of their own there, \
             and all have the credentials of this gateway"
        );
    }
}

/// Checks options against each other that are about different things.
fn check(args: &ServeArgs, servers: &[Described], has_users: bool) -> Result<(), String> {
    if args.user_env.is_some() && !has_users {
        return Err("--user-env needs --token-env or --token-issuer, which distinguish users".to_owned());
    }
    if args.user_env.is_some() && args.share == Share::All {
        return Err("--user-env has no effect with --share all, since one process serves all users".to_owned());
    }
    if args.share == Share::Principal && !has_users {
        return Err("--share principal needs --token-env or --token-issuer, which distinguish users".to_owned());
    }
    for server in servers {
        let name = server.name.as_deref().unwrap_or_default();
        if server.settings.share == Some(Share::Principal) && !has_users {
            return Err(format!(
                "the server {name} is shared by principal, which needs --token-env or --token-issuer, which distinguish users"
            ));
        }
        if server.settings.share == Some(Share::All) && args.user_env.is_some() {
            return Err(format!("--user-env has no effect for the server {name}, since one process serves all users"));
        }
    }
    let pages = [&args.health, &args.metrics];
    for path in pages.into_iter().flatten() {
        if servers.iter().any(|server| server.paths(args.sse).contains(path)) {
            return Err(format!("the path {path} is that of a server"));
        }
    }
    if args.health.is_some() && args.health == args.metrics {
        return Err("--health and --metrics have the same path".to_owned());
    }
    Ok(())
}

fn config(args: &ServeArgs, server: &Described, listening: &Listening) -> gateway::Config {
    let mut config = gateway::Config::default();
    config.sharing = server.settings.share(args).into();
    let (http, relay) = (&mut config.http, &mut config.relay);
    http.path = Some(server.path("mcp").into());
    http.two_endpoints =
        args.sse.then(|| TwoEndpoints { stream: server.path("sse").into(), messages: server.path("messages").into() });
    http.public_path = args.public_path().into();
    http.access = listening.access.clone();
    http.cors = !args.allow_origin.is_empty();
    http.max_sessions = usize::try_from(args.max_sessions).unwrap_or(usize::MAX);
    http.session_idle = args.session_idle;
    relay.versions.clone_from(&args.protocol.0);
    relay.limits = limits_of_messages(args.max_message);
    relay.limits.backends = args.max_backends.into();
    // A quarter of the connections is for subscriptions, as half of them is for streams.
    relay.limits.subscriptions = relay.limits.subscriptions.max(usize::from(args.max_connections) / 4);
    relay.request_timeout = server.settings.request_timeout(args);
    relay.initialize_timeout = server.settings.start_timeout(args);
    relay.drain_timeout = args.drain_timeout;
    relay.max_timeout = relay.max_timeout.max(relay.request_timeout);
    relay.reports_ended_requests = request_log::is_enabled() || args.metrics.is_some() || args.audit.file.is_some();
    relay.seed = seed();
    config
}

/// The only configuration that a person can make invalid is the size of messages.
fn in_words(error: &UsageError) -> String {
    format!("--max-message: {error}")
}

/// Prints where servers are served, whatever the level of the log.
fn announce(listening: &Listening, servers: &[Described], args: &ServeArgs) -> io::Result<()> {
    let mut out = io::stderr().lock();
    for server in servers {
        let paths = server.paths(args.sse);
        let (path, more) = paths.split_first().map_or(("", ""), |(path, more)| {
            (path.as_str(), if more.is_empty() { "" } else { ", and the older transport beside it" })
        });
        let what = server.in_words();
        writeln!(out, "mcp-proxy: {} serves {what}{more}", listening.url(path))?;
    }
    for path in [&args.health, &args.metrics].into_iter().flatten() {
        writeln!(out, "mcp-proxy: {} is a page for monitoring", listening.url(path))?;
    }
    out.flush()
}

/// Logs the events of a server, and records messages.
struct Observer {
    /// The name of the server, if it has one.
    name: Option<String>,
    /// The server in metrics, and in the lines of the log for requests.
    label: String,
    audit: Option<Arc<Audit>>,
    /// `None` if there is no page for them.
    metrics: Option<Arc<Metrics>>,
    /// The server, as it appears in log messages.
    shown: String,
    record: Option<Record>,
    /// Where the pinned definitions of tools are stored.
    pins: Option<PinFile>,
    max_message: usize,
    recorders: BTreeMap<BackendKey, Recorder>,
}

impl Observer {
    /// Records something of a process, if messages are recorded.
    fn record(&mut self, backend: BackendKey, write: impl FnOnce(&mut Recorder)) {
        let Some(record) = &self.record else { return };
        write(self.recorders.entry(backend).or_insert_with(|| {
            let source = Source { server: self.name.as_deref().map(Into::into), process: Some(backend.number()) };
            record.recorder(self.max_message, source)
        }));
    }
}

/// Returns the level and text of the log line for an event.
fn log_line(event: &Event, server: &str) -> Option<(Level, String)> {
    Some(match event {
        Event::Backend { backend, event } => crate::log_line(event, &format!("process {backend} of {server}"))?,
        Event::NotStarted { reason, retry_in } => (
            Level::Warn,
            format!("{}; the next attempt may be made in {:.0} s", reason.describe(server), retry_in.as_secs_f64()),
        ),
        Event::Faulted(fault) => (Level::Info, format!("from a client of {server}: {fault}")),
        Event::Drained { cancelled: 0 } => return None,
        Event::Drained { cancelled } => {
            (Level::Warn, format!("requests to {server} were cancelled, because the gateway is stopped: {cancelled}"))
        }
        // It is a line with fields.
        Event::RequestEnded(_) | _ => return None,
    })
}

/// Logs an event of the machines. The log limits the lines that clients can cause in any number.
fn log_event(level: Level, text: &str, is_caused_by_client: bool) {
    let target = if is_caused_by_client { "mcp_proxy::gateway::client_fault" } else { module_path!() };
    log::log!(target: target, level, "{text}");
}

/// Whether each message of a client can cause the event.
const fn is_caused_by_client(event: &relay::Event) -> bool {
    use relay::Event as E;
    matches!(event, E::Faulted { .. } | E::Failed(_) | E::NotPassed { .. } | E::Postponed { .. })
}

impl GatewayObserver for Observer {
    fn event(&mut self, event: &Event) {
        if let Event::RequestEnded(ended) = event {
            request_log::log(&self.label, ended);
            if let Some(audit) = &self.audit {
                audit.record(&self.label, ended);
            }
        }
        match (event, &self.metrics) {
            (Event::RequestEnded(ended), Some(metrics)) => metrics.request_ended(&self.label, ended),
            (Event::NotStarted { .. }, Some(metrics)) => metrics.start_paused(&self.label),
            _ => {}
        }
        if let Some((level, text)) = log_line(event, &self.shown) {
            let is_caused_by_client = matches!(event, Event::Faulted(_))
                || matches!(event, Event::Backend { event, .. } if is_caused_by_client(event));
            log_event(level, &text, is_caused_by_client);
        }
        if let Event::Backend { backend, event: relay::Event::Closed(_) } = event {
            self.recorders.remove(backend);
        }
    }

    fn store_pins(&mut self, pins: &Pins) -> Option<Pins> {
        self.pins.as_ref().map(|file| file.store(pins))
    }

    fn received(&mut self, backend: BackendKey, bytes: &[u8]) {
        self.record(backend, |recorder| recorder.server_sent(bytes));
    }

    fn written(&mut self, backend: BackendKey, bytes: &[u8]) {
        self.record(backend, |recorder| recorder.client_sent(bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use mcp_proto::Failed;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn configured(options: &[&str]) -> gateway::Config {
        let words = [&["x", "--listen", "127.0.0.1:0"], options, &["--", "sh"]].concat();
        let args = Arc::new(Line::try_parse_from(words).unwrap().args);
        let servers = servers::all(&args, &mut Secrets::default()).unwrap();
        config(&args, &servers[0], &Listening::open(&args, false).unwrap())
    }

    #[test]
    fn limits_and_times_follow_the_options_and_are_never_less_than_usual() {
        let usual = gateway::Config::default().relay;
        let few = configured(&["--max-connections", "64", "--request-timeout", "7"]).relay;
        assert_eq!((few.limits.subscriptions, few.max_timeout), (usual.limits.subscriptions, usual.max_timeout));
        assert_eq!(few.request_timeout, Duration::from_secs(7));
        let many = configured(&["--max-connections", "4097", "--request-timeout", "7200"]).relay;
        assert_eq!((many.limits.subscriptions, many.max_timeout), (1024, Duration::from_secs(7200)));
    }

    #[test]
    fn only_lines_that_each_message_of_a_client_can_cause_are_limited() {
        use mcp_proto::Fault;
        use mcp_proto::client::{CloseReason, Unavailable};
        let faulted = relay::Event::Faulted { side: relay::Side::Client, fault: Fault::DuplicateKey };
        let unavailable = relay::Event::Unavailable { reason: Unavailable::Failed(Failed::Closed), retry_in: None };
        for (event, is_limited) in [
            (faulted, true),
            (relay::Event::Failed(Failed::Closed), true),
            (relay::Event::SessionLost, false),
            (relay::Event::Closed(CloseReason::Peer), false),
            (unavailable, false),
        ] {
            assert_eq!(is_caused_by_client(&event), is_limited, "{event:?}");
        }
    }

    #[test]
    fn the_settings_of_a_server_reach_its_machine_and_are_checked_like_the_options() {
        let line = |options: &[&str]| {
            let words = [&["x", "--listen", "127.0.0.1:0"], options, &["--", "sh"]].concat();
            Line::try_parse_from(words).unwrap().args
        };
        let servers = |fields: &str| {
            let text = format!(r#"{{"mcpServers":{{"a":{{"command":"x"{fields}}}}}}}"#);
            config_file::servers(&text, &mut Secrets::default()).unwrap()
        };
        let (args, own) = (line(&[]), servers(r#","timeout":7200,"startTimeout":3,"share":"all""#));
        let config = config(&args, &own[0], &Listening::open(&args, false).unwrap());
        assert_eq!(config.sharing, gateway::Sharing::Shared);
        let seconds = Duration::from_secs;
        let times = [config.relay.request_timeout, config.relay.max_timeout, config.relay.initialize_timeout];
        assert_eq!(times, [seconds(7200), seconds(7200), seconds(3)]);
        let by_user = servers(r#","share":"principal""#);
        assert!(check(&args, &by_user, true).is_ok() && check(&args, &own, false).is_ok());
        let error = check(&args, &by_user, false).unwrap_err();
        assert!(error.contains("the server a is shared by principal"), "{error}");
        let error = check(&line(&["--user-env", "U"]), &own, true).unwrap_err();
        assert!(error.contains("no effect for the server a"), "{error}");
    }

    #[test]
    fn a_process_that_is_not_started_yet_is_logged_with_the_time_until_the_next_attempt() {
        let event = Event::NotStarted { reason: Failed::Closed, retry_in: Duration::from_secs(3) };
        let (level, text) = log_line(&event, "the server").unwrap();
        assert_eq!(level, Level::Warn);
        assert!(text.ends_with("; the next attempt may be made in 3 s"), "{text}");
    }
}
