//! How requests and connections end, for both roles.

use crate::error::{Failed, ProcessEnd, StartFailure};
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Response};
use crate::spec::Method;

/// How a request of a client or of a server ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With a result, as it was received.
    Result(Json),
    /// With an error that the peer sent.
    Error(ErrorObject),
    /// Without an answer, for this reason.
    Failed(Failed),
}

impl From<Response> for Outcome {
    fn from(response: Response) -> Self {
        match response {
            Response::Result { result, .. } => Self::Result(result),
            Response::Error { error, .. } => Self::Error(error),
        }
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The application closed it.
    Local,
    /// The peer closed it.
    Peer,
    /// The process of the server has ended.
    ProcessEnded(ProcessEnd),
    /// The process of the server could not be started.
    NotStarted(StartFailure),
    /// The server and the client support no common revision.
    ///
    /// Rules: LC-06.
    NoCommonVersion,
    /// The peer sent too many lines that are not messages, and no message.
    ///
    /// Rules: FR10.
    Garbage {
        /// `Limits::garbage`, in lines within a minute.
        limit: usize,
    },
    /// The session was idle for too long, or was ended at a limit to make room for another one.
    Expired,
    /// A queue grew over the limits: the application did not drain the output, or the peer made requests without
    /// accepting the answers.
    ///
    /// Rules: RP9, RP10.
    Overflow,
}

impl CloseReason {
    /// Why a request has no response if the connection ends for this reason. `opening` is the method of the request that
    /// was to open the connection, if it has no answer.
    pub(crate) fn failure(self, opening: Option<Method>) -> Failed {
        match self {
            Self::ProcessEnded(end) => Failed::ProcessEnded { end, opening },
            Self::NotStarted(failure) => Failed::NotStarted(failure),
            Self::Garbage { limit } => Failed::NoMessages { limit },
            Self::Local | Self::Peer | Self::NoCommonVersion | Self::Expired | Self::Overflow => Failed::Closed,
        }
    }
}
