//! Settings of a legacy server's session that the relay makes for its modern client: the log level, and the resources
//! that it subscribes to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcp_proto::client::{Call, ClientTransport, NotRestored, Outcome};
use mcp_proto::server::{ServerTransport, SubscriptionChange};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{Failed, Instant, Json, Method, RequestKey, Ticket, UsageError};

use super::Event;
use super::sides::Sides;

/// The maximum bytes of resource names in setting requests that are not answered.
const REQUEST_BYTES: usize = 1024 * 1024;

/// The settings that the client's requests and subscriptions need, and the requests that make them.
#[derive(Debug)]
pub(super) struct SessionSettings {
    /// Whether the server has log levels.
    has_levels: bool,
    /// The level that was set last.
    level: Option<LoggingLevel>,
    /// The resources that the relay has subscribed to at the server.
    watched: BTreeSet<Arc<str>>,
    /// Setting requests that are not answered yet.
    open: BTreeMap<RequestKey, Setting>,
    /// The bytes of the resource names in `open`.
    open_bytes: usize,
    /// Setting requests that ended without an answer: they are sent again in the next session.
    unanswered: BTreeSet<Setting>,
}

/// A request that makes a setting.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Setting {
    SetLevel(LoggingLevel),
    Subscribe(Arc<str>),
    Unsubscribe(Arc<str>),
}

impl Setting {
    const fn method(&self) -> Method {
        match self {
            Self::SetLevel(_) => Method::LOGGING_SET_LEVEL,
            Self::Subscribe(_) => Method::RESOURCES_SUBSCRIBE,
            Self::Unsubscribe(_) => Method::RESOURCES_UNSUBSCRIBE,
        }
    }

    /// The bytes of the resource name in it.
    fn len(&self) -> usize {
        match self {
            Self::SetLevel(_) => 0,
            Self::Subscribe(uri) | Self::Unsubscribe(uri) => uri.len(),
        }
    }

    fn params(&self) -> Json {
        match self {
            Self::SetLevel(level) => Json::empty_object().with_member("level", &Json::from(level.as_str())),
            Self::Subscribe(uri) | Self::Unsubscribe(uri) => {
                Json::empty_object().with_member("uri", &Json::from(&**uri))
            }
        }
    }
}

impl SessionSettings {
    /// `capabilities` are the server's.
    pub(super) fn new(capabilities: &Json) -> Self {
        Self {
            has_levels: capabilities.first_member("logging").is_some(),
            level: None,
            watched: BTreeSet::new(),
            open: BTreeMap::new(),
            open_bytes: 0,
            unanswered: BTreeSet::new(),
        }
    }

    /// Sets the lowest level that any request has wanted, because a legacy session has only one (BR-M-08).
    pub(super) fn choose_level<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        ticket: &Ticket,
        now: Instant,
    ) {
        let wanted = sides.server.context(ticket).and_then(|context| context.logging_level);
        let Some(wanted) = wanted.filter(|wanted| self.has_levels && self.level.is_none_or(|level| *wanted < level))
        else {
            return;
        };
        self.level = Some(wanted);
        self.send(sides, Setting::SetLevel(wanted), now);
    }

    /// Sends a request of the relay's setting, which no client waits for.
    fn send<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        setting: Setting,
        now: Instant,
    ) {
        let method = setting.method();
        let has_room = self.open_bytes + setting.len() <= REQUEST_BYTES;
        let requested = if has_room {
            sides.client.request(Call::new(method.clone()).params(setting.params()), now)
        } else {
            Err(UsageError::TooManyRequests { limit: self.open.len() })
        };
        match requested {
            Ok(request) => {
                self.open_bytes += setting.len();
                self.open.insert(request, setting);
            }
            Err(error) => {
                self.give_up(sides, &setting, now);
                sides.out.report(Event::NotPassed { method, error });
            }
        }
    }

    /// Withdraws a setting that was not sent or failed, so that it is not acknowledged as in effect.
    fn give_up<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        setting: &Setting,
        now: Instant,
    ) {
        if let Setting::Subscribe(uri) = setting {
            self.watched.remove(uri);
            sides.server.exclude_resource(uri, now);
        }
    }

    /// Acknowledges only what is in effect, so that no change after the acknowledgement is missed (MD-L-02, BR-M-09).
    pub(super) fn acknowledge_listens<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        now: Instant,
    ) {
        let subscriptions = self.open.values().chain(&self.unanswered);
        let pending: BTreeSet<&str> = subscriptions
            .filter_map(|setting| match setting {
                Setting::Subscribe(uri) => Some(&**uri),
                Setting::SetLevel(_) | Setting::Unsubscribe(_) => None,
            })
            .collect();
        sides.server.acknowledge_listens(|uri| pending.contains(uri), now);
    }

    /// Handles the outcome of a setting request. Returns the outcome if `request` is another one.
    pub(super) fn on_outcome<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        request: RequestKey,
        outcome: Outcome,
        now: Instant,
    ) -> Option<Outcome> {
        let Some(setting) = self.open.remove(&request) else { return Some(outcome) };
        self.open_bytes -= setting.len();
        self.on_setting_outcome(sides, setting, outcome, now);
        self.acknowledge_listens(sides, now);
        None
    }

    fn on_setting_outcome<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        setting: Setting,
        outcome: Outcome,
        now: Instant,
    ) {
        let method = setting.method();
        let (setting, reason) = match outcome {
            Outcome::Result(_) => return,
            Outcome::Failed(reason) if reason.is_end_of_connection() => return,
            Outcome::Failed(Failed::SessionLost) => match self.ask_again(setting, sides.limits.session_settings) {
                Ok(()) => return,
                Err(setting) => (setting, NotRestored::Failed(Failed::SessionLost)),
            },
            Outcome::Error(error) => (setting, NotRestored::Error(error)),
            Outcome::Failed(reason) => (setting, NotRestored::Failed(reason)),
        };
        let may_later = matches!(reason, NotRestored::Failed(_)) && !matches!(setting, Setting::Subscribe(_));
        self.give_up(sides, &setting, now);
        if may_later {
            // If there is no room for it, it is just not in effect, which is reported below anyway.
            let _ = self.ask_again(setting, sides.limits.session_settings);
        }
        sides.out.report(Event::NotInEffect { method, reason });
    }

    /// Subscribes to a resource at the server once for all clients' subscriptions to it (BR-M-09).
    pub(super) fn on_subscription_change<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        change: SubscriptionChange,
        now: Instant,
    ) {
        let setting = match change {
            SubscriptionChange::Subscribed(uri) => {
                self.watched.insert(Arc::clone(&uri));
                Setting::Subscribe(uri)
            }
            SubscriptionChange::Unsubscribed(uri) => {
                if !self.watched.remove(&uri) {
                    // The server has refused the subscription.
                    return;
                }
                Setting::Unsubscribe(uri)
            }
        };
        self.send(sides, setting, now);
    }

    /// Sends setting requests again after the session was reopened: those that the old session did not answer
    /// and that are still needed. The client machine restores what was in effect.
    pub(super) fn restore<S: ServerTransport, T: ClientTransport>(
        &mut self,
        sides: &mut Sides<'_, S, T>,
        now: Instant,
    ) {
        for setting in std::mem::take(&mut self.unanswered) {
            if self.wants(&setting) {
                self.send(sides, setting, now);
            }
        }
    }

    /// Whether a setting is still needed.
    fn wants(&self, setting: &Setting) -> bool {
        match setting {
            Setting::SetLevel(level) => self.level == Some(*level),
            Setting::Subscribe(uri) => self.watched.contains(uri),
            Setting::Unsubscribe(uri) => !self.watched.contains(uri),
        }
    }

    /// Stores a failed setting request for the next session if it is still needed.
    ///
    /// # Errors
    ///
    /// Returns the request if there is no room for it.
    fn ask_again(&mut self, setting: Setting, most: usize) -> Result<(), Setting> {
        const ENTRY: usize = 256;
        let noted = std::mem::take(&mut self.unanswered);
        self.unanswered = noted.into_iter().filter(|noted| self.wants(noted)).collect();
        if !self.wants(&setting) {
            return Ok(());
        }
        let bytes: usize = self.unanswered.iter().chain([&setting]).map(|setting| setting.len() + ENTRY).sum();
        if bytes > most {
            return Err(setting);
        }
        self.unanswered.insert(setting);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_answered_is_noted_for_the_next_session_while_it_has_a_purpose_and_room() {
        let mut state = SessionSettings::new(&Json::empty_object());
        let [first, second]: [Arc<str>; 2] = ["a".repeat(100).into(), "b".repeat(50).into()];
        let subscribe = |uri: &Arc<str>| Setting::Subscribe(Arc::clone(uri));
        state.watched.extend([Arc::clone(&first), Arc::clone(&second)]);
        assert_eq!(state.ask_again(subscribe(&first), 355), Err(subscribe(&first)));
        assert_eq!(state.ask_again(subscribe(&first), 356), Ok(()));
        assert_eq!(state.ask_again(subscribe(&second), 661), Err(subscribe(&second)));
        assert_eq!(state.ask_again(subscribe(&second), 662), Ok(()));
        assert_eq!(state.unanswered.len(), 2);
        // The first is not watched any more, which makes room.
        state.watched.remove(&first);
        assert_eq!(state.ask_again(Setting::Unsubscribe(Arc::clone(&first)), 662), Ok(()));
        assert_eq!(state.unanswered, [subscribe(&second), Setting::Unsubscribe(first)].into());
        assert_eq!(state.ask_again(Setting::Unsubscribe(second), 0), Ok(()), "it has no purpose");
        let (level, lower) = (LoggingLevel::Warning, LoggingLevel::Info);
        state.level = Some(level);
        assert_eq!(state.ask_again(Setting::SetLevel(lower), 10_000), Ok(()));
        assert_eq!(state.ask_again(Setting::SetLevel(level), 10_000), Ok(()));
        assert!(state.unanswered.contains(&Setting::SetLevel(level)) && state.unanswered.len() == 3);
    }
}
