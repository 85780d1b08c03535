//! The pages of `--health` and `--metrics`, which state numbers only.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use mcp_blocking::{GatewayStatus, ServerStatus};
use serde::Serialize;

use super::metrics::Metrics;
use crate::args::serve::ServeArgs;

/// The pages, by their paths.
pub(super) struct Pages {
    health: Option<String>,
    metrics_path: Option<String>,
    status: GatewayStatus,
    metrics: Arc<Metrics>,
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

impl Pages {
    pub(super) fn new(args: &ServeArgs, status: GatewayStatus, metrics: Arc<Metrics>) -> Self {
        Self { health: args.health.clone(), metrics_path: args.metrics.clone(), status, metrics }
    }

    /// The answer to a request, if it is for a page.
    pub(super) fn answer(&self, head: &Parts) -> Option<Response<Bytes>> {
        let path = Some(head.uri.path());
        let (kind, text) = if path == self.health.as_deref() {
            ("application/json", self.health())
        } else if path == self.metrics_path.as_deref() {
            ("text/plain; version=0.0.4; charset=utf-8", self.metrics.page())
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
}

impl<'s> Health<'s> {
    fn of(server: &'s ServerStatus) -> Self {
        let (sessions, backends) = (server.sessions, server.backends);
        Self { status: None, path: Some(&server.path), sessions, backends, servers: Vec::new() }
    }
}
