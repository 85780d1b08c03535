//! The behaviour of `authorized-client`, which signs in to the servers of the suite.

use std::error::Error;
use std::thread;

use mcp_auth::{ClientIdentity, Config, Grant, IdentityProvider};
use mcp_proto::Json;
use mcp_proto::auth::ClientKey;
use serde::Deserialize;
use serde_json::{Value, json};

/// The name that people see when they sign in.
const NAME: &str = "authorized-client";

/// What the suite passes for a scenario; each has only some of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    client_id: Option<String>,
    client_secret: Option<String>,
    /// The key of a client that signs assertions.
    private_key_pem: Option<String>,
    /// The assertion of the platform.
    valid_jwt: Option<String>,
    idp_client_id: String,
    idp_id_token: Option<String>,
    idp_issuer: String,
    idp_token_endpoint: String,
}

impl Context {
    fn read() -> Result<Self, Box<dyn Error>> {
        let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
        Ok(serde_json::from_str(&context)?)
    }

    /// The token that another program would issue.
    fn token(&self) -> Option<String> {
        self.idp_id_token.clone().or_else(|| self.valid_jwt.clone())
    }

    /// Configures what a person would configure who knows the servers of the scenario.
    fn configure(&self, scenario: &str, key: Option<ClientKey>, config: &mut Config) -> Result<(), Box<dyn Error>> {
        if let Some(id) = &self.client_id {
            let mut client = ClientIdentity::new(id);
            if let Some(secret) = &self.client_secret {
                client = client.with_secret(secret.as_str().into());
            }
            if let Some(key) = key {
                client = client.with_key(key);
            }
            config.registered = Some(client);
        }
        match scenario {
            "auth/basic-cimd" => config.client_metadata_url("https://conformance-test.local/client-metadata.json")?,
            "auth/client-credentials-basic" | "auth/client-credentials-jwt" => config.grant = Grant::ClientCredentials,
            "auth/wif-jwt-bearer" => config.grant = Grant::WorkloadIdentity,
            "auth/enterprise-managed-authorization" | "auth/cross-app-access-complete-flow" => {
                let client = ClientIdentity::new(&self.idp_client_id);
                let provider = IdentityProvider::new(&self.idp_issuer, &self.idp_token_endpoint, client)?;
                config.grant = Grant::EnterpriseManaged(provider);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Runs the client's part of a scenario with `mcp-blocking`: it signs in when it is asked to, lists the tools, and calls
/// each.
///
/// # Errors
///
/// A request to the server failed, as it must in some scenarios.
pub fn run_blocking(
    scenario: &str,
    url: &str,
    builder: mcp_blocking::Builder<mcp_blocking::HttpServer>,
) -> Result<(), Box<dyn Error>> {
    use mcp_blocking::sign_in::{Authorization, PrivateKey};

    let context = Context::read()?;
    let key = context.private_key_pem.as_deref().map(PrivateKey::from_pem).transpose()?;
    let client_key = key.as_ref().map(PrivateKey::client_key);
    let mut configured = Ok(());
    let mut authorization = Authorization::new(url, NAME)?
        .open_url(sign_in)
        .configure(|config| configured = context.configure(scenario, client_key, config));
    configured?;
    if let Some(key) = key {
        authorization = authorization.private_key(key);
    }
    if let Some(token) = context.token() {
        authorization = authorization.obtain_token(move || Ok(token.clone()));
    }
    let client = builder.authorization(authorization).connect()?;
    for params in calls(client.request("tools/list", None))? {
        client.request("tools/call", Some(params))?;
    }
    client.close();
    Ok(())
}

/// The same with `mcp-tokio`.
///
/// # Errors
///
/// As for [`run_blocking`].
pub async fn run_tokio(
    scenario: &str,
    url: &str,
    builder: mcp_tokio::Builder<mcp_tokio::HttpServer>,
) -> Result<(), Box<dyn Error>> {
    use mcp_tokio::sign_in::{Authorization, PrivateKey};

    let context = Context::read()?;
    let key = context.private_key_pem.as_deref().map(PrivateKey::from_pem).transpose()?;
    let client_key = key.as_ref().map(PrivateKey::client_key);
    let mut configured = Ok(());
    let mut authorization = Authorization::new(url, NAME)?
        .open_url(sign_in)
        .configure(|config| configured = context.configure(scenario, client_key, config));
    configured?;
    if let Some(key) = key {
        authorization = authorization.private_key(key);
    }
    if let Some(token) = context.token() {
        authorization = authorization.obtain_token(move || Ok(token.clone()));
    }
    let client = builder.authorization(authorization).connect().await?;
    for params in calls(client.request("tools/list", None).await)? {
        client.request("tools/call", Some(params)).await?;
    }
    client.close().await;
    Ok(())
}

/// The parameters with which each tool of a list is called.
fn calls(listed: Result<Json, mcp_application::Error>) -> Result<Vec<Json>, Box<dyn Error>> {
    let tools: Value = listed?.read()?;
    let tools = tools["tools"].as_array().ok_or("the result has no list")?;
    let params = tools.iter().map(|tool| Json::from_serialize(&json!({ "name": tool["name"], "arguments": {} })));
    Ok(params.collect::<Result<_, _>>()?)
}

/// Acts as the browser of a person who agrees: the authorization server redirects at once.
fn sign_in(url: &str) {
    let url = url.to_owned();
    // In `mcp-blocking`, the thread that asks for the browser also answers it.
    thread::spawn(move || {
        let agent: ureq::Agent = ureq::Agent::config_builder().max_redirects(0).build().into();
        let visited = agent.get(&url).call().and_then(|response| {
            let target = response.headers().get("location").and_then(|target| target.to_str().ok());
            agent.get(target.unwrap_or_default()).call()
        });
        if let Err(error) = visited {
            log::error!("the browser could not sign in: {error}");
        }
    });
}
