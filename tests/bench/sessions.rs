//! Memory and time that an idle session of an HTTP server costs.
//!
//! `cargo bench -p tests --bench sessions`

use std::time::Duration;

use http::Request;
use mcp_proto::server::{
    Config, Event, Http, HttpAction, HttpConfig, RequestInfo, Server, SessionMode, StoredSessions,
};
use mcp_proto::store::{MemoryStore, StoreAction, StoreKey};
use mcp_proto::{InstanceId, Instant, Output};
use mcp_testkit::http_exchange::initialize;

const SESSIONS: usize = 100_000;
const INSTANCE: InstanceId = InstanceId::new(1);

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()));
    pages.unwrap_or(0) * 4096
}

/// Opens and confirms a session like a client, and drains the output.
fn open(server: &mut Server<Http>, store: &mut MemoryStore, number: u64, now: Instant) {
    let mut nonce = [0; 32];
    for (place, byte) in nonce.iter_mut().zip(number.to_le_bytes().iter().cycle()) {
        *place = *byte;
    }
    let post = |session: Option<&str>| {
        let mut request = Request::post("/mcp")
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        request.body(()).expect("a request").into_parts().0
    };
    let opened = server.handle_request(post(None), RequestInfo::new(nonce), now);
    server.handle_body(opened, initialize("2025-11-25").as_bytes(), now);
    server.handle_end(opened, now);
    let session = drain(server, store).expect("a session");
    let confirmed = server.handle_request(post(Some(&session)), RequestInfo::new(nonce), now);
    server.handle_body(confirmed, br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, now);
    server.handle_end(confirmed, now);
    drain(server, store);
}

fn drain(server: &mut Server<Http>, store: &mut MemoryStore) -> Option<String> {
    let mut session = None;
    while let Some(output) = server.poll_output() {
        match output {
            Output::Action(HttpAction::Respond { response, .. }) => {
                let id = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
                session = id.map(str::to_owned).or(session);
            }
            Output::Action(HttpAction::Store(action)) => carry_out(server, store, &action),
            Output::Event(Event::Faulted(fault)) => panic!("{fault}"),
            _ => {}
        }
    }
    session
}

fn carry_out(server: &mut Server<Http>, store: &mut MemoryStore, action: &StoreAction) {
    let now = Instant::START;
    if let (Some(key), Some(result)) = (action.key(), store.carry_out(INSTANCE, action, now)) {
        server.handle_stored(key, result, now);
    }
    // Of a store of another process, nothing is in the memory of this one.
    if let StoreAction::Load { session, .. } = action {
        store.carry_out(INSTANCE, &StoreAction::Forget { key: StoreKey::new(0), session: session.clone() }, now);
    }
}

fn server(sessions: SessionMode) -> Server<Http> {
    let mut http = HttpConfig::new();
    (http.max_sessions, http.sessions) = (SESSIONS, sessions);
    Server::new(Http::new(http), Config::new("bench", "1")).expect("a configuration")
}

fn main() {
    let (mut in_memory, mut none) = (server(SessionMode::InMemory), MemoryStore::new());
    let (now, began) = (Instant::START, std::time::Instant::now());
    let before = resident_bytes();
    for number in 0..SESSIONS as u64 {
        open(&mut in_memory, &mut none, number, now);
    }
    let opened = began.elapsed();
    let each = (resident_bytes() - before) / SESSIONS;
    println!(
        "{SESSIONS} idle sessions: {each} bytes each, {:.1} us to open and confirm one",
        opened.as_secs_f64() * 10.0
    );
    let mut stored = server(SessionMode::Stored(StoredSessions::new(INSTANCE)));
    let before = resident_bytes();
    for number in 0..SESSIONS as u64 {
        open(&mut stored, &mut none, number, now);
    }
    let each = (resident_bytes() - before) / SESSIONS;
    println!("{SESSIONS} idle sessions that are in a store, too: {each} bytes each in the memory of the instance");
    let expiring = std::time::Instant::now();
    in_memory.handle_timeout(now + Duration::from_secs(3600));
    drain(&mut in_memory, &mut none);
    println!("all expired: {} left, {:.2} us each", in_memory.sessions(), expiring.elapsed().as_secs_f64() * 10.0);
}
