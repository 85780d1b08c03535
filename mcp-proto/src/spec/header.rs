//! The HTTP header fields that both roles use.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};

/// The id of a session.
///
/// Rules: RULES 8.2.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The revision that the sender uses.
///
/// Rules: RULES 8.2.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Repeats the method of the body.
///
/// Rules: RULES 8.2.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// Repeats the tool, prompt, resource or task that the body names.
///
/// Rules: RULES 8.2.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The beginning of the names of headers that repeat arguments of a tool.
///
/// Rules: RULES 8.3.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// A proof that the client has the key of its token (RFC 9449, section 4).
pub const DPOP: HeaderName = HeaderName::from_static("dpop");
/// A nonce for the next proofs (RFC 9449, section 8).
pub const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// The last event of a stream that the client has received.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The headers with a meaning in MCP, for tools such as dictionaries of fuzzers. [`PARAM_PREFIX`] begins further ones.
///
/// # Example
///
/// ```
/// assert!(mcp_proto::spec::HEADERS.iter().any(|name| name == "mcp-session-id"));
/// ```
pub static HEADERS: &[HeaderName] = &ALL;
static ALL: [HeaderName; 5] = [SESSION_ID, PROTOCOL_VERSION, METHOD, NAME, LAST_EVENT_ID];

/// The kind of body of an HTTP response, according to its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyKind {
    /// No body.
    #[error("no body")]
    Empty,
    /// `application/json`
    #[error("JSON")]
    Json,
    /// `text/event-stream`
    #[error("a stream of events")]
    EventStream,
    /// `text/html`
    #[error("an HTML page")]
    Html,
    /// `text/plain`
    #[error("plain text")]
    PlainText,
    /// Two `Content-Type` headers, or one that cannot be parsed.
    #[error("a body of unclear type")]
    Unclear,
    /// No `Content-Type` header.
    #[error("a body without a type")]
    Untyped,
    /// Anything else.
    #[error("a body of another type")]
    Other,
}

/// SH-C-04, HT5, EV-23: compares the media type's essence without regard to case; parameters are ignored.
pub(crate) fn body_kind(headers: &HeaderMap) -> BodyKind {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let Some(value) = values.next() else { return BodyKind::Untyped };
    if values.next().is_some() {
        return BodyKind::Unclear;
    }
    let Ok(text) = value.to_str() else { return BodyKind::Unclear };
    let essence = text.split(';').next().unwrap_or_default().trim();
    for (name, kind) in [
        ("application/json", BodyKind::Json),
        ("text/event-stream", BodyKind::EventStream),
        ("text/html", BodyKind::Html),
        ("text/plain", BodyKind::PlainText),
    ] {
        if essence.eq_ignore_ascii_case(name) {
            return kind;
        }
    }
    BodyKind::Other
}

/// Whether an `Accept` field allows this media type: its most specific range decides, and `q=0` refuses (OR5). Without
/// any such field, everything is allowed.
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut is_restricted = false;
    let mut best = (0, false);
    for value in headers.get_all(ACCEPT) {
        is_restricted = true;
        let Ok(value) = value.to_str() else { continue };
        for range in value.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let refused = parts.any(|parameter| {
                let weight = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="));
                weight.is_some_and(|weight| weight.trim().parse::<f64>().is_ok_and(|weight| weight <= 0.0))
            });
            let specificity = specificity(name, media_type);
            if specificity > best.0 {
                best = (specificity, !refused);
            }
        }
    }
    !is_restricted || best.1
}

/// How specifically a media range matches: 3 for the type itself, 2 for `type/*`, 1 for `*/*`, 0 for no match.
fn specificity(range: &str, media_type: &str) -> u8 {
    if range.eq_ignore_ascii_case(media_type) {
        return 3;
    }
    let group = |name: &str| name.split_once('/').map(|(group, _)| group.to_ascii_lowercase());
    match range.split_once('/') {
        Some(("*", "*")) => 1,
        Some((_, "*")) if group(range) == group(media_type) => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn fields(name: &HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn ht5_content_types_are_compared_by_essence_in_any_case() {
        for (values, expected) in [
            (vec!["application/json"], BodyKind::Json),
            (vec!["Application/JSON; charset=utf-8"], BodyKind::Json),
            (vec!["text/event-stream;charset=UTF-8"], BodyKind::EventStream),
            (vec!["application/jsonp-evil"], BodyKind::Other),
            (vec!["application/json-seq"], BodyKind::Other),
            (vec!["text/html"], BodyKind::Html),
            (vec![], BodyKind::Untyped),
            (vec!["application/json", "application/json"], BodyKind::Unclear),
            (vec!["application/json\u{e9}"], BodyKind::Unclear),
        ] {
            assert_eq!(body_kind(&fields(&CONTENT_TYPE, &values)), expected, "{values:?}");
        }
    }

    #[test]
    fn or5_the_most_specific_range_decides() {
        for (values, json, events) in [
            (vec!["application/json, text/event-stream"], true, true),
            (vec!["application/json", "text/event-stream"], true, true),
            (vec!["Application/JSON;charset=utf-8,TEXT/event-stream"], true, true),
            (vec!["*/*"], true, true),
            (vec!["application/*, text/*"], true, true),
            (vec!["Application/*"], true, false),
            (vec!["text/*"], false, true),
            (vec!["text/*;q=0, */*"], true, false),
            (vec!["application/json"], true, false),
            (vec!["text/event-stream"], false, true),
            (vec!["application/json, text/event-stream;q=0"], true, false),
            (vec!["*/*, text/event-stream; q=0.0"], true, false),
            (vec!["*/*;q=0, application/json"], true, false),
            (vec!["application/jsonp"], false, false),
            (vec![""], false, false),
            (vec![], true, true),
        ] {
            let headers = fields(&ACCEPT, &values);
            let found = (accepts(&headers, "application/json"), accepts(&headers, "text/event-stream"));
            assert_eq!(found, (json, events), "{values:?}");
        }
    }
}
