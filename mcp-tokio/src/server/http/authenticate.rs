//! The application's check of the credentials of requests.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::request::Parts;
use mcp_application::Authenticated;
use mcp_proto::auth::Challenge;

type Checked = Result<Authenticated, Challenge>;
type Check = dyn Fn(&Parts) -> Pin<Box<dyn Future<Output = Checked> + Send>> + Send + Sync;

/// The application's check, or none if the server demands no authentication.
#[derive(Clone, Default)]
pub(super) struct Authenticate(Option<Arc<Check>>);

impl Authenticate {
    pub(super) fn new<R, P>(check: impl Fn(&Parts) -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = Result<P, Challenge>> + Send + 'static,
        P: Into<Authenticated>,
    {
        Self(Some(Arc::new(move |head| {
            let checked = check(head);
            Box::pin(async move { checked.await.map(Into::into) })
        })))
    }

    pub(super) async fn check(&self, head: &Parts) -> Checked {
        match &self.0 {
            Some(check) => check(head).await,
            None => Ok(Authenticated::new()),
        }
    }
}

impl fmt::Debug for Authenticate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Authenticate" } else { "None" })
    }
}
