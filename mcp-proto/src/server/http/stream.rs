//! Responses that are streams of events: how each begins, what is written to it, and how it ends.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response};

use super::exchange::Exchange;
use super::replay::Stream;
use super::session::SessionKind;
use super::stored_append::Appending;
use super::stored_label::Label;
use super::{ExchangeKey, Http, HttpAction, HttpTimer, Output};
use crate::conversation::keys::SessionKey;
use crate::spec::ProtocolVersion;
use crate::sse::{EventName, encode_event};

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

impl Http {
    /// Turns the response of an exchange into a stream.
    pub(super) fn begin_stream(&mut self, key: ExchangeKey, output: &mut Output<'_>) {
        let Some(Exchange::Waiting { asked, tag, requests, .. }) = self.exchanges.get(key) else { return };
        let (session, tag) = (asked.session(), *tag);
        let instance = session.and_then(|session| self.stored_at(session)).filter(|_| self.config.replay > 0);
        let label = instance.map(|instance| Label { instance, requests: requests.clone() });
        let appending = label.map(|label| Box::new(Appending::new(&label)));
        self.exchanges.insert(key, Exchange::Streaming { session, stream: Some(key) });
        let Some(found) = session.and_then(|session| self.sessions.get_mut(session)) else { return };
        let mut stream = Stream::new(tag);
        stream.exchange = Some(key);
        let rules = found.version.map(ProtocolVersion::rules);
        // A priming event lets the client resume from the start (SH-S-53); older clients fail on its empty data
        // (SH-S-54).
        let primes = self.config.replay > 0 && rules.is_some_and(|rules| rules.resumable && rules.priming_event);
        if rules.is_some_and(|rules| rules.resumable) && appending.is_some() {
            // The response begins when its first event is stored.
            stream.appending = appending;
            found.streams.insert(key, stream);
            return;
        }
        let priming = primes.then(|| stream.priming(self.config.retry));
        found.streams.insert(key, stream);
        self.open_stream(key, output);
        if let Some(chunk) = priming {
            self.write_chunk(key, chunk, output);
        }
    }

    /// Starts a response that is a stream of events.
    pub(super) fn open_stream(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        let mut head = Response::new(());
        let headers = head.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        // Proxies must neither cache nor buffer the stream (SH-S-18, SH-S-20).
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
        self.allow_origin(exchange, headers);
        output.out.act(HttpAction::Stream { exchange, head });
        output.set_timer(HttpTimer::KeepAlive(exchange), output.now + self.config.keep_alive);
    }

    /// Writes a message to the stream of a request, or to the GET stream of the session.
    pub(super) fn write_event(
        &mut self,
        session: SessionKey,
        of: Option<ExchangeKey>,
        text: &Bytes,
        output: &mut Output<'_>,
    ) {
        let key = session;
        if of.is_none() && self.stored_at(session).is_some() {
            return self.append_message(session, text, output);
        }
        let Some(session) = self.sessions.get_mut(session) else { return };
        let resumable = session.version.is_some_and(|version| version.rules().resumable);
        let is_kept = self.config.replay > 0
            && resumable
            && matches!(session.kind, SessionKind::Memory | SessionKind::Unsealed { .. } | SessionKind::Sealed { .. });
        let Some(stream) = session.stream_mut(of) else { return };
        if let (Some(of), true) = (of, stream.appending.is_some()) {
            return self.append(key, of, text, false, output);
        }
        let exchange = stream.exchange;
        let (chunk, size) = stream.event(text, is_kept);
        session.kept_bytes += size;
        for gone in session.keep_within(self.config.replay) {
            output.clear_timer(HttpTimer::Forget(key, gone));
            self.unclaimed.remove(&(key, gone));
        }
        if let Some(exchange) = exchange {
            self.write_chunk(exchange, chunk, output);
            if of.is_none() {
                self.exchanges.streams.set_unused(exchange, output.now);
            }
            output.set_timer(HttpTimer::KeepAlive(exchange), output.now + self.config.keep_alive);
        }
    }

    /// Writes a message that relates to a stateless request: the event has no id, because it cannot be resumed (SH-C-43).
    pub(super) fn write_stateless_event(&mut self, exchange: ExchangeKey, text: &[u8], output: &mut Output<'_>) {
        let mut chunk = Vec::with_capacity(text.len() + 32);
        encode_event(&EventName::MESSAGE, text, None, &mut chunk);
        self.write_chunk(exchange, chunk.into(), output);
    }

    /// Ends the stream of a request after its last event.
    pub(super) fn end_stream(&mut self, session: SessionKey, of: ExchangeKey, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        let Some(stream) = found.streams.get_mut(&of) else { return };
        stream.is_over = true;
        if stream.appending.is_some() {
            return self.end_append(session, of, output);
        }
        let exchange = stream.exchange.take();
        if stream.is_empty() {
            found.forget_stream(of);
        } else {
            output.set_timer(HttpTimer::Forget(session, of), output.now + self.config.replay_for);
            if exchange.is_none() {
                self.unclaimed.insert((session, of));
            }
        }
        if let Some(exchange) = exchange {
            self.finish(exchange, output);
        }
    }

    /// Ends a response that is a stream, and removes its exchange.
    pub(super) fn finish(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        // A stream that was aborted for lack of room must not end as if it were complete.
        if self.close_exchange(exchange, output).is_some() && !self.unwritten.is_aborted(exchange) {
            output.out.act(HttpAction::Finish { exchange });
        }
    }
}
