//! Compares the tools that a server lists with their pinned definitions.

use std::collections::BTreeMap;
use std::fmt;

use mcp_proto::{ErrorObject, Excerpt, Json, code};

use super::Event;
use super::definition::{Definition, Digest, FieldChange, beginning};
use super::pins::{NAME, Pins};

/// The maximum number of tools that are remembered as reported.
const REPORTED: usize = 4096;

/// How tools are compared with their definitions at their first use.
///
/// A server can show harmless definitions until its tools are permitted, and others later. What a list contains for the first
/// time is pinned; a later list, also that of a later session with the same pins, is compared with it.
///
/// A call does not need a list before it: a client that calls a tool without one was shown the pinned definition by an
/// earlier list, or none.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Pinning {
    /// The pins of earlier sessions.
    pub pins: Pins,
    /// What follows if a tool is not as it was pinned. Default [`PinMode::Block`].
    pub mode: PinMode,
    /// What follows if a tool is new: the complete list of an earlier use did not have it. Default
    /// [`NewTools::Accept`].
    pub new_tools: NewTools,
    /// Whether other processes may pin tools of the same server. If so, a list with new pins is passed on only when the driver
    /// has answered [`Event::PinsChanged`] with [`Relay::handle_pins`](super::Relay::handle_pins), and is compared with those.
    /// Default `false`.
    pub is_shared: bool,
}

/// What follows if a tool is not as it was pinned. In both cases, [`Event::ToolDeviates`] reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinMode {
    /// The tool can be used.
    Warn,
    /// The tool is left out of lists, and its calls are refused, until the end of the relay or gateway. This holds even
    /// if the tool is later listed as it was pinned. The pins keep their definition: a person accepts another one by
    /// removing the pin.
    Block,
}

/// What follows if a tool without a pin is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NewTools {
    /// The tool is pinned, and can be used.
    Accept,
    /// Until a list was seen to its end, a new tool is pinned and can be used. Later new tools deviate from the pins.
    Refuse,
}

impl Pinning {
    /// Blocks tools that deviate from these pins, and accepts new tools.
    #[must_use]
    pub const fn new(pins: Pins) -> Self {
        Self { pins, mode: PinMode::Block, new_tools: NewTools::Accept, is_shared: false }
    }
}

/// A tool that is not as it was pinned. Its `Display` form is for a person, with the parts of the definition that differ.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolDeviation {
    /// The name of the tool.
    pub tool: Excerpt,
    /// How it deviates.
    pub kind: DeviationKind,
    /// Whether it is left out of lists, and its calls are refused.
    pub is_blocked: bool,
}

/// How a tool deviates from the pins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviationKind {
    /// The definition has changed in these fields.
    Changed(Vec<FieldChange>),
    /// The tool is new since the tools were pinned.
    New,
    /// The tool cannot be pinned, because there are too many tools or its name is too long.
    NotPinned,
}

impl fmt::Display for ToolDeviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            DeviationKind::Changed(_) => "has changed since it was pinned",
            DeviationKind::New => "is new since the tools were pinned",
            DeviationKind::NotPinned => "cannot be pinned: there are too many tools, or its name is too long",
        };
        let blocked = if self.is_blocked { ", and is blocked" } else { "" };
        let changes = if let DeviationKind::Changed(changes) = &self.kind { changes.as_slice() } else { &[] };
        let changes: Vec<_> = changes.iter().map(ToString::to_string).collect();
        let gap = if changes.is_empty() { "" } else { ": " };
        write!(f, "the tool '{}' {kind}{blocked}{gap}{}", self.tool, changes.join("; "))
    }
}

impl ToolDeviation {
    /// The memory that it takes, in bytes.
    pub(super) fn weight(&self) -> usize {
        let DeviationKind::Changed(changes) = &self.kind else { return size_of::<Self>() };
        let texts = changes.iter().flat_map(|change| [&change.before, &change.after]).flatten();
        size_of::<Self>() + texts.map(|text| size_of::<FieldChange>() + text.as_str().len()).sum::<usize>()
    }
}

/// The pins of the tools of a server, and the tools that deviated from them.
pub(super) struct PinnedTools {
    pins: Pins,
    mode: PinMode,
    new_tools: NewTools,
    /// The tools that have deviated, by their names, with the definitions that were reported last.
    deviating: BTreeMap<Box<str>, Digest>,
    /// Whether the pins were changed since they were last reported.
    is_changed: bool,
    is_shared: bool,
    /// Whether the pins that were reported last are not stored yet.
    is_waiting: bool,
}

impl PinnedTools {
    pub(super) fn new(pinning: Pinning) -> Self {
        let Pinning { pins, mode, new_tools, is_shared } = pinning;
        Self { pins, mode, new_tools, deviating: BTreeMap::new(), is_changed: false, is_shared, is_waiting: false }
    }

    /// Whether tools that deviate are blocked.
    pub(super) fn blocks(&self) -> bool {
        self.mode == PinMode::Block
    }

    /// Compares a tool of a list with its pin, or pins it. Returns whether it stays in the list.
    pub(super) fn admits(&mut self, name: &str, tool: &Json, report: &mut impl FnMut(Event)) -> bool {
        let definition = Definition::of(tool);
        let kind = match self.pins.get(name) {
            Some(pinned) if *pinned == definition => return !self.blocks() || !self.deviating.contains_key(name),
            Some(pinned) => DeviationKind::Changed(pinned.changes_to(&definition)),
            None if self.new_tools == NewTools::Refuse && self.pins.is_complete() => DeviationKind::New,
            None => match self.pins.insert(name, definition.clone()) {
                Ok(()) => {
                    self.is_changed = true;
                    return true;
                }
                Err(_) => DeviationKind::NotPinned,
            },
        };
        let key = key(name);
        let digest = definition.digest();
        let has_room = self.deviating.len() < REPORTED || self.deviating.contains_key(key);
        if has_room && self.deviating.insert(key.into(), digest) != Some(digest) {
            let tool = Excerpt::new(name, 80);
            report(Event::ToolDeviates(ToolDeviation { tool, kind, is_blocked: self.blocks() }));
        }
        !self.blocks()
    }

    /// A page of the list of tools was compared.
    pub(super) fn end_page(&mut self, is_last: bool, report: &mut impl FnMut(Event)) {
        if is_last && !self.pins.is_complete() {
            self.pins.set_complete();
            self.is_changed = true;
        }
        if std::mem::take(&mut self.is_changed) {
            self.is_waiting = self.is_shared;
            report(Event::PinsChanged(self.pins.clone()));
        }
    }

    /// Whether lists must wait until the pins are stored.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// The pins are stored, perhaps beside those of other processes, which apply.
    pub(super) fn set_stored(&mut self, stored: Pins) {
        self.pins = stored.with_missing(&self.pins);
        self.is_waiting = false;
    }

    /// The answer to a call of a tool that is blocked.
    pub(super) fn refusal(&self, name: &str) -> Option<ErrorObject> {
        if !self.blocks() {
            return None;
        }
        let is_pinned = self.pins.get(name).is_some();
        let is_refused = self.new_tools == NewTools::Refuse && self.pins.is_complete();
        let why = if is_pinned {
            self.deviating.contains_key(name).then_some(
                "its definition has changed since it was pinned; a person must review the change, and accept it by \
                 removing the pin of the tool",
            )
        } else if name.len() > NAME || self.pins.is_full() {
            Some("it cannot be pinned, because there are too many tools or its name is too long")
        } else {
            is_refused.then_some(
                "it is new since the tools were pinned; a person must review it, and accept new tools once to have it \
                 pinned",
            )
        };
        why.map(|why| ErrorObject::new(code::INVALID_PARAMS, &format!("the tool is blocked: {why}")))
    }
}

/// The part of a name by which a deviation is remembered.
fn key(name: &str) -> &str {
    beginning(name, NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(description: &str) -> Json {
        Json::empty_object().with_member("description", &Json::from(description))
    }

    /// Lists these tools; returns those that stay, and what is reported.
    fn list(tools: &mut PinnedTools, listed: &[(&str, &str)]) -> (Vec<bool>, Vec<String>) {
        let mut events = Vec::new();
        let mut report = |event| {
            if let Event::ToolDeviates(deviation) = &event {
                events.push(deviation.to_string());
            }
            if let Event::PinsChanged(pins) = &event {
                events.push(format!("{} pins", pins.len()));
            }
        };
        let kept = listed.iter().map(|(name, text)| tools.admits(name, &tool(text), &mut report)).collect();
        tools.end_page(true, &mut report);
        (kept, events)
    }

    fn pinned(change: impl FnOnce(&mut Pinning)) -> PinnedTools {
        let mut pinning = Pinning::new(Pins::new());
        change(&mut pinning);
        let mut tools = PinnedTools::new(pinning);
        assert_eq!(list(&mut tools, &[("a", "1"), ("b", "1")]), (vec![true; 2], vec!["2 pins".to_owned()]));
        assert_eq!(list(&mut tools, &[("b", "1"), ("a", "1")]), (vec![true; 2], Vec::new()));
        tools
    }

    #[test]
    fn a_tool_that_has_changed_is_reported_once_for_each_change_and_stays_blocked() {
        let mut tools = pinned(|_| {});
        let changed = |to| {
            format!("the tool 'a' has changed since it was pinned, and is blocked: description: \"1\" -> \"{to}\"")
        };
        assert_eq!(list(&mut tools, &[("a", "2"), ("b", "1")]), (vec![false, true], vec![changed("2")]));
        assert_eq!(list(&mut tools, &[("a", "2")]), (vec![false], Vec::new()));
        assert_eq!(list(&mut tools, &[("a", "3")]), (vec![false], vec![changed("3")]));
        assert_eq!(list(&mut tools, &[("a", "1")]), (vec![false], Vec::new()), "it may change again");
        let refusal = tools.refusal("a").map(|error| error.message());
        assert!(refusal.is_some_and(|text| text.contains("removing the pin of the tool")));
        assert!(tools.refusal("b").is_none() && tools.refusal("c").is_none());
    }

    #[test]
    fn with_a_warning_a_tool_that_has_changed_can_be_used() {
        let mut tools = pinned(|pinning| pinning.mode = PinMode::Warn);
        let (kept, events) = list(&mut tools, &[("a", "2")]);
        assert_eq!((kept, events.len()), (vec![true], 1));
        assert!(!events[0].contains("blocked") && tools.refusal("a").is_none());
        assert_eq!(list(&mut tools, &[("a", "2")]), (vec![true], Vec::new()));
    }

    #[test]
    fn a_new_tool_is_pinned_or_refused() {
        let mut tools = pinned(|_| {});
        assert_eq!(list(&mut tools, &[("c", "1")]), (vec![true], vec!["3 pins".to_owned()]));
        let mut tools = pinned(|pinning| pinning.new_tools = NewTools::Refuse);
        assert!(tools.refusal("c").is_some_and(|error| error.message().contains("it is new")), "without a list, too");
        let report = "the tool 'c' is new since the tools were pinned, and is blocked".to_owned();
        assert_eq!(list(&mut tools, &[("c", "1")]), (vec![false], vec![report]));
        assert_eq!(list(&mut tools, &[("c", "1")]), (vec![false], Vec::new()));
    }

    #[test]
    fn all_pages_of_the_first_list_are_pinned() {
        let mut tools = PinnedTools::new(Pinning { new_tools: NewTools::Refuse, ..Pinning::new(Pins::new()) });
        let mut counts = Vec::new();
        let mut report = |event| {
            if let Event::PinsChanged(pins) = event {
                counts.push((pins.len(), pins.is_complete()));
            }
        };
        for (name, is_last) in [("a", false), ("b", true), ("c", true)] {
            assert_eq!(tools.admits(name, &tool(""), &mut report), name != "c");
            tools.end_page(is_last, &mut report);
        }
        assert_eq!(counts, [(1, false), (2, true)]);
    }

    #[test]
    fn a_tool_that_cannot_be_pinned_is_blocked() {
        let mut tools = pinned(|_| {});
        let long = "n".repeat(NAME + 1);
        let (kept, events) = list(&mut tools, &[(&long, "1")]);
        assert!(kept == [false] && events[0].contains("cannot be pinned") && tools.refusal(&long).is_some());
    }
}
