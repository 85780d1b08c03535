//! The capabilities that a client must have declared for requests to it.

use super::Method;
use crate::codec::json::Json;

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
