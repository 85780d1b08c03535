//! Tools, prompts, resources and completions as functions, and skills.

mod extension;
mod shared;
mod tasks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mcp_application::InvalidService;
#[cfg(feature = "schema")]
use mcp_application::router;
use mcp_application::router::{DriverRouter, HandlerError, IntoAnswer, Routed, RoutedCall};
use mcp_model::{CallToolRequest, Tool};
use mcp_proto::client::CloseReason;
use mcp_proto::{ErrorObject, Json, Notification, SessionKey};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tasks::TaskRunner;

pub use extension::Extension;
use extension::NotificationHandler;
pub use shared::SharedRouter;
pub use tasks::TaskContext;

use crate::{Incoming, ServerPublisher, Service};

/// A [`Service`] that consists of functions: one for each tool, prompt, resource and completion.
///
/// The router answers the lists, and refuses what is not in them. The schema of a tool is made from the types of its
/// function (feature `schema`). Arguments that do not match it, and errors of the function, become results with
/// `isError`, so that the language model can correct its call; see [`HandlerError`]. Lists have the order in which the
/// functions were added. The capabilities of the server follow from them.
///
/// `?` works in a function on any error, and [`Router::hide_errors`] is for errors whose text a client should not receive. A
/// function whose error has another type, such as `anyhow::Error`, is called in a closure:
/// `|arguments, _| Ok(look_up(arguments)?)`. Functions that share a state are added by [`Router::with_state`].
///
/// Skills (feature `skills`) need no function: `Router::skill` serves their files.
///
/// # Example: a tool with structured results
///
/// ```
/// # #[cfg(feature = "schema")]
/// # mod example {
/// use mcp_blocking::{Incoming, Router, Server};
/// use mcp_blocking::application::router::{HandlerError, Structured};
/// use mcp_blocking::proto::server::Config;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Divide {
///     dividend: i64,
///     /// Not 0
///     divisor: i64,
/// }
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Quotient {
///     quotient: i64,
/// }
///
/// pub fn server() -> Server {
///     let router = Router::new().tool("divide", "Divides two numbers.", |numbers: Divide, _: &Incoming| {
///         let quotient = numbers.dividend.checked_div(numbers.divisor).ok_or("division by zero")?;
///         Ok(Structured(Quotient { quotient }))
///     });
///     Server::new(Config::new("calculator", "1.0.0"), router)
/// }
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Router(DriverRouter<Handler, NotificationHandler, TaskRunner, dyn Service>);

/// A function, with its arguments and its result as JSON.
#[derive(Clone)]
struct Handler(Arc<Function>);

type Function = dyn Fn(&RoutedCall, &Incoming) -> Result<Json, ErrorObject> + Send + Sync;

impl Handler {
    /// A handler of requests of the type `R`, whose function receives the arguments.
    fn new<R, A, O, F>(function: F) -> Self
    where
        A: DeserializeOwned,
        O: IntoAnswer<R>,
        F: Fn(A, &Incoming) -> Result<O, HandlerError> + Send + Sync + 'static,
    {
        Self(Arc::new(move |call, incoming| {
            call.answer(call.arguments().and_then(|arguments| function(arguments, incoming)))
        }))
    }

    /// A handler whose function receives no arguments.
    fn without_arguments<R, O, F>(function: F) -> Self
    where
        O: IntoAnswer<R>,
        F: Fn(&Incoming) -> Result<O, HandlerError> + Send + Sync + 'static,
    {
        Self(Arc::new(move |call, incoming| call.answer(function(incoming))))
    }
}

mcp_application::driver_router! { driver: "mcp_blocking", log_error: |request, text| log::error!("the function for {request} has failed: {text}"), constant: |contents| move |_| Ok(contents.clone()) }

impl Router {
    mcp_application::router_functions! {
        incoming: [&Incoming],
        returned: Result<O, HandlerError>,
        generics: [],
        bounds: [],
    }

    /// Adds functions that share a state, which each of them receives first. They may be methods.
    ///
    /// # Example: tools that are methods
    ///
    /// ```
    /// # #[cfg(feature = "schema")]
    /// # mod example {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use mcp_blocking::{HandlerError, Incoming, NoArguments, Router};
    ///
    /// #[derive(Default)]
    /// struct Counter {
    ///     count: AtomicU64,
    /// }
    ///
    /// impl Counter {
    ///     fn increment(&self, _: NoArguments, _: &Incoming) -> Result<u64, HandlerError> {
    ///         Ok(self.count.fetch_add(1, Ordering::Relaxed) + 1)
    ///     }
    /// }
    ///
    /// pub fn router() -> Router {
    ///     Router::new().with_state(Arc::new(Counter::default()), |router| {
    ///         router.tool("increment", "Counts one more.", Counter::increment).tool(
    ///             "reset",
    ///             "Begins with 0 again.",
    ///             |counter, _: NoArguments, _| {
    ///                 counter.count.store(0, Ordering::Relaxed);
    ///                 Ok(())
    ///             },
    ///         )
    ///     })
    /// }
    /// # }
    /// # #[cfg(feature = "schema")]
    /// # {
    /// # use mcp_blocking::{Client, Server, proto::server::Config};
    /// # let server = Server::new(Config::new("s", "1"), example::router());
    /// # let client = Client::builder().in_memory(&server).connect().unwrap();
    /// # for expected in ["1", "2", "", "1"] {
    /// #     let tool = if expected.is_empty() { "reset" } else { "increment" };
    /// #     let result = client.call_tool(tool, serde_json::json!({})).unwrap();
    /// #     assert_eq!(result.content.first().and_then(|block| block.as_text()).unwrap_or_default(), expected);
    /// # }
    /// # }
    /// ```
    #[must_use]
    pub fn with_state<S: Send + Sync + 'static>(
        self,
        state: Arc<S>,
        add: impl FnOnce(StateRouter<S>) -> StateRouter<S>,
    ) -> Self {
        add(StateRouter { router: self, state }).router
    }

    /// Adds a tool that may take long, as [`Router::task_tool_with_schema`] does. `describe` and the schemas are as for
    /// [`Router::tool_with`].
    #[cfg(feature = "schema")]
    #[must_use]
    pub fn task_tool<A, O, F>(self, name: &str, describe: impl FnOnce(Tool) -> Tool, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: IntoAnswer<CallToolRequest>,
        F: Fn(A, &mut TaskContext<'_>) -> Result<O, HandlerError> + Send + Sync + 'static,
    {
        self.task_tool_with_schema(&router::tool_of::<A, O>(name, describe), function)
    }

    /// Adds a tool that may take long. A client that has declared the extension `io.modelcontextprotocol/tasks`
    /// (2026-07-28) receives a task, and fetches the result later; every other client waits for it.
    ///
    /// The function works on after the answer, on a thread of its own, which cannot be stopped: if the client cancels the
    /// task, or its time is over, [`TaskContext::is_cancelled`] is true, and questions to the client fail. There are never
    /// more threads than [`TaskLimits::tasks`](mcp_proto::server::TaskLimits::tasks), and for one principal
    /// [`TaskLimits::tasks_of_principal`](mcp_proto::server::TaskLimits::tasks_of_principal): further calls are refused
    /// until one has returned. The function asks the client with its [`TaskContext`]; an error that requires
    /// input ends a task as a failure.
    #[must_use]
    pub fn task_tool_with_schema<A, O, F>(self, tool: &Tool, function: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        O: IntoAnswer<CallToolRequest>,
        F: Fn(A, &mut TaskContext<'_>) -> Result<O, HandlerError> + Send + Sync + 'static,
    {
        self.prepared_task_tool(tool, |arguments, _| Ok(arguments), function)
    }

    /// Adds a tool as [`Router::task_tool_with_schema`] does, with a step before a task is created: the function is called
    /// with what `prepare` returns for the arguments. An error of `prepare` answers the call, and there is no task.
    ///
    /// # Example: a question before the task, and clients that must support tasks
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use mcp_blocking::{Incoming, Router, TaskContext};
    /// use mcp_blocking::application::Inputs;
    /// use mcp_blocking::model::{ElicitRequestFormParams, ElicitResult, JsonObject, RequestedSchema, StringSchema, Tool};
    /// use mcp_blocking::proto::server::Tasks;
    ///
    /// let schema = JsonObject::from_serialize(&BTreeMap::from([("type", "object")])).unwrap();
    /// let router = Router::new().prepared_task_tool(
    ///     &Tool::new("book", schema),
    ///     |_: JsonObject, incoming: &Incoming| {
    ///         incoming.context().require(&Tasks::capabilities())?;
    ///         let mut inputs = Inputs::new(incoming)?;
    ///         let form = RequestedSchema::form().with_required("city", StringSchema::new());
    ///         let city = inputs.elicit("city", ElicitRequestFormParams::new("Which city?", form))?;
    ///         city.ok_or_else(|| inputs.required())
    ///     },
    ///     |city: ElicitResult, _: &mut TaskContext<'_>| Ok(format!("Booked: {:?}", city.action)),
    /// );
    /// let server = mcp_blocking::Server::new(mcp_blocking::proto::server::Config::new("s", "1"), router);
    /// assert!(server.replay("").unwrap().is_empty());
    /// ```
    #[must_use]
    pub fn prepared_task_tool<A, P, O, G, F>(mut self, tool: &Tool, prepare: G, function: F) -> Self
    where
        A: DeserializeOwned,
        P: Send + 'static,
        O: IntoAnswer<CallToolRequest>,
        G: Fn(A, &Incoming) -> Result<P, HandlerError> + Send + Sync + 'static,
        F: Fn(P, &mut TaskContext<'_>) -> Result<O, HandlerError> + Send + Sync + 'static,
    {
        let (runner, function) = (self.task_runner(), Arc::new(function));
        let handler = Handler(Arc::new(move |call, incoming| {
            match call.arguments().and_then(|arguments| prepare(arguments, incoming)) {
                Ok(prepared) => {
                    let function = Arc::clone(&function);
                    runner.call(call, incoming, move |context| function(prepared, context))
                }
                Err(error) => call.answer::<CallToolRequest, O>(Err(error)),
            }
        }));
        self.0.routes.add_tool(tool, handler);
        self
    }

    /// The outcome of a request without the hooks.
    fn routed(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        match self.0.routes.route(incoming.method(), incoming.params(), incoming.version()) {
            Routed::Handled { handler: Handler(handler), call } => handler(&call, incoming),
            Routed::Answered(answer) => answer,
            Routed::Unrouted => match &self.0.fallback {
                Some(service) => service.serve(incoming),
                None => Err(ErrorObject::method_not_found(incoming.method())),
            },
        }
    }

    fn set_tasks(&mut self, runner: Arc<TaskRunner>) {
        self.0.serve_tasks(runner, |runner| {
            Handler(Arc::new(move |_, incoming| {
                runner.answer(incoming).unwrap_or_else(|| Err(ErrorObject::method_not_found(incoming.method())))
            }))
        });
    }
}

/// Adds functions with a state to a [`Router`]: see [`Router::with_state`].
pub struct StateRouter<S> {
    router: Router,
    state: Arc<S>,
}

impl<S: Send + Sync + 'static> StateRouter<S> {
    mcp_application::state_router_functions! {
        state: [&S], |state| &state,
        incoming: [&Incoming],
        context: [&mut TaskContext<'_>],
        task_arguments: [+ Send + 'static],
        returned: Result<O, HandlerError>,
        generics: [],
        bounds: [],
    }
}

mcp_application::opaque_debug! { [S] StateRouter [S] }

#[cfg(not(feature = "schema"))]
impl Router {
    mcp_application::functions_without_schema! {
        first: [],
        incoming: [&Incoming],
        context: [&mut TaskContext<'_>],
        returned: Result<O, HandlerError>,
        generics: [],
        bounds: [],
    }
}

#[cfg(not(feature = "schema"))]
impl<S: Send + Sync + 'static> StateRouter<S> {
    mcp_application::functions_without_schema! {
        first: [&S,],
        incoming: [&Incoming],
        context: [&mut TaskContext<'_>],
        returned: Result<O, HandlerError>,
        generics: [],
        bounds: [],
    }
}

impl Service for Router {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        let hooked = match self.0.routes.begin(incoming) {
            Ok(hooked) => hooked,
            Err(outcome) => return outcome,
        };
        if hooked.is_empty() {
            return self.routed(incoming);
        }
        // After a panic, the hooks receive an internal error as the outcome.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.routed(incoming))).unwrap_or_else(|_| {
            log::error!("the handler of {} panicked", incoming.method());
            Err(ErrorObject::internal())
        });
        hooked.finish(outcome)
    }

    fn capabilities(&self) -> Result<Json, InvalidService> {
        self.routed_capabilities(false)
    }

    fn created(&self, publisher: ServerPublisher) {
        self.created_since(&Self::default(), &publisher);
    }

    fn takes(&self, notification: &Notification, client_capabilities: &Json) -> bool {
        if self.0.notifications.contains_key(&notification.method) {
            return self.0.routes.takes_notification(&notification.method, client_capabilities);
        }
        self.0.fallback.as_ref().is_none_or(|service| service.takes(notification, client_capabilities))
    }

    fn notified(&self, session: SessionKey, notification: Notification) {
        if let Some(handler) = self.0.notifications.get(&notification.method) {
            handler.call(session, notification.params.as_ref());
        } else if let Some(service) = &self.0.fallback {
            service.notified(session, notification);
        }
    }

    fn ended(&self, session: SessionKey, reason: CloseReason) {
        if let Some(service) = &self.0.fallback {
            service.ended(session, reason);
        }
    }

    fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) {
        if let Some(service) = &self.0.fallback {
            service.subscribed(uri, publisher);
        }
    }

    fn unsubscribed(&self, uri: Arc<str>) {
        if let Some(service) = &self.0.fallback {
            service.unsubscribed(uri);
        }
    }
}
