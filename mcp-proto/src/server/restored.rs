//! A session that continues at another server: its state, and the session with that state.

use super::session::{Phase, Session};
use super::shared::Shared;
use super::snapshot::SessionState;
use super::transport::ServerTransport;

impl Session {
    /// What another server needs to continue the session; `None` if it is not in use, or not confirmed.
    pub(super) fn state(&self) -> Option<SessionState> {
        let version = self.version.filter(|_| self.phase == Phase::Ready)?;
        Some(SessionState {
            logging_level: self.settings.logging_level,
            subscribed: self.settings.subscribed.clone(),
            ..SessionState::opened(version, self.settings.client.clone())
        })
    }

    /// The number of the next request to the client.
    pub(super) const fn next_request(&self) -> u64 {
        self.outgoing.next_number()
    }

    /// Continues a session that another server has opened. Its client has sent `notifications/initialized`, or is sending
    /// it now. The number of its next request to the client is at least `next_request`.
    pub(super) fn continue_from<T: ServerTransport>(
        &mut self,
        state: &SessionState,
        next_request: u64,
        shared: &mut Shared<'_, T>,
    ) {
        self.phase = Phase::Ready;
        self.version = Some(state.version);
        self.settings.client.clone_from(&state.client);
        let next_request = state.kept.as_ref().map_or(0, |kept| kept.next_request).max(next_request);
        self.outgoing.continue_at(next_request.max(self.outgoing.next_number()));
        self.set_all(state, shared);
    }

    /// Replaces what the client has set by what it has set at any server.
    pub(super) fn set_all<T: ServerTransport>(&mut self, state: &SessionState, shared: &mut Shared<'_, T>) {
        self.settings.logging_level = state.logging_level;
        let subscribed = shared.resources.add_all(&state.subscribed);
        let earlier = std::mem::replace(&mut self.settings.subscribed, subscribed);
        shared.resources.remove_all(&earlier);
    }
}
