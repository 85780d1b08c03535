//! Proofs of possession: what a client signs to prove that it has the key of its access token (RFC 9449).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Method, Uri};
use serde::Serialize;

use super::jwt::UnsignedJwt;
use super::key::{ProofKey, PublicKey, SigningAlgorithm};

/// The claims of a `DPoP` proof (RFC 9449, section 4.2) that follow from the request. The driver adds an id and the time,
/// which are new for each proof, signs it, and sends it as the only `DPoP` header of the request.
///
/// Its `Debug` form contains only the method.
///
/// # Example
///
/// ```
/// use mcp_proto::auth::ProofKey;
/// use mcp_proto::auth::Credentials;
/// use mcp_proto::client::{Client, Config, Http, HttpAction, HttpConfig};
/// use mcp_proto::{Instant, Output};
///
/// let http = Http::new(HttpConfig::new("https://example.com/mcp?key=1")?);
/// let mut client = Client::new(http, Config::new("my-app", "1.0.0"))?;
/// let hash = "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo";
/// let key = ProofKey::new("private".into(), "x", "y");
/// client.authorize(Credentials::dpop("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU", hash, key, 1)?, Instant::START);
/// client.connect(Instant::START)?;
/// let Some(Output::Action(HttpAction::Open { proof: Some(claims), .. })) = client.poll_output() else { panic!() };
/// assert_eq!((claims.htm.as_str(), &*claims.htu), ("POST", "https://example.com/mcp"));
/// assert_eq!((claims.ath.as_deref(), claims.nonce.as_deref()), (Some(hash), None));
///
/// // The driver signs the proof; here, a signature that is not one.
/// let proof = claims.to_jwt([1; 16], 1_800_000_000).sign(b"signature");
/// assert_eq!(proof.reveal().split('.').count(), 3);
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
///
/// Rules: OA-X-06.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProofClaims {
    /// The method of the request.
    pub htm: Method,
    /// The URL of the request, without its query.
    pub htu: Box<str>,
    /// The SHA-256 value of the access token, in Base64url; `None` if the request is for a token.
    pub ath: Option<Box<str>>,
    /// The newest nonce that a response of this server had.
    ///
    /// Rules: OA-X-07.
    pub nonce: Option<Box<str>>,
    /// The key that signs the proof.
    pub key: Arc<ProofKey>,
}

impl ProofClaims {
    /// The claims of a proof for this request.
    /// `ath` is the SHA-256 value of the token in Base64url.
    #[must_use]
    pub fn new(htm: &Method, uri: &Uri, ath: Option<&str>, nonce: Option<&str>, key: Arc<ProofKey>) -> Self {
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        let htu = format!("{scheme}://{authority}{}", uri.path()).into();
        Self { htm: htm.clone(), htu, ath: ath.map(Into::into), nonce: nonce.map(Into::into), key }
    }

    /// The proof without its signature, which is by ES256. `id` is new random data, and `unix` the time in seconds since
    /// 1970.
    #[must_use]
    pub fn to_jwt(&self, id: [u8; 16], unix: u64) -> UnsignedJwt {
        self.to_jwt_with_id(&URL_SAFE_NO_PAD.encode(id), unix)
    }

    /// As [`ProofClaims::to_jwt`], with the text of the id.
    #[must_use]
    pub fn to_jwt_with_id(&self, jti: &str, iat: u64) -> UnsignedJwt {
        let header = Header { typ: "dpop+jwt", alg: SigningAlgorithm::Es256.as_str(), jwk: self.key.public() };
        let (htm, htu) = (self.htm.as_str(), &*self.htu);
        let claims = Claims { jti, htm, htu, iat, ath: self.ath.as_deref(), nonce: self.nonce.as_deref() };
        UnsignedJwt::new(&header, &claims)
    }
}

impl fmt::Debug for ProofClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProofClaims").field("htm", &self.htm).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Header<'p> {
    typ: &'static str,
    alg: &'static str,
    jwk: PublicKey<'p>,
}

#[derive(Serialize)]
struct Claims<'p> {
    jti: &'p str,
    htm: &'p str,
    htu: &'p str,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ath: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'p str>,
}
