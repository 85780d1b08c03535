//! Sessions, which are found by their ids and bound to their principals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;

use crate::Instant;
use crate::conversation::keys::SessionKey;
use crate::server::http::purpose::{Exchange, StreamOf};
use crate::server::http::sessions::sealed::{EndedSessions, Nonce};
use crate::server::http::sessions::stored::record::StoredSession;
use crate::server::http::stream::Stream;
use crate::server::http::{ExchangeKey, RequestInfo};
use crate::server::principal::Principal;
use crate::server::shares::{Holder, Shares};
use crate::spec::ProtocolVersion;

/// What the transport stores for a session. It has no `Debug`, because its id is a secret.
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    pub(crate) kind: SessionKind,
    pub(crate) principal: Option<Principal>,
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) last_active: Instant,
    /// Whether it has unanswered requests.
    pub(crate) is_serving: bool,
    /// The number of its open exchanges.
    pub(crate) exchanges: usize,
    /// The GET stream, for messages that relate to no request.
    pub(crate) get_stream: Stream,
    /// The streams of requests, by the exchange on which the request arrived.
    pub(crate) streams: BTreeMap<ExchangeKey, Stream>,
    /// The bytes of all stored events.
    pub(crate) kept_bytes: usize,
}

/// Where the state of a session is, and by which transport its client reaches it.
pub(crate) enum SessionKind {
    /// Here. Its record in the store is not written yet, or is gone, if there is a store.
    Memory,
    /// Here, and to be put into the id when the session is opened: at `opened`, in seconds since 1970. `nonce` identifies
    /// the session among those of all instances.
    Unsealed { nonce: Nonce, opened: Option<u64> },
    /// In the id.
    Sealed { nonce: Nonce },
    /// In the store.
    Stored(Box<StoredSession>),
    /// Here. All messages are sent on one stream (HS-04). `extensions` are those of the message that is being handled; its
    /// exchange has already ended.
    TwoEndpoints { extensions: Extensions },
}

pub(crate) struct Sessions {
    next: SessionKey,
    /// Boxed, because the nodes of the map are not full.
    by_key: BTreeMap<SessionKey, Box<Session>>,
    by_id: BTreeMap<Arc<str>, SessionKey>,
    /// The shares of clients. A session with an open exchange is in use.
    shares: Shares<SessionKey>,
    ended: EndedSessions,
}

impl Sessions {
    pub(crate) const fn new() -> Self {
        Self {
            next: SessionKey::FIRST,
            by_key: BTreeMap::new(),
            by_id: BTreeMap::new(),
            shares: Shares::new(),
            ended: EndedSessions::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The ids of all sessions.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_id.keys()
    }

    /// The bytes of all stored events.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.by_key.values().map(|session| session.kept_bytes).sum()
    }

    /// The open GET streams of sessions, except two-endpoint sessions, which are answered on theirs (HS-04).
    pub(crate) fn get_streams(&self) -> Vec<ExchangeKey> {
        let sessions = self.by_key.values().filter(|session| !session.is_two_endpoint());
        sessions.filter_map(|session| session.get_stream.exchange).collect()
    }

    /// Finds a session by its id. A session of another principal is treated as unknown (SE4), and so is one of the
    /// other transport, because its messages use other streams (SH-S-48, HS-04).
    pub(crate) fn find(&self, id: &str, is_two_endpoint: bool, principal: Option<&Principal>) -> Option<SessionKey> {
        let key = *self.by_id.get(id)?;
        let session = self.by_key.get(&key)?;
        let is_it = session.principal.as_ref() == principal && session.is_two_endpoint() == is_two_endpoint;
        is_it.then_some(key)
    }

    /// Opens a session, whose id is built from the driver's random bytes (SE5). `None` if the id is in use, which
    /// happens only with a broken random number generator (CL4).
    pub(crate) fn open(&mut self, info: &RequestInfo, kind: SessionKind, now: Instant) -> Option<SessionKey> {
        let session = Session::new(info.session_id().into(), info.principal().cloned(), info.tag(24), now);
        self.insert(Session { kind, ..session }, info.holder(), now)
    }

    /// Continues a session. `None` if the id is in use.
    pub(crate) fn restore(
        &mut self,
        id: &str,
        kind: SessionKind,
        version: ProtocolVersion,
        info: &RequestInfo,
        now: Instant,
    ) -> Option<SessionKey> {
        let session = Session::new(id.into(), info.principal().cloned(), info.tag(24), now);
        self.insert(Session { kind, version: Some(version), ..session }, info.holder(), now)
    }

    /// Adds a session. `None` if its id is in use.
    pub(crate) fn insert(&mut self, session: Session, holder: Holder, now: Instant) -> Option<SessionKey> {
        if self.by_id.contains_key(&session.id) {
            return None;
        }
        let key = self.next;
        self.next = key.next();
        self.by_id.insert(Arc::clone(&session.id), key);
        self.by_key.insert(key, Box::new(session));
        self.shares.insert(key, holder);
        self.shares.set_unused(key, now);
        Some(key)
    }

    /// The session with this id over Streamable HTTP, whose principal the caller has checked.
    pub(crate) fn of_id(&mut self, id: &str) -> Option<(SessionKey, &mut Session)> {
        let key = *self.by_id.get(id)?;
        let session = self.by_key.get_mut(&key)?;
        (!session.is_two_endpoint()).then_some((key, session))
    }

    /// Replaces the id of a session, which its client does not know yet, by one that contains the state.
    pub(crate) fn seal(&mut self, key: SessionKey, nonce: Nonce, id: &str) {
        let Some(session) = self.by_key.get_mut(&key) else { return };
        let id: Arc<str> = id.into();
        self.by_id.remove(&session.id);
        self.by_id.insert(Arc::clone(&id), key);
        (session.id, session.kind) = (id, SessionKind::Sealed { nonce });
    }

    /// Whether this instance has ended a session for good.
    pub(crate) fn has_ended(&self, nonce: &Nonce) -> bool {
        self.ended.contains(nonce)
    }

    /// The sessions without an open exchange that may be ended so that this client can open one, best first.
    pub(crate) fn to_evict(&self, newcomer: &Holder, long: Duration, now: Instant) -> impl Iterator<Item = SessionKey> {
        self.shares.to_evict(newcomer, long, now)
    }

    /// Records activity for a message without an open exchange that keeps the session alive.
    pub(crate) fn touch(&mut self, key: SessionKey, now: Instant) {
        let Some(session) = self.by_key.get_mut(&key) else { return };
        session.last_active = now;
        if session.exchanges == 0 {
            self.shares.set_unused(key, now);
        }
    }

    /// Replaces what the session knows of its principal by what a new request states, such as the scopes of its token.
    pub(crate) fn authenticated(&mut self, key: SessionKey, info: &RequestInfo) {
        if let Some(session) = self.by_key.get_mut(&key) {
            session.principal = info.principal().cloned();
        }
    }

    pub(crate) fn begin_exchange(&mut self, key: SessionKey) {
        if let Some(session) = self.by_key.get_mut(&key) {
            session.exchanges += 1;
            self.shares.set_used(key);
        }
    }

    /// An exchange of a session has ended, and its stream is not written to it any more.
    pub(crate) fn end_exchange(&mut self, key: SessionKey, ended: ExchangeKey, exchange: &Exchange, now: Instant) {
        if let Some(session) = self.by_key.get_mut(&key) {
            session.exchanges = session.exchanges.saturating_sub(1);
            if let Some(stream) = session.stream_of(exchange) {
                stream.exchange = stream.exchange.filter(|exchange| *exchange != ended);
            }
        }
        self.touch(key, now);
    }

    /// Whether the events of a request are added to the store.
    pub(crate) fn is_appended(&self, key: SessionKey, request: ExchangeKey) -> bool {
        let stream = self.get(key).and_then(|session| session.streams.get(&request));
        stream.is_some_and(|stream| stream.appending().is_some())
    }

    /// Whether a session is in the store.
    pub(crate) fn is_stored(&self, key: SessionKey) -> bool {
        self.get(key).is_some_and(|session| session.stored().is_some())
    }

    pub(crate) fn get(&self, key: SessionKey) -> Option<&Session> {
        self.by_key.get(&key).map(AsRef::as_ref)
    }

    pub(crate) fn get_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.by_key.get_mut(&key).map(AsMut::as_mut)
    }

    /// Removes a session. If the id contains the state, this instance then refuses the id, unless `may_return`; it
    /// remembers the last `max_ended` such ids.
    pub(crate) fn remove(&mut self, key: SessionKey, may_return: bool, max_ended: usize) -> Option<Session> {
        let session = self.by_key.remove(&key)?;
        self.by_id.remove(&session.id);
        self.shares.remove(key);
        match session.kind {
            SessionKind::Sealed { nonce } if !may_return => self.ended.add(nonce, max_ended),
            SessionKind::Sealed { .. }
            | SessionKind::Memory
            | SessionKind::Unsealed { .. }
            | SessionKind::Stored(_)
            | SessionKind::TwoEndpoints { .. } => {}
        }
        Some(*session)
    }
}

impl Session {
    /// A session in memory. The tag is that of its GET stream.
    pub(crate) fn new(id: Arc<str>, principal: Option<Principal>, tag: u64, now: Instant) -> Self {
        Self {
            id,
            kind: SessionKind::Memory,
            principal,
            version: None,
            last_active: now,
            is_serving: false,
            exchanges: 0,
            get_stream: Stream::new(tag),
            streams: BTreeMap::new(),
            kept_bytes: 0,
        }
    }

    pub(crate) const fn is_two_endpoint(&self) -> bool {
        matches!(self.kind, SessionKind::TwoEndpoints { .. })
    }

    /// The extensions of the message that is being handled, if its exchange has already ended.
    pub(crate) const fn extensions(&self) -> Option<&Extensions> {
        if let SessionKind::TwoEndpoints { extensions } = &self.kind { Some(extensions) } else { None }
    }

    /// What this instance knows of the record of the session; `None` if it is not in the store.
    pub(crate) fn stored(&self) -> Option<&StoredSession> {
        if let SessionKind::Stored(stored) = &self.kind { Some(stored) } else { None }
    }

    pub(crate) fn stored_mut(&mut self) -> Option<&mut StoredSession> {
        if let SessionKind::Stored(stored) = &mut self.kind { Some(stored) } else { None }
    }

    /// The stream for messages on this exchange; with `None`, the GET stream.
    pub(crate) fn stream_mut(&mut self, exchange: Option<ExchangeKey>) -> Option<&mut Stream> {
        match exchange {
            None => Some(&mut self.get_stream),
            Some(exchange) => self.streams.get_mut(&exchange),
        }
    }

    /// The stream that a response is.
    fn stream_of(&mut self, exchange: &Exchange) -> Option<&mut Stream> {
        match exchange {
            Exchange::Streaming(StreamOf::Session(_)) => Some(&mut self.get_stream),
            Exchange::Streaming(StreamOf::Request(_, request)) => self.streams.get_mut(request),
            Exchange::Streaming(StreamOf::Stateless)
            | Exchange::Receiving { .. }
            | Exchange::Waiting { .. }
            | Exchange::Storing { .. } => None,
        }
    }

    /// Drops the oldest events until the rest is within the limit (SE9), those of answered requests first. A stream
    /// that has ended is removed with its last event. Returns the removed streams.
    pub(crate) fn keep_within(&mut self, limit: usize) -> Vec<ExchangeKey> {
        let mut gone = Vec::new();
        while self.kept_bytes > limit {
            let over = self.streams.iter_mut().find(|(_, stream)| stream.is_over);
            let (over, stream) = over.map_or((None, &mut self.get_stream), |(key, stream)| (Some(*key), stream));
            let freed = stream.evict();
            self.kept_bytes -= freed.unwrap_or(0);
            match over {
                Some(key) if stream.is_empty() => {
                    self.streams.remove(&key);
                    gone.push(key);
                }
                None if freed.is_none() => break,
                Some(_) | None => {}
            }
        }
        while self.kept_bytes > limit {
            let Some(freed) = self.streams.values_mut().find_map(Stream::evict) else { break };
            self.kept_bytes -= freed;
        }
        gone
    }

    pub(crate) fn forget_stream(&mut self, exchange: ExchangeKey) {
        if let Some(stream) = self.streams.remove(&exchange) {
            self.kept_bytes -= stream.kept_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        Instant::START
    }

    fn info(first: u8, principal: Option<&str>) -> RequestInfo {
        let authentication = Ok(principal.map(Principal::new));
        RequestInfo { authentication, ..RequestInfo::new([first; 32]) }
    }

    fn ended() -> Exchange {
        Exchange::Streaming(StreamOf::Stateless)
    }

    fn two_endpoints() -> SessionKind {
        SessionKind::TwoEndpoints { extensions: Extensions::new() }
    }

    fn evictable(sessions: &Sessions, now: Instant) -> Vec<SessionKey> {
        sessions.to_evict(&Holder::Unknown, Duration::from_secs(10), now).collect()
    }

    #[test]
    fn se4_a_session_is_found_by_its_principal_over_its_transport() {
        let (mut sessions, now) = (Sessions::new(), now());
        let ada = info(1, Some("ada"));
        let key = sessions.open(&ada, SessionKind::Memory, now).unwrap();
        assert_eq!(sessions.open(&ada, SessionKind::Memory, now), None, "a drawn id is new");
        let other = sessions.open(&info(2, None), two_endpoints(), now).unwrap();
        let ids = [ada.session_id(), info(2, None).session_id(), info(3, None).session_id()];
        let principals = [None, Some(Principal::new("ada")), Some(Principal::new("eve"))];
        for (at, id) in ids.iter().enumerate() {
            for principal in &principals {
                for is_two_endpoint in [false, true] {
                    let expected = match (at, principal.as_ref().map(Principal::as_str), is_two_endpoint) {
                        (0, Some("ada"), false) => Some(key),
                        (1, None, true) => Some(other),
                        _ => None,
                    };
                    assert_eq!(sessions.find(id, is_two_endpoint, principal.as_ref()), expected);
                }
            }
        }
        assert_eq!((sessions.len(), sessions.by_key.keys().copied().collect()), (2, vec![key, other]));
        assert!(sessions.remove(key, false, 1).is_some() && sessions.remove(key, false, 1).is_none());
        assert!(sessions.get(key).is_none());
        assert_eq!((sessions.find(&ids[0], false, principals[1].as_ref()), sessions.len()), (None, 1));
        assert!(sessions.open(&ada, SessionKind::Memory, now).is_some_and(|again| again != key && again != other));
    }

    #[test]
    fn a_session_can_be_ended_once_nothing_has_been_open_in_it_for_long() {
        let (mut sessions, start) = (Sessions::new(), now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let key = sessions.open(&info(1, None), SessionKind::Memory, at(0)).unwrap();
        assert_eq!((evictable(&sessions, at(9)), evictable(&sessions, at(10))), (vec![], vec![key]));
        sessions.touch(key, at(5));
        assert_eq!((evictable(&sessions, at(14)), evictable(&sessions, at(15))), (vec![], vec![key]));
        sessions.begin_exchange(key);
        sessions.begin_exchange(key);
        sessions.touch(key, at(20));
        sessions.end_exchange(key, ExchangeKey(1), &ended(), at(21));
        assert_eq!(evictable(&sessions, at(100)), []);
        sessions.end_exchange(key, ExchangeKey(2), &ended(), at(30));
        assert_eq!((evictable(&sessions, at(39)), evictable(&sessions, at(40))), (vec![], vec![key]));
        let session = sessions.get(key).unwrap();
        assert_eq!((session.last_active, session.exchanges), (at(30), 0));
        sessions.remove(key, false, 1);
        assert_eq!(evictable(&sessions, at(100)), []);
    }

    /// Events of answered requests are dropped first, then those of the GET stream, then those of open requests
    /// (SE9).
    #[test]
    fn se9_the_oldest_events_go_and_a_stream_that_is_over_with_its_last() {
        let mut sessions = Sessions::new();
        let key = sessions.open(&info(1, None), SessionKind::Memory, now()).unwrap();
        let session = sessions.get_mut(key).unwrap();
        let (over, open) = (ExchangeKey(1), ExchangeKey(2));
        for exchange in [over, open] {
            session.streams.insert(exchange, Stream::new(exchange.0));
        }
        let mut sizes = Vec::new();
        for exchange in [None, Some(over), Some(open)] {
            for text in ["one", "three"] {
                let (_, size) = session.stream_mut(exchange).unwrap().event(text.as_bytes(), true);
                session.kept_bytes += size;
                sizes.push(size);
            }
        }
        session.streams.get_mut(&over).unwrap().is_over = true;
        let mut left: usize = sizes.iter().sum();
        for (first, expected) in [(2, vec![]), (3, vec![over]), (0, vec![]), (1, vec![]), (4, vec![]), (5, vec![])] {
            assert_eq!(session.keep_within(left), [], "nothing is too much");
            let gone = session.keep_within(left - 1);
            left -= sizes[first];
            assert_eq!((gone, session.kept_bytes), (expected, left), "{first}");
        }
        assert_eq!((left, session.streams.len()), (0, 1), "a request that is open has its stream");
        let (_, size) = session.stream_mut(Some(open)).unwrap().event(b"more", true);
        session.kept_bytes += size;
        session.forget_stream(over);
        assert_eq!(session.kept_bytes, size);
        session.forget_stream(open);
        assert_eq!((session.kept_bytes, session.streams.len(), sessions.kept_bytes()), (0, 0, 0));
    }
}
