//! The client of a tool that may take long, and the sender of its call.

use std::fmt;
use std::sync::Arc;

use http::Extensions;
use mcp_proto::server::{Principal, TaskId};

/// How the client of a tool that may take long gets the result. `I` is the driver's request, and `R` what runs its
/// tasks.
pub enum TaskCaller<I, R> {
    /// It waits for the result.
    Waits(I),
    /// It fetches the result later.
    Fetches {
        /// What runs the task.
        runner: Arc<R>,
        /// The task.
        id: TaskId,
    },
}

impl<I, R> fmt::Debug for TaskCaller<I, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waits(_) => "Waits",
            Self::Fetches { .. } => "Fetches",
        })
    }
}

/// The sender of a call, which the function of a task knows also after the request was answered.
#[derive(Debug, Clone)]
pub struct CallSender {
    pub(crate) principal: Option<Principal>,
    pub(crate) extensions: Extensions,
}

impl CallSender {
    /// The authenticated sender of the call.
    #[must_use]
    pub const fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// The extensions of the HTTP request that contained the call.
    #[must_use]
    pub const fn extensions(&self) -> &Extensions {
        &self.extensions
    }
}

/// The methods of a driver's `TaskContext` with which a function reports and asks. Its field `caller` is a
/// [`TaskCaller`], and what runs the tasks has the methods `set_message` and `ask`. In a driver with a runtime,
/// `asynchronous` is `[async] [.await]`.
#[doc(hidden)]
#[macro_export]
macro_rules! task_context_methods {
    (asynchronous: [$($async:ident)?] [$($await:tt)*]) => {
        /// Sets the text about what the tool is doing, which clients that fetch the result can show.
        pub fn set_message(&self, message: &str) {
            if let $crate::TaskCaller::Fetches { runner, id } = &self.caller {
                runner.set_message(id, message);
            }
        }

        /// Shows a form to the client's user, or sends the user to a URL, and waits for the answer. The key is unique
        /// in the call.
        ///
        /// # Errors
        ///
        /// The client cannot be asked, the task has ended, or the answer does not have the form that it must have.
        pub $($async)? fn elicit(
            &mut self,
            key: &str,
            params: impl Into<::mcp_model::ElicitRequestParams>,
        ) -> Result<::mcp_model::ElicitResult, $crate::router::HandlerError> {
            self.ask::<::mcp_model::ElicitRequest>(key, &params.into())$($await)*
        }

        /// Requests a message of the client's language model. The key is unique in the call.
        ///
        /// Sampling is deprecated since 2026-07-28, and goes on working: a server calls a language model by itself instead.
        ///
        /// # Errors
        ///
        /// As for [`TaskContext::elicit`].
        pub $($async)? fn sample(
            &mut self,
            key: &str,
            params: &::mcp_model::CreateMessageRequestParams,
        ) -> Result<::mcp_model::CreateMessageResult, $crate::router::HandlerError> {
            self.ask::<::mcp_model::CreateMessageRequest>(key, params)$($await)*
        }

        /// Requests the roots of the client. The key is unique in the call.
        ///
        /// Roots are deprecated since 2026-07-28, and go on working: the arguments of a tool, the URIs of resources or the
        /// configuration of the server state instead what it works on.
        ///
        /// # Errors
        ///
        /// As for [`TaskContext::elicit`].
        pub $($async)? fn roots(
            &mut self,
            key: &str,
        ) -> Result<::mcp_model::ListRootsResult, $crate::router::HandlerError> {
            self.ask::<::mcp_model::ListRootsRequest>(key, &::mcp_model::RequestParams::new())$($await)*
        }

        /// Requests several inputs at one time, and waits for all answers: an object with each answer under its key.
        /// The keys are unique in the call. A client that waits for the result receives the requests one after the
        /// other.
        ///
        /// # Errors
        ///
        /// The client cannot be asked, does not give one of them, or the task has ended.
        pub $($async)? fn ask_all(
            &mut self,
            required: ::mcp_proto::server::InputRequired,
        ) -> Result<::mcp_proto::Json, $crate::router::HandlerError> {
            let mut inputs = $crate::TaskInputs::new(required);
            match &self.caller {
                $crate::TaskCaller::Waits(incoming) => {
                    ::mcp_proto::server::Tasks::check_question(incoming.context())?;
                    while let Some((key, call)) = inputs.next_call() {
                        inputs.add(&key, incoming.ask(call)$($await)*?)?;
                    }
                    Ok(inputs.answers())
                }
                $crate::TaskCaller::Fetches { runner, id } => {
                    $crate::TaskInputs::from_answers(runner.ask(id, inputs.required())$($await)*)
                }
            }
        }

        $($async)? fn ask<R: ::mcp_model::RequestMethod>(
            &self,
            key: &str,
            params: &R::Params,
        ) -> Result<R::Result, $crate::router::HandlerError> {
            let input = $crate::TaskInput::<R>::new(key, params);
            match &self.caller {
                $crate::TaskCaller::Waits(incoming) => {
                    ::mcp_proto::server::Tasks::check_question(incoming.context())?;
                    input.from_outcome(incoming.ask(input.call())$($await)*?)
                }
                $crate::TaskCaller::Fetches { runner, id } => {
                    input.from_answers(runner.ask(id, &input.required())$($await)*.as_ref())
                }
            }
        }
    };
}
