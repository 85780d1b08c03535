//! What the driver states about a request besides its head.

use std::fmt;
use std::fmt::Write;

use http::Version;
use http::header::EXPECT;
use http::request::Parts;

use crate::auth::Challenge;
use crate::server::http::sessions::sealed::Nonce;
use crate::server::principal::Principal;
use crate::server::shares::{Holder, PeerKey};

/// What the driver states about a request besides its head.
///
/// # Example
///
/// ```
/// use mcp_proto::auth::Challenge;
/// use mcp_proto::server::{PeerKey, Principal, RequestInfo};
///
/// # let nonce = [7; 32];
/// let mut info = RequestInfo::new(nonce);
/// assert_eq!(info.authentication, Ok(None));
/// info.authentication = Ok(Some(Principal::new("ada")));
/// info.peer = Some(PeerKey::new(&[127, 0, 0, 1]));
///
/// let mut refused = RequestInfo::new(nonce);
/// refused.authentication = Err(Challenge::bearer().with("error", "invalid_token"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RequestInfo {
    /// The sender, or `None` if the server demands no authentication, or the challenge with which the request is
    /// refused. Default `Ok(None)`.
    ///
    /// Rules: OA-Z-02.
    pub authentication: Result<Option<Principal>, Challenge>,
    /// Where the request comes from, such as the client's address. All clients without a principal and with the same
    /// key share the limits of one client.
    pub peer: Option<PeerKey>,
    /// Whether a router has already matched the request's path, so that it is not compared with [`HttpConfig::path`].
    /// The paths of [`HttpConfig::two_endpoints`] are compared.
    ///
    /// [`HttpConfig::path`]: super::super::HttpConfig::path
    /// [`HttpConfig::two_endpoints`]: super::super::HttpConfig::two_endpoints
    pub is_routed: bool,
    /// The time in seconds since 1970, at which sealed sessions open and expire; without it, there are no sealed
    /// sessions ([`SessionMode::Sealed`](super::super::SessionMode::Sealed)). Default `None`.
    pub unix_time: Option<u64>,
    /// Random bytes from a secure source, new for each request. Session and event ids are built from them.
    ///
    /// Rules: SH-S-41.
    pub nonce: [u8; 32],
}

impl RequestInfo {
    /// The information about a request with these random bytes; the other fields have their defaults.
    #[must_use]
    pub const fn new(nonce: [u8; 32]) -> Self {
        Self { authentication: Ok(None), peer: None, is_routed: false, unix_time: None, nonce }
    }

    /// The sender of a request that was not refused.
    pub(crate) fn principal(&self) -> Option<&Principal> {
        self.authentication.as_ref().ok()?.as_ref()
    }

    /// The holder of the sessions and streams that this request opens.
    pub(crate) fn holder(&self) -> Holder {
        Holder::new(self.principal(), self.peer.as_ref())
    }

    /// The random bytes of a session id.
    pub(crate) fn session_nonce(&self) -> Nonce {
        self.nonce.first_chunk().copied().unwrap_or_default()
    }

    pub(crate) fn session_id(&self) -> Box<str> {
        let mut id = String::with_capacity(32);
        for byte in self.session_nonce() {
            // Writing to a string does not fail.
            let _ = write!(id, "{byte:02x}");
        }
        id.into()
    }

    /// Eight of the random bytes, from this index.
    pub(crate) fn tag(&self, from: usize) -> u64 {
        self.nonce.iter().skip(from).take(8).fold(0, |tag, byte| (tag << 8) | u64::from(*byte))
    }
}

/// Whether a client expects `100 Continue` before it sends the body of a request (RFC 9110, section 10.1.1). The
/// expectation of an HTTP/1.0 client is ignored.
#[must_use]
pub fn expects_continue(head: &Parts) -> bool {
    let expectation = head.headers.get(EXPECT).and_then(|value| value.to_str().ok());
    head.version > Version::HTTP_10
        && expectation.is_some_and(|expectation| expectation.trim().eq_ignore_ascii_case("100-continue"))
}

/// Does not show the random bytes, because session ids are built from them.
impl fmt::Debug for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestInfo").field("authentication", &self.authentication).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    /// Every random byte is used exactly once (SH-S-41).
    #[test]
    fn ids_and_tags_are_made_of_the_random_bytes() {
        let nonce = std::array::from_fn(|at| u8::try_from(at).unwrap() + 0xe0);
        let info = RequestInfo::new(nonce);
        assert_eq!(&*info.session_id(), "e0e1e2e3e4e5e6e7e8e9eaebecedeeef");
        assert_eq!((info.tag(16), info.tag(24)), (0xf0f1_f2f3_f4f5_f6f7, 0xf8f9_fafb_fcfd_feff));
    }

    #[test]
    fn who_waits_for_100_continue_says_so_in_http_1_1() {
        for (expect, version, expected) in [
            ("100-continue", Version::HTTP_11, true),
            (" 100-Continue ", Version::HTTP_11, true),
            ("100-continue", Version::HTTP_10, false),
            ("100-continue", Version::HTTP_2, true),
            ("200-ok", Version::HTTP_11, false),
            ("", Version::HTTP_11, false),
        ] {
            let (head, ()) = Request::post("/").version(version).header(EXPECT, expect).body(()).unwrap().into_parts();
            assert_eq!(expects_continue(&head), expected, "{expect:?} {version:?}");
        }
        let (head, ()) = Request::post("/").body(()).unwrap().into_parts();
        assert!(!expects_continue(&head));
    }
}
