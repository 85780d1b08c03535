//! What is reported about requests, by OpenTelemetry's semantic conventions for MCP: a span for each, and with the feature
//! `opentelemetry` its duration.
//!
//! | file | what it does |
//! |---|---|
//! | `durations` | the histogram of durations |
//! | `propagation` | the trace of a span, from a request and to a request |

#[cfg(feature = "opentelemetry")]
mod durations;
#[cfg(feature = "opentelemetry")]
mod propagation;

use std::cell::{LazyCell, OnceCell};
use std::sync::Arc;

use mcp_application::{IncomingRequest, Operation, OperationEnd, OperationNames, request_id_text};
use mcp_proto::client::Call;
use mcp_proto::{ProtocolVersion, RequestId, RequestKey, SessionKey};
use tokio::time::Instant;
use tracing::Span;
use tracing::field::{Empty, display};

/// What carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// HTTP over TCP.
    #[cfg(any(feature = "http-client", feature = "http-server"))]
    Http,
    /// The stdin and stdout of a process.
    Pipe,
    /// A stream of the application.
    Unknown,
}

impl Network {
    /// `network.transport`.
    const fn transport(self) -> Option<&'static str> {
        match self {
            #[cfg(any(feature = "http-client", feature = "http-server"))]
            Self::Http => Some("tcp"),
            Self::Pipe => Some("pipe"),
            Self::Unknown => None,
        }
    }

    /// `network.protocol.name`.
    const fn protocol(self) -> Option<&'static str> {
        match self {
            #[cfg(any(feature = "http-client", feature = "http-server"))]
            Self::Http => Some("http"),
            Self::Pipe | Self::Unknown => None,
        }
    }
}

/// Reports the requests of one server, or of one client.
#[derive(Debug, Clone)]
pub(crate) struct Operations {
    shared: Arc<Shared>,
    network: Network,
}

#[derive(Debug)]
struct Shared {
    names: OperationNames,
    #[cfg(feature = "opentelemetry")]
    durations: durations::Durations,
}

/// A request that has not ended.
#[derive(Debug)]
pub(crate) struct Begun {
    operations: Operations,
    /// `None` if nothing observes it.
    named: Option<Box<Named>>,
    #[cfg(feature = "opentelemetry")]
    version: Option<ProtocolVersion>,
    span: Span,
    at: Instant,
}

/// A request, and the name of its span.
#[derive(Debug)]
struct Named {
    operation: Operation,
    name: String,
}

/// Creates the span of a request: its fields are those that the documentation of the crate promises.
macro_rules! request_span {
    ($span:ident, $name:literal, $kind:literal, $network:expr, $named:expr, { $($further:tt)* }) => {
        // The values are computed only if the span is enabled.
        tracing::$span!(
            $name,
            otel.kind = $kind,
            otel.name = $named().name,
            otel.status_code = Empty,
            mcp.method.name = $named().operation.method(),
            gen_ai.operation.name = $named().operation.gen_ai_operation(),
            gen_ai.tool.name = $named().operation.tool(),
            gen_ai.prompt.name = $named().operation.prompt(),
            mcp.resource.scheme = $named().operation.resource_scheme(),
            network.transport = $network.transport(),
            network.protocol.name = $network.protocol(),
            $($further)*
            outcome = Empty,
            error.type = Empty,
            rpc.response.status_code = Empty,
            duration = Empty,
        )
    };
}

impl Operations {
    /// Reports the requests to a server; `network` is set for each way in which it is served.
    pub(crate) fn of_server() -> Self {
        Self::new(
            #[cfg(feature = "opentelemetry")]
            durations::Durations::of_server(),
        )
    }

    /// Reports the requests of a client.
    pub(crate) fn of_client() -> Self {
        Self::new(
            #[cfg(feature = "opentelemetry")]
            durations::Durations::of_client(),
        )
    }

    fn new(#[cfg(feature = "opentelemetry")] durations: durations::Durations) -> Self {
        let shared = Shared {
            names: OperationNames::default(),
            #[cfg(feature = "opentelemetry")]
            durations,
        };
        Self { shared: Arc::new(shared), network: Network::Unknown }
    }

    /// The same, with the same names, for messages that this carries.
    pub(crate) fn over(&self, network: Network) -> Self {
        Self { shared: Arc::clone(&self.shared), network }
    }

    fn name(&self, operation: Operation) -> Named {
        let name = self.shared.names.label(&operation).to_string();
        Named { operation, name }
    }

    /// A request has arrived, with this id.
    pub(crate) fn received(&self, request: &IncomingRequest, id: Option<&RequestId>) -> Begun {
        let at = Instant::now();
        let about = OnceCell::new();
        let named = || about.get_or_init(|| Box::new(self.name(Operation::new(request.method(), request.params()))));
        let trace = LazyCell::new(|| request.trace_context());
        let span = request_span!(info_span, "mcp_server_request", "server", self.network, named, {
            mcp.protocol.version = request.version().as_str(),
            mcp.session.id = request.session().map(SessionKey::number),
            jsonrpc.request.id = id.map(|id| display(request_id_text(id))),
            traceparent = trace.traceparent(),
        });
        #[cfg(feature = "opentelemetry")]
        {
            if !span.is_disabled() {
                propagation::continue_trace(&span, &trace);
            }
            // The duration is recorded without a span, too.
            named();
        }
        Begun {
            operations: self.clone(),
            named: about.into_inner(),
            #[cfg(feature = "opentelemetry")]
            version: Some(request.version()),
            span,
            at,
        }
    }

    /// A request is to be made. Returns it with the trace of its span.
    pub(crate) fn calling(&self, call: Call) -> (Begun, Call) {
        let at = Instant::now();
        let about = OnceCell::new();
        let named = || about.get_or_init(|| Box::new(self.name(Operation::new(call.method(), call.parameters()))));
        let span = request_span!(debug_span, "mcp_request", "client", self.network, named, {
            mcp.protocol.version = Empty,
            jsonrpc.request.id = Empty,
        });
        #[cfg(feature = "opentelemetry")]
        named();
        let begun = Begun {
            operations: self.clone(),
            named: about.into_inner(),
            #[cfg(feature = "opentelemetry")]
            version: None,
            span,
            at,
        };
        #[cfg(feature = "opentelemetry")]
        let call = propagation::state_trace(&begun.span, call);
        (begun, call)
    }
}

impl Begun {
    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    /// The request was accepted: it has this key, and is made in this revision.
    pub(crate) fn accepted(&mut self, request: RequestKey, version: Option<ProtocolVersion>) {
        #[cfg(feature = "opentelemetry")]
        {
            self.version = version;
        }
        if !self.span.is_disabled() {
            self.span.record("jsonrpc.request.id", display(request_id_text(&request.id())));
            self.span.record("mcp.protocol.version", version.map(ProtocolVersion::as_str));
        }
    }

    /// The request has ended.
    pub(crate) fn ended(self, how: impl FnOnce() -> OperationEnd) {
        let Some(named) = self.named else { return };
        let Named { operation, name } = *named;
        let (shared, span) = (self.operations.shared, self.span);
        let (duration, end) = (self.at.elapsed(), how());
        let label = shared.names.ended(&operation, &end);
        if !span.is_disabled() {
            // Its result may have made a name known.
            let known = label.to_string();
            if known != name {
                span.record("otel.name", &*known);
                #[cfg(feature = "opentelemetry")]
                propagation::rename(&span, known);
            }
            span.record("outcome", end.outcome());
            span.record("duration", duration.as_secs_f64());
            if let Some(error) = end.error_type() {
                span.record("otel.status_code", "error");
                span.record("error.type", &*error);
            }
            if let Some(code) = end.status_code() {
                span.record("rpc.response.status_code", display(code));
            }
        }
        #[cfg(feature = "opentelemetry")]
        shared.durations.record(
            duration,
            &durations::Attributes {
                label,
                gen_ai_operation: operation.gen_ai_operation(),
                version: self.version,
                network: self.operations.network,
                error_type: shared.names.error_type(&end),
            },
        );
    }
}
