//! What the operator of a gateway sees and configures: the log, the audit, and the file with the servers.

use std::path::Path;
use std::process::Command;

use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::request;
use mcp_testkit::waiting::wait_until;

use super::serving::{Asks, Serving, folder, gateway};
use super::users::script;

#[test]
fn each_request_is_a_line_of_the_log_with_its_user_and_without_its_payload() {
    let folder = folder("operator-log");
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
    let folder = folder("operator-audit");
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
        let script = script(&folder(&format!("operator-full-{code}")));
        let mut command = gateway(&[&["--metrics", "--audit", "/dev/full"], options, &["--", "sh", &script]].concat());
        command.env("X", "y");
        let serving = Serving::spawn(command);
        // The first request is served, and cannot be recorded.
        let ask = || serving.raw.answer(&TestRequest::post(initialize("2025-11-25"))).code();
        assert_eq!(ask(), 200);
        wait_until(|| serving.page("/metrics").contains("mcp_proxy_audit_lost_total 1"));
        assert_eq!(ask(), code, "{options:?}");
        let is_counted = serving.page("/metrics").contains(r#"mcp_proxy_refusals_total{server="/mcp",status="503"} 1"#);
        assert_eq!(is_counted, code == 503);
        serving.wait_for_error("--audit /dev/full: ");
    }
}

#[test]
fn clients_cannot_fill_the_log() {
    let log = folder("operator-flood").join("log");
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

/// The file of a configuration in which clients may not use the tool of the server.
fn restricted(folder: &Path, command: &str) -> String {
    let file = folder.join("servers.json");
    let server = serde_json::json!({ "command": "sh", "args": [script(folder)], "disabledTools": ["keep"] });
    let other = serde_json::json!({ "command": command, "args": [script(folder)] });
    std::fs::write(&file, serde_json::json!({ "mcpServers": { "one": server, "two": other } }).to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_tool_that_the_file_disables_for_one_server_is_gone_at_each_path() {
    let folder = folder("operator-disabled");
    let serving = Serving::spawn(gateway(&["--config", &restricted(&folder, "sh")]));
    let call =
        |name: &str| request("2", "tools/call", &format!(r#"{{"name":"{name}","arguments":{{"m":"mark-of-ada"}}}}"#));
    for (path, listed, refused, served) in [
        ("/one/mcp", &[][..], Some("keep"), None),
        ("/two/mcp", &["\"keep\""], None, Some("keep")),
        ("/mcp", &["\"two__keep\""], Some("one__keep"), Some("two__keep")),
    ] {
        let session = serving.open(Asks::at(path)).unwrap();
        let tools = session.send(&request("1", "tools/list", "{}")).text();
        for name in ["\"keep\"", "\"one__keep\"", "\"two__keep\""] {
            assert_eq!(tools.contains(name), listed.contains(&name), "{path}: {tools}");
        }
        if let Some(name) = refused {
            let answer = session.send(&call(name)).text();
            assert!(answer.contains("\"error\"") && !answer.contains("mark-of"), "{path}: {answer}");
        }
        if let Some(name) = served {
            assert!(session.send(&call(name)).text().contains("mark-of-ada"), "{path}");
        }
    }
}

#[test]
fn a_configuration_is_checked_without_being_served() {
    let folder = folder("operator-check");
    let check = |command: &str, options: &[&str]| {
        let file = restricted(&folder, command);
        let output = gateway(&[&["--check-config", "--config", &file], options].concat()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, printed, _) = check("sh", &[]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("/one/mcp the server one (`sh`): fine\n"), "{printed}");
    let (code, printed, _) = check("no-such-program", &[]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("/two/mcp the server two (`no-such-program`): its command was not found"), "{printed}");
    let (code, printed, errors) = check("sh", &["--share", "principal"]);
    assert!(code == Some(2) && printed.is_empty() && errors.contains("--share principal needs"), "{errors}");
}
