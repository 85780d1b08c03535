//! An HTTP server that responds correctly or not.

use std::collections::BTreeMap;

use mcp_proto::client::{ExchangeKey, Failure};
use mcp_testkit::http_client::{HttpClientHarness, Machine, Opened, Reply};
use mcp_testkit::messages::event;
use mcp_testkit::random::Random;

use super::messages::PendingRequest;

/// An exchange that is open.
struct Exchange {
    opened: Opened,
    asked: Option<PendingRequest>,
    /// Whether its response is a stream that has begun.
    is_stream: bool,
}

/// The server.
pub(super) struct HttpServer {
    open: BTreeMap<ExchangeKey, Exchange>,
    /// One in so many responses is wrong.
    trouble: u64,
    /// The number of first responses that are correct.
    calm: u64,
    /// Whether it creates sessions.
    has_sessions: bool,
    /// The number of sessions that it has created.
    sessions: u64,
    /// Whether it is a server of 2024-11-05 with two endpoints.
    is_old: bool,
    /// Requests to the second endpoint, which are answered on the stream of the first.
    waiting: Vec<PendingRequest>,
    /// The number of its latest event id.
    event: u64,
}

const STATUSES: [u16; 22] =
    [200, 201, 202, 204, 206, 302, 400, 401, 403, 404, 404, 405, 406, 408, 409, 410, 415, 429, 500, 502, 503, 503];

const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

const TARGETS: [&str; 8] = [
    "/elsewhere",
    "other?a=b",
    "http://server.example/x",
    "http://other.example/",
    "https://server.example/mcp",
    "//[",
    "",
    "/mcp#f",
];

impl HttpServer {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            open: BTreeMap::new(),
            trouble: *random.pick(&[2, 5, 30]),
            calm: *random.pick(&[0, 4, 8, 20]),
            has_sessions: random.one_in(2),
            sessions: 0,
            is_old: random.one_in(5),
            waiting: Vec::new(),
            event: 0,
        }
    }

    /// Performs one random operation on one of the open exchanges.
    pub(super) fn act<M: Machine>(&mut self, harness: &mut HttpClientHarness<M>, random: &mut Random) {
        while harness.has_opened() {
            let opened = harness.opened();
            let asked = PendingRequest::read(opened.body());
            self.open.insert(opened.key, Exchange { opened, asked, is_stream: false });
        }
        self.open.retain(|key, _| !harness.is_aborted(*key));
        let Some(place) = self.open.len().checked_sub(1) else { return };
        let place = usize::try_from(random.below(place as u64 + 1)).expect("few exchanges");
        let Some(key) = self.open.keys().nth(place).copied() else { return };
        let Some(exchange) = self.open.remove(&key) else { return };
        let is_bad = self.calm == 0 && random.one_in(self.trouble);
        self.calm = self.calm.saturating_sub(1);
        let stays = if exchange.is_stream {
            self.go_on(key, exchange, is_bad, harness, random)
        } else if is_bad {
            Self::trouble(key, exchange, harness, random)
        } else {
            self.answer(key, exchange, harness, random)
        };
        if let Some(exchange) = stays {
            self.open.insert(key, exchange);
        }
    }

    /// Responds correctly; returns the exchange if its response continues.
    fn answer<M: Machine>(
        &mut self,
        key: ExchangeKey,
        mut exchange: Exchange,
        harness: &mut HttpClientHarness<M>,
        random: &mut Random,
    ) -> Option<Exchange> {
        let method = exchange.opened.request.method().as_str();
        if self.is_old && method == "POST" {
            let is_second = exchange.opened.line().contains("messages");
            self.waiting.extend(exchange.asked.filter(|_| is_second));
            harness.reply(key, &Reply::status(if is_second { 202 } else { 405 }));
            return None;
        }
        let asked = match (method, exchange.asked.clone()) {
            ("GET", _) if !self.is_old && random.one_in(3) => {
                harness.reply(key, &Reply::status(405));
                return None;
            }
            ("GET", _) => {
                let first = if self.is_old { "event: endpoint\ndata: /messages?s=1\n\n" } else { ": here\n\n" };
                harness.begin(key, &Reply::events(first));
                exchange.is_stream = true;
                return Some(exchange);
            }
            ("POST", Some(asked)) => asked,
            ("POST", None) => {
                harness.reply(key, &Reply::status(202));
                return None;
            }
            (_, _) => {
                harness.reply(key, &Reply::status(*random.pick(&[200, 204, 405])));
                return None;
            }
        };
        let opens = self.has_sessions && asked.method == "initialize";
        self.sessions += u64::from(opens);
        let session = format!("session-{}", self.sessions);
        let head = |reply: Reply| if opens { reply.header("mcp-session-id", &session) } else { reply };
        if asked.method == "subscriptions/listen" || self.calm == 0 && random.one_in(2) {
            harness.begin(key, &head(Reply::events(": here\n\n")));
            exchange.is_stream = true;
            return Some(exchange);
        }
        let status = *random.pick(&[200, 200, 200, 400, 404]);
        let text = if self.calm == 0 && random.one_in(5) {
            asked.error(random)
        } else if self.calm == 0 && random.one_in(8) {
            format!("[{},{}]", asked.aside(random), asked.result(random))
        } else {
            asked.result(random)
        };
        let status = if text.contains("\"error\"") { status } else { 200 };
        harness.reply(key, &head(Reply::json(text).with_status(status)));
        None
    }

    /// Responds wrongly; returns the exchange if it is still open.
    fn trouble<M: Machine>(
        key: ExchangeKey,
        exchange: Exchange,
        harness: &mut HttpClientHarness<M>,
        random: &mut Random,
    ) -> Option<Exchange> {
        let aside =
            |random: &mut Random| exchange.asked.as_ref().map_or_else(|| "{}".to_owned(), |asked| asked.aside(random));
        match random.below(10) {
            0 => harness.fail(key, Failure::Unreachable { detail: "x".into() }),
            1 => harness.fail(key, Failure::Broken { detail: "x".into() }),
            2 if random.one_in(3) => harness.fail(key, Failure::Hopeless { detail: "x".into() }),
            2 => harness.machine.sent(key, harness.now),
            3 => {
                let reply = Reply::status(*random.pick(&REDIRECTS)).header("location", random.text(&TARGETS));
                harness.reply(key, &reply);
                return None;
            }
            4 => {
                let text = aside(random);
                let session =
                    random.text(&["session-1", "session-9", "a b", "a-very-long-id-of-a-session-that-goes-on"]);
                harness.reply(key, &Reply::json(text).header("mcp-session-id", session));
            }
            5 => {
                let kind = random.text(&["text/html", "application/json; charset=utf-8", "application/json", "", "a"]);
                let body = random.text(&["", "<!DOCTYPE html>", "{", "[]", "null"]);
                harness.reply(key, &Reply::status(200).content_type(kind).body(body));
            }
            6 => {
                let encoding = random.text(&["gzip", "identity"]);
                let text = aside(random);
                harness.reply(key, &Reply::json(text).header("content-encoding", encoding));
            }
            what => {
                let mut reply = Reply::status(*random.pick(&STATUSES));
                if what == 7 {
                    reply = reply.header("retry-after", random.text(&["1", "30", "x", "99999999"]));
                }
                if random.one_in(3) {
                    reply = reply.header("www-authenticate", r#"Bearer error="invalid_token", scope="a b""#);
                }
                let body = match random.below(4) {
                    0 => String::new(),
                    1 => "plain text that says something, and goes on for a while".to_owned(),
                    2 => aside(random),
                    _ => exchange.asked.as_ref().map_or_else(String::new, |asked| asked.error(random)),
                };
                let kind = random.text(&["application/json", "text/plain", "text/event-stream"]);
                harness.reply(key, &reply.content_type(kind).body(body));
            }
        }
        harness.is_open(key).then_some(exchange)
    }

    /// Sends more of a stream, or ends it.
    fn go_on<M: Machine>(
        &mut self,
        key: ExchangeKey,
        exchange: Exchange,
        is_bad: bool,
        harness: &mut HttpClientHarness<M>,
        random: &mut Random,
    ) -> Option<Exchange> {
        let none = PendingRequest { id: "77".to_owned(), method: String::new(), token: None, is_modern: false };
        if is_bad {
            match random.below(6) {
                0 => harness.fail(key, Failure::Broken { detail: "x".into() }),
                1 => harness.end(key),
                2 => {
                    let text = random.text(&[
                        "retry: 10\n\n",
                        "retry: x\n\n",
                        "id: \n\n",
                        "event: other\ndata: {}\n\n",
                        "data\n\n",
                        "x",
                    ]);
                    harness.send(key, text.as_bytes());
                }
                3 => harness.send(key, format!("data: {}\n\n", "long ".repeat(200)).as_bytes()),
                _ => {
                    let text = exchange.asked.as_ref().unwrap_or(&none).aside(random);
                    harness.send(key, event(&text).as_bytes());
                }
            }
            return harness.is_open(key).then_some(exchange);
        }
        let id = if random.one_in(2) {
            self.event += 1;
            format!("id: {}\n", self.event)
        } else {
            String::new()
        };
        let answered = match &exchange.asked {
            Some(asked) if asked.method != "subscriptions/listen" || random.one_in(6) => Some(asked.clone()),
            None if self.is_old && !self.waiting.is_empty() => Some(self.waiting.remove(0)),
            Some(_) | None => None,
        };
        let text = match &answered {
            Some(asked) if exchange.asked.is_none() || random.one_in(2) => {
                if random.one_in(6) {
                    asked.error(random)
                } else {
                    asked.result(random)
                }
            }
            Some(asked) => asked.aside(random),
            None => exchange.asked.as_ref().unwrap_or(&none).aside(random),
        };
        harness.send(key, format!("{id}{}", event(&text)).as_bytes());
        harness.is_open(key).then_some(exchange)
    }
}
