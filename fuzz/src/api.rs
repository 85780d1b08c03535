//! Any public call, in any order: nothing panics, and nothing that a call hands in comes back to haunt.

use std::time::Duration;

use mcp_proto::client::{self, Call, Client, HttpConfig};
use mcp_proto::relay::{self, Relay};
use mcp_proto::server::{self, InputRequired, LoggingLevel, Progress, Server};
use mcp_proto::{ErrorObject, Instant, Json, Notification, Output, RequestKey, Stdio, Ticket};

use crate::script::Script;

/// What is kept of what was handed out; any of it may be handed in anywhere.
#[derive(Default)]
struct Kept {
    tickets: Vec<Ticket>,
    requests: Vec<RequestKey>,
    subscriptions: Vec<client::SubscriptionKey>,
    exchanges: Vec<client::ExchangeKey>,
    served: Vec<server::ExchangeKey>,
}

/// Machines of every kind, driven by somebody who has read no documentation.
pub fn api(data: &[u8]) {
    let mut script = Script(data);
    let start = Instant::now() + Duration::from_secs(1_000_000);
    let mut now = start;
    let mut kept = Kept::default();
    let config = || client::Config::new("c", "1").min_version(mcp_proto::ProtocolVersion::V2024_11_05);
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
        let done = match which % 6 {
            0 => call_client(&mut stdio_client, &mut script, &mut kept, now),
            1 => call_client(&mut http_client, &mut script, &mut kept, now),
            2 => call_server(&mut stdio_server, &mut script, &mut kept, now),
            3 => call_server(&mut http_server, &mut script, &mut kept, now),
            4 => feed(&mut stdio_client, &mut stdio_server, &mut http_client, &mut relay, &mut script, &kept, now),
            // The clock may go back, too.
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
        drain(&mut stdio_client, &mut http_client, &mut stdio_server, &mut http_server, &mut relay, &mut kept);
    }
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
    script: &mut Script<'_>,
    kept: &mut Kept,
    now: Instant,
) -> Option<()> {
    match script.byte()? % 12 {
        0 => drop(client.connect(now)),
        1 => drop(client.connect_with(json(script)?, now)),
        2 => drop(client.confirm(Some(json(script)?), now)),
        3 | 4 => {
            let call = Call::new(method(script)?.as_str()).params(json(script)?);
            kept.requests.extend(client.request(call.with_progress(), now));
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
        8 => kept.subscriptions.extend(client.listen(json(script)?, now)),
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

fn call_server<T: server::Carrier>(
    server: &mut Server<T>,
    script: &mut Script<'_>,
    kept: &mut Kept,
    now: Instant,
) -> Option<()> {
    let which = script.byte()?;
    let Some(ticket) = take(&mut kept.tickets, script.byte()?) else { return Some(()) };
    match which % 10 {
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
        8 => kept.requests.extend(server.request(&ticket, Call::new(method(script)?.as_str()), now)),
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

/// What a driver does, in the wrong order.
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
                    http_client.handle_body(exchange, script.text()?, now);
                    relay.handle_sent(exchange, now);
                }
                _ => {
                    http_client.handle_end(exchange, now);
                    relay.handle_end(exchange, now);
                }
            }
        }
    }
    Some(())
}

fn drain(
    stdio_client: &mut Client<Stdio>,
    http_client: &mut Client<client::Http>,
    stdio_server: &mut Server<Stdio>,
    http_server: &mut Server<server::Http>,
    relay: &mut Relay,
    kept: &mut Kept,
) {
    while let Some(output) = stdio_client.poll_output() {
        if let Output::Event(client::Event::Requested { ticket, .. }) = output {
            kept.tickets.push(ticket);
        }
    }
    while let Some(output) = http_client.poll_output() {
        match output {
            Output::Event(client::Event::Requested { ticket, .. }) => kept.tickets.push(ticket),
            Output::Action(client::HttpAction::Open { exchange, .. }) => kept.exchanges.push(exchange),
            _ => {}
        }
    }
    while let Some(output) = stdio_server.poll_output() {
        if let Output::Event(server::Event::Requested { ticket, .. }) = output {
            kept.tickets.push(ticket);
        }
    }
    while let Some(output) = http_server.poll_output() {
        match output {
            Output::Event(server::Event::Requested { ticket, .. }) => kept.tickets.push(ticket),
            Output::Action(server::HttpAction::Stream { exchange, .. }) => kept.served.push(exchange),
            _ => {}
        }
    }
    while let Some(output) = relay.poll_output() {
        if let Output::Action(relay::Action::Server(client::HttpAction::Open { exchange, .. })) = output {
            kept.exchanges.push(exchange);
        }
    }
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
