//! The cookies that a server, or a load balancer before it, sets in a session, so that all requests of the session reach the
//! same instance (RFC 6265).

use http::header::{DATE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};

use super::headers::seconds_of_date;
use crate::url::{HttpUrl, is_in_domain};

/// The most cookies that are kept.
const MOST: usize = 16;
/// The most bytes of one cookie: name, value and path.
const LONGEST: usize = 4096;

/// The cookies of the server's origin.
#[derive(Default)]
pub(super) struct Cookies(Vec<Cookie>);

struct Cookie {
    name: Box<str>,
    value: Box<str>,
    path: Box<str>,
}

/// A value of `Set-Cookie`.
struct SetCookie<'h> {
    name: &'h str,
    value: &'h str,
    path: Option<&'h str>,
    domain: Option<&'h str>,
    is_secure: bool,
    is_expired: bool,
}

impl Cookies {
    /// Keeps the cookies of a response from `endpoint`.
    pub(super) fn learn(&mut self, headers: &HeaderMap, endpoint: &HttpUrl) {
        for value in headers.get_all(SET_COOKIE) {
            let Some(set) = value.to_str().ok().and_then(|value| SetCookie::parse(value, headers)) else { continue };
            let is_for_server = set.domain.is_none_or(|domain| may_set(endpoint.host(), domain));
            // A cookie for TLS alone would be sent in the clear.
            let is_sendable = !set.is_secure || endpoint.is_https() || endpoint.is_loopback();
            let path = set.path.unwrap_or_else(|| default_path(endpoint.path()));
            if !is_for_server || !is_sendable || set.name.len() + set.value.len() + path.len() > LONGEST {
                continue;
            }
            let found = self.0.iter().position(|cookie| *cookie.name == *set.name && *cookie.path == *path);
            match (found, set.is_expired) {
                (Some(position), true) => {
                    self.0.remove(position);
                }
                (None, true) => {}
                (Some(position), false) => {
                    if let Some(cookie) = self.0.get_mut(position) {
                        cookie.value = set.value.into();
                    }
                }
                (None, false) => {
                    if self.0.len() == MOST {
                        self.0.remove(0);
                    }
                    self.0.push(Cookie { name: set.name.into(), value: set.value.into(), path: path.into() });
                }
            }
        }
    }

    /// The value of `Cookie` for a request to this path.
    pub(super) fn header(&self, path: &str) -> Option<HeaderValue> {
        let pairs: Vec<_> = self
            .0
            .iter()
            .filter(|cookie| is_below(path, &cookie.path))
            .map(|cookie| format!("{}={}", cookie.name, cookie.value))
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let mut value = HeaderValue::try_from(pairs.join("; ")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The values, which are not shown to people.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|cookie| &*cookie.value)
    }
}

/// Omits names and values: they identify the client.
impl std::fmt::Debug for Cookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cookies({})", self.0.len())
    }
}

impl<'h> SetCookie<'h> {
    /// Parses a value of `Set-Cookie` (RFC 6265, section 5.2). A time is compared with the `Date` of the response, because
    /// the core has no clock.
    fn parse(value: &'h str, headers: &HeaderMap) -> Option<Self> {
        let mut parts = value.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() {
            return None;
        }
        let mut set = Self { name, value, path: None, domain: None, is_secure: false, is_expired: false };
        let mut max_age = None;
        let mut expires = None;
        for part in parts {
            let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match attribute.trim().to_ascii_lowercase().as_str() {
                "path" => set.path = Some(value).filter(|path| path.starts_with('/')),
                "domain" => set.domain = Some(value.strip_prefix('.').unwrap_or(value)).filter(|name| !name.is_empty()),
                "secure" => set.is_secure = true,
                "max-age" => max_age = value.parse::<i64>().ok(),
                // Older servers write dashes between the parts of the date.
                "expires" => expires = seconds_of_date(&value.replace('-', " ")),
                _ => {}
            }
        }
        let now = headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(seconds_of_date);
        set.is_expired = match (max_age, expires) {
            (Some(seconds), _) => seconds <= 0,
            (None, Some(expires)) => expires <= now.unwrap_or(0),
            (None, None) => false,
        };
        Some(set)
    }
}

/// Whether a cookie for `domain` may be set by the server at `host`. None may set one for a whole top-level domain.
fn may_set(host: &str, domain: &str) -> bool {
    let (host, domain) = (host.to_ascii_lowercase(), domain.to_ascii_lowercase());
    host == domain || (domain.contains('.') && is_in_domain(&host, &domain))
}

/// The path of a cookie that states none: that of the request up to its last slash (RFC 6265, section 5.1.4).
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(slash) => path.split_at(slash).0,
    }
}

/// Whether a path is the one of a cookie or below it (RFC 6265, section 5.1.4).
fn is_below(path: &str, cookie: &str) -> bool {
    path.strip_prefix(cookie).is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar(url: &str, fields: &[&str]) -> Cookies {
        let mut headers = HeaderMap::new();
        headers.append(DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
        for field in fields {
            headers.append(SET_COOKIE, HeaderValue::from_str(field).unwrap());
        }
        let mut cookies = Cookies::default();
        cookies.learn(&headers, &HttpUrl::parse(url).unwrap());
        cookies
    }

    #[test]
    fn cookies_are_kept_for_their_path_until_they_expire() {
        for (fields, path, expected) in [
            (&["a=1"][..], "/mcp", Some("a=1")),
            (&["a=1; Path=/; HttpOnly; SameSite=Lax", "b=\"2\""], "/mcp", Some("a=1; b=\"2\"")),
            (&["a=1", "a=2"], "/mcp", Some("a=2")),
            (&["a=1", "a=; Max-Age=0"], "/mcp", None),
            (&["a=1", "a=2; max-age=-1"], "/mcp", None),
            (&["a=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], "/mcp", Some("a=1")),
            (&["a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], "/mcp", None),
            (&["a=1; Expires=Thu, 01-Jan-1970 00:00:00 GMT"], "/mcp", None),
            (&["a=1; Expires=Sun, 06 Nov 1994 08:50:00 GMT"], "/mcp", Some("a=1")),
            (&["a=1; Expires=soon"], "/mcp", Some("a=1")),
            (&["a=1; Path=/other"], "/mcp", None),
            (&["a=1; Path=/mc"], "/mcp", None),
            (&["a=1; Path=/mcp"], "/mcp/x", Some("a=1")),
            (&["a=1; Path=/mcp/"], "/mcp/x", Some("a=1")),
            (&["a=1; Path=x"], "/mcp", Some("a=1")),
            (&["a=1; Secure"], "/mcp", None),
            (&["a=1; Domain=server.example"], "/mcp", Some("a=1")),
            (&["a=1; Domain=.SERVER.example"], "/mcp", Some("a=1")),
            (&["a=1; Domain=evil.example"], "/mcp", None),
            (&["a=1; Domain=example"], "/mcp", None),
            (&["a=1; Domain=er.example"], "/mcp", None),
            (&["=1", "a", "", ";"], "/mcp", None),
            (&["a=1; Expires=Sun, 06 Nov 1994 08:49:00 GMT"], "/mcp", None),
            (&["a=1; Max-Age=0; Expires=Sun, 06 Nov 1994 08:50:00 GMT"], "/mcp", None),
            (&["a=1; Path=/", "a=2; Path=/mcp"], "/mcp", Some("a=1; a=2")),
            (&["a=1; Path=/", "a=2; Path=/mcp"], "/x", Some("a=1")),
            (&["a=1", "b=2", "b=; Max-Age=0"], "/mcp", Some("a=1")),
            (&["a=1", "b=2", "b=3"], "/mcp", Some("a=1; b=3")),
            (&[" a = b=c= "], "/mcp", Some("a=b=c=")),
            // One that is not kept costs no other.
            (&["=1", "a=1"], "/mcp", Some("a=1")),
            (&["b=1; Domain=evil.example", "a=1"], "/mcp", Some("a=1")),
        ] {
            let found = jar("http://server.example/mcp", fields).header(path);
            assert_eq!(found.as_ref().map(|value| value.to_str().unwrap()), expected, "{fields:?} {path}");
            assert!(found.is_none_or(|value| value.is_sensitive()));
        }
        assert!(jar("https://server.example/mcp", &["a=1; Secure"]).header("/mcp").is_some());
        assert!(jar("http://127.0.0.1/mcp", &["a=1; Secure"]).header("/mcp").is_some());
        // A host of one word is its own domain.
        assert!(jar("http://server/mcp", &["a=1; Domain=server"]).header("/mcp").is_some());
        assert!(jar("https://a.server.example/x/mcp", &["a=1; Domain=server.example"]).header("/x/y").is_some());
        assert!(jar("https://server.example/x/mcp", &["a=1"]).header("/y").is_none());
    }

    /// Without the time of the server, only a date that has passed everywhere has passed.
    #[test]
    fn a_date_is_compared_with_the_time_of_the_server() {
        for (date, expires, is_kept) in [
            (Some("Sun, 06 Nov 1994 08:49:37 GMT"), "Sun, 06 Nov 1994 08:49:36 GMT", false),
            (Some("Sun, 06 Nov 1994 08:49:37 GMT"), "Sun, 06 Nov 1994 08:49:38 GMT", true),
            (None, "Sun, 06 Nov 1994 08:49:36 GMT", true),
            (None, "Thu, 01 Jan 1970 00:00:00 GMT", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(date.map(|date| (DATE, HeaderValue::from_static(date))));
            let set = SetCookie::parse("a=1", &headers).unwrap();
            assert!(!set.is_expired);
            let field = format!("a=1; Expires={expires}");
            assert_eq!(SetCookie::parse(&field, &headers).unwrap().is_expired, !is_kept, "{date:?} {expires}");
        }
    }

    #[test]
    fn the_number_and_the_size_of_cookies_are_bounded_and_no_value_is_shown() {
        let many: Vec<_> = (0..100).map(|number| format!("c{number}=secret{number}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let cookies = jar("http://server.example/mcp", &many);
        assert_eq!(format!("{cookies:?}"), "Cookies(16)");
        assert!(cookies.header("/mcp").unwrap().to_str().unwrap().starts_with("c84=secret84; c85="));
        let long = format!("a={}", "x".repeat(LONGEST));
        assert!(jar("http://server.example/mcp", &[&long]).header("/mcp").is_none());
    }
}
