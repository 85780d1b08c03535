//! Lets web pages of allowed origins read responses (WHATWG Fetch, section 3.3).

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_TYPE, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use crate::server::http::exchange::access::Access;
use crate::server::http::exchange::refusal::empty;
use crate::server::http::exchange::{ExchangeKey, ExchangeTypes, Exchanges};
use crate::spec::header::{HEADERS, PARAM_PREFIX};
use crate::spec::trace_context::{BAGGAGE, TRACEPARENT, TRACESTATE};

/// The headers of requests of the transport, besides [`HEADERS`], that a page may set only with permission.
static REQUEST_HEADERS: [HeaderName; 7] = [
    ACCEPT,
    AUTHORIZATION,
    CONTENT_TYPE,
    HeaderName::from_static("dpop"),
    HeaderName::from_static(TRACEPARENT),
    HeaderName::from_static(TRACESTATE),
    HeaderName::from_static(BAGGAGE),
];
/// The headers of responses that a page may read only with permission.
const RESPONSE_HEADERS: HeaderValue =
    HeaderValue::from_static("dpop-nonce, mcp-protocol-version, mcp-session-id, retry-after, www-authenticate");
/// How long a browser may use a permission, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("3600");

/// The exchanges whose responses a web page may read, until the response begins, with the value of
/// `Access-Control-Allow-Origin`.
pub(crate) struct AllowedOrigins {
    /// Web pages may read responses at all.
    is_on: bool,
    exchanges: BTreeMap<ExchangeKey, HeaderValue>,
}

impl AllowedOrigins {
    pub(crate) const fn new(is_on: bool) -> Self {
        Self { is_on, exchanges: BTreeMap::new() }
    }

    /// Applies to the requests that arrive from now on, and to the responses that have not begun.
    pub(crate) const fn set(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    pub(crate) fn remove(&mut self, exchange: ExchangeKey) -> Option<HeaderValue> {
        self.exchanges.remove(&exchange)
    }

    /// Adds the headers that let a web page read the response of an exchange. No credentials of the browser, such as
    /// cookies, are permitted: a page must state a token itself.
    pub(crate) fn allow(&mut self, exchange: ExchangeKey, headers: &mut HeaderMap) {
        if !self.is_on {
            return;
        }
        // A cache must not use this response for another origin.
        headers.append(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = self.remove(exchange) {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
        }
    }
}

impl<P: ExchangeTypes> Exchanges<P> {
    /// Stores the origin of the page that sent a request, if it may read the response.
    pub(crate) fn note_origin(&mut self, exchange: ExchangeKey, head: &Parts, access: &Access) {
        let Some(origin) = head.headers.get(ORIGIN).filter(|_| self.origins.is_on) else { return };
        if access.check(head, true).is_ok() {
            let is_any = *access == Access::Anybody;
            let origin = if is_any { HeaderValue::from_static("*") } else { origin.clone() };
            self.origins.exchanges.insert(exchange, origin);
        }
    }
}

/// Whether a browser asks if a page may send a request.
pub(crate) fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS
        && head.headers.contains_key(ORIGIN)
        && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The permission to send requests with these methods, and with all headers of the transport.
pub(crate) fn permission(methods: &'static str, head: &Parts) -> Response<Bytes> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    // Since some names depend on the schemas of tools (MD-P-06), the wanted ones are repeated.
    let wanted = head.headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|value| value.to_str().ok());
    let wanted = wanted.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse::<HeaderName>().ok());
    let wanted: Vec<_> = wanted.filter(|name| name.as_str().starts_with(PARAM_PREFIX)).collect();
    let allowed: Vec<_> = REQUEST_HEADERS.iter().chain(HEADERS).chain(&wanted).map(HeaderName::as_str).collect();
    if let Ok(allowed) = HeaderValue::from_str(&allowed.join(", ")) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    headers.append(VARY, HeaderValue::from_static("access-control-request-headers"));
    response
}
