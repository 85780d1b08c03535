//! The behaviour of `authorized-client`, which signs in to the servers of the suite.

use std::error::Error;
use std::thread;

use mcp_blocking::sign_in::{Authorization, PrivateKey};
use mcp_blocking::{Builder, HttpServer};
use mcp_proto::Json;
use mcp_proto::auth::{ClientIdentity, Config, Grant, IdentityProvider};
use serde::Deserialize;
use serde_json::{Value, json};

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
    fn configure(&self, scenario: &str, key: Option<&PrivateKey>, config: &mut Config) -> Result<(), Box<dyn Error>> {
        if let Some(id) = &self.client_id {
            let mut client = ClientIdentity::new(id);
            if let Some(secret) = &self.client_secret {
                client = client.with_secret(secret.as_str().into());
            }
            if let Some(key) = key {
                client = client.with_key(key.client_key());
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

/// Runs the client's part of a scenario: it signs in when it is asked to, lists the tools, and calls each.
///
/// # Errors
///
/// A request to the server failed, as it must in some scenarios.
pub fn run(scenario: &str, url: &str, builder: Builder<HttpServer>) -> Result<(), Box<dyn Error>> {
    let context = Context::read()?;
    let key = context.private_key_pem.as_deref().map(PrivateKey::from_pem).transpose()?;
    let mut configured = Ok(());
    let mut authorization = Authorization::new(url, "authorized-client")?
        .open_url(sign_in)
        .configure(|config| configured = context.configure(scenario, key.as_ref(), config));
    configured?;
    if let Some(key) = key {
        authorization = authorization.private_key(key);
    }
    if let Some(token) = context.token() {
        authorization = authorization.obtain_token(move || Ok(token.clone()));
    }
    let client = builder.authorization(authorization).connect()?;
    let tools: Value = client.request("tools/list", None)?.read()?;
    for tool in tools["tools"].as_array().ok_or("the result has no list")? {
        let params = json!({ "name": tool["name"], "arguments": {} });
        client.request("tools/call", Some(Json::from_serialize(&params)?))?;
    }
    client.close();
    Ok(())
}

/// Acts as the browser of a person who agrees: the authorization server redirects at once.
fn sign_in(url: &str) {
    let url = url.to_owned();
    // The thread that asks for the browser also answers it.
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
