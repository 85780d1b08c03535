//! Machines on byte streams, whose peer sends arbitrary bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::client::{Call, Event, Outcome};
use mcp_proto::{
    ErrorObject, Failed, Frame, Json, Limits, Message, ParseError, RequestId, RequestKey, Response, Subject, server,
};
use mcp_testkit::byte_stream::{ClientStream, ServerStream};
use mcp_testkit::chunks::cut;
use mcp_testkit::oracle;

use crate::script::Script;

/// The server machine on a byte stream, for both eras at once: every line that it writes is a message; each request
/// that could be read is answered exactly once, unless it was cancelled; and each answer of the application goes to its
/// request.
///
/// The first byte chooses how the stream begins, the second how it is cut.
pub fn server_stdio(data: &[u8]) {
    let [how, piece, stream @ ..] = data else { return };
    let mut harness = if how % 2 == 0 { ServerStream::server() } else { ServerStream::ready("2025-03-26") };
    // The requests that the application received, by the number in its answer.
    let mut served = Vec::new();
    for bytes in cut(stream, &[usize::from(*piece) + 1]) {
        harness.bytes(bytes);
        for event in harness.events() {
            let server::Event::Requested { ticket, method, params } = event else { continue };
            let number = numbered(served.len());
            let answer = if served.len() % 3 == 2 { Err(ErrorObject::with_data(7, "no", &number)) } else { Ok(number) };
            served.push((method, params));
            harness.machine.respond(ticket, answer, harness.now).expect("a code that may be used");
        }
        harness.drain();
    }
    let was_closed = harness.machine.is_closed();
    harness.eof();
    // If a session was opened before, the input is not the beginning of the stream.
    let earlier: &[u8] = if how % 2 == 0 { b"" } else { b"\n" };
    let arrived = Arrived::read(&[earlier, stream].concat());
    let mut answers: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for line in harness.lines() {
        let frame = Frame::parse(&line.into(), &Limits::default()).expect("it writes messages");
        for message in messages(frame) {
            let Ok(Message::Response(response)) = message else { continue };
            let (id, payload) = match response {
                Response::Result { id, result } => (Some(id), Some(result)),
                Response::Error { id, error } => (id, error.data()),
            };
            let id = id.as_ref().map(RequestId::to_string);
            if let Some(number) = payload.as_ref().and_then(number) {
                let given = served.get(number).expect("an answer of the application");
                let asked = |(at, method, params): &(String, _, _)| {
                    Some(at) == id.as_ref() && (method, params) == (&given.0, &given.1)
                };
                assert!(arrived.requests.iter().any(asked), "the answer to {given:?} went to {id:?}");
            }
            *answers.entry(id).or_default() += 1;
        }
    }
    for (id, count) in &answers {
        let most = arrived.answerable.get(id).copied().unwrap_or_default();
        assert!(*count <= most, "{id:?} was answered {count} times, and may be {most} times");
    }
    if arrived.is_plain && !was_closed {
        for (id, _, _) in &arrived.requests {
            let id = Some(id.clone());
            assert_eq!(answers.get(&id), arrived.answerable.get(&id), "answers to {id:?}");
        }
    }
}

/// A payload that contains a number.
pub(crate) fn numbered(number: usize) -> Json {
    Json::parse(format!(r#"{{"n":{number}}}"#)).expect("JSON")
}

/// The number that a payload contains.
pub(crate) fn number(payload: &Json) -> Option<usize> {
    payload.member("n").ok().flatten()?.to_text().parse().ok()
}

fn messages(frame: Frame) -> Vec<Result<Message, ParseError>> {
    match frame {
        Frame::Single(message) => vec![Ok(message)],
        Frame::Batch(items) => items,
    }
}

/// The result of a naive reader for a stream that a server receives.
struct Arrived {
    /// Requests, each with its id, method and parameters.
    requests: Vec<(String, mcp_proto::Method, Option<Json>)>,
    /// The most answers for each id, and without an id.
    answerable: BTreeMap<Option<String>, usize>,
    /// Whether the stream has neither a batch nor a cancellation.
    is_plain: bool,
}

impl Arrived {
    fn read(stream: &[u8]) -> Self {
        let mut arrived = Self { requests: Vec::new(), answerable: BTreeMap::new(), is_plain: true };
        let (lines, _) = oracle::lines(stream, Limits::default().message);
        for line in lines.iter().flatten() {
            match Frame::parse(&Bytes::copy_from_slice(line), &Limits::default()) {
                Ok(Frame::Single(message)) => arrived.message(Ok(message)),
                Ok(Frame::Batch(items)) => {
                    // In a revision without batches, the whole batch is one invalid frame.
                    arrived.may_answer(None);
                    arrived.is_plain = false;
                    for item in items {
                        arrived.message(item);
                    }
                }
                Err(error) => arrived.message(Err(error)),
            }
        }
        arrived
    }

    fn message(&mut self, message: Result<Message, ParseError>) {
        match message {
            Ok(Message::Request(request)) => {
                let id = request.id.to_string();
                self.may_answer(Some(id.clone()));
                self.requests.push((id, request.method, request.params));
            }
            Ok(Message::Notification(notification)) => {
                self.is_plain &= notification.method.as_str() != "notifications/cancelled";
            }
            Err(ParseError { subject: Subject::Request(id) | Subject::Either(id), .. }) => {
                self.may_answer(Some(id.to_string()));
            }
            Err(ParseError { subject: Subject::Unknown, .. }) => self.may_answer(None),
            Ok(Message::Response(_))
            | Err(ParseError { subject: Subject::Response(_) | Subject::Notification, .. }) => {}
        }
    }

    fn may_answer(&mut self, id: Option<String>) {
        *self.answerable.entry(id).or_default() += 1;
    }
}

/// The methods that the client of [`client_stdio`] requests.
const METHODS: [&str; 4] = ["tools/call", "tools/list", "prompts/get", "resources/read"];

/// The methods of the requests that open a connection.
const OPENING: [&str; 2] = ["server/discover", "initialize"];

/// The client machine on a byte stream: whatever the server sends, each request ends once. Its answer is one that the
/// server sent to the id of this request; in a session of 2025-11-25, it is the first of these, and a request without
/// one ends with the right failure.
///
/// The first byte chooses the era of the server, and whether time passes before the stream ends; the second how the
/// stream is cut.
pub fn client_stdio(data: &[u8]) {
    let [how, piece, stream @ ..] = data else { return };
    let capable = |config: &mut mcp_proto::client::Config| {
        config.capabilities = Json::parse(r#"{"roots":{},"elicitation":{}}"#).expect("JSON");
    };
    let harness = match how % 3 {
        0 => ClientStream::connected_with(capable),
        1 => ClientStream::modern_with(capable),
        _ => ClientStream::detecting_with(capable),
    };
    let mut app = App::begin(harness);
    let mut script = Script(&data[..2]);
    for bytes in cut(stream, &[usize::from(*piece) + 1]) {
        app.harness.bytes(bytes);
        app.read_events(&mut script);
    }
    let was_closed = app.harness.machine.is_closed();
    let waits = how & 0x40 != 0;
    if waits {
        // This is longer than any request may take.
        app.harness.pass(Duration::from_secs(700));
        app.read_events(&mut script);
        assert!(app.waiting.is_empty(), "{:?} outlived every timeout", app.waiting);
    }
    app.harness.eof();
    app.harness.pass(Duration::from_secs(1));
    app.harness.eof();
    app.read_events(&mut script);
    if app.harness.machine.is_closed() {
        assert!(app.waiting.is_empty() && app.listening.is_empty(), "{:?} {:?}", app.waiting, app.listening);
    }
    // The server has answered `initialize` before, so the input is not the beginning of the stream.
    app.compare(&[b"\n", stream].concat(), how % 3 == 0 && !was_closed, waits);
}

/// The application of a client, and the outcomes that it received.
struct App {
    harness: ClientStream,
    asked: Vec<RequestKey>,
    waiting: BTreeSet<RequestKey>,
    listening: BTreeSet<mcp_proto::client::SubscriptionKey>,
    outcomes: BTreeMap<RequestKey, Outcome>,
    /// The ids under which each request was written, by method.
    ids: BTreeMap<String, BTreeSet<String>>,
}

impl App {
    fn begin(mut harness: ClientStream) -> Self {
        let mut request = |method: &&str| {
            harness.machine.request(Call::new(*method).with_progress(), harness.now).expect("a request")
        };
        let asked: Vec<_> = METHODS.iter().map(&mut request).collect();
        // Revisions without subscriptions refuse this, which is fine.
        let listening = harness.machine.listen(Json::empty_object(), harness.now).into_iter().collect();
        let waiting = asked.iter().copied().collect();
        let mut app = Self { harness, asked, waiting, listening, outcomes: BTreeMap::new(), ids: BTreeMap::new() };
        app.read();
        app
    }

    fn read_events(&mut self, script: &mut Script<'_>) {
        for event in self.harness.events() {
            match event {
                Event::Requested { ticket, .. } => {
                    let answer = match script.byte() {
                        Some(byte) if byte % 2 == 0 => Err(ErrorObject::new(-1, "no")),
                        _ => Ok(Json::empty_object()),
                    };
                    self.harness.machine.answer(ticket, answer, self.harness.now);
                }
                Event::Responded { request, outcome } => {
                    assert!(self.waiting.remove(&request), "{request:?} ended twice");
                    self.outcomes.insert(request, outcome);
                }
                Event::ListeningEnded { subscription, .. } => {
                    assert!(self.listening.remove(&subscription), "{subscription:?} ended twice");
                }
                _ => {}
            }
        }
        self.read();
    }

    /// Reads the messages that the client has written.
    fn read(&mut self) {
        for line in self.harness.lines() {
            let frame = Frame::parse(&line.into(), &Limits::default());
            let Ok(Frame::Single(message)) = frame else { panic!("it writes messages: {frame:?}") };
            if let Message::Request(request) = message {
                self.ids.entry(request.method.as_str().to_owned()).or_default().insert(request.id.to_string());
            }
        }
    }

    /// Compares the outcomes with those that a naive reader of the stream expects; exactly if `is_exact`.
    fn compare(&self, stream: &[u8], is_exact: bool, waits: bool) {
        let (lines, _) = oracle::lines(stream, Limits::default().message);
        let frames: Vec<_> = lines
            .iter()
            .flatten()
            .map(|line| Frame::parse(&Bytes::copy_from_slice(line), &Limits::default()))
            .collect();
        let is_exact = is_exact && !frames.iter().any(|frame| matches!(frame, Ok(Frame::Batch(_))));
        let none = BTreeSet::new();
        for (method, request) in METHODS.iter().zip(&self.asked) {
            let ids = self.ids.get(*method).unwrap_or(&none);
            let is_own = |id: &RequestId| ids.contains(&id.to_string());
            let mut sent =
                frames.iter().cloned().flat_map(|frame| frame.map_or_else(|error| vec![Err(error)], messages));
            let expected = sent.clone().find_map(|message| answer(message, is_own));
            match (self.outcomes.get(request), expected) {
                (outcome, expected) if is_exact => match expected {
                    Some(Outcome::Failed(_)) => {
                        assert!(
                            matches!(outcome, Some(Outcome::Failed(Failed::InvalidResponse { .. }))),
                            "{method}: {outcome:?}"
                        );
                    }
                    Some(expected) => assert_eq!(outcome, Some(&expected), "{method}"),
                    None if waits => assert!(
                        matches!(outcome, Some(Outcome::Failed(Failed::TimedOut { .. }))),
                        "{method}: {outcome:?}"
                    ),
                    None => assert_eq!(outcome, Some(&Outcome::Failed(Failed::Closed)), "{method}"),
                },
                (Some(outcome @ (Outcome::Result(_) | Outcome::Error(_))), _) => {
                    // A request that was never written ends with the error that refused the connection.
                    let refused = |id: &RequestId| {
                        let id = id.to_string();
                        let is_opening = |ids: &BTreeSet<String>| ids.contains(&id);
                        ids.is_empty()
                            && matches!(outcome, Outcome::Error(_))
                            && OPENING.iter().filter_map(|method| self.ids.get(*method)).any(is_opening)
                    };
                    let may_answer = |id: &RequestId| is_own(id) || refused(id);
                    let is_sent = sent.any(|message| answer(message, may_answer).as_ref() == Some(outcome));
                    assert!(is_sent, "{method}: the server never sent {outcome:?}");
                }
                (Some(Outcome::Failed(_)) | None, _) => {}
            }
        }
    }
}

/// The outcome that a message of the server means, if it answers one of these ids.
fn answer(message: Result<Message, ParseError>, is_own: impl Fn(&RequestId) -> bool) -> Option<Outcome> {
    match message {
        Ok(Message::Response(Response::Result { id, result })) if is_own(&id) => Some(Outcome::Result(result)),
        Ok(Message::Response(Response::Error { id: Some(id), error })) if is_own(&id) => Some(Outcome::Error(error)),
        // A message with a request's id that is neither a valid request nor a valid response fails that request (RP5).
        Err(ParseError { subject: Subject::Response(id) | Subject::Either(id), .. }) if is_own(&id) => {
            Some(Outcome::Failed(Failed::Closed))
        }
        _ => None,
    }
}
