//! Two users of a gateway, with a token each: nothing of one reaches the other, whatever their revisions, those of the servers
//! and the way to them.

use std::path::Path;
use std::process::Command;

use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::messages::request;

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

pub(super) fn script(folder: &Path) -> String {
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
