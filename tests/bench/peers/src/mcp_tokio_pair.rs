//! A client and servers of `mcp-tokio`.

use axum::Router;
use mcp_proto::server::{Config, HttpConfig};
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion, code};
use mcp_tokio::{Builder, Client, HttpService, Incoming, Server};
use serde::{Deserialize, Serialize};
use tokio::io::{duplex, split};
use tokio::net::TcpListener;

use crate::{DUPLEX, TOOL, text};

#[derive(Serialize, Deserialize)]
struct CallParams<'p> {
    name: &'p str,
    arguments: Arguments,
}

#[derive(Serialize, Deserialize)]
struct Arguments {
    number: u32,
}

#[derive(Serialize, Deserialize)]
struct CallResult {
    content: Vec<Content>,
    #[serde(rename = "isError")]
    is_error: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Content {
    Text { text: String },
}

async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
    let invalid = || ErrorObject::new(code::INVALID_PARAMS, "no such tool");
    let params = incoming.params().ok_or_else(invalid)?;
    let params: CallParams<'_> = params.read().map_err(|_| invalid())?;
    if *incoming.method() != Method::TOOLS_CALL || params.name != TOOL {
        return Err(invalid());
    }
    let content = vec![Content::Text { text: text(params.arguments.number) }];
    Json::from_serialize(&CallResult { content, is_error: false }).map_err(|_| invalid())
}

fn server() -> Server {
    let mut config = Config::new("bench", "1");
    config.capabilities = Json::parse(r#"{"tools":{}}"#).expect("JSON");
    Server::new(config, serve)
}

fn service() -> HttpService {
    server().http(HttpConfig::new()).expect("a configuration")
}

pub(crate) fn listen(listener: TcpListener) {
    let service = service();
    tokio::spawn(async move { service.serve(listener).await });
}

pub(crate) fn route() -> Router {
    Router::new().route_service("/mcp", service())
}

/// rmcp's client begins with `initialize`, too.
fn legacy_client() -> Builder {
    Client::builder().versions([ProtocolVersion::LATEST_LEGACY])
}

pub(crate) async fn connect_in_memory() -> Client {
    let (ours, theirs) = duplex(DUPLEX);
    tokio::spawn(async move {
        let (read, write) = split(theirs);
        server().serve_stream(read, write).await
    });
    let (read, write) = split(ours);
    legacy_client().stream(read, write).connect().await.expect("a connection")
}

pub(crate) async fn connect_http(url: &str) -> Client {
    legacy_client().http(url).expect("a URL").connect().await.expect("a connection")
}

pub(crate) async fn call(client: &Client, number: u32) -> usize {
    let params = CallParams { name: TOOL, arguments: Arguments { number } };
    let params = Json::from_serialize(&params).expect("JSON");
    let result = client.request(Method::TOOLS_CALL, Some(params)).await.expect("a result");
    let result: CallResult = result.read().expect("a result of a tool");
    let Some(Content::Text { text }) = result.content.first() else { return 0 };
    text.len()
}
