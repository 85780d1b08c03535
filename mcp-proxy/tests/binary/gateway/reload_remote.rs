//! The headers and certificates of a remote server change while sessions use it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_testkit::loopback_server::{LoopbackServer, mcp_server};
use mcp_testkit::messages::{request, result};
use mcp_testkit::waiting::wait_until;
use serde_json::{Value, json};

use super::reload::{Configured, called};
use super::serving::{Asks, Session, member, script};
use crate::authority;

/// A remote server with a tool `slow` that answers, and a stream that ends, once `is_released`.
fn remote(is_released: &Arc<AtomicBool>) -> LoopbackServer {
    let (of_call, of_stream) = (Arc::clone(is_released), Arc::clone(is_released));
    let answer = mcp_server(move |asked, connection| {
        if asked.method == "tools/list" {
            let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
            let tools = json!({ "tools": [tool("one"), tool("slow")] });
            return connection.json(result(&asked.id, &tools.to_string()));
        }
        if asked.params.contains(r#""slow""#) {
            wait_until(|| of_call.load(Ordering::SeqCst));
        }
        connection.json(result(&asked.id, r#"{"content":[],"answer":"far"}"#))
    });
    LoopbackServer::start(move |request, connection| {
        if !request.line.starts_with("GET /mcp") {
            return answer(request, connection);
        }
        connection.begin_events()?;
        connection.chunk("id: 1\nretry: 10\ndata:\n\n")?;
        wait_until(|| of_stream.load(Ordering::SeqCst));
        connection.finish()
    })
}

/// A file with the remote server, and another one, so that there are all servers as one.
fn file(url: &str, headers: Value) -> impl FnOnce(&Path) -> Value + use<> {
    let url = url.to_owned();
    move |folder: &Path| {
        let near = json!({ "command": "sh", "args": [script(folder)] });
        json!({ "mcpServers": { "far": { "url": url, "headers": headers }, "near": near } })
    }
}

fn key(key: &str) -> Value {
    json!({ "X-Key": key })
}

/// The lines and keys of what a server has received since this number of requests.
fn received(remote: &LoopbackServer, since: usize) -> Vec<(String, String)> {
    let requests = remote.requests().into_iter().skip(since);
    requests.map(|request| (request.line.clone(), request.header("x-key").to_owned())).collect()
}

fn is_answered(session: &Session<'_>, tool: &str) -> bool {
    called(session, "5", tool).contains(r#""answer":"far""#)
}

#[test]
fn sessions_of_a_remote_server_go_on_with_changed_headers() {
    let is_released = Arc::new(AtomicBool::new(false));
    let remote = remote(&is_released);
    let gateway = Configured::start("headers", &[], file(&remote.url(), key("earlier-key")));
    let [own, all, near] = ["/far/mcp", "/mcp", "/near/mcp"].map(|path| gateway.open(path));
    let of_both = |tool: &str| is_answered(&own, tool) && is_answered(&all, &format!("far__{tool}"));
    assert!(of_both("one"));
    let pid = near.pid();
    let streams = |since| received(&remote, since).iter().filter(|(line, _)| line.starts_with("GET /mcp")).count();
    wait_until(|| streams(0) == 2);
    // Calls in progress are answered to the earlier key.
    let slow = |session: &Session<'_>, name: &str| {
        let call = request("9", "tools/call", &format!(r#"{{"name":"{name}"}}"#));
        gateway.serving.raw.open(&session.post(&call))
    };
    let mut slow = [slow(&own, "slow"), slow(&all, "far__slow")];
    wait_until(|| remote.asked().iter().filter(|asked| asked.params.contains("slow")).count() == 2);
    let before = remote.requests().len();
    assert!(received(&remote, 0).iter().all(|(_, key)| key == "earlier-key"), "{:?}", received(&remote, 0));

    gateway.reload(file(&remote.url(), key("later-key")));
    assert!(of_both("one"));
    assert_eq!(near.pid(), pid);
    is_released.store(true, Ordering::SeqCst);
    for slow in &mut slow {
        slow.until(|answer| answer.text().contains(r#""answer":"far""#));
    }
    wait_until(|| streams(before) >= 2);
    own.delete();
    all.delete();
    let ends = || received(&remote, before).iter().filter(|(line, _)| line.starts_with("DELETE")).count();
    wait_until(|| ends() == 2);
    let after = received(&remote, before);
    assert!(after.iter().all(|(_, key)| key == "later-key"), "{after:?}");
    let opened = remote.asked().iter().filter(|asked| asked.method == "initialize").count();
    assert_eq!(opened, 2, "the sessions at the remote server are the same");
    wait_until(|| gateway.log().contains("servers: 3, of which keep their processes: 3"));
    assert!(!gateway.log().contains("-key"), "{}", gateway.log());
    // Sessions that are opened later have it, too.
    let before = remote.requests().len();
    assert!(is_answered(&gateway.open("/far/mcp"), "one") && is_answered(&gateway.open("/mcp"), "far__one"));
    assert!(received(&remote, before).iter().all(|(_, key)| key == "later-key"));
}

#[test]
fn a_refused_file_changes_no_header_and_the_next_one_is_compared_with_what_is_in_force() {
    let is_released = Arc::new(AtomicBool::new(true));
    let remote = remote(&is_released);
    let gateway = Configured::start("headers-refused", &[], file(&remote.url(), key("key-1")));
    let sessions = ["/far/mcp", "/mcp"].map(|path| gateway.open(path));
    let uses = |expected: &str| {
        let before = remote.requests().len();
        let is_fine = is_answered(&sessions[0], "one") && is_answered(&sessions[1], "far__one");
        let calls: Vec<_> =
            received(&remote, before).into_iter().filter(|(line, _)| line.starts_with("POST")).collect();
        is_fine && calls.len() >= 2 && calls.iter().all(|(_, key)| key == expected)
    };
    assert!(uses("key-1"));
    for (number, text) in [
        json!({ "X-Key": "key-2", "Mcp-Session-Id": "x" }),
        json!({ "X-Key": "${NO_SUCH_VARIABLE}" }),
        json!({ "X-Key": "key-2\n" }),
    ]
    .into_iter()
    .enumerate()
    {
        gateway.write(&file(&remote.url(), text)(&gateway.folder).to_string());
        gateway.hang_up();
        gateway.wait_for_reload("failure", number as u64 + 1);
        assert!(uses("key-1"));
    }
    for key_of_round in ["key-3", "key-3", "key-4", "key-1"] {
        gateway.reload(file(&remote.url(), key(key_of_round)));
        assert!(uses(key_of_round), "{key_of_round}");
    }
    // All servers as one are others, while the remote one goes on.
    let text = |more: &'static str| {
        let file = file(&remote.url(), key(more));
        move |folder: &Path| {
            let mut all = file(folder);
            all["mcpServers"]["third"] = json!({ "command": "sh", "args": [script(folder)] });
            all
        }
    };
    gateway.reload(text("key-5"));
    let all = gateway.open("/mcp");
    for key_of_round in ["key-5", "key-6"] {
        gateway.reload(text(key_of_round));
        let before = remote.requests().len();
        assert!(is_answered(&sessions[0], "one") && is_answered(&all, "far__one"));
        let calls = received(&remote, before);
        let calls: Vec<_> = calls.into_iter().filter(|(line, _)| line.starts_with("POST")).collect();
        assert!(calls.len() >= 2 && calls.iter().all(|(_, key)| key == key_of_round), "{calls:?}");
    }
}

#[test]
fn another_url_or_an_authorization_header_makes_a_remote_server_another_one() {
    let is_released = Arc::new(AtomicBool::new(true));
    let remote = remote(&is_released);
    let authorized = |value: &str| json!({ "Authorization": value });
    let gateway = Configured::start("other-remote", &[], file(&remote.url(), json!({})));
    for (query, headers, is_kept) in [
        ("", authorized("Bearer token-1"), false),
        ("", authorized("Bearer token-2"), true),
        ("?x=1", authorized("Bearer token-2"), false),
        ("?x=1", json!({}), false),
    ] {
        let sessions = ["/far/mcp", "/mcp"].map(|path| gateway.open(path));
        gateway.reload(file(&format!("{}{query}", remote.url()), headers.clone()));
        if is_kept {
            assert!(is_answered(&sessions[0], "one") && is_answered(&sessions[1], "far__one"));
            assert_eq!(remote.requests().last().unwrap().header("authorization"), "Bearer token-2");
        } else {
            for session in &sessions {
                wait_until(|| session.send(&request("8", "x", "{}")).code() == 404);
            }
        }
    }
}

#[test]
fn sessions_of_a_remote_server_go_on_with_changed_certificates() {
    let (ours, others) = (authority::Authority::new(), authority::Authority::new());
    let remote = authority::server(&ours, true);
    let write = |folder: &Path, trusted: &authority::Authority, issuer: &authority::Authority| {
        let identity = issuer.issue("client");
        for (name, text) in [("ca.pem", trusted.pem()), ("client.pem", identity.certificate), ("key.pem", identity.key)]
        {
            std::fs::write(folder.join(name), text).unwrap();
        }
    };
    let options = |folder: &Path| {
        let path = |name: &str| folder.join(name);
        let options =
            json!({ "caFile": path("ca.pem"), "clientCert": path("client.pem"), "clientKey": path("key.pem") });
        let mut all = file(&authority::url(&remote), json!({}))(folder);
        all["serve"] = options;
        all
    };
    let gateway = Configured::start("certificates", &[], |folder| {
        write(folder, &ours, &ours);
        options(folder)
    });
    let sessions = ["/far/mcp", "/mcp"].map(|path| gateway.open(path));
    let lists = |session: &Session<'_>| session.send(&request("7", "tools/list", "{}")).text();
    // With a certificate that the server does not accept, or to a server that is not trusted, no request is answered.
    let of_far = || lists(&sessions[0]);
    assert!(of_far().contains("tools"), "{}", of_far());
    for (trusted, issuer, is_fine) in
        [(&ours, &others, false), (&ours, &ours, true), (&others, &ours, false), (&ours, &ours, true)]
    {
        write(&gateway.folder, trusted, issuer);
        let before = remote.connections();
        gateway.reload(options);
        let answer = of_far();
        assert_eq!(answer.contains("tools"), is_fine, "{answer}");
        assert!(!called(&sessions[1], "5", "near__x").is_empty());
        assert!(remote.connections() > before, "the earlier connection is not used again");
    }
    std::fs::write(gateway.folder.join("ca.pem"), "no certificate").unwrap();
    gateway.hang_up();
    gateway.wait_for_reload("failure", 1);
    assert!(of_far().contains("tools"));
    assert!(gateway.serving.open(Asks::at("/far/mcp")).is_ok());
    let answer = sessions[1].send(&request("6", "ping", "{}")).text();
    assert!(answer.contains("result"), "{answer}");
    assert!(member(&gateway.open("/near/mcp").call("x"), "pid").parse::<u32>().is_ok());
}
