//! The metadata of a protected resource, as a server publishes them (RFC 9728).

use bytes::Bytes;
use serde::Serialize;

use crate::error::UsageError;
use crate::url::HttpUrl;

/// The well-known path of the metadata (RFC 9728, section 3).
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What a server publishes about itself, so that clients know where they can get a token for it.
///
/// # Example
///
/// ```
/// use mcp_proto::auth::ProtectedResource;
///
/// let resource = ProtectedResource::new("https://mcp.example.com/tools")?
///     .authorization_server("https://auth.example.com")?
///     .scope("tools:call")?;
/// assert_eq!(resource.path(), "/.well-known/oauth-protected-resource/tools");
/// assert_eq!(resource.metadata_url(), "https://mcp.example.com/.well-known/oauth-protected-resource/tools");
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
///
/// Rules: OA-Z-01.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProtectedResource {
    resource: Box<str>,
    authorization_servers: Vec<Box<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes_supported: Vec<Box<str>>,
    bearer_methods_supported: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_name: Option<Box<str>>,
    /// The path of the document.
    #[serde(skip)]
    path: Box<str>,
    #[serde(skip)]
    metadata_url: Box<str>,
}

impl ProtectedResource {
    /// The server with this URL, which is the one that its clients use. It is published byte for byte, because tokens
    /// are bound to this text.
    ///
    /// # Errors
    ///
    /// [`UsageError::Endpoint`] if it is not an absolute `http` or `https` URL without a fragment.
    pub fn new(resource: &str) -> Result<Self, UsageError> {
        let endpoint = HttpUrl::parse(resource).map_err(UsageError::Endpoint)?;
        // A lone slash after the host is not part of the path (RFC 9728, section 3.1).
        let own = if endpoint.path() == "/" { "" } else { endpoint.path() };
        let path = format!("{WELL_KNOWN}{own}");
        let query = endpoint.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Self {
            resource: resource.into(),
            authorization_servers: Vec::new(),
            scopes_supported: Vec::new(),
            bearer_methods_supported: ["header"],
            resource_name: None,
            metadata_url: format!("{}{path}{query}", endpoint.origin()).into(),
            path: path.into(),
        })
    }

    /// Adds an authorization server by its issuer, which is published byte for byte. At least one is needed; clients
    /// prefer the first.
    ///
    /// # Errors
    ///
    /// [`UsageError::AuthorizationServer`] if it is not an absolute `http` or `https` URL without a fragment.
    pub fn authorization_server(mut self, issuer: &str) -> Result<Self, UsageError> {
        HttpUrl::parse(issuer).map_err(UsageError::AuthorizationServer)?;
        self.authorization_servers.push(issuer.into());
        Ok(self)
    }

    /// Adds a scope that clients may request.
    ///
    /// # Errors
    ///
    /// [`UsageError::Scope`] if a token cannot have this scope, or if it is `offline_access`, which concerns only
    /// clients and authorization servers.
    ///
    /// Rules: OA-Z-01.
    pub fn scope(mut self, scope: &str) -> Result<Self, UsageError> {
        // The characters of RFC 6749, section 3.3.
        let is_text = !scope.is_empty() && scope.bytes().all(|byte| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~'));
        if !is_text || scope == "offline_access" {
            return Err(UsageError::Scope);
        }
        self.scopes_supported.push(scope.into());
        Ok(self)
    }

    /// Sets a name for people.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.resource_name = Some(name.into());
        self
    }

    /// The URL of the server, as it was given: the audience that its tokens must have.
    ///
    /// Rules: OA-Z-03.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The path at which the metadata are served: that of the resource, behind the well-known one.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The URL of the metadata, for the parameter `resource_metadata` of challenges.
    #[must_use]
    pub fn metadata_url(&self) -> &str {
        &self.metadata_url
    }

    /// The metadata as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> Bytes {
        // Writing texts as JSON cannot fail.
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// Checks whether the document is complete.
    pub(crate) fn check(&self) -> Result<(), UsageError> {
        if self.authorization_servers.is_empty() { Err(UsageError::NoAuthorizationServer) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::InvalidUrl;

    #[test]
    fn oa_z_01_the_path_of_a_resource_follows_the_well_known_path() {
        for (resource, path, url) in [
            ("https://h.example", "", "https://h.example{}"),
            ("https://h.example/", "", "https://h.example{}"),
            ("https://h.example/mcp", "/mcp", "https://h.example{}/mcp"),
            ("https://h.example/a/b/", "/a/b/", "https://h.example{}/a/b/"),
            ("http://[::1]:8080/mcp?tenant=1", "/mcp", "http://[::1]:8080{}/mcp?tenant=1"),
            ("https://h.example?tenant=1", "", "https://h.example{}?tenant=1"),
            ("HTTPS://H.example/ü", "/%C3%BC", "https://H.example{}/%C3%BC"),
        ] {
            let metadata = ProtectedResource::new(resource).unwrap();
            assert_eq!(metadata.path(), format!("{WELL_KNOWN}{path}"), "{resource}");
            assert_eq!(metadata.metadata_url(), url.replace("{}", WELL_KNOWN), "{resource}");
            assert_eq!(metadata.resource(), resource);
        }
    }

    #[test]
    fn oa_z_01_the_document_has_the_members_that_clients_read() {
        let resource = ProtectedResource::new("https://h.example/").unwrap();
        let resource = resource.authorization_server("https://a.example").unwrap();
        let document = r#"{"resource":"https://h.example/","authorization_servers":["https://a.example"],"bearer_methods_supported":["header"]}"#;
        assert_eq!(resource.to_json(), document);
        let resource = resource.authorization_server("https://b.example/t").unwrap().name("Tools \"é\"");
        let resource = resource.scope("a").unwrap().scope("b:c").unwrap();
        let document = r#"{"resource":"https://h.example/","authorization_servers":["https://a.example","https://b.example/t"],"scopes_supported":["a","b:c"],"bearer_methods_supported":["header"],"resource_name":"Tools \"é\""}"#;
        assert_eq!(resource.to_json(), document);
    }

    #[test]
    fn oa_z_01_what_no_client_could_use_is_refused() {
        let new = || ProtectedResource::new("https://h.example/mcp").unwrap();
        for (url, reason) in [
            ("h.example", InvalidUrl::NotHttp),
            ("https://h.example/#a", InvalidUrl::Fragment),
            ("", InvalidUrl::NotHttp),
        ] {
            assert_eq!(ProtectedResource::new(url), Err(UsageError::Endpoint(reason)), "{url}");
            assert_eq!(new().authorization_server(url), Err(UsageError::AuthorizationServer(reason)), "{url}");
        }
        for (scope, is_fine) in [
            ("!", true),
            ("a:b/c.d", true),
            ("#[]~", true),
            ("offline_access", false),
            ("", false),
            ("a b", false),
            ("a\"", false),
            ("a\\", false),
            ("é", false),
            ("\u{7f}", false),
        ] {
            assert_eq!(new().scope(scope).is_ok(), is_fine, "{scope}");
            assert!(is_fine || new().scope(scope) == Err(UsageError::Scope), "{scope}");
        }
    }

    #[test]
    fn oa_z_01_a_document_without_an_authorization_server_is_incomplete() {
        let resource = ProtectedResource::new("https://h.example").unwrap();
        assert_eq!(resource.check(), Err(UsageError::NoAuthorizationServer));
        assert_eq!(resource.authorization_server("https://a.example").unwrap().check(), Ok(()));
    }
}
