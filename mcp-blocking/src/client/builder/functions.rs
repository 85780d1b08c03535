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

/// Functions for single kinds of requests and notifications. Each replaces the [`Handler`] for its kind, and declares the
/// capability that the kind needs, in addition to those of [`Builder::capabilities`].
///
/// A function for requests serves servers of both eras: those that send requests, and those whose results require input.
/// Each request has a thread of its own, so that a function that waits for a person delays nothing else.
///
/// The error of such a function is a [`HandlerError`], so that `?` works on any error. The server receives the texts that
/// are written for it (`?` on a text, [`HandlerError::new`]) and [`ErrorObject`]s; the text of any other error is logged, and
/// the server receives that the client has an internal error.
///
/// # Example
///
/// ```
/// use mcp_blocking::Client;
/// use mcp_blocking::model::{ElicitResult, JsonObject, Root, ToolListChangedNotification};
///
/// let builder = Client::builder()
///     .on_elicit_form(|form| {
///         println!("{}", form.message);
///         Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")))
///     })
///     .roots([Root::new("file:///home/ada/project")])
///     .on_notification::<ToolListChangedNotification>(|_| println!("the tools have changed"));
/// ```
impl<S> Builder<S> {
    /// Sets the function that shows a form to the user.
    pub fn on_elicit_form(
        self,
        handler: impl Fn(ElicitRequestFormParams) -> Result<ElicitResult, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        self.on_request(RequestKind::ElicitForm, handler)
    }

    /// Sets the function that sends the user to a URL. It returns when the user has agreed to open it or has declined.
    pub fn on_elicit_url(
        self,
        handler: impl Fn(ElicitRequestURLParams) -> Result<ElicitResult, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        self.on_request(RequestKind::ElicitUrl, handler)
    }

    /// Sets the function that samples a message from the language model. If the server may pass tools to the model,
    /// declare `tools` of the capability `sampling` with [`Builder::capabilities`].
    ///
    /// Sampling is deprecated since 2026-07-28, and goes on working: a server calls a language model by itself instead.
    pub fn on_sample(
        self,
        handler: impl Fn(CreateMessageRequestParams) -> Result<CreateMessageResult, HandlerError> + Send + Sync + 'static,
    ) -> Self {
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
    pub fn on_list_roots(
        self,
        handler: impl Fn() -> Result<ListRootsResult, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        type Params = <ListRootsRequest as RequestMethod>::Params;
        self.on_request(RequestKind::ListRoots, move |_: Params| handler())
    }

    /// Sets the roots, if they do not change. They are deprecated: see [`Builder::on_list_roots`].
    pub fn roots(self, roots: impl Into<Vec<Root>>) -> Self {
        let result = ListRootsResult::new(roots);
        self.on_list_roots(move || Ok(result.clone()))
    }

    /// Sets the function for notifications of the method `N`. Notifications are passed one after the other, in order;
    /// one whose parameters do not have the form of `N` is passed to [`Handler::notified`].
    pub fn on_notification<N: NotificationMethod>(
        mut self,
        handler: impl Fn(N::Params) + Send + Sync + 'static,
    ) -> Self {
        let call = move |params: Option<&Json>| N::params(params).map(&handler).is_ok();
        self.typed.on_notification(N::METHOD, Box::new(call));
        self
    }

    fn on_request<P: Payload, R: Into<Json>>(
        mut self,
        kind: RequestKind,
        handler: impl Fn(P) -> Result<R, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        let call = move |params: Option<Json>| {
            let params = P::from_json(&params.unwrap_or(Json::empty_object()))?;
            handler(params).map(Into::into).map_err(|error| answer_to_failure(kind, error))
        };
        self.typed.on_request(kind, Box::new(call));
        self
    }
}

/// The answer to a request whose function has failed.
fn answer_to_failure(kind: RequestKind, error: HandlerError) -> ErrorObject {
    match error.into_failure() {
        HandlerFailure::Error(text) => {
            log::error!("the function for a request of the server ({kind:?}) has failed: {text}");
            ErrorObject::internal()
        }
        failure @ (HandlerFailure::Failed(_) | HandlerFailure::InputRequired(_) | HandlerFailure::Protocol(_)) => {
            failure.into()
        }
    }
}
