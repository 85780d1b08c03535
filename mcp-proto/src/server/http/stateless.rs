//! Stateless requests (RULES 8), and those of earlier revisions at a server that opens no sessions: each has its
//! exchange, but no session.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use crate::jsonrpc::{Frame, Message, ParseError, Response};
use crate::server::http::exchange::header_check;
use crate::server::http::exchange::refusal::{Refusal, empty, json, refused};
use crate::server::http::purpose::{Asked, Exchange, StreamOf, StreamOpening};
use crate::server::http::{ExchangeKey, Http, Output, RequestInfo};
use crate::server::transport::{Inbound, Kind, Route};
use crate::spec::header::PROTOCOL_VERSION;
use crate::spec::meta::RequestMeta;
use crate::spec::{Method, ProtocolVersion, UnreadableId, code};

impl Http {
    /// Whether a message is stateless (ER-43): if its body or its `MCP-Protocol-Version` header names a
    /// stateless revision, or if only those are served.
    pub(super) fn is_stateless(&self, frame: &Result<Frame, ParseError>, head: &Parts) -> bool {
        if !self.versions.has_stateless() {
            return false;
        }
        header_check::names_stateless(&head.headers)
            || !self.versions.has_sessions()
            || frame.as_ref().is_ok_and(is_claimed)
    }

    pub(super) fn on_stateless(
        &mut self,
        exchange: ExchangeKey,
        frame: Result<Frame, ParseError>,
        head: Box<Parts>,
        info: &RequestInfo,
        output: &mut Output<'_>,
    ) {
        let request = match frame {
            Ok(Frame::Single(Message::Request(request))) => request,
            // Notifications have no effect: a client could otherwise cancel the request of another one by its id
            // (CX-10).
            Ok(Frame::Single(Message::Notification(notification))) => {
                let response = match header_check::notification(&head.headers, &notification.method) {
                    Ok(()) => empty(StatusCode::ACCEPTED),
                    Err(error) => Refusal::error(&error).into_response(UnreadableId::Omitted),
                };
                return self.exchanges.respond(exchange, response, output);
            }
            // Clients of this revision post neither responses (row 4) nor batches (JR-37).
            Ok(Frame::Single(Message::Response(_)) | Frame::Batch(_)) => {
                let text = "a POST of this revision holds one request or notification";
                let refusal = Refusal::new(StatusCode::BAD_REQUEST, text);
                return self.exchanges.refuse(exchange, refusal, UnreadableId::Omitted, output);
            }
            Err(error) => {
                return self.exchanges.refuse(exchange, Refusal::frame(&error), UnreadableId::Omitted, output);
            }
        };
        let meta = RequestMeta::read(request.params.as_ref());
        let envelope = header_check::envelope(
            &head.headers,
            &request,
            meta.version.as_deref(),
            info.principal().cloned(),
            &self.tools,
        );
        let (asked, opening) = (Asked::Stateless, StreamOpening::default());
        self.insert_exchange(exchange, Exchange::Waiting { asked, head, opening });
        if request.method == Method::SUBSCRIPTIONS_LISTEN {
            self.exchanges.listens.insert(exchange, info.holder());
        }
        let (envelope, reply_to) = (Box::new(envelope), exchange.to_reply());
        let has_store = self.config.stored().is_some();
        let instance = if has_store { self.instance_of_task(&request, &envelope) } else { None };
        if let Some(instance) = instance {
            return self.find_instance_of_task(exchange, instance, request, envelope, output);
        }
        output.inbound.push_back(Inbound::Stateless { request, meta, envelope, reply_to });
    }

    /// Handles a message of a revision up to 2025-11-25 at a server that opens no sessions (ER-43).
    pub(super) fn on_sessionless(
        &mut self,
        exchange: ExchangeKey,
        frame: Result<Frame, ParseError>,
        head: Box<Parts>,
        info: &RequestInfo,
        output: &mut Output<'_>,
    ) {
        let unreadable_id = header_check::unreadable_id(&head.headers);
        let refuse = |text| Refusal::new(StatusCode::BAD_REQUEST, text);
        let request = match frame {
            Ok(Frame::Single(Message::Request(request))) => request,
            // Notifications could refer only to requests of other exchanges, perhaps of other clients (CX-10).
            Ok(Frame::Single(Message::Notification(_))) => {
                return self.exchanges.respond(exchange, empty(StatusCode::ACCEPTED), output);
            }
            Ok(Frame::Single(Message::Response(_))) => {
                let refusal = refuse("this server opens no sessions, and has made no request");
                return self.exchanges.refuse(exchange, refusal, unreadable_id, output);
            }
            Ok(Frame::Batch(_)) => {
                let refusal = refuse("this server opens no sessions, and takes one message at a time");
                return self.exchanges.refuse(exchange, refusal, unreadable_id, output);
            }
            Err(error) => return self.exchanges.refuse(exchange, Refusal::frame(&error), unreadable_id, output),
        };
        let version = self.version_of(&head.headers);
        let (asked, opening) = (Asked::Sessionless, StreamOpening::default());
        self.insert_exchange(exchange, Exchange::Waiting { asked, head, opening });
        let (principal, reply_to) = (info.principal().cloned(), exchange.to_reply());
        output.inbound.push_back(Inbound::Sessionless { request, version, principal, reply_to });
    }

    /// The revision that the header of a request without a session states, or else the one to assume (row 21).
    fn version_of(&self, headers: &HeaderMap) -> ProtocolVersion {
        let stated = headers.get(PROTOCOL_VERSION).and_then(|value| ProtocolVersion::from_text(value.to_str().ok()?));
        let assumed = stated.unwrap_or(ProtocolVersion::WITHOUT_HEADER);
        let newest = self.versions.newest_legacy().unwrap_or(ProtocolVersion::LATEST_LEGACY);
        if self.versions.contains(assumed) { assumed } else { newest }
    }

    /// Sends a message that relates to a stateless request: as JSON if the answer is the only message, else as
    /// events.
    pub(super) fn send_stateless(&mut self, message: &Message, text: Bytes, route: Route, output: &mut Output<'_>) {
        let Some(key) = ExchangeKey::from_reply(route.reply_to) else { return };
        let is_last = match route.kind {
            Kind::Reply | Kind::Refusal => true,
            Kind::Message => false,
        };
        match self.exchanges.get(key) {
            Some(Exchange::Waiting { asked, .. }) if is_last => {
                let status = match asked {
                    Asked::Stateless | Asked::Elsewhere { .. } => status(message, route.kind),
                    Asked::Sessionless | Asked::Opening(_) | Asked::InSession(_) => legacy_status(message, route.kind),
                };
                self.respond(key, json(status, text), output);
                return;
            }
            // Messages before the answer are not passed on to another instance.
            Some(
                Exchange::Waiting { asked: Asked::Elsewhere { .. }, .. }
                | Exchange::Receiving { .. }
                | Exchange::Storing { .. },
            )
            | None => return,
            Some(Exchange::Waiting { .. }) => {
                self.exchanges.insert(key, Exchange::Streaming(StreamOf::Stateless));
                self.exchanges.open_stream(key, output);
            }
            Some(Exchange::Streaming(_)) => {}
        }
        self.exchanges.write_event(key, &text, output);
        if is_last {
            self.finish(key, output);
        } else {
            self.exchanges.listens.set_unused(key, output.now);
            self.exchanges.keep_alive(key, output);
        }
    }
}

fn is_claimed(frame: &Frame) -> bool {
    let claims = |message: &Message| match message {
        Message::Request(request) => RequestMeta::read(request.params.as_ref()).is_claimed,
        Message::Notification(_) | Message::Response(_) => false,
    };
    match frame {
        Frame::Single(message) => claims(message),
        // One stateless request is enough to treat the whole batch as such (JR-38).
        Frame::Batch(items) => items.iter().flatten().any(claims),
    }
}

/// The status of an answer in a revision up to 2025-11-25.
fn legacy_status(message: &Message, kind: Kind) -> StatusCode {
    match kind {
        Kind::Refusal => refused(message),
        Kind::Reply | Kind::Message => StatusCode::OK,
    }
}

/// The status of an answer (rows 20 to 28). An error of the application is sent with 200, unless the specification
/// defines a status for its code (A3).
fn status(message: &Message, kind: Kind) -> StatusCode {
    let Message::Response(Response::Error { error, .. }) = message else { return StatusCode::OK };
    match (error.code(), kind) {
        (code::METHOD_NOT_FOUND, _) => StatusCode::NOT_FOUND,
        (code::HEADER_MISMATCH | code::MISSING_REQUIRED_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION, _) => {
            StatusCode::BAD_REQUEST
        }
        (_, Kind::Refusal) => refused(message),
        (_, Kind::Reply | Kind::Message) => StatusCode::OK,
    }
}
