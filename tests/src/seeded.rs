//! What all simulations share: the seed and the steps of a run, its trace, the shortening of a run that fails, and machines
//! that are broken on purpose.
//!
//! A [`Simulation`] does something in each of its steps. What a step draws at random is determined by the seed and the number of
//! the step alone, so that the others remain the same if some are left out. [`shortened`] finds a small set of steps that
//! still fails.
//!
//! An invariant that holds for each correct machine may hold for each broken one, too. So each simulation has a table of
//! [defects](Simulation::DEFECTS): changes of what passes in and out of its machines, each of which is what a machine with that
//! defect would do. [`notices_each_defect`] runs the seeds of a test with each of them.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::{self, Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};

use mcp_testkit::random::Random;

/// The number of calls between two that a defect concerns, unless it concerns each.
const SELDOM: u64 = 4;

/// A simulation.
pub trait Simulation {
    /// The ways in which a machine can be broken.
    type Defect: Copy + PartialEq + Debug + 'static;
    /// What has happened in one or more runs.
    type Report: Default + Display + Debug + PartialEq;

    /// The arguments of `simulate` that choose this simulation.
    const OPTIONS: &'static str;
    /// Each way in which a machine can be broken, and a part of the message of the invariant that does not hold then.
    const DEFECTS: &'static [(Self::Defect, &'static str)];

    /// The number of steps of a seed.
    fn steps(seed: u64) -> usize;

    /// Runs the steps of a seed.
    ///
    /// # Panics
    ///
    /// An invariant does not hold.
    fn run(run: Run<'_, Self::Defect>) -> Self::Report;

    /// Adds what has happened in another run.
    fn add(sum: &mut Self::Report, report: &Self::Report);
}

/// What a machine that is broken on purpose does instead of an action.
pub struct Instead<A>(pub Box<dyn FnMut(A) -> Vec<A>>);

impl<A> Instead<A> {
    /// What is done: `action`, if nothing is broken.
    pub fn of(instead: &mut Option<Self>, action: A) -> Vec<A> {
        match instead {
            Some(Self(instead)) => instead(action),
            None => vec![action],
        }
    }
}

impl<A> Debug for Instead<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Instead")
    }
}

/// A seed with its steps, what is broken, and who watches.
pub struct Run<'w, D> {
    seed: u64,
    left_out: BTreeSet<usize>,
    defect: Option<D>,
    /// The choice of what the defect concerns.
    choices: Random,
    watcher: Option<&'w mut dyn FnMut(&str)>,
}

impl<'w, D: Copy + PartialEq> Run<'w, D> {
    /// All steps of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, left_out: BTreeSet::new(), defect: None, choices: Random::new(!seed), watcher: None }
    }

    /// Without these steps.
    #[must_use]
    pub fn without(mut self, steps: &BTreeSet<usize>) -> Self {
        self.left_out.clone_from(steps);
        self
    }

    /// With a machine that is broken in this way.
    #[must_use]
    pub const fn broken(mut self, defect: D) -> Self {
        self.defect = Some(defect);
        self
    }

    /// The same seed and defect, for the part of the harness that is broken.
    #[must_use]
    pub fn for_defect(&self) -> Run<'static, D> {
        Run { defect: self.defect, ..Run::new(self.seed) }
    }

    /// Each line of the trace is passed to `watcher`.
    #[must_use]
    pub fn watched(mut self, watcher: &'w mut dyn FnMut(&str)) -> Self {
        self.watcher = Some(watcher);
        self
    }

    /// The seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether a step is to be carried out.
    #[must_use]
    pub fn has(&self, step: usize) -> bool {
        !self.left_out.contains(&step)
    }

    /// What a step draws.
    #[must_use]
    pub fn random(&self, step: usize) -> Random {
        let step = u64::try_from(step).expect("few steps");
        Random::new(Random::new(self.seed).draw() ^ Random::new(step).draw())
    }

    /// Whether a machine is broken in this way.
    #[must_use]
    pub fn is(&self, defect: D) -> bool {
        self.defect == Some(defect)
    }

    /// Whether a machine is broken in this way, and this is one of the times at which it shows.
    pub fn is_now(&mut self, defect: D) -> bool {
        self.is(defect) && self.choices.one_in(SELDOM)
    }

    /// Whether someone watches the trace.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        self.watcher.is_some()
    }

    /// Adds a line to the trace.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(watcher) = &mut self.watcher {
            watcher(&line());
        }
    }
}

impl<D: Debug> Debug for Run<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, left_out, defect, .. } = self;
        f.debug_struct("Run").field("seed", seed).field("left_out", left_out).field("defect", defect).finish()
    }
}

/// Runs a seed.
///
/// # Errors
///
/// The message of the invariant that does not hold.
pub fn attempt<S: Simulation>(run: Run<'_, S::Defect>) -> Result<S::Report, String> {
    catch_unwind(AssertUnwindSafe(|| S::run(run))).map_err(|panic| message(&*panic))
}

/// Runs the seeds of a test, and returns the sum of their reports.
///
/// # Panics
///
/// An invariant does not hold. The message contains the command that shows the run.
pub fn run_all<S: Simulation>(seeds: impl IntoIterator<Item = u64>) -> S::Report {
    let mut sum = S::Report::default();
    for seed in seeds {
        match attempt::<S>(Run::new(seed)) {
            Ok(report) => S::add(&mut sum, &report),
            Err(reason) => panic!("{reason}\n{}", command::<S>(seed)),
        }
    }
    sum
}

/// The command that shows the run of a seed.
#[must_use]
pub fn command<S: Simulation>(seed: u64) -> String {
    format!("cargo run -p tests --bin simulate -- {}--seed {seed}", S::OPTIONS)
}

/// The steps of a failing seed that can be left out, so that it still fails.
#[must_use]
pub fn shortened<S: Simulation>(seed: u64) -> BTreeSet<usize> {
    shortened_while(S::steps(seed), |left_out| attempt::<S>(Run::new(seed).without(left_out)).is_err())
}

/// Leaves out as many steps as possible: halves of what is left at first, and single ones in the end.
fn shortened_while(steps: usize, fails: impl Fn(&BTreeSet<usize>) -> bool) -> BTreeSet<usize> {
    let mut left_out = BTreeSet::new();
    let mut size = steps.div_ceil(2);
    while size > 0 {
        let left: Vec<_> = (0..steps).filter(|step| !left_out.contains(step)).collect();
        for part in left.chunks(size) {
            let fewer: BTreeSet<_> = left_out.iter().chain(part).copied().collect();
            if fails(&fewer) {
                left_out = fewer;
            }
        }
        size /= 2;
    }
    left_out
}

/// Runs the seeds of a test with each defect of the table, and returns for each the first seed that fails with its invariant, and the
/// number of seeds that failed until then with another one.
///
/// # Panics
///
/// A defect is not noticed by its invariant in any of the seeds.
pub fn notices_each_defect<S: Simulation>(seeds: u64) -> Vec<(S::Defect, u64, usize)> {
    let mut noticed = Vec::new();
    let mut unnoticed = Vec::new();
    for (defect, invariant) in S::DEFECTS {
        let mut others = BTreeSet::new();
        let found = (0..seeds).find(|seed| match attempt::<S>(Run::new(*seed).broken(*defect)) {
            Ok(_) => false,
            Err(reason) if reason.contains(invariant) => true,
            Err(reason) => {
                // Runs differ in their numbers.
                others.insert(reason.chars().filter(|letter| !letter.is_ascii_digit()).take(200).collect::<String>());
                false
            }
        });
        match found {
            Some(seed) => noticed.push((*defect, seed, others.len())),
            None => unnoticed.push(format!("{defect:?} ({invariant}), which failed with {others:#?}")),
        }
    }
    assert!(unnoticed.is_empty(), "not noticed within {seeds} seeds: {}", unnoticed.join("\n"));
    noticed
}

/// The message of a panic.
#[must_use]
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that fails if two certain steps come together.
    struct Counter;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum CounterDefect {
        Counts,
        Nothing,
    }

    #[derive(Debug, Default, PartialEq)]
    struct Drawn(Vec<u64>);

    impl fmt::Display for Drawn {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:?}", self.0)
        }
    }

    impl Simulation for Counter {
        type Defect = CounterDefect;
        type Report = Drawn;

        const OPTIONS: &'static str = "--counter ";
        const DEFECTS: &'static [(CounterDefect, &'static str)] = &[(CounterDefect::Counts, "counts")];

        fn steps(_: u64) -> usize {
            20
        }

        fn run(run: Run<'_, CounterDefect>) -> Drawn {
            assert!(!run.is(CounterDefect::Counts) || run.seed() < 2, "it counts");
            assert!(run.seed() != 7 || !(run.has(3) && run.has(17)), "two steps");
            Drawn((0..20).filter(|step| run.has(*step)).map(|step| run.random(step).draw()).collect())
        }

        fn add(sum: &mut Drawn, report: &Drawn) {
            sum.0.extend(&report.0);
        }
    }

    /// The same table with a defect that no invariant notices.
    struct Blind;

    impl Simulation for Blind {
        type Defect = CounterDefect;
        type Report = Drawn;

        const OPTIONS: &'static str = "";
        const DEFECTS: &'static [(CounterDefect, &'static str)] = &[(CounterDefect::Nothing, "counts")];

        fn steps(seed: u64) -> usize {
            Counter::steps(seed)
        }

        fn run(run: Run<'_, CounterDefect>) -> Drawn {
            Counter::run(run)
        }

        fn add(sum: &mut Drawn, report: &Drawn) {
            Counter::add(sum, report);
        }
    }

    #[test]
    fn a_failing_run_is_shortened_to_the_steps_that_are_needed() {
        let left_out = shortened::<Counter>(7);
        let left: Vec<_> = (0..20).filter(|step| !left_out.contains(step)).collect();
        assert_eq!(left, [3, 17]);
    }

    #[test]
    fn what_a_step_draws_does_not_depend_on_the_others() {
        let all = attempt::<Counter>(Run::new(1)).unwrap().0;
        let fewer = attempt::<Counter>(Run::new(1).without(&[0, 5].into())).unwrap().0;
        assert_eq!((all.len(), fewer.len()), (20, 18));
        assert!(fewer.iter().all(|drawn| all.contains(drawn)));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 20);
        assert_ne!(all, attempt::<Counter>(Run::new(2)).unwrap().0);
    }

    #[test]
    fn a_run_that_fails_names_the_command_that_shows_it() {
        let failed = catch_unwind(|| run_all::<Counter>(6..9)).unwrap_err();
        assert_eq!(message(&*failed), "two steps\ncargo run -p tests --bin simulate -- --counter --seed 7");
        assert_eq!(run_all::<Counter>(0..2).0.len(), 40);
    }

    #[test]
    fn a_defect_that_is_not_noticed_fails_the_test() {
        assert_eq!(notices_each_defect::<Counter>(5), [(CounterDefect::Counts, 2, 0)]);
        for (failed, reason) in [
            (catch_unwind(|| notices_each_defect::<Counter>(2)).unwrap_err(), "Counts"),
            (catch_unwind(|| notices_each_defect::<Blind>(9)).unwrap_err(), "two steps"),
        ] {
            let failed = message(&*failed);
            assert!(failed.contains("not noticed") && failed.contains(reason), "{failed}");
        }
    }
}
