//! HTTP as a server speaks it.

/// Names one HTTP exchange: a request that came in, and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeKey(u64);
