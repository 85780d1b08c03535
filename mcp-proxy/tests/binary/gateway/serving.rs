//! A running gateway, its clients, and the server behind it.

use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_proto::Json;
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize};
use mcp_testkit::messages::{INITIALIZED, request};
use mcp_testkit::raw_client::RawClient;
use mcp_testkit::waiting::wait_until;

use crate::editor::{Proxy, command};

/// A server whose answers contain the number of its process. What it does at other methods:
///
/// | method | what it does |
/// |---|---|
/// | `wait` | nothing; it reports that on stderr |
/// | `exit` | exits |
/// | `fork` | starts a process that ignores SIGTERM |
/// | `flood` | answers with a megabyte |
/// | `sleep` | reads nothing more |
pub(crate) const SERVER: &str = r#"
while read -r line; do
    case "$line" in *'"id":'*) ;; *) continue ;; esac
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    case "$line" in
        *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}' ;;
        *'"wait"'*) echo waits >&2; continue ;;
        *'"exit"'*) exit 3 ;;
        *'"sleep"'*) echo sleeps >&2; sleep 1000 ;;
        *'"fork"'*) (trap '' TERM; exec sleep 1000 <&- >&-) & result="{\"pid\":$!}" ;;
        *'"flood"'*) result="{\"text\":\"$(head -c 1048576 /dev/zero | tr '\0' x)\"}" ;;
        *) result="{\"pid\":$$,\"user\":\"$MCP_USER\",\"folder\":\"$PWD\",\"setting\":\"$SETTING\"}" ;;
    esac
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
"#;

/// The exit code of a gateway that a test ends: nothing can send a signal to a process of Windows, so it is terminated.
pub(crate) const ENDED: Option<i32> = if cfg!(windows) { Some(1) } else { Some(0) };

/// A folder for the files of a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gateway").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The words of a command that does what [`SERVER`] says.
pub(crate) fn words(folder: &Path) -> String {
    if cfg!(windows) { format!("'{}' session", scripted().display()) } else { format!("sh {}", script(folder)) }
}

/// A program that does it in place of the shell, where there is none.
fn scripted() -> PathBuf {
    tests::examples::example("scripted_behind_proxy").get_program().into()
}

/// A file with the script of the server, for commands that are words.
pub(crate) fn script(folder: &Path) -> String {
    let path = folder.join("server.sh");
    std::fs::write(&path, SERVER).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The command line of a gateway at a free port.
pub(crate) fn gateway(options: &[&str]) -> Command {
    command_with_address("127.0.0.1:0", options)
}

/// The command line of a gateway at this address.
pub(crate) fn command_with_address(address: &str, options: &[&str]) -> Command {
    command(&[&["serve", "--listen", address], options].concat())
}

/// The same before a shell that runs this script. Without a shell, there is only [`SERVER`].
pub(crate) fn before(options: &[&str], script: &str) -> Command {
    let mut gateway = gateway(options);
    if cfg!(windows) {
        assert_eq!(script, SERVER, "a shell is needed for another script");
        gateway.arg("--").arg(scripted()).arg("session");
    } else {
        gateway.args(["--", "sh", "-c", script]);
    }
    gateway
}

/// A running gateway.
pub(crate) struct Serving {
    pub(crate) proxy: Proxy,
    pub(crate) raw: RawClient,
    /// What it has printed about the places at which it serves.
    #[cfg_attr(windows, expect(dead_code, reason = "those tests have servers that are scripts of a shell"))]
    pub(crate) announced: String,
    /// What it has printed before.
    pub(crate) warnings: Vec<String>,
}

/// How a client asks for a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asks<'a> {
    pub(crate) path: &'a str,
    pub(crate) token: Option<&'a str>,
}

/// A session of a client.
pub(crate) struct Session<'s> {
    raw: &'s RawClient,
    asks: Asks<'s>,
    pub(crate) id: String,
}

impl<'a> Asks<'a> {
    pub(crate) const fn at(path: &'a str) -> Self {
        Self { path, token: None }
    }

    pub(crate) const fn with(token: &'a str) -> Self {
        Self { path: "/mcp", token: Some(token) }
    }

    pub(crate) fn request(self, asked: TestRequest) -> TestRequest {
        let asked = asked.at(self.path);
        match self.token {
            Some(token) => asked.with("authorization", &format!("Bearer {token}")),
            None => asked,
        }
    }
}

impl Serving {
    /// A gateway before [`SERVER`], with the monitoring pages.
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::before(options, SERVER)
    }

    /// A gateway before a shell that runs this script.
    pub(crate) fn before(options: &[&str], script: &str) -> Self {
        Self::spawn(before(&[&["--health"], options].concat(), script))
    }

    /// A gateway that was not started yet, and warns of nothing. It listens when this returns.
    pub(crate) fn spawn(command: Command) -> Self {
        let serving = Self::spawn_after_warnings(command);
        assert_eq!(serving.warnings, [] as [&str; 0]);
        serving
    }

    /// A gateway that was not started yet. It listens when this returns.
    pub(crate) fn spawn_after_warnings(command: Command) -> Self {
        let proxy = Proxy::spawn(command);
        let mut warnings = Vec::new();
        loop {
            let announced = proxy.error();
            if let Some((address, _)) = announced.split_once("http://").and_then(|(_, rest)| rest.split_once('/')) {
                let raw = RawClient::new(&address.replace("0.0.0.0", "127.0.0.1"));
                return Self { proxy, raw, announced, warnings };
            }
            warnings.push(announced);
        }
    }

    /// Opens a session at `/mcp`.
    pub(crate) fn session(&self) -> Session<'_> {
        self.open(Asks::at("/mcp")).unwrap()
    }

    /// Opens a session, or returns the body of the response that refuses it.
    pub(crate) fn open<'s>(&'s self, asks: Asks<'s>) -> Result<Session<'s>, String> {
        let opened = self.raw.answer(&asks.request(TestRequest::post(initialize("2025-11-25"))));
        let Some(id) = opened.headers.get("mcp-session-id") else { return Err(opened.text()) };
        let session = Session { raw: &self.raw, asks, id: id.to_str().unwrap().to_owned() };
        assert_eq!(session.send(INITIALIZED).code(), 202);
        Ok(session)
    }

    /// The body of a page.
    pub(crate) fn page(&self, path: &str) -> String {
        let page = self.raw.answer(&TestRequest::new("GET", "").at(path));
        assert_eq!(page.code(), 200, "{}", page.text());
        page.text()
    }

    /// The numbers of sessions and processes.
    pub(crate) fn load(&self) -> (u64, u64) {
        let health = Json::parse(self.page("/health")).unwrap();
        let number = |name| health.member(name).unwrap().unwrap().to_text().parse().unwrap();
        (number("sessions"), number("backends"))
    }

    /// Waits until there are these numbers of sessions and processes.
    pub(crate) fn wait_for_load(&self, load: (u64, u64)) {
        wait_until(|| self.load() == load);
    }

    /// Waits until a line of stderr contains this text.
    pub(crate) fn wait_for_error(&self, text: &str) -> String {
        loop {
            let line = self.proxy.error();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The process of the gateway.
    #[cfg(unix)]
    pub(crate) fn id(&self) -> u32 {
        self.proxy.child.id()
    }

    /// Ends the gateway with a signal. Returns its exit code and the rest of stderr, once no process is left that could
    /// write to it.
    pub(crate) fn end(mut self, signal: &str) -> (Option<i32>, String) {
        if cfg!(windows) {
            self.proxy.child.kill().unwrap();
        } else {
            self.proxy.signal(signal);
        }
        let (status, _) = self.proxy.wait();
        (status.code(), self.proxy.errors().join("\n"))
    }
}

impl Session<'_> {
    /// A POST in this session.
    pub(crate) fn post(&self, body: &str) -> TestRequest {
        self.asks.request(TestRequest::post(body.to_owned())).in_session(&self.id)
    }

    pub(crate) fn send(&self, body: &str) -> TestResponse {
        self.raw.answer(&self.post(body))
    }

    /// The body of the answer to a request.
    pub(crate) fn call(&self, method: &str) -> String {
        self.send(&request("7", method, "{}")).text()
    }

    /// The number of the process that answers.
    pub(crate) fn pid(&self) -> u32 {
        member(&self.call("pid"), "pid").parse().unwrap()
    }

    pub(crate) fn delete(&self) {
        let asked = self.asks.request(TestRequest::new("DELETE", "")).in_session(&self.id);
        assert!(matches!(self.raw.answer(&asked).code(), 200 | 202 | 204));
    }
}

/// A member of the result of an answer, without quotes.
pub(crate) fn member(answer: &str, name: &str) -> String {
    let answer = Json::parse(answer.to_owned()).unwrap();
    let member = answer.first_member("result").and_then(|result| result.first_member(name));
    member.unwrap_or_else(|| panic!("{}", answer.to_text())).to_text().trim_matches('"').to_owned()
}
