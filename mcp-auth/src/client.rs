//! Who the client is at an authorization server: its id, and how it authenticates (OA-R-01 to OA-R-06, OA-K-02).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use mcp_proto::auth::{ClientKey, Secret};
use serde::{Deserialize, Serialize};

use super::form::{Form, encode_component};
use super::metadata::IssuerMetadata;
use super::url::SecureUrl;

/// How a client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClientAuthentication {
    /// Its id and secret in the header `Authorization` (RFC 6749, section 2.3.1).
    ClientSecretBasic,
    /// Its id and secret in the body.
    ClientSecretPost,
    /// A signed assertion (RFC 7523, section 2.2).
    PrivateKeyJwt,
    /// Its id alone.
    None,
}

impl ClientAuthentication {
    /// The name in metadata (RFC 7591, section 2).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
            Self::None => "none",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::ClientSecretBasic, Self::ClientSecretPost, Self::PrivateKeyJwt, Self::None]
            .into_iter()
            .find(|method| method.as_str() == name)
    }

    const fn needs_secret(self) -> bool {
        matches!(self, Self::ClientSecretBasic | Self::ClientSecretPost)
    }

    /// The method that a server supports (OA-K-02).
    pub(super) fn choose(metadata: &IssuerMetadata, has_secret: bool, has_key: bool) -> Self {
        if has_key {
            Self::PrivateKeyJwt
        } else if !has_secret {
            Self::None
        } else if metadata.supports_client_authentication(Self::ClientSecretBasic.as_str()) {
            Self::ClientSecretBasic
        } else {
            Self::ClientSecretPost
        }
    }
}

/// A client id that an authorization server knows, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientIdentity {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<Secret>,
    /// Seconds since 1970 after which the secret is of no use; `None` if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret_expires_at: Option<u64>,
    /// `None` if it follows from the metadata of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) authentication: Option<ClientAuthentication>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<ClientKey>,
}

impl ClientIdentity {
    /// A client without a secret.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), secret: None, secret_expires_at: None, authentication: None, key: None }
    }

    /// Adds a secret.
    #[must_use]
    pub fn with_secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Adds a key, with which the driver signs assertions of the client.
    ///
    /// Rules: OA-X-03.
    #[must_use]
    pub fn with_key(mut self, key: ClientKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Fixes the method of authentication, which otherwise follows from the metadata of the server.
    #[must_use]
    pub const fn with_authentication(mut self, method: ClientAuthentication) -> Self {
        self.authentication = Some(method);
        self
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn is_expired(&self, unix: u64) -> bool {
        self.secret_expires_at.is_some_and(|expiry| expiry <= unix)
    }

    pub(super) const fn key(&self) -> Option<&ClientKey> {
        self.key.as_ref()
    }

    pub(super) fn authentication(&self, metadata: &IssuerMetadata) -> ClientAuthentication {
        let (has_secret, has_key) = (self.secret.is_some(), self.key.is_some());
        self.authentication.unwrap_or_else(|| ClientAuthentication::choose(metadata, has_secret, has_key))
    }

    /// The method at a server whose metadata is not known.
    pub(super) fn own_authentication(&self) -> ClientAuthentication {
        self.authentication.unwrap_or(match (&self.key, &self.secret) {
            (Some(_), _) => ClientAuthentication::PrivateKeyJwt,
            (None, Some(_)) => ClientAuthentication::ClientSecretBasic,
            (None, None) => ClientAuthentication::None,
        })
    }

    /// Adds the client's authentication to a request. The assertion of `private_key_jwt` is added by the caller.
    pub(super) fn authenticate(&self, method: ClientAuthentication, form: &mut Form) -> Option<HeaderValue> {
        let secret = self.secret.as_ref().map(Secret::reveal).unwrap_or_default();
        match method {
            ClientAuthentication::ClientSecretBasic => {
                // Both are form-encoded first (RFC 6749, section 2.3.1).
                let pair = format!("{}:{}", encode_component(&self.id), encode_component(secret));
                let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
                value.set_sensitive(true);
                // Some servers look the client up by the id in the body before they read the header.
                form.add("client_id", &self.id);
                return Some(value);
            }
            ClientAuthentication::ClientSecretPost => {
                form.add("client_id", &self.id);
                form.add("client_secret", secret);
            }
            ClientAuthentication::PrivateKeyJwt => {}
            ClientAuthentication::None => form.add("client_id", &self.id),
        }
        None
    }
}

/// What a client states about itself when it registers (RFC 7591, section 2).
#[derive(Debug, Clone, Serialize)]
pub(super) struct Registration<'r> {
    pub(super) client_name: &'r str,
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    pub(super) redirect_uris: &'r [&'r str],
    pub(super) grant_types: &'r [&'r str],
    /// An empty list is stated, too: without this member, a server assumes `code`, and then demands redirect URIs.
    pub(super) response_types: &'r [&'r str],
    pub(super) token_endpoint_auth_method: &'r str,
    /// A program on the user's machine (OA-R-03).
    pub(super) application_type: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scope: Option<&'r str>,
}

/// The response to a registration (RFC 7591, section 3.2.1).
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<Secret>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

/// Why a registration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRegistration {
    /// The response is not that of RFC 7591.
    #[error("the response contains no `client_id`")]
    NotRegistered,
    /// The client cannot authenticate by the method that the server chose.
    ///
    /// Rules: OA-R-04.
    #[error("the server demands a method of client authentication that this client cannot use with what it was given")]
    Unusable,
}

impl ClientIdentity {
    /// Parses the response to a registration. The method of authentication that it names wins over the requested one
    /// (OA-R-04).
    pub(super) fn parse_registered(body: &[u8]) -> Result<Self, InvalidRegistration> {
        let registered: Registered = serde_json::from_slice(body).map_err(|_| InvalidRegistration::NotRegistered)?;
        if registered.client_id.is_empty() {
            return Err(InvalidRegistration::NotRegistered);
        }
        let authentication = match registered.token_endpoint_auth_method.as_deref().map(ClientAuthentication::from_name)
        {
            None => None,
            Some(None | Some(ClientAuthentication::PrivateKeyJwt)) => return Err(InvalidRegistration::Unusable),
            Some(Some(method)) => Some(method),
        };
        let secret = registered.client_secret.filter(|secret| !secret.reveal().is_empty());
        if secret.is_none() && authentication.is_some_and(ClientAuthentication::needs_secret) {
            return Err(InvalidRegistration::Unusable);
        }
        Ok(Self {
            id: registered.client_id,
            secret,
            // 0 means never (RFC 7591, section 3.2.1).
            secret_expires_at: registered.client_secret_expires_at.filter(|expiry| *expiry != 0),
            authentication,
            key: None,
        })
    }
}

/// Whether a URL can be the id of a client: `https`, with a path, and without `.` and `..` (OA-R-02).
pub(super) fn is_client_id_metadata_url(url: &str) -> bool {
    let Ok(url) = SecureUrl::parse(url) else { return false };
    let path = url.endpoint().path();
    url.endpoint().is_https() && path != "/" && !path.split('/').any(|segment| matches!(segment, "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(methods: &str) -> IssuerMetadata {
        let document = format!(r#"{{"issuer":"i","token_endpoint":"https://as.example/token"{methods}}}"#);
        IssuerMetadata::parse(document.as_bytes(), None).unwrap()
    }

    #[test]
    fn oa_k_02_the_method_follows_from_what_the_server_lists_and_the_client_has() {
        use ClientAuthentication as Method;
        let listed = |methods: &str| format!(r#","token_endpoint_auth_methods_supported":[{methods}]"#);
        for (methods, has_secret, has_key, expected) in [
            (String::new(), true, false, Method::ClientSecretBasic),
            (String::new(), false, false, Method::None),
            (listed(r#""client_secret_post","client_secret_basic""#), true, false, Method::ClientSecretBasic),
            (listed(r#""client_secret_post""#), true, false, Method::ClientSecretPost),
            (listed(r#""client_secret_post""#), false, false, Method::None),
            (listed(r#""private_key_jwt""#), false, true, Method::PrivateKeyJwt),
        ] {
            let chosen = ClientAuthentication::choose(&metadata(&methods), has_secret, has_key);
            assert_eq!(chosen, expected, "{methods} {has_secret} {has_key}");
        }
    }

    #[test]
    fn oa_k_02_id_and_secret_are_encoded_as_the_method_demands() {
        let client = ClientIdentity::new("a:b c").with_secret("p&ä".into());
        for (method, header, body) in [
            (ClientAuthentication::ClientSecretBasic, Some("Basic YSUzQWIrYzpwJTI2JUMzJUE0"), "client_id=a%3Ab+c"),
            (ClientAuthentication::ClientSecretPost, None, "client_id=a%3Ab+c&client_secret=p%26%C3%A4"),
            (ClientAuthentication::None, None, "client_id=a%3Ab+c"),
            (ClientAuthentication::PrivateKeyJwt, None, ""),
        ] {
            let mut form = Form::new();
            let value = client.authenticate(method, &mut form);
            assert_eq!(value.as_ref().map(|value| value.to_str().unwrap()), header, "{method:?}");
            assert!(value.is_none_or(|value| value.is_sensitive()));
            assert_eq!(form.finish(), body, "{method:?}");
        }
    }

    #[test]
    fn au16_oa_r_04_the_registered_method_wins_and_must_be_usable() {
        use InvalidRegistration::{NotRegistered, Unusable};
        for (body, expected) in [
            (r#"{"client_id":"a"}"#, Ok((false, None, None))),
            (r#"{"client_id":"a","client_secret":"b","client_secret_expires_at":0}"#, Ok((true, None, None))),
            (r#"{"client_id":"a","client_secret":"b","client_secret_expires_at":7}"#, Ok((true, Some(7), None))),
            (
                r#"{"client_id":"a","token_endpoint_auth_method":"none"}"#,
                Ok((false, None, Some(ClientAuthentication::None))),
            ),
            (r#"{"client_id":"a","token_endpoint_auth_method":"client_secret_basic"}"#, Err(Unusable)),
            (
                r#"{"client_id":"a","client_secret":"","token_endpoint_auth_method":"client_secret_post"}"#,
                Err(Unusable),
            ),
            (r#"{"client_id":"a","token_endpoint_auth_method":"tls_client_auth"}"#, Err(Unusable)),
            (r#"{"client_id":""}"#, Err(NotRegistered)),
            (r#"{"error":"invalid_redirect_uri"}"#, Err(NotRegistered)),
            ("<html>", Err(NotRegistered)),
        ] {
            let client = ClientIdentity::parse_registered(body.as_bytes());
            let found = client.map(|client| (client.secret.is_some(), client.secret_expires_at, client.authentication));
            assert_eq!(found, expected, "{body}");
        }
    }

    #[test]
    fn oa_r_02_a_client_id_that_is_a_url_has_a_plain_path() {
        for (url, expected) in [
            ("https://app.example/client.json", true),
            ("https://app.example/", false),
            ("https://app.example", false),
            ("http://localhost/client.json", false),
            ("https://app.example/a/../client.json", false),
            ("https://app.example/./client.json", false),
            ("https://u@app.example/client.json", false),
            ("https://app.example/client.json#x", false),
            ("my-client", false),
        ] {
            assert_eq!(is_client_id_metadata_url(url), expected, "{url}");
        }
    }
}
