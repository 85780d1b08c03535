//! Counts the lines of a peer that are not messages (FR10).

use std::time::Duration;

use crate::Instant;

/// The lines of a minute that are reported one by one. Of further ones, only the number is reported.
const REPORTED: usize = 10;

/// The lines within the current minute that were not messages.
///
/// A peer that has sent no message yet and exceeds the limit evidently uses another protocol, so that the connection ends.
/// Of a peer that has sent a message, such lines are skipped.
#[derive(Debug)]
pub(super) struct NotMessages {
    limit: usize,
    has_message: bool,
    since: Option<Instant>,
    lines: usize,
}

impl NotMessages {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, has_message: false, since: None, lines: 0 }
    }

    /// A message has arrived.
    pub(super) const fn on_message(&mut self) {
        self.has_message = true;
    }

    /// A line has arrived that is not a message.
    pub(super) fn on_line(&mut self, now: Instant) {
        const MINUTE: Duration = Duration::from_secs(60);
        if now.saturating_duration_since(*self.since.get_or_insert(now)) >= MINUTE {
            (self.since, self.lines) = (Some(now), 0);
        }
        self.lines = self.lines.saturating_add(1);
    }

    /// Whether there were more such lines within the minute than the limit.
    pub(super) const fn are_over(&self) -> bool {
        self.lines > self.limit
    }

    /// Whether the connection ends because of such lines.
    pub(super) const fn end_connection(&self) -> bool {
        self.are_over() && !self.has_message
    }

    /// Whether the last line is reported by itself.
    pub(super) const fn report_line(&self) -> bool {
        self.lines <= REPORTED
    }

    /// The number of lines to report after the last one: 100, 1,000 and so on.
    pub(super) fn number_to_report(&self) -> Option<usize> {
        let is_power = self.lines.checked_ilog10().is_some_and(|power| 10_usize.pow(power) == self.lines);
        (self.lines > REPORTED && is_power).then_some(self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_a_minute_are_reported_and_then_their_number_at_each_power_of_ten() {
        let mut lines = NotMessages::new(1000);
        let mut now = Instant::START;
        for _ in 0..3 {
            let (mut reported, mut numbers) = (0, Vec::new());
            for _ in 0..20_000 {
                lines.on_line(now);
                reported += usize::from(lines.report_line());
                numbers.extend(lines.number_to_report());
            }
            assert_eq!((reported, numbers), (10, vec![100, 1000, 10_000]));
            now += Duration::from_secs(60);
        }
    }

    #[test]
    fn only_a_peer_without_a_message_is_ended() {
        let mut lines = NotMessages::new(2);
        let start = Instant::START;
        for (seconds, is_over) in [(0, false), (0, false), (59, true), (60, false), (61, false), (119, true)] {
            lines.on_line(start + Duration::from_secs(seconds));
            assert_eq!((lines.are_over(), lines.end_connection()), (is_over, is_over), "{seconds}");
        }
        lines.on_message();
        assert_eq!((lines.are_over(), lines.end_connection()), (true, false));
    }
}
