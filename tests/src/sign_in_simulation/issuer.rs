//! Authorization servers: they register clients, ask the person, and issue, rotate and revoke tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Method, Request};
use mcp_proto::Instant;
use mcp_testkit::random::Random;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::plan::Settings;
use super::process::unix;

/// The scopes that the authorization servers grant.
const GRANTED: [&str; 2] = ["read", "write"];

/// How long an authorization code is valid.
const CODE_LIFETIME: Duration = Duration::from_secs(60);

/// The seconds for which the secret of a client is valid.
const SECRET_LIFETIME: u64 = 700;

/// An authorization server.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) origin: String,
    settings: Settings,
    clients: BTreeMap<String, BTreeSet<String>>,
    /// The secrets of clients, and when they expire, in seconds since 1970.
    secrets: BTreeMap<String, (String, u64)>,
    codes: BTreeMap<String, Code>,
    devices: BTreeMap<String, Device>,
    pub(super) access: BTreeMap<String, Access>,
    refresh: BTreeMap<String, Refresh>,
    revoked_families: BTreeSet<u32>,
    families: u32,
    issued: u32,
    /// Refresh tokens whose successors have arrived at a process that stored them.
    pub(super) replaced: BTreeSet<String>,
    pub(super) report: IssuerReport,
}

/// What an authorization server has done.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct IssuerReport {
    pub(super) registrations: u64,
    pub(super) sign_ins: u64,
    pub(super) refreshes: u64,
    pub(super) reuses: u64,
}

#[derive(Debug)]
struct Code {
    request: BTreeMap<String, String>,
    until: Instant,
}

#[derive(Debug)]
struct Device {
    client: String,
    scope: Option<String>,
    is_approved: bool,
    next_poll: Instant,
}

/// An access token.
#[derive(Debug)]
pub(super) struct Access {
    family: u32,
    pub(super) scopes: BTreeSet<String>,
    pub(super) until: Option<Instant>,
    /// The first coordinate of the key to which it is bound.
    pub(super) key: Option<String>,
}

#[derive(Debug)]
struct Refresh {
    family: u32,
    client: String,
    scopes: BTreeSet<String>,
    key: Option<String>,
    is_used: bool,
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
    /// The refresh token that it replaces.
    pub(super) replaces: Option<String>,
    /// The client that is not registered (any more).
    pub(super) unknown_client: Option<String>,
    /// It has the tokens of a person who has signed in.
    pub(super) is_sign_in: bool,
}

impl Answer {
    pub(super) fn new(status: u16, body: impl ToString) -> Self {
        Self { status, body: body.to_string(), replaces: None, unknown_client: None, is_sign_in: false }
    }

    fn refusal(error: &str) -> Self {
        Self::new(400, json!({ "error": error }))
    }

    fn unknown_client(client: &str) -> Self {
        Self { unknown_client: Some(client.to_owned()), ..Self::refusal("invalid_client") }
    }
}

/// The parameters of a form or a query.
pub(super) fn form(text: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(text).into_owned().collect()
}

/// The name and the password of basic authentication.
pub(super) fn basic(authorization: &str) -> Option<(String, String)> {
    let decoded = STANDARD.decode(authorization.strip_prefix("Basic ")?).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (name, password) = decoded.split_once(':')?;
    let decoded = |text: &str| form(format!("t={text}").as_bytes()).remove("t");
    Some((decoded(name)?, decoded(password)?))
}

/// The first coordinate of the key in a proof.
fn proof_key(request: &Request<Bytes>) -> Option<String> {
    let header = request.headers().get("dpop")?.to_str().ok()?.split('.').next()?;
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
    header["jwk"]["x"].as_str().map(str::to_owned)
}

impl Issuer {
    pub(super) fn new(origin: &str, settings: Settings) -> Self {
        Self {
            origin: origin.to_owned(),
            settings,
            clients: BTreeMap::from([("robot".to_owned(), BTreeSet::new())]),
            secrets: BTreeMap::new(),
            codes: BTreeMap::new(),
            devices: BTreeMap::new(),
            access: BTreeMap::new(),
            refresh: BTreeMap::new(),
            revoked_families: BTreeSet::new(),
            families: 0,
            issued: 0,
            replaced: BTreeSet::new(),
            report: IssuerReport::default(),
        }
    }

    /// Whether an access token is valid.
    pub(super) fn find(&self, token: &str, now: Instant) -> Option<&Access> {
        let access = self.access.get(token)?;
        let is_alive = access.until.is_none_or(|until| now < until);
        (is_alive && !self.revoked_families.contains(&access.family)).then_some(access)
    }

    /// Revokes everything that was issued so far.
    pub(super) fn revoke_all(&mut self) {
        self.revoked_families.extend(1..=self.families);
    }

    /// Forgets the clients that have registered themselves.
    pub(super) fn forget_clients(&mut self) {
        self.clients.retain(|id, _| id == "robot");
    }

    /// `is_live` if the process that has sent the request still runs.
    pub(super) fn answer(&mut self, request: &Request<Bytes>, is_live: bool, now: Instant) -> Answer {
        match (request.method().clone(), request.uri().path()) {
            (Method::GET, "/.well-known/oauth-authorization-server") => self.metadata(),
            (Method::POST, "/register") => self.register(request.body(), now),
            (Method::POST, "/device" | "/token") => {
                let mut parameters = form(request.body());
                let authorization = request.headers().get("authorization").and_then(|value| value.to_str().ok());
                let authenticated = authorization.and_then(basic);
                if let Some((client, _)) = &authenticated {
                    parameters.insert("client_id".to_owned(), client.clone());
                }
                if !self.is_authentic(&parameters, authenticated.as_ref(), now) {
                    return Answer::refusal("invalid_client");
                }
                match request.uri().path() {
                    "/device" => self.start_device(&parameters, now),
                    _ => self.token(&parameters, proof_key(request), is_live, now),
                }
            }
            (Method::POST, "/revoke") => Answer::new(200, ""),
            _ => Answer::new(404, "there is nothing here"),
        }
    }

    /// Whether a client that has a secret has sent it, before it has expired.
    fn is_authentic(
        &self,
        parameters: &BTreeMap<String, String>,
        authenticated: Option<&(String, String)>,
        now: Instant,
    ) -> bool {
        let client = parameters.get("client_id").map_or("", String::as_str);
        let Some((secret, expiry)) = self.secrets.get(client) else { return true };
        authenticated.is_some_and(|(_, sent)| sent == secret) && unix(now) < *expiry
    }

    /// When the secret of a client expires, in seconds since 1970.
    pub(super) fn secret_expires_at(&self, client: &str) -> Option<u64> {
        self.secrets.get(client).map(|(_, expiry)| *expiry)
    }

    fn metadata(&self) -> Answer {
        let origin = &self.origin;
        let methods =
            if self.settings.has_secrets { &["client_secret_basic"][..] } else { &["none", "client_secret_basic"] };
        Answer::new(
            200,
            json!({
                "issuer": origin,
                "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"),
                "registration_endpoint": format!("{origin}/register"),
                "device_authorization_endpoint": format!("{origin}/device"),
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
                "token_endpoint_auth_methods_supported": methods,
            }),
        )
    }

    fn register(&mut self, body: &[u8], now: Instant) -> Answer {
        self.report.registrations += 1;
        let body: Value = serde_json::from_slice(body).expect("a registration is JSON");
        let uris = body["redirect_uris"].as_array().into_iter().flatten();
        let uris = uris.filter_map(|uri| Some(uri.as_str()?.to_owned())).collect();
        let id = format!("client-{}-{}", self.report.registrations, self.origin);
        self.clients.insert(id.clone(), uris);
        if !self.settings.has_secrets {
            return Answer::new(201, json!({ "client_id": id }));
        }
        let (secret, expiry) =
            (format!("secret-{}-{}", self.report.registrations, self.origin), unix(now) + SECRET_LIFETIME);
        self.secrets.insert(id.clone(), (secret.clone(), expiry));
        let members = json!({ "client_id": id, "client_secret": secret, "client_secret_expires_at": expiry });
        Answer::new(201, members)
    }

    /// The person has signed in at an authorization URL, or refused: where the browser is sent. `None` if the server shows
    /// an error page instead.
    pub(super) fn authorize(&mut self, query: &str, agrees: bool, now: Instant) -> Option<String> {
        let request = form(query.as_bytes());
        let redirect_uri = request.get("redirect_uri")?;
        if !self.clients.get(request.get("client_id")?)?.contains(redirect_uri) {
            return None;
        }
        let mut answer = form_urlencoded::Serializer::new(String::new());
        answer.append_pair("state", request.get("state")?).append_pair("iss", &self.origin);
        if agrees {
            self.issued += 1;
            let code = format!("code-{}-{}", self.issued, self.origin);
            answer.append_pair("code", &code);
            let url = format!("{redirect_uri}?{}", answer.finish());
            self.codes.insert(code, Code { request, until: now + CODE_LIFETIME });
            return Some(url);
        }
        answer.append_pair("error", "access_denied");
        Some(format!("{redirect_uri}?{}", answer.finish()))
    }

    fn start_device(&mut self, request: &BTreeMap<String, String>, now: Instant) -> Answer {
        let client = request.get("client_id").cloned().unwrap_or_default();
        if !self.clients.contains_key(&client) {
            return Answer::unknown_client(&client);
        }
        self.issued += 1;
        let code = format!("device-{}-{}", self.issued, self.origin);
        let device = Device { client, scope: request.get("scope").cloned(), is_approved: false, next_poll: now };
        self.devices.insert(code.clone(), device);
        let user_code = format!("USER-{}", self.issued);
        let url = format!("{}/device", self.origin);
        let codes = json!({
            "device_code": code, "user_code": user_code, "verification_uri": url, "expires_in": 300, "interval": 5,
        });
        Answer::new(200, codes)
    }

    /// The person has entered a code.
    pub(super) fn approve(&mut self, user_code: &str) {
        let number = user_code.trim_start_matches("USER-");
        let code = format!("device-{number}-{}", self.origin);
        if let Some(device) = self.devices.get_mut(&code) {
            device.is_approved = true;
        }
    }

    fn token(
        &mut self,
        request: &BTreeMap<String, String>,
        key: Option<String>,
        is_live: bool,
        now: Instant,
    ) -> Answer {
        let get = |name: &str| request.get(name).map_or("", String::as_str);
        match get("grant_type") {
            "authorization_code" => {
                let Some(code) = self.codes.remove(get("code")) else { return Answer::refusal("invalid_grant") };
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(get("code_verifier")));
                let is_same = |name: &str| request.get(name) == code.request.get(name);
                if now > code.until
                    || Some(&challenge) != code.request.get("code_challenge")
                    || !["redirect_uri", "client_id", "resource"].into_iter().all(is_same)
                {
                    return Answer::refusal("invalid_grant");
                }
                if !self.clients.contains_key(get("client_id")) {
                    return Answer::unknown_client(get("client_id"));
                }
                self.sign_in(get("client_id"), code.request.get("scope").map(String::as_str), key, now)
            }
            "urn:ietf:params:oauth:grant-type:device_code" => self.device_token(get("device_code"), key, now),
            "client_credentials" => {
                self.families += 1;
                self.issue("robot", request.get("scope").map(String::as_str), self.families, key, now)
            }
            "refresh_token" => self.refresh(get("refresh_token"), get("client_id"), key, is_live, now),
            other => panic!("no client requests a token by '{other}'"),
        }
    }

    fn device_token(&mut self, code: &str, key: Option<String>, now: Instant) -> Answer {
        let Some(device) = self.devices.get_mut(code) else { return Answer::refusal("expired_token") };
        if !device.is_approved {
            let error = if now < device.next_poll { "slow_down" } else { "authorization_pending" };
            device.next_poll = now + Duration::from_secs(5);
            return Answer::refusal(error);
        }
        let (client, scope) = (device.client.clone(), device.scope.clone());
        self.devices.remove(code);
        self.sign_in(&client, scope.as_deref(), key, now)
    }

    fn sign_in(&mut self, client: &str, scope: Option<&str>, key: Option<String>, now: Instant) -> Answer {
        self.report.sign_ins += 1;
        self.families += 1;
        Answer { is_sign_in: true, ..self.issue(client, scope, self.families, key, now) }
    }

    fn refresh(&mut self, token: &str, client: &str, key: Option<String>, is_live: bool, now: Instant) -> Answer {
        let Some(refresh) = self.refresh.get_mut(token) else { return Answer::refusal("invalid_grant") };
        let family = refresh.family;
        assert_eq!((client, &key), (&*refresh.client, &refresh.key), "a refresh token is used by its client");
        if refresh.is_used && self.settings.rotates {
            // It was used before, by its owner or by a thief (OAuth 2.1, section 4.3.1).
            self.report.reuses += 1;
            // What a process sent before it ended without notice may arrive after the request of the next one.
            let is_allowed = !is_live || !self.replaced.contains(token);
            assert!(is_allowed, "a refresh token was sent although its successor was stored");
            self.revoked_families.insert(family);
        }
        if self.revoked_families.contains(&family) {
            return Answer::refusal("invalid_grant");
        }
        if !self.clients.contains_key(client) {
            return Answer::unknown_client(client);
        }
        refresh.is_used = true;
        let scope: Vec<_> = refresh.scopes.iter().cloned().collect();
        self.report.refreshes += 1;
        let mut answer = self.issue(client, Some(&scope.join(" ")), family, key, now);
        answer.replaces = self.settings.rotates.then(|| token.to_owned());
        answer
    }

    fn issue(&mut self, client: &str, scope: Option<&str>, family: u32, key: Option<String>, now: Instant) -> Answer {
        self.issued += 1;
        let wanted: BTreeSet<_> = scope.unwrap_or("read").split_whitespace().map(str::to_owned).collect();
        let scopes: BTreeSet<_> = wanted.into_iter().filter(|scope| GRANTED.contains(&scope.as_str())).collect();
        let access = format!("access-{}-{}", self.issued, self.origin);
        let lifetime = self.settings.lifetime;
        let until = lifetime.map(|lifetime| now + lifetime);
        self.access.insert(access.clone(), Access { family, scopes: scopes.clone(), until, key: key.clone() });
        let scope: Vec<_> = scopes.iter().map(String::as_str).collect();
        let mut body = json!({
            "access_token": access,
            "token_type": if key.is_some() { "DPoP" } else { "Bearer" },
            "scope": scope.join(" "),
        });
        if let Some(lifetime) = lifetime {
            body["expires_in"] = json!(lifetime.as_secs());
        }
        if self.settings.refreshes && client != "robot" {
            let token = format!("refresh-{}-{}", self.issued, self.origin);
            body["refresh_token"] = json!(token);
            let refresh = Refresh { family, client: client.to_owned(), scopes, key, is_used: false };
            self.refresh.insert(token, refresh);
        }
        Answer::new(200, body)
    }

    /// A redirect that does not come from this server, although a browser of the person requests it.
    pub(super) fn forge(&self, url: &str, random: &mut Random) -> String {
        let (before, query) = url.split_once('?').expect("a redirect has a query");
        let mut answer = form(query.as_bytes());
        answer.insert("code".to_owned(), format!("code-forged-{}", self.origin));
        if random.one_in(2) {
            answer.insert("state".to_owned(), "another".to_owned());
        } else {
            answer.insert("iss".to_owned(), "https://mix-up.example".to_owned());
        }
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(answer).finish();
        format!("{before}?{query}")
    }
}
