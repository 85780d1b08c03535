//! Which addresses a request may reach that another server has named (OA-N-02).

use core::net::{IpAddr, Ipv6Addr};

/// To which addresses the host of a request may resolve (OA-N-02).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// Public addresses only: a server that we do not trust named the host.
    Public,
    /// Any address but those that no server should have: link-local, multicast and unspecified ones.
    Private,
}

impl Reach {
    /// Whether a request may be sent to an address.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::auth::Reach;
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
                None => Self::Public,
            },
        }
    }

    /// The IPv4 address inside an IPv6 address: mapped (RFC 4291), translated (RFC 6052) or 6to4 (RFC 3056).
    fn embedded(address: Ipv6Addr) -> Option<IpAddr> {
        let segments = address.segments();
        let join = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            IpAddr::from([a, b, c, d])
        };
        match segments {
            [0, 0, 0, 0, 0, 0, 0, _] => None,
            [0, 0, 0, 0, 0, 0xFFFF | 0, high, low]
            | [0x64, 0xFF9B, 0, 0, 0, 0, high, low]
            | [0x2002, high, low, ..] => Some(join(high, low)),
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
            ("250.0.0.1", false, true),
            ("::1", false, true),
            ("fd00::1", false, true),
            ("::ffff:10.0.0.1", false, true),
            ("64:ff9b::a00:1", false, true),
            ("2002:a00:1::", false, true),
            ("2002:808:808::", true, true),
            ("::ffff:8.8.8.8", true, true),
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
}
