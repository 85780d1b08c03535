//! What `mcp-tokio/examples/counter.rs` does, with rmcp: tools that share a state, two resources, and a prompt.

use std::sync::atomic::{AtomicI64, Ordering};

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::*;
use rmcp::service::RequestContext;
use rmcp::{
    RoleServer, ServerHandler, ServiceExt, prompt, prompt_handler, prompt_router, tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Sum {
    /// The left summand
    a: i64,
    /// The right summand
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Example {
    /// A text that becomes part of the message
    message: String,
}

#[derive(Default)]
struct Counter {
    counter: AtomicI64,
}

#[tool_router]
impl Counter {
    #[tool(description = "Increments the counter by 1.")]
    fn increment(&self) -> String {
        (self.counter.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    }

    #[tool(description = "Decrements the counter by 1.")]
    fn decrement(&self) -> String {
        (self.counter.fetch_sub(1, Ordering::Relaxed) - 1).to_string()
    }

    #[tool(description = "Returns the value of the counter.")]
    fn get_value(&self) -> String {
        self.counter.load(Ordering::Relaxed).to_string()
    }

    #[tool(description = "Says hello to the client.")]
    fn say_hello(&self) -> String {
        "Hello!".into()
    }

    #[tool(description = "Repeats a message.")]
    fn echo(&self, Parameters(Example { message }): Parameters<Example>) -> String {
        message
    }

    #[tool(description = "Adds two numbers.")]
    fn sum(&self, Parameters(Sum { a, b }): Parameters<Sum>) -> Result<String, String> {
        Ok(a.checked_add(b).ok_or("the sum is too large")?.to_string())
    }
}

#[prompt_router]
impl Counter {
    #[prompt(description = "A prompt with one argument.")]
    async fn example_prompt(&self, Parameters(Example { message }): Parameters<Example>) -> Vec<PromptMessage> {
        let text = format!("This is an example prompt with your message here: '{message}'");
        vec![PromptMessage::new_text(Role::User, text)]
    }
}

#[tool_handler]
#[prompt_handler]
impl ServerHandler for Counter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_prompts().enable_resources().enable_tools().build())
            .with_server_info(Implementation::new("counter", "1.0.0"))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![
            Resource::new("str:////Users/to/some/path/", "cwd"),
            Resource::new("memo://insights", "memo-name"),
        ]))
    }

    async fn read_resource(
        &self,
        ReadResourceRequestParams { uri, .. }: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match &*uri {
            "str:////Users/to/some/path/" => "/Users/to/some/path/",
            "memo://insights" => "Business intelligence memo",
            _ => return Err(ErrorData::resource_not_found("no such resource", None)),
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri)]).into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Counter::default().serve(rmcp::transport::stdio()).await?.waiting().await?;
    Ok(())
}
