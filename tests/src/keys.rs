//! Private keys for tests. They protect nothing.

use mcp_proto::auth::SigningAlgorithm;

/// A key in PEM, the algorithm by which it signs, and the length of its signatures in bytes.
pub const KEYS: [(&str, SigningAlgorithm, usize); 4] = [
    (include_str!("../keys/p256.pem"), SigningAlgorithm::Es256, 64),
    (include_str!("../keys/p384.pem"), SigningAlgorithm::Es384, 96),
    (include_str!("../keys/ed25519.pem"), SigningAlgorithm::EdDsa, 64),
    (include_str!("../keys/rsa.pem"), SigningAlgorithm::Rs256, 256),
];

/// What is no private key in PKCS #8 and PEM.
pub const INVALID_KEYS: [&str; 3] =
    ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "-----BEGIN RSA PRIVATE KEY-----\n"];
