//! Responses of token endpoints (RFC 6749, section 5; OA-K-03, OA-K-04).

use http::StatusCode;
use mcp_proto::auth::Secret;
use mcp_proto::spec::status::is_temporary;
use mcp_proto::{Excerpt, find_explanation};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::form::parameter;
use super::quirk::{ProviderQuirk, is_bearer_by_another_name};

/// The type of the assertions of enterprise-managed authorization (OA-X-04).
pub(super) const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// The longest token, in bytes: it must fit into a header.
const MAX_TOKEN: usize = 16 * 1024;

/// The characters of an error that are shown.
const SHOWN: usize = 200;

/// The characters of a type of token that are shown.
const SHOWN_TYPE: usize = 40;

/// How a token is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, Deserialize)]
#[non_exhaustive]
pub enum TokenScheme {
    /// `Bearer` (RFC 6750): no proof is needed to use the token.
    Bearer,
    /// `DPoP` (RFC 9449): bound to a key.
    #[serde(rename = "DPoP")]
    Dpop,
}

impl TokenScheme {
    /// The scheme of the header `Authorization`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
        }
    }
}

/// What a token endpoint issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenResponse {
    /// The token, which can be sent in a header.
    pub access_token: Secret,
    /// How it is presented; `None` if it is no access token, but an assertion for another server (`N_A`).
    pub scheme: Option<TokenScheme>,
    /// Its lifetime in seconds, if the server states one.
    pub expires_in: Option<u64>,
    /// The granted scopes, separated by spaces; `None` means those that were requested.
    pub scope: Option<String>,
    /// The token to request the next access token with.
    pub refresh_token: Option<Secret>,
    /// The ID token of `OpenID` Connect.
    pub id_token: Option<Secret>,
    /// What a token exchange has issued (RFC 8693, section 2.2.1).
    pub issued_token_type: Option<String>,
    /// In which ways the response differs from the rules.
    pub quirks: Vec<ProviderQuirk>,
}

/// Why a token endpoint issued no token that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The server refused the request (RFC 6749, section 5.2).
    #[error("refused the request: {error}{}", description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// The error code, such as `invalid_grant`.
        error: Excerpt,
        /// What the server says about it.
        description: Option<Excerpt>,
    },
    /// The same request may succeed later.
    #[error("answered with status {0}; try again later")]
    Temporary(StatusCode),
    /// The response is neither a token nor an error.
    #[error("answered with status {0} and neither a token nor an error")]
    NotToken(StatusCode),
    /// The response is an error in another shape than that of RFC 6749.
    #[error("answered with status {status}: {text}")]
    Other {
        /// The status.
        status: StatusCode,
        /// What the server says.
        text: Excerpt,
    },
    /// The token cannot be sent in a header, or is none for the server.
    #[error("issued a token of a form that cannot be used")]
    Unusable,
    /// The type of the token is unknown, or was not asked for.
    #[error("issued a token of the type '{token_type}', which was not asked for and cannot be used here")]
    UnknownType {
        /// The type.
        token_type: Excerpt,
    },
    /// The token is not bound to the client's key, although a proof was sent.
    ///
    /// Rules: OA-X-06.
    #[error("issued a token that is not bound to this client's key (DPoP), although that was requested")]
    NotBound,
    /// There is no ID token, although the configuration demands it in place of an access token.
    ///
    /// Rules: OA-X-09.
    #[error("issued no ID token, which is to be sent in place of an access token")]
    NoIdToken,
}

impl TokenError {
    /// Why a response is none that was expected.
    pub(super) fn parse(status: StatusCode, body: &[u8]) -> Self {
        TokenResponse::parse(status, body).err().unwrap_or(Self::NotToken(status))
    }

    pub(super) fn unknown_type(name: &str) -> Self {
        Self::UnknownType { token_type: Excerpt::new(name, SHOWN_TYPE) }
    }

    /// A refusal with an error code. If it has no description, the other explanation in the body takes its place.
    fn refused(error: &str, description: Option<String>, body: &[u8]) -> Self {
        let described = description.filter(|text| !text.is_empty()).or_else(|| {
            let text = find_explanation(body).filter(|_| body.trim_ascii_start().first() == Some(&b'{'))?;
            text.strip_prefix(error)?.strip_prefix(": ").map(str::to_owned)
        });
        Self::Refused {
            error: Excerpt::new(error, SHOWN),
            description: described.map(|text| Excerpt::new(&text, SHOWN)),
        }
    }

    /// A response that is neither a token nor an error by the rules, with its explanation if it is an error.
    fn other(status: StatusCode, body: &[u8], is_error: bool) -> Self {
        let text = find_explanation(body).filter(|_| is_error || status.is_client_error());
        match text {
            Some(text) => Self::Other { status, text: Excerpt::new(&text, SHOWN) },
            None => Self::NotToken(status),
        }
    }

    /// Whether the server refused with this error code.
    #[must_use]
    pub fn is(&self, code: &str) -> bool {
        matches!(self, Self::Refused { error, .. } if error.as_str() == code)
    }
}

#[derive(Deserialize)]
struct Body {
    access_token: Option<Secret>,
    token_type: Option<String>,
    expires_in: Option<Seconds>,
    scope: Option<String>,
    refresh_token: Option<Secret>,
    id_token: Option<Secret>,
    issued_token_type: Option<String>,
    error: Option<ErrorMember>,
    error_description: Option<String>,
}

/// The member `error`.
#[derive(Deserialize)]
#[serde(untagged)]
enum ErrorMember {
    Code(String),
    /// It is no error of RFC 6749.
    Other(IgnoredAny),
}

/// A response whose token is that of the person, and not of the application.
#[derive(Deserialize)]
struct OfUser {
    authed_user: Body,
}

impl Body {
    /// Reads a body in one of the forms in which token endpoints answer, and notes the form.
    fn read(body: &[u8], quirks: &mut Vec<ProviderQuirk>) -> Option<Self> {
        let text = body.trim_ascii();
        if text.first() != Some(&b'{') {
            let form = Self::of_form(text)?;
            quirks.push(ProviderQuirk::FormResponse);
            return Some(form);
        }
        let own: Self = serde_json::from_slice(body).ok()?;
        if own.access_token.is_none() && own.error.is_none() {
            if let Ok(OfUser { authed_user: found @ Self { access_token: Some(_), error: None, .. } }) =
                serde_json::from_slice(body)
            {
                quirks.push(ProviderQuirk::TokenOfUser);
                return Some(found);
            }
        }
        Some(own)
    }

    /// Reads a form with a token or an error, in which each parameter occurs once.
    fn of_form(text: &[u8]) -> Option<Self> {
        // Other JSON than an object is no form, whatever it contains.
        if text.starts_with(b"[") || text.starts_with(b"\"") {
            return None;
        }
        let text = std::str::from_utf8(text).ok().filter(|text| !text.contains(char::is_whitespace))?;
        let get = |name| parameter(text, name).ok();
        let body = Self {
            access_token: get("access_token")?.map(Secret::new),
            token_type: get("token_type")?,
            expires_in: get("expires_in")?.map(Seconds::Text),
            scope: get("scope")?,
            refresh_token: get("refresh_token")?.map(Secret::new),
            id_token: get("id_token")?.map(Secret::new),
            issued_token_type: get("issued_token_type")?,
            error: get("error")?.map(ErrorMember::Code),
            error_description: get("error_description")?,
        };
        (body.access_token.is_some() || body.error.is_some()).then_some(body)
    }
}

/// Some servers write numbers as text.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Seconds {
    Number(f64),
    Text(String),
}

impl Seconds {
    /// Whole seconds; a negative number counts as 0.
    pub(super) fn to_whole(&self) -> Option<u64> {
        let seconds = match self {
            Self::Number(seconds) => *seconds,
            Self::Text(text) => text.trim().parse().ok()?,
        };
        // The cast saturates; a century is as good as no end.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
        let whole = seconds.clamp(0.0, 3.2e9) as u64;
        (!seconds.is_nan()).then_some(whole)
    }
}

impl TokenResponse {
    /// Parses the response of a token endpoint.
    ///
    /// # Errors
    ///
    /// The response is an error, at whatever status, or contains no token that can be sent.
    ///
    /// # Example
    ///
    /// ```
    /// use http::StatusCode;
    /// use mcp_auth::TokenResponse;
    ///
    /// let body = br#"{"access_token":"abc","token_type":"bearer","expires_in":"3600"}"#;
    /// let response = TokenResponse::parse(StatusCode::OK, body)?;
    /// assert_eq!((response.access_token.reveal(), response.expires_in), ("abc", Some(3600)));
    ///
    /// let refused = TokenResponse::parse(StatusCode::OK, br#"{"error":"invalid_grant"}"#);
    /// assert!(refused.is_err_and(|error| error.is("invalid_grant")));
    /// # Ok::<(), mcp_auth::TokenError>(())
    /// ```
    ///
    /// Rules: OA-K-03, OA-K-04.
    pub fn parse(status: StatusCode, body: &[u8]) -> Result<Self, TokenError> {
        // A server that is overloaded, or defective, has decided nothing about the token.
        if is_temporary(status) {
            return Err(TokenError::Temporary(status));
        }
        let mut quirks = Vec::new();
        let Some(read) = Body::read(body, &mut quirks) else { return Err(TokenError::other(status, body, false)) };
        if let Some(error) = read.error {
            return Err(match error {
                ErrorMember::Code(error) => TokenError::refused(&error, read.error_description, body),
                ErrorMember::Other(_) => TokenError::other(status, body, true),
            });
        }
        let access_token = match (read.access_token, status) {
            (Some(token), StatusCode::OK) => token,
            (None, _) => return Err(TokenError::other(status, body, false)),
            // Nothing of the response is shown, because it contains a token.
            (Some(_), _) => return Err(TokenError::NotToken(status)),
        };
        let scheme = match read.token_type.as_deref().map(str::trim) {
            Some(name) if name.eq_ignore_ascii_case("Bearer") => Some(TokenScheme::Bearer),
            Some(name) if name.eq_ignore_ascii_case("DPoP") => Some(TokenScheme::Dpop),
            Some(name) if name.eq_ignore_ascii_case("N_A") => None,
            Some("") | None => {
                quirks.push(ProviderQuirk::NoTokenType);
                Some(TokenScheme::Bearer)
            }
            Some(name) if is_bearer_by_another_name(name) => {
                quirks.push(ProviderQuirk::OtherTokenType);
                Some(TokenScheme::Bearer)
            }
            Some(name) => return Err(TokenError::unknown_type(name)),
        };
        let is_sent = |token: &Secret| {
            let token = token.reveal();
            !token.is_empty() && token.len() <= MAX_TOKEN && token.bytes().all(|byte| matches!(byte, b'!'..=b'~'))
        };
        if !is_sent(&access_token) {
            return Err(TokenError::Unusable);
        }
        Ok(Self {
            access_token,
            scheme,
            expires_in: read.expires_in.as_ref().and_then(Seconds::to_whole),
            scope: read.scope,
            refresh_token: read.refresh_token.filter(is_sent),
            id_token: read.id_token.filter(is_sent),
            issued_token_type: read.issued_token_type,
            quirks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn au14_oa_k_03_a_token_counts_only_with_status_200_a_known_type_and_a_form_that_a_header_can_carry() {
        let long = format!(r#"{{"access_token":"{}","token_type":"Bearer"}}"#, "a".repeat(MAX_TOKEN + 1));
        for (status, body, expected) in [
            (200, r#"{"access_token":"a","token_type":"bEARER"}"#, Ok(Some(TokenScheme::Bearer))),
            (200, r#" {"access_token":"a|b","token_type":"dpop"}"#, Ok(Some(TokenScheme::Dpop))),
            (200, r#"{"access_token":"a","token_type":"N_A"}"#, Ok(None)),
            (200, r#"{"access_token":"a","token_type":"mac"}"#, Err(TokenError::unknown_type("mac"))),
            (200, r#"{"access_token":"","token_type":"Bearer"}"#, Err(TokenError::Unusable)),
            (200, r#"{"access_token":"a b","token_type":"Bearer"}"#, Err(TokenError::Unusable)),
            (200, r#"{"access_token":"a\r\nX: y","token_type":"Bearer"}"#, Err(TokenError::Unusable)),
            (200, &long, Err(TokenError::Unusable)),
            (201, r#"{"access_token":"a","token_type":"Bearer"}"#, Err(TokenError::NotToken(StatusCode::CREATED))),
            (400, "access_token=a&token_type=bearer", Err(TokenError::NotToken(StatusCode::BAD_REQUEST))),
            (200, "access_token=a&access_token=b", Err(TokenError::NotToken(StatusCode::OK))),
            (200, r#"["a","Bearer"]"#, Err(TokenError::NotToken(StatusCode::OK))),
            (400, "<html>", Err(TokenError::NotToken(StatusCode::BAD_REQUEST))),
            (503, "<html>", Err(TokenError::Temporary(StatusCode::SERVICE_UNAVAILABLE))),
            (503, r#"{"error":"invalid_grant"}"#, Err(TokenError::Temporary(StatusCode::SERVICE_UNAVAILABLE))),
            (429, r#"{"error":"slow_down"}"#, Err(TokenError::Temporary(StatusCode::TOO_MANY_REQUESTS))),
        ] {
            let parsed = TokenResponse::parse(StatusCode::from_u16(status).unwrap(), body.as_bytes());
            assert_eq!(parsed.map(|response| response.scheme), expected, "{status} {}", &body[..body.len().min(80)]);
        }
    }

    #[test]
    fn json_that_is_no_object_is_no_form_whatever_it_contains() {
        for body in [r#"["x&access_token=a&x"]"#, r#" "x&access_token=a&x""#] {
            assert!(TokenResponse::parse(StatusCode::OK, body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn a_token_in_another_form_is_accepted_and_the_form_is_noted() {
        use ProviderQuirk::{FormResponse, NoTokenType, OtherTokenType, TokenOfUser};
        let of_user = r#"{"ok":true,"authed_user":{"id":"U","access_token":"a","token_type":"user","scope":"s"}}"#;
        for (body, expected) in [
            (r#"{"access_token":"a","token_type":"Bearer"}"#, &[][..]),
            (r#"{"access_token":"a","token_type":"Bearer","authed_user":7}"#, &[]),
            (r#"{"access_token":"a","token_type":"Bearer","authed_user":{"access_token":"b"}}"#, &[]),
            (r#"{"access_token":"a"}"#, &[NoTokenType]),
            (r#"{"access_token":"a","token_type":null}"#, &[NoTokenType]),
            (r#"{"access_token":"a","token_type":" "}"#, &[NoTokenType]),
            (r#"{"access_token":"a","token_type":"user"}"#, &[OtherTokenType]),
            (r#"{"access_token":"a","token_type":"BearerToken"}"#, &[OtherTokenType]),
            (of_user, &[TokenOfUser, OtherTokenType]),
            ("access_token=a&token_type=bearer&scope=s", &[FormResponse]),
            ("access_token=%61&scope=", &[FormResponse, NoTokenType]),
        ] {
            let response = TokenResponse::parse(StatusCode::OK, body.as_bytes()).unwrap();
            assert_eq!((response.access_token.reveal(), response.scheme), ("a", Some(TokenScheme::Bearer)), "{body}");
            assert_eq!(response.quirks, expected, "{body}");
        }
        let response = TokenResponse::parse(StatusCode::OK, of_user.as_bytes()).unwrap();
        assert_eq!(response.scope.as_deref(), Some("s"));
    }

    #[test]
    fn an_error_in_another_shape_is_shown_in_its_own_words() {
        for (status, body, expected) in [
            (400, r#"{"message":"no such code"}"#, "answered with status 400 Bad Request: no such code"),
            (400, r#"{"error":{"code":7,"message":"expired"}}"#, "answered with status 400 Bad Request: expired"),
            (200, r#"{"error":{"message":"expired"}}"#, "answered with status 200 OK: expired"),
            (401, "who are you?\r\n", "answered with status 401 Unauthorized: who are you?"),
            (403, "<html><title>Blocked</title></html>", "answered with status 403 Forbidden: Blocked"),
            (400, r#"{"error":"invalid_grant","message":"expired"}"#, "refused the request: invalid_grant (expired)"),
            (200, "error=bad_code&error_description=It+expired", "refused the request: bad_code (It expired)"),
            (400, r#"{"message":"a\u001b[31m"}"#, "answered with status 400 Bad Request: a\\u{1b}[31m"),
            // What is no error may contain a token.
            (200, r#"{"message":"secret"}"#, "answered with status 200 OK and neither a token nor an error"),
            (200, "secret", "answered with status 200 OK and neither a token nor an error"),
            (302, "secret", "answered with status 302 Found and neither a token nor an error"),
            (
                400,
                r#"{"access_token":"secret"}"#,
                "answered with status 400 Bad Request and neither a token nor an error",
            ),
        ] {
            let error = TokenResponse::parse(StatusCode::from_u16(status).unwrap(), body.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), expected, "{body}");
        }
        let long = format!(r#"{{"access_token":"a","token_type":"{}"}}"#, "x".repeat(1000));
        let shown = TokenResponse::parse(StatusCode::OK, long.as_bytes()).unwrap_err().to_string();
        assert!(shown.len() < 200, "{shown}");
    }

    #[test]
    fn au14_oa_k_03_a_lifetime_may_be_a_number_or_a_text_and_is_never_negative() {
        for (expires_in, expected) in [
            ("3600", Some(3600)),
            ("3600.7", Some(3600)),
            (r#""3600""#, Some(3600)),
            ("-5", Some(0)),
            ("1e99", Some(3_200_000_000)),
            (r#""soon""#, None),
            (r#""NaN""#, None),
            ("null", None),
        ] {
            let body = format!(r#"{{"access_token":"a","token_type":"Bearer","expires_in":{expires_in}}}"#);
            let response = TokenResponse::parse(StatusCode::OK, body.as_bytes()).unwrap();
            assert_eq!(response.expires_in, expected, "{expires_in}");
        }
    }

    #[test]
    fn au14_oa_k_04_an_error_counts_at_any_status_and_is_shown_without_control_characters() {
        for status in [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED] {
            let body = br#"{"error":"invalid_grant","error_description":"line\u0007one"}"#;
            let error = TokenResponse::parse(status, body).unwrap_err();
            assert!(error.is("invalid_grant") && !error.is("invalid"));
            assert!(!error.to_string().chars().any(char::is_control), "{error}");
        }
    }

    #[test]
    fn au22_oa_n_04_the_debug_form_contains_no_token() {
        let body = br#"{"access_token":"s1","token_type":"Bearer","refresh_token":"s2","id_token":"s3"}"#;
        let shown = format!("{:?}", TokenResponse::parse(StatusCode::OK, body).unwrap());
        assert!(!["s1", "s2", "s3"].iter().any(|secret| shown.contains(secret)), "{shown}");
    }
}
