//! What `mcp-tokio/examples/tool_client.rs` does, with rmcp: uses everything that `tool_server` offers, over stdio or HTTP,
//! with any revision.

use futures::StreamExt;
use rmcp::handler::client::progress::ProgressDispatcher;
use rmcp::model::*;
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient, object};
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;

#[derive(Deserialize)]
struct Sum {
    sum: i64,
}

#[derive(Default)]
struct MyApp {
    progress: ProgressDispatcher,
}

impl ClientHandler for MyApp {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("my-app", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        println!("the server asks: {message}");
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "name": "Ada" })))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.handle_notification(params).await;
    }
}

fn text(result: &CallToolResult) -> &str {
    result.content.iter().find_map(|content| content.as_text()).map_or("", |content| &content.text)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let app = MyApp::default();
    let client = match &*arguments {
        [url, token] => {
            let config = StreamableHttpClientTransportConfig::with_uri(url.as_str()).auth_header(token);
            app.serve_with_lifecycle(StreamableHttpClientTransport::from_config(config), lifecycle).await?
        }
        [program] => app.serve_with_lifecycle(TokioChildProcess::new(Command::new(program))?, lifecycle).await?,
        _ => return Err("usage: URL TOKEN, or PROGRAM".into()),
    };
    println!("revision {}", client.peer_info().ok_or("no server")?.protocol_version);
    for tool in client.list_all_tools().await? {
        println!("tool {}: {}", tool.name, tool.description.unwrap_or_default());
    }

    let params = CallToolRequestParams::new("add").with_arguments(object!({ "a": 2, "b": 3 }));
    let Sum { sum } = client.call_tool(params).await?.into_typed()?;
    println!("the sum is {sum}");
    println!("{}", text(&client.call_tool(CallToolRequestParams::new("greet")).await?));

    let params = CallToolRequestParams::new("count").with_arguments(object!({ "to": 3 }));
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let mut counting = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let mut steps = client.service().progress.subscribe(counting.progress_token.clone()).await;
    let outcome = loop {
        tokio::select! {
            Some(step) = steps.next() => {
                println!("progress {}", step.progress);
                if step.progress >= 2.0 {
                    counting.cancel(None).await?;
                    break "cancelled";
                }
            }
            result = &mut counting.rx => {
                result??;
                break "complete";
            }
        }
    };
    println!("the count is {outcome}");

    for resource in client.list_all_resources().await? {
        let read = client.read_resource(ReadResourceRequestParams::new(&resource.uri)).await?;
        if let Some(ResourceContents::TextResourceContents { text, .. }) = read.contents.first() {
            println!("resource {}: {text}", resource.name);
        }
    }
    let names = client.complete_prompt_simple("review", "name", "w").await?;
    let name = names.first().map_or("", String::as_str);
    let params = GetPromptRequestParams::new("review").with_arguments(object!({ "name": name }));
    for message in client.get_prompt(params).await?.messages {
        println!("prompt: {}", message.content.as_text().map_or("", |content| &content.text));
    }
    client.cancel().await?;
    Ok(())
}
