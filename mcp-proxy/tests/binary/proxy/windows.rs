//! What is different on Windows: how programs are found and given their arguments, how processes end, and lines.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_proto::Json;
use mcp_testkit::loopback_server::echo_server;
use mcp_testkit::messages::{initialize, request, result};
use tests::ending_servers::runs;

use super::programs::scripted;
use crate::editor::{Proxy, command};

/// Arguments that `cmd.exe` or the parser of a command line could change.
const ARGUMENTS: [&str; 9] =
    ["two words", "a \"quoted\" word", r"C:\a folder\", "a&b", "a|b>c", "100%", "%PATH%", "a^b!", "ü→"];

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("windows").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A proxy to `NAME.cmd` in a folder of `PATH`, as npm installs servers. The name has no ending.
fn by_name(name: &str, steps: &[&str]) -> Command {
    let folder = folder(name);
    let program = tests::examples::example("scripted_behind_proxy");
    let script = format!("@echo off\r\n\"{}\" %*\r\n", program.get_program().to_str().unwrap());
    std::fs::write(folder.join(format!("{name}.cmd")), script).unwrap();
    let mut proxy = command(&["--", name]);
    let path =
        std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));
    proxy.args(steps).env("PATH", path.unwrap());
    proxy
}

/// The words that the server has printed before it ended.
fn printed(command: Command) -> Vec<String> {
    let mut proxy = Proxy::spawn(command);
    proxy.end_input();
    proxy.wait();
    let text = |line: String| Json::parse(line).ok().and_then(|word| word.as_string().map(Cow::into_owned));
    proxy.errors().into_iter().filter_map(text).collect()
}

#[test]
fn a_cmd_file_is_found_by_its_name_without_an_ending() {
    let mut proxy = Proxy::spawn(by_name("a-server", &["session"]));
    proxy.open().unwrap();
    let answer = proxy.call("pid").unwrap();
    assert!(answer.first_member("pid").is_some(), "{}", answer.to_text());
    proxy.end_input();
    assert!(proxy.wait().0.success());
    assert_eq!(proxy.errors(), [] as [&str; 0]);
}

#[test]
fn arguments_arrive_as_they_are() {
    let steps = [&["arguments"], &ARGUMENTS[..]].concat();
    assert_eq!(printed(scripted(&[], &steps)), ARGUMENTS);
}

#[test]
fn arguments_of_a_cmd_file_arrive_as_they_are() {
    let arguments: Vec<_> = ARGUMENTS.into_iter().filter(|argument| !argument.contains('%')).collect();
    let steps = [&["arguments"], &arguments[..]].concat();
    assert_eq!(printed(by_name("with-arguments", &steps)), arguments);
}

#[test]
fn percent_signs_reach_a_cmd_file_as_they_are() {
    let steps = [&["arguments"], &ARGUMENTS[..]].concat();
    assert_eq!(printed(by_name("with-percent-signs", &steps)), ARGUMENTS);
}

#[test]
fn nothing_is_left_of_a_server_and_what_it_has_started_when_the_proxy_is_terminated() {
    for command in [scripted(&[], &["session"]), by_name("terminated", &["session"])] {
        let mut proxy = Proxy::spawn(command);
        proxy.open().unwrap();
        let pid = |answer: Json| answer.first_member("pid").unwrap().to_text().parse::<u32>().unwrap();
        let (server, started) = (pid(proxy.call("pid").unwrap()), pid(proxy.call("fork").unwrap()));
        assert!(runs(server) && runs(started));
        proxy.child.kill().unwrap();
        proxy.child.wait().unwrap();
        // Each remaining process holds this stderr open, so this also waits until all of them have ended.
        proxy.errors();
        assert!(!runs(server) && !runs(started));
    }
}

#[test]
fn nothing_is_left_of_a_server_and_what_it_has_started_when_the_input_ends() {
    for command in [scripted(&[], &["session"]), by_name("ended", &["session"])] {
        let mut proxy = Proxy::spawn(command);
        proxy.open().unwrap();
        proxy.call("fork").unwrap();
        proxy.end_input();
        assert!(proxy.wait().0.success());
        proxy.errors();
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let server = echo_server();
    let (mut proxy, stdout) = Proxy::spawn_unread(&mut command(&[&server.url()]));
    let mut stdout = BufReader::new(stdout);
    proxy.write(&initialize("0", "2025-11-25"));
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    proxy.write(&request("1", "tools/call", "{}"));
    assert_eq!(proxy.wait().0.code(), Some(0));
    assert_eq!(proxy.errors(), [] as [&str; 0]);
}

#[test]
fn lines_are_utf_8_and_end_with_a_line_feed() {
    let server = echo_server();
    let (mut proxy, mut stdout) = Proxy::spawn_unread(&mut command(&[&server.url()]));
    proxy.write(&initialize("0", "2025-11-25"));
    let params = r#"{"text":"grün → 緑 🌿"}"#;
    proxy.write(&request("1", "tools/call", params));
    proxy.end_input();
    let mut bytes = Vec::new();
    stdout.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(!text.contains('\r') && text.ends_with('\n'), "{text:?}");
    assert!(text.lines().any(|line| line == result("1", params)), "{text}");
}

#[test]
fn a_log_file_is_written_with_line_feeds() {
    let server = echo_server();
    let log = folder("log").join("proxy.log");
    let lengths = [1, 2].map(|_| {
        let mut proxy = Proxy::start(&["--log-file", log.to_str().unwrap(), "--log-level", "debug", &server.url()]);
        proxy.initialize();
        proxy.end_input();
        assert!(proxy.wait().0.success());
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(!text.contains('\r') && text.ends_with('\n'), "{text}");
        text.len()
    });
    assert!(lengths[0] > 0 && lengths[1] > 0, "{lengths:?}");
}
