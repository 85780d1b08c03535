//! Errors of reading a payload as a typed value.

use std::fmt;

use mcp_proto::{ErrorObject, code};

/// A payload does not have the shape of its type.
///
/// The text contains the place and what is wrong there. Neither contains anything of the payload.
///
/// # Example
///
/// ```
/// use mcp_proto::Json;
/// use mcp_model::{ListToolsResult, Payload};
///
/// let json = Json::parse(r#"{"tools":[{"name":"hello","inputSchema":"secret"}]}"#)?;
/// let error = ListToolsResult::from_json(&json).unwrap_err();
/// assert_eq!(error.to_string(), "tools[0].inputSchema: expected an object");
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelError {
    path: String,
    problem: Problem,
}

/// What is wrong with a payload, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A required member is missing.
    #[error("missing")]
    Missing,
    /// The value is of another kind.
    #[error("expected {0}")]
    Expected(&'static str),
    /// An object has two members with the same name, which different parsers interpret differently.
    #[error("an object has two members of one name")]
    DuplicateKey,
}

impl ModelError {
    /// The payload is of another kind than `what`, such as `"an object"`.
    #[must_use]
    pub const fn expected(what: &'static str) -> Self {
        Self::new(Problem::Expected(what))
    }

    pub(super) const fn new(problem: Problem) -> Self {
        Self { path: String::new(), problem }
    }

    /// The same error with `step` in front of its path: the error of the object or array that contains the value.
    pub(super) fn inside(mut self, step: &str) -> Self {
        let joint = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path.insert_str(0, joint);
        self.path.insert_str(0, step);
        self
    }

    /// The same error with `index` in front of its path: the error of the array that contains the value.
    pub(super) fn at(self, index: usize) -> Self {
        self.inside(&format!("[{index}]"))
    }

    /// The place: names of members from the specification, and positions, such as `tools[0].inputSchema`. It is empty
    /// for the payload itself.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong there.
    #[must_use]
    pub const fn problem(&self) -> Problem {
        self.problem
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for ModelError {}

/// The error response to a request whose parameters do not have the shape of their type, with code
/// [`code::INVALID_PARAMS`].
impl From<ModelError> for ErrorObject {
    fn from(error: ModelError) -> Self {
        Self::new(code::INVALID_PARAMS, &format!("invalid params: {error}"))
    }
}
