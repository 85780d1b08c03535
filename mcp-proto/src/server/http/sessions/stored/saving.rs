//! Changes of the record of a session, and the responses that wait until a change is written.
//!
//! One record is written at a time, with all changes since the last one. If another instance has written in between, the
//! changes are applied to what it has written:
//!
//! ```text
//!   change ──▶ queue ──▶ Saving ── Save ──▶ Done ──▶ the responses that wait
//!                          ▲                │ Conflict
//!                          └──── Load ◀─────┘
//! ```

use bytes::Bytes;
use http::Response;

use crate::conversation::keys::SessionKey;
use crate::conversation::outcome::CloseReason;
use crate::server::http::exchange::ExchangeKey;
use crate::server::http::exchange::refusal::Refusal;
use crate::server::http::purpose::{Asked, Exchange, Then};
use crate::server::http::sessions::stored::instances::Notice;
use crate::server::http::sessions::stored::pending::{Pending, TOUCHES};
use crate::server::http::sessions::stored::record::{Change, Saving, What, applied};
use crate::server::http::{Http, HttpStep, HttpTimer, Output};
use crate::server::snapshot::{GetStreamPlace, SessionState};
use crate::server::transport::Inbound;
use crate::store::{Record, StoreAction, StoreResult};

/// How often a change is written again because another instance has written in between.
const TRIES: u32 = 16;

impl Http {
    /// Sends the response to a request that has changed its session, once the change is in the store.
    pub(crate) fn respond_when_stored(
        &mut self,
        exchange: ExchangeKey,
        asked: Asked,
        response: Response<Bytes>,
        output: &mut Output<'_>,
    ) {
        let Some(session) = asked.session() else { return };
        self.exchanges.insert(exchange, Exchange::Storing { asked, then: Then::Respond(response) });
        let what = match self.stored_mut(session).and_then(|stored| stored.unanswered.remove(&exchange)) {
            Some(settings) => What::Settings(settings),
            None => What::Opened,
        };
        self.change(session, what, Some(exchange), output);
    }

    /// Writes what the client has set with a request whose response is not sent, or is a stream.
    pub(crate) fn store_settings_of(&mut self, session: SessionKey, exchange: ExchangeKey, output: &mut Output<'_>) {
        if let Some(settings) = self.stored_mut(session).and_then(|stored| stored.unanswered.remove(&exchange)) {
            self.change(session, What::Settings(settings), None, output);
        }
    }

    pub(crate) fn change(
        &mut self,
        session: SessionKey,
        what: What,
        waiting: Option<ExchangeKey>,
        output: &mut Output<'_>,
    ) {
        let Some(stored) = self.stored_mut(session) else { return };
        stored.queue.push(Change { what, waiting });
        self.begin_save(session, output);
    }

    fn begin_save(&mut self, session: SessionKey, output: &mut Output<'_>) {
        let Some(stored) = self.stored_mut(session) else { return };
        if stored.saving.is_some() || stored.queue.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut stored.queue);
        let changes = self.without_refused_claims(session, changes, output);
        let Some(stored) = self.stored_mut(session).filter(|_| !changes.is_empty()) else { return };
        let state = applied(&stored.state, &changes);
        stored.saving = Some(Saving { state, changes, tries: 0 });
        self.write_record(session, output);
    }

    /// Removes the claims that may not be written, because another instance has the GET stream by now. For each, the
    /// store is asked whether that instance runs.
    fn without_refused_claims(
        &mut self,
        session: SessionKey,
        changes: Vec<Change>,
        output: &mut Output<'_>,
    ) -> Vec<Change> {
        let place = self.stored_mut(session).and_then(|stored| stored.place());
        let Some(holder) = place.and_then(|place| self.holder_elsewhere(session, place)) else { return changes };
        let is_refused = |change: &Change| change.claim().is_some_and(|exchange| !self.may_take_over(exchange, holder));
        let (refused, changes): (Vec<_>, _) = changes.into_iter().partition(is_refused);
        for exchange in refused.iter().filter_map(Change::claim) {
            self.find_holder(exchange, holder, output);
        }
        changes
    }

    fn write_record(&mut self, session: SessionKey, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get(session) else { return };
        let Some(stored) = found.stored() else { return };
        let Some(saving) = &stored.saving else { return };
        let (expected, id, expires_in) = (stored.version, found.id.clone(), self.config.session_idle);
        let bytes = saving.state.to_text().to_bytes();
        self.ask_store(Pending::Save(session), output, |key| StoreAction::Save {
            key,
            session: id,
            expected,
            bytes,
            expires_in,
        });
    }

    pub(crate) fn on_saved(&mut self, session: SessionKey, result: &StoreResult, output: &mut Output<'_>) {
        let Some(stored) = self.stored_mut(session) else { return };
        let Some(mut saving) = stored.saving.take() else { return };
        match result {
            StoreResult::Done => {
                let before = stored.place();
                stored.version = stored.version.saturating_add(1);
                if saving.changes.iter().any(|change| matches!(change.what, What::GetStreamPlace(_))) {
                    // The GET stream may have been closed while the record was being written.
                    stored.closed = stored.queue.iter().rev().find_map(Change::closed_place);
                }
                stored.set_state(saving.state);
                self.report_moved_stream(session, before, output);
                self.report_settings(session, &saving.changes, output);
                for change in saving.changes {
                    if let Some(exchange) = change.waiting {
                        self.proceed_with(exchange, output);
                    }
                }
                output.defer(HttpStep::RecordClosedStream(session));
                self.begin_save(session, output);
            }
            StoreResult::Conflict if saving.tries < TRIES && stored.version > 0 => {
                saving.tries += 1;
                stored.saving = Some(saving);
                let Some(found) = self.sessions.get(session) else { return };
                let (id, expires_in) = (found.id.clone(), self.config.session_idle);
                self.ask_store(Pending::Reload(session), output, |key| StoreAction::Load {
                    key,
                    session: id,
                    expires_in,
                });
            }
            StoreResult::Conflict
            | StoreResult::Failed
            | StoreResult::Loaded(_)
            | StoreResult::Events(_)
            | StoreResult::Found(_) => self.on_not_saved(session, saving, output),
        }
    }

    /// Applies the changes to the record that another instance has written in between.
    pub(crate) fn on_reloaded(&mut self, session: SessionKey, result: StoreResult, output: &mut Output<'_>) {
        let record = match result {
            StoreResult::Loaded(Some(record)) => self.read_record(&record).map(|state| (record.version, state)),
            StoreResult::Loaded(None) => return self.end_gone(session, output),
            StoreResult::Done
            | StoreResult::Conflict
            | StoreResult::Events(_)
            | StoreResult::Found(_)
            | StoreResult::Failed => None,
        };
        let Some(stored) = self.stored_mut(session) else { return };
        let Some(saving) = stored.saving.take() else { return };
        let Some((version, state)) = record else { return self.on_not_saved(session, saving, output) };
        stored.version = version;
        stored.set_state(state);
        let Saving { changes, tries, .. } = saving;
        let changes = self.without_refused_claims(session, changes, output);
        let Some(stored) = self.stored_mut(session) else { return };
        if !changes.is_empty() {
            let state = applied(&stored.state, &changes);
            stored.saving = Some(Saving { state, changes, tries });
        }
        let state = stored.in_force(&stored.state);
        let is_saving = stored.saving.is_some();
        self.end_moved_stream(session, output);
        output.inbound.push_back(Inbound::Updated { session, state });
        if is_saving { self.write_record(session, output) } else { self.begin_save(session, output) }
    }

    /// Changes cannot be written: what is in the store stays in force.
    fn on_not_saved(&mut self, session: SessionKey, saving: Saving, output: &mut Output<'_>) {
        let Some(stored) = self.stored_mut(session) else { return };
        let is_new = stored.version == 0;
        let claimed = saving.changes.iter().find_map(Change::claimed_place);
        stored.saving = Some(saving);
        self.fail_changes(session, Refusal::store_unavailable, output);
        let Some(stored) = self.stored_mut(session) else { return };
        if !stored.has_get_stream() {
            // The record may state, in spite of the failure, that this instance has the stream.
            stored.closed = stored.closed.or(claimed.map(|place| GetStreamPlace { is_open: false, ..place }));
        }
        if stored.closed.is_some() {
            output.set_timer(HttpTimer::Idle(session), output.now + self.config.session_idle / TOUCHES);
        }
        if is_new {
            output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Local });
        } else if let Some(stored) = self.stored_mut(session) {
            let state = stored.in_force(&stored.state);
            output.inbound.push_back(Inbound::Updated { session, state });
        }
    }

    /// Refuses the requests that wait until their changes are written.
    pub(crate) fn fail_changes(&mut self, session: SessionKey, refusal: impl Fn() -> Refusal, output: &mut Output<'_>) {
        let Some(stored) = self.stored_mut(session) else { return };
        let saving = stored.saving.take().map(|saving| saving.changes).unwrap_or_default();
        let waiting = saving.into_iter().chain(std::mem::take(&mut stored.queue)).filter_map(|change| change.waiting);
        let unreadable_id = self.unreadable_id(session);
        for exchange in waiting.collect::<Vec<_>>() {
            if self.close_exchange(exchange, output).is_some() {
                self.exchanges.refuse(exchange, refusal(), unreadable_id, output);
            }
        }
    }

    /// Continues an exchange whose change is in the store.
    fn proceed_with(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        match self.exchanges.get(exchange) {
            Some(Exchange::Storing { then: Then::Respond(_), .. }) => {
                if let Some(Exchange::Storing { then: Then::Respond(response), .. }) =
                    self.close_exchange(exchange, output)
                {
                    self.exchanges.respond(exchange, response, output);
                }
            }
            Some(Exchange::Storing { asked, then: Then::OpenGetStream }) => {
                if let Some(session) = asked.session() {
                    self.open_stored_get_stream(exchange, session, output);
                }
            }
            Some(
                Exchange::Storing { then: Then::Resume, .. }
                | Exchange::Receiving { .. }
                | Exchange::Waiting { .. }
                | Exchange::Streaming(_),
            )
            | None => {}
        }
    }

    /// Applies a record that was read, unless a later one is known.
    pub(crate) fn update(&mut self, session: SessionKey, version: u64, state: SessionState, output: &mut Output<'_>) {
        let Some(stored) = self.stored_mut(session) else { return };
        if version <= stored.version {
            return;
        }
        // Changes that are being written are in this record, or are written again after a conflict.
        let in_force = stored.in_force(&state);
        if stored.saving.is_none() {
            stored.version = version;
            stored.set_state(state);
        }
        output.inbound.push_back(Inbound::Updated { session, state: in_force });
        self.end_moved_stream(session, output);
    }

    /// Reports settings that were written. They are reported here, because they may have been made in another order.
    /// Other instances apply them without a request of the client: a log level where its calls are being served, and
    /// subscriptions where its GET stream is.
    fn report_settings(&mut self, session: SessionKey, changes: &[Change], output: &mut Output<'_>) {
        if !changes.iter().any(|change| matches!(change.what, What::Settings(_))) {
            return;
        }
        let here = self.stored_at(session);
        let Some(stored) = self.stored_mut(session) else { return };
        let in_force = stored.in_force(&stored.state);
        output.inbound.push_back(Inbound::Updated { session, state: in_force });
        let place = stored.place().map(|place| place.instance).filter(|place| Some(*place) != here);
        let (version, state) = (stored.version, stored.state.to_text());
        let notice = Notice::Changed { version, state };
        if changes.iter().any(Change::sets_level) {
            self.send_to_all(session, notice, output);
        } else if let Some(place) = place {
            self.send_to(place, session, notice, output);
        }
    }

    /// Another instance has written a record with settings of the client.
    pub(crate) fn on_changed(&mut self, session: SessionKey, record: &Record, output: &mut Output<'_>) {
        if let Some(state) = self.read_record(record) {
            self.update(session, record.version, state, output);
        }
    }
}
