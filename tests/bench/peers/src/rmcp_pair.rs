//! A client and servers of rmcp.

use axum::Router;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RunningService, serve_client, serve_server};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleClient, RoleServer, ServerHandler};
use tokio::io::duplex;

use crate::{DUPLEX, TOOL, text};

#[derive(Clone)]
struct Tools;

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let number = request.arguments.as_ref().and_then(|arguments| arguments.get("number")?.as_u64());
        let number = number.filter(|_| request.name == TOOL).and_then(|number| u32::try_from(number).ok());
        let number = number.ok_or_else(|| ErrorData::invalid_params("no such tool", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text(number))]).into())
    }
}

pub(crate) fn route(is_json: bool) -> Router {
    let mut config = StreamableHttpServerConfig::default();
    (config.json_response, config.legacy_session_mode) = (is_json, !is_json);
    let sessions = LocalSessionManager::default();
    Router::new().route_service("/mcp", StreamableHttpService::new(|| Ok(Tools), sessions.into(), config))
}

pub(crate) async fn connect_in_memory() -> RunningService<RoleClient, ()> {
    let (ours, theirs) = duplex(DUPLEX);
    tokio::spawn(async move { serve_server(Tools, theirs).await.expect("a connection").waiting().await });
    serve_client((), ours).await.expect("a connection")
}

pub(crate) async fn connect_http(url: &str) -> RunningService<RoleClient, ()> {
    serve_client((), StreamableHttpClientTransport::from_uri(url)).await.expect("a connection")
}

pub(crate) async fn call(client: &RunningService<RoleClient, ()>, number: u32) -> usize {
    let arguments = std::iter::once(("number".to_owned(), number.into())).collect();
    let params = CallToolRequestParams::new(TOOL).with_arguments(arguments);
    let result = client.call_tool(params).await.expect("a result");
    result.content.first().and_then(ContentBlock::as_text).map_or(0, |content| content.text.len())
}
