//! Authorization by a person: the URL that is opened in a browser, and the redirect that comes back (OA-Q-01, OA-B-02).

use mcp_proto::Excerpt;
use mcp_proto::auth::Secret;
use serde::{Deserialize, Serialize};

use super::form::{Form, Repeated, parameter};
use super::seed::{Nonces, sha256};
use super::url::{SecureUrl, UrlRefused};

/// Parameters that the flow sets itself, and that the configuration must not replace (OA-Q-06).
const OWN_PARAMETERS: [&str; 8] = [
    "client_id",
    "code_challenge",
    "code_challenge_method",
    "redirect_uri",
    "resource",
    "response_type",
    "scope",
    "state",
];

/// The characters of an error that are shown.
const SHOWN: usize = 300;

/// One authorization request, as it was made: what the redirect is compared with (OA-Q-08).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// The issuer of the validated metadata.
    pub(super) issuer: String,
    /// The issuer names itself in redirects.
    pub(super) names_issuer: bool,
    pub(super) verifier: Secret,
    pub(super) state: Secret,
    pub(super) redirect_uri: String,
    pub(super) scope: Option<String>,
    pub(super) resource: Option<String>,
}

impl Attempt {
    /// A request with a new `state` and a new code verifier (OA-Q-02, OA-Q-03).
    pub(super) fn new(issuer: &str, names_issuer: bool, redirect_uri: &str, nonces: &mut Nonces) -> Self {
        Self {
            issuer: issuer.to_owned(),
            names_issuer,
            verifier: Secret::new(nonces.draw()),
            state: Secret::new(nonces.draw()),
            redirect_uri: redirect_uri.to_owned(),
            scope: None,
            resource: None,
        }
    }

    /// The URL to open in a browser: the endpoint, with its query, and the parameters of the request (OA-Q-01).
    ///
    /// # Errors
    ///
    /// The endpoint is refused, or its query already has one of the parameters.
    pub(super) fn url(
        &self,
        endpoint: &str,
        client_id: &str,
        additional: &[(String, String)],
    ) -> Result<String, InvalidAuthorization> {
        // The URL is passed to a program that opens it: it is written again from its checked parts (OA-Q-10).
        let endpoint = SecureUrl::parse(endpoint).map_err(InvalidAuthorization::Url)?.to_uri().to_string();
        let mut form = Form::new();
        form.add("response_type", "code");
        form.add("client_id", client_id);
        form.add("redirect_uri", &self.redirect_uri);
        form.add("code_challenge", &sha256(self.verifier.reveal()));
        form.add("code_challenge_method", "S256");
        form.add("state", self.state.reveal());
        form.add_some("scope", self.scope.as_deref());
        form.add_some("resource", self.resource.as_deref());
        for (name, value) in additional {
            form.add(name, value);
        }
        let query = endpoint.split_once('?').map(|(_, query)| query);
        if let Some(query) = query {
            let own = OWN_PARAMETERS.into_iter().chain(additional.iter().map(|(name, _)| name.as_str()));
            for name in own {
                if parameter(query, name) != Ok(None) {
                    return Err(InvalidAuthorization::ParameterTaken);
                }
            }
        }
        let separator = match query {
            None => "?",
            Some("") => "",
            Some(_) => "&",
        };
        Ok(format!("{endpoint}{separator}{}", form.finish()))
    }

    /// Compares a redirect with the request. `Ok(None)` if it belongs to another request, and is ignored (OA-Q-03).
    ///
    /// # Errors
    ///
    /// The redirect comes from another issuer, is malformed, or reports an error.
    pub(super) fn code(&self, redirect: &str) -> Result<Option<Secret>, RedirectError> {
        let query = query_of(redirect);
        let get = |name| parameter(query, name);
        if get("state") != Ok(Some(self.state.reveal().to_owned())) {
            return Ok(None);
        }
        let repeated = |Repeated| RedirectError::Malformed;
        // Before anything else of the response is used (OA-B-02).
        match get("iss").map_err(repeated)? {
            Some(issuer) if issuer != self.issuer => return Err(RedirectError::OtherIssuer),
            None if self.names_issuer => return Err(RedirectError::NoIssuer),
            Some(_) | None => {}
        }
        if let Some(error) = reported_error(query).map_err(repeated)? {
            return Err(error);
        }
        let code = get("code").map_err(repeated)?.filter(|code| !code.is_empty());
        code.map(|code| Some(Secret::new(code))).ok_or(RedirectError::Malformed)
    }
}

impl Attempt {
    /// The error of a redirect without `state`. Some authorization servers send one when they fail before they have
    /// read the request. Another program may have sent it, so it must not end the sign-in (OA-Q-03).
    pub(super) fn error_without_state(&self, redirect: &str) -> Option<RedirectError> {
        let query = query_of(redirect);
        let issuer = parameter(query, "iss").ok()?;
        let is_of_issuer = issuer.as_ref().map_or(!self.names_issuer, |issuer| *issuer == self.issuer);
        if !is_of_issuer || parameter(query, "state") != Ok(None) {
            return None;
        }
        reported_error(query).ok()?
    }
}

/// The query of a redirect: a URL, its path with the query, or the query alone.
fn query_of(redirect: &str) -> &str {
    let query = redirect.split_once('#').map_or(redirect, |(before, _)| before);
    query.split_once('?').map_or(query, |(_, query)| query)
}

/// The error that a redirect reports (RFC 6749, section 4.1.2.1).
fn reported_error(query: &str) -> Result<Option<RedirectError>, Repeated> {
    let Some(error) = parameter(query, "error")? else { return Ok(None) };
    let description = parameter(query, "error_description")?.filter(|text| !text.trim().is_empty());
    if error == "access_denied" {
        return Ok(Some(RedirectError::Denied(description.map(|text| Excerpt::new(&text, SHOWN)))));
    }
    let text = description.map_or_else(|| error.clone(), |description| format!("{error}: {description}"));
    let text = Excerpt::new(&text, SHOWN);
    Ok(Some(if error == "invalid_scope" { RedirectError::Scope(text) } else { RedirectError::Failed(text) }))
}

/// Whether a parameter may be added to authorization requests by the configuration (OA-Q-06).
pub(super) fn may_be_added(name: &str) -> bool {
    !name.is_empty() && name != "request" && name != "request_uri" && !OWN_PARAMETERS.contains(&name)
}

/// Why no authorization request can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAuthorization {
    /// The endpoint's URL is refused.
    #[error("the authorization endpoint {0}")]
    Url(UrlRefused),
    /// The endpoint's query contains a parameter of the request.
    #[error("the authorization endpoint has a query that contains a parameter of the request itself")]
    ParameterTaken,
}

/// Why a redirect gives no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectError {
    /// The person refused.
    #[error("access was denied in the browser{}", .0.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Denied(Option<Excerpt>),
    /// The authorization server refuses the requested scopes.
    #[error("the authorization server refuses the requested scopes: {0}")]
    Scope(Excerpt),
    /// The authorization server reports another error.
    #[error("the authorization server reports an error: {0}")]
    Failed(Excerpt),
    /// The response comes from another issuer than the one that was asked (RFC 9207, section 2.4). Nothing of it is
    /// shown.
    #[error("the response came from another authorization server than the one that was asked; it was rejected")]
    OtherIssuer,
    /// The response does not name its issuer, although the authorization server always does (RFC 9207, section 2.4).
    #[error(
        "the response does not name its authorization server (`iss`), although that server announces it; it was rejected"
    )]
    NoIssuer,
    /// A parameter is missing, or occurs twice.
    #[error("the response of the authorization server is malformed: it contains no code, or a parameter twice")]
    Malformed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn attempt(names_issuer: bool) -> Attempt {
        let mut nonces = Nonces::new(Seed::new([0; 32]));
        Attempt::new("https://as.example", names_issuer, "http://127.0.0.1:1/callback", &mut nonces)
    }

    #[test]
    fn oa_q_01_the_query_of_the_endpoint_is_kept_and_has_no_parameter_of_the_request() {
        let mut attempt = attempt(false);
        attempt.scope = Some("a b".into());
        attempt.resource = Some("https://mcp.example/x".into());
        let (state, challenge) = (attempt.state.reveal(), sha256(attempt.verifier.reveal()));
        let parameters = format!(
            "response_type=code&client_id=my+id&redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcallback&code_challenge={challenge}\
             &code_challenge_method=S256&state={state}&scope=a+b&resource=https%3A%2F%2Fmcp.example%2Fx&prompt=consent"
        );
        let additional = [("prompt".to_owned(), "consent".to_owned())];
        for (endpoint, expected) in [
            ("https://as.example/authorize", Some("https://as.example/authorize?")),
            ("https://as.example/authorize?", Some("https://as.example/authorize?")),
            ("https://as.example/authorize?tenant=1", Some("https://as.example/authorize?tenant=1&")),
            ("https://as.example/authorize?state=1", None),
            ("https://as.example/authorize?st%61te=1", None),
            ("https://as.example/authorize?prompt=none", None),
            ("http://as.example/authorize", None),
            ("file:///bin/sh", None),
        ] {
            let url = attempt.url(endpoint, "my id", &additional);
            assert_eq!(url.ok(), expected.map(|start| format!("{start}{parameters}")), "{endpoint}");
        }
    }

    #[test]
    fn au5_oa_q_10_nothing_that_a_shell_could_read_reaches_the_url() {
        for endpoint in ["https://as.example/$(calc)`x`\"'", "https://as.example/a|b^c<d>"] {
            let url = attempt(false).url(endpoint, "id", &[]).unwrap();
            assert!(!url.contains(['`', '"', '|', '<', '>', '^', ' ']), "{url}");
        }
    }

    #[test]
    fn au11_oa_b_02_a_redirect_is_compared_with_the_request_before_its_code_is_used() {
        use RedirectError::{Denied, Malformed, NoIssuer, OtherIssuer};
        let own = "iss=https%3A%2F%2Fas.example";
        for (names_issuer, parameters, expected) in [
            (true, format!("{own}&code=c"), Ok(())),
            (false, format!("{own}&code=c"), Ok(())),
            (false, "code=c".to_owned(), Ok(())),
            (true, "code=c".to_owned(), Err(NoIssuer)),
            (true, "error=access_denied".to_owned(), Err(NoIssuer)),
            (true, format!("{own}%2F&code=c"), Err(OtherIssuer)),
            (false, "iss=https%3A%2F%2FAS.example&code=c".to_owned(), Err(OtherIssuer)),
            (false, "iss=https%3A%2F%2Fevil.example&error=x&error_description=y".to_owned(), Err(OtherIssuer)),
            (false, format!("{own}&{own}&code=c"), Err(Malformed)),
            (false, "code=c&code=d".to_owned(), Err(Malformed)),
            (false, "code=".to_owned(), Err(Malformed)),
            (false, String::new(), Err(Malformed)),
            (true, format!("{own}&error=access_denied"), Err(Denied(None))),
            (
                true,
                format!("{own}&error=access_denied&error_description=not+you"),
                Err(Denied(Some(Excerpt::new("not you", 300)))),
            ),
            (
                false,
                "error=server_error&error_description=a%07b&code=c".to_owned(),
                Err(RedirectError::Failed(Excerpt::new("server_error: a\u{7}b", 300))),
            ),
        ] {
            let attempt = attempt(names_issuer);
            let state = attempt.state.reveal();
            for redirect in [
                format!("http://127.0.0.1:1/callback?{parameters}&state={state}"),
                format!("/callback?state={state}&{parameters}#fragment"),
                format!("state={state}&{parameters}"),
            ] {
                let found = attempt.code(&redirect).map(|code| assert_eq!(code, Some("c".into())));
                assert_eq!(found, expected, "{redirect}");
            }
        }
    }

    #[test]
    fn an_error_without_state_is_read_unless_another_issuer_sent_it() {
        let own = "iss=https%3A%2F%2Fas.example";
        for (names_issuer, query, expected) in [
            (false, "error=server_error&error_description=down", Some("server_error: down")),
            (false, "error=access_denied", Some("denied")),
            (true, &format!("error=x&{own}"), Some("x")),
            (true, "error=x", None),
            (false, "error=x&iss=https%3A%2F%2Fevil.example", None),
            (false, "error=x&state=", None),
            (false, "error=x&state=other", None),
            (false, "error=x&error=y", None),
            (false, "code=c", None),
            (false, "", None),
        ] {
            let error = attempt(names_issuer).error_without_state(&format!("/callback?{query}"));
            assert_eq!(error.is_some(), expected.is_some(), "{query}");
            assert!(error.is_none_or(|error| error.to_string().contains(expected.unwrap_or_default())), "{query}");
        }
    }

    #[test]
    fn au9_oa_q_03_a_redirect_with_another_state_is_ignored() {
        let attempt = attempt(true);
        let state = attempt.state.reveal();
        for redirect in
            ["", "code=c", "state=&code=c", "state=x&code=c", &format!("state={state}&state={state}&code=c")]
        {
            assert_eq!(attempt.code(redirect), Ok(None), "{redirect}");
        }
    }
}
