//! Messages of clients: what is posted, and to which session it belongs.

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
            // SE5: whatever id a client may propose, the server names its sessions.
            None if opens => match self.open_session(info, false, now) {
                Ok(session) => session,
                Err(refusal) => return self.refuse(exchange, refusal, now),
            },
            None => {
                return match frame {
                    // Rows 6 and 7
                    Err(error) => self.refuse_frame(exchange, &error, now),
                    Ok(_) => self.refuse(exchange, admission::no_session(), now),
                };
            }
        };
        let tag = info.tag(16);
        // What is told or answered has no exchange that would keep the session.
        self.transport.sessions.touch(session, now);
        let (peers, shared) = &mut self.split(now);
        let Some(peer) = peers.get_mut(&session) else {
            return self.refuse(exchange, admission::unknown_session(), now);
        };
        let http = &mut *shared.transport;
        match frame {
            // SH-S-07: what is not answered is accepted first, so that nothing overtakes the acceptance.
            Ok(Frame::Single(message @ (Message::Notification(_) | Message::Response(_)))) => {
                accept(exchange, &mut shared.wire);
                peer.on_message(message, Source::default(), shared);
            }
            Ok(Frame::Single(message @ Message::Request(_))) => {
                http.insert_exchange(exchange, Exchange::Waiting { session, head, opens, tag });
                peer.on_message(message, Source { exchange: Some(exchange), batch: None }, shared);
            }
            Ok(Frame::Batch(items)) => {
                http.insert_exchange(exchange, Exchange::Waiting { session, head, opens, tag });
                peer.on_batch(items, Source { exchange: Some(exchange), batch: None }, shared);
            }
            Err(error) => {
                http.insert_exchange(exchange, Exchange::Waiting { session, head, opens, tag });
                peer.on_invalid(error.clone(), Source { exchange: Some(exchange), batch: None }, shared);
                // A broken response is answered by nobody but the status.
                if shared.transport.close_exchange(exchange, now).is_some() {
                    self.refuse_frame(exchange, &error, now);
                }
            }
        }
        // A session that did not come about is none.
        if opens && self.peers.get(&session).is_some_and(|peer| peer.version().is_none()) {
            self.drop_session(session);
        }
    }

    /// HS-07: a message for a two-endpoint session, which answers on its stream.
    pub(super) fn on_post_message(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        frame: Result<Frame, ParseError>,
        now: Instant,
    ) {
        let (peers, shared) = &mut self.split(now);
        let Some(peer) = peers.get_mut(&session) else {
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
