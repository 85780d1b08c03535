//! Tokens of an authorization server: JWTs, which are checked with the public keys that it publishes.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::request::Parts;
use mcp_proto::auth::{Challenge, ProtectedResource};
use mcp_proto::server::Principal;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::key_file::{KeyFile, Pauses};
use super::servers::Described;
use super::tokens::{bearer, invalid_token};
use crate::args::serve::ServeArgs;

/// How far the clock of the authorization server may be off.
const LEEWAY: u64 = 30;
/// The longest token, in bytes.
const LONGEST: usize = 16 * 1024;

/// The tokens of one authorization server.
pub(super) struct Jwts {
    issuer: String,
    scope: Option<String>,
    /// The paths of each server, and the URL for which its tokens are issued.
    audiences: Vec<(Vec<String>, String)>,
    keys: KeyFile,
}

/// The first part of a token (RFC 7515).
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Whether there are extensions that must be understood (section 4.1.11). None is understood, whatever the value.
    #[serde(default, deserialize_with = "is_present")]
    crit: bool,
    /// The payload may not be in base64 (RFC 7797).
    #[serde(default, deserialize_with = "is_present")]
    b64: bool,
}

impl Header {
    /// Whether this is the header of an access token: without a type, or with the general one or that of RFC 9068
    /// (section 2.1).
    fn is_of_access_token(&self) -> bool {
        let typ = self.typ.as_deref().unwrap_or("JWT").to_ascii_lowercase();
        let typ = typ.strip_prefix("application/").unwrap_or(&typ);
        typ == "at+jwt" || !typ.ends_with("+jwt")
    }
}

/// The second part of a token (RFC 7519, RFC 9068).
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: f64,
    #[serde(default, deserialize_with = "number")]
    nbf: Option<f64>,
    #[serde(default)]
    scope: String,
    /// The key of the client, whose proof comes with each request (RFC 7800, RFC 8705, RFC 9449).
    #[serde(default, deserialize_with = "is_present")]
    cnf: bool,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    Invalid,
    /// The token is bound to a key. Without a proof of that key, a stolen token would be accepted.
    Bound,
}

impl From<Refused> for Challenge {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Invalid => invalid_token(),
            Refused::Bound => {
                let text = "the token is bound to a key of the client, and this server accepts bearer tokens only";
                invalid_token().with("error_description", text)
            }
        }
    }
}

/// Whether a member is there, also if it is null.
fn is_present<'d, D: Deserializer<'d>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

/// A number, and not null.
fn number<'d, D: Deserializer<'d>>(value: D) -> Result<Option<f64>, D::Error> {
    f64::deserialize(value).map(Some)
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
        let keys = KeyFile::open(file, Pauses::default())?;
        let (issuer, scope) = (issuer.clone(), args.token_scope.clone());
        Ok(Some(Self { issuer, scope, audiences, keys }))
    }

    /// The authorization server.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The user who sent a request (OA-Z-02, OA-Z-03).
    pub(super) fn authenticate(&self, head: &Parts) -> Result<Principal, Challenge> {
        // Clients learn the scope from the first challenge.
        let with_scope = |challenge: Challenge| match &self.scope {
            Some(scope) => challenge.with("scope", scope),
            None => challenge,
        };
        let token = bearer(head).map_err(with_scope)?;
        let asked = head.uri.path();
        // A slash at the end of a path makes no other endpoint.
        let asked = asked.strip_suffix('/').unwrap_or(asked);
        let audience = self.audiences.iter().find(|(paths, _)| paths.iter().any(|path| path == asked));
        let (_, audience) = audience.ok_or_else(invalid_token)?;
        let principal = self.principal(token, audience, unix_time())?;
        match &self.scope {
            Some(scope) if !scope.split(' ').all(|scope| principal.has_scope(scope)) => {
                Err(with_scope(Challenge::bearer().with("error", "insufficient_scope")))
            }
            _ => Ok(principal),
        }
    }

    /// The user of a token, if its signature, issuer, audience and times are valid. `now` is in seconds since 1970.
    fn principal(&self, token: &str, audience: &str, now: u64) -> Result<Principal, Refused> {
        let claims = self.claims(token).ok_or(Refused::Invalid)?;
        let is_for_us = match &claims.aud {
            Audience::One(one) => one == audience,
            Audience::Several(several) => several.iter().any(|one| one == audience),
        };
        // Times may have fractions (RFC 7519, section 2).
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact for a long time")]
        let (earliest, latest) = (now.saturating_sub(LEEWAY) as f64, now.saturating_add(LEEWAY) as f64);
        let is_current = claims.exp > earliest && claims.nbf.is_none_or(|begin| begin <= latest);
        if claims.iss != self.issuer || !is_for_us || !is_current || claims.sub.is_empty() {
            return Err(Refused::Invalid);
        }
        if claims.cnf {
            return Err(Refused::Bound);
        }
        // Another issuer may have a subject of the same name.
        let name = format!("{} {}", self.issuer, claims.sub);
        Ok(Principal::new(&name).with_subject(&claims.sub).with_scopes(&claims.scope))
    }

    /// The claims of a token, if its signature is valid.
    fn claims(&self, token: &str) -> Option<Claims> {
        if token.len() > LONGEST {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = serde_json::from_slice(&decoded(header)?).ok()?;
        if header.crit || header.b64 || !header.is_of_access_token() {
            return None;
        }
        let (alg, kid, signature) = (&header.alg, header.kid.as_deref(), decoded(signature)?);
        let is_signed = self.keys.verify(alg, kid, signed.as_bytes(), &signature);
        is_signed.then(|| serde_json::from_slice(&decoded(claims)?).ok()).flatten()
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

fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    #[test]
    fn a_token_is_valid_from_its_beginning_until_its_end_with_a_leeway() {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let file = std::env::current_exe().unwrap().with_extension("jwt-keys");
        let x = URL_SAFE_NO_PAD.encode(pair.public_key());
        std::fs::write(&file, format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{x}"}}]}}"#)).unwrap();
        let keys = KeyFile::open(&file, Pauses::default()).unwrap();
        let jwts = Jwts { issuer: "issuer".to_owned(), scope: None, audiences: Vec::new(), keys };
        let [header, claims] =
            [r#"{"alg":"EdDSA"}"#, r#"{"iss":"issuer","sub":"ada","aud":"server","nbf":1000,"exp":2000}"#]
                .map(|part| URL_SAFE_NO_PAD.encode(part));
        let signed = format!("{header}.{claims}");
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(pair.sign(signed.as_bytes())));
        for (now, is_valid) in
            [(1000 - LEEWAY - 1, false), (1000 - LEEWAY, true), (2000 + LEEWAY - 1, true), (2000 + LEEWAY, false)]
        {
            assert_eq!(jwts.principal(&token, "server", now).is_ok(), is_valid, "{now}");
        }
        std::fs::remove_file(file).unwrap();
    }
}
