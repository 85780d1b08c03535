//! What a sign-in stores: registrations and tokens, each bound to its issuer (OA-M-01).

use std::collections::BTreeSet;

use mcp_proto::auth::{ProofKey, Secret};
use serde::{Deserialize, Serialize};

use super::client::ClientIdentity;
use super::metadata::IssuerMetadata;
use super::token_response::TokenScheme;

/// The form of records that this version writes and reads.
const FORMAT: u32 = 1;

/// The number of registrations that are kept; the oldest is dropped.
const MAX_CLIENTS: usize = 8;

/// A token must be valid for this many more seconds, so that it still is when the request arrives.
const LEEWAY: u64 = 10;

/// All that is stored for one server and one account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    /// Counts the tokens that were stored: a process sees by it that another one has stored newer tokens.
    pub(super) serial: u64,
    #[serde(default)]
    clients: Vec<RegisteredClient>,
    /// The issuer at which the configured client was first of use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) registered_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<Tokens>,
}

/// A client that was registered by the flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RegisteredClient {
    issuer: String,
    redirect_uri: String,
    client: ClientIdentity,
    /// A person was sent to the issuer with it again, and has not come back so far. If the process has ended, the issuer
    /// may have shown an error, because it has forgotten the client.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_in_use: bool,
}

/// Tokens, and what is needed to refresh them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tokens {
    /// The metadata of the issuer: the token endpoint is never guessed (OA-F-01).
    pub(super) issuer: IssuerMetadata,
    pub(super) client: ClientIdentity,
    pub(super) access_token: Secret,
    pub(super) scheme: TokenScheme,
    /// Seconds since 1970.
    pub(super) issued_at: u64,
    /// Seconds since 1970, absolute (OA-K-03).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<Secret>,
    /// The parameter `resource` for which they were issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<String>,
    /// The requested scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) requested: Option<String>,
    /// The granted scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) granted: Option<String>,
    /// The key to which they are bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) proof_key: Option<ProofKey>,
}

impl Record {
    pub(super) const fn new() -> Self {
        Self { format: FORMAT, serial: 0, clients: Vec::new(), registered_at: None, tokens: None }
    }

    /// Reads a stored record. One that cannot be read counts as none, and is replaced.
    pub(super) fn parse(stored: &[u8]) -> Option<Self> {
        serde_json::from_slice(stored).ok().filter(|record: &Self| record.format == FORMAT)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Texts and numbers only, which can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The client that is registered at an issuer, and its redirect URI.
    pub(super) fn client(&self, issuer: &str, unix: u64) -> Option<(&ClientIdentity, &str)> {
        let own = self.clients.iter().rev().find(|own| own.issuer == issuer && !own.client.is_expired(unix))?;
        Some((&own.client, &own.redirect_uri))
    }

    /// Whether tokens or a client of an issuer are stored.
    pub(super) fn knows(&self, issuer: &str) -> bool {
        let has_tokens = self.tokens.as_ref().is_some_and(|tokens| tokens.issuer.issuer() == issuer);
        has_tokens || self.clients.iter().any(|own| own.issuer == issuer)
    }

    pub(super) fn add_client(&mut self, issuer: &str, redirect_uri: &str, client: ClientIdentity) {
        self.remove_client(issuer);
        if self.clients.len() >= MAX_CLIENTS {
            self.clients.remove(0);
        }
        self.clients.push(RegisteredClient {
            issuer: issuer.to_owned(),
            redirect_uri: redirect_uri.to_owned(),
            client,
            is_in_use: false,
        });
    }

    pub(super) fn forget_client(&mut self, id: &str) {
        self.clients.retain(|own| own.client.id() != id);
    }

    /// Whether no person has come back from the last sign-in with the client of an issuer.
    pub(super) fn is_in_use(&self, issuer: &str) -> bool {
        self.clients.iter().any(|own| own.issuer == issuer && own.is_in_use)
    }

    /// Notes whether a person is at the issuer of a client. Returns whether that is a change.
    pub(super) fn set_in_use(&mut self, id: &str, is_in_use: bool) -> bool {
        let client = self.clients.iter_mut().find(|own| own.client.id() == id && own.is_in_use != is_in_use);
        client.map(|client| client.is_in_use = is_in_use).is_some()
    }

    pub(super) fn remove_client(&mut self, issuer: &str) {
        self.clients.retain(|own| own.issuer != issuer);
    }

    /// Replaces the tokens, which get the next serial number.
    pub(super) fn set_tokens(&mut self, tokens: Tokens) {
        self.serial += 1;
        self.set_in_use(tokens.client.id(), false);
        self.tokens = Some(tokens);
    }
}

/// What a stored record contains, without its tokens and secrets.
///
/// # Example
///
/// ```
/// use mcp_auth::StoredSignIn;
///
/// assert!(StoredSignIn::parse(b"not a record").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSignIn {
    /// The issuer of the tokens.
    pub issuer: String,
    /// The id of the client to which they were issued.
    pub client_id: String,
    /// The parameter `resource` for which they were issued; `None` if there was none.
    pub resource: Option<String>,
    /// The granted scopes, separated by spaces; `None` if the authorization server named none.
    pub scope: Option<String>,
    /// When the access token expires, in seconds since 1970; `None` if that is not known.
    pub expires_at: Option<u64>,
    /// Whether there is a refresh token, so that an expired access token needs no other sign-in.
    pub can_refresh: bool,
}

impl StoredSignIn {
    /// Reads a stored record; `None` if it contains no tokens.
    #[must_use]
    pub fn parse(record: &[u8]) -> Option<Self> {
        let tokens = Record::parse(record)?.tokens?;
        Some(Self {
            issuer: tokens.issuer.issuer().to_owned(),
            client_id: tokens.client.id().to_owned(),
            resource: tokens.resource,
            scope: tokens.granted,
            expires_at: tokens.expires_at,
            can_refresh: tokens.refresh_token.is_some(),
        })
    }
}

impl Tokens {
    /// Whether the access token is valid long enough for a request that is sent now.
    pub(super) fn is_valid(&self, unix: u64) -> bool {
        self.expires_at.is_none_or(|expiry| {
            let lifetime = expiry.saturating_sub(self.issued_at);
            expiry.saturating_sub(unix) > LEEWAY.min(lifetime / 2)
        })
    }

    /// When the tokens should be refreshed: a minute before they expire, or a tenth of their lifetime if that is more
    /// (OA-F-02). `None` if they are not refreshed ahead of time.
    pub(super) fn refresh_at(&self) -> Option<u64> {
        let expiry = self.expires_at?;
        let lifetime = expiry.saturating_sub(self.issued_at);
        self.refresh_token.as_ref()?;
        (lifetime > 120).then(|| expiry - (lifetime / 10).max(60))
    }

    /// Whether all of these scopes, separated by spaces, were granted.
    pub(super) fn covers(&self, scope: &str) -> bool {
        contains(&[&self.granted], scope)
    }

    /// Whether all of these scopes were requested or granted.
    pub(super) fn was_for(&self, scope: &str) -> bool {
        contains(&[&self.requested, &self.granted], scope)
    }
}

/// Whether lists of scopes contain all of these.
fn contains(lists: &[&Option<String>], scope: &str) -> bool {
    let listed: BTreeSet<_> = lists.iter().copied().flatten().flat_map(|list| list.split_whitespace()).collect();
    scope.split_whitespace().all(|scope| listed.contains(scope))
}

/// The scopes of several lists, each once, in their order (OA-S-02).
pub(super) fn union<'s>(lists: impl IntoIterator<Item = Option<&'s str>>) -> Option<String> {
    let mut seen = BTreeSet::new();
    let scopes = lists.into_iter().flatten().flat_map(str::split_whitespace);
    let scopes: Vec<_> = scopes.filter(|scope| seen.insert(*scope)).collect();
    (!scopes.is_empty()).then(|| scopes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_of_the_newest_issuers_are_kept() {
        let mut record = Record::new();
        let issuers: Vec<_> = (0..MAX_CLIENTS + 2).map(|number| format!("https://{number}.example")).collect();
        for issuer in &issuers {
            record.add_client(issuer, "http://127.0.0.1:1/callback", ClientIdentity::new(issuer));
            record.add_client(issuer, "http://127.0.0.1:2/callback", ClientIdentity::new(issuer));
        }
        for (number, issuer) in issuers.iter().enumerate() {
            let redirect_uri = record.client(issuer, 0).map(|(_, redirect_uri)| redirect_uri);
            let expected = (number >= 2).then_some("http://127.0.0.1:2/callback");
            assert_eq!(redirect_uri, expected, "{issuer}");
            assert_eq!(record.knows(issuer), number >= 2);
        }
    }

    /// Tokens that were issued and expire at these times.
    fn issued_at(issued_at: u64, expires_at: Option<u64>) -> Tokens {
        let issuer = "https://as.example";
        let document = format!(r#"{{"issuer":"{issuer}","token_endpoint":"{issuer}/token"}}"#);
        Tokens {
            issuer: IssuerMetadata::parse(document.as_bytes(), Some(issuer)).unwrap(),
            client: ClientIdentity::new("c"),
            access_token: Secret::new("t".to_owned()),
            scheme: TokenScheme::Bearer,
            issued_at,
            expires_at,
            refresh_token: None,
            resource: None,
            requested: None,
            granted: None,
            proof_key: None,
        }
    }

    #[test]
    fn oa_f_02_a_token_is_not_used_in_the_last_seconds_of_its_lifetime() {
        let leeway = LEEWAY;
        for (lifetime, left, is_valid) in [
            (3600, leeway + 1, true),
            (3600, leeway, false),
            (3600, 0, false),
            // Of a short lifetime, it is the second half.
            (leeway, leeway / 2 + 1, true),
            (leeway, leeway / 2, false),
        ] {
            let tokens = issued_at(1_000_000, Some(1_000_000 + lifetime));
            assert_eq!(tokens.is_valid(1_000_000 + lifetime - left), is_valid, "{left} of {lifetime} s");
        }
        assert!(issued_at(1_000_000, None).is_valid(u64::MAX), "it does not expire as far as is known");
    }
}
