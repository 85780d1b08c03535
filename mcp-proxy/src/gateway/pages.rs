//! The pages of `--health` and `--metrics`, which state numbers only.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use mcp_blocking::{GatewayStatus, ServerStatus};
use serde::Serialize;

use super::servers::Described;
use crate::args::serve::ServeArgs;

/// The pages, by their paths.
pub(super) struct Pages {
    health: Option<String>,
    metrics: Option<String>,
    status: GatewayStatus,
    /// The names of the servers, in their order.
    names: Vec<String>,
}

/// The numbers of one server or of all.
#[derive(Serialize)]
struct Health<'s> {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'s str>,
    sessions: usize,
    backends: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<Health<'s>>,
}

/// A value of each server, with its name and its description.
type Metric = (&'static str, &'static str, &'static str, fn(&ServerStatus) -> u64);

const METRICS: [Metric; 9] = [
    ("sessions", "gauge", "Open sessions.", |server| server.sessions as u64),
    ("backends", "gauge", "Processes that run.", |server| server.backends as u64),
    ("backends_started_total", "counter", "Processes that were started.", |server| server.backends_started),
    (
        "backends_failed_total",
        "counter",
        "Processes that exited or did not answer before they could be used.",
        |server| server.backends_failed,
    ),
    ("backends_stopped_total", "counter", "Processes that have ended.", |server| server.backends_stopped),
    ("requests_total", "counter", "HTTP requests.", |server| server.requests),
    ("refusals_total", "counter", "HTTP requests that were answered with a status of 400 or above.", |server| {
        server.refusals
    }),
    ("received_bytes_total", "counter", "Bytes of the bodies of requests.", |server| server.bytes_received),
    ("sent_bytes_total", "counter", "Bytes of the bodies of responses.", |server| server.bytes_sent),
];

impl Pages {
    pub(super) fn new(args: &ServeArgs, status: GatewayStatus, servers: &[Described]) -> Self {
        let names = servers.iter().map(|server| server.name.clone().unwrap_or_default()).collect();
        Self { health: args.health.clone(), metrics: args.metrics.clone(), status, names }
    }

    /// The answer to a request, if it is for a page.
    pub(super) fn answer(&self, head: &Parts) -> Option<Response<Bytes>> {
        let path = Some(head.uri.path());
        let (kind, text) = if path == self.health.as_deref() {
            ("application/json", self.health())
        } else if path == self.metrics.as_deref() {
            ("text/plain; version=0.0.4; charset=utf-8", self.metrics())
        } else {
            return None;
        };
        if head.method != Method::GET && head.method != Method::HEAD {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Some(response);
        }
        let mut response = Response::new(Bytes::from(text));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Some(response)
    }

    fn health(&self) -> String {
        let servers = self.status.servers();
        let health = Health {
            status: Some("ok"),
            path: None,
            sessions: servers.iter().map(|server| server.sessions).sum(),
            backends: servers.iter().map(|server| server.backends).sum(),
            servers: servers.iter().map(Health::of).collect(),
        };
        // Numbers and paths can always be written.
        serde_json::to_string(&health).unwrap_or_default()
    }

    fn metrics(&self) -> String {
        let (servers, mut text) = (self.status.servers(), String::new());
        for (name, kind, description, value) in METRICS {
            // Writing to a string does not fail.
            let _ = write!(text, "# HELP mcp_proxy_{name} {description}\n# TYPE mcp_proxy_{name} {kind}\n");
            for (server, label) in servers.iter().zip(&self.names) {
                let label = if label.is_empty() { String::new() } else { format!("{{server=\"{label}\"}}") };
                let _ = writeln!(text, "mcp_proxy_{name}{label} {}", value(server));
            }
        }
        text
    }
}

impl<'s> Health<'s> {
    fn of(server: &'s ServerStatus) -> Self {
        let (sessions, backends) = (server.sessions, server.backends);
        Self { status: None, path: Some(&server.path), sessions, backends, servers: Vec::new() }
    }
}
