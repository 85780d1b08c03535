//! What an application has found out about the sender of an HTTP request.

use http::Extensions;
use mcp_proto::server::Principal;

/// The sender of an HTTP request, as the function that authenticates requests has found out: the principal, and any
/// values that handlers receive by [`IncomingRequest::extensions`](super::IncomingRequest::extensions).
///
/// A [`Principal`] or an `Option<Principal>` becomes an `Authenticated` without such values.
///
/// # Example
///
/// ```
/// use mcp_application::Authenticated;
/// use mcp_proto::server::Principal;
///
/// #[derive(Debug, Clone, PartialEq)]
/// struct Tenant(u32);
///
/// let found = Authenticated::from(Principal::new("ada")).extension(Tenant(7));
/// let (principal, extensions) = found.into_parts();
/// assert_eq!(principal, Some(Principal::new("ada")));
/// assert_eq!(extensions.get(), Some(&Tenant(7)));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Authenticated {
    principal: Option<Principal>,
    extensions: Extensions,
}

impl Authenticated {
    /// A request of an unknown sender.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value, which replaces an earlier one of its type.
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// The principal and the values.
    #[must_use]
    pub fn into_parts(self) -> (Option<Principal>, Extensions) {
        (self.principal, self.extensions)
    }
}

impl From<Option<Principal>> for Authenticated {
    fn from(principal: Option<Principal>) -> Self {
        Self { principal, extensions: Extensions::new() }
    }
}

impl From<Principal> for Authenticated {
    fn from(principal: Principal) -> Self {
        Some(principal).into()
    }
}
