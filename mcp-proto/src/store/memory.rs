//! A store in the memory of one process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::{After, Record, StoreAction, StoreResult, StoredEvents, StreamId};
use crate::Instant;
use crate::collections::deadlines::Deadlines;
use crate::conversation::keys::InstanceId;

/// The messages that wait for an instance; older ones are dropped.
const WAITING: usize = 10_000;

/// A store in the memory of one process, for several servers of this process, and for tests.
///
/// It shows what an engine has to do: it has no clock and no I/O, so that it can also be the store of a simulation.
///
/// # Example
///
/// ```
/// use mcp_proto::Instant;
/// use mcp_proto::InstanceId;
/// use mcp_proto::store::{MemoryStore, StoreAction};
///
/// let mut store = MemoryStore::new();
/// let (first, second) = (InstanceId::new(1), InstanceId::new(2));
/// store.register(first);
/// store.register(second);
/// let to_all = StoreAction::Send { to: None, message: "hello".into() };
/// assert_eq!(store.carry_out(first, &to_all, Instant::START), None);
/// assert_eq!(store.poll_message(second).as_deref(), Some(&b"hello"[..]));
/// assert_eq!(store.poll_message(first), None);
/// ```
#[derive(Default)]
pub struct MemoryStore {
    records: BTreeMap<Arc<str>, Record>,
    streams: BTreeMap<StreamId, Stream>,
    expiries: Deadlines<Stored>,
    messages: BTreeMap<InstanceId, VecDeque<Bytes>>,
    running: BTreeSet<InstanceId>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Stored {
    Record(Arc<str>),
    Stream(StreamId),
}

struct Stream {
    label: Bytes,
    /// The number of the first stored event.
    first: u64,
    events: VecDeque<Bytes>,
    bytes: usize,
    has_ended: bool,
}

impl MemoryStore {
    /// A store without contents.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An instance runs from now on.
    pub fn register(&mut self, instance: InstanceId) {
        self.running.insert(instance);
        self.messages.entry(instance).or_default();
    }

    /// An instance does not run any more.
    pub fn unregister(&mut self, instance: InstanceId) {
        self.running.remove(&instance);
        self.messages.remove(&instance);
    }

    /// Carries out an action of an instance. Returns the result, if the instance waits for it.
    pub fn carry_out(&mut self, from: InstanceId, action: &StoreAction, now: Instant) -> Option<StoreResult> {
        self.expire(now);
        Some(match action {
            StoreAction::Load { session, expires_in, .. } => {
                let found = self.records.get(session).cloned();
                if found.is_some() {
                    self.expire_at(session, now + *expires_in);
                }
                StoreResult::Loaded(found)
            }
            StoreAction::Save { session, expected, bytes, expires_in, .. } => {
                let Some(version) = expected.checked_add(1) else { return Some(StoreResult::Conflict) };
                let record = Record { version, bytes: bytes.clone() };
                let stored = self.records.get(session);
                // The same record is stored already if the action is repeated.
                if stored.map_or(0, |stored| stored.version) != *expected && stored != Some(&record) {
                    return Some(StoreResult::Conflict);
                }
                self.records.insert(Arc::clone(session), record);
                self.expire_at(session, now + *expires_in);
                StoreResult::Done
            }
            StoreAction::Forget { session, .. } => {
                self.remove(&Stored::Record(Arc::clone(session)));
                self.remove(&Stored::Stream(StreamId { session: Arc::clone(session), tag: StreamId::OF_SESSION }));
                StoreResult::Done
            }
            StoreAction::Append { stream, first, events, label, is_last, keep, expires_in, .. } => {
                if !self.streams.contains_key(stream) && first.is_some_and(|first| first != 1) {
                    return Some(StoreResult::Conflict);
                }
                self.expiries.set(Stored::Stream(stream.clone()), now + *expires_in);
                let stream = self.streams.entry(stream.clone()).or_insert_with(|| Stream::new(label));
                stream.append(*first, events, *is_last, *keep)
            }
            StoreAction::Read { stream, after, max_bytes, .. } => {
                StoreResult::Events(self.streams.get(stream).and_then(|stream| stream.read(*after, *max_bytes)))
            }
            StoreAction::ForgetStream { stream } => {
                self.remove(&Stored::Stream(stream.clone()));
                return None;
            }
            StoreAction::Find { instance, .. } => StoreResult::Found(self.running.contains(instance)),
            StoreAction::Send { to, message } => {
                for (instance, messages) in &mut self.messages {
                    if to.map_or(*instance != from, |to| to == *instance) {
                        messages.push_back(message.clone());
                        if messages.len() > WAITING {
                            messages.pop_front();
                        }
                    }
                }
                return None;
            }
        })
    }

    /// The next message for an instance.
    pub fn poll_message(&mut self, instance: InstanceId) -> Option<Bytes> {
        self.messages.get_mut(&instance)?.pop_front()
    }

    /// The number of sessions with a record.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.records.len()
    }

    /// Sets when the record of a session expires, and the stream that expires with it.
    fn expire_at(&mut self, session: &Arc<str>, at: Instant) {
        self.expiries.set(Stored::Record(Arc::clone(session)), at);
        let stream = StreamId { session: Arc::clone(session), tag: StreamId::OF_SESSION };
        if self.streams.contains_key(&stream) {
            self.expiries.set(Stored::Stream(stream), at);
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some(stored) = self.expiries.pop_due(now) {
            self.remove(&stored);
        }
    }

    fn remove(&mut self, stored: &Stored) {
        self.expiries.clear(stored.clone());
        match stored {
            Stored::Record(session) => drop(self.records.remove(session)),
            Stored::Stream(stream) => drop(self.streams.remove(stream)),
        }
    }
}

/// Shows only counts, because the contents are those of sessions.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MemoryStore");
        shown.field("sessions", &self.records.len()).field("streams", &self.streams.len()).finish_non_exhaustive()
    }
}

impl Stream {
    fn new(label: &Bytes) -> Self {
        Self { label: label.clone(), first: 1, events: VecDeque::new(), bytes: 0, has_ended: false }
    }

    /// The number of the next event to be added.
    fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn append(&mut self, first: Option<u64>, events: &[Bytes], is_last: bool, keep: usize) -> StoreResult {
        let next = self.next();
        let first = first.unwrap_or(next);
        let stored = next.saturating_sub(first);
        let new = events.iter().skip(usize::try_from(stored).unwrap_or(usize::MAX));
        if first > next || (self.has_ended && new.len() > 0) {
            return StoreResult::Conflict;
        }
        for event in new {
            self.bytes += event.len();
            self.events.push_back(event.clone());
        }
        while self.bytes > keep {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.len();
            self.first += 1;
        }
        self.has_ended |= is_last;
        StoreResult::Done
    }

    fn read(&self, after: After, max_bytes: usize) -> Option<StoredEvents> {
        let first = match after {
            // The number is from the client, which may send any.
            After::Number(number) => number.checked_add(1)?,
            After::Latest => self.next(),
        };
        if first < self.first || first > self.next() {
            return None;
        }
        let mut events = Vec::new();
        let mut bytes = 0;
        let skipped = usize::try_from(first - self.first).unwrap_or(usize::MAX);
        for event in self.events.iter().skip(skipped) {
            bytes += event.len();
            if bytes > max_bytes && !events.is_empty() {
                break;
            }
            events.push(event.clone());
        }
        let is_last = self.has_ended && first + events.len() as u64 == self.next();
        Some(StoredEvents { label: self.label.clone(), first, events, is_last })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::StoreKey;

    #[test]
    fn nothing_is_kept_of_what_was_removed() {
        let (key, expires_in) = (StoreKey::new(1), Duration::from_secs(60));
        let stream = StreamId { session: "s".into(), tag: 7 };
        let mut store = MemoryStore::new();
        for action in [
            StoreAction::Save { key, session: "s".into(), expected: 0, bytes: "record".into(), expires_in },
            StoreAction::Append {
                key,
                stream: stream.clone(),
                first: None,
                events: vec!["event".into()],
                label: "label".into(),
                is_last: false,
                keep: 100,
                expires_in,
            },
            StoreAction::Forget { key, session: "s".into() },
            StoreAction::ForgetStream { stream },
        ] {
            store.carry_out(InstanceId::new(1), &action, Instant::START);
        }
        assert_eq!((store.records.len(), store.streams.len(), store.expiries.len()), (0, 0, 0));
    }
}
