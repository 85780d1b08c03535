//! Proofs of possession: what a client signs to prove that it has the key of its access token (RFC 9449).

use std::fmt;

use http::{Method, Uri};

/// The claims of a `DPoP` proof (RFC 9449, section 4.2) that follow from the request. Whoever signs the proof adds `jti`
/// and `iat`, which are new for each proof, and sends it as the only `DPoP` header of the request (OA-X-06).
///
/// Its `Debug` form contains only the method.
///
/// # Example
///
/// ```
/// use mcp_proto::client::{Client, Config, Credentials, Http, HttpAction, HttpConfig};
/// use mcp_proto::{Instant, Output};
///
/// let http = Http::new(HttpConfig::new("https://example.com/mcp?key=1")?);
/// let mut client = Client::new(http, Config::new("my-app", "1.0.0"))?;
/// let hash = "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo";
/// client.authorize(Credentials::dpop("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU", hash, 1)?, Instant::START);
/// client.connect(Instant::START)?;
/// let Some(Output::Action(HttpAction::Open { proof: Some(claims), .. })) = client.poll_output() else { panic!() };
/// assert_eq!((claims.htm.as_str(), &*claims.htu), ("POST", "https://example.com/mcp"));
/// assert_eq!((&*claims.ath, claims.nonce), (hash, None));
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProofClaims {
    /// The method of the request.
    pub htm: Method,
    /// The URL of the request, without its query.
    pub htu: Box<str>,
    /// The SHA-256 value of the access token, in Base64url.
    pub ath: Box<str>,
    /// The newest nonce that a response of this server had (OA-X-07).
    pub nonce: Option<Box<str>>,
}

impl ProofClaims {
    /// The claims of a proof for this request.
    pub(crate) fn new(htm: &Method, uri: &Uri, ath: &str, nonce: Option<&str>) -> Self {
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        let htu = format!("{scheme}://{authority}{}", uri.path()).into();
        Self { htm: htm.clone(), htu, ath: ath.into(), nonce: nonce.map(Into::into) }
    }
}

impl fmt::Debug for ProofClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProofClaims").field("htm", &self.htm).finish_non_exhaustive()
    }
}
