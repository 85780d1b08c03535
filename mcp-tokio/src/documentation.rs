//! Further pages of the documentation.

pub mod logging {
    //! What is logged, and what OpenTelemetry receives.
    //!
    //! # Spans
    //!
    //! Each connection of a client has a `tracing` span `mcp_client`, and each of its requests a span `mcp_request` (level
    //! debug). A server's handlers run in a span `mcp_server_request` (level info). Requests that the machines answer or make
    //! themselves, such as `initialize`, have none. The names of these spans and of their fields do not change within a major
    //! version:
    //!
    //! | field | of | value |
    //! |---|---|---|
    //! | `otel.name` | both | the method, and after a space the tool or prompt, once it has given a result |
    //! | `otel.kind`, `otel.status_code` | both | `client` or `server`; `error` if there is an `error.type` |
    //! | `mcp.method.name` | both | the method |
    //! | `mcp.protocol.version` | both | the protocol revision; of a client, the one in force when the request was made |
    //! | `mcp.session.id` | `mcp_server_request` | the number of the session, which is local to the server; none for a stateless request. The session's own id is a secret |
    //! | `jsonrpc.request.id` | both | the id of the request; of a client, the first if it is sent again |
    //! | `gen_ai.tool.name`, `gen_ai.prompt.name` | both | the tool or the prompt |
    //! | `gen_ai.operation.name` | both | `execute_tool` for a call of a tool |
    //! | `mcp.resource.scheme` | both | the scheme of the resource's URI, of which the rest may be private |
    //! | `network.transport`, `network.protocol.name` | both | `tcp` and `http`; `pipe` for stdio and child processes; none for other streams |
    //! | `traceparent` | `mcp_server_request` | the trace that the client states, if any (`IncomingRequest::trace_context`) |
    //! | `outcome` | both | `result`, `tool_error` (the tool has failed), `input_required` or `error`; of a server also `cancelled` or `panicked`; of a client the name of a [`Failed`] |
    //! | `error.type` | both | of a failure: the code of the JSON-RPC error if there is one, otherwise the outcome |
    //! | `rpc.response.status_code` | both | the code of the JSON-RPC error |
    //! | `duration` | both | the time until the outcome, in seconds |
    //!
    //! Methods, ids, and names of tools and prompts have at most 128 characters.
    //!
    //! A gateway has a span `mcp_gateway_backend` (level info) for each backend, whose field `backend` is the number of it.
    //!
    //! Session ids, payloads, other header values and queries of URLs are never logged, with one exception: if a line on a
    //! server's stdout does not begin a JSON object or array, at most 80 characters of it are logged.
    //! [`Builder::log_stderr`] logs a server's stderr.
    //!
    //! # OpenTelemetry
    //!
    //! The names of the spans and fields are those of OpenTelemetry's [semantic conventions for MCP], as far as these have one.
    //! The crate `tracing-opentelemetry` makes a span of OpenTelemetry of each, with the name and the kind in `otel.name` and
    //! `otel.kind`. Differences from the conventions: no URI of a resource, no text of an error, and the number of a session
    //! in place of its id.
    //!
    //! The feature `opentelemetry` adds what a layer for `tracing` cannot do:
    //!
    //! * The client states the trace of the span of a request in `_meta`, unless the application has done so, and the span of
    //!   the server continues it. The application's propagator decides what is sent and received: without
    //!   `opentelemetry::global::set_text_map_propagator`, it is nothing. A server trusts its clients with the ids of traces then,
    //!   and with whether they are recorded.
    //! * A span has the name of its tool or prompt also if this becomes known only by its result.
    //! * The histograms `mcp.server.operation.duration` and `mcp.client.operation.duration` of the meter `mcp-tokio`, also
    //!   for requests whose spans are disabled. Set `opentelemetry::global::set_meter_provider` before a server is created and
    //!   before a client connects. A client can call tools that do not exist, so that a tool or a prompt is an attribute only
    //!   after it has given a result, and at most 100 of each are; unknown methods are `_OTHER`
    //!   ([`application::OperationNames`]).
    //!
    //! The feature has version 0.33 of the crate `opentelemetry`, and the application must have the same: another version has
    //! its own providers. The example `opentelemetry` exports both over OTLP.
    //!
    //! [semantic conventions for MCP]: https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/
    //! [`Failed`]: crate::proto::Failed
    //! [`application::OperationNames`]: crate::application::OperationNames
    //! [`Builder::log_stderr`]: crate::Builder::log_stderr
}

pub mod tasks {
    //! The tasks of this crate, and what bounds their memory.
    //!
    //! ```text
    //!   callers ── bounded channel ──▶ driver ──▶ writer: lines          (byte stream)
    //!   reader, or exchanges ────────▶        ──▶ exchange, exchange …   (HTTP: Limits::exchanges)
    //!
    //!   stream, or connections ──────▶ driver  ──▶ lines, or bodies of responses
    //!   handlers ── bounded channel ─▶        ──▶ handler, handler …     (Limits::requests_in)
    //!   store ── bounded channel ────▶        ──▶ action, action …       (64 at one time)
    //!
    //!   connections ─────────────────▶ driver  ──▶ bodies of responses   (a gateway)
    //!   backends ── a chunk of each ─▶        ──▶ backend, backend …     (Limits::backends)
    //! ```
    //!
    //! One task runs each machine, so there is no lock around it. The task does not read while the machine has no room;
    //! [`mcp_proto::Limits`] states how much a machine may hold. A slow handler of a client does not delay anything else:
    //! when its queue is full, notifications are dropped with a warning. A server's handler waits in `progress`, `log` and
    //! `notify` while its client does not read, so the data that is queued for a client is limited, too.
    //! `publish` waits for no client: [`mcp_proto::Limits::unwritten`] bounds what is queued by it.
}
