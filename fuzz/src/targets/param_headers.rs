//! Headers that repeat the body: the server accepts what the client writes, and nothing else (RULES 8.2, 8.3).

use mcp_proto::Json;
use mcp_proto::server::Event;
use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::http_exchange::{TestRequest, modern};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::result;

use crate::script::Script;

/// Values of arguments.
const VALUES: [&str; 12] =
    ["null", "true", "false", "0", "-1", "42", "42.0", "1e2", "9007199254740993", r#""x""#, r#"" x ""#, r#"{"a":1}"#];
/// Three types that an annotated property may have, and one (`number`) that it must not have.
const TYPES: [&str; 4] = ["string", "integer", "boolean", "number"];

/// A client and a server that have the same tool definition agree about the headers of every call of the tool. When a
/// header is changed so that it contradicts the body, the server refuses the call.
pub fn param_headers(data: &[u8]) {
    let mut script = Script(data);
    let Some(name) = script.text().map(|name| String::from_utf8_lossy(name).into_owned()) else { return };
    let (Some(kind), Some(value)) = (script.pick(&TYPES), script.pick(&VALUES)) else { return };
    let Some(text) = script.text().map(|text| String::from_utf8_lossy(text).into_owned()) else { return };
    let quoted = |text: &str| Json::from(text).to_text().into_owned();
    let value = if value == r#""x""# { quoted(&text) } else { value.to_owned() };
    let schema = format!(
        r#"{{"type":"object","properties":{{"a":{{"type":"{kind}","x-mcp-header":"A"}},"b":{{"type":"string"}}}}}}"#
    );
    let tools = format!(r#"{{"resultType":"complete","tools":[{{"name":{},"inputSchema":{schema}}}]}}"#, quoted(&name));

    let mut client = HttpClientHarness::modern_client();
    let (_, list) = client.request("tools/list");
    client.reply(list.key, &Reply::json(result(&list.id(), &tools)));
    let arguments = format!(r#"{{"a":{value},"b":"c"}}"#);
    let (_, call) = client.call("tools/call", &format!(r#"{{"name":{},"arguments":{arguments}}}"#, quoted(&name)));

    let mut harness =
        HttpServerHarness::with(|_, config| config.capabilities = Json::parse(r#"{"tools":{}}"#).expect("JSON"));
    harness.ask(&TestRequest::post(modern("1", "tools/list", "")).repeating_headers("2026-07-28", "tools/list"));
    let ticket = harness.ticket();
    harness.respond(ticket, &tools);
    harness.events();
    let headers: Vec<_> = call
        .request
        .headers()
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("mcp-"))
        .map(|(name, value)| (name.as_str().to_owned(), value.to_str().expect("the client writes ASCII").to_owned()))
        .collect();
    let with = |headers: &[(String, String)]| {
        headers.iter().fold(TestRequest::post(call.body().to_owned()), |asked, (name, value)| asked.with(name, value))
    };
    let key = harness.ask(&with(&headers));
    let reached = harness.events().iter().any(|event| matches!(event, Event::Requested { .. }));
    assert!(reached, "{headers:?} of {}: {}", call.body(), harness.take(key).text());

    // A header with another meaning contradicts the body.
    let Some(at) = script.byte() else { return };
    let mut changed = headers.clone();
    let which = usize::from(at) % changed.len();
    let Some(other) = script.text().map(|text| String::from_utf8_lossy(text).into_owned()) else { return };
    let is_ascii = other.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && other.trim() == other;
    if !is_ascii || changed[which].1 == other || means(&other) == means(&changed[which].1) {
        return;
    }
    changed[which].1 = other;
    let key = harness.ask(&with(&changed));
    let reached = harness.events().iter().any(|event| matches!(event, Event::Requested { .. }));
    let sent = harness.take(key);
    assert!(!reached && sent.code() / 100 == 4, "{changed:?} of {}: {}", call.body(), sent.text());
}

/// The meaning of a header value: base64 is decoded, and a number is written in one form.
fn means(value: &str) -> String {
    let inside = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let decoded = inside.and_then(|inside| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.decode(inside).ok()
    });
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| value.to_owned());
    text.parse::<f64>().map_or(text, |number| number.to_string())
}
