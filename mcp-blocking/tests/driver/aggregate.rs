//! An aggregate of servers in processes.
#![cfg(unix)]

use std::io::{self, BufRead, BufReader, Write};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mcp_blocking::{AggregateProxy, AggregateServer, AggregateStopper, PipeReader, PipeWriter, Proxy, pipe};
use mcp_intermediary::aggregate::{Config, Event};
use mcp_intermediary::relay;
use mcp_proto::client::CloseReason;
use mcp_testkit::messages::{initialize_result, result};
use tests::unread_pipes::MORE_THAN_A_PIPE;

/// A client of an aggregate that runs on a thread.
struct Client {
    to_proxy: Option<PipeWriter>,
    from_proxy: BufReader<PipeReader>,
    stopper: AggregateStopper,
    events: Arc<Mutex<Vec<Event>>>,
    thread: JoinHandle<io::Result<CloseReason>>,
}

impl Client {
    fn of(servers: Vec<(&str, AggregateServer)>) -> Self {
        tests::deadline::set();
        let mut proxy = AggregateProxy::new(Config::new("all", "1.0.0"));
        for (name, server) in servers {
            proxy = proxy.server(name, relay::Config::default(), server);
        }
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        let proxy = proxy.on_event(move |event| seen.lock().expect("no panic").push(event.clone()));
        proxy.check().expect("a configuration");
        let stopper = proxy.stopper();
        let ((from_client, to_proxy), (from_proxy, to_client)) = (pipe(), pipe());
        let thread = thread::spawn(move || proxy.run(from_client, to_client));
        let from_proxy = BufReader::new(from_proxy);
        Self { to_proxy: Some(to_proxy), from_proxy, stopper, events, thread }
    }

    fn send(&mut self, line: &str) {
        let to_proxy = self.to_proxy.as_mut().expect("it is open");
        to_proxy.write_all(format!("{line}\n").as_bytes()).expect("it is read");
    }

    /// The next line that is not a notification.
    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.from_proxy.read_line(&mut line).expect("UTF-8") > 0, "the proxy has ended");
            if line.contains(r#""id":"#) {
                return line;
            }
        }
    }

    /// Waits for a notification with this text.
    fn notified(&mut self, text: &str) {
        loop {
            let mut line = String::new();
            assert!(self.from_proxy.read_line(&mut line).expect("UTF-8") > 0, "the proxy has ended");
            if line.contains(text) {
                return;
            }
        }
    }

    fn open(&mut self) {
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#));
        assert!(self.answer().contains(r#""result""#));
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    fn call(&mut self, tool: &str) -> String {
        let params = format!(r#"{{"name":"{tool}","arguments":{{}}}}"#);
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#));
        self.answer()
    }

    /// The client closes its side; the proxy ends.
    fn close(mut self) -> CloseReason {
        self.to_proxy = None;
        self.thread.join().expect("no panic").expect("it has ended")
    }
}

/// A shell that answers `initialize`, then as many calls as there are lines in `answers`, and exits.
fn shell(name: &str, calls: usize) -> Command {
    let answers = (0..calls).map(|call| {
        let content = format!(r#"{{"content":[{{"type":"text","text":"of {name}"}}]}}"#);
        format!("read -r call; echo '{}';", result(&(call + 2).to_string(), &content))
    });
    let opened = result("1", &initialize_result("2025-11-25"));
    let script = format!("read -r opening; echo '{opened}'; read -r confirmation; {}", answers.collect::<String>());
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

#[test]
fn calls_reach_processes_and_what_is_behind_a_proxy() {
    let mut client = Client::of(vec![
        ("a", AggregateServer::command(|| shell("a", 9))),
        ("b", AggregateServer::proxy(|| Ok(Proxy::child(shell("b", 9), relay::Config::default()).unwrap()))),
    ]);
    client.open();
    for name in ["b", "a", "b"] {
        let answer = client.call(&format!("{name}__x"));
        assert!(answer.contains(&format!("of {name}")), "{answer}");
    }
    assert_eq!(client.close(), CloseReason::Peer);
}

#[test]
fn a_process_that_exits_is_started_again() {
    let mut client = Client::of(vec![("a", AggregateServer::command(|| shell("a", 1)))]);
    client.open();
    for _ in 0..2 {
        assert!(client.call("a__x").contains("of a"));
        client.notified("list_changed");
    }
    let failed =
        client.events.lock().unwrap().iter().filter(|event| matches!(event, Event::ServerFailed { .. })).count();
    assert!(failed >= 2, "{failed}");
    assert_eq!(client.close(), CloseReason::Peer);
}

#[test]
fn an_aggregate_ends_when_its_client_does_not_read_any_more() {
    let mut client = Client::of(vec![("a", AggregateServer::command(|| shell("a", 9)))]);
    client.open();
    let Client { to_proxy, from_proxy, thread, .. } = client;
    drop(from_proxy);
    let mut to_proxy = to_proxy.expect("it is open");
    // The end is noticed at a write.
    let _ = to_proxy.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    assert_eq!(thread.join().expect("no panic").expect("it has ended"), CloseReason::Local);
    drop(to_proxy);
}

#[test]
fn an_aggregate_ends_only_after_its_client_has_read_all() {
    let opened = result("1", &initialize_result("2025-11-25"));
    let script = format!(
        r#"read -r opening; echo '{opened}'; read -r confirmation; read -r call
        printf '{{"jsonrpc":"2.0","id":2,"result":{{"content":[{{"type":"text","text":"'
        head -c {MORE_THAN_A_PIPE} /dev/zero | tr '\0' x; echo '"}}]}}}}'; cat"#
    );
    let server = AggregateServer::command(move || {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&script);
        command
    });
    let mut client = Client::of(vec![("a", server)]);
    client.open();
    client.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__x","arguments":{}}}"#);
    // The answer has begun.
    while !client.from_proxy.fill_buf().unwrap().starts_with(br#"{"jsonrpc":"2.0","id":1"#) {
        let mut line = String::new();
        client.from_proxy.read_line(&mut line).unwrap();
    }
    client.to_proxy = None;
    thread::sleep(Duration::from_millis(200));
    assert!(!client.thread.is_finished());
    assert!(client.answer().len() > MORE_THAN_A_PIPE);
    assert_eq!(client.close(), CloseReason::Peer);
}

#[test]
fn a_program_that_cannot_be_started_delays_nothing() {
    let mut client = Client::of(vec![
        ("a", AggregateServer::command(|| Command::new("/no/such/server"))),
        ("b", AggregateServer::command(|| shell("b", 9))),
    ]);
    client.open();
    let answer = client.call("a__x");
    assert!(
        answer.contains("the server 'a' could not be started: its command was not found; it is started again in"),
        "{answer}"
    );
    assert!(client.call("b__x").contains("of b"));
    client.stopper.stop();
    assert_eq!(client.thread.join().expect("no panic").expect("it has ended"), CloseReason::Local);
}
