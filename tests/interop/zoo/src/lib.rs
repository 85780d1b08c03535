//! The server of `tests::zoo` on both drivers.

use mcp_application::IncomingRequest;
use mcp_application::router::{HandlerError, NoArguments, Structured};
use mcp_blocking::Router as BlockingRouter;
use mcp_model::{AppUi, Resource, ResourceTemplate, ToolUi};
use mcp_proto::server::Config;
use mcp_tokio::{Incoming, Router as TokioRouter};
use tests::zoo::{self, EXTENSION, EXTENSION_SETTING, Functions, Shape};

/// The server on `mcp-blocking`.
#[must_use]
pub fn blocking() -> mcp_blocking::Server {
    mcp_blocking::Server::new(config(), zoo::add(Blocking(BlockingRouter::new())).0)
}

/// The server on `mcp-tokio`.
#[must_use]
pub fn tokio() -> mcp_tokio::Server {
    mcp_tokio::Server::new(config(), zoo::add(Tokio(TokioRouter::new())).0)
}

fn config() -> Config {
    Config::new("zoo", env!("CARGO_PKG_VERSION"))
}

struct Blocking(BlockingRouter);

impl Functions for Blocking {
    fn echo<T: Shape>(self, name: &'static str) -> Self {
        Self(self.0.tool(name, "Returns its arguments", |value: T, _| Ok(Structured(value))))
    }

    fn asking(self, name: &'static str, function: fn(&IncomingRequest) -> Result<String, HandlerError>) -> Self {
        Self(self.0.tool(name, "Asks the user", move |_: NoArguments, incoming| function(incoming)))
    }

    fn tool<T: Shape>(self, name: &'static str, function: fn() -> Result<Structured<T>, HandlerError>) -> Self {
        Self(self.0.tool(name, "Has no arguments", move |_: NoArguments, _| function()))
    }

    fn prompt<A: Shape>(self, name: &'static str, function: fn(A) -> Result<String, HandlerError>) -> Self {
        Self(self.0.prompt(name, "A prompt", move |arguments: A, _| function(arguments)))
    }

    fn template<A: Shape>(self, template: &ResourceTemplate, function: fn(A) -> Result<String, HandlerError>) -> Self {
        Self(self.0.resource_template(template, move |variables: A, _| function(variables)))
    }

    fn resource(self, resource: &Resource, function: fn() -> Result<String, HandlerError>) -> Self {
        Self(self.0.resource(resource, move |_| function()))
    }

    fn app<T: Shape>(self, resource: &Resource, page: (&str, &AppUi), tool: (&'static str, &ToolUi)) -> Self {
        let router = self.0.app(resource, page.0, page.1);
        Self(router.tool_with(tool.0, |linked| linked.ui(tool.1), |value: T, _| Ok(Structured(value))))
    }

    fn extension<P: Shape, O: Shape>(self, method: &'static str, function: fn(P) -> Result<O, HandlerError>) -> Self {
        let (name, value) = EXTENSION_SETTING;
        let extension = mcp_blocking::Extension::new(EXTENSION).setting(name, value);
        Self(self.0.extension(extension.method(method, move |params: P, _| function(params))))
    }

    fn validate(self) -> Self {
        Self(self.0.validate())
    }
}

struct Tokio(TokioRouter);

impl Functions for Tokio {
    fn echo<T: Shape>(self, name: &'static str) -> Self {
        Self(self.0.tool(name, "Returns its arguments", |value: T, _| async move { Ok(Structured(value)) }))
    }

    fn asking(self, name: &'static str, function: fn(&IncomingRequest) -> Result<String, HandlerError>) -> Self {
        let function = move |_: NoArguments, incoming: Incoming| async move { function(&incoming) };
        Self(self.0.tool(name, "Asks the user", function))
    }

    fn tool<T: Shape>(self, name: &'static str, function: fn() -> Result<Structured<T>, HandlerError>) -> Self {
        Self(self.0.tool(name, "Has no arguments", move |_: NoArguments, _| async move { function() }))
    }

    fn prompt<A: Shape>(self, name: &'static str, function: fn(A) -> Result<String, HandlerError>) -> Self {
        Self(self.0.prompt(name, "A prompt", move |arguments: A, _| async move { function(arguments) }))
    }

    fn template<A: Shape>(self, template: &ResourceTemplate, function: fn(A) -> Result<String, HandlerError>) -> Self {
        Self(self.0.resource_template(template, move |variables: A, _| async move { function(variables) }))
    }

    fn resource(self, resource: &Resource, function: fn() -> Result<String, HandlerError>) -> Self {
        Self(self.0.resource(resource, move |_| async move { function() }))
    }

    fn app<T: Shape>(self, resource: &Resource, page: (&str, &AppUi), tool: (&'static str, &ToolUi)) -> Self {
        let router = self.0.app(resource, page.0, page.1);
        Self(router.tool_with(tool.0, |linked| linked.ui(tool.1), |value: T, _| async move { Ok(Structured(value)) }))
    }

    fn extension<P: Shape, O: Shape>(self, method: &'static str, function: fn(P) -> Result<O, HandlerError>) -> Self {
        let (name, value) = EXTENSION_SETTING;
        let extension = mcp_tokio::Extension::new(EXTENSION).setting(name, value);
        Self(self.0.extension(extension.method(method, move |params: P, _| async move { function(params) })))
    }

    fn validate(self) -> Self {
        Self(self.0.validate())
    }
}
