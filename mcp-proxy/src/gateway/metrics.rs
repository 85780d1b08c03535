//! The numbers of `--metrics`, for Prometheus.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_application::DURATION_BUCKETS;
use mcp_blocking::{GatewayStatus, ServerStatus};
use mcp_proto::Method;
use mcp_proto::server::{EndedRequest, RequestOutcome};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::audit::Audit;

/// The tools and prompts of each server that have numbers of their own.
const MOST_NAMES: usize = 100;
/// The label of all further ones, and of unknown methods.
const OTHER: &str = "other";

/// The numbers of all servers.
pub(super) struct Metrics {
    registry: Registry,
    durations: Family<Operation, Histogram, fn() -> Histogram>,
    pauses: Family<OfServer, Counter>,
    reloads: Reloads,
    /// Whether there is a page for them.
    is_shown: bool,
    /// The names of tools and prompts that are labels, with their servers.
    names: Mutex<BTreeSet<(String, String)>>,
}

/// How often the configuration was read again.
#[derive(Debug, Clone, Default)]
struct Reloads(Arc<Mutex<ReloadCounts>>);

#[derive(Debug, Default)]
struct ReloadCounts {
    succeeded: u64,
    failed: u64,
    has_last_failed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    server: String,
    mcp_method_name: String,
    /// The tool or prompt; empty for other requests.
    target: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfServer {
    server: String,
}

impl Metrics {
    pub(super) fn new(status: GatewayStatus, is_shown: bool, audit: Option<Arc<Audit>>) -> Self {
        let mut registry = Registry::default();
        let durations: Family<_, _, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS));
        let pauses = Family::default();
        registry.register(
            "mcp_server_operation_duration_seconds",
            "From the arrival of a request to its end",
            durations.clone(),
        );
        registry.register("mcp_proxy_start_pauses", "Pauses after a server could not be started", pauses.clone());
        registry.register(
            "mcp_proxy_build",
            "The version of the gateway",
            Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
        );
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        registry.register(
            "mcp_proxy_start_time_seconds",
            "When the gateway was started, in seconds since 1970",
            ConstGauge::new(started.as_secs_f64()),
        );
        let reloads = Reloads::default();
        registry.register_collector(Box::new(Counts { status, audit, reloads: reloads.clone() }));
        Self { registry, durations, pauses, reloads, is_shown, names: Mutex::default() }
    }

    /// Whether there is a page for them.
    pub(super) const fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// The configuration was read again.
    pub(super) fn reloaded(&self, has_succeeded: bool) {
        let mut reloads = self.reloads.0.lock().unwrap_or_else(PoisonError::into_inner);
        *(if has_succeeded { &mut reloads.succeeded } else { &mut reloads.failed }) += 1;
        reloads.has_last_failed = !has_succeeded;
    }

    /// A request to this server has ended.
    pub(super) fn request_ended(&self, server: &str, ended: &EndedRequest) {
        let method = if Method::ALL.contains(&ended.method) { ended.method.as_str() } else { OTHER };
        let operation = Operation {
            server: server.to_owned(),
            mcp_method_name: method.to_owned(),
            target: self.target(server, ended),
            outcome: ended.outcome.name(),
        };
        self.durations.get_or_create(&operation).observe(ended.duration.as_secs_f64());
    }

    /// A server could not be started, and is not started again for some time.
    pub(super) fn start_paused(&self, server: &str) {
        self.pauses.get_or_create(&OfServer { server: server.to_owned() }).inc();
    }

    /// The label for a tool or a prompt. A client can invent names, but no results.
    fn target(&self, server: &str, ended: &EndedRequest) -> String {
        let is_named = ended.method == Method::TOOLS_CALL || ended.method == Method::PROMPTS_GET;
        let Some(name) = ended.target.as_ref().filter(|_| is_named) else { return String::new() };
        let exists =
            matches!(ended.outcome, RequestOutcome::Result | RequestOutcome::ToolError | RequestOutcome::InputRequired);
        let key = (server.to_owned(), name.as_str().to_owned());
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(&key) {
            if !exists || names.iter().filter(|(of, _)| of == server).count() >= MOST_NAMES {
                return OTHER.to_owned();
            }
            names.insert(key.clone());
        }
        key.1
    }

    /// The page.
    pub(super) fn page(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_text::encode(&mut text, &self.registry);
        text
    }
}

/// The numbers that the gateway counts itself.
struct Counts {
    status: GatewayStatus,
    audit: Option<Arc<Audit>>,
    reloads: Reloads,
}

/// A value of each server, with its name and its description.
type Count = (&'static str, &'static str, fn(&ServerStatus) -> u64);

const GAUGES: [Count; 2] = [
    ("mcp_proxy_sessions", "Open sessions", |server| server.sessions as u64),
    ("mcp_proxy_backends", "Processes that run", |server| server.backends as u64),
];

const COUNTERS: [Count; 6] = [
    ("mcp_proxy_backends_started", "Processes that were started", |server| server.backends_started),
    ("mcp_proxy_backends_failed", "Processes that exited or did not answer before they could be used", |server| {
        server.backends_failed
    }),
    ("mcp_proxy_backends_stopped", "Processes that have ended", |server| server.backends_stopped),
    ("mcp_proxy_requests", "HTTP requests", |server| server.requests),
    ("mcp_proxy_received_bytes", "Bytes of the bodies of requests", |server| server.bytes_received),
    ("mcp_proxy_sent_bytes", "Bytes of the bodies of responses", |server| server.bytes_sent),
];

/// The name of a server, which its path contains.
fn label(server: &ServerStatus) -> String {
    let name = server.path.strip_suffix("/mcp").and_then(|path| path.strip_prefix('/'));
    name.unwrap_or(&server.path).to_owned()
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").finish_non_exhaustive()
    }
}

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let servers: Vec<_> = self.status.servers().into_iter().map(|server| (label(&server), server)).collect();
        for (name, help, value) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (label, server) in &servers {
                let value = i64::try_from(value(server)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&[("server", label.as_str())])?)?;
            }
        }
        for (name, help, value) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (label, server) in &servers {
                ConstCounter::new(value(server)).encode(family.encode_family(&[("server", label.as_str())])?)?;
            }
        }
        let help = "HTTP requests that were answered with a status of 400 or above";
        let mut family = encoder.encode_descriptor("mcp_proxy_refusals", help, None, MetricType::Counter)?;
        for (label, server) in &servers {
            for (status, count) in &server.refusals {
                let labels = [("server", label.as_str()), ("status", status.as_str())];
                ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
            }
        }
        let reloads = self.reloads.0.lock().unwrap_or_else(PoisonError::into_inner);
        let help = "How often the configuration was read again, by whether it is in force since";
        let mut family = encoder.encode_descriptor("mcp_proxy_config_reloads", help, None, MetricType::Counter)?;
        for (outcome, count) in [("success", reloads.succeeded), ("failure", reloads.failed)] {
            ConstCounter::new(count).encode(family.encode_family(&[("outcome", outcome)])?)?;
        }
        let help = "1 if the configuration that was read last is in force, 0 if it has a mistake";
        let metric =
            encoder.encode_descriptor("mcp_proxy_config_last_reload_successful", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::from(!reloads.has_last_failed)).encode(metric)?;
        drop(reloads);
        if let Some(audit) = &self.audit {
            let help = "Requests that could not be recorded in the file of --audit";
            let metric = encoder.encode_descriptor("mcp_proxy_audit_lost", help, None, MetricType::Counter)?;
            ConstCounter::new(audit.lost()).encode(metric)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use mcp_proto::server::{Config, Event, Server};
    use mcp_proto::{ErrorObject, Instant, Json, Output, Stdio};

    use super::*;

    /// What a server reports about a request that took 40 ms.
    pub(in super::super) fn ended(method: &str, params: &str, answer: Result<Json, ErrorObject>) -> EndedRequest {
        let mut config = Config::new("s", "1");
        config.reports_ended_requests = true;
        let mut server = Server::pass_through(Stdio::new(), config).unwrap();
        let meta = Json::parse(r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#).unwrap();
        let params = Json::parse(params.to_owned()).unwrap().with_member("_meta", &meta);
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{}}}"#,
            String::from_utf8_lossy(params.as_bytes())
        );
        server.handle_bytes(format!("{line}\n").as_bytes(), Instant::START);
        let events = |server: &mut Server<Stdio>| -> Vec<Event> {
            std::iter::from_fn(|| server.poll_output())
                .filter_map(|output| if let Output::Event(event) = output { Some(event) } else { None })
                .collect()
        };
        let Some(Event::Requested { ticket, .. }) = events(&mut server).pop() else { panic!("a request") };
        server.respond(ticket, answer, Instant::START + Duration::from_millis(40)).unwrap();
        let Some(Event::RequestEnded(ended)) = events(&mut server).pop() else { panic!("its end") };
        *ended
    }

    fn metrics() -> Metrics {
        Metrics::new(GatewayStatus::default(), true, None)
    }

    /// The lines with the number of requests.
    fn counts(metrics: &Metrics) -> Vec<String> {
        let name = "mcp_server_operation_duration_seconds_count";
        let mut lines: Vec<_> =
            metrics.page().lines().filter_map(|line| line.strip_prefix(name)).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_duration_is_counted_in_the_bucket_that_it_fits() {
        let metrics = metrics();
        metrics.request_ended("a", &ended("tools/call", r#"{"name":"t"}"#, Ok(Json::empty_object().clone())));
        let page = metrics.page();
        for (bound, count) in [("0.02", 0), ("0.05", 1), ("300", 1), ("+Inf", 1)] {
            let labels = r#"server="a",mcp_method_name="tools/call",target="t",outcome="result""#;
            let bucket = format!(r#"mcp_server_operation_duration_seconds_bucket{{{labels},le="{bound}"}} {count}"#);
            assert!(page.lines().any(|line| line == bucket), "{bucket} in {page}");
        }
    }

    #[test]
    fn clients_cannot_make_up_series() {
        let metrics = metrics();
        let unknown = || Err(ErrorObject::new(-32602, "no such tool"));
        for number in 0..500 {
            metrics.request_ended("a", &ended("tools/call", &format!(r#"{{"name":"made-up-{number}"}}"#), unknown()));
            metrics.request_ended("a", &ended(&format!("made/up/{number}"), "{}", unknown()));
        }
        assert_eq!(
            counts(&metrics),
            [
                r#"{server="a",mcp_method_name="other",target="",outcome="error"} 500"#,
                r#"{server="a",mcp_method_name="tools/call",target="other",outcome="error"} 500"#,
            ]
        );
        // A tool that has answered keeps its label when it fails, and has another one at another server.
        let params = r#"{"name":"t"}"#;
        for (server, answer) in [("a", Ok(Json::empty_object().clone())), ("a", unknown()), ("b", unknown())] {
            metrics.request_ended(server, &ended("tools/call", params, answer));
        }
        let counts = counts(&metrics);
        for line in [
            r#"{server="a",mcp_method_name="tools/call",target="t",outcome="error"} 1"#,
            r#"{server="b",mcp_method_name="tools/call",target="other",outcome="error"} 1"#,
        ] {
            assert!(counts.iter().any(|count| count == line), "{line} in {counts:?}");
        }
    }

    #[test]
    fn a_server_has_series_for_so_many_tools_and_another_server_for_as_many() {
        let metrics = metrics();
        for server in ["a", "b"] {
            for number in 0..MOST_NAMES + 50 {
                let params = format!(r#"{{"name":"tool-{number}"}}"#);
                metrics.request_ended(server, &ended("tools/call", &params, Ok(Json::empty_object().clone())));
            }
        }
        let counts = counts(&metrics);
        assert_eq!(counts.len(), 2 * (MOST_NAMES + 1));
        assert_eq!(counts.iter().filter(|line| line.contains(r#"target="other""#) && line.ends_with(" 50")).count(), 2);
    }

    #[test]
    fn pauses_are_counted_for_the_server_that_could_not_be_started() {
        let metrics = metrics();
        metrics.start_paused("a");
        metrics.start_paused("a");
        let page = metrics.page();
        assert!(page.contains(r#"mcp_proxy_start_pauses_total{server="a"} 2"#), "{page}");
    }
}
