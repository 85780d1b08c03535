//! A server on rmcp. Usage: `rmcp-server http PORT`, or `rmcp-server stdio`.
#![expect(deprecated, reason = "what 2026-07-28 deprecates is still asked for")]

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateMessageRequest,
    CreateMessageRequestParams, ElicitRequest, ElicitRequestParams, ErrorData, InputRequest, InputRequests,
    InputRequiredResult, JsonObject, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProtocolVersion, Resource, ResourceUpdatedNotificationParam, SamplingMessage,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, serve_server};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::broadcast;

const BOARD_URI: &str = "interop://board";
/// The key of the input request in a tool's result.
const ASKED: &str = "asked";
/// The most changes that are kept for a slow listener.
const BACKLOG: usize = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Interop::new();
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("stdio") {
        serve_server(server, rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    }
    let port: u16 = arguments.next().ok_or("no port")?.parse()?;
    let sessions = LocalSessionManager::default();
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), sessions.into(), StreamableHttpServerConfig::default());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, Router::new().route_service("/mcp", service)).await?;
    Ok(())
}

/// The state that all sessions share.
#[derive(Clone)]
struct Interop {
    cancelled: Arc<Mutex<HashSet<String>>>,
    subscribed: Arc<Mutex<HashSet<String>>>,
    added: Arc<AtomicUsize>,
    changes: broadcast::Sender<Change>,
    /// One for each subscription that is about to be acknowledged: from then on, no change may be missed.
    receivers: Arc<Mutex<Vec<broadcast::Receiver<Change>>>>,
}

#[derive(Clone, Copy)]
enum Change {
    Tools,
    Board,
}

impl Interop {
    fn new() -> Self {
        let (changes, _) = broadcast::channel(BACKLOG);
        Self {
            cancelled: Arc::default(),
            subscribed: Arc::default(),
            added: Arc::default(),
            changes,
            receivers: Arc::default(),
        }
    }

    /// Reports progress after every step.
    async fn work(&self, arguments: &Arguments, context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
        let (steps, seconds) = (arguments.number("steps")?, arguments.number("seconds")?);
        let token = context.meta.get_progress_token();
        let mut step = 0.0;
        while step < steps {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs_f64(seconds / steps)) => {}
                () = context.ct.cancelled() => {
                    lock(&self.cancelled).insert(arguments.text("name")?);
                    return Ok("cancelled".to_owned());
                }
            }
            step += 1.0;
            if let Some(token) = token.clone() {
                let progress = ProgressNotificationParam::new(token, step).with_total(steps);
                context.peer.notify_progress(progress).await.map_err(internal)?;
            }
        }
        Ok("worked".to_owned())
    }

    async fn ask_sampling(
        prompt: String,
        answer: Option<&Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 10);
        let asked;
        let answer = match answer {
            Some(answer) => answer,
            None if is_modern(context) => {
                return Ok(asking(InputRequest::CreateMessage(CreateMessageRequest::new(params))));
            }
            None => {
                asked = json!(context.peer.create_message(params).await.map_err(internal)?);
                &asked
            }
        };
        Ok(said(text_at(answer, "/content/text")))
    }

    async fn ask_elicitation(
        answer: Option<&Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: "Who?".to_owned(),
            requested_schema: serde_json::from_value(schema).map_err(internal)?,
        };
        let asked;
        let answer = match answer {
            Some(answer) => answer,
            None if is_modern(context) => return Ok(asking(InputRequest::Elicitation(ElicitRequest::new(params)))),
            None => {
                asked = json!(context.peer.create_elicitation(params).await.map_err(internal)?);
                &asked
            }
        };
        Ok(said(format!("{} {}", text_at(answer, "/action"), text_at(answer, "/content/name"))))
    }

    /// Notifies all subscriptions, and the session of the call if it is of an earlier revision.
    async fn tell(&self, change: Change, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        // An error means that there is no subscription.
        let _ = self.changes.send(change);
        if is_modern(context) {
            return Ok(());
        }
        let told = match change {
            Change::Tools => context.peer.notify_tool_list_changed().await,
            Change::Board if lock(&self.subscribed).contains(BOARD_URI) => {
                context.peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(BOARD_URI)).await
            }
            Change::Board => Ok(()),
        };
        told.map_err(internal)
    }
}

impl ServerHandler for Interop {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let added = (1..=self.added.load(Ordering::Relaxed)).map(|number| format!("added_{number}"));
        let known = ["echo", "work", "was_cancelled", "ask_sampling", "ask_elicitation", "add_tool", "touch"];
        let schema = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
        let tool = |name: String| Tool::new(name, "", schema.clone());
        Ok(ListToolsResult::with_all_items(known.map(str::to_owned).into_iter().chain(added).map(tool).collect()))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new(BOARD_URI, "board")]))
    }

    async fn subscribe(&self, params: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        lock(&self.subscribed).insert(params.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        lock(&self.subscribed).remove(&params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        lock(&self.receivers).push(self.changes.subscribe());
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let receiver = lock(&self.receivers).pop();
        let mut changes = receiver.ok_or_else(|| internal("no subscription was acknowledged"))?;
        loop {
            let change = tokio::select! {
                change = changes.recv() => change.map_err(internal)?,
                () = context.cancelled() => return Ok(()),
            };
            // The sink refuses a notification that the subscription does not include; that error is ignored.
            let _ = match change {
                Change::Tools => context.sink().notify_tool_list_changed().await,
                Change::Board => context.sink().notify_resource_updated(BOARD_URI).await,
            };
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Arguments(request.arguments.unwrap_or_default());
        let answer = request.input_responses.as_ref().and_then(|answers| answers.get(ASKED));
        let text = match request.name.as_ref() {
            "echo" => arguments.text("text")?,
            "work" => self.work(&arguments, &context).await?,
            "was_cancelled" => {
                let was = lock(&self.cancelled).contains(&arguments.text("name")?);
                if was { "yes" } else { "no" }.to_owned()
            }
            "ask_sampling" => return Self::ask_sampling(arguments.text("prompt")?, answer, &context).await,
            "ask_elicitation" => return Self::ask_elicitation(answer, &context).await,
            "add_tool" => {
                let number = self.added.fetch_add(1, Ordering::Relaxed) + 1;
                self.tell(Change::Tools, &context).await?;
                format!("added_{number}")
            }
            "touch" => {
                self.tell(Change::Board, &context).await?;
                "touched".to_owned()
            }
            _ => return Err(ErrorData::invalid_params("no such tool", None)),
        };
        Ok(said(text))
    }
}

struct Arguments(JsonObject);

impl Arguments {
    fn text(&self, name: &str) -> Result<String, ErrorData> {
        let value = self.0.get(name).and_then(Value::as_str);
        value.map(str::to_owned).ok_or_else(|| ErrorData::invalid_params(format!("no text {name}"), None))
    }

    fn number(&self, name: &str) -> Result<f64, ErrorData> {
        let value = self.0.get(name).and_then(Value::as_f64);
        value.ok_or_else(|| ErrorData::invalid_params(format!("no number {name}"), None))
    }
}

/// Whether the revision lets the server ask for input in a result instead of by a request.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn asking(request: InputRequest) -> CallToolResponse {
    let requests = InputRequests::from([(ASKED.to_owned(), request)]);
    InputRequiredResult::new(Some(requests), None).into()
}

fn said(text: String) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn text_at(answer: &Value, pointer: &str) -> String {
    answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
