//! Tokens of an authorization server: JWTs, which are checked with the public keys that it publishes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::request::Parts;
use mcp_proto::auth::{Challenge, ProtectedResource};
use mcp_proto::server::Principal;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

use super::servers::Described;
use super::tokens::{bearer, invalid_token};
use crate::args::ServeArgs;

/// How far the clock of the authorization server may be off.
const LEEWAY: u64 = 30;
/// How long the file of the keys is not read again, however many tokens name a key that it does not have.
const REREAD: Duration = Duration::from_secs(10);
/// The longest token, in bytes.
const LONGEST: usize = 16 * 1024;

/// The tokens of one authorization server.
pub(super) struct Jwts {
    issuer: String,
    scope: Option<String>,
    /// The paths of each server, and the URL for which its tokens are issued.
    audiences: Vec<(Vec<String>, String)>,
    file: PathBuf,
    keys: Mutex<Keys>,
}

struct Keys {
    keys: Vec<Key>,
    read: Instant,
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

/// A file of keys (RFC 7517).
#[derive(Deserialize)]
struct KeyFile {
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

/// The first part of a token (RFC 7515). An extension that must be understood is not.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde::de::IgnoredAny>,
}

/// The second part of a token (RFC 7519, RFC 9068).
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: f64,
    nbf: Option<f64>,
    #[serde(default)]
    scope: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Jwts {
    /// The tokens that the command line demands, if it does.
    ///
    /// # Errors
    ///
    /// A text for the user.
    pub(super) fn new(args: &ServeArgs, servers: &[Described]) -> Result<Option<Self>, String> {
        let (Some(issuer), Some(file), Some(_)) = (&args.token_issuer, &args.token_keys, &args.public_url) else {
            return Ok(None);
        };
        let mut audiences = Vec::new();
        for server in servers {
            audiences.extend(resource(args, server)?.map(|found| (server.paths(true), found.resource().to_owned())));
        }
        let keys = read(file).map_err(|error| format!("--token-keys {}: {error}", file.display()))?;
        let keys = Mutex::new(Keys { keys, read: Instant::now() });
        let (issuer, scope) = (issuer.clone(), args.token_scope.clone());
        Ok(Some(Self { issuer, scope, audiences, file: file.clone(), keys }))
    }

    /// The user who sent a request (OA-Z-02, OA-Z-03).
    pub(super) fn authenticate(&self, head: &Parts) -> Result<Principal, Challenge> {
        // Clients learn the scope from the first challenge.
        let with_scope = |challenge: Challenge| match &self.scope {
            Some(scope) => challenge.with("scope", scope),
            None => challenge,
        };
        let token = bearer(head).map_err(with_scope)?;
        let audience = self.audiences.iter().find(|(paths, _)| paths.iter().any(|path| path == head.uri.path()));
        let principal = audience.and_then(|(_, audience)| self.principal(token, audience, unix_time()));
        let principal = principal.ok_or_else(invalid_token)?;
        match &self.scope {
            Some(scope) if !scope.split(' ').all(|scope| principal.has_scope(scope)) => {
                Err(with_scope(Challenge::bearer().with("error", "insufficient_scope")))
            }
            _ => Ok(principal),
        }
    }

    /// The user of a token, if its signature, issuer, audience and times are valid. `now` is in seconds since 1970.
    fn principal(&self, token: &str, audience: &str, now: u64) -> Option<Principal> {
        if token.len() > LONGEST {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = serde_json::from_slice(&decoded(header)?).ok()?;
        if header.crit.is_some() || !self.verify(&header, signed.as_bytes(), &decoded(signature)?) {
            return None;
        }
        let claims: Claims = serde_json::from_slice(&decoded(claims)?).ok()?;
        let is_for_us = match &claims.aud {
            Audience::One(one) => one == audience,
            Audience::Several(several) => several.iter().any(|one| one == audience),
        };
        // Times may have fractions (RFC 7519, section 2).
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact for a long time")]
        let (earliest, latest) = (now.saturating_sub(LEEWAY) as f64, now.saturating_add(LEEWAY) as f64);
        let is_current = claims.exp > earliest && claims.nbf.is_none_or(|begin| begin <= latest);
        if claims.iss != self.issuer || !is_for_us || !is_current || claims.sub.is_empty() {
            return None;
        }
        // Another issuer may have a subject of the same name.
        let name = format!("{} {}", self.issuer, claims.sub);
        Some(Principal::new(&name).with_subject(&claims.sub).with_scopes(&claims.scope))
    }

    /// Whether a key that the token names has made the signature. If the file has no such key, it may be newer than what was
    /// read of it.
    fn verify(&self, header: &Header, signed: &[u8], signature: &[u8]) -> bool {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.keys.iter().any(|key| key.is_named(header)) && keys.read.elapsed() >= REREAD {
            keys.read = Instant::now();
            match read(&self.file) {
                Ok(found) => keys.keys = found,
                Err(error) => log::warn!("--token-keys {}: {error}", self.file.display()),
            }
        }
        keys.keys.iter().any(|key| key.is_named(header) && key.verify(signed, signature))
    }
}

/// The metadata of a server, with which its clients find the authorization server (OA-Z-01).
///
/// # Errors
///
/// A text for the user.
pub(super) fn resource(args: &ServeArgs, server: &Described) -> Result<Option<ProtectedResource>, String> {
    let (Some(issuer), Some(url)) = (&args.token_issuer, &args.public_url) else { return Ok(None) };
    let url = format!("{}{}", url.trim_end_matches('/'), server.path("mcp"));
    let resource = ProtectedResource::new(&url).map_err(|error| format!("--public-url: {error}"))?;
    let mut resource = resource.authorization_server(issuer).map_err(|error| format!("--token-issuer: {error}"))?;
    for scope in args.token_scope.iter().flat_map(|scopes| scopes.split(' ')) {
        resource = resource.scope(scope).map_err(|error| format!("--token-scope: {error}"))?;
    }
    Ok(Some(resource))
}

/// The keys of a file that can be used.
fn read(file: &Path) -> Result<Vec<Key>, String> {
    let text = std::fs::read(file).map_err(|error| error.to_string())?;
    let found: KeyFile = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
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
    fn is_named(&self, header: &Header) -> bool {
        header.alg == self.algorithm && (header.kid.is_none() || header.kid == self.id)
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

fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
