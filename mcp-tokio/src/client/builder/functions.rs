//! Functions for single kinds of requests and notifications of the server.

use mcp_application::RequestKind;
use mcp_application::router::HandlerError;
use mcp_model::{
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult,
    ListRootsRequest, ListRootsResult, NotificationMethod, Payload, RequestMethod, Root,
};
use mcp_proto::server::HandlerFailure;
use mcp_proto::{ErrorObject, Json};

use super::Builder;
#[cfg(doc)]
use crate::Handler;
use crate::client::typed_handler::Served;

/// Functions for single kinds of requests and notifications. Each replaces the [`Handler`] for its kind, and declares the
/// capability that the kind needs, in addition to those of [`Builder::capabilities`].
///
/// A function for requests serves servers of both eras: those that send requests, and those whose results require input.
/// Requests are handled concurrently, each in its own task, which is aborted if the server cancels the request.
///
/// The error of such a function is a [`HandlerError`], so that `?` works on any error. The server receives the texts that
/// are written for it (`?` on a text, [`HandlerError::new`]) and [`ErrorObject`]s; the text of any other error is logged, and
/// the server receives that the client has an internal error.
///
/// # Example
///
/// ```
/// use mcp_tokio::model::{ElicitResult, JsonObject, Root, ToolListChangedNotification};
/// use mcp_tokio::Client;
///
/// let builder = Client::builder()
///     .on_elicit_form(|form| async move {
///         println!("{}", form.message);
///         Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")))
///     })
///     .roots([Root::new("file:///home/ada/project")])
///     .on_notification::<ToolListChangedNotification, _>(|_| async { println!("the tools have changed") });
/// ```
impl<S> Builder<S> {
    /// Sets the function that shows a form to the user.
    pub fn on_elicit_form<F>(self, handler: impl Fn(ElicitRequestFormParams) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ElicitResult, HandlerError>> + Send + 'static,
    {
        self.on_request(RequestKind::ElicitForm, handler)
    }

    /// Sets the function that sends the user to a URL. It returns when the user has agreed to open it or has declined.
    pub fn on_elicit_url<F>(self, handler: impl Fn(ElicitRequestURLParams) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ElicitResult, HandlerError>> + Send + 'static,
    {
        self.on_request(RequestKind::ElicitUrl, handler)
    }

    /// Sets the function that samples a message from the language model. If the server may pass tools to the model,
    /// declare `tools` of the capability `sampling` with [`Builder::capabilities`].
    ///
    /// Sampling is deprecated since 2026-07-28, and goes on working: a server calls a language model by itself instead.
    pub fn on_sample<F>(self, handler: impl Fn(CreateMessageRequestParams) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        self.on_request(RequestKind::Sample, handler)
    }

    /// Sets the function that lists the roots. If they change, declare `listChanged` of the capability `roots` with
    /// [`Builder::capabilities`], and send a [`RootsListChangedNotification`] with [`Client::notify`].
    ///
    /// Roots are deprecated since 2026-07-28, and go on working: the arguments of a tool, the URIs of resources or the
    /// configuration of the server state instead what it works on.
    ///
    /// [`RootsListChangedNotification`]: mcp_model::RootsListChangedNotification
    /// [`Client::notify`]: super::Client::notify
    pub fn on_list_roots<F>(self, handler: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ListRootsResult, HandlerError>> + Send + 'static,
    {
        type Params = <ListRootsRequest as RequestMethod>::Params;
        self.on_request(RequestKind::ListRoots, move |_: Params| handler())
    }

    /// Sets the roots, if they do not change. They are deprecated: see [`Builder::on_list_roots`].
    pub fn roots(self, roots: impl Into<Vec<Root>>) -> Self {
        let result = ListRootsResult::new(roots);
        self.on_list_roots(move || std::future::ready(Ok(result.clone())))
    }

    /// Sets the function for notifications of the method `N`. Notifications are passed one after the other, in order;
    /// one whose parameters do not have the form of `N` is passed to [`Handler::notified`].
    pub fn on_notification<N, F>(mut self, handler: impl Fn(N::Params) -> F + Send + Sync + 'static) -> Self
    where
        N: NotificationMethod,
        F: Future<Output = ()> + Send + 'static,
    {
        let call =
            move |params: Option<&Json>| -> Option<Served<()>> { Some(Box::pin(handler(N::params(params).ok()?))) };
        self.typed.on_notification(N::METHOD, Box::new(call));
        self
    }

    fn on_request<P, R, F>(mut self, kind: RequestKind, handler: impl Fn(P) -> F + Send + Sync + 'static) -> Self
    where
        P: Payload,
        R: Into<Json>,
        F: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        let call = move |params: Option<Json>| -> Served<Result<Json, ErrorObject>> {
            match P::from_json(&params.unwrap_or(Json::empty_object())) {
                Ok(params) => {
                    let answer = handler(params);
                    Box::pin(
                        async move { answer.await.map(Into::into).map_err(|error| answer_to_failure(kind, error)) },
                    )
                }
                Err(error) => Box::pin(std::future::ready(Err(error.into()))),
            }
        };
        self.typed.on_request(kind, Box::new(call));
        self
    }
}

/// The answer to a request whose function has failed.
fn answer_to_failure(kind: RequestKind, error: HandlerError) -> ErrorObject {
    match error.into_failure() {
        HandlerFailure::Error(text) => {
            tracing::error!(request = ?kind, error = text, "the function for a request of the server has failed");
            ErrorObject::internal()
        }
        failure @ (HandlerFailure::Failed(_) | HandlerFailure::InputRequired(_) | HandlerFailure::Protocol(_)) => {
            failure.into()
        }
    }
}
