//! Sessions: begun, accepted, lost, ended (RULES 4.1, 5.3).

use http::StatusCode;
use http::response::Parts;

use super::delivery::{DeliveryKey, Queue};
use super::exchange::Purpose;
use super::headers::{Common, refusal};
use super::two_endpoint::HttpMode;
use super::{Http, HttpAction, Timer};
use crate::Instant;
use crate::client::carrier::{Inbound, Role, Wire};
use crate::error::{Failed, Fault, Quirk};
use crate::spec::ProtocolVersion;

/// The progress of closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// Not begun.
    No,
    /// Notifications and answers are still being delivered.
    Flushing,
    /// The session is being ended with DELETE (SH-C-09).
    Ending,
    /// Complete.
    Done,
}

impl Http {
    /// Discards the session, because `initialize` is sent without one (SH-C-08).
    pub(super) fn begin_session(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        if self.session.is_some() {
            self.delete(wire);
        }
        self.generation += 1;
        self.is_ready = false;
        self.session = None;
        self.offered_session = None;
        self.version = None;
        self.drop_streams(wire);
        self.server_stream.was_open = false;
        self.server_stream.cursor.moved(None);
        if !self.mode.is_streamable() {
            self.mode = HttpMode::Opening { instead_of: None };
            self.open_two_endpoint_stream(now, wire);
        }
    }

    pub(super) fn accept_session(&mut self, version: ProtocolVersion, wire: &mut Wire<'_, HttpAction>) {
        self.session = self.offered_session.take().filter(|_| version.rules().sessions);
        self.version = Some(version);
        if version.rules().two_endpoints && self.mode.is_streamable() {
            wire.quirk(Quirk::FirstRevisionOverStreamableHttp);
        }
    }

    /// The server has lost the session.
    ///
    /// `refused` is the message that the server refused for this reason, and certainly did not process.
    pub(super) fn lose_session(
        &mut self,
        generation: u64,
        refused: Option<DeliveryKey>,
        now: Instant,
        wire: &mut Wire<'_, HttpAction>,
    ) {
        let is_news = generation == self.generation && self.closing == Closing::No;
        if let Some(message) = refused {
            self.refused_with_session(message, wire);
        }
        if !is_news {
            self.pump(now, wire);
            return;
        }
        self.is_ready = false;
        self.session = None;
        self.fail_delivered(wire);
        self.deliveries.keep_undelivered_for_next_session();
        wire.inbound.push_back(Inbound::SessionLost);
    }

    /// A message was refused because its session is lost: it is sent once more in the next session.
    fn refused_with_session(&mut self, message: DeliveryKey, wire: &mut Wire<'_, HttpAction>) {
        let Some(role) = self.deliveries.post(message).map(|post| post.role) else { return };
        let again = match role {
            Role::Confirmation => {
                // Messages that wait for the confirmation wait for the next session, which has its own confirmation.
                self.deliveries.remove(message);
                return wire.fault(Fault::NotAccepted { reason: Failed::SessionLost });
            }
            Role::Request(_) | Role::Notification => self.deliveries.may_try_second_session(message),
            // These messages are of no use in another session (SH-C-08).
            Role::Initialize(_) | Role::Discover(..) | Role::Answer | Role::Cancellation => false,
        };
        if !again {
            self.undelivered(message, Failed::SessionLost, wire);
        } else if self.is_ready && self.closing == Closing::No {
            self.deliveries.enqueue(message);
        } else {
            self.deliveries.wait_for_session(message);
        }
    }

    /// Fails all requests that the server may have received, because it is unknown whether they were processed.
    fn fail_delivered(&mut self, wire: &mut Wire<'_, HttpAction>) {
        let delivered: Vec<_> = self.deliveries.delivered().collect();
        for request in delivered {
            self.unanswered(request, Failed::SessionLost, wire);
        }
        self.drop_streams(wire);
        self.exchanges.abort_where(|purpose| purpose.request().is_some(), wire);
    }

    /// Closes every stream that belongs to the session and not to a request.
    pub(super) fn drop_streams(&mut self, wire: &mut Wire<'_, HttpAction>) {
        self.timers.clear(Timer::ServerStream);
        self.timers.clear(Timer::Endpoint);
        self.exchanges.abort_where(Purpose::is_stream, wire);
    }

    pub(super) fn begin_closing(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        if self.closing != Closing::No {
            return;
        }
        self.closing = Closing::Flushing;
        self.deliveries.keep_messages_of_session();
        self.exchanges.abort_where(|purpose| purpose.request().is_some(), wire);
        self.exchanges.clear_timers();
        self.timers.clear_all();
        self.timers.set(Timer::Close, now + self.config.close_timeout);
        self.pump(now, wire);
    }

    /// Takes the next step of closing, if the previous one is done.
    pub(super) fn go_on_closing(&mut self, wire: &mut Wire<'_, HttpAction>) {
        if self.closing != Closing::Flushing {
            return;
        }
        let is_busy = self.exchanges.any(|purpose| matches!(purpose, Purpose::Post(_)));
        if is_busy || (self.mode.is_open() && self.deliveries.first_queued(Queue::Others).is_some()) {
            return;
        }
        if self.session.is_some() {
            self.closing = Closing::Ending;
            self.delete(wire);
        } else {
            self.close_now(wire);
        }
    }

    fn delete(&mut self, wire: &mut Wire<'_, HttpAction>) {
        let common = Common { user: &self.config.headers, session: self.session.as_ref(), version: self.version };
        let request = common.delete(&self.config.endpoint);
        self.open(request, Purpose::Delete, wire);
    }

    pub(super) fn session_ended(&mut self, head: &Parts, wire: &mut Wire<'_, HttpAction>) {
        // A server need not support DELETE, and one that has lost the session has ended it (SH-C-09).
        let fine =
            head.status.is_success() || matches!(head.status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND);
        if !fine {
            let reason = Failed::Refused(refusal(head.status, &head.headers, &self.limits));
            wire.fault(Fault::SessionNotEnded { reason });
        }
        self.deleted(wire);
    }

    pub(super) fn session_not_ended(&mut self, reason: Failed, wire: &mut Wire<'_, HttpAction>) {
        wire.fault(Fault::SessionNotEnded { reason });
        self.deleted(wire);
    }

    fn deleted(&mut self, wire: &mut Wire<'_, HttpAction>) {
        if self.closing == Closing::Ending {
            self.close_now(wire);
        }
    }

    /// The deadline for closing has passed (H6).
    pub(super) fn close_unended(&mut self, wire: &mut Wire<'_, HttpAction>) {
        if self.closing == Closing::Ending {
            let after = self.config.close_timeout;
            wire.fault(Fault::SessionNotEnded { reason: Failed::TimedOut { after } });
        }
        self.close_now(wire);
    }

    fn close_now(&mut self, wire: &mut Wire<'_, HttpAction>) {
        if self.closing == Closing::Done {
            return;
        }
        self.closing = Closing::Done;
        self.session = None;
        self.exchanges.abort_where(|_| true, wire);
        self.timers.clear_all();
        wire.inbound.push_back(Inbound::Closed);
    }
}
