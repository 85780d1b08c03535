//! Functions that receive a state of the application first.

/// The methods of a driver's `StateRouter`, which has the fields `router` and `state`. Each adds a function to the router,
/// which receives the state before everything else: as the type `state`, which the expression after it makes of an `Arc`. The
/// rest is as in [`router_functions!`](crate::router_functions); `context` is how the function of a task receives its
/// context.
#[doc(hidden)]
#[macro_export]
macro_rules! state_router_functions {
    (
        state: [$($state_type:tt)+], |$state:ident| $passed:expr,
        incoming: [$($incoming:tt)+],
        context: [$($context:tt)+],
        task_arguments: [$($task_arguments:tt)*],
        returned: $returned:ty,
        generics: [$($generics:tt)*],
        bounds: [$($bounds:tt)*] $(,)?
    ) => {
        /// Adds a tool, as [`Router::tool`] does.
        #[cfg(feature = "schema")]
        #[must_use]
        pub fn tool<A, O, F $($generics)*>(self, name: &str, description: &str, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned + ::schemars::JsonSchema,
            O: $crate::router::IntoAnswer<::mcp_model::CallToolRequest>,
            F: Fn($($state_type)+, A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.tool(name, description, move |arguments: A, incoming: $($incoming)+| {
                function($passed, arguments, incoming)
            });
            Self { router, ..self }
        }

        /// Adds a tool, as [`Router::tool_with`] does.
        #[cfg(feature = "schema")]
        #[must_use]
        pub fn tool_with<A, O, F $($generics)*>(self, name: &str, describe: impl FnOnce(::mcp_model::Tool) -> ::mcp_model::Tool, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned + ::schemars::JsonSchema,
            O: $crate::router::IntoAnswer<::mcp_model::CallToolRequest>,
            F: Fn($($state_type)+, A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.tool_with(name, describe, move |arguments: A, incoming: $($incoming)+| {
                function($passed, arguments, incoming)
            });
            Self { router, ..self }
        }

        /// Adds a tool, as [`Router::tool_with_schema`] does.
        #[must_use]
        pub fn tool_with_schema<A, O, F $($generics)*>(self, tool: &::mcp_model::Tool, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned,
            O: $crate::router::IntoAnswer<::mcp_model::CallToolRequest>,
            F: Fn($($state_type)+, A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.tool_with_schema(tool, move |arguments: A, incoming: $($incoming)+| {
                function($passed, arguments, incoming)
            });
            Self { router, ..self }
        }

        /// Adds a tool that may take long, as [`Router::task_tool`] does.
        #[cfg(feature = "schema")]
        #[must_use]
        pub fn task_tool<A, O, F $($generics)*>(self, name: &str, describe: impl FnOnce(::mcp_model::Tool) -> ::mcp_model::Tool, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned + ::schemars::JsonSchema $($task_arguments)*,
            O: $crate::router::IntoAnswer<::mcp_model::CallToolRequest>,
            F: Fn($($state_type)+, A, $($context)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.task_tool(name, describe, move |arguments: A, context: $($context)+| {
                function($passed, arguments, context)
            });
            Self { router, ..self }
        }

        /// Adds a tool that may take long, as [`Router::task_tool_with_schema`] does.
        #[must_use]
        pub fn task_tool_with_schema<A, O, F $($generics)*>(self, tool: &::mcp_model::Tool, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned $($task_arguments)*,
            O: $crate::router::IntoAnswer<::mcp_model::CallToolRequest>,
            F: Fn($($state_type)+, A, $($context)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.task_tool_with_schema(tool, move |arguments: A, context: $($context)+| {
                function($passed, arguments, context)
            });
            Self { router, ..self }
        }

        /// Adds a prompt, as [`Router::prompt`] does.
        #[cfg(feature = "schema")]
        #[must_use]
        pub fn prompt<A, O, F $($generics)*>(self, name: &str, description: &str, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned + ::schemars::JsonSchema,
            O: $crate::router::IntoAnswer<::mcp_model::GetPromptRequest>,
            F: Fn($($state_type)+, A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.prompt(name, description, move |arguments: A, incoming: $($incoming)+| {
                function($passed, arguments, incoming)
            });
            Self { router, ..self }
        }

        /// Adds a prompt, as [`Router::prompt_with_arguments`] does.
        #[must_use]
        pub fn prompt_with_arguments<A, O, F $($generics)*>(self, prompt: &::mcp_model::Prompt, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned,
            O: $crate::router::IntoAnswer<::mcp_model::GetPromptRequest>,
            F: Fn($($state_type)+, A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.prompt_with_arguments(prompt, move |arguments: A, incoming: $($incoming)+| {
                function($passed, arguments, incoming)
            });
            Self { router, ..self }
        }

        /// Adds a resource, as [`Router::resource`] does.
        #[must_use]
        pub fn resource<O, F $($generics)*>(self, resource: &::mcp_model::Resource, function: F) -> Self
        where
            O: $crate::router::IntoAnswer<::mcp_model::ReadResourceRequest>,
            F: Fn($($state_type)+, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.resource(resource, move |incoming: $($incoming)+| function($passed, incoming));
            Self { router, ..self }
        }

        /// Adds a resource template, as [`Router::resource_template`] does.
        #[must_use]
        pub fn resource_template<A, O, F $($generics)*>(self, template: &::mcp_model::ResourceTemplate, function: F) -> Self
        where
            A: ::serde::de::DeserializeOwned,
            O: $crate::router::IntoAnswer<::mcp_model::ReadResourceRequest>,
            F: Fn($($state_type)+, A, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.resource_template(template, move |variables: A, incoming: $($incoming)+| {
                function($passed, variables, incoming)
            });
            Self { router, ..self }
        }

        /// Adds the completion of an argument of a prompt, as [`Router::complete_prompt`] does.
        #[must_use]
        pub fn complete_prompt<O, F $($generics)*>(self, prompt: &str, argument: &str, function: F) -> Self
        where
            O: $crate::router::IntoAnswer<::mcp_model::CompleteRequest>,
            F: Fn($($state_type)+, $crate::router::CompletionInput, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.complete_prompt(prompt, argument, move |input: $crate::router::CompletionInput, incoming: $($incoming)+| {
                function($passed, input, incoming)
            });
            Self { router, ..self }
        }

        /// Adds the completion of a variable of a resource template, as [`Router::complete_template`] does.
        #[must_use]
        pub fn complete_template<O, F $($generics)*>(self, uri_template: &str, variable: &str, function: F) -> Self
        where
            O: $crate::router::IntoAnswer<::mcp_model::CompleteRequest>,
            F: Fn($($state_type)+, $crate::router::CompletionInput, $($incoming)+) -> $returned + Send + Sync + 'static,
            $($bounds)*
        {
            let $state = ::std::sync::Arc::clone(&self.state);
            let router = self.router.complete_template(uri_template, variable, move |input: $crate::router::CompletionInput, incoming: $($incoming)+| {
                function($passed, input, incoming)
            });
            Self { router, ..self }
        }
    };
}
