//! Limits how many lines one place in the sources writes, where clients decide how often it writes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::Record;

/// The modules whose lines clients can cause in any number.
const LIMITED: [&str; 3] = ["mcp_blocking::server", "mcp_blocking::gateway", "mcp_proxy::gateway::client_fault"];
/// The lines of one place within [`PERIOD`].
const MOST: u64 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// Counts the lines of each place.
#[derive(Debug, Default)]
pub(super) struct Flood(Mutex<BTreeMap<(&'static str, u32), Period>>);

#[derive(Debug)]
struct Period {
    start: Instant,
    written: u64,
    left_out: u64,
}

impl Flood {
    /// Whether a line may be written. If it may, this is how many of its place were left out before it.
    pub(super) fn admit(&self, record: &Record<'_>, now: Instant) -> Option<u64> {
        let is_limited = LIMITED.iter().any(|module| record.target().starts_with(module));
        let Some(place) = record.module_path_static().zip(record.line()).filter(|_| is_limited) else { return Some(0) };
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let period = places.entry(place).or_insert(Period { start: now, written: 0, left_out: 0 });
        if now.duration_since(period.start) >= PERIOD {
            *period = Period { start: now, written: 0, ..*period };
        }
        if period.written == MOST {
            period.left_out += 1;
            return None;
        }
        period.written += 1;
        Some(std::mem::take(&mut period.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(flood: &Flood, target: &str, line: u32, count: usize, now: Instant) -> Vec<u64> {
        let mut record = Record::builder();
        let record = record.target(target).module_path_static(Some("a")).line(Some(line)).build();
        (0..count).filter_map(|_| flood.admit(&record, now)).collect()
    }

    #[test]
    fn a_place_writes_so_many_lines_in_ten_seconds_and_then_how_many_it_lacks() {
        let (flood, start) = (Flood::default(), Instant::now());
        let target = "mcp_blocking::server::http_exchanges";
        assert_eq!(admitted(&flood, target, 1, 1000, start), [0; 20]);
        let soon = start + PERIOD.saturating_sub(Duration::from_nanos(1));
        assert_eq!(admitted(&flood, target, 1, 1000, soon), [] as [u64; 0]);
        // Another place is not affected.
        assert_eq!(admitted(&flood, target, 2, 3, soon), [0; 3]);
        assert_eq!(admitted(&flood, target, 1, 3, start + PERIOD), [1980, 0, 0]);
    }

    #[test]
    fn lines_that_no_client_can_repeat_are_all_written() {
        let (flood, now) = (Flood::default(), Instant::now());
        for target in ["mcp_proxy::gateway", "mcp_proxy::request_log", "mcp_blocking::child"] {
            assert_eq!(admitted(&flood, target, 1, 1000, now).len(), 1000, "{target}");
        }
        let record = Record::builder().target("mcp_blocking::server").build();
        assert!((0..100).all(|_| flood.admit(&record, now) == Some(0)), "its place is unknown");
    }
}
