//! The URL of the server, and references on the same origin.

use std::fmt;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

use super::url;
use crate::error::UsageError;

/// An absolute `http` or `https` URL.
///
/// Its `Display` form omits the query, which may contain a key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    scheme: Scheme,
    authority: Authority,
    path: PathAndQuery,
}

impl Endpoint {
    pub(crate) fn parse(text: &str) -> Result<Self, UsageError> {
        let (scheme, authority, path) = url::parse(text).map_err(UsageError::Endpoint)?;
        Ok(Self { scheme, authority, path })
    }

    pub(crate) fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    pub(crate) fn is_loopback(&self) -> bool {
        url::is_loopback(self.authority.host())
    }

    pub(crate) fn to_uri(&self) -> Uri {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(self.path.clone())
            .build()
            // All three parts come from a parsed URI.
            .unwrap_or_default()
    }

    /// The endpoint that `reference` names, if it is on this origin (invariant 8, HS-06, HT1, LE1).
    ///
    /// A path that begins with one slash is accepted, and an absolute URL whose scheme and authority have the same
    /// spelling. Every other form is refused, because two parsers could find different origins in it.
    pub(crate) fn same_origin(&self, reference: &str) -> Option<Self> {
        let visible = reference.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !matches!(byte, b'\\' | b'#'));
        if !visible {
            return None;
        }
        let path = if let Some(rest) = reference.strip_prefix('/') {
            if rest.starts_with('/') {
                return None;
            }
            reference
        } else {
            let rest = reference.strip_prefix(self.scheme.as_str())?.strip_prefix("://")?;
            let rest = rest.strip_prefix(self.authority.as_str())?;
            match rest.bytes().next() {
                Some(b'/') => rest,
                Some(_) | None => return None,
            }
        };
        let path = path.parse().ok()?;
        Some(Self { scheme: self.scheme.clone(), authority: self.authority.clone(), path })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path.path())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn le1_ht1_every_spelling_of_another_origin_is_refused() {
        let endpoint = Endpoint::parse("http://good.example:8080/sse").unwrap();
        for reference in ["/messages?sessionId=1", "http://good.example:8080/messages?sessionId=1"] {
            let uri = endpoint.same_origin(reference).unwrap().to_uri();
            assert_eq!(uri, "http://good.example:8080/messages?sessionId=1");
        }
        for reference in [
            "http://evil.example/m",
            "//evil.example/m",
            "\\\\evil.example/m",
            "/\\evil.example/m",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "http://good.example:8080@evil.example/m",
            "http://good.example:80801/m",
            "http://good.example/m",
            "http://good.example:8080.evil.example/m",
            "https://good.example:8080/m",
            "HTTP://good.example:8080/m",
            "http://GOOD.example:8080/m",
            "http://good.example:8080",
            "http://good.example:8080?x",
            "messages",
            "",
            "/a b",
            "/a\r\nX: y",
            "/é",
            "unix:/run/x",
        ] {
            assert_eq!(endpoint.same_origin(reference), None, "{reference}");
        }
    }
}
