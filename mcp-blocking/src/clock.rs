//! The clock that machines are driven by.

use std::sync::LazyLock;

use mcp_proto::Instant;

static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// The time since the process first asked for it.
pub(crate) fn now() -> Instant {
    Instant::after_start(START.elapsed())
}
