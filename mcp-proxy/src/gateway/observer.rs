//! Logs the events of a server, and records messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use log::Level;
use mcp_blocking::GatewayObserver;
use mcp_intermediary::gateway::{BackendKey, Event};
use mcp_intermediary::relay;
use mcp_intermediary::relay::Pins;

use super::audit::Audit;
use super::metrics::Metrics;
use super::servers::Described;
use super::setup::Setup;
use crate::pin_file::PinFile;
use crate::record::{Record, Recorder, Source};
use crate::request_log;

/// Logs the events of a server, and records messages.
pub(super) struct Observer {
    /// The name of the server, if it has one.
    name: Option<String>,
    /// The server in metrics, and in the lines of the log for requests.
    label: String,
    audit: Option<Arc<Audit>>,
    /// `None` if there is no page for them.
    metrics: Option<Arc<Metrics>>,
    /// The server, as it appears in log messages.
    shown: String,
    record: Option<Record>,
    /// Where the pinned definitions of tools are stored.
    pins: Option<PinFile>,
    max_message: usize,
    recorders: BTreeMap<BackendKey, Recorder>,
}

impl Observer {
    /// The observer of this server, whose pinned tools are in this file.
    pub(super) fn new(setup: &Setup, server: &Described, pins: Option<PinFile>, max_message: usize) -> Self {
        Self {
            name: server.name.clone(),
            label: server.label().to_owned(),
            metrics: setup.metrics.is_shown().then(|| Arc::clone(&setup.metrics)),
            audit: setup.audit.clone(),
            pins,
            shown: server.in_words(),
            record: setup.record.clone(),
            max_message,
            recorders: BTreeMap::new(),
        }
    }

    /// Records something of a process, if messages are recorded.
    fn record(&mut self, backend: BackendKey, write: impl FnOnce(&mut Recorder)) {
        let Some(record) = &self.record else { return };
        write(self.recorders.entry(backend).or_insert_with(|| {
            let source = Source { server: self.name.as_deref().map(Into::into), process: Some(backend.number()) };
            record.recorder(self.max_message, source)
        }));
    }
}

/// Returns the level and text of the log line for an event.
fn log_line(event: &Event, server: &str) -> Option<(Level, String)> {
    Some(match event {
        Event::Backend { backend, event } => crate::log_line(event, &format!("process {backend} of {server}"))?,
        Event::NotStarted { reason, retry_in } => (
            Level::Warn,
            format!("{}; the next attempt may be made in {:.0} s", reason.describe(server), retry_in.as_secs_f64()),
        ),
        Event::Faulted(fault) => (Level::Info, format!("from a client of {server}: {fault}")),
        Event::Drained { cancelled: 0 } => return None,
        Event::Drained { cancelled } => {
            (Level::Warn, format!("requests to {server} were cancelled, because the gateway is stopped: {cancelled}"))
        }
        // It is a line with fields.
        Event::RequestEnded(_) | _ => return None,
    })
}

/// Logs an event of the machines. The log limits the lines that clients can cause in any number.
pub(super) fn log_event(level: Level, text: &str, is_caused_by_client: bool) {
    let target = if is_caused_by_client { "mcp_proxy::gateway::client_fault" } else { "mcp_proxy::gateway" };
    log::log!(target: target, level, "{text}");
}

/// Whether each message of a client can cause the event.
pub(super) const fn is_caused_by_client(event: &relay::Event) -> bool {
    use relay::Event as E;
    matches!(event, E::Faulted { .. } | E::Failed(_) | E::NotPassed { .. } | E::Postponed { .. })
}

impl GatewayObserver for Observer {
    fn event(&mut self, event: &Event) {
        if let Event::RequestEnded(ended) = event {
            request_log::log(&self.label, ended);
            if let Some(audit) = &self.audit {
                audit.record(&self.label, ended);
            }
        }
        match (event, &self.metrics) {
            (Event::RequestEnded(ended), Some(metrics)) => metrics.request_ended(&self.label, ended),
            (Event::NotStarted { .. }, Some(metrics)) => metrics.start_paused(&self.label),
            _ => {}
        }
        if let Some((level, text)) = log_line(event, &self.shown) {
            let is_caused_by_client = matches!(event, Event::Faulted(_))
                || matches!(event, Event::Backend { event, .. } if is_caused_by_client(event));
            log_event(level, &text, is_caused_by_client);
        }
        if let Event::Backend { backend, event: relay::Event::Closed(_) } = event {
            self.recorders.remove(backend);
        }
    }

    fn store_pins(&mut self, pins: &Pins) -> Option<Pins> {
        self.pins.as_ref().map(|file| file.store(pins))
    }

    fn received(&mut self, backend: BackendKey, bytes: &[u8]) {
        self.record(backend, |recorder| recorder.server_sent(bytes));
    }

    fn written(&mut self, backend: BackendKey, bytes: &[u8]) {
        self.record(backend, |recorder| recorder.client_sent(bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_proto::Failed;

    use super::*;

    #[test]
    fn only_lines_that_each_message_of_a_client_can_cause_are_limited() {
        use mcp_proto::Fault;
        use mcp_proto::client::{CloseReason, Unavailable};
        let faulted = relay::Event::Faulted { side: relay::Side::Client, fault: Fault::DuplicateKey };
        let unavailable = relay::Event::Unavailable { reason: Unavailable::Failed(Failed::Closed), retry_in: None };
        for (event, is_limited) in [
            (faulted, true),
            (relay::Event::Failed(Failed::Closed), true),
            (relay::Event::SessionLost, false),
            (relay::Event::Closed(CloseReason::Peer), false),
            (unavailable, false),
        ] {
            assert_eq!(is_caused_by_client(&event), is_limited, "{event:?}");
        }
    }

    #[test]
    fn a_process_that_is_not_started_yet_is_logged_with_the_time_until_the_next_attempt() {
        let event = Event::NotStarted { reason: Failed::Closed, retry_in: Duration::from_secs(3) };
        let (level, text) = log_line(&event, "the server").unwrap();
        assert_eq!(level, Level::Warn);
        assert!(text.ends_with("; the next attempt may be made in 3 s"), "{text}");
    }
}
