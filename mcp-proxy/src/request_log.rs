//! The line of the log for each request of a client that has ended. The names of its fields are those of OpenTelemetry's
//! semantic conventions for MCP, as far as these have one.

use log::kv::Value;
use log::{Level, Metadata, Record};
use mcp_proto::Method;
use mcp_proto::server::{EndedRequest, Principal};

/// The name under which the lines are filtered.
const TARGET: &str = "mcp_proxy::request_log";

/// Whether the lines are logged.
pub(crate) fn is_enabled() -> bool {
    log::logger().enabled(&Metadata::builder().level(Level::Info).target(TARGET).build())
}

/// Logs a request to this server.
pub(crate) fn log(server: &str, ended: &EndedRequest) {
    with_record(server, ended, |record| log::logger().log(record));
}

/// Uses the record of a request to this server.
pub(crate) fn with_record<R>(server: &str, ended: &EndedRequest, usage: impl FnOnce(&Record<'_>) -> R) -> R {
    let fields = fields(server, ended);
    usage(
        &Record::builder()
            .level(Level::Info)
            .target(TARGET)
            .args(format_args!("a request ended"))
            .key_values(&fields)
            .build(),
    )
}

fn fields<'e>(server: &'e str, ended: &'e EndedRequest) -> Vec<(&'static str, Value<'e>)> {
    let mut fields = vec![("server", Value::from(server))];
    let mut add = |name, value: Option<Value<'e>>| fields.extend(value.map(|value| (name, value)));
    add("user.id", ended.principal.as_ref().map(Principal::as_str).map(Value::from));
    // The key of the session at this gateway: its id is a secret.
    add("mcp.session.id", ended.ticket.session().map(|session| Value::from(session.number())));
    add("mcp.method.name", Some(Value::from(ended.method.as_str())));
    let target = ended.target.as_ref().map(|target| Value::from(target.as_str()));
    add(
        if ended.method == Method::TOOLS_CALL {
            "gen_ai.tool.name"
        } else if ended.method == Method::PROMPTS_GET {
            "gen_ai.prompt.name"
        } else {
            "mcp.resource.scheme"
        },
        target,
    );
    add("outcome", Some(Value::from(ended.outcome.name())));
    add("error.type", ended.outcome.error_code().map(Value::from));
    add("duration", Some(Value::from(ended.duration.as_secs_f64())));
    add("request.bytes", Some(Value::from(ended.params_bytes)));
    add("response.bytes", Some(Value::from(ended.answer_bytes)));
    add("trace_id", ended.trace_id.as_deref().map(Value::from));
    fields
}
