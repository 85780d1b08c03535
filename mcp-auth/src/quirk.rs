//! Deviations from the rules, by authorization servers and by the servers that name them, and whether they are
//! accepted.
//!
//! Most deviations are accepted, because nothing is lost by that. The others cost safety, and are accepted only where a
//! person has said so, by [`Exceptions`](super::Exceptions). `docs/proxy.md` has the same table for people.

use std::fmt;

/// A deviation from the rules that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ProviderQuirk {
    /// The registration refuses a redirect URI with the host 127.0.0.1, and accepts `localhost` (RFC 8252, section 8.3).
    LocalhostRedirect,
    /// A type of token that can only be used as a bearer token, such as `user`.
    OtherTokenType,
    /// The response contains no type of the token (RFC 6749, section 5.1).
    NoTokenType,
    /// The token is in the member `authed_user`.
    TokenOfUser,
    /// The response of the token endpoint is a form, and no JSON.
    FormResponse,
    /// The browser returns with an error and without `state` (RFC 6749, section 4.1.2.1).
    ErrorWithoutState,
    /// A place of the resource's metadata answers with status 200 and something else.
    NoResourceDocument,
    /// The challenge names the resource's metadata by a relative URL (RFC 9728, section 5.1).
    RelativeMetadataUrl,
    /// The challenge names a place of the resource's metadata that has none, or that cannot be reached.
    NoMetadataAtUrl,
    /// A token that has expired, or was withdrawn, is refused with `insufficient_scope`.
    GrantedScopeRefused,
    /// The metadata names another resource than the server.
    ///
    /// Rules: OA-P-04.
    OtherResource,
    /// The metadata names another issuer than the server does.
    ///
    /// Rules: OA-A-03.
    OtherIssuer,
    /// The metadata names no issuer (RFC 8414, section 2).
    MissingIssuer,
    /// The metadata lists no methods of PKCE.
    ///
    /// Rules: OA-A-04.
    UnlistedPkce,
    /// A public server names authorization servers at private addresses.
    ///
    /// Rules: OA-N-02.
    PrivateAddresses,
}

/// When a [`ProviderQuirk`] is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acceptance {
    /// Always.
    Always,
    /// If the parameter `resource` is configured.
    WithResource,
    /// If the configuration tolerates it, under this name.
    Tolerated(&'static str),
}

impl ProviderQuirk {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::LocalhostRedirect,
        Self::OtherTokenType,
        Self::NoTokenType,
        Self::TokenOfUser,
        Self::FormResponse,
        Self::ErrorWithoutState,
        Self::NoResourceDocument,
        Self::RelativeMetadataUrl,
        Self::NoMetadataAtUrl,
        Self::GrantedScopeRefused,
        Self::OtherResource,
        Self::OtherIssuer,
        Self::MissingIssuer,
        Self::UnlistedPkce,
        Self::PrivateAddresses,
    ];

    /// When it is accepted.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_auth::{Acceptance, ProviderQuirk};
    ///
    /// assert_eq!(ProviderQuirk::NoTokenType.acceptance(), Acceptance::Always);
    /// assert_eq!(ProviderQuirk::OtherIssuer.acceptance(), Acceptance::Tolerated("other-issuer"));
    /// ```
    #[must_use]
    pub const fn acceptance(self) -> Acceptance {
        match self {
            Self::LocalhostRedirect
            | Self::OtherTokenType
            | Self::NoTokenType
            | Self::TokenOfUser
            | Self::FormResponse
            | Self::ErrorWithoutState
            | Self::NoResourceDocument
            | Self::RelativeMetadataUrl
            | Self::NoMetadataAtUrl
            | Self::GrantedScopeRefused => Acceptance::Always,
            Self::OtherResource => Acceptance::WithResource,
            Self::OtherIssuer => Acceptance::Tolerated("other-issuer"),
            Self::MissingIssuer => Acceptance::Tolerated("missing-issuer"),
            Self::UnlistedPkce => Acceptance::Tolerated("unlisted-pkce"),
            Self::PrivateAddresses => Acceptance::Tolerated("private-addresses"),
        }
    }

    /// The quirk that a configuration tolerates under this name.
    #[must_use]
    pub fn tolerated_as(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|quirk| quirk.tolerated_name() == Some(name))
    }

    /// The name under which a configuration tolerates it; `None` if it needs no such name.
    #[must_use]
    pub const fn tolerated_name(self) -> Option<&'static str> {
        match self.acceptance() {
            Acceptance::Tolerated(name) => Some(name),
            Acceptance::Always | Acceptance::WithResource => None,
        }
    }

    /// A sentence that describes the quirk, without its full stop.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::LocalhostRedirect => "the registration refuses redirect URIs with 127.0.0.1 and accepts localhost",
            Self::OtherTokenType => "the token has a type that can only be used as a bearer token",
            Self::NoTokenType => "the token has no type",
            Self::TokenOfUser => "the token is in the member `authed_user`",
            Self::FormResponse => "the response of the token endpoint is a form in place of JSON",
            Self::ErrorWithoutState => "the browser returns with an error that names no sign-in (`state`)",
            Self::NoResourceDocument => "a place of the resource's metadata answers with 200 and no metadata",
            Self::RelativeMetadataUrl => "the challenge names the resource's metadata by a relative URL",
            Self::NoMetadataAtUrl => "there are no metadata where the challenge names them",
            Self::GrantedScopeRefused => "a token is refused for scopes that it was granted",
            Self::OtherResource => "the metadata names another resource than the server",
            Self::OtherIssuer => "the metadata names another issuer than the server does",
            Self::MissingIssuer => "the metadata of the authorization server names no issuer",
            Self::UnlistedPkce => "the authorization server does not list its methods of PKCE",
            Self::PrivateAddresses => "a public server names authorization servers at private addresses",
        }
    }

    /// Where it was seen.
    #[must_use]
    pub const fn seen_at(self) -> &'static str {
        match self {
            Self::LocalhostRedirect => "Slack, Salesforce, RevenueCat, Apache Superset",
            Self::OtherTokenType => "Slack (`user`, `bot`), Apigee (`BearerToken`)",
            Self::NoTokenType | Self::MissingIssuer => "authorization servers of a server's own making",
            Self::TokenOfUser => "Slack",
            Self::FormResponse => "GitHub, and servers behind it",
            Self::ErrorWithoutState => "authorization servers that fail before they have read the request",
            Self::NoResourceDocument => "single-page applications, which answer every path with their start page",
            Self::RelativeMetadataUrl => "servers that do not know their public name",
            Self::NoMetadataAtUrl => "servers behind a proxy, which name their inner host",
            Self::GrantedScopeRefused => "servers that answer an expired token with 403",
            Self::OtherResource => "servers behind a proxy that ends TLS, which name themselves with `http://`",
            Self::OtherIssuer => {
                "Microsoft Entra ID with several tenants, servers that proxy their authorization server"
            }
            Self::UnlistedPkce => "Microsoft Entra ID",
            Self::PrivateAddresses => "public servers for the people of one network",
        }
    }

    /// What accepting it costs in safety.
    #[must_use]
    pub const fn cost(self) -> &'static str {
        match self {
            Self::LocalhostRedirect => {
                "a name server could lead `localhost` elsewhere; both loopback addresses are bound, and PKCE protects the code"
            }
            Self::OtherTokenType | Self::NoTokenType => {
                "nothing: only types that need no proof are accepted, and the token is sent to the server alone"
            }
            Self::TokenOfUser | Self::FormResponse => "nothing: the same token in another form",
            Self::ErrorWithoutState => "nothing: the error is shown, and does not end the sign-in",
            Self::NoResourceDocument | Self::NoMetadataAtUrl => {
                "nothing: what follows are the places that the rules name, on the server's own origin"
            }
            Self::RelativeMetadataUrl => "nothing: it is on the server's own origin",
            Self::GrantedScopeRefused => "one refresh for each token that is older than a minute",
            Self::OtherResource => {
                "the server may be an impostor; the tokens are for the resource that the person has configured"
            }
            Self::OtherIssuer => {
                "another authorization server may be asked than the one that the server names; responses of the browser \
                 are compared with the issuer of the document"
            }
            Self::MissingIssuer => {
                "the document may be meant for another place; its issuer is the one that the server names, with which \
                 responses of the browser are compared"
            }
            Self::UnlistedPkce => "a stolen code can be redeemed if the server ignores PKCE",
            Self::PrivateAddresses => "the server can send requests into the network of the person",
        }
    }
}

/// The description.
impl fmt::Display for ProviderQuirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description())
    }
}

/// Whether a type of token, which is not `bearer`, can only be used as a bearer token: nothing proves who presents it.
pub(super) fn is_bearer_by_another_name(token_type: &str) -> bool {
    ["user", "bot", "bearertoken"].iter().any(|name| token_type.eq_ignore_ascii_case(name))
}

/// The parameter `resource` of requests to the authorization server.
///
/// Rules: OA-Q-05, OA-Q-06.
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

/// What a sign-in accepts although the rules forbid it, because some authorization servers demand it. All are `false` by
/// default. [`ProviderQuirk`] has what each of them costs.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is tolerated for a reason of its own")]
pub struct Exceptions {
    /// A metadata document may have another issuer than the resource names.
    ///
    /// Rules: OA-A-03.
    pub other_issuer: bool,
    /// The metadata of an authorization server may name no issuer: the issuer is the one for which it was found.
    pub missing_issuer: bool,
    /// An authorization server need not list its methods of PKCE.
    ///
    /// Rules: OA-A-04.
    pub unlisted_pkce: bool,
    /// A server may name authorization servers with private addresses, although its own URL is not private.
    ///
    /// Rules: OA-N-02.
    pub private_addresses: bool,
}

impl Exceptions {
    /// Tolerates a quirk. One that needs no exception changes nothing.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_auth::{Exceptions, ProviderQuirk};
    ///
    /// let mut exceptions = Exceptions::default();
    /// exceptions.tolerate(ProviderQuirk::UnlistedPkce);
    /// assert!(exceptions.unlisted_pkce && !exceptions.other_issuer);
    /// ```
    pub const fn tolerate(&mut self, quirk: ProviderQuirk) {
        match quirk {
            ProviderQuirk::OtherIssuer => self.other_issuer = true,
            ProviderQuirk::MissingIssuer => self.missing_issuer = true,
            ProviderQuirk::UnlistedPkce => self.unlisted_pkce = true,
            ProviderQuirk::PrivateAddresses => self.private_addresses = true,
            ProviderQuirk::LocalhostRedirect
            | ProviderQuirk::OtherTokenType
            | ProviderQuirk::NoTokenType
            | ProviderQuirk::TokenOfUser
            | ProviderQuirk::FormResponse
            | ProviderQuirk::ErrorWithoutState
            | ProviderQuirk::NoResourceDocument
            | ProviderQuirk::RelativeMetadataUrl
            | ProviderQuirk::NoMetadataAtUrl
            | ProviderQuirk::GrantedScopeRefused
            | ProviderQuirk::OtherResource => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_that_need_no_proof_are_bearer_by_another_name() {
        for (token_type, expected) in [
            ("user", true),
            ("bot", true),
            ("BearerToken", true),
            ("USER", true),
            ("DPoP", false),
            ("mac", false),
            ("user2", false),
            ("", false),
        ] {
            assert_eq!(is_bearer_by_another_name(token_type), expected, "{token_type}");
        }
    }

    #[test]
    fn each_quirk_is_listed_once_with_all_that_a_person_must_know() {
        let mut names: Vec<_> = ProviderQuirk::ALL.into_iter().filter_map(ProviderQuirk::tolerated_name).collect();
        for name in &names {
            assert_eq!(ProviderQuirk::tolerated_as(name).and_then(ProviderQuirk::tolerated_name), Some(*name));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names, ["missing-issuer", "other-issuer", "private-addresses", "unlisted-pkce"]);
        assert_eq!(ProviderQuirk::tolerated_as(""), None);
        for (at, quirk) in ProviderQuirk::ALL.into_iter().enumerate() {
            assert!(!ProviderQuirk::ALL[..at].contains(&quirk), "{quirk:?}");
            assert!(![quirk.description(), quirk.seen_at(), quirk.cost()].contains(&""), "{quirk:?}");
        }
    }
}
