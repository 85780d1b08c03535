//! The configuration of a sign-in.

use std::fmt;
use std::fmt::Write;
use std::time::Duration;

use mcp_proto::UsageError;
use mcp_proto::url::HttpUrl;
use sha2::{Digest, Sha256};

use super::authorization::may_be_added;
use super::callback_host::{CallbackHost, is_callback_path};
use super::client::{ClientIdentity, is_client_id_metadata_url};
use super::quirk::{Exceptions, ResourceParameter};
use super::url::{Origin, SecureUrl};

/// How tokens are obtained.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Grant {
    /// A person signs in with a browser on this machine (authorization code with PKCE).
    #[default]
    AuthorizationCode,
    /// A person signs in on another device, with a code that is shown on this machine.
    ///
    /// Rules: OA-X-08.
    DeviceCode,
    /// The client signs in as itself, with its id and its secret or key.
    ///
    /// Rules: OA-X-01 to OA-X-03.
    ClientCredentials,
    /// The platform on which the client runs has issued an assertion, which the driver reads.
    ///
    /// Rules: OA-X-05.
    WorkloadIdentity,
    /// An identity provider vouches for a person who has signed in there: the driver reads the ID token.
    ///
    /// Rules: OA-X-04.
    EnterpriseManaged(IdentityProvider),
    /// Another program issues access tokens, which the driver reads. Nothing is discovered, and nothing stored.
    External,
}

/// The identity provider of enterprise-managed authorization, which exchanges ID tokens for assertions (RFC 8693).
///
/// # Example
///
/// ```
/// use mcp_auth::{ClientIdentity, Grant, IdentityProvider};
///
/// let client = ClientIdentity::new("id-at-the-provider");
/// let provider = IdentityProvider::new("https://idp.example", "https://idp.example/token", client)?;
/// assert!(matches!(Grant::EnterpriseManaged(provider), Grant::EnterpriseManaged(_)));
/// assert!(IdentityProvider::new("https://idp.example", "ftp://idp.example", ClientIdentity::new("a")).is_err());
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityProvider {
    issuer: String,
    token_endpoint: String,
    client: ClientIdentity,
    is_saml: bool,
}

impl IdentityProvider {
    /// A provider with its token endpoint, and the client as the provider knows it.
    ///
    /// # Errors
    ///
    /// [`UsageError::IdentityProvider`]: the endpoint is neither `https` nor on this machine.
    ///
    /// Rules: OA-A-06.
    pub fn new(issuer: &str, token_endpoint: &str, client: ClientIdentity) -> Result<Self, UsageError> {
        SecureUrl::parse(token_endpoint).map_err(|_| UsageError::IdentityProvider)?;
        Ok(Self { issuer: issuer.to_owned(), token_endpoint: token_endpoint.to_owned(), client, is_saml: false })
    }

    /// The driver reads SAML 2.0 assertions in place of ID tokens.
    #[must_use]
    pub const fn saml(mut self) -> Self {
        self.is_saml = true;
        self
    }

    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    pub(super) fn token_endpoint(&self) -> &str {
        &self.token_endpoint
    }

    pub(super) const fn client(&self) -> &ClientIdentity {
        &self.client
    }

    pub(super) const fn subject_token_type(&self) -> &'static str {
        if self.is_saml {
            "urn:ietf:params:oauth:token-type:saml2"
        } else {
            "urn:ietf:params:oauth:token-type:id_token"
        }
    }
}

/// When tokens are bound to a key (`DPoP`, RFC 9449).
///
/// Rules: OA-X-06.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Proofs {
    /// Never: a server that demands it refuses the tokens.
    Never,
    /// If the server demands it: its challenge is for `DPoP` alone, or the metadata of the resource states it.
    #[default]
    Demanded,
    /// Also if the authorization server only supports it.
    Supported,
}

/// What a sign-in needs to know.
///
/// # Example
///
/// ```
/// use mcp_auth::{ClientIdentity, Config};
///
/// let mut config = Config::new("https://mcp.example/mcp", "my-app")?;
/// config.registered = Some(ClientIdentity::new("my-client-id"));
/// config.scope = Some("files:read".into());
/// config.authorization_parameter("access_type", "offline")?;
/// assert!(config.authorization_parameter("state", "x").is_err());
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The server's URL as it was configured: `resource` may be derived from it.
    pub(super) server: String,
    pub(super) endpoint: HttpUrl,
    /// How tokens are obtained. Default [`Grant::AuthorizationCode`].
    pub grant: Grant,
    /// The name that people see when they sign in.
    pub client_name: String,
    /// A client that was registered beforehand.
    ///
    /// Rules: OA-R-01.
    pub registered: Option<ClientIdentity>,
    /// The issuer at which `registered` was registered; `None` binds it to the first one that the server names.
    ///
    /// Rules: OA-M-02.
    pub registered_at: Option<String>,
    pub(super) client_metadata_url: Option<String>,
    /// The scopes to request, separated by spaces; `None` requests what the server names.
    ///
    /// Rules: OA-Q-04.
    pub scope: Option<String>,
    /// The parameter `resource`. Default [`ResourceParameter::Published`].
    pub resource: ResourceParameter,
    pub(super) authorization_parameters: Vec<(String, String)>,
    /// The port of the redirect URI; `None` takes the registered one, or any that is free.
    ///
    /// Rules: OA-G-06.
    pub callback_port: Option<u16>,
    /// The host of the redirect URI; `None` takes 127.0.0.1, and `localhost` where a registration refuses that.
    pub callback_host: Option<CallbackHost>,
    pub(super) callback_path: String,
    /// Separates the tokens of several accounts at one server.
    ///
    /// Rules: OA-M-03.
    pub profile: String,
    /// When tokens are bound to a key. Default [`Proofs::Demanded`].
    pub proofs: Proofs,
    /// Whether the ID token is sent in place of the access token, as some servers demand. Default `false`.
    ///
    /// Rules: OA-X-09.
    pub uses_id_token: bool,
    /// Whether a person may be asked to sign in. Default `true`.
    ///
    /// Rules: OA-G-05.
    pub may_ask_user: bool,
    /// The command by which a person signs in, for the error if none may be asked.
    pub sign_in_command: Option<String>,
    /// What is accepted although the rules forbid it.
    pub exceptions: Exceptions,
    /// The time for one request to an authorization server. Default 30 seconds.
    ///
    /// Rules: OA-N-03.
    pub request_timeout: Duration,
    /// The time for a person to sign in. Default 5 minutes.
    ///
    /// Rules: OA-N-03.
    pub user_timeout: Duration,
}

impl Config {
    /// The configuration for the server with this URL.
    ///
    /// # Errors
    ///
    /// [`UsageError::Endpoint`]: the URL is not one that a client may use.
    pub fn new(server: &str, client_name: &str) -> Result<Self, UsageError> {
        Ok(Self {
            server: server.to_owned(),
            endpoint: HttpUrl::parse(server).map_err(UsageError::Endpoint)?,
            grant: Grant::default(),
            client_name: client_name.to_owned(),
            registered: None,
            registered_at: None,
            client_metadata_url: None,
            scope: None,
            resource: ResourceParameter::default(),
            authorization_parameters: Vec::new(),
            callback_port: None,
            callback_host: None,
            callback_path: "/callback".to_owned(),
            profile: String::new(),
            proofs: Proofs::default(),
            uses_id_token: false,
            may_ask_user: true,
            sign_in_command: None,
            exceptions: Exceptions::default(),
            request_timeout: Duration::from_secs(30),
            user_timeout: Duration::from_secs(5 * 60),
        })
    }

    /// Sets the URL of the client's own metadata, which is its id at authorization servers that support this.
    ///
    /// # Errors
    ///
    /// [`UsageError::ClientMetadataUrl`]: the URL is not `https`, or has no path.
    ///
    /// Rules: OA-R-02.
    pub fn client_metadata_url(&mut self, url: &str) -> Result<(), UsageError> {
        if !is_client_id_metadata_url(url) {
            return Err(UsageError::ClientMetadataUrl);
        }
        self.client_metadata_url = Some(url.to_owned());
        Ok(())
    }

    /// Sets the path of the redirect URI, for clients that were registered with another one than `/callback`.
    ///
    /// # Errors
    ///
    /// [`UsageError::CallbackPath`]: it does not begin with one slash, or has other characters than ASCII letters and
    /// digits, `-`, `.`, `_`, `~` and slashes.
    ///
    /// Rules: OA-Q-09.
    pub fn callback_path(&mut self, path: &str) -> Result<(), UsageError> {
        if !is_callback_path(path) {
            return Err(UsageError::CallbackPath);
        }
        path.clone_into(&mut self.callback_path);
        Ok(())
    }

    /// Adds a parameter to authorization requests, such as `login_hint` or `audience`.
    ///
    /// # Errors
    ///
    /// [`UsageError::AuthorizationParameter`]: the flow sets this parameter itself.
    ///
    /// Rules: OA-Q-06.
    pub fn authorization_parameter(&mut self, name: &str, value: &str) -> Result<(), UsageError> {
        if !may_be_added(name) {
            return Err(UsageError::AuthorizationParameter);
        }
        self.authorization_parameters.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// The name under which tokens of this configuration are stored: 64 hexadecimal digits. Configurations that could
    /// get different tokens have different names.
    ///
    /// Rules: OA-M-03.
    #[must_use]
    pub fn store_key(&self) -> String {
        let resource = match &self.resource {
            ResourceParameter::Published => "published",
            ResourceParameter::Omitted => "omitted",
            ResourceParameter::Fixed(value) => value,
        };
        let origin = Origin::of(&self.endpoint).to_string();
        let grant = match &self.grant {
            Grant::AuthorizationCode => "AuthorizationCode",
            Grant::DeviceCode => "DeviceCode",
            Grant::ClientCredentials => "ClientCredentials",
            Grant::WorkloadIdentity => "WorkloadIdentity",
            Grant::EnterpriseManaged(provider) => &format!("EnterpriseManaged {}", provider.token_endpoint),
            Grant::External => "External",
        };
        let mut hash = Sha256::new();
        let mut add = |part: &str| {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        };
        for part in [&origin, self.endpoint.path(), self.endpoint.query().unwrap_or_default(), &self.profile, resource]
        {
            add(part);
        }
        for part in [
            self.registered.as_ref().map_or("", |client| client.id.as_str()),
            self.client_metadata_url.as_deref().unwrap_or_default(),
            self.scope.as_deref().unwrap_or_default(),
            grant,
            if self.uses_id_token { "id token" } else { "" },
        ] {
            add(part);
        }
        for (name, value) in &self.authorization_parameters {
            add(name);
            add(value);
        }
        let mut key = String::new();
        for byte in hash.finalize() {
            // Writing to a `String` cannot fail.
            let _ = write!(key, "{byte:02x}");
        }
        key
    }
}

/// Shows neither the query of the server's URL nor the values of parameters.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("server", &self.endpoint)
            .field("grant", &self.grant)
            .field("registered", &self.registered)
            .finish_non_exhaustive()
    }
}
