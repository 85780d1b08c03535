//! Calls with typed parameters and results.

#[cfg(feature = "skills")]
use mcp_application::skills::ExpectedFile;
use mcp_application::{Error, completion, directory, page, prompt, tool_call};
use mcp_model::{
    CallToolRequest, CallToolResult, CompleteRequest, CompleteResult, CompletionReference, GetPromptRequest,
    GetPromptResult, GetSkillRequest, GetSkillRequestParams, ListPromptsRequest, ListPromptsResult,
    ListResourceTemplatesRequest, ListResourceTemplatesResult, ListResourcesRequest, ListResourcesResult,
    ListSkillsRequest, ListSkillsResult, ListToolsRequest, ListToolsResult, ReadResourceDirectoryRequest,
    ReadResourceDirectoryResult, ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult, Skill,
};
use serde::Serialize;

use super::{Client, ListItems};

impl Client {
    /// Lists the tools of the page at `cursor`; `None` is the first page.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub fn list_tools(&self, cursor: Option<&str>) -> Result<ListToolsResult, Error> {
        self.request_as::<ListToolsRequest>(&page(cursor))
    }

    /// Lists the prompts of the page at `cursor`; `None` is the first page.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub fn list_prompts(&self, cursor: Option<&str>) -> Result<ListPromptsResult, Error> {
        self.request_as::<ListPromptsRequest>(&page(cursor))
    }

    /// Lists the resources of the page at `cursor`; `None` is the first page.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub fn list_resources(&self, cursor: Option<&str>) -> Result<ListResourcesResult, Error> {
        self.request_as::<ListResourcesRequest>(&page(cursor))
    }

    /// Lists the resource templates of the page at `cursor`; `None` is the first page.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub fn list_resource_templates(&self, cursor: Option<&str>) -> Result<ListResourceTemplatesResult, Error> {
        self.request_as::<ListResourceTemplatesRequest>(&page(cursor))
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
    /// # fn example(client: mcp_blocking::Client) -> Result<(), mcp_blocking::Error> {
    /// let weather = client.call_tool("weather", Place { city: "Paris" })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_tool(&self, name: &str, arguments: impl Serialize) -> Result<CallToolResult, Error> {
        self.request_as::<CallToolRequest>(&tool_call(name, arguments)?)
    }

    /// Reads a resource.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, Error> {
        self.request_as::<ReadResourceRequest>(&ReadResourceRequestParams::new(uri))
    }

    /// Lists the direct children of a directory of resources, of the page at `cursor`; `None` is the first page. Servers with
    /// skills may declare this (`directoryRead` of the extension `io.modelcontextprotocol/skills`).
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub fn read_directory(&self, uri: &str, cursor: Option<&str>) -> Result<ReadResourceDirectoryResult, Error> {
        self.request_as::<ReadResourceDirectoryRequest>(&directory(uri, cursor))
    }

    /// Lists the skills of the page at `cursor`; `None` is the first page. An entry has all that a client
    /// shows to its user; a file is read only when it is needed (SK-11).
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub fn list_skills(&self, cursor: Option<&str>) -> Result<ListSkillsResult, Error> {
        self.request_as::<ListSkillsRequest>(&page(cursor))
    }

    /// Requests the entry of the skill whose `SKILL.md` has this URI. The list need not have it.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub fn get_skill(&self, uri: &str) -> Result<Skill, Error> {
        Ok(self.request_as::<GetSkillRequest>(&GetSkillRequestParams::new(uri))?.skill)
    }

    /// Reads a file of a skill, and compares it with the entry of the skill. That of `SKILL.md` is `skill.uri`.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`], and [`Error::Skill`] if the entry does not have the file, or describes another one.
    #[cfg(feature = "skills")]
    pub fn read_skill_file(&self, skill: &Skill, uri: &str) -> Result<Vec<u8>, Error> {
        let expected = ExpectedFile::new(skill, uri)?;
        Ok(expected.verify(&self.read_resource(uri)?)?)
    }

    /// Gets a prompt. `arguments` is a value whose JSON is an object of strings, or `()` for none.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`], and [`Error::Arguments`].
    pub fn get_prompt(&self, name: &str, arguments: impl Serialize) -> Result<GetPromptResult, Error> {
        self.request_as::<GetPromptRequest>(&prompt(name, arguments)?)
    }

    /// Completes an argument of a prompt or of a resource template, of which `value` was entered so far.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`].
    pub fn complete(
        &self,
        reference: impl Into<CompletionReference>,
        argument: &str,
        value: &str,
    ) -> Result<CompleteResult, Error> {
        self.request_as::<CompleteRequest>(&completion(reference, argument, value))
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

    /// Lists all skills, and requests one page after the other.
    pub fn list_all_skills(&self) -> ListItems<ListSkillsRequest> {
        ListItems::new(self.clone())
    }

    /// Lists all resource templates, and requests one page after the other.
    pub fn list_all_resource_templates(&self) -> ListItems<ListResourceTemplatesRequest> {
        ListItems::new(self.clone())
    }
}
