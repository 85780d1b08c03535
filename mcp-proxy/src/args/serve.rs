//! The command line of `mcp-proxy serve`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use clap::ValueEnum;
use mcp_intermediary::gateway::Sharing;
use mcp_proto::client::HttpConfig;

use super::{Network, Versions, seconds, versions};
use crate::environment::variables;
use crate::logging::LogOptions;
use crate::platform::check_socket_path;
use crate::restrictions::Restrictions;
use crate::sign_in::options::{HEADING, SignInOptions};

/// The object of the file of `--config` with the options.
pub(crate) const OPTIONS: &str = "serve";
/// The heading in the help for who may connect.
const ACCESS: &str = "Access options";
/// The heading in the help for the processes of servers.
const PROCESSES: &str = "Process options";

/// Where requests are recorded.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct AuditOptions {
    /// Adds a line of JSON to this file for each request that has ended
    #[arg(id = "audit", long = "audit", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Serves no request while the file of `--audit` cannot be written
    #[arg(id = "audit_required", long = "audit-required", requires = "audit")]
    pub(crate) is_required: bool,
}

/// Servers, and how clients reach them over HTTP.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    override_usage = "mcp-proxy serve [OPTIONS] -- <COMMAND>...\n       mcp-proxy serve [OPTIONS] --name <NAME=COMMAND>...\n       mcp-proxy serve [OPTIONS] --config <FILE>"
)]
pub(crate) struct ServeArgs {
    /// The command of a server over stdio, and its arguments; it is served at `/mcp`
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["names", "config"])]
    pub(crate) command: Vec<OsString>,

    /// Serves this command at `/NAME/mcp`; its words are separated by spaces, and may be quoted (repeatable)
    #[arg(long = "name", value_name = "NAME=COMMAND", value_parser = named, conflicts_with = "command")]
    pub(crate) names: Vec<Named>,

    /// Serves each server of this file at `/NAME/mcp`: the JSON object `mcpServers` of editors, for commands and URLs. Its
    /// object `serve` may have all other options
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) config: Option<PathBuf>,

    /// Checks the options, the file and whether the programs are there, and serves nothing
    #[arg(long)]
    pub(crate) check_config: bool,

    /// Reads the file of `--config` again when it has changed, as SIGHUP does
    #[arg(long, requires = "config")]
    pub(crate) watch: bool,

    /// Where to listen: an address with a port, a Unix socket, or the socket that was passed as stdin
    #[arg(long, value_name = "ADDRESS|unix:PATH|stdin", default_value = "127.0.0.1:8080")]
    pub(crate) listen: Listen,

    /// Which sessions use one process
    #[arg(long, value_enum, default_value_t = Share::Session)]
    pub(crate) share: Share,

    /// Serves the two-endpoint transport of 2024-11-05 too: `sse` and `messages` beside `mcp`
    #[arg(long)]
    pub(crate) sse: bool,

    /// The era or revision that is used with the servers; `auto` detects it
    #[arg(long, value_name = "auto|legacy|modern|REVISION", value_parser = versions, default_value = "auto")]
    pub(crate) protocol: Versions,

    /// How long a server may take to answer a request; progress extends it
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300")]
    pub(crate) request_timeout: Duration,

    /// How long a server may take to start, until it has answered `initialize`
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    pub(crate) start_timeout: Duration,

    /// How long requests in progress may still be answered after the first signal
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) drain_timeout: Duration,

    /// The largest message that is passed on, such as `64MiB`
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    pub(crate) max_message: ByteSize,

    /// How many sessions each server has at most; at the limit, an unused one ends for a new one
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000), default_value = "1000")]
    pub(crate) max_sessions: u32,

    /// How long a session is kept without a request or an open stream
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1800")]
    pub(crate) session_idle: Duration,

    /// Ends once no client was connected for this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) leave_after: Option<Duration>,

    /// How many connections there are at most; open streams of clients take half of them, and subscriptions a quarter
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..), default_value = "512")]
    pub(crate) max_connections: u16,

    /// Answers GET at this path with the numbers of sessions and processes, as JSON
    #[arg(long, value_name = "PATH", value_parser = page, num_args = 0..=1, default_missing_value = "/health")]
    pub(crate) health: Option<String>,

    /// Answers GET at this path with counts for Prometheus
    #[arg(long, value_name = "PATH", value_parser = page, num_args = 0..=1, default_missing_value = "/metrics")]
    pub(crate) metrics: Option<String>,

    #[command(flatten)]
    pub(crate) audit: AuditOptions,

    /// How many processes each server has at most
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=10_000), default_value = "100", help_heading = PROCESSES)]
    pub(crate) max_backends: u16,

    /// The working directory of commands
    #[arg(long, value_name = "FOLDER", help_heading = PROCESSES)]
    pub(crate) cwd: Option<PathBuf>,

    /// Sets an environment variable of commands; `${VAR}` in its value is replaced from the environment (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment, help_heading = PROCESSES)]
    pub(crate) env: Vec<(String, String)>,

    /// Sets this environment variable of commands to the user whose token was used; not with `--share all`
    #[arg(long, value_name = "VAR", help_heading = PROCESSES)]
    pub(crate) user_env: Option<String>,

    /// Serves only requests with the bearer token in this environment variable, sent by this user (repeatable)
    #[arg(long, value_name = "[USER=]VAR", help_heading = ACCESS)]
    pub(crate) token_env: Vec<String>,

    /// Serves only requests with a token (JWT) of this authorization server, which clients find by `--public-url`
    #[arg(long, value_name = "URL", requires = "token_keys", requires = "public_url", conflicts_with = "token_env", help_heading = ACCESS)]
    pub(crate) token_issuer: Option<String>,

    /// The public keys of the authorization server, as it publishes them at its `jwks_uri`; read again for new keys
    #[arg(long, value_name = "FILE", requires = "token_issuer", help_heading = ACCESS)]
    pub(crate) token_keys: Option<PathBuf>,

    /// The scopes that a token needs, separated by spaces
    #[arg(long, value_name = "SCOPES", requires = "token_issuer", help_heading = ACCESS)]
    pub(crate) token_scope: Option<String>,

    /// The URL at which clients reach the gateway, with the path that a reverse proxy removes and without that of a server;
    /// tokens are issued for it with the path of the server
    #[arg(long, value_name = "URL", value_parser = public_url, help_heading = ACCESS)]
    pub(crate) public_url: Option<String>,

    /// Listens on an address that other machines reach, although no token is demanded
    #[arg(long, help_heading = ACCESS)]
    pub(crate) allow_unauthenticated: bool,

    /// Serves requests for this host, such as `mcp.example.com`, besides those for this machine (repeatable)
    #[arg(long, value_name = "HOST", value_parser = host, help_heading = ACCESS)]
    pub(crate) allow_host: Vec<String>,

    /// Serves web pages of this origin, such as `https://app.example.com`, and no others (repeatable)
    #[arg(long, value_name = "ORIGIN", value_parser = origin, help_heading = ACCESS)]
    pub(crate) allow_origin: Vec<String>,

    #[command(flatten)]
    pub(crate) network: Network,

    /// Signs in to no remote server; one that demands it answers with an error
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_auth: bool,

    #[command(flatten)]
    pub(crate) sign_in: SignInOptions,

    #[command(flatten)]
    pub(crate) restrictions: Restrictions,

    /// Where several servers are one, lists `search_tools` and `call_tool` in the place of all tools, and the tools whose
    /// names there match a pattern, such as `files__*`
    #[arg(long, value_name = "PATTERN", num_args = 0..)]
    pub(crate) lazy_tools: Option<Vec<String>>,

    #[command(flatten)]
    pub(crate) log: LogOptions,

    /// Writes every message from and to processes to this file as one JSON line; secrets are removed
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// The words of the command line.
    #[arg(skip)]
    pub(crate) line: Vec<String>,

    /// The words for the options of the file of `--config`.
    #[arg(skip)]
    pub(crate) words: Vec<String>,

    /// The text of the file of `--config`.
    #[arg(skip)]
    pub(crate) file: Option<String>,

    /// The users and tokens of that file, in which variables are not replaced.
    #[arg(skip)]
    pub(crate) tokens: Vec<(String, String)>,
}

impl ServeArgs {
    /// The environment variables with secrets that are for the gateway, and not for its servers.
    pub(crate) fn secret_variables(&self) -> impl Iterator<Item = &str> {
        let of_users = self.token_env.iter().map(|option| token_variable(option).1);
        let in_file = self.tokens.iter().flat_map(|(_, token)| variables(token));
        of_users.chain(in_file).chain(self.sign_in.secret_variables())
    }

    /// The path that a reverse proxy removes, according to `--public-url`: empty, or beginning with a slash.
    pub(crate) fn public_path(&self) -> String {
        let url = self.public_url.as_ref().and_then(|url| HttpConfig::new(url).ok());
        url.map_or_else(String::new, |url| url.uri().path().trim_end_matches('/').to_owned())
    }
}

/// The user and the variable of an option `--token-env`: `VAR` or `USER=VAR`.
pub(crate) fn token_variable(option: &str) -> (&str, &str) {
    option.split_once('=').unwrap_or((option, option))
}

/// The URL at which clients reach a gateway.
fn public_url(text: &str) -> Result<String, String> {
    let url = HttpConfig::new(text).map_err(|error| error.to_string())?.uri();
    if url.query().is_some() {
        return Err("must have no query".to_owned());
    }
    Ok(text.to_owned())
}

/// The name of a host, perhaps with a port.
fn host(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_allowed) {
        Ok(text.to_owned())
    } else {
        Err("must be a host such as mcp.example.com, without a scheme and a path".to_owned())
    }
}

/// Which sessions use one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Share {
    /// Each has its own: the state of a server is that of one client
    Session,
    /// Those of one user whose clients have the same capabilities
    Principal,
    /// All use one: for servers that keep no state of a client
    All,
}

impl From<Share> for Sharing {
    fn from(share: Share) -> Self {
        match share {
            Share::Session => Self::PerSession,
            Share::Principal => Self::PerPrincipal,
            Share::All => Self::Shared,
        }
    }
}

/// Where a gateway listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listen {
    /// At an address with a port.
    Tcp(String),
    /// On a Unix socket.
    Unix(PathBuf),
    /// On a socket that was passed as stdin.
    Stdin,
    /// At a private port, whose file this is. Only proxies with `--shared` use it, so that the help does not name it.
    Private(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "stdin" {
            return Ok(Self::Stdin);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("unix: needs a path".to_owned());
            }
            check_socket_path(path.as_ref())?;
            return Ok(Self::Unix(path.into()));
        }
        if let Some(path) = text.strip_prefix("private:") {
            return Ok(Self::Private(path.into()));
        }
        let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if matches!(port, Some(Ok(_))) {
            return Ok(Self::Tcp(text.to_owned()));
        }
        Err("must be an address with a port such as 127.0.0.1:8080, unix:PATH, or stdin".to_owned())
    }
}

/// A command with the name under which it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) words: Vec<String>,
}

fn named(text: &str) -> Result<Named, String> {
    let (name, command) = text.split_once('=').ok_or_else(|| "must be NAME=COMMAND".to_owned())?;
    check_name(name)?;
    let words = words(command)?;
    if words.is_empty() {
        return Err(format!("{name} has no command"));
    }
    Ok(Named { name: name.to_owned(), words })
}

/// Checks the name of a server, which becomes a part of its path.
///
/// # Errors
///
/// A text for the user.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_allowed) || name.starts_with('.') {
        return Err(format!(
            "the name '{}' of a server must have 1 to 64 ASCII letters, digits, '-', '_' or '.', and not begin with '.'",
            mcp_proto::escape_text(name, 80)
        ));
    }
    Ok(())
}

/// Splits a command into words: they are separated by spaces; `'…'` and `"…"` keep spaces; a backslash keeps the next
/// character, but not within `'…'`. Nothing else has a meaning, so there are no variables, patterns or pipes.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == character => quote = None,
            (None | Some('"'), '\\') => {
                let next = characters.next().ok_or_else(|| "a backslash at the end".to_owned())?;
                word.get_or_insert_default().push(next);
            }
            _ => word.get_or_insert_default().push(character),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("{quote} is not closed"));
    }
    words.extend(word);
    Ok(words)
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}

fn page(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
    if is_path { Ok(text.to_owned()) } else { Err("must be a path such as /health".to_owned()) }
}

fn origin(text: &str) -> Result<String, String> {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match authority {
        Some(authority) if !authority.is_empty() && !authority.contains(['/', '?', '#', '@']) => Ok(text.to_owned()),
        _ => Err("must be an origin such as https://app.example.com, without a path".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_is_absolute_and_has_no_query() {
        for (text, is_valid) in [
            ("https://mcp.example.com", true),
            ("https://mcp.example.com/v1/", true),
            ("http://localhost:8080/v1", true),
            ("mcp.example.com", false),
            ("https://mcp.example.com/?x", false),
            ("https://user@mcp.example.com", false),
            ("/v1", false),
        ] {
            assert_eq!(public_url(text).is_ok(), is_valid, "{text}");
        }
    }

    #[test]
    fn a_command_is_split_into_words_by_spaces_quotes_and_backslashes_only() {
        for (text, expected) in [
            ("npx -y  server\t/tmp", &["npx", "-y", "server", "/tmp"][..]),
            (r#"a 'b c' "d e" f\ g"#, &["a", "b c", "d e", "f g"]),
            (r#"a'b'"c"d '' "" \'"#, &["abcd", "", "", "'"]),
            (r#"'\' "\"\\" $HOME *;|"#, &[r"\", r#""\"#, "$HOME", "*;|"]),
            ("  ", &[]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        for text in ["a 'b", "a \"b", r"a \"] {
            assert!(words(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_parts_of_paths() {
        for name in ["a", "my-server_2.0", &"x".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", ".hidden", "a/b", "a b", "é", &"x".repeat(65), "a?b", "a\nb"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        let words = vec!["b".to_owned(), "c=d".to_owned()];
        assert_eq!(named("a=b c=d"), Ok(Named { name: "a".to_owned(), words }));
        for text in ["a", "=b", "a=", "a= ", "a/b=c"] {
            assert!(named(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_place_to_listen_is_an_address_a_unix_socket_or_stdin() {
        let tcp = |text: &str| Ok(Listen::Tcp(text.to_owned()));
        for text in ["127.0.0.1:8080", "[::1]:0", "localhost:80", "0.0.0.0:65535"] {
            assert_eq!(text.parse(), tcp(text));
        }
        assert_eq!("unix:/run/a b.sock".parse(), Ok(Listen::Unix("/run/a b.sock".into())));
        assert_eq!("stdin".parse(), Ok(Listen::Stdin));
        for text in ["", "8080", "localhost", "unix:", "127.0.0.1:65536"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
        #[cfg(unix)]
        assert!(format!("unix:/{}", "x".repeat(200)).parse::<Listen>().unwrap_err().contains("too long"));
    }

    #[test]
    fn pages_are_paths_and_origins_have_no_path() {
        assert!(page("/health").is_ok() && page("health").is_err() && page("/a?b").is_err() && page("/a b").is_err());
        for (text, is_fine) in [
            ("https://app.example.com", true),
            ("http://localhost:5173", true),
            ("https://app.example.com/", false),
            ("app.example.com", false),
            ("*", false),
            ("https://", false),
        ] {
            assert_eq!(origin(text).is_ok(), is_fine, "{text}");
        }
    }
}
