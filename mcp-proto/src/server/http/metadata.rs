//! Serves the metadata of the protected resource (RFC 9728). They are public: neither a token nor an origin is needed.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL,
};
use http::{HeaderValue, Method, Response, StatusCode};

use super::Http;
use super::admission::Plan;
use super::config::HttpConfig;
use super::refusal::{Refusal, empty, json};
use crate::auth::{ProtectedResource, WELL_KNOWN};

/// The methods that are allowed at the path of the metadata.
const METHODS: &str = "GET, HEAD, OPTIONS";

impl HttpConfig {
    /// The metadata, if they are served at this path. For an endpoint at `/`, this includes the well-known path without
    /// a suffix (OA-Z-01).
    pub(super) fn metadata_at(&self, path: &str) -> Option<&ProtectedResource> {
        let resource = self.protected_resource.as_ref()?;
        let is_root = self.path.as_deref() == Some("/") && path == WELL_KNOWN;
        (is_root || path == resource.path()).then_some(resource)
    }
}

impl Http {
    pub(super) fn plan_metadata(method: &Method) -> Result<Plan, Refusal> {
        match *method {
            Method::GET | Method::HEAD => Ok(Plan::Metadata),
            // A browser asks first, because clients add `MCP-Protocol-Version`.
            Method::OPTIONS => Ok(Plan::MetadataPreflight),
            _ => Err(Refusal::method(METHODS)),
        }
    }
}

/// The response with the document, which a client may keep for an hour.
pub(super) fn document(resource: &ProtectedResource) -> Response<Bytes> {
    let mut response = json(StatusCode::OK, resource.to_json());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// The response to the request with which a browser asks for permission.
pub(super) fn preflight() -> Response<Bytes> {
    let mut response = empty(StatusCode::NO_CONTENT);
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    response
}
