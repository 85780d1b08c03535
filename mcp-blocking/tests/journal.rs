//! Tests of what is logged. They are in their own process, because a process has only one logger.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use log::{LevelFilter, Log, Metadata, Record};
use mcp_blocking::{Incoming, Server};
use mcp_proto::Json;
use mcp_proto::server::Config;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::raw_client::RawClient;

/// Everything that this process has logged.
struct Journal(Mutex<Vec<String>>);

static JOURNAL: Journal = Journal(Mutex::new(Vec::new()));

impl Log for Journal {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = format!("{} {}: {}", record.level(), record.target(), record.args());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn flush(&self) {}
}

/// Waits for a line with this text.
fn line(text: &str) -> String {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let lines = JOURNAL.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(line) = lines.iter().find(|line| line.contains(text)) {
            return line.clone();
        }
        assert!(Instant::now() < until, "no {text} in {lines:#?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn faults_of_clients_and_panics_of_handlers_are_logged_without_payloads() {
    log::set_logger(&JOURNAL).unwrap();
    log::set_max_level(LevelFilter::Trace);
    let server = Server::bind("127.0.0.1:0", Config::new("s", "1")).unwrap();
    let (remote, stopper) = (RawClient::new(&server.address().to_string()), server.stopper());
    let serve = |_: &Incoming| -> Result<Json, mcp_proto::ErrorObject> { panic!("a handler may fail") };
    let running = thread::spawn(move || server.run(serve).unwrap());
    let id = remote.session("2025-06-18");
    assert_eq!(remote.answer(&TestRequest::post("{\"secret").in_session(&id)).code(), 400);
    assert!(line("a client caused a fault: not JSON at byte ").starts_with("INFO mcp_blocking"));
    let call = TestRequest::post(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"secret":1}}"#).in_session(&id);
    assert!(remote.answer(&call).text().contains("-32603"));
    assert!(line("the handler of m panicked").starts_with("ERROR mcp_blocking"));
    stopper.stop();
    running.join().unwrap();
    let lines = JOURNAL.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(lines.iter().all(|line| !line.contains("secret") && !line.contains(&id)), "{lines:#?}");
}
