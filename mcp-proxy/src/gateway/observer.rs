//! Logs the events of a server, and records messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_blocking::GatewayObserver;
use mcp_intermediary::gateway::{BackendKey, Event};
use mcp_intermediary::relay;
use mcp_intermediary::relay::Pins;

use super::audit::Audit;
use super::event_log::{is_caused_by_client, log_event, log_line};
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
