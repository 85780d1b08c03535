//! Connects an MCP client over stdio to an MCP server over HTTP or stdio, and serves MCP servers over stdio to clients over
//! HTTP.

mod args;
mod check;
mod demo;
mod environment;
mod gateway;
mod hub;
mod json_file;
mod logging;
mod pin_file;
mod platform;
mod printed;
mod private_file;
mod record;
mod request_log;
mod restrictions;
mod secrets;
mod sign_in;
mod signals;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use args::{Account, Args, Command, Server, Settings};
use log::Level;
use logging::Log;
use mcp_blocking::{Observer, Proxy};
use mcp_intermediary::relay::{Config, Event, KnownServer, Pins, Side};
use mcp_proto::client::{CloseReason, Unavailable};
use mcp_proto::{Failed, Limits, ProtocolVersion};
use pin_file::PinFile;
use printed::Printed;
use record::{Record, Recorder, Source};
use sign_in::KnownServerFile;
use signals::Signals;

/// How long an orderly end may take after a signal. The steps with their own timeouts take less: ending the session,
/// ending the server's process, writing the last lines and the log.
const END_TIMEOUT: Duration = Duration::from_secs(8);

fn main() -> ExitCode {
    let args = Args::of_process();
    let log = logging::init(args.log())
        .unwrap_or_else(|error| Args::exit_with_usage(&format!("{}: {error}", log_option(&args))));
    let outcome = run(args, &log);
    if let Err(error) = &outcome {
        log::error!("{error}");
    }
    log.flush();
    if outcome.is_ok_and(|fine| fine) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The option that sets the destination of the log, for an error message.
fn log_option(args: &Args) -> String {
    args.log().file.as_ref().map_or_else(|| "the log".to_owned(), |path| format!("--log-file {}", path.display()))
}

/// Returns whether the command succeeded.
fn run(mut args: Args, log: &Log) -> io::Result<bool> {
    if let Some(command) = args.command.take() {
        return run_command(command, log);
    }
    let settings = args.settings().unwrap_or_else(|message| Args::exit_with_usage(&message));
    log.leave_out(&settings.secrets);
    if args.is_check() {
        return check(&args, settings);
    }
    serve(&args, settings)
}

fn run_command(command: Command, log: &Log) -> io::Result<bool> {
    let leave_out = |account: &Account| log.leave_out(&account.settings_or_exit().secrets);
    let mut printed = Printed::new();
    let out = &mut printed;
    let outcome = match command {
        Command::Serve(serve) => return gateway::run(&Arc::from(serve), log),
        Command::Demo => demo::run(out).map(|()| true),
        Command::Login { import, account } => {
            leave_out(&account);
            if import { sign_in::import(&account, out) } else { sign_in::login(&account, out) }
        }
        Command::Logout(account) => {
            leave_out(&account);
            sign_in::logout(&account, out)
        }
        Command::Whoami(account) => {
            leave_out(&account);
            sign_in::whoami(&account, out)
        }
    };
    printed.end(outcome)
}

/// Returns whether the server can be used.
fn check(args: &Args, settings: Settings) -> io::Result<bool> {
    let mut out = Printed::new();
    let signals = Signals::default();
    let asked = args.asked().unwrap_or_else(|error| Args::exit_with_usage(&error));
    let outcome = check::check(settings, args.timeouts(), &asked, &mut out, &|server| signals.kill(server));
    signals.exit_after(1);
    out.end(outcome)
}

/// Returns whether the client or a signal ended the proxy, as opposed to the server.
fn serve(args: &Args, settings: Settings) -> io::Result<bool> {
    let Settings { server, versions, limits, secrets } = settings;
    let recorder = match &args.record {
        None => None,
        Some(path) => match Record::new(path, secrets) {
            Ok(record) => Some(record.recorder(limits.message, Source::default())),
            Err(error) => Args::exit_with_usage(&format!("--record {}: {error}", path.display())),
        },
    };
    let mut config = config(args, versions, limits);
    let pins = args.restrictions.apply(&mut config).unwrap_or_else(|message| Args::exit_with_usage(&message));
    let mut watcher = Watcher { server: server.in_words(), name: server.to_string(), recorder, known: None, pins };
    let proxy = match server {
        Server::Http { http, options, authorization: None } => Proxy::http(*http, options, config),
        Server::Http { http, options, authorization: Some(authorization) } => {
            let (authorization, mut known) = KnownServerFile::new(*authorization);
            config.opening = known.as_mut().and_then(KnownServerFile::read);
            watcher.known = known;
            Proxy::http(*http, options, config).map(|proxy| proxy.authorization(authorization))
        }
        Server::Child(command) => Proxy::child(command, config),
    };
    let proxy = proxy.map_err(io::Error::other)?;
    // Requests without an answer are answered with errors, and the session and the child process are ended.
    let (stop, kill) = (proxy.stopper(), proxy.stopper());
    let signals = Signals::stop(END_TIMEOUT, move || stop.stop(), move || kill.kill(), None)?;
    if io::stdin().is_terminal() {
        log::warn!("this reads MCP messages from stdin, one per line; an editor usually starts it; see --help");
    }
    let reason = proxy.run_on_stdio(watcher);
    signals.exit_after(2);
    Ok(reason? == CloseReason::Local)
}

fn config(args: &Args, versions: Vec<ProtocolVersion>, limits: Limits) -> Config {
    let mut config = Config::default();
    config.versions = versions;
    config.limits = limits;
    config.request_timeout = args.request_timeout;
    config.initialize_timeout = args.start_timeout;
    config.drain_timeout = args.drain_timeout;
    config.answer_after = args.answer_after;
    config.max_timeout = config.max_timeout.max(args.request_timeout);
    config.reports_ended_requests = request_log::is_enabled();
    config.seed = seed();
    config
}

/// Returns a value that differs between proxies, even if they were started at the same time.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs().rotate_left(32) ^ u64::from(now.subsec_nanos()) ^ u64::from(std::process::id()).rotate_left(48)
}

/// Logs events, and records messages.
struct Watcher {
    /// The server, as it appears in log messages.
    server: String,
    /// Its URL or its command.
    name: String,
    recorder: Option<Recorder>,
    /// Where it is stored what the server states about itself.
    known: Option<KnownServerFile>,
    /// Where the pinned definitions of tools are stored.
    pins: Option<PinFile>,
}

/// Returns the level and text of the log line for an event; `server` is the server as it appears in log messages.
fn log_line(event: &Event, server: &str) -> Option<(Level, String)> {
    let (level, text) = match event {
        Event::Connected { version, is_reconnect, .. } => {
            let text = match is_reconnect {
                false => format!("connected to {server}, revision {version}"),
                true => format!("opened a new session with {server}"),
            };
            (Level::Info, text)
        }
        Event::Bridging { client, server: theirs } => (
            Level::Info,
            format!("the client uses the {client} era, {server} the {theirs} era: messages are converted"),
        ),
        Event::Unavailable { reason, retry_in } => {
            // These failures end the proxy.
            let is_final = match reason {
                Unavailable::Failed(Failed::NoCommonVersion { .. }) => true,
                Unavailable::Failed(reason) => reason.is_end_of_connection(),
                Unavailable::Error(_) => false,
            };
            let reason = match reason {
                Unavailable::Error(error) => format!("{server} refused the connection: {}", error.message()),
                Unavailable::Failed(reason) => reason.describe(server),
            };
            let again = match retry_in {
                Some(pause) => format!("; trying again in {:.1} s", pause.as_secs_f64()),
                None if is_final => String::new(),
                None => "; the next request tries again".to_owned(),
            };
            (Level::Warn, format!("{reason}{again}"))
        }
        Event::SessionLost => (Level::Warn, format!("{server} lost the session; opening a new one")),
        Event::Postponed { refusal, retry_in } => {
            let reason = Failed::Refused(refusal.clone()).describe(server);
            (Level::Info, format!("{reason}; sending the request again in {:.1} s", retry_in.as_secs_f64()))
        }
        Event::RequestWaits { limit } => (
            Level::Warn,
            format!(
                "a request waits: {limit} are with {server}, which is as many as --max-requests allows at one time"
            ),
        ),
        Event::NotInEffect { method, reason } => (
            Level::Warn,
            format!(
                "{method} is not in effect at {server}, although the request for it was answered with a result: {reason}"
            ),
        ),
        Event::Challenged(challenged) => {
            (Level::Debug, format!("{server} demands authorization: it answered {}", challenged.status))
        }
        Event::AnsweredEarly => {
            (Level::Info, format!("the client's initialize was answered in the place of {server}: a person signs in"))
        }
        Event::ToolDeviates(deviation) => (Level::Warn, format!("of {server}: {deviation}")),
        Event::PinsChanged(pins) => (Level::Info, format!("{} tools of {server} are pinned", pins.len())),
        Event::Failed(reason) => (Level::Warn, format!("a request failed: {}", reason.describe(server))),
        Event::NotPassed { method, error } => (Level::Info, format!("{method} was not passed on: {error}")),
        Event::Faulted { side, fault } => {
            let side = match side {
                Side::Client => "the client",
                Side::Server => server,
            };
            (Level::Warn, format!("from {side}: {fault}"))
        }
        Event::QuirkObserved(quirk) => (Level::Info, format!("{server} {quirk}")),
        Event::ClientGone(reason) => (Level::Debug, format!("the client has disconnected ({reason:?})")),
        Event::Closed(CloseReason::ProcessEnded(end)) => {
            (Level::Warn, format!("{server} {end}; see its stderr for the reason"))
        }
        Event::Closed(CloseReason::Garbage { limit }) => {
            (Level::Warn, Failed::NoMessages { limit: *limit }.describe(server))
        }
        Event::Closed(reason) => (Level::Debug, format!("closed ({reason:?})")),
        // It is a line with fields.
        Event::RequestEnded(_) | _ => return None,
    };
    Some((level, text))
}

impl Observer for Watcher {
    fn event(&mut self, event: &Event) {
        if let (Event::Connected { version, result, .. }, Some(known)) = (event, &mut self.known) {
            known.write(&KnownServer::new(*version, result.clone()));
        }
        if let Event::RequestEnded(ended) = event {
            request_log::log(&self.name, ended);
        }
        if let Some((level, text)) = log_line(event, &self.server) {
            log::log!(level, "{text}");
        }
    }

    fn store_pins(&mut self, pins: &Pins) -> Option<Pins> {
        self.pins.as_ref().map(|file| file.store(pins))
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser;
    use mcp_proto::client::NotRestored;
    use mcp_proto::{BodyKind, Era, ErrorObject, Fault, Json, Method, ProcessEnd, Quirk, Refusal, UsageError};

    use super::*;

    #[test]
    fn events_are_logged_as_text_at_the_level_of_their_severity() {
        let connected = |is_reconnect| Event::Connected {
            version: ProtocolVersion::V2025_11_25,
            result: Json::empty_object(),
            is_reconnect,
        };
        let unavailable = |reason, retry_in| Event::Unavailable { reason, retry_in };
        let failed = |reason| unavailable(Unavailable::Failed(reason), None);
        let fault = || Fault::DuplicateKey;
        let error = ErrorObject::new(-32000, "no");
        let later = Duration::from_secs(600);
        let busy = Refusal {
            status: http::StatusCode::TOO_MANY_REQUESTS,
            body: BodyKind::Untyped,
            retry_after: Some(Duration::from_secs(2)),
            challenges: Vec::new(),
            explanation: None,
        };
        for (event, level, text) in [
            (connected(false), Level::Info, "connected to SERVER, revision 2025-11-25"),
            (connected(true), Level::Info, "opened a new session with SERVER"),
            (
                Event::Bridging { client: Era::Modern, server: Era::Legacy },
                Level::Info,
                "the client uses the modern era, SERVER the legacy era: messages are converted",
            ),
            (
                unavailable(Unavailable::Error(error.clone()), None),
                Level::Warn,
                "SERVER refused the connection: no; the next request tries again",
            ),
            (
                unavailable(Unavailable::Error(error), Some(later)),
                Level::Warn,
                "SERVER refused the connection: no; trying again in ",
            ),
            (failed(Failed::SessionLost), Level::Warn, "; the next request tries again"),
            (Event::SessionLost, Level::Warn, "SERVER lost the session; opening a new one"),
            (
                Event::Postponed { refusal: busy, retry_in: Duration::from_millis(2100) },
                Level::Info,
                "SERVER answered 429 Too Many Requests with a body without a type; it asks to wait 2s; sending the request again in 2.1 s",
            ),
            (
                Event::RequestWaits { limit: 3 },
                Level::Warn,
                "a request waits: 3 are with SERVER, which is as many as --max-requests allows at one time",
            ),
            (
                Event::NotInEffect { method: Method::LOGGING_SET_LEVEL, reason: NotRestored::NotKept { limit: 7 } },
                Level::Warn,
                "logging/setLevel is not in effect at SERVER, although the request for it was answered with a result: only 7 bytes",
            ),
            (Event::PinsChanged(Pins::new()), Level::Info, "0 tools of SERVER are pinned"),
            (Event::Failed(Failed::Closed), Level::Warn, "a request failed: the connection to SERVER was closed"),
            (
                Event::NotPassed { method: Method::PROGRESS, error: UsageError::Closed },
                Level::Info,
                "notifications/progress was not passed on: ",
            ),
            (Event::Faulted { side: Side::Client, fault: fault() }, Level::Warn, "from the client: parameters with"),
            (Event::Faulted { side: Side::Server, fault: fault() }, Level::Warn, "from SERVER: parameters with"),
            (Event::QuirkObserved(Quirk::ToolResultWithoutContent), Level::Info, "SERVER sends a tool result without"),
            (Event::ClientGone(CloseReason::Peer), Level::Debug, "the client has disconnected (Peer)"),
            (Event::Closed(CloseReason::Local), Level::Debug, "closed (Local)"),
            (
                Event::Closed(CloseReason::ProcessEnded(ProcessEnd::Signal(9))),
                Level::Warn,
                "SERVER was ended by signal 9 (SIGKILL); see its stderr for the reason",
            ),
            (
                Event::Closed(CloseReason::Garbage { limit: 3 }),
                Level::Warn,
                "SERVER wrote more than 3 lines within a minute that are not MCP messages",
            ),
        ] {
            let (found, line) = log_line(&event, "SERVER").unwrap();
            assert_eq!(found, level, "{line}");
            assert!(line.contains(text), "{line} lacks {text}");
        }
        // These failures end the proxy.
        let ended = Failed::ProcessEnded { end: ProcessEnd::Code(1), opening: Some(Method::INITIALIZE) };
        let no_version = Failed::NoCommonVersion { supported: Box::default() };
        for reason in [ended, Failed::Closed, Failed::NoMessages { limit: 3 }, no_version] {
            let (_, line) = log_line(&failed(reason), "SERVER").unwrap();
            assert!(!line.contains("tries again"), "{line}");
        }
    }

    fn config_of(args: &[&str]) -> Config {
        let args = Args::parse_from([&["mcp-proxy"], args, &["http://127.0.0.1/"]].concat());
        let settings = args.settings().unwrap();
        config(&args, settings.versions, settings.limits)
    }

    #[test]
    fn every_option_about_messages_reaches_the_configuration() {
        let usual = config_of(&[]);
        assert_eq!(usual.versions, ProtocolVersion::ALL);
        assert_eq!((usual.request_timeout, usual.drain_timeout), (Duration::from_secs(300), Duration::from_secs(5)));
        let options = ["--protocol", "2025-06-18", "--max-message", "1MiB", "--request-timeout", "7"];
        let other = config_of(&[&options[..], &["--drain-timeout", "8"]].concat());
        assert_eq!((other.versions, other.limits.message), (vec![ProtocolVersion::V2025_06_18], 1 << 20));
        assert_eq!((other.request_timeout, other.drain_timeout), (Duration::from_secs(7), Duration::from_secs(8)));
        assert_eq!(other.max_timeout, usual.max_timeout);
        // Progress extends a request's timeout, but never shortens it.
        let day = Duration::from_secs(24 * 3600);
        assert!(usual.max_timeout < day);
        assert_eq!(config_of(&["--request-timeout", "86400"]).max_timeout, day);
    }

    #[test]
    fn proxies_do_not_share_a_seed() {
        let seeds = [(); 3].map(|()| {
            std::thread::sleep(Duration::from_micros(10));
            config_of(&[]).seed
        });
        assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2], "{seeds:?}");
    }

    #[test]
    fn the_option_that_is_wrong_is_named() {
        let args = |more: &[&str]| Args::parse_from([&["mcp-proxy", "http://127.0.0.1/"], more].concat());
        assert_eq!(log_option(&args(&[])), "the log");
        assert_eq!(log_option(&args(&["--log-file", "a/b"])), format!("--log-file {}", PathBuf::from("a/b").display()));
    }
}
