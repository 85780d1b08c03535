//! Which addresses a request may reach that another server has named (OA-N-02).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;
use mcp_proto::client::HttpConfig;

use super::error::FetchFailure;

/// To which addresses the host of a request may resolve.
///
/// Rules: OA-N-02.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// Public addresses only: a server that we do not trust named the host.
    Public,
    /// Any address but those that no server should have: link-local, multicast and unspecified ones.
    Private,
}

/// The error of a driver's name resolution if a host has only addresses that must not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the address must not be reached")]
pub struct AddressRefused;

impl Reach {
    /// Whether a request may be sent to an address.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_auth::Reach;
    ///
    /// assert!(Reach::Public.allows("93.184.216.34".parse()?));
    /// assert!(!Reach::Public.allows("::ffff:10.0.0.1".parse()?));
    /// assert!(Reach::Private.allows("127.0.0.1".parse()?));
    /// assert!(!Reach::Private.allows("169.254.169.254".parse()?), "where clouds keep credentials");
    /// # Ok::<(), core::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        match Class::of(address) {
            Class::Never => false,
            Class::Private => self == Self::Private,
            Class::Public => true,
        }
    }

    /// Whether a request may be sent to a host, decided without resolving it: an address, in any spelling that a parser of
    /// URLs takes for one, and `localhost`. Any other name is allowed; its addresses have to be checked when it is resolved.
    /// If an HTTP proxy resolves it, there is no other check.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_auth::Reach;
    ///
    /// assert!(Reach::Public.allows_host("auth.example.com"));
    /// assert!(!Reach::Public.allows_host("[::ffff:10.0.0.1]"));
    /// assert!(!Reach::Public.allows_host("0x7f.1"), "another spelling of 127.0.0.1");
    /// assert!(Reach::Private.allows_host("localhost"));
    /// ```
    #[must_use]
    pub fn allows_host(self, host: &str) -> bool {
        match Host::read(host) {
            Host::Addresses(addresses) => addresses.into_iter().flatten().all(|address| self.allows(address)),
            Host::Name => true,
            Host::Malformed => false,
        }
    }

    /// The server of a request, if the host in its URL may be reached. A driver asks this before it sends a request; its
    /// name resolution leaves out addresses that [`Reach::allows`] does not.
    ///
    /// # Errors
    ///
    /// [`FetchFailure::AddressRefused`] if the URL has an address that must not be reached, and
    /// [`FetchFailure::Unreachable`] if it cannot be used.
    pub fn server_of(self, url: &Uri) -> Result<HttpConfig, FetchFailure> {
        if !self.allows_host(url.host().unwrap_or_default()) {
            return Err(FetchFailure::AddressRefused);
        }
        HttpConfig::new(&url.to_string()).map_err(|_| FetchFailure::Unreachable)
    }
}

/// What the host of a URL is.
enum Host {
    /// An address, or two, if parsers differ.
    Addresses([Option<IpAddr>; 2]),
    /// A name that has to be resolved.
    Name,
    /// Neither, or an address for some parsers and a name for others.
    Malformed,
}

impl Host {
    fn read(host: &str) -> Self {
        if host.is_empty() || host.contains('%') {
            return Self::Malformed;
        }
        let literal = host.strip_prefix('[').map_or(Some(host), |rest| rest.strip_suffix(']'));
        if host.contains(':') || literal != Some(host) {
            let address = literal.and_then(|literal| literal.parse::<Ipv6Addr>().ok());
            return address.map_or(Self::Malformed, |address| Self::Addresses([Some(address.into()), None]));
        }
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let (parent, last) = name.rsplit_once('.').unwrap_or(("", &name));
        if last == "localhost" || LOOPBACK_NAMES.contains(&&*name) {
            return Self::Addresses([Some(Ipv4Addr::LOCALHOST.into()), None]);
        }
        // WHATWG takes every name whose last part is a number for an address.
        let is_number = |part: &str| {
            let is_hex = part.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
            is_hex || (!part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if !is_number(last) {
            return if name.is_empty() { Self::Malformed } else { Self::Name };
        }
        if !parent.is_empty() && !parent.split('.').all(is_number) {
            return Self::Malformed;
        }
        // A part that begins with a zero is octal for some parsers, and decimal for others.
        let addresses = [read_ipv4(&name, 8), read_ipv4(&name, 10)].map(|address| address.map(IpAddr::from));
        if addresses == [None, None] { Self::Malformed } else { Self::Addresses(addresses) }
    }
}

/// Names other than `localhost` that `hosts` files give to the loopback address.
const LOOPBACK_NAMES: [&str; 5] =
    ["localhost.localdomain", "localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback"];

/// Reads an IPv4 address of one to four parts, of which the last one fills what is left.
fn read_ipv4(text: &str, radix_after_zero: u32) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    let (last, first) = parts.split_last()?;
    let number = |part: &str| match part.strip_prefix("0x") {
        Some("") => Some(0),
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None if part.len() > 1 && part.starts_with('0') => u32::from_str_radix(part, radix_after_zero).ok(),
        None => part.parse().ok(),
    };
    let mut address = 0_u32;
    for (part, shift) in first.iter().zip([24, 16, 8]) {
        address |= u32::from(u8::try_from(number(part)?).ok()?) << shift;
    }
    let last = number(last)?;
    let left = 32 - 8 * u32::try_from(first.len()).ok()?;
    (u64::from(last) < 1 << left).then_some(Ipv4Addr::from(address | last))
}

/// What an address is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Public,
    Private,
    Never,
}

impl Class {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                if address.is_link_local() || address.is_multicast() || a == 0 || address.is_broadcast() {
                    Self::Never
                } else if address.is_private()
                    || address.is_loopback()
                    // Shared by carriers, benchmarks, and reserved (RFC 6890).
                    || (a == 100 && b & 0xC0 == 64)
                    || (a == 198 && b & 0xFE == 18)
                    || (a == 192 && b == 0 && c == 0)
                    || a >= 240
                {
                    Self::Private
                } else {
                    Self::Public
                }
            }
            IpAddr::V6(address) => match Self::embedded(address) {
                Some(embedded) => Self::of(embedded),
                None if address.is_unspecified()
                    || address.is_multicast()
                    || address.segments()[0] & 0xFFC0 == 0xFE80 =>
                {
                    Self::Never
                }
                // Unique local addresses (RFC 4193).
                None if address.is_loopback() || address.segments()[0] & 0xFE00 == 0xFC00 => Self::Private,
                // Addresses that were site-local (RFC 3879), or that a network translates for itself (RFC 8215).
                None if address.segments()[0] & 0xFFC0 == 0xFEC0 || address.segments()[..3] == [0x64, 0xFF9B, 1] => {
                    Self::Private
                }
                None => Self::Public,
            },
        }
    }

    /// The IPv4 address inside an IPv6 address: mapped (RFC 4291), translated (RFC 2765, RFC 6052), of 6to4 (RFC 3056), of
    /// ISATAP (RFC 5214) or of Teredo (RFC 4380).
    fn embedded(address: Ipv6Addr) -> Option<IpAddr> {
        let segments = address.segments();
        let join = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            IpAddr::from([a, b, c, d])
        };
        match segments {
            [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
            [0, 0, 0, 0, 0, 0xFFFF | 0, high, low]
            | [0, 0, 0, 0, 0xFFFF, 0, high, low]
            | [0x64, 0xFF9B, 0, 0, 0, 0, high, low]
            | [0x2002, high, low, ..]
            | [_, _, _, _, 0 | 0x200, 0x5EFE, high, low] => Some(join(high, low)),
            [0x2001, 0, _, _, _, _, high, low] => Some(join(!high, !low)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn au17_oa_n_02_addresses_are_classified_and_embedded_ones_unfolded() {
        for (address, public, private) in [
            ("8.8.8.8", true, true),
            ("2606:4700::1111", true, true),
            ("127.0.0.1", false, true),
            ("10.1.2.3", false, true),
            ("172.31.0.1", false, true),
            ("192.168.0.1", false, true),
            ("100.64.0.1", false, true),
            ("100.128.0.1", true, true),
            ("198.19.0.1", false, true),
            ("192.0.0.1", false, true),
            ("192.0.1.1", true, true),
            ("192.1.0.1", true, true),
            ("8.0.0.1", true, true),
            ("250.0.0.1", false, true),
            ("::1", false, true),
            ("fd00::1", false, true),
            ("::ffff:10.0.0.1", false, true),
            ("64:ff9b::a00:1", false, true),
            ("2002:a00:1::", false, true),
            ("2002:808:808::", true, true),
            ("::ffff:8.8.8.8", true, true),
            ("::ffff:0:10.0.0.1", false, true),
            ("2001:0:808:808:0:0:f5ff:fffe", false, true),
            ("2001:0:808:808:0:0:f7f7:f7f7", true, true),
            ("2606:4700::5efe:10.0.0.1", false, true),
            ("2606:4700::200:5efe:169.254.169.254", false, false),
            ("64:ff9b:1::808:808", false, true),
            ("fec0::1", false, true),
            ("::7f00:1", false, true),
            ("::2", false, false),
            ("169.254.169.254", false, false),
            ("::ffff:169.254.169.254", false, false),
            ("64:ff9b::a9fe:a9fe", false, false),
            ("fe80::1", false, false),
            ("febf::1", false, false),
            ("0.0.0.0", false, false),
            ("0.1.2.3", false, false),
            ("255.255.255.255", false, false),
            ("224.0.0.1", false, false),
            ("ff02::1", false, false),
            ("::", false, false),
        ] {
            let ip: IpAddr = address.parse().unwrap();
            assert_eq!((Reach::Public.allows(ip), Reach::Private.allows(ip)), (public, private), "{address}");
        }
    }

    #[test]
    fn oa_n_02_a_host_is_an_address_in_every_spelling_that_parsers_know() {
        for (host, public, private) in [
            ("auth.example.com", true, true),
            ("AUTH.example.com.", true, true),
            ("xn--bcher-kva.example", true, true),
            ("10.0.0.1.example", true, true),
            ("0x7f.example", true, true),
            ("notlocalhost", true, true),
            ("localhost.example", true, true),
            ("8.8.8.8", true, true),
            ("8.8.8.8.", true, true),
            ("134744072", true, true),
            ("[2606:4700::1111]", true, true),
            ("localhost", false, true),
            ("LocalHost", false, true),
            ("localhost.", false, true),
            ("localhost..", false, true),
            ("a.b.localhost", false, true),
            ("a.localhost.", false, true),
            ("localhost.localdomain", false, true),
            ("ip6-localhost", false, true),
            ("10.0.0.5", false, true),
            ("10.0.0.5.", false, true),
            ("127.0.0.1", false, true),
            ("127.1", false, true),
            ("127.0.1", false, true),
            ("0x7f.1", false, true),
            ("0X7F.0.0.1", false, true),
            ("0177.0.0.1", false, true),
            ("2130706433", false, true),
            ("0x7f000001", false, true),
            ("017700000001", false, true),
            // Octal it is 8.0.0.1, decimal 10.0.0.1.
            ("010.0.0.1", false, true),
            // Octal it is 127.0.0.1, decimal no address.
            ("0000177.0.0.1", false, true),
            ("[::1]", false, true),
            ("::1", false, true),
            ("[::ffff:10.0.0.5]", false, true),
            ("[::ffff:a00:5]", false, true),
            ("[0:0:0:0:0:ffff:127.0.0.1]", false, true),
            ("[fd00::1]", false, true),
            ("169.254.169.254", false, false),
            ("169.254.43518", false, false),
            ("2852039166", false, false),
            ("0xa9fea9fe", false, false),
            ("0xa9.0376.0251.254", false, false),
            ("[::ffff:169.254.169.254]", false, false),
            ("[64:ff9b::a9fe:a9fe]", false, false),
            ("0", false, false),
            ("0x", false, false),
            // What is an address for one parser, and a name or nothing for another.
            ("", false, false),
            (".", false, false),
            ("256.0.0.1", false, false),
            ("1.2.3.4.5", false, false),
            ("4294967296", false, false),
            ("a.127.1", false, false),
            ("1..1", false, false),
            ("[::1", false, false),
            ("[10.0.0.1]", false, false),
            ("[v1.a]", false, false),
            ("[fe80::1%25eth0]", false, false),
            ("%31%32%37.1", false, false),
        ] {
            assert_eq!(
                (Reach::Public.allows_host(host), Reach::Private.allows_host(host)),
                (public, private),
                "{host}"
            );
        }
    }
}
