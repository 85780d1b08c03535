//! Which resource a token is requested for.

/// The parameter `resource` of requests to the authorization server (OA-Q-05, OA-Q-06).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ResourceParameter {
    /// The resource that the server publishes, or else the server's URL.
    #[default]
    Published,
    /// Omitted, for authorization servers that refuse it.
    Omitted,
    /// This value, for authorization servers that know the server by another name.
    Fixed(String),
}
