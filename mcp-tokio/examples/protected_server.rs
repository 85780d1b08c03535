//! A server that serves only clients with a token of one authorization server:
//! `cargo run -p mcp-tokio --example protected_server -- 127.0.0.1:3000 https://auth.example.com keys.json`
//!
//! The tokens are JWTs. The file contains the public keys of the authorization server with their algorithms, as it
//! publishes them at its `jwks_uri`.

use std::future::ready;

use http::header::AUTHORIZATION;
use http::request::Parts;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use mcp_tokio::model::{CallToolResult, ListToolsResult, ServerCapabilities, Tool, ToolsCapability};
use mcp_tokio::proto::auth::{Challenge, ProtectedResource};
use mcp_tokio::proto::server::{Config, HttpConfig, Principal};
use mcp_tokio::proto::{ErrorObject, Json};
use mcp_tokio::{Incoming, Server};

/// The scope that every request needs.
const SCOPE: &str = "tools:call";

async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
    match incoming.method().as_str() {
        "tools/list" => Ok(ListToolsResult::new([Tool::without_arguments("whoami")]).into()),
        "tools/call" => {
            let user = incoming.principal().and_then(Principal::subject).unwrap_or_default();
            Ok(CallToolResult::text(format!("Hello, {user}!")).into())
        }
        _ => Err(ErrorObject::method_not_found(incoming.method())),
    }
}

/// Which tokens are accepted.
struct Tokens {
    issuer: String,
    /// The URL of this server. A token for another one is refused, though the same authorization server has issued it.
    audience: String,
    keys: JwkSet,
}

impl Tokens {
    fn authenticate(&self, head: &Parts) -> Result<Principal, Challenge> {
        let Some(field) = head.headers.get(AUTHORIZATION) else {
            return Err(Challenge::bearer().with("scope", SCOPE));
        };
        let token = field.to_str().ok().and_then(|field| field.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer")).map(|(_, token)| token);
        let principal = token.and_then(|token| self.principal(token.trim()));
        let principal = principal.ok_or_else(|| Challenge::bearer().with("error", "invalid_token"))?;
        if principal.has_scope(SCOPE) {
            return Ok(principal);
        }
        Err(Challenge::bearer().with("error", "insufficient_scope").with("scope", SCOPE))
    }

    /// The sender, if the signature, the issuer, the audience and the times of the token are valid.
    fn principal(&self, token: &str) -> Option<Principal> {
        let key = self.keys.find(&decode_header(token).ok()?.kid?)?;
        // The key decides the algorithm: a token could name a weaker one.
        let mut validation = Validation::new(key.common.key_algorithm?.to_string().parse().ok()?);
        validation.set_required_spec_claims(&["aud", "exp", "iss", "sub"]);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        let claims: Json = decode(token, &DecodingKey::from_jwk(key).ok()?, &validation).ok()?.claims;
        let [subject, scopes] = claims.first_members(["sub", "scope"]);
        let subject = subject.as_ref()?.as_string()?;
        let scopes = scopes.as_ref().and_then(Json::as_string).unwrap_or_default();
        // Another issuer may have a subject of the same name.
        let name = format!("{} {subject}", self.issuer);
        Some(Principal::new(&name).with_subject(&subject).with_scopes(&scopes).with_claims(claims.clone()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(issuer), Some(keys)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: protected_server ADDRESS ISSUER KEYS".into());
    };
    let audience = format!("http://{address}/mcp");
    let resource = ProtectedResource::new(&audience)?.authorization_server(&issuer)?.scope(SCOPE)?;
    let http = HttpConfig::new().protected_resource(resource);
    let tokens = Tokens { issuer, audience, keys: Json::parse(std::fs::read(keys)?)?.read()? };
    let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
    let server = Server::new(Config::new("my-tools", "1.0.0").capabilities(capabilities), serve);
    let service = server.http(http)?.authenticate(move |head| ready(tokens.authenticate(head)));
    service.serve(tokio::net::TcpListener::bind(address).await?).await?;
    Ok(())
}
