//! Joins an MCP client that speaks stdio to an MCP server over HTTP or stdio.

mod args;
mod check;
mod demo;
mod logging;
mod private_file;
mod record;
mod secrets;
mod stdout;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use args::{Args, Command, Server, Settings};
use clap::Parser;
use mcp_blocking::{Observer, Proxy};
use mcp_proto::Failed;
use mcp_proto::client::{CloseReason, Occasion, Unavailable};
use mcp_proto::relay::{Config, Event, Side};
use record::Recorder;

/// What a process that a signal ended at once exits with.
const INTERRUPTED: i32 = 130;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(error) = logging::init(args.log_level.into(), args.log_file.as_deref()) {
        let path = args.log_file.clone().unwrap_or_default();
        Args::exit_with_usage(&format!("--log-file {}: {error}", path.display()));
    }
    if args.command == Some(Command::Demo) {
        return ended(demo::run(&mut io::stdout().lock()).map(|()| true));
    }
    let settings = args.settings().unwrap_or_else(|message| Args::exit_with_usage(&message));
    let outcome = if args.check {
        let mut out = io::stdout().lock();
        check::check(settings, args.request_timeout, &mut out).and_then(|fine| out.flush().map(|()| fine))
    } else {
        serve(&args, settings)
    };
    ended(outcome)
}

fn ended(outcome: io::Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            log::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether it was the client who ended it, or a signal.
fn serve(args: &Args, settings: Settings) -> io::Result<bool> {
    let Settings { server, versions, limits, secrets } = settings;
    let recorder = match &args.record {
        None => None,
        Some(path) => match Recorder::new(path, limits.message, secrets) {
            Ok(recorder) => Some(recorder),
            Err(error) => Args::exit_with_usage(&format!("--record {}: {error}", path.display())),
        },
    };
    let mut config = Config::default();
    config.versions = versions;
    config.limits = limits;
    config.request_timeout = args.request_timeout;
    config.max_timeout = config.max_timeout.max(args.request_timeout);
    config.seed = seed();
    let mut watcher = Watcher { server: server.in_words(), recorder };
    let proxy = match server {
        Server::Http { http, options } => Proxy::http(http, options, config),
        Server::Child(command) => Proxy::child(command, config),
    };
    let proxy = proxy.map_err(io::Error::other)?;
    let signals = stop_on_signals(&proxy)?;
    if io::stdin().is_terminal() {
        log::warn!("this reads MCP messages from stdin, one per line; an editor usually starts it. --help tells more");
    }
    let reason = proxy.run(io::stdin(), stdout::open()?, &mut watcher);
    if signals.load(Ordering::SeqCst) > 1 {
        // The thread that the signal woke is about to do the same.
        std::process::exit(INTERRUPTED);
    }
    Ok(reason? == CloseReason::Local)
}

/// The first signal ends the proxy in good order, the second at once. Returns their count.
fn stop_on_signals(proxy: &Proxy) -> io::Result<Arc<AtomicUsize>> {
    let stopper = proxy.stopper();
    let signals = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&signals);
    ctrlc::set_handler(move || {
        if count.fetch_add(1, Ordering::SeqCst) > 0 {
            stopper.kill();
            std::process::exit(INTERRUPTED);
        }
        log::info!("stopped by a signal");
        stopper.stop();
    })
    .map_err(io::Error::other)?;
    Ok(signals)
}

/// Something that differs between two proxies that were started at the same time.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs().rotate_left(32) ^ u64::from(now.subsec_nanos()) ^ u64::from(std::process::id()).rotate_left(48)
}

/// Logs what happens, and records what crosses.
struct Watcher {
    /// The server for people to read.
    server: String,
    recorder: Option<Recorder>,
}

impl Observer for Watcher {
    fn told(&mut self, event: &Event) {
        let server = &self.server;
        match event {
            Event::Connected { version, occasion, .. } => match occasion {
                Occasion::First => log::info!("connected to {server}, revision {version}"),
                Occasion::Again => log::info!("opened a new session with {server}"),
            },
            Event::Bridging { client, server: theirs } => {
                log::info!("the client speaks the {client} era, {server} the {theirs} era: each is served in its own");
            }
            Event::Unavailable { reason, retry_at } => {
                // These two end the proxy.
                let is_final = matches!(reason, Unavailable::Failed(Failed::Closed | Failed::NoCommonVersion { .. }));
                let reason = match reason {
                    Unavailable::Error(error) => format!("{server} refused the connection: {}", error.message()),
                    Unavailable::Failed(reason) => reason.describe(server),
                };
                let again = match retry_at {
                    Some(at) => {
                        let pause = at.saturating_duration_since(Instant::now());
                        format!("; trying again in {:.1} s", pause.as_secs_f64())
                    }
                    None if is_final => String::new(),
                    None => "; the next request tries again".to_owned(),
                };
                log::warn!("{reason}{again}");
            }
            Event::SessionLost => log::warn!("{server} lost the session; opening a new one"),
            Event::RequestWaits { limit } => log::warn!(
                "a request waits: {limit} are with {server}, which is as many as --max-requests allows at one time"
            ),
            Event::NotInEffect { method, reason } => {
                log::warn!("{method} is not in effect at {server}, although the client was told so: {reason}");
            }
            Event::Failed(reason) => log::warn!("a request failed: {}", reason.describe(server)),
            Event::NotPassed { method, error } => log::info!("{method} was not passed on: {error}"),
            Event::Faulted { side, fault } => match side {
                Side::Client => log::warn!("from the client: {fault}"),
                Side::Server => log::warn!("from {server}: {fault}"),
            },
            Event::QuirkMet(quirk) => log::info!("{server} {quirk}"),
            Event::ClientGone(reason) => log::debug!("the client is gone ({reason:?})"),
            Event::Closed(reason) => log::debug!("closed ({reason:?})"),
            _ => {}
        }
    }

    fn received(&mut self, bytes: &[u8]) {
        if let Some(recorder) = &mut self.recorder {
            recorder.client_sent(bytes);
        }
    }

    fn written(&mut self, bytes: &[u8]) {
        if let Some(recorder) = &mut self.recorder {
            recorder.server_sent(bytes);
        }
    }
}
