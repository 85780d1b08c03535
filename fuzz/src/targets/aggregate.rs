//! An aggregate of two servers: the input controls what its client asks for, and what the servers write.

use std::time::Duration;

use mcp_proto::{ProtocolVersion, RequestKey};
use tests::aggregate::{AggregateHarness, Offer};

use crate::script::Script;

/// The names of the servers. What a server sends by itself contains its mark, and no other.
const SERVERS: [(&str, &str); 2] = [("a", "<a>"), ("b", "<b>")];

/// Whatever the client asks for, and whatever the servers send: each request of the client has one outcome; that of a call has no
/// mark of another server; no call reaches another server; and nothing is held in the end.
///
/// In texts, `%` stands for the mark of the server, and `#` for the id of the latest request that it has received.
pub fn aggregate(data: &[u8]) {
    let mut script = Script(data);
    let versions = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];
    let (Some(client), Some(first), Some(second)) =
        (script.pick(&versions), script.pick(&versions), script.pick(&versions))
    else {
        return;
    };
    let Some(is_shared) = script.pick(&[false, true]) else { return };
    let servers = [("a", Offer::new(&[first], &["x", "slow"])), ("b", Offer::new(&[second], &["x", "slow", "ask"]))];
    let harness = AggregateHarness::with(&[client], &servers, |config| config.is_shared = is_shared);
    let mut world = World { harness, open: Vec::new() };
    while let Some(step) = script.byte() {
        let Some(server) = script.byte().map(|byte| usize::from(byte) % SERVERS.len()) else { break };
        if world.step(step, server, &mut script).is_none() {
            break;
        }
        world.check();
    }
    world.finish();
}

struct World {
    harness: AggregateHarness,
    /// Requests without an outcome, with the server that they are for.
    open: Vec<(RequestKey, Option<usize>)>,
}

impl World {
    fn step(&mut self, step: u8, server: usize, script: &mut Script<'_>) -> Option<()> {
        let (name, mark) = SERVERS[server];
        match step % 11 {
            0 | 1 => {
                let tool = script.pick(&["x", "slow", "ask", "none"])?;
                let params = format!(r#"{{"name":"{name}__{tool}","arguments":{{"to":"{name}"}}}}"#);
                self.request(Some(server), "tools/call", &params);
            }
            2 => {
                let lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
                let (list, cursor) = (script.pick(&lists)?, script.text()?);
                let is_plain = cursor.iter().all(u8::is_ascii_alphanumeric);
                let cursor = std::str::from_utf8(cursor).ok().filter(|cursor| is_plain && !cursor.is_empty());
                let params = cursor.map_or_else(|| "{}".to_owned(), |cursor| format!(r#"{{"cursor":"{cursor}"}}"#));
                self.request(None, list, &params);
            }
            3 => {
                let uri = script.pick(&["a:1", "b:1", "file:///x", "not a URI"])?;
                self.request(None, "resources/read", &format!(r#"{{"uri":"{uri}"}}"#));
            }
            4 | 5 => {
                let id = self.latest_id(server);
                let mut line = Vec::new();
                for byte in script.text()? {
                    match byte {
                        b'%' => line.extend_from_slice(mark.as_bytes()),
                        b'#' => line.extend_from_slice(id.as_bytes()),
                        b'<' => line.push(b'('),
                        byte => line.push(*byte),
                    }
                }
                self.harness.inject(server, &String::from_utf8_lossy(&line));
            }
            6 => {
                let (request, _) = *self.open.last()?;
                self.harness.client.cancel(request, None, self.harness.now);
                self.harness.settle();
            }
            7 => {
                if self.harness.is_running(server) {
                    self.harness.exit(server);
                }
            }
            8 => {
                if self.harness.servers[server].offer.is_silent {
                    self.harness.speak(server);
                } else {
                    self.harness.servers[server].offer.is_silent = true;
                }
            }
            9 => self.harness.answer_slow(server),
            _ => self.harness.pass(Duration::from_secs(u64::from(script.byte()?))),
        }
        Some(())
    }

    fn request(&mut self, server: Option<usize>, method: &str, params: &str) {
        let request = self.harness.request(method, params);
        self.open.push((request, server));
    }

    /// The id of the latest request that a server has received.
    fn latest_id(&self, server: usize) -> String {
        let received = String::from_utf8_lossy(&self.harness.servers[server].received);
        let latest = received.lines().rev().find_map(|line| line.split_once("\"id\":").map(|(_, rest)| rest));
        latest.and_then(|rest| rest.split([',', '}']).next()).unwrap_or_default().to_owned()
    }

    fn check(&mut self) {
        let harness = &mut self.harness;
        self.open.retain(|(request, server)| {
            let Some(outcome) = harness.outcome(*request) else { return true };
            let text = outcome.unwrap_or_else(|error| error);
            for (other, (_, mark)) in SERVERS.iter().enumerate() {
                let is_other = server.is_some_and(|server| server != other);
                assert!(!is_other || !text.contains(mark), "a call of {server:?} was answered by {other}: {text}");
            }
            false
        });
        for ((name, _), server) in SERVERS.iter().zip(&mut harness.servers) {
            for (method, params) in std::mem::take(&mut server.requests) {
                let is_own = method != "tools/call" || params.contains(&format!(r#""to":"{name}""#));
                assert!(is_own, "a call of another server reaches {name}: {params}");
            }
        }
    }

    fn finish(mut self) {
        for server in 0..SERVERS.len() {
            self.harness.speak(server);
            self.harness.answer_slow(server);
        }
        // The client gives a request up after ten minutes at most.
        self.harness.pass(Duration::from_secs(700));
        self.check();
        assert_eq!(self.open, [], "requests without an outcome");
        self.harness.close();
        assert!(self.harness.is_closed());
        let load = self.harness.aggregate.load();
        assert_eq!((load.requests_in, load.requests_out, load.held, load.timers), (0, 0, 0, 0), "{load:?}");
    }
}
