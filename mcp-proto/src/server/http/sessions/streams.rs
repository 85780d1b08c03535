//! The streams of a session: how each begins, what is written to it, and how it ends.

use bytes::Bytes;

use crate::conversation::keys::SessionKey;
use crate::server::http::purpose::{Exchange, StreamOf};
use crate::server::http::sessions::session::SessionKind;
use crate::server::http::stream::Stream;
use crate::server::http::stream::appending::Appending;
use crate::server::http::stream::label::Label;
use crate::server::http::{ExchangeKey, Http, HttpTimer, Output};
use crate::spec::ProtocolVersion;

impl Http {
    /// Turns the response of an exchange of a session into a stream.
    pub(crate) fn begin_stream(&mut self, session: SessionKey, key: ExchangeKey, output: &mut Output<'_>) {
        let Some(Exchange::Waiting { opening, .. }) = self.exchanges.get(key) else { return };
        let tag = opening.tag;
        let Some(found) = self.sessions.get_mut(session) else { return };
        let rules = found.version.map(ProtocolVersion::rules);
        let is_kept = self.config.replay > 0 && rules.is_some_and(|rules| rules.resumable);
        let stored = self.config.stored().filter(|_| is_kept && found.stored().is_some());
        if let Some(stored) = stored {
            let label = Label { instance: stored.instance, requests: opening.requests.clone() };
            // The response begins when its first event is stored.
            let mut stream = Stream::appended(tag, Appending::new(&label));
            stream.exchange = Some(key);
            found.streams.insert(key, stream);
            return self.exchanges.insert(key, Exchange::Streaming(StreamOf::Request(session, key)));
        }
        let mut stream = Stream::new(tag);
        stream.exchange = Some(key);
        // A priming event lets the client resume from the start (SH-S-53); older clients fail on its empty data
        // (SH-S-54).
        let primes = is_kept && rules.is_some_and(|rules| rules.priming_event);
        let priming = primes.then(|| stream.priming(self.config.retry));
        found.streams.insert(key, stream);
        self.exchanges.insert(key, Exchange::Streaming(StreamOf::Request(session, key)));
        self.exchanges.open_stream(key, output);
        if let Some(chunk) = priming {
            self.exchanges.write_chunk(key, chunk, output);
        }
    }

    /// Writes a message to the stream of a request, or to the GET stream of the session.
    pub(crate) fn write_event(
        &mut self,
        session: SessionKey,
        of: Option<ExchangeKey>,
        text: &Bytes,
        output: &mut Output<'_>,
    ) {
        let key = session;
        if of.is_none() && self.sessions.is_stored(session) {
            return self.append_message(session, text, output);
        }
        let Some(session) = self.sessions.get_mut(session) else { return };
        let resumable = session.version.is_some_and(|version| version.rules().resumable);
        let is_kept = self.config.replay > 0
            && resumable
            && matches!(session.kind, SessionKind::Memory | SessionKind::Unsealed { .. } | SessionKind::Sealed { .. });
        let Some(stream) = session.stream_mut(of) else { return };
        if let (Some(of), true) = (of, stream.appending().is_some()) {
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
            self.exchanges.write_chunk(exchange, chunk, output);
            if of.is_none() {
                self.exchanges.streams.set_unused(exchange, output.now);
            }
            self.exchanges.keep_alive(exchange, output);
        }
    }

    /// Ends the stream of a request after its last event.
    pub(crate) fn end_stream(&mut self, session: SessionKey, of: ExchangeKey, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        let Some(stream) = found.streams.get_mut(&of) else { return };
        stream.is_over = true;
        if stream.appending().is_some() {
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
}
