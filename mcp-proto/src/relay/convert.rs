//! What payloads lose and gain between the eras (RULES section 13). Every byte that neither concerns stays as it is.

use crate::codec::json::Json;
use crate::codec::jsonrpc::ErrorObject;
use crate::spec::ProtocolVersion;
use crate::spec::meta::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID, without_keys,
};
use crate::spec::{Method, code};

/// The code of 2025-11-25 for a request that needs URLs to be visited first.
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// Somebody who does not say who.
pub(super) fn unknown() -> Json {
    let unknown = Json::from("unknown");
    Json::empty_object().with_members(&[("name", &unknown), ("version", &unknown)])
}

/// BR-L-02: what a legacy client can do, in the words of the modern era; no more than its revision knows.
pub(super) fn capabilities_of_modern_client(capabilities: &Json, version: ProtocolVersion) -> Json {
    let [roots, sampling, elicitation, experimental] =
        capabilities.first_members(["roots", "sampling", "elicitation", "experimental"]);
    let rules = version.rules();
    let roots = roots.map(|_| Json::empty_object());
    let elicitation = elicitation
        .filter(|_| rules.elicitation)
        .map(|elicitation| if rules.url_elicitation { elicitation } else { elicitation.without_members(&["url"]) });
    let mut converted = Json::empty_object();
    for (name, capability) in
        [("experimental", experimental), ("elicitation", elicitation), ("sampling", sampling), ("roots", roots)]
    {
        if let Some(capability) = capability.filter(Json::is_object) {
            converted = converted.with_member(name, &capability);
        }
    }
    converted
}

/// BR-M-02, BR-M-05: what a modern client can do, as far as a legacy server may use it through a bridge. A modern client
/// does not tell that its roots have changed.
pub(super) fn capabilities_of_legacy_client(capabilities: &Json) -> Json {
    let converted = capabilities.without_members(&["extensions", "tasks"]);
    match capabilities.first_member("roots") {
        Some(roots) if roots.is_object() => converted.with_member("roots", &Json::empty_object()),
        Some(_) => converted.without_members(&["roots"]),
        None => converted,
    }
}

/// A modern request as a legacy server gets it.
pub(super) fn request_to_legacy(params: &Json) -> Json {
    let keys = [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL];
    without_keys(&params.without_members(&["inputResponses", "requestState"]), &keys)
}

/// BR-L-08: a modern result as a legacy client gets it.
pub(super) fn result_to_legacy(method: &Method, result: &Json) -> Json {
    let result = without_keys(&result.without_members(&["resultType", "ttlMs", "cacheScope"]), &[SERVER_INFO]);
    if *method == Method::TOOLS_CALL {
        return drop_unless_object(&result, "structuredContent");
    }
    if *method != Method::TOOLS_LIST {
        return result;
    }
    let Some(tools) = result.first_member("tools") else { return result };
    result.with_member("tools", &tools.map_elements(|tool| without_wide_schema(&tool)))
}

/// Before 2026-07-28, `outputSchema` describes an object.
fn without_wide_schema(tool: &Json) -> Json {
    let schema = tool.first_member("outputSchema");
    let kind = schema.as_ref().and_then(|schema| schema.first_member("type"));
    if schema.is_some() && kind.is_none_or(|kind| kind.as_bytes() != b"\"object\"") {
        return tool.without_members(&["outputSchema"]);
    }
    tool.clone()
}

fn drop_unless_object(result: &Json, name: &str) -> Json {
    if result.first_member(name).is_some_and(|member| !member.is_object()) {
        return result.without_members(&[name]);
    }
    result.clone()
}

/// BR-M-11: a legacy result as a modern client gets it; what every result of that era says is added elsewhere.
pub(super) fn result_to_modern(method: &Method, result: &Json) -> Json {
    if *method != Method::TOOLS_LIST {
        return result.clone();
    }
    let Some(tools) = result.first_member("tools") else { return result.clone() };
    result.with_member("tools", &tools.map_elements(|tool| tool.without_members(&["execution"])))
}

/// BR-L-09: an error of a modern server as a legacy client gets it.
pub(super) fn error_to_legacy(method: &Method, error: &ErrorObject, version: ProtocolVersion) -> ErrorObject {
    let is_about_resource = *method == Method::RESOURCES_READ
        && error.code() == code::INVALID_PARAMS
        && error.data().is_some_and(|data| data.first_member("uri").is_some());
    let rules = version.rules();
    if is_about_resource {
        error.with_code(rules.resource_not_found)
    } else if error.code() == code::MISSING_REQUIRED_CLIENT_CAPABILITY {
        error.with_code(rules.missing_capability)
    } else if rules.allows_error_code(error.code()) {
        error.clone()
    } else {
        error.with_code(code::INTERNAL_ERROR)
    }
}

/// BR-M-10: an error of a legacy server as a modern client gets it.
pub(super) fn error_to_modern(error: &ErrorObject) -> ErrorObject {
    let (legacy, modern) = (ProtocolVersion::LATEST_LEGACY.rules(), ProtocolVersion::LATEST.rules());
    if error.code() == legacy.resource_not_found {
        error.with_code(modern.resource_not_found)
    } else if legacy.allows_error_code(error.code()) && modern.allows_error_code(error.code()) {
        error.clone()
    } else {
        // What a modern client takes for the protocol's, a legacy server cannot have meant so.
        error.with_code(code::INTERNAL_ERROR)
    }
}

/// BR-M-10: the URLs that must be visited before a request can be served, as requests for input; at most so many.
pub(super) fn required_urls(error: &ErrorObject, most: usize) -> Option<Vec<Json>> {
    if error.code() != URL_ELICITATION_REQUIRED {
        return None;
    }
    let data = error.data()?;
    let elicitations = data.first_member("elicitations")?;
    let urls = elicitations.elements().take(most);
    let urls: Vec<_> = urls.map(|url| question_to_modern(&url).detached_from(data.len())).collect();
    (!urls.is_empty()).then_some(urls)
}

/// The parameters of a legacy server's request for input as a modern client gets them.
pub(super) fn question_to_modern(params: &Json) -> Json {
    params.without_members(&["elicitationId", "task"])
}

/// BR-L-07: the parameters of a modern server's request for input as a legacy client gets them: a URL has an id there.
pub(super) fn question_to_legacy(method: &Method, params: &Json, id: &str) -> Json {
    let [mode, known] = params.first_members(["mode", "elicitationId"]);
    let is_url = *method == Method::ELICITATION_CREATE && mode.is_some_and(|mode| mode.as_bytes() == b"\"url\"");
    if is_url && known.is_none() { params.with_member("elicitationId", &Json::from(id)) } else { params.clone() }
}

/// A notification that belongs to a subscription, as those get it who know of none.
pub(super) fn without_subscription(params: Option<Json>) -> Option<Json> {
    params.map(|params| without_keys(&params, &[SUBSCRIPTION_ID]))
}

/// BR-L-06: the result of a call of a tool that needs what its client does not give.
pub(super) fn tool_error(text: &str) -> Json {
    let content = Json::empty_object().with_members(&[("type", &Json::from("text")), ("text", &Json::from(text))]);
    let contents = Json::from_serialize(&[&content]).unwrap_or(Json::empty_object());
    Json::empty_object().with_members(&[("content", &contents), ("isError", &Json::from(true))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).expect("the test's text is JSON")
    }

    #[test]
    fn br_l_02_a_legacy_client_can_do_what_its_revision_knows() {
        let all = json(
            r#"{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{},"experimental":{"x":{}}}"#,
        );
        for (version, converted) in [
            (ProtocolVersion::V2025_03_26, r#"{"roots":{},"sampling":{"tools":{}},"experimental":{"x":{}}}"#),
            (
                ProtocolVersion::V2025_06_18,
                r#"{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{}},"experimental":{"x":{}}}"#,
            ),
            (
                ProtocolVersion::V2025_11_25,
                r#"{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"experimental":{"x":{}}}"#,
            ),
        ] {
            assert_eq!(capabilities_of_modern_client(&all, version).to_text(), converted, "{version}");
        }
    }

    #[test]
    fn br_l_08_results_lose_what_legacy_clients_do_not_know() {
        for (method, before, after) in [
            (
                "tools/call",
                r#"{"resultType":"complete","content":[],"structuredContent":[1],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}"#,
                r#"{"content":[]}"#,
            ),
            (
                "tools/call",
                r#"{"content":[],"structuredContent":{"a":1.0}}"#,
                r#"{"content":[],"structuredContent":{"a":1.0}}"#,
            ),
            (
                "tools/list",
                r#"{"ttlMs":5,"cacheScope":"private","tools":[{"name":"a","outputSchema":{"type":"array"}},{"name":"b","outputSchema":{"type":"object"}}],"_meta":{"x":1}}"#,
                r#"{"tools":[{"name":"a"},{"name":"b","outputSchema":{"type":"object"}}],"_meta":{"x":1}}"#,
            ),
            ("prompts/get", r#"{ "messages" : [] }"#, r#"{ "messages" : [] }"#),
        ] {
            assert_eq!(result_to_legacy(&Method::from(method), &json(before)).to_text(), after, "{before}");
        }
    }

    #[test]
    fn br_l_09_br_m_10_codes_mean_the_same_on_both_sides() {
        let error = |code, data: &str| ErrorObject::with_data(code, "text", &json(data));
        let legacy = |method: &str, code, data| {
            error_to_legacy(&Method::from(method), &error(code, data), ProtocolVersion::V2025_11_25).code()
        };
        assert_eq!(legacy("resources/read", -32602, r#"{"uri":"a:b"}"#), -32002);
        assert_eq!(legacy("resources/read", -32602, "{}"), -32602);
        assert_eq!(legacy("tools/call", -32602, r#"{"uri":"a:b"}"#), -32602);
        assert_eq!(legacy("tools/call", -32021, "{}"), -32600);
        assert_eq!(legacy("tools/call", -32022, "{}"), -32603);
        assert_eq!(legacy("tools/call", 7, "{}"), 7);
        for (code, converted) in [(-32002, -32602), (-32042, -32603), (-32020, -32603), (-32601, -32601), (7, 7)] {
            let converted_error = error_to_modern(&error(code, r#"{"uri":"a:b"}"#));
            assert_eq!(converted_error.code(), converted);
            assert_eq!(converted_error.data(), Some(json(r#"{"uri":"a:b"}"#)));
        }
    }

    #[test]
    fn br_l_07_a_url_has_an_id_in_the_legacy_era_only() {
        let method = Method::ELICITATION_CREATE;
        let url = json(r#"{"mode":"url","url":"https://example.com","message":"m"}"#);
        let legacy = question_to_legacy(&method, &url, "7");
        assert_eq!(legacy.first_member("elicitationId"), Some(Json::from("7")));
        assert_eq!(question_to_modern(&legacy), url);
        let form = json(r#"{"message":"m","requestedSchema":{"type":"object"}}"#);
        assert_eq!(question_to_legacy(&method, &form, "7"), form);
    }
}
