//! The events of a request that are being added to a store.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::conversation::keys::InstanceId;
use crate::server::http::stream::label::Label;

/// The events of a request that are being added to the store.
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub(crate) struct Appending {
    /// The label of the stream, for readers at other instances.
    pub(crate) label: Bytes,
    /// The number of the first event that is not known to be stored.
    pub(crate) next: u64,
    /// The events of an action that the store has not answered.
    pub(crate) in_flight: Option<InFlight>,
    /// Events that are stored next.
    pub(crate) queue: Vec<Bytes>,
    /// The stream exists in the store.
    pub(crate) is_created: bool,
    /// The response has begun as a stream.
    pub(crate) has_begun: bool,
    /// The store has failed: events are only written to the client that is connected.
    pub(crate) is_broken: bool,
    /// The response ends after the next action of the store, and its client resumes the stream.
    pub(crate) releases: bool,
    /// The queue ends with the last event of the stream.
    pub(crate) is_ending: bool,
    /// The instances that read the stream for a client.
    pub(crate) watchers: BTreeSet<InstanceId>,
}

/// Events that are being stored.
pub(crate) struct InFlight {
    pub(crate) events: Vec<Bytes>,
    /// The stream ends with them.
    pub(crate) is_last: bool,
}

impl Appending {
    pub(crate) fn new(label: &Label) -> Self {
        Self {
            label: label.to_bytes(),
            next: 1,
            in_flight: None,
            queue: Vec::new(),
            is_created: false,
            has_begun: false,
            is_broken: false,
            releases: false,
            is_ending: false,
            watchers: BTreeSet::new(),
        }
    }
}
