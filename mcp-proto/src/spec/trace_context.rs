//! The trace context of a message: members of `_meta` (JR-20), and HTTP headers of the same names.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::meta::stamp;
use crate::json::Json;

pub(crate) const TRACEPARENT: &str = "traceparent";
pub(crate) const TRACESTATE: &str = "tracestate";
pub(crate) const BAGGAGE: &str = "baggage";

/// The maximum length of each value. 512 characters are what receivers should support (W3C Trace Context, section 3.3.1.5),
/// and 8192 bytes what they must (W3C Baggage).
const MAX_TRACEPARENT: usize = 128;
const MAX_TRACESTATE: usize = 512;
const MAX_BAGGAGE: usize = 8192;

/// The trace to which a request belongs, in the formats of W3C Trace Context and W3C Baggage. The values are not
/// changed. They are checked only for their length and for characters that an HTTP header cannot contain: a value that
/// fails counts as absent.
///
/// A client states it in `_meta` of the parameters; over HTTP, the client repeats it in headers of the same names, which
/// proxies read. A server finds it at either place.
///
/// # Example
///
/// ```
/// use mcp_proto::{Json, TraceContext};
///
/// let trace = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").with_tracestate("a=1");
/// let params = trace.add_to_params(&Json::parse(r#"{"name":"search"}"#)?);
/// assert_eq!(TraceContext::from_params(Some(&params)), trace);
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TraceContext {
    traceparent: Option<Box<str>>,
    tracestate: Option<Box<str>>,
    baggage: Option<Box<str>>,
}

impl TraceContext {
    /// Creates a context with this `traceparent`.
    #[must_use]
    pub fn new(traceparent: &str) -> Self {
        Self { traceparent: Some(traceparent.into()), ..Self::default() }
    }

    /// Sets `tracestate`.
    #[must_use]
    pub fn with_tracestate(self, tracestate: &str) -> Self {
        Self { tracestate: Some(tracestate.into()), ..self }
    }

    /// Sets `baggage`.
    #[must_use]
    pub fn with_baggage(self, baggage: &str) -> Self {
        Self { baggage: Some(baggage.into()), ..self }
    }

    /// Reads the context from `_meta` of the parameters of a message. `tracestate` without `traceparent` has no meaning,
    /// and is ignored.
    #[must_use]
    pub fn from_params(params: Option<&Json>) -> Self {
        let meta = params.and_then(|params| params.first_member("_meta"));
        let Some(meta) = meta else { return Self::default() };
        let members = meta.first_members([TRACEPARENT, TRACESTATE, BAGGAGE]);
        Self::of(members.map(|value| value.and_then(|value| value.as_string().map(|text| Box::from(&*text)))))
    }

    /// Reads the context from the headers of an HTTP request. Repeated headers are lists, except `traceparent`.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let list = |name: &str| -> Option<Box<str>> {
            let values: Vec<_> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
            (!values.is_empty()).then(|| values.join(",").into_boxed_str())
        };
        let traceparent = list(TRACEPARENT).filter(|value| !value.contains(','));
        Self::of([traceparent, list(TRACESTATE), list(BAGGAGE)])
    }

    /// Reads the context from values that have the names of the headers, such as those that a propagator of OpenTelemetry
    /// has set.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::TraceContext;
    ///
    /// let trace = TraceContext::from_values(|name| (name == "baggage").then_some("tenant=7"));
    /// assert_eq!(trace.values().collect::<Vec<_>>(), [("baggage", "tenant=7")]);
    /// ```
    #[must_use]
    pub fn from_values<'v>(value: impl Fn(&str) -> Option<&'v str>) -> Self {
        Self::of([TRACEPARENT, TRACESTATE, BAGGAGE].map(|name| value(name).map(Box::from)))
    }

    fn of([traceparent, tracestate, baggage]: [Option<Box<str>>; 3]) -> Self {
        let fits = |value: &str, longest| value.len() <= longest && HeaderValue::from_str(value).is_ok();
        let traceparent = traceparent.filter(|value| fits(value, MAX_TRACEPARENT));
        Self {
            tracestate: tracestate.filter(|value| traceparent.is_some() && fits(value, MAX_TRACESTATE)),
            baggage: baggage.filter(|value| fits(value, MAX_BAGGAGE)),
            traceparent,
        }
    }

    /// Returns the parameters with this context in their `_meta`; every other byte stays as it is.
    #[must_use]
    pub fn add_to_params(&self, params: &Json) -> Json {
        let values: Vec<_> = self.values().map(|(name, value)| (name, Json::from(value))).collect();
        if values.is_empty() {
            return params.clone();
        }
        stamp(params, &values.iter().map(|(name, value)| (*name, value)).collect::<Vec<_>>())
    }

    /// `traceparent`: the ids of the trace and of the span that made the request.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// `tracestate`: what other tracing systems have added.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// `baggage`: the application's own properties of the trace.
    #[must_use]
    pub fn baggage(&self) -> Option<&str> {
        self.baggage.as_deref()
    }

    /// This context, with the parts of the other one that it does not have.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let baggage = self.baggage.or(other.baggage);
        let of_trace = if self.traceparent.is_some() {
            (self.traceparent, self.tracestate)
        } else {
            (other.traceparent, other.tracestate)
        };
        Self { traceparent: of_trace.0, tracestate: of_trace.1, baggage }
    }

    /// The headers that repeat `_meta` of a message.
    pub(crate) fn headers_of(params: Option<&Json>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let may_have = |name: &str| params.is_some_and(|params| contains(params.as_bytes(), name));
        // Most messages have none, and finding that out must not take long.
        if !may_have(TRACEPARENT) && !may_have(BAGGAGE) {
            return headers;
        }
        for (name, value) in Self::from_params(params).values() {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        headers
    }

    /// The values, each with the name of its header.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let values = [(TRACEPARENT, self.traceparent()), (TRACESTATE, self.tracestate()), (BAGGAGE, self.baggage())];
        values.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

/// Does not show the values, because `baggage` may contain any data.
impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.values().map(|(name, _)| name).collect();
        write!(f, "TraceContext({})", names.join(", "))
    }
}

fn contains(bytes: &[u8], name: &str) -> bool {
    memchr::memmem::find(bytes, name.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).expect("the test's text is JSON")
    }

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn jr_20_a_context_is_read_from_meta_and_from_headers() {
        let full = TraceContext::new(PARENT).with_tracestate("a=1,b=2").with_baggage("c=3");
        let none = TraceContext::default();
        for (meta, expected) in [
            (format!(r#"{{"traceparent":"{PARENT}","tracestate":"a=1,b=2","baggage":"c=3"}}"#), full.clone()),
            (r#"{"tracestate":"a=1"}"#.to_owned(), none.clone()),
            (r#"{"traceparent":7,"baggage":"c=3"}"#.to_owned(), TraceContext::default().with_baggage("c=3")),
            ("7".to_owned(), none.clone()),
        ] {
            let params = json(&format!(r#"{{"_meta":{meta}}}"#));
            assert_eq!(TraceContext::from_params(Some(&params)), expected, "{meta}");
        }
        assert_eq!(TraceContext::from_params(None), none);
        for (fields, expected) in [
            (vec![("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2"), ("baggage", "c=3")], full),
            (vec![("traceparent", PARENT), ("traceparent", PARENT), ("tracestate", "a=1")], none.clone()),
            (vec![("baggage", &"x".repeat(MAX_BAGGAGE + 1))], none.clone()),
            (vec![], none),
        ] {
            assert_eq!(TraceContext::from_headers(&headers(&fields)), expected, "{fields:?}");
        }
    }

    #[test]
    fn the_parts_of_a_trace_are_not_mixed() {
        let of_meta = || TraceContext::new("a").with_baggage("b");
        let of_headers = || TraceContext::new("c").with_tracestate("d").with_baggage("e");
        assert_eq!(of_meta().or(of_headers()), of_meta());
        assert_eq!(TraceContext::default().or(of_headers()), of_headers());
        assert_eq!(TraceContext::default().with_baggage("b").or(of_headers()), of_headers().with_baggage("b"));
    }

    #[test]
    fn jr_20_a_context_is_written_into_meta_and_headers() {
        let trace = TraceContext::new(PARENT).with_baggage("c=3");
        let params = trace.add_to_params(&json(r#"{ "n": 1.0 }"#));
        assert_eq!(params.to_text(), format!(r#"{{"_meta":{{"traceparent":"{PARENT}","baggage":"c=3"}}, "n": 1.0 }}"#));
        assert_eq!(TraceContext::default().add_to_params(&json("{ }")).to_text(), "{ }");
        let found = TraceContext::headers_of(Some(&params));
        assert_eq!(found, headers(&[("traceparent", PARENT), ("baggage", "c=3")]));
        let long = "x".repeat(MAX_BAGGAGE + 1);
        for bad in
            [TraceContext::new("a\nb"), TraceContext::new("é\u{7f}"), TraceContext::default().with_baggage(&long)]
        {
            let params = bad.add_to_params(&json("{}"));
            assert!(TraceContext::headers_of(Some(&params)).is_empty());
            assert_eq!(TraceContext::from_params(Some(&params)), TraceContext::default());
        }
        assert!(TraceContext::headers_of(Some(&json(r#"{"baggage":"c=3"}"#))).is_empty(), "it is not in _meta");
        assert_eq!(format!("{trace:?}"), "TraceContext(traceparent, baggage)");
    }
}
