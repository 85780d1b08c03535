//! Conversion of payloads between the eras (RULES section 13). All bytes that the conversion does not affect stay
//! unchanged.

use mcp_proto::spec::meta::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID, without_keys,
};
use mcp_proto::spec::{Change, List, structured};
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion, code};

/// The error code of 2025-11-25 for a request that requires URLs to be visited first.
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// Placeholder implementation info.
pub(super) fn unknown() -> Json {
    let unknown = Json::from("unknown");
    Json::empty_object().with_members(&[("name", &unknown), ("version", &unknown)])
}

/// Converts the capabilities of a legacy client for a modern server, limited to those of the client's revision
/// (BR-L-02).
pub(super) fn capabilities_to_modern(capabilities: &Json, version: ProtocolVersion) -> Json {
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

/// Converts the capabilities of a modern client for a legacy server, limited to those that work through a bridge
/// (BR-M-02, BR-M-05). A modern client sends no notification that its roots have changed.
pub(super) fn capabilities_to_legacy(capabilities: &Json) -> Json {
    let converted = capabilities.without_members(&["extensions", "tasks"]);
    match capabilities.first_member("roots") {
        Some(roots) if roots.is_object() => converted.with_member("roots", &Json::empty_object()),
        Some(_) => converted.without_members(&["roots"]),
        None => converted,
    }
}

/// The capabilities of a server that notifies of no changes.
pub(super) fn without_changes(capabilities: &Json) -> Json {
    let lists = List::ALL.iter().map(|list| Change::List(*list).capability());
    lists.chain([Change::Resource.capability()]).fold(capabilities.clone(), |capabilities, (name, flag)| {
        match capabilities.first_member(name) {
            Some(capability) => capabilities.with_member(name, &capability.without_members(&[flag])),
            None => capabilities,
        }
    })
}

/// Converts the parameters of a modern request for a legacy server.
pub(super) fn request_to_legacy(params: &Json) -> Json {
    let keys = [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL];
    without_keys(&params.without_members(&["inputResponses", "requestState"]), &keys)
}

/// Converts a modern result for a legacy client (BR-L-08).
pub(super) fn result_to_legacy(method: &Method, result: &Json) -> Json {
    let result = without_keys(&result.without_members(&["resultType", "ttlMs", "cacheScope"]), &[SERVER_INFO]);
    structured::to_legacy(method, &result)
}

/// Converts a legacy result for a modern client (BR-M-11). The members that every modern result has are added
/// elsewhere.
pub(super) fn result_to_modern(method: &Method, result: &Json) -> Json {
    if *method != Method::TOOLS_LIST {
        return result.clone();
    }
    let Some(tools) = result.first_member("tools") else { return result.clone() };
    result.with_member("tools", &tools.map_elements(|tool| tool.without_members(&["execution"])))
}

/// Converts an error of a modern server for a legacy client (BR-L-09).
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

/// Converts an error of a legacy server for a modern client (BR-M-10).
pub(super) fn error_to_modern(error: &ErrorObject) -> ErrorObject {
    let (legacy, modern) = (ProtocolVersion::LATEST_LEGACY.rules(), ProtocolVersion::LATEST.rules());
    if error.code() == legacy.resource_not_found {
        error.with_code(modern.resource_not_found)
    } else if legacy.allows_error_code(error.code()) && modern.allows_error_code(error.code()) {
        error.clone()
    } else {
        // A code that has a meaning in the modern protocol cannot have had that meaning for a legacy server.
        error.with_code(code::INTERNAL_ERROR)
    }
}

/// The URLs that must be visited before a request can be served, as input requests, at most `most` (BR-M-10).
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

/// Converts the parameters of a legacy server's request for a modern client's `input_required` result.
pub(super) fn question_to_modern(params: &Json) -> Json {
    params.without_members(&["elicitationId", "task"])
}

/// Converts the parameters of a modern server's input request for a legacy client, where a URL requires an id
/// (BR-L-07).
pub(super) fn question_to_legacy(method: &Method, params: &Json, id: &str) -> Json {
    let [mode, known] = params.first_members(["mode", "elicitationId"]);
    let is_url = *method == Method::ELICITATION_CREATE && mode.is_some_and(|mode| mode.as_bytes() == b"\"url\"");
    if is_url && known.is_none() { params.with_member("elicitationId", &Json::from(id)) } else { params.clone() }
}

/// Removes the subscription id from a notification, for clients without modern subscriptions.
pub(super) fn without_subscription(params: Option<Json>) -> Option<Json> {
    params.map(|params| without_keys(&params, &[SUBSCRIPTION_ID]))
}

/// The result of a tool call that requires input which the client does not provide (BR-L-06).
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
    fn br_l_02_a_legacy_client_has_the_capabilities_of_its_revision() {
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
            assert_eq!(capabilities_to_modern(&all, version).to_text(), converted, "{version}");
        }
    }

    #[test]
    fn a_server_that_notifies_of_no_changes_has_its_other_capabilities() {
        let all =
            r#"{"tools":{"listChanged":true,"x":1},"resources":{"subscribe":true,"listChanged":true},"logging":{}}"#;
        let converted = without_changes(&json(all));
        assert_eq!(converted.to_text(), r#"{"tools":{"x":1},"resources":{},"logging":{}}"#);
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
            (
                "tools/list",
                r#"{"tools":[{"name":"a","inputSchema":{"type":"object", "properties" : { "a" : true, "b":false,"c":{"items":true}},"additionalProperties":false},"outputSchema":{"type":"object","properties":{"x":true}}}]}"#,
                r#"{"tools":[{"name":"a","inputSchema":{"type":"object", "properties" : { "a" : {}, "b":{"not":{}},"c":{"items":true}},"additionalProperties":false},"outputSchema":{"type":"object","properties":{"x":{}}}}]}"#,
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
