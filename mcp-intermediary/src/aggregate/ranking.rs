//! A ranking of texts for words, such as definitions of tools for what a model looks for: the function Okapi BM 25 over
//! several fields, with fixed weights.
//!
//! A text is split into words at everything but letters and digits, and at capital letters (`createPullRequest`,
//! `HTMLPage`); words are compared in lower case and in the singular (`issues`, `queries` and `boxes` are `issue`, `query` and
//! `box`). A document has several fields. The frequency of a word in a document is the sum over its fields of the weight of the
//! field, times the number of occurrences, over the length of the field in relation to the average. The score of a document is
//! the sum over the words of the query of the saturated frequency times the inverse document frequency. A word of
//! the query also stands for the words that it is the beginning of (`repo` for `repository`), with half of the weight. Documents
//! with equal scores are in the order in which they were added.
//!
//! Everything is bounded: the words that are read of a field, the length of a word, the words of a query, and the words that one
//! of them is the beginning of. Time is that of one pass over the texts to make an index, and for a query that of the documents
//! that contain its words.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The number of fields of a document.
pub(super) const FIELDS: usize = 5;
/// The weights of the fields: name, title, name of the server, description, arguments.
const WEIGHTS: [f64; FIELDS] = [4.0, 3.0, 2.0, 1.5, 0.7];
/// How quickly further occurrences of a word count less.
const SATURATION: f64 = 1.2;
/// How much the length of a field counts.
const LENGTH: f64 = 0.5;
/// The weight of a word that a word of the query is the beginning of.
const BEGINNING: f64 = 0.5;
/// The shortest beginning.
const SHORTEST_BEGINNING: usize = 3;
/// The maximum of the words that one word of a query is the beginning of.
const COMPLETIONS: usize = 32;
/// The maximum of the words of a field, and of a query, and of the bytes of a word.
const WORDS: usize = 256;
const QUERY: usize = 32;
const LONGEST: usize = 32;

/// The occurrences of a word in a document, for each field.
type Counts = [u16; FIELDS];

/// An index of documents, which are numbered in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    /// The documents with a word, in their order.
    words: BTreeMap<Box<str>, Vec<(u32, Counts)>>,
    /// The number of words of each field of each document.
    lengths: Vec<[u16; FIELDS]>,
    /// The sums of `lengths`.
    sums: [u64; FIELDS],
}

impl Ranking {
    /// Adds a document with these fields.
    pub(super) fn add(&mut self, fields: [&str; FIELDS]) {
        let Ok(document) = u32::try_from(self.lengths.len()) else { return };
        let mut counts = BTreeMap::<String, Counts>::new();
        let mut lengths = [0; FIELDS];
        for ((field, length), text) in lengths.iter_mut().enumerate().zip(fields) {
            for word in words_of(text).take(WORDS) {
                *length += 1;
                if let Some(count) = counts.entry(word).or_default().get_mut(field) {
                    *count += 1;
                }
            }
        }
        for (word, counts) in counts {
            self.words.entry(word.into()).or_default().push((document, counts));
        }
        for (sum, length) in self.sums.iter_mut().zip(lengths) {
            *sum += u64::from(length);
        }
        self.lengths.push(lengths);
    }

    /// The documents that contain words of a query, the best first.
    pub(super) fn find(&self, query: &str) -> Vec<usize> {
        let mut seen = BTreeSet::new();
        let words = words_of(query).filter(|word| seen.insert(word.clone())).take(QUERY);
        let mut scores = BTreeMap::<u32, f64>::new();
        for word in words.collect::<Vec<_>>() {
            // Of a word and its completions, each document counts the best one.
            let mut best = BTreeMap::<u32, f64>::new();
            for (found, documents) in self.completions(&word) {
                let weight = if *found == *word { 1.0 } else { BEGINNING };
                let rarity = self.rarity(documents.len());
                for (document, counts) in documents {
                    let frequency = self.frequency(*document, counts);
                    let score = weight * rarity * frequency / (SATURATION + frequency);
                    let best = best.entry(*document).or_default();
                    *best = best.max(score);
                }
            }
            for (document, score) in best {
                *scores.entry(document).or_default() += score;
            }
        }
        // Whole numbers, so that what differs by the rounding of a platform is equal.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "scores are small and positive")]
        let mut ranked: Vec<_> =
            scores.into_iter().map(|(document, score)| (Reverse((score * 1e6) as u64), document)).collect();
        ranked.sort_unstable();
        ranked.into_iter().filter_map(|(_, document)| usize::try_from(document).ok()).collect()
    }

    /// A word, and those that it is the beginning of.
    fn completions<'r>(&'r self, word: &'r str) -> impl Iterator<Item = (&'r str, &'r [(u32, Counts)])> {
        let is_beginning = word.len() >= SHORTEST_BEGINNING;
        let most = if is_beginning { COMPLETIONS } else { 1 };
        let after = self.words.range::<str, _>((Bound::Included(word), Bound::Unbounded));
        let completions = after.take(most).take_while(move |(found, _)| found.starts_with(word));
        let found = completions.filter(move |(found, _)| is_beginning || ***found == *word);
        found.map(|(found, documents)| (&**found, &**documents))
    }

    /// The inverse document frequency of a word in this number of documents.
    fn rarity(&self, documents: usize) -> f64 {
        let (all, with) = (count(self.lengths.len()), count(documents));
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }

    /// The weighted frequency of a word in a document.
    fn frequency(&self, document: u32, counts: &Counts) -> f64 {
        let lengths = usize::try_from(document).ok().and_then(|document| self.lengths.get(document));
        let lengths = lengths.copied().unwrap_or_default();
        let all = count(self.lengths.len());
        let fields = WEIGHTS.iter().zip(counts).zip(lengths).zip(self.sums);
        let weighted = fields.filter(|(((_, count), _), _)| **count > 0).map(|(((weight, count), length), sum)| {
            #[expect(clippy::cast_precision_loss, reason = "it is a number of words")]
            let average = (sum as f64 / all).max(1.0);
            weight * f64::from(*count) / (1.0 - LENGTH + LENGTH * f64::from(length) / average)
        });
        weighted.sum()
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are not that many documents")]
const fn count(number: usize) -> f64 {
    number as f64
}

/// The words of a text, in lower case and in the singular.
fn words_of(text: &str) -> impl Iterator<Item = String> + '_ {
    let parts = text.split(|character: char| !character.is_alphanumeric()).filter(|part| !part.is_empty());
    parts.flat_map(split_at_capitals).map(|word| singular(&word.to_lowercase()))
}

/// Splits `createHTMLPage` into `create`, `HTML` and `Page`.
fn split_at_capitals(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut characters = text.char_indices().peekable();
    let mut before: Option<char> = None;
    while let Some((at, character)) = characters.next() {
        let is_after_small = before.is_some_and(|before| before.is_lowercase() || before.is_numeric());
        let is_last_capital =
            before.is_some_and(char::is_uppercase) && characters.peek().is_some_and(|(_, next)| next.is_lowercase());
        if character.is_uppercase() && (is_after_small || is_last_capital) {
            words.extend(text.get(start..at).filter(|word| !word.is_empty()));
            start = at;
        }
        before = Some(character);
    }
    words.extend(text.get(start..).filter(|word| !word.is_empty()));
    words
}

/// The singular of an English word, by its ending alone.
fn singular(word: &str) -> String {
    let mut end = word.len().min(LONGEST);
    while !word.is_char_boundary(end) {
        end -= 1;
    }
    let word = word.get(..end).unwrap_or_default();
    if word.len() < 4 || ["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        return word.to_owned();
    }
    if let Some(start) = word.strip_suffix("ies") {
        return format!("{start}y");
    }
    for end in ["sses", "shes", "ches", "xes", "zes"] {
        if word.ends_with(end) {
            return word.strip_suffix("es").unwrap_or(word).to_owned();
        }
    }
    word.strip_suffix('s').unwrap_or(word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of documents that have only a name and a description.
    fn index(documents: &[(&str, &str)]) -> Ranking {
        let mut ranking = Ranking::default();
        for (name, description) in documents {
            ranking.add([name, "", "", description, ""]);
        }
        ranking
    }

    #[test]
    fn a_text_is_split_into_words_in_the_singular() {
        for (text, expected) in [
            ("create_issue", &["create", "issue"][..]),
            ("createPullRequests", &["create", "pull", "request"]),
            ("HTMLPage getURL k8s_S3", &["html", "page", "get", "url", "k8s", "s3"]),
            ("queries, boxes; addresses/branches", &["query", "box", "address", "branch"]),
            ("status analysis class bus is as", &["status", "analysis", "class", "bus", "is", "as"]),
            ("\u{dc}bersicht \u{e4}\u{e4}s", &["\u{fc}bersicht", "\u{e4}\u{e4}"]),
            ("__ -- ", &[]),
        ] {
            assert_eq!(words_of(text).collect::<Vec<_>>(), expected, "{text}");
        }
        assert_eq!(words_of(&"\u{e4}".repeat(100)).collect::<Vec<_>>(), ["\u{e4}".repeat(LONGEST / 2)]);
    }

    #[test]
    fn a_word_counts_most_in_the_name_and_least_in_the_arguments() {
        let mut ranking = Ranking::default();
        for field in (0..FIELDS).rev() {
            let mut fields = ["other"; FIELDS];
            fields[field] = "word";
            ranking.add(fields);
        }
        assert_eq!(ranking.find("words"), [4, 3, 2, 1, 0]);
        assert_eq!(ranking.find("nothing"), [0_usize; 0]);
    }

    #[test]
    fn rare_words_count_more_than_frequent_ones_and_short_fields_more_than_long_ones() {
        let ranking = index(&[
            ("list_things", "Lists all things of the account"),
            ("list_issues", "Lists the issues"),
            (
                "search",
                "Finds issues, pull requests, code, users and everything else that the account has, in any order",
            ),
            ("list_users", "Lists the users"),
        ]);
        assert_eq!(ranking.find("list the issues")[0], 1);
        assert_eq!(ranking.find("issues"), [1, 2]);
        assert_eq!(ranking.find("list users")[0], 3);
    }

    #[test]
    fn the_beginning_of_a_word_finds_it_after_the_word_itself() {
        let ranking = index(&[("get_repository", ""), ("get_repo", ""), ("report", ""), ("re", "")]);
        assert_eq!(ranking.find("repo"), [1, 2, 0], "of the others, the shorter name comes first");
        assert_eq!(ranking.find("re"), [3], "two letters are no beginning");
    }

    #[test]
    fn equal_documents_keep_their_order() {
        let documents: Vec<_> = (0..50).map(|_| ("same_name", "same text")).collect();
        assert_eq!(index(&documents).find("same"), (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_read_of_texts_and_queries_is_bounded() {
        let long = (0..10_000).map(|number| format!("w{number} ")).collect::<Vec<_>>().concat();
        let ranking = index(&[(&long, &long), ("w9999", "")]);
        assert_eq!(ranking.words.len(), WORDS + 1);
        assert_eq!(ranking.find(&format!("{}w9999", "w1 w2 ".repeat(1000))), [0, 1], "a repeated word counts once");
        let different = (0..QUERY).map(|number| format!("x{number} ")).collect::<Vec<_>>().concat();
        assert_eq!(ranking.find(&format!("{different}w9999")), [0_usize; 0], "the query has too many words");
        // Each document has a word of its own with the same beginning.
        let documents: Vec<_> = (0..1000).map(|number| (format!("begin{number:04}"), String::new())).collect();
        let documents: Vec<_> = documents.iter().map(|(name, text)| (&**name, &**text)).collect();
        assert_eq!(index(&documents).find("begin").len(), COMPLETIONS);
    }
}
