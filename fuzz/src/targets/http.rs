//! Machines over HTTP: the input controls the peer, the network, the clock and the application.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_intermediary::relay::Rule;
use mcp_intermediary::{Relay, relay};
use mcp_proto::client::{Call, Event, ExchangeKey, Failure, Http, Outcome, SubscriptionKey};
use mcp_proto::spec::Primitive;
use mcp_proto::{
    Client, ErrorObject, Failed, Frame, Instant, Json, Limits, Message, Notification, Request, RequestKey, Response,
    Ticket,
};
use mcp_testkit::http_client::{HttpClientHarness, Machine, Opened, Reply};
use mcp_testkit::messages;
use mcp_testkit::random::Choices;
use tests::random_clients;

use super::stdio::{number, numbered};
use crate::script::Script;

/// The state of a hostile server: the open exchanges, those whose response has begun, and the answers that were sent.
#[derive(Default)]
struct Server {
    open: BTreeMap<ExchangeKey, Opened>,
    begun: BTreeSet<ExchangeKey>,
    log: AnswerLog,
}

/// Which answer belongs to which request. Both are numbered: a request in its parameters, an answer in its payload.
#[derive(Default)]
struct AnswerLog {
    /// The number of the request that was sent with an id.
    ids: BTreeMap<String, usize>,
    answers: Vec<Answer>,
    /// The bytes that were sent and are not among the answers.
    raw: Vec<u8>,
    /// The request that must have ended now, and the answer with which it must have ended.
    due: Option<(usize, usize)>,
    /// Exchanges on which the server has sent a request: the client's request may be parked, and continued on another.
    parked: BTreeSet<ExchangeKey>,
}

/// An answer that was sent.
#[derive(Debug)]
struct Answer {
    id: String,
    exchange: ExchangeKey,
    /// The request of the exchange that it was sent on; `None` for a stream that belongs to no request.
    request: Option<usize>,
    /// The same if the request opens a connection, or would open one if there was none.
    opening: Option<usize>,
    is_post: bool,
}

impl AnswerLog {
    fn opened(&mut self, opened: &Opened) {
        if let Some(number) = request_number(opened) {
            self.ids.insert(opened.id(), number);
        }
    }

    /// Records the next answer to an id, and returns its number.
    fn answer(&mut self, opened: &Opened, id: &str) -> usize {
        let (request, opening) = (request_number(opened), number_of_opening(opened));
        let is_post = opened.request.method() == "POST";
        self.answers.push(Answer { id: id.to_owned(), exchange: opened.key, request, opening, is_post });
        self.answers.len() - 1
    }

    /// Checks that a payload may reach the request with this number: as a result, or as data of an error.
    fn check(&self, payload: &Json, request: usize, is_error: bool) {
        let text = payload.to_text();
        if self.raw.windows(text.len()).any(|raw| raw == text.as_bytes()) {
            return;
        }
        let answer = number(payload).and_then(|number| self.answers.get(number));
        // Answers are routed by exchange; on a stream that belongs to no request, by id.
        let is_own = answer.is_some_and(|answer| {
            let is_id = self.ids.get(&answer.id) == Some(&request);
            let is_parked = self.parked.contains(&answer.exchange);
            // A request that waits for the connection fails with the error of the opening request.
            let is_opening = is_error && answer.is_post && answer.request.is_none();
            // In an open session, such a request is forwarded as any other.
            let is_forwarded = answer.opening == Some(request);
            is_parked || is_opening || is_forwarded || is_id && (!answer.is_post || answer.request == Some(request))
        });
        assert!(is_own, "request {request} has {text}, which is {answer:?}");
    }
}

/// The methods that open a connection. A relay answers these itself.
const OPENINGS: [&str; 2] = ["initialize", "server/discover"];

/// The number in the parameters of a request, if there is one, and the request does not open a connection.
fn request_number(opened: &Opened) -> Option<usize> {
    request_and_number(opened).filter(|(is_opening, _)| !is_opening).map(|(_, number)| number)
}

/// The same for a request that opens a connection.
fn number_of_opening(opened: &Opened) -> Option<usize> {
    request_and_number(opened).filter(|(is_opening, _)| *is_opening).map(|(_, number)| number)
}

fn request_and_number(opened: &Opened) -> Option<(bool, usize)> {
    match Frame::parse(opened.request.body(), &Limits::default()) {
        Ok(Frame::Single(Message::Request(request))) => {
            Some((OPENINGS.contains(&request.method.as_str()), number(&request.params?)?))
        }
        _ => None,
    }
}

const STATUSES: [u16; 16] = [200, 202, 204, 301, 307, 308, 400, 401, 404, 405, 409, 429, 500, 503, 200, 200];

impl Server {
    /// Adds the exchanges that the machine has opened since the last call, and removes those that it has aborted.
    fn read_actions<M: Machine>(&mut self, harness: &mut HttpClientHarness<M>) {
        while harness.has_opened() {
            let opened = harness.opened();
            self.log.opened(&opened);
            self.open.insert(opened.key, opened);
        }
        let dropped: Vec<_> = self.open.keys().copied().filter(|key| harness.is_aborted(*key)).collect();
        for key in dropped {
            self.open.remove(&key);
            self.begun.remove(&key);
        }
    }

    /// Performs one action on one of the open exchanges.
    fn act<M: Machine>(&mut self, harness: &mut HttpClientHarness<M>, script: &mut Script<'_>) -> Option<()> {
        let count = self.open.len();
        let pick = usize::from(script.byte()?);
        let what = script.byte()?;
        self.log.due = None;
        if count == 0 {
            return Some(());
        }
        let key = *self.open.keys().nth(pick % count)?;
        let opened = self.open.get(&key)?;
        let has_begun = self.begun.contains(&key);
        match what % 12 {
            // The right answer, as JSON or on a stream.
            0..=2 if !has_begun => {
                let reply = right_answer(opened, what, &mut self.log);
                self.open.remove(&key);
                harness.reply(key, &reply);
            }
            3 if !has_begun => {
                harness.begin(key, &Reply::events(": here\n\n"));
                self.begun.insert(key);
            }
            4 if !has_begun => {
                let status = STATUSES[usize::from(script.byte()? % 16)];
                let reply = Reply::status(status)
                    .content_type(["application/json", "text/event-stream", "text/html"][usize::from(what / 12 % 3)]);
                let text = script.text()?;
                self.log.raw.extend(text);
                let reply = reply.header("location", "/elsewhere").body(text);
                self.open.remove(&key);
                harness.reply(key, &reply);
            }
            // A notification of a subscription.
            3 => {
                let notice = format!(
                    r#"{{"jsonrpc":"2.0","method":"{}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}}}}}"#,
                    ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
                        [usize::from(what / 12 % 2)],
                    if opened.request.body().is_empty() { "1".to_owned() } else { opened.id() },
                );
                harness.send(key, messages::event(&notice).as_bytes());
            }
            0 if !opened.request.body().is_empty() && !opened.id().is_empty() => {
                let text = correction(opened, what / 12, &mut self.log);
                harness.send(key, messages::event(&text).as_bytes());
            }
            5 => {
                self.forget(key);
                harness.fail(key, Failure::Unreachable { detail: "x".into() });
            }
            6 => {
                self.forget(key);
                harness.fail(key, Failure::Broken { detail: "x".into() });
            }
            // A stream continues with the right answer, with one to another id, with a request, or with any bytes.
            7 if has_begun => {
                let text = messages::event(&right_result(opened, &mut self.log));
                harness.send(key, text.as_bytes());
            }
            8 if has_begun => {
                let id = (script.byte()? % 16).to_string();
                let payload = numbered(self.log.answer(opened, &id));
                harness.send(key, messages::event(&messages::result(&id, &payload.to_text())).as_bytes());
            }
            9 if has_begun => {
                let method = ["roots/list", "elicitation/create"][usize::from(what / 12 % 2)];
                self.log.parked.insert(key);
                let text = messages::event(&messages::request(&script.byte()?.to_string(), method, "{}"));
                harness.send(key, format!("id: {}\n{text}", what / 12).as_bytes());
            }
            10 if has_begun => {
                let text = script.text()?;
                self.log.raw.extend(text);
                harness.send(key, text);
            }
            11 if has_begun => {
                self.forget(key);
                harness.end(key);
            }
            _ => {}
        }
        Some(())
    }

    fn forget(&mut self, key: ExchangeKey) {
        self.open.remove(&key);
        self.begun.remove(&key);
    }
}

fn result_for(opened: &Opened) -> String {
    match opened.method().as_str() {
        "initialize" => {
            messages::initialize_result(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"][opened.body().len() % 4])
        }
        "server/discover" => messages::DISCOVERED.to_owned(),
        "tools/list" => r#"{"resultType":"complete","tools":[{"name":"x","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}},{"name":"y","inputSchema":{"x-mcp-header":""}}]}"#.to_owned(),
        "tools/call" if opened.header("mcp-method").is_empty() => r#"{"content":[]}"#.to_owned(),
        "tools/call" => [
            r#"{"resultType":"complete","content":[]}"#,
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"}},"requestState":"s"}"#,
            r#"{"resultType":"input_required","requestState":"s"}"#,
        ][opened.id().len() % 3]
            .to_owned(),
        _ => r#"{"content":[]}"#.to_owned(),
    }
}

/// An error of 2026-07-28 after which a client may correct its request and send it again.
fn correction(opened: &Opened, how: u8, log: &mut AnswerLog) -> String {
    let code = [-32020, -32021, -32022, -32601][usize::from(how % 4)];
    let id = opened.id();
    let number = log.answer(opened, &id);
    let data = format!(r#"{{"supported":["2026-07-28","2025-06-18"],"n":{number}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no","data":{data}}}}}"#)
}

/// The right result for the request of an exchange. If it ends the request, the request is due from now on.
fn right_result(opened: &Opened, log: &mut AnswerLog) -> String {
    let id = opened.id();
    let mut result = Json::parse(result_for(opened)).expect("JSON");
    if let Some(request) = request_number(opened) {
        let number = log.answer(opened, &id);
        result = result.with_member("n", &Json::parse(number.to_string()).expect("JSON"));
        let is_last = !result.to_text().contains("input_required") && !log.parked.contains(&opened.key);
        log.due = is_last.then_some((request, number));
    }
    messages::result(&id, &result.to_text())
}

fn right_answer(opened: &Opened, how: u8, log: &mut AnswerLog) -> Reply {
    if opened.request.method() != "POST" {
        return Reply::status(405);
    }
    let id = if opened.request.body().is_empty() { String::new() } else { opened.id() };
    if id.is_empty() {
        return Reply::status(202);
    }
    let text = right_result(opened, log);
    let reply = match how % 3 {
        0 => Reply::json(text),
        1 => Reply::events(messages::event(&text)),
        _ => {
            // Only 2025-03-26 has batches.
            log.due = None;
            Reply::json(format!("[{text}]"))
        }
    };
    if opened.method() == "initialize" && how >= 64 { reply.header("mcp-session-id", "s") } else { reply }
}

/// The client machine over HTTP: whatever the server, the network, the clock and the application do, every accepted
/// request ends exactly once: with its answer as soon as that has arrived, or with a true reason. The machine takes no
/// action on an exchange after it was dropped, no request outlives its timeout, and a closed machine sets no timer.
pub fn client(data: &[u8]) {
    let mut script = Script(data);
    // The highest bit of the first byte decides nothing else.
    let may_be_modern = data.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut harness = if may_be_modern {
        HttpClientHarness::detecting_client_with(|config, _| {
            config.capabilities = Json::parse(r#"{"roots":{}}"#).expect("JSON");
        })
    } else {
        HttpClientHarness::client()
    };
    let mut server = Server::default();
    let mut app = App::default();
    while client_step(&mut harness, &mut server, &mut script, &mut app).is_some() {
        app.read_events(&mut harness, &mut server.log);
    }
    app.read_events(&mut harness, &mut server.log);
    harness.pass(LONGEST);
    app.read_events(&mut harness, &mut server.log);
    assert!(app.waiting.is_empty(), "{:?} outlived every timeout", app.waiting);
    harness.machine.close(harness.now);
    app.is_closed = true;
    harness.pass(Duration::from_secs(3));
    app.read_events(&mut harness, &mut server.log);
    assert!(app.listening.is_empty(), "{:?} never ended", app.listening);
    assert!(harness.machine.is_closed());
    assert_eq!(harness.machine.poll_timeout(), None);
}

/// The default timeout of a request without progress.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than any request may take, including all repetitions.
const LONGEST: Duration = Duration::from_secs(3600);

/// The application of a client.
#[derive(Default)]
struct App {
    /// The requests, each with its number and the time at which it was made.
    asked: BTreeMap<RequestKey, (usize, Instant)>,
    waiting: BTreeSet<RequestKey>,
    cancelled: BTreeSet<RequestKey>,
    listening: BTreeSet<SubscriptionKey>,
    tickets: Vec<Ticket>,
    is_closed: bool,
}

impl App {
    fn ask(&mut self, harness: &mut HttpClientHarness<Client<Http>>, method: &str, params: &Json) {
        let number = self.asked.len();
        let params = params.with_member("n", &Json::parse(number.to_string()).expect("JSON"));
        let call = Call::new(method).params(params);
        let call = if method == "tools/call" { call.with_progress() } else { call };
        if let Ok(request) = harness.machine.request(call, harness.now) {
            assert!(self.asked.insert(request, (number, harness.now)).is_none(), "a key was used twice");
            self.waiting.insert(request);
        }
    }

    /// Checks the events of the machine.
    fn read_events(&mut self, harness: &mut HttpClientHarness<Client<Http>>, log: &mut AnswerLog) {
        let due = log.due.take();
        let due = due.filter(|(due, _)| self.waiting.iter().any(|request| self.asked[request].0 == *due));
        let mut ended = BTreeMap::new();
        for event in harness.events() {
            match event {
                Event::Responded { request, outcome } => {
                    assert!(self.waiting.remove(&request), "{request:?} ended twice");
                    let (number, since) = self.asked[&request];
                    self.judge(request, &outcome, log, harness.now - since);
                    ended.insert(number, outcome);
                }
                Event::ListeningEnded { subscription, .. } => {
                    assert!(self.listening.remove(&subscription), "{subscription:?} ended twice");
                }
                Event::Requested { ticket, .. } => self.tickets.push(ticket),
                _ => {}
            }
        }
        if let Some((request, answer)) = due {
            let outcome = ended.get(&request);
            let is_it = matches!(outcome, Some(Outcome::Result(result)) if number(result) == Some(answer));
            assert!(is_it, "request {request} was answered with {answer} and ended with {outcome:?}");
        }
    }

    fn judge(&self, request: RequestKey, outcome: &Outcome, log: &AnswerLog, waited: Duration) {
        let number = self.asked[&request].0;
        match outcome {
            Outcome::Result(result) => log.check(result, number, false),
            Outcome::Error(error) => log.check(error.data().as_ref().unwrap_or(error.as_json()), number, true),
            // A shorter timeout is that of the opening request, which may have been sent before.
            Outcome::Failed(Failed::TimedOut { after }) => {
                assert!(*after < TIMEOUT || waited >= *after, "{number} timed out after {waited:?}");
            }
            Outcome::Failed(Failed::Cancelled) => {
                assert!(self.cancelled.contains(&request), "{number} was not cancelled");
            }
            Outcome::Failed(Failed::Closed) => assert!(self.is_closed, "{number} failed because it was closed"),
            Outcome::Failed(_) => {}
        }
    }
}

fn client_step(
    harness: &mut HttpClientHarness<Client<Http>>,
    server: &mut Server,
    script: &mut Script<'_>,
    app: &mut App,
) -> Option<()> {
    server.read_actions(harness);
    let now = harness.now;
    match script.byte()? % 8 {
        0 => {
            let params = Json::parse(r#"{"name":"x","arguments":{"a":"\u00e9"}}"#).expect("JSON");
            app.ask(harness, "tools/call", &params);
        }
        1 => {
            let pick = usize::from(script.byte()?);
            if let Some(request) = app.waiting.iter().nth(pick % app.waiting.len().max(1)).copied() {
                harness.machine.cancel(request, None, now);
                app.cancelled.insert(request);
            }
        }
        2 => harness.pass(Duration::from_millis(u64::from(script.byte()?).pow(2))),
        3 => {
            // Calls that an application may make at any time.
            match script.byte()? % 10 {
                0 => drop(harness.machine.connect(now)),
                1 => drop(harness.machine.confirm(None, now)),
                2 => drop(harness.machine.notify(Notification::new("n"), now)),
                3 => harness.machine.handle_timeout(now),
                4 => {
                    if let Some(ticket) = app.tickets.pop() {
                        harness.machine.answer(ticket, Ok(Json::empty_object()), now);
                    }
                }
                5 => {
                    if let Ok(subscription) = harness.machine.listen(Json::empty_object(), now) {
                        assert!(app.listening.insert(subscription), "a key was used twice");
                    }
                }
                6 => {
                    if let Some(subscription) = app.listening.first().copied() {
                        harness.machine.unlisten(subscription, now);
                    }
                }
                7 => {
                    if let Some(ticket) = app.tickets.pop() {
                        harness.machine.answer(ticket, Err(ErrorObject::new(-1, "no")), now);
                    }
                }
                8 => app.ask(harness, "tools/list", &Json::empty_object()),
                _ => {
                    app.is_closed = true;
                    harness.machine.close(now);
                }
            }
        }
        _ => server.act(harness, script)?,
    }
    Some(())
}

/// The server machine over HTTP, for both eras at once, with many clients: every complete request is answered once or
/// cancelled by its client, no client receives the answer to another, and the machine holds nothing at the end.
pub fn server(data: &[u8]) {
    random_clients::run(Choices::Bytes(data), 2000);
}

/// The relay: whatever the server, the network and the clock do, the client receives exactly one answer to each of its
/// requests: the server's answer to this request as soon as that has arrived, or an error of the relay. Every body that
/// is sent to the server is one message. With a filter, none names what that denies.
pub fn relay(data: &[u8]) {
    let mut script = Script(data);
    let is_filtered = data.first().is_some_and(|byte| byte & 0x60 == 0x60);
    let mut harness = HttpClientHarness::relay_with(|config, _| {
        if is_filtered {
            config.filter.add(Rule::deny(Primitive::Tool, "x").expect("a pattern"));
            config.filter.add(Rule::allow(Primitive::Resource, "b:*").expect("a pattern"));
        }
    });
    let mut server = Server::default();
    let mut editor = Editor::default();
    while relay_step(&mut harness, &mut server, &mut script, &mut editor).is_some() {
        let denied = [r#""name":"x""#, r#""a:b""#];
        let is_denied = |text: &str| is_filtered && denied.iter().any(|denied| text.contains(denied));
        assert!(!server.open.values().any(|opened| is_denied(opened.body())), "a denied name reached the server");
        editor.read(&mut harness, &mut server.log);
    }
    editor.read(&mut harness, &mut server.log);
    if data.first().is_some_and(|byte| byte & 0x80 != 0) {
        harness.pass(LONGEST);
        editor.read(&mut harness, &mut server.log);
        let mut calls = editor.waiting.difference(&editor.subscriptions);
        assert!(calls.next().is_none(), "{:?} outlived every timeout", editor.waiting);
    }
    harness.machine.handle_eof(harness.now);
    harness.pass(Duration::from_secs(60));
    harness.machine.close(harness.now);
    harness.pass(Duration::from_secs(10));
    editor.read(&mut harness, &mut server.log);
    assert!(editor.waiting.is_empty(), "{:?} were never answered", editor.waiting);
    assert!(editor.is_closed);
}

fn relay_step(
    harness: &mut HttpClientHarness<Relay>,
    server: &mut Server,
    script: &mut Script<'_>,
    editor: &mut Editor,
) -> Option<()> {
    server.read_actions(harness);
    for opened in server.open.values() {
        if opened.request.method() == "POST" {
            let frame = Frame::parse(opened.request.body(), &Limits::default());
            assert!(matches!(frame, Ok(Frame::Single(_))), "{}", opened.body());
        }
    }
    match script.byte()? % 12 {
        0 => {
            let params = r#"{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"elicitation":{}}}"#;
            editor.ask(harness, "initialize", params);
        }
        1 => editor.ask(harness, "tools/call", r#"{"name":"x","_meta":{"progressToken":1}}"#),
        2 => harness.line(messages::INITIALIZED),
        3 => {
            let id = script.byte()?;
            harness.line(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            ));
            editor.cancel(i64::from(id));
        }
        4 => harness.pass(Duration::from_millis(u64::from(script.byte()?).pow(2))),
        5 => editor.ask(harness, "resources/subscribe", r#"{"uri":"a:b"}"#),
        6 => {
            let (method, members) = MODERN[usize::from(script.byte()?) % MODERN.len()];
            let state =
                editor.state.as_ref().map_or_else(|| "\"relay-1\"".to_owned(), |state| state.to_text().into_owned());
            let members = members.replace("STATE", &state);
            editor.ask(harness, method, &format!(r#"{{{members}"_meta":{MODERN_META}}}"#));
        }
        _ => server.act(harness, script)?,
    }
    Some(())
}

/// The `_meta` of a modern client.
const MODERN_META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/logLevel":"info","progressToken":1}"#;

/// The requests of a modern client: the method, and the members of its parameters.
const MODERN: [(&str, &str); 6] = [
    ("server/discover", ""),
    ("tools/list", ""),
    ("tools/call", r#""name":"x","#),
    ("tools/call", r#""name":"x","requestState":STATE,"#),
    ("tools/call", r#""name":"x","requestState":STATE,"inputResponses":{"1":{"action":"accept"}},"#),
    ("subscriptions/listen", r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]},"#),
];

/// The client of a relay.
#[derive(Default)]
struct Editor {
    /// The last `requestState` that it has received.
    state: Option<Json>,
    next: i64,
    waiting: BTreeSet<i64>,
    /// The subscriptions among the waiting requests, which stay open until the client cancels them.
    subscriptions: BTreeSet<i64>,
    /// Cancelled requests. An answer may already have been sent, and `initialize` cannot be cancelled.
    cancelled: BTreeSet<i64>,
    is_closed: bool,
}

impl Editor {
    fn ask(&mut self, harness: &mut HttpClientHarness<Relay>, method: &str, params: &str) {
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id);
        if method == "subscriptions/listen" {
            self.subscriptions.insert(id);
        }
        let params = Json::parse(params.to_owned()).expect("JSON");
        let params = params.with_member("n", &Json::parse(id.to_string()).expect("JSON"));
        harness.line(&messages::request(&id.to_string(), method, &params.to_text()));
    }

    fn cancel(&mut self, id: i64) {
        if self.waiting.remove(&id) {
            self.cancelled.insert(id);
        }
    }

    fn read(&mut self, harness: &mut HttpClientHarness<Relay>, log: &mut AnswerLog) {
        let due = log.due.take();
        let due = due.filter(|(due, _)| i64::try_from(*due).is_ok_and(|due| self.waiting.contains(&due)));
        let mut ended = BTreeMap::new();
        self.is_closed |= harness.events().iter().any(|event| matches!(event, relay::Event::Closed(_)));
        for line in harness.lines() {
            let frame = Frame::parse(&line.into(), &Limits::default()).expect("the relay writes messages");
            match frame {
                Frame::Single(Message::Response(response)) => {
                    let (id, payload, is_error) = match response {
                        Response::Result { id, result } => {
                            self.state = result.member("requestState").ok().flatten().or_else(|| self.state.take());
                            (Some(id), Some(result), false)
                        }
                        Response::Error { id, error } => (id, error.data(), true),
                    };
                    let id = id.and_then(|id| id.as_i64()).expect("the editor uses integers");
                    let waited = self.waiting.remove(&id) || self.cancelled.remove(&id);
                    assert!(waited, "{id} was answered and did not wait");
                    if let Some(payload) = payload.filter(|payload| number(payload).is_some()) {
                        let request = usize::try_from(id).expect("ids begin with 0");
                        log.check(&payload, request, is_error);
                        ended.insert(request, number(&payload));
                    }
                }
                Frame::Single(Message::Request(Request { id, .. })) => {
                    harness.line(&messages::result(&id.to_string(), "{}"));
                }
                Frame::Single(Message::Notification(_)) => {}
                Frame::Batch(_) => panic!("no client sent a batch"),
            }
        }
        if let Some((request, answer)) = due {
            let with = ended.get(&request);
            assert_eq!(with, Some(&Some(answer)), "the answer to {request}");
        }
    }
}
