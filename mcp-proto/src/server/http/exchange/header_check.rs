//! Compares the headers of a request with its body (MD-H-02), because a proxy may route by the headers.

use bytes::Bytes;
use http::{HeaderMap, HeaderName};

use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Request};
use crate::server::http::exchange::annotated::AnnotatedTools;
use crate::server::principal::Principal;
use crate::server::transport::Envelope;
use crate::spec;
use crate::spec::header::{METHOD, NAME, PROTOCOL_VERSION};
use crate::spec::{Method, ProtocolVersion, UnreadableId, code, param_headers};

/// Whether `MCP-Protocol-Version` names a stateless revision.
pub(crate) fn names_stateless(headers: &HeaderMap) -> bool {
    let value = headers.get(&PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| spec::names_stateless(value.trim()))
}

/// How an error without a readable id is written, according to the revision that the headers name (A28).
pub(crate) fn unreadable_id(headers: &HeaderMap) -> UnreadableId {
    if names_stateless(headers) {
        return UnreadableId::Omitted;
    }
    let version = headers.get(&PROTOCOL_VERSION).and_then(|value| ProtocolVersion::from_text(value.to_str().ok()?));
    version.map_or(UnreadableId::Null, |version| version.rules().unreadable_id)
}

/// What the headers of a stateless request state, compared with its body.
pub(crate) fn envelope(
    headers: &HeaderMap,
    request: &Request,
    asked: Option<&str>,
    principal: Option<Principal>,
    tools: &AnnotatedTools,
) -> Envelope {
    let Request { method, params, .. } = request;
    let params = params.as_ref();
    Envelope {
        names_stateless: names_stateless(headers),
        version: asked.map_or(Ok(()), |asked| version(headers, asked)),
        method_and_name: method_and_name(headers, method, params),
        arguments: if *method == Method::TOOLS_CALL { parameters(headers, params, tools) } else { Ok(()) },
        principal,
    }
}

fn version(headers: &HeaderMap, asked: &str) -> Result<(), ErrorObject> {
    // This header is never encoded (MD-H-06).
    plain(headers, &PROTOCOL_VERSION, asked)
}

fn method_and_name(headers: &HeaderMap, method: &Method, params: Option<&Json>) -> Result<(), ErrorObject> {
    plain(headers, &METHOD, method.as_str())?;
    let Some(member) = method.facts().named_by else { return Ok(()) };
    let name = params.and_then(|params| params.first_member(member));
    match (single(headers, &NAME)?, name.as_ref().and_then(Json::as_string)) {
        (Some(header), Some(name)) if param_headers::decode(header).as_deref() == Some(&*name) => Ok(()),
        // Without either, the headers agree; the parameters are validated elsewhere.
        (None, None) => Ok(()),
        (_, _) => Err(mismatch(&NAME)),
    }
}

/// Checks `Mcp-Method` of a notification, if it is present (A11).
pub(crate) fn notification(headers: &HeaderMap, method: &Method) -> Result<(), ErrorObject> {
    if headers.contains_key(&METHOD) { plain(headers, &METHOD, method.as_str()) } else { Ok(()) }
}

/// Compares the headers that repeat arguments with the arguments (MD-P-09 to MD-P-11), for tools that the server has
/// listed.
fn parameters(headers: &HeaderMap, params: Option<&Json>, tools: &AnnotatedTools) -> Result<(), ErrorObject> {
    let Some(params) = params else { return Ok(()) };
    let [name, arguments] = params.first_members(["name", "arguments"]);
    let annotations = name.as_ref().and_then(Json::as_string).and_then(|name| tools.get(&name));
    let Some(annotations) = annotations else { return Ok(()) };
    for (name, argument) in annotations.arguments(arguments.as_ref()) {
        let null = Json::from_valid_text(Bytes::from_static(b"null"));
        let argument = argument.unwrap_or(null);
        let agrees = match single(headers, name)?.map(param_headers::decode) {
            Some(Some(header)) => param_headers::matches(&header, &argument) == Some(true),
            Some(None) => false,
            None => param_headers::matches("", &argument).is_none(),
        };
        if !agrees {
            return Err(mismatch(name));
        }
    }
    Ok(())
}

fn plain(headers: &HeaderMap, name: &HeaderName, expected: &str) -> Result<(), ErrorObject> {
    let value = single(headers, name)?.and_then(|value| value.to_str().ok());
    // Values are case-sensitive (MD-H-01), and surrounding whitespace is not part of them (MD-H-04).
    if value.is_some_and(|value| value.trim_matches([' ', '\t']) == expected) { Ok(()) } else { Err(mismatch(name)) }
}

/// Returns the only value of a header. Two are refused, because readers differ in which one they use (MD-H-05).
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h http::HeaderValue>, ErrorObject> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(mismatch(name)),
    }
}

fn mismatch(name: &HeaderName) -> ErrorObject {
    ErrorObject::new(code::HEADER_MISMATCH, &format!("the header {name} differs from the body of the request"))
}
