//! The authenticated sender of a request.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::json::Json;

/// The authenticated sender of a request. Sessions belong to the principal that opened them.
///
/// Two principals are equal if their names are equal: the rest is what one request, such as its token, states about
/// its sender. Its `Debug` form contains nothing of it.
///
/// # Example
///
/// ```
/// use mcp_proto::server::Principal;
///
/// let reader = Principal::new("https://auth.example.com ada").with_subject("ada").with_scopes("files:read");
/// assert!(reader.has_scope("files:read") && !reader.has_scope("files:write"));
/// let writer = Principal::new("https://auth.example.com ada").with_scopes("files:read files:write");
/// assert_eq!(reader, writer);
/// ```
///
/// Rules: SE-02.
#[derive(Clone)]
pub struct Principal(Arc<Facts>);

/// What is known about a principal.
#[derive(Clone)]
struct Facts {
    name: Box<str>,
    subject: Option<Box<str>>,
    /// Separated by spaces.
    scopes: Box<str>,
    claims: Option<Json>,
}

impl Principal {
    /// Creates a principal with this name, which identifies it among all senders: if there are several issuers, the
    /// name contains the issuer and the subject. `as_str` returns it; `subject` returns what [`Principal::with_subject`] adds.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Arc::new(Facts { name: name.into(), subject: None, scopes: Box::default(), claims: None }))
    }

    /// Adds the subject, such as the claim `sub` of a token.
    #[must_use]
    pub fn with_subject(mut self, subject: &str) -> Self {
        Arc::make_mut(&mut self.0).subject = Some(subject.into());
        self
    }

    /// Sets the granted scopes, separated by spaces as in the claim `scope` (RFC 6749, section 3.3).
    #[must_use]
    pub fn with_scopes(mut self, scopes: &str) -> Self {
        Arc::make_mut(&mut self.0).scopes = scopes.into();
        self
    }

    /// Adds all claims of the token.
    #[must_use]
    pub fn with_claims(mut self, claims: Json) -> Self {
        Arc::make_mut(&mut self.0).claims = Some(claims);
        self
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.name
    }

    /// The subject, if it was set.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    /// The granted scopes.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.0.scopes.split(' ').filter(|scope| !scope.is_empty())
    }

    /// Whether this scope was granted. Scopes are case-sensitive.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes().any(|granted| granted == scope)
    }

    /// All claims, if they were set.
    #[must_use]
    pub fn claims(&self) -> Option<&Json> {
        self.0.claims.as_ref()
    }
}

/// The same as [`Principal::new`].
impl From<&str> for Principal {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Principal {}

impl PartialOrd for Principal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Principal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

/// Does not show the name.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Principal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(name: &str) -> Principal {
        Principal::new(name).with_subject("s").with_scopes(" a  b ").with_claims(Json::empty_object())
    }

    #[test]
    fn se_02_only_the_name_of_a_principal_decides_who_it_is() {
        for (one, other, expected) in [
            (Principal::new("a"), full("a"), Ordering::Equal),
            (full("a"), full("b"), Ordering::Less),
            (full("b"), Principal::new("a"), Ordering::Greater),
        ] {
            assert_eq!((one == other, one.cmp(&other)), (expected.is_eq(), expected));
        }
    }

    #[test]
    fn a_scope_is_granted_only_as_a_whole() {
        let principal = full("a");
        assert_eq!(principal.scopes().collect::<Vec<_>>(), ["a", "b"]);
        for (scope, expected) in [("a", true), ("b", true), ("A", false), ("", false), ("a b", false), (" ", false)] {
            assert_eq!(principal.has_scope(scope), expected, "{scope:?}");
        }
        assert!(!Principal::new("a").has_scope("a"));
    }

    #[test]
    fn what_was_set_can_be_read_and_is_not_shown() {
        let principal = full("n");
        assert_eq!((principal.as_str(), principal.subject()), ("n", Some("s")));
        assert_eq!(principal.claims(), Some(&Json::empty_object()));
        assert_eq!(format!("{principal:?}"), "Principal");
    }
}
