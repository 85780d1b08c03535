//! The spans of OpenTelemetry: the trace of a span, in the formats of the W3C (JR-20). The propagator of the application decides what is sent and
//! received; without one, it is nothing.

use mcp_proto::TraceContext;
use mcp_proto::client::Call;
use opentelemetry::global::get_text_map_propagator;
use opentelemetry::propagation::{Extractor, Injector};
use opentelemetry::trace::TraceContextExt;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Makes the span that the client states the parent of this one.
pub(super) fn continue_trace(span: &Span, trace: &TraceContext) {
    if trace.traceparent().is_none() {
        return;
    }
    let parent = get_text_map_propagator(|propagator| propagator.extract(&Received(trace)));
    if parent.span().span_context().is_remote() {
        // Without a layer of OpenTelemetry, there is no trace to continue.
        let _ = span.set_parent(parent);
    }
}

/// Returns the request with the trace of this span, or of the span around it if this one is disabled. What the application
/// has stated itself remains.
pub(super) fn state_trace(span: &Span, call: Call) -> Call {
    if call.is_unchanged() || TraceContext::from_params(call.parameters()) != TraceContext::default() {
        return call;
    }
    let context = if span.is_disabled() { Span::current().context() } else { span.context() };
    let mut stated = Stated::default();
    get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut stated));
    let trace = TraceContext::from_values(|name| stated.value(name));
    if trace == TraceContext::default() { call } else { call.trace_context(&trace) }
}

/// Gives the span another name, which the layer does only before the span is entered.
pub(super) fn rename(span: &Span, name: String) {
    span.context().span().update_name(name);
}

/// The values of a request that was received.
struct Received<'t>(&'t TraceContext);

impl Extractor for Received<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.values().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.values().map(|(name, _)| name).collect()
    }
}

/// The values of a propagator, which may be of other formats, too.
#[derive(Default)]
struct Stated(Vec<(String, String)>);

impl Injector for Stated {
    fn set(&mut self, key: &str, value: String) {
        self.0.push((key.to_owned(), value));
    }
}

impl Stated {
    /// The value, if it states anything.
    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }
}
