//! What a check has found: as lines, each printed at once, or as one JSON object at the end.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Map, Value};

/// The output of a check.
pub(super) struct Report<W> {
    out: W,
    /// The members so far; `None` if lines are printed.
    members: Option<Map<String, Value>>,
}

impl<W: Write> Report<W> {
    pub(super) fn new(out: W, is_json: bool) -> Self {
        Self { out, members: is_json.then(Map::new) }
    }

    pub(super) fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.add(name, text.into(), text)
    }

    pub(super) fn number(&mut self, name: &str, number: usize) -> io::Result<()> {
        self.add(name, number.into(), &number.to_string())
    }

    /// How long something took: the member has the unit in its name.
    pub(super) fn time(&mut self, name: &str, took: Duration) -> io::Result<()> {
        let milliseconds = took.as_secs_f64() * 1000.0;
        match &mut self.members {
            Some(members) => {
                let rounded = (milliseconds * 10.0).round() / 10.0;
                members.insert(format!("{}_ms", key(name)), rounded.into());
                Ok(())
            }
            None => writeln!(self.out, "{:<13} {milliseconds:.1} ms", format!("{name}:")),
        }
    }

    /// Texts: on one line, or with `is_long` on a line each.
    pub(super) fn texts(&mut self, name: &str, texts: &[String], is_long: bool) -> io::Result<()> {
        let shown = match (texts.is_empty(), is_long) {
            (true, _) => "none".to_owned(),
            (false, false) => texts.join(", "),
            (false, true) => texts.join("\n              "),
        };
        self.add(name, texts.into(), &shown)
    }

    /// Lines without a name, which are the elements of one array.
    pub(super) fn lines(&mut self, name: &str, lines: Vec<String>) -> io::Result<()> {
        match &mut self.members {
            Some(members) => {
                members.insert(name.to_owned(), lines.into());
                Ok(())
            }
            None => lines.iter().try_for_each(|line| writeln!(self.out, "{line}")),
        }
    }

    /// The end: whether the server can be used, or why it cannot.
    pub(super) fn end(mut self, outcome: Result<(), String>) -> io::Result<()> {
        let Some(members) = &mut self.members else {
            return if outcome.is_ok() { writeln!(self.out, "ok") } else { Ok(()) };
        };
        members.insert("ok".to_owned(), outcome.is_ok().into());
        if let Err(reason) = outcome {
            members.insert("failed".to_owned(), reason.into());
        }
        writeln!(self.out, "{}", Value::Object(std::mem::take(members)))
    }

    /// Why the server cannot be used: a line is printed at once.
    pub(super) fn failed(&mut self, reason: &str) -> io::Result<()> {
        if self.members.is_none() { writeln!(self.out, "failed: {reason}") } else { Ok(()) }
    }

    fn add(&mut self, name: &str, value: Value, shown: &str) -> io::Result<()> {
        match &mut self.members {
            Some(members) => {
                members.insert(key(name), value);
                Ok(())
            }
            None => writeln!(self.out, "{:<13} {shown}", format!("{name}:")),
        }
    }
}

/// The name of a member: that of the line with underscores.
fn key(name: &str) -> String {
    name.replace(['/', '-', ' '], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_milliseconds() {
        for (is_json, shown) in [(false, "tools/list:   1500.3 ms\n"), (true, r#""tools_list_ms":1500.3"#)] {
            let mut out = Vec::new();
            let mut report = Report::new(&mut out, is_json);
            report.time("tools/list", Duration::from_micros(1_500_260)).unwrap();
            report.end(Ok(())).unwrap();
            let found = String::from_utf8(out).unwrap();
            assert!(found.contains(shown), "{found}");
        }
    }
}
