//! Protocol extensions of a server.

use std::sync::Arc;

use mcp_application::router::{self, ExtensionRequest, HandlerError, extension_result};
use mcp_proto::{Json, SessionKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Handler;
use crate::Incoming;

/// A protocol extension: its id, what it declares, its methods, and hooks for all requests. A [`Router`](crate::Router) serves
/// it over all transports, and in every revision, except for notifications ([`Extension::notification`]). A client declares
/// an extension by [`Builder::extension`](crate::Builder::extension).
///
/// # Example: a method, and a hook that counts
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use mcp_blocking::model::JsonObject;
/// use mcp_blocking::proto::server::Config;
/// use mcp_blocking::{Client, Extension, Incoming, Router, Server};
///
/// #[derive(serde::Deserialize)]
/// struct Query {
///     words: String,
/// }
///
/// #[derive(serde::Serialize)]
/// struct Hits {
///     hits: Vec<String>,
/// }
///
/// let requests = Arc::new(AtomicU64::new(0));
/// let counter = Arc::clone(&requests);
/// let search = Extension::new("com.example/search")
///     .setting("languages", "en")
///     .method("com.example/search/query", |query: Query, _: &Incoming| {
///         Ok(Hits { hits: vec![format!("found: {}", query.words)] })
///     })
///     .before(move |_| {
///         counter.fetch_add(1, Ordering::Relaxed);
///         Ok(())
///     });
/// let server = Server::new(Config::new("library", "1.0.0"), Router::new().extension(search));
///
/// let client = Client::builder().extension("com.example/search", JsonObject::new()).in_memory(&server).connect()?;
/// let settings = client.server_extension("com.example/search").expect("the server has declared it");
/// assert_eq!(settings.to_string(), r#"{"languages":"en"}"#);
/// let params = JsonObject::new().with("words", "sans-IO");
/// let result = client.request("com.example/search/query", Some(params.into()))?;
/// assert_eq!(result.member("hits").unwrap().unwrap().to_string(), r#"["found: sans-IO"]"#);
/// assert_eq!(requests.load(Ordering::Relaxed), 1);
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
pub struct Extension(pub(super) router::Extension<Handler, NotificationHandler>);

/// A function for notifications. It returns whether it can read the parameters.
#[derive(Clone)]
pub(super) struct NotificationHandler(Arc<Notified>);

type Notified = dyn Fn(SessionKey, Option<&Json>) -> bool + Send + Sync;

impl NotificationHandler {
    /// Calls the function, unless it cannot read the parameters.
    pub(super) fn call(&self, session: SessionKey, params: Option<&Json>) {
        if !(self.0)(session, params) {
            log::debug!("the parameters of a notification of an extension cannot be read");
        }
    }
}

mcp_application::extension_values!();

impl Extension {
    /// Adds a method. The function receives the parameters, and what it returns is written as a JSON object. Parameters
    /// that `P` cannot read are answered with error -32602, which names them. Errors of the function are answered with
    /// -32603; an [`ErrorObject`](mcp_proto::ErrorObject) is sent as it is.
    #[must_use]
    pub fn method<P, O, F>(mut self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned,
        O: Serialize,
        F: Fn(P, &Incoming) -> Result<O, HandlerError> + Send + Sync + 'static,
    {
        let handler = Handler::new::<ExtensionRequest, P, Json, _>(move |params, incoming| {
            extension_result(&function(params, incoming)?)
        });
        self.0.add_method(name, handler);
        self
    }

    /// Adds a notification that clients send. Several threads may pass them at the same time, so that their order is not
    /// guaranteed; one whose parameters `P` cannot read is dropped.
    ///
    /// Only clients of revisions before 2026-07-28 send notifications: in that one, a server ignores them. What has to reach
    /// the server in every revision is a [method](Extension::method).
    #[must_use]
    pub fn notification<P, F>(mut self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned,
        F: Fn(SessionKey, P) + Send + Sync + 'static,
    {
        self.0.add_notification(
            name,
            NotificationHandler(Arc::new(move |session, params| {
                router::notification_params(params).map(|params| function(session, params)).is_some()
            })),
        );
        self
    }
}
