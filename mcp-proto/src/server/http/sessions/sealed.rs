//! Sessions whose ids contain their state, so that every instance of a server with the same keys can serve them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::json::Json;
use crate::server::principal::Principal;
use crate::server::seal::{StateKey, StateKeys, bound_to};
use crate::server::snapshot::SessionState;

/// Separates this use of the keys from any other.
const PURPOSE: &[u8] = b"mcp session id";
/// The bytes of a session id that make it unique.
const NONCE: usize = 16;
/// The longest session id. Many servers and proxies accept headers of 8 KiB in total.
const LONGEST: usize = 2048;

/// The identity of a session among all sessions of all instances.
pub(crate) type Nonce = [u8; NONCE];

/// Keys and lifetime of sessions whose ids contain their state: the revision, and the capabilities and the name of the
/// client. The id is signed, bound to the principal, and expires; a client can read it, but not alter it.
///
/// Each instance with the same keys continues a session that another one has opened, without a store and wherever a
/// load balancer sends a request. Some state stays at one instance: log levels, subscriptions to resources, events for
/// replay, and requests to the client, whose answers have to arrive at the instance that sent them. A session that was
/// ended is unknown to the instance that ended it; the others accept its id until it expires.
///
/// # Example
///
/// ```
/// # #[cfg(feature = "seal")] {
/// use std::time::Duration;
///
/// use mcp_proto::server::{HmacKey, HttpConfig, SealedSessions, SessionMode, StateKeys};
///
/// # let (this_month, last_month) = ([7; 32], [8; 32]);
/// let keys = StateKeys::new(HmacKey::new(this_month)).earlier(HmacKey::new(last_month));
/// let mut http = HttpConfig::new();
/// http.sessions = SessionMode::Sealed(SealedSessions::new(keys).lifetime(Duration::from_secs(12 * 3600)));
/// # }
/// ```
///
/// Rules: SH-S-41.
#[derive(Debug, Clone)]
pub struct SealedSessions {
    keys: StateKeys<Arc<dyn StateKey + Send + Sync>>,
    lifetime: Duration,
}

impl SealedSessions {
    /// Sessions that are signed with these keys, each for 24 hours. Every server needs its own keys: it would accept
    /// sessions of another server with the same keys.
    #[must_use]
    pub fn new<K: StateKey + Send + Sync + 'static>(keys: StateKeys<K>) -> Self {
        Self { keys: keys.map(|key| Arc::new(key) as _), lifetime: Duration::from_secs(24 * 3600) }
    }

    /// Sets the time from its opening after which no instance accepts a session any more, in whole seconds.
    #[must_use]
    pub fn lifetime(self, lifetime: Duration) -> Self {
        Self { lifetime, ..self }
    }

    pub(crate) const fn session_lifetime(&self) -> Duration {
        self.lifetime
    }

    /// The id of a session that was opened at `now`, in seconds since 1970; `None` if its state is too large for one.
    /// To fit a large state, `clientInfo` is first reduced to its name and version, then left out, because behaviour
    /// must not depend on it.
    pub(crate) fn seal(
        &self,
        nonce: &Nonce,
        principal: Option<&Principal>,
        state: &SessionState,
        now: u64,
    ) -> Option<Box<str>> {
        let expires = now.saturating_add(self.lifetime.as_secs());
        let client = state.client.as_ref();
        [client.cloned(), client.map(with_short_info), client.map(without_info)].into_iter().find_map(|client| {
            let state = SessionState { client, ..state.clone() };
            let content = [nonce, state.to_text().as_bytes()].concat();
            let id = self.keys.seal_content(&bound_to_principal(principal), &content, expires);
            (id.len() <= LONGEST).then(|| id.into())
        })
    }

    /// The nonce and the state in a session id; `None` unless an instance gave the id to this principal, and it has not
    /// expired.
    pub(crate) fn open(&self, id: &str, principal: Option<&Principal>, now: u64) -> Option<(Nonce, SessionState)> {
        if id.len() > LONGEST {
            return None;
        }
        let content = self.keys.open_content(&bound_to_principal(principal), id, now)?;
        let (nonce, state) = content.split_first_chunk::<NONCE>()?;
        Some((*nonce, SessionState::read(state.to_vec())?))
    }
}

fn bound_to_principal(principal: Option<&Principal>) -> Vec<u8> {
    bound_to(PURPOSE, [principal.map(|principal| principal.as_str().as_bytes())])
}

/// What the client has stated, with only the name and the version of its `clientInfo`.
fn with_short_info(client: &Json) -> Json {
    let [info] = client.first_members(["clientInfo"]);
    let Some(info) = info else { return client.clone() };
    let [version, name] = info.first_members(["version", "name"]);
    let named =
        [("version", version), ("name", name)].into_iter().fold(Json::empty_object(), |info, (member, value)| {
            value.map_or(info.clone(), |value| info.with_member(member, &value))
        });
    without_info(client).with_member("clientInfo", &named)
}

fn without_info(client: &Json) -> Json {
    let capabilities = client.first_member("capabilities").unwrap_or(Json::empty_object());
    Json::empty_object().with_member("capabilities", &capabilities)
}

/// The latest sessions that this instance has ended before they expired; their number is bounded.
pub(crate) struct EndedSessions {
    order: VecDeque<Nonce>,
    nonces: BTreeSet<Nonce>,
}

impl EndedSessions {
    pub(crate) const fn new() -> Self {
        Self { order: VecDeque::new(), nonces: BTreeSet::new() }
    }

    /// Adds a session; the oldest ones beyond `limit` are dropped.
    pub(crate) fn add(&mut self, nonce: Nonce, limit: usize) {
        if self.nonces.insert(nonce) {
            self.order.push_back(nonce);
        }
        while self.order.len() > limit {
            if let Some(oldest) = self.order.pop_front() {
                self.nonces.remove(&oldest);
            }
        }
    }

    pub(crate) fn contains(&self, nonce: &Nonce) -> bool {
        self.nonces.contains(nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::seal::tests::Toy;
    use crate::spec::ProtocolVersion;

    const NONCE_1: Nonce = [1; 16];

    fn state(client: &str) -> SessionState {
        SessionState::opened(ProtocolVersion::V2025_11_25, Some(Json::parse(client.to_owned()).unwrap()))
    }

    fn sealed(key: u8) -> SealedSessions {
        SealedSessions::new(StateKeys::new(Toy(key))).lifetime(Duration::from_secs(100))
    }

    #[test]
    fn sh_s_41_a_sealed_id_is_good_for_its_principal_its_time_and_its_keys() {
        let state = state(r#"{"capabilities":{"roots":{}}}"#);
        let (ada, eve) = (Principal::new("ada"), Principal::new("eve"));
        let id = sealed(7).seal(&NONCE_1, Some(&ada), &state, 1000).unwrap();
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        let rotated = SealedSessions::new(StateKeys::new(Toy(8)).earlier(Toy(7)));
        for (keys, principal, now, is_good) in [
            (&sealed(7), Some(&ada), 1099, true),
            (&rotated, Some(&ada), 1099, true),
            (&sealed(7), Some(&ada), 1100, false),
            (&sealed(8), Some(&ada), 1099, false),
            (&sealed(7), Some(&eve), 1099, false),
            (&sealed(7), None, 1099, false),
        ] {
            let expected = is_good.then(|| (NONCE_1, state.clone()));
            assert_eq!(keys.open(&id, principal, now), expected, "{principal:?} {now}");
        }
        assert_ne!(sealed(7).seal(&[2; 16], Some(&ada), &state, 1000).unwrap(), id, "a nonce makes it unique");
    }

    #[test]
    fn sh_s_41_no_altered_text_is_an_id() {
        let id = sealed(7).seal(&NONCE_1, None, &state("{}"), 0).unwrap();
        for at in 0..id.len() {
            for byte in ["A", "B", "_", "=", ""] {
                let mut altered = id.to_string();
                altered.replace_range(at..=at, byte);
                assert!(altered == *id || sealed(7).open(&altered, None, 0).is_none(), "{at} {byte}");
            }
        }
        let other_use = StateKeys::new(Toy(7)).seal_content(b"mcp requestState", &[0; 64], 100);
        for text in ["", "AQ", "é", &id[..40], &"A".repeat(3000), &other_use] {
            assert!(sealed(7).open(text, None, 0).is_none(), "{text}");
        }
    }

    #[test]
    fn a_large_client_info_is_shortened_and_large_capabilities_have_no_sealed_id() {
        let (large, huge) = ("x".repeat(1400), "x".repeat(2100));
        for (client, expected) in [
            (
                format!(r#"{{"clientInfo":{{"name":"n","version":"1","title":"{large}"}},"capabilities":{{}}}}"#),
                Some(r#"{"clientInfo":{"name":"n","version":"1"},"capabilities":{}}"#),
            ),
            (
                format!(r#"{{"clientInfo":{{"name":"{large}","version":"1"}},"capabilities":{{"roots":{{}}}}}}"#),
                Some(r#"{"capabilities":{"roots":{}}}"#),
            ),
            (format!(r#"{{"capabilities":{{"experimental":{{"{huge}":{{}}}}}}}}"#), None),
        ] {
            let id = sealed(7).seal(&NONCE_1, None, &state(&client), 0);
            assert!(id.as_ref().is_none_or(|id| id.len() <= LONGEST));
            let opened = id.map(|id| sealed(7).open(&id, None, 0).unwrap().1);
            assert_eq!(opened, expected.map(state));
        }
    }

    #[test]
    fn the_sessions_that_were_ended_last_are_known() {
        let mut ended = EndedSessions::new();
        for number in [1, 2, 1, 3] {
            ended.add([number; 16], 2);
        }
        assert_eq!([1, 2, 3].map(|number| ended.contains(&[number; 16])), [false, true, true]);
    }
}
