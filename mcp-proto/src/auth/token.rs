//! Responses of token endpoints (RFC 6749, section 5; OA-K-03, OA-K-04).

use http::StatusCode;
use serde::Deserialize;

use super::secret::Secret;
use crate::codec::text::Excerpt;
use crate::spec::status::is_temporary;

/// The type of the assertions of enterprise-managed authorization (OA-X-04).
pub(super) const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// The longest token, in bytes: it must fit into a header.
const MAX_TOKEN: usize = 16 * 1024;

/// The characters of an error that are shown.
const SHOWN: usize = 200;

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
    /// The token cannot be sent in a header, or its type is unknown.
    #[error("issued a token of a type or form that cannot be used")]
    Unusable,
    /// The token is not bound to the client's key, although a proof was sent (OA-X-06).
    #[error("issued a token that is not bound to this client's key (DPoP), although that was requested")]
    NotBound,
    /// There is no ID token, although the configuration demands it in place of an access token (OA-X-09).
    #[error("issued no ID token, which is to be sent in place of an access token")]
    NoIdToken,
}

impl TokenError {
    /// Why a response is none that was expected.
    pub(super) fn parse(status: StatusCode, body: &[u8]) -> Self {
        TokenResponse::parse(status, body).err().unwrap_or(Self::NotToken(status))
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
    error: Option<String>,
    error_description: Option<String>,
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
    /// The response is an error, at whatever status, or contains no token that can be sent (OA-K-03, OA-K-04).
    ///
    /// # Example
    ///
    /// ```
    /// use http::StatusCode;
    /// use mcp_proto::auth::TokenResponse;
    ///
    /// let body = br#"{"access_token":"abc","token_type":"bearer","expires_in":"3600"}"#;
    /// let response = TokenResponse::parse(StatusCode::OK, body)?;
    /// assert_eq!((response.access_token.reveal(), response.expires_in), ("abc", Some(3600)));
    ///
    /// let refused = TokenResponse::parse(StatusCode::OK, br#"{"error":"invalid_grant"}"#);
    /// assert!(refused.is_err_and(|error| error.is("invalid_grant")));
    /// # Ok::<(), mcp_proto::auth::TokenError>(())
    /// ```
    pub fn parse(status: StatusCode, body: &[u8]) -> Result<Self, TokenError> {
        let other = if is_temporary(status) { TokenError::Temporary(status) } else { TokenError::NotToken(status) };
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(other);
        }
        let Ok(body) = serde_json::from_slice::<Body>(body) else { return Err(other) };
        if let Some(error) = body.error {
            // A server that is overloaded, or defective, has decided nothing about the token.
            if is_temporary(status) {
                return Err(other);
            }
            let description = body.error_description.filter(|text| !text.is_empty());
            return Err(TokenError::Refused {
                error: Excerpt::new(&error, SHOWN),
                description: description.map(|text| Excerpt::new(&text, SHOWN)),
            });
        }
        let (Some(access_token), StatusCode::OK) = (body.access_token, status) else { return Err(other) };
        let scheme = match body.token_type.as_deref() {
            Some(name) if name.eq_ignore_ascii_case("Bearer") => Some(TokenScheme::Bearer),
            Some(name) if name.eq_ignore_ascii_case("DPoP") => Some(TokenScheme::Dpop),
            Some(name) if name.eq_ignore_ascii_case("N_A") => None,
            Some(_) | None => return Err(TokenError::Unusable),
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
            expires_in: body.expires_in.as_ref().and_then(Seconds::to_whole),
            scope: body.scope,
            refresh_token: body.refresh_token.filter(is_sent),
            id_token: body.id_token.filter(is_sent),
            issued_token_type: body.issued_token_type,
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
            (200, r#"{"access_token":"a","token_type":"mac"}"#, Err(TokenError::Unusable)),
            (200, r#"{"access_token":"a"}"#, Err(TokenError::Unusable)),
            (200, r#"{"access_token":"","token_type":"Bearer"}"#, Err(TokenError::Unusable)),
            (200, r#"{"access_token":"a b","token_type":"Bearer"}"#, Err(TokenError::Unusable)),
            (200, r#"{"access_token":"a\r\nX: y","token_type":"Bearer"}"#, Err(TokenError::Unusable)),
            (200, &long, Err(TokenError::Unusable)),
            (201, r#"{"access_token":"a","token_type":"Bearer"}"#, Err(TokenError::NotToken(StatusCode::CREATED))),
            (200, "access_token=a&token_type=bearer", Err(TokenError::NotToken(StatusCode::OK))),
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
