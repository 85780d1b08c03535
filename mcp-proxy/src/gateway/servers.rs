//! The servers that a gateway serves, according to the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use log::Level;
use mcp_blocking::{AggregateProxy, AggregateServer, Backend, HttpSettings, Proxy};
use mcp_intermediary::aggregate::{Event, ServerKey};
use mcp_intermediary::relay::{Filter, Rule};
use mcp_intermediary::{aggregate, relay};
use mcp_platform::{Problem, command_in, find_program};
use mcp_proto::client::HttpConfig;
use mcp_proto::server::Principal;
use mcp_proto::spec::Primitive;
use mcp_proto::{Method, escape_text};

use super::config_file;
use super::event_log::{is_caused_by_client, log_event};
use super::server_settings::ServerSettings;
use crate::args::limits_of_messages;
use crate::args::serve::{ServeArgs, Share};
use crate::environment::expand;
use crate::secrets::{Secrets, shown_url};
use crate::seed;

/// A server and how it is started or reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Described {
    /// The part of its path; `None` for the only server, at `/mcp`.
    pub(super) name: Option<String>,
    pub(super) kind: Kind,
    pub(super) settings: ServerSettings,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Processes of a program.
    Command(Program),
    /// A server over HTTP.
    Remote(Remote),
    /// These servers as one.
    All(Vec<Described>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) name: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub(super) struct Remote {
    pub(super) url: String,
    /// Names and values.
    pub(super) headers: Vec<(String, String)>,
    /// What the files with certificates contain, with which it is connected to.
    pub(super) certificates: Vec<Vec<u8>>,
    /// What is made of these, with which its proxies reach it, once they were checked.
    pub(super) settings: Option<HttpSettings>,
}

impl PartialEq for Remote {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url && self.headers == other.headers && self.certificates == other.certificates
    }
}

impl Eq for Remote {}

/// The servers of the command line and of the file that it names.
///
/// # Errors
///
/// A text for the user.
pub(super) fn all(args: &Arc<ServeArgs>, secrets: &mut Secrets) -> Result<Vec<Described>, String> {
    let mut servers = Vec::new();
    if let Some((program, arguments)) = args.command.split_first() {
        let kind = Kind::Command(Program::new(program.clone(), arguments.to_vec()));
        servers.push(Described { name: None, kind, settings: ServerSettings::default() });
    }
    for named in &args.names {
        let mut words = named.words.iter().map(OsString::from);
        let program = words.next().unwrap_or_default();
        let kind = Kind::Command(Program::new(program, words.collect()));
        servers.push(Described { name: Some(named.name.clone()), kind, settings: ServerSettings::default() });
    }
    if let (Some(path), Some(text)) = (&args.config, &args.file) {
        let in_file = |mistake| format!("--config {}: {mistake}", path.display());
        servers.extend(config_file::servers(text, secrets).map_err(in_file)?);
    }
    let mut common = Vec::new();
    for (name, value) in &args.env {
        let value = expand(value, secrets).map_err(|error| format!("--env {name}: {error}"))?;
        common.push((name.clone(), value));
    }
    for server in &mut servers {
        server.complete(&common, args, secrets)?;
    }
    let mut names = BTreeSet::new();
    if let Some(name) = servers.iter().filter_map(|server| server.name.as_deref()).find(|name| !names.insert(*name)) {
        return Err(format!("two servers have the name {name}"));
    }
    if args.lazy_tools.is_some() && servers.len() < 2 {
        return Err("--lazy-tools needs several servers, which are one at /mcp".to_owned());
    }
    if servers.len() > 1 {
        let all = aggregate(&servers, args, None, &Latecomers::default()).map_err(|error| error.to_string())?;
        all.check().map_err(|error| error.to_string())?;
        servers.push(Described { name: None, kind: Kind::All(servers.clone()), settings: ServerSettings::default() });
    }
    Ok(servers)
}

impl Described {
    /// Adds the options that apply to all servers. Already checks values that are used only later, with the server.
    fn complete(&mut self, common: &[(String, String)], args: &ServeArgs, secrets: &mut Secrets) -> Result<(), String> {
        match &mut self.kind {
            Kind::Command(Program { env, cwd, .. }) => {
                let own = std::mem::take(env);
                env.extend(common.iter().cloned());
                env.extend(own);
                if cwd.is_none() {
                    cwd.clone_from(&args.cwd);
                }
                match cwd {
                    Some(folder) if !folder.is_dir() => {
                        Err(format!("the working directory {} is no folder", folder.display()))
                    }
                    Some(_) | None => Ok(()),
                }
            }
            Kind::Remote(Remote { url, headers, certificates, settings }) => {
                let http = http(url, headers)?;
                *certificates = args.network.certificates();
                let options = args.network.options(&http, secrets)?;
                *settings = Some(HttpSettings::new(http, options));
                if !has_credentials(headers) && !args.no_auth {
                    args.sign_in.authorization(url, secrets)?;
                }
                Ok(())
            }
            Kind::All(_) => Ok(()),
        }
    }

    /// Whether its processes can go on as those of `other`, which may differ in what clients may use, and in the headers and
    /// certificates of a remote server.
    pub(super) fn has_process_of(&self, other: &Self) -> bool {
        let is_kind_same = match (&self.kind, &other.kind) {
            (Kind::All(own), Kind::All(others)) => {
                own.len() == others.len() && own.iter().zip(others).all(|(own, other)| own.has_process_of(other))
            }
            (Kind::Remote(own), Kind::Remote(other)) => {
                own.url == other.url && has_credentials(&own.headers) == has_credentials(&other.headers)
            }
            (own, others) => own == others,
        };
        is_kind_same && self.name == other.name && self.settings.has_process_of(&other.settings)
    }

    /// Goes on with the remote servers of `earlier`, which has its processes. What they use changes by `changes`.
    pub(super) fn take_remote_of(&mut self, earlier: &Self, changes: &mut Vec<Change>) {
        match (&mut self.kind, &earlier.kind) {
            (Kind::Remote(own), Kind::Remote(earlier)) => {
                let is_changed = *own != *earlier;
                let later = std::mem::replace(&mut own.settings, earlier.settings.clone());
                let both = own.settings.clone().zip(later).filter(|_| is_changed);
                changes.extend(both.map(|(running, later)| Change { running, later }));
            }
            (Kind::All(own), Kind::All(earlier)) => {
                for (own, earlier) in own.iter_mut().zip(earlier) {
                    own.take_remote_of(earlier, changes);
                }
            }
            (Kind::Command(_) | Kind::Remote(_) | Kind::All(_), _) => {}
        }
    }

    /// How the processes of the server are started.
    ///
    /// # Errors
    ///
    /// The means to reach the server have become unusable since they were checked.
    pub(super) fn backend(&self, args: &Arc<ServeArgs>) -> io::Result<Backend> {
        Ok(match &self.kind {
            Kind::Command(program) => {
                let make = program.start(args);
                Backend::command(make)
            }
            Kind::Remote(remote) => {
                let make = remote.start(args, &self.settings)?;
                Backend::proxy(move |_| make())
            }
            Kind::All(servers) => {
                let (servers, args, late) = (servers.clone(), Arc::clone(args), Latecomers::default());
                Backend::aggregate(move |principal| aggregate(&servers, &args, principal, &late))
            }
        })
    }

    /// Why its processes could not be started now, if that is known. One server that cannot be started does not stop the
    /// others.
    pub(super) fn problem(&self) -> Option<Problem> {
        if let Kind::Command(program) = &self.kind { program.problem() } else { None }
    }

    /// The path of one of its endpoints.
    pub(super) fn path(&self, endpoint: &str) -> String {
        match &self.name {
            Some(name) => format!("/{name}/{endpoint}"),
            None => format!("/{endpoint}"),
        }
    }

    /// Its name in metrics and in the log; the path for the only server, or for all servers as one.
    pub(super) fn label(&self) -> &str {
        self.name.as_deref().unwrap_or("/mcp")
    }

    /// The paths of all of its endpoints.
    pub(super) fn paths(&self, has_two_endpoints: bool) -> Vec<String> {
        let endpoints = if has_two_endpoints { &["mcp", "sse", "messages"][..] } else { &["mcp"] };
        endpoints.iter().map(|endpoint| self.path(endpoint)).collect()
    }

    /// The server, phrased as the subject of a sentence, without its arguments, which may be secret.
    pub(super) fn in_words(&self) -> String {
        let shown = match &self.kind {
            Kind::Command(Program { name, .. }) => format!("`{}`", escape_text(&name.to_string_lossy(), 200)),
            Kind::Remote(Remote { url, .. }) => shown_url(url),
            Kind::All(servers) => return format!("all {} servers as one", servers.len()),
        };
        match &self.name {
            Some(name) => format!("the server {name} ({shown})"),
            None => format!("the server {shown}"),
        }
    }
}

/// Another way to reach a remote server, for the sessions that are open.
pub(super) struct Change {
    running: HttpSettings,
    later: HttpSettings,
}

impl Change {
    /// Puts it in force.
    pub(super) fn apply(&self) {
        let (http, options) = self.later.current();
        // This cannot fail: both have an `Authorization` header, or neither has one.
        let _ = self.running.set(&http, options);
    }
}

impl Program {
    fn new(name: OsString, arguments: Vec<OsString>) -> Self {
        Self { name, arguments, env: Vec::new(), cwd: None }
    }

    /// Why a process could not be started now, if that is known.
    fn problem(&self) -> Option<Problem> {
        let (search, folder) = self.place();
        find_program(&self.name, search.as_deref(), &folder).err()
    }

    /// The `PATH` in which the program is looked for, and the folder in which it is started.
    fn place(&self) -> (Option<OsString>, PathBuf) {
        let own = self.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| OsString::from(value));
        let search = own.or_else(|| std::env::var_os("PATH"));
        let here = std::env::current_dir().unwrap_or_default();
        let folder = self.cwd.as_ref().map_or_else(|| here.clone(), |cwd| here.join(cwd));
        (search, folder)
    }

    /// Returns a function that makes the command to start a process for a client.
    fn start(&self, args: &ServeArgs) -> impl Fn(Option<&Principal>) -> Command + Send + Sync + 'static {
        let Self { name, arguments, env, cwd } = self.clone();
        let (search, folder) = self.place();
        let user_env = args.user_env.clone();
        let secret: Vec<String> = args.secret_variables().map(str::to_owned).collect();
        move |principal| {
            let mut command = command_in(&name, search.as_deref(), &folder);
            // One user's server must not find the tokens of others.
            for variable in &secret {
                command.env_remove(variable);
            }
            command.args(&arguments).envs(env.iter().map(|(name, value)| (name, value)));
            if let Some(cwd) = &cwd {
                command.current_dir(cwd);
            }
            if let Some(user_env) = &user_env {
                match principal {
                    Some(principal) => command.env(user_env, principal.subject().unwrap_or(principal.as_str())),
                    // A value that this process has inherited is not that of the user.
                    None => command.env_remove(user_env),
                };
            }
            command
        }
    }
}

impl Remote {
    /// A server that was not checked yet.
    pub(super) const fn new(url: String, headers: Vec<(String, String)>) -> Self {
        Self { url, headers, certificates: Vec::new(), settings: None }
    }

    /// Returns a function that makes a proxy to the server.
    fn start(
        &self,
        args: &Arc<ServeArgs>,
        settings: &ServerSettings,
    ) -> io::Result<impl Fn() -> io::Result<Proxy> + Send + Sync + 'static> {
        let Self { url, headers, certificates: _, settings: http } = self.clone();
        let http = http.ok_or_else(|| io::Error::other("the server was not checked"))?;
        let is_signed_in = !has_credentials(&headers) && !args.no_auth;
        let (args, settings) = (Arc::clone(args), settings.clone());
        Ok(move || {
            let proxy = Proxy::http_with(&http, relay_config(&args, &settings))?;
            if !is_signed_in {
                return Ok(proxy);
            }
            let authorization = args.sign_in.authorization(&url, &mut Secrets::default());
            Ok(proxy.authorization(authorization.map_err(io::Error::other)?))
        })
    }
}

/// Makes one server of all these; `principal` is its client, if there is only one and it is known.
///
/// # Errors
///
/// The means to reach one of the servers have become unusable since they were checked, or the system has no random
/// bytes.
fn aggregate(
    servers: &[Described],
    args: &Arc<ServeArgs>,
    principal: Option<&Principal>,
    late: &Latecomers,
) -> io::Result<AggregateProxy> {
    let mut config = aggregate::Config::new("mcp-proxy", env!("CARGO_PKG_VERSION"));
    config.relay = relay_config(args, &ServerSettings::default());
    config.is_shared = args.share == Share::All;
    config.lazy_tools = lazy_tools(args).map_err(io::Error::other)?;
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    config.secret = u128::from_le_bytes(secret);
    let (mut all, mut added, mut pins) = (AggregateProxy::new(config), 0, Vec::new());
    for server in servers {
        let Some(name) = &server.name else { continue };
        let mut relay = relay_config(args, &server.settings);
        let restrictions = server.settings.restrictions(args).map_err(io::Error::other)?;
        // Pins are those of the joined names. Clients do not list lazy tools, whose pins are those of their server.
        let restrictions = match args.lazy_tools {
            Some(_) => restrictions.of_server(Some(name)),
            None => restrictions.filters(),
        };
        pins.push(restrictions.apply(&mut relay).map_err(io::Error::other)?);
        let started = match &server.kind {
            Kind::Command(program) => {
                let (make, principal) = (program.start(args), principal.cloned());
                AggregateServer::command(move || make(principal.as_ref()))
            }
            Kind::Remote(remote) => AggregateServer::proxy(remote.start(args, &server.settings)?),
            Kind::All(_) => continue,
        };
        all = all.server(name, relay, started).late(late.of(added)).prefix(server.settings.prefix.clone());
        added += 1;
    }
    let shown: Vec<_> = servers.iter().map(Described::in_words).collect();
    let late = late.clone();
    Ok(all.on_event(move |event| {
        late.on_event(event);
        if let Event::Server { server, event: relay::Event::PinsChanged(changed) } = event {
            if let Some(Some(file)) = pins.get(server.index()) {
                file.store(changed);
            }
        }
        if let Some((level, text)) = log_line(event, &shown) {
            let is_caused_by_client = matches!(event, Event::Faulted(_))
                || matches!(event, Event::Server { event, .. } if is_caused_by_client(event));
            log_event(level, &text, is_caused_by_client);
        }
    }))
}

/// The tools that stay listed with `--lazy-tools`; `None` without it.
fn lazy_tools(args: &ServeArgs) -> Result<Option<Filter>, String> {
    let Some(patterns) = &args.lazy_tools else { return Ok(None) };
    let mut listed = Filter::new();
    if patterns.is_empty() {
        listed.add(Rule::deny(Primitive::Tool, "*").map_err(|error| error.to_string())?);
    }
    for pattern in patterns {
        listed.add(Rule::allow(Primitive::Tool, pattern).map_err(|error| format!("--lazy-tools: {error}"))?);
    }
    Ok(Some(listed))
}

/// Returns the level and text of the log line for an event of these servers as one.
fn log_line(event: &Event, servers: &[String]) -> Option<(Level, String)> {
    let shown = |server: &ServerKey| servers.get(server.index()).map_or("a server", String::as_str);
    Some(match event {
        Event::Server { server, event } => crate::log_line(event, shown(server))?,
        Event::ServerFailed { server, retry_in } => {
            let seconds = retry_in.as_secs_f64();
            let text = format!("{} has failed; it is started again in {seconds:.0} s", shown(server));
            (Level::Warn, text)
        }
        Event::Late { server, method } => {
            let text = format!(
                "{} has not answered {method} in time; clients do not wait for it until it was in time again",
                shown(server)
            );
            (Level::Warn, text)
        }
        Event::InTime { server, method } => {
            (Level::Info, format!("{} has answered {method} in time again", shown(server)))
        }
        Event::ListTooLong { server, method } => {
            let text =
                format!("{} has more to list than is read: clients receive a part of its {method}", shown(server));
            (Level::Warn, text)
        }
        Event::SameResource { owner, other } => {
            let text = format!(
                "{} lists a resource of {}, which has listed it first and receives the requests for it",
                shown(other),
                shown(owner)
            );
            (Level::Warn, text)
        }
        Event::SameName { owner, other, method } => {
            let text = format!(
                "{} answers {method} with names of {}; they are left out, and requests for them are sent to the latter",
                shown(other),
                shown(owner)
            );
            (Level::Warn, text)
        }
        Event::SamePage { owner, other } => {
            let text = format!(
                "a tool of {} is linked to the page of an app that {} has; clients receive the tool without the link",
                shown(other),
                shown(owner)
            );
            (Level::Warn, text)
        }
        Event::Faulted(fault) => (Level::Info, format!("from a client of all servers as one: {fault}")),
        Event::Closed(_) | _ => return None,
    })
}

/// The requests that servers did not answer in time, by the positions of the servers: what one session has waited for,
/// others do not wait for.
#[derive(Debug, Clone, Default)]
struct Latecomers(Arc<Mutex<BTreeMap<usize, Vec<Method>>>>);

impl Latecomers {
    fn of(&self, server: usize) -> Vec<Method> {
        self.all().get(&server).cloned().unwrap_or_default()
    }

    fn on_event(&self, event: &Event) {
        if let Event::Late { server, method } = event {
            let mut all = self.all();
            let of_server = all.entry(server.index()).or_default();
            if !of_server.contains(method) {
                of_server.push(method.clone());
            }
        } else if let Event::InTime { server, method } = event {
            if let Some(of_server) = self.all().get_mut(&server.index()) {
                of_server.retain(|late| late != method);
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<usize, Vec<Method>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limits and times of a proxy to a server.
fn relay_config(args: &ServeArgs, settings: &ServerSettings) -> relay::Config {
    let mut config = relay::Config::default();
    config.limits = limits_of_messages(args.max_message);
    config.request_timeout = settings.request_timeout(args);
    config.initialize_timeout = settings.start_timeout(args);
    config.max_timeout = config.max_timeout.max(config.request_timeout);
    config.seed = seed();
    config
}

/// # Errors
///
/// A text for the user.
fn http(url: &str, headers: &[(String, String)]) -> Result<HttpConfig, String> {
    let mut http = HttpConfig::new(url).map_err(|error| format!("{}: {error}", shown_url(url)))?;
    for (name, value) in headers {
        http.header(name, value).map_err(|error| format!("the header {name} for {}: {error}", shown_url(url)))?;
    }
    Ok(http)
}

fn has_credentials(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    #[test]
    fn a_proxy_waits_as_long_as_the_options_say_and_never_gives_up_earlier_than_usual() {
        let usual = relay::Config::default();
        for (seconds, longest) in [("7", usual.max_timeout), ("7200", Duration::from_secs(7200))] {
            let words = ["x", "--request-timeout", seconds, "--start-timeout", "3", "--", "sh"];
            let config = relay_config(&Line::try_parse_from(words).unwrap().args, &ServerSettings::default());
            assert_eq!(config.request_timeout.as_secs().to_string(), seconds);
            assert_eq!((config.max_timeout, config.initialize_timeout), (longest, Duration::from_secs(3)));
        }
    }

    #[test]
    fn the_options_of_the_sign_in_are_for_remote_servers_without_credentials() {
        let words = ["x", "--client-id", "i", "--client-secret-env", "MCP_PROXY_NO_SUCH_VARIABLE", "--", "sh"];
        let args = Line::try_parse_from(words).unwrap().args;
        for (header, is_refused) in [("X-Key", true), ("Authorization", false)] {
            let headers = vec![(header.to_owned(), "some-key".to_owned())];
            let kind = Kind::Remote(Remote::new("https://mcp.example/".to_owned(), headers));
            let completed = Described { name: None, kind, settings: ServerSettings::default() }.complete(
                &[],
                &args,
                &mut Secrets::default(),
            );
            assert_eq!(completed.is_err_and(|error| error.starts_with("--client-secret-env")), is_refused, "{header}");
        }
    }
}
