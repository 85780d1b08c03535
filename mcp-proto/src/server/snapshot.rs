//! The state of a session as bytes, with which another server continues it.

use std::sync::Arc;

use super::subscribed::Names;
use crate::conversation::keys::InstanceId;
use crate::json::Json;
use crate::json::scan::DEEPEST;
use crate::spec::{LoggingLevel, ProtocolVersion};
use crate::store::LAST_NUMBER;

/// The largest text that is read as a state: what a client states about itself and subscribes to is within the limits of messages.
const LARGEST: usize = 16 << 20;

/// The form of the text that this version reads and writes.
const FORM: i64 = 1;

/// The state of a session between two messages: the result of the handshake, and what the client has set since.
///
/// As text it is a JSON object, because its largest part is one. A reader ignores members that it does not know, and reads
/// no text of another form.
///
/// | member | contents |
/// |---|---|
/// | `f` | the form, if it is not in an id |
/// | `v` | the revision |
/// | `c` | what the client has stated about itself |
/// | `l` | the log level |
/// | `s` | the resources that the client has subscribed to |
/// | `p` | the name of the principal |
/// | `g` | the tag of the GET stream, in hexadecimal |
/// | `n` | the number of the next request to the client, in a snapshot |
/// | `e` | the number of the next event of the GET stream, in a snapshot |
/// | `h` | the instance that has the GET stream, whether it is open there, and the number of the last event that was sent |
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionState {
    pub(super) version: ProtocolVersion,
    /// Its `capabilities` and `clientInfo`.
    pub(super) client: Option<Json>,
    pub(super) logging_level: Option<LoggingLevel>,
    pub(super) subscribed: Names,
    /// The part that session ids do not contain.
    pub(super) kept: Option<Kept>,
}

/// The part of a state that is not for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(super) principal: Option<Box<str>>,
    pub(super) get_stream: u64,
    pub(super) place: Option<GetStreamPlace>,
    /// Numbers that are not used again; zero if they are counted elsewhere.
    pub(super) next_request: u64,
    pub(super) next_event: u64,
}

/// The instance that has the GET stream of a session, or had it last. This instance also sends published changes to the
/// client of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GetStreamPlace {
    pub(super) instance: InstanceId,
    /// A client is connected to the GET stream.
    pub(super) is_open: bool,
    /// The number of the last event that was sent, if no client is connected.
    pub(super) sent: u64,
}

/// A change of what a client has set in its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// The lowest level of log messages.
    Level(LoggingLevel),
    /// The client has subscribed to a resource.
    Subscribed(Arc<str>),
    /// The client has unsubscribed from a resource.
    Unsubscribed(Arc<str>),
}

impl SessionState {
    /// The state of a session that has just been opened.
    pub(super) fn opened(version: ProtocolVersion, client: Option<Json>) -> Self {
        Self { version, client, logging_level: None, subscribed: Names::default(), kept: None }
    }

    pub(super) fn to_text(&self) -> Json {
        let kept = self.kept.as_ref();
        let place = kept.and_then(|kept| kept.place);
        let number = |of: fn(&Kept) -> u64| kept.map(of).filter(|number| *number > 0).map(Json::from);
        let members = [
            ("h", place.map(GetStreamPlace::to_json)),
            ("e", number(|kept| kept.next_event)),
            ("n", number(|kept| kept.next_request)),
            ("g", kept.map(|kept| hex(kept.get_stream))),
            ("p", kept.and_then(|kept| kept.principal.as_deref()).map(Json::from)),
            ("s", self.subscribed.to_json()),
            ("l", self.logging_level.map(|level| Json::from(level.as_str()))),
            ("c", self.client.clone()),
            ("v", Some(Json::from(self.version.as_str()))),
            ("f", kept.map(|_| Json::from(FORM))),
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
        // The server that received the client's statements may have had another limit for the depth of messages.
        let state = Json::parse_within(text, DEEPEST).ok()?;
        let [form, version, client, level, subscribed] = state.first_members(["f", "v", "c", "l", "s"]);
        let kept = match form {
            Some(form) if form.to_text() == "1" => Some(Kept::read(&state)?),
            Some(_) => return None,
            None => None,
        };
        let level = match level {
            Some(level) => Some(LoggingLevel::from_text(&level.as_string()?)?),
            None => None,
        };
        Some(Self {
            version: ProtocolVersion::from_text(&version?.as_string()?).filter(|version| !version.is_stateless())?,
            client,
            logging_level: level,
            subscribed: Names::read(subscribed.as_ref())?,
            kept,
        })
    }

    pub(super) fn set(&mut self, setting: &Setting) {
        match setting {
            Setting::Level(level) => self.logging_level = Some(*level),
            Setting::Subscribed(uri) => {
                if self.subscribed.has_room_for(uri) {
                    self.subscribed.insert(Arc::clone(uri));
                }
            }
            Setting::Unsubscribed(uri) => {
                self.subscribed.remove(uri);
            }
        }
    }
}

impl Kept {
    fn read(state: &Json) -> Option<Self> {
        let [principal, get_stream, place, next_request, next_event] = state.first_members(["p", "g", "h", "n", "e"]);
        let number = |of: Option<Json>| of.map_or(Some(0), |number| read_number(&number));
        let principal = match principal {
            Some(principal) => Some(Box::from(&*principal.as_string()?)),
            None => None,
        };
        let place = match place {
            Some(place) => Some(GetStreamPlace::read(&place)?),
            None => None,
        };
        let get_stream = read_hex(&get_stream?)?;
        Some(Self {
            principal,
            get_stream,
            place,
            next_request: number(next_request)?,
            next_event: number(next_event)?,
        })
    }
}

impl GetStreamPlace {
    fn to_json(self) -> Json {
        let place = Json::empty_object().with_member("n", &Json::from(self.sent));
        let place = if self.is_open { place.with_member("o", &Json::from(true)) } else { place };
        place.with_member("i", &Json::from(self.instance.to_string()))
    }

    fn read(place: &Json) -> Option<Self> {
        let [instance, is_open, sent] = place.first_members(["i", "o", "n"]);
        Some(Self {
            instance: InstanceId::new(read_hex(&instance?)?),
            is_open: is_open.is_some(),
            sent: read_number(&sent?)?,
        })
    }
}

/// Reads a number of events or requests.
fn read_number(text: &Json) -> Option<u64> {
    text.to_text().parse().ok().filter(|number| *number <= LAST_NUMBER)
}

/// 16 hexadecimal digits.
pub(super) fn hex(number: u64) -> Json {
    Json::from(format!("{number:016x}"))
}

/// Reads 16 hexadecimal digits.
pub(super) fn read_hex(text: &Json) -> Option<u64> {
    let text = text.as_string()?;
    (text.len() == 16).then(|| u64::from_str_radix(&text, 16).ok()).flatten()
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
