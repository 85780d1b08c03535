//! `demo`: prints a whole dialogue between an editor, this proxy and a small server.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use mcp_blocking::{Incoming, Server, Service};
use mcp_proto::client::{Call, CloseReason, Outcome};
use mcp_proto::server::{Config, HttpConfig, Progress};
use mcp_proto::{ErrorObject, Json, SessionKey, code};

/// The maximum number of characters of a message that are shown.
const WIDTH: usize = 150;
/// How long the server may take to report the end of the session.
const SESSION_END_TIMEOUT: Duration = Duration::from_secs(5);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"demo-editor","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
const COUNT: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"count","arguments":{"to":3},"_meta":{"progressToken":"p"}}}"#;
const GREET: &str = r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"greet","arguments":{}}}"#;
const NAME: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"Ada"}}}"#;

/// Runs the demonstration.
pub(crate) fn run(out: &mut impl Write) -> io::Result<()> {
    let mut config = Config::new("demo-server", env!("CARGO_PKG_VERSION"));
    config.capabilities = parse(r#"{"tools":{}}"#);
    let (ended, sessions_end) = sync_channel(1);
    let service = Server::new(config, Tools { ended }).http(HttpConfig::new()).map_err(io::Error::other)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (url, stopper) = (format!("http://{}/mcp", listener.local_addr()?), service.stopper());
    let serving = thread::spawn(move || service.serve(listener));

    writeln!(out, "A server listens at {url}. An editor starts this program before it:\n\n    mcp-proxy {url}")?;
    let mut editor = Editor::start(&url, out)?;
    editor.report("The editor opens the connection, which for the server begins a session.")?;
    editor.ask(INITIALIZE)?;
    editor.say(INITIALIZED)?;
    editor.report("It asks for the tools.")?;
    editor.ask(LIST)?;
    editor.report("It calls one, and asks for its progress. The server's answer becomes a stream.")?;
    editor.ask(COUNT)?;
    editor.report("It calls another, which asks the person in front of the editor for a name before it answers.")?;
    editor.ask(GREET)?;
    editor.report("It closes the proxy's input. The proxy ends the session and exits.")?;
    editor.finish(&sessions_end)?;
    stopper.stop();
    serving.join().map_err(|_| io::Error::other("the demonstration's server failed"))??;
    Ok(())
}

struct Editor<'o, W: Write> {
    child: Child,
    input: ChildStdin,
    lines: io::Lines<BufReader<ChildStdout>>,
    out: &'o mut W,
}

impl<'o, W: Write> Editor<'o, W> {
    fn start(url: &str, out: &'o mut W) -> io::Result<Self> {
        let mut child =
            Command::new(std::env::current_exe()?).arg(url).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the proxy has no pipes"));
        };
        Ok(Self { child, input, lines: BufReader::new(output).lines(), out })
    }

    fn report(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{text}\n")
    }

    fn say(&mut self, message: &str) -> io::Result<()> {
        writeln!(self.out, "    editor  > {}", shown(message))?;
        writeln!(self.input, "{message}")?;
        self.input.flush()
    }

    /// Sends a request, and answers the server's requests until the response arrives.
    fn ask(&mut self, request: &str) -> io::Result<()> {
        self.say(request)?;
        loop {
            let Some(line) = self.lines.next() else {
                return Err(io::Error::other("the proxy ended without an answer"));
            };
            let line = line?;
            writeln!(self.out, "    editor  < {}", shown(&line))?;
            let message: Answer<'_> = serde_json::from_str(&line).map_err(io::Error::other)?;
            if message.method == Some("elicitation/create") {
                self.say(NAME)?;
            } else if message.method.is_none() {
                return Ok(());
            }
        }
    }

    fn finish(mut self, sessions_end: &Receiver<CloseReason>) -> io::Result<()> {
        drop(self.input);
        let status = self.child.wait()?;
        let end = match sessions_end.recv_timeout(SESSION_END_TIMEOUT) {
            Ok(CloseReason::Peer) => "the session was ended by DELETE",
            Ok(_) | Err(_) => "the session was not ended",
        };
        writeln!(self.out, "    server    {end}\n    mcp-proxy ended with {status}")
    }
}

/// Distinguishes a response from the server's own messages.
#[derive(serde::Deserialize)]
struct Answer<'m> {
    method: Option<&'m str>,
}

/// The demonstration's tools.
struct Tools {
    ended: SyncSender<CloseReason>,
}

impl Service for Tools {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        let name = incoming.params().and_then(|params| member(params, "name"));
        let name = name.as_ref().and_then(Json::as_string);
        match (incoming.method().as_str(), name.as_deref()) {
            ("tools/list", _) => Ok(parse(
                r#"{"tools":[{"name":"count","inputSchema":{"type":"object"}},{"name":"greet","inputSchema":{"type":"object"}}]}"#,
            )),
            ("tools/call", Some("count")) => {
                for step in 1..=3 {
                    incoming.progress(Progress { progress: f64::from(step), total: Some(3.0), message: None });
                    thread::sleep(Duration::from_millis(100));
                }
                Ok(parse(r#"{"content":[{"type":"text","text":"one, two, three"}]}"#))
            }
            ("tools/call", Some("greet")) => greet(incoming),
            _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
        }
    }

    fn ended(&self, _: SessionKey, reason: CloseReason) {
        let _ = self.ended.try_send(reason);
    }
}

fn greet(incoming: &Incoming) -> Result<Json, ErrorObject> {
    let params = r#"{"message":"What is your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;
    let call = Call::new("elicitation/create").params(parse(params));
    let failed = |text: &str| ErrorObject::new(code::INTERNAL_ERROR, text);
    match incoming.ask(call).map_err(|error| failed(&error.to_string()))? {
        Outcome::Result(answer) => {
            let name = member(&answer, "content").and_then(|content| member(&content, "name"));
            let name = name.as_ref().and_then(Json::as_string).unwrap_or_default();
            let text = Json::from(format!("Hello, {name}!").as_str());
            Ok(parse(&format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, text.to_text())))
        }
        Outcome::Error(error) => Err(error),
        Outcome::Failed(reason) => Err(failed(&reason.to_string())),
    }
}

fn member(object: &Json, name: &str) -> Option<Json> {
    object.member(name).ok().flatten()
}

/// Parses one of the demonstration's own texts, which are valid JSON; the fallback is an empty object.
fn parse(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap_or(Json::empty_object())
}

fn shown(message: &str) -> String {
    let mut shown: String = message.chars().take(WIDTH).collect();
    if shown.len() < message.len() {
        shown.push('…');
    }
    shown
}
