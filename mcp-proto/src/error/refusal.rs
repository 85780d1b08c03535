//! HTTP errors in response to a message.

use std::fmt;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use crate::spec::header::BodyKind;
use crate::text::Excerpt;

/// An HTTP error response to a message, without a JSON-RPC error.
///
/// Rules: HT8.
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// The kind of body.
    pub body: BodyKind,
    /// The waiting time that the server asks for in `Retry-After`.
    pub retry_after: Option<Duration>,
    /// All values of `WWW-Authenticate`, from which the application can get a token.
    ///
    /// Rules: AU-14.
    pub challenges: Vec<HeaderValue>,
    /// What the body says, if it is a JSON-RPC or OAuth error, problem details (RFC 9457), another JSON error, text, or a
    /// page with a title: at most 300 characters, without the secrets that the client has sent.
    pub explanation: Option<Excerpt>,
}

impl Refusal {
    /// Whether the body mentions a session: then the path is right, because no other path has sessions.
    fn is_about_a_session(&self) -> bool {
        self.explanation
            .as_ref()
            .is_some_and(|explanation| explanation.as_str().to_ascii_lowercase().contains("session"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        match self.status.as_u16() {
            401 => f.write_str("; it requires credentials, or other ones")?,
            403 => f.write_str("; these credentials are not allowed to do that")?,
            407 => f.write_str("; an HTTP proxy on the way requires a user name and a password")?,
            404 | 405 if !self.is_about_a_session() => write!(f, " with {}; is the path right?", self.body)?,
            _ if self.explanation.is_some() => {}
            _ => write!(f, " with {}", self.body)?,
        }
        if let Some(explanation) = &self.explanation {
            write!(f, "; its explanation is \"{explanation}\"")?;
        }
        if let Some(after) = self.retry_after {
            write!(f, "; it asks to wait {after:?}")?;
        }
        for (position, challenge) in self.challenges().enumerate() {
            f.write_str(if position == 0 { "; its challenge is " } else { ", " })?;
            write!(f, "{challenge}")?;
        }
        Ok(())
    }
}

impl Refusal {
    /// The first four challenges for display to a person, each escaped and cut after 300 characters. A challenge states
    /// how to get credentials.
    pub fn challenges(&self) -> impl Iterator<Item = Excerpt> + '_ {
        let read = |value: &HeaderValue| Excerpt::new(&String::from_utf8_lossy(value.as_bytes()), CHALLENGE_CHARS);
        self.challenges.iter().take(SHOWN_CHALLENGES).map(read)
    }
}

/// The most challenges that an error shows.
const SHOWN_CHALLENGES: usize = 4;
/// The most characters of each.
const CHALLENGE_CHARS: usize = 300;

/// Shows only the number of challenges, because a server may put a token or a user name into one.
impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("status", &self.status)
            .field("body", &self.body)
            .field("retry_after", &self.retry_after)
            .field("challenges", &self.challenges.len())
            .field("explanation", &self.explanation)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_how_to_get_credentials() {
        let refusal = |challenges: &[&'static str]| Refusal {
            status: StatusCode::UNAUTHORIZED,
            body: BodyKind::Empty,
            retry_after: Some(Duration::from_secs(2)),
            challenges: challenges.iter().copied().map(HeaderValue::from_static).collect(),
            explanation: None,
        };
        let text = "401 Unauthorized; it requires credentials, or other ones; it asks to wait 2s";
        assert_eq!(refusal(&[]).to_string(), text);
        let shown = format!("{text}; its challenge is Basic, Bearer a=\"b\", c, d");
        assert_eq!(refusal(&["Basic", "Bearer a=\"b\"", "c", "d", "e"]).to_string(), shown);
    }

    #[test]
    fn the_path_is_doubted_unless_the_explanation_is_about_a_session() {
        for (explanation, expected) in [
            (None, "404 Not Found with JSON; is the path right?"),
            (Some("Not Found"), "404 Not Found with JSON; is the path right?; its explanation is \"Not Found\""),
            (Some("Unknown Session"), "404 Not Found; its explanation is \"Unknown Session\""),
        ] {
            let refusal = Refusal {
                status: StatusCode::NOT_FOUND,
                body: BodyKind::Json,
                retry_after: None,
                challenges: Vec::new(),
                explanation: explanation.map(|text| Excerpt::new(text, 300)),
            };
            assert_eq!(refusal.to_string(), expected);
        }
    }
}
