//! Serves the metadata of the protected resource (RFC 9728), and the server card (SEP-2127, a draft). They are public: neither
//! a token nor an origin is needed.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::server::http::config::PublicDocument;
use crate::server::http::exchange::refusal::{empty, json};

/// The methods that are allowed at the paths of these documents.
pub(crate) const METHODS: &str = "GET, HEAD, OPTIONS";

/// The media type of a server card.
const CARD_TYPE: HeaderValue = HeaderValue::from_static("application/mcp-server-card+json");

/// The response with the document, which a client may keep for an hour, and then ask whether it has changed.
pub(crate) fn document(document: PublicDocument<'_>, request: &HeaderMap) -> Response<Bytes> {
    let (content, media_type, kept) = match document {
        PublicDocument::Metadata(resource) => (resource.to_json(), None, "max-age=3600"),
        PublicDocument::Card(card) => {
            (Bytes::copy_from_slice(card.as_bytes()), Some(CARD_TYPE), "public, max-age=3600")
        }
    };
    let tag = entity_tag(&content);
    let is_known = request.get_all(IF_NONE_MATCH).iter().any(|field| is_listed(field.as_bytes(), tag.as_bytes()));
    let mut response = if is_known { empty(StatusCode::NOT_MODIFIED) } else { json(StatusCode::OK, content) };
    let headers = response.headers_mut();
    if let Some(media_type) = media_type.filter(|_| !is_known) {
        headers.insert(CONTENT_TYPE, media_type);
    }
    headers.insert(ETAG, tag);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// The response to the request with which a browser asks for permission.
pub(crate) fn preflight() -> Response<Bytes> {
    let mut response = empty(StatusCode::NO_CONTENT);
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    response
}

/// The entity tag of a content (RFC 9110 section 8.8.3). A hash without a key is enough, since the content is public and the
/// application's own.
fn entity_tag(content: &[u8]) -> HeaderValue {
    // FNV-1a.
    let hash = content
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    HeaderValue::from_str(&format!("\"{hash:016x}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether the client has a document with this tag (RFC 9110 section 13.1.2).
fn is_listed(field: &[u8], tag: &[u8]) -> bool {
    let mut tags = field.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    tags.any(|listed| listed == b"*" || listed.strip_prefix(b"W/").unwrap_or(listed) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_has_the_document_receives_no_other() {
        let card = crate::Json::parse(r#"{"name":"com.example/a"}"#).unwrap();
        let answer = |tag: Option<&str>| {
            let mut request = HeaderMap::new();
            if let Some(tag) = tag {
                request.insert(IF_NONE_MATCH, tag.parse().unwrap());
            }
            document(PublicDocument::Card(&card), &request)
        };
        let first = answer(None);
        assert_eq!((first.status(), &first.headers()[CONTENT_TYPE]), (StatusCode::OK, &CARD_TYPE));
        let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
        for (listed, status) in [
            (tag.clone(), 304),
            (format!("W/{tag}"), 304),
            (format!("\"other\" , {tag}"), 304),
            ("*".to_owned(), 304),
            ("\"other\"".to_owned(), 200),
            (tag.trim_matches('"').to_owned(), 200),
        ] {
            let answer = answer(Some(&listed));
            assert_eq!(answer.status(), status, "{listed}");
            assert_eq!(answer.body().is_empty(), status == 304);
            assert_eq!(answer.headers()[ETAG], tag);
        }
        let other = crate::Json::parse(r#"{"name":"com.example/b"}"#).unwrap();
        assert_ne!(document(PublicDocument::Card(&other), &HeaderMap::new()).headers()[ETAG], tag);
    }
}
