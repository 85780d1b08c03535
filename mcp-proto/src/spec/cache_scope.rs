//! Who may use a cached result.

/// Who may use a cached result (MD-K-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CacheScope {
    /// Only the client that sent the request.
    #[default]
    Private,
    /// All clients, because the result is the same for each.
    Public,
}

impl CacheScope {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}
