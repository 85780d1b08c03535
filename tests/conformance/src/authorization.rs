//! The behaviour of `authorized-client`, which signs in to the servers of the suite.

use std::error::Error;
use std::thread;

use mcp_proto::Json;
use mcp_proto::auth::{ClientIdentity, Config, Grant};
use mcp_proto::driver;
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
    let mut configured = Ok(());
    let authorization = mcp_blocking::sign_in::Authorization::new(url, NAME)?
        .open_url(sign_in)
        .configure(|config| configured = configure(scenario, config));
    configured?;
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
    let mut configured = Ok(());
    let authorization = mcp_tokio::sign_in::Authorization::new(url, NAME)?
        .open_url(sign_in)
        .configure(|config| configured = configure(scenario, config));
    configured?;
    let client = builder.authorization(authorization).connect().await?;
    for params in calls(client.request("tools/list", None).await)? {
        client.request("tools/call", Some(params)).await?;
    }
    client.close().await;
    Ok(())
}

fn configure(scenario: &str, config: &mut Config) -> Result<(), Box<dyn Error>> {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
    let context: Context = serde_json::from_str(&context)?;
    if let Some(id) = &context.client_id {
        let client = ClientIdentity::new(id);
        config.registered = Some(match &context.client_secret {
            Some(secret) => client.with_secret(secret.as_str().into()),
            None => client,
        });
    }
    if scenario == "auth/basic-cimd" {
        config.client_metadata_url("https://conformance-test.local/client-metadata.json")?;
    }
    if scenario == "auth/client-credentials-basic" {
        config.grant = Grant::ClientCredentials;
    }
    Ok(())
}

/// The parameters with which each tool of a list is called.
fn calls(listed: Result<Json, driver::Error>) -> Result<Vec<Json>, Box<dyn Error>> {
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
