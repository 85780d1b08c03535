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
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use args::{Args, Command, Server, Settings};
use clap::Parser;
use mcp_blocking::{Observer, Proxy};
use mcp_proto::Failed;
use mcp_proto::client::{CloseReason, Occasion, Unavailable};
use mcp_proto::relay::{Config, Event, Side};
use record::Recorder;

/// What a process that a second signal ended at once exits with.
const INTERRUPTED: i32 = 130;
/// What a process exits with that had not ended in time after a signal.
const OVERDUE: i32 = 1;
/// How long an end in good order may take after a signal. What is bounded by itself takes less: ending the session, the
/// server's process, the last lines and the log.
const END_TIMEOUT: Duration = Duration::from_secs(8);

fn main() -> ExitCode {
    let args = Args::parse();
    let log = logging::init(args.log_level.into(), args.log_file.as_deref())
        .unwrap_or_else(|error| Args::exit_with_usage(&format!("{}: {error}", log_option(&args))));
    let outcome = run(&args);
    if let Err(error) = &outcome {
        log::error!("{error}");
    }
    log.flush();
    if outcome.is_ok_and(|fine| fine) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the log is written to, as the command line says.
fn log_option(args: &Args) -> String {
    args.log_file.as_ref().map_or_else(|| "the log".to_owned(), |path| format!("--log-file {}", path.display()))
}

/// Returns whether all went well.
fn run(args: &Args) -> io::Result<bool> {
    if args.command == Some(Command::Demo) {
        return demo::run(&mut io::stdout().lock()).map(|()| true);
    }
    let settings = args.settings().unwrap_or_else(|message| Args::exit_with_usage(&message));
    if args.check {
        let mut out = io::stdout().lock();
        return check::check(settings, args.request_timeout, &mut out).and_then(|fine| out.flush().map(|()| fine));
    }
    serve(args, settings)
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
    config.drain_timeout = args.drain_timeout;
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

/// The first signal ends the proxy in good order, within [`END_TIMEOUT`]; the second at once. Returns their count.
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
        // Whatever is stuck, such as a record on a file system that does not answer, does not hold up the end.
        let overdue = stopper.clone();
        let watching = thread::Builder::new().name("mcp-end".to_owned()).spawn(move || {
            thread::sleep(END_TIMEOUT);
            overdue.kill();
            std::process::exit(OVERDUE);
        });
        if let Err(error) = watching {
            log::warn!("cannot start a thread: {error}");
        }
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
