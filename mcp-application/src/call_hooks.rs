//! Functions that see each request of a client before it is sent, and its outcome.

use std::fmt;
use std::sync::Arc;

use mcp_proto::Json;
use mcp_proto::client::Call;

use crate::Error;

/// The outcome of a request, as its caller receives it.
pub type CallOutcome = Result<Json, Error>;

type AfterCall = Box<dyn FnOnce(CallOutcome) -> CallOutcome + Send>;

type CallHook = Arc<dyn Fn(Call) -> Result<(Call, AfterCall), Error> + Send + Sync>;

/// The hooks of a client, which are called for each request of the application.
///
/// # Example
///
/// ```
/// use mcp_application::CallHooks;
/// use mcp_proto::Json;
/// use mcp_proto::client::Call;
///
/// let mut hooks = CallHooks::default();
/// hooks.add(|call| Ok((call, |outcome| outcome)));
/// let (call, hooked) = hooks.begin(Call::new("ping"))?;
/// assert_eq!(call.method().as_str(), "ping");
/// assert_eq!(hooked.finish(Ok(Json::from(true)))?, Json::from(true));
/// # Ok::<(), mcp_application::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct CallHooks(Vec<CallHook>);

/// What hooks do with the outcome of a request.
#[derive(Default)]
pub struct HookedCall(Vec<AfterCall>);

impl CallHooks {
    /// Adds a hook. It returns the request that is sent in place of the one that it receives, and a function for the
    /// outcome; or the error that the caller receives.
    pub fn add<A>(&mut self, hook: impl Fn(Call) -> Result<(Call, A), Error> + Send + Sync + 'static)
    where
        A: FnOnce(CallOutcome) -> CallOutcome + Send + 'static,
    {
        self.0.push(Arc::new(move |call| hook(call).map(|(call, after)| (call, Box::new(after) as AfterCall))));
    }

    /// Calls the hooks for a request, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// The error of a hook: the request is not sent, and nothing else is called.
    pub fn begin(&self, mut call: Call) -> Result<(Call, HookedCall), Error> {
        let mut hooked = HookedCall::default();
        for hook in &self.0 {
            let (next, after) = hook(call)?;
            call = next;
            hooked.0.push(after);
        }
        Ok((call, hooked))
    }
}

impl HookedCall {
    /// The outcome that the caller receives: the hook that was added first sees it last.
    ///
    /// # Errors
    ///
    /// The error that the caller receives.
    pub fn finish(self, outcome: CallOutcome) -> CallOutcome {
        self.0.into_iter().rev().fold(outcome, |outcome, after| after(outcome))
    }
}

impl fmt::Debug for HookedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookedCall({})", self.0.len())
    }
}

crate::opaque_debug!(CallHooks);
