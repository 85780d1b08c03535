//! What the router of a driver consists of, and its methods that are the same in all drivers.

use std::sync::Arc;

use mcp_proto::Json;
use mcp_proto::server::Tasks;

use super::Router;
use crate::InvalidService;

/// What the router of a driver consists of. `H` are the driver's handlers, `T` its tasks, and `S` its trait of
/// services.
#[derive(Debug)]
pub struct DriverRouter<H, T, S: ?Sized> {
    /// Requests to functions.
    pub routes: Router<H>,
    /// The tasks of functions that may take long; `None` if there is no such function.
    pub tasks: Option<Arc<T>>,
    /// The service for everything else.
    pub fallback: Option<Arc<S>>,
}

impl<H: Clone, T, S: ?Sized> DriverRouter<H, T, S> {
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
        let mut own = Json::from(self.routes.capabilities(may_change)?);
        if self.tasks.is_some() {
            own = own.with_missing_members(&Tasks::capabilities());
        }
        let others = self.fallback.as_deref().map(of_fallback).transpose()?;
        Ok(others.map_or(own.clone(), |others| own.with_missing_members(&others)))
    }
}

impl<H, T, S: ?Sized> DriverRouter<H, T, S> {
    /// The tasks and the service for everything else, each if an earlier router did not have it.
    #[must_use]
    pub fn added_since(&self, earlier: &Self) -> (Option<&Arc<T>>, Option<&Arc<S>>) {
        (added(earlier.tasks.as_ref(), self.tasks.as_ref()), added(earlier.fallback.as_ref(), self.fallback.as_ref()))
    }
}

fn added<'a, T: ?Sized>(earlier: Option<&Arc<T>>, now: Option<&'a Arc<T>>) -> Option<&'a Arc<T>> {
    now.filter(|now| !earlier.is_some_and(|earlier| Arc::ptr_eq(earlier, now)))
}

impl<H: Clone, T, S: ?Sized> Clone for DriverRouter<H, T, S> {
    fn clone(&self) -> Self {
        Self { routes: self.routes.clone(), tasks: self.tasks.clone(), fallback: self.fallback.clone() }
    }
}

impl<H, T, S: ?Sized> Default for DriverRouter<H, T, S> {
    fn default() -> Self {
        Self { routes: Router::default(), tasks: None, fallback: None }
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
                self.0.tasks = Some(::std::sync::Arc::new(TaskRunner::new(limits)));
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
            /// ranges.
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
