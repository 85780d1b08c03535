//! Keys: the algorithms by which clients sign, and the key to which tokens are bound.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// An algorithm for signatures (RFC 7518, section 3.1; RFC 8037).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SigningAlgorithm {
    /// ECDSA with P-256 and SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// ECDSA with P-384 and SHA-384.
    #[serde(rename = "ES384")]
    Es384,
    /// RSA with PKCS #1 version 1.5 and SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// RSA with PSS and SHA-256.
    #[serde(rename = "PS256")]
    Ps256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl SigningAlgorithm {
    /// The name in headers and metadata.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::auth::SigningAlgorithm;
    ///
    /// assert_eq!(SigningAlgorithm::Es256.as_str(), "ES256");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// The key of a client that authenticates by `private_key_jwt`: its private part is known to the driver alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientKey {
    algorithm: SigningAlgorithm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

impl ClientKey {
    /// A key for this algorithm.
    #[must_use]
    pub const fn new(algorithm: SigningAlgorithm) -> Self {
        Self { algorithm, id: None }
    }

    /// Sets the id under which the authorization server knows the key: the parameter `kid`.
    #[must_use]
    pub fn with_id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// The algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> SigningAlgorithm {
        self.algorithm
    }

    /// The id of the key.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

/// A P-256 key to which tokens are bound (RFC 9449). It is stored with the tokens.
///
/// Its `Debug` form does not contain the private key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofKey {
    private: Secret,
    x: String,
    y: String,
}

impl ProofKey {
    /// A key: the private key in any form that its driver can read again, and the two coordinates of the public key in
    /// Base64url (RFC 7518, section 6.2.1).
    #[must_use]
    pub fn new(private: Secret, x: &str, y: &str) -> Self {
        Self { private, x: x.to_owned(), y: y.to_owned() }
    }

    /// The private key, in the form in which the driver passed it in.
    #[must_use]
    pub const fn private(&self) -> &Secret {
        &self.private
    }

    /// The public key as a JSON Web Key (RFC 7517).
    pub(super) fn public(&self) -> PublicKey<'_> {
        PublicKey { kty: "EC", crv: "P-256", x: &self.x, y: &self.y }
    }
}

impl fmt::Debug for ProofKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProofKey").field("x", &self.x).finish_non_exhaustive()
    }
}

/// A public key of P-256.
#[derive(Serialize)]
pub(super) struct PublicKey<'k> {
    kty: &'static str,
    crv: &'static str,
    x: &'k str,
    y: &'k str,
}
