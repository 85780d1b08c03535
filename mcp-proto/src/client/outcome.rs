//! How the client's own requests end: with an answer, a timeout, or because they are given up. Each ends exactly once.

use super::transport::ClientTransport;
use super::{Client, Event, Outcome, Purpose, Timer};
use crate::Instant;
use crate::conversation::cancellation;
use crate::conversation::keys::RequestKey;
use crate::conversation::outgoing::OwnRequest;
use crate::error::Failed;
use crate::json::Json;

impl<T: ClientTransport> Client<T> {
    pub(super) fn on_answer_timeout(&mut self, request: RequestKey, now: Instant) {
        let Some(waiting) = self.outgoing.get(request) else { return };
        let reason = Failed::TimedOut { after: waiting.timeout };
        if self.connection.phase.opening() == Some(request) {
            // `initialize` and `server/discover` are never cancelled (LC-14, ER-07).
            self.with_transport(now, |transport, output| transport.abandon(request, now, output));
            self.on_opening_outcome(Outcome::Failed(reason), now);
            return;
        }
        // A request that has timed out is cancelled (TO-02).
        let params = cancellation::params(Some("timed out"));
        self.give_up(request, reason, &params, now);
    }

    /// Ends a request from this side, and notifies the server if the request was sent.
    pub(super) fn give_up(&mut self, request: RequestKey, reason: Failed, params: &Json, now: Instant) {
        if self.connection.phase.opening() == Some(request) {
            return;
        }
        let Some(given_up) = self.outgoing.give_up(request, &mut self.timers) else { return };
        self.withdraw_input(request, &given_up);
        if let Some(on_wire) = given_up.on_wire() {
            let notice = cancellation::notice(on_wire, params);
            self.with_transport(now, |transport, output| transport.cancel(on_wire, &notice, now, output));
        }
        self.report_outcome(request, given_up.purpose, Outcome::Failed(reason), now);
    }

    pub(super) fn finish(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        let Some(ended) = self.outgoing.remove(request, &mut self.timers) else { return };
        self.withdraw_input(request, &ended);
        self.report_outcome(request, ended.purpose, outcome, now);
    }

    /// Withdraws the unanswered input requests of a request that has ended.
    fn withdraw_input(&mut self, request: RequestKey, ended: &OwnRequest<Purpose>) {
        self.timers.clear(Timer::InputRetry(request));
        for ticket in ended.asked() {
            if self.incoming.remove(ticket).is_some() {
                self.out.report(Event::RequestCancelled { ticket, params: Json::empty_object() });
            }
        }
    }

    fn report_outcome(&mut self, request: RequestKey, purpose: Purpose, outcome: Outcome, now: Instant) {
        if let Some(cache) = &mut self.cache {
            cache.forget(request);
        }
        match purpose {
            Purpose::Application | Purpose::Opening => {
                if self.connection.settings().is_some() {
                    self.note_outcome(request, &outcome, now);
                }
                self.out.report(Event::Responded { request, outcome });
            }
            Purpose::Subscription(subscription) => self.on_listen_outcome(subscription, outcome, now),
            Purpose::Tools { call, page } => self.on_tools_fetched(call, page, &outcome, now),
            Purpose::Restoring => self.on_restored(request, outcome, now),
        }
    }
}
