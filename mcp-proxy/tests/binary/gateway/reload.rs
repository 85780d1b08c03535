//! The configuration of a running gateway changes: servers that are the same in both files keep their sessions, and no request is
//! answered that neither file allows.

use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::messages::request;
use mcp_testkit::waiting::wait_until;
use serde_json::{Value, json};

use super::serving::{Asks, SERVER, Serving, Session, folder, gateway, member};

/// A server that answers a call after a moment, or once its client has answered a question, beside what [`SERVER`] does.
const SLOW: &str = r#"
while read -r line; do
    case "$line" in *'"id":'*) ;; *) continue ;; esac
    case "$line" in *'"method"'*) ;; *) echo "{\"jsonrpc\":\"2.0\",\"id\":$asking,\"result\":{\"pid\":$$,\"answer\":\"late\"}}"; continue ;; esac
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    tools='{"tools":[{"name":"one","inputSchema":{"type":"object"}},{"name":"two","inputSchema":{"type":"object"}}]}'
    case "$line" in
        *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}' ;;
        *'"tools/list"'*) result=$tools ;;
        *'"slow"'*) echo slow >&2; sleep 1.5; result="{\"pid\":$$,\"answer\":\"late\"}" ;;
        *'"asks"'*) asking=$id; echo '{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}'; continue ;;
        *) result="{\"pid\":$$,\"argument\":\"$1\",\"setting\":\"$SETTING\"}" ;;
    esac
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
"#;

/// A file of a configuration, with the script of the servers beside it.
pub(super) struct Configured {
    pub(super) folder: PathBuf,
    pub(super) serving: Serving,
}

/// A server of the script, with this argument and further fields.
fn server(folder: &Path, argument: &str, more: &Value) -> Value {
    let script = folder.join("slow.sh");
    std::fs::write(&script, SLOW).unwrap();
    let mut server = json!({ "command": "sh", "args": [script, argument] });
    server.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server
}

impl Configured {
    /// A gateway with a log, and the servers and options that `file` makes for the folder.
    pub(super) fn start(name: &str, options: &[&str], file: impl FnOnce(&Path) -> Value) -> Self {
        let folder = folder(&format!("reload-{name}"));
        let path = folder.join("servers.json");
        std::fs::write(&path, file(&folder).to_string()).unwrap();
        let log = folder.join("log");
        let fixed = ["--metrics", "--health", "--log-level", "info", "--log-file", log.to_str().unwrap()];
        let mut command = gateway(&[&["--config", path.to_str().unwrap()], &fixed[..], options].concat());
        command.envs([("TOKEN_A", "token-of-ada"), ("TOKEN_B", "token-of-bob")]);
        Self { serving: Serving::spawn(command), folder }
    }

    pub(super) fn write(&self, text: &str) {
        std::fs::write(self.folder.join("servers.json"), text).unwrap();
    }

    pub(super) fn hang_up(&self) {
        let pid = self.serving.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }

    /// Changes the file, and waits until it is in force.
    pub(super) fn reload(&self, file: impl FnOnce(&Path) -> Value) {
        let before = self.reloads("success");
        self.write(&file(&self.folder).to_string());
        self.hang_up();
        self.wait_for_reload("success", before + 1);
    }

    fn reloads(&self, outcome: &str) -> u64 {
        let name = format!(r#"mcp_proxy_config_reloads_total{{outcome="{outcome}"}} "#);
        let page = self.serving.page("/metrics");
        page.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
    }

    pub(super) fn wait_for_reload(&self, outcome: &str, count: u64) {
        wait_until(|| self.reloads(outcome) >= count);
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap()
    }

    pub(super) fn open(&self, path: &'static str) -> Session<'_> {
        self.serving.open(Asks::at(path)).unwrap()
    }
}

pub(super) fn called(session: &Session<'_>, id: &str, name: &str) -> String {
    session.send(&request(id, "tools/call", &format!(r#"{{"name":"{name}"}}"#))).text()
}

#[test]
fn what_did_not_change_keeps_its_processes_and_sessions() {
    let file = |changed: &'static str, last: &'static str| {
        move |folder: &Path| {
            let plain = |argument| server(folder, argument, &json!({}));
            json!({ "mcpServers": { "same": plain("same"), "changed": plain(changed), last: plain(last) } })
        }
    };
    let gateway = Configured::start("kept", &[], file("before", "removed"));
    let [same, changed, removed] = ["/same/mcp", "/changed/mcp", "/removed/mcp"].map(|path| gateway.open(path));
    let pid = same.pid();
    assert_eq!(member(&changed.call("x"), "argument"), "before");
    gateway.reload(file("after", "added"));
    assert_eq!(same.pid(), pid);
    for session in [&changed, &removed] {
        wait_until(|| session.send(&request("8", "x", "{}")).code() == 404);
    }
    assert!(gateway.serving.open(Asks::at("/removed/mcp")).is_err());
    assert_eq!(member(&gateway.open("/changed/mcp").call("x"), "argument"), "after");
    assert_eq!(member(&gateway.open("/added/mcp").call("x"), "argument"), "added");
    // Nothing is left of what has gone.
    gateway.serving.wait_for_load((3, 3));
    let page = gateway.serving.page("/metrics");
    assert!(!page.contains(r#"mcp_proxy_sessions{server="removed"}"#), "{page}");
    assert!(page.contains("mcp_proxy_config_last_reload_successful 1"), "{page}");
    // A second file is compared with the first one.
    gateway.reload(file("after", "added"));
    assert_eq!(same.pid(), pid);
    wait_until(|| gateway.log().contains("servers: 4, of which keep their processes: 4"));
}

#[test]
fn calls_in_progress_are_answered_although_their_server_is_removed_or_replaced() {
    let file = |argument: &'static str, has_other: bool| {
        move |folder: &Path| {
            let mut servers = json!({ "changed": server(folder, argument, &json!({})) });
            if has_other {
                servers["removed"] = server(folder, "x", &json!({}));
            }
            json!({ "mcpServers": servers })
        }
    };
    let gateway = Configured::start("progress", &[], file("before", true));
    for path in ["/removed/mcp", "/changed/mcp"] {
        if path == "/changed/mcp" {
            gateway.reload(file("before", true));
        }
        let session = gateway.open(path);
        let pid = session.pid();
        let mut slow = gateway.serving.raw.open(&session.post(&request("9", "tools/call", r#"{"name":"slow"}"#)));
        gateway.serving.wait_for_error("slow");
        let other = gateway.open(path);
        let mut asking = gateway.serving.raw.open(&other.post(&request("9", "tools/call", r#"{"name":"asks"}"#)));
        asking.until(|answer| answer.text().contains("elicitation/create"));
        gateway.reload(file(if path == "/changed/mcp" { "after" } else { "before" }, false));
        // The answer of a client reaches the server that has asked.
        let asked = asking.until(|answer| answer.text().contains("elicitation/create")).text();
        let id = asked.split_once(r#""id":"#).unwrap().1.split(',').next().unwrap().to_owned();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"decline"}}}}"#);
        assert_eq!(other.send(&answer).code(), 202, "{path}");
        for connection in [&mut asking, &mut slow] {
            let answered = connection.until(|answer| answer.text().contains("late")).text();
            assert!(answered.contains("late"), "{path}: {answered}");
        }
        let answered = slow.until(|answer| answer.text().contains("late")).text();
        assert!(answered.contains(&format!(r#""pid":{pid}"#)), "{path}: {answered}");
    }
}

#[test]
fn filters_and_tokens_change_for_the_next_request_and_open_streams_of_a_withdrawn_user_end() {
    let file = |denied: &'static str, users: &'static [&'static str]| {
        move |folder: &Path| {
            let tokens: serde_json::Map<_, _> =
                users.iter().map(|user| ((*user).to_owned(), format!("token-of-{user}").into())).collect();
            let denied = json!({ "disabledTools": [denied] });
            json!({
                "serve": { "tokens": tokens },
                "mcpServers": { "a": server(folder, "a", &denied), "b": server(folder, "b", &denied) },
            })
        }
    };
    let gateway = Configured::start("filters", &[], file("two", &["ada", "bob"]));
    for path in ["/a/mcp", "/mcp"] {
        if path == "/mcp" {
            gateway.reload(file("two", &["ada", "bob"]));
        }
        let [ada, bob] = ["token-of-ada", "token-of-bob"]
            .map(|token| gateway.serving.open(Asks { path, token: Some(token) }).unwrap());
        let named = |tool: &str| if path == "/mcp" { format!("a__{tool}") } else { tool.to_owned() };
        let pid = |session: &Session<'_>| member(&called(session, "4", &named("one")), "pid");
        let (process, is_allowed) = (pid(&ada), |tool: &str| !called(&ada, "5", &named(tool)).contains("\"error\""));
        assert!(is_allowed("one") && !is_allowed("two"));
        let stream = |session: &Session<'_>, token: &str| {
            let asked = TestRequest::get().at(path).with("authorization", &format!("Bearer {token}"));
            let mut stream = gateway.serving.raw.open(&asked.in_session(&session.id));
            stream.until(|answer| answer.code() == 200);
            stream
        };
        let (mut of_ada, of_bob) = (stream(&ada, "token-of-ada"), stream(&bob, "token-of-bob"));
        gateway.reload(file("o*", &["ada", "carol"]));
        assert!(!is_allowed("one") && is_allowed("two"), "{path}");
        assert_eq!(member(&called(&ada, "6", &named("two")), "pid"), process, "the process and the session are kept");
        of_ada.until(|answer| answer.text().contains("notifications/tools/list_changed"));
        assert!(!ada.send(&request("7", "tools/list", "{}")).text().contains(&named("one")));
        assert_eq!(bob.send(&request("7", "tools/list", "{}")).code(), 401);
        wait_until(|| of_bob.is_closed());
        let carol = gateway.serving.open(Asks { path, token: Some("token-of-carol") }).unwrap();
        assert!(called(&carol, "5", &named("two")).contains("pid"));
        assert!(!of_ada.is_closed());
    }
    for secret in ["token-of-ada", "token-of-bob", "token-of-carol"] {
        assert!(!gateway.log().contains(secret));
    }
}

#[test]
fn a_file_with_a_mistake_leaves_the_earlier_one_in_force() {
    let gateway =
        Configured::start("mistake", &[], |folder| json!({ "mcpServers": { "a": server(folder, "a", &json!({})) } }));
    let session = gateway.open("/a/mcp");
    let pid = session.pid();
    for (number, (text, mistake)) in [
        ("{\n\"mcpServers\": [", "line 2"),
        ("{\n\n\"mcpServers\": {\"a\": {\"command\": 4711}}}", "line 3: mcpServers.a.command must be a string"),
        ("{\"serve\":{\n\"maxSessions\": \"marked\"}}", "line 2: serve.maxSessions: "),
        ("{\"serve\":{\"share\":\"principal\"},\"mcpServers\":{\"a\":{\"command\":\"x\"}}}", "--share principal needs"),
        (
            "{\"serve\":{\"tokens\":{\"ada\":\"${NO_SUCH_VARIABLE}\"}},\"mcpServers\":{\"a\":{\"command\":\"x\"}}}",
            "NO_SUCH_VARIABLE is not set",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        gateway.write(text);
        gateway.hang_up();
        gateway.wait_for_reload("failure", number as u64 + 1);
        // The log is written by a thread of its own.
        let lines =
            || gateway.log().lines().filter(|line| line.contains("was not changed")).map(str::to_owned).collect();
        wait_until(|| Vec::<String>::len(&lines()) > number);
        let line = &lines()[number];
        assert!(line.contains(mistake) && !line.contains("marked") && !line.contains("4711"), "{line}");
        assert_eq!(session.pid(), pid);
    }
    assert!(gateway.serving.page("/metrics").contains("mcp_proxy_config_last_reload_successful 0"));
    gateway.reload(|folder| json!({ "mcpServers": { "a": server(folder, "a", &json!({})) } }));
    assert!(gateway.serving.page("/metrics").contains("mcp_proxy_config_last_reload_successful 1"));
    assert_eq!(session.pid(), pid);
}

#[test]
fn a_watched_file_is_read_again_without_a_signal() {
    let file = |name: &str| {
        let name = name.to_owned();
        move |folder: &Path| json!({ "mcpServers": { name: server(folder, "a", &json!({})) } })
    };
    let gateway = Configured::start("watched", &["--watch"], file("a"));
    gateway.write(&file("b")(&gateway.folder).to_string());
    gateway.wait_for_reload("success", 1);
    assert!(gateway.serving.open(Asks::at("/b/mcp")).is_ok() && gateway.serving.open(Asks::at("/a/mcp")).is_err());
}

#[test]
fn options_of_the_start_need_another_start_and_others_replace_the_servers() {
    let file = |options: Value| move |folder: &Path| json!({ "serve": options, "mcpServers": { "a": server(folder, "a", &json!({})) } });
    let gateway = Configured::start("options", &[], file(json!({})));
    let session = gateway.open("/a/mcp");
    let pid = session.pid();
    gateway.reload(file(json!({ "listen": "127.0.0.1:1", "allowHost": ["localhost"] })));
    assert!(!gateway.log().contains("listen of the file"), "the command line states where to listen");
    assert_eq!(session.pid(), pid);
    gateway.reload(file(json!({ "maxConnections": 100 })));
    wait_until(|| gateway.log().contains("the option max-connections of the file takes effect when"));
    assert_eq!(session.pid(), pid);
    gateway.reload(file(json!({ "env": { "SETTING": "later" } })));
    wait_until(|| session.send(&request("8", "x", "{}")).code() == 404);
    assert_eq!(member(&gateway.open("/a/mcp").call("x"), "setting"), "later");
}

/// A server that goes on although its stdin was closed is stopped with what it was asked, and costs the others nothing.
#[test]
fn a_server_that_does_not_end_is_killed_after_its_time_to_drain() {
    let file = |last: &'static str| {
        move |folder: &Path| {
            let script = folder.join("server.sh");
            std::fs::write(&script, SERVER).unwrap();
            json!({ "serve": { "drainTimeout": 0.2 }, "mcpServers": { last: { "command": "sh", "args": [script] } } })
        }
    };
    let gateway = Configured::start("stuck", &[], file("before"));
    let session = gateway.open("/before/mcp");
    let mut waiting = gateway.serving.raw.open(&session.post(&request("9", "wait", "{}")));
    gateway.serving.wait_for_error("waits");
    gateway.reload(file("after"));
    let answer = waiting.until(|answer| answer.text().contains("\"error\""));
    assert!(answer.text().contains("\"id\":\"9\"") || answer.text().contains("\"id\":9"), "{}", answer.text());
    assert!(gateway.open("/after/mcp").pid() > 0);
}
