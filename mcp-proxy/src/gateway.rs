//! `mcp-proxy serve`: serves clients over HTTP by processes of servers, or by remote servers.
//!
//! | file | what it does |
//! |---|---|
//! | `plan` | what is to be served, and to whom, without a mistake |
//! | `servers` | the servers of the command line |
//! | `config_file` | the servers of a file in the form that editors have |
//! | `server_settings` | the settings of one server of that file |
//! | `setup` | what the gateway has as long as it runs, and the gateway for a plan |
//! | `reload` | changes the configuration of a running gateway |
//! | `listen` | the listening socket, and who may connect to it |
//! | `tokens` | the tokens of users |
//! | `jwt` | the tokens of an authorization server |
//! | `key_file` | the file with the keys of an authorization server |
//! | `observer` | logs the events of a server, and records messages |
//! | `event_log` | the lines of the log for events of the machines |
//! | `audit` | the file of `--audit` |
//! | `metrics` | the numbers of `--metrics` |
//! | `pages` | the pages of `--health` and `--metrics` |
//! | `random_files` | tests of files with random changes |

mod audit;
mod config_file;
mod event_log;
mod jwt;
mod key_file;
mod listen;
mod metrics;
mod observer;
mod pages;
mod plan;
#[cfg(test)]
mod random_files;
mod reload;
mod server_settings;
mod servers;
mod setup;
mod tokens;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use audit::Audit;
use listen::{Listening, Place};
use mcp_blocking::Gateway;
use metrics::Metrics;
use plan::Plan;
use reload::{Reload, ReloadRequest};
use setup::Setup;

use crate::END_TIMEOUT;
use crate::args::Args;
use crate::args::serve::ServeArgs;
use crate::logging::Log;
use crate::platform::{Reopen, raise_descriptors};
use crate::record::Record;
use crate::signals::Signals;

/// Serves until a signal ends it. Returns `true`.
///
/// # Errors
///
/// The socket cannot be listened on, or the gateway has failed.
pub(crate) fn run(args: &Arc<ServeArgs>, log: &Log) -> io::Result<bool> {
    let plan = Plan::new_or_exit(Arc::clone(args));
    if args.check_config {
        return plan.print();
    }
    log.leave_out(&plan.secrets);
    let or_exit = |message: String| -> ! { Args::exit_with_usage(&message) };
    let record = args.record.as_ref().map(|path| {
        Record::new(path, Arc::clone(&plan.secrets))
            .unwrap_or_else(|error| or_exit(format!("--record {}: {error}", path.display())))
    });
    let Listening { listener, file, place } = Listening::open(args)?;
    place.check(args, plan.users.are_known()).unwrap_or_else(|message| or_exit(message));
    let audit = args.audit.file.as_ref().map(|path| {
        let audit = Audit::open(path, args.audit.is_required, log.clone());
        Arc::new(audit.unwrap_or_else(|error| or_exit(format!("--audit {}: {error}", path.display()))))
    });

    let mut gateway = Gateway::new();
    gateway.max_connections = args.max_connections.into();
    gateway.leave_after = args.leave_after;
    let status = gateway.status();
    let metrics = Arc::new(Metrics::new(status.clone(), args.metrics.is_some(), audit.clone()));
    let setup = Arc::new(Setup { log: log.clone(), place, audit, record, metrics, status });
    let gateway = setup.gateway(gateway, &plan, &BTreeSet::new()).unwrap_or_else(|message| or_exit(message));
    let drain = args.drain_timeout;
    // Requests in progress are answered, then the processes are stopped.
    let (stop, kill) = (gateway.stopper(), gateway.stopper());
    let within = drain.saturating_add(END_TIMEOUT);
    let (request, requests) = ReloadRequest::new();
    let on_hangup = reloading(Arc::clone(&setup), request);
    let signals = Signals::stop(within, move || stop.shutdown(drain), move || kill.kill(), on_hangup)?;
    plan.warn();
    raise_limit(args);
    // So that warnings are printed before.
    log.flush();
    // Who reads this may send signals.
    announce(&setup.place, &plan)?;
    Reload::new(plan, setup, gateway.reloader(), requests).spawn()?;
    let outcome = gateway.serve(listener);
    drop(file);
    signals.exit_after(2);
    outcome.map(|_| true)
}

/// What SIGHUP does for a service: its files have been renamed, or its configuration has changed. From a terminal, it says that
/// this has gone.
fn reloading(setup: Arc<Setup>, request: ReloadRequest) -> Option<Reopen> {
    if io::stdin().is_terminal() || io::stderr().is_terminal() {
        return None;
    }
    Some(Box::new(move || {
        setup.log.reopen();
        if let Some(audit) = &setup.audit {
            audit.reopen();
        }
        request.send();
    }))
}

/// Lets the process have as many file descriptors as there may be connections, and some more for the servers.
fn raise_limit(args: &ServeArgs) {
    const OTHERS: u32 = 512;
    if let Some(has) = raise_descriptors(u32::from(args.max_connections) + OTHERS) {
        log::warn!(
            "--max-connections {} needs more file descriptors than the {has} that the system permits (ulimit -n): connections \
             beyond them wait until others have ended",
            args.max_connections
        );
    }
}

/// Prints where servers are served, whatever the level of the log.
fn announce(place: &Place, plan: &Plan) -> io::Result<()> {
    let (args, mut out) = (&plan.args, io::stderr().lock());
    for server in &plan.servers {
        let paths = server.paths(args.sse);
        let (path, more) = paths.split_first().map_or(("", ""), |(path, more)| {
            (path.as_str(), if more.is_empty() { "" } else { ", and the older transport beside it" })
        });
        let what = server.in_words();
        writeln!(out, "mcp-proxy: {} serves {what}{more}", place.url(path))?;
    }
    for path in [&args.health, &args.metrics].into_iter().flatten() {
        writeln!(out, "mcp-proxy: {} is a page for monitoring", place.url(path))?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use mcp_intermediary::gateway;
    use mcp_proto::server::Access;

    use super::setup::config;
    use super::*;
    use crate::secrets::Secrets;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn configured(options: &[&str]) -> gateway::Config {
        let words = [&["x", "--listen", "127.0.0.1:0"], options, &["--", "sh"]].concat();
        let plan = Plan::new(Arc::new(Line::try_parse_from(words).unwrap().args)).unwrap();
        config(&plan.args, &plan.servers[0], Access::Loopback)
    }

    #[test]
    fn limits_and_times_follow_the_options_and_are_never_less_than_usual() {
        let usual = gateway::Config::default().relay;
        let few = configured(&["--max-connections", "64", "--request-timeout", "7"]).relay;
        assert_eq!((few.limits.subscriptions, few.max_timeout), (usual.limits.subscriptions, usual.max_timeout));
        assert_eq!(few.request_timeout, Duration::from_secs(7));
        let many = configured(&["--max-connections", "20000", "--request-timeout", "7200"]).relay;
        assert_eq!((many.limits.subscriptions, many.max_timeout), (5000, Duration::from_secs(7200)));
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
        let config = config(&args, &own[0], Access::Loopback);
        assert_eq!(config.sharing, gateway::Sharing::Shared);
        let seconds = Duration::from_secs;
        let times = [config.relay.request_timeout, config.relay.max_timeout, config.relay.initialize_timeout];
        assert_eq!(times, [seconds(7200), seconds(7200), seconds(3)]);
        let by_user = servers(r#","share":"principal""#);
        assert!(plan::check(&args, &by_user, true).is_ok() && plan::check(&args, &own, false).is_ok());
        let error = plan::check(&args, &by_user, false).unwrap_err();
        assert!(error.contains("the server a is shared by principal"), "{error}");
        let error = plan::check(&line(&["--user-env", "U"]), &own, true).unwrap_err();
        assert!(error.contains("no effect for the server a"), "{error}");
    }
}
