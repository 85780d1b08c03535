//! A server on a byte stream, its client and its application.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_proto::client::Call;
use mcp_proto::server::{Event, InputRequired, Progress, ServerTransport};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{ErrorObject, Instant, Json, Notification, RequestKey, Server, Ticket, TicketKey};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::random::Random;

use super::messages::Client;
use super::{LONG, STEPS, limits, random_time};

/// The open tickets and requests of the application.
#[derive(Default)]
pub(super) struct Application {
    tickets: Vec<Ticket>,
    pub(super) waiting: BTreeSet<RequestKey>,
    cancelled: BTreeSet<TicketKey>,
    /// Requests that have not ended.
    open: BTreeSet<TicketKey>,
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("JSON")
}

/// Plays a server in a child process.
///
/// # Panics
///
/// A request has not ended exactly once.
pub fn server(seed: u64) {
    let mut random = Random::new(seed);
    let mut stream = ServerStream::server_with(|config| {
        config.limits = limits(&mut random);
        config.capabilities =
            json(r#"{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}"#);
        config.reports_ended_requests = true;
        config.strict_json = random.one_in(4);
        config.reports_subscribe = random.one_in(4);
        if random.one_in(4) {
            config.drain_timeout = Duration::from_millis(300);
        }
    });
    let mut client = Client::new(&mut random);
    let mut application = Application::default();
    for _ in 0..STEPS {
        match random.below(12) {
            0..=4 => {
                let line = client.line(&mut random);
                let cut = usize::try_from(random.below(line.len() as u64 + 1)).expect("a short line");
                stream.bytes(&line.as_bytes()[..cut]);
                stream.line(&line.as_bytes()[cut..]);
            }
            5 => stream.pass(random_time(&mut random)),
            6 if random.one_in(6) => stream.is_read = !stream.is_read,
            7 if random.one_in(60) => stream.eof(),
            8 if random.one_in(60) => stream.machine.close(stream.now),
            _ => application.act(&mut stream.machine, stream.now, &mut random),
        }
        for line in stream.lines() {
            client.receive(&line);
        }
        application.read(stream.events());
        while stream.machine.poll_subscription().is_some() {}
    }
    stream.eof();
    stream.pass(Duration::from_secs(100));
    stream.machine.close(stream.now);
    stream.pass(LONG);
    application.read(stream.events());
    application.check_end();
    assert!(stream.machine.is_closed(), "the server never closes");
    let load = stream.machine.load();
    assert_eq!(
        (load.requests_in, load.requests_out, load.subscriptions, load.held, load.timers),
        (0, 0, 0, 0, 0),
        "{load}"
    );
}

impl Application {
    pub(super) fn act<T: ServerTransport>(&mut self, server: &mut Server<T>, now: Instant, random: &mut Random) {
        match random.below(16) {
            0..=4 => {
                if self.tickets.is_empty() {
                    return;
                }
                let place = usize::try_from(random.below(self.tickets.len() as u64)).expect("few tickets");
                let ticket = self.tickets.swap_remove(place);
                let answer = match random.below(5) {
                    0 => Err(ErrorObject::new(*random.pick(&[7, -32_602, -32_042, -32_800]), "no")),
                    1 => Ok(json(
                        r#"{"content":[{"type":"text","text":"a text that is rather long, so that limits are met"}]}"#,
                    )),
                    _ => Ok(json(r#"{"content":[]}"#)),
                };
                let _ = server.respond(ticket, answer, now);
            }
            5 | 6 => {
                if let Some(ticket) = self.tickets.pop() {
                    let method = random.text(&["elicitation/create", "sampling/createMessage", "roots/list", "x/y"]);
                    let mut required = InputRequired::new().ask("a", method, json(r#"{"message":"m"}"#));
                    if random.one_in(2) {
                        required = required.ask("b", "roots/list", Json::empty_object());
                    }
                    if random.one_in(2) {
                        required = required.state("s");
                    }
                    let _ = server.require_input(ticket, required, now);
                }
            }
            7 => {
                let method = random.text(&[
                    "notifications/tools/list_changed",
                    "notifications/prompts/list_changed",
                    "notifications/resources/list_changed",
                    "notifications/resources/updated",
                    "notifications/x",
                ]);
                let params = json(random.text(&[r#"{"uri":"a:b"}"#, r#"{"uri":"a:c"}"#, "{}"]));
                let _ = server.publish(Notification::with_params(method, params), now);
            }
            8 => {
                if let Some(request) = self.waiting.first().copied() {
                    server.cancel(request, Some("enough"), now);
                }
            }
            what => {
                let Some(ticket) = self.tickets.last() else { return };
                match what {
                    9 => {
                        let progress = f64::from(u32::try_from(random.below(5)).expect("a small number"));
                        let total = random.one_in(2).then_some(5.0);
                        server.progress(ticket, &Progress { progress, total, message: Some("m".into()) }, now);
                    }
                    10 => server.release(ticket, now),
                    11 => drop(server.notify(ticket, Notification::new("notifications/x"), now)),
                    12 => {
                        let level = *random.pick(&[LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Error]);
                        let logger = random.one_in(2).then_some("l");
                        drop(server.log(ticket, level, logger, &json(r#""text""#), now));
                    }
                    _ => {
                        let method =
                            random.text(&["roots/list", "elicitation/create", "sampling/createMessage", "ping"]);
                        let mut call = Call::new(method).params(json(r#"{"message":"m"}"#));
                        if random.one_in(2) {
                            call = call.with_progress().timeout(Duration::from_secs(3));
                        }
                        if let Ok(request) = server.request(ticket, call, now) {
                            assert!(self.waiting.insert(request), "a key was used twice");
                        }
                    }
                }
            }
        }
    }

    /// Checks that every request has ended, in both directions.
    pub(super) fn check_end(&self) {
        assert!(self.waiting.is_empty(), "{:?} never ended", self.waiting);
        assert!(self.open.is_empty(), "the end of {:?} was not reported", self.open);
    }

    pub(super) fn read(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Requested { ticket, .. } => {
                    // A request that required input is reported again.
                    self.open.insert(ticket.key());
                    self.tickets.push(ticket);
                }
                Event::RequestEnded(ended) => {
                    assert!(self.open.remove(&ended.ticket), "{:?} ended twice, or was never reported", ended.ticket);
                }
                Event::Cancelled { ticket, .. } => {
                    assert!(self.cancelled.insert(ticket), "{ticket:?} was cancelled twice");
                    self.tickets.retain(|kept| kept.key() != ticket);
                }
                Event::Responded { request, .. } => {
                    assert!(self.waiting.remove(&request), "{request:?} ended twice, or was never accepted");
                }
                _ => {}
            }
        }
    }
}
