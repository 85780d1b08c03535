//! Capabilities: those that requests to a client need, and those of a server.

use super::Method;
use crate::json::Json;

/// The capability that a client must have declared for this request (MD-I-04); `None` if it is no request for input
/// (MD-I-03).
pub(crate) fn capability_for(method: &Method, params: &Json) -> Option<Json> {
    let (name, inside) = needed(method, params)?;
    let inside =
        inside.map_or(Json::empty_object(), |inside| Json::empty_object().with_member(inside, &Json::empty_object()));
    Some(Json::empty_object().with_member(name, &inside))
}

/// The capability and its member that a request for input needs; `None` if it is no request for input.
pub(crate) fn needed(method: &Method, params: &Json) -> Option<(&'static str, Option<&'static str>)> {
    let capability = method.facts().client_capability?;
    let inside = if *method == Method::ELICITATION_CREATE {
        let is_url = params.first_member("mode").is_some_and(|mode| mode.as_bytes() == b"\"url\"");
        Some(if is_url { "url" } else { "form" })
    } else if *method == Method::SAMPLING_CREATE_MESSAGE {
        let [tools, choice] = params.first_members(["tools", "toolChoice"]);
        (tools.is_some() || choice.is_some()).then_some("tools")
    } else {
        None
    };
    Some((capability, inside))
}

/// The capabilities that the functions of a server need, and the extensions.
const OF_SERVERS: [&str; 6] = ["completions", "logging", "prompts", "resources", "tools", super::TASKS_EXTENSION];

/// Whether these capabilities contain the capability or extension with this name.
pub(crate) fn is_declared(capabilities: &Json, name: &str) -> bool {
    let extension = || capabilities.first_member("extensions")?.first_member(name);
    capabilities.first_member(name).or_else(extension).is_some()
}

/// The names of the server capabilities that `later` contains and `earlier` does not.
#[must_use]
pub fn added(earlier: &Json, later: &Json) -> Vec<&'static str> {
    OF_SERVERS.into_iter().filter(|name| is_declared(later, name) && !is_declared(earlier, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_that_a_request_for_input_needs_depends_on_its_parameters() {
        for (method, params, expected) in [
            (Method::SAMPLING_CREATE_MESSAGE, "{}", Some(r#"{"sampling":{}}"#)),
            (Method::SAMPLING_CREATE_MESSAGE, r#"{"mode":"url"}"#, Some(r#"{"sampling":{}}"#)),
            (Method::SAMPLING_CREATE_MESSAGE, r#"{"tools":[]}"#, Some(r#"{"sampling":{"tools":{}}}"#)),
            (Method::SAMPLING_CREATE_MESSAGE, r#"{"toolChoice":{}}"#, Some(r#"{"sampling":{"tools":{}}}"#)),
            (Method::ELICITATION_CREATE, "{}", Some(r#"{"elicitation":{"form":{}}}"#)),
            (Method::ELICITATION_CREATE, r#"{"mode":"form","tools":[]}"#, Some(r#"{"elicitation":{"form":{}}}"#)),
            (Method::ELICITATION_CREATE, r#"{"mode":"url"}"#, Some(r#"{"elicitation":{"url":{}}}"#)),
            (Method::ROOTS_LIST, r#"{"tools":[],"mode":"url"}"#, Some(r#"{"roots":{}}"#)),
            (Method::PING, "{}", None),
        ] {
            let params = Json::parse(params.to_owned()).unwrap();
            let needed = capability_for(&method, &params).map(|needed| needed.to_text().into_owned());
            assert_eq!(needed.as_deref(), expected, "{method:?} {params:?}");
        }
    }
}
