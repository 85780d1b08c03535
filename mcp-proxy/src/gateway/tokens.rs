//! The bearer tokens of users, which the environment and the file of `--config` contain.

use http::header::AUTHORIZATION;
use http::request::Parts;
use mcp_proto::auth::Challenge;
use mcp_proto::escape_text;
use mcp_proto::server::Principal;
use ring::hmac;

use crate::args::serve::token_variable;
use crate::environment::{environment, expand};
use crate::secrets::Secrets;

/// Tokens and their users.
pub(super) struct Tokens {
    /// A tag of a token is compared in constant time, which does not depend on the token either.
    key: hmac::Key,
    tags: Vec<(hmac::Tag, Principal)>,
}

impl Tokens {
    /// Reads the tokens from the environment, where each option is `VAR` or `USER=VAR`, and those of the file with their users.
    ///
    /// # Errors
    ///
    /// A text for the user.
    pub(super) fn new(options: &[String], in_file: &[(String, String)], secrets: &mut Secrets) -> Result<Self, String> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| format!("the system has no random bytes: {error}"))?;
        let mut tokens = Self { key: hmac::Key::new(hmac::HMAC_SHA256, &random), tags: Vec::new() };
        for option in options {
            let (user, variable) = token_variable(option);
            let token = environment(variable).map_err(|error| format!("--token-env: {error}"))?;
            let source = format!("the environment variable {variable}");
            tokens.add(user, &token, &source).map_err(|error| format!("--token-env: {error}"))?;
            secrets.add(source, &token);
        }
        for (user, text) in in_file {
            let shown = format!("serve.tokens.{}", escape_text(user, 80));
            let token = expand(text, secrets).map_err(|error| format!("--config: {shown}: {error}"))?;
            tokens.add(user, &token, &shown).map_err(|error| format!("--config: {error}"))?;
            secrets.add(shown, &token);
        }
        Ok(tokens)
    }

    fn add(&mut self, user: &str, token: &str, source: &str) -> Result<(), String> {
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{source} is empty, or has characters that no token may have"));
        }
        if user.is_empty() {
            return Err("a user has no name".to_owned());
        }
        if self.user(token).is_some() {
            return Err(format!("{source} has the token of another user"));
        }
        self.tags.push((hmac::sign(&self.key, token.as_bytes()), Principal::new(user)));
        Ok(())
    }

    /// Whether a user has a token.
    pub(super) fn has_user(&self, user: &Principal) -> bool {
        self.tags.iter().any(|(_, own)| own == user)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// The user who sent a request (OA-Z-02).
    pub(super) fn authenticate(&self, head: &Parts) -> Result<Principal, Challenge> {
        self.user(bearer(head)?).cloned().ok_or_else(invalid_token)
    }

    /// The user of a token. All tokens are compared, so that the time does not show which one matches.
    fn user(&self, token: &str) -> Option<&Principal> {
        let is_of = |tag: &hmac::Tag| hmac::verify(&self.key, token.as_bytes(), tag.as_ref()).is_ok();
        self.tags.iter().fold(None, |found, (tag, user)| if is_of(tag) { Some(user) } else { found })
    }
}

/// The bearer token of a request (RFC 6750, section 2.1).
///
/// # Errors
///
/// The challenge for a request without a bearer token; it has no `error` if the request has no credentials.
pub(super) fn bearer(head: &Parts) -> Result<&str, Challenge> {
    let mut fields = head.headers.get_all(AUTHORIZATION).iter();
    let Some(field) = fields.next() else { return Err(Challenge::bearer()) };
    let token = field.to_str().ok().and_then(|field| field.split_once(' '));
    let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer") && fields.next().is_none());
    token.map(|(_, token)| token.trim()).ok_or_else(invalid_token)
}

pub(super) fn invalid_token() -> Challenge {
    Challenge::bearer().with("error", "invalid_token")
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn oa_z_02_only_requests_with_the_token_of_a_user_are_served() {
        let mut secrets = Secrets::default();
        // The environment of this process cannot be changed, but `cargo test` sets these variables.
        let (own, other) = ("CARGO_PKG_NAME", "CARGO_PKG_VERSION");
        let token = std::env::var(own).unwrap();
        let tokens = Tokens::new(&[format!("ada={own}"), other.to_owned()], &[], &mut secrets).unwrap();
        let asked = |values: &[&str]| {
            let mut head = Request::new(()).into_parts().0;
            for value in values {
                head.headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            tokens.authenticate(&head).map(|principal| principal.as_str().to_owned())
        };
        let bearer = format!("Bearer {token}");
        assert_eq!(asked(&[&bearer]), Ok("ada".to_owned()));
        assert_eq!(asked(&[&format!("bearer  {token}")]), Ok("ada".to_owned()));
        assert_eq!(asked(&[&format!("Bearer {}", env!("CARGO_PKG_VERSION"))]), Ok(other.to_owned()));
        assert_eq!(asked(&[]), Err(Challenge::bearer()), "without an error (RFC 6750, section 3.1)");
        for wrong in [
            &["Bearer"][..],
            &["Bearer "],
            &[&token],
            &[&format!("Basic {token}")],
            &[&format!("{bearer}x")],
            &[&bearer[..bearer.len() - 1]],
            &[&bearer, &bearer],
        ] {
            assert_eq!(asked(wrong), Err(Challenge::bearer().with("error", "invalid_token")), "{wrong:?}");
        }
        for (options, error) in [
            (vec!["NO_SUCH_VARIABLE_HERE".to_owned()], "NO_SUCH_VARIABLE_HERE is not set"),
            (vec![format!("={own}")], "a user has no name"),
            (vec![own.to_owned(), format!("eve={own}")], "has the token of another user"),
        ] {
            let refused = Tokens::new(&options, &[], &mut secrets).err().unwrap();
            assert!(refused.contains(error), "{refused}");
        }
        assert!(!secrets.leave_out(&bearer).contains(&token));
    }
}
