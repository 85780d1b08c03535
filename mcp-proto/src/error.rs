//! tmp
/// tmp
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// A limit is zero or larger than this crate can work with (CL5).
    #[error("the limit '{field}' must be at least 1 and at most {largest}")]
    Limit {
        /// The field of `Limits`.
        field: &'static str,
        /// The largest value that it may have.
        largest: usize,
    },
}
