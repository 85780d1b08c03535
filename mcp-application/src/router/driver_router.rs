//! What the router of a driver consists of, and its methods that are the same in all drivers.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_proto::spec::{TASKS_EXTENSION, TASKS_REQUESTS};
use mcp_proto::{Json, Method};

use super::{Extension, Router};
use crate::InvalidService;

/// What the router of a driver consists of. `H` are the driver's handlers of requests, `N` those of notifications, `T` its
/// tasks, and `S` its trait of services.
#[derive(Debug)]
pub struct DriverRouter<H, N, T, S: ?Sized> {
    /// Requests to functions.
    pub routes: Router<H>,
    /// The notifications of extensions.
    pub notifications: BTreeMap<Method, N>,
    /// The tasks of functions that may take long; `None` if there is no such function.
    pub tasks: Option<Arc<T>>,
    /// The service for everything else.
    pub fallback: Option<Arc<S>>,
}

impl<H: Clone, N, T, S: ?Sized> DriverRouter<H, N, T, S> {
    /// Adds an extension.
    pub fn extend(&mut self, extension: Extension<H, N>) {
        for (method, handler) in self.routes.add_extension(extension) {
            if self.notifications.contains_key(&method) {
                self.routes.mistaken_notification(&method);
            }
            self.notifications.insert(method, handler);
        }
    }

    /// Sets the tasks, whose requests these handlers answer. The answers name the extension to clients that have not declared it.
    pub fn serve_tasks(&mut self, tasks: Arc<T>, handler: impl Fn(Arc<T>) -> H) {
        let mut extension = Extension::<H, N>::of_specification(TASKS_EXTENSION);
        extension.serve_only_stateless();
        for method in TASKS_REQUESTS {
            extension.add_known(method, handler(Arc::clone(&tasks)));
        }
        self.routes.remove_extension(TASKS_EXTENSION);
        self.extend(extension);
        self.tasks = Some(tasks);
    }

    /// The capabilities of a server with this router, and whether its lists may change. `of_fallback` returns those of
    /// the service for everything else.
    ///
    /// # Errors
    ///
    /// The mistakes of the application.
    pub fn capabilities(
        &self,
        may_change: bool,
        of_fallback: impl FnOnce(&S) -> Result<Json, InvalidService>,
    ) -> Result<Json, InvalidService> {
        let own = Json::from(self.routes.capabilities(may_change)?);
        let others = self.fallback.as_deref().map(of_fallback).transpose()?;
        Ok(others.map_or(own.clone(), |others| own.with_missing_members(&others)))
    }
}

impl<H, N, T, S: ?Sized> DriverRouter<H, N, T, S> {
    /// The tasks and the service for everything else, each if an earlier router did not have it.
    #[must_use]
    pub fn added_since(&self, earlier: &Self) -> (Option<&Arc<T>>, Option<&Arc<S>>) {
        (added(earlier.tasks.as_ref(), self.tasks.as_ref()), added(earlier.fallback.as_ref(), self.fallback.as_ref()))
    }
}

fn added<'a, T: ?Sized>(earlier: Option<&Arc<T>>, now: Option<&'a Arc<T>>) -> Option<&'a Arc<T>> {
    now.filter(|now| !earlier.is_some_and(|earlier| Arc::ptr_eq(earlier, now)))
}

impl<H: Clone, N: Clone, T, S: ?Sized> Clone for DriverRouter<H, N, T, S> {
    fn clone(&self) -> Self {
        Self {
            routes: self.routes.clone(),
            notifications: self.notifications.clone(),
            tasks: self.tasks.clone(),
            fallback: self.fallback.clone(),
        }
    }
}

impl<H, N, T, S: ?Sized> Default for DriverRouter<H, N, T, S> {
    fn default() -> Self {
        Self { routes: Router::default(), notifications: BTreeMap::new(), tasks: None, fallback: None }
    }
}

/// The methods of a driver's `Router` that take no function, so that they are the same in all drivers, and its changes.
/// The router is a [`DriverRouter`] in its only field. `driver` is the name of the crate in examples.
#[doc(hidden)]
#[macro_export]
macro_rules! driver_router {
    (driver: $driver:literal, log_error: $log_error:expr, constant: |$constant:ident| $returns_it:expr) => {
        impl Router {
            /// A router without any function.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }

            /// Adds the web page of an MCP App, which a client shows for the tools that are linked to it
            /// ([`Tool::ui`](mcp_model::Tool::ui)). The resource has a URI that begins with `ui://`
            /// ([`Resource::app`](mcp_model::Resource::app)); `ui` states which origins and capabilities of the browser the
            /// page needs. A handler finds out whether its client shows pages by
            /// [`shows_apps`](mcp_model::ClientCapabilities::shows_apps).
            ///
            /// Tools that are only for pages ([`ToolVisibility`](mcp_model::ToolVisibility)) are listed and answered as all
            /// others, for every client: it is the host that leaves them out of the list for its model, and that refuses
            /// calls of the wrong caller.
            ///
            /// # Example
            ///
            /// ```
            #[doc = concat!("use ", $driver, "::Router;")]
            #[doc = concat!("use ", $driver, "::model::{AppUi, Resource};")]
            ///
            /// let router = Router::new().app(
            ///     &Resource::app("ui://clock/view", "clock").description("Shows the time."),
            ///     "<!doctype html><title>Clock</title><p id=time>",
            ///     &AppUi::new().prefers_border(true),
            /// );
            /// ```
            #[must_use]
            pub fn app(
                mut self,
                resource: &::mcp_model::Resource,
                html: impl Into<String>,
                ui: &::mcp_model::AppUi,
            ) -> Self {
                self.0.routes.check_app(resource);
                let $constant: ::mcp_model::ResourceContents =
                    ::mcp_model::TextResourceContents::app(&resource.uri, html, ui).into();
                self.resource(resource, $returns_it)
            }

            /// Removes a tool, if there is one of this name.
            #[must_use]
            pub fn without_tool(mut self, name: &str) -> Self {
                self.0.routes.remove_tool(name);
                self
            }

            /// Sets how long tasks are kept, and how many. This is called before [`Router::task_tool_with_schema`].
            #[must_use]
            pub fn task_limits(mut self, limits: ::mcp_proto::server::TaskLimits) -> Self {
                self.set_tasks(::std::sync::Arc::new(TaskRunner::new(limits)));
                self
            }

            /// The tasks of the router, with the usual limits unless others were set.
            fn task_runner(&mut self) -> ::std::sync::Arc<TaskRunner> {
                if let Some(runner) = &self.0.tasks {
                    return ::std::sync::Arc::clone(runner);
                }
                let runner = ::std::sync::Arc::new(TaskRunner::new(::mcp_proto::server::TaskLimits::default()));
                self.set_tasks(::std::sync::Arc::clone(&runner));
                runner
            }

            /// Adds a protocol extension: its methods, its notifications and its hooks, and its settings to the
            /// capabilities.
            #[must_use]
            pub fn extension(mut self, extension: Extension) -> Self {
                self.0.extend(extension.0);
                self
            }

            /// Removes a prompt, if there is one of this name.
            #[must_use]
            pub fn without_prompt(mut self, name: &str) -> Self {
                self.0.routes.remove_prompt(name);
                self
            }

            /// Removes a resource, if there is one of this URI.
            #[must_use]
            pub fn without_resource(mut self, uri: &str) -> Self {
                self.0.routes.remove_resource(uri);
                self
            }

            /// Removes a resource template, if there is one of this text.
            #[must_use]
            pub fn without_resource_template(mut self, uri_template: &str) -> Self {
                self.0.routes.remove_resource_template(uri_template);
                self
            }

            /// Adds a skill: its files as resources, and the requests of the extension
            /// `io.modelcontextprotocol/skills`.
            ///
            /// # Example
            ///
            /// ```
            #[doc = concat!("use ", $driver, "::Router;")]
            #[doc = concat!("use ", $driver, "::application::skills::SkillDirectory;")]
            ///
            /// let skill = SkillDirectory::new("refunds", "Refunds an order", "Use `templates/email.md` to answer.")
            ///     .file("templates/email.md", "text/markdown", "Dear customer, …");
            /// let router = Router::new().skill(&skill);
            /// ```
            #[cfg(feature = "skills")]
            #[must_use]
            pub fn skill(mut self, skill: &$crate::skills::SkillDirectory) -> Self {
                self.0.routes.add_skill(skill);
                self
            }

            /// Removes a skill, if there is one whose `SKILL.md` has this URI.
            #[cfg(feature = "skills")]
            #[must_use]
            pub fn without_skill(mut self, uri: &str) -> Self {
                self.0.routes.remove_skill(uri);
                self
            }

            /// Logs the texts of errors that are not meant for clients, instead of sending them. The client, and so the
            /// language model, receives a text without the reason. Texts that a function has written for the client
            /// (`?` on a text, [`HandlerError::new`](mcp_application::router::HandlerError::new)) are still sent.
            ///
            /// By default, the client receives the text of any error, because the model can often correct its call by it.
            #[must_use]
            pub fn hide_errors(mut self) -> Self {
                self.0.routes.hide_errors($log_error);
                self
            }

            /// Validates the arguments and the structured results of all tools by their schemas. The model receives what is
            /// wrong with the arguments; a result that does not conform is an internal error, because the server has
            /// announced otherwise. Without this, the types of the functions decide, which do not know lengths, patterns and
            /// ranges. Functions receive the arguments without members that are null where the schema accepts none, because
            /// models often write null for an optional argument.
            ///
            /// # Example
            ///
            /// ```
            #[doc = concat!("let router = ", $driver, "::Router::new().validate();")]
            /// ```
            #[cfg(feature = "validation")]
            #[must_use]
            pub fn validate(mut self) -> Self {
                self.0.routes.validate();
                self
            }

            /// Sets the largest number of entries on a page of a list. By default, a list has one page, because some
            /// clients read only the first.
            #[must_use]
            pub fn page_size(mut self, entries: usize) -> Self {
                self.0.routes.set_page_size(entries);
                self
            }

            /// Sets the service for all other requests, for notifications, and for the subscriptions to resources.
            #[must_use]
            pub fn fallback(mut self, service: impl Service) -> Self {
                self.0.fallback = Some(::std::sync::Arc::new(service));
                self
            }

            /// Passes a publisher to all that an earlier router did not have.
            fn created_since(&self, earlier: &Self, publisher: &ServerPublisher) {
                let (tasks, fallback) = self.0.added_since(&earlier.0);
                if let Some(tasks) = tasks {
                    tasks.created(publisher.clone());
                }
                if let Some(service) = fallback {
                    service.created(publisher.clone());
                }
            }

            fn routed_capabilities(&self, may_change: bool) -> Result<::mcp_proto::Json, $crate::InvalidService> {
                self.0.capabilities(may_change, |service| service.capabilities())
            }
        }

        impl $crate::router::ChangeableRouter for Router {
            fn capabilities(&self) -> Result<::mcp_proto::Json, $crate::InvalidService> {
                self.routed_capabilities(true)
            }

            fn changes(&self, later: &Self) -> Vec<::mcp_proto::Notification> {
                self.0.routes.changes(&later.0.routes)
            }
        }

        $crate::opaque_debug!(Router);
    };
}

/// The methods of a driver's `Extension` that take no function of the driver's kind. The extension is a
/// [`router::Extension`](super::Extension) in its only field.
#[doc(hidden)]
#[macro_export]
macro_rules! extension_values {
    () => {
        impl Extension {
            /// An extension with an id: a domain in reverse order, a slash, and a name.
            #[must_use]
            pub fn new(id: &str) -> Self {
                Self($crate::router::Extension::new(id))
            }

            /// Declares a setting of the extension. Without any, an empty object is declared.
            #[must_use]
            pub fn setting(mut self, name: &str, value: impl Into<::mcp_proto::Json>) -> Self {
                self.0.set(name, &value.into());
                self
            }

            /// Answers the methods only for clients that have declared the extension, too, and ignores the notifications
            /// of others. Their requests receive an error which names the extension: -32021 in 2026-07-28, and -32600 in
            /// earlier revisions, which do not have this code. By default, the extension is served for all clients.
            #[must_use]
            pub fn needs_client(mut self) -> Self {
                self.0.need_client();
                self
            }

            /// Calls a function before each request that the router receives: those of tools, prompts, resources,
            /// completions, tasks and extensions, of the fallback, and those that nothing serves. Its error is the answer.
            ///
            /// Some requests do not reach the router, because the server answers them: `initialize` and
            /// `server/discover`, `ping`, `logging/setLevel`, `resources/subscribe` and `resources/unsubscribe`, and
            /// `subscriptions/listen`; in 2026-07-28, also those of capabilities that it has not declared, and methods of
            /// earlier revisions, which it refuses. So a function that refuses
            /// `resources/read` does not refuse subscriptions, by which a client learns that a resource changes: a server
            /// whose resources must not be subscribed to does not declare `resources.subscribe`. With
            /// [`reports_subscribe`](mcp_proto::server::Config::reports_subscribe), functions see `resources/subscribe` and
            /// `resources/unsubscribe`, and the fallback answers them; `subscriptions/listen` (2026-07-28) is still answered
            /// by the server.
            ///
            /// Functions do not see notifications. Those about a task (`notifications/tasks`, 2026-07-28) would contain its
            /// outcome, so there are none if a function has seen the call: a subscription to the task is acknowledged
            /// without its id, and the client asks with `tasks/get`. This also holds for the tasks of a router that is the
            /// fallback. Another fallback that publishes tasks gets their ids from
            /// [`IncomingRequest::task_id`](mcp_application::IncomingRequest::task_id). A function that is added while the
            /// router is served does not concern the tasks of earlier calls.
            #[must_use]
            pub fn before(
                mut self,
                check: impl Fn(&$crate::IncomingRequest) -> Result<(), ::mcp_proto::ErrorObject> + Send + Sync + 'static,
            ) -> Self {
                self.0.add_check(check);
                self
            }

            /// As [`Extension::before`], with a function that returns another one, which receives the outcome of the
            /// request and returns the one for the client. Of several extensions, the one that was added first sees a
            /// request first and its outcome last. The outcome of a function that panics is an internal error (-32603). A
            /// request that is cancelled meanwhile has no outcome. The outcome of a call that becomes a task is the task;
            /// the results of `tasks/get` contain that of its function.
            #[must_use]
            pub fn around<A>(
                mut self,
                hook: impl Fn(&$crate::IncomingRequest) -> Result<A, ::mcp_proto::ErrorObject> + Send + Sync + 'static,
            ) -> Self
            where
                A: FnOnce(
                        Result<::mcp_proto::Json, ::mcp_proto::ErrorObject>,
                    ) -> Result<::mcp_proto::Json, ::mcp_proto::ErrorObject>
                    + Send
                    + 'static,
            {
                self.0.add_hook(hook);
                self
            }
        }

        $crate::opaque_debug!(Extension);
    };
}

/// The methods of a driver's `Router` that take a function, so that only the types of functions differ: `incoming` is
/// how a function receives the request, and `returned` what it returns. A driver with a runtime has a type for the
/// future, which `generics` and `bounds` add. `Handler` is the driver's type of handlers.
#[doc(hidden)]
#[macro_export]
macro_rules! router_functions {
    (
        incoming: [$($incoming:tt)+],
        returned: $returned:ty,
        generics: [$($generics:tt)*],
        bounds: [$($bounds:tt)*] $(,)?
    ) => {
        /// Adds a tool. The schema of its arguments is that of `A`, and if `O` is
        /// [`Structured`](mcp_application::router::Structured), the schema of its results is that of the value in it.
        ///
        /// The schemas are made so that all clients read them: their fields have the order of declaration, an `Option`
        /// is a field that may be left out (`null` is read, too), numbers have no format, and a field of any type has
        /// an object as its schema. A number such as `5.0` is read for an integer.
        #[cfg(feature = "schema")]
        #[must_use]
        pub fn tool<A, O, F $($generics)*>(self, name: &str, description: &str, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned + ::schemars::JsonSchema,
            O: $crate::router::IntoAnswer<::mcp_model::CallToolRequest>,
            F: Fn(A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            self.tool_with(name, |tool| tool.description(description), function)
        }

        /// Adds a tool whose other properties `describe` sets: description, title, annotations, icons, metadata. Its
        /// schemas are made as by [`Router::tool`]; a field of `A` with `#[schemars(extend("x-mcp-header" = "Name"))]`
        /// is repeated in a header of HTTP requests (since 2026-07-28).
        #[cfg(feature = "schema")]
        #[must_use]
        pub fn tool_with<A, O, F $($generics)*>(
            self,
            name: &str,
            describe: impl FnOnce(::mcp_model::Tool) -> ::mcp_model::Tool,
            function: F,
        ) -> Self
        where
            A: ::serde::de::DeserializeOwned + ::schemars::JsonSchema,
            O: $crate::router::IntoAnswer<::mcp_model::CallToolRequest>,
            F: Fn(A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            self.tool_with_schema(&$crate::router::tool_of::<A, O>(name, describe), function)
        }

        /// Adds a tool with a schema that was written by hand. Arguments that `A` accepts are not checked against it.
        #[must_use]
        pub fn tool_with_schema<A, O, F $($generics)*>(mut self, tool: &::mcp_model::Tool, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned,
            O: $crate::router::IntoAnswer<::mcp_model::CallToolRequest>,
            F: Fn(A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let handler = Handler::new::<::mcp_model::CallToolRequest, A, O, F $($generics)*>(function);
            self.0.routes.add_tool(tool, handler);
            self
        }

        /// Adds a prompt. Its arguments are the fields of `A`, which are texts.
        #[cfg(feature = "schema")]
        #[must_use]
        pub fn prompt<A, O, F $($generics)*>(mut self, name: &str, description: &str, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned + ::schemars::JsonSchema,
            O: $crate::router::IntoAnswer<::mcp_model::GetPromptRequest>,
            F: Fn(A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let handler = Handler::new::<::mcp_model::GetPromptRequest, A, O, F $($generics)*>(function);
            self.0.routes.add_prompt_of::<A>(name, description, handler);
            self
        }

        /// Adds a prompt with a list of its arguments.
        #[must_use]
        pub fn prompt_with_arguments<A, O, F $($generics)*>(mut self, prompt: &::mcp_model::Prompt, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned,
            O: $crate::router::IntoAnswer<::mcp_model::GetPromptRequest>,
            F: Fn(A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let handler = Handler::new::<::mcp_model::GetPromptRequest, A, O, F $($generics)*>(function);
            self.0.routes.add_prompt(prompt, handler);
            self
        }

        /// Adds a resource. Its contents have its URI and its media type.
        #[must_use]
        pub fn resource<O, F $($generics)*>(mut self, resource: &::mcp_model::Resource, function: F) -> Self
        where
            O: $crate::router::IntoAnswer<::mcp_model::ReadResourceRequest>,
            F: Fn($($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            self.0.routes.add_resource(resource, Handler::without_arguments(function));
            self
        }

        /// Adds a resource template (RFC 6570), such as `notes://{folder}{/path*}{?q,limit}`. The fields of `A` are its
        /// variables: texts, and `Vec<String>` for an exploded one such as `{/path*}`. For a field that is a number, a
        /// boolean or an enum without data, the text is parsed; if that fails, the client receives an error that names
        /// the variable. What may be missing in a URI, such as `{?q}`, is an `Option` or has a default.
        /// [`UriTemplate::match_uri`](::mcp_model::UriTemplate::match_uri) states what a variable may contain. The texts
        /// come from the client: a function that uses them as a path must check them first. If a resource has the same
        /// URI, the function of that resource reads it.
        #[must_use]
        pub fn resource_template<A, O, F $($generics)*>(
            mut self,
            template: &::mcp_model::ResourceTemplate,
            function: F,
        ) -> Self
        where
            A: ::serde::de::DeserializeOwned,
            O: $crate::router::IntoAnswer<::mcp_model::ReadResourceRequest>,
            F: Fn(A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let handler = Handler::new::<::mcp_model::ReadResourceRequest, A, O, F $($generics)*>(function);
            self.0.routes.add_resource_template(template, handler);
            self
        }

        /// Adds the completion of an argument of a prompt.
        #[must_use]
        pub fn complete_prompt<O, F $($generics)*>(mut self, prompt: &str, argument: &str, function: F) -> Self
        where
            O: $crate::router::IntoAnswer<::mcp_model::CompleteRequest>,
            F: Fn($crate::router::CompletionInput, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let handler = Handler::new::<::mcp_model::CompleteRequest, _, O, F $($generics)*>(function);
            self.0.routes.add_prompt_completion(prompt, argument, handler);
            self
        }

        /// Adds the completion of a variable of a resource template.
        #[must_use]
        pub fn complete_template<O, F $($generics)*>(mut self, uri_template: &str, variable: &str, function: F) -> Self
        where
            O: $crate::router::IntoAnswer<::mcp_model::CompleteRequest>,
            F: Fn($crate::router::CompletionInput, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let handler = Handler::new::<::mcp_model::CompleteRequest, _, O, F $($generics)*>(function);
            self.0.routes.add_template_completion(uri_template, variable, handler);
            self
        }
    };
}

/// What a driver's `SharedRouter` does, which is a [`SharedRoutes`](super::SharedRoutes) in its only field. In a driver
/// with a runtime, `asynchronous` is `[async] [.await]`; `incoming` is how a service receives a request, and `caller`
/// identifies the caller of `change`.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_router {
    (asynchronous: [$($async:ident)?] [$($await:tt)*], incoming: $incoming:ty, caller: $caller:expr) => {
        impl SharedRouter {
            /// A router that can be changed, with these functions first.
            #[must_use]
            pub fn new(router: Router) -> Self {
                Self(::std::sync::Arc::new($crate::router::SharedRoutes::new(router)))
            }

            /// Changes the functions, and notifies the clients of the lists that differ then. Requests that are served
            /// already are completed by the earlier functions. Changes that are made at one time are made one after the
            /// other.
            ///
            /// Requests are served while `change` runs, by the earlier functions. It must not wait for another change.
            /// A fallback that it sets receives the publishers of all servers ([`Service::created`]), but not the
            /// subscriptions that the earlier fallback has received.
            ///
            /// # Errors
            ///
            /// The mistakes of the new functions: then nothing has changed. [`InvalidService::NestedChange`] if it is
            /// called by `change`. [`InvalidService::Usage`] with
            /// [`UsageError::NotDeclared`](mcp_proto::UsageError::NotDeclared) if the first function of a kind was
            /// added (also the first tool that may take long, and the first completion) after a server was created
            /// which does not declare the capability: it is served, but the clients of that server were not notified.
            ///
            /// [`InvalidService::NestedChange`]: mcp_application::InvalidService::NestedChange
            /// [`InvalidService::Usage`]: mcp_application::InvalidService::Usage
            pub $($async)? fn change(
                &self,
                change: impl FnOnce(Router) -> Router,
            ) -> Result<(), $crate::InvalidService> {
                let changed = self.0.change($caller, change)?;
                let mut outcome = changed.announce(|earlier, later, publisher| later.created_since(earlier, publisher));
                for notification in changed.notifications {
                    outcome = outcome.and(publish_to_all(&changed.publishers, &notification.into())$($await)*);
                }
                Ok(outcome?)
            }
        }

        impl Service for SharedRouter {
            $($async)? fn serve(&self, incoming: $incoming) -> Result<::mcp_proto::Json, ::mcp_proto::ErrorObject> {
                self.0.current().serve(incoming)$($await)*
            }

            fn capabilities(&self) -> Result<::mcp_proto::Json, $crate::InvalidService> {
                self.0.current().routed_capabilities(true)
            }

            fn created(&self, publisher: ServerPublisher) {
                let router = self.0.add(|publishers| publishers.add(publisher.clone()));
                router.created(publisher);
            }

            fn takes(&self, notification: &::mcp_proto::Notification, client_capabilities: &::mcp_proto::Json) -> bool {
                self.0.current().takes(notification, client_capabilities)
            }

            $($async)? fn notified(&self, session: ::mcp_proto::SessionKey, notification: ::mcp_proto::Notification) {
                self.0.current().notified(session, notification)$($await)*;
            }

            $($async)? fn ended(&self, session: ::mcp_proto::SessionKey, reason: ::mcp_proto::client::CloseReason) {
                self.0.current().ended(session, reason)$($await)*;
            }

            $($async)? fn subscribed(&self, uri: ::std::sync::Arc<str>, publisher: ServerPublisher) {
                self.0.current().subscribed(uri, publisher)$($await)*;
            }

            $($async)? fn unsubscribed(&self, uri: ::std::sync::Arc<str>) {
                self.0.current().unsubscribed(uri)$($await)*;
            }
        }

        $crate::opaque_debug!(SharedRouter);
    };
}
