//! A client on rmcp. Usage: `rmcp-client PLAN {COMMAND…|URL}`; `../../README.md` describes the plan and the output.
#![expect(deprecated, reason = "what 2026-07-28 deprecates is still answered")]

mod zoo;

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    ContentBlock, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ErrorData,
    Implementation, ProgressNotificationParam, ProtocolVersion, ResourceUpdatedNotificationParam, ServerNotification,
    ServerResult, SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RequestContext, RequestHandle, RunningService, Subscription,
};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::broadcast;
use tokio::time::timeout;

/// The most time for a feature.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a call without progress notifications runs before it is cancelled.
const HEAD_START: Duration = Duration::from_millis(500);
/// How often the server is asked whether it has seen a cancellation.
const PAUSE: Duration = Duration::from_millis(50);
/// The most notifications that are kept until they are read.
const BACKLOG: usize = 256;

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let plan: Value = serde_json::from_str(&arguments.next().ok_or("no plan")?)?;
    let command = arguments.next().ok_or("no command")?;
    let driver = timeout(PATIENCE, Driver::connect(&plan, command, arguments.collect())).await??;
    say("connect", json!({ "revision": driver.revision() }))?;
    for feature in plan["features"].as_array().into_iter().flatten() {
        let name = feature["name"].as_str().unwrap_or_default();
        let outcome = match timeout(PATIENCE, driver.run(name, feature)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(failure)) => json!({ "error": failure.to_string() }),
            Err(_) => json!({ "error": format!("no {name} within {} s", PATIENCE.as_secs()) }),
        };
        let is_failed_zoo = name == "zoo" && outcome.get("error").is_some();
        say(name, outcome)?;
        if is_failed_zoo {
            return Err("the zoo was read differently".into());
        }
    }
    timeout(PATIENCE, driver.client.cancel()).await??;
    Ok(())
}

fn say(feature: &str, mut outcome: Value) -> std::io::Result<()> {
    outcome["feature"] = feature.into();
    writeln!(std::io::stdout(), "{outcome}")
}

/// The handler of requests and notifications from the server.
struct Editor {
    answers: Value,
    told: broadcast::Sender<Told>,
}

/// A notification from the server.
#[derive(Clone)]
enum Told {
    Progress(ProgressNotificationParam),
    ListChanged(&'static str),
    Updated(String),
}

impl Editor {
    /// Passes a notification on. It is dropped if there is no receiver.
    fn tell(&self, told: Told) {
        let _ = self.told.send(told);
    }
}

impl ClientHandler for Editor {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_sampling().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("rmcp", "1.0.0"))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        serde_json::from_value(self.answers["sampling"].clone())
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let form = serde_json::to_value(&params).unwrap_or_default()["requestedSchema"].take();
        let answer = self.answers.get("elicitation").cloned().unwrap_or_else(|| zoo::answer(&form));
        serde_json::from_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.tell(Told::Progress(params));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tell(Told::ListChanged("tools"));
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tell(Told::ListChanged("resources"));
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.tell(Told::Updated(params.uri));
    }
}

struct Driver {
    client: RunningService<RoleClient, Editor>,
    told: broadcast::Sender<Told>,
}

impl Driver {
    async fn connect(plan: &Value, command: String, arguments: Vec<String>) -> Result<Self, Failure> {
        let (told, _) = broadcast::channel(BACKLOG);
        let editor = Editor { answers: plan["answers"].clone(), told: told.clone() };
        let lifecycle = if plan["mode"] == "modern" {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
        } else {
            ClientLifecycleMode::Initialize
        };
        let client = if command.starts_with("http:") {
            editor.serve_with_lifecycle(StreamableHttpClientTransport::from_uri(command), lifecycle).await?
        } else {
            let mut process = Command::new(command);
            process.args(arguments);
            let (transport, _) = TokioChildProcess::builder(process).stderr(Stdio::inherit()).spawn()?;
            editor.serve_with_lifecycle(transport, lifecycle).await?
        };
        Ok(Self { client, told })
    }

    fn revision(&self) -> Option<ProtocolVersion> {
        self.client.peer_info().map(|info| info.protocol_version.clone())
    }

    fn is_modern(&self) -> bool {
        self.revision().is_some_and(|revision| revision >= ProtocolVersion::V_2026_07_28)
    }

    async fn run(&self, name: &str, feature: &Value) -> Result<Value, Failure> {
        match name {
            "tools" => {
                let tools = self.client.list_all_tools().await?;
                let names: Vec<_> = tools.into_iter().map(|tool| tool.name).collect();
                Ok(json!({ "tools": names, "text": self.text(&feature["call"]).await? }))
            }
            "progress" => self.progress(feature).await,
            "elicitation" | "sampling" | "resumption" => Ok(json!({ "text": self.text(&feature["call"]).await? })),
            "cancel" => self.cancel(feature).await,
            "list" => self.list(feature).await,
            "subscription" => self.subscription(feature).await,
            "zoo" => zoo::visit(&self.client).await,
            _ => Err("no such feature".into()),
        }
    }

    async fn progress(&self, feature: &Value) -> Result<Value, Failure> {
        let mut told = self.told.subscribe();
        let mut call = self.start(&feature["call"]).await?;
        let token = call.progress_token.clone();
        let mut steps = Vec::new();
        let result = loop {
            tokio::select! {
                biased;
                told = told.recv() => match told? {
                    Told::Progress(progress) if progress.progress_token == token => steps.push(progress.progress),
                    Told::Progress(_) | Told::ListChanged(_) | Told::Updated(_) => {}
                },
                result = &mut call.rx => break result??,
            }
        };
        let ServerResult::CallToolResult(result) = result else { return Err("no result of a tool".into()) };
        Ok(json!({ "steps": steps, "text": text_of(&result) }))
    }

    async fn cancel(&self, feature: &Value) -> Result<Value, Failure> {
        let mut told = self.told.subscribe();
        let mut call = self.start(&feature["call"]).await?;
        // After a progress notification or `HEAD_START`, the call counts as started.
        let early = tokio::select! {
            _ = timeout(HEAD_START, told.recv()) => false,
            _ = &mut call.rx => true,
        };
        call.cancel(Some("the user lost interest".to_owned())).await?;
        let mut outcome = json!({ "early": early, "text": self.text(&feature["after"]).await? });
        while !feature["seen"].is_null() && outcome["seen"] != "yes" {
            outcome["seen"] = self.text(&feature["seen"]).await?.into();
            tokio::time::sleep(PAUSE).await;
        }
        Ok(outcome)
    }

    async fn list(&self, feature: &Value) -> Result<Value, Failure> {
        let of = feature["of"].as_str().unwrap_or_default();
        let filter = match of {
            "tools" => SubscriptionFilter::builder().tools_list_changed(),
            _ => SubscriptionFilter::builder().resources_list_changed(),
        };
        let mut changes = self.changes(filter.build()).await?;
        let text = self.text(&feature["call"]).await?;
        loop {
            if matches!(changes.next().await?, Told::ListChanged(list) if list == of) {
                return Ok(json!({ "text": text }));
            }
        }
    }

    async fn subscription(&self, feature: &Value) -> Result<Value, Failure> {
        let uri = feature["uri"].as_str().unwrap_or_default();
        let mut changes = self.changes(SubscriptionFilter::builder().resource_subscriptions([uri]).build()).await?;
        if !self.is_modern() {
            self.client.subscribe(SubscribeRequestParams::new(uri)).await?;
        }
        let text = self.text(&feature["call"]).await?;
        loop {
            if let Told::Updated(uri) = changes.next().await? {
                return Ok(json!({ "text": text, "uri": uri }));
            }
        }
    }

    /// The notifications that the server sends from here on.
    async fn changes(&self, filter: SubscriptionFilter) -> Result<Changes, Failure> {
        if self.is_modern() {
            Ok(Changes::Listening(Box::new(self.client.listen(filter).await?)))
        } else {
            Ok(Changes::Told(self.told.subscribe()))
        }
    }

    async fn start(&self, call: &Value) -> Result<RequestHandle<RoleClient>, Failure> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params_of(call)?));
        Ok(self.client.send_cancellable_request(request, PeerRequestOptions::no_options()).await?)
    }

    async fn text(&self, call: &Value) -> Result<String, Failure> {
        Ok(text_of(&self.client.call_tool(params_of(call)?).await?))
    }
}

enum Changes {
    Listening(Box<Subscription>),
    Told(broadcast::Receiver<Told>),
}

impl Changes {
    async fn next(&mut self) -> Result<Told, Failure> {
        let subscription = match self {
            Self::Listening(subscription) => subscription,
            Self::Told(told) => return Ok(told.recv().await?),
        };
        match subscription.next().await? {
            Some(ServerNotification::ToolListChangedNotification(_)) => Ok(Told::ListChanged("tools")),
            Some(ServerNotification::ResourceListChangedNotification(_)) => Ok(Told::ListChanged("resources")),
            Some(ServerNotification::ResourceUpdatedNotification(update)) => Ok(Told::Updated(update.params.uri)),
            Some(_) => Err("a notification that was not requested".into()),
            None => Err(format!("the subscription ended: {:?}", subscription.end()).into()),
        }
    }
}

fn params_of(call: &Value) -> Result<CallToolRequestParams, Failure> {
    Ok(serde_json::from_value(call.clone())?)
}

fn text_of(result: &CallToolResult) -> String {
    result.content.iter().filter_map(ContentBlock::as_text).map(|content| content.text.as_str()).collect()
}
