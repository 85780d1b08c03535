//! What a server asks of the store, and what the store answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::conversation::keys::InstanceId;

/// Identifies an action of the store whose result the machine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreKey(pub(crate) u64);

impl StoreKey {
    /// A key with this number, for tests of a store. A machine ignores a result with a key that is not its own.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Identifies a stream of events: that of a request, or the one of a session for messages that relate to no request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The id of the session.
    pub session: Arc<str>,
    /// Distinguishes the streams of the session.
    pub tag: u64,
}

impl StreamId {
    /// The tag of the stream for messages that relate to no request. It does not expire before the record of its
    /// session, because the numbers of its events must not begin again.
    pub const OF_SESSION: u64 = 0;
}

/// Shows no session id, which is a secret.
impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamId").finish_non_exhaustive()
    }
}

/// The highest version of a record, and the highest number of an event. Some stores count with floating-point numbers, which
/// are exact up to here. No session reaches it: a higher number is not from a server.
pub(crate) const LAST_NUMBER: u64 = (1 << 53) - 1;

/// The stored state of a session.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// How often it was written, from 1. A record with a version of 2^53 or more is not read.
    pub version: u64,
    /// The state, which only servers read.
    pub bytes: Bytes,
}

/// Shows no contents.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("version", &self.version).field("bytes", &self.bytes.len()).finish()
    }
}

/// From where a stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// After the event with this number; zero for all events.
    Number(u64),
    /// After all events that are stored now.
    Latest,
}

/// Something that the driver has to carry out at the store.
///
/// One with a `key` is answered with [`Server::handle_stored`](crate::Server::handle_stored), once; if the store cannot
/// be reached or has refused the action, with [`StoreResult::Failed`]. A late answer has no effect.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreAction {
    /// Read the record of a session. If there is one, it expires after `expires_in` from now on, or up to an eighth of
    /// that later, and so does the stream [`StreamId::OF_SESSION`], if it exists.
    ///
    /// Answered with [`StoreResult::Loaded`].
    Load {
        /// Identifies the action.
        key: StoreKey,
        /// The id of the session.
        session: Arc<str>,
        /// When the record expires if nothing else is done with it.
        expires_in: Duration,
    },
    /// Write the record of a session, if `expected` is the version that is stored (zero: none is stored). The new
    /// version is `expected + 1`. The stream [`StreamId::OF_SESSION`] expires with it, if it exists.
    ///
    /// Answered with [`StoreResult::Done`], or [`StoreResult::Conflict`] if another version is stored.
    Save {
        /// Identifies the action.
        key: StoreKey,
        /// The id of the session.
        session: Arc<str>,
        /// The version that is stored.
        expected: u64,
        /// The state.
        bytes: Bytes,
        /// When the record expires if nothing else is done with it.
        expires_in: Duration,
    },
    /// Remove the record of a session and the stream [`StreamId::OF_SESSION`]. Its other streams are not used any more, and
    /// expire.
    ///
    /// Answered with [`StoreResult::Done`].
    Forget {
        /// Identifies the action.
        key: StoreKey,
        /// The id of the session.
        session: Arc<str>,
    },
    /// Add events to the end of a stream, which is created if it does not exist. From then on, the stream expires after
    /// `expires_in`.
    ///
    /// With `first`, the numbers of the events begin with it: events that are stored already are left as they are, and
    /// if there would be a gap, none is stored. Without `first`, the numbers follow that of the last event.
    ///
    /// Answered with [`StoreResult::Done`], or [`StoreResult::Conflict`] if there would be a gap, or if the stream has
    /// ended.
    Append {
        /// Identifies the action.
        key: StoreKey,
        /// The stream.
        stream: StreamId,
        /// The number of the first of these events.
        first: Option<u64>,
        /// The events; perhaps none.
        events: Vec<Bytes>,
        /// The value of [`StoredEvents::label`] for readers, if this action creates the stream.
        label: Bytes,
        /// The stream ends with the last of these events.
        is_last: bool,
        /// The oldest events are removed until the rest has at most this many bytes together.
        keep: usize,
        /// When the stream expires if nothing else is done with it.
        expires_in: Duration,
    },
    /// Read events of a stream.
    ///
    /// Answered with [`StoreResult::Events`], at once, also if there are no events.
    Read {
        /// Identifies the action.
        key: StoreKey,
        /// The stream.
        stream: StreamId,
        /// From where.
        after: After,
        /// Return at most this many bytes of events together, but at least one event if there is one.
        max_bytes: usize,
    },
    /// Remove a stream.
    ForgetStream {
        /// The stream.
        stream: StreamId,
    },
    /// Find out whether an instance runs.
    ///
    /// Answered with [`StoreResult::Found`].
    Find {
        /// Identifies the action.
        key: StoreKey,
        /// The instance.
        instance: InstanceId,
    },
    /// Pass a message to [`Server::handle_message`](crate::Server::handle_message) of another instance.
    Send {
        /// The instance; `None` for all but this one.
        to: Option<InstanceId>,
        /// The message.
        message: Bytes,
    },
}

/// Shows neither ids nor contents.
impl fmt::Debug for StoreAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = match self {
            Self::Load { .. } => f.debug_struct("Load"),
            Self::Save { expected, bytes, .. } => {
                let mut shown = f.debug_struct("Save");
                shown.field("expected", expected).field("bytes", &bytes.len());
                shown
            }
            Self::Forget { .. } => f.debug_struct("Forget"),
            Self::Append { first, events, is_last, .. } => {
                let mut shown = f.debug_struct("Append");
                shown.field("first", first).field("events", &events.len()).field("is_last", is_last);
                shown
            }
            Self::Read { after, .. } => {
                let mut shown = f.debug_struct("Read");
                shown.field("after", after);
                shown
            }
            Self::ForgetStream { .. } => f.debug_struct("ForgetStream"),
            Self::Find { .. } => f.debug_struct("Find"),
            Self::Send { message, .. } => {
                let mut shown = f.debug_struct("Send");
                shown.field("bytes", &message.len());
                shown
            }
        };
        if let Some(key) = self.key() {
            shown.field("key", &key);
        }
        shown.finish_non_exhaustive()
    }
}

impl StoreAction {
    /// Identifies the action, if the machine waits for its result.
    #[must_use]
    pub const fn key(&self) -> Option<StoreKey> {
        match self {
            Self::Load { key, .. }
            | Self::Save { key, .. }
            | Self::Forget { key, .. }
            | Self::Append { key, .. }
            | Self::Read { key, .. }
            | Self::Find { key, .. } => Some(*key),
            Self::ForgetStream { .. } | Self::Send { .. } => None,
        }
    }

    /// The bytes of what is to be stored or sent.
    pub(crate) fn payload(&self) -> usize {
        match self {
            Self::Save { bytes, .. } => bytes.len(),
            Self::Append { events, .. } => events.iter().map(Bytes::len).sum(),
            Self::Send { message, .. } => message.len(),
            Self::Load { .. }
            | Self::Forget { .. }
            | Self::Read { .. }
            | Self::ForgetStream { .. }
            | Self::Find { .. } => 0,
        }
    }
}

/// Events of a stream.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StoredEvents {
    /// What the stream was created with.
    pub label: Bytes,
    /// The number of the first of these events, or if there are none, that of the next one to be added.
    pub first: u64,
    /// Events with consecutive numbers.
    pub events: Vec<Bytes>,
    /// The stream has ended, and these are its last events.
    pub is_last: bool,
}

impl StoredEvents {
    /// The number of the event after these; `None` if a store cannot have counted so far, or if one of them is no text.
    pub(crate) fn next(&self) -> Option<u64> {
        if !self.events.iter().all(|event| std::str::from_utf8(event).is_ok()) {
            return None;
        }
        let count = u64::try_from(self.events.len()).ok()?;
        self.first.checked_add(count).filter(|next| *next <= LAST_NUMBER)
    }
}

/// Shows no contents.
impl fmt::Debug for StoredEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label: _, first, events, is_last } = self;
        let mut shown = f.debug_struct("StoredEvents");
        shown.field("first", first).field("events", &events.len()).field("is_last", is_last).finish_non_exhaustive()
    }
}

/// What the store has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreResult {
    /// The record of a session, if there is one.
    Loaded(Option<Record>),
    /// The action was carried out.
    Done,
    /// Something else is stored than the action needs, and nothing was changed.
    Conflict,
    /// Events of a stream; `None` if there is no such stream, if an event after the named one is not stored any more,
    /// or if the stream has not had the named event.
    Events(Option<StoredEvents>),
    /// Whether the instance runs.
    Found(bool),
    /// The store cannot be reached, or has not carried out the action.
    Failed,
}
