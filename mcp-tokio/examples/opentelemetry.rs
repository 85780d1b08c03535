//! A server and a client in one program, whose spans and durations go to a collector of OpenTelemetry, over OTLP and HTTP:
//! `cargo run -p mcp-tokio --example opentelemetry -- http://127.0.0.1:4318`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use mcp_tokio::proto::server::{Config, HttpConfig};
use mcp_tokio::{Client, Incoming, Router, Server};
use opentelemetry::global;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tracing::{Instrument, Level, info_span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// What is exported until it is stopped.
pub(crate) struct Telemetry {
    pub(crate) spans: SdkTracerProvider,
    durations: SdkMeterProvider,
}

impl Telemetry {
    /// Exports the spans and durations of this process to the collector at this URL.
    pub(crate) fn start(collector: &str) -> Result<Self, Box<dyn Error>> {
        let resource = Resource::builder().with_service_name("my-app").build();
        let exporter = SpanExporter::builder().with_http().with_endpoint(format!("{collector}/v1/traces")).build()?;
        let spans = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.clone()).build();
        let exporter =
            MetricExporter::builder().with_http().with_endpoint(format!("{collector}/v1/metrics")).build()?;
        let durations = SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource).build();

        // Servers and clients that are created after this record their durations.
        global::set_meter_provider(durations.clone());
        // The client states its trace, and the server continues it.
        global::set_text_map_propagator(TraceContextPropagator::new());
        // The spans of requests of a client have the level debug.
        let filter = Targets::new().with_default(Level::INFO).with_target("mcp_tokio", Level::DEBUG);
        let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("my-app")).with_filter(filter);
        tracing_subscriber::registry().with(layer).try_init()?;
        Ok(Self { spans, durations })
    }

    /// Exports what was not exported yet.
    pub(crate) fn stop(self) -> Result<(), Box<dyn Error>> {
        self.spans.shutdown()?;
        self.durations.shutdown()?;
        Ok(())
    }
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Divide {
    dividend: i64,
    divisor: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let collector = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:4318".to_owned());
    let telemetry = Telemetry::start(&collector)?;

    let router = Router::new().tool("divide", "Divides two numbers.", |numbers: Divide, _: Incoming| async move {
        let quotient = numbers.dividend.checked_div(numbers.divisor).ok_or("division by zero")?;
        Ok(quotient.to_string())
    });
    let server = Server::new(Config::new("my-tools", "1.0.0"), router);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let service = server.http(HttpConfig::new())?;
    let serving = tokio::spawn(async move { service.serve(listener).await });

    divide(&url).instrument(info_span!("work")).await?;

    server.shutdown(Duration::from_secs(5)).await;
    serving.await??;
    telemetry.stop()
}

/// The spans of these calls are in the span around this function.
async fn divide(url: &str) -> Result<(), mcp_tokio::Error> {
    let client = Client::builder().name("my-app", "1.0.0").http(url)?.connect().await?;
    for divisor in [7, 0] {
        let called = client.call_tool("divide", Divide { dividend: 42, divisor }).await?;
        println!("{}", called.content.first().and_then(|content| content.as_text()).unwrap_or_default());
    }
    client.close().await;
    Ok(())
}
