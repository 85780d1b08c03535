//! Metadata documents: of the resource (RFC 9728), and of its authorization server (RFC 8414, `OpenID` Connect
//! Discovery).
//!
//! This module states where documents are looked for, what they must contain, and how they are compared with the URLs
//! by which they were found.

use mcp_proto::Excerpt;
use mcp_proto::url::HttpUrl;
use serde::{Deserialize, Serialize};

use super::quirk::{Exceptions, ProviderQuirk, ResourceParameter};
use super::url::{Origin, SecureUrl, UrlRefused};

/// The characters of a text of a document that are shown.
const SHOWN: usize = 200;

const MISSING_ISSUER: &str = "; if the server is known to publish none, tolerate it (`--tolerate missing-issuer`)";
const UNLISTED_PKCE: &str = "; if the server is known to support it, tolerate it (`--tolerate unlisted-pkce`)";

/// Why a metadata document must not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMetadata {
    /// It is not a JSON object, or a member has the wrong type or occurs twice.
    #[error("is not a JSON object with the members that the standard demands")]
    NotMetadata,
    /// It is the metadata of another resource (RFC 9728, section 3.3).
    ///
    /// Rules: OA-P-04.
    #[error(
        "describes another resource: its `resource` is '{found}', and must be {expected} or a path above it; \
         if tokens for '{found}' are right for this server, configure the resource (`--resource`)"
    )]
    OtherResource {
        /// The URL of the server.
        expected: String,
        /// What the document names.
        found: Excerpt,
    },
    /// It is the metadata of another issuer (RFC 8414, section 3.3).
    ///
    /// Rules: OA-A-03.
    #[error(
        "describes another issuer: its `issuer` is '{found}', and must be exactly {expected}; \
         if both are the same server, tolerate it (`--tolerate other-issuer`)"
    )]
    OtherIssuer {
        /// The issuer, as the resource names it.
        expected: String,
        /// What the document names.
        found: Excerpt,
    },
    /// A URL in it is refused.
    #[error("contains an unusable URL: `{member}` {reason}")]
    Url {
        /// The member.
        member: &'static str,
        /// What is wrong with it.
        reason: UrlRefused,
    },
    /// A member that the flow needs is missing.
    #[error("lacks `{member}`{}", if *.member == "issuer" { MISSING_ISSUER } else { "" })]
    Lacks {
        /// The member.
        member: &'static str,
    },
    /// The server does not support S256 for PKCE.
    ///
    /// Rules: OA-A-04.
    #[error(
        "does not list S256 in `code_challenge_methods_supported`, without which a sign-in is not protected{}",
        if *.is_listed { "" } else { UNLISTED_PKCE }
    )]
    NoPkce {
        /// The document lists other methods.
        is_listed: bool,
    },
}

/// The metadata of a protected resource (RFC 9728, section 2).
///
/// # Example
///
/// ```
/// use mcp_auth::ResourceMetadata;
///
/// let document = br#"{"resource":"https://mcp.example","authorization_servers":["https://as.example/t"]}"#;
/// let metadata = ResourceMetadata::parse(document, "https://mcp.example/v1/mcp")?;
/// assert_eq!(metadata.resource(), "https://mcp.example", "as it was published");
/// assert_eq!(metadata.authorization_servers(), ["https://as.example/t"]);
/// assert!(ResourceMetadata::parse(document, "https://other.example/v1/mcp").is_err());
/// # Ok::<(), mcp_auth::InvalidMetadata>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ResourceMetadata {
    resource: String,
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
    dpop_bound_access_tokens_required: Option<bool>,
}

impl ResourceMetadata {
    /// The URLs at which the metadata of a server is looked for, in order: the one that a challenge named, relative to the
    /// server if it is not absolute, and the well-known ones.
    ///
    /// # Errors
    ///
    /// The server's URL, or the one that the challenge named, is refused.
    ///
    /// Rules: OA-P-01, OA-P-02.
    pub fn candidates(server: &str, named: Option<&str>) -> Result<Vec<String>, UrlRefused> {
        let server = HttpUrl::parse(server).map_err(UrlRefused::Invalid)?;
        let mut candidates = Vec::new();
        if let Some(named) = named {
            let (named, url) = match (HttpUrl::parse(named), server.same_origin(named)) {
                (Ok(url), _) => (named.to_owned(), url),
                (Err(_), Some(url)) => (url.to_uri().to_string(), url),
                (Err(reason), None) => return Err(UrlRefused::Invalid(reason)),
            };
            // A server that is used over plain HTTP may publish its metadata in the same place.
            if !url.is_https() && !url.is_loopback() && Origin::of(&url) != Origin::of(&server) {
                return Err(UrlRefused::Insecure);
            }
            candidates.push(named);
        }
        let origin = Origin::of(&server);
        let root = format!("{origin}/.well-known/oauth-protected-resource");
        let query = server.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = if server.path() == "/" { "" } else { server.path() };
        for url in [format!("{root}{path}{query}"), root] {
            if !candidates.contains(&url) {
                candidates.push(url);
            }
        }
        Ok(candidates)
    }

    /// Parses a document that was found for a server.
    ///
    /// # Errors
    ///
    /// The document is not the metadata of a resource ([`InvalidMetadata::NotMetadata`]), names no authorization
    /// server, or describes another resource.
    ///
    /// Rules: OA-P-03, OA-P-04.
    pub fn parse(document: &[u8], server: &str) -> Result<Self, InvalidMetadata> {
        Self::accept(document, server, &ResourceParameter::Published).map(|(metadata, _)| metadata)
    }

    /// Like [`ResourceMetadata::parse`], except for a configured resource. The document of another resource is then
    /// only a quirk, and tokens are requested for the configured resource, whatever the document names.
    pub(super) fn accept(
        document: &[u8],
        server: &str,
        resource: &ResourceParameter,
    ) -> Result<(Self, Option<ProviderQuirk>), InvalidMetadata> {
        let metadata: Self = parse(document)?;
        if metadata.authorization_servers.is_empty() {
            return Err(InvalidMetadata::NotMetadata);
        }
        let is_for_server = match (HttpUrl::parse(&metadata.resource), HttpUrl::parse(server)) {
            (Ok(own), Ok(server)) => {
                Origin::of(&own) == Origin::of(&server) && is_path_above(own.path(), server.path())
            }
            (Err(_), _) | (_, Err(_)) => false,
        };
        match resource {
            _ if is_for_server => Ok((metadata, None)),
            ResourceParameter::Fixed(_) => Ok((metadata, Some(ProviderQuirk::OtherResource))),
            ResourceParameter::Published | ResourceParameter::Omitted => Err(InvalidMetadata::OtherResource {
                expected: canonical_resource(server).unwrap_or_default(),
                found: Excerpt::new(&metadata.resource, SHOWN),
            }),
        }
    }

    /// The resource, byte for byte as it was published: the value of the parameter `resource`.
    ///
    /// Rules: OA-P-06, OA-Q-05.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The issuers of tokens for the resource; at least one.
    #[must_use]
    pub fn authorization_servers(&self) -> &[String] {
        &self.authorization_servers
    }

    /// The scopes that the resource knows; `None` if it lists none, which is something else than an empty list.
    #[must_use]
    pub fn scopes_supported(&self) -> Option<&[String]> {
        self.scopes_supported.as_deref()
    }

    /// Whether the resource accepts only tokens that are bound to a key (RFC 9449, section 5).
    #[must_use]
    pub fn requires_dpop(&self) -> bool {
        self.dpop_bound_access_tokens_required.unwrap_or_default()
    }
}

/// The metadata of an authorization server (RFC 8414, section 2).
///
/// # Example
///
/// ```
/// use mcp_auth::IssuerMetadata;
///
/// let issuer = "https://as.example/t";
/// let candidates = IssuerMetadata::candidates(issuer)?;
/// assert_eq!(candidates[0], "https://as.example/.well-known/oauth-authorization-server/t");
///
/// let document = br#"{"issuer":"https://as.example/t","token_endpoint":"https://as.example/token"}"#;
/// let metadata = IssuerMetadata::parse(document, Some(issuer))?;
/// assert_eq!(metadata.token_endpoint(), "https://as.example/token");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerMetadata {
    /// Empty only while it is read.
    #[serde(default)]
    issuer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorization_endpoint: Option<String>,
    /// Empty only while it is read.
    #[serde(default)]
    token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registration_endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device_authorization_endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scopes_supported: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grant_types_supported: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dpop_signing_alg_values_supported: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_id_metadata_document_supported: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorization_response_iss_parameter_supported: Option<bool>,
}

impl IssuerMetadata {
    /// The URLs at which the metadata of an issuer is looked for, in order.
    ///
    /// # Errors
    ///
    /// The issuer is no URL that a client may use.
    ///
    /// Rules: OA-A-01.
    pub fn candidates(issuer: &str) -> Result<Vec<String>, UrlRefused> {
        let url = SecureUrl::parse(issuer)?;
        let origin = Origin::of(url.endpoint());
        let path = url.endpoint().path().trim_end_matches('/');
        let mut candidates = vec![
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
        ];
        // The root documents belong to another issuer than one with a path.
        if !path.is_empty() {
            candidates.push(format!("{origin}{path}/.well-known/openid-configuration"));
        }
        Ok(candidates)
    }

    /// Parses a document that was found for `issuer`, or for a server without metadata of its own.
    ///
    /// # Errors
    ///
    /// The document is not the metadata of an issuer ([`InvalidMetadata::NotMetadata`]), or lacks its issuer or its
    /// token endpoint. Or its issuer is another one, compared as texts, or one of its URLs is refused.
    ///
    /// Rules: OA-L-01, OA-A-03, OA-A-06.
    pub fn parse(document: &[u8], issuer: Option<&str>) -> Result<Self, InvalidMetadata> {
        Self::accept(document, issuer, "", &Exceptions::default()).map(|(metadata, _)| metadata)
    }

    /// Like [`IssuerMetadata::parse`], with what is tolerated. A document without an issuer is taken as that of
    /// `found_for`.
    pub(super) fn accept(
        document: &[u8],
        issuer: Option<&str>,
        found_for: &str,
        exceptions: &Exceptions,
    ) -> Result<(Self, Option<ProviderQuirk>), InvalidMetadata> {
        let mut metadata: Self = parse(document)?;
        let mut quirk = None;
        match (metadata.issuer.is_empty(), metadata.token_endpoint.is_empty()) {
            (true, true) => return Err(InvalidMetadata::NotMetadata),
            (false, true) => return Err(InvalidMetadata::Lacks { member: "token_endpoint" }),
            (true, false) if !exceptions.missing_issuer => return Err(InvalidMetadata::Lacks { member: "issuer" }),
            (true, false) => {
                found_for.clone_into(&mut metadata.issuer);
                quirk = Some(ProviderQuirk::MissingIssuer);
            }
            (false, false) => {}
        }
        if let Some(expected) = issuer.filter(|expected| *expected != metadata.issuer) {
            if !exceptions.other_issuer {
                let found = Excerpt::new(&metadata.issuer, SHOWN);
                return Err(InvalidMetadata::OtherIssuer { expected: expected.to_owned(), found });
            }
            quirk = Some(ProviderQuirk::OtherIssuer);
        }
        metadata.check_urls()?;
        Ok((metadata, quirk))
    }

    /// The endpoints of a server without any metadata (2025-03-26; OA-L-02). `origin` is that of the server.
    pub(super) fn without_document(origin: &Origin) -> Result<Self, InvalidMetadata> {
        let metadata = Self {
            issuer: origin.to_string(),
            authorization_endpoint: Some(format!("{origin}/authorize")),
            token_endpoint: format!("{origin}/token"),
            registration_endpoint: Some(format!("{origin}/register")),
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            scopes_supported: None,
            grant_types_supported: None,
            token_endpoint_auth_methods_supported: None,
            token_endpoint_auth_signing_alg_values_supported: None,
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            dpop_signing_alg_values_supported: None,
            client_id_metadata_document_supported: None,
            authorization_response_iss_parameter_supported: None,
        };
        metadata.check_urls()?;
        Ok(metadata)
    }

    /// Refuses endpoints that are neither `https` nor on this machine, before any of them is used (OA-A-06).
    fn check_urls(&self) -> Result<(), InvalidMetadata> {
        let check = |member, url: Option<&str>| match url.map(SecureUrl::parse) {
            Some(Err(reason)) => Err(InvalidMetadata::Url { member, reason }),
            Some(Ok(_)) | None => Ok(()),
        };
        check("authorization_endpoint", self.authorization_endpoint.as_deref())?;
        check("token_endpoint", Some(&self.token_endpoint))?;
        check("registration_endpoint", self.registration_endpoint.as_deref())?;
        check("device_authorization_endpoint", self.device_authorization_endpoint.as_deref())?;
        check("revocation_endpoint", self.revocation_endpoint.as_deref())
    }

    /// The issuer, byte for byte as it was published.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Where a person signs in.
    #[must_use]
    pub fn authorization_endpoint(&self) -> Option<&str> {
        self.authorization_endpoint.as_deref()
    }

    /// Where tokens are requested.
    #[must_use]
    pub fn token_endpoint(&self) -> &str {
        &self.token_endpoint
    }

    /// Where clients are registered (RFC 7591).
    #[must_use]
    pub fn registration_endpoint(&self) -> Option<&str> {
        self.registration_endpoint.as_deref()
    }

    /// Where the device grant begins (RFC 8628).
    #[must_use]
    pub fn device_authorization_endpoint(&self) -> Option<&str> {
        self.device_authorization_endpoint.as_deref()
    }

    /// Where tokens are revoked (RFC 7009).
    #[must_use]
    pub fn revocation_endpoint(&self) -> Option<&str> {
        self.revocation_endpoint.as_deref()
    }

    /// Whether the server issues refresh tokens for a scope with this name, which must be requested.
    ///
    /// Rules: OA-Q-07.
    #[must_use]
    pub fn supports_scope(&self, scope: &str) -> bool {
        contains(self.scopes_supported.as_deref(), scope)
    }

    /// Whether a client authenticates at the token endpoint by this method. A server that lists none supports
    /// `client_secret_basic` only (RFC 8414, section 2).
    #[must_use]
    pub fn supports_client_authentication(&self, method: &str) -> bool {
        match &self.token_endpoint_auth_methods_supported {
            Some(methods) => methods.iter().any(|own| own == method),
            None => method == "client_secret_basic",
        }
    }

    /// Whether the server lists the methods by which clients authenticate.
    #[must_use]
    pub const fn lists_client_authentication(&self) -> bool {
        self.token_endpoint_auth_methods_supported.is_some()
    }

    /// Whether proofs may be signed by this algorithm (RFC 9449, section 5.1).
    #[must_use]
    pub fn supports_dpop(&self, algorithm: &str) -> bool {
        contains(self.dpop_signing_alg_values_supported.as_deref(), algorithm)
    }

    /// Whether a client may use the URL of its metadata as its id.
    ///
    /// Rules: OA-R-01.
    #[must_use]
    pub fn supports_client_id_metadata(&self) -> bool {
        self.client_id_metadata_document_supported.unwrap_or_default()
    }

    /// Whether responses of the authorization endpoint name the issuer (RFC 9207, section 3).
    #[must_use]
    pub fn names_issuer_in_responses(&self) -> bool {
        self.authorization_response_iss_parameter_supported.unwrap_or_default()
    }

    /// Checks that a sign-in is protected by PKCE with S256 (OA-A-04). `absent_is_fine` accepts servers that list no
    /// method.
    pub(super) fn check_pkce(&self, absent_is_fine: bool) -> Result<(), InvalidMetadata> {
        let supported = match &self.code_challenge_methods_supported {
            Some(methods) => methods.iter().any(|method| method == "S256"),
            None => absent_is_fine,
        };
        let is_listed = self.code_challenge_methods_supported.is_some();
        if supported { Ok(()) } else { Err(InvalidMetadata::NoPkce { is_listed }) }
    }
}

/// The URL of a server as the value of the parameter `resource`, if the server publishes none: without query and
/// fragment, default port, and the slash of an empty path (OA-Q-05).
pub(super) fn canonical_resource(server: &str) -> Option<String> {
    let endpoint = HttpUrl::parse(server).ok()?;
    let path = if endpoint.path() == "/" { "" } else { endpoint.path() };
    Some(format!("{}{path}", Origin::of(&endpoint)))
}

/// Whether a path is `below`, or consists of its first segments. One final slash makes no difference (OA-P-04).
fn is_path_above(path: &str, below: &str) -> bool {
    let path = path.strip_suffix('/').unwrap_or(path);
    below.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn contains(list: Option<&[String]>, value: &str) -> bool {
    list.is_some_and(|list| list.iter().any(|own| own == value))
}

fn parse<T: for<'d> Deserialize<'d>>(document: &[u8]) -> Result<T, InvalidMetadata> {
    // An array would be read as the members in their order.
    if document.trim_ascii_start().first() != Some(&b'{') {
        return Err(InvalidMetadata::NotMetadata);
    }
    serde_json::from_slice(document).map_err(|_| InvalidMetadata::NotMetadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_p_02_the_well_known_path_is_inserted_between_host_and_path() {
        for (server, named, expected) in [
            ("https://a.example", None, vec!["https://a.example/.well-known/oauth-protected-resource"]),
            ("https://A.example:443/", None, vec!["https://a.example/.well-known/oauth-protected-resource"]),
            (
                "https://a.example/v1/mcp?t=1",
                None,
                vec![
                    "https://a.example/.well-known/oauth-protected-resource/v1/mcp?t=1",
                    "https://a.example/.well-known/oauth-protected-resource",
                ],
            ),
            (
                "https://a.example/mcp",
                Some("https://b.example/x.json"),
                vec![
                    "https://b.example/x.json",
                    "https://a.example/.well-known/oauth-protected-resource/mcp",
                    "https://a.example/.well-known/oauth-protected-resource",
                ],
            ),
            (
                "http://10.0.0.1/",
                Some("http://10.0.0.1:80/x.json"),
                vec!["http://10.0.0.1:80/x.json", "http://10.0.0.1/.well-known/oauth-protected-resource"],
            ),
            (
                "https://a.example/",
                Some("/.well-known/oauth-protected-resource"),
                vec!["https://a.example/.well-known/oauth-protected-resource"],
            ),
            (
                "https://a.example",
                Some("/x?y=1"),
                vec!["https://a.example/x?y=1", "https://a.example/.well-known/oauth-protected-resource"],
            ),
        ] {
            assert_eq!(ResourceMetadata::candidates(server, named).unwrap(), expected, "{server}");
        }
        for named in ["http://a.example/x", "ftp://a.example/x", "javascript:alert(1)", "", "https://u@a.example/"] {
            assert!(ResourceMetadata::candidates("https://a.example/mcp", Some(named)).is_err(), "{named}");
        }
    }

    #[test]
    fn au3_oa_p_04_the_resource_is_the_server_or_a_path_above_it() {
        let server = "https://a.example/v1/mcp?key=1";
        for (resource, is_accepted) in [
            ("https://a.example/v1/mcp", true),
            ("https://A.EXAMPLE:443/v1/mcp", true),
            ("https://a.example/v1/mcp/", true),
            ("https://a.example/v1", true),
            ("https://a.example/v1/", true),
            ("https://a.example", true),
            ("https://a.example/v1/mc", false),
            ("https://a.example/v1/mcp/x", false),
            ("https://a.example/V1/mcp", false),
            ("http://a.example/v1/mcp", false),
            ("https://a.example:8443/v1/mcp", false),
            ("https://b.a.example/v1/mcp", false),
            ("a.example", false),
            ("", false),
        ] {
            let document = format!(r#"{{"resource":"{resource}","authorization_servers":["https://as.example"]}}"#);
            let parsed = ResourceMetadata::parse(document.as_bytes(), server);
            assert_eq!(parsed.is_ok(), is_accepted, "{resource}");
            if let Err(error) = parsed {
                let found = Excerpt::new(resource, SHOWN);
                let expected = InvalidMetadata::OtherResource { expected: "https://a.example/v1/mcp".into(), found };
                assert_eq!(error, expected, "{resource}");
                let fixed = ResourceParameter::Fixed("api://x".to_owned());
                let accepted = ResourceMetadata::accept(document.as_bytes(), server, &fixed);
                assert!(accepted.is_ok_and(|(_, quirk)| quirk == Some(ProviderQuirk::OtherResource)), "{resource}");
                let omitted = ResourceMetadata::accept(document.as_bytes(), server, &ResourceParameter::Omitted);
                assert_eq!(omitted, Err(expected), "{resource}");
            }
        }
    }

    #[test]
    fn au2_oa_p_03_a_document_counts_only_with_a_resource_and_an_authorization_server() {
        for document in [
            "",
            "<!doctype html>",
            "null",
            r#"["https://a.example",["https://as.example"],null,null]"#,
            "{}",
            r#"{"resource":"https://a.example"}"#,
            r#"{"resource":"https://a.example","authorization_servers":[]}"#,
            r#"{"resource":"https://a.example","authorization_servers":"https://as.example"}"#,
            r#"{"resource":"https://a.example","authorization_servers":[1]}"#,
            r#"{"resource":1,"authorization_servers":["https://as.example"]}"#,
            r#"{"resource":"https://a.example","resource":"https://b.example","authorization_servers":["https://c.example"]}"#,
        ] {
            let parsed = ResourceMetadata::parse(document.as_bytes(), "https://a.example");
            assert_eq!(parsed, Err(InvalidMetadata::NotMetadata), "{document}");
        }
    }

    #[test]
    fn oa_a_01_metadata_of_an_issuer_with_a_path_is_never_looked_for_at_the_root() {
        for (issuer, expected) in [
            (
                "https://as.example",
                vec!["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"],
            ),
            (
                "https://as.example/",
                vec!["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"],
            ),
            (
                "https://as.example/t/u",
                vec![
                    "/.well-known/oauth-authorization-server/t/u",
                    "/.well-known/openid-configuration/t/u",
                    "/t/u/.well-known/openid-configuration",
                ],
            ),
        ] {
            let expected: Vec<_> = expected.iter().map(|path| format!("https://as.example{path}")).collect();
            assert_eq!(IssuerMetadata::candidates(issuer).unwrap(), expected, "{issuer}");
        }
        assert_eq!(IssuerMetadata::candidates("http://as.example"), Err(UrlRefused::Insecure));
        assert!(IssuerMetadata::candidates("http://localhost:1/t").is_ok());
    }

    #[test]
    fn au4_oa_a_03_issuers_are_compared_as_texts() {
        let document = br#"{"issuer":"https://as.example","token_endpoint":"https://as.example/token"}"#;
        for (expected, is_accepted) in [
            (Some("https://as.example"), true),
            (None, true),
            (Some("https://as.example/"), false),
            (Some("https://AS.example"), false),
            (Some("https://as.example:443"), false),
        ] {
            assert_eq!(IssuerMetadata::parse(document, expected).is_ok(), is_accepted, "{expected:?}");
        }
    }

    #[test]
    fn a_document_that_lacks_its_issuer_or_its_token_endpoint_is_told_from_one_that_is_no_metadata() {
        use InvalidMetadata::{Lacks, NotMetadata};
        let url = r#""token_endpoint":"https://as.example/token""#;
        for (members, expected) in [
            (url, Err(Lacks { member: "issuer" })),
            (&format!(r#"{url},"issuer":"""#), Err(Lacks { member: "issuer" })),
            (r#""issuer":"https://as.example""#, Err(Lacks { member: "token_endpoint" })),
            (r#""error":"not_found""#, Err(NotMetadata)),
            ("", Err(NotMetadata)),
        ] {
            let document = format!("{{{members}}}");
            let parsed = IssuerMetadata::parse(document.as_bytes(), Some("https://as.example"));
            assert_eq!(parsed.map(|_| ()), expected, "{members}");
            let exceptions = Exceptions { missing_issuer: true, ..Exceptions::default() };
            let accepted = IssuerMetadata::accept(
                document.as_bytes(),
                Some("https://as.example"),
                "https://as.example",
                &exceptions,
            );
            let accepted = accepted.map(|(metadata, quirk)| (metadata.issuer, quirk));
            let named = ("https://as.example".to_owned(), Some(ProviderQuirk::MissingIssuer));
            let is_missing = expected == Err(Lacks { member: "issuer" });
            assert_eq!(accepted, if is_missing { Ok(named) } else { expected.map(|()| unreachable!()) }, "{members}");
        }
    }

    #[test]
    fn au5_oa_a_06_a_document_with_an_insecure_endpoint_is_refused() {
        for member in [
            "authorization_endpoint",
            "token_endpoint",
            "registration_endpoint",
            "device_authorization_endpoint",
            "revocation_endpoint",
        ] {
            for (url, is_accepted) in [
                ("https://as.example/x", true),
                ("http://127.0.0.1:9/x", true),
                ("http://as.example/x", false),
                ("javascript:alert(1)", false),
                ("https://as.example/$(calc)\\n", false),
                ("https://as.example\\\\@evil.example/", false),
            ] {
                let token =
                    if member == "token_endpoint" { "" } else { r#","token_endpoint":"https://as.example/token""# };
                let document = format!(r#"{{"issuer":"https://as.example","{member}":"{url}"{token}}}"#);
                let parsed = IssuerMetadata::parse(document.as_bytes(), None);
                assert_eq!(parsed.is_ok(), is_accepted, "{document}");
            }
        }
    }

    #[test]
    fn au8_oa_a_04_pkce_with_s256_is_required() {
        for (methods, strict, tolerant) in [
            ("", false, true),
            (r#","code_challenge_methods_supported":["plain"]"#, false, false),
            (r#","code_challenge_methods_supported":["plain","S256"]"#, true, true),
        ] {
            let document = format!(r#"{{"issuer":"i","token_endpoint":"https://as.example/token"{methods}}}"#);
            let metadata = IssuerMetadata::parse(document.as_bytes(), None).unwrap();
            assert_eq!((metadata.check_pkce(false).is_ok(), metadata.check_pkce(true).is_ok()), (strict, tolerant));
        }
    }

    #[test]
    fn oa_q_05_the_canonical_resource_has_no_slash_query_or_default_port_of_its_own() {
        for (server, expected) in [
            ("HTTPS://A.Example:443/", "https://a.example"),
            ("https://a.example:8443/Mcp/?k=1", "https://a.example:8443/Mcp/"),
            ("http://localhost:80/mcp", "http://localhost/mcp"),
        ] {
            assert_eq!(canonical_resource(server).as_deref(), Some(expected));
        }
    }
}
