//! Writes a source file in which the mutants can be chosen at run time.

use std::ops::Range;

use crate::find::{Found, Node, Rewrite};

/// Text that was inserted for a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inserted {
    /// Its byte range in the written text.
    pub span: Range<usize>,
    /// The mutant, as its index in [`Found::mutants`].
    pub mutant: usize,
}

/// Text that was copied unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its byte range in the written text.
    pub span: Range<usize>,
    /// The offset of its start in the original file.
    pub from: usize,
}

/// A source file in which mutants can be chosen at run time.
#[derive(Debug, Default)]
pub struct Instrumented {
    /// The written text.
    pub text: String,
    /// The parts that were inserted for mutants.
    pub inserted: Vec<Inserted>,
    /// The parts that were copied unchanged.
    pub chunks: Vec<Chunk>,
}

/// Writes `start`, and `source` with those of its mutants that are `live`. The number that chooses a mutant is `first` plus its
/// index. A `const fn` keeps its `const` if `constants` is true for its index; all others lose it.
pub fn instrument(
    start: &str,
    source: &str,
    found: &Found,
    first: usize,
    live: &dyn Fn(usize) -> bool,
    constants: &dyn Fn(usize) -> bool,
) -> Instrumented {
    let mut writer = Writer { source, found, first, live, constants, next: 0, written: Instrumented::default() };
    writer.push(start);
    writer.copy(0..source.len());
    writer.written
}

struct Writer<'w> {
    source: &'w str,
    found: &'w Found,
    first: usize,
    live: &'w dyn Fn(usize) -> bool,
    constants: &'w dyn Fn(usize) -> bool,
    /// The index of the next node to be written.
    next: usize,
    written: Instrumented,
}

impl Writer<'_> {
    fn copy(&mut self, span: Range<usize>) {
        let found = self.found;
        let mut from = span.start;
        while let Some(node) = found.nodes.get(self.next).filter(|node| node.span.start < span.end) {
            self.next += 1;
            self.unchanged(from..node.span.start);
            from = node.span.end;
            self.node(node);
        }
        self.unchanged(from..span.end);
    }

    fn unchanged(&mut self, span: Range<usize>) {
        if !span.is_empty() {
            let start = self.written.text.len();
            self.written.text.push_str(&self.source[span.clone()]);
            self.written.chunks.push(Chunk { span: start..self.written.text.len(), from: span.start });
        }
    }

    fn push(&mut self, text: &str) {
        self.written.text.push_str(text);
    }

    fn insert(&mut self, mutant: usize, text: &str) {
        let start = self.written.text.len();
        self.push(text);
        self.written.inserted.push(Inserted { span: start..self.written.text.len(), mutant });
    }

    /// The code of the condition that is true when a mutant is chosen.
    fn chosen(&self, mutant: usize) -> String {
        format!("crate::mutant({})", self.first + mutant)
    }

    /// Whether a mutant is written. Those of functions that stay `const` are not.
    fn is_live(&self, mutant: usize) -> bool {
        (self.live)(mutant) && !(self.constants)(self.found.mutants[mutant].function)
    }

    fn node(&mut self, node: &Node) {
        let span = node.span.clone();
        match &node.rewrite {
            Rewrite::Expression(alternatives) => {
                let live: Vec<_> = alternatives.iter().filter(|(mutant, _)| self.is_live(*mutant)).collect();
                for (place, (mutant, text)) in live.iter().enumerate() {
                    self.push(if place == 0 { "(" } else { " else " });
                    let condition = self.chosen(*mutant);
                    self.insert(*mutant, &format!("if {condition} {{ {text} }}"));
                }
                if live.is_empty() {
                    return self.copy(span);
                }
                self.push(" else { ");
                self.copy(span);
                self.push(" })");
            }
            Rewrite::Opposite(mutant) if self.is_live(*mutant) => {
                self.push("((");
                self.copy(span);
                let condition = self.chosen(*mutant);
                self.insert(*mutant, &format!(") != {condition})"));
            }
            Rewrite::Comparison(alternatives) if alternatives.iter().any(|(mutant, _)| self.is_live(*mutant)) => {
                self.push("({ let mutants_value = ");
                self.copy(span);
                self.push("; ");
                for (mutant, text) in alternatives {
                    if self.is_live(*mutant) {
                        let condition = self.chosen(*mutant);
                        let differs = format!("mutants_value != ({text})");
                        self.insert(*mutant, &format!("if {differs} && {condition} {{ !mutants_value }} else "));
                    }
                }
                self.push("{ mutants_value } })");
            }
            Rewrite::Junction { mutant, is_and, left, right } if self.is_live(*mutant) => {
                let (condition, text) = (self.chosen(*mutant), &self.source[right.clone()]);
                self.push("(if (");
                self.copy(left.clone());
                if *is_and {
                    self.push(") { (");
                    self.copy(right.clone());
                    self.insert(*mutant, &format!(") || {condition} }} else {{ {condition} && ({text}) }})"));
                } else {
                    self.insert(*mutant, &format!(") {{ !{condition} || ({text}) }} else {{ ("));
                    self.copy(right.clone());
                    self.insert(*mutant, &format!(") && !{condition} }})"));
                }
            }
            Rewrite::Returns(values) => {
                for (mutant, value) in values {
                    if self.is_live(*mutant) {
                        let condition = self.chosen(*mutant);
                        self.insert(*mutant, &format!(" if {condition} {{ return {value}; }}"));
                    }
                }
            }
            Rewrite::NoItems(mutant) if self.is_live(*mutant) => {
                let condition = self.chosen(*mutant);
                self.insert(*mutant, "{ Iterator::take(");
                self.copy(span);
                self.insert(*mutant, &format!(", if {condition} {{ 0 }} else {{ usize::MAX }}) }}"));
            }
            Rewrite::Guard { always, never, without }
                if [Some(*always), Some(*never), *without].into_iter().flatten().any(|mutant| self.is_live(mutant)) =>
            {
                self.guard(span, *always, [Some(*never), *without]);
            }
            Rewrite::Arm(mutant) if self.is_live(*mutant) => {
                let condition = self.chosen(*mutant);
                self.insert(*mutant, &format!(" if !{condition}"));
            }
            Rewrite::Statement(mutant) if self.is_live(*mutant) => {
                let condition = self.chosen(*mutant);
                self.insert(*mutant, &format!("if !{condition} {{ "));
                self.copy(span);
                self.insert(*mutant, " }");
            }
            Rewrite::Constant(function) if !(self.constants)(*function) => {}
            Rewrite::Place { alternatives, is_mutable } => self.place(span, alternatives, *is_mutable),
            Rewrite::Opposite(_)
            | Rewrite::Comparison(_)
            | Rewrite::Guard { .. }
            | Rewrite::Junction { .. }
            | Rewrite::NoItems(_)
            | Rewrite::Arm(_)
            | Rewrite::Statement(_)
            | Rewrite::Constant(_) => self.copy(span),
            other => self.other(span, other),
        }
    }

    /// The rewrites of calls, loops, fields and errors.
    fn other(&mut self, span: Range<usize>, rewrite: &Rewrite) {
        match rewrite {
            Rewrite::Twice(mutant) if self.is_live(*mutant) => {
                let (condition, text) = (self.chosen(*mutant), &self.source[span.clone()]);
                // The arm of a `match` may have no braces.
                let (start, end) = if text.ends_with(';') { ("", "") } else { ("{ ", " }") };
                self.insert(*mutant, &format!("{start}if {condition} {{ {text}; }} "));
                self.copy(span);
                self.push(end);
            }
            Rewrite::Loop { first, last } if self.is_live(*first) || self.is_live(*last) => {
                let number = |mutant: usize| if self.is_live(mutant) { self.first + mutant } else { 0 };
                let numbers = (number(*first), number(*last));
                self.push("crate::mutant_items(");
                self.copy(span);
                // Both have the same type, so both build or neither does.
                let mutant = if numbers.0 == 0 { *last } else { *first };
                self.insert(mutant, &format!(", {}, {})", numbers.0, numbers.1));
            }
            Rewrite::Never(mutant) if self.is_live(*mutant) => {
                let condition = self.chosen(*mutant);
                self.insert(*mutant, &format!(" && !{condition}"));
            }
            Rewrite::Ignored(mutant) if self.is_live(*mutant) => {
                let condition = self.chosen(*mutant);
                self.push("(match ");
                self.copy(span);
                self.insert(
                    *mutant,
                    &format!(" {{ Err(_) if {condition} => Ok(Default::default()), mutants_value => mutants_value }})"),
                );
            }
            Rewrite::Default(mutant) if self.is_live(*mutant) => {
                let condition = self.chosen(*mutant);
                self.insert(*mutant, &format!("{{ if {condition} {{ Default::default() }} else {{ "));
                self.copy(span);
                self.push(" } }");
            }
            Rewrite::Field(name) => self.push(&format!("{name}: ")),
            _ => self.copy(span),
        }
    }

    fn place(&mut self, span: Range<usize>, alternatives: &[(usize, String)], is_mutable: bool) {
        let live: Vec<_> = alternatives.iter().filter(|(mutant, _)| self.is_live(*mutant)).collect();
        if live.is_empty() {
            return self.copy(span);
        }
        let reference = if is_mutable { "&mut " } else { "&" };
        for (place, (mutant, text)) in live.iter().enumerate() {
            self.push(if place == 0 { "(*" } else { " else " });
            let condition = self.chosen(*mutant);
            self.insert(*mutant, &format!("if {condition} {{ {reference}{text} }}"));
        }
        self.push(&format!(" else {{ {reference}"));
        self.copy(span);
        self.push(" })");
    }

    fn guard(&mut self, span: Range<usize>, always: usize, never: [Option<usize>; 2]) {
        self.push("({ let mutants_value = ");
        self.copy(span);
        self.push("; ");
        if self.is_live(always) {
            let condition = self.chosen(always);
            self.insert(always, &format!("let mutants_value = mutants_value || {condition}; "));
        }
        for mutant in never.into_iter().flatten().filter(|mutant| self.is_live(*mutant)).collect::<Vec<_>>() {
            let condition = self.chosen(mutant);
            self.insert(mutant, &format!("let mutants_value = mutants_value && !{condition}; "));
        }
        self.push("mutants_value })");
    }
}
