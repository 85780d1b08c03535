//! The authenticated sender of a request.

use std::fmt;

/// The authenticated sender of a request. Sessions belong to the principal that opened them (SE-02).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Principal(Box<str>);

impl Principal {
    /// Creates a principal with this name, such as an issuer and a subject.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Does not show the name.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Principal")
    }
}
