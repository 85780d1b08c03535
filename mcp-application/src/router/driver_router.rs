//! What the router of a driver consists of, and its methods that are the same in all drivers.

use std::sync::Arc;

use mcp_proto::Json;
use mcp_proto::server::Tasks;

use super::Router;
use crate::InvalidService;

/// What the router of a driver consists of. `H` are the driver's handlers, `T` its tasks, and `S` its trait of services.
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
    /// The capabilities of a server with this router, and whether its lists may change. `of_fallback` returns those of the
    /// service for everything else.
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

/// The methods of a driver's `Router` that take no function, so that they are the same in all drivers. The router is a
/// [`DriverRouter`] in its only field. `driver` is the name of the crate in examples.
#[doc(hidden)]
#[macro_export]
macro_rules! router_methods {
    (driver: $driver:literal) => {
        /// A router without any function.
        #[must_use]
        pub fn new() -> Self {
            Self::default()
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

        /// Adds a skill: its files as resources, and the requests of the extension `io.modelcontextprotocol/skills`.
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

        /// Sets the largest number of entries on a page of a list. By default, a list has one page, because some clients
        /// read only the first.
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
    };
}
