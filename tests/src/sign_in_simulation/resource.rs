//! The protected server: it demands tokens, scopes and proofs, and answers calls.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Method, Request};
use mcp_proto::Instant;
use mcp_proto::auth::ProofClaims;
use mcp_testkit::http_client::Reply;
use mcp_testkit::messages::{DISCOVERED, complete, initialize_result, result};
use mcp_testkit::random::Random;
use serde_json::{Value, json};

use super::issuer::{Answer, Issuer};
use super::plan::Settings;
use super::{ISSUERS, SERVER};

/// The seconds after which a nonce for proofs is replaced.
const NONCE_LIFETIME: u64 = 200;

/// The protected server.
#[derive(Debug)]
pub(super) struct Resource {
    settings: Settings,
    /// Which authorization server issues its tokens.
    pub(super) issuer: usize,
    /// It refuses all tokens.
    pub(super) refuses_all: bool,
    /// The numbers of calls that it has carried out.
    carried_out: BTreeSet<u64>,
}

/// What a request lacks.
enum Lack {
    Token { is_sent: bool },
    Nonce(String),
}

impl Resource {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, issuer: 0, refuses_all: false, carried_out: BTreeSet::new() }
    }

    /// The answer to a request for metadata.
    pub(super) fn metadata(&self, path: &str) -> Answer {
        if path != "/.well-known/oauth-protected-resource/mcp" {
            return Answer::new(404, "not found");
        }
        let document = json!({
            "resource": SERVER,
            "authorization_servers": [ISSUERS[self.issuer]],
            "scopes_supported": ["read"],
            "dpop_bound_access_tokens_required": self.settings.binds,
        });
        Answer::new(200, document)
    }

    /// The answer to a request of a client, and whether it accepted the token.
    pub(super) fn answer(
        &mut self,
        request: &Request<Bytes>,
        proof: Option<&ProofClaims>,
        issuers: &[Issuer],
        now: Instant,
        random: &mut Random,
    ) -> (Reply, bool) {
        let scopes = match self.check(request, proof, &issuers[self.issuer], now) {
            Ok(scopes) => scopes,
            Err(Lack::Nonce(nonce)) => {
                let reply =
                    Reply::status(401).header("www-authenticate", r#"DPoP error="use_dpop_nonce", algs="ES256""#);
                return (reply.header("dpop-nonce", &nonce), false);
            }
            Err(Lack::Token { is_sent }) => return (self.challenge(is_sent, random), false),
        };
        match *request.method() {
            Method::POST => {}
            Method::DELETE => return (Reply::status(200), true),
            _ => return (Reply::status(405), true),
        }
        let message: Value = serde_json::from_slice(request.body()).expect("clients send JSON");
        let id = message["id"].to_string();
        let reply = match message["method"].as_str().expect("clients send no responses") {
            "initialize" => {
                let version = message["params"]["protocolVersion"].as_str().expect("a version");
                Reply::json(result(&id, &initialize_result(version)))
            }
            "server/discover" => Reply::json(result(&id, DISCOVERED)),
            "tools/call" => {
                let tool = message["params"]["name"].as_str().expect("the name of a tool");
                if !scopes.contains(&tool.to_owned()) {
                    return (self.lacks_scope(tool), true);
                }
                let number = message["params"]["arguments"]["number"].as_u64().expect("a number");
                assert!(self.carried_out.insert(number), "a call is carried out twice");
                Reply::json(complete(&id))
            }
            _ => Reply::status(202),
        };
        (reply, true)
    }

    /// The scopes of the token of a request.
    fn check(
        &self,
        request: &Request<Bytes>,
        proof: Option<&ProofClaims>,
        issuer: &Issuer,
        now: Instant,
    ) -> Result<Vec<String>, Lack> {
        let Some(value) = request.headers().get("authorization") else { return Err(Lack::Token { is_sent: false }) };
        let refused = Lack::Token { is_sent: true };
        let (scheme, token) = value.to_str().expect("visible").split_once(' ').expect("a scheme and a token");
        let Some(access) = issuer.find(token, now).filter(|_| !self.refuses_all) else { return Err(refused) };
        if self.settings.binds != (scheme == "DPoP") {
            return Err(refused);
        }
        let Some(claims) = proof.filter(|_| self.settings.binds) else {
            return Ok(access.scopes.iter().cloned().collect());
        };
        let key = serde_json::to_value(&*claims.key).expect("a key is JSON");
        assert_eq!((key["x"].as_str(), &*claims.htu), (access.key.as_deref(), SERVER), "a proof is for this token");
        assert_eq!(claims.htm, *request.method());
        let seconds = now.saturating_duration_since(Instant::START).as_secs();
        let nonce = format!("nonce-{}", seconds / NONCE_LIFETIME);
        if self.settings.has_nonces && claims.nonce.as_deref() != Some(&nonce) {
            return Err(Lack::Nonce(nonce));
        }
        Ok(access.scopes.iter().cloned().collect())
    }

    fn scheme(&self) -> &'static str {
        if self.settings.binds { "DPoP" } else { "Bearer" }
    }

    fn challenge(&self, is_sent: bool, random: &mut Random) -> Reply {
        let mut parts = Vec::new();
        if random.one_in(2) {
            parts.push(r#"resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/mcp""#);
        }
        if random.one_in(2) {
            parts.push(r#"scope="read""#);
        }
        if is_sent {
            parts.push(r#"error="invalid_token""#);
        }
        Reply::status(401).header("www-authenticate", &format!("{} {}", self.scheme(), parts.join(", ")))
    }

    fn lacks_scope(&self, tool: &str) -> Reply {
        let field = format!(r#"{} error="insufficient_scope", scope="read {tool}""#, self.scheme());
        Reply::status(403).header("www-authenticate", &field)
    }
}
