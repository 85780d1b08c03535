//! Requests that are cancelled, or whose answers are not needed any more (RULES 9).

use super::Http;
use super::delivery::{DeliveryKey, Post, Progress};
use super::exchange::{ExchangeKey, linger_until};
use crate::Instant;
use crate::client::transport::{Role, TransportOutput};
use crate::conversation::keys::RequestKey;
use crate::jsonrpc::Message;
use crate::spec::CancelBy;

impl Http {
    /// Cancels a request: closes its exchange, or sends `notice`, as the revision requires. A request that was not sent
    /// is dropped.
    pub(super) fn cancel_request(
        &mut self,
        request: RequestKey,
        notice: &Message,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        if self.session.version().is_some_and(|version| version.rules().cancel_by == CancelBy::ClosingTheExchange) {
            // CX-07, CX-08: closing the exchange is the cancellation.
            let removed = self.deliveries.remove(DeliveryKey::Request(request), output.timers);
            if let Some(exchange) = removed.and_then(|removed| removed.exchange) {
                self.exchanges.abort(exchange, output);
            }
            self.pump(now, output);
            return;
        }
        let Some(progress) = self.deliveries.progress(request) else { return };
        let notice = notice.to_bytes();
        match progress {
            Progress::Unsent => {}
            Progress::On(key) => match self.exchanges.get_mut(key) {
                // A cancellation must not overtake the request that it cancels (BR-T-08).
                Some(exchange) if !exchange.sent => exchange.cancellation = Some(notice),
                Some(_) | None => self.deliveries.add(Post::new(Role::Cancellation, notice), false, output.timers),
            },
            // A request that the server has is cancelled by a message, not by closing an exchange (CX-09).
            Progress::Delivered => self.deliveries.add(Post::new(Role::Cancellation, notice), false, output.timers),
        }
        self.drop_request(request, now, output);
        self.pump(now, output);
    }

    /// Drops a request whose answer is not needed. Its exchange is read on for a while, so that the connection can be
    /// used again.
    pub(super) fn drop_request(&mut self, request: RequestKey, now: Instant, output: &mut TransportOutput<'_, Http>) {
        let removed = self.deliveries.remove(DeliveryKey::Request(request), output.timers);
        if let Some(key) = removed.and_then(|removed| removed.exchange) {
            linger_until(key, now + self.config.linger, output);
        }
    }

    /// An exchange whose request has ended was read for long enough.
    pub(super) fn on_lingered(&mut self, exchange: ExchangeKey, output: &mut TransportOutput<'_, Http>) {
        // The server may have received the request, and does not treat the closed exchange as a cancellation (CX-09).
        if let Some(notice) = self.exchanges.abort(exchange, output).and_then(|exchange| exchange.cancellation) {
            self.deliveries.add(Post::new(Role::Cancellation, notice), false, output.timers);
        }
    }
}
