//! Pending requests and their outcomes. Each request ends exactly once.

use std::time::Duration;

use super::carrier::Carrier;
use super::{Client, Event, Internal, Outcome, Timer};
use crate::Instant;
use crate::codec::json::Json;
use crate::codec::jsonrpc::{Message, Notification, Request};
use crate::conversation::pending::{PendingRequest, RequestKey, progress_token};
use crate::error::Failed;
use crate::spec::Method;

impl<T: Carrier> Client<T> {
    /// Adds a request to the table of pending requests, and sets its deadline.
    pub(super) fn wait_for(
        &mut self,
        method: Method,
        params: Option<Json>,
        timeout: Duration,
        now: Instant,
    ) -> (RequestKey, Message) {
        let latest = now + self.config.max_timeout.max(timeout);
        let token = progress_token(params.as_ref());
        let request =
            self.pending.insert(PendingRequest { method: method.clone(), timeout, latest, token, during: None });
        self.timers.set(Timer::Answer(request), now + timeout);
        (request, Message::Request(Request { id: request.to_wire(), method, params }))
    }

    pub(super) fn on_answer_timeout(&mut self, request: RequestKey, now: Instant) {
        let Some(waiting) = self.pending.get(request) else { return };
        let reason = Failed::TimedOut { after: waiting.timeout };
        if self.phase.opening() == Some(request) {
            // `initialize` and `server/discover` are never cancelled (LC-14, ER-07).
            self.with_wire(now, |transport, wire| transport.abandon(request, now, wire));
            self.on_opening_outcome(Outcome::Failed(reason), now);
            return;
        }
        // A request that has timed out is cancelled (TO-02).
        let params = Json::empty_object().with_member("reason", &Json::from("timed out"));
        self.give_up(request, reason, &params, now);
    }

    /// Ends a request from this side, and notifies the server if the request was sent.
    pub(super) fn give_up(&mut self, request: RequestKey, reason: Failed, params: &Json, now: Instant) {
        if self.phase.opening() == Some(request) || self.pending.give_up(request).is_none() {
            return;
        }
        let was_held = self.held.remove(request);
        let on_wire = self.end_call(request, Some(request));
        if let Some(on_wire) = on_wire.filter(|_| !was_held) {
            if on_wire != request {
                self.pending.remember_cancelled(on_wire);
            }
            let params = params.with_member("requestId", &on_wire.to_wire().to_json());
            let notice = Message::Notification(Notification::with_params(Method::CANCELLED, params));
            self.with_wire(now, |transport, wire| transport.cancel(on_wire, &notice, now, wire));
        }
        self.report_outcome(request, Outcome::Failed(reason), now);
    }

    pub(super) fn finish(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        if self.pending.remove(request).is_some() {
            self.end_call(request, None);
            self.report_outcome(request, outcome, now);
        }
    }

    /// Removes a call of the modern era, with all input requests that belong to it. Returns the key that it has on the
    /// wire; for other requests, returns `otherwise`.
    fn end_call(&mut self, request: RequestKey, otherwise: Option<RequestKey>) -> Option<RequestKey> {
        let Some(ended) = self.calls.end(request) else { return otherwise };
        self.timers.clear(Timer::Round(request));
        for ticket in ended.asked {
            if self.incoming.remove(ticket).is_some() {
                self.out.report(Event::RequestCancelled { ticket, params: Json::empty_object() });
            }
        }
        ended.wire
    }

    fn report_outcome(&mut self, request: RequestKey, outcome: Outcome, now: Instant) {
        self.timers.clear(Timer::Answer(request));
        self.late_progress.remove(&request);
        match self.internal.remove(&request) {
            None => {
                self.note_outcome(request, &outcome, now);
                self.out.report(Event::Responded { request, outcome });
            }
            Some(Internal::Listen(subscription)) => self.on_listen_outcome(subscription, outcome, now),
            Some(Internal::Tools { call, page }) => self.on_tools_fetched(call, page, &outcome, now),
            Some(Internal::Restore) => self.on_restored(request, outcome, now),
        }
    }
}
