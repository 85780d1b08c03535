//! Keys and signatures, by the cryptography that the TLS library uses too.

/// The private key of a client that authenticates by `private_key_jwt`.
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
///
/// Rules: OA-X-03.
pub type PrivateKey = mcp_auth::PrivateKey<AwsLc>;

/// The cryptography of the TLS library. It has no values.
pub enum AwsLc {}

mcp_auth::cryptography_like_ring!(AwsLc, aws_lc_rs, random: [], modulus_len: key => key.public_modulus_len());

#[cfg(test)]
mod tests {
    use std::io;

    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use mcp_auth::Cryptography as _;
    use mcp_proto::auth::ProofKey;

    use super::*;

    #[test]
    fn oa_x_06_a_created_key_signs_for_its_public_coordinates() {
        let (key, other) = (AwsLc::create_proof_key().unwrap(), AwsLc::create_proof_key().unwrap());
        let stored = mcp_proto::Json::from_serialize(&key).unwrap();
        let decode = |name: &str| {
            let text = stored.member(name).unwrap().unwrap().to_text().into_owned();
            URL_SAFE_NO_PAD.decode(text.trim_matches('"')).unwrap()
        };
        let public = [vec![4], decode("x"), decode("y")].concat();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public);
        let signature = AwsLc::sign_with_proof_key(&key, b"message").unwrap();
        assert!(public.verify(b"message", &signature).is_ok());
        assert!(public.verify(b"massage", &signature).is_err());
        assert!(public.verify(b"message", &AwsLc::sign_with_proof_key(&other, b"message").unwrap()).is_err());
        assert_eq!(AwsLc::sign_with_proof_key(&ProofKey::new("AAAA".into(), "x", "y"), b"message"), None);
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
