//! Messages that clients post, and the sessions to which they belong.

use http::request::Parts;
use http::{Extensions, StatusCode};

use crate::conversation::keys::SessionKey;
use crate::jsonrpc::{Frame, Message, ParseError, Request};
use crate::server::http::exchange::header_check;
use crate::server::http::exchange::refusal::{Refusal, empty};
use crate::server::http::purpose::{Asked, Exchange, StreamOpening};
use crate::server::http::sessions::session::SessionKind;
use crate::server::http::stream::label::requests_of;
use crate::server::http::{ExchangeKey, Http, HttpStep, Output, RequestInfo};
use crate::server::transport::{Inbound, ReplyTo};
use crate::spec::Method;

impl Http {
    pub(super) fn on_post(
        &mut self,
        exchange: ExchangeKey,
        session: Option<SessionKey>,
        frame: Result<Frame, ParseError>,
        head: Box<Parts>,
        info: RequestInfo,
        output: &mut Output<'_>,
    ) {
        if self.is_stateless(&frame, &head) {
            return self.on_stateless(exchange, frame, head, &info, output);
        }
        if !self.config.has_sessions() {
            return self.on_sessionless(exchange, frame, head, &info, output);
        }
        let unreadable_id = header_check::unreadable_id(&head.headers);
        let Some(session) = session else {
            return match frame {
                // The server chooses the session id; an id that the client proposes is ignored (SE5).
                Ok(Frame::Single(Message::Request(request))) if request.method == Method::INITIALIZE => {
                    self.make_room_for_opening(exchange, request, head, info, output);
                }
                // Not JSON, or not JSON-RPC (rows 6 and 7).
                Err(error) => self.exchanges.refuse(exchange, Refusal::frame(&error), unreadable_id, output),
                Ok(_) => self.exchanges.refuse(exchange, Refusal::no_session(), unreadable_id, output),
            };
        };
        // A notification or response has no open exchange that keeps the session alive.
        self.sessions.touch(session, output.now);
        if self.sessions.get(session).is_none() {
            return self.exchanges.refuse(exchange, Refusal::unknown_session(), unreadable_id, output);
        }
        self.sessions.authenticated(session, &info);
        let stores_events = self.config.stored().is_some() && self.config.replay > 0;
        let requests = if stores_events { requests_of(&frame) } else { Box::default() };
        let opening = StreamOpening { tag: info.tag(16), requests };
        let waiting = Exchange::Waiting { asked: Asked::InSession(session), head, opening };
        let is_stored = self.sessions.is_stored(session);
        let frame = if is_stored { self.route_elsewhere(session, frame, output) } else { Some(frame) };
        let Some(frame) = frame else {
            return self.exchanges.respond(exchange, empty(StatusCode::ACCEPTED), output);
        };
        let reply_to = exchange.to_reply();
        let inbound = match frame {
            // 202 is sent before the message is handled, so that no message precedes it (SH-S-07).
            Ok(Frame::Single(message @ (Message::Notification(_) | Message::Response(_)))) => {
                self.exchanges.respond(exchange, empty(StatusCode::ACCEPTED), output);
                Inbound::Message { session, message, reply_to: ReplyTo::Stream }
            }
            Ok(Frame::Single(message @ Message::Request(_))) => {
                self.insert_exchange(exchange, waiting);
                Inbound::Message { session, message, reply_to }
            }
            Ok(Frame::Batch(items)) => {
                self.insert_exchange(exchange, waiting);
                Inbound::Batch { session, items, reply_to }
            }
            Err(error) => {
                self.insert_exchange(exchange, waiting);
                Inbound::Invalid { session, error, reply_to }
            }
        };
        output.inbound.push_back(inbound);
    }

    /// Makes room for the session that this request opens; then [`Http::open_session_with`] follows.
    fn make_room_for_opening(
        &mut self,
        exchange: ExchangeKey,
        request: Request,
        head: Box<Parts>,
        info: RequestInfo,
        output: &mut Output<'_>,
    ) {
        match self.make_room_for_session(&info.holder(), output) {
            Ok(()) => output.defer(HttpStep::OpenSession { exchange, request, head, info }),
            Err(refusal) => {
                self.exchanges.refuse(exchange, refusal, header_check::unreadable_id(&head.headers), output);
            }
        }
    }

    pub(super) fn open_session_with(
        &mut self,
        exchange: ExchangeKey,
        request: Request,
        head: Box<Parts>,
        info: &RequestInfo,
        output: &mut Output<'_>,
    ) {
        let session = match self.open_session(info, self.kind_of_new_session(info), output) {
            Ok(session) => session,
            Err(refusal) => {
                return self.exchanges.refuse(exchange, refusal, header_check::unreadable_id(&head.headers), output);
            }
        };
        let opening = StreamOpening { tag: info.tag(16), ..StreamOpening::default() };
        self.insert_exchange(exchange, Exchange::Waiting { asked: Asked::Opening(session), head, opening });
        let request = Some((request, exchange.to_reply()));
        output.inbound.push_back(Inbound::Opened { session, request });
    }

    /// Handles a message for a two-endpoint session, whose answers are sent on its stream (HS-07).
    pub(super) fn on_post_message(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        frame: Result<Frame, ParseError>,
        extensions: Extensions,
        info: &RequestInfo,
        output: &mut Output<'_>,
    ) {
        let Some(found) = self.sessions.get_mut(session) else {
            return self.exchanges.refuse(exchange, Refusal::unknown_session(), self.unreadable_id(session), output);
        };
        found.kind = SessionKind::TwoEndpoints { extensions };
        self.sessions.authenticated(session, info);
        let reply_to = ReplyTo::Stream;
        let inbound = match frame {
            Ok(Frame::Single(message)) => {
                self.exchanges.respond(exchange, empty(StatusCode::ACCEPTED), output);
                Inbound::Message { session, message, reply_to }
            }
            Ok(Frame::Batch(items)) => {
                self.exchanges.respond(exchange, empty(StatusCode::ACCEPTED), output);
                Inbound::Batch { session, items, reply_to }
            }
            Err(error) => {
                self.exchanges.refuse(exchange, Refusal::frame(&error), self.unreadable_id(session), output);
                Inbound::Invalid { session, error, reply_to }
            }
        };
        output.inbound.push_back(inbound);
        output.defer(HttpStep::ForgetExtensions { session });
    }
}
