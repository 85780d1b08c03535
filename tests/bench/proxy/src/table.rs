//! The table: a line per figure, a column per contender, and the ratios of the first to the others.

/// How many times as good as the last contender the first one must be.
const AHEAD: f64 = 5.0;

/// The unit of a figure.
#[derive(Debug, Clone, Copy)]
pub enum Unit {
    Seconds,
    Bytes,
    Number,
    /// Bytes of memory per byte of a message.
    Share,
    /// Calls per second: more is better.
    Rate,
}

/// The target of the first contender.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    AtMost(f64),
    TimesBare(f64),
}

/// A line of the table.
pub struct Figure {
    name: String,
    unit: Unit,
    target: Option<Target>,
    is_ahead_wanted: bool,
}

impl Figure {
    pub fn new(name: &str, unit: Unit) -> Self {
        Self { name: name.to_owned(), unit, target: None, is_ahead_wanted: true }
    }

    /// A figure that explains others and has no target.
    pub fn note(name: &str, unit: Unit) -> Self {
        Self { is_ahead_wanted: false, ..Self::new(name, unit) }
    }

    pub fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Prints the figure of each contender: `mcp-proxy`, the bare one, and the other proxy.
    pub fn print(self, [own, bare, peer]: [f64; 3]) {
        let cost = |own: f64, other: f64| if matches!(self.unit, Unit::Rate) { other / own } else { own / other };
        let target = match self.target {
            None => String::new(),
            Some(Target::AtMost(most)) => format!("<= {} {}", shown(most, self.unit), met_or_missed(own <= most)),
            Some(Target::TimesBare(times)) => format!("<= {times} x bare {}", met_or_missed(own <= bare * times)),
        };
        let ahead = 1.0 / cost(own, peer);
        println!(
            "{:<45} {:>9} {:>9} {:>10} {:>8} {ahead:>8.1} {:<6}  {target}",
            self.name,
            shown(own, self.unit),
            shown(bare, self.unit),
            shown(peer, self.unit),
            times(cost(own, bare)),
            if self.is_ahead_wanted { met_or_missed(ahead >= AHEAD) } else { "" },
        );
    }
}

pub fn print_head([own, bare, peer]: &[&str; 3]) {
    println!(
        "{:<45} {own:>9} {bare:>9} {peer:>10} {:>8} {:>8} {:<6}  target",
        "",
        format!("x {bare}"),
        "ahead",
        format!(">= {AHEAD}")
    );
}

pub fn met_or_missed(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

pub fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds if value >= 1.0 => format!("{value:.2} s"),
        Unit::Seconds if value >= 1e-3 => format!("{:.1} ms", value * 1e3),
        Unit::Seconds if value >= 1e-6 => format!("{:.0} us", value * 1e6),
        Unit::Seconds => format!("{:.2} ns", value * 1e9),
        Unit::Bytes => format!("{:.1} MB", value / 1e6),
        Unit::Share => format!("{value:.2}"),
        Unit::Number => format!("{value:.1}"),
        Unit::Rate => format!("{value:.0}"),
    }
}

/// A ratio as text, or `-` if it is not below 100, as for a figure that does not exist.
fn times(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.2}") } else { "-".to_owned() }
}

/// Counts and sizes here are far below the integers that an `f64` represents exactly.
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub fn float(count: u64) -> f64 {
    count as f64
}
