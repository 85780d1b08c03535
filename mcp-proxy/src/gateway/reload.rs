//! Changes the configuration of a running gateway: after SIGHUP, or when the file has changed.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use mcp_blocking::{Gateway, GatewayReloader};

use super::plan::Plan;
use super::setup::Setup;
use crate::args::{Args, serve::ServeArgs};

/// How often `--watch` reads the file.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Options that apply from the start of the process on, by their long names.
const AT_START: [&str; 11] = [
    "listen",
    "max-connections",
    "leave-after",
    "health",
    "metrics",
    "audit",
    "audit-required",
    "log-level",
    "log-file",
    "log-format",
    "record",
];
/// Options that apply to the requests that follow, while servers keep their processes and sessions.
const AT_ONCE: [&str; 14] = [
    "token-env",
    "token-issuer",
    "token-keys",
    "token-scope",
    "allow-host",
    "allow-origin",
    "allow-unauthenticated",
    "drain-timeout",
    "allow-tool",
    "deny-tool",
    "allow-prompt",
    "deny-prompt",
    "allow-resource",
    "deny-resource",
];

/// Asks for a reload, from any thread.
#[derive(Clone)]
pub(super) struct ReloadRequest(SyncSender<()>);

impl ReloadRequest {
    /// The means to ask for a reload, and what receives that.
    pub(super) fn new() -> (Self, ReloadRequests) {
        let (sender, asked) = sync_channel(1);
        (Self(sender.clone()), ReloadRequests { asked, _own: sender })
    }

    pub(super) fn send(&self) {
        // If one is waiting already, that one reads the file later.
        let _ = self.0.try_send(());
    }
}

/// Receives what asks for a reload.
pub(super) struct ReloadRequests {
    asked: Receiver<()>,
    /// Where no signal asks for a reload, a watched file may still change.
    _own: SyncSender<()>,
}

impl ReloadRequests {
    /// Waits for a request. With a watched file, it also returns after a while; whether a reload is due.
    fn wait(&self, watched: Option<&mut Watched>) -> bool {
        match watched {
            None => self.asked.recv().is_ok(),
            Some(watched) => match self.asked.recv_timeout(WATCH_INTERVAL) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => watched.has_changed(),
                Err(RecvTimeoutError::Disconnected) => false,
            },
        }
    }
}

/// What changes the configuration.
pub(super) struct Reload {
    plan: Plan,
    setup: Arc<Setup>,
    reloader: GatewayReloader,
    requests: ReloadRequests,
}

impl Reload {
    /// Changes a gateway that serves this plan, as it is asked for.
    pub(super) const fn new(
        plan: Plan,
        setup: Arc<Setup>,
        reloader: GatewayReloader,
        requests: ReloadRequests,
    ) -> Self {
        Self { plan, setup, reloader, requests }
    }

    /// Waits for requests on a thread of its own.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub(super) fn spawn(self) -> io::Result<()> {
        thread::Builder::new().name("mcp-reload".to_owned()).spawn(move || self.run()).map(drop)
    }

    fn run(mut self) {
        self.reloader.wait_until_running();
        let mut watched = Watched::new(&self.plan.args);
        loop {
            if self.requests.wait(watched.as_mut()) {
                self.reload();
            }
        }
    }

    /// Reads the configuration again. If it has a mistake, the earlier one stays in force.
    fn reload(&mut self) {
        let outcome = self.apply();
        self.setup.metrics.reloaded(outcome.is_ok());
        if let Err(error) = outcome {
            log::error!("the configuration was not changed: {error}");
        }
    }

    fn apply(&mut self) -> Result<(), String> {
        let earlier = Arc::clone(&self.plan.args);
        let args = Args::serve_of_words(&earlier.line, &|words| with_start_of(&earlier.words, &words))?;
        let replaces_all = changed(&earlier, &args).iter().any(|option| !AT_ONCE.contains(&option.as_str()));
        let mut plan = Plan::new(Arc::new(args))?;
        self.setup.check(&plan)?;
        let kept = if replaces_all { BTreeSet::new() } else { plan.kept_from(&self.plan) };
        let changes = plan.take_remotes_of(&self.plan, &kept);
        let next = self.setup.gateway(Gateway::new(), &plan, &kept)?;
        self.setup.leave_out_too(&plan);
        self.reloader.reload(next).map_err(|error| error.to_string())?;
        for change in changes {
            change.apply();
        }
        let (before, users) = (Arc::clone(&self.plan.users), Arc::clone(&plan.users));
        let has_same_source = users.have_source_of(&before);
        self.reloader.end_withdrawn(move |client| !has_same_source || !users.may_have(client));
        plan.warn();
        log::info!(
            "the configuration was read again; servers: {}, of which keep their processes: {}",
            plan.servers.len(),
            kept.len()
        );
        self.plan = plan;
        Ok(())
    }
}

/// The options whose words differ, by their long names.
fn changed(earlier: &ServeArgs, later: &ServeArgs) -> BTreeSet<String> {
    let differs = |option: &String| words_of(&earlier.words, option).ne(words_of(&later.words, option));
    let options = earlier.words.iter().chain(&later.words).map(|word| option(word).to_owned());
    options.collect::<BTreeSet<_>>().into_iter().filter(differs).collect()
}

/// The words of the file, but those of options that apply from the start of the process on as they were.
fn with_start_of(earlier: &[String], later: &[String]) -> Vec<String> {
    let is_at_start = |word: &&String| AT_START.contains(&option(word));
    for option in AT_START {
        if words_of(earlier, option).ne(words_of(later, option)) {
            log::warn!("the option {option} of the file takes effect when the gateway is started again");
        }
    }
    let kept = earlier.iter().filter(is_at_start).cloned();
    let new = later.iter().filter(|word| !is_at_start(word)).cloned();
    kept.chain(new).collect()
}

/// The long name of the option in a word such as `--max-sessions=5`.
fn option(word: &str) -> &str {
    let word = word.trim_start_matches('-');
    word.split_once('=').map_or(word, |(option, _)| option)
}

fn words_of<'w>(words: &'w [String], name: &str) -> impl Iterator<Item = &'w String> {
    words.iter().filter(move |word| option(word) == name)
}

/// A file whose changes are noticed.
struct Watched {
    path: PathBuf,
    /// What it contained when it was last used.
    used: Option<String>,
    /// What it contained at the last look.
    seen: Option<String>,
}

impl Watched {
    /// The file of `--config`, if it is to be watched.
    fn new(args: &ServeArgs) -> Option<Self> {
        let path = args.config.clone().filter(|_| args.watch)?;
        Some(Self { path, used: args.file.clone(), seen: args.file.clone() })
    }

    /// Whether the file has other contents than were used, and is the same as at the last look: an editor may write it in
    /// several steps.
    fn has_changed(&mut self) -> bool {
        let text = std::fs::read_to_string(&self.path).ok();
        let is_complete = text.is_some() && text == self.seen;
        let is_other = text != self.used;
        self.seen.clone_from(&text);
        if is_complete && is_other {
            self.used = text;
        }
        is_complete && is_other
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::file_options;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    /// A new option must be thought of here: if it is in neither list, a change of it replaces all servers.
    #[test]
    fn options_that_apply_at_the_start_or_at_once_exist() {
        let mut command = Args::command();
        command.build();
        let serve = command.find_subcommand("serve").unwrap();
        let all: Vec<_> = file_options::fields(serve).filter_map(|(_, arg)| arg.get_long()).collect();
        for option in AT_START.iter().chain(&AT_ONCE) {
            assert!(all.contains(option), "{option} of {all:?}");
        }
        assert!(!AT_START.iter().any(|option| AT_ONCE.contains(option)));
    }

    #[test]
    fn options_of_the_start_stay_and_others_change() {
        let earlier = words(&["--listen=a", "--sse", "--allow-host=x", "--allow-host=y"]);
        let later = words(&["--listen=b", "--health", "--allow-host=y", "--share=all"]);
        let merged = with_start_of(&earlier, &later);
        assert_eq!(merged, words(&["--listen=a", "--allow-host=y", "--share=all"]));
    }

    /// As on Windows, and at a terminal.
    #[test]
    fn a_file_is_watched_where_no_signal_asks_for_a_reload() {
        let path = std::env::temp_dir().join(format!("mcp-proxy-unasked-{}", std::process::id()));
        std::fs::write(&path, "b").unwrap();
        let mut watched = Watched { path: path.clone(), used: Some("a".into()), seen: Some("b".into()) };
        let (request, requests) = ReloadRequest::new();
        drop(request);
        assert!(requests.wait(Some(&mut watched)) && !requests.wait(Some(&mut watched)));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_counts_as_changed_once_it_is_written_in_full() {
        let path = std::env::temp_dir().join(format!("mcp-proxy-watched-{}", std::process::id()));
        std::fs::write(&path, "a").unwrap();
        let mut watched = Watched { path: path.clone(), used: Some("a".into()), seen: Some("a".into()) };
        assert!(!watched.has_changed());
        std::fs::write(&path, "ab").unwrap();
        assert!(!watched.has_changed(), "it may be a part");
        std::fs::write(&path, "abc").unwrap();
        assert!(!watched.has_changed());
        assert!(watched.has_changed());
        assert!(!watched.has_changed(), "it is used");
        std::fs::remove_file(&path).unwrap();
        assert!(!watched.has_changed() && !watched.has_changed());
        std::fs::write(&path, "abc").unwrap();
        assert!(!watched.has_changed() && !watched.has_changed(), "it is as it was");
        std::fs::remove_file(path).unwrap();
    }
}
