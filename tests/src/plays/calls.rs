//! The application of a client.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_proto::client::{Call, Client, ClientTransport, Event, SubscriptionKey};
use mcp_proto::{ErrorObject, Instant, Json, Notification, RequestKey, Ticket};
use mcp_testkit::random::Random;

/// The requests that the application has made and received.
#[derive(Default)]
pub(super) struct Calls {
    waiting: BTreeSet<RequestKey>,
    listening: BTreeSet<SubscriptionKey>,
    tickets: Vec<Ticket>,
    is_over: bool,
}

const CALLS: [(&str, &str); 9] = [
    ("tools/call", r#"{"name":"x","arguments":{"a":"b"}}"#),
    ("tools/call", r#"{"name":"x","arguments":{"a":"\u00e9"}}"#),
    ("tools/list", "{}"),
    ("resources/subscribe", r#"{"uri":"a:b"}"#),
    ("resources/subscribe", r#"{"uri":"a:c"}"#),
    ("resources/unsubscribe", r#"{"uri":"a:b"}"#),
    ("logging/setLevel", r#"{"level":"info"}"#),
    ("ping", "{}"),
    ("resources/read", r#"{"uri":"a:\u00e9"}"#),
];

const FILTERS: [&str; 4] = [
    r#"{"toolsListChanged":true}"#,
    r#"{"promptsListChanged":true,"resourcesListChanged":true}"#,
    r#"{"resourceSubscriptions":["a:b"]}"#,
    "{}",
];

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("JSON")
}

impl Calls {
    pub(super) fn act<T: ClientTransport>(&mut self, client: &mut Client<T>, now: Instant, random: &mut Random) {
        match random.below(16) {
            0..=7 => {
                let (method, params) = random.pick(&CALLS);
                let mut call = Call::new(*method).params(json(params));
                if random.one_in(2) {
                    call = call.with_progress();
                }
                if random.one_in(3) {
                    call = call.timeout(Duration::from_millis(500 * random.below(20)));
                }
                if let Ok(request) = client.request(call, now) {
                    assert!(self.waiting.insert(request), "a key was used twice");
                }
            }
            8 => {
                if let Some(request) = self.waiting.first().copied() {
                    client.cancel(request, Some("enough"), now);
                }
            }
            9 => {
                if let Some(request) = self.waiting.last().copied() {
                    client.cancel(request, None, now);
                }
            }
            10 => {
                let method = random.text(&["notifications/roots/list_changed", "notifications/x"]);
                let _ = client.notify(Notification::new(method), now);
            }
            11 | 12 => {
                if let Some(ticket) = self.tickets.pop() {
                    let answer =
                        if random.one_in(3) { Err(ErrorObject::new(7, "no")) } else { Ok(json(r#"{"roots":[]}"#)) };
                    client.answer(ticket, answer, now);
                }
            }
            13 => {
                if let Ok(subscription) = client.listen(json(random.text(&FILTERS)), now) {
                    self.listening.insert(subscription);
                }
            }
            14 => {
                if let Some(subscription) = self.listening.first().copied() {
                    client.unlisten(subscription, now);
                }
            }
            _ if random.one_in(30) => client.close(now),
            _ => drop(client.connect(now)),
        }
    }

    pub(super) fn read(&mut self, events: Vec<Event>) {
        for event in events {
            assert!(!self.is_over, "{event:?} comes after the end");
            self.is_over = matches!(event, Event::Closed(_));
            match event {
                Event::Responded { request, .. } => {
                    assert!(self.waiting.remove(&request), "{request:?} ended twice, or was never accepted");
                }
                Event::ListeningEnded { subscription, .. } => {
                    assert!(self.listening.remove(&subscription), "{subscription:?} ended twice");
                }
                Event::Requested { ticket, .. } => self.tickets.push(ticket),
                _ => {}
            }
        }
    }

    pub(super) fn end(&self) {
        assert!(self.waiting.is_empty(), "{:?} never ended", self.waiting);
        assert!(self.listening.is_empty(), "{:?} never ended", self.listening);
        assert!(self.is_over, "the client never closes");
    }
}
