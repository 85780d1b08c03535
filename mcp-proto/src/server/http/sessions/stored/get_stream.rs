//! The GET stream of a session in a store: any instance adds messages to it, and the instance with the client's
//! connection reads it.
//!
//! The record of the session names the reading instance ([`GetStreamPlace`]), so that the others notify it of new messages.

use bytes::Bytes;

use crate::conversation::keys::{InstanceId, SessionKey};
use crate::server::http::exchange::refusal::Refusal;
use crate::server::http::purpose::{Exchange, StreamOf, Then};
use crate::server::http::sessions::stored::instances::Notice;
use crate::server::http::sessions::stored::pending::Pending;
use crate::server::http::sessions::stored::reader::{Reader, TakesOver};
use crate::server::http::sessions::stored::record::What;
use crate::server::http::{ExchangeKey, Http, Output, RequestInfo};
use crate::server::snapshot::GetStreamPlace;
use crate::store::{After, StoreAction, StoreResult, StreamId};

impl Http {
    /// The tag of the GET stream of a session in the ids of its events.
    pub(crate) fn get_stream_tag(&self, session: SessionKey) -> Option<u64> {
        Some(self.sessions.get(session)?.stored()?.kept()?.get_stream)
    }

    /// The stream in the store for messages that relate to no request.
    pub(crate) fn get_stream_id(&self, session: SessionKey) -> Option<StreamId> {
        let found = self.sessions.get(session)?;
        found.stored()?;
        Some(StreamId { session: found.id.clone(), tag: StreamId::OF_SESSION })
    }

    /// Adds a message that relates to no request to the GET stream of a session.
    pub(crate) fn append_message(&mut self, session: SessionKey, message: &Bytes, output: &mut Output<'_>) {
        let Some(stream) = self.get_stream_id(session).filter(|_| self.config.get_stream) else { return };
        self.store.queued += message.len();
        // Even without replay, the message is kept for the client for a while.
        let keep = self.config.replay.max(self.exchanges.limits.message);
        let (events, expires_in) = (vec![message.clone()], self.config.session_idle);
        self.ask_store(Pending::AppendMessage(session, message.len()), output, |key| StoreAction::Append {
            key,
            stream,
            first: None,
            events,
            label: Bytes::new(),
            is_last: false,
            keep,
            expires_in,
        });
    }

    pub(crate) fn on_message_appended(&mut self, session: SessionKey, result: &StoreResult, output: &mut Output<'_>) {
        let Some(stored) = self.stored_mut(session).filter(|_| *result == StoreResult::Done) else { return };
        let Some(place) = stored.place() else { return };
        match self.stored_at(session) {
            Some(instance) if instance == place.instance => {
                let stored = self.stored_mut(session);
                let reader = stored.and_then(|stored| stored.readers.get(&StreamId::OF_SESSION)).copied();
                if let Some(reader) = reader {
                    self.read_more(reader, output);
                }
            }
            Some(_) | None => {
                self.send_to(place.instance, session, Notice::Added { tag: StreamId::OF_SESSION }, output);
            }
        }
    }

    /// A client opens the GET stream of a session.
    pub(crate) fn open_get_stream_stored(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        info: &RequestInfo,
        output: &mut Output<'_>,
    ) {
        let unreadable_id = self.unreadable_id(session);
        let Some(stream) = self.get_stream_id(session) else { return };
        if self.stored_mut(session).is_some_and(|stored| stored.has_get_stream()) {
            return self.exchanges.refuse(exchange, Refusal::has_get_stream(), unreadable_id, output);
        }
        let place = self.stored_mut(session).and_then(|stored| stored.place());
        let after = place.map_or(0, |place| place.sent);
        if !self.begin_reading(exchange, session, stream, After::Number(after), info, output) {
            return;
        }
        if let Some(reader) = self.store.readers.get_mut(&exchange) {
            reader.takes_over = TakesOver::Nothing;
        }
        match place.and_then(|place| self.holder_elsewhere(session, place)) {
            Some(instance) => self.find_holder(exchange, instance, output),
            None => self.claim_get_stream(exchange, output),
        }
    }

    /// The other instance at which the GET stream of a session is open.
    pub(crate) fn holder_elsewhere(&self, session: SessionKey, place: GetStreamPlace) -> Option<InstanceId> {
        let here = self.stored_at(session);
        Some(place.instance).filter(|instance| place.is_open && Some(*instance) != here)
    }

    /// Asks the store whether the instance with the GET stream runs.
    pub(crate) fn find_holder(&mut self, exchange: ExchangeKey, instance: InstanceId, output: &mut Output<'_>) {
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        reader.takes_over = TakesOver::Ended(instance);
        self.ask_store(Pending::Holder(exchange), output, |key| StoreAction::Find { key, instance });
    }

    /// Whether this exchange may take the GET stream over from this instance; not if its client has left.
    pub(crate) fn may_take_over(&self, exchange: ExchangeKey, from: InstanceId) -> bool {
        self.store.readers.get(&exchange).is_some_and(|reader| match reader.takes_over {
            TakesOver::All => true,
            TakesOver::Ended(instance) => instance == from,
            TakesOver::Nothing => false,
        })
    }

    /// The store has answered whether the instance with the GET stream runs. If it has ended, it may have sent all
    /// stored events, so that only later ones are read.
    pub(crate) fn on_holder_found(&mut self, exchange: ExchangeKey, result: &StoreResult, output: &mut Output<'_>) {
        let refusal = match result {
            StoreResult::Found(true) => Refusal::has_get_stream(),
            StoreResult::Found(false) => {
                if let Some(reader) = self.store.readers.get_mut(&exchange) {
                    reader.after = After::Latest;
                }
                return self.read(exchange, output);
            }
            StoreResult::Loaded(_)
            | StoreResult::Done
            | StoreResult::Conflict
            | StoreResult::Events(_)
            | StoreResult::Failed => Refusal::store_unavailable(),
        };
        self.refuse_storing(exchange, refusal, output);
    }

    /// Records that this instance has the GET stream of a session. The stream opens when the record is written.
    pub(crate) fn claim_get_stream(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        let Some(session) = self.exchanges.get(exchange).and_then(Exchange::session) else { return };
        let Some(instance) = self.stored_at(session) else { return };
        if let Some(Exchange::Storing { then, .. }) = self.exchanges.get_mut(exchange) {
            *then = Then::OpenGetStream;
        }
        let known = self.stored_mut(session).and_then(|stored| stored.place()).map_or(0, |place| place.sent);
        let sent = self.store.readers.get(&exchange).and_then(Reader::sent).map_or(known, |sent| sent.max(known));
        let place = GetStreamPlace { instance, is_open: true, sent };
        self.change(session, What::GetStreamPlace(place), Some(exchange), output);
    }

    /// Opens a GET stream that this instance has from now on.
    pub(crate) fn open_stored_get_stream(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        output: &mut Output<'_>,
    ) {
        self.end_replaced(exchange, output);
        let sent = self.stored_mut(session).and_then(|stored| stored.place()).map_or(0, |place| place.sent);
        if let Some(reader) = self.store.readers.get_mut(&exchange) {
            reader.skip_sent(sent);
        }
        self.exchanges.insert(exchange, Exchange::Streaming(StreamOf::Session(session)));
        self.exchanges.open_stream(exchange, output);
        self.read(exchange, output);
    }

    /// Notifies the previous holder of the GET stream that the record names another instance, even if the client has
    /// left meanwhile.
    pub(crate) fn report_moved_stream(
        &mut self,
        session: SessionKey,
        before: Option<GetStreamPlace>,
        output: &mut Output<'_>,
    ) {
        let Some(stored) = self.stored_mut(session) else { return };
        let version = stored.version;
        let Some((before, place)) = before.zip(stored.place()) else { return };
        if before.instance != place.instance {
            self.send_to(before.instance, session, Notice::Moved { instance: place.instance, version }, output);
        }
    }

    /// Another instance has the GET stream of a session, since it has written this version of the record.
    pub(crate) fn on_moved(
        &mut self,
        session: SessionKey,
        instance: InstanceId,
        version: u64,
        output: &mut Output<'_>,
    ) {
        let Some(stored) = self.stored_mut(session) else { return };
        let Some(place) = stored.place().filter(|_| version > stored.version) else { return };
        stored.set_place(GetStreamPlace { instance, is_open: true, ..place });
        self.end_moved_stream(session, output);
    }

    /// Ends the GET stream of a session here if another instance has it.
    pub(crate) fn end_moved_stream(&mut self, session: SessionKey, output: &mut Output<'_>) {
        let place = self.stored_mut(session).and_then(|stored| stored.place());
        let is_elsewhere = place.and_then(|place| self.holder_elsewhere(session, place)).is_some();
        let Some(stored) = self.stored_mut(session) else { return };
        let reader = stored.readers.get(&StreamId::OF_SESSION).copied().filter(|_| is_elsewhere);
        let Some(reader) = reader else { return };
        self.end_replaced(reader, output);
        // An exchange that still waits for the stream goes on: its client may have opened the stream elsewhere before.
        if matches!(self.exchanges.get(reader), Some(Exchange::Streaming(_))) {
            self.finish(reader, output);
        }
    }

    /// Records that the GET stream of a session was closed here, if it was.
    pub(crate) fn record_closed_stream(&mut self, session: SessionKey, output: &mut Output<'_>) {
        let Some(instance) = self.stored_at(session) else { return };
        let Some(stored) = self.stored_mut(session) else { return };
        let is_open = |place: &GetStreamPlace| place.instance == instance && place.is_open;
        if let Some(place) = stored.place().filter(is_open).filter(|_| !stored.has_get_stream()) {
            let place = GetStreamPlace { is_open: false, ..place };
            stored.close_place(place);
            self.change(session, What::GetStreamPlace(place), None, output);
        }
    }

    /// Records again that a GET stream was closed here, if the last attempt failed.
    pub(crate) fn close_stream_again(&mut self, session: SessionKey, output: &mut Output<'_>) {
        if let Some(closed) = self.stored_mut(session).and_then(|stored| stored.unwritten_closed()) {
            self.change(session, What::GetStreamPlace(closed), None, output);
        }
    }

    /// Ends the GET streams that are open here. Their clients open them at another instance.
    pub(crate) fn finish_get_readers(&mut self, output: &mut Output<'_>) {
        let of_get_streams = self.store.readers.iter().filter(|(_, reader)| reader.is_get_stream);
        for exchange in of_get_streams.map(|(exchange, _)| *exchange).collect::<Vec<_>>() {
            self.finish_reading(exchange, Refusal::stopped(), output);
        }
    }
}
