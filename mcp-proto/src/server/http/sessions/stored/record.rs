//! What an instance knows of the record of a session in the store, with the changes that it has not written yet.

use std::collections::BTreeMap;

use crate::server::http::exchange::ExchangeKey;
use crate::server::http::sessions::stored::reader::Reader;
use crate::server::snapshot::{GetStreamPlace, Kept, SessionState, Setting};
use crate::store::StreamId;

/// The part of a stored session that this instance keeps in memory.
pub(crate) struct StoredSession {
    /// The state of the record that was read or written last.
    pub(crate) state: SessionState,
    /// The version of that record; zero before the first one is written.
    pub(crate) version: u64,
    pub(crate) saving: Option<Saving>,
    /// Changes that are written next.
    pub(crate) queue: Vec<Change>,
    /// What the client has set with requests that are not answered yet.
    pub(crate) unanswered: BTreeMap<ExchangeKey, Vec<Setting>>,
    /// The streams that clients read here, by their tags.
    pub(crate) readers: BTreeMap<u64, ExchangeKey>,
    /// The GET stream that was closed here, until the record states that.
    pub(crate) closed: Option<GetStreamPlace>,
}

/// A record that is being written.
pub(crate) struct Saving {
    pub(crate) state: SessionState,
    pub(crate) changes: Vec<Change>,
    pub(crate) tries: u32,
}

/// A change of a record, and the exchange that waits until it is written.
pub(crate) struct Change {
    pub(crate) what: What,
    pub(crate) waiting: Option<ExchangeKey>,
}

impl Change {
    pub(crate) fn sets_level(&self) -> bool {
        match &self.what {
            What::Settings(settings) => settings.iter().any(|setting| matches!(setting, Setting::Level(_))),
            What::Opened | What::GetStreamPlace(_) => false,
        }
    }

    /// The GET stream, if this change states that it was closed.
    pub(crate) const fn closed_place(&self) -> Option<GetStreamPlace> {
        match self.what {
            What::GetStreamPlace(place) if !place.is_open => Some(place),
            What::GetStreamPlace(_) | What::Opened | What::Settings(_) => None,
        }
    }

    /// The GET stream, if this change claims it for this instance.
    pub(crate) const fn claimed_place(&self) -> Option<GetStreamPlace> {
        match self.what {
            What::GetStreamPlace(place) if place.is_open => Some(place),
            What::GetStreamPlace(_) | What::Opened | What::Settings(_) => None,
        }
    }

    /// The exchange for which this change claims the GET stream.
    pub(crate) fn claim(&self) -> Option<ExchangeKey> {
        self.claimed_place().and(self.waiting)
    }
}

pub(crate) enum What {
    /// The session is opened.
    Opened,
    Settings(Vec<Setting>),
    GetStreamPlace(GetStreamPlace),
}

impl StoredSession {
    /// A session with this record; `version` is zero if the record is not in the store yet.
    pub(crate) fn new(state: SessionState, version: u64) -> Box<Self> {
        Box::new(Self {
            state,
            version,
            saving: None,
            queue: Vec::new(),
            unanswered: BTreeMap::new(),
            readers: BTreeMap::new(),
            closed: None,
        })
    }

    pub(crate) fn kept(&self) -> Option<&Kept> {
        self.state.kept.as_ref()
    }

    /// This state of the record, with all changes of this instance that are not written yet.
    pub(crate) fn in_force(&self, state: &SessionState) -> SessionState {
        let written = self.saving.iter().flat_map(|saving| &saving.changes);
        let mut state = applied(state, written.chain(&self.queue));
        self.unanswered.values().flatten().for_each(|setting| state.set(setting));
        state
    }

    /// The instance that has the GET stream.
    pub(crate) fn place(&self) -> Option<GetStreamPlace> {
        self.kept().and_then(|kept| kept.place)
    }

    /// Sets the state of a record that was read or written. If its GET stream was closed here since, the stream stays
    /// closed, unless another instance has it.
    pub(crate) fn set_state(&mut self, state: SessionState) {
        self.state = state;
        let here = |closed: &GetStreamPlace| self.place().is_some_and(|place| place.instance == closed.instance);
        self.closed = self.closed.filter(here);
        if let Some(closed) = self.closed {
            self.set_place(closed);
        }
    }

    /// Notes that the GET stream was closed here. The caller writes the record.
    pub(crate) fn close_place(&mut self, closed: GetStreamPlace) {
        self.closed = Some(closed);
        self.set_place(closed);
    }

    /// The GET stream that was closed here, if no pending change states that, and no other one is open here or about to
    /// be.
    pub(crate) fn unwritten_closed(&self) -> Option<GetStreamPlace> {
        let mut changes = self.saving.iter().flat_map(|saving| &saving.changes).chain(&self.queue);
        self.closed.filter(|_| !self.has_get_stream() && !changes.any(|change| change.closed_place().is_some()))
    }

    pub(crate) fn set_place(&mut self, place: GetStreamPlace) {
        if let Some(kept) = &mut self.state.kept {
            kept.place = Some(place);
        }
    }

    /// Whether the GET stream is open here, or about to be.
    pub(crate) fn has_get_stream(&self) -> bool {
        self.readers.contains_key(&StreamId::OF_SESSION)
    }

    /// Ends the reading of a stream on this exchange. `was_open` states that its response has begun. Returns whether
    /// the stream is the GET stream.
    pub(crate) fn on_reader_closed(&mut self, exchange: ExchangeKey, reader: &Reader, was_open: bool) -> bool {
        if self.readers.get(&reader.stream.tag) == Some(&exchange) {
            match reader.replaces {
                // The stream that this one was to replace is still open.
                Some(old) => self.readers.insert(reader.stream.tag, old),
                None => self.readers.remove(&reader.stream.tag),
            };
        }
        let place = self.place().filter(|_| reader.is_get_stream);
        if let (Some(place), Some(sent), true) = (place, reader.sent(), was_open) {
            self.set_place(GetStreamPlace { sent, ..place });
        }
        place.is_some()
    }
}

pub(crate) fn applied<'c>(state: &SessionState, changes: impl IntoIterator<Item = &'c Change>) -> SessionState {
    let mut state = state.clone();
    for change in changes {
        match &change.what {
            What::Opened => {}
            What::Settings(settings) => settings.iter().for_each(|setting| state.set(setting)),
            What::GetStreamPlace(place) => {
                // A stream that was closed here may be open at another instance by now.
                let applies = |now: GetStreamPlace| place.is_open || now.instance == place.instance;
                if let Some(kept) = state.kept.as_mut().filter(|kept| kept.place.is_none_or(applies)) {
                    // Another instance may have sent more since this one has read the record.
                    let sent = kept.place.map_or(place.sent, |now| now.sent.max(place.sent));
                    kept.place = Some(GetStreamPlace { sent, ..*place });
                }
            }
        }
    }
    state
}
