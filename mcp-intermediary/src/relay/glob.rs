//! Patterns with wildcards: `*` for any characters, also none and also `/`, and `?` for any one character.
//!
//! A pattern is matched as a nondeterministic automaton: all of its states advance with each character of a text. The
//! time is that of one pass over the text for each 64 characters of the pattern, whatever both contain.

use std::collections::BTreeMap;

/// A pattern. State `n` means that the first `n` symbols of the pattern, `*` not counted, have matched.
#[derive(Debug, Clone)]
pub(super) struct Glob {
    /// For each character that the pattern contains, the states that advance with it.
    advancing: BTreeMap<char, Box<[u64]>>,
    /// The states that advance with any other character.
    advancing_with_any: Box<[u64]>,
    /// The states that stay with any character: a `*` follows.
    staying: Box<[u64]>,
    /// The number of symbols.
    length: usize,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let length = pattern.chars().filter(|symbol| *symbol != '*').count();
        let none = vec![0_u64; length / 64 + 1].into_boxed_slice();
        let (mut staying, mut advancing_with_any) = (none.clone(), none);
        let mut state = 0;
        for symbol in pattern.chars() {
            match symbol {
                '*' => add(&mut staying, state),
                '?' => add(&mut advancing_with_any, state),
                _ => {}
            }
            state += usize::from(symbol != '*');
        }
        let mut advancing = BTreeMap::new();
        for (state, symbol) in pattern.chars().filter(|symbol| *symbol != '*').enumerate() {
            if symbol != '?' {
                add(advancing.entry(symbol).or_insert_with(|| advancing_with_any.clone()), state);
            }
        }
        Self { advancing, advancing_with_any, staying, length }
    }

    /// Whether the pattern matches the whole text.
    pub(super) fn matches(&self, text: &str) -> bool {
        let mut states = self.start();
        self.advance(&mut states, text);
        self.is_end(&states)
    }

    /// Whether the pattern matches the whole text, and has a `?` for the character at this position, which is one.
    pub(super) fn matches_with_query(&self, text: &str, at: usize) -> bool {
        let (Some(before), Some(after)) = (text.get(..at), text.get(at + 1..)) else { return false };
        let mut states = self.start();
        self.advance(&mut states, before);
        let none = vec![0_u64; states.len()];
        step(&mut states, &self.advancing_with_any, &none);
        self.advance(&mut states, after);
        self.is_end(&states)
    }

    fn start(&self) -> Vec<u64> {
        let mut states = vec![0_u64; self.staying.len()];
        add(&mut states, 0);
        states
    }

    fn advance(&self, states: &mut [u64], text: &str) {
        for character in text.chars() {
            step(states, self.advancing.get(&character).unwrap_or(&self.advancing_with_any), &self.staying);
        }
    }

    fn is_end(&self, states: &[u64]) -> bool {
        states.get(self.length / 64).is_some_and(|states| states & (1 << (self.length % 64)) != 0)
    }
}

/// Advances one character.
fn step(states: &mut [u64], advancing: &[u64], staying: &[u64]) {
    let mut carried = 0;
    for ((states, advancing), staying) in states.iter_mut().zip(advancing).zip(staying) {
        let moved = *states & advancing;
        *states = (moved << 1) | carried | (*states & staying);
        carried = moved >> 63;
    }
}

/// Adds a state to a set of states.
fn add(states: &mut [u64], state: usize) {
    if let Some(states) = states.get_mut(state / 64) {
        *states |= 1 << (state % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_a_whole_text() {
        for (pattern, matching, others) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "a/b"], &[]),
            ("read", &["read"], &["rea", "reads", "Read", ""]),
            ("read_*", &["read_", "read_file"], &["read", "xread_"]),
            ("*_file", &["_file", "a_file", "_file_file"], &["a_files"]),
            ("a*b*c", &["abc", "aXbXbXc"], &["ac", "acb", "abcX"]),
            ("a?c", &["abc", "a?c", "aéc"], &["ac", "abbc"]),
            ("??", &["ab"], &["a", "abc"]),
            ("*?", &["a", "ab"], &[""]),
            ("file:///**/x", &["file:////x", "file:///a/b/x"], &["file:///x"]),
        ] {
            let glob = Glob::new(pattern);
            for text in matching {
                assert!(glob.matches(text), "{pattern} matches {text}");
            }
            for text in others {
                assert!(!glob.matches(text), "{pattern} does not match {text}");
            }
        }
    }

    #[test]
    fn a_question_mark_of_a_text_matches_where_the_pattern_has_one() {
        for (pattern, text, is_matching) in [
            ("https://h/s?q=*", "https://h/s?q=1", true),
            ("https://h/*?q=*", "https://h/s?q=1", true),
            ("https://h/*", "https://h/s?q=1", false),
            ("https://h/?*", "https://h/s?q=1", false),
            ("*.md", "s?.md", false),
            ("s??", "s?x", true),
            ("?*", "s?x", false),
            ("s?", "s?", true),
        ] {
            let at = text.find('?').expect("a query");
            assert_eq!(Glob::new(pattern).matches_with_query(text, at), is_matching, "{pattern} {text}");
        }
        assert!(!Glob::new("*").matches_with_query("é", 1));
    }

    #[test]
    fn a_pattern_may_be_longer_than_one_word_of_states() {
        for length in [63, 64, 65, 127, 128, 129, 1024] {
            let text = "a".repeat(length);
            let glob = Glob::new(&text);
            assert!(glob.matches(&text), "{length}");
            assert!(!glob.matches(&text[1..]) && !glob.matches(&format!("{text}a")), "{length}");
            assert!(Glob::new(&format!("{text}*b")).matches(&format!("{text}{text}b")), "{length}");
        }
    }

    #[test]
    fn the_time_to_match_does_not_depend_on_what_repeats() {
        // A matcher that tries each place for each star would take longer than the test may.
        let text = "a".repeat(1 << 20);
        assert!(!Glob::new(&"a*".repeat(500)).matches(&format!("{text}b").replace('a', "ab")[1..]));
        assert!(Glob::new(&format!("{}b", "*a".repeat(500))).matches(&format!("{text}b")));
    }
}
