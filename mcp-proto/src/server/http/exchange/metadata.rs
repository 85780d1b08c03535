//! Serves the metadata of the protected resource (RFC 9728). They are public: neither a token nor an origin is needed.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL,
};
use http::{HeaderValue, Response, StatusCode};

use crate::auth::ProtectedResource;
use crate::server::http::exchange::refusal::{empty, json};

/// The methods that are allowed at the path of the metadata.
pub(crate) const METHODS: &str = "GET, HEAD, OPTIONS";

/// The response with the document, which a client may keep for an hour.
pub(crate) fn document(resource: &ProtectedResource) -> Response<Bytes> {
    let mut response = json(StatusCode::OK, resource.to_json());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
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
