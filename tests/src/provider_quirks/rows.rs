//! The rows: in which way an authorization server differs from the rules, and what is expected.

use std::collections::BTreeMap;

use ProviderQuirk::{
    ErrorWithoutState, FormResponse, LocalhostRedirect, MissingIssuer, NoMetadataAtUrl, NoResourceDocument,
    NoTokenType, OtherIssuer, OtherResource, OtherTokenType, RelativeMetadataUrl, TokenOfUser, UnlistedPkce,
};
use mcp_auth::{CallbackHost, Config, ProviderQuirk, ResourceParameter};
use mcp_testkit::authorization::{Issuer, Return};
use serde_json::{Value, json};

/// What a row changes.
pub(super) struct Surroundings<'s> {
    pub(super) issuer: &'s mut Issuer,
    /// The header `WWW-Authenticate`.
    pub(super) challenge: &'s mut String,
    /// The metadata of the resource by URL.
    pub(super) documents: &'s mut BTreeMap<String, (u16, String)>,
    /// The URL of the server's metadata, its path, and the URL of those of its origin.
    pub(super) document: String,
    pub(super) document_path: String,
    pub(super) root_document: String,
    /// The beginning of URLs that cannot be reached.
    pub(super) unreachable: &'static str,
}

impl Surroundings<'_> {
    /// The metadata of the resource, with another member.
    fn change_document(&mut self, member: &str, value: &Value) {
        let (_, document) = &self.documents[&self.document];
        let mut document: Value = serde_json::from_str(document).expect("the metadata");
        document[member] = value.clone();
        self.documents.insert(self.document.clone(), (200, document.to_string()));
    }

    /// The metadata of the resource is at the root only; in its other place is this.
    fn move_document(&mut self, status: u16, instead: &str) {
        let document = self.documents.insert(self.document.clone(), (status, instead.to_owned()));
        self.documents.extend(document.map(|document| (self.root_document.clone(), document)));
        "Bearer".clone_into(self.challenge);
    }

    /// The token endpoint answers this.
    fn tokens(&mut self, status: u16, body: &Value) {
        self.issuer.token_responses.push_back((status, body.to_string()));
    }

    fn text_of_token_endpoint(&mut self, status: u16, body: &str) {
        self.issuer.token_responses.push_back((status, body.to_owned()));
    }

    fn returns(&mut self, error: &'static str, description: &'static str, has_state: bool) {
        self.issuer.returns.push_back(Return { error, description, has_state });
    }

    fn remove_metadata(&mut self, member: &str) {
        self.issuer.metadata.as_object_mut().expect("an object").remove(member);
    }

    /// The document of the authorization server names this issuer, as its redirects do.
    fn name_issuer(&mut self, name: &str) {
        self.issuer.metadata["issuer"] = json!(name);
        self.issuer.redirect = vec![("iss".to_owned(), name.to_owned())];
    }
}

/// An authorization server, and what is expected.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) configure: fn(&mut Config),
    pub(super) change: fn(&mut Surroundings<'_>),
    /// What is reported, in this order.
    pub(super) quirks: &'static [ProviderQuirk],
    /// The token, or texts of the error.
    pub(super) outcome: Result<&'static str, &'static [&'static str]>,
    /// What the last page in the browser contains, and does not.
    pub(super) page: (&'static str, &'static str),
    /// What the authorization server has received.
    pub(super) check: fn(&Issuer),
}

/// A row in which nothing differs.
const USUAL: Row = Row {
    name: "no difference",
    configure: |_| {},
    change: |_| {},
    quirks: &[],
    outcome: Ok("access-1"),
    page: ("", "\0"),
    check: |_| {},
};

fn redirects_to(issuer: &Issuer, start: &str, end: &str) {
    let redirect_uri = &issuer.authorizations[0]["redirect_uri"];
    assert!(redirect_uri.starts_with(start) && redirect_uri.ends_with(end), "{redirect_uri}");
}

/// The rows.
#[expect(clippy::too_many_lines, reason = "it is a table")]
pub(super) fn rows() -> Vec<Row> {
    vec![
        Row { page: ("Response received", "Signed in"), ..USUAL },
        Row {
            name: "only localhost may be registered",
            change: |world| world.issuer.redirect_hosts = Some(&["localhost"]),
            quirks: &[LocalhostRedirect],
            check: |issuer| redirects_to(issuer, "http://localhost:", "/callback"),
            ..USUAL
        },
        Row {
            name: "only localhost may be registered, which is said in other words",
            change: |world| {
                world.issuer.redirect_hosts = Some(&["localhost"]);
                world.issuer.redirect_refusal = (422, "Redirect URLs must use localhost".to_owned());
            },
            quirks: &[LocalhostRedirect],
            ..USUAL
        },
        Row {
            name: "no redirect URI is accepted",
            change: |world| {
                world.issuer.redirect_hosts = Some(&[]);
                world.issuer.redirect_refusal = (400, r#"{"message":"No redirect URI of yours"}"#.to_owned());
            },
            outcome: Err(&["refused to register", "No redirect URI of yours"]),
            check: |issuer| assert_eq!(issuer.registrations.len(), 2),
            ..USUAL
        },
        Row {
            name: "only localhost may be registered, and the person has chosen 127.0.0.1",
            configure: |config| config.callback_host = Some(CallbackHost::Ipv4),
            change: |world| world.issuer.redirect_hosts = Some(&["localhost"]),
            outcome: Err(&["refused to register", "invalid_redirect_uri"]),
            check: |issuer| assert_eq!(issuer.registrations.len(), 1),
            ..USUAL
        },
        Row {
            name: "a client that was registered with another host and path",
            configure: |config| {
                config.callback_host = Some(CallbackHost::Localhost);
                config.callback_path("/oauth/callback").expect("a path");
            },
            check: |issuer| redirects_to(issuer, "http://localhost:", "/oauth/callback"),
            ..USUAL
        },
        Row {
            name: "a token of another type that is a bearer token",
            change: |world| world.tokens(200, &json!({ "access_token": "own", "token_type": "user" })),
            quirks: &[OtherTokenType],
            outcome: Ok("own"),
            ..USUAL
        },
        Row {
            name: "a type in another spelling",
            change: |world| world.tokens(200, &json!({ "access_token": "own", "token_type": "BEARER" })),
            outcome: Ok("own"),
            ..USUAL
        },
        Row {
            name: "a token without a type",
            change: |world| world.tokens(200, &json!({ "access_token": "own" })),
            quirks: &[NoTokenType],
            outcome: Ok("own"),
            ..USUAL
        },
        Row {
            name: "a token of the person",
            change: |world| {
                let of_user = json!({ "access_token": "own", "token_type": "user" });
                world.tokens(200, &json!({ "ok": true, "authed_user": of_user }));
            },
            quirks: &[TokenOfUser, OtherTokenType],
            outcome: Ok("own"),
            ..USUAL
        },
        Row {
            name: "a token in a form",
            change: |world| world.text_of_token_endpoint(200, "access_token=own&scope=&token_type=bearer"),
            quirks: &[FormResponse],
            outcome: Ok("own"),
            ..USUAL
        },
        Row {
            name: "a token of a type that cannot be used",
            change: |world| world.tokens(200, &json!({ "access_token": "own", "token_type": "mac\u{7}" })),
            outcome: Err(&["the type 'mac\\u{7}'"]),
            ..USUAL
        },
        Row {
            name: "a token that is bound to a key, although no proof was sent",
            change: |world| world.tokens(200, &json!({ "access_token": "own", "token_type": "DPoP" })),
            outcome: Err(&["the type 'DPoP'"]),
            ..USUAL
        },
        Row {
            name: "an error of the token endpoint as a message",
            change: |world| world.tokens(400, &json!({ "message": "the code is too old" })),
            outcome: Err(&["400", "the code is too old"]),
            ..USUAL
        },
        Row {
            name: "an error of the token endpoint as an object",
            change: |world| world.tokens(401, &json!({ "error": { "code": 7, "message": "the code is too old" } })),
            outcome: Err(&["401", "the code is too old"]),
            ..USUAL
        },
        Row {
            name: "an error of the token endpoint as text",
            change: |world| world.text_of_token_endpoint(403, "the code\r\nis too old"),
            outcome: Err(&["403", "the code is too old"]),
            ..USUAL
        },
        Row {
            name: "the token endpoint fails",
            change: |world| world.tokens(500, &json!({ "message": "the database is away" })),
            outcome: Err(&["500", "the database is away", "try again later"]),
            ..USUAL
        },
        Row {
            name: "an error of the token endpoint as a form with status 200",
            change: |world| {
                world.text_of_token_endpoint(200, "error=bad_verification_code&error_description=It+is+too+old");
            },
            outcome: Err(&["bad_verification_code", "It is too old"]),
            ..USUAL
        },
        Row {
            name: "the person denies",
            change: |world| world.returns("access_denied", "<b>You</b>\u{7} may not", true),
            outcome: Err(&["access was denied in the browser", "<b>You</b>\\u{7} may not"]),
            page: ("Access was denied in the browser: &lt;b&gt;You&lt;/b&gt;\\u{7} may not.", "<b>"),
            ..USUAL
        },
        Row {
            name: "the authorization server fails",
            change: |world| world.returns("server_error", "The database is away", true),
            outcome: Err(&["server_error: The database is away"]),
            page: ("server_error: The database is away.", "Response received"),
            ..USUAL
        },
        Row {
            name: "the authorization server fails and names no sign-in, and the person tries again",
            change: |world| {
                // What another program sends must not end the sign-in.
                world.issuer.metadata["authorization_response_iss_parameter_supported"] = json!(false);
                world.returns("server_error", "The database is away", false);
            },
            quirks: &[ErrorWithoutState],
            page: ("Response received", "server_error"),
            ..USUAL
        },
        Row {
            name: "every path answers with a page",
            change: |world| world.move_document(200, "<!doctype html><title>Start</title>"),
            quirks: &[NoResourceDocument],
            ..USUAL
        },
        Row {
            name: "every path answers with an error and status 200",
            change: |world| world.move_document(200, r#"{"error":"not found"}"#),
            quirks: &[NoResourceDocument],
            ..USUAL
        },
        Row {
            name: "a relative URL of the metadata",
            change: |world| *world.challenge = format!(r#"Bearer resource_metadata="{}""#, world.document_path),
            quirks: &[RelativeMetadataUrl],
            ..USUAL
        },
        Row {
            name: "a URL of the metadata that cannot be reached",
            change: |world| *world.challenge = format!(r#"Bearer resource_metadata="{}/x""#, world.unreachable),
            quirks: &[NoMetadataAtUrl],
            ..USUAL
        },
        Row {
            name: "a URL of the metadata where none are",
            change: |world| *world.challenge = format!(r#"Bearer resource_metadata="{}/x""#, world.document),
            quirks: &[NoMetadataAtUrl],
            ..USUAL
        },
        Row {
            name: "no metadata but behind a URL that cannot be reached",
            change: |world| {
                world.documents.clear();
                *world.challenge = format!(r#"Bearer resource_metadata="{}/x""#, world.unreachable);
            },
            quirks: &[NoMetadataAtUrl],
            outcome: Err(&["cannot be reached"]),
            ..USUAL
        },
        Row {
            name: "another resource",
            change: |world| world.change_document("resource", &json!("http://inner.example/mcp")),
            outcome: Err(&["its `resource` is 'http://inner.example/mcp'", "--resource"]),
            ..USUAL
        },
        Row {
            name: "another resource, which the person has configured",
            configure: |config| config.resource = ResourceParameter::Fixed("http://inner.example/mcp".to_owned()),
            change: |world| world.change_document("resource", &json!("http://inner.example/mcp")),
            quirks: &[OtherResource],
            check: |issuer| assert_eq!(issuer.authorizations[0]["resource"], "http://inner.example/mcp"),
            ..USUAL
        },
        Row {
            name: "another issuer",
            change: |world| world.name_issuer("https://other.example"),
            outcome: Err(&["its `issuer` is 'https://other.example'", "--tolerate other-issuer"]),
            ..USUAL
        },
        Row {
            name: "another issuer, which is tolerated",
            configure: |config| config.exceptions.tolerate(OtherIssuer),
            change: |world| world.name_issuer("https://other.example"),
            quirks: &[OtherIssuer],
            ..USUAL
        },
        Row {
            name: "no issuer",
            change: |world| world.remove_metadata("issuer"),
            outcome: Err(&["lacks `issuer`", "--tolerate missing-issuer"]),
            ..USUAL
        },
        Row {
            name: "no issuer, which is tolerated",
            configure: |config| config.exceptions.tolerate(MissingIssuer),
            change: |world| world.remove_metadata("issuer"),
            quirks: &[MissingIssuer],
            ..USUAL
        },
        Row {
            name: "no issuer, which is tolerated, and a return of another one",
            configure: |config| config.exceptions.tolerate(MissingIssuer),
            change: |world| {
                world.remove_metadata("issuer");
                world.issuer.redirect = vec![("iss".to_owned(), "https://other.example".to_owned())];
            },
            quirks: &[MissingIssuer],
            outcome: Err(&["came from another authorization server"]),
            page: ("Not signed in", "other.example"),
            check: |issuer| assert!(issuer.token_requests.is_empty()),
        },
        Row {
            name: "no token endpoint",
            change: |world| world.remove_metadata("token_endpoint"),
            outcome: Err(&["lacks `token_endpoint`"]),
            ..USUAL
        },
        Row {
            name: "no list of methods of PKCE",
            change: |world| world.remove_metadata("code_challenge_methods_supported"),
            outcome: Err(&["does not list S256", "--tolerate unlisted-pkce"]),
            ..USUAL
        },
        Row {
            name: "no list of methods of PKCE, which is tolerated",
            configure: |config| config.exceptions.tolerate(UnlistedPkce),
            change: |world| world.remove_metadata("code_challenge_methods_supported"),
            quirks: &[UnlistedPkce],
            ..USUAL
        },
        Row {
            name: "a list of methods of PKCE without S256, which cannot be tolerated",
            configure: |config| config.exceptions.tolerate(UnlistedPkce),
            change: |world| world.issuer.metadata["code_challenge_methods_supported"] = json!(["plain"]),
            outcome: Err(&["does not list S256"]),
            ..USUAL
        },
    ]
}
