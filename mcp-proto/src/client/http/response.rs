//! Responses: the head, the body and the end of an exchange, or its failure.

use http::StatusCode;
use http::header::SET_COOKIE;
use http::response::Parts;

use super::cursor::Cursor;
use super::delivery::{DeliveryKey, Post};
use super::exchange::{Exchange, ExchangeKey, Next, Posted, Purpose, Reading, append, linger_until};
use super::headers::{SessionHeader, is_encoded, not_a_stream, refusal, session_id};
use super::lost_session::{may_be_lost, states_loss};
use super::{Failure, Http, HttpTimer};
use crate::Instant;
use crate::client::transport::{Inbound, Role, TransportOutput};
use crate::conversation::keys::RequestKey;
use crate::error::{BodyKind, Failed, Fault, Quirk};
use crate::jsonrpc::{Message, Response};
use crate::spec::header::{DPOP_NONCE, body_kind};

impl Http {
    pub(super) fn on_sent(&mut self, key: ExchangeKey, now: Instant, output: &mut TransportOutput<'_, Http>) {
        let Some(exchange) = self.exchanges.get_mut(key) else { return };
        exchange.sent = true;
        if let Some(cancellation) = exchange.cancellation.take() {
            self.deliveries.add(Post::new(Role::Cancellation, cancellation), false, output.timers);
            self.pump(now, output);
        }
    }

    pub(super) fn on_head(
        &mut self,
        key: ExchangeKey,
        head: &Parts,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        // A server that responds has received the request.
        self.on_sent(key, now, output);
        let Some(mut exchange) = self.exchanges.take(key) else { return };
        output.clear_timer(HttpTimer::Accept(key));
        if head.headers.contains_key(DPOP_NONCE) {
            self.authorization.learn_nonce(&head.headers);
        }
        if self.config.cookies && head.headers.contains_key(SET_COOKIE) {
            self.cookies.get_or_insert_default().learn(&head.headers, &self.config.endpoint);
        }
        let next = if matches!(exchange.reading, Reading::Head) {
            self.head(key, &mut exchange, head, now, output)
        } else {
            Next::Read
        };
        self.put_back(key, exchange, next, now, output);
    }

    pub(super) fn on_body(
        &mut self,
        key: ExchangeKey,
        chunk: &[u8],
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let Some(mut exchange) = self.exchanges.take(key) else { return };
        let mut next = self.body(key, &mut exchange, chunk, now, output);
        if next == Next::Read && !self.exchanges.has_room_for(&exchange, &self.limits) {
            let purpose = std::mem::replace(&mut exchange.purpose, Purpose::Drain);
            self.stream_failed(purpose, Failed::NoRoom { limit: self.limits.held }, now, output);
            next = Next::Abort;
        }
        self.put_back(key, exchange, next, now, output);
    }

    pub(super) fn on_end(&mut self, key: ExchangeKey, now: Instant, output: &mut TransportOutput<'_, Http>) {
        let Some(mut exchange) = self.exchanges.remove(key, output) else { return };
        match exchange.reading {
            Reading::Head => self.broke(key, exchange, Failed::StreamEnded, now, output),
            Reading::Json { body } => {
                if let Some(request) = exchange.purpose.request() {
                    self.json_body(request, exchange.opened_in, body, now, output);
                }
            }
            Reading::Events(_) => self.stream_over(exchange.purpose, Failed::StreamEnded, now, output),
            Reading::Refusal { .. } => self.refusal_read(key, &mut exchange, true, now, output),
            Reading::Ignored { .. } => {}
        }
        self.pump(now, output);
    }

    pub(super) fn on_failure(
        &mut self,
        key: ExchangeKey,
        failure: Failure,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let Some(mut exchange) = self.exchanges.remove(key, output) else { return };
        match (&failure, exchange.purpose, &exchange.reading) {
            (Failure::Unreachable { .. }, Purpose::Post(posted), Reading::Head) => {
                // A waiting cancellation is dropped: nothing reached the server.
                self.not_delivered(posted.message, failure.into_failed(), now, output);
            }
            (Failure::Closed { .. }, Purpose::Post(posted), Reading::Head)
                if !self.session.is_closing() && self.deliveries.repeat(posted.message, output.timers) => {}
            (_, purpose, _) => {
                exchange.purpose = purpose;
                self.broke(key, exchange, failure.into_failed(), now, output);
            }
        }
        self.pump(now, output);
    }

    /// Nothing of the body was received for too long: the connection counts as lost.
    pub(super) fn on_silence(&mut self, key: ExchangeKey, now: Instant, output: &mut TransportOutput<'_, Http>) {
        let detail = format!("silent for {:?}", self.config.idle_timeout).into();
        if let Some(exchange) = self.exchanges.abort(key, output) {
            self.broke(key, exchange, Failed::Broken { detail }, now, output);
        }
    }

    fn put_back(
        &mut self,
        key: ExchangeKey,
        exchange: Exchange,
        next: Next,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let is_over = match exchange.purpose.request() {
            Some(request) => !self.deliveries.contains_request(request),
            None => matches!(exchange.purpose, Purpose::Drain),
        };
        self.exchanges.put_back(key, exchange);
        if next == Next::Abort || self.session.is_closed() {
            self.exchanges.abort(key, output);
        } else if is_over {
            // More bytes of a body that is not needed do not move the deadline.
            output.clear_timer(HttpTimer::Idle(key));
            linger_until(key, now + self.config.linger, output);
        } else {
            output.set_timer(HttpTimer::Idle(key), now + self.config.idle_timeout);
        }
        self.pump(now, output);
    }

    fn head(
        &mut self,
        key: ExchangeKey,
        exchange: &mut Exchange,
        head: &Parts,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) -> Next {
        if self.session.is_closing() && exchange.purpose.request().is_some() {
            // The exchange is open only to get the id of the session, which is then ended (SH-C-09).
            if let (true, SessionHeader::Valid(id)) =
                (head.status.is_success(), session_id(&head.headers, &self.limits))
            {
                self.session_offered(id, exchange.opened_in, output);
            }
            return Next::Abort;
        }
        if !head.status.is_success() && self.unsuccessful(key, exchange, head, now, output) {
            return Next::Read;
        }
        match exchange.purpose {
            Purpose::Post(posted) => {
                if let Some(request) = posted.message.request() {
                    return self.answer_begins(key, exchange, posted, request, head, output);
                }
                self.deliveries.remove(posted.message, output.timers);
                self.accepted(posted.role, head.status, output);
                exchange.discard_rest(&self.limits);
                Next::Read
            }
            Purpose::GetStream { .. } => {
                if is_stream(head) {
                    self.get_stream.opened();
                    self.authorization.get_stream.reset();
                    exchange.reading = Reading::events(&self.limits, self.get_stream.cursor.resume_after().cloned());
                } else {
                    exchange.discard_rest(&self.limits);
                    self.no_get_stream(exchange.opened_in, head, now, output);
                }
                Next::Read
            }
            Purpose::Resume { request, .. } => {
                if is_stream(head) {
                    let cursor = self.deliveries.cursor(request).and_then(Cursor::resume_after).cloned();
                    exchange.reading = Reading::events(&self.limits, cursor);
                } else {
                    exchange.discard_rest(&self.limits);
                    self.not_resumed(exchange.opened_in, request, head, now, output);
                }
                Next::Read
            }
            Purpose::TwoEndpointStream { .. } => {
                if is_stream(head) {
                    exchange.reading = Reading::events(&self.limits, None);
                } else {
                    exchange.discard_rest(&self.limits);
                    let reason = not_a_stream(head, &self.limits);
                    self.two_endpoint_stream_failed(reason, now, output);
                }
                Next::Read
            }
            Purpose::Delete => {
                exchange.discard_rest(&self.limits);
                self.session_ended(head, output);
                Next::Read
            }
            Purpose::Drain => {
                exchange.discard_rest(&self.limits);
                Next::Read
            }
        }
    }

    /// Handles a response whose status is no success. Returns `false` if that depends on the purpose of the exchange.
    fn unsuccessful(
        &mut self,
        key: ExchangeKey,
        exchange: &mut Exchange,
        head: &Parts,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) -> bool {
        if let Some(target) = self.redirect(exchange, head) {
            self.redirected(exchange, head.status, target, now, output);
            return true;
        }
        if let (Purpose::Post(_), true) =
            (exchange.purpose, exchange.opened_in.in_session && may_be_lost(head.status, &head.headers))
        {
            let refusal = refusal(head.status, &head.headers, &self.limits);
            let challenge = Some(Box::new(head.clone()));
            exchange.reading = Reading::Refusal { refusal, body: Vec::new(), challenge };
            return true;
        }
        // The body is not waited for: only the challenge of such a response matters (AU-14).
        if self.is_challenged(key, exchange, head, now, output) {
            exchange.discard_rest(&self.limits);
            return true;
        }
        if matches!(exchange.purpose, Purpose::Post(_) | Purpose::TwoEndpointStream { .. }) {
            let refusal = refusal(head.status, &head.headers, &self.limits);
            exchange.reading = Reading::Refusal { refusal, body: Vec::new(), challenge: None };
            return true;
        }
        false
    }

    /// The server answers a request with a success status: the answer follows.
    fn answer_begins(
        &mut self,
        key: ExchangeKey,
        exchange: &mut Exchange,
        posted: Posted,
        request: RequestKey,
        head: &Parts,
        output: &mut TransportOutput<'_, Http>,
    ) -> Next {
        if !self.mode.is_streamable() {
            // Any success status means that the answer will come on the stream (HS-04, HS-07). The body here is not an
            // answer (LE3).
            self.deliveries.accepted(request, output.timers);
            exchange.discard_rest(&self.limits);
            return Next::Read;
        }
        match (session_id(&head.headers, &self.limits), posted.role) {
            (SessionHeader::Invalid, Role::Initialize(_)) => {
                self.unanswered(request, Failed::InvalidSessionId, output);
                return Next::Abort;
            }
            (SessionHeader::Valid(id), Role::Initialize(_)) => self.session_offered(id, exchange.opened_in, output),
            // Only the answer to `initialize` sets the session (SH-C-06, HT4).
            (SessionHeader::Valid(id), _) if self.session.is_changed_by(&id, exchange.opened_in) => {
                output.fault(Fault::SessionIdChanged);
            }
            (SessionHeader::Absent | SessionHeader::Valid(_) | SessionHeader::Invalid, _) => {}
        }
        let kind = body_kind(&head.headers);
        let reason = if matches!(head.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT)
        {
            // These statuses mean that no answer will come (SH-C-16, HT6).
            Some(Failed::NoAnswer { status: head.status })
        } else if is_encoded(&head.headers) {
            Some(Failed::ContentEncoding)
        } else if matches!(kind, BodyKind::Json | BodyKind::EventStream) {
            None
        } else if kind == BodyKind::Untyped && is_empty(head) {
            Some(Failed::NoAnswer { status: head.status })
        } else {
            Some(Failed::ContentType { body: kind })
        };
        if let Some(reason) = reason {
            self.unanswered(request, reason, output);
            exchange.discard_rest(&self.limits);
            return Next::Read;
        }
        if kind == BodyKind::EventStream {
            exchange.reading = Reading::events(&self.limits, None);
        } else {
            exchange.reading = Reading::Json { body: Vec::new() };
            if exchange.opened_in.in_session {
                // The message is kept: an error may state that the session is lost, so that it is sent again.
                return Next::Read;
            }
        }
        self.deliveries.read_on(request, key, output.timers);
        Next::Read
    }

    /// Any success status accepts a message that is not a request (SH-C-17).
    fn accepted(&self, role: Role, status: StatusCode, output: &mut TransportOutput<'_, Http>) {
        if status != StatusCode::ACCEPTED && self.mode.is_streamable() {
            output.quirk(Quirk::NotificationNotAccepted202);
        }
        if role == Role::Confirmation {
            output.pass(Inbound::Confirmed);
        }
    }

    fn body(
        &mut self,
        key: ExchangeKey,
        exchange: &mut Exchange,
        mut chunk: &[u8],
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) -> Next {
        match &mut exchange.reading {
            Reading::Head => Next::Read,
            Reading::Json { body } => {
                if append(body, chunk, self.limits.message).is_err() {
                    if let Some(request) = exchange.purpose.request() {
                        self.unanswered(request, Failed::TooLarge { limit: self.limits.message }, output);
                    }
                    return Next::Abort;
                }
                Next::Read
            }
            Reading::Events(decoder) => {
                let request = exchange.purpose.request();
                if request.is_some_and(|request| !self.deliveries.contains_request(request)) {
                    exchange.trailing += chunk.len();
                    if exchange.trailing > self.limits.error_body {
                        return Next::Abort;
                    }
                }
                while let Some(item) = decoder.decode(&mut chunk) {
                    let next = match item {
                        Ok(item) => self.item(exchange.purpose, item, now, output),
                        Err(error) => {
                            let reason = Failed::TooLarge { limit: error.limit };
                            let purpose = std::mem::replace(&mut exchange.purpose, Purpose::Drain);
                            self.stream_failed(purpose, reason, now, output);
                            Next::Abort
                        }
                    };
                    if next == Next::Abort {
                        return next;
                    }
                }
                Next::Read
            }
            Reading::Refusal { body, .. } => {
                if append(body, chunk, self.limits.error_body).is_ok() {
                    return Next::Read;
                }
                let room = self.limits.error_body - body.len();
                body.extend(chunk.iter().take(room));
                // The beginning of a body that is too long is shown to a person, but not read as a message (HT8).
                self.refusal_read(key, exchange, false, now, output);
                Next::Abort
            }
            Reading::Ignored { left } => {
                // A body that is not needed is read up to a limit only (HT7).
                let Some(rest) = left.checked_sub(chunk.len()) else { return Next::Abort };
                *left = rest;
                Next::Read
            }
        }
    }

    /// The body of an HTTP error has been read: as far as it arrived, or the beginning of one that is too long.
    fn refusal_read(
        &mut self,
        key: ExchangeKey,
        exchange: &mut Exchange,
        is_whole: bool,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let reading = std::mem::replace(&mut exchange.reading, Reading::Ignored { left: 0 });
        let Reading::Refusal { refusal, body, challenge } = reading else { return };
        let refusal = self.explained(refusal, &body);
        let challenge = challenge.filter(|_| !states_loss(&refusal));
        let is_challenged = challenge.is_some_and(|head| self.is_challenged(key, exchange, &head, now, output));
        let purpose = std::mem::replace(&mut exchange.purpose, Purpose::Drain);
        if !is_challenged {
            let body = if is_whole { body } else { Vec::new() };
            self.refused(purpose, exchange.opened_in, refusal, body, now, output);
        }
    }

    /// An exchange broke off.
    fn broke(
        &mut self,
        key: ExchangeKey,
        mut exchange: Exchange,
        reason: Failed,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        if let Some(cancellation) = exchange.cancellation.take() {
            self.deliveries.add(Post::new(Role::Cancellation, cancellation), false, output.timers);
        }
        if matches!(exchange.reading, Reading::Refusal { .. }) {
            return self.refusal_read(key, &mut exchange, true, now, output);
        }
        match (exchange.purpose, exchange.reading) {
            (Purpose::Post(posted), Reading::Head) => self.undelivered(posted.message, reason, output),
            (purpose @ (Purpose::Post(_) | Purpose::Resume { .. }), Reading::Json { .. } | Reading::Ignored { .. }) => {
                if let Some(request) = purpose.request() {
                    self.unanswered(request, reason, output);
                }
            }
            (
                purpose,
                Reading::Head
                | Reading::Json { .. }
                | Reading::Events(_)
                | Reading::Refusal { .. }
                | Reading::Ignored { .. },
            ) => {
                self.stream_over(purpose, reason, now, output);
            }
        }
    }

    /// A stream ended or broke off. If it belongs to a request, it is resumed where possible.
    fn stream_over(&mut self, purpose: Purpose, reason: Failed, now: Instant, output: &mut TransportOutput<'_, Http>) {
        match purpose {
            // The answer has arrived.
            Purpose::Post(posted) if !self.deliveries.contains(posted.message) => {}
            Purpose::Post(Posted { role: Role::Request(request), .. }) => {
                self.resume(request, reason, None, now, output);
            }
            Purpose::Resume { request, .. } => self.resume(request, delivered(reason), None, now, output),
            purpose @ (Purpose::Post(_)
            | Purpose::GetStream { .. }
            | Purpose::TwoEndpointStream { .. }
            | Purpose::Delete
            | Purpose::Drain) => self.stream_failed(purpose, reason, now, output),
        }
    }

    /// A stream cannot be resumed from where it broke.
    pub(super) fn stream_failed(
        &mut self,
        purpose: Purpose,
        reason: Failed,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        match purpose {
            Purpose::Post(posted) => {
                if let Some(request) = posted.message.request() {
                    self.unanswered(request, reason, output);
                }
            }
            Purpose::Resume { request, .. } => self.unanswered(request, reason, output),
            Purpose::GetStream { .. } => self.reopen_get_stream(None, now, output),
            Purpose::TwoEndpointStream { .. } => self.two_endpoint_stream_failed(reason, now, output),
            Purpose::Delete => self.session_not_ended(reason, output),
            Purpose::Drain => {}
        }
    }

    /// Passes the answer to a request to the client.
    pub(super) fn answered(
        &mut self,
        request: RequestKey,
        mut response: Response,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let Some(removed) = self.deliveries.remove(DeliveryKey::Request(request), output.timers) else { return };
        if matches!((&response, removed.role), (Response::Error { .. }, Role::Initialize(_))) {
            self.session.refuse();
        }
        if let (Response::Result { result, .. }, true) = (&mut response, removed.lists_tools) {
            // Later calls repeat arguments in headers; tools with invalid annotations are left out (RULES 8.3).
            let (cut, faults) = self.tools.learn(result, self.limits.tool_headers);
            for fault in faults {
                output.fault(fault);
            }
            if let Some(cut) = cut {
                *result = cut;
            }
        }
        output.pass(Inbound::Message { message: Message::Response(response), during: Some(request) });
    }
}

/// The failure of a request whose stream could not be opened again. The request itself was delivered, so the failure is
/// not `Unreachable`.
fn delivered(reason: Failed) -> Failed {
    if let Failed::Unreachable { detail } = reason { Failed::Broken { detail } } else { reason }
}

fn is_stream(head: &Parts) -> bool {
    head.status.is_success() && body_kind(&head.headers) == BodyKind::EventStream && !is_encoded(&head.headers)
}

fn is_empty(head: &Parts) -> bool {
    head.headers.get(http::header::CONTENT_LENGTH).is_some_and(|length| length.as_bytes() == b"0")
}
