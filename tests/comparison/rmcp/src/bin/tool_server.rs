//! What `mcp-tokio/examples/tool_server.rs` does, with rmcp: three tools, a resource, a template, a prompt and a completion,
//! over stdio or in a router of axum with authentication.

use std::time::Duration;

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use rmcp::handler::server::tool::InputResponses;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::*;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::{
    Json, RoleServer, ServerHandler, ServiceExt, prompt, prompt_handler, prompt_router, tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// Up to which number
    to: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Guest {
    /// Your name
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    name: String,
}

struct MyTools;

#[tool_router]
impl MyTools {
    #[tool(title = "Sum", description = "Adds two numbers.")]
    fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> Result<Json<Sum>, String> {
        Ok(Json(Sum { sum: a.checked_add(b).ok_or("the sum is too large")? }))
    }

    /// If the client cancels the request, the token in the context is cancelled.
    #[tool(description = "Counts slowly.")]
    async fn count(
        &self,
        Parameters(Count { to }): Parameters<Count>,
        context: RequestContext<RoleServer>,
    ) -> Result<String, String> {
        for number in 1..=to {
            let pause = tokio::time::sleep(Duration::from_millis(100));
            context.ct.run_until_cancelled(pause).await.ok_or("cancelled")?;
            if let Some(token) = context.meta.get_progress_token() {
                let progress = ProgressNotificationParam::new(token, number.into()).with_total(to.into());
                let _ = context.peer.notify_progress(progress).await;
            }
        }
        Ok(format!("counted to {to}"))
    }

    /// The client's user fills in a form, with any revision.
    #[tool(description = "Greets the user.")]
    async fn greet(
        &self,
        InputResponses(answers): InputResponses,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answer: ElicitResult = match answers.and_then(|mut answers| answers.remove("guest")) {
            Some(answer) => serde_json::from_value(answer).map_err(invalid)?,
            None => {
                let form = ElicitRequestParams::FormElicitationParams {
                    meta: None,
                    message: "Who are you?".into(),
                    requested_schema: ElicitationSchema::from_type::<Guest>().map_err(invalid)?,
                };
                if context.protocol_version() >= Some(ProtocolVersion::V_2026_07_28) {
                    let form = InputRequest::Elicitation(ElicitRequest::new(form));
                    let forms = InputRequests::from([("guest".into(), form)]);
                    return Ok(InputRequiredResult::from_input_requests(forms).into());
                }
                context.peer.create_elicitation(form).await.map_err(invalid)?
            }
        };
        let greeting = match answer.action {
            ElicitationAction::Accept => {
                let guest = answer.content.unwrap_or_default();
                let Guest { name } = serde_json::from_value(guest).map_err(invalid)?;
                format!("Hello, {name}!")
            }
            _ => "Hello, stranger!".into(),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(greeting)]).into())
    }
}

fn invalid(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

#[prompt_router]
impl MyTools {
    #[prompt(description = "Reviews a note.")]
    async fn review(&self, Parameters(Note { name }): Parameters<Note>) -> Vec<PromptMessage> {
        vec![PromptMessage::new_text(Role::User, format!("Review {name}."))]
    }
}

#[tool_handler]
#[prompt_handler]
impl ServerHandler for MyTools {
    fn get_info(&self) -> ServerConfig {
        let builder = ServerCapabilities::builder().enable_completions().enable_prompts();
        ServerConfig::new(builder.enable_resources().enable_tools().build())
            .with_server_info(Implementation::new("my-tools", "1.0.0"))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let welcome = Resource::new("note:///welcome", "welcome").with_mime_type("text/plain");
        Ok(ListResourcesResult::with_all_items(vec![welcome]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![ResourceTemplate::new("note:///{name}", "notes")]))
    }

    async fn read_resource(
        &self,
        ReadResourceRequestParams { uri, .. }: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match uri.strip_prefix("note:///") {
            Some("welcome") => "Welcome!".into(),
            Some(name) => format!("The note {name}."),
            None => return Err(ErrorData::resource_not_found("no such note", None)),
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri)]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        if request.r#ref.as_prompt_name() == Some("review") && request.argument.name == "name" {
            return Ok(CompleteResult::new(CompletionInfo::new(vec!["welcome".into()]).map_err(invalid)?));
        }
        Ok(CompleteResult::default())
    }
}

async fn authenticate(request: Request, next: Next) -> Response {
    match request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes) {
        Some(b"Bearer the-token-of-ada") => next.run(request).await,
        _ => (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")]).into_response(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(address) = std::env::args().nth(1) else {
        MyTools.serve(rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    };
    let sessions = LocalSessionManager::default().into();
    let service = StreamableHttpService::new(|| Ok(MyTools), sessions, Default::default());
    let app = axum::Router::new().route_service("/mcp", service).layer(from_fn(authenticate));
    Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, app).await?)
}
