//! Why a client could not connect, or a call has no result.

use mcp_model::{ModelError, TaskStatus};
use mcp_proto::client::Outcome;
use mcp_proto::{ErrorObject, Failed, Json, UsageError};

use crate::InvalidService;
use crate::server_cards::CardFailure;
#[cfg(feature = "skills")]
use crate::skills::SkillMismatch;
#[cfg(feature = "validation")]
use crate::validation::SchemaMismatch;

/// Why a client could not connect, or a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an error.
    #[error("the server answered with error {}: {}", .0.code(), .0.shown_message())]
    Server(ErrorObject),
    /// The server did not answer.
    #[error("{}", reason.describe(server))]
    Failed {
        /// The server as the subject of a sentence, such as `the server at https://example.com/mcp`, without the query
        /// of the URL; `the server` on a byte stream.
        server: Box<str>,
        /// The reason.
        reason: Failed,
    },
    /// The result does not have the shape that this method's results have.
    #[error("the server's result does not have the form of this method's results: {0}")]
    Result(ModelError),
    /// A file of a skill is not the one that its entry describes, and must not be used.
    #[cfg(feature = "skills")]
    #[error("the file cannot be used: {0}; if the skill has changed, request its entry again")]
    Skill(#[from] SkillMismatch),
    /// The arguments of a call of a [`CheckedTool`](crate::validation::CheckedTool) do not conform to its `inputSchema`. Nothing
    /// was sent.
    #[cfg(feature = "validation")]
    #[error("the arguments do not conform to the tool's inputSchema: {0}")]
    ArgumentsMismatch(SchemaMismatch),
    /// The result of a call of a [`CheckedTool`](crate::validation::CheckedTool) does not conform to its `outputSchema`.
    #[cfg(feature = "validation")]
    #[error("the server's result does not conform to the tool's outputSchema: {0}")]
    ResultMismatch(SchemaMismatch),
    /// The resource that was read, or that was to be read, is not the page of an app.
    #[error(
        "the server's resource is no app: its URI does not begin with ui://, or it has no HTML of the type {} at this URI",
        mcp_model::APP_MIME_TYPE
    )]
    NotAnApp,
    /// The server's card cannot be read.
    #[error("the card of {server} cannot be read: {reason}")]
    Card {
        /// The server, as in [`Error::Failed`].
        server: Box<str>,
        /// The reason.
        reason: CardFailure,
    },
    /// The arguments of a call cannot be written as a JSON object. The text is that of the application's `Serialize`.
    #[error("the arguments cannot be written as a JSON object of the expected form: {0}")]
    Arguments(serde_json::Error),
    /// The pages of the server's list repeat, so that the list has no end.
    #[error(
        "the pages of the server's list repeat: page {pages} continues where an earlier one did; the server has a bug"
    )]
    ListRepeats {
        /// The pages that were read.
        pages: usize,
    },
    /// The server's list has more pages than are read.
    #[error("the server's list has more than {pages} pages, which is as many as are read; read it page by page")]
    ListTooLong {
        /// The pages that were read.
        pages: usize,
    },
    /// The pages of the server's list are larger than what is read.
    #[error(
        "the pages of the server's list have more than {bytes} bytes, which is as much as is read; read it page by page"
    )]
    ListTooLarge {
        /// The most bytes that are read.
        bytes: usize,
    },
    /// The task of a call has ended without a result: it was cancelled, or the server states an unknown status or no
    /// error.
    #[error("{}", if *status == TaskStatus::Cancelled { "the task was cancelled" } else { "the server has ended the task without a result" })]
    TaskEnded {
        /// Its status.
        status: TaskStatus,
    },
    /// The call is invalid, or not possible in this state.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The server in the same process cannot be served.
    #[error(transparent)]
    Service(InvalidService),
    /// The server could not be started.
    #[error(transparent)]
    Start(std::io::Error),
    /// The client itself could not be set up: its threads could not be started, or its HTTP client could not be
    /// created.
    #[error("{0}")]
    SetUp(Box<dyn std::error::Error + Send + Sync>),
}

impl From<InvalidService> for Error {
    fn from(error: InvalidService) -> Self {
        if let InvalidService::Usage(error) = error { Self::Usage(error) } else { Self::Service(error) }
    }
}

impl Error {
    /// The result of a call, or why it has none.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] and [`Error::Failed`].
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::client::Outcome;
    /// use mcp_application::Error;
    /// use mcp_proto::{Failed, Json};
    ///
    /// let result = Error::result_of(Outcome::Result(Json::empty_object()), "the server");
    /// assert_eq!(result.unwrap(), Json::empty_object());
    /// let error = Error::result_of(Outcome::Failed(Failed::Closed), "the server").unwrap_err();
    /// assert!(matches!(error, Error::Failed { reason: Failed::Closed, .. }));
    /// ```
    pub fn result_of(outcome: Outcome, server: &str) -> Result<Json, Self> {
        match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(Self::Server(error)),
            Outcome::Failed(reason) => Err(Self::Failed { server: server.into(), reason }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn px8_the_message_of_a_server_is_shown_escaped_and_not_in_full() {
        let message = format!("{}\u{1b}[31m\n{}", "a".repeat(100), "b".repeat(1000));
        let shown = Error::Server(ErrorObject::new(7, &message)).to_string();
        assert!(shown.starts_with("the server answered with error 7: aaa") && shown.ends_with("b…"), "{shown}");
        assert!(!shown.contains(['\u{1b}', '\n']) && shown.chars().count() < 600, "{shown}");
    }
}
