//! The statistics of runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The statistics of one run, or of several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// A hash of the trace.
    pub hash: u64,
    /// The number of plans that were run.
    pub seeds: u64,
    /// The number of calls.
    pub calls: usize,
    /// The number of calls that ended with a result.
    pub results: usize,
    /// The number of calls that ended in another way, by reason.
    pub failures: BTreeMap<String, u64>,
    /// The number of faults that took effect, by kind.
    pub faults: BTreeMap<String, u64>,
    /// The number of change notifications that clients received.
    pub changes: u64,
    /// The number of lines, requests, responses and events that the machines exchanged.
    pub messages: u64,
    /// The virtual time during which something was in flight.
    pub busy: Duration,
}

impl Report {
    /// Adds the statistics of another run.
    pub fn add(&mut self, other: &Self) {
        self.hash ^= other.hash.rotate_left(u32::try_from(self.seeds % 64).expect("small"));
        self.seeds += other.seeds;
        self.calls += other.calls;
        self.results += other.results;
        self.changes += other.changes;
        self.messages += other.messages;
        self.busy += other.busy;
        for (all, new) in [(&mut self.failures, &other.failures), (&mut self.faults, &other.faults)] {
            for (name, count) in new {
                *all.entry(name.clone()).or_default() += count;
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        let list = |counts: &BTreeMap<String, u64>| {
            let mut counts: Vec<_> = counts.iter().collect();
            counts.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
            counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "{} seeds: {} calls, {} results", self.seeds, self.calls, self.results)?;
        writeln!(f, "{} failures: {}", sum(&self.failures), list(&self.failures))?;
        writeln!(f, "{} faults: {}", sum(&self.faults), list(&self.faults))?;
        writeln!(f, "{} messages, {} changes delivered", self.messages, self.changes)?;
        write!(f, "{:.1} hours of virtual time with something in flight", self.busy.as_secs_f64() / 3600.0)
    }
}
