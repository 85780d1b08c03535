//! URLs over HTTP: validation of what is configured, and references on the same origin.
//!
//! HTTP libraries parse ambiguous URLs differently: one takes `http://localhost:80800/` for port 80, another refuses
//! it. A URL that two of them could parse differently is refused here, so that a request and its token go to the server
//! that the user meant.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::fmt;
use std::fmt::Write;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

use crate::text::{Excerpt, is_invisible};

/// An absolute `http` or `https` URL.
///
/// Its `Display` form omits the query, which may contain a key.
///
/// # Example
///
/// ```
/// use mcp_proto::url::{HttpUrl, InvalidUrl};
///
/// let url = HttpUrl::parse("https://mcp.example/v1/sse?key=secret")?;
/// assert_eq!(url.to_string(), "https://mcp.example/v1/sse");
/// assert_eq!(url.same_origin("messages").unwrap().to_uri(), "https://mcp.example/v1/messages");
/// assert_eq!(HttpUrl::parse("https://user@mcp.example/"), Err(InvalidUrl::UserInfo));
/// # Ok::<(), InvalidUrl>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl {
    scheme: Scheme,
    authority: Authority,
    path: PathAndQuery,
}

impl HttpUrl {
    /// The URL that this text is.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] states why HTTP libraries could read it differently, or cannot use it.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let (scheme, authority, path) = parse(text)?;
        Ok(Self { scheme, authority, path })
    }

    /// Scheme and authority, such as `https://mcp.example.com:8443`.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// The host, as it is written.
    #[must_use]
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// The port, if it is written.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.authority.port_u16()
    }

    /// The path, which begins with a slash, without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path.path()
    }

    /// The query, without the question mark.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.path.query()
    }

    /// Whether its scheme is `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Whether its host is this machine: `localhost`, a name below it, or a loopback address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.authority.host())
    }

    /// The URL as the type of the crate `http`.
    #[must_use]
    pub fn to_uri(&self) -> Uri {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(self.path.clone())
            .build()
            // All three parts come from a parsed URI.
            .unwrap_or_default()
    }

    /// The endpoint that `reference` names relative to this one (RFC 3986, section 5), if it is on this origin.
    ///
    /// A path and a query are accepted, and an absolute URL whose scheme and authority have the same spelling. Every
    /// other form is refused, because two parsers could find different origins in it.
    ///
    /// Rules: invariant 8, HS-05, HS-06, HT1, LE1.
    #[must_use]
    pub fn same_origin(&self, reference: &str) -> Option<Self> {
        let visible = reference.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !matches!(byte, b'\\' | b'#'));
        if !visible || reference.is_empty() {
            return None;
        }
        let merged;
        let path = if let Some(rest) = reference.strip_prefix('/') {
            if rest.starts_with('/') {
                return None;
            }
            reference
        } else if is_relative_path(reference) {
            merged = merge(self.path(), reference);
            &merged
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

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path.path())
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a URL that a client may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidUrl {
    /// It is relative, or has another scheme.
    #[error("must begin with http:// or https://")]
    NotHttp,
    /// It contains a blank, a control character or another invisible character.
    #[error("must not contain blanks, control characters or other invisible characters")]
    Blank,
    /// It contains a backslash, which some parsers take for a slash.
    #[error("must not contain a backslash")]
    Backslash,
    /// It contains a user name or a password, which would appear in logs and process lists.
    #[error("must not contain a user name or password; send credentials in a header")]
    UserInfo,
    /// It contains a fragment, which is never sent.
    #[error("must not contain a fragment ('#'), which is never sent to a server")]
    Fragment,
    /// It has no host.
    #[error("has no host")]
    NoHost,
    /// The host has characters outside ASCII.
    #[error("must name the host in ASCII; write an international name in punycode (xn--…)")]
    HostNotAscii,
    /// The host is neither a name nor an address.
    #[error("has a host that is neither a name nor an IPv4 address nor an IPv6 address in brackets")]
    Host,
    /// The port is empty, not a number, zero or too large.
    #[error("has an invalid port; a port is a number from 1 to 65535")]
    Port,
    /// It is longer than the `http` crate can hold.
    #[error("is longer than 65,534 bytes")]
    TooLong,
}

/// Parses a URL into its parts. Non-ASCII characters in its path and query are percent-encoded as UTF-8 (RFC 3986,
/// section 2.1).
fn parse(text: &str) -> Result<(Scheme, Authority, PathAndQuery), InvalidUrl> {
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || is_invisible(c)) {
        return Err(InvalidUrl::Blank);
    }
    if text.contains('\\') {
        return Err(InvalidUrl::Backslash);
    }
    let (scheme, rest) = text.split_once("://").ok_or(InvalidUrl::NotHttp)?;
    let scheme = match scheme {
        _ if scheme.eq_ignore_ascii_case("http") => Scheme::HTTP,
        _ if scheme.eq_ignore_ascii_case("https") => Scheme::HTTPS,
        _ => return Err(InvalidUrl::NotHttp),
    };
    if rest.contains('#') {
        return Err(InvalidUrl::Fragment);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err(InvalidUrl::UserInfo);
    }
    check_authority(authority)?;
    let authority = authority.parse().map_err(|_| InvalidUrl::Host)?;
    let path = encode(path);
    let path = path.parse().map_err(|_| InvalidUrl::TooLong)?;
    Ok((scheme, authority, path))
}

fn check_authority(authority: &str) -> Result<(), InvalidUrl> {
    let port = if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or(InvalidUrl::Host)?;
        address.parse::<Ipv6Addr>().map_err(|_| InvalidUrl::Host)?;
        port
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        let (host, port) = authority.split_at(end);
        check_host(host)?;
        port
    };
    if port.is_empty() {
        return Ok(());
    }
    let digits = port.strip_prefix(':').ok_or(InvalidUrl::Host)?;
    // `u16::from_str` accepts a plus sign, too.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    match digits.parse::<u16>() {
        Ok(_) if is_number => Ok(()),
        Ok(_) | Err(_) => Err(InvalidUrl::Port),
    }
}

fn check_host(host: &str) -> Result<(), InvalidUrl> {
    if host.is_empty() {
        return Err(InvalidUrl::NoHost);
    }
    if !host.is_ascii() {
        return Err(InvalidUrl::HostNotAscii);
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let labels = host.strip_suffix('.').unwrap_or(host);
    // A name has at most 253 characters and a final dot (RFC 1035, section 2.3.4).
    if host.len() > 254 || !host.bytes().all(is_name) || labels.split('.').any(str::is_empty) {
        return Err(InvalidUrl::Host);
    }
    // `127.1`, `0x7f000001` and `2130706433` are addresses for some resolvers and names for others.
    let last = labels.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_number && host.parse::<Ipv4Addr>().is_err() {
        return Err(InvalidUrl::Host);
    }
    Ok(())
}

/// Whether a reference is a relative path or a query. A colon in its first segment would make it a URL of some scheme
/// (RFC 3986, section 4.2).
fn is_relative_path(reference: &str) -> bool {
    let end = reference.find(['/', '?']).unwrap_or(reference.len());
    let (first, _) = reference.split_at(end);
    !first.contains(':') && !first.contains('@')
}

/// The path and query of a relative reference to a URL with the path `base` (RFC 3986, section 5.2).
fn merge(base: &str, reference: &str) -> String {
    if reference.starts_with('?') {
        return format!("{base}{reference}");
    }
    let end = reference.find('?').unwrap_or(reference.len());
    let (path, query) = reference.split_at(end);
    let folder = base.rfind('/').map_or("", |slash| base.split_at(slash).0);
    let mut segments: Vec<_> = folder.split('/').skip(1).collect();
    let mut is_folder = false;
    for segment in path.split('/') {
        is_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let last = if is_folder && !segments.is_empty() { "/" } else { "" };
    format!("/{}{last}{query}", segments.join("/"))
}

/// A reference to a URL for people to read, without what may be secret: user information, query and fragment.
pub(crate) fn shown(reference: &str) -> Excerpt {
    let reference = reference.split(['?', '#']).next().unwrap_or_default();
    let begin = reference.find("//").map_or(0, |position| position + 2);
    let (scheme, rest) = reference.split_at(begin);
    let end = if begin == 0 { 0 } else { rest.find(['/', '\\']).unwrap_or(rest.len()) };
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    Excerpt::new(&format!("{scheme}{host}{path}"), 200)
}

/// Percent-encodes the bytes of characters that a path or a query must not contain (RFC 3986, section 3.3 and 3.4).
fn encode(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        encoded.push('/');
    }
    for byte in path.bytes() {
        if byte.is_ascii() && !matches!(byte, b'"' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Whether a host is a domain, or below it. Both are in lower case.
#[must_use]
pub fn is_in_domain(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether a host is this machine: `localhost`, a name below it (RFC 6761, section 6.3), or a loopback address.
fn is_loopback(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok_and(|address| {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
        });
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<Ipv4Addr>().is_ok_and(|a| a.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn le1_ht1_every_spelling_of_another_origin_is_refused() {
        let endpoint = HttpUrl::parse("http://good.example:8080/sse").unwrap();
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
            "",
            "messages:1",
            "javascript:alert(1)/x",
            "user@evil.example/m",
            "a b",
            "/a b",
            "/a\r\nX: y",
            "/é",
            "unix:/run/x",
        ] {
            assert_eq!(endpoint.same_origin(reference), None, "{reference}");
        }
    }

    #[test]
    fn hs_05_a_relative_reference_is_resolved_against_the_path() {
        for (base, reference, expected) in [
            ("/sse", "/messages?id=1", "/messages?id=1"),
            ("/sse", "messages?id=1", "/messages?id=1"),
            ("/v1/sse", "messages", "/v1/messages"),
            ("/v1/sse/", "messages", "/v1/sse/messages"),
            ("/v1/sse?key=1", "?sessionId=a:b/c", "/v1/sse?sessionId=a:b/c"),
            ("/v1/sse", "./messages/", "/v1/messages/"),
            ("/v1/sse", "../messages", "/messages"),
            ("/v1/sse", "../../../messages", "/messages"),
            ("/v1/sse", "a/../b?c=..", "/v1/b?c=.."),
            ("/v1/sse", "..", "/"),
            ("/a/b/c", "..", "/a/"),
            ("/a/b/c", ".", "/a/b/"),
            ("/v1/sse", "a/b:c", "/v1/a/b:c"),
            ("", "messages", "/messages"),
        ] {
            let endpoint = HttpUrl::parse(&format!("http://good.example:8080{base}")).unwrap();
            let target = endpoint.same_origin(reference).unwrap().to_uri();
            assert_eq!(target.to_string(), format!("http://good.example:8080{expected}"), "{base} {reference}");
        }
    }

    #[test]
    fn a_reference_is_shown_without_its_secrets() {
        for (reference, expected) in [
            ("https://other.example:8/mcp/x?key=secret#y", "https://other.example:8/mcp/x"),
            ("https://user:secret@other.example/mcp", "https://other.example/mcp"),
            ("https://a@b@other.example", "https://other.example"),
            ("//user:secret@other.example/a@b", "//other.example/a@b"),
            ("/mcp/?key=secret", "/mcp/"),
            ("login?user=secret", "login"),
            ("?secret", ""),
            ("https://other.example/a//b", "https://other.example/a//b"),
        ] {
            assert_eq!(shown(reference).as_str(), expected);
        }
        assert_eq!(shown(&"x".repeat(10_000)).as_str().chars().count(), 201);
    }

    #[test]
    fn a_host_has_at_most_253_characters_and_a_dot() {
        for (length, is_valid) in [(253, true), (254, true), (255, false)] {
            let host: String = "a.".chars().cycle().take(length).collect();
            assert_eq!(check_host(&host).is_ok(), is_valid, "{length}");
        }
    }

    #[test]
    fn loopback_has_many_spellings() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost.", true),
            ("app.localhost", true),
            ("127.0.0.1", true),
            ("127.8.8.8", true),
            ("[::1]", true),
            ("[0:0:0:0:0:0:0:1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("localhost.example.com", false),
            ("notlocalhost", false),
            ("128.0.0.1", false),
            ("[::2]", false),
            ("127.0.0.1.example.com", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }
}
