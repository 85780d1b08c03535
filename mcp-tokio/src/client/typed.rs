//! Calls with typed parameters and results.

use mcp_proto::driver::{Error, completion, page, prompt, tool_call};
use mcp_proto::model::{
    CallToolRequest, CallToolResult, CompleteRequest, CompleteResult, CompletionReference, GetPromptRequest,
    GetPromptResult, ListPromptsRequest, ListPromptsResult, ListResourceTemplatesRequest, ListResourceTemplatesResult,
    ListResourcesRequest, ListResourcesResult, ListToolsRequest, ListToolsResult, ReadResourceRequest,
    ReadResourceRequestParams, ReadResourceResult,
};
use serde::Serialize;

use super::{Client, ListItems};

impl Client {
    /// Lists the tools of the page at `cursor`; `None` is the first page.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub async fn list_tools(&self, cursor: Option<&str>) -> Result<ListToolsResult, Error> {
        self.request_as::<ListToolsRequest>(&page(cursor)).await
    }

    /// Lists the prompts of the page at `cursor`; `None` is the first page.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub async fn list_prompts(&self, cursor: Option<&str>) -> Result<ListPromptsResult, Error> {
        self.request_as::<ListPromptsRequest>(&page(cursor)).await
    }

    /// Lists the resources of the page at `cursor`; `None` is the first page.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub async fn list_resources(&self, cursor: Option<&str>) -> Result<ListResourcesResult, Error> {
        self.request_as::<ListResourcesRequest>(&page(cursor)).await
    }

    /// Lists the resource templates of the page at `cursor`; `None` is the first page.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub async fn list_resource_templates(&self, cursor: Option<&str>) -> Result<ListResourceTemplatesResult, Error> {
        self.request_as::<ListResourceTemplatesRequest>(&page(cursor)).await
    }

    /// Calls a tool. `arguments` is a value whose JSON is an object, or `()` for none.
    ///
    /// A tool that fails returns a result with [`is_error`](CallToolResult::is_error), which is no [`Error`].
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`], and [`Error::Arguments`].
    ///
    /// # Example
    ///
    /// ```no_run
    /// #[derive(serde::Serialize)]
    /// struct Place {
    ///     city: &'static str,
    /// }
    ///
    /// # async fn example(client: mcp_tokio::Client) -> Result<(), mcp_tokio::Error> {
    /// let weather = client.call_tool("weather", Place { city: "Paris" }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn call_tool(&self, name: &str, arguments: impl Serialize) -> Result<CallToolResult, Error> {
        self.request_as::<CallToolRequest>(&tool_call(name, arguments)?).await
    }

    /// Reads a resource.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, Error> {
        self.request_as::<ReadResourceRequest>(&ReadResourceRequestParams::new(uri)).await
    }

    /// Gets a prompt. `arguments` is a value whose JSON is an object of strings, or `()` for none.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`], and [`Error::Arguments`].
    pub async fn get_prompt(&self, name: &str, arguments: impl Serialize) -> Result<GetPromptResult, Error> {
        self.request_as::<GetPromptRequest>(&prompt(name, arguments)?).await
    }

    /// Completes an argument of a prompt or of a resource template, of which `value` was entered so far.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub async fn complete(
        &self,
        reference: impl Into<CompletionReference>,
        argument: &str,
        value: &str,
    ) -> Result<CompleteResult, Error> {
        self.request_as::<CompleteRequest>(&completion(reference, argument, value)).await
    }

    /// Lists all tools, and requests one page after the other.
    pub fn list_all_tools(&self) -> ListItems<ListToolsRequest> {
        ListItems::new(self.clone())
    }

    /// Lists all prompts, and requests one page after the other.
    pub fn list_all_prompts(&self) -> ListItems<ListPromptsRequest> {
        ListItems::new(self.clone())
    }

    /// Lists all resources, and requests one page after the other.
    pub fn list_all_resources(&self) -> ListItems<ListResourcesRequest> {
        ListItems::new(self.clone())
    }

    /// Lists all resource templates, and requests one page after the other.
    pub fn list_all_resource_templates(&self) -> ListItems<ListResourceTemplatesRequest> {
        ListItems::new(self.clone())
    }
}
