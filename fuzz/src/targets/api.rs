//! Any public call, in any order: nothing panics, each request that a machine accepted ends once, and nothing is
//! written to an exchange whose response is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_intermediary::relay;
use mcp_intermediary::relay::Relay;
use mcp_proto::client::{self, Call, Client, Failure, HttpConfig, Opening};
use mcp_proto::server::{InputRequired, Principal, Progress, RequestInfo, Server};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{
    Era, ErrorObject, Instant, Json, Notification, Output, ProtocolVersion, RequestKey, Stdio, Ticket, server,
};
use mcp_testkit::transcript;

use crate::script::Script;

/// The keys and tickets that machines have returned. Any of them may be passed to any machine.
#[derive(Default)]
struct Kept {
    tickets: Vec<Ticket>,
    requests: Vec<RequestKey>,
    subscriptions: Vec<client::SubscriptionKey>,
    exchanges: Vec<client::ExchangeKey>,
    served: Vec<server::ExchangeKey>,
    /// Session ids that the HTTP server has assigned.
    sessions: Vec<http::HeaderValue>,
    /// Requests that were accepted and have not ended, for each machine, in the order of the constants below.
    waiting: [BTreeSet<RequestKey>; 4],
    listening: [BTreeSet<client::SubscriptionKey>; 2],
    /// Whether each client is opened with a request of the application, which then confirms the session.
    confirms: [bool; 2],
    /// How far the response of each exchange of the HTTP server has come.
    replies: BTreeMap<server::ExchangeKey, Reply>,
    /// Exchanges that the client over HTTP has dropped.
    aborted: BTreeSet<client::ExchangeKey>,
}

/// Which machine a request belongs to.
const STDIO_CLIENT: usize = 0;
const HTTP_CLIENT: usize = 1;
const STDIO_SERVER: usize = 2;
const HTTP_SERVER: usize = 3;

/// How far the response of an exchange has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Streams,
    Whole,
}

/// Clients, servers and a relay, driven by calls in an arbitrary order with arbitrary arguments.
pub fn api(data: &[u8]) {
    let mut script = Script(data);
    let start = Instant::START + Duration::from_secs(1_000_000);
    let mut now = start;
    let mut kept = Kept::default();
    let config = || {
        let mut config = client::Config::new("c", "1").min_version(ProtocolVersion::V2024_11_05);
        config.versions.retain(|version| version.rules().era == Era::Legacy);
        config
    };
    let http = || client::Http::new(HttpConfig::new("http://127.0.0.1/mcp").expect("a URL"));
    let mut stdio_client = Client::new(Stdio::new(), config()).expect("a configuration");
    let mut http_client = Client::new(http(), config()).expect("a configuration");
    let mut stdio_server = Server::new(Stdio::new(), server::Config::new("s", "1")).expect("a configuration");
    let http_config = server::HttpConfig::new();
    let mut http_server =
        Server::new(server::Http::new(http_config), server::Config::new("s", "1")).expect("a configuration");
    let mut relay = Relay::new(http(), relay::Config::default()).expect("a configuration");
    for _ in 0..500 {
        let Some(which) = script.byte() else { break };
        let done = match which % 7 {
            0 => call_client(&mut stdio_client, STDIO_CLIENT, &mut script, &mut kept, now),
            1 => call_client(&mut http_client, HTTP_CLIENT, &mut script, &mut kept, now),
            2 => call_server(&mut stdio_server, STDIO_SERVER, &mut script, &mut kept, now),
            3 => call_server(&mut http_server, HTTP_SERVER, &mut script, &mut kept, now),
            5 => serve(&mut http_server, &mut script, &mut kept, now),
            4 => feed(&mut stdio_client, &mut stdio_server, &mut http_client, &mut relay, &mut script, &kept, now),
            // The time may also go back.
            _ => script.byte().map(|step| {
                now = match step % 8 {
                    0 => start,
                    1 => now + Duration::from_secs(100_000),
                    _ => now + Duration::from_millis(u64::from(step)),
                };
            }),
        };
        if done.is_none() {
            break;
        }
        drain(&mut stdio_client, &mut http_client, &mut stdio_server, &mut http_server, &mut relay, &mut kept, now);
    }
    stdio_client.close(now);
    http_client.close(now);
    stdio_server.close(now);
    http_server.close(now);
    relay.close(now);
    // Closing takes a bounded time, after which every request must have ended.
    let end = now + Duration::from_secs(1000);
    stdio_client.handle_timeout(end);
    http_client.handle_timeout(end);
    stdio_server.handle_timeout(end);
    http_server.handle_timeout(end);
    relay.handle_timeout(end);
    drain(&mut stdio_client, &mut http_client, &mut stdio_server, &mut http_server, &mut relay, &mut kept, end);
    assert!(kept.waiting.iter().all(BTreeSet::is_empty), "{:?} never ended", kept.waiting);
    assert!(kept.listening.iter().all(BTreeSet::is_empty), "{:?} never ended", kept.listening);
}

fn text(script: &mut Script<'_>) -> Option<String> {
    script.text().map(|text| String::from_utf8_lossy(text).into_owned())
}

fn json(script: &mut Script<'_>) -> Option<Json> {
    let text = script.text()?;
    Some(Json::parse(text.to_vec()).unwrap_or_else(|_| Json::from(&*String::from_utf8_lossy(text))))
}

fn method(script: &mut Script<'_>) -> Option<String> {
    const METHODS: [&str; 8] = [
        "initialize",
        "ping",
        "tools/call",
        "tools/list",
        "subscriptions/listen",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/tools/list_changed",
    ];
    let which = script.byte()?;
    match METHODS.get(usize::from(which % 10)) {
        Some(method) => Some((*method).to_owned()),
        None => text(script),
    }
}

fn call_client<T: client::ClientTransport>(
    client: &mut Client<T>,
    which: usize,
    script: &mut Script<'_>,
    kept: &mut Kept,
    now: Instant,
) -> Option<()> {
    match script.byte()? % 12 {
        0 => {
            if client.connect(now).is_ok() {
                kept.confirms[which] = false;
            }
        }
        1 => {
            if client.connect_with(Opening::Initialize(json(script)?), now).is_ok() {
                kept.confirms[which] = true;
            }
        }
        2 => drop(client.confirm(Some(json(script)?), now)),
        3 | 4 => {
            let call = Call::new(method(script)?.as_str()).params(json(script)?);
            if let Ok(request) = client.request(call.with_progress(), now) {
                kept.accepted(which, request);
            }
        }
        5 => drop(client.notify(Notification::with_params(method(script)?.as_str(), json(script)?), now)),
        6 => {
            if let Some(request) = one_of(&kept.requests, script.byte()?) {
                client.cancel_with(request, &json(script)?, now);
            }
        }
        7 => {
            if let Some(ticket) = take(&mut kept.tickets, script.byte()?) {
                client.answer(ticket, Ok(json(script)?), now);
            }
        }
        8 => {
            if let Ok(subscription) = client.listen(json(script)?, now) {
                kept.subscriptions.push(subscription);
                assert!(kept.listening[which].insert(subscription), "a key was used twice");
            }
        }
        9 => {
            if let Some(subscription) = one_of(&kept.subscriptions, script.byte()?) {
                client.unlisten(subscription, now);
            }
        }
        10 => client.close(now),
        _ => client.handle_timeout(now),
    }
    Some(())
}

fn call_server<T: server::ServerTransport>(
    server: &mut Server<T>,
    which: usize,
    script: &mut Script<'_>,
    kept: &mut Kept,
    now: Instant,
) -> Option<()> {
    let what = script.byte()?;
    let Some(ticket) = take(&mut kept.tickets, script.byte()?) else { return Some(()) };
    match what % 10 {
        0 => drop(server.respond(ticket, Ok(json(script)?), now)),
        1 => {
            let code = i64::from(script.byte()?) - 32_100;
            drop(server.respond(ticket, Err(ErrorObject::new(code, &text(script)?)), now));
        }
        2 => {
            let required = InputRequired::new().ask(&text(script)?, method(script)?.as_str(), json(script)?);
            drop(server.require_input(ticket, required.state(&text(script)?), now));
        }
        3 => drop(server.publish(Notification::with_params(method(script)?.as_str(), json(script)?), now)),
        4 => {
            let progress = f64::from_bits(u64::from(script.byte()?) << 56);
            server.progress(&ticket, &Progress { progress, total: Some(f64::NAN), message: None }, now);
        }
        5 => server.release(&ticket, now),
        6 => drop(server.notify(&ticket, Notification::new(method(script)?.as_str()), now)),
        7 => drop(server.log(&ticket, LoggingLevel::Error, Some(&text(script)?), &json(script)?, now)),
        8 => {
            if let Ok(request) = server.request(&ticket, Call::new(method(script)?.as_str()), now) {
                kept.accepted(which, request);
            }
        }
        _ => {
            if let Some(request) = one_of(&kept.requests, script.byte()?) {
                server.cancel_with(request, &json(script)?, now);
            }
            let _ = server.context(&ticket);
            let _ = server.request_head(&ticket);
        }
    }
    Some(())
}

/// Calls the methods that are for a driver, in an arbitrary order.
fn feed(
    stdio_client: &mut Client<Stdio>,
    stdio_server: &mut Server<Stdio>,
    http_client: &mut Client<client::Http>,
    relay: &mut Relay,
    script: &mut Script<'_>,
    kept: &Kept,
    now: Instant,
) -> Option<()> {
    match script.byte()? % 12 {
        0 => stdio_client.handle_bytes(script.text()?, now),
        1 => stdio_client.handle_eof(now),
        2 | 3 => {
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{}\",\"params\":{{\"protocolVersion\":\"2025-11-25\"}}}}\n",
                script.byte()?,
                method(script)?.escape_default()
            );
            stdio_server.handle_bytes(line.as_bytes(), now);
            relay.handle_bytes(line.as_bytes(), now);
        }
        4 => stdio_server.handle_eof(now),
        5 => stdio_server.handle_timeout(now),
        6 => relay.handle_timeout(now),
        7 => relay.close(now),
        8 => stdio_server.close(now),
        what => {
            let exchange = one_of(&kept.exchanges, script.byte()?)?;
            let head = http::Response::builder().status(u16::from(script.byte()?) + 200).body(());
            let head = head.expect("a response").into_parts().0;
            match what {
                9 => {
                    http_client.handle_response(exchange, &head, now);
                    relay.handle_response(exchange, &head, now);
                }
                10 => {
                    let text = script.text()?;
                    http_client.handle_body(exchange, text, now);
                    relay.handle_body(exchange, text, now);
                    http_client.handle_sent(exchange, now);
                    relay.handle_sent(exchange, now);
                }
                _ => {
                    let detail = || "x".into();
                    match script.byte()? % 4 {
                        0 => {
                            http_client.handle_end(exchange, now);
                            relay.handle_end(exchange, now);
                        }
                        1 => fail(http_client, relay, exchange, &Failure::Unreachable { detail: detail() }, now),
                        2 => fail(http_client, relay, exchange, &Failure::Hopeless { detail: detail() }, now),
                        _ => fail(http_client, relay, exchange, &Failure::Broken { detail: detail() }, now),
                    }
                }
            }
        }
    }
    Some(())
}

fn fail(
    client: &mut Client<client::Http>,
    relay: &mut Relay,
    exchange: client::ExchangeKey,
    failure: &Failure,
    now: Instant,
) {
    client.handle_failure(exchange, failure.clone(), now);
    relay.handle_failure(exchange, failure.clone(), now);
}

/// Calls the methods that are for the driver of an HTTP server, in an arbitrary order.
fn serve(server: &mut Server<server::Http>, script: &mut Script<'_>, kept: &mut Kept, now: Instant) -> Option<()> {
    match script.byte()? % 8 {
        0 | 1 => {
            let method = script.pick(&["POST", "GET", "DELETE", "PUT", "OPTIONS"])?;
            let target = script.pick(&["/mcp", "/mcp?x=1", "/sse", "/messages", "*", "http://other.example/mcp"])?;
            let fields = script.byte()?;
            let mut head = http::Request::builder().method(method).uri(target);
            for (bit, name, value) in [
                (0, "host", "localhost:3000"),
                (1, "accept", "application/json, text/event-stream"),
                (2, "content-type", "application/json"),
                (3, "mcp-protocol-version", "2026-07-28"),
                (4, "mcp-protocol-version", "2025-11-25"),
                (5, "origin", "http://localhost:3000"),
                (6, "last-event-id", "1-1"),
            ] {
                if fields >> bit & 1 == 1 {
                    head = head.header(name, value);
                }
            }
            if fields >> 7 == 1 {
                let session = kept.sessions.get(usize::from(script.byte()?) % kept.sessions.len().max(1)).cloned();
                head = head.header("mcp-session-id", session.unwrap_or(http::HeaderValue::from_static("none")));
            }
            let principal = script.pick(&[None, Some("a"), Some("b")])?.map(Principal::new);
            let nonce = [u8::try_from(kept.served.len() % 256).expect("it is below 256"); 32];
            let head = head.body(()).expect("a request").into_parts().0;
            let mut arrival = RequestInfo::new(nonce);
            arrival.authentication = Ok(principal);
            arrival.is_routed = fields & 3 == 3;
            kept.served.push(server.handle_request(head, arrival, now));
        }
        2 => server.handle_body(one_of(&kept.served, script.byte()?)?, script.text()?, now),
        3 => {
            let exchange = one_of(&kept.served, script.byte()?)?;
            let (id, method) = (script.byte()?, method(script)?);
            let version = script.pick(&["2024-11-05", "2025-06-18", "2025-11-25"])?;
            let message = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{}\",\"params\":{{\"protocolVersion\":\"{version}\"}}}}",
                method.escape_default()
            );
            server.handle_body(exchange, message.as_bytes(), now);
            server.handle_end(exchange, now);
        }
        4 => server.handle_end(one_of(&kept.served, script.byte()?)?, now),
        5 => server.handle_disconnect(one_of(&kept.served, script.byte()?)?, now),
        6 => server.handle_timeout(now),
        _ => {
            if script.byte()? == 0 {
                server.close(now);
            }
        }
    }
    Some(())
}

impl Kept {
    fn accepted(&mut self, which: usize, request: RequestKey) {
        self.requests.push(request);
        assert!(self.waiting[which].insert(request), "a key was used twice");
    }

    /// Takes an event of a client. If it is a session that the application has to confirm, the application does that
    /// at once.
    fn client_event<T: client::ClientTransport>(
        &mut self,
        which: usize,
        client: &mut Client<T>,
        event: client::Event,
        now: Instant,
    ) {
        match event {
            client::Event::Connected { is_reconnect: false, .. } if self.confirms[which] => {
                drop(client.confirm(None, now));
            }
            client::Event::Requested { ticket, .. } => self.tickets.push(ticket),
            client::Event::Responded { request, .. } => {
                assert!(self.waiting[which].remove(&request), "{request:?} ended twice, or was never accepted");
            }
            client::Event::ListeningEnded { subscription, .. } => {
                assert!(self.listening[which].remove(&subscription), "{subscription:?} ended twice");
            }
            _ => {}
        }
    }

    fn server_event(&mut self, which: usize, event: server::Event) {
        match event {
            server::Event::Requested { ticket, .. } => self.tickets.push(ticket),
            server::Event::Responded { request, .. } => {
                assert!(self.waiting[which].remove(&request), "{request:?} ended twice, or was never accepted");
            }
            _ => {}
        }
    }

    fn server_action(&mut self, action: server::HttpAction) {
        let (exchange, before, after) = match action {
            server::HttpAction::Respond { exchange, response } => {
                self.sessions.extend(response.headers().get("mcp-session-id").cloned());
                (exchange, None, Reply::Whole)
            }
            server::HttpAction::Stream { exchange, head } => {
                self.sessions.extend(head.headers().get("mcp-session-id").cloned());
                (exchange, None, Reply::Streams)
            }
            server::HttpAction::Write { exchange, .. } => (exchange, Some(Reply::Streams), Reply::Streams),
            server::HttpAction::Finish { exchange } => (exchange, Some(Reply::Streams), Reply::Whole),
            _ => return,
        };
        assert_eq!(self.replies.insert(exchange, after), before, "{exchange:?}");
    }
}

fn drain(
    stdio_client: &mut Client<Stdio>,
    http_client: &mut Client<client::Http>,
    stdio_server: &mut Server<Stdio>,
    http_server: &mut Server<server::Http>,
    relay: &mut Relay,
    kept: &mut Kept,
    now: Instant,
) {
    while let Some(output) = transcript::added(now, "client", stdio_client.poll_output()) {
        if let Output::Event(event) = output {
            kept.client_event(STDIO_CLIENT, stdio_client, event, now);
        }
    }
    while let Some(output) = transcript::added(now, "HTTP client", http_client.poll_output()) {
        match output {
            Output::Event(event) => kept.client_event(HTTP_CLIENT, http_client, event, now),
            Output::Action(client::HttpAction::Open { exchange, .. }) => kept.exchanges.push(exchange),
            Output::Action(client::HttpAction::Abort { exchange }) => {
                assert!(kept.aborted.insert(exchange), "{exchange:?} was aborted twice");
            }
            Output::Action(_) => {}
        }
    }
    while let Some(output) = transcript::added(now, "server", stdio_server.poll_output()) {
        if let Output::Event(event) = output {
            kept.server_event(STDIO_SERVER, event);
        }
    }
    while let Some(output) = transcript::added(now, "HTTP server", http_server.poll_output()) {
        match output {
            Output::Event(event) => kept.server_event(HTTP_SERVER, event),
            Output::Action(action) => kept.server_action(action),
        }
    }
    while let Some(output) = transcript::added(now, "relay", relay.poll_output()) {
        if let Output::Action(relay::Action::Server(client::HttpAction::Open { exchange, .. })) = output {
            kept.exchanges.push(exchange);
        }
    }
    transcript::add_state(
        now,
        "client",
        stdio_client.poll_timeout(),
        || stdio_client.load(),
        &[("wanting input", stdio_client.wants_input())],
    );
    transcript::add_state(now, "HTTP client", http_client.poll_timeout(), || http_client.load(), &[]);
    transcript::add_state(
        now,
        "server",
        stdio_server.poll_timeout(),
        || stdio_server.load(),
        &[("wanting input", stdio_server.wants_input())],
    );
    transcript::add_state(
        now,
        "HTTP server",
        http_server.poll_timeout(),
        || http_server.load(),
        &[("wanting input", http_server.wants_input())],
    );
    let can = [("wanting bytes", relay.wants_bytes()), ("wanting bodies", relay.wants_body())];
    transcript::add_state(now, "relay", relay.poll_timeout(), || relay.load(), &can);
}

fn one_of<K: Copy>(kept: &[K], which: u8) -> Option<K> {
    kept.get(usize::from(which) % kept.len().max(1)).copied()
}

fn take<K>(kept: &mut Vec<K>, which: u8) -> Option<K> {
    if kept.is_empty() {
        return None;
    }
    Some(kept.swap_remove(usize::from(which) % kept.len()))
}
