//! The state of a session as bytes, with which another server continues it.

use super::LoggingLevel;
use super::session::{Phase, Session};
use super::shared::Shared;
use super::subscribed::Names;
use super::transport::ServerTransport;
use crate::codec::json::Json;
use crate::spec::ProtocolVersion;

/// The largest text that is read as a state.
const LARGEST: usize = 128 * 1024;

/// What a session is between two messages: what the handshake has settled, and what the client has set since.
///
/// As text it is a JSON object, because its largest part is one: `v` is the revision, `c` what the client has stated about
/// itself, `l` the log level, and `s` the resources that it has subscribed to. A reader ignores members that it does not
/// know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionState {
    pub(super) version: ProtocolVersion,
    /// Its `capabilities` and `clientInfo`.
    pub(super) client: Option<Json>,
    pub(super) logging_level: Option<LoggingLevel>,
    pub(super) subscribed: Names,
}

impl SessionState {
    /// The state of a session that has just been opened.
    pub(super) fn opened(version: ProtocolVersion, client: Option<Json>) -> Self {
        Self { version, client, logging_level: None, subscribed: Names::default() }
    }

    pub(super) fn to_text(&self) -> Json {
        let members = [
            ("s", self.subscribed.to_json()),
            ("l", self.logging_level.map(|level| Json::from(level.as_str()))),
            ("c", self.client.clone()),
            ("v", Some(Json::from(self.version.as_str()))),
        ];
        members.into_iter().fold(Json::empty_object(), |state, (name, value)| match value {
            Some(value) => state.with_member(name, &value),
            None => state,
        })
    }

    /// Reads a state; `None` if it is none, or of a revision without sessions.
    pub(super) fn read(text: Vec<u8>) -> Option<Self> {
        if text.len() > LARGEST {
            return None;
        }
        let state = Json::parse(text).ok()?;
        let [version, client, level, subscribed] = state.first_members(["v", "c", "l", "s"]);
        let level = match level {
            Some(level) => Some(LoggingLevel::from_text(&level.as_string()?)?),
            None => None,
        };
        Some(Self {
            version: ProtocolVersion::from_text(&version?.as_string()?).filter(|version| !version.is_stateless())?,
            client,
            logging_level: level,
            subscribed: Names::read(subscribed.as_ref())?,
        })
    }
}

impl Session {
    /// Continues a session that another server has opened. Its client has sent `notifications/initialized`, or is sending
    /// it now.
    pub(super) fn continue_from<T: ServerTransport>(&mut self, state: SessionState, shared: &mut Shared<'_, T>) {
        self.phase = Phase::Ready;
        self.version = Some(state.version);
        self.settings.client = state.client;
        self.settings.logging_level = state.logging_level;
        self.settings.subscribed = shared.resources.add_all(&state.subscribed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let client = json(r#"{"capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}"#);
        let plain = SessionState::opened(ProtocolVersion::V2025_06_18, None);
        let full = SessionState {
            client: Some(client),
            logging_level: Some(LoggingLevel::Error),
            subscribed: Names::read(Some(&json(r#"["file:///a","file:///\"b"]"#))).unwrap(),
            ..SessionState::opened(ProtocolVersion::V2025_03_26, None)
        };
        for state in [plain, full] {
            assert_eq!(SessionState::read(state.to_text().as_bytes().to_vec()), Some(state));
        }
    }

    #[test]
    fn what_is_no_state_is_not_read() {
        for (text, is_state) in [
            (r#"{"v":"2025-11-25"}"#, true),
            (r#"{"v":"2025-11-25","later":1}"#, true),
            (r#"{"v":"2026-07-28"}"#, false),
            (r#"{"v":"1999-01-01"}"#, false),
            (r#"{"v":7}"#, false),
            (r#"{"v":"2025-11-25","l":"loud"}"#, false),
            (r#"{"v":"2025-11-25","s":[7]}"#, false),
            ("{}", false),
            ("[]", false),
            ("", false),
        ] {
            assert_eq!(SessionState::read(text.as_bytes().to_vec()).is_some(), is_state, "{text}");
        }
        let long = format!(r#"{{"v":"2025-11-25","x":"{}"}}"#, "a".repeat(LARGEST));
        assert_eq!(SessionState::read(long.into_bytes()), None);
    }
}
