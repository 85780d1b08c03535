//! Refuses requests whose `Host` or `Origin` the configured [`Access`] does not allow.

use http::StatusCode;
use http::header::{HOST, ORIGIN};
use http::request::Parts;

use crate::server::http::exchange::refusal::Refusal;

/// Which hosts and origins may access a server. This protects it against web pages in a browser.
///
/// Rules: SH-S-03, SH-S-05.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Access {
    /// `localhost`, `127.0.0.1` and `[::1]`, with any port.
    #[default]
    Loopback,
    /// These hosts, such as `mcp.example.com` or `mcp.example.com:8443`, and these origins, such as
    /// `https://app.example.com`.
    Listed {
        /// The allowed values of `Host`; an entry without a port allows any port.
        hosts: Vec<Box<str>>,
        /// The allowed values of `Origin`, if the request has it.
        origins: Vec<Box<str>>,
    },
    /// All hosts and origins, for a server to which all requests come through a proxy that checks them.
    Anybody,
}

impl Access {
    /// Whether the host of a request is allowed, and with `is_for_some_pages` also the web page that sends it.
    pub(crate) fn check(&self, head: &Parts, is_for_some_pages: bool) -> Result<(), Refusal> {
        if !is_host_allowed(self, head) {
            let text = "the Host of the request is not allowed here; HttpConfig::access lists those that are";
            return Err(Refusal::new(StatusCode::FORBIDDEN, text));
        }
        if is_for_some_pages && !is_origin_allowed(self, head) {
            let text = "the Origin of the request is not allowed here; HttpConfig::access lists those that are";
            return Err(Refusal::new(StatusCode::FORBIDDEN, text));
        }
        Ok(())
    }
}

/// The host names of the loopback interface.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Whether the host to which a request is addressed is allowed (SH-S-05, OR2).
fn is_host_allowed(access: &Access, head: &Parts) -> bool {
    if *access == Access::Anybody {
        return true;
    }
    let mut hosts = head.headers.get_all(HOST).iter().map(|host| host.to_str().ok());
    let named = match (hosts.next(), hosts.next(), head.uri.authority()) {
        (Some(host), None, None) => host,
        (None, None, Some(authority)) => Some(authority.as_str()),
        // An absolute target and a header must be equal.
        (Some(host), None, Some(authority)) => host.filter(|host| host.eq_ignore_ascii_case(authority.as_str())),
        (_, Some(_), _) | (None, None, None) => None,
    };
    let Some(named) = named.map(str::to_ascii_lowercase) else { return false };
    let Some((host, port)) = split_port(&named) else { return false };
    match access {
        Access::Anybody => true,
        Access::Loopback => LOOPBACK.contains(&host),
        Access::Listed { hosts, .. } => hosts.iter().any(|listed| {
            let listed = listed.to_ascii_lowercase();
            split_port(&listed).is_some_and(|(name, listed)| name == host && (listed.is_empty() || listed == port))
        }),
    }
}

/// Whether the web page that sent a request may do so (SH-S-03, OR1). Clients that are no browsers send no `Origin`.
fn is_origin_allowed(access: &Access, head: &Parts) -> bool {
    let mut origins = head.headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else { return true };
    if *access == Access::Anybody {
        return true;
    }
    let Some(origin) = origin.to_str().ok().and_then(normalised).filter(|_| origins.next().is_none()) else {
        return false;
    };
    match access {
        Access::Anybody => true,
        Access::Loopback => split_port(&origin.1).is_some_and(|(host, _)| LOOPBACK.contains(&host)),
        Access::Listed { origins, .. } => origins.iter().any(|listed| normalised(listed).as_ref() == Some(&origin)),
    }
}

/// Scheme and authority of an origin, in lower case and without the scheme's default port; `None` unless the scheme is
/// `http` or `https`.
fn normalised(origin: &str) -> Option<(String, String)> {
    let origin = origin.to_ascii_lowercase();
    let (scheme, authority) = origin.split_once("://")?;
    let (host, port) = split_port(authority)?;
    // The authority of another scheme identifies no server: `file://localhost` is any file.
    let own = match scheme {
        "http" => "80",
        "https" => "443",
        _ => return None,
    };
    let authority = if port.is_empty() || port == own { host.to_owned() } else { authority.to_owned() };
    Some((scheme.to_owned(), authority))
}

/// Host and port of an authority, unchanged; `None` if the port is not a number.
fn split_port(authority: &str) -> Option<(&str, &str)> {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            port.bytes().all(|byte| byte.is_ascii_digit()).then_some((host, port))
        }
        // The last colon is part of an IPv6 address, or there is none.
        Some(_) | None => Some((authority, "")),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, Request};

    use super::*;

    fn head(target: &str, fields: &[(HeaderName, &str)]) -> Parts {
        let mut head = Request::builder().uri(target).body(()).unwrap().into_parts().0;
        for (name, value) in fields {
            head.headers.append(name.clone(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        head
    }

    fn listed() -> Access {
        Access::Listed {
            hosts: vec!["mcp.example".into(), "other.example:8443".into()],
            origins: ["https://app.example", "http://plain.example:80", "http://[2001:db8::1]:3000"]
                .map(Into::into)
                .to_vec(),
        }
    }

    #[test]
    fn or2_only_this_servers_own_names_are_served() {
        for (access, target, hosts, allowed) in [
            (Access::Loopback, "/mcp", vec!["localhost"], true),
            (Access::Loopback, "/mcp", vec!["LOCALHOST:8080"], true),
            (Access::Loopback, "/mcp", vec!["127.0.0.1:3000"], true),
            (Access::Loopback, "/mcp", vec!["[::1]:3000"], true),
            (Access::Loopback, "/mcp", vec!["evil.example"], false),
            (Access::Loopback, "/mcp", vec!["127.0.0.1.evil"], false),
            (Access::Loopback, "/mcp", vec!["localhost@evil"], false),
            (Access::Loopback, "/mcp", vec!["localhost:80:80"], false),
            (Access::Loopback, "/mcp", vec![""], false),
            (Access::Loopback, "/mcp", vec![], false),
            (Access::Loopback, "/mcp", vec!["localhost", "evil"], false),
            (Access::Loopback, "http://localhost/mcp", vec![], true),
            (Access::Loopback, "http://evil/mcp", vec!["localhost"], false),
            (listed(), "/mcp", vec!["mcp.example"], true),
            (listed(), "/mcp", vec!["MCP.example:1234"], true),
            (listed(), "/mcp", vec!["other.example:8443"], true),
            (listed(), "/mcp", vec!["other.example"], false),
            (listed(), "/mcp", vec!["localhost"], false),
            (Access::Anybody, "/mcp", vec!["evil"], true),
        ] {
            let fields: Vec<_> = hosts.iter().map(|host| (HOST, *host)).collect();
            assert_eq!(is_host_allowed(&access, &head(target, &fields)), allowed, "{access:?} {target} {hosts:?}");
        }
    }

    #[test]
    fn or1_only_pages_of_web_servers_are_served() {
        for scheme in ["file", "x", "ftp", "chrome-extension", "https ", "ws", ""] {
            for access in [Access::Loopback, listed()] {
                for host in ["localhost", "127.0.0.1", "[::1]:80", "app.example"] {
                    let origin = format!("{scheme}://{host}");
                    assert!(!is_origin_allowed(&access, &head("/mcp", &[(ORIGIN, &origin)])), "{origin}");
                }
            }
        }
    }

    #[test]
    fn or1_pages_of_other_origins_are_refused() {
        for (access, origins, allowed) in [
            (Access::Loopback, vec![], true),
            (Access::Loopback, vec!["http://localhost:5173"], true),
            (Access::Loopback, vec!["http://127.0.0.1"], true),
            (Access::Loopback, vec!["http://[::1]:80"], true),
            (Access::Loopback, vec!["null"], false),
            (Access::Loopback, vec!["https://evil.example"], false),
            (Access::Loopback, vec!["http://localhost.evil"], false),
            (Access::Loopback, vec!["http://localhost", "http://localhost"], false),
            (listed(), vec!["https://app.example"], true),
            (listed(), vec!["HTTPS://APP.EXAMPLE:443"], true),
            (listed(), vec!["https://app.example:8443"], false),
            (listed(), vec!["http://app.example"], false),
            (listed(), vec!["http://plain.example"], true),
            (listed(), vec!["http://plain.example:443"], false),
            (listed(), vec!["http://[2001:DB8::1]:3000"], true),
            (listed(), vec!["https://xn--pp-eka.example"], false),
            (listed(), vec!["http://localhost"], false),
            (Access::Anybody, vec!["https://evil.example"], true),
        ] {
            let fields: Vec<_> = origins.iter().map(|origin| (ORIGIN, *origin)).collect();
            assert_eq!(is_origin_allowed(&access, &head("/mcp", &fields)), allowed, "{access:?} {origins:?}");
        }
    }
}
