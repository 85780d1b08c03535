//! HTTP exchanges between machines: latency that differs from exchange to exchange, and everything that can go wrong.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::response;
use http::{HeaderValue, Request, Response, header, request};
use mcp_proto::client::{ExchangeKey as Asked, Failure};
use mcp_proto::server::ExchangeKey as Served;

use crate::random::Random;

/// How an exchange will go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Well.
    Well,
    /// Nobody is there.
    Unreachable,
    /// Something in between answers with this status, and the server hears of nothing.
    Refused(u16),
    /// The connection breaks after so many pieces of the request.
    BreaksOnTheWay(u64),
    /// The connection breaks after so many bytes of the response.
    Breaks(usize),
    /// The response ends in good order after so many bytes, although there is more.
    EndsEarly(usize),
    /// What the server says never arrives.
    Silent,
}

/// What arrives at a server.
#[derive(Debug)]
pub enum ToServer {
    /// A request has begun.
    Head(Box<request::Parts>),
    /// A piece of its body.
    Body(Bytes),
    /// Its end.
    End,
    /// The client is gone.
    Gone,
}

/// What arrives at a client.
#[derive(Debug)]
pub enum ToClient {
    /// The request was written.
    Sent,
    /// A response has begun.
    Head(Box<response::Parts>),
    /// A piece of its body.
    Body(Bytes),
    /// Its end.
    End,
    /// The exchange has failed.
    Failed(Failure),
}

#[derive(Debug)]
struct Flight {
    fate: Fate,
    /// How long a piece may take.
    latency: Duration,
    served: Option<Served>,
    up: VecDeque<(Instant, ToServer)>,
    down: VecDeque<(Instant, ToClient)>,
    /// Bytes of the response that the client may still get.
    left: usize,
    /// The server has nothing more to say, or is not heard any more.
    is_over: bool,
    /// The client has dropped it.
    is_dropped: bool,
}

/// All exchanges.
#[derive(Debug)]
pub struct Network {
    random: Random,
    flights: BTreeMap<Asked, Flight>,
    by_server: BTreeMap<Served, Asked>,
    /// How many in a thousand go wrong.
    pub trouble: u64,
}

impl Network {
    /// A network without exchanges.
    pub const fn new(random: Random) -> Self {
        Self { random, flights: BTreeMap::new(), by_server: BTreeMap::new(), trouble: 0 }
    }

    /// The client opens an exchange.
    pub fn open(&mut self, exchange: Asked, request: Request<Bytes>, now: Instant) {
        let fate = self.fate();
        let latency = Duration::from_millis(*self.random.pick(&[1, 5, 5, 20, 20, 100, 1500]));
        let left = match fate {
            Fate::Breaks(left) | Fate::EndsEarly(left) => left,
            Fate::Silent => 0,
            Fate::Well | Fate::Unreachable | Fate::Refused(_) | Fate::BreaksOnTheWay(_) => usize::MAX,
        };
        let mut flight = Flight {
            fate,
            latency,
            served: None,
            up: VecDeque::new(),
            down: VecDeque::new(),
            left,
            is_over: false,
            is_dropped: false,
        };
        let (mut parts, body) = request.into_parts();
        if let Some(authority) = parts.uri.authority() {
            let host = HeaderValue::from_str(authority.as_str()).expect("an authority");
            parts.headers.insert(header::HOST, host);
        }
        parts.uri = parts.uri.path_and_query().expect("a path").as_str().parse().expect("a target");
        let mut pieces = vec![ToServer::Head(Box::new(parts))];
        let mut rest = body;
        while !rest.is_empty() {
            let length = usize::try_from(self.random.below(60)).expect("small") + 1;
            pieces.push(ToServer::Body(rest.split_to(length.min(rest.len()))));
        }
        pieces.push(ToServer::End);
        match fate {
            Fate::Unreachable => {
                let failure = Failure::Unreachable { detail: "connection refused".into() };
                let at = now + self.random.time(latency);
                flight.down.push_back((at, ToClient::Failed(failure)));
                flight.is_over = true;
            }
            Fate::Refused(status) => {
                let at = now + self.random.time(latency);
                let head = refusal(status);
                flight.down.push_back((at, ToClient::Sent));
                flight.down.push_back((at, ToClient::Head(Box::new(head))));
                flight.down.push_back((at, ToClient::Body(Bytes::from_static(b"<html>no</html>"))));
                flight.down.push_back((at, ToClient::End));
                flight.is_over = true;
            }
            Fate::BreaksOnTheWay(pieces_sent) => {
                let mut at = now;
                for piece in pieces.into_iter().take(usize::try_from(pieces_sent).expect("few")) {
                    at += self.random.time(latency / 4);
                    // All but the end: what was sent in full may have been served.
                    if !matches!(piece, ToServer::End) {
                        flight.up.push_back((at, piece));
                    }
                }
                flight.up.push_back((at, ToServer::Gone));
                let failure = Failure::Broken { detail: "connection reset".into() };
                flight.down.push_back((at + latency, ToClient::Failed(failure)));
                flight.is_over = true;
            }
            Fate::Well | Fate::Breaks(_) | Fate::EndsEarly(_) | Fate::Silent => {
                let mut at = now;
                for piece in pieces {
                    at += self.random.time(latency / 4);
                    flight.up.push_back((at, piece));
                }
                flight.down.push_back((at, ToClient::Sent));
            }
        }
        let before = self.flights.insert(exchange, flight);
        assert!(before.is_none(), "{exchange:?} was opened twice");
    }

    /// The client drops an exchange.
    pub fn abort(&mut self, exchange: Asked, now: Instant) {
        let Some(flight) = self.flights.get_mut(&exchange) else { return };
        assert!(!flight.is_dropped, "{exchange:?} was dropped twice");
        flight.is_dropped = true;
        flight.down.clear();
        // A request that is being written is cut.
        let at = now + self.random.time(flight.latency);
        flight.up.retain(|(arrives, _)| *arrives <= at);
        flight.up.push_back((at, ToServer::Gone));
    }

    /// The server sends the head of a response.
    pub fn respond<B>(&mut self, served: Served, response: Response<B>, now: Instant) -> B {
        let (head, body) = response.into_parts();
        self.down(served, ToClient::Head(Box::new(head)), now);
        body
    }

    /// The server sends a piece of a body.
    pub fn write(&mut self, served: Served, mut chunk: Bytes, now: Instant) {
        while !chunk.is_empty() {
            let length = usize::try_from(self.random.below(400)).expect("small") + 1;
            let piece = chunk.split_to(length.min(chunk.len()));
            self.down(served, ToClient::Body(piece), now);
        }
    }

    /// The server ends a body.
    pub fn finish(&mut self, served: Served, now: Instant) {
        self.down(served, ToClient::End, now);
        if let Some(flight) = self.by_server.remove(&served).and_then(|asked| self.flights.get_mut(&asked)) {
            flight.is_over = true;
        }
    }

    fn down(&mut self, served: Served, piece: ToClient, now: Instant) {
        let Some(flight) = self.by_server.get(&served).and_then(|asked| self.flights.get_mut(asked)) else { return };
        if flight.is_dropped || flight.is_over {
            return;
        }
        let earliest = flight.down.back().map_or(now, |(at, _)| *at).max(now);
        let at = earliest + self.random.time(flight.latency);
        match piece {
            ToClient::Body(bytes) => {
                let length = bytes.len().min(flight.left);
                flight.left -= length;
                if length > 0 {
                    flight.down.push_back((at, ToClient::Body(bytes.slice(..length))));
                }
                if flight.left > 0 {
                    return;
                }
                match flight.fate {
                    Fate::Breaks(_) => {
                        let failure = Failure::Broken { detail: "connection reset".into() };
                        flight.down.push_back((at, ToClient::Failed(failure)));
                    }
                    Fate::EndsEarly(_) => flight.down.push_back((at, ToClient::End)),
                    Fate::Silent | Fate::Well | Fate::Unreachable | Fate::Refused(_) | Fate::BreaksOnTheWay(_) => {
                        return;
                    }
                }
                flight.is_over = true;
                flight.up.push_back((at, ToServer::Gone));
            }
            ToClient::Head(_) | ToClient::End if flight.fate == Fate::Silent => {}
            piece @ (ToClient::Head(_) | ToClient::End | ToClient::Sent | ToClient::Failed(_)) => {
                flight.down.push_back((at, piece));
            }
        }
    }

    /// The server has ended, and a new one knows of nothing.
    pub fn restart(&mut self, now: Instant) {
        self.by_server.clear();
        for flight in self.flights.values_mut() {
            flight.up.clear();
            flight.served = None;
            if !flight.is_over && !flight.is_dropped {
                let failure = Failure::Broken { detail: "connection reset".into() };
                flight.down.push_back((now + flight.latency, ToClient::Failed(failure)));
                flight.is_over = true;
            }
        }
    }

    /// When something arrives next.
    pub fn next(&self) -> Option<Instant> {
        let arrivals = self.flights.values().flat_map(|flight| {
            [flight.up.front().map(|(at, _)| *at), flight.down.front().map(|(at, _)| *at)].into_iter().flatten()
        });
        arrivals.min()
    }

    /// Something that has arrived at the server: for which exchange of the client's, and under which name of the server's,
    /// if it has one.
    pub fn arrived_at_server(&mut self, now: Instant) -> Option<(Asked, Option<Served>, ToServer)> {
        let is_due = |flight: &Flight| flight.up.front().is_some_and(|(at, _)| *at <= now);
        let (asked, flight) = self.flights.iter_mut().find(|(_, flight)| is_due(flight))?;
        let (_, piece) = flight.up.pop_front()?;
        Some((*asked, flight.served, piece))
    }

    /// The server has named an exchange.
    pub fn named(&mut self, asked: Asked, served: Served) {
        self.by_server.insert(served, asked);
        if let Some(flight) = self.flights.get_mut(&asked) {
            flight.served = Some(served);
        }
    }

    /// Something that has arrived at the client.
    pub fn arrived_at_client(&mut self, now: Instant) -> Option<(Asked, ToClient)> {
        let is_due = |flight: &Flight| flight.down.front().is_some_and(|(at, _)| *at <= now);
        let (asked, flight) = self.flights.iter_mut().find(|(_, flight)| is_due(flight))?;
        let (_, piece) = flight.down.pop_front()?;
        Some((*asked, piece))
    }

    /// Forgets exchanges of which nothing more will be heard.
    pub fn sweep(&mut self) {
        let by_server = &mut self.by_server;
        self.flights.retain(|_, flight| {
            let is_done = (flight.is_over || flight.is_dropped) && flight.up.is_empty() && flight.down.is_empty();
            if is_done {
                if let Some(served) = flight.served {
                    by_server.remove(&served);
                }
            }
            !is_done
        });
    }

    fn fate(&mut self) -> Fate {
        if self.random.below(1000) >= self.trouble {
            return Fate::Well;
        }
        let bytes = usize::try_from(self.random.below(600)).expect("small");
        match self.random.below(8) {
            0 => Fate::Unreachable,
            1 => Fate::Refused(*self.random.pick(&[401, 404, 429, 500, 502, 503])),
            2 => Fate::BreaksOnTheWay(self.random.below(6)),
            3 | 4 => Fate::Breaks(bytes + 1),
            5 | 6 => Fate::EndsEarly(bytes + 1),
            _ => Fate::Silent,
        }
    }
}

fn refusal(status: u16) -> response::Parts {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, "text/html");
    let response = if status == 429 { response.header(header::RETRY_AFTER, "2") } else { response };
    response.body(()).expect("a response").into_parts().0
}
