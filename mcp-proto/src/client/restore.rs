//! Restores the settings of a lost session in the next one: subscriptions to resources, and the level of log messages
//! (SH-C-08).
//!
//! Only revisions that begin with `initialize` have such settings. Only the HTTP transport can lose a session while the
//! connection continues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::event::{Event, NotRestored};
use super::transport::ClientTransport;
use super::{Call, Client, Purpose};
use crate::Instant;
use crate::conversation::keys::RequestKey;
use crate::conversation::outcome::Outcome;
use crate::error::Failed;
use crate::json::Json;
use crate::spec::{Method, SettingChange};

/// The maximum number of unanswered requests that restore settings: other requests need exchanges, too.
const RESTORING_AT_ONCE: usize = 8;
/// The memory that one setting takes in addition to its contents, in bytes.
const ENTRY: usize = 256;

/// A setting of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Setting {
    LogLevel,
    /// A subscription to the resource with this URI.
    Resource(Box<str>),
}

impl Setting {
    const fn method(&self) -> Method {
        match self {
            Self::LogLevel => Method::LOGGING_SET_LEVEL,
            Self::Resource(_) => Method::RESOURCES_SUBSCRIBE,
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::LogLevel => ENTRY,
            Self::Resource(uri) => ENTRY + uri.len(),
        }
    }
}

/// A request that changes a setting: the new parameters, or `None` if it ends a subscription.
#[derive(Debug)]
struct Change {
    setting: Setting,
    params: Option<Json>,
}

impl Change {
    fn of(method: &Method, params: Option<&Json>) -> Option<Self> {
        let change = method.facts().changes_setting?;
        let setting = match change {
            SettingChange::LogLevel => Setting::LogLevel,
            SettingChange::Subscribe | SettingChange::Unsubscribe => {
                let uri = params?.first_member("uri")?;
                Setting::Resource(Box::from(&*uri.as_string()?))
            }
        };
        // A copy: the original may keep the buffer of a whole message alive.
        let copy = |params: &Json| Json::from_valid_text(Bytes::copy_from_slice(params.as_bytes()));
        let params = params.filter(|_| change != SettingChange::Unsubscribe).map(copy);
        Some(Self { setting, params })
    }

    fn weight(&self) -> usize {
        self.setting.weight() + self.params.as_ref().map_or(0, Json::len)
    }
}

/// The settings of a session.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// In force, with the parameters that set them.
    in_force: BTreeMap<Setting, Json>,
    /// Unanswered requests of the application that change settings.
    changing: BTreeMap<RequestKey, Change>,
    /// Bytes of `in_force` and `changing`.
    bytes: usize,
    /// A setting was not kept, because `Limits::session_settings` was reached.
    is_incomplete: bool,
    /// The session in which they were set is lost.
    is_lost: bool,
    /// Settings that are not restored yet.
    waiting: VecDeque<Setting>,
    /// Settings that are not restored yet because an unanswered request of the application may replace or end them.
    deferred: BTreeSet<Setting>,
    /// Requests that restore settings and are not answered yet.
    restoring: BTreeMap<RequestKey, Setting>,
    /// Restored subscriptions, and whether the log level was restored, since the last report.
    restored: (usize, bool),
    /// `restore_more` is running; a nested call returns at once.
    is_sending: bool,
}

impl Settings {
    fn begin(&mut self, request: RequestKey, method: &Method, params: Option<&Json>, limit: usize) {
        let Some(change) = Change::of(method, params) else { return };
        if self.bytes + change.weight() <= limit {
            self.bytes += change.weight();
            self.changing.insert(request, change);
        } else if change.params.is_some() {
            self.is_incomplete = true;
        } else {
            // A subscription that the server may have ended is not restored.
            self.forget(&change.setting);
        }
    }

    /// The request that changes a setting has ended.
    fn end(&mut self, request: RequestKey, is_success: bool) {
        let Some(change) = self.changing.remove(&request) else { return };
        self.bytes -= change.weight();
        let is_due = self.deferred.remove(&change.setting);
        if is_success {
            self.forget(&change.setting);
            if let Some(params) = change.params {
                self.bytes += change.setting.weight() + params.len();
                self.in_force.insert(change.setting, params);
            }
        } else if is_due {
            self.waiting.push_back(change.setting);
        }
    }

    fn forget(&mut self, setting: &Setting) {
        if let Some(params) = self.in_force.remove(setting) {
            self.bytes -= setting.weight() + params.len();
        }
    }

    /// Bytes of settings and unanswered changes that are kept.
    pub(super) const fn held(&self) -> usize {
        self.bytes
    }

    /// The next setting to be restored, with its parameters; `None` if enough are being restored.
    fn next(&mut self) -> Option<(Setting, Json)> {
        while self.restoring.len() < RESTORING_AT_ONCE {
            let setting = self.waiting.pop_front()?;
            if let Some(params) = self.in_force.get(&setting).cloned() {
                return Some((setting, params));
            }
        }
        None
    }

    pub(super) fn is_restoring(&self) -> bool {
        !self.waiting.is_empty() || !self.restoring.is_empty()
    }
}

impl<T: ClientTransport> Client<T> {
    /// The application makes a request that may change a setting.
    pub(super) fn note_setting(&mut self, request: RequestKey, method: &Method, params: Option<&Json>) {
        if !T::CAN_LOSE_SESSION {
            return;
        }
        if let Some(settings) = self.connection.settings_to_change() {
            settings.begin(request, method, params, self.config.limits.session_settings);
        }
    }

    pub(super) fn note_outcome(&mut self, request: RequestKey, outcome: &Outcome, now: Instant) {
        let Some(settings) = self.connection.settings_mut() else { return };
        settings.end(request, matches!(outcome, Outcome::Result(_)));
        if !settings.waiting.is_empty() {
            self.restore_more(now);
        }
    }

    /// The session is lost, and with it the requests that were restoring settings in it.
    pub(super) fn lose_settings(&mut self, now: Instant) {
        let Some(settings) = self.connection.settings_mut() else { return };
        settings.is_lost = true;
        settings.waiting.clear();
        settings.deferred.clear();
        settings.restored = (0, false);
        for request in std::mem::take(&mut settings.restoring).into_keys() {
            if self.outgoing.give_up(request, &mut self.timers).is_some() {
                self.with_transport(now, |transport, output| transport.abandon(request, now, output));
            }
        }
    }

    /// Restores the settings in a session that replaces a lost one.
    pub(super) fn restore_settings(&mut self, now: Instant) {
        let Some(settings) = self.connection.settings_mut() else { return };
        if std::mem::take(&mut settings.is_lost) {
            if settings.is_incomplete {
                let reason = NotRestored::NotKept { limit: self.config.limits.session_settings };
                self.out.report(Event::NotRestored { method: Method::RESOURCES_SUBSCRIBE, params: None, reason });
            }
            let changing: BTreeSet<_> = settings.changing.values().map(|change| &change.setting).collect();
            let (deferred, waiting): (Vec<_>, Vec<_>) =
                settings.in_force.keys().cloned().partition(|setting| changing.contains(setting));
            settings.deferred = deferred.into_iter().collect();
            settings.waiting = waiting.into();
        }
        self.restore_more(now);
    }

    fn restore_more(&mut self, now: Instant) {
        let Some(settings) = self.connection.settings_mut() else { return };
        // If a request fails at once, this loop sends the next one, instead of a nested call.
        if std::mem::replace(&mut settings.is_sending, true) {
            return;
        }
        while self.connection.phase.takes_requests() {
            let Some((setting, params)) = self.connection.settings_mut().and_then(Settings::next) else { break };
            let call = Call::new(setting.method()).params(params);
            // The request may end before `send_internal` returns.
            let request = self.outgoing.next_key();
            if let Some(settings) = self.connection.settings_mut() {
                settings.restoring.insert(request, setting);
            }
            self.send_internal(call, Purpose::Restoring, now);
        }
        let Some(settings) = self.connection.settings_mut() else { return };
        settings.is_sending = false;
        if !settings.is_restoring() {
            let (subscriptions, log_level) = std::mem::take(&mut settings.restored);
            if subscriptions > 0 || log_level {
                self.out.report(Event::Restored { subscriptions, log_level });
            }
            self.send_held(now);
        }
    }

    /// A request that restores a setting has ended.
    pub(super) fn on_restored(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        let Some(settings) = self.connection.settings_mut() else { return };
        let Some(setting) = settings.restoring.remove(&request) else { return };
        let reason = match outcome {
            Outcome::Result(_) => {
                match setting {
                    Setting::LogLevel => settings.restored.1 = true,
                    Setting::Resource(_) => settings.restored.0 += 1,
                }
                None
            }
            // The next session restores all settings again; after the end of the connection, there is none.
            Outcome::Failed(Failed::SessionLost) => return,
            Outcome::Failed(reason) if reason.is_end_of_connection() => return,
            Outcome::Error(error) => Some(NotRestored::Error(error)),
            Outcome::Failed(reason) => Some(NotRestored::Failed(reason)),
        };
        if let Some(reason) = reason {
            let params = settings.in_force.get(&setting).cloned();
            settings.forget(&setting);
            self.out.report(Event::NotRestored { method: setting.method(), params, reason });
        }
        self.restore_more(now);
    }
}
