//! Keys and signatures, by the cryptography that the TLS library uses too.

use std::{fmt, io};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use mcp_proto::auth::{ClientKey, ProofClaims, ProofKey, Secret, SigningAlgorithm};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;

use crate::clock::unix_time;

/// The private key of a client that authenticates by `private_key_jwt` (OA-X-03).
///
/// Its `Debug` form contains only the algorithm.
///
/// # Example
///
/// ```no_run
/// use mcp_tokio::auth::{ClientIdentity, Grant};
/// use mcp_tokio::sign_in::{Authorization, PrivateKey};
///
/// let key = PrivateKey::from_pem(&std::fs::read_to_string("robot.pem")?)?;
/// let client = ClientIdentity::new("robot").with_key(key.client_key());
/// let authorization = Authorization::new("https://example.com/mcp", "robot")?
///     .private_key(key)
///     .configure(|config| {
///         config.grant = Grant::ClientCredentials;
///         config.registered = Some(client);
///     });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PrivateKey {
    kind: Kind,
}

enum Kind {
    Ecdsa(SigningAlgorithm, EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl PrivateKey {
    /// Reads a key in PKCS #8 and PEM: `-----BEGIN PRIVATE KEY-----`. Keys of P-256, P-384, Ed25519 and RSA are known;
    /// RSA keys sign by RS256.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if it is none of these.
    pub fn from_pem(pem: &str) -> io::Result<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| invalid())?;
        let der = der.secret_pkcs8_der();
        let ecdsa = |algorithm, curve| EcdsaKeyPair::from_pkcs8(curve, der).map(|key| Kind::Ecdsa(algorithm, key)).ok();
        let kind = ecdsa(SigningAlgorithm::Es256, &ECDSA_P256_SHA256_FIXED_SIGNING)
            .or_else(|| ecdsa(SigningAlgorithm::Es384, &ECDSA_P384_SHA384_FIXED_SIGNING))
            .or_else(|| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(Kind::Ed25519).ok())
            .or_else(|| RsaKeyPair::from_pkcs8(der).map(Kind::Rsa).ok());
        kind.map(|kind| Self { kind }).ok_or_else(invalid)
    }

    /// The algorithm by which the key signs.
    #[must_use]
    pub const fn algorithm(&self) -> SigningAlgorithm {
        match &self.kind {
            Kind::Ecdsa(algorithm, _) => *algorithm,
            Kind::Ed25519(_) => SigningAlgorithm::EdDsa,
            Kind::Rsa(_) => SigningAlgorithm::Rs256,
        }
    }

    /// The key, for the client's identity.
    #[must_use]
    pub const fn client_key(&self) -> ClientKey {
        ClientKey::new(self.algorithm())
    }

    /// Signs a message.
    ///
    /// # Errors
    ///
    /// The operating system gives no random bytes.
    pub fn sign(&self, message: &[u8]) -> io::Result<Vec<u8>> {
        let random = SystemRandom::new();
        let failed = |_| io::Error::other("the key cannot sign");
        match &self.kind {
            Kind::Ecdsa(_, key) => {
                key.sign(&random, message).map(|signature| signature.as_ref().to_vec()).map_err(failed)
            }
            Kind::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
            Kind::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

fn invalid() -> io::Error {
    let text = "the key must be a private key of P-256, P-384, Ed25519 or RSA in PKCS #8 and PEM, which begins with \
                -----BEGIN PRIVATE KEY-----";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

/// A new key to which tokens are bound; `None` if the operating system gives no random bytes.
pub(crate) fn create_proof_key() -> Option<ProofKey> {
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).ok()?;
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref()).ok()?;
    // An uncompressed point: 4, then both coordinates.
    let (x, y) = key.public_key().as_ref().get(1..)?.split_at_checked(32)?;
    let encode = |bytes| URL_SAFE_NO_PAD.encode(bytes);
    Some(ProofKey::new(Secret::new(encode(der.as_ref())), &encode(x), &encode(y)))
}

/// The signature of a message by a key that [`create_proof_key`] has made.
pub(crate) fn sign_with_proof_key(key: &ProofKey, message: &[u8]) -> Option<Vec<u8>> {
    let der = URL_SAFE_NO_PAD.decode(key.private().reveal()).ok()?;
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).ok()?;
    Some(key.sign(&SystemRandom::new(), message).ok()?.as_ref().to_vec())
}

/// The value of the header `DPoP` for a request that is sent now; `None` if the key cannot sign.
pub(crate) fn proof_header(claims: &ProofClaims) -> Option<HeaderValue> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).ok()?;
    let unsigned = claims.to_jwt(id, unix_time());
    let signature = sign_with_proof_key(&claims.key, unsigned.message())?;
    let mut value = HeaderValue::from_str(unsigned.sign(&signature).reveal()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn oa_x_06_a_created_key_signs_for_its_public_coordinates() {
        let (key, other) = (create_proof_key().unwrap(), create_proof_key().unwrap());
        let stored = mcp_proto::Json::from_serialize(&key).unwrap();
        let decode = |name: &str| {
            let text = stored.member(name).unwrap().unwrap().to_text().into_owned();
            URL_SAFE_NO_PAD.decode(text.trim_matches('"')).unwrap()
        };
        let public = [vec![4], decode("x"), decode("y")].concat();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public);
        let signature = sign_with_proof_key(&key, b"message").unwrap();
        assert!(public.verify(b"message", &signature).is_ok());
        assert!(public.verify(b"massage", &signature).is_err());
        assert!(public.verify(b"message", &sign_with_proof_key(&other, b"message").unwrap()).is_err());
        assert_eq!(sign_with_proof_key(&ProofKey::new("AAAA".into(), "x", "y"), b"message"), None);
    }

    #[test]
    fn oa_x_03_keys_of_each_kind_are_read_and_sign_and_others_are_refused() {
        for (pem, algorithm, length) in ::tests::keys::KEYS {
            let key = PrivateKey::from_pem(pem).unwrap();
            assert_eq!((key.algorithm(), key.sign(b"message").unwrap().len()), (algorithm, length));
            assert!(!format!("{key:?}").contains("KeyPair"));
        }
        for pem in ::tests::keys::INVALID_KEYS {
            assert_eq!(PrivateKey::from_pem(pem).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
