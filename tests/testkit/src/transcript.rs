//! The output of machines in order and as text, so that a change of it is detected.
//!
//! The test environments of this crate add every output of their machines, and every change of their state. Nothing is
//! stored unless a transcript is being taken on this thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use bytes::Bytes;
use http::HeaderMap;
use mcp_intermediary::{aggregate, gateway, relay};
use mcp_proto::client::{self, DetectedEra, NotRestored, Outcome, Unavailable};
use mcp_proto::{ErrorObject, Instant, Json, Load, Output, StdioAction, server};

/// The environment variable with which [`compare`] writes the current digests to the file.
pub const ACCEPT: &str = "ACCEPT_TRANSCRIPTS";

thread_local! {
    static TAKEN: RefCell<Option<Transcript>> = const { RefCell::new(None) };
}

struct Transcript {
    digest: u32,
    is_printed: bool,
    /// The time of the first line, from which times are counted.
    start: Option<Instant>,
    /// The latest state of each machine.
    states: BTreeMap<&'static str, String>,
}

impl Transcript {
    fn add(&mut self, now: Instant, machine: &str, what: &str) {
        let start = *self.start.get_or_insert(now);
        let line = format!("{} {machine} {what}\n", between(start, now));
        // FNV-1a.
        self.digest =
            line.bytes().fold(self.digest, |digest, byte| (digest ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        if self.is_printed {
            print!("{line}");
        }
    }
}

/// The digest of the transcript of a run.
pub fn digest(run: impl FnOnce()) -> u32 {
    take(false, run)
}

/// Prints the transcript of a run, one line for each output.
pub fn print(run: impl FnOnce()) {
    take(true, run);
}

fn take(is_printed: bool, run: impl FnOnce()) -> u32 {
    TAKEN.set(Some(Transcript { digest: 0x811c_9dc5, is_printed, start: None, states: BTreeMap::new() }));
    run();
    TAKEN.take().expect("a transcript is being taken").digest
}

/// Begins with a new machine at the time `now`, from which times are counted.
pub fn begin(now: Instant) {
    TAKEN.with_borrow_mut(|taken| {
        if let Some(taken) = taken {
            taken.start = Some(now);
            taken.states.clear();
        }
    });
}

/// Adds an output of a machine, if there is one, and returns it.
pub fn added<S: Described>(now: Instant, machine: &'static str, output: Option<S>) -> Option<S> {
    TAKEN.with_borrow_mut(|taken| {
        if let (Some(taken), Some(output)) = (taken, &output) {
            taken.add(now, machine, &output.text());
        }
    });
    output
}

/// Adds the state of a machine if it has changed: its next timeout, its load, and which inputs it accepts.
///
/// The load is asked for only if a transcript is taken, since that of a server takes time for each session.
pub fn add_state(
    now: Instant,
    machine: &'static str,
    wake: Option<Instant>,
    load: impl FnOnce() -> Load,
    can: &[(&str, bool)],
) {
    TAKEN.with_borrow_mut(|taken| {
        let Some(taken) = taken else { return };
        let start = *taken.start.get_or_insert(now);
        let mut state = wake.map_or_else(|| "sleeps".to_owned(), |at| format!("wakes at {}", between(start, at)));
        let _ = write!(state, ", holds {}", load());
        for (what, is_so) in can {
            let _ = write!(state, ", {}{what}", if *is_so { "" } else { "not " });
        }
        if taken.states.get(machine) != Some(&state) {
            taken.add(now, machine, &state);
            taken.states.insert(machine, state);
        }
    });
}

/// Compares the digests of transcripts with those in a file, one per line.
///
/// # Panics
///
/// If some differ. The message has the `command` that prints the first of them, by its position from 1 on.
pub fn compare(file: &Path, digests: &[u32], command: impl Fn(usize) -> String) {
    if env::var_os(ACCEPT).is_some() {
        let lines: Vec<_> = digests.iter().map(|digest| format!("{digest:08x}")).collect();
        fs::write(file, lines.join("\n") + "\n").expect("a file that may be written");
        return;
    }
    let kept = fs::read_to_string(file).expect("a file with digests");
    let kept: Vec<_> = kept.lines().map(|line| u32::from_str_radix(line, 16).expect("a digest")).collect();
    assert_eq!(kept.len(), digests.len(), "{} has as many lines as there are transcripts", file.display());
    let differing: Vec<_> = kept.iter().zip(digests).zip(1..).filter(|((kept, now), _)| kept != now).collect();
    if let Some((_, first)) = differing.first() {
        panic!(
            "{} of {} runs are not as they were when {} was written. `{}` prints the first of them: compare it with what \
             the last commit prints. Where the change is meant, keep it with {ACCEPT}=1 in the environment.",
            differing.len(),
            digests.len(),
            file.display(),
            command(*first),
        );
    }
}

/// An output of a machine.
pub trait Described {
    /// The output as text.
    fn text(&self) -> String;
}

impl<A: Described, E: Described> Described for Output<A, E> {
    fn text(&self) -> String {
        match self {
            Self::Action(action) => action.text(),
            Self::Event(event) => event.text(),
        }
    }
}

impl Described for StdioAction {
    fn text(&self) -> String {
        match self {
            Self::Write(bytes) => format!("writes {}", shown(bytes)),
            Self::CloseWrite => "closes its stream".to_owned(),
            Self::Respawn => "starts its server again".to_owned(),
            other => format!("{other:?}"),
        }
    }
}

impl Described for client::HttpAction {
    fn text(&self) -> String {
        match self {
            Self::Open { exchange, request, .. } => format!(
                "opens {exchange:?}: {} {} {}{}",
                request.method(),
                request.uri(),
                fields(request.headers()),
                shown(request.body())
            ),
            Self::Abort { exchange } => format!("aborts {exchange:?}"),
            other => format!("{other:?}"),
        }
    }
}

impl Described for server::HttpAction {
    fn text(&self) -> String {
        match self {
            Self::Continue { exchange } => format!("continues {exchange:?}"),
            Self::Respond { exchange, response } => format!(
                "responds on {exchange:?}: {} {}{}",
                response.status().as_u16(),
                fields(response.headers()),
                shown(response.body())
            ),
            Self::Stream { exchange, head } => {
                format!("streams on {exchange:?}: {} {}", head.status().as_u16(), fields(head.headers()))
            }
            Self::Write { exchange, chunk } => format!("writes on {exchange:?}: {}", shown(chunk)),
            Self::Finish { exchange } => format!("finishes {exchange:?}"),
            Self::Abort { exchange } => format!("aborts {exchange:?}"),
            other => format!("{other:?}"),
        }
    }
}

impl<A: Described> Described for relay::Action<A> {
    fn text(&self) -> String {
        match self {
            Self::Client(action) => format!("to the client: {}", action.text()),
            Self::Server(action) => format!("to the server: {}", action.text()),
        }
    }
}

impl Described for gateway::Action {
    fn text(&self) -> String {
        match self {
            Self::Client(action) => format!("to a client: {}", action.text()),
            Self::Start { backend, principal } => {
                format!(
                    "starts {backend:?} for {}",
                    principal.as_ref().map_or("everyone", |principal| principal.as_str())
                )
            }
            Self::Backend { backend, action } => format!("to {backend:?}: {}", action.text()),
            Self::Stop { backend } => format!("stops {backend:?}"),
            other => format!("{other:?}"),
        }
    }
}

impl Described for gateway::Event {
    fn text(&self) -> String {
        format!("{self:?}")
    }
}

impl Described for aggregate::Action {
    fn text(&self) -> String {
        match self {
            Self::Client(action) => format!("to the client: {}", action.text()),
            Self::Start { server } => format!("starts {server:?}"),
            Self::Server { server, action } => format!("to {server:?}: {}", action.text()),
            Self::Stop { server } => format!("stops {server:?}"),
            other => format!("{other:?}"),
        }
    }
}

impl Described for aggregate::Event {
    fn text(&self) -> String {
        format!("{self:?}")
    }
}

impl Described for client::Event {
    fn text(&self) -> String {
        match self {
            Self::Connected { version, result, is_reconnect, detected_era, is_downgrade } => {
                let how = if *is_reconnect { "again" } else { "first" };
                let DetectedEra { era, by } = detected_era;
                format!("connected {how}: {version}, {era}: {by}, downgrade {is_downgrade}, {}", json(result))
            }
            Self::Unavailable { reason, retry_in } => unavailable(reason, *retry_in),
            Self::SessionLost => "session lost".to_owned(),
            Self::NotRestored { method, params, reason } => {
                format!("not restored: {method} {} {}", optional(params.as_ref()), not_restored(reason))
            }
            Self::Responded { request, outcome } => format!("responded: {request:?} {}", outcome_text(outcome)),
            Self::Progressed { request, params } => format!("progressed: {request:?} {}", json(params)),
            Self::Requested { ticket, scope, method, params } => {
                format!("requested: {:?} {scope:?} {method} {}", ticket.key(), optional(params.as_ref()))
            }
            Self::RequestCancelled { ticket, params } => format!("cancelled: {ticket:?} {}", json(params)),
            Self::Notified { scope, method, params } => {
                format!("notified: {scope:?} {method} {}", optional(params.as_ref()))
            }
            Self::Listening { subscription, filter } => format!("listening: {subscription:?} {}", json(filter)),
            Self::ListeningInterrupted { subscription, reason, retry_in } => {
                format!("listening interrupted: {subscription:?} {reason}, retried in {}", seconds(*retry_in))
            }
            Self::ListeningEnded { subscription, outcome } => {
                format!("listening ended: {subscription:?} {}", outcome_text(outcome))
            }
            Self::Postponed { request, refusal, retry_in } => {
                format!("postponed: {request:?} {refusal}, sent again in {}", seconds(*retry_in))
            }
            Self::RequestWaits { limit } => format!("a request waits behind {limit}"),
            Self::Faulted(fault) => format!("fault: {fault}"),
            Self::QuirkObserved(quirk) => format!("quirk: {quirk}"),
            Self::Closed(reason) => format!("closed: {reason:?}"),
            other => format!("{other:?}"),
        }
    }
}

impl Described for server::Event {
    fn text(&self) -> String {
        match self {
            Self::Connected { session, version, params } => {
                format!("connected: {session:?} {version} {}", json(params))
            }
            Self::Ready { session } => format!("ready: {session:?}"),
            Self::Requested { ticket, method, params } => {
                format!("requested: {:?} {method} {}", ticket.key(), optional(params.as_ref()))
            }
            Self::Cancelled { ticket, params } => format!("cancelled: {ticket:?} {}", optional(params.as_ref())),
            Self::Notified { session, method, params } => {
                format!("notified: {session:?} {method} {}", optional(params.as_ref()))
            }
            Self::Responded { request, outcome } => format!("responded: {request:?} {}", outcome_text(outcome)),
            Self::Progressed { request, params } => format!("progressed: {request:?} {}", json(params)),
            Self::InputEnded => "input ended".to_owned(),
            Self::Faulted(fault) => format!("fault: {fault}"),
            Self::Closed { session, reason } => format!("closed: {session:?} {reason:?}"),
            other => format!("{other:?}"),
        }
    }
}

impl Described for relay::Event {
    fn text(&self) -> String {
        match self {
            Self::Connected { version, result, is_reconnect } => {
                let how = if *is_reconnect { "again" } else { "first" };
                format!("connected {how}: {version} {}", json(result))
            }
            Self::Bridging { client, server } => format!("bridging: {client:?} and {server:?}"),
            Self::Unavailable { reason, retry_in } => unavailable(reason, *retry_in),
            Self::SessionLost => "session lost".to_owned(),
            Self::NotInEffect { method, reason } => format!("not in effect: {method} {}", not_restored(reason)),
            Self::Postponed { refusal, retry_in } => {
                format!("postponed: {refusal}, sent again in {}", seconds(*retry_in))
            }
            Self::RequestWaits { limit } => format!("a request waits behind {limit}"),
            Self::Failed(failed) => format!("failed: {failed}"),
            Self::NotPassed { method, error } => format!("not passed: {method} {error}"),
            Self::Faulted { side, fault } => format!("fault: {side:?} {fault}"),
            Self::QuirkObserved(quirk) => format!("quirk: {quirk}"),
            Self::ClientGone(reason) => format!("client gone: {reason:?}"),
            Self::Closed(reason) => format!("closed: {reason:?}"),
            other => format!("{other:?}"),
        }
    }
}

fn between(from: Instant, to: Instant) -> String {
    if to < from { format!("-{}", seconds(from - to)) } else { seconds(to - from) }
}

fn seconds(span: Duration) -> String {
    format!("{:.6}", span.as_secs_f64())
}

fn shown(bytes: &Bytes) -> String {
    bytes.escape_ascii().to_string()
}

fn json(json: &Json) -> String {
    json.to_text().escape_debug().to_string()
}

fn optional(of: Option<&Json>) -> String {
    of.map_or_else(|| "without parameters".to_owned(), json)
}

fn fields(headers: &HeaderMap) -> String {
    headers.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = write!(text, "{name}: {}; ", value.as_bytes().escape_ascii());
        text
    })
}

fn error(error: &ErrorObject) -> String {
    json(error.as_json())
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Result(result) => format!("with result {}", json(result)),
        Outcome::Error(object) => format!("with error {}", error(object)),
        Outcome::Failed(failed) => format!("without an answer: {failed}"),
    }
}

fn not_restored(reason: &NotRestored) -> String {
    match reason {
        NotRestored::Error(object) => error(object),
        other => other.to_string(),
    }
}

fn unavailable(reason: &Unavailable, retry_in: Option<Duration>) -> String {
    let reason = match reason {
        Unavailable::Error(object) => error(object),
        Unavailable::Failed(failed) => failed.to_string(),
    };
    let retry = retry_in.map_or_else(|| "not retried".to_owned(), |pause| format!("retried in {}", seconds(pause)));
    format!("unavailable: {reason}, {retry}")
}
