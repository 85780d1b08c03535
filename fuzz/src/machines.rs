//! Machines in a hostile world: the input decides what the server, the network, the clock and the application do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::client::{Call, Event, ExchangeKey, Failure, Http, SubscriptionKey};
use mcp_proto::{
    Client, ErrorObject, Frame, Json, Limits, Message, Notification, Relay, Request, RequestKey, Response, Ticket,
    relay,
};
use tests::world::{self, Machine, Opened, Reply, World};

use crate::script::Script;

/// What a hostile server knows: the exchanges that are open, and how far it has answered them.
#[derive(Default)]
struct Server {
    open: BTreeMap<ExchangeKey, Opened>,
    begun: BTreeSet<ExchangeKey>,
}

const STATUSES: [u16; 16] = [200, 202, 204, 301, 307, 308, 400, 401, 404, 405, 409, 429, 500, 503, 200, 200];

impl Server {
    /// Takes over what the machine has opened since, and forgets what it has dropped.
    fn look<M: Machine>(&mut self, world: &mut World<M>) {
        while world.has_opened() {
            let opened = world.opened();
            self.open.insert(opened.key, opened);
        }
        let dropped: Vec<_> = self.open.keys().copied().filter(|key| world.is_aborted(*key)).collect();
        for key in dropped {
            self.open.remove(&key);
            self.begun.remove(&key);
        }
    }

    /// Does one thing to one of the open exchanges.
    fn act<M: Machine>(&mut self, world: &mut World<M>, script: &mut Script<'_>) -> Option<()> {
        let count = self.open.len();
        let pick = usize::from(script.byte()?);
        let what = script.byte()?;
        if count == 0 {
            return Some(());
        }
        let key = *self.open.keys().nth(pick % count)?;
        let opened = self.open.get(&key)?;
        let has_begun = self.begun.contains(&key);
        match what % 12 {
            // The right answer, as JSON or on a stream.
            0..=2 if !has_begun => {
                let reply = right_answer(opened, what);
                self.open.remove(&key);
                world.reply(key, &reply);
            }
            3 if !has_begun => {
                world.begin(key, &Reply::events(": here\n\n"));
                self.begun.insert(key);
            }
            4 if !has_begun => {
                let status = STATUSES[usize::from(script.byte()? % 16)];
                let reply = Reply::status(status)
                    .content_type(["application/json", "text/event-stream", "text/html"][usize::from(what / 12 % 3)]);
                let reply = reply.header("location", "/elsewhere").body(script.text()?);
                self.open.remove(&key);
                world.reply(key, &reply);
            }
            // A subscription is open.
            3 => {
                let notice = format!(
                    r#"{{"jsonrpc":"2.0","method":"{}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}}}}}"#,
                    ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
                        [usize::from(what / 12 % 2)],
                    if opened.request.body().is_empty() { "1".to_owned() } else { opened.id() },
                );
                world.send(key, world::event(&notice).as_bytes());
            }
            0 if !opened.request.body().is_empty() && !opened.id().is_empty() => {
                let text = correction(opened, what / 12);
                world.send(key, world::event(&text).as_bytes());
            }
            5 => {
                self.forget(key);
                world.fail(key, Failure::Unreachable { detail: "x".into() });
            }
            6 => {
                self.forget(key);
                world.fail(key, Failure::Broken { detail: "x".into() });
            }
            // More of a stream: the right answer, somebody else's, or anything.
            7 if has_begun => {
                let text = world::event(&world::result(&opened.id(), &result_for(opened)));
                world.send(key, text.as_bytes());
            }
            8 if has_begun => {
                let id = script.byte()? % 16;
                world.send(key, world::event(&world::result(&id.to_string(), "{}")).as_bytes());
            }
            9 if has_begun => {
                let method = ["roots/list", "elicitation/create"][usize::from(what / 12 % 2)];
                let text = world::event(&world::request(&script.byte()?.to_string(), method, "{}"));
                world.send(key, format!("id: {}\n{text}", what / 12).as_bytes());
            }
            10 if has_begun => world.send(key, script.text()?),
            11 if has_begun => {
                self.forget(key);
                world.end(key);
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
            world::initialize_result(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"][opened.body().len() % 4])
        }
        "server/discover" => world::DISCOVERED.to_owned(),
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

/// An error with which a server of 2026-07-28 wants something done before the request is made again.
fn correction(opened: &Opened, how: u8) -> String {
    let code = [-32020, -32021, -32022, -32601][usize::from(how % 4)];
    let data = r#"{"supported":["2026-07-28","2025-06-18"]}"#;
    format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"no","data":{data}}}}}"#, opened.id())
}

fn right_answer(opened: &Opened, how: u8) -> Reply {
    if opened.request.method() != "POST" {
        return Reply::status(405);
    }
    let id = if opened.request.body().is_empty() { String::new() } else { opened.id() };
    if id.is_empty() {
        return Reply::status(202);
    }
    let text = world::result(&id, &result_for(opened));
    let reply = match how % 3 {
        0 => Reply::json(text),
        1 => Reply::events(world::event(&text)),
        _ => Reply::json(format!("[{text}]")),
    };
    if opened.method() == "initialize" && how >= 64 { reply.header("mcp-session-id", "s") } else { reply }
}

/// The client machine over HTTP: every accepted request ends exactly once, whatever server, network, clock and
/// application do; nothing is done to an exchange after it was dropped; the machine falls silent.
pub fn client(data: &[u8]) {
    let mut script = Script(data);
    // One bit of the first byte that nothing else depends on.
    let may_be_modern = data.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut world = if may_be_modern {
        World::detecting_client_with(|config, _| config.capabilities = Json::parse(r#"{"roots":{}}"#).expect("JSON"))
    } else {
        World::client()
    };
    let mut server = Server::default();
    let mut app = App::default();
    while client_step(&mut world, &mut server, &mut script, &mut app).is_some() {
        client_events(&mut world, &mut app);
    }
    world.machine.close(world.now);
    world.pass(Duration::from_secs(3));
    client_events(&mut world, &mut app);
    assert!(app.waiting.is_empty(), "{:?} never ended", app.waiting);
    assert!(app.listening.is_empty(), "{:?} never ended", app.listening);
    assert!(world.machine.is_closed());
    assert_eq!(world.machine.poll_timeout(), None);
}

/// The application of a client.
#[derive(Default)]
struct App {
    waiting: BTreeSet<RequestKey>,
    listening: BTreeSet<SubscriptionKey>,
    tickets: Vec<Ticket>,
}

fn client_step(
    world: &mut World<Client<Http>>,
    server: &mut Server,
    script: &mut Script<'_>,
    app: &mut App,
) -> Option<()> {
    server.look(world);
    let now = world.now;
    match script.byte()? % 8 {
        0 => {
            let params = Json::parse(r#"{"name":"x","arguments":{"a":"\u00e9"}}"#).expect("JSON");
            if let Ok(request) = world.machine.request(Call::new("tools/call").params(params).with_progress(), now) {
                assert!(app.waiting.insert(request), "a key was used twice");
            }
        }
        1 => {
            let pick = usize::from(script.byte()?);
            if let Some(request) = app.waiting.iter().nth(pick % app.waiting.len().max(1)).copied() {
                world.machine.cancel(request, None, now);
            }
        }
        2 => world.pass(Duration::from_millis(u64::from(script.byte()?).pow(2))),
        3 => {
            // What the application may do at any time, and must not harm.
            match script.byte()? % 10 {
                0 => drop(world.machine.connect(now)),
                1 => drop(world.machine.confirm(None, now)),
                2 => drop(world.machine.notify(Notification::new("n"), now)),
                3 => world.machine.handle_timeout(now),
                4 => {
                    if let Some(ticket) = app.tickets.pop() {
                        world.machine.answer(ticket, Ok(Json::empty_object()), now);
                    }
                }
                5 => {
                    if let Ok(subscription) = world.machine.listen(Json::empty_object(), now) {
                        assert!(app.listening.insert(subscription), "a key was used twice");
                    }
                }
                6 => {
                    if let Some(subscription) = app.listening.first().copied() {
                        world.machine.unlisten(subscription, now);
                    }
                }
                7 => {
                    if let Some(ticket) = app.tickets.pop() {
                        world.machine.answer(ticket, Err(ErrorObject::new(-1, "no")), now);
                    }
                }
                8 => {
                    if let Ok(request) = world.machine.request(Call::new("tools/list"), now) {
                        assert!(app.waiting.insert(request), "a key was used twice");
                    }
                }
                _ => world.machine.close(now),
            }
        }
        _ => server.act(world, script)?,
    }
    Some(())
}

fn client_events(world: &mut World<Client<Http>>, app: &mut App) {
    for event in world.events() {
        match event {
            Event::Responded { request, .. } => assert!(app.waiting.remove(&request), "{request:?} ended twice"),
            Event::ListeningEnded { subscription, .. } => {
                assert!(app.listening.remove(&subscription), "{subscription:?} ended twice");
            }
            Event::Requested { ticket, .. } => app.tickets.push(ticket),
            _ => {}
        }
    }
}

/// The relay: the client gets exactly one answer for each of its requests, whatever the server, the network and the
/// clock do, and none that it did not ask for; what goes to the server is always a message.
pub fn relay(data: &[u8]) {
    let mut script = Script(data);
    let mut world = World::relay();
    let mut server = Server::default();
    let mut editor = Editor::default();
    while relay_step(&mut world, &mut server, &mut script, &mut editor).is_some() {
        editor.read(&mut world);
    }
    world.machine.handle_eof(world.now);
    world.pass(Duration::from_secs(60));
    world.machine.close(world.now);
    world.pass(Duration::from_secs(10));
    editor.read(&mut world);
    assert!(editor.waiting.is_empty(), "{:?} were never answered", editor.waiting);
    assert!(editor.is_closed);
}

fn relay_step(
    world: &mut World<Relay>,
    server: &mut Server,
    script: &mut Script<'_>,
    editor: &mut Editor,
) -> Option<()> {
    server.look(world);
    for opened in server.open.values() {
        if opened.request.method() == "POST" {
            let frame = Frame::parse(opened.request.body(), &Limits::default());
            assert!(matches!(frame, Ok(Frame::Single(_))), "{}", opened.body());
        }
    }
    match script.byte()? % 12 {
        0 => {
            let params = r#"{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"elicitation":{}}}"#;
            editor.ask(world, "initialize", params);
        }
        1 => editor.ask(world, "tools/call", r#"{"name":"x","_meta":{"progressToken":1}}"#),
        2 => world.line(world::INITIALIZED),
        3 => {
            let id = script.byte()?;
            world.line(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            ));
            editor.take_back(i64::from(id));
        }
        4 => world.pass(Duration::from_millis(u64::from(script.byte()?).pow(2))),
        5 => editor.ask(world, "resources/subscribe", r#"{"uri":"a:b"}"#),
        6 => {
            let (method, members) = MODERN[usize::from(script.byte()?) % MODERN.len()];
            let state =
                editor.state.as_ref().map_or_else(|| "\"relay-1\"".to_owned(), |state| state.to_text().into_owned());
            let members = members.replace("STATE", &state);
            editor.ask(world, method, &format!(r#"{{{members}"_meta":{MODERN_META}}}"#));
        }
        _ => server.act(world, script)?,
    }
    Some(())
}

/// What a modern client says of itself.
const MODERN_META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/logLevel":"info","progressToken":1}"#;

/// What it asks for.
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
    /// What it was told to bring back last.
    state: Option<Json>,
    next: i64,
    waiting: BTreeSet<i64>,
    /// Taken back: an answer may have been on its way, and `initialize` cannot be taken back at all.
    taken_back: BTreeSet<i64>,
    is_closed: bool,
}

impl Editor {
    fn ask(&mut self, world: &mut World<Relay>, method: &str, params: &str) {
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id);
        world.line(&world::request(&id.to_string(), method, params));
    }

    fn take_back(&mut self, id: i64) {
        if self.waiting.remove(&id) {
            self.taken_back.insert(id);
        }
    }

    fn read(&mut self, world: &mut World<Relay>) {
        self.is_closed |= world.events().iter().any(|event| matches!(event, relay::Event::Closed(_)));
        for line in world.lines() {
            let frame = Frame::parse(&line.into(), &Limits::default()).expect("the relay writes messages");
            match frame {
                Frame::Single(Message::Response(response)) => {
                    let id = match &response {
                        Response::Result { id, result } => {
                            self.state = result.member("requestState").ok().flatten().or_else(|| self.state.take());
                            id.as_i64()
                        }
                        Response::Error { id, .. } => id.as_ref().and_then(mcp_proto::RequestId::as_i64),
                    };
                    let id = id.expect("the editor uses integers");
                    let waited = self.waiting.remove(&id) || self.taken_back.remove(&id);
                    assert!(waited, "{id} was answered and did not wait");
                }
                Frame::Single(Message::Request(Request { id, .. })) => {
                    world.line(&world::result(&id.to_string(), "{}"));
                }
                Frame::Single(Message::Notification(_)) => {}
                Frame::Batch(_) => panic!("nobody asked for a batch"),
            }
        }
    }
}
