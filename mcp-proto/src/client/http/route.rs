//! Decoding of events and bodies, and matching of messages to requests.

use super::Http;
use super::delivery::DeliveryKey;
use super::exchange::{Next, OpenedIn, Purpose};
use super::lost_session::is_lost_by;
use crate::Instant;
use crate::client::transport::{Inbound, TransportOutput};
use crate::collections::buffer::into_bytes;
use crate::conversation::keys::RequestKey;
use crate::error::{Failed, Fault, InvalidResponse, Quirk};
use crate::jsonrpc::{Frame, Message, Oddities, ParseError, Response, Subject};
use crate::sse::{Event, EventName, Item};

/// Which answers may come on a stream.
#[derive(Debug, Clone, Copy)]
enum Answers {
    /// The one to this request (C1).
    To(RequestKey),
    /// None (SH-S-48).
    Never,
    /// The answers to all requests, which other exchanges delivered (HS-04).
    ToAny,
}

impl Http {
    /// Handles one item of a stream of events.
    pub(super) fn item(
        &mut self,
        purpose: Purpose,
        item: Item<'_>,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) -> Next {
        let cursor = match purpose {
            Purpose::Post(_) | Purpose::Resume { .. } => {
                purpose.request().and_then(|request| self.deliveries.cursor_mut(request))
            }
            Purpose::GetStream { .. } => Some(&mut self.get_stream.cursor),
            // The stream of a two-endpoint server is not resumed (HS-10).
            Purpose::TwoEndpointStream { .. } | Purpose::Delete | Purpose::Drain => None,
        };
        let event = match item {
            Item::Comment => return Next::Read,
            Item::Retry(after) => {
                if let Some(cursor) = cursor {
                    cursor.asked_to_wait(after);
                }
                return Next::Read;
            }
            Item::Cursor(id) => {
                if let Some(cursor) = cursor {
                    cursor.moved(id);
                }
                return Next::Read;
            }
            Item::Event(event) => event,
        };
        if let Some(cursor) = cursor {
            cursor.moved(event.id.clone());
        }
        if let Purpose::TwoEndpointStream { .. } = purpose {
            match self.two_endpoint_event(&event, now, output) {
                Some(next) => return next,
                None => self.event(event, Answers::ToAny, output),
            }
        } else if let Some(request) = purpose.request() {
            self.event(event, Answers::To(request), output);
        } else {
            self.event(event, Answers::Never, output);
        }
        Next::Read
    }

    fn event(&mut self, event: Event<'_>, answers: Answers, output: &mut TransportOutput<'_, Http>) {
        // An event without data has no message (SH-C-44, EV-20).
        if event.data.is_empty() {
            return;
        }
        let is_message = event.name == EventName::MESSAGE;
        let mut oddities = Oddities::default();
        let frame = Frame::parse_noting(&event.data.into_bytes(), &self.limits, &mut oddities);
        if oddities != Oddities::default() {
            for quirk in Quirk::all_of(oddities) {
                output.quirk(quirk);
            }
        }
        match (frame, is_message) {
            (Ok(frame), true) => self.frame(frame, answers, output),
            // A valid message is accepted whatever the name of its event is (EV-19).
            (Ok(frame), false) => {
                output.quirk(Quirk::MessageInOtherEvent);
                self.frame(frame, answers, output);
            }
            (Err(error), true) => self.invalid(error, answers, output),
            (Err(_), false) => output.fault(Fault::UnknownEvent),
        }
    }

    fn frame(&mut self, frame: Frame, answers: Answers, output: &mut TransportOutput<'_, Http>) {
        match frame {
            Frame::Single(message) => self.message(message, answers, output),
            // One revision has batches (JR-34). In the others, each message in an array is handled as well.
            Frame::Batch(items) => {
                for item in items {
                    match item {
                        Ok(message) => self.message(message, answers, output),
                        Err(error) => self.invalid(error, answers, output),
                    }
                }
            }
        }
    }

    fn message(&mut self, message: Message, answers: Answers, output: &mut TransportOutput<'_, Http>) {
        let response = match message {
            Message::Response(response) => response,
            message @ (Message::Request(_) | Message::Notification(_)) => {
                output.pass(Inbound::Message { message, during: answers.request() });
                return;
            }
        };
        match (self.request_of(&response, answers), response) {
            (Some(request), Response::Error { error, .. }) => {
                self.answered(request, Response::Error { id: Some(request.to_wire()), error }, output);
            }
            (Some(request), response @ Response::Result { .. }) => self.answered(request, response, output),
            (None, Response::Error { id: None, error }) => output.fault(Fault::PeerError { code: error.code() }),
            (None, Response::Error { id: Some(id), .. } | Response::Result { id, .. }) => {
                output.pass(Inbound::StrayResponse(id));
            }
        }
    }

    /// The request that a response answers, if the answer may arrive on this stream.
    fn request_of(&self, response: &Response, answers: Answers) -> Option<RequestKey> {
        let request = match (answers, response.id()) {
            (Answers::Never, _) | (Answers::ToAny, None) => return None,
            // An error without an id belongs to the one request of this exchange (RP7).
            (Answers::To(request), None) => request,
            (Answers::To(request), Some(id)) => Some(request).filter(|request| request.to_wire() == *id)?,
            (Answers::ToAny, Some(id)) => RequestKey::from_wire(id, None)?,
        };
        self.deliveries.may_be_answered(request).then_some(request)
    }

    /// Handles a frame that is not a message. If it has the id of a request, that request fails; otherwise the stream
    /// continues and may still bring the answer (EV-21).
    fn invalid(&mut self, error: ParseError, answers: Answers, output: &mut TransportOutput<'_, Http>) {
        let about = match &error.subject {
            Subject::Response(id) | Subject::Either(id) => RequestKey::from_wire(id, None),
            Subject::Request(_) | Subject::Notification | Subject::Unknown => None,
        };
        let answered = match answers {
            Answers::To(request) => about.filter(|about| *about == request),
            Answers::ToAny => about,
            Answers::Never => None,
        };
        let reason = Failed::InvalidResponse { reason: InvalidResponse::from(&error) };
        output.pass(Inbound::Invalid(error));
        if let Some(request) = answered {
            self.unanswered(request, reason, output);
        }
    }

    /// A JSON body is complete: it must contain the answer.
    pub(super) fn json_body(
        &mut self,
        request: RequestKey,
        opened_in: OpenedIn,
        body: Vec<u8>,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        if !self.deliveries.contains_request(request) {
            return;
        }
        let mut body = into_bytes(body);
        if body.starts_with(b"\xef\xbb\xbf") {
            output.quirk(Quirk::ByteOrderMark);
            body = body.split_off(3);
        }
        if body.iter().all(u8::is_ascii_whitespace) {
            // An empty body has no answer (HT6).
            self.unanswered(request, Failed::NoAnswer { status: http::StatusCode::OK }, output);
            return;
        }
        let mut oddities = Oddities::default();
        let frame = Frame::parse_noting(&body, &self.limits, &mut oddities);
        if oddities != Oddities::default() {
            for quirk in Quirk::all_of(oddities) {
                output.quirk(quirk);
            }
        }
        let wrong_id = match frame {
            Err(error) => {
                let reason = InvalidResponse::from(&error);
                self.unanswered(request, Failed::InvalidResponse { reason }, output);
                return;
            }
            Ok(Frame::Single(Message::Response(Response::Error { id, error })))
                if opened_in.in_session
                    && id.as_ref().is_none_or(|id| *id == request.to_wire())
                    && is_lost_by(&error, id.is_some()) =>
            {
                output.quirk(Quirk::SessionLostWithOtherStatus);
                let refused = Some((DeliveryKey::Request(request), Failed::SessionLost));
                return self.lose_session(opened_in.generation, refused, now, output);
            }
            Ok(frame) => {
                let is_array = matches!(frame, Frame::Batch(_));
                let wrong_id = matches!(&frame, Frame::Single(Message::Response(_)));
                self.frame(frame, Answers::To(request), output);
                if is_array && !self.deliveries.contains_request(request) {
                    output.quirk(Quirk::ResponseInArray);
                }
                wrong_id
            }
        };
        let reason = if wrong_id { InvalidResponse::WrongId } else { InvalidResponse::NotAResponse };
        self.unanswered(request, Failed::InvalidResponse { reason }, output);
    }
}

impl Answers {
    const fn request(self) -> Option<RequestKey> {
        match self {
            Self::To(request) => Some(request),
            Self::Never | Self::ToAny => None,
        }
    }
}
