//! Responses: whole ones, and streams of events.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response};

use crate::server::http::exchange::action::HttpAction;
use crate::server::http::exchange::refusal::Refusal;
use crate::server::http::exchange::{Exchange, ExchangeKey, ExchangeTypes, Exchanges};
use crate::server::http::{HttpTimer, Output};
use crate::spec::UnreadableId;
use crate::sse::{EventName, encode_comment, encode_event};

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

impl<P: ExchangeTypes> Exchanges<P> {
    /// Sends the response of an exchange that was removed, or is to be.
    pub(crate) fn respond(&mut self, exchange: ExchangeKey, mut response: Response<Bytes>, output: &mut Output<'_>) {
        self.origins.allow(exchange, response.headers_mut());
        self.count_unwritten(exchange, response.body().len(), output);
        output.out.act(HttpAction::Respond { exchange, response });
    }

    pub(crate) fn refuse(
        &mut self,
        exchange: ExchangeKey,
        refusal: Refusal,
        unreadable_id: UnreadableId,
        output: &mut Output<'_>,
    ) {
        self.respond(exchange, refusal.into_response(unreadable_id), output);
    }

    /// Starts a response that is a stream of events.
    pub(crate) fn open_stream(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        let mut head = Response::new(());
        let headers = head.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        // Proxies must neither cache nor buffer the stream (SH-S-18, SH-S-20).
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
        self.origins.allow(exchange, headers);
        output.out.act(HttpAction::Stream { exchange, head });
        self.keep_alive(exchange, output);
    }

    /// Sets the time after which a comment is written to a stream on which nothing is written. Streams share these times, so that
    /// a driver wakes up eight times in this time, however many there are.
    pub(crate) fn keep_alive(&self, exchange: ExchangeKey, output: &mut Output<'_>) {
        let due = (output.now + self.keep_alive).rounded_down(self.keep_alive / 8);
        output.set_timer(HttpTimer::KeepAlive(exchange), due);
    }

    /// Writes a message as an event without an id, which cannot be resumed.
    pub(crate) fn write_event(&mut self, exchange: ExchangeKey, text: &[u8], output: &mut Output<'_>) {
        let mut chunk = Vec::with_capacity(text.len() + 32);
        encode_event(&EventName::MESSAGE, text, None, &mut chunk);
        self.write_chunk(exchange, chunk.into(), output);
    }

    /// Ends a response that is a stream, and whose exchange was removed.
    pub(crate) fn finish(&self, exchange: ExchangeKey, output: &mut Output<'_>) {
        // A stream that was aborted for lack of room must not end as if it were complete.
        if !self.unwritten.is_aborted(exchange) {
            output.out.act(HttpAction::Finish { exchange });
        }
    }

    /// Writes bytes without meaning to a client, to detect whether the client is gone.
    pub(crate) fn probe(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        match self.get(exchange) {
            Some(Exchange::Streaming(_)) => {
                let mut comment = Vec::new();
                encode_comment(&mut comment);
                self.write_chunk(exchange, comment.into(), output);
            }
            Some(Exchange::Waiting { .. } | Exchange::Storing { .. }) => {
                output.out.act(HttpAction::Continue { exchange });
            }
            Some(Exchange::Receiving { .. }) => {}
            None => return,
        }
        self.keep_alive(exchange, output);
    }

    /// The client has disconnected: nothing more is written.
    pub(crate) fn forget(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        self.unwritten.forget(exchange);
        output.clear_timer(HttpTimer::Unread(exchange));
        self.origins.remove(exchange);
    }
}
