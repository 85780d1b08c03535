//! A server over HTTP for typed clients, of the revisions 2025-11-25 and 2026-07-28. Both drivers use it.

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};

use mcp_model::{CallToolResult, InputResponses, JsonObject, Payload};
use mcp_proto::{Json, ProtocolVersion};
use mcp_testkit::loopback_server::{Connection, LoopbackServer, PostedMessage, mcp_server};
use mcp_testkit::messages::{DISCOVERED, event, progress_notification, request, result};
use mcp_testkit::waiting::LONG;

/// The revisions of the server, one of each era.
pub const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

/// The text of the result of the tool `ask`, if the client answers as the tests' clients do: it accepts the form with the
/// name `Ada`, declines the URL, samples `Hi.` from the model `m`, and has the root `file:///a`.
pub const ANSWERS: &str = r#"{"form":{"action":"accept","content":{"name":"Ada"}},"roots":{"roots":[{"uri":"file:///a"}]},"text":{"role":"assistant","content":{"type":"text","text":"Hi."},"model":"m"},"url":{"action":"decline"}}"#;

/// The names of the tools, which are on three pages. The cursor of the second one is empty.
pub const TOOLS: [&str; 3] = ["a", "b", "c"];

/// The requests for input of the tool `ask`: key, method and parameters.
const ASKED: [(&str, &str, &str); 4] = [
    ("form", "elicitation/create", r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#),
    ("roots", "roots/list", "{}"),
    ("text", "sampling/createMessage", r#"{"messages":[],"maxTokens":5}"#),
    ("url", "elicitation/create", r#"{"mode":"url","message":"m","url":"https://example.com","elicitationId":"e"}"#),
];

/// Starts the server.
///
/// | request | response |
/// |---|---|
/// | `tools/list` | [`TOOLS`], on three pages |
/// | `prompts/list` | pages that repeat |
/// | `resources/list` | two resources on two pages |
/// | `tools/call` of `ask` | requires input; its text is what the client has answered ([`ANSWERS`]) |
/// | `tools/call` of `odd` | two entries of another form, one of which can be read, and a member that cannot |
/// | `tools/call` of others | its text is the arguments. Before it, a log message, an invalid one, and if the request has a token, progress: 1, invalid, 2 |
/// | any other | its parameters without `_meta` as the member `params` |
pub fn server() -> LoopbackServer {
    crate::deadline::set();
    let (answers, answered) = channel();
    let (answers, answered) = (Mutex::new(answers), Mutex::new(answered));
    let serve = mcp_server(move |asked, connection| serve(asked, connection, &answered));
    LoopbackServer::start(move |request, connection| {
        if let Ok(message) = Json::parse(request.body.clone()) {
            if let ([Some(id), Some(answer)], [None]) =
                (message.first_members(["id", "result"]), message.first_members(["method"]))
            {
                let _ = answers.lock().unwrap_or_else(PoisonError::into_inner).send((id, answer));
            }
        }
        serve(request, connection)
    })
}

fn serve(
    asked: &PostedMessage,
    connection: &mut Connection,
    answered: &Mutex<Receiver<(Json, Json)>>,
) -> io::Result<()> {
    let params = Json::parse(asked.params.clone()).expect("parameters");
    let text = |name| params.first_member(name).and_then(|value| value.as_string().map(Cow::into_owned));
    let cursor = text("cursor");
    let page = |items: &str, next: Option<&str>| {
        let next = next.map_or(String::new(), |next| format!(r#","nextCursor":"{next}""#));
        format!(r#"{{"resultType":"complete",{items}{next}}}"#)
    };
    let tool = |name: &str| format!(r#""tools":[{{"name":"{name}","inputSchema":{{"type":"object"}}}}]"#);
    let found = match (asked.method.as_str(), cursor.as_deref()) {
        ("server/discover", _) => DISCOVERED.to_owned(),
        ("tools/list", None) => page(&tool("a"), Some("")),
        ("tools/list", Some("")) => page(&tool("b"), Some("3")),
        ("tools/list", Some(_)) => page(&tool("c"), None),
        ("prompts/list", Some("1")) => page(r#""prompts":[{"name":"p"}]"#, Some("2")),
        ("prompts/list", _) => page(r#""prompts":[{"name":"p"}]"#, Some("1")),
        ("resources/list", None) => page(r#""resources":[{"uri":"file:///a","name":"a"}]"#, Some("2")),
        ("resources/list", Some(_)) => page(r#""resources":[{"uri":"file:///b","name":"b"}]"#, None),
        ("tools/call", _) if text("name").as_deref() == Some("ask") => {
            return ask(asked, &params, connection, answered);
        }
        ("tools/call", _) if text("name").as_deref() == Some("odd") => {
            let content = r#"[{"type":"resource_link","uri":"file:///a"},{"type":"text"}]"#;
            format!(r#"{{"resultType":"complete","content":{content},"isError":"no"}}"#)
        }
        ("tools/call", _) => return call(asked, &params, connection),
        _ => {
            let params = params.without_members(&["_meta"]);
            return connection.json(result(&asked.id, &format!(r#"{{"params":{}}}"#, params.to_text())));
        }
    };
    connection.json(result(&asked.id, &found))
}

fn with_text(id: &str, text: &str) -> String {
    let result = JsonObject::try_from(CallToolResult::text(text).to_json()).expect("an object");
    mcp_testkit::messages::result(id, &Json::from(result.with("resultType", "complete")).to_text())
}

/// Calls the tool that answers with its arguments.
fn call(asked: &PostedMessage, params: &Json, connection: &mut Connection) -> io::Result<()> {
    connection.begin_events()?;
    for data in [r#"{"level":"info","data":"a"}"#, r#"{"level":7}"#] {
        connection.chunk(event(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{data}}}"#)))?;
    }
    let token = params.first_member("_meta").and_then(|meta| meta.first_member("progressToken"));
    for progress in ["1", r#""invalid""#, "2"] {
        if let Some(token) = &token {
            connection.chunk(event(&progress_notification(&token.to_text(), progress)))?;
        }
    }
    let arguments = params.first_member("arguments").map_or("none".to_owned(), |text| text.to_text().into_owned());
    connection.chunk(event(&with_text(&asked.id, &arguments)))?;
    connection.finish()
}

/// Calls the tool that requires input.
fn ask(
    asked: &PostedMessage,
    params: &Json,
    connection: &mut Connection,
    answered: &Mutex<Receiver<(Json, Json)>>,
) -> io::Result<()> {
    let is_modern = params.to_text().contains("io.modelcontextprotocol/protocolVersion");
    if let Some(answers) = params.first_member("inputResponses") {
        let answers = InputResponses::from_json(&answers).expect("answers");
        return connection.json(with_text(&asked.id, &answers.to_json().to_text()));
    }
    if is_modern {
        let requests =
            ASKED.map(|(key, method, params)| format!(r#""{key}":{{"method":"{method}","params":{params}}}"#));
        let requests = requests.join(",");
        let required =
            format!(r#"{{"resultType":"input_required","inputRequests":{{{requests}}},"requestState":"s"}}"#);
        return connection.json(result(&asked.id, &required));
    }
    connection.begin_events()?;
    for (key, method, params) in ASKED {
        connection.chunk(event(&request(&format!("\"{key}\""), method, params)))?;
    }
    let answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
    let mut answers = InputResponses::new();
    while answers.entries.len() < ASKED.len() {
        let Ok((id, answer)) = answered.recv_timeout(LONG) else { break };
        answers = answers.with(&id.as_string().expect("the id of a request"), answer);
    }
    connection.chunk(event(&with_text(&asked.id, &answers.to_json().to_text())))?;
    connection.finish()
}

/// Starts a server that loses its session at the first request of the method `lose`. The first session has the
/// instructions `first`, later ones have `later`.
pub fn changing_server() -> LoopbackServer {
    crate::deadline::set();
    let (opened, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let serve = mcp_server(move |asked, connection| {
        if asked.method == "lose" && lost.fetch_add(1, Ordering::SeqCst) == 0 {
            return connection.reply("404 Not Found", &[], "");
        }
        connection.json(result(&asked.id, "{}"))
    });
    LoopbackServer::start(move |request, connection| {
        let Some(asked) = PostedMessage::of(request).filter(|asked| asked.method == "initialize") else {
            return serve(request, connection);
        };
        let is_first = opened.fetch_add(1, Ordering::SeqCst) == 0;
        let instructions = if is_first { "first" } else { "later" };
        let info = r#""capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}"#;
        let found = format!(r#"{{"protocolVersion":"2025-11-25",{info},"instructions":"{instructions}"}}"#);
        let headers = [("content-type", "application/json"), ("mcp-session-id", instructions)];
        connection.reply("200 OK", &headers, result(&asked.id, &found))
    })
}
