//! Checks that each request has one answer, whatever a client sends. This is the core of a fuzz target for a handler.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mcp_application::IncomingRequest;
use mcp_model::{
    CallToolResult, CompleteResult, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, ModelError, Payload, ReadResourceResult,
};
use mcp_proto::server::{self, Config, ServerTransport};
use mcp_proto::{
    ErrorObject, Frame, Instant, Json, Limits, Message, Method, ParseError, ProtocolVersion, Response, Server, Subject,
    Ticket,
};
use serde_json::Value;

use crate::byte_stream::ServerStream;
use crate::http_exchange::{TestRequest, TestResponse};
use crate::http_server::HttpServerHarness;
use crate::messages::{INITIALIZED, initialize};
use crate::oracle;
use crate::pair::unix_time;

/// Longer than any request of a server may take.
const LONG: Duration = Duration::from_secs(3600);
/// The number of POSTs of one input. Further lines are not sent over HTTP.
const MAX_POSTS: usize = 32;

/// The configuration of [`assert_one_answer`]: a server that declares tools, prompts, resources with subscriptions,
/// completions and log messages, so that every request reaches the handler.
pub fn full_config() -> Config {
    let declared = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}"#;
    Config::new("mcp-testkit", env!("CARGO_PKG_VERSION")).capabilities(Json::parse(declared).expect("JSON"))
}

/// [`assert_one_answer_of`] with a server that has the configuration [`full_config`].
///
/// # Panics
///
/// See [`assert_one_answer_of`].
///
/// # Example
///
/// ```
/// use mcp_application::IncomingRequest;
/// use mcp_model::{CallToolRequest, CallToolResult, RequestMethod};
/// use mcp_proto::{ErrorObject, Json};
/// use mcp_testkit::one_answer::assert_one_answer;
///
/// fn serve(request: &IncomingRequest) -> Result<Json, ErrorObject> {
///     let called = CallToolRequest::params(request.params())?;
///     Ok(CallToolResult::text(format!("This is {}.", called.name)).into())
/// }
///
/// assert_one_answer(serve, b"any bytes");
/// assert_one_answer(serve, br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#);
/// ```
pub fn assert_one_answer(handler: impl FnMut(&IncomingRequest) -> Result<Json, ErrorObject>, bytes: &[u8]) {
    assert_one_answer_of(&full_config(), handler, bytes);
}

/// Sends bytes to servers with this configuration and handler, over stdio and over HTTP, without I/O and under a virtual
/// clock, and checks what they answer.
///
/// Over stdio, the bytes are the input of a server once as they are, and once after the handshake of 2025-11-25. Then
/// [`assert_answers`] holds for what the server writes.
///
/// Over HTTP, each of the first 32 lines is the body of a POST in a session of 2025-11-25, and of one without a session,
/// whose headers repeat what the body contains, as 2026-07-28 demands. Each POST has one complete response (unless the
/// handler requires input, or the request is `subscriptions/listen`), whose body has at most one answer to each request
/// of the line, and to no other, in the form that [`assert_answers`] demands. If a complete response has the status 200,
/// no answer is missing, with the exceptions of [`assert_answers`].
///
/// # Panics
///
/// This does not hold, the handler panics, or it returns an error with a code that may not be sent
/// ([`Rules::allows_error_code`](mcp_proto::Rules::allows_error_code)).
pub fn assert_one_answer_of(
    config: &Config,
    mut handler: impl FnMut(&IncomingRequest) -> Result<Json, ErrorObject>,
    bytes: &[u8],
) {
    for opening in [
        String::new(),
        format!("{}\n{INITIALIZED}\n", initialize("\"mcp-testkit\"", ProtocolVersion::LATEST_LEGACY.as_str())),
    ] {
        over_stdio(config, &mut handler, &[opening.as_bytes(), bytes].concat());
    }
    over_http(config, &mut handler, bytes);
}

/// Checks what a server on a byte stream has written, given everything that it has received. It need not be built on
/// `mcp-proto`, nor be written in Rust.
///
/// * The server writes lines, and each is one JSON-RPC message, or a batch.
/// * Each answer has the id of a request that was received, and there are at most as many answers with an id as requests
///   with it. Only to lines from which no id can be read, the server may answer without an id, once to each.
/// * If every line that was received is a valid message, none of them a batch or a cancellation, each request is
///   answered. At most as many requests lack an answer as the server has sent requests for input (`elicitation/create`,
///   `sampling/createMessage`, `roots/list`). A result that requires input is an answer.
/// * A result is an object. A result of a request whose method is one of `tools/list`, `tools/call`, `prompts/list`,
///   `prompts/get`, `resources/list`, `resources/templates/list`, `resources/read` and `completion/complete` has the
///   shape that the specification demands.
///
/// # Panics
///
/// This does not hold.
///
/// # Example
///
/// ```
/// use mcp_testkit::one_answer::assert_answers;
///
/// let received = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}
/// "#;
/// let sent = br#"{"jsonrpc":"2.0","id":1,"result":{}}
/// "#;
/// assert_answers(received, sent);
/// let twice = [&sent[..], sent].concat();
/// assert!(std::panic::catch_unwind(|| assert_answers(received, &twice)).is_err());
/// ```
pub fn assert_answers(received: &[u8], sent: &[u8]) {
    let received = Received::read(received);
    let mut answers = Answers::default();
    assert!(sent.is_empty() || sent.ends_with(b"\n"), "the server's last line is not complete");
    for line in sent.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        received.check(line, &mut answers);
    }
    received.check_counts(&answers);
    received.check_missing(&answers);
}

fn over_stdio(
    config: &Config,
    handler: &mut impl FnMut(&IncomingRequest) -> Result<Json, ErrorObject>,
    received: &[u8],
) {
    let mut harness = ServerStream::of(Server::new(mcp_proto::Stdio::new(), config.clone()).expect("a configuration"));
    let mut sent = Vec::new();
    // A driver reads pieces, too.
    for piece in received.chunks(4096) {
        harness.bytes(piece);
        answer(&mut harness, handler);
    }
    harness.eof();
    answer(&mut harness, handler);
    harness.pass(LONG);
    for line in harness.lines() {
        sent.extend_from_slice(line.as_bytes());
        sent.push(b'\n');
    }
    assert_answers(received, &sent);
}

fn answer(harness: &mut ServerStream, handler: &mut impl FnMut(&IncomingRequest) -> Result<Json, ErrorObject>) {
    loop {
        let mut is_settled = true;
        for event in harness.events() {
            if let server::Event::Requested { ticket, method, params } = event {
                respond(&mut harness.machine, ticket, method, params, handler, harness.now);
                is_settled = false;
            }
        }
        if is_settled {
            return;
        }
    }
}

/// Answers a request with what the handler returns; `true` if that requires input.
fn respond<T: ServerTransport>(
    server: &mut Server<T>,
    ticket: Ticket,
    method: Method,
    params: Option<Json>,
    handler: &mut impl FnMut(&IncomingRequest) -> Result<Json, ErrorObject>,
    now: Instant,
) -> bool {
    let Some(request) = IncomingRequest::new(server, &ticket, method, params, unix_time) else { return false };
    let answer = handler(&request);
    let requires_input = answer.as_ref().is_ok_and(requires_input);
    if let Err(error) = server.respond(ticket, answer, now) {
        panic!("the handler's answer to {} must not be sent: {error}", request.method());
    }
    requires_input
}

fn over_http(config: &Config, handler: &mut impl FnMut(&IncomingRequest) -> Result<Json, ErrorObject>, bytes: &[u8]) {
    let mut harness = HttpServerHarness::with(|_, own| own.clone_from(config));
    let legacy = ProtocolVersion::LATEST_LEGACY;
    let session = config.versions.contains(&legacy).then(|| harness.session(legacy.as_str()));
    harness.events();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(MAX_POSTS) {
        if let Some(session) = &session {
            post(&mut harness, handler, &TestRequest::post(line.to_vec()).in_session(session));
        }
        post(&mut harness, handler, &with_repeated_headers(line));
    }
    harness.pass(LONG);
}

/// Sends a POST, and checks its response.
fn post(
    harness: &mut HttpServerHarness,
    handler: &mut impl FnMut(&IncomingRequest) -> Result<Json, ErrorObject>,
    request: &TestRequest,
) {
    let exchange = harness.ask_in_pieces_of(4096, request);
    let mut is_open = is_listening(&request.body);
    loop {
        let requested = |event| match event {
            server::Event::Requested { ticket, method, params } => Some((ticket, method, params)),
            _ => None,
        };
        let requested: Vec<_> = harness.events().into_iter().filter_map(requested).collect();
        if requested.is_empty() {
            break;
        }
        for (ticket, method, params) in requested {
            is_open |= respond(&mut harness.server, ticket, method, params, handler, harness.now);
        }
    }
    let response = harness.take(exchange);
    check_response(&request.body, &response, is_open);
    if !response.is_over {
        harness.server.handle_disconnect(exchange, harness.now);
        harness.events();
    }
}

fn check_response(body: &[u8], response: &TestResponse, may_be_open: bool) {
    assert!(response.is_over || may_be_open, "no complete response to a POST: {}", response.code());
    let received = Received::read_body(body);
    let mut answers = Answers::default();
    if response.is_stream {
        for data in response.data() {
            received.check(data.as_bytes(), &mut answers);
        }
    } else if !response.body.is_empty() {
        received.check(&response.body, &mut answers);
    }
    received.check_counts(&answers);
    if response.is_over && response.code() == 200 {
        received.check_missing(&answers);
    }
    if response.code() == 202 {
        assert!(received.requests.is_empty(), "a request was accepted without an answer");
    }
}

/// A POST of 2026-07-28: its headers repeat the method of the body and the name in its parameters (RULES 8.2).
fn with_repeated_headers(line: &[u8]) -> TestRequest {
    let request = TestRequest::post(line.to_vec());
    let Ok(body) = serde_json::from_slice::<Value>(line) else { return request };
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let Some(method) = text(&body, "method") else { return request };
    let params = body.get("params").cloned().unwrap_or_default();
    let claims = params.get("_meta").and_then(|meta| text(meta, mcp_proto::spec::meta::PROTOCOL_VERSION));
    let Some(version) = claims else { return request };
    let named_by = Method::from(method.as_str()).facts().named_by;
    let name = named_by.and_then(|member| text(&params, member));
    let request = request.repeating_headers(&encoded(&version), &encoded(&method));
    match name {
        Some(name) => request.with("mcp-name", &encoded(&name)),
        None => request,
    }
}

/// A text as a header value, in Base64 where it is not one as it is (RULES 8.2).
fn encoded(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.trim() == text;
    if is_plain && !text.starts_with("=?base64?") {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(text))
    }
}

fn requires_input(result: &Json) -> bool {
    result.first_member("resultType").is_some_and(|kind| kind == Json::from("input_required"))
}

/// Whether a body requests a stream that stays open.
fn is_listening(body: &[u8]) -> bool {
    let Ok(Frame::Single(Message::Request(request))) = parse(body) else { return false };
    request.method == Method::SUBSCRIPTIONS_LISTEN
}

fn parse(line: &[u8]) -> Result<Frame, ParseError> {
    Frame::parse(&Bytes::copy_from_slice(line), &Limits::default())
}

/// The result of a naive reader for what a server receives.
#[derive(Debug, Default)]
struct Received {
    /// The methods of the requests, by their ids.
    requests: BTreeMap<String, Vec<Method>>,
    /// The most answers for each id, and without an id.
    answerable: BTreeMap<Option<String>, usize>,
    /// The number of lines that are too long to be read. Each may be answered with any id.
    unread: usize,
    /// Whether it has valid messages only, neither a batch nor a cancellation.
    is_plain: bool,
}

impl Received {
    fn read(stream: &[u8]) -> Self {
        let mut received = Self { is_plain: true, ..Self::default() };
        let (lines, is_unfinished) = oracle::lines(stream, Limits::default().message);
        received.is_plain &= !is_unfinished;
        for line in lines {
            if let Ok(line) = line {
                received.line(&line);
            } else {
                (received.unread, received.is_plain) = (received.unread + 1, false);
            }
        }
        received
    }

    fn read_body(body: &[u8]) -> Self {
        let mut received = Self { is_plain: true, ..Self::default() };
        received.line(body);
        // What HTTP forbids is answered without an id.
        received.may_answer(None);
        received
    }

    fn line(&mut self, line: &[u8]) {
        match parse(line) {
            Ok(Frame::Single(message)) => self.message(Ok(message)),
            Ok(Frame::Batch(items)) => {
                // In a revision without batches, the whole batch is one invalid message.
                self.may_answer(None);
                self.is_plain = false;
                for item in items {
                    self.message(item);
                }
            }
            Err(error) => self.message(Err(error)),
        }
    }

    fn message(&mut self, message: Result<Message, ParseError>) {
        self.is_plain &= message.is_ok();
        match message {
            Ok(Message::Request(request)) => {
                let id = request.id.to_string();
                self.may_answer(Some(id.clone()));
                self.requests.entry(id).or_default().push(request.method);
            }
            Ok(Message::Notification(notification)) => self.is_plain &= notification.method != Method::CANCELLED,
            Ok(Message::Response(_)) | Err(ParseError { subject: Subject::Notification, .. }) => {}
            Err(ParseError { subject: Subject::Request(id) | Subject::Either(id), .. }) => {
                self.may_answer(Some(id.to_string()));
            }
            Err(_) => self.may_answer(None),
        }
    }

    fn may_answer(&mut self, id: Option<String>) {
        *self.answerable.entry(id).or_default() += 1;
    }

    /// Checks a line that the server has sent, and counts its answers and requests for input.
    fn check(&self, line: &[u8], answers: &mut Answers) {
        let frame = parse(line).unwrap_or_else(|error| panic!("the server sent what is no message: {error}"));
        let messages = match frame {
            Frame::Single(message) => vec![Ok(message)],
            Frame::Batch(messages) => messages,
        };
        for message in messages {
            match message.expect("a batch of messages") {
                Message::Request(request) => {
                    answers.input_requests += usize::from(request.method.facts().client_capability.is_some());
                }
                Message::Notification(_) => {}
                Message::Response(Response::Result { id, result }) => {
                    let id = id.to_string();
                    self.check_result(&id, &result);
                    answers.add(Some(id));
                }
                Message::Response(Response::Error { id, .. }) => answers.add(id.map(|id| id.to_string())),
            }
        }
    }

    fn check_result(&self, id: &str, result: &Json) {
        assert!(result.is_object(), "the result of the request {id} is no object");
        let Some([method, others @ ..]) = self.requests.get(id).map(Vec::as_slice) else { return };
        // Among requests with the same id, the one that is answered is not known.
        if others.iter().any(|other| other != method) || requires_input(result) {
            return;
        }
        if let Err(error) = shape(method, result) {
            panic!("the result of {method} does not have the shape that the specification demands: {error}");
        }
    }

    fn check_counts(&self, answers: &Answers) {
        let mut unread = self.unread;
        for (id, count) in &answers.counts {
            let most = self.answerable.get(id).copied().unwrap_or_default();
            let excess = count.saturating_sub(most);
            let name = id.as_deref().unwrap_or("none");
            assert!(excess <= unread, "{count} answers to the id {name}, and at most {most} were expected");
            unread -= excess;
        }
    }

    /// Checks that no answer is missing, if what was received states how many there must be.
    fn check_missing(&self, answers: &Answers) {
        if !self.is_plain {
            return;
        }
        let mut may_lack = answers.input_requests;
        for (id, requests) in &self.requests {
            let count = answers.counts.get(&Some(id.clone())).copied().unwrap_or_default();
            let lacking = requests.len().saturating_sub(count);
            assert!(lacking <= may_lack, "{count} answers to the id {id}, whose requests are {requests:?}");
            may_lack -= lacking;
        }
    }
}

/// What a server has sent.
#[derive(Debug, Default)]
struct Answers {
    /// The number of answers to each id, and without an id.
    counts: BTreeMap<Option<String>, usize>,
    /// The number of requests that ask the client for input, each of which may delay an answer.
    input_requests: usize,
}

impl Answers {
    fn add(&mut self, id: Option<String>) {
        *self.counts.entry(id).or_default() += 1;
    }
}

/// Reads a result as the type of its method.
fn shape(method: &Method, result: &Json) -> Result<(), ModelError> {
    fn is<P: Payload>(result: &Json) -> Result<(), ModelError> {
        P::from_json(result).map(drop)
    }
    type Shape = fn(&Json) -> Result<(), ModelError>;
    let shapes: [(Method, Shape); 8] = [
        (Method::TOOLS_LIST, is::<ListToolsResult>),
        (Method::TOOLS_CALL, is::<CallToolResult>),
        (Method::PROMPTS_LIST, is::<ListPromptsResult>),
        (Method::PROMPTS_GET, is::<GetPromptResult>),
        (Method::RESOURCES_LIST, is::<ListResourcesResult>),
        (Method::RESOURCES_TEMPLATES_LIST, is::<ListResourceTemplatesResult>),
        (Method::RESOURCES_READ, is::<ReadResourceResult>),
        (Method::COMPLETION_COMPLETE, is::<CompleteResult>),
    ];
    shapes.iter().find(|(name, _)| name == method).map_or(Ok(()), |(_, is)| is(result))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn a_complete_response_with_the_status_200_has_all_answers() {
        let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let batch = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let respond = |code: u16, is_stream: bool, body: &str| TestResponse {
            status: StatusCode::from_u16(code).ok(),
            body: body.into(),
            is_over: true,
            is_stream,
            ..TestResponse::default()
        };
        let is_accepted = |body: &[u8], response: &TestResponse| {
            std::panic::catch_unwind(|| check_response(body, response, true)).is_ok()
        };
        let event = format!("data: {answer}\n\n");
        let asks = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\n";
        let cases: [(&[u8], TestResponse, bool); 8] = [
            (ping, respond(200, false, answer), true),
            (ping, respond(200, false, ""), false),
            (ping, respond(200, true, &event), true),
            (ping, respond(200, true, ""), false),
            (ping, respond(200, true, asks), true),
            (ping, TestResponse { is_over: false, ..respond(200, true, "") }, true),
            (ping, respond(400, false, ""), true),
            (batch, respond(200, false, ""), true),
        ];
        for (body, response, expected) in cases {
            assert_eq!(is_accepted(body, &response), expected, "{response:?}");
        }
    }
}
