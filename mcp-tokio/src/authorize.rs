//! The interface of a sign-in to the task that owns a machine.

use mcp_proto::auth::Challenged;

/// Gets tokens for a machine. `()` is for a machine that sends none.
pub(crate) trait Authorize<M>: Sized + Send + 'static {
    /// What a sign-in has led to.
    type Outcome: Send;

    /// Gets the stored token, if there is one. Returns whether the first message should wait for the outcome, so that it
    /// is sent with that token.
    fn start(&self) -> bool;

    /// Gets a token that the server accepts.
    fn challenged(&self, challenged: Challenged);

    /// Waits for an outcome. Dropping the future while it waits loses nothing.
    fn outcome(&mut self) -> impl Future<Output = Self::Outcome> + Send;

    /// Passes an outcome to the machine. Returns whether the sign-in has ended.
    fn apply(&mut self, machine: &mut M, outcome: Self::Outcome) -> bool;
}

impl<M> Authorize<M> for () {
    type Outcome = ();

    fn start(&self) -> bool {
        false
    }

    fn challenged(&self, _: Challenged) {}

    async fn outcome(&mut self) {
        std::future::pending::<()>().await;
    }

    fn apply(&mut self, _: &mut M, (): ()) -> bool {
        true
    }
}

impl<M, A: Authorize<M>> Authorize<M> for Option<A> {
    type Outcome = A::Outcome;

    fn start(&self) -> bool {
        self.as_ref().is_some_and(Authorize::start)
    }

    fn challenged(&self, challenged: Challenged) {
        if let Some(authorize) = self {
            authorize.challenged(challenged);
        }
    }

    async fn outcome(&mut self) -> A::Outcome {
        match self {
            Some(authorize) => authorize.outcome().await,
            None => std::future::pending().await,
        }
    }

    fn apply(&mut self, machine: &mut M, outcome: A::Outcome) -> bool {
        self.as_mut().is_none_or(|authorize| authorize.apply(machine, outcome))
    }
}
