//! An authorization server in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderMap;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{form, split};

/// An authorization server.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub struct Issuer {
    /// Its metadata.
    pub metadata: Value,
    /// The path of its metadata.
    pub metadata_path: String,
    /// The members of the response to a registration besides the id.
    pub registration: Value,
    /// The status of registrations.
    pub registration_status: u16,
    /// The hosts that the redirect URI of a registration may have; `None` if it may have any.
    pub redirect_hosts: Option<&'static [&'static str]>,
    /// What a registration with another host is answered.
    pub redirect_refusal: (u16, String),
    /// The scopes that a registration may contain; `None` if it may contain any.
    pub registered_scopes: Option<&'static [&'static str]>,
    /// Whether only scopes are granted that the client has registered.
    pub grants_registered_scopes: bool,
    /// How the first authorization requests end; later ones end with a code.
    pub returns: VecDeque<Return>,
    /// Clients that it does not know any more.
    pub forgotten: BTreeSet<String>,
    /// What the redirect contains besides code and state.
    pub redirect: Vec<(String, String)>,
    /// The lifetime of tokens in seconds.
    pub lifetime: Option<u64>,
    /// Whether refresh tokens are issued.
    pub refreshes: bool,
    /// Responses of the token endpoint that come before any other.
    pub token_responses: VecDeque<(u16, String)>,
    /// The forms that the token endpoint has received.
    pub token_requests: Vec<BTreeMap<String, String>>,
    /// The `Authorization` headers of these requests.
    pub token_authorizations: Vec<Option<String>>,
    /// The bodies of registrations.
    pub registrations: Vec<Value>,
    /// The queries of authorization requests.
    pub authorizations: Vec<BTreeMap<String, String>>,
    /// The nonce that proofs must contain.
    pub nonce: Option<String>,
    /// Whether each proof must contain another nonce, so that none is right.
    pub changes_nonce: bool,
    /// Whether tokens are bound to the key of a proof.
    pub binds: bool,
    /// Assertions that it accepts, and ID tokens that it exchanges.
    pub assertions: BTreeSet<String>,
    /// Responses of the device authorization endpoint that come before any other.
    pub device_responses: VecDeque<(u16, String)>,
    /// Errors that answer the first requests with a device code.
    pub device_errors: VecDeque<&'static str>,
    /// The assertions of clients: headers and claims.
    pub client_assertions: Vec<(Value, Value)>,
    /// The claims of proofs.
    pub proofs: Vec<Value>,
    /// Revoked tokens.
    pub revoked: Vec<String>,
    codes: BTreeMap<String, BTreeMap<String, String>>,
    refresh_tokens: BTreeSet<String>,
    used_refresh_tokens: BTreeSet<String>,
    pub(super) issued: u64,
}

/// How an authorization request ends without a code.
#[derive(Debug, Clone, Copy)]
pub struct Return {
    /// The error.
    pub error: &'static str,
    /// What the server says about it; empty if nothing.
    pub description: &'static str,
    /// Whether the redirect contains the `state` of the request.
    pub has_state: bool,
}

/// What an authorization server answers.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) nonce: Option<String>,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn new(status: u16, body: impl ToString) -> Self {
        Self { status, nonce: None, body: body.to_string() }
    }

    fn refusal(error: &str) -> Self {
        Self::new(400, json!({ "error": error }))
    }
}

/// What stands for a signature.
pub(super) fn signature(private: &str, message: &[u8]) -> Vec<u8> {
    Sha256::new().chain_update(private).chain_update(message).finalize().to_vec()
}

/// The header and the claims of a token whose signature is right.
fn verified(token: &str, private: impl FnOnce(&Value) -> String) -> Option<(Value, Value)> {
    let (message, signed) = token.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    let read = |part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    let (header, claims): (Value, Value) = (read(header)?, read(claims)?);
    let is_right = URL_SAFE_NO_PAD.decode(signed).ok()? == signature(&private(&header), message.as_bytes());
    is_right.then_some((header, claims))
}

impl Issuer {
    /// A server that registers clients and issues refresh tokens.
    pub fn new(issuer: &str) -> Self {
        let (origin, path) = split(issuer);
        Self {
            metadata: json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "registration_endpoint": format!("{issuer}/register"),
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
                "token_endpoint_auth_methods_supported": ["none"],
            }),
            metadata_path: format!("{origin}/.well-known/oauth-authorization-server{}", path.trim_end_matches('/')),
            registration: json!({}),
            registration_status: 201,
            redirect_hosts: None,
            redirect_refusal: (400, json!({ "error": "invalid_redirect_uri" }).to_string()),
            returns: VecDeque::new(),
            forgotten: BTreeSet::new(),
            registered_scopes: None,
            grants_registered_scopes: false,
            redirect: vec![("iss".to_owned(), issuer.to_owned())],
            lifetime: Some(3600),
            refreshes: true,
            token_responses: VecDeque::new(),
            token_requests: Vec::new(),
            token_authorizations: Vec::new(),
            registrations: Vec::new(),
            authorizations: Vec::new(),
            nonce: None,
            changes_nonce: false,
            binds: false,
            assertions: BTreeSet::new(),
            device_responses: VecDeque::new(),
            device_errors: VecDeque::new(),
            client_assertions: Vec::new(),
            proofs: Vec::new(),
            revoked: Vec::new(),
            codes: BTreeMap::new(),
            refresh_tokens: BTreeSet::new(),
            used_refresh_tokens: BTreeSet::new(),
            issued: 0,
        }
    }

    /// What it answers to a POST to one of its endpoints; `None` if the URL is none of them.
    pub(super) fn answer(
        &mut self,
        url: &str,
        headers: &HeaderMap,
        body: &[u8],
        violations: &mut Vec<String>,
    ) -> Option<Answer> {
        let is = |endpoint| self.metadata[endpoint] == url;
        if is("registration_endpoint") {
            let registration: Value = serde_json::from_slice(body).unwrap();
            let has_host = |host: &&str| {
                registration["redirect_uris"][0].as_str().is_some_and(|uri| uri.starts_with(&format!("http://{host}:")))
            };
            let is_refused = self.redirect_hosts.is_some_and(|hosts| !hosts.iter().any(has_host));
            let mut scopes = registration["scope"].as_str().unwrap_or_default().split_whitespace();
            let has_unknown = scopes.any(|scope| self.registered_scopes.is_some_and(|known| !known.contains(&scope)));
            self.registrations.push(registration);
            if is_refused {
                return Some(Answer::new(self.redirect_refusal.0, &self.redirect_refusal.1));
            }
            if has_unknown {
                return Some(Answer::refusal("invalid_client_metadata"));
            }
            let mut response = self.registration.clone();
            response["client_id"] = json!(format!("client-{}", self.registrations.len()));
            Some(Answer::new(self.registration_status, response))
        } else if is("token_endpoint") {
            Some(self.token(headers, body, violations))
        } else if is("device_authorization_endpoint") {
            self.authorizations.push(form(body));
            if let Some((status, body)) = self.device_responses.pop_front() {
                return Some(Answer::new(status, body));
            }
            let codes = json!({
                "device_code": format!("device-{}", self.authorizations.len()),
                "user_code": "WDJB-MJHT",
                "verification_uri": "https://as.example/device",
                "verification_uri_complete": "https://as.example/device?user_code=WDJB-MJHT",
                "expires_in": 600,
                "interval": 2,
            });
            Some(Answer::new(200, codes))
        } else if is("revocation_endpoint") {
            self.revoked.push(form(body)["token"].clone());
            Some(Answer::new(200, ""))
        } else {
            None
        }
    }

    /// Codes that were not redeemed are refused from now on.
    pub fn expire_codes(&mut self) {
        self.codes.clear();
    }

    /// All clients that are registered so far are unknown from now on.
    pub fn forget_clients(&mut self) {
        self.forgotten = (1..=self.registrations.len()).map(|number| format!("client-{number}")).collect();
    }

    /// The person signs in: the URL to which the browser is sent. For an unknown client, it is a page of the server.
    pub(super) fn authorize(&mut self, query: &str) -> String {
        let parameters = form(query.as_bytes());
        if self.forgotten.contains(&parameters["client_id"]) {
            let (origin, _) = split(self.metadata["authorization_endpoint"].as_str().unwrap());
            self.authorizations.push(parameters);
            return format!("{origin}/unknown-client");
        }
        let code = format!("code-{}", self.authorizations.len() + 1);
        let mut redirect = form_urlencoded::Serializer::new(String::new());
        let prepared = self.returns.pop_front();
        let result = match &prepared {
            Some(prepared) => ("error", prepared.error),
            None if self.may_grant(&parameters) => ("code", &*code),
            None => ("error", "invalid_scope"),
        };
        redirect.append_pair(result.0, result.1);
        if let Some(description) = prepared.map(|own| own.description).filter(|text| !text.is_empty()) {
            redirect.append_pair("error_description", description);
        }
        if prepared.is_none_or(|own| own.has_state) {
            redirect.append_pair("state", &parameters["state"]);
        }
        redirect.extend_pairs(&self.redirect);
        let url = format!("{}?{}", parameters["redirect_uri"], redirect.finish());
        self.codes.insert(code, parameters.clone());
        self.authorizations.push(parameters);
        url
    }

    fn may_grant(&self, parameters: &BTreeMap<String, String>) -> bool {
        let number: Option<usize> =
            parameters["client_id"].strip_prefix("client-").and_then(|number| number.parse().ok());
        let registration = number.and_then(|number| self.registrations.get(number.checked_sub(1)?));
        let registered = registration.and_then(|own| own["scope"].as_str()).unwrap_or_default();
        let scope = parameters.get("scope").map(String::as_str).unwrap_or_default();
        let is_registered = |scope| registered.split_whitespace().any(|own| own == scope);
        !self.grants_registered_scopes || scope.split_whitespace().all(is_registered)
    }

    fn token(&mut self, headers: &HeaderMap, body: &[u8], violations: &mut Vec<String>) -> Answer {
        let request = form(body);
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let (authorization, proof) = (text("authorization"), text("dpop"));
        if let Some(assertion) = request.get("client_assertion") {
            match verified(assertion, |_| "client-key".to_owned()) {
                Some(parts) => self.client_assertions.push(parts),
                None => violations.push("the assertion of a client has a wrong signature".to_owned()),
            }
        }
        let prepared = self.token_responses.pop_front().map(|(status, body)| Answer::new(status, body));
        let answer = prepared.unwrap_or_else(|| {
            let refused = proof.as_deref().and_then(|proof| self.check_proof(proof, violations));
            refused.unwrap_or_else(|| self.issue(&request, authorization.as_deref(), proof.is_some(), violations))
        });
        self.token_requests.push(request);
        self.token_authorizations.push(authorization);
        answer
    }

    fn check_proof(&mut self, proof: &str, violations: &mut Vec<String>) -> Option<Answer> {
        // The public key of `private-1` is `x-1`.
        let private = |header: &Value| header["jwk"]["x"].as_str().unwrap_or_default().replace("x-", "private-");
        let Some((header, claims)) = verified(proof, private) else {
            violations.push("a proof has a wrong signature".to_owned());
            return None;
        };
        let is_new = self.proofs.iter().all(|earlier| earlier["jti"] != claims["jti"]);
        let is_for_this = claims["htm"] == "POST" && claims["htu"] == self.metadata["token_endpoint"];
        let is_proof = header["typ"] == "dpop+jwt" && header["alg"] == "ES256" && header["jwk"].get("d").is_none();
        if !(is_new && is_for_this && is_proof && claims.get("ath").is_none()) {
            violations.push(format!("a proof is not one for the token endpoint: {header} {claims}"));
        }
        if self.changes_nonce {
            self.nonce = Some(format!("n{}", self.proofs.len() + 1));
        }
        let is_current = self.nonce.is_none() || claims["nonce"].as_str() == self.nonce.as_deref();
        self.proofs.push(claims);
        (!is_current).then(|| Answer { nonce: self.nonce.clone(), ..Answer::refusal("use_dpop_nonce") })
    }

    fn issue(
        &mut self,
        request: &BTreeMap<String, String>,
        authorization: Option<&str>,
        has_proof: bool,
        violations: &mut Vec<String>,
    ) -> Answer {
        let grant = request["grant_type"].rsplit(':').next().unwrap_or_default();
        match grant {
            "authorization_code" => {
                let Some(asked) = self.codes.remove(&request["code"]) else { return Answer::refusal("invalid_grant") };
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&request["code_verifier"]));
                let client = request.get("client_id").cloned().or_else(|| basic_id(authorization));
                for (what, is_equal) in [
                    ("code_challenge", challenge == asked["code_challenge"]),
                    ("redirect_uri", request["redirect_uri"] == asked["redirect_uri"]),
                    ("client_id", client.as_ref() == asked.get("client_id")),
                    ("resource", request.get("resource") == asked.get("resource")),
                ] {
                    if !is_equal {
                        violations.push(format!("the token request differs from the authorization request in {what}"));
                    }
                }
            }
            "refresh_token" => {
                let token = request["refresh_token"].clone();
                if self.used_refresh_tokens.contains(&token) {
                    violations.push(format!("{token} was sent twice"));
                }
                if !self.refresh_tokens.remove(&token) {
                    return Answer::refusal("invalid_grant");
                }
                self.used_refresh_tokens.insert(token);
            }
            "client_credentials" => {}
            "device_code" => {
                if let Some(error) = self.device_errors.pop_front() {
                    return Answer::refusal(error);
                }
            }
            "jwt-bearer" if self.assertions.contains(&request["assertion"]) => {}
            "token-exchange" if self.assertions.contains(&request["subject_token"]) => {
                self.issued += 1;
                return Answer::new(
                    200,
                    json!({
                        "access_token": format!("jag-{}", self.issued),
                        "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
                        "token_type": "N_A",
                    }),
                );
            }
            "jwt-bearer" | "token-exchange" => return Answer::refusal("invalid_grant"),
            _ => return Answer::refusal("unsupported_grant_type"),
        }
        self.issued += 1;
        let scheme = if self.binds && has_proof { "DPoP" } else { "Bearer" };
        let mut response = json!({ "access_token": format!("access-{}", self.issued), "token_type": scheme });
        if let Some(lifetime) = self.lifetime {
            response["expires_in"] = json!(lifetime);
        }
        if self.refreshes {
            let token = format!("refresh-{}", self.issued);
            response["refresh_token"] = json!(token);
            self.refresh_tokens.insert(token);
        }
        Answer::new(200, response)
    }

    /// All refresh tokens become invalid.
    pub fn revoke(&mut self) {
        self.refresh_tokens.clear();
    }
}

/// The id in a `Basic` header.
fn basic_id(authorization: Option<&str>) -> Option<String> {
    let pair = STANDARD.decode(authorization?.strip_prefix("Basic ")?).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    form(format!("id={}", pair.split_once(':')?.0).as_bytes()).remove("id")
}
