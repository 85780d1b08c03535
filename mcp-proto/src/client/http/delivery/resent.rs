//! How often a message is sent again because of challenges.

/// How often something was sent again because of challenges.
#[derive(Debug, Clone, Default)]
pub(in crate::client::http) struct Resent {
    credentials: u8,
    scope: u8,
    nonce: u8,
    /// The scopes that the last challenge demanded.
    pub(in crate::client::http) demanded: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client::http) enum Demand {
    /// Credentials, or other ones.
    Credentials,
    /// Credentials for more scopes.
    Scope,
    /// A proof with the nonce in this response.
    Nonce,
}

impl Resent {
    /// Counts one more time, unless the limit is reached (OA-T-04, OA-X-07).
    pub(in crate::client::http) const fn try_count(&mut self, demand: Demand) -> bool {
        let (count, limit) = match demand {
            Demand::Credentials => (&mut self.credentials, 1),
            Demand::Scope => (&mut self.scope, 2),
            Demand::Nonce => (&mut self.nonce, 2),
        };
        let is_allowed = *count < limit;
        if is_allowed {
            *count += 1;
        }
        is_allowed
    }
}
