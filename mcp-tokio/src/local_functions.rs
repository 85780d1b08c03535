//! Functions whose futures are not [`Send`], on a [`LocalSet`](tokio::task::LocalSet).

use std::pin::Pin;
use std::rc::Rc;

use mcp_proto::{ErrorObject, code};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tracing::{Instrument, Span};

use crate::Incoming;

/// Calls that wait until the thread of the functions takes them.
const CALLS: usize = 64;

/// A call of a local function, which another thread can wait for. Dropping it cancels the call.
pub type LocalCall<O, E> = Pin<Box<dyn Future<Output = Result<O, E>> + Send>>;

/// Why a call of a local function has no outcome: it panicked, or its `LocalSet` has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the function panicked, or its LocalSet has ended")]
pub struct LocalFunctionEnded;

impl From<LocalFunctionEnded> for ErrorObject {
    fn from(error: LocalFunctionEnded) -> Self {
        Self::new(code::INTERNAL_ERROR, &error.to_string())
    }
}

/// Lets a tool's function, its state and its future have types that are not [`Send`], such as `Rc`: all of them stay on the
/// [`LocalSet`](tokio::task::LocalSet) on which this is called. The result is the function for a
/// [`Router`](crate::Router), which may be served from any thread. Calls run concurrently. A call whose request is cancelled
/// is dropped at its next `await`. While the `LocalSet` is not polled, calls wait until their clients cancel them or
/// their timeout is over; once it is dropped, calls end with an error at once.
///
/// # Panics
///
/// Outside of a `LocalSet`.
///
/// # Example: two tools with one state
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// use mcp_tokio::application::router::HandlerError;
/// use mcp_tokio::model::{JsonObject, Tool};
/// use mcp_tokio::proto::server::Config;
/// use mcp_tokio::{Client, Incoming, Router, Server, local_tool};
/// use tokio::task::LocalSet;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # LocalSet::new().run_until(async {
/// # example().await.unwrap();
/// # }).await;
/// # }
/// # async fn example() -> Result<(), mcp_tokio::Error> {
/// let tool = |name| Tool::new(name, JsonObject::new().with("type", "object"));
/// let count = Rc::new(Cell::new(0));
/// let counted = Rc::clone(&count);
/// let add = local_tool(move |_: JsonObject, _: Incoming| {
///     let count = Rc::clone(&count);
///     async move {
///         count.set(count.get() + 1);
///         Ok::<_, HandlerError>("counted")
///     }
/// });
/// let show = local_tool(move |_: JsonObject, _: Incoming| {
///     let count = counted.get();
///     async move { Ok::<_, HandlerError>(count) }
/// });
/// let router = Router::new().tool_with_schema(&tool("add"), add).tool_with_schema(&tool("show"), show);
/// let client = Client::builder().in_memory(&Server::new(Config::new("counter", "1.0.0"), router)).connect().await?;
/// client.call_tool("add", ()).await?;
/// assert_eq!(client.call_tool("show", ()).await?.all_text(), "1");
/// # Ok(())
/// # }
/// ```
pub fn local_tool<A, O, E, F, T>(function: F) -> impl Fn(A, Incoming) -> LocalCall<O, E> + Clone + Send + Sync + 'static
where
    A: Send + 'static,
    O: Send + 'static,
    E: From<LocalFunctionEnded> + Send + 'static,
    F: Fn(A, Incoming) -> T + 'static,
    T: Future<Output = Result<O, E>> + 'static,
{
    let call = local_function(move |(arguments, incoming)| function(arguments, incoming));
    move |arguments, incoming| call((arguments, incoming))
}

/// As [`local_tool`], for functions with one parameter: those of prompts, resources and completions, and a whole
/// [`Service`](crate::Service).
///
/// # Panics
///
/// Outside of a `LocalSet`.
///
/// # Example: a service that is no `Router`
///
/// ```
/// use std::cell::Cell;
///
/// use mcp_tokio::proto::{ErrorObject, Json, server::Config};
/// use mcp_tokio::{Client, Incoming, Server, local_function};
/// use tokio::task::LocalSet;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # LocalSet::new().run_until(async {
/// # example().await.unwrap();
/// # }).await;
/// # }
/// # async fn example() -> Result<(), mcp_tokio::Error> {
/// let calls = Cell::new(0_u64);
/// let serve = local_function(move |_: Incoming| {
///     calls.set(calls.get() + 1);
///     let answer = Json::empty_object().with_member("calls", &Json::from(calls.get()));
///     async move { Ok::<_, ErrorObject>(answer) }
/// });
/// let client = Client::builder().in_memory(&Server::new(Config::new("counter", "1.0.0"), serve)).connect().await?;
/// assert!(client.request("example/count", None).await?.to_string().contains(r#""calls":1"#));
/// # Ok(())
/// # }
/// ```
pub fn local_function<I, O, E, F, T>(function: F) -> impl Fn(I) -> LocalCall<O, E> + Clone + Send + Sync + 'static
where
    I: Send + 'static,
    O: Send + 'static,
    E: From<LocalFunctionEnded> + Send + 'static,
    F: Fn(I) -> T + 'static,
    T: Future<Output = Result<O, E>> + 'static,
{
    let (calls, mut waiting) = mpsc::channel::<(I, Span, oneshot::Sender<Result<O, E>>)>(CALLS);
    spawn_local(async move {
        let function = Rc::new(function);
        while let Some((input, span, mut answer)) = waiting.recv().await {
            let function = Rc::clone(&function);
            let call = async move {
                let outcome = tokio::select! {
                    biased;
                    () = answer.closed() => return,
                    // A panic of the function itself is one of this task, too.
                    outcome = async { function(input).await } => outcome,
                };
                // The request may have been cancelled.
                let _ = answer.send(outcome);
            };
            spawn_local(call.instrument(span));
        }
    });
    move |input| {
        let calls = calls.clone();
        Box::pin(async move {
            let (answer, outcome) = oneshot::channel();
            // If either fails, there is no outcome.
            let _ = calls.send((input, Span::current(), answer)).await;
            outcome.await.unwrap_or_else(|_| Err(LocalFunctionEnded.into()))
        })
    }
}
