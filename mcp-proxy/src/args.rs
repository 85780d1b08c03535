//! The command line.
//!
//! | file | what it does |
//! |---|---|
//! | `check_options` | whether the server is checked, and how |
//! | `file_options` | options in the file of `--config` |
//! | `help` | what the help and the man pages state besides the options, and which options they leave out |
//! | `others` | options of other programs, and what does the same |
//! | `serve` | the command line of `mcp-proxy serve` |

mod check_options;
pub(crate) mod file_options;
pub(crate) mod help;
mod others;
pub(crate) mod serve;

use std::ffi::OsString;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io, process, thread};

use bytesize::ByteSize;
use check_options::CheckOptions;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use mcp_blocking::HttpOptions;
use mcp_blocking::sign_in::{Authorization, Store};
use mcp_proto::client::{HttpConfig, HttpTransport};
use mcp_proto::{Era, Limits, ProtocolVersion, escape_text};
use serve::ServeArgs;

pub(crate) use check_options::Asked;

use crate::environment::{environment, expand};
use crate::hub::{self, Hub, SharedOptions};
use crate::logging::LogOptions;
use crate::restrictions::Restrictions;
use crate::secrets::{Secrets, shown_url};
use crate::sign_in::options::{HEADING, SignInOptions};

/// The object of the file of `--config` with the options of a proxy.
pub(crate) const OPTIONS: &str = "proxy";
/// The heading in the help for options that do not apply to a server over stdio.
const HTTP: &str = "HTTP options";

/// Connects an MCP client over stdio to an MCP server over HTTP or stdio, whichever protocol revision each of them
/// uses.
///
/// Configure it where an editor expects the command of a stdio server. If both sides use the same era, messages are
/// passed on unchanged; otherwise they are translated. The proxy handles sessions, streams, reconnection and the older
/// HTTP transports.
#[derive(Debug, Parser)]
#[command(
    name = "mcp-proxy",
    version,
    override_usage = "mcp-proxy [OPTIONS] <URL>\n       mcp-proxy [OPTIONS] -- <COMMAND>...\n       mcp-proxy serve [OPTIONS] -- <COMMAND>...\n       mcp-proxy login|logout|whoami [OPTIONS] <URL>\n       mcp-proxy demo",
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    // The same options of the subcommands conflict with nothing.
    mut_group("Network", |group| group.conflicts_with("server")),
    mut_group("SignInOptions", |group| group.conflicts_with("server")),
    mut_args(help::without_rare),
    after_long_help = help::text(help::PROXY)
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The server's URL, such as `https://example.com/mcp`, or `unix:SOCKET:/mcp` for one at a Unix socket
    #[arg(required_unless_present = "server", conflicts_with = "server")]
    url: Option<String>,

    /// The command of a server over stdio, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    server: Vec<OsString>,

    /// Takes further options from the object `proxy` of this file, such as `requestTimeout` for `--request-timeout`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    shared: SharedOptions,

    /// Adds a header to every request; `${VAR}` in its value is replaced from the environment (repeatable)
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", conflicts_with = "server", help_heading = HTTP)]
    headers: Vec<String>,

    /// Authorizes every request with the bearer token in this environment variable
    #[arg(long, value_name = "VAR", conflicts_with = "server", help_heading = HTTP)]
    bearer_env: Option<String>,

    /// The HTTP transport; `auto` detects it
    #[arg(long, value_enum, default_value_t = Transport::Auto, conflicts_with = "server", help_heading = HTTP)]
    transport: Transport,

    /// The era or revision that is used with the server; `auto` detects it
    #[arg(long, value_name = "auto|legacy|modern|REVISION", value_parser = versions, default_value = "auto")]
    protocol: Versions,

    /// How long the server may take to answer a request; progress extends it
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300")]
    pub(crate) request_timeout: Duration,

    /// How long the server may take to start, until it has answered `initialize`
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    pub(crate) start_timeout: Duration,

    /// How many requests the server may have at one time; further ones wait
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1000), default_value = "48", conflicts_with = "server", help_heading = HTTP)]
    max_requests: u16,

    /// How long the server may be silent in the middle of an answer or a stream
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300", conflicts_with = "server", help_heading = HTTP)]
    idle_timeout: Duration,

    /// How long requests in flight may still be answered once the client has closed stdin
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) drain_timeout: Duration,

    /// The largest message that is passed on, such as `64MiB`
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    max_message: ByteSize,

    #[command(flatten)]
    network: Network,

    /// Does nothing: mcp-remote needs it for `http` URLs, which are allowed here
    #[arg(long)]
    allow_http: bool,

    /// Signs in to no server; one that demands it answers with an error
    #[arg(long, conflicts_with = "server", help_heading = HEADING)]
    no_auth: bool,

    /// How long the client's `initialize` waits for a person to sign in before the proxy answers it itself
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "15", conflicts_with = "server", help_heading = HEADING)]
    pub(crate) answer_after: Duration,

    #[command(flatten)]
    sign_in: SignInOptions,

    #[command(flatten)]
    pub(crate) restrictions: Restrictions,

    #[command(flatten)]
    log: LogOptions,

    /// Writes every message to this file as one JSON line; values of headers and of the environment are removed
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    #[command(flatten)]
    check: CheckOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves clients over HTTP by processes of servers over stdio, or by remote servers
    #[command(mut_args(help::without_rare), after_long_help = help::text(help::SERVE))]
    Serve(Box<ServeArgs>),
    /// Shows a whole dialogue between an editor, this proxy and a small server
    Demo,
    /// Signs in to a server, and stores its tokens for all proxies
    #[command(after_long_help = help::text(help::ACCOUNT))]
    Login {
        /// Takes over the tokens that mcp-remote has stored, and leaves its files as they are
        #[arg(long)]
        import: bool,

        #[command(flatten)]
        account: Account,
    },
    /// Removes the stored tokens of a server
    #[command(mut_args(help::of_account), after_long_help = help::text(help::ACCOUNT))]
    Logout(Account),
    /// Prints with whose tokens a server is used
    #[command(mut_args(help::of_account), after_long_help = help::text(help::ACCOUNT))]
    Whoami(Account),
}

/// A server, and the options that determine with which tokens it is used.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Account {
    /// The server's URL, such as `https://example.com/mcp`
    url: String,

    #[command(flatten)]
    network: Network,

    #[command(flatten)]
    sign_in: SignInOptions,

    #[command(flatten)]
    log: LogOptions,
}

/// How servers are connected to.
#[derive(Debug, clap::Args)]
pub(crate) struct Network {
    /// How long connecting to the server may take
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10", help_heading = HTTP)]
    connect_timeout: Duration,

    /// Trusts the certificate authorities, or the servers' own certificates, in this PEM file besides those of the system
    #[arg(long, value_name = "PEM", help_heading = HTTP)]
    ca_file: Option<PathBuf>,

    /// The TLS client certificate
    #[arg(long, value_name = "PEM", requires = "client_key", help_heading = HTTP)]
    client_cert: Option<PathBuf>,

    /// The private key of the certificate
    #[arg(long, value_name = "PEM", requires = "client_cert", help_heading = HTTP)]
    client_key: Option<PathBuf>,

    /// Reaches the server through this HTTP proxy; by default, `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`
    /// apply, except for servers on this machine
    #[arg(long, value_name = "URL", help_heading = HTTP)]
    proxy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Transport {
    /// Streamable HTTP, or the two-endpoint transport of 2024-11-05 if the server has only that
    #[value(alias = "http-first", alias = "sse-first")]
    Auto,
    /// One endpoint
    #[value(alias = "http-only", alias = "http", alias = "streamablehttp")]
    StreamableHttp,
    /// The older transport of 2024-11-05: an SSE stream, and a second endpoint whose URL it contains
    #[value(alias = "sse-only", alias = "sse")]
    HttpSse,
}

/// Protocol revisions that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versions(pub(crate) Vec<ProtocolVersion>);

/// The text that stands for these revisions on the command line.
impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_group = |text: &&str| versions(text).is_ok_and(|versions| versions == *self);
        let group = ["auto", "legacy", "modern"].into_iter().find(is_group);
        f.write_str(group.or(self.0.first().map(|version| version.as_str())).unwrap_or_default())
    }
}

fn versions(text: &str) -> Result<Versions, String> {
    let of_era = |era| ProtocolVersion::ALL.iter().copied().filter(|version| version.rules().era == era).collect();
    Ok(Versions(match text {
        "auto" => ProtocolVersion::ALL.to_vec(),
        "legacy" => of_era(Era::Legacy),
        "modern" => of_era(Era::Modern),
        _ => vec![ProtocolVersion::from_text(text).ok_or_else(|| {
            let known = ProtocolVersion::ALL.iter().map(|version| version.as_str()).collect::<Vec<_>>().join(", ");
            format!("neither auto, legacy, modern nor one of {known}")
        })?],
    }))
}

/// The settings from the command line.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) server: Server,
    pub(crate) versions: Vec<ProtocolVersion>,
    pub(crate) limits: Limits,
    /// Values that are removed from the recording, the log and the output of `--check`.
    pub(crate) secrets: Arc<Secrets>,
}

/// How the server is reached.
#[derive(Debug)]
pub(crate) enum Server {
    Http {
        http: Box<HttpConfig>,
        options: HttpOptions,
        /// `None` if credentials are configured, or none are to be sent (OA-T-06).
        authorization: Option<Box<Authorization>>,
    },
    Child(process::Command),
}

impl Server {
    /// The server, phrased as the subject of a sentence. For a command, only the program, because its arguments may be
    /// secret.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Http { .. } => format!("the server at {self}"),
            Self::Child(_) => format!("the server `{self}`"),
        }
    }

    /// The number of arguments of a command, which are not shown.
    pub(crate) fn arguments(&self) -> usize {
        match self {
            Self::Http { .. } => 0,
            Self::Child(command) => command.get_args().len(),
        }
    }
}

/// Omits the arguments: `env TOKEN=… node server.js` and `uvx --from git+https://token@…` contain secrets, and it
/// cannot be determined which arguments do.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { http, .. } => f.write_str(&http.server()),
            Self::Child(command) => f.write_str(&escape_text(&command.get_program().to_string_lossy(), 200)),
        }
    }
}

impl Args {
    /// Builds the settings from the command line; reads the files and environment variables that it refers to.
    ///
    /// # Errors
    ///
    /// A text for the user, to be shown with the usage.
    pub(crate) fn settings(&self) -> Result<Settings, String> {
        let mut secrets = Secrets::default();
        let server = if self.shared.shared {
            let hub = self.hub().map_err(|error| format!("--shared: {error}"))?;
            let http = HttpConfig::new(hub::URL).map_err(|error| error.to_string())?;
            let mut options = HttpOptions::new();
            hub.reach(&mut options);
            Server::Http { http: Box::new(http), options, authorization: None }
        } else if let Some((program, arguments)) = self.server.split_first() {
            let mut command = mcp_platform::command(program);
            command.args(arguments);
            Server::Child(command)
        } else {
            let http = self.http(&mut secrets)?;
            let mut options = self.network.options(&http, &mut secrets)?;
            let has_credentials =
                self.bearer_env.is_some() || self.headers.iter().any(|header| is_authorization(header));
            let socket = unix_socket(self.url());
            if let Some((path, _)) = socket {
                options.unix_socket(path);
            }
            // Who may connect to a Unix socket is decided by the permissions of its file.
            let authorization = if self.no_auth || has_credentials || socket.is_some() {
                self.sign_in.refuse_any()?;
                None
            } else {
                Some(Box::new(self.sign_in.authorization(self.url(), &mut secrets)?))
            };
            Server::Http { http: Box::new(http), options, authorization }
        };
        let mut limits = limits_of_messages(self.max_message);
        limits.exchanges = Limits::exchanges_for(self.max_requests.into());
        limits.check().map_err(|error| format!("--max-message: {error}"))?;
        Ok(Settings { server, versions: self.protocol.0.clone(), limits, secrets: Arc::new(secrets) })
    }

    fn http(&self, secrets: &mut Secrets) -> Result<HttpConfig, String> {
        let url = match unix_socket(self.url()) {
            Some((_, path)) => format!("http://localhost{path}"),
            None => self.url().to_owned(),
        };
        let mut http = HttpConfig::new(&url).map_err(|error| format!("{}: {error}", self.shown_url()))?;
        http.transport = match self.transport {
            Transport::Auto => HttpTransport::Auto,
            Transport::StreamableHttp => HttpTransport::StreamableHttp,
            Transport::HttpSse => HttpTransport::HttpSse,
        };
        http.idle_timeout = self.idle_timeout;
        for header in &self.headers {
            let (name, value) =
                header.split_once(':').ok_or_else(|| "--header: a header is written as 'Name: value'".to_owned())?;
            let name = name.trim();
            let value = expand(value.trim(), secrets).map_err(|error| format!("--header {name}: {error}"))?;
            http.header(name, &value).map_err(|error| format!("--header {name}: {error}"))?;
            let is_authorization = is_authorization(header);
            if is_authorization && self.bearer_env.is_some() {
                return Err(
                    "--header Authorization cannot be used with --bearer-env, which sets that header".to_owned()
                );
            }
            let source = format!("the header {name}");
            // The part after the scheme, such as `Bearer`, is a secret by itself.
            if let Some((_, credentials)) = value.split_once(' ').filter(|_| is_authorization) {
                secrets.add(&source, credentials.trim());
            }
            secrets.add(source, &value);
        }
        if let Some(variable) = &self.bearer_env {
            let token = environment(variable).map_err(|error| format!("--bearer-env: {error}"))?;
            if token.is_empty() {
                return Err(format!("--bearer-env: the environment variable {variable} is empty"));
            }
            let source = format!("the environment variable {variable}");
            http.header("Authorization", &format!("Bearer {token}"))
                .map_err(|_| format!("--bearer-env: {source} holds characters that no header may have: a line break or another control character"))?;
            secrets.add(source, &token);
        }
        Ok(http)
    }

    /// What `--check` has to do.
    ///
    /// # Errors
    ///
    /// A text for the user, to be shown with the usage.
    pub(crate) fn asked(&self) -> Result<Asked, String> {
        self.check.asked(&self.restrictions)
    }

    /// Whether the server is to be checked.
    pub(crate) const fn is_check(&self) -> bool {
        self.check.is_check()
    }

    /// How long answers may take to `--check`.
    pub(crate) const fn timeouts(&self) -> Timeouts {
        Timeouts { request: self.request_timeout, start: self.start_timeout }
    }

    /// The process that serves all instances with the same command.
    fn hub(&self) -> io::Result<Hub> {
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        let options = [
            ("--request-timeout", seconds(self.request_timeout)),
            ("--start-timeout", seconds(self.start_timeout)),
            ("--max-message", self.max_message.as_u64().to_string()),
            ("--protocol", self.protocol.to_string()),
        ];
        Hub::new(&self.shared, &options, &self.server, &self.log)
    }

    /// The URL; empty only if there is a command instead.
    fn url(&self) -> &str {
        self.url.as_deref().unwrap_or_default()
    }

    /// The URL without the parts that may be secret.
    fn shown_url(&self) -> String {
        shown_url(self.url())
    }

    /// Where the log is written.
    pub(crate) const fn log(&self) -> &LogOptions {
        match &self.command {
            Some(Command::Login { account, .. } | Command::Logout(account) | Command::Whoami(account)) => &account.log,
            Some(Command::Serve(serve)) => &serve.log,
            Some(Command::Demo) | None => &self.log,
        }
    }

    /// The command line of this process, with the options of the file that it names. Exits with a usage error if one is
    /// invalid.
    pub(crate) fn of_process() -> Self {
        // To read all options takes some 200 KB of a stack. The main thread would keep them; this one ends.
        thread::scope(|scope| match thread::Builder::new().spawn_scoped(scope, Self::read) {
            Ok(reading) => reading.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => Self::read(),
        })
    }

    fn read() -> Self {
        let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let file = OptionFile::of_line(&words, &|words| words).unwrap_or_else(|error| Self::exit_with_usage(&error));
        Self::of_words(&words, file).unwrap_or_else(|error| error.exit())
    }

    /// The command line of `serve` with these words, and the options of the file that it names, which `change` may change.
    ///
    /// # Errors
    ///
    /// A text for the user.
    pub(crate) fn serve_of_words(
        words: &[String],
        change: &dyn Fn(Vec<String>) -> Vec<String>,
    ) -> Result<ServeArgs, String> {
        let file = OptionFile::of_line(words, change)?;
        let args = Self::of_words(words, file).map_err(|error| {
            // The rest is the usage.
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        })?;
        match args.command {
            Some(Command::Serve(serve)) => Ok(*serve),
            Some(_) | None => Err("the command is not serve".to_owned()),
        }
    }

    fn of_words(words: &[String], file: Option<OptionFile>) -> Result<Self, clap::Error> {
        let mut all = words.to_vec();
        if let Some(file) = &file {
            let place = file.place.min(all.len());
            all.splice(place..place, file.words.iter().cloned());
        }
        let mut args = Self::try_parse_words(&all)?;
        if let Some(Command::Serve(serve)) = &mut args.command {
            serve.line = words.to_vec();
            if let Some(file) = file {
                (serve.file, serve.words, serve.tokens) = (Some(file.text), file.words, file.tokens);
            }
        }
        Ok(args)
    }

    fn try_parse_words(words: &[String]) -> Result<Self, clap::Error> {
        Self::try_parse_from(words).map_err(|error| others::explained(error, words, &mut subcommand(words.get(1))))
    }

    /// Exits with a usage error, as for an invalid command line.
    pub(crate) fn exit_with_usage(message: &str) -> ! {
        let word = std::env::args().nth(1);
        subcommand(word.as_ref()).error(ErrorKind::ValueValidation, message).exit()
    }
}

/// The file of `--config`, which may have further options.
struct OptionFile {
    text: String,
    /// How many words of the command line its options follow.
    place: usize,
    /// The options of the file, as words of the command line.
    words: Vec<String>,
    tokens: Vec<(String, String)>,
}

impl OptionFile {
    /// Reads the file that the command line with these words names, if there is one. `change` may change the words for its
    /// options.
    ///
    /// # Errors
    ///
    /// A text for the user.
    fn of_line(words: &[String], change: &dyn Fn(Vec<String>) -> Vec<String>) -> Result<Option<Self>, String> {
        let mut command = Args::command().ignore_errors(true);
        command.build();
        let matches = command.clone().try_get_matches_from(words).ok();
        let Some(matches) = matches.as_ref() else { return Ok(None) };
        let (options, matches, place) = match matches.subcommand() {
            Some((name, matches)) if name == serve::OPTIONS => (name, matches, 2),
            Some(_) => return Ok(None),
            None => (OPTIONS, matches, 1),
        };
        let Some(path) = matches.get_one::<PathBuf>("config") else { return Ok(None) };
        let in_file = |error: String| format!("--config {}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| in_file(error.to_string()))?;
        let command = subcommand(words.get(1));
        let is_set = |long: &str| {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(long));
            arg.and_then(|arg| matches.value_source(arg.get_id().as_str())) == Some(ValueSource::CommandLine)
        };
        let words = file_options::words(&command, options, &text, is_set).map_err(|mistake| in_file(mistake.into()))?;
        let tokens = file_options::tokens(&text).map_err(|mistake| in_file(mistake.into()))?;
        Ok(Some(Self { text, place, words: change(words), tokens }))
    }
}

/// The command whose usage is shown: the subcommand that this word names, or else the whole program.
fn subcommand(word: Option<&String>) -> clap::Command {
    let mut command = Args::command();
    command.build();
    let found = word.and_then(|word| command.find_subcommand(word)).cloned();
    found.unwrap_or(command)
}

/// How long answers may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) request: Duration,
    /// The time for the answer to `initialize`.
    pub(crate) start: Duration,
}

impl Account {
    /// The server's configuration, and how it is signed in to.
    ///
    /// # Errors
    ///
    /// A text for the user, to be shown with the usage.
    fn settings(&self) -> Result<AccountSettings, String> {
        let mut secrets = Secrets::default();
        let http = HttpConfig::new(&self.url).map_err(|error| format!("{}: {error}", shown_url(&self.url)))?;
        let options = self.network.options(&http, &mut secrets)?;
        let authorization = self.sign_in.authorization(&self.url, &mut secrets)?;
        let (url, store) = (self.url.clone(), self.sign_in.store(&self.url)?);
        Ok(AccountSettings { url, http, options, authorization, store, secrets: Arc::new(secrets) })
    }

    /// The settings. If there are none, this ends the process as for an invalid command line.
    pub(crate) fn settings_or_exit(&self) -> AccountSettings {
        self.settings().unwrap_or_else(|message| Args::exit_with_usage(&message))
    }
}

/// The settings of a command about an account.
pub(crate) struct AccountSettings {
    pub(crate) url: String,
    pub(crate) http: HttpConfig,
    pub(crate) options: HttpOptions,
    pub(crate) authorization: Authorization,
    pub(crate) store: Box<dyn Store>,
    pub(crate) secrets: Arc<Secrets>,
}

/// The limits with which messages of this size are passed on.
pub(crate) fn limits_of_messages(largest: ByteSize) -> Limits {
    let largest = usize::try_from(largest.as_u64()).unwrap_or(usize::MAX);
    let mut limits = Limits::default();
    limits.message = largest;
    limits.event = largest;
    limits.queue_bytes = limits.queue_bytes.max(largest);
    limits
}

/// Whether a header is `Authorization`.
fn is_authorization(header: &str) -> bool {
    header.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("authorization"))
}

/// The socket and the path of the URL in `unix:SOCKET:PATH`; without a path, it is `/mcp`.
fn unix_socket(url: &str) -> Option<(&Path, &str)> {
    let rest = url.strip_prefix("unix:")?;
    let (socket, path) = match rest.find(":/") {
        Some(place) => (rest.get(..place)?, rest.get(place + 1..)?),
        None => (rest, "/mcp"),
    };
    Some((Path::new(socket), path))
}

impl Network {
    /// What the files with certificates contain. One that cannot be read is named with the options.
    pub(crate) fn certificates(&self) -> Vec<Vec<u8>> {
        let files = [&self.ca_file, &self.client_cert, &self.client_key].into_iter().flatten();
        files.map(|file| std::fs::read(file).unwrap_or_default()).collect()
    }

    pub(crate) fn options(&self, http: &HttpConfig, secrets: &mut Secrets) -> Result<HttpOptions, String> {
        let mut options = HttpOptions::new();
        options.connect_timeout = self.connect_timeout;
        options.user_agent = String::from(concat!("mcp-proxy/", env!("CARGO_PKG_VERSION")));
        let read = |flag: &str, path: &PathBuf| {
            std::fs::read(path).map_err(|error| format!("{flag} {}: {error}", path.display()))
        };
        if let Some(path) = &self.ca_file {
            let pem = read("--ca-file", path)?;
            options.trust(&pem).map_err(|error| format!("--ca-file {}: {error}", path.display()))?;
        }
        if let (Some(certificate), Some(key)) = (&self.client_cert, &self.client_key) {
            let certificate_pem = read("--client-cert", certificate)?;
            let key_pem = read("--client-key", key)?;
            options.identify(&certificate_pem, &key_pem).map_err(|error| {
                format!("--client-cert {}, --client-key {}: {error}", certificate.display(), key.display())
            })?;
        }
        if let Some(proxy) = &self.proxy {
            options.proxy(proxy).map_err(|error| format!("--proxy: {error}"))?;
        }
        options.read_env(http).map_err(|error| error.to_string())?;
        if let Some(password) = options.proxy_password() {
            secrets.add("the password of the HTTP proxy", password);
        }
        Ok(options)
    }
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| "not a number of seconds".to_owned())?;
    let week = Duration::from_secs(7 * 24 * 3600);
    if duration.is_zero() || duration > week {
        return Err("must be more than 0 and at most a week".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_programs_have_is_accepted_or_answered_with_what_does_the_same() {
        let parse = |words: &[&str]| {
            let words: Vec<_> = [&["mcp-proxy"], words].concat().into_iter().map(str::to_owned).collect();
            Args::try_parse_words(&words)
        };
        for transport in ["http-first", "sse-first", "http-only", "sse-only"] {
            parse(&["http://x/mcp", "--allow-http", "--transport", transport]).unwrap();
        }
        for (words, expected) in [
            (&["https://x/mcp", "--debug"][..], "--log-level debug"),
            (&["https://x/mcp", "3334"], "--callback-port 3334"),
            (&["https://x/mcp", "--header", "Authorization:", "Bearer t"], "--header \"Authorization:${VARIABLE}\""),
            (&["https://x/mcp", "--oauth2Bearer=t"], "--bearer-env VARIABLE"),
            (&["--stdio", "npx server"], "mcp-proxy serve -- COMMAND"),
            (&["--streamableHttp", "https://x/mcp"], "mcp-proxy URL"),
            (&["check", "https://x/mcp"], "mcp-proxy --check URL"),
            (&["serve", "--port", "8000", "--", "x"], "--listen 127.0.0.1:PORT"),
            (&["serve", "cat"], "mcp-proxy serve -- COMMAND"),
            (&["serve", "--listen", "127.0.0.1:0", "npx", "-y", "server"], "mcp-proxy serve -- COMMAND"),
            (&["serve", "https://x/mcp"], "mcp-proxy serve --config FILE"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.kind() == ErrorKind::UnknownArgument && error.exit_code() == 2, "{words:?}");
            assert!(error.to_string().contains(expected), "{words:?}: {error}");
        }
        let error = parse(&["serve", "--port", "8000", "--", "x"]).unwrap_err().to_string();
        assert!(error.contains("Usage: mcp-proxy serve"), "{error}");
        assert!(parse(&["https://x/mcp", "--unheard-of"]).is_err());
    }

    #[test]
    fn the_page_for_those_who_come_from_other_programs_has_commands_that_exist_and_options_that_are_answered() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/coming-from.md");
        let page = std::fs::read_to_string(page).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
        let spans = |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let (mut commands, mut options) = (0, 0);
        for (theirs, ours) in rows {
            for command in spans(ours).iter().filter(|span| span.starts_with("mcp-proxy ")) {
                let words = serve::words(&command.replace("URL", "https://example.com/mcp")).unwrap();
                let parsed = Args::try_parse_words(&words);
                assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
                commands += 1;
            }
            for option in spans(theirs).iter().filter(|span| span.starts_with("--")) {
                let option = option.split(' ').next().unwrap();
                let words = ["mcp-proxy", option, "https://x/mcp"].map(str::to_owned);
                let error = Args::try_parse_words(&words).err().map(|error| error.to_string()).unwrap_or_default();
                assert!(!error.contains("unexpected argument '--") || error.contains("': "), "{option}: {error}");
                options += 1;
            }
        }
        assert!(commands > 40 && options > 30, "{commands} commands, {options} options");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn revisions_are_named_alone_or_by_their_era() {
        for (text, count) in [("auto", 5), ("legacy", 4), ("modern", 1), ("2025-06-18", 1)] {
            assert_eq!(versions(text).map(|versions| versions.0.len()), Ok(count), "{text}");
        }
        assert!(versions("2025-06-19").unwrap_err().contains("2026-07-28"));
    }

    #[test]
    fn durations_are_positive_and_finite() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("604800"), Ok(Duration::from_secs(7 * 24 * 3600)));
        for text in ["0", "-1", "inf", "1e9", "604800.1"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        for text in ["NaN", "ten"] {
            assert_eq!(seconds(text), Err("not a number of seconds".to_owned()), "{text}");
        }
    }

    fn settings(args: &[&str]) -> Result<Settings, String> {
        Args::try_parse_from([&["mcp-proxy"], args].concat()).unwrap().settings()
    }

    fn http(args: &[&str]) -> (HttpConfig, HttpOptions) {
        match settings(&[args, &["http://127.0.0.1:1/mcp"]].concat()).unwrap().server {
            Server::Http { http, options, .. } => (*http, options),
            Server::Child(_) => panic!("there is a URL"),
        }
    }

    #[test]
    fn every_option_about_http_reaches_the_configuration() {
        let (config, options) = http(&[]);
        assert_eq!(config.transport, HttpTransport::Auto);
        assert_eq!(config.idle_timeout, Duration::from_secs(300));
        assert_eq!(options.connect_timeout, Duration::from_secs(10));
        assert_eq!(options.user_agent, concat!("mcp-proxy/", env!("CARGO_PKG_VERSION")));
        let (config, options) = http(&["--idle-timeout", "7", "--connect-timeout", "8"]);
        assert_eq!((config.idle_timeout, options.connect_timeout), (Duration::from_secs(7), Duration::from_secs(8)));
        for (name, transport) in
            [("streamable-http", HttpTransport::StreamableHttp), ("http-sse", HttpTransport::HttpSse)]
        {
            assert_eq!(http(&["--transport", name]).0.transport, transport);
        }
    }

    #[test]
    fn the_number_of_requests_is_a_limit_of_the_machines() {
        for (args, exchanges) in
            [(&[][..], Limits::default().exchanges), (&["--max-requests", "3"], Limits::exchanges_for(3))]
        {
            let settings = settings(&[args, &["http://127.0.0.1/"]].concat()).unwrap();
            assert_eq!(settings.limits.exchanges, exchanges, "{args:?}");
        }
    }

    #[test]
    fn the_largest_message_is_a_limit_of_the_machines_and_of_their_queues() {
        let of = |size| settings(&["--max-message", size, "http://127.0.0.1/"]).unwrap().limits;
        let usual = Limits::default().queue_bytes;
        for (size, bytes, queue) in [
            ("64KiB", 64 << 10, usual),
            ("512MiB", 512 << 20, usual.max(512 << 20)),
            ("1GiB", 1 << 30, usual.max(1 << 30)),
        ] {
            let limits = of(size);
            assert_eq!((limits.message, limits.event, limits.queue_bytes), (bytes, bytes, queue), "{size}");
        }
        for size in ["0", "2GiB"] {
            let error = settings(&["--max-message", size, "http://127.0.0.1/"]).unwrap_err();
            assert!(error.starts_with("--max-message: the limit 'message' must be"), "{error}");
        }
    }

    #[test]
    fn a_command_is_run_with_its_arguments_of_which_none_is_shown() {
        let settings = settings(&["--protocol", "2025-06-18", "--", "a\tb", "--token", "secret"]).unwrap();
        assert_eq!(settings.versions, [ProtocolVersion::V2025_06_18]);
        assert_eq!(settings.server.arguments(), 2);
        assert_eq!(settings.server.in_words(), r"the server `a\tb`");
        let Server::Child(command) = settings.server else { panic!("there is a command") };
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["--token", "secret"]);
    }

    #[test]
    fn a_server_over_http_is_shown_without_its_query() {
        let Settings { server, .. } = settings(&["http://127.0.0.1:1/mcp?key=secret"]).unwrap();
        assert_eq!((server.in_words().as_str(), server.arguments()), ("the server at http://127.0.0.1:1/mcp", 0));
        for (url, shown) in [
            ("ftp://a.example/x?key=secret", "ftp://a.example/x: "),
            ("ftp://a.example/x#secret", "ftp://a.example/x: "),
            ("http://user:secret@a.example/", "the URL: "),
        ] {
            let error = settings(&[url]).unwrap_err();
            assert!(error.starts_with(shown) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn whatever_authorizes_is_left_out_of_records() {
        // The environment of this process cannot be changed, but it always has this variable.
        let path = std::env::var("PATH").unwrap();
        for (args, secret) in [
            (vec!["-H", "Authorization: Bearer  token-4711"], "token-4711"),
            (vec!["-H", "X-Key: of two words"], "of two words"),
            (vec!["-H", "X-Key: ${PATH}!"], path.as_str()),
            (vec!["--bearer-env", "PATH"], path.as_str()),
            (vec!["--proxy", "http://user:pass-word@127.0.0.1:1"], "pass-word"),
        ] {
            let settings = settings(&[&args[..], &["http://127.0.0.1/"]].concat()).unwrap();
            assert_eq!(settings.secrets.leave_out(&format!("-{secret}-")), "-[secret]-", "{args:?}");
        }
        let both = ["--bearer-env", "PATH", "-H", "X-Key: a b", "-H", "authorization: c", "http://127.0.0.1/"];
        assert!(settings(&both).unwrap_err().contains("cannot be used with --bearer-env"));
        // Only in the header `Authorization`, the part after a space is a secret by itself. Other headers are allowed
        // with `--bearer-env`.
        let settings = settings(&["--bearer-env", "PATH", "-H", "X-Key: one two-three", "http://127.0.0.1/"]).unwrap();
        assert_eq!(settings.secrets.leave_out("two-three"), "two-three");
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_their_option() {
        let file = std::env::current_exe().unwrap().with_extension("no-pem");
        std::fs::write(&file, "no PEM").unwrap();
        let path = file.to_str().unwrap();
        for (args, text) in [
            (vec!["--ca-file", path], format!("--ca-file {path}: ")),
            (vec!["--client-cert", path, "--client-key", path], format!("--client-cert {path}, --client-key {path}: ")),
            (vec!["--ca-file", "/no/such"], "--ca-file /no/such: ".to_owned()),
            (vec!["--client-cert", "/no/such", "--client-key", path], "--client-cert /no/such: ".to_owned()),
            (vec!["--client-cert", path, "--client-key", "/no/such"], "--client-key /no/such: ".to_owned()),
            (vec!["--proxy", "socks5://127.0.0.1"], "--proxy: ".to_owned()),
        ] {
            let error = settings(&[&args[..], &["https://127.0.0.1/"]].concat()).unwrap_err();
            assert!(error.starts_with(&text), "{error}");
        }
        std::fs::remove_file(file).unwrap();
    }
}
