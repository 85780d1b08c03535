//! The store, and what is on the way to and from it.

use std::time::Duration;

use bytes::Bytes;
use mcp_proto::store::{StoreAction, StoreKey, StoreResult, StreamId};
use mcp_proto::{InstanceId, Instant};
use serde_json::Value;

use super::{Defect, Faults, Instance, Simulation};

/// The number before that of the first instance.
pub(super) const FIRST: u64 = 0xa000;

/// What is on the way.
pub(super) enum Flight {
    /// An action, which the store carries out.
    Action { from: InstanceId, action: StoreAction, fate: Fate },
    /// The answer of the store.
    Answer {
        to: InstanceId,
        key: StoreKey,
        result: StoreResult,
        /// The stream of a call that this says is not stored in full.
        partial: Option<StreamId>,
    },
    /// An instance asks for its messages.
    Messages(InstanceId),
    /// The store detects that an instance has ended.
    Unregister(InstanceId),
}

/// What happens to an action of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    CarriedOut,
    /// It is refused.
    Refused,
    /// It is lost, and not answered.
    Lost,
    /// It is carried out, and reported as failed.
    Unconfirmed,
    /// It is carried out, and not answered.
    Unanswered,
}

impl Simulation<'_> {
    pub(super) fn start(&mut self) {
        self.started += 1;
        let id = InstanceId::new(FIRST + self.started);
        self.store.register(id);
        self.instances.insert(id, Instance::new(id, self.started, self.replay, self.now));
    }

    /// An instance ends without notice, and another one is started. What it has sent to the store may still arrive.
    pub(super) fn kill(&mut self) {
        let id = self.some_instance();
        self.watch(|| format!("{id} ends"));
        self.collect(id);
        self.instances.remove(&id);
        self.report.crashes += 1;
        let arrives = self.random.one_in(2);
        self.flights.retain(|_, flight| match flight {
            Flight::Action { from, .. } => *from != id || arrives,
            Flight::Answer { to, .. } => *to != id,
            Flight::Messages(of) => *of != id,
            Flight::Unregister(_) => true,
        });
        let detected = self.random.time(Duration::from_secs(10));
        self.launch(self.now + detected, Flight::Unregister(id));
        self.on_instance_ended(id);
        self.start();
    }

    pub(super) fn launch(&mut self, at: Instant, flight: Flight) {
        self.launched += 1;
        self.flights.insert((at, self.launched), flight);
    }

    fn latency(&mut self) -> Duration {
        let is_slow = self.faults == Faults::Store && self.is_faulty && self.random.one_in(40);
        self.random.time(if is_slow { Duration::from_secs(9) } else { Duration::from_millis(10) })
    }

    /// Advances the time, and lets everything happen that happens until then.
    pub(super) fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.read();
            for id in self.instances.keys().copied().collect::<Vec<_>>() {
                self.collect(id);
            }
            let has_timers = !self.run.is(Defect::IgnoresTimers);
            let running = self.instances.values().filter(|_| has_timers);
            let timers = running.filter_map(|instance| instance.server.server.poll_timeout());
            let next = timers.chain(self.flights.keys().map(|(at, _)| *at)).min().map(|at| at.max(self.now));
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.pass_to(next);
            while let Some(first) = self.flights.first_entry().filter(|first| first.key().0 <= next) {
                let flight = first.remove();
                self.land(flight);
            }
        }
        self.pass_to(until);
    }

    fn pass_to(&mut self, at: Instant) {
        let has_timers = !self.run.is(Defect::IgnoresTimers);
        for instance in self.instances.values_mut() {
            if has_timers {
                instance.server.pass(at.saturating_duration_since(instance.server.now));
            } else {
                instance.server.now = at;
            }
        }
        self.now = at;
    }

    /// Sends what an instance asks of the store on its way.
    fn collect(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.server.settle();
        for action in std::mem::take(&mut instance.server.store_actions) {
            let fate = if self.faults == Faults::Store && self.is_faulty && self.random.one_in(12) {
                *self.random.pick(&[Fate::Refused, Fate::Lost, Fate::Unconfirmed, Fate::Unanswered])
            } else {
                Fate::CarriedOut
            };
            self.report.failed += usize::from(fate != Fate::CarriedOut);
            let latency = self.latency();
            let Some(instance) = self.instances.get_mut(&id) else { return };
            let at = instance.last_arrival.max(self.now + latency);
            instance.last_arrival = at;
            self.launch(at, Flight::Action { from: id, action, fate });
        }
    }

    fn land(&mut self, flight: Flight) {
        match flight {
            Flight::Action { from, action, fate } => self.carry_out(from, &action, fate),
            Flight::Answer { to, key, result, partial } => {
                if let Some(stream) = partial.filter(|stream| self.has_session(to, &stream.session)) {
                    self.partial.insert(stream, (to, self.now));
                }
                if let Some(instance) = self.instances.get_mut(&to) {
                    instance.server.server.handle_stored(key, result, self.now);
                }
            }
            Flight::Messages(of) => {
                while let Some(message) = self.store.poll_message(of) {
                    if let Some(instance) = self.instances.get_mut(&of) {
                        instance.server.server.handle_message(&message, self.now);
                    }
                }
            }
            Flight::Unregister(id) => self.store.unregister(id),
        }
    }

    fn carry_out(&mut self, from: InstanceId, action: &StoreAction, fate: Fate) {
        let mut result = match fate {
            Fate::Refused | Fate::Lost => None,
            Fate::CarriedOut | Fate::Unconfirmed | Fate::Unanswered => self.carry_out_instead(from, action),
        };
        self.watch(|| format!("{from} {action:?}, {fate:?}: {result:?}"));
        if let StoreAction::ForgetStream { stream } = action {
            self.forgotten.insert(stream.clone());
        }
        if matches!(action, StoreAction::Send { .. }) {
            for id in self.instances.keys().copied().collect::<Vec<_>>() {
                let at = self.now + self.latency();
                self.launch(at, Flight::Messages(id));
            }
        }
        if matches!(fate, Fate::Refused | Fate::Unconfirmed) {
            result = Some(StoreResult::Failed);
        }
        let is_answered = !matches!(fate, Fate::Lost | Fate::Unanswered);
        if let (Some(key), Some(result)) = (action.key(), result.filter(|_| is_answered)) {
            let at = self.now + self.latency();
            let partial = match action {
                StoreAction::Append { stream, first: Some(first), events, is_last, .. }
                    if result == StoreResult::Failed && !is_only_kept(*first, events, *is_last) =>
                {
                    Some(stream.clone())
                }
                _ => None,
            };
            self.launch(at, Flight::Answer { to: from, key, result, partial });
        }
    }

    /// Whether an instance has a session.
    fn has_session(&self, id: InstanceId, session: &str) -> bool {
        let Some(instance) = self.instances.get(&id) else { return false };
        let mut snapshots = instance.sessions.iter().filter_map(|key| instance.server.server.snapshot(*key));
        snapshots.any(|snapshot| &*snapshot.id == session)
    }

    /// Carries out an action, or what a broken machine asks for instead.
    fn carry_out_instead(&mut self, from: InstanceId, action: &StoreAction) -> Option<StoreResult> {
        if self.is_skipped(action) {
            return action.key().map(|_| StoreResult::Done);
        }
        let mut result = None;
        for action in self.asked_instead(from, action.clone()) {
            result = self.store.carry_out(from, &action, self.now);
            if result == Some(StoreResult::Done) {
                self.note_stored(&action);
            }
        }
        result.map(|result| self.answered_instead(action, result))
    }

    /// Notes what is stored for clients.
    fn note_stored(&mut self, action: &StoreAction) {
        match action {
            StoreAction::Save { session, expected, bytes, .. } => {
                let versions = self.records.entry(session.clone()).or_default();
                versions.truncate(usize::try_from(*expected).expect("few versions"));
                versions.push(bytes.clone());
            }
            StoreAction::Forget { session, .. } => drop(self.records.remove(session)),
            StoreAction::Append { stream, first, events, is_last, .. } => {
                for event in events {
                    let text = std::str::from_utf8(event).expect("UTF-8");
                    self.note_event(stream, *first, text, *is_last);
                }
            }
            _ => {}
        }
    }

    fn note_event(&mut self, stream: &StreamId, first: Option<u64>, text: &str, is_last: bool) {
        if first.is_none() {
            self.stored.entry(stream.clone()).or_default().push(text.to_owned());
        }
        let message: Value = serde_json::from_str(text).expect("JSON");
        let is_answer = is_last && message.get("method").is_none();
        if let Some(call) = message["id"].as_u64().filter(|_| is_answer) {
            let call = &mut self.calls[usize::try_from(call).expect("few calls")];
            call.is_stored |= message.get("result").is_some();
            call.answered.get_or_insert(self.now);
        }
    }
}

/// Whether an action adds nothing to a stream and only keeps it from expiring.
fn is_only_kept(first: u64, events: &[Bytes], is_last: bool) -> bool {
    first > 1 && events.is_empty() && !is_last
}
