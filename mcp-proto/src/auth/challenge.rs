//! Challenges: the header field `WWW-Authenticate`, read and written (RFC 9110, section 11.6.1).

use std::borrow::Cow;
use std::fmt;

use http::{HeaderValue, StatusCode};

use crate::collections::outbox::Weight;

/// The bytes of `WWW-Authenticate` that are read from one response (OA-W-03).
const MAX_BYTES: usize = 8 * 1024;

/// The number of challenges that are read from one response (OA-W-03).
const MAX_CHALLENGES: usize = 16;

/// What a server demands before it accepts a request: a scheme of authentication and its parameters.
///
/// Its `Debug` form contains no values.
///
/// # Example: read the challenges of a response
///
/// ```
/// use http::HeaderValue;
/// use mcp_proto::auth::Challenge;
///
/// let field = HeaderValue::from_static(r#"Basic realm="a, b", Bearer scope="read write", error=invalid_token"#);
/// let challenges = Challenge::parse([&field]);
/// let bearer = Challenge::for_token(&challenges).ok_or("no challenge for a token")?;
/// assert_eq!(bearer.parameter("SCOPE"), Some("read write"));
/// assert_eq!(bearer.error(), Some("invalid_token"));
/// # Ok::<(), &str>(())
/// ```
///
/// # Example: demand a token
///
/// ```
/// use mcp_proto::auth::Challenge;
///
/// let challenge = Challenge::bearer().with("error", "insufficient_scope").with("scope", "files:read files:write");
/// assert_eq!(challenge.to_header_value(), r#"Bearer error="insufficient_scope", scope="files:read files:write""#);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Challenge {
    scheme: String,
    /// Names in lower case, and values without quotes and escapes.
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// A challenge that demands a bearer token (RFC 6750, section 3).
    #[must_use]
    pub fn bearer() -> Self {
        Self { scheme: "Bearer".to_owned(), parameters: Vec::new() }
    }

    /// Adds a parameter, or replaces its value. Characters that a header field cannot contain become `?`; a name that
    /// is no token (RFC 9110, section 5.6.2) is ignored.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if name.is_empty() || !name.bytes().all(is_token) {
            return self;
        }
        let name = name.to_ascii_lowercase();
        let value: String = value.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
        self.parameters.retain(|(earlier, _)| *earlier != name);
        self.parameters.push((name, value));
        self
    }

    /// Reads the challenges of a response from its `WWW-Authenticate` fields, in order.
    ///
    /// A challenge that is malformed, or has a parameter twice, counts as absent; the others are read. At most 16
    /// challenges in 8 KiB are read.
    ///
    /// Rules: OA-W-01, OA-W-03.
    pub fn parse<'h>(fields: impl IntoIterator<Item = &'h HeaderValue>) -> Vec<Self> {
        let mut challenges = Vec::new();
        let mut left = MAX_BYTES;
        for field in fields {
            if field.len() > left {
                break;
            }
            left -= field.len();
            Parser { rest: field.as_bytes() }.read_field(&mut challenges);
        }
        challenges
    }

    /// The challenge that a client with tokens follows: the first one for `Bearer` or `DPoP` that names the metadata of
    /// the resource, or else the first one for either.
    ///
    /// Rules: OA-W-01.
    #[must_use]
    pub fn for_token(challenges: &[Self]) -> Option<&Self> {
        let mut of_tokens = challenges.iter().filter(|challenge| challenge.is_bearer() || challenge.is_dpop());
        let first = of_tokens.clone().next();
        of_tokens.find(|challenge| challenge.resource_metadata().is_some()).or(first)
    }

    /// The scheme, as the server wrote it.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Whether the scheme is `Bearer` (RFC 6750).
    #[must_use]
    pub fn is_bearer(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("Bearer")
    }

    /// Whether the scheme is `DPoP` (RFC 9449).
    #[must_use]
    pub fn is_dpop(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("DPoP")
    }

    /// The value of a parameter, whose name is compared without regard to case.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let (_, value) = self.parameters.iter().find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// The URL of the resource's metadata (RFC 9728, section 5.1).
    #[must_use]
    pub fn resource_metadata(&self) -> Option<&str> {
        self.parameter("resource_metadata")
    }

    /// The scopes that the request needs, separated by spaces.
    ///
    /// Rules: OA-W-04.
    #[must_use]
    pub fn scope(&self) -> Option<&str> {
        self.parameter("scope").filter(|scope| !scope.trim().is_empty())
    }

    /// The error, such as `invalid_token` or `insufficient_scope` (RFC 6750, section 3.1).
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.parameter("error")
    }

    /// The value of a `WWW-Authenticate` field. All parameters are quoted.
    #[must_use]
    pub fn to_header_value(&self) -> HeaderValue {
        // All characters may stand in a field: the constructors ensure that, and `parse` takes them from a field.
        HeaderValue::from_bytes(self.to_string().as_bytes()).unwrap_or(HeaderValue::from_static("Bearer"))
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |value: &str| value.replace('\\', r"\\").replace('"', r#"\""#);
        let parameter = |(name, value): &(String, String)| format!("{name}=\"{}\"", quoted(value));
        let parameters: Vec<_> = self.parameters.iter().map(parameter).collect();
        let gap = if parameters.is_empty() { "" } else { " " };
        write!(f, "{}{gap}{}", self.scheme, parameters.join(", "))
    }
}

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.parameters.iter().map(|(name, _)| name).collect();
        f.debug_struct("Challenge").field("scheme", &self.scheme).field("parameters", &names).finish()
    }
}

/// The part of a field that was not read yet.
struct Parser<'f> {
    rest: &'f [u8],
}

impl<'f> Parser<'f> {
    /// Adds the challenges of a field.
    fn read_field(&mut self, challenges: &mut Vec<Challenge>) {
        // The challenge to which the next parameter belongs; none after a malformed one.
        let mut current: Option<Challenge> = None;
        loop {
            self.skip(|byte| matches!(byte, b' ' | b'\t' | b','));
            if self.rest.is_empty() {
                break;
            }
            let Some(name) = self.token() else {
                current = None;
                self.skip_element();
                continue;
            };
            if self.is_parameter() {
                current = match (current.take(), self.value()) {
                    (Some(challenge), Some(value)) => add(challenge, &name, value),
                    (Some(_) | None, _) => None,
                };
            } else {
                challenges.extend(current.take());
                if challenges.len() >= MAX_CHALLENGES {
                    return;
                }
                let is_followed = self.rest.first().is_none_or(|byte| matches!(byte, b' ' | b'\t' | b','));
                if is_followed {
                    current = Some(Challenge { scheme: name.into_owned(), parameters: Vec::new() });
                    self.skip_token68();
                    continue;
                }
            }
            if !self.is_at_separator() {
                current = None;
                self.skip_element();
            }
        }
        challenges.extend(current);
    }

    fn token(&mut self) -> Option<Cow<'f, str>> {
        let token = self.take_while(is_token);
        if token.is_empty() { None } else { Some(String::from_utf8_lossy(token)) }
    }

    /// Skips what precedes the value of a parameter. Returns `false`, and skips nothing, if there is no parameter.
    fn is_parameter(&mut self) -> bool {
        let mut ahead = Self { rest: self.rest };
        ahead.skip_blanks();
        if ahead.rest.first() != Some(&b'=') {
            return false;
        }
        self.rest = ahead.rest.get(1..).unwrap_or_default();
        self.skip_blanks();
        true
    }

    /// A token or a quoted string.
    fn value(&mut self) -> Option<String> {
        if self.rest.first() != Some(&b'"') {
            return self.token().map(Cow::into_owned);
        }
        // A string that is not closed contains the rest of the field.
        let field = std::mem::take(&mut self.rest);
        let mut value = Vec::new();
        let mut bytes = field.iter().enumerate().skip(1);
        while let Some((position, &byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.rest = field.get(position + 1..).unwrap_or_default();
                    return Some(String::from_utf8_lossy(&value).into_owned());
                }
                b'\\' => value.push(*bytes.next()?.1),
                byte => value.push(byte),
            }
        }
        None
    }

    /// Skips the credentials-like text that some schemes have instead of parameters, if the next element is one.
    fn skip_token68(&mut self) {
        let mut ahead = Self { rest: self.rest };
        ahead.skip_blanks();
        let text = ahead.take_while(is_token68);
        ahead.skip(|byte| byte == b'=');
        ahead.skip_blanks();
        let is_alone = ahead.rest.first().is_none_or(|byte| *byte == b',');
        if !text.is_empty() && is_alone {
            self.rest = ahead.rest;
        }
    }

    /// Whether a list element ends here.
    fn is_at_separator(&mut self) -> bool {
        self.skip_blanks();
        self.rest.first().is_none_or(|byte| *byte == b',')
    }

    /// Skips the rest of a malformed list element.
    fn skip_element(&mut self) {
        loop {
            self.skip(|byte| !matches!(byte, b',' | b'"'));
            if self.rest.first() != Some(&b'"') {
                return;
            }
            self.value();
        }
    }

    fn skip_blanks(&mut self) {
        self.skip(|byte| matches!(byte, b' ' | b'\t'));
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        self.take_while(is_skipped);
    }

    fn take_while(&mut self, is_taken: impl Fn(u8) -> bool) -> &'f [u8] {
        let end = self.rest.iter().position(|byte| !is_taken(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, &[]));
        self.rest = rest;
        taken
    }
}

/// The challenge with one more parameter. A parameter occurs once (RFC 9110, section 11.2): with two, two readers could
/// follow different ones.
fn add(mut challenge: Challenge, name: &str, value: String) -> Option<Challenge> {
    if challenge.parameter(name).is_some() {
        return None;
    }
    challenge.parameters.push((name.to_ascii_lowercase(), value));
    Some(challenge)
}

/// A byte of a token (RFC 9110, section 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

/// A byte of credentials without parameters, except the final `=` (RFC 9110, section 11.2).
const fn is_token68(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/')
}

/// A demand of the server for authorization.
///
/// Rules: OA-T-02.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenged {
    /// The status of the response: 401, or 403 if the credentials do not have enough scopes.
    pub status: StatusCode,
    /// The challenges of the response, in order; there may be none.
    pub challenges: Vec<Challenge>,
    /// The generation of the [`Credentials`](super::Credentials) that the request carried; `None` if it had none.
    pub sent_with: Option<u64>,
    /// No request of the application waits for the server, so that no person should be asked to sign in. A relay
    /// determines this by the requests of its client.
    ///
    /// Rules: OA-G-05.
    pub is_background: bool,
    /// Bytes of the fields with the challenges.
    pub(crate) bytes: usize,
}

impl Weight for Challenged {
    fn weight(&self) -> usize {
        // A challenge is stored as names and values, each with its own buffer.
        2 * self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &[&str]) -> Vec<String> {
        let fields: Vec<_> = fields.iter().map(|field| HeaderValue::from_bytes(field.as_bytes()).unwrap()).collect();
        Challenge::parse(&fields).iter().map(Challenge::to_string).collect()
    }

    #[test]
    fn au1_oa_w_01_every_form_of_the_grammar_is_read() {
        for (fields, expected) in [
            (vec![], vec![]),
            (vec![""], vec![]),
            (vec!["Bearer"], vec!["Bearer"]),
            (vec!["Bearer a=b"], vec![r#"Bearer a="b""#]),
            (vec!["bearer  A = \"b\"\t,c=d"], vec![r#"bearer a="b", c="d""#]),
            (vec![r#"Bearer a="b, Basic c=\"d\"""#], vec![r#"Bearer a="b, Basic c=\"d\"""#]),
            (vec![r#"Bearer a="\\""#], vec![r#"Bearer a="\\""#]),
            (
                vec!["Basic realm=x, Bearer a=b, c=d, DPoP"],
                vec![r#"Basic realm="x""#, r#"Bearer a="b", c="d""#, "DPoP"],
            ),
            (vec!["Negotiate", "Bearer a=b"], vec!["Negotiate", r#"Bearer a="b""#]),
            (vec!["Negotiate YWJj==, Bearer a=b"], vec!["Negotiate", r#"Bearer a="b""#]),
            (vec!["Negotiate YWJj, Bearer a=b"], vec!["Negotiate", r#"Bearer a="b""#]),
            (vec![",, Bearer ,a=b,,"], vec![r#"Bearer a="b""#]),
        ] {
            assert_eq!(parse(&fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn au1_oa_w_03_a_malformed_challenge_counts_as_absent_and_others_are_read() {
        for (field, expected) in [
            (r#"Bearer a="b"#, vec![]),
            (r#"Bearer a="b\"#, vec![]),
            ("Bearer a=b c=d", vec![]),
            ("Bearer a=b, a=c", vec![]),
            ("Bearer a=b, A=c, d=e, Basic", vec!["Basic"]),
            ("Bearer a=b, c=, Basic", vec!["Basic"]),
            ("Bearer @, Basic", vec!["Basic"]),
            (r#"Bearer @"x, DPoP", Basic"#, vec!["Basic"]),
            ("Bea{rer a=b, Basic", vec!["Basic"]),
            ("a=b, Basic", vec!["Basic"]),
            ("Bearer a=b, =c, d=e, Basic", vec!["Basic"]),
        ] {
            assert_eq!(parse(&[field]), expected, "{field}");
        }
    }

    #[test]
    fn au1_oa_w_03_challenges_are_limited_in_number_and_size() {
        assert_eq!(parse(&[&"Bearer,".repeat(100)]).len(), 16);
        assert_eq!(parse(&[&"Bearer,".repeat(10), &"Bearer,".repeat(100)]).len(), 16);
        let long = format!("Bearer a={}", "b".repeat(MAX_BYTES - 9));
        assert_eq!((parse(&[&long]).len(), parse(&[&long, "Basic"]).len()), (1, 1));
        assert_eq!(parse(&[&format!("{long}b")]).len(), 0);
    }

    #[test]
    fn oa_w_01_the_challenge_with_metadata_is_followed_first() {
        for (field, expected) in [
            ("Basic, DPoP a=b, bearer", Some(r#"DPoP a="b""#)),
            ("Bearer a=b, DPoP resource_metadata=c", Some(r#"DPoP resource_metadata="c""#)),
            ("Basic resource_metadata=c", None),
        ] {
            let challenges = Challenge::parse([&HeaderValue::from_static(field)]);
            assert_eq!(Challenge::for_token(&challenges).map(Challenge::to_string).as_deref(), expected, "{field}");
        }
    }

    #[test]
    fn a_challenge_that_is_written_is_read_again() {
        let written =
            Challenge::bearer().with("realm", "a\"\\\r\né").with("b d", "x").with("Scope", "1").with("scope", "2 3");
        let value = written.to_header_value();
        assert_eq!(value, r#"Bearer realm="a\"\\???", scope="2 3""#);
        assert_eq!(Challenge::parse([&value]), [written]);
    }

    #[test]
    fn au22_oa_n_04_the_debug_form_contains_no_values() {
        let challenge = Challenge::bearer().with("nonce", "secret");
        assert_eq!(format!("{challenge:?}"), r#"Challenge { scheme: "Bearer", parameters: ["nonce"] }"#);
    }
}
