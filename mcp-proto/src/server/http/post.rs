//! Messages that clients post, and the sessions to which they belong.

use http::StatusCode;
use http::request::Parts;

use super::exchange::Exchange;
use super::refusal::{Refusal, empty};
use super::{ExchangeKey, Http, HttpAction, RequestInfo, admission};
use crate::Instant;
use crate::codec::jsonrpc::{Frame, Message, ParseError};
use crate::conversation::pending::SessionKey;
use crate::server::Server;
use crate::server::carrier::Wire;
use crate::server::peer::Source;
use crate::spec::Method;

impl Server<Http> {
    pub(super) fn on_post(
        &mut self,
        exchange: ExchangeKey,
        session: Option<SessionKey>,
        frame: Result<Frame, ParseError>,
        head: Box<Parts>,
        info: &RequestInfo,
        now: Instant,
    ) {
        if self.is_stateless(&frame, &head) {
            return self.on_stateless(exchange, frame, head, info, now);
        }
        let opens = matches!(
            &frame,
            Ok(Frame::Single(Message::Request(request))) if request.method == Method::INITIALIZE
        );
        let session = match session {
            Some(session) => session,
            // The server chooses the session id; an id that the client proposes is ignored (SE5).
            None if opens => match self.open_session(info, false, now) {
                Ok(session) => session,
                Err(refusal) => return self.refuse(exchange, refusal, now),
            },
            None => {
                return match frame {
                    // Not JSON, or not JSON-RPC (rows 6 and 7).
                    Err(error) => self.refuse_frame(exchange, &error, now),
                    Ok(_) => self.refuse(exchange, admission::no_session(), now),
                };
            }
        };
        let tag = info.tag(16);
        // A notification or response has no open exchange that keeps the session alive.
        self.transport.sessions.touch(session, now);
        let (peers, shared) = &mut self.split(now);
        let Some(peer) = peers.get_mut(&Some(session)) else {
            return self.refuse(exchange, admission::unknown_session(), now);
        };
        let http = &mut *shared.transport;
        match frame {
            // 202 is sent before the message is handled, so that no message precedes it (SH-S-07).
            Ok(Frame::Single(message @ (Message::Notification(_) | Message::Response(_)))) => {
                accept(exchange, &mut shared.wire);
                peer.on_message(message, Source::default(), shared);
            }
            Ok(Frame::Single(message @ Message::Request(_))) => {
                http.insert_exchange(exchange, Exchange::Waiting { session: Some(session), head, opens, tag });
                peer.on_message(message, Source { exchange: Some(exchange), batch: None }, shared);
            }
            Ok(Frame::Batch(items)) => {
                http.insert_exchange(exchange, Exchange::Waiting { session: Some(session), head, opens, tag });
                peer.on_batch(items, Source { exchange: Some(exchange), batch: None }, shared);
            }
            Err(error) => {
                http.insert_exchange(exchange, Exchange::Waiting { session: Some(session), head, opens, tag });
                peer.on_invalid(error.clone(), Source { exchange: Some(exchange), batch: None }, shared);
                // The peer does not answer an invalid response, so that the HTTP status must.
                if shared.transport.close_exchange(exchange, now).is_some() {
                    self.refuse_frame(exchange, &error, now);
                }
            }
        }
        // If `initialize` was refused, there is no session.
        if opens && self.peers.get(&Some(session)).is_some_and(|peer| peer.version().is_none()) {
            self.drop_session(session);
        }
    }

    /// Handles a message for a two-endpoint session, whose answers are sent on its stream (HS-07).
    pub(super) fn on_post_message(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        frame: Result<Frame, ParseError>,
        now: Instant,
    ) {
        let (peers, shared) = &mut self.split(now);
        let Some(peer) = peers.get_mut(&Some(session)) else {
            return self.refuse(exchange, admission::unknown_session(), now);
        };
        match frame {
            Ok(Frame::Single(message)) => {
                accept(exchange, &mut shared.wire);
                peer.on_message(message, Source::default(), shared);
            }
            Ok(Frame::Batch(items)) => {
                accept(exchange, &mut shared.wire);
                peer.on_batch(items, Source::default(), shared);
            }
            Err(error) => {
                shared.transport.act_response(exchange, Refusal::frame(&error).into_response(), &mut shared.wire);
                peer.on_invalid(error, Source::default(), shared);
            }
        }
    }

    fn refuse_frame(&mut self, exchange: ExchangeKey, error: &ParseError, now: Instant) {
        self.refuse(exchange, Refusal::frame(error), now);
    }
}

fn accept(exchange: ExchangeKey, wire: &mut Wire<'_, HttpAction>) {
    wire.out.act(HttpAction::Respond { exchange, response: empty(StatusCode::ACCEPTED) });
}
