//! Routes the requests for tools, prompts, resources and completions to functions of the application.
//!
//! A [`Router`] is a table of what a server offers. It answers the lists and their pages, refuses what is not in the
//! table, and finds the handler for everything else. It does not call the handler, because that differs between
//! runtimes: `H` is the driver's type of handlers. The drivers `mcp-tokio` and `mcp-blocking` have a `Router` on top of
//! this one, which accepts functions with typed arguments; an application uses that.
//!
//! | file | what it does |
//! |---|---|
//! | `entries` | registered handlers in their order, and the pages of their list |
//! | `routed` | a request whose handler was found: its arguments and its answer |
//! | `arguments` | arguments to the types of handlers, and what is wrong with them by name |
//! | `answer`, `structured_answer` | what handlers may return |
//! | `driver_router` | what the router of a driver consists of, and its methods that are the same in all drivers |
//! | `missing_schema` | what the compiler states without the feature `schema` |
//! | `extension` | protocol extensions: their methods, and their hooks |
//! | `finite` | numbers that JSON cannot represent (feature `schema`) |
//! | `skills` | skills, whose files are resources (feature `skills`) |
//! | `state_router` | functions that receive a state of the application |
//! | `schema` | JSON schemas and forms of Rust types (feature `schema`) |
//! | `shared` | a router that may change while servers use it |
//!
//! # Example: a driver without I/O
//!
//! ```
//! use mcp_model::{CallToolRequest, Tool};
//! use mcp_application::router::{HandlerError, Routed, Router};
//! use mcp_proto::{Json, Method, ProtocolVersion};
//!
//! let mut router = Router::new();
//! router.add_tool(&Tool::without_arguments("hello").description("Says hello."), || "Hello!");
//!
//! let params = Json::parse(r#"{"name":"hello"}"#)?;
//! let routed = router.route(&Method::TOOLS_CALL, Some(&params), ProtocolVersion::LATEST);
//! let Routed::Handled { handler, call } = routed else { panic!() };
//! let answer = call.answer::<CallToolRequest, _>(Ok::<_, HandlerError>(handler()));
//! assert_eq!(answer.unwrap().as_bytes(), br#"{"content":[{"type":"text","text":"Hello!"}]}"#);
//! # Ok::<(), mcp_proto::JsonError>(())
//! ```

mod answer;
pub(crate) mod arguments;
mod driver_router;
mod entries;
mod extension;
#[cfg(feature = "schema")]
mod finite;
mod missing_schema;
mod routed;
#[cfg(feature = "schema")]
mod schema;
mod shared;
#[cfg(feature = "skills")]
mod skills;
mod state_router;
#[cfg(feature = "schema")]
mod structured_answer;

use std::collections::BTreeMap;
#[cfg(feature = "skills")]
use std::sync::Arc;

use entries::Entries;
use extension::{Extended, Extensions};
use mcp_model::{
    APP_MIME_TYPE, CallToolRequest, CompleteRequest, CompleteResult, Completion, CompletionReference, GetPromptRequest,
    JsonObject, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest, Payload,
    Prompt, PromptsCapability, ReadResourceRequest, RequestMethod, Resource, ResourceTemplate, ResourcesCapability,
    ServerCapabilities, Tool, ToolsCapability, UriTemplate,
};
#[cfg(feature = "skills")]
use mcp_proto::spec::SKILLS_EXTENSION;
use mcp_proto::spec::param_headers::Annotations;
use mcp_proto::spec::structured;
use mcp_proto::{ErrorObject, Json, Method, Notification, ProtocolVersion};
#[cfg(feature = "skills")]
use skills::Skills;

pub use answer::{ExtensionRequest, IntoAnswer, extension_result};
pub use driver_router::DriverRouter;
pub use extension::{AfterRoute, Extension, Hooked, RouteOutcome, notification_params};
pub use mcp_proto::server::HandlerError;
pub use missing_schema::NeedsFeatureSchema;
pub use routed::{CompletionInput, RoutedCall};
#[cfg(feature = "schema")]
pub use schema::{NoArguments, form_of, output_schema, prompt_arguments, tool_of, tool_schema};
pub use shared::{ChangeableRouter, Changed, SharedRoutes};
#[cfg(feature = "schema")]
pub use structured_answer::Structured;

#[cfg(feature = "skills")]
use crate::skills::{InvalidSkill, SkillDirectory};
#[cfg(feature = "validation")]
use crate::validation::CheckedTool;
use crate::{IncomingRequest, InvalidService};

/// The tools, prompts, resources and completions of a server, each with a handler.
///
/// Lists have the order of registration. If a tool was added, all requests for tools are routed here, also after the last
/// tool was removed; and the same holds for prompts, and for resources with their templates. If there is a completion, all
/// requests for completions are.
///
/// A skill (feature `skills`) has no handler: its files are resources, which the router reads itself, and it answers the
/// requests of the extension `io.modelcontextprotocol/skills` in every revision. The list of resources has its `SKILL.md`,
/// so that clients without the extension find it too.
#[derive(Debug, Clone)]
pub struct Router<H> {
    tools: Entries<H>,
    /// The schemas by which calls of tools are validated; `None` if they are not.
    #[cfg(feature = "validation")]
    schemas: Option<BTreeMap<Box<str>, CheckedTool>>,
    prompts: Entries<H>,
    /// The `SKILL.md` of a skill has no handler.
    resources: Entries<Option<Readable<H>>>,
    #[cfg(feature = "skills")]
    skills: Arc<Skills>,
    extensions: Extensions<H>,
    templates: Entries<(UriTemplate, Readable<H>)>,
    completions: BTreeMap<Completed, H>,
    page_size: usize,
    /// Receives the errors that clients do not.
    log_error: Option<fn(&str, &str)>,
    /// The first mistake of the application.
    mistake: Option<InvalidService>,
}

/// The handler of a resource or a template, and the media type of what it returns.
#[derive(Debug, Clone)]
struct Readable<H> {
    handler: H,
    mime_type: Option<Box<str>>,
}

/// What is completed: an argument of a prompt, or a variable of a resource template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Completed {
    Prompt { name: String, argument: String },
    Template { uri_template: String, variable: String },
}

/// What is to be done with a request.
#[derive(Debug)]
pub enum Routed<H> {
    /// The handler is called for it.
    Handled {
        /// The handler.
        handler: H,
        /// The arguments for it, and the form of its answer.
        call: RoutedCall,
    },
    /// This is the answer.
    Answered(Result<Json, ErrorObject>),
    /// The router has nothing of this kind.
    Unrouted,
}

impl<H> Default for Router<H> {
    fn default() -> Self {
        Self {
            tools: Entries::default(),
            #[cfg(feature = "validation")]
            schemas: None,
            prompts: Entries::default(),
            resources: Entries::default(),
            #[cfg(feature = "skills")]
            skills: Arc::default(),
            extensions: Extensions::default(),
            templates: Entries::default(),
            completions: BTreeMap::new(),
            page_size: usize::MAX,
            log_error: None,
            mistake: None,
        }
    }
}

impl<H: Clone> Router<H> {
    /// A router without any handler.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the largest number of entries on a page of a list. By default, a list has one page, because some clients
    /// read only the first.
    pub fn set_page_size(&mut self, entries: usize) {
        self.page_size = entries.max(1);
    }

    /// Passes the text of each error that is not meant for the client to this function, and a text without the reason
    /// to the client: see [`HandlerError`]. The function receives the method first, with the name of the tool or the
    /// prompt.
    ///
    /// # Example
    ///
    /// ```
    /// use std::io;
    ///
    /// use mcp_application::router::{HandlerError, Routed, Router};
    /// use mcp_model::{CallToolRequest, Tool};
    /// use mcp_proto::{Json, Method, ProtocolVersion};
    ///
    /// let mut router = Router::new();
    /// router.hide_errors(|request, text| assert_eq!((request, text), ("tools/call t", "disk 7 is full")));
    /// router.add_tool(&Tool::without_arguments("t"), ());
    /// let params = Json::parse(r#"{"name":"t"}"#)?;
    /// let routed = router.route(&Method::TOOLS_CALL, Some(&params), ProtocolVersion::LATEST);
    /// let Routed::Handled { call, .. } = routed else { panic!() };
    ///
    /// let error = HandlerError::from(io::Error::other("disk 7 is full"));
    /// let answer = call.answer::<CallToolRequest, String>(Err(error)).unwrap().to_string();
    /// assert!(!answer.contains("disk") && answer.contains(r#""isError":true"#));
    /// # Ok::<(), mcp_proto::JsonError>(())
    /// ```
    pub fn hide_errors(&mut self, log_error: fn(&str, &str)) {
        self.log_error = Some(log_error);
    }

    /// Adds a tool.
    pub fn add_tool(&mut self, tool: &Tool, handler: H) {
        let schema = &tool.input_schema;
        if schema.as_json().first_member("type").is_none_or(|kind| kind.as_bytes() != b"\"object\"") {
            self.mistaken(InvalidService::ToolSchema { tool: tool.name.as_str().into() });
        }
        if let Err(reason) = Annotations::read(schema.as_json()) {
            self.mistaken(InvalidService::HeaderAnnotation { tool: tool.name.as_str().into(), reason });
        }
        let is_new = self.tools.add(&tool.name, tool.to_json(), handler);
        if !is_new {
            self.mistaken_duplicate("tools", &tool.name);
        }
        #[cfg(feature = "validation")]
        if is_new {
            self.compile_schemas(tool);
        }
    }

    /// Validates the arguments and the structured results of all tools by their schemas, also of those that are added
    /// later.
    #[cfg(feature = "validation")]
    pub fn validate(&mut self) {
        self.schemas.get_or_insert_default();
        for tool in self.tools.listed().filter_map(|tool| Tool::from_json(tool).ok()).collect::<Vec<_>>() {
            self.compile_schemas(&tool);
        }
    }

    #[cfg(feature = "validation")]
    fn compile_schemas(&mut self, tool: &Tool) {
        let Some(schemas) = &mut self.schemas else { return };
        match CheckedTool::new(tool) {
            Ok(checked) => {
                schemas.insert(tool.name.as_str().into(), checked);
            }
            Err(reason) => self.mistaken(InvalidService::InvalidToolSchema { tool: tool.name.as_str().into(), reason }),
        }
    }

    /// Removes a tool. Returns whether there was one of this name.
    pub fn remove_tool(&mut self, name: &str) -> bool {
        #[cfg(feature = "validation")]
        if let Some(schemas) = &mut self.schemas {
            schemas.remove(name);
        }
        self.tools.remove(name)
    }

    /// Adds a prompt.
    pub fn add_prompt(&mut self, prompt: &Prompt, handler: H) {
        if !self.prompts.add(&prompt.name, prompt.to_json(), handler) {
            self.mistaken_duplicate("prompts", &prompt.name);
        }
    }

    /// Adds a prompt whose arguments are the fields of `A`, which are texts.
    #[cfg(feature = "schema")]
    pub fn add_prompt_of<A: schemars::JsonSchema>(&mut self, name: &str, description: &str, handler: H) {
        match prompt_arguments::<A>() {
            Ok(arguments) => {
                self.add_prompt(&Prompt::new(name).description(description).arguments(arguments), handler);
            }
            Err(argument) => self.mistaken(InvalidService::PromptArgument { prompt: name.into(), argument }),
        }
    }

    /// Removes a prompt. Returns whether there was one of this name.
    pub fn remove_prompt(&mut self, name: &str) -> bool {
        self.prompts.remove(name)
    }

    /// Adds a resource.
    pub fn add_resource(&mut self, resource: &Resource, handler: H) {
        let readable = Readable { handler, mime_type: resource.mime_type.as_deref().map(Box::from) };
        #[cfg(feature = "skills")]
        let is_of_skill = self.skills.has_file(&resource.uri);
        #[cfg(not(feature = "skills"))]
        let is_of_skill = false;
        if is_of_skill || !self.resources.add(&resource.uri, resource.to_json(), Some(readable)) {
            self.mistaken_duplicate("resources", &resource.uri);
        }
    }

    /// Notes a mistake in the entry of an app: its URI does not begin with `ui://`, or its media type is not
    /// [`APP_MIME_TYPE`], so that clients would not show it.
    pub fn check_app(&mut self, resource: &Resource) {
        if !resource.uri.starts_with("ui://") || resource.mime_type.as_deref() != Some(APP_MIME_TYPE) {
            self.mistaken(InvalidService::App { uri: resource.uri.as_str().into() });
        }
    }

    /// Removes a resource. Returns whether there was one of this URI; the files of skills are not removed.
    pub fn remove_resource(&mut self, uri: &str) -> bool {
        self.resources.get(uri).is_some_and(Option::is_some) && self.resources.remove(uri)
    }

    /// Adds a skill.
    #[cfg(feature = "skills")]
    pub fn add_skill(&mut self, skill: &SkillDirectory) {
        let uri = skill.uri();
        if self.skills.has_file(&uri) {
            return self.mistaken_duplicate("skills", &uri);
        }
        let added = skill.served().and_then(|served| {
            let taken = served.files.iter().find(|file| self.resources.get(&file.uri).is_some());
            if let Some(file) = taken {
                return Err(InvalidSkill::DuplicateResource { uri: file.uri.as_str().into() });
            }
            // The extension shares the skills, which would be copied.
            self.extensions.remove(SKILLS_EXTENSION);
            let listed = Arc::make_mut(&mut self.skills).add(served);
            self.serve_skills();
            self.resources.add(&uri, listed?, None);
            Ok(())
        });
        if let Err(reason) = added {
            self.mistaken(InvalidService::Skill { path: skill.path().into(), reason });
        }
    }

    /// Removes a skill. Returns whether there was one whose `SKILL.md` has this URI.
    #[cfg(feature = "skills")]
    pub fn remove_skill(&mut self, uri: &str) -> bool {
        self.extensions.remove(SKILLS_EXTENSION);
        let is_removed = Arc::make_mut(&mut self.skills).remove(uri);
        self.serve_skills();
        is_removed && self.resources.remove(uri)
    }

    /// Adds the extension for skills, with the skills as they are now.
    #[cfg(feature = "skills")]
    fn serve_skills(&mut self) {
        if let Some(row) = Skills::extension(&self.skills) {
            // The application may have added an extension with the same id.
            if let Err(mistake) = self.extensions.add(row) {
                self.mistaken(mistake);
            }
        }
    }

    /// Adds an extension. Returns the handlers of its notifications.
    pub fn add_extension<N>(&mut self, extension: Extension<H, N>) -> BTreeMap<Method, N> {
        let (row, notifications, mistake) = extension.into_parts();
        if let Some(mistake) = mistake.or(self.extensions.add(row).err()) {
            self.mistaken(mistake);
        }
        notifications
    }

    /// Removes the extension of the specification with this id, if the router serves it.
    pub fn remove_extension(&mut self, id: &str) {
        self.extensions.remove(id);
    }

    /// Notes that two extensions have a notification of this name.
    pub fn mistaken_notification(&mut self, method: &Method) {
        self.mistaken(extension::duplicate_method(method));
    }

    /// Calls the hooks of the extensions for a request, and checks that its client has declared the extension that its
    /// method needs.
    ///
    /// # Errors
    ///
    /// The outcome of the request, which is not routed.
    pub fn begin(&self, request: &IncomingRequest) -> Result<Hooked, RouteOutcome> {
        self.extensions.begin(request)
    }

    /// Whether a notification of an extension is handled, if it is of a client with these capabilities.
    #[must_use]
    pub fn takes_notification(&self, method: &Method, client_capabilities: &Json) -> bool {
        self.extensions.take_notification(method, client_capabilities)
    }

    /// Adds a resource template (RFC 6570), as far as it [can be matched](UriTemplate::can_be_matched). A decoded value may
    /// contain `/`: a handler that opens files must check it, as it may contain `../`. An exploded variable such as `{/path*}`
    /// is an array of strings.
    pub fn add_resource_template(&mut self, template: &ResourceTemplate, handler: H) {
        let text = &template.uri_template;
        let Some(parsed) = text.parse().ok().filter(UriTemplate::can_be_matched) else {
            return self.mistaken(InvalidService::UriTemplate { template: text.as_str().into() });
        };
        let readable = Readable { handler, mime_type: template.mime_type.as_deref().map(Box::from) };
        if !self.templates.add(text, template.to_json(), (parsed, readable)) {
            self.mistaken_duplicate("resource templates", text);
        }
    }

    /// Removes a resource template. Returns whether there was one of this text.
    pub fn remove_resource_template(&mut self, uri_template: &str) -> bool {
        self.templates.remove(uri_template)
    }

    /// Adds the completion of an argument of a prompt.
    pub fn add_prompt_completion(&mut self, prompt: &str, argument: &str, handler: H) {
        let completed = Completed::Prompt { name: prompt.to_owned(), argument: argument.to_owned() };
        if self.completions.insert(completed, handler).is_some() {
            self.mistaken_duplicate("completions of one prompt", argument);
        }
    }

    /// Adds the completion of a variable of a resource template.
    pub fn add_template_completion(&mut self, uri_template: &str, variable: &str, handler: H) {
        let completed = Completed::Template { uri_template: uri_template.to_owned(), variable: variable.to_owned() };
        if self.completions.insert(completed, handler).is_some() {
            self.mistaken_duplicate("completions of one resource template", variable);
        }
    }

    fn mistaken_duplicate(&mut self, kind: &'static str, name: &str) {
        self.mistaken(InvalidService::DuplicateRoute { kind, name: name.into() });
    }

    fn mistaken(&mut self, mistake: InvalidService) {
        self.mistake.get_or_insert(mistake);
    }

    /// The capabilities of a server with this router, and whether its lists may change.
    ///
    /// # Errors
    ///
    /// The first mistake: two entries have the same name, the schema of a tool's arguments is not that of an object or
    /// has an invalid `x-mcp-header`, a schema cannot be compiled (feature `validation`), an app is none, a URI template has
    /// expressions that cannot be matched, or a skill cannot be served.
    ///
    /// Rules: MD-P-05.
    pub fn capabilities(&self, may_change: bool) -> Result<ServerCapabilities, InvalidService> {
        if let Some(mistake) = &self.mistake {
            return Err(mistake.clone());
        }
        let flag = may_change.then_some(true);
        let mut capabilities = ServerCapabilities::new();
        if self.tools.is_offered() {
            let mut tools = ToolsCapability::new();
            tools.list_changed = flag;
            capabilities.tools = Some(tools);
        }
        if self.prompts.is_offered() {
            let mut prompts = PromptsCapability::new();
            prompts.list_changed = flag;
            capabilities.prompts = Some(prompts);
        }
        if self.has_resources() {
            let mut resources = ResourcesCapability::new();
            resources.list_changed = flag;
            capabilities.resources = Some(resources);
        }
        if !self.completions.is_empty() {
            capabilities.completions = Some(JsonObject::new());
        }
        capabilities.extensions = self.extensions.declared();
        Ok(capabilities)
    }

    /// The notifications about the lists that differ between this router and a later one.
    #[must_use]
    pub fn changes(&self, later: &Self) -> Vec<Notification> {
        let resources_differ =
            !self.resources.has_same_list(&later.resources) || !self.templates.has_same_list(&later.templates);
        // The extension has no notification of its own.
        #[cfg(feature = "skills")]
        let resources_differ = resources_differ || !self.skills.has_same_list(&later.skills);
        let changed = [
            (!self.tools.has_same_list(&later.tools), Method::TOOLS_LIST_CHANGED),
            (!self.prompts.has_same_list(&later.prompts), Method::PROMPTS_LIST_CHANGED),
            (resources_differ, Method::RESOURCES_LIST_CHANGED),
        ];
        changed.into_iter().filter(|(differs, _)| *differs).map(|(_, method)| Notification::new(method)).collect()
    }

    fn has_resources(&self) -> bool {
        self.resources.is_offered() || self.templates.is_offered()
    }

    /// Finds what is to be done with a request of this revision.
    #[must_use]
    pub fn route(&self, method: &Method, params: Option<&Json>, version: ProtocolVersion) -> Routed<H> {
        match self.find(method, params, version) {
            Routed::Handled { handler, call } => Routed::Handled { handler, call: call.log_errors(self.log_error) },
            other @ (Routed::Answered(_) | Routed::Unrouted) => other,
        }
    }

    fn find(&self, method: &Method, params: Option<&Json>, version: ProtocolVersion) -> Routed<H> {
        match self.extensions.find(method, params, version, self.page_size) {
            Some(Extended::Answered(answer)) => return Routed::Answered(answer),
            Some(Extended::Handled(handler, call)) => return Routed::Handled { handler, call },
            None => {}
        }
        if *method == ListToolsRequest::METHOD && self.tools.is_offered() {
            let tools = page("tools", &self.tools, params, self.page_size);
            return Routed::Answered(tools.map(|list| structured::result_for(version, method, list)));
        }
        if *method == CallToolRequest::METHOD && self.tools.is_offered() {
            return routed(self.call_tool(params, version));
        }
        if *method == ListPromptsRequest::METHOD && self.prompts.is_offered() {
            return Routed::Answered(page("prompts", &self.prompts, params, self.page_size));
        }
        if *method == GetPromptRequest::METHOD && self.prompts.is_offered() {
            return routed(self.get_prompt(params, version));
        }
        if *method == ListResourcesRequest::METHOD && self.has_resources() {
            return Routed::Answered(page("resources", &self.resources, params, self.page_size));
        }
        if *method == ListResourceTemplatesRequest::METHOD && self.has_resources() {
            return Routed::Answered(page("resourceTemplates", &self.templates, params, self.page_size));
        }
        if *method == ReadResourceRequest::METHOD && self.has_resources() {
            return routed(self.read_resource(params, version));
        }
        if *method == CompleteRequest::METHOD && !self.completions.is_empty() {
            return self.complete(params, version);
        }
        Routed::Unrouted
    }

    fn call_tool(&self, params: Option<&Json>, version: ProtocolVersion) -> Result<Routed<H>, ErrorObject> {
        let params = CallToolRequest::params(params)?;
        let handler = self.tools.get(&params.name).ok_or_else(|| {
            ErrorObject::invalid_params("there is no tool of this name; tools/list returns the names of all")
        })?;
        let arguments = params.arguments.map_or(Json::empty_object(), Json::from);
        #[cfg(feature = "validation")]
        let schemas = self.schemas.as_ref().and_then(|schemas| schemas.get(params.name.as_str())).cloned();
        let call = RoutedCall::tool(params.name, arguments, version);
        #[cfg(feature = "validation")]
        let call = call.checked_by(schemas);
        Ok(Routed::Handled { handler: handler.clone(), call })
    }

    fn get_prompt(&self, params: Option<&Json>, version: ProtocolVersion) -> Result<Routed<H>, ErrorObject> {
        let params = GetPromptRequest::params(params)?;
        let handler = self.prompts.get(&params.name).ok_or_else(|| {
            ErrorObject::invalid_params("there is no prompt of this name; prompts/list returns the names of all")
        })?;
        let arguments = strings(params.arguments.iter().flatten());
        Ok(Routed::Handled { handler: handler.clone(), call: RoutedCall::prompt(params.name, arguments, version) })
    }

    fn read_resource(&self, params: Option<&Json>, version: ProtocolVersion) -> Result<Routed<H>, ErrorObject> {
        let uri = ReadResourceRequest::params(params)?.uri;
        let templates = || {
            let mut templates = self.templates.iter();
            templates.find_map(|(template, readable)| Some((readable, template.match_uri(&uri)?)))
        };
        let resource = self.resources.get(&uri).and_then(Option::as_ref).map(|readable| (readable, BTreeMap::new()));
        let (readable, variables) =
            resource.or_else(templates).ok_or_else(|| ErrorObject::resource_not_found(&uri, version))?;
        let variables = object(variables.iter().map(|(name, value)| (name, Json::from(value))));
        let call = RoutedCall::resource(variables, uri, readable.mime_type.clone(), version);
        Ok(Routed::Handled { handler: readable.handler.clone(), call })
    }

    fn complete(&self, params: Option<&Json>, version: ProtocolVersion) -> Routed<H> {
        let params = match CompleteRequest::params(params) {
            Ok(params) => params,
            Err(error) => return Routed::Answered(Err(error.into())),
        };
        let argument = params.argument.name;
        let (is_offered, completed) = match params.reference {
            CompletionReference::Prompt(prompt) => {
                (self.prompts.get(&prompt.name).is_some(), Completed::Prompt { name: prompt.name, argument })
            }
            CompletionReference::Resource(template) => (
                self.templates.get(&template.uri).is_some(),
                Completed::Template { uri_template: template.uri, variable: argument },
            ),
            CompletionReference::Other(_) | _ => {
                return Routed::Answered(Err(ErrorObject::invalid_params("unknown kind of reference")));
            }
        };
        match self.completions.get(&completed) {
            Some(handler) => {
                let earlier = strings(params.context.iter().flat_map(|context| context.arguments.iter().flatten()));
                let value = Json::from(params.argument.value.as_str());
                let arguments = Json::empty_object().with_members(&[("arguments", &earlier), ("value", &value)]);
                Routed::Handled { handler: handler.clone(), call: RoutedCall::new(arguments, version) }
            }
            None if is_offered => {
                let nothing = CompleteResult::new(Completion::new(Vec::new()));
                Routed::Answered(Ok(nothing.into()))
            }
            None => Routed::Answered(Err(ErrorObject::invalid_params("unknown prompt or resource template"))),
        }
    }
}

/// The result of a request for a page of a list, which is its member `member`.
fn page<E>(member: &str, entries: &Entries<E>, params: Option<&Json>, page_size: usize) -> Result<Json, ErrorObject> {
    let cursor = ListToolsRequest::params(params)?.cursor;
    let page = entries
        .page(cursor.as_deref(), page_size)
        .ok_or_else(|| ErrorObject::invalid_params("no list has this cursor; request the list again, without one"))?;
    let list = Json::empty_object().with_member(member, &page.list);
    Ok(page.next.map_or(list.clone(), |next| list.with_member("nextCursor", &Json::from(next.as_str()))))
}

fn routed<H>(found: Result<Routed<H>, ErrorObject>) -> Routed<H> {
    found.unwrap_or_else(|error| Routed::Answered(Err(error)))
}

fn strings<'s>(members: impl IntoIterator<Item = (&'s String, &'s String)>) -> Json {
    object(members.into_iter().map(|(name, text)| (name, Json::from(text.as_str()))))
}

fn object<'n>(members: impl IntoIterator<Item = (&'n String, Json)>) -> Json {
    let members: Vec<_> = members.into_iter().collect();
    let members: Vec<_> = members.iter().map(|(name, value)| (name.as_str(), value)).collect();
    Json::empty_object().with_members(&members)
}

#[cfg(test)]
mod tests {
    use mcp_model::JsonObject;

    use super::*;

    fn tool(name: &str) -> Tool {
        Tool::without_arguments(name)
    }

    #[test]
    fn each_list_that_differs_is_a_change() {
        type Add = fn(&mut Router<()>);
        let cases: [(Add, &str); 4] = [
            (|router| router.add_tool(&tool("a"), ()), "notifications/tools/list_changed"),
            (|router| router.add_prompt(&Prompt::new("p"), ()), "notifications/prompts/list_changed"),
            (|router| router.add_resource(&Resource::new("x:r", "r"), ()), "notifications/resources/list_changed"),
            (
                |router| router.add_resource_template(&ResourceTemplate::new("x:{a}", "t"), ()),
                "notifications/resources/list_changed",
            ),
        ];
        let with = |added: &[Add]| {
            let mut router = Router::new();
            for add in added {
                add(&mut router);
            }
            router
        };
        let changes = |earlier: &Router<()>, later: &Router<()>| {
            let changes = earlier.changes(later).into_iter();
            changes.map(|change| change.method.as_str().to_owned()).collect::<Vec<_>>()
        };
        let all = cases.map(|(add, _)| add);
        for (at, (add, method)) in cases.into_iter().enumerate() {
            let others = [&all[..at], &all[at + 1..]].concat();
            for (earlier, later) in [(with(&[]), with(&[add])), (with(&others), with(&all))] {
                assert_eq!(changes(&earlier, &later), [method]);
                assert_eq!(changes(&later, &earlier), [method]);
            }
        }
        assert_eq!(changes(&with(&all), &with(&all)), [""; 0]);
    }

    /// Templates as GitHub's server has them.
    #[test]
    fn a_function_reads_the_variables_of_every_kind_of_template() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Variables {
            repo: String,
            #[serde(default)]
            path: Vec<String>,
            page: Option<u32>,
        }
        let mut router = Router::new();
        router.add_resource_template(&ResourceTemplate::new("repo://{repo}/contents{/path*}{?page}", "contents"), ());
        for (uri, expected) in [
            ("repo://r/contents/src/a%20b.rs?page=2", Some((vec!["src", "a b.rs"], Some(2)))),
            ("repo://r/contents/src", Some((vec!["src"], None))),
            ("repo://r/contents", Some((vec![], None))),
            ("repo://r/content", None),
        ] {
            let params = Json::empty_object().with_members(&[("uri", &Json::from(uri))]);
            let expected = expected.map(|(path, page)| Variables {
                repo: "r".to_owned(),
                path: path.into_iter().map(str::to_owned).collect(),
                page,
            });
            match router.read_resource(Some(&params), ProtocolVersion::LATEST) {
                Ok(Routed::Handled { call, .. }) => assert_eq!(call.arguments().ok(), expected, "{uri}"),
                _ => assert_eq!(expected, None, "{uri}"),
            }
        }
    }

    #[cfg(feature = "validation")]
    fn schema(text: &str) -> JsonObject {
        JsonObject::try_from(Json::parse(text.to_owned()).unwrap()).unwrap()
    }

    /// What a client receives for a call with these arguments of a tool whose function returns `result`.
    #[cfg(feature = "validation")]
    fn called(router: &Router<()>, arguments: &str, result: mcp_model::CallToolResult) -> Result<String, String> {
        let params = Json::parse(format!(r#"{{"name":"t","arguments":{arguments}}}"#)).unwrap();
        let Routed::Handled { call, .. } = router.route(&Method::TOOLS_CALL, Some(&params), ProtocolVersion::LATEST)
        else {
            panic!("it is not handled");
        };
        let outcome = call.arguments::<JsonObject>().map(|_| result);
        call.answer::<CallToolRequest, _>(outcome).map(|result| result.to_string()).map_err(|error| error.message())
    }

    #[cfg(feature = "validation")]
    #[test]
    fn arguments_and_results_are_validated_by_the_schemas_of_tools_added_before_and_after() {
        let tool =
            Tool::new("t", schema(r#"{"type":"object","properties":{"n":{"maximum":9},"o":{"type":"string"}}}"#))
                .output_schema(schema(r#"{"type":"object","properties":{"m":{"type":"string"}},"required":["m"]}"#));
        let conforming = || mcp_model::CallToolResult::structured(schema(r#"{"m":"x"}"#));
        let unchecked = {
            let mut router = Router::new();
            router.add_tool(&tool, ());
            router
        };
        assert!(called(&unchecked, r#"{"n":10}"#, conforming()).unwrap().contains(r#""m":"x""#));
        let mut before = unchecked;
        before.validate();
        let mut after = Router::new();
        after.validate();
        after.add_tool(&tool, ());
        for router in [before, after] {
            assert!(called(&router, r#"{"n":9}"#, conforming()).unwrap().contains(r#""m":"x""#));
            let params = Json::parse(r#"{"name":"t","arguments":{"n":9,"o":null}}"#).unwrap();
            let Ok(Routed::Handled { call, .. }) = router.call_tool(Some(&params), ProtocolVersion::LATEST) else {
                panic!("it is not handled");
            };
            assert_eq!(call.arguments::<JsonObject>().unwrap().to_string(), r#"{"n":9}"#);
            let refused = called(&router, r#"{"n":10}"#, conforming()).unwrap();
            assert!(
                refused.contains(r#""isError":true"#)
                    && refused.contains("'n': value is greater than the maximum of 9")
            );
            for (result, expected) in [
                (mcp_model::CallToolResult::structured(schema(r#"{"m":1}"#)), "'m': value is not of type"),
                (mcp_model::CallToolResult::text("x"), "there is no structured content"),
            ] {
                let error = called(&router, "{}", result).unwrap_err();
                assert!(error.starts_with("the result of the tool does not conform to its outputSchema: "), "{error}");
                assert!(error.contains(expected), "{error}");
            }
            let mut hiding = router.clone();
            hiding.hide_errors(|request, text| {
                assert!(request == "tools/call t" && text.contains("'m': "), "{request}: {text}");
            });
            let hidden =
                called(&hiding, "{}", mcp_model::CallToolResult::structured(schema(r#"{"m":1}"#))).unwrap_err();
            assert!(!hidden.contains("'m'") && !hidden.is_empty(), "{hidden}");
            // A failure of the tool has no structured content.
            assert!(called(&router, "{}", mcp_model::CallToolResult::error("no")).is_ok());
            let mut without = router.clone();
            without.remove_tool("t");
            without.add_tool(&Tool::without_arguments("t"), ());
            assert!(called(&without, "{}", mcp_model::CallToolResult::text("x")).is_ok());
        }
    }

    #[cfg(feature = "validation")]
    #[test]
    fn a_schema_that_cannot_be_compiled_is_a_mistake_once_calls_are_validated() {
        let mut router = Router::new();
        router.add_tool(&Tool::new("t", schema(r#"{"type":"object","properties":{"n":{"pattern":"(?=a)"}}}"#)), ());
        assert!(router.capabilities(false).is_ok());
        router.validate();
        let mistake = router.capabilities(false).unwrap_err().to_string();
        assert!(mistake.starts_with("a schema of the tool 't' cannot be used for validation: "), "{mistake}");
    }

    #[test]
    fn mistakes_are_reported_with_the_capabilities() {
        type Mistake = fn(&mut Router<()>);
        let cases: [(Mistake, &str); 7] = [
            (|router| router.add_tool(&tool("a"), ()), "two tools have the name 'a'; each needs a name of its own"),
            (
                |router| router.add_tool(&Tool::new("b", JsonObject::new()), ()),
                "the arguments of the tool 'b' must be an object: use a struct with named fields",
            ),
            (
                |router| {
                    let annotated = JsonObject::new().with("type", "number").with("x-mcp-header", "Region");
                    let properties = JsonObject::new().with("x", annotated);
                    let schema = JsonObject::new().with("type", "object").with("properties", properties);
                    router.add_tool(&Tool::new("c", schema), ());
                },
                "the tool 'c' cannot be called over HTTP: an 'x-mcp-header' belongs to something else than a string, an \
                 integer or a boolean",
            ),
            (
                |router| router.add_prompt(&Prompt::new("p"), ()),
                "two prompts have the name 'p'; each needs a name of its own",
            ),
            (
                |router| router.add_resource(&Resource::new("x:r", "other"), ()),
                "two resources have the name 'x:r'; each needs a name of its own",
            ),
            (
                |router| router.add_resource_template(&ResourceTemplate::new("x:{a}{b}", "t"), ()),
                "the URI template 'x:{a}{b}' cannot be used: it must be one of RFC 6570, each variable once, with text between an \
                 expression and a next one such as {name} or {+path}",
            ),
            (
                |router| router.add_prompt_completion("p", "argument", ()),
                "two completions of one prompt have the name 'argument'; each needs a name of its own",
            ),
        ];
        for (mistake, expected) in cases {
            let mut router = Router::new();
            router.add_tool(&tool("a"), ());
            router.add_prompt(&Prompt::new("p"), ());
            router.add_resource(&Resource::new("x:r", "r"), ());
            router.add_prompt_completion("p", "argument", ());
            assert!(router.capabilities(false).is_ok());
            mistake(&mut router);
            assert_eq!(router.capabilities(false).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn capabilities_follow_from_what_there_is() {
        let declared = |router: &Router<()>, may_change| Json::from(router.capabilities(may_change).unwrap());
        let mut router = Router::new();
        assert_eq!(declared(&router, true).as_bytes(), b"{}");
        router.add_tool(&tool("a"), ());
        router.add_resource_template(&ResourceTemplate::new("x:{a}", "t"), ());
        router.add_template_completion("x:{a}", "a", ());
        assert_eq!(declared(&router, false).as_bytes(), br#"{"resources":{},"tools":{},"completions":{}}"#);
        let changeable = br#"{"resources":{"listChanged":true},"tools":{"listChanged":true},"completions":{}}"#;
        assert_eq!(declared(&router, true).as_bytes(), changeable);
    }

    #[test]
    fn what_the_router_has_nothing_of_is_not_routed() {
        let mut router = Router::new();
        router.add_tool(&tool("a"), ());
        for method in ["prompts/list", "resources/read", "completion/complete", "example/other"] {
            assert!(
                matches!(router.route(&method.into(), None, ProtocolVersion::LATEST), Routed::Unrouted),
                "{method}"
            );
        }
    }

    #[test]
    fn the_list_of_a_kind_is_empty_after_its_last_entry_was_removed() {
        let mut router = Router::new();
        router.add_tool(&tool("a"), ());
        assert!(router.remove_tool("a"));
        let list = router.route(&ListToolsRequest::METHOD, None, ProtocolVersion::LATEST);
        assert!(matches!(list, Routed::Answered(Ok(list)) if list.as_bytes() == br#"{"tools":[]}"#));
        assert_eq!(Json::from(router.capabilities(false).unwrap()).as_bytes(), br#"{"tools":{}}"#);
    }

    #[test]
    fn a_list_has_as_many_pages_as_it_needs() {
        let mut router = Router::new();
        router.set_page_size(0);
        for name in ["b", "a"] {
            router.add_prompt(&Prompt::new(name), ());
        }
        let page = |params| {
            let found = router.route(&ListPromptsRequest::METHOD, params, ProtocolVersion::LATEST);
            let Routed::Answered(page) = found else { panic!("{found:?}") };
            page.unwrap()
        };
        let first = page(None);
        assert_eq!(first.as_bytes(), br#"{"nextCursor":"0","prompts":[{"name":"b"}]}"#);
        let cursor = Json::empty_object().with_member("cursor", &first.first_member("nextCursor").unwrap());
        assert_eq!(page(Some(&cursor)).as_bytes(), br#"{"prompts":[{"name":"a"}]}"#);
    }
}
