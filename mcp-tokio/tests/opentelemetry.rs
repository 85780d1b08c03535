//! What a collector of OpenTelemetry receives. These tests run in a separate process, because the propagator and the meters
//! are those of a whole process.

#![cfg(all(feature = "http-client", feature = "http-server", feature = "opentelemetry", feature = "schema"))]
#![expect(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::time::{Duration, Instant};

use mcp_model::Resource;
use mcp_proto::client::Call;
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{Failed, Json};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::loopback_server::LoopbackServer;
use mcp_testkit::waiting::LONG;
use mcp_tokio::{Client, Error, Incoming, Router, Server};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tests::deadline::output_of;
use tests::examples::example;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{Instrument, info_span};

#[path = "../examples/opentelemetry.rs"]
#[expect(dead_code, reason = "the rest of it is the example")]
mod setup;

/// What must not be exported.
const MARK: &str = "mark-of-a-payload";

/// Its scheme is exported, and nothing else of it.
const URI: &str = "note:///mark-of-a-payload";

#[derive(Deserialize, JsonSchema)]
struct Text {
    #[expect(dead_code, reason = "the schema has it")]
    text: Option<String>,
}

/// A collector on loopback.
struct Collector(LoopbackServer);

impl Collector {
    fn start() -> Self {
        let protobuf = [("content-type", "application/x-protobuf")];
        Self(LoopbackServer::start(move |_, connection| connection.reply("200 OK", &protobuf, "")))
    }

    fn url(&self) -> String {
        format!("http://{}", self.0.authority)
    }

    fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let line = format!("POST {path} ");
        self.0.requests().into_iter().filter(|request| request.line.starts_with(&line)).map(|it| it.body).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let exports =
            self.bodies("/v1/traces").into_iter().map(|body| ExportTraceServiceRequest::decode(&*body).unwrap());
        let scopes = exports.flat_map(|export| export.resource_spans).flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// The points of a histogram in the last export.
    fn points(&self, name: &str) -> Vec<HistogramDataPoint> {
        let last = self.bodies("/v1/metrics").pop().unwrap();
        let export = ExportMetricsServiceRequest::decode(&*last).unwrap();
        let scopes = export.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        let metric = scopes.flat_map(|scope| scope.metrics).find(|metric| metric.name == name).unwrap();
        assert_eq!(metric.unit, "s");
        let Some(Data::Histogram(histogram)) = metric.data else { panic!("{name} is no histogram") };
        histogram.data_points
    }

    /// The count of each combination of attributes, without the revision and the transport.
    fn counts(&self, name: &str) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for point in self.points(name) {
            assert_eq!(point.explicit_bounds, mcp_application::DURATION_BUCKETS);
            let mut texts = texts(&point.attributes);
            for (key, value) in COMMON {
                assert_eq!(texts.remove(key).as_deref(), Some(value), "{name}");
            }
            let shown: Vec<_> = texts.iter().map(|(key, value)| format!("{key}={value}")).collect();
            counts.insert(shown.join(" "), point.count);
        }
        counts
    }
}

const COMMON: [(&str, &str); 3] =
    [("mcp.protocol.version", "2025-11-25"), ("network.transport", "tcp"), ("network.protocol.name", "http")];

/// The attributes with their values as text.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other values are recorded")]
fn texts(attributes: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::BoolValue(value) => value.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.as_str(), text(attribute))).collect()
}

fn of_kind(spans: &[Span], kind: SpanKind) -> impl Iterator<Item = &Span> {
    spans.iter().filter(move |span| span.kind == kind as i32)
}

/// The only span of this name and kind whose attribute has this value.
fn only<'s>(spans: &'s [Span], kind: SpanKind, name: &str, key: &str, value: &str) -> &'s Span {
    let found: Vec<_> = of_kind(spans, kind)
        .filter(|span| span.name == name && texts(&span.attributes).get(key).is_some_and(|found| found == value))
        .collect();
    let all: Vec<_> = of_kind(spans, kind).map(|span| (&span.name, texts(&span.attributes))).collect();
    assert_eq!(found.len(), 1, "{name} with {key}={value} in {all:#?}");
    found[0]
}

/// Sends a value when a handler begins, and another one when it ends or is dropped.
struct BeginAndEnd(mpsc::UnboundedSender<()>);

impl BeginAndEnd {
    fn begin(sender: mpsc::UnboundedSender<()>) -> Self {
        sender.send(()).unwrap();
        Self(sender)
    }
}

impl Drop for BeginAndEnd {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A server with tools that succeed, fail and wait. It sends the ids of its sessions, and when the tool that waits begins and ends.
fn server(sessions: mpsc::UnboundedSender<String>, waits: mpsc::UnboundedSender<()>) -> Server {
    let router = Router::new()
        .tool("succeed", "", move |_: Text, incoming: Incoming| {
            let _ = sessions.send(incoming.headers()["mcp-session-id"].to_str().unwrap().to_owned());
            async { Ok(MARK) }
        })
        .tool("fail", "", |_: Text, _: Incoming| async { Err::<String, _>(MARK.into()) })
        .tool("wait", "", move |_: Text, _: Incoming| {
            let in_progress = BeginAndEnd::begin(waits.clone());
            async move {
                let _in_progress = in_progress;
                pending::<Result<String, _>>().await
            }
        })
        .resource(&Resource::new(URI, "x"), |_: Incoming| async { Ok(MARK) });
    Server::new(Config::new("s", "1"), router)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_receives_the_spans_and_durations_of_both_sides_and_no_payload() {
    tests::deadline::set();
    let collector = Collector::start();
    let telemetry = setup::Telemetry::start(&collector.url()).unwrap();
    let (sessions, mut session) = mpsc::unbounded_channel();
    let (waits, mut waiting) = mpsc::unbounded_channel();
    let server = server(sessions, waits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let service = server.http(HttpConfig::new()).unwrap();
    let serving = tokio::spawn(async move { service.serve(listener).await });
    let client = Client::builder().versions(legacy_versions()).http(&url).unwrap().connect().await.unwrap();

    let work = async {
        let arguments = json!({ "text": MARK });
        for _ in 0..2 {
            client.call_tool("succeed", &arguments).await.unwrap();
        }
        assert_eq!(client.call_tool("fail", &arguments).await.unwrap().is_error, Some(true));
        assert!(matches!(client.call_tool("made-up", &arguments).await, Err(Error::Server { .. })));
        assert!(matches!(client.request("x/unknown", None).await, Err(Error::Server { .. })));
        client.read_resource(URI).await.unwrap();
        let wait = || Call::new("tools/call").params(Json::parse(r#"{"name":"wait"}"#).unwrap());
        let late = client.call(wait().timeout(Duration::from_millis(50))).await.unwrap().wait().await;
        assert!(matches!(late, Err(Error::Failed { reason: Failed::TimedOut { .. }, .. })), "{late:?}");
        let cancelled = client.call(wait()).await.unwrap();
        for _ in 0..3 {
            timeout(LONG, waiting.recv()).await.unwrap().unwrap();
        }
        cancelled.cancel();
        assert!(cancelled.wait().await.is_err());
        timeout(LONG, waiting.recv()).await.unwrap().unwrap();
    };
    work.instrument(info_span!("work")).await;
    client.close().await;
    server.shutdown(LONG).await;
    serving.await.unwrap().unwrap();
    let until = Instant::now() + LONG;
    while of_kind(&collector.spans(), SpanKind::Server).count() < 8 && Instant::now() < until {
        telemetry.spans.force_flush().unwrap();
    }
    telemetry.stop().unwrap();

    let spans = collector.spans();
    check_relations(&spans);
    check_attributes(&spans);
    check_durations(&collector);
    let session = session.recv().await.unwrap();
    for body in ["/v1/traces", "/v1/metrics"].into_iter().flat_map(|path| collector.bodies(path)) {
        for secret in [MARK, &session] {
            let is_in_body = body.windows(secret.len()).any(|bytes| bytes == secret.as_bytes());
            assert!(!is_in_body, "{secret} in {}", String::from_utf8_lossy(&body));
        }
    }
}

/// Each span of the server is in the span of a client, and these are in the span of the application.
fn check_relations(spans: &[Span]) {
    let work = spans.iter().find(|span| span.name == "work").unwrap();
    let clients: BTreeMap<_, _> = of_kind(spans, SpanKind::Client).map(|span| (&span.span_id, span)).collect();
    let servers: Vec<_> = of_kind(spans, SpanKind::Server).collect();
    assert_eq!((clients.len(), servers.len()), (8, 8));
    for client in clients.values() {
        assert_eq!((&client.trace_id, &client.parent_span_id), (&work.trace_id, &work.span_id), "{client:?}");
    }
    let mut called = BTreeSet::new();
    for server in servers {
        let client = clients.get(&server.parent_span_id).unwrap_or_else(|| panic!("no parent of {server:?}"));
        assert_eq!((&server.trace_id, &server.name), (&client.trace_id, &client.name));
        let [of_client, of_server] = [client, server].map(|span| texts(&span.attributes));
        for key in ["mcp.method.name", "jsonrpc.request.id", "mcp.protocol.version", "network.transport"] {
            assert!(of_client.contains_key(key) && of_client.get(key) == of_server.get(key), "{key}: {of_client:?}");
        }
        assert!(called.insert(&client.span_id), "two requests of one call");
    }
}

fn check_attributes(spans: &[Span]) {
    let tool = "gen_ai.tool.name";
    for (kind, ends) in [
        (SpanKind::Client, ["tool_error", "-32602", "-32601", "timed_out", "cancelled"]),
        (SpanKind::Server, ["tool_error", "-32602", "-32601", "cancelled", "cancelled"]),
    ] {
        let mut found: Vec<_> = of_kind(spans, kind)
            .filter_map(|span| {
                let mut texts = texts(&span.attributes);
                let error = texts.remove("error.type");
                let is_error = span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error as i32);
                assert_eq!(error.is_some(), is_error, "{span:?}");
                let code = error.clone().filter(|error| error.starts_with('-'));
                assert_eq!(texts.remove("rpc.response.status_code"), code, "{span:?}");
                error
            })
            .collect();
        let mut ends = ends.to_vec();
        found.sort();
        ends.sort_unstable();
        assert_eq!(found, ends, "{kind:?}");
    }
    for kind in [SpanKind::Client, SpanKind::Server] {
        let failed = texts(&only(spans, kind, "tools/call fail", tool, "fail").attributes);
        assert_eq!(failed["gen_ai.operation.name"], "execute_tool");
        assert_eq!((failed["outcome"].as_str(), failed["error.type"].as_str()), ("tool_error", "tool_error"));
        assert!(failed["duration"].parse::<f64>().unwrap() >= 0.0);
        assert_eq!(failed.get("mcp.session.id").map(String::as_str), (kind == SpanKind::Server).then_some("1"));
        let made_up = texts(&only(spans, kind, "tools/call", tool, "made-up").attributes);
        assert_eq!(made_up["error.type"], "-32602");
        let unknown = texts(&only(spans, kind, "_OTHER", "mcp.method.name", "x/unknown").attributes);
        assert!(!unknown.contains_key("gen_ai.operation.name"), "{unknown:?}");
        only(spans, kind, "resources/read", "mcp.resource.scheme", "note");
    }
}

fn check_durations(collector: &Collector) {
    let tool = |rest: &str| format!("gen_ai.operation.name=execute_tool{rest} mcp.method.name=tools/call");
    let error = |code: &str, rest: &str| format!("error.type={code} {rest}");
    let code = |code: &str, rest: &str| format!("error.type={code} {rest} rpc.response.status_code={code}");
    for (name, ends) in [
        ("mcp.client.operation.duration", &[("timed_out", 1), ("cancelled", 1)][..]),
        ("mcp.server.operation.duration", &[("cancelled", 2)]),
    ] {
        let mut expected = BTreeMap::from([
            (tool(" gen_ai.tool.name=succeed"), 2),
            (error("tool_error", &tool(" gen_ai.tool.name=fail")), 1),
            (code("-32602", &tool("")), 1),
            (code("-32601", "mcp.method.name=_OTHER"), 1),
            ("mcp.method.name=resources/read".to_owned(), 1),
        ]);
        expected.extend(ends.iter().map(|(end, count)| (error(end, &tool("")), *count)));
        assert_eq!(collector.counts(name), expected, "{name}");
    }
}

#[test]
fn the_example_exports_one_trace_and_both_durations() {
    let collector = Collector::start();
    let output = output_of(example("opentelemetry").arg(collector.url()));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "6\ndivision by zero\n", "{output:?}");
    assert!(output.status.success(), "{output:?}");
    let spans = collector.spans();
    let traces: BTreeSet<_> =
        spans.iter().filter(|span| span.name.starts_with("tools/")).map(|it| &it.trace_id).collect();
    assert_eq!(traces.len(), 1);
    for kind in [SpanKind::Client, SpanKind::Server] {
        assert_eq!(of_kind(&spans, kind).filter(|span| span.name == "tools/call divide").count(), 2);
    }
    for name in ["mcp.client.operation.duration", "mcp.server.operation.duration"] {
        let points = collector.points(name);
        let calls = points.iter().filter(|point| texts(&point.attributes)["mcp.method.name"] == "tools/call");
        assert_eq!(calls.map(|point| point.count).sum::<u64>(), 2, "{name}");
    }
}
