//! The redirect that ends a sign-in in the browser.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use mcp_auth::{RedirectError, SignInError};
use mcp_testkit::authorization::{Person, World};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::script::Script;

/// The issuer of the world.
const ISSUER: &str = "https://as.example/t";

/// Redirects of every kind reach a sign-in: a naive reader of the query predicts which of them belongs to it, and what
/// becomes of it. A code is sent to the token endpoint only with the right `state` and issuer, and once, with the
/// verifier of its own sign-in (OA-Q-02, OA-Q-03, OA-B-01, OA-B-02).
///
/// The first byte states whether the issuer names itself in redirects. Then come redirects: a byte for the way in which
/// one arrives, and its text with the length before it. In the text, some control characters stand for parts of the right
/// redirect.
pub fn redirect(data: &[u8]) {
    let mut script = Script(data);
    let Some(options) = script.byte() else { return };
    let mut sign_in = SignIn::new(options & 1 == 0);
    while let (Some(way), Some(text)) = (script.byte(), script.text()) {
        let text = sign_in.expanded(&String::from_utf8_lossy(text));
        match way % 8 {
            0 | 1 => sign_in.pasted(&text),
            2 => sign_in.pasted(&format!("http://127.0.0.1:40000/callback?{text}")),
            3 => sign_in.challenged(),
            4 => sign_in.called(way, &text, "POST", "localhost"),
            5 => sign_in.called(way, &text, "GET", "evil.example"),
            _ => sign_in.called(way, &text, "GET", "127.0.0.1:40000"),
        }
    }
    sign_in.end();
}

/// A client whose person is at the browser.
struct SignIn {
    world: World,
    names_issuer: bool,
    /// The right redirect of the current sign-in.
    right: Option<Right>,
    /// That of the one before.
    earlier: Option<Right>,
}

#[derive(Clone)]
struct Right {
    state: String,
    challenge: String,
    query: String,
}

impl SignIn {
    fn new(names_issuer: bool) -> Self {
        let mut world = World::new();
        world.person = Person::IsAway;
        let issuer = world.issuer();
        issuer.metadata["authorization_response_iss_parameter_supported"] = json!(names_issuer);
        issuer.refreshes = false;
        world.challenge(0, 401, "Bearer");
        let mut sign_in = Self { world, names_issuer, right: None, earlier: None };
        sign_in.find_right();
        assert!(sign_in.right.is_some());
        sign_in
    }

    /// Reads the URL that the browser shows, if it shows a new one. The codes of earlier sign-ins have expired then: a
    /// script may send one of them with the new `state`, which a client cannot know and an issuer refuses.
    fn find_right(&mut self) {
        let Some(url) = self.world.processes[0].shown.take() else { return };
        self.world.issuer().expire_codes();
        let redirect = self.world.visit(&url);
        let asked = self.world.issuer().authorizations.last().cloned().expect("an authorization request");
        let query = redirect.split_once('?').expect("a query").1.to_owned();
        let right = Right { state: asked["state"].clone(), challenge: asked["code_challenge"].clone(), query };
        assert!(self.earlier.as_ref().is_none_or(|earlier| earlier.state != right.state), "a state is used twice");
        self.right = Some(right);
    }

    /// The text with parts of the right redirect in place of control characters.
    fn expanded(&self, text: &str) -> String {
        let of =
            |right: &Option<Right>| right.clone().map_or_else(Default::default, |right| (right.state, right.query));
        let ((state, query), (old_state, old_query)) = (of(&self.right), of(&self.earlier));
        let mut expanded = String::new();
        for c in text.chars() {
            match c {
                '\u{1}' => expanded.push_str(&state),
                '\u{2}' => expanded.push_str(&query),
                '\u{3}' => expanded.push_str(&old_state),
                '\u{4}' => expanded.push_str(&old_query),
                '\u{5}' => expanded.push_str("https%3A%2F%2Fas.example%2Ft"),
                '\u{6}' => expanded.push_str("code-1"),
                other => expanded.push(other),
            }
        }
        expanded
    }

    fn pasted(&mut self, text: &str) {
        let query = text.split('#').next().unwrap_or_default();
        let query = query.split_once('?').map_or(query, |(_, query)| query).to_owned();
        self.arrives(&query, |world| world.redirect(0, text));
    }

    fn called(&mut self, way: u8, text: &str, method: &str, host: &str) {
        let path = if way & 0x80 == 0 { "/callback" } else { "/callback/x" };
        let request = Request::builder().method(method).uri(format!("{path}?{text}")).header("host", host).body(());
        let Ok(request) = request else { return };
        let (head, ()) = request.into_parts();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let is_for_us = path == "/callback" && method == "GET" && host != "evil.example";
        if is_for_us {
            self.arrives(&query, |world| {
                let response = world.callback(0, &head);
                assert!([200, 400].contains(&response.status().as_u16()));
                assert_eq!(response.headers()["cache-control"], "no-store");
                response.status() == 200
            });
        } else {
            let before = self.world.issuer().token_requests.len();
            assert_eq!(self.world.callback(0, &head).status(), 404);
            assert_eq!(self.world.issuer().token_requests.len(), before);
        }
    }

    /// A redirect with this query arrives by `arrive`, which returns whether it belongs to the sign-in.
    fn arrives(&mut self, query: &str, arrive: impl FnOnce(&mut World) -> bool) {
        let requests = self.world.issuer().token_requests.len();
        let refused = self.world.processes[0].refused.len();
        let expected = self.right.as_ref().and_then(|right| expected(query, &right.state, self.names_issuer));
        let belongs = arrive(&mut self.world);
        assert_eq!(belongs, expected.is_some(), "{query}");
        let sent = self.world.issuer().token_requests.split_off(requests);
        let Some(expected) = expected else {
            assert!(sent.is_empty(), "a redirect that does not belong to the sign-in has an effect: {query}");
            assert_eq!(self.world.processes[0].refused.len(), refused);
            return;
        };
        let right = self.right.take().expect("a sign-in");
        let errors = &self.world.processes[0].refused[refused..];
        match (expected, errors, &sent[..]) {
            (Expected::Code(code), _, [request]) => {
                assert_eq!(request["code"], code);
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&request["code_verifier"]));
                assert_eq!(challenge, right.challenge, "the verifier of another sign-in");
            }
            (Expected::Denied, [SignInError::Redirect(RedirectError::Denied(_))], [])
            | (Expected::Failed, [SignInError::Redirect(RedirectError::Failed(_))], [])
            | (Expected::Malformed, [SignInError::Redirect(RedirectError::Malformed)], [])
            | (Expected::OtherIssuer, [SignInError::Redirect(RedirectError::OtherIssuer)], [])
            | (Expected::NoIssuer, [SignInError::Redirect(RedirectError::NoIssuer)], []) => {}
            (expected, errors, sent) => panic!("{expected:?} of {query} became {errors:?}, {} requests", sent.len()),
        }
        for error in errors {
            assert!(!error.to_string().chars().any(char::is_control), "{error}");
        }
        self.earlier = Some(right);
        self.find_right();
    }

    /// After a minute, the server demands a token again.
    fn challenged(&mut self) {
        self.world.pass(Duration::from_secs(60));
        if !self.world.processes[0].authorizer.is_busy() {
            self.earlier = self.right.take().or(self.earlier.take());
            self.world.processes[0].shown = None;
            self.world.challenge(0, 401, "Bearer error=invalid_token");
            self.find_right();
        }
    }

    /// An unfinished sign-in ends, and the port is closed.
    fn end(mut self) {
        self.world.pass(Duration::from_secs(301));
        self.world.check();
    }
}

/// What should become of a redirect that belongs to a sign-in.
#[derive(Debug)]
enum Expected {
    Code(String),
    Denied,
    Failed,
    Malformed,
    OtherIssuer,
    NoIssuer,
}

/// What should become of a redirect; `None` if it does not belong to the sign-in with this `state`.
fn expected(query: &str, state: &str, names_issuer: bool) -> Option<Expected> {
    let parameters: Vec<_> = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    let values = |name: &str| -> Vec<String> {
        parameters.iter().filter(|(own, _)| decoded(own) == name).map(|(_, value)| decoded(value)).collect()
    };
    if values("state") != [state] {
        return None;
    }
    match &values("iss")[..] {
        [] if names_issuer => return Some(Expected::NoIssuer),
        [] => {}
        [issuer] if issuer == ISSUER => {}
        [_] => return Some(Expected::OtherIssuer),
        _ => return Some(Expected::Malformed),
    }
    let is_described_twice = values("error_description").len() > 1;
    match (&values("error")[..], &values("code")[..]) {
        ([error], _) if error == "access_denied" && !is_described_twice => Some(Expected::Denied),
        ([_], _) if !is_described_twice => Some(Expected::Failed),
        ([], [code]) if !code.is_empty() => Some(Expected::Code(code.clone())),
        _ => Some(Expected::Malformed),
    }
}

/// A name or a value of a form (`application/x-www-form-urlencoded`).
fn decoded(text: &str) -> String {
    let (bytes, mut decoded) = (text.as_bytes(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match (bytes[at], hex) {
            (b'%', Some(hex)) => {
                decoded.push(u8::from_str_radix(hex, 16).expect("two digits"));
                at += 3;
                continue;
            }
            (b'+', _) => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
