//! The clock that machines are driven by.

use std::sync::LazyLock;
use std::time::SystemTime;

use mcp_proto::Instant;

static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// The time since the first call in this process.
pub(crate) fn now() -> Instant {
    Instant::after_start(START.elapsed())
}

/// The seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_calendar() {
        let year_2020 = 1_577_836_800;
        assert!(unix_time() > year_2020);
    }
}
