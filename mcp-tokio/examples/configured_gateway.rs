//! A gateway on tokio that reads the configuration file of `mcp-proxy serve`:
//! `cargo run -p mcp-tokio --example configured_gateway -- 127.0.0.1:3000 servers.json`
//!
//! Each server is at `/NAME/mcp`, as there. Fields that this gateway has no meaning for are refused.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use std::{env, error, fs, io};

use aws_lc_rs::digest::{SHA256, digest};
use axum::Router;
use axum::routing::get;
use http::header::AUTHORIZATION;
use http::request::Parts;
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use mcp_tokio::intermediary::gateway::{Config, Sharing};
use mcp_tokio::intermediary::relay::{self, Filter, Rule};
use mcp_tokio::proto::auth::Challenge;
use mcp_tokio::proto::server::Principal;
use mcp_tokio::proto::spec::Primitive;
use mcp_tokio::{Backend, Gateway, HttpOptions, Proxy, proto};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::process::Command;

type Error = Box<dyn error::Error>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    #[serde(rename = "$schema", default)]
    _schema: String,
    #[serde(default)]
    serve: Options,
    #[serde(alias = "servers")]
    mcp_servers: BTreeMap<String, Server>,
}

/// What applies to all servers.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Options {
    /// Whether the sessions and processes are shown at `/metrics`.
    metrics: bool,
    /// Users and their tokens.
    tokens: BTreeMap<String, String>,
    request_timeout: Option<f64>,
    start_timeout: Option<f64>,
    share: Option<Share>,
    allow_tool: Vec<String>,
    deny_tool: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Server {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
    disabled: bool,
    disabled_tools: Vec<String>,
    tools: Lists,
    prompts: Lists,
    resources: Lists,
    timeout: Option<f64>,
    start_timeout: Option<f64>,
    share: Option<Share>,
    #[serde(rename = "type")]
    _type: Option<String>,
    #[serde(rename = "alwaysAllow")]
    _always_allow: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Lists {
    allow: Vec<String>,
    deny: Vec<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Share {
    Session,
    Principal,
    All,
}

/// Replaces `${VAR}` by the variable of the environment, and `${file:PATH}` by the content of the file.
fn expand(text: &str) -> Result<String, Error> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or("'${' without '}'")?;
        let value = match name.strip_prefix("file:") {
            Some(path) => fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?,
            None => env::var(name).map_err(|error| format!("{name}: {error}"))?,
        };
        expanded.extend([before, value.trim_end_matches(['\r', '\n'])]);
        rest = after;
    }
    Ok(expanded + rest)
}

/// The variables of the environment that texts contain.
fn variables<'t>(texts: impl Iterator<Item = &'t String>) -> Vec<String> {
    let names = texts.flat_map(|text| text.split("${").skip(1)).filter_map(|rest| rest.split_once('}'));
    names.map(|(name, _)| name.to_owned()).collect()
}

fn expand_values(values: &mut BTreeMap<String, String>) -> Result<(), Error> {
    values.values_mut().try_for_each(|value| {
        *value = expand(value)?;
        Ok(())
    })
}

impl Server {
    fn expand(&mut self) -> Result<(), Error> {
        for text in self.command.iter_mut().chain(&mut self.args).chain(&mut self.cwd).chain(&mut self.url) {
            *text = expand(text)?;
        }
        expand_values(&mut self.env)?;
        expand_values(&mut self.headers)
    }

    /// What clients may use. A rule that allows excludes all that no such rule allows.
    fn filter(&self, options: &Options) -> Result<Filter, Error> {
        let mut filter = Filter::new();
        for (kind, lists) in [
            (Primitive::Tool, &self.tools),
            (Primitive::Tool, &Lists { allow: options.allow_tool.clone(), deny: options.deny_tool.clone() }),
            (Primitive::Tool, &Lists { allow: Vec::new(), deny: self.disabled_tools.clone() }),
            (Primitive::Prompt, &self.prompts),
            (Primitive::Resource, &self.resources),
        ] {
            for pattern in &lists.allow {
                filter.add(Rule::allow(kind, pattern)?);
            }
            for pattern in &lists.deny {
                filter.add(Rule::deny(kind, pattern)?);
            }
        }
        Ok(filter)
    }

    fn config(&self, name: &str, options: &Options) -> Result<Config, Error> {
        let mut config = Config::default();
        config.sharing = match self.share.or(options.share) {
            None | Some(Share::Session) => Sharing::PerSession,
            Some(Share::Principal) => Sharing::PerPrincipal,
            Some(Share::All) => Sharing::Shared,
        };
        config.http.path = Some(format!("/{name}/mcp").into());
        config.relay.filter = self.filter(options)?;
        if let Some(seconds) = self.timeout.or(options.request_timeout) {
            config.relay.request_timeout = Duration::try_from_secs_f64(seconds)?;
        }
        if let Some(seconds) = self.start_timeout.or(options.start_timeout) {
            config.relay.initialize_timeout = Duration::try_from_secs_f64(seconds)?;
        }
        Ok(config)
    }

    /// A process of the server, without these variables in its environment, or the way to a remote one.
    fn backend(&self, relay: relay::Config, secret: &[String]) -> io::Result<Backend> {
        if let Some(program) = &self.command {
            let mut command = Command::new(program);
            for variable in secret {
                command.env_remove(variable);
            }
            command.args(&self.args).envs(&self.env);
            if let Some(folder) = &self.cwd {
                command.current_dir(folder);
            }
            return Ok(Backend::child(command));
        }
        let mut http =
            proto::client::HttpConfig::new(self.url.as_deref().unwrap_or_default()).map_err(io::Error::other)?;
        for (name, value) in &self.headers {
            http.header(name, value).map_err(io::Error::other)?;
        }
        Ok(Backend::proxy(Proxy::http(http, HttpOptions::new(), relay)?))
    }
}

/// The users by the SHA-256 of their tokens: how long a lookup takes shows nothing of a token.
struct Users(HashMap<Vec<u8>, Principal>);

impl Users {
    fn new(tokens: &BTreeMap<String, String>) -> Result<Self, Error> {
        let user = |(user, token): (&String, &String)| Ok((hash(expand(token)?.as_bytes()), Principal::new(user)));
        let users: HashMap<_, _> = tokens.iter().map(user).collect::<Result<_, Error>>()?;
        if users.len() < tokens.len() || users.contains_key(&hash(b"")) {
            return Err("serve.tokens: each user needs a token of their own".into());
        }
        Ok(Self(users))
    }

    fn authenticate(&self, head: &Parts) -> Result<Principal, Challenge> {
        let Some(field) = head.headers.get(AUTHORIZATION) else { return Err(Challenge::bearer()) };
        let token = field.to_str().ok().and_then(|field| field.strip_prefix("Bearer "));
        let user = token.and_then(|token| self.0.get(&hash(token.as_bytes())));
        user.cloned().ok_or_else(|| Challenge::bearer().with("error", "invalid_token"))
    }
}

fn hash(token: &[u8]) -> Vec<u8> {
    digest(&SHA256, token).as_ref().to_vec()
}

fn read(path: &str) -> Result<File, Error> {
    let text = fs::read_to_string(path)?;
    let value = parse_to_serde_value(&text, &ParseOptions::default())?.ok_or("the file is empty")?;
    let mut file: File = serde_json::from_value(value)?;
    file.mcp_servers.retain(|_, server| !server.disabled);
    for (name, server) in &mut file.mcp_servers {
        if server.command.is_some() == server.url.is_some() {
            return Err(format!("mcpServers.{name} must have a command or a url").into());
        }
        server.expand().map_err(|error| format!("mcpServers.{name}: {error}"))?;
    }
    Ok(file)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let [address, path] = [1, 2].map(|at| env::args().nth(at).ok_or("usage: configured_gateway ADDRESS FILE"));
    let (address, path) = (address?, path?);
    let file = read(&path).map_err(|error| format!("{path}: {error}"))?;
    let users = Arc::new(Users::new(&file.serve.tokens)?);
    let secret: Arc<[String]> = variables(file.serve.tokens.values()).into();
    let (mut app, mut monitors) = (Router::new(), Vec::new());
    for (name, server) in file.mcp_servers {
        let config = server.config(&name, &file.serve).map_err(|error| format!("mcpServers.{name}: {error}"))?;
        let (at, secret, mut relay) = (format!("/{name}/mcp"), Arc::clone(&secret), config.relay.clone());
        // The gateway has the filter already.
        relay.filter = Filter::new();
        let service = Gateway::new(config, move |_| ready(server.backend(relay.clone(), &secret))).http()?;
        monitors.push((name, service.monitor()));
        // With tokens, only their users are served.
        app = if file.serve.tokens.is_empty() {
            app.route_service(&at, service)
        } else {
            let users = Arc::clone(&users);
            app.route_service(&at, service.authenticate(move |head| ready(users.authenticate(head))))
        };
    }
    if file.serve.metrics {
        let page = async move || {
            let mut lines = Vec::new();
            for (name, monitor) in &monitors {
                let Some(status) = monitor.status().await else { continue };
                lines.push(format!("mcp_proxy_sessions{{server=\"{name}\"}} {}\n", status.sessions));
                lines.push(format!("mcp_proxy_backends{{server=\"{name}\"}} {}\n", status.backends));
            }
            lines.concat()
        };
        app = app.route("/metrics", get(page));
    }
    Ok(axum::serve(TcpListener::bind(address).await?, app).await?)
}
