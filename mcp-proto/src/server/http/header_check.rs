//! Whether the headers of a request say what its body says (MD-H-02): whoever routes by the headers must not be misled.

use bytes::Bytes;
use http::{HeaderMap, HeaderName};

use crate::codec::json::Json;
use crate::codec::jsonrpc::ErrorObject;
use crate::server::annotated::AnnotatedTools;
use crate::spec::Era;
use crate::spec::header::{METHOD, NAME, PROTOCOL_VERSION};
use crate::spec::param_headers;
use crate::spec::{Method, code};

/// The era of the revision that `MCP-Protocol-Version` names.
pub(in crate::server) fn named_era(headers: &HeaderMap) -> Option<Era> {
    let value = headers.get(&PROTOCOL_VERSION)?.to_str().ok()?;
    Some(Era::named_by(value.trim()))
}

pub(in crate::server) fn version(headers: &HeaderMap, asked: &str) -> Result<(), ErrorObject> {
    // It has no encoding (MD-H-06).
    plain(headers, &PROTOCOL_VERSION, asked)
}

pub(in crate::server) fn method_and_name(
    headers: &HeaderMap,
    method: &Method,
    params: Option<&Json>,
) -> Result<(), ErrorObject> {
    plain(headers, &METHOD, method.as_str())?;
    let Some(member) = method.facts().named_by else { return Ok(()) };
    let name = params.and_then(|params| params.first_member(member));
    match (single(headers, &NAME)?, name.as_ref().and_then(Json::as_string)) {
        (Some(header), Some(name)) if param_headers::decode(header).as_deref() == Some(&*name) => Ok(()),
        // What is missing in both is missing in the parameters.
        (None, None) => Ok(()),
        (_, _) => Err(mismatch(&NAME)),
    }
}

/// What is sent with a notification, as far as it is there (A11).
pub(super) fn notification(headers: &HeaderMap, method: &Method) -> Result<(), ErrorObject> {
    if headers.contains_key(&METHOD) { plain(headers, &METHOD, method.as_str()) } else { Ok(()) }
}

/// MD-P-09 to MD-P-11, for tools that the server has told of.
pub(in crate::server) fn parameters(
    headers: &HeaderMap,
    params: Option<&Json>,
    tools: &AnnotatedTools,
) -> Result<(), ErrorObject> {
    let Some(params) = params else { return Ok(()) };
    let [name, arguments] = params.first_members(["name", "arguments"]);
    let annotations = name.as_ref().and_then(Json::as_string).and_then(|name| tools.get(&name));
    let Some(annotations) = annotations else { return Ok(()) };
    for (name, argument) in annotations.arguments(arguments.as_ref()) {
        let null = Json::from_validated(Bytes::from_static(b"null"));
        let argument = argument.unwrap_or(null);
        let agrees = match single(headers, name)?.map(param_headers::decode) {
            Some(Some(header)) => param_headers::says(&header, &argument) == Some(true),
            Some(None) => false,
            None => param_headers::says("", &argument).is_none(),
        };
        if !agrees {
            return Err(mismatch(name));
        }
    }
    Ok(())
}

fn plain(headers: &HeaderMap, name: &HeaderName, expected: &str) -> Result<(), ErrorObject> {
    let value = single(headers, name)?.and_then(|value| value.to_str().ok());
    // MD-H-01, MD-H-04
    if value.is_some_and(|value| value.trim_matches([' ', '\t']) == expected) { Ok(()) } else { Err(mismatch(name)) }
}

/// MD-H-05: of two, one reader takes the first and another the last.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h http::HeaderValue>, ErrorObject> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(mismatch(name)),
    }
}

fn mismatch(name: &HeaderName) -> ErrorObject {
    ErrorObject::new(code::HEADER_MISMATCH, &format!("the header {name} does not say what the body says"))
}
