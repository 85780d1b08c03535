//! The deviations of a server from the protocol that `--check` has found.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_blocking::{Handler, Observation};
use mcp_proto::{Quirk, escape_text};

use super::MAX_CHARS;

/// Different findings that are stored; more are counted.
const MAX_FINDINGS: usize = 50;

/// Deviations of the server from the protocol. What is stored and printed is bounded.
#[derive(Clone)]
pub(super) struct Findings {
    found: Arc<Mutex<Found>>,
    /// Dropped with the last clone.
    _in_use: Sender<()>,
}

#[derive(Default)]
struct Found {
    /// For each finding, its position in the order of first occurrence, and its count.
    counts: BTreeMap<String, (usize, u64)>,
    /// Findings that were dropped because there was no room.
    left_out: u64,
}

impl Findings {
    /// Creates an empty set.
    pub(super) fn new() -> (Self, AllFindings) {
        let (in_use, unused) = channel();
        let found = Arc::default();
        (Self { found: Arc::clone(&found), _in_use: in_use }, AllFindings { found, unused })
    }

    pub(super) fn add(&self, finding: &str) {
        let finding = escape_text(finding, MAX_CHARS);
        let mut found = self.found();
        let position = found.counts.len();
        if let Some((_, count)) = found.counts.get_mut(&finding) {
            *count += 1;
        } else if position < MAX_FINDINGS {
            found.counts.insert(finding, (position, 1));
        } else {
            found.left_out += 1;
        }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The findings, once no more can be added.
pub(super) struct AllFindings {
    found: Arc<Mutex<Found>>,
    /// Disconnected once all clones of the set are dropped.
    unused: Receiver<()>,
}

impl AllFindings {
    /// Waits until all clones of the set are dropped, and returns the findings.
    pub(super) fn at_the_end(self) -> Vec<String> {
        let _ = self.unused.recv();
        self.found.lock().unwrap_or_else(PoisonError::into_inner).to_lines()
    }
}

impl Found {
    fn to_lines(&self) -> Vec<String> {
        let mut findings: Vec<_> = self.counts.iter().collect();
        findings.sort_unstable_by_key(|(_, (position, _))| *position);
        let line = |(finding, (_, count)): (&String, &(usize, u64))| match count {
            1 => finding.clone(),
            _ => format!("{finding} ({count} times)"),
        };
        let mut lines: Vec<_> = findings.into_iter().map(line).collect();
        if self.left_out > 0 {
            lines.push(format!("{} more quirks and faults are not shown", self.left_out));
        }
        lines
    }
}

impl Handler for Findings {
    fn observed(&self, observation: Observation) {
        match observation {
            Observation::QuirkObserved(quirk) => self.add(&format!("quirk: {quirk}{}", remark(quirk))),
            Observation::Faulted(fault) => self.add(&format!("fault: {fault}")),
            Observation::SessionLost | Observation::Reconnected { .. } | Observation::Unavailable(_) | _ => {}
        }
    }
}

fn remark(quirk: Quirk) -> &'static str {
    if quirk == Quirk::ToolResultWithoutContent { "; it is passed on unchanged" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_printed_in_their_order_with_their_counts() {
        let (findings, _all) = Findings::new();
        let printed = || {
            let lines = findings.found().to_lines();
            lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>()
        };
        assert_eq!(printed(), "");
        for finding in ["z", "a", "z", "z", "m"] {
            findings.add(finding);
        }
        assert_eq!(printed(), "z (3 times)\na\nm\n");
        for number in 3..MAX_FINDINGS {
            findings.add(&format!("another {number}"));
        }
        assert_eq!(printed().lines().count(), MAX_FINDINGS);
        for number in 1..=3 {
            findings.add(&format!("too many {number}"));
            findings.add("a");
            let printed = printed();
            assert!(printed.ends_with(&format!("\n{number} more quirks and faults are not shown\n")), "{printed}");
            assert!(printed.contains(&format!("\na ({} times)\n", number + 1)), "{printed}");
            assert_eq!(printed.lines().count(), MAX_FINDINGS + 1);
        }
    }
}
