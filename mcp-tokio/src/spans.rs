//! The fields that the spans of requests have in common.

use tokio::time::Instant;
use tracing::Span;

/// Records how a request that began at this moment has ended.
pub(crate) fn record_outcome(span: &Span, outcome: &str, began: Instant) {
    if !span.is_disabled() {
        span.record("outcome", outcome);
        span.record("duration_ms", u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    }
}
