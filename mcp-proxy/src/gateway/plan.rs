//! What a gateway is to serve, and to whom, according to its command line and the file that it names.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use http::request::Parts;
use mcp_application::Authenticated;
use mcp_intermediary::relay;
use mcp_proto::auth::Challenge;
use mcp_proto::server::Principal;

use super::jwt::Jwts;
use super::servers::{self, Change, Described, Kind};
use super::tokens::Tokens;
use crate::args::Args;
use crate::args::serve::{ServeArgs, Share};
use crate::printed::Printed;
use crate::restrictions::Restrictions;
use crate::secrets::Secrets;

/// A configuration without a mistake.
pub(super) struct Plan {
    pub(super) args: Arc<ServeArgs>,
    pub(super) servers: Vec<Described>,
    pub(super) users: Arc<Users>,
    /// Values that must not be logged or recorded.
    pub(super) secrets: Arc<Secrets>,
}

/// Who may use the servers.
pub(super) enum Users {
    /// All who can connect.
    Everyone,
    Tokens(Tokens),
    Jwts(Jwts),
}

impl Users {
    fn new(args: &ServeArgs, servers: &[Described], secrets: &mut Secrets) -> Result<Self, String> {
        let tokens = Tokens::new(&args.token_env, &args.tokens, secrets)?;
        Ok(match Jwts::new(args, servers)? {
            Some(_) if !tokens.is_empty() => {
                return Err(
                    "--token-issuer cannot be used with tokens of users: users have them from one source".to_owned()
                );
            }
            Some(jwts) => Self::Jwts(jwts),
            None if tokens.is_empty() => Self::Everyone,
            None => Self::Tokens(tokens),
        })
    }

    /// Whether users are distinguished.
    pub(super) const fn are_known(&self) -> bool {
        !matches!(self, Self::Everyone)
    }

    /// Whether both have their tokens from the same authorization server, or neither has any.
    pub(super) fn have_source_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everyone, Self::Everyone) | (Self::Tokens(_), Self::Tokens(_)) => true,
            (Self::Jwts(own), Self::Jwts(other)) => own.issuer() == other.issuer(),
            (Self::Everyone | Self::Tokens(_) | Self::Jwts(_), _) => false,
        }
    }

    /// The user who sent a request.
    pub(super) fn authenticate(&self, head: &Parts) -> Result<Authenticated, Challenge> {
        match self {
            Self::Everyone => Ok(Authenticated::new()),
            Self::Tokens(tokens) => tokens.authenticate(head).map(Into::into),
            Self::Jwts(jwts) => jwts.authenticate(head).map(Into::into),
        }
    }

    /// Whether a client with this principal may still use the servers, as far as that is known without its token.
    pub(super) fn may_have(&self, principal: Option<&Principal>) -> bool {
        match (self, principal) {
            (Self::Everyone, _) => principal.is_none(),
            (Self::Tokens(tokens), Some(user)) => tokens.has_user(user),
            (Self::Jwts(_), Some(_)) => true,
            (Self::Tokens(_) | Self::Jwts(_), None) => false,
        }
    }
}

impl Plan {
    /// Reads all that the command line and its file name.
    ///
    /// # Errors
    ///
    /// A text for the user.
    pub(super) fn new(args: Arc<ServeArgs>) -> Result<Self, String> {
        let mut secrets = Secrets::default();
        let servers = servers::all(&args, &mut secrets)?;
        let users = Users::new(&args, &servers, &mut secrets)?;
        check(&args, &servers, users.are_known())?;
        for server in &servers {
            let restrictions = restrictions(&args, server)?;
            restrictions.filters().apply(&mut relay::Config::default())?;
        }
        Ok(Self { args, servers, users: Arc::new(users), secrets: Arc::new(secrets) })
    }

    /// The paths of servers that keep their processes and sessions if this plan takes the place of `earlier`.
    pub(super) fn kept_from(&self, earlier: &Self) -> BTreeSet<String> {
        let is_kept = |server: &&Described| {
            let same = earlier.servers.iter().find(|other| other.name == server.name);
            same.is_some_and(|other| other.has_process_of(server))
        };
        self.servers.iter().filter(is_kept).map(|server| server.path("mcp")).collect()
    }

    /// Goes on with the remote servers of `earlier` at these paths. Returns what changes for their sessions.
    pub(super) fn take_remotes_of(&mut self, earlier: &Self, kept: &BTreeSet<String>) -> Vec<Change> {
        let mut changes = Vec::new();
        for server in self.servers.iter_mut().filter(|server| kept.contains(&server.path("mcp"))) {
            if let Some(other) = earlier.servers.iter().find(|other| other.name == server.name) {
                server.take_remote_of(other, &mut changes);
            }
        }
        changes
    }

    /// Prints the servers, and what is wrong with their programs. Returns whether nothing is.
    pub(super) fn print(&self) -> io::Result<bool> {
        let mut out = Printed::new();
        let mut is_fine = true;
        let mut outcome = Ok(());
        for server in &self.servers {
            let problem = server.problem();
            is_fine &= problem.is_none();
            let found = problem.map_or_else(|| "fine".to_owned(), |problem| problem.to_string());
            outcome = outcome.and_then(|()| writeln!(out, "{} {}: {found}", server.path("mcp"), server.in_words()));
        }
        out.end(outcome.map(|()| is_fine))
    }

    /// Names what has no effect, and the programs that are not there.
    pub(super) fn warn(&self) {
        warn_without_user_env(&self.args, &self.servers);
        for server in &self.servers {
            if let Some(problem) = server.problem() {
                log::error!(
                    "{} cannot be started now: {problem} Until it can be, its clients get an error",
                    server.in_words()
                );
            }
        }
    }

    /// The plan of this process. Exits with a usage error if there is a mistake.
    pub(super) fn new_or_exit(args: Arc<ServeArgs>) -> Self {
        Self::new(args).unwrap_or_else(|message| Args::exit_with_usage(&message))
    }
}

/// What clients may use of a server.
pub(super) fn restrictions(args: &ServeArgs, server: &Described) -> Result<Restrictions, String> {
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
pub(super) fn check(args: &ServeArgs, servers: &[Described], has_users: bool) -> Result<(), String> {
    let distinguish = "needs --token-env, tokens in the file, or --token-issuer, which distinguish users";
    if args.user_env.is_some() && !has_users {
        return Err(format!("--user-env {distinguish}"));
    }
    if args.user_env.is_some() && args.share == Share::All {
        return Err("--user-env has no effect with --share all, since one process serves all users".to_owned());
    }
    if args.share == Share::Principal && !has_users {
        return Err(format!("--share principal {distinguish}"));
    }
    for server in servers {
        let name = server.name.as_deref().unwrap_or_default();
        if server.settings.share == Some(Share::Principal) && !has_users {
            return Err(format!("the server {name} is shared by principal, which {distinguish}"));
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
