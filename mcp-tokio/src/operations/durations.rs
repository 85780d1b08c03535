//! The histograms `mcp.server.operation.duration` and `mcp.client.operation.duration`.

use std::borrow::Cow;
use std::time::Duration;

use mcp_application::{DURATION_BUCKETS, OperationLabel};
use mcp_proto::ProtocolVersion;
use opentelemetry::metrics::Histogram;
use opentelemetry::{KeyValue, global};

use super::Network;

/// The name under which the instruments are created.
const SCOPE: &str = "mcp-tokio";

/// The durations of the requests of a server or a client.
#[derive(Debug)]
pub(super) struct Durations(Histogram<f64>);

/// What a duration is recorded with. The number of different values of each is limited.
pub(super) struct Attributes<'a> {
    pub(super) label: OperationLabel<'a>,
    pub(super) gen_ai_operation: Option<&'static str>,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) network: Network,
    pub(super) error_type: Option<Cow<'static, str>>,
}

impl Durations {
    pub(super) fn of_server() -> Self {
        Self::new("mcp.server.operation.duration", "From the arrival of a request to its end")
    }

    pub(super) fn of_client() -> Self {
        Self::new("mcp.client.operation.duration", "From the call of a request to its outcome")
    }

    fn new(name: &'static str, description: &'static str) -> Self {
        let meter = global::meter(SCOPE);
        let histogram = meter.f64_histogram(name).with_unit("s").with_description(description);
        Self(histogram.with_boundaries(DURATION_BUCKETS.to_vec()).build())
    }

    pub(super) fn record(&self, duration: Duration, of: &Attributes<'_>) {
        let is_code = |text: &str| text.parse::<i64>().is_ok();
        let texts = [
            ("gen_ai.operation.name", of.gen_ai_operation),
            ("mcp.protocol.version", of.version.map(ProtocolVersion::as_str)),
            ("network.transport", of.network.transport()),
            ("network.protocol.name", of.network.protocol()),
        ];
        let own = [
            ("gen_ai.tool.name", of.label.tool),
            ("gen_ai.prompt.name", of.label.prompt),
            ("error.type", of.error_type.as_deref()),
            ("rpc.response.status_code", of.error_type.as_deref().filter(|text| is_code(text))),
        ];
        let mut attributes = vec![KeyValue::new("mcp.method.name", of.label.method.to_owned())];
        attributes.extend(texts.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?))));
        attributes.extend(own.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?.to_owned()))));
        self.0.record(duration.as_secs_f64(), &attributes);
    }
}
