//! Tools, prompts, resources and completions as functions, and skills.

mod extension;
mod shared;
mod tasks;

use std::pin::Pin;
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

use crate::panics::caught;
use crate::server::service::AnyService;
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
/// `|arguments, _| async { Ok(look_up(arguments).await?) }`. Functions that share a state are added by [`Router::with_state`].
///
/// Skills (feature `skills`) need no function: `Router::skill` serves their files.
///
/// # Example: a tool with structured results
///
/// ```
/// # #[cfg(feature = "schema")]
/// # mod example {
/// use mcp_tokio::application::router::{HandlerError, Structured};
/// use mcp_tokio::proto::server::Config;
/// use mcp_tokio::{Incoming, Router, Server};
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
///     let router = Router::new().tool("divide", "Divides two numbers.", |numbers: Divide, _: Incoming| async move {
///         let quotient = numbers.dividend.checked_div(numbers.divisor).ok_or("division by zero")?;
///         Ok(Structured(Quotient { quotient }))
///     });
///     Server::new(Config::new("calculator", "1.0.0"), router)
/// }
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Router(DriverRouter<Handler, NotificationHandler, TaskRunner, dyn AnyService>);

/// A function, with its arguments and its result as JSON.
#[derive(Clone)]
struct Handler(Arc<dyn Fn(RoutedCall, Incoming) -> Answer + Send + Sync>);

/// The answer of a function.
type Answer = Pin<Box<dyn Future<Output = Result<Json, ErrorObject>> + Send>>;

impl Handler {
    /// A handler of requests of the type `R`, whose function receives the arguments.
    fn new<R, A, O, F, T>(function: F) -> Self
    where
        A: DeserializeOwned,
        O: IntoAnswer<R>,
        F: Fn(A, Incoming) -> T + Send + Sync + 'static,
        T: Future<Output = Result<O, HandlerError>> + Send + 'static,
    {
        Self(Arc::new(move |call, incoming| match call.arguments() {
            Ok(arguments) => {
                let outcome = function(arguments, incoming);
                Box::pin(async move { call.answer(outcome.await) })
            }
            Err(error) => Box::pin(std::future::ready(call.answer::<R, O>(Err(error)))),
        }))
    }

    /// A handler whose function receives no arguments.
    fn without_arguments<R, O, F, T>(function: F) -> Self
    where
        O: IntoAnswer<R>,
        F: Fn(Incoming) -> T + Send + Sync + 'static,
        T: Future<Output = Result<O, HandlerError>> + Send + 'static,
    {
        Self(Arc::new(move |call, incoming| {
            let outcome = function(incoming);
            Box::pin(async move { call.answer(outcome.await) })
        }))
    }
}

mcp_application::driver_router! { driver: "mcp_tokio", log_error: |request, text| tracing::error!(request, error = text, "a function has failed"), constant: |contents| move |_| std::future::ready(Ok(contents.clone())) }

impl Router {
    mcp_application::router_functions! {
        incoming: [Incoming],
        returned: T,
        generics: [, T],
        bounds: [T: Future<Output = Result<O, HandlerError>> + Send + 'static],
    }

    /// Adds functions that share a state, which each of them receives first. They may be methods: with `self: Arc<Self>`.
    ///
    /// # Example: tools that are methods
    ///
    /// ```
    /// # #[cfg(feature = "schema")]
    /// # mod example {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use mcp_tokio::{HandlerError, Incoming, NoArguments, Router};
    ///
    /// #[derive(Default)]
    /// struct Counter {
    ///     count: AtomicU64,
    /// }
    ///
    /// impl Counter {
    ///     async fn increment(self: Arc<Self>, _: NoArguments, _: Incoming) -> Result<u64, HandlerError> {
    ///         Ok(self.count.fetch_add(1, Ordering::Relaxed) + 1)
    ///     }
    /// }
    ///
    /// pub fn router() -> Router {
    ///     Router::new().with_state(Arc::new(Counter::default()), |router| {
    ///         router.tool("increment", "Counts one more.", Counter::increment).tool(
    ///             "reset",
    ///             "Begins with 0 again.",
    ///             |counter, _: NoArguments, _| async move {
    ///                 counter.count.store(0, Ordering::Relaxed);
    ///                 Ok(())
    ///             },
    ///         )
    ///     })
    /// }
    /// # }
    /// # #[cfg(feature = "schema")]
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use mcp_tokio::{Client, Server, proto::server::Config};
    /// # let server = Server::new(Config::new("s", "1"), example::router());
    /// # let client = Client::builder().in_memory(&server).connect().await.unwrap();
    /// # for expected in ["1", "2", "", "1"] {
    /// #     let tool = if expected.is_empty() { "reset" } else { "increment" };
    /// #     let result = client.call_tool(tool, serde_json::json!({})).await.unwrap();
    /// #     assert_eq!(result.content.first().and_then(|block| block.as_text()).unwrap_or_default(), expected);
    /// # }
    /// # });
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
    pub fn task_tool<A, O, F, T>(self, name: &str, describe: impl FnOnce(Tool) -> Tool, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        O: IntoAnswer<CallToolRequest>,
        F: Fn(A, TaskContext) -> T + Send + Sync + 'static,
        T: Future<Output = Result<O, HandlerError>> + Send + 'static,
    {
        self.task_tool_with_schema(&router::tool_of::<A, O>(name, describe), function)
    }

    /// Adds a tool that may take long. A client that has declared the extension `io.modelcontextprotocol/tasks`
    /// (2026-07-28) receives a task, and fetches the result later; every other client waits for it.
    ///
    /// The function works on after the answer: it is dropped if the client cancels the task, or its time is over. It asks
    /// the client with its [`TaskContext`]; an error that requires input ends a task as a failure.
    #[must_use]
    pub fn task_tool_with_schema<A, O, F, T>(self, tool: &Tool, function: F) -> Self
    where
        A: DeserializeOwned,
        O: IntoAnswer<CallToolRequest>,
        F: Fn(A, TaskContext) -> T + Send + Sync + 'static,
        T: Future<Output = Result<O, HandlerError>> + Send + 'static,
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
    /// use mcp_tokio::application::Inputs;
    /// use mcp_tokio::model::{ElicitRequestFormParams, JsonObject, RequestedSchema, StringSchema, Tool};
    /// use mcp_tokio::proto::server::Tasks;
    /// use mcp_tokio::{Incoming, Router, TaskContext};
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
    ///     |city, _: TaskContext| async move { Ok(format!("Booked: {:?}", city.action)) },
    /// );
    /// let server = mcp_tokio::Server::new(mcp_tokio::proto::server::Config::new("s", "1"), router);
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// assert!(server.replay("").await.unwrap().is_empty());
    /// # });
    /// ```
    #[must_use]
    pub fn prepared_task_tool<A, P, O, G, F, T>(mut self, tool: &Tool, prepare: G, function: F) -> Self
    where
        A: DeserializeOwned,
        O: IntoAnswer<CallToolRequest>,
        G: Fn(A, &Incoming) -> Result<P, HandlerError> + Send + Sync + 'static,
        F: Fn(P, TaskContext) -> T + Send + Sync + 'static,
        T: Future<Output = Result<O, HandlerError>> + Send + 'static,
    {
        let runner = self.task_runner();
        let handler = Handler(Arc::new(move |call, incoming| {
            match call.arguments().and_then(|arguments| prepare(arguments, &incoming)) {
                Ok(prepared) => runner.call(call, incoming, |context| function(prepared, context)),
                Err(error) => Box::pin(std::future::ready(call.answer::<CallToolRequest, O>(Err(error)))),
            }
        }));
        self.0.routes.add_tool(tool, handler);
        self
    }

    /// The outcome of a request without the hooks.
    async fn routed(&self, incoming: Incoming) -> Result<Json, ErrorObject> {
        match self.0.routes.route(incoming.method(), incoming.params(), incoming.version()) {
            Routed::Handled { handler: Handler(handler), call } => handler(call, incoming).await,
            Routed::Answered(answer) => answer,
            Routed::Unrouted => match &self.0.fallback {
                Some(service) => service.serve(incoming).await,
                None => Err(ErrorObject::method_not_found(incoming.method())),
            },
        }
    }

    fn set_tasks(&mut self, runner: Arc<TaskRunner>) {
        self.0.serve_tasks(runner, |runner| {
            Handler(Arc::new(move |_, incoming| {
                let answer = runner.answer(&incoming);
                Box::pin(std::future::ready(
                    answer.unwrap_or_else(|| Err(ErrorObject::method_not_found(incoming.method()))),
                ))
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
        state: [Arc<S>], |state| Arc::clone(&state),
        incoming: [Incoming],
        context: [TaskContext],
        task_arguments: [],
        returned: T,
        generics: [, T],
        bounds: [T: Future<Output = Result<O, HandlerError>> + Send + 'static],
    }
}

mcp_application::opaque_debug! { [S] StateRouter [S] }

#[cfg(not(feature = "schema"))]
impl Router {
    mcp_application::functions_without_schema! {
        first: [],
        incoming: [Incoming],
        context: [TaskContext],
        returned: T,
        generics: [, T],
        bounds: [T: Future<Output = Result<O, HandlerError>>],
    }
}

#[cfg(not(feature = "schema"))]
impl<S: Send + Sync + 'static> StateRouter<S> {
    mcp_application::functions_without_schema! {
        first: [Arc<S>,],
        incoming: [Incoming],
        context: [TaskContext],
        returned: T,
        generics: [, T],
        bounds: [T: Future<Output = Result<O, HandlerError>>],
    }
}

impl Service for Router {
    async fn serve(&self, incoming: Incoming) -> Result<Json, ErrorObject> {
        let hooked = match self.0.routes.begin(&incoming) {
            Ok(hooked) => hooked,
            Err(outcome) => return outcome,
        };
        if hooked.is_empty() {
            return self.routed(incoming).await;
        }
        let method = incoming.method().clone();
        // After a panic, the hooks receive an internal error as the outcome.
        let outcome = caught(self.routed(incoming)).await.unwrap_or_else(|| {
            tracing::error!(%method, "the handler of a request panicked");
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

    async fn notified(&self, session: SessionKey, notification: Notification) {
        if let Some(handler) = self.0.notifications.get(&notification.method) {
            handler.call(session, notification.params.as_ref()).await;
        } else if let Some(service) = &self.0.fallback {
            service.notified(session, notification).await;
        }
    }

    async fn ended(&self, session: SessionKey, reason: CloseReason) {
        if let Some(service) = &self.0.fallback {
            service.ended(session, reason).await;
        }
    }

    async fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) {
        if let Some(service) = &self.0.fallback {
            service.subscribed(uri, publisher).await;
        }
    }

    async fn unsubscribed(&self, uri: Arc<str>) {
        if let Some(service) = &self.0.fallback {
            service.unsubscribed(uri).await;
        }
    }
}
