//! The file with the keys of an authorization server (RFC 7517), which another program replaces while the gateway runs.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

use crate::platform::FileId;

/// How exact the time of the last change of a file is at least: one that was read sooner after its change may have changed
/// again at the same time.
const EXACTNESS: Duration = Duration::from_secs(2);

/// The shortest times between two looks at the file, and how long its last keys count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pauses {
    /// Between two checks whether the file has changed.
    pub(super) look: Duration,
    /// Between two readings of its contents, however many tokens no key verifies.
    pub(super) read: Duration,
    /// How long the last keys are in force while the file cannot be read: it is perhaps being written.
    pub(super) keep: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { look: Duration::from_secs(1), read: Duration::from_secs(10), keep: Duration::from_secs(60) }
    }
}

/// The keys of an authorization server, as they are in a file.
pub(super) struct KeyFile {
    path: PathBuf,
    pauses: Pauses,
    known: Mutex<Known>,
}

/// What is known of the file.
struct Known {
    keys: Vec<Key>,
    looked: Instant,
    read: Instant,
    /// The stamp that shows a change; `None` if the next look reads the file in any case.
    stamp: Option<Stamp>,
    /// Since when the file cannot be read.
    unreadable: Option<Instant>,
}

/// The metadata that differ after a change of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    length: u64,
    id: FileId,
}

impl Stamp {
    /// `None` if another change could leave all of it as it is.
    fn of(file: &Metadata) -> Option<Self> {
        let modified = file.modified().ok()?;
        let is_old = SystemTime::now().duration_since(modified).is_ok_and(|age| age > EXACTNESS);
        let stamp = Self { modified, length: file.len(), id: FileId::of(file) };
        is_old.then_some(stamp)
    }
}

impl KeyFile {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// A text for the user.
    pub(super) fn open(path: &Path, pauses: Pauses) -> Result<Self, String> {
        let now = Instant::now();
        let stamp = stamp(path);
        let keys = read(path).map_err(|error| format!("--token-keys {}: {error}", path.display()))?;
        let known = Known { keys, looked: now, read: now, stamp, unreadable: None };
        Ok(Self { path: path.to_owned(), pauses, known: Mutex::new(known) })
    }

    /// Whether a key of the file has made the signature, by this algorithm and with this id, if there is one. If none has,
    /// the file may be newer than what was read of it.
    pub(super) fn verify(&self, algorithm: &str, id: Option<&str>, signed: &[u8], signature: &[u8]) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if known.looked + self.pauses.look <= now {
            known.looked = now;
            let stamp = stamp(&self.path);
            if stamp.is_none() || stamp != known.stamp {
                self.read(&mut known, stamp, now);
            }
        }
        let is_verified =
            |known: &Known| known.keys.iter().any(|key| key.is_named(algorithm, id) && key.verify(signed, signature));
        if is_verified(&known) {
            return true;
        }
        if known.read + self.pauses.read > now {
            return false;
        }
        let stamp = stamp(&self.path);
        self.read(&mut known, stamp, now);
        is_verified(&known)
    }

    /// Reads the file again. `stamp` is from before.
    fn read(&self, known: &mut Known, stamp: Option<Stamp>, now: Instant) {
        known.read = now;
        let error = match read(&self.path) {
            Ok(keys) => {
                if known.unreadable.is_some() {
                    log::info!("--token-keys {}: the keys are read again", self.path.display());
                }
                (known.keys, known.stamp, known.unreadable) = (keys, stamp, None);
                return;
            }
            Err(error) => error,
        };
        known.stamp = None;
        let since = *known.unreadable.get_or_insert_with(|| {
            let keep = self.pauses.keep.as_secs();
            log::warn!("--token-keys {}: {error}; the earlier keys are used for {keep} s", self.path.display());
            now
        });
        // A key that was removed must not be in force for long because the file is damaged.
        if since + self.pauses.keep <= now && !known.keys.is_empty() {
            log::error!("--token-keys {}: {error}; every token is refused until it is mended", self.path.display());
            known.keys.clear();
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    std::fs::metadata(path).ok().as_ref().and_then(Stamp::of)
}

/// A key of the authorization server.
struct Key {
    id: Option<String>,
    /// The name of its algorithm: a token can choose no other.
    algorithm: &'static str,
    public: Public,
}

enum Public {
    Point(&'static dyn VerificationAlgorithm, Vec<u8>),
    Rsa(&'static RsaParameters, RsaPublicKeyComponents<Vec<u8>>),
}

#[derive(Deserialize)]
struct Published {
    keys: Vec<PublishedKey>,
}

#[derive(Deserialize)]
struct PublishedKey {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    kid: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

/// The keys of a file that can be used.
fn read(file: &Path) -> Result<Vec<Key>, String> {
    let text = std::fs::read(file).map_err(|error| error.to_string())?;
    let found: Published = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let keys: Vec<_> = found.keys.into_iter().filter_map(Key::new).collect();
    if keys.is_empty() {
        return Err("there is no key for signatures by RS256, ES256, EdDSA or a similar algorithm".to_owned());
    }
    Ok(keys)
}

impl Key {
    fn new(published: PublishedKey) -> Option<Self> {
        let PublishedKey { kty, usage, kid, alg, crv, x, y, n, e } = published;
        if usage.is_some_and(|usage| usage != "sig") {
            return None;
        }
        let decoded = |member: Option<String>| URL_SAFE_NO_PAD.decode(member?).ok();
        let point = |algorithm, x: Vec<u8>, y: Vec<u8>| Public::Point(algorithm, [vec![4], x, y].concat());
        let (algorithm, public) = match (kty.as_str(), crv.as_deref()) {
            ("EC", Some("P-256")) => ("ES256", point(&ECDSA_P256_SHA256_FIXED, decoded(x)?, decoded(y)?)),
            ("EC", Some("P-384")) => ("ES384", point(&ECDSA_P384_SHA384_FIXED, decoded(x)?, decoded(y)?)),
            ("OKP", Some("Ed25519")) => ("EdDSA", Public::Point(&ED25519, decoded(x)?)),
            ("RSA", None) => {
                let (name, parameters) = rsa(alg.as_deref().unwrap_or("RS256"))?;
                (name, Public::Rsa(parameters, RsaPublicKeyComponents { n: decoded(n)?, e: decoded(e)? }))
            }
            _ => return None,
        };
        alg.is_none_or(|alg| alg == algorithm).then_some(Self { id: kid, algorithm, public })
    }

    /// Whether a token may be signed with this key. A token that names no key may be signed with any.
    fn is_named(&self, algorithm: &str, id: Option<&str>) -> bool {
        algorithm == self.algorithm && (id.is_none() || id == self.id.as_deref())
    }

    fn verify(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.public {
            Public::Point(algorithm, point) => {
                UnparsedPublicKey::new(*algorithm, point).verify(signed, signature).is_ok()
            }
            Public::Rsa(parameters, components) => components.verify(parameters, signed, signature).is_ok(),
        }
    }
}

/// The algorithm of an RSA key.
fn rsa(name: &str) -> Option<(&'static str, &'static RsaParameters)> {
    let all: [(_, &RsaParameters); 6] = [
        ("RS256", &RSA_PKCS1_2048_8192_SHA256),
        ("RS384", &RSA_PKCS1_2048_8192_SHA384),
        ("RS512", &RSA_PKCS1_2048_8192_SHA512),
        ("PS256", &RSA_PSS_2048_8192_SHA256),
        ("PS384", &RSA_PSS_2048_8192_SHA384),
        ("PS512", &RSA_PSS_2048_8192_SHA512),
    ];
    all.into_iter().find(|(known, _)| *known == name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ring::rand::SystemRandom;
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    const NEVER: Duration = Duration::from_secs(3600);

    /// A key of an authorization server, and the id under which it is published.
    struct Signer {
        pair: Ed25519KeyPair,
        id: Option<&'static str>,
    }

    impl Signer {
        fn new(id: Option<&'static str>) -> Self {
            let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
            Self { pair: Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap(), id }
        }

        fn published(&self) -> String {
            let x = URL_SAFE_NO_PAD.encode(self.pair.public_key().as_ref());
            let id = self.id.map(|id| format!(r#","kid":"{id}""#)).unwrap_or_default();
            format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}"{id}}}"#)
        }

        fn is_accepted(&self, by: &KeyFile) -> bool {
            by.verify("EdDSA", self.id, b"signed", self.pair.sign(b"signed").as_ref())
        }
    }

    /// A file in a folder of its own.
    struct File(PathBuf);

    impl Drop for File {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    impl File {
        fn with(signers: &[&Signer]) -> Self {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let file = Self(std::env::temp_dir().join(format!("mcp-keys-{}-{number}", std::process::id())));
            fs::create_dir(&file.0).unwrap();
            file.write(signers);
            file
        }

        fn path(&self) -> PathBuf {
            self.0.join("keys.json")
        }

        fn write(&self, signers: &[&Signer]) {
            let keys: Vec<_> = signers.iter().map(|signer| signer.published()).collect();
            fs::write(self.path(), format!(r#"{{"keys":[{}]}}"#, keys.join(","))).unwrap();
        }

        /// As if it was written a while ago, so that another change shows.
        fn make_old(&self) {
            let file = fs::File::options().write(true).open(self.path()).unwrap();
            file.set_modified(SystemTime::now() - 2 * EXACTNESS).unwrap();
        }

        fn open(&self, look: Duration, read: Duration, keep: Duration) -> KeyFile {
            KeyFile::open(&self.path(), Pauses { look, read, keep }).unwrap()
        }
    }

    #[test]
    fn a_file_that_has_changed_is_read_whatever_the_ids_of_its_keys_are() {
        for id in [Some("k"), None] {
            for is_old in [false, true] {
                for is_replaced in [false, true] {
                    let (old, new) = (Signer::new(id), Signer::new(id));
                    let file = File::with(&[&old]);
                    if is_old {
                        file.make_old();
                    }
                    let keys = file.open(Duration::ZERO, NEVER, NEVER);
                    assert!(old.is_accepted(&keys) && !new.is_accepted(&keys));
                    // The new file has the same length, and perhaps the same time.
                    if is_replaced {
                        fs::rename(file.path(), file.0.join("earlier")).unwrap();
                    }
                    file.write(&[&new]);
                    if is_old {
                        file.make_old();
                    }
                    let accepted = (old.is_accepted(&keys), new.is_accepted(&keys));
                    assert_eq!(accepted, (false, true), "{id:?} {is_old} {is_replaced}");
                }
            }
        }
    }

    #[test]
    fn a_key_that_was_removed_is_not_accepted_any_more() {
        let (kept, removed) = (Signer::new(Some("a")), Signer::new(Some("b")));
        let file = File::with(&[&kept, &removed]);
        let keys = file.open(Duration::ZERO, NEVER, NEVER);
        assert!(kept.is_accepted(&keys) && removed.is_accepted(&keys));
        file.write(&[&kept]);
        assert!(!removed.is_accepted(&keys) && kept.is_accepted(&keys));
    }

    #[test]
    fn a_signature_that_no_key_verifies_reads_the_file_again_but_not_always() {
        for (read, is_read) in [(Duration::ZERO, true), (NEVER, false)] {
            let (old, new) = (Signer::new(Some("k")), Signer::new(Some("k")));
            let file = File::with(&[&old]);
            let keys = file.open(NEVER, read, NEVER);
            file.write(&[&new]);
            assert!(old.is_accepted(&keys), "it was not looked at yet");
            assert_eq!(new.is_accepted(&keys), is_read);
            assert_eq!(old.is_accepted(&keys), !is_read);
        }
    }

    #[test]
    fn the_last_keys_are_in_force_for_a_while_when_the_file_is_damaged() {
        for (keep, is_kept) in [(NEVER, true), (Duration::ZERO, false)] {
            for damage in [r#"{"keys":[{"kty":"OKP","crv":"Ed"#, "", r#"{"keys":[]}"#] {
                let (old, new) = (Signer::new(None), Signer::new(None));
                let file = File::with(&[&old]);
                let keys = file.open(Duration::ZERO, NEVER, keep);
                fs::write(file.path(), damage).unwrap();
                for _ in 0..2 {
                    assert_eq!(old.is_accepted(&keys), is_kept, "{damage}");
                }
                fs::remove_file(file.path()).unwrap();
                assert_eq!(old.is_accepted(&keys), is_kept, "{damage}");
                file.write(&[&new]);
                assert!(new.is_accepted(&keys) && !old.is_accepted(&keys), "{damage}");
            }
        }
    }
}
