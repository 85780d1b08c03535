//! The behaviour of `authorized-client`, which signs in to the servers of the suite.

use std::error::Error;
use std::thread;

use mcp_blocking::sign_in::Authorization;
use mcp_blocking::{Builder, HttpServer};
use mcp_proto::Json;
use mcp_proto::auth::{ClientIdentity, Grant};
use serde::Deserialize;
use serde_json::{Value, json};

/// What the suite passes for a scenario; each has only some of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    client_id: Option<String>,
    client_secret: Option<String>,
}

/// Runs the client's part of a scenario: it signs in when it is asked to, lists the tools, and calls each.
///
/// # Errors
///
/// A request to the server failed, as it must in some scenarios.
pub fn run(scenario: &str, url: &str, builder: Builder<HttpServer>) -> Result<(), Box<dyn Error>> {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
    let context: Context = serde_json::from_str(&context)?;
    let mut is_invalid = Ok(());
    let authorization = Authorization::new(url, "authorized-client")?.open_url(sign_in).configure(|config| {
        if let Some(id) = &context.client_id {
            let client = ClientIdentity::new(id);
            config.registered = Some(match &context.client_secret {
                Some(secret) => client.with_secret(secret.as_str().into()),
                None => client,
            });
        }
        if scenario == "auth/basic-cimd" {
            is_invalid = config.client_metadata_url("https://conformance-test.local/client-metadata.json");
        }
        if scenario == "auth/client-credentials-basic" {
            config.grant = Grant::ClientCredentials;
        }
    });
    is_invalid?;
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
