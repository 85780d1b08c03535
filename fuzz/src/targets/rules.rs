//! Rules of what clients may use, and the names and URIs that they are compared with.

use mcp_intermediary::relay::{Filter, Rule};
use mcp_proto::UsageError;
use mcp_proto::server::Principal;
use mcp_proto::spec::Primitive;
use tests::uri_readers::{ALLOWING, DENYING, decoded, is_allowed, is_denied, is_unchanged, resources};

use crate::script::Script;

/// A pattern that matches no other URI, so that its rule checks the form of all.
const NONE: &str = "x-none:";

/// Any rules with any names give what a naive reader of the rules finds, and any URI passes only if no parser of URIs reads it
/// as something that is denied or not allowed.
///
/// The first byte chooses between the URI that the rest is, a pattern and a URI, and rules with a name: texts with their lengths
/// before them, each rule with a byte for its kind.
pub fn rules(data: &[u8]) {
    let mut script = Script(data);
    match script.byte().map(|kind| kind % 3) {
        Some(0) => uri(&String::from_utf8_lossy(script.0)),
        Some(1) => pattern_and_uri(&mut script),
        Some(_) => names(&mut script),
        None => {}
    }
}

/// What parsers of URIs read is compared with fixed rules, of which it is known what they are for.
fn uri(uri: &str) {
    let denying = filter(DENYING.map(|pattern| Rule::deny(Primitive::Resource, pattern)));
    let allowing = filter(ALLOWING.map(|pattern| Rule::allow(Primitive::Resource, pattern)));
    let (passes_denying, passes_allowing) = (allows(&denying, uri), allows(&allowing, uri));
    if !passes_denying && !passes_allowing {
        return;
    }
    assert!(is_unchanged(uri), "{uri:?} is compared, and a parser changes it");
    for resource in resources(uri) {
        assert!(!passes_denying || !is_denied(&resource), "{uri:?} is read as {resource:?}, which is denied");
        assert!(!passes_allowing || is_allowed(&resource), "{uri:?} is read as {resource:?}, which is not allowed");
    }
}

fn pattern_and_uri(script: &mut Script<'_>) {
    let (Some(pattern), Some(uri)) = (text(script), text(script)) else { return };
    let is_canonical = allows(&filter([Rule::deny(Primitive::Resource, NONE)]), &uri) && uri != NONE;
    let is_match = matches(&pattern, &uri);
    let (denying, allowing) =
        match (Rule::deny(Primitive::Resource, &pattern), Rule::allow(Primitive::Resource, &pattern)) {
            (Ok(deny), Ok(allow)) => (filter([Ok(deny)]), filter([Ok(allow)])),
            (Err(UsageError::NotCanonical { reason }), Err(_)) => {
                // A `{` of a pattern may begin an expression of a template; no URI contains one.
                assert!(!is_canonical || !is_match, "{pattern:?} matches {uri:?}, and is refused: {reason}");
                return;
            }
            (Err(_), Err(_)) => return,
            (deny, allow) => panic!("{pattern:?} is a pattern of one kind of rule: {deny:?}, {allow:?}"),
        };
    let (is_denied, is_allowed) = (!allows(&denying, &uri), allows(&allowing, &uri));
    assert!(is_denied || is_canonical, "{uri:?} is not canonical, and passes {pattern:?}");
    assert!(is_canonical || !is_allowed, "{uri:?} is not canonical, and {pattern:?} allows it");
    assert!(!is_allowed || is_match, "{pattern:?} allows {uri:?}");
    assert!(!is_allowed || is_denied, "{pattern:?} allows {uri:?}, and does not deny it");
    let end = uri.find(['?', '#']).unwrap_or(uri.len());
    let mut read = vec![uri.clone(), uri[..end].to_owned()];
    if !pattern.contains('%') && is_simple(&pattern) {
        let once = decoded(&uri);
        let mut repeatedly = once.clone();
        while decoded(&repeatedly) != repeatedly {
            repeatedly = decoded(&repeatedly);
        }
        read.extend([once, repeatedly].into_iter().filter(|read| is_simple(read)));
    }
    for read in read {
        let is_match = matches(&pattern, &read) || matches(&folded(&pattern), &folded(&read));
        assert!(is_denied || !is_match, "{pattern:?} matches {read:?}, and {uri:?} is not denied");
    }
}

/// Whether no server takes some of the slashes of a text for others.
fn is_simple(text: &str) -> bool {
    !text.contains('\\') && !text.split_once("://").map_or(text, |(_, rest)| rest).contains("//")
}

fn names(script: &mut Script<'_>) {
    let Some(name) = text(script) else { return };
    let principals = [None, Some(Principal::new("ada")), Some(Principal::new("eve"))];
    let mut filter = Filter::new();
    // Whether a rule denies, for whom it is, and its pattern.
    let mut naive = Vec::new();
    while let (Some(kind), Some(pattern)) = (script.byte(), text(script)) {
        let denies = kind & 1 == 0;
        let primitive = if kind & 2 == 0 { Primitive::Tool } else { Primitive::Prompt };
        let rule = if denies { Rule::deny(primitive, &pattern) } else { Rule::allow(primitive, &pattern) };
        let Ok(rule) = rule else {
            assert!(pattern.is_empty() || pattern.chars().count() > 1024, "{pattern:?} is refused");
            continue;
        };
        let principal = principals[usize::from(kind >> 2) % 3].clone();
        filter.add(match &principal {
            Some(principal) => rule.for_principal(principal.clone()),
            None => rule,
        });
        if primitive == Primitive::Tool {
            naive.push((denies, principal, pattern));
        }
    }
    for principal in &principals {
        let mine = naive.iter().filter(|(_, own, _)| own.is_none() || own == principal);
        let (denying, allowing): (Vec<_>, Vec<_>) = mine.partition(|(denies, ..)| *denies);
        let is_denied =
            denying.iter().any(|(_, _, pattern)| matches(pattern, &name) || matches(&folded(pattern), &folded(&name)));
        let is_allowed = allowing.is_empty() || allowing.iter().any(|(_, _, pattern)| matches(pattern, &name));
        let allows = filter.allows(Primitive::Tool, &name, principal.as_ref());
        assert_eq!(allows, is_allowed && !is_denied, "{name:?} for {principal:?} with {naive:?}");
    }
}

fn text(script: &mut Script<'_>) -> Option<String> {
    script.text().map(|text| String::from_utf8_lossy(text).into_owned())
}

fn filter(rules: impl IntoIterator<Item = Result<Rule, UsageError>>) -> Filter {
    let mut filter = Filter::new();
    for rule in rules {
        filter.add(rule.expect("a pattern"));
    }
    filter
}

fn allows(filter: &Filter, uri: &str) -> bool {
    filter.allows(Primitive::Resource, uri, None)
}

/// A text without case.
fn folded(text: &str) -> String {
    text.to_lowercase().to_uppercase()
}

/// Whether a pattern matches a text, symbol by symbol: which beginnings of the text do those of the pattern match?
fn matches(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut matched = vec![false; text.len() + 1];
    matched[0] = true;
    for symbol in pattern.chars() {
        if symbol == '*' {
            for end in 1..matched.len() {
                matched[end] |= matched[end - 1];
            }
        } else {
            for end in (1..matched.len()).rev() {
                matched[end] = matched[end - 1] && (symbol == '?' || symbol == text[end - 1]);
            }
            matched[0] = false;
        }
    }
    matched[text.len()]
}
