//! The names of the tools of several servers that are one, and which of them are listed.

use std::path::Path;

use mcp_testkit::messages::request;

use super::serving::{SERVER, Serving, folder, gateway, member};

/// The path of a script for a server with the tools `pid` and `danger`.
fn with_tools(folder: &Path) -> String {
    let tools = r#"*'"tools/list"'*) result='{"tools":[{"name":"pid","description":"Number of the process","inputSchema":{}},{"name":"danger","inputSchema":{}}]}' ;;
        *'"wait"'*)"#;
    let capable =
        SERVER.replace(r#"*'"wait"'*)"#, tools).replace(r#""capabilities":{}"#, r#""capabilities":{"tools":{}}"#);
    let path = folder.join("tools.sh");
    std::fs::write(&path, capable).unwrap();
    path.display().to_string()
}

#[test]
fn the_file_states_what_names_begin_with() {
    let folder = folder("names");
    let script = with_tools(&folder);
    let server = |prefix: serde_json::Value| serde_json::json!({ "command": "sh", "args": [script], "prefix": prefix });
    let file = folder.join("servers.json");
    let servers =
        serde_json::json!({ "alpha": server(false.into()), "beta": server("".into()), "github": server("gh".into()) });
    std::fs::write(&file, serde_json::json!({ "mcpServers": servers }).to_string()).unwrap();
    let serving = Serving::spawn(gateway(&["--config", file.to_str().unwrap()]));
    let session = serving.session();
    let listed = session.call("tools/list");
    for (name, is_there) in
        [("\"pid\"", true), ("\"gh__pid\"", true), ("alpha__", false), ("beta__", false), ("github__", false)]
    {
        assert_eq!(listed.contains(name), is_there, "{name}: {listed}");
    }
    assert_eq!(listed.matches("\"pid\"").count(), 1, "the second server is left out: {listed}");
    serving.wait_for_error("the server beta (`sh`) answers tools/list with names of the server alpha (`sh`)");
    let call = |name: &str| {
        session.send(&request("3", "tools/call", &format!(r#"{{"name":"{name}","arguments":{{}}}}"#))).text()
    };
    let pids = ["pid", "gh__pid", "beta__pid"].map(|name| member(&call(name), "pid"));
    assert!(pids[0] != pids[1] && pids[0] != pids[2] && pids[1] != pids[2], "{pids:?}");
    assert_eq!(member(&call("pid"), "pid"), pids[0]);
    assert!(call("github__pid").contains("error"));

    let wrong = serde_json::json!({ "a": server("gh".into()), "b": server("gh".into()) });
    std::fs::write(&file, serde_json::json!({ "mcpServers": wrong }).to_string()).unwrap();
    let output = gateway(&["--check-config", "--config", file.to_str().unwrap()]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && errors.contains("the servers 'a' and 'b' have the same prefix 'gh'"),
        "{errors}"
    );
}

#[test]
fn lazy_tools_are_found_by_a_search_and_called_by_another_tool() {
    let folder = folder("lazy");
    let script = with_tools(&folder);
    let pins = folder.join("pins");
    let [one, two] = ["one", "two"].map(|name| format!("{name}=sh '{script}'"));
    let options = ["--deny-tool", "dang*", "--pin", pins.to_str().unwrap(), "--name", &one, "--name", &two];
    let serving = Serving::spawn(gateway(&[&options[..], &["--lazy-tools", "two__*"]].concat()));
    let session = serving.session();
    let listed = session.call("tools/list");
    for (name, is_there) in [
        ("\"search_tools\"", true),
        ("\"call_tool\"", true),
        ("\"two__pid\"", true),
        ("one__pid", false),
        ("danger", false),
    ] {
        assert_eq!(listed.contains(name), is_there, "{name}: {listed}");
    }
    let call = |name: &str, arguments: &str| {
        let params = format!(r#"{{"name":"{name}","arguments":{arguments}}}"#);
        session.send(&request("3", "tools/call", &params)).text()
    };
    let found = call("search_tools", r#"{"query":"process number danger"}"#);
    assert!(found.contains("one__pid") && found.contains("two__pid") && !found.contains("danger"), "{found}");
    let [one, two] = ["one", "two"]
        .map(|server| member(&call("call_tool", &format!(r#"{{"name":"{server}__pid","arguments":{{}}}}"#)), "pid"));
    assert_ne!(one, two);
    assert_eq!(member(&call("one__pid", "{}"), "pid"), one, "its name works, too");
    for denied in ["one__danger", "one__other", "pid"] {
        let answer = call("call_tool", &format!(r#"{{"name":"{denied}"}}"#));
        assert!(answer.contains("isError") && answer.contains("search_tools finds"), "{denied}: {answer}");
    }
    // The pins are those of the servers.
    for (name, is_there) in [("pins.one", true), ("pins.two", true), ("pins", false)] {
        assert_eq!(folder.join(name).exists(), is_there, "{name}");
    }
    assert!(std::fs::read_to_string(folder.join("pins.one")).unwrap().contains("\"pid\""));

    let output = gateway(&["--lazy-tools", "--", "sh"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && errors.contains("--lazy-tools needs several servers"), "{errors}");
}
