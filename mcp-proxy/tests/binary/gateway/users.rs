//! Two users of a gateway, with a token each: nothing of one reaches the other, whatever their revisions, those of the servers
//! and the way to them.

use std::path::Path;
use std::process::Command;

use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::request;
use mcp_testkit::waiting::wait_until;

use super::serving::{Asks, Serving, folder, gateway};

/// A server that shows in each answer the marks of all calls that this process has received. With the argument `modern`, it
/// is of 2026-07-28.
const SERVER: &str = r#"
while read -r line; do
    case "$line" in *'"id":'*) ;; *) continue ;; esac
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    unknown='"error":{"code":-32601,"message":"unknown"}'
    case "$line" in
        *'"server/discover"'*) opened='{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}'
            if [ "$1" = modern ]; then answer="\"result\":$opened"; else answer=$unknown; fi ;;
        *'"initialize"'*) opened='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
            if [ "$1" = modern ]; then answer=$unknown; else answer="\"result\":$opened"; fi ;;
        *'"tools/list"'*) answer='"result":{"resultType":"complete","tools":[{"name":"keep","inputSchema":{"type":"object"}}]}' ;;
        *'"tools/call"'*) mark=${line#*mark-of-}; marks="$marks mark-of-${mark%%[!a-z]*}"
            answer="\"result\":{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"$marks, for user $MCP_USER\"}]}" ;;
        *) answer=$unknown ;;
    esac
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$answer}"
done
"#;

/// What is behind a gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behind {
    Legacy,
    Modern,
    /// Two servers of different revisions as one.
    Several,
    /// A server that begins with `initialize`, over HTTP.
    Remote,
}

fn script(folder: &Path) -> String {
    let path = folder.join("server.sh");
    std::fs::write(&path, SERVER).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A gateway for ada and bob, and what must live as long.
fn serving(behind: Behind, share: &str) -> (Serving, Option<Serving>) {
    let folder = folder(&format!("users-{share}-{behind:?}"));
    let script = script(&folder);
    let mut options = vec!["--share", share, "--token-env", "ada=TOKEN_A", "--token-env", "bob=TOKEN_B"];
    let is_remote = behind == Behind::Remote;
    if share != "all" && !is_remote {
        options.extend(["--user-env", "MCP_USER"]);
    }
    let tokens = |mut command: Command| {
        command.envs([("TOKEN_A", "token-of-ada"), ("TOKEN_B", "token-of-bob")]);
        Serving::spawn(command)
    };
    let (one, two) = (format!("one=sh '{script}'"), format!("two=sh '{script}' modern"));
    let config = folder.join("servers.json");
    let remote = is_remote.then(|| Serving::spawn(gateway(&["--", "sh", &script])));
    let last = match behind {
        Behind::Legacy => vec!["--", "sh", &script],
        Behind::Modern => vec!["--", "sh", &script, "modern"],
        Behind::Several => vec!["--name", &one, "--name", &two],
        Behind::Remote => {
            let url = remote.as_ref().unwrap().announced.split_whitespace().find(|word| word.starts_with("http://"));
            let text = format!(r#"{{"mcpServers":{{"far":{{"url":"{}"}}}}}}"#, url.unwrap());
            std::fs::write(&config, text).unwrap();
            vec!["--config", config.to_str().unwrap()]
        }
    };
    options.extend(last);
    (tokens(gateway(&options)), remote)
}

#[test]
fn nothing_of_a_user_reaches_another_unless_all_share_a_process() {
    for behind in [Behind::Legacy, Behind::Modern, Behind::Several, Behind::Remote] {
        for share in ["session", "principal", "all"] {
            let (serving, _remote) = serving(behind, share);
            let path = if behind == Behind::Remote { "/far/mcp" } else { "/mcp" };
            let tools: &[&str] = if behind == Behind::Several { &["one__keep", "two__keep"] } else { &["keep"] };
            let mut seen_by_all = true;
            for tool in tools {
                let stateless = |user: &str| {
                    let token = format!("token-of-{user}");
                    let call =
                        TestRequest::stateless_call("7", tool, &format!(r#""arguments":{{"m":"mark-of-{user}"}},"#));
                    serving.raw.answer(&Asks { path, token: Some(&token) }.request(call)).text()
                };
                let in_session = |user: &str| {
                    let token = format!("token-of-{user}");
                    let session = serving.open(Asks { path, token: Some(&token) }).unwrap();
                    let params = format!(r#"{{"name":"{tool}","arguments":{{"m":"mark-of-{user}"}}}}"#);
                    session.send(&request("7", "tools/call", &params)).text()
                };
                let what = format!("{behind:?}, {share}, {tool}");
                for (user, other) in [("ada", "bob"), ("bob", "ada"), ("ada", "bob")] {
                    let mut answers = vec![in_session(user), stateless(user)];
                    // Clients that can open a session do so.
                    if behind == Behind::Legacy && share == "session" {
                        let refused = answers.pop().unwrap();
                        assert!(refused.contains("-32022"), "{what}: {refused}");
                    }
                    for answer in answers {
                        assert!(answer.contains(&format!("mark-of-{user}")), "{what}: {answer}");
                        let is_other_seen = answer.contains(&format!("mark-of-{other}"));
                        assert!(share == "all" || !is_other_seen, "{what}: {answer}");
                        seen_by_all &= is_other_seen || user == "ada";
                        let expected = if share == "all" || behind == Behind::Remote { "" } else { user };
                        assert!(answer.contains(&format!("for user {expected}\"")), "{what}: {answer}");
                    }
                }
            }
            assert_eq!(seen_by_all, share == "all", "{behind:?}, {share}");
        }
    }
}

#[test]
fn it_is_stated_at_the_start_for_which_servers_the_user_is_not_known() {
    let config = folder("users-warning").join("servers.json");
    std::fs::write(&config, r#"{"mcpServers":{"far":{"url":"http://127.0.0.1:9/mcp"},"near":{"command":"cat"}}}"#)
        .unwrap();
    let config = config.to_str().unwrap();
    let mut command = gateway(&["--token-env", "ada=TOKEN_A", "--user-env", "MCP_USER", "--config", config]);
    command.env("TOKEN_A", "token-of-ada");
    let serving = Serving::spawn_after_warnings(command);
    let warned = serving.warnings.join("\n");
    assert!(warned.contains("--user-env MCP_USER has no effect for the remote server far"), "{warned}");
    assert!(!warned.contains("near"), "{warned}");
}

#[test]
fn each_request_is_a_line_of_the_log_with_its_user_and_without_its_payload() {
    let folder = folder("users-log");
    let (script, log) = (script(&folder), folder.join("log"));
    let (named, file) = (format!("files=sh '{script}'"), log.to_str().unwrap());
    let users = ["--token-env", "ada=TOKEN_A", "--token-env", "bob=TOKEN_B"];
    let log_options = ["--log-level", "info", "--log-format", "json", "--log-file", file];
    let mut command = gateway(&[&users[..], &log_options, &["--name", &named]].concat());
    command.envs([("TOKEN_A", "token-of-ada"), ("TOKEN_B", "token-of-bob")]);
    let serving = Serving::spawn(command);
    let mut ids = Vec::new();
    for user in ["ada", "bob"] {
        let token = format!("token-of-{user}");
        let session = serving.open(Asks { path: "/files/mcp", token: Some(&token) }).unwrap();
        let trace = format!("00-{:032x}-00f067aa0ba902b7-01", 4711);
        let params =
            format!(r#"{{"name":"keep","arguments":{{"m":"mark-of-{user}"}},"_meta":{{"traceparent":"{trace}"}}}}"#);
        assert!(session.send(&request("7", "tools/call", &params)).text().contains("mark-of-"));
        session.send(&request("8", "prompts/get", r#"{"name":"none"}"#));
        ids.push(session.id.clone());
    }
    assert_eq!(serving.end("TERM").0, Some(0));
    let log = std::fs::read_to_string(&log).unwrap();
    for secret in ["mark-of-", "token-of-", &ids[0], &ids[1]] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for user in ["ada", "bob"] {
        let of_user = |line: &&serde_json::Value| line["user.id"] == user && line["message"] == "a request ended";
        let of_user: Vec<_> = lines.iter().filter(of_user).collect();
        let ended: Vec<_> =
            of_user.iter().map(|line| [&line["mcp.method.name"], &line["outcome"], &line["server"]]).collect();
        let expected = [["initialize", "result"], ["tools/call", "result"], ["prompts/get", "error"]];
        assert_eq!(ended, expected.map(|[method, outcome]| [method, outcome, "files"]), "{log}");
        let call = of_user[1];
        assert_eq!((&call["gen_ai.tool.name"], &call["level"]), (&"keep".into(), &"info".into()));
        assert_eq!(call["trace_id"], format!("{:032x}", 4711));
        assert!(call["duration"].as_f64().unwrap() > 0.0 && call["request.bytes"].as_u64().unwrap() > 50, "{call}");
        assert_eq!(of_user[2]["error.type"], -32601);
        assert!(call["time"].as_str().unwrap().ends_with('Z'));
    }
}

#[test]
fn an_audit_goes_on_in_a_new_file_after_sighup() {
    let folder = folder("users-audit");
    let (script, file, old) = (script(&folder), folder.join("audit"), folder.join("audit.1"));
    let log = folder.join("log");
    let mut command =
        gateway(&["--token-env", "ada=TOKEN_A", "--audit", file.to_str().unwrap(), "--log-level", "info"]);
    command.args(["--log-file", log.to_str().unwrap(), "--", "sh", &script]).env("TOKEN_A", "token-of-ada");
    let serving = Serving::spawn(command);
    let session = serving.open(Asks { path: "/mcp", token: Some("token-of-ada") }).unwrap();
    let call =
        |id: &str| session.send(&request(id, "tools/call", r#"{"name":"keep","arguments":{"m":"mark-of-ada"}}"#));
    call("7");
    let lines = |path: &Path| std::fs::read_to_string(path).unwrap_or_default().lines().count();
    wait_until(|| lines(&file) == 2);
    std::fs::rename(&file, &old).unwrap();
    std::fs::rename(&log, folder.join("log.1")).unwrap();
    let pid = serving.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    wait_until(|| file.exists());
    call("8");
    wait_until(|| lines(&file) == 1 && lines(&log) > 0);
    assert_eq!(lines(&old), 2);
    for path in [&file, &old] {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(r#""user.id":"ada""#) && text.contains(r#""outcome":"result""#), "{text}");
        assert!(!text.contains("mark-of") && !text.contains("token-of") && !text.contains(&session.id), "{text}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_gateway_that_must_record_serves_nothing_while_the_disk_is_full() {
    for (options, code) in [(&[][..], 200), (&["--audit-required"], 503)] {
        let script = script(&folder(&format!("users-full-{code}")));
        let mut command = gateway(&[&["--metrics", "--audit", "/dev/full"], options, &["--", "sh", &script]].concat());
        command.env("X", "y");
        let serving = Serving::spawn(command);
        // The first request is served, and cannot be recorded.
        let ask = || serving.raw.answer(&TestRequest::post(initialize("2025-11-25"))).code();
        assert_eq!(ask(), 200);
        wait_until(|| serving.page("/metrics").contains("mcp_proxy_audit_lost_total 1"));
        assert_eq!(ask(), code, "{options:?}");
        serving.wait_for_error("--audit /dev/full: ");
    }
}

#[test]
fn clients_cannot_fill_the_log() {
    let log = folder("users-flood").join("log");
    let options = ["--metrics", "--log-level", "info", "--log-file", log.to_str().unwrap(), "--", "cat"];
    let serving = Serving::spawn(gateway(&options));
    for _ in 0..200 {
        let foreign = TestRequest::post(initialize("2025-11-25")).with("origin", "https://evil.example");
        assert_eq!(serving.raw.answer(&foreign).code(), 403);
    }
    assert!(serving.page("/metrics").contains(r#"mcp_proxy_refusals_total{server="/mcp",status="403"} 200"#));
    serving.end("TERM");
    let lines = std::fs::read_to_string(&log).unwrap().lines().count();
    assert!((20..50).contains(&lines), "{lines}");
}
