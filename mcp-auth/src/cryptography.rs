//! Keys and signatures, by the cryptography of a driver.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use mcp_proto::auth::{ClientKey, ProofClaims, ProofKey, Secret, SigningAlgorithm};

/// Signs messages with one key; `None` if it cannot, because the operating system gives no random bytes.
pub type Signer = Box<dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync>;

/// The cryptography of a driver: the one that its TLS library uses. This crate contains none.
pub trait Cryptography {
    /// The DER form of a private key in PKCS #8 and PEM; `None` if the text is not such a key.
    fn pkcs8_of_pem(pem: &str) -> Option<Vec<u8>>;

    /// Reads a private key in PKCS #8; `None` if it is not one for this algorithm.
    fn signer(algorithm: SigningAlgorithm, pkcs8: &[u8]) -> Option<Signer>;

    /// Creates a key of P-256: its private part in PKCS #8, and its public part as an uncompressed point. `None` if the
    /// operating system gives no random bytes.
    fn create_p256_key() -> Option<(Vec<u8>, Vec<u8>)>;

    /// Random bytes.
    ///
    /// # Errors
    ///
    /// The operating system gives none.
    fn random<const N: usize>() -> Result<[u8; N], Error>;

    /// A new key to which tokens are bound; `None` if the operating system gives no random bytes.
    #[must_use]
    fn create_proof_key() -> Option<ProofKey> {
        let (pkcs8, point) = Self::create_p256_key()?;
        // An uncompressed point: 4, then both coordinates.
        let (x, y) = point.get(1..)?.split_at_checked(32)?;
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        Some(ProofKey::new(Secret::new(encode(&pkcs8)), &encode(x), &encode(y)))
    }

    /// The signature of a message by a key that [`Cryptography::create_proof_key`] has made; `None` if the key cannot sign.
    #[must_use]
    fn sign_with_proof_key(key: &ProofKey, message: &[u8]) -> Option<Vec<u8>> {
        let pkcs8 = URL_SAFE_NO_PAD.decode(key.private().reveal()).ok()?;
        Self::signer(SigningAlgorithm::Es256, &pkcs8)?(message)
    }

    /// The value of the header `DPoP` for a request that is sent now, `unix` seconds after 1970; `None` if the key cannot
    /// sign.
    #[must_use]
    fn proof_header(claims: &ProofClaims, unix: u64) -> Option<HeaderValue> {
        let unsigned = claims.to_jwt(Self::random().ok()?, unix);
        let signature = Self::sign_with_proof_key(&claims.key, unsigned.message())?;
        let mut value = HeaderValue::from_str(unsigned.sign(&signature).reveal()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// The private key of a client that authenticates by `private_key_jwt`, with the cryptography of a driver.
///
/// Its `Debug` form contains only the algorithm.
///
/// Rules: OA-X-03.
pub struct PrivateKey<C> {
    algorithm: SigningAlgorithm,
    signer: Signer,
    cryptography: PhantomData<fn() -> C>,
}

impl<C: Cryptography> PrivateKey<C> {
    /// Reads a key in PKCS #8 and PEM: `-----BEGIN PRIVATE KEY-----`. Keys of P-256, P-384, Ed25519 and RSA are known;
    /// RSA keys sign by RS256.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidData`] if it is none of these.
    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        let read = |algorithm, pkcs8: &[u8]| {
            let signer = C::signer(algorithm, pkcs8)?;
            Some(Self { algorithm, signer, cryptography: PhantomData })
        };
        let known =
            [SigningAlgorithm::Es256, SigningAlgorithm::Es384, SigningAlgorithm::EdDsa, SigningAlgorithm::Rs256];
        let key = C::pkcs8_of_pem(pem).and_then(|pkcs8| known.into_iter().find_map(|of| read(of, &pkcs8)));
        key.ok_or_else(|| {
            let text = "the key must be a private key of P-256, P-384, Ed25519 or RSA in PKCS #8 and PEM, which begins \
                        with -----BEGIN PRIVATE KEY-----";
            Error::new(ErrorKind::InvalidData, text)
        })
    }
}

impl<C> PrivateKey<C> {
    /// The algorithm by which the key signs.
    #[must_use]
    pub const fn algorithm(&self) -> SigningAlgorithm {
        self.algorithm
    }

    /// The key, for the client's identity.
    #[must_use]
    pub const fn client_key(&self) -> ClientKey {
        ClientKey::new(self.algorithm)
    }

    /// Signs a message.
    ///
    /// # Errors
    ///
    /// The operating system gives no random bytes.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        (self.signer)(message).ok_or_else(|| Error::other("the key cannot sign"))
    }
}

impl<C> fmt::Debug for PrivateKey<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Implements [`Cryptography`] for a type, by a library with the interface of `ring`. Of this interface, two functions differ
/// between `ring` and `aws-lc-rs`: `random` is the last argument of the one that reads a key of ECDSA, and `modulus_len` the
/// length of the modulus of a key of RSA.
#[doc(hidden)]
#[macro_export]
macro_rules! cryptography_like_ring {
    ($name:ident, $library:ident, random: [$($random:tt)*], modulus_len: $key:ident => $modulus_len:expr) => {
        impl $crate::Cryptography for $name {
            fn pkcs8_of_pem(pem: &str) -> Option<Vec<u8>> {
                let der: ::rustls_pki_types::PrivatePkcs8KeyDer<'_> =
                    ::rustls_pki_types::pem::PemObject::from_pem_slice(pem.as_bytes()).ok()?;
                Some(der.secret_pkcs8_der().to_vec())
            }

            fn signer(algorithm: $crate::SigningAlgorithm, pkcs8: &[u8]) -> Option<$crate::Signer> {
                use $crate::SigningAlgorithm;
                use ::$library::rand::SystemRandom;
                use ::$library::signature::{
                    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
                    RSA_PKCS1_SHA256, RsaKeyPair,
                };

                let curve = match algorithm {
                    SigningAlgorithm::Es256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
                    SigningAlgorithm::Es384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
                    SigningAlgorithm::EdDsa => {
                        let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).ok()?;
                        return Some(Box::new(move |message| Some(key.sign(message).as_ref().to_vec())));
                    }
                    SigningAlgorithm::Rs256 => {
                        let $key = RsaKeyPair::from_pkcs8(pkcs8).ok()?;
                        return Some(Box::new(move |message| {
                            let mut signature = vec![0; $modulus_len];
                            $key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).ok()?;
                            Some(signature)
                        }));
                    }
                    SigningAlgorithm::Ps256 | _ => return None,
                };
                let key = EcdsaKeyPair::from_pkcs8(curve, pkcs8 $($random)*).ok()?;
                Some(Box::new(move |message| Some(key.sign(&SystemRandom::new(), message).ok()?.as_ref().to_vec())))
            }

            fn create_p256_key() -> Option<(Vec<u8>, Vec<u8>)> {
                use ::$library::rand::SystemRandom;
                use ::$library::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

                let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let pkcs8 = EcdsaKeyPair::generate_pkcs8(curve, &SystemRandom::new()).ok()?;
                let key = EcdsaKeyPair::from_pkcs8(curve, pkcs8.as_ref() $($random)*).ok()?;
                Some((pkcs8.as_ref().to_vec(), key.public_key().as_ref().to_vec()))
            }

            fn random<const N: usize>() -> Result<[u8; N], ::std::io::Error> {
                let mut random = [0; N];
                ::getrandom::fill(&mut random).map_err(::std::io::Error::other)?;
                Ok(random)
            }
        }
    };
}
