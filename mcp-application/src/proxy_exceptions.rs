//! The hosts that are reached without an HTTP proxy, as the variable `NO_PROXY` lists them.

use core::net::IpAddr;

use http::Uri;
use http::uri::Scheme;
use mcp_proto::url::is_in_domain;

/// The hosts of a `NO_PROXY` variable, read as curl reads it.
///
/// | entry | hosts |
/// |---|---|
/// | `corp.example`, `.corp.example`, `*.corp.example` | this one, and all below it |
/// | `10.1.2.3`, `fd00::1`, `[fd00::1]` | this address |
/// | `10.0.0.0/8`, `fd00::/8` | the addresses of this network; names are not resolved |
/// | `*` | all |
///
/// An entry with a port, such as `corp.example:8443` or `[fd00::1]:8443`, is for that port only. Entries are separated by
/// commas or blanks, and are compared without regard to case. One that cannot be read matches nothing.
///
/// # Example
///
/// ```
/// use mcp_application::ProxyExceptions;
///
/// let exceptions = ProxyExceptions::parse("corp.example, 10.0.0.0/8");
/// assert!(exceptions.contain("mcp.corp.example", 443));
/// assert!(exceptions.contain("10.1.2.3", 80));
/// assert!(!exceptions.contain("notcorp.example", 443));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyExceptions(Vec<Exception>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Exception {
    hosts: Hosts,
    /// `None` for every port.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    All,
    /// A name in lower case, and the names below it.
    Domain(Box<str>),
    /// The addresses that begin with this number of bits.
    Network(IpAddr, u8),
}

impl ProxyExceptions {
    /// Reads the value of the variable.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let entries = text.split(|c: char| c == ',' || c.is_ascii_whitespace()).filter(|entry| !entry.is_empty());
        Self(entries.filter_map(Exception::parse).collect())
    }

    /// Whether the server of an absolute `http` or `https` URL is reached without a proxy.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_application::ProxyExceptions;
    ///
    /// let exceptions = ProxyExceptions::parse("corp.example:443");
    /// assert!(exceptions.contain_server_of(&"https://corp.example/mcp".parse().unwrap()));
    /// assert!(!exceptions.contain_server_of(&"http://corp.example/mcp".parse().unwrap()));
    /// ```
    #[must_use]
    pub fn contain_server_of(&self, url: &Uri) -> bool {
        let port = url.port_u16().unwrap_or(if url.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 });
        self.contain(url.host().unwrap_or_default(), port)
    }

    /// Whether a host is reached without a proxy. An IPv6 address may be in brackets; `port` is the one that is connected
    /// to, such as 443 for a URL without a port.
    #[must_use]
    pub fn contain(&self, host: &str, port: u16) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let address = address(&host);
        self.0.iter().any(|exception| {
            exception.port.is_none_or(|own| own == port)
                && match (&exception.hosts, address) {
                    (Hosts::All, _) => true,
                    (Hosts::Domain(domain), None) => is_in_domain(&host, domain),
                    (Hosts::Network(network, bits), Some(address)) => is_in_network(address, *network, *bits),
                    (Hosts::Domain(_), Some(_)) | (Hosts::Network(..), None) => false,
                }
        })
    }
}

impl Exception {
    fn parse(entry: &str) -> Option<Self> {
        if let Some((network, bits)) = entry.split_once('/') {
            let network = address(network)?;
            let bits = bits.parse().ok().filter(|bits| *bits <= length(network))?;
            return Some(Self { hosts: Hosts::Network(network, bits), port: None });
        }
        if let Some(address) = address(entry) {
            return Some(Self { hosts: Hosts::Network(address, length(address)), port: None });
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (entry, None),
        };
        if host == "*" {
            return Some(Self { hosts: Hosts::All, port });
        }
        if let Some(address) = address(host) {
            return Some(Self { hosts: Hosts::Network(address, length(address)), port });
        }
        let domain = host.strip_prefix('*').unwrap_or(host);
        let domain = domain.strip_prefix('.').unwrap_or(domain);
        let domain = domain.strip_suffix('.').unwrap_or(domain);
        let is_name = !domain.is_empty() && !domain.contains(['*', ':', '[', ']']);
        is_name.then(|| Self { hosts: Hosts::Domain(domain.to_ascii_lowercase().into()), port })
    }
}

/// Parses an address; an IPv6 address may be in brackets. An IPv4 address that is mapped to IPv6 becomes the IPv4
/// address.
fn address(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address: IpAddr = match inner {
        Some(inner) => IpAddr::V6(inner.parse().ok()?),
        None => text.parse().ok()?,
    };
    Some(address.to_canonical())
}

const fn length(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn is_in_network(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (address, network, length) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => (address.to_bits().into(), network.to_bits().into(), 32),
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
    };
    let differing: u128 = address ^ network;
    differing.checked_shr(length - u32::from(bits)).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_names_with_those_below_addresses_networks_and_ports() {
        for (listed, host, port, expected) in [
            ("corp.example", "corp.example", 443, true),
            ("corp.example", "mcp.corp.example", 443, true),
            ("CORP.example", "Mcp.Corp.EXAMPLE.", 443, true),
            (".corp.example", "corp.example", 443, true),
            (".corp.example", "a.b.corp.example", 443, true),
            ("*.corp.example", "a.corp.example", 443, true),
            ("corp.example.", "a.corp.example", 443, true),
            ("corp.example", "notcorp.example", 443, false),
            ("corp.example", "corp.example.evil.example", 443, false),
            ("corp", "mcp.corp", 443, true),
            ("corp.example:8443", "a.corp.example", 8443, true),
            ("corp.example:8443", "a.corp.example", 443, false),
            ("corp.example:x", "corp.example", 443, false),
            ("10.0.0.0/8", "10.255.1.2", 80, true),
            ("10.0.0.0/8", "11.0.0.1", 80, false),
            ("10.0.0.0/8", "10.example", 80, false),
            ("192.168.4.0/22", "192.168.7.255", 80, true),
            ("192.168.4.0/22", "192.168.8.0", 80, false),
            ("0.0.0.0/0", "8.8.8.8", 80, true),
            ("10.0.0.0/33", "10.0.0.0", 80, false),
            ("10.0.0.1", "10.0.0.1", 80, true),
            ("10.0.0.1", "10.0.0.11", 80, false),
            ("10.0.0.1:81", "10.0.0.1", 80, false),
            ("10.0.0.1:81", "10.0.0.1", 81, true),
            ("0.0.1", "10.0.0.1", 80, false),
            ("fd00::/8", "[fd12::1]", 80, true),
            ("fd00::/8", "[fe80::1]", 80, false),
            ("::/0", "[2001:db8::1]", 80, true),
            ("::/0", "10.0.0.1", 80, false),
            ("fd00::1", "[FD00::1]", 80, true),
            ("[fd00::1]", "[fd00::1]", 80, true),
            ("[fd00::1]:81", "[fd00::1]", 81, true),
            ("[fd00::1]:81", "[fd00::1]", 80, false),
            ("10.0.0.0/8", "[::ffff:10.1.1.1]", 80, true),
            ("*", "anything.example", 443, true),
            ("*", "[::1]", 443, true),
            ("a.example,*", "b.example", 443, true),
            ("a.example b.example\tc.example", "c.example", 443, true),
            (" , a.example ,, ", "a.example", 443, true),
            ("", "a.example", 443, false),
            (",", "", 443, false),
            (".", "a.example", 443, false),
            ("**", "a.example", 443, false),
            ("a*.example", "ab.example", 443, false),
            // An exception that cannot be read matches no host at all, not even one of the same spelling.
            ("a*.example", "a*.example", 443, false),
            (".", "", 443, false),
            ("*:8443", "a.example", 8443, true),
            ("*:8443", "a.example", 443, false),
            ("10.0.0.0/8", "[fd00::1]", 80, false),
            ("[fd00::]/8", "fd12::1", 80, true),
            ("fd00::1/128", "fd00::1", 80, true),
            ("fd00::1/128", "fd00::2", 80, false),
            ("fd00::/129", "fd00::1", 80, false),
            ("[10.0.0.1]", "10.0.0.1", 80, false),
            ("[corp.example]", "[corp.example]", 80, false),
            ("[corp.example]", "corp.example", 80, false),
            ("10.0.0.0/33 corp.example:x a.example", "a.example", 443, true),
        ] {
            assert_eq!(ProxyExceptions::parse(listed).contain(host, port), expected, "{listed:?} {host} {port}");
        }
    }

    #[test]
    fn the_port_of_a_url_is_its_own_or_that_of_its_scheme() {
        for (listed, url, expected) in [
            ("corp.example:443", "https://corp.example/mcp", true),
            ("corp.example:443", "http://corp.example/mcp", false),
            ("corp.example:80", "http://corp.example/mcp", true),
            ("corp.example:80", "https://corp.example/mcp", false),
            ("corp.example:8443", "https://corp.example:8443/mcp", true),
            ("corp.example:443", "https://corp.example:8443/mcp", false),
            ("fd00::/8", "http://[fd00::1]:81/mcp", true),
        ] {
            let found = ProxyExceptions::parse(listed).contain_server_of(&url.parse().unwrap());
            assert_eq!(found, expected, "{listed} {url}");
        }
    }
}
