//! How deeply the references of a schema lead to others. The library follows them by recursion, when it compiles a schema and for
//! each level of a value.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The keywords of references.
pub(super) const KEYWORDS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The most references of a schema.
const MOST: usize = 1000;

/// The most schemas, one leading to the next one, that apply to the same part of a value.
const MOST_IN_PLACE: usize = 16;

/// Whether a schema can be compiled, and applied to values of the usual depth, without a deep recursion.
pub(super) fn are_shallow(schema: &Value) -> bool {
    let mut references = References {
        root: schema,
        anchors: BTreeMap::new(),
        count: 0,
        unresolved: 0,
        has_resources: false,
        most: 0,
        visited: BTreeSet::new(),
    };
    references.find_anchors(schema);
    references.count_in(schema);
    // Each that is not resolved here can lead to another chain.
    references.most = MOST_IN_PLACE / (references.unresolved + 1);
    references.count <= MOST && references.all_are_shallow(schema)
}

struct References<'s> {
    root: &'s Value,
    /// The schemas with each `$anchor` or `$dynamicAnchor`.
    anchors: BTreeMap<&'s str, Vec<&'s Value>>,
    count: usize,
    /// The references of which it is not known here where they lead.
    unresolved: usize,
    /// There are schemas with URIs of their own, to which references within them are relative.
    has_resources: bool,
    /// The most schemas that lead from one to the next.
    most: usize,
    /// The schemas that lead to few enough others, by their addresses, and how many they may lead to.
    visited: BTreeSet<(usize, usize)>,
}

impl<'s> References<'s> {
    fn find_anchors(&mut self, value: &'s Value) {
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(name)) = value.get(keyword) {
                self.anchors.entry(name).or_default().push(value);
            }
        }
        // `id` is the keyword of draft 4, and of no later one.
        let has_uri = |keyword| value.get(keyword).is_some_and(Value::is_string);
        self.has_resources |=
            !std::ptr::eq(value, self.root) && (has_uri("$id") || (has_uri("id") && self.is_draft_4()));
        children(value).for_each(|child| self.find_anchors(child));
    }

    fn is_draft_4(&self) -> bool {
        self.root.get("$schema").and_then(Value::as_str).is_some_and(|dialect| dialect.contains("draft-04"))
    }

    fn count_in(&mut self, value: &'s Value) {
        for reference in references(value) {
            self.count += 1;
            self.unresolved += usize::from(self.targets(reference).is_empty());
        }
        children(value).for_each(|child| self.count_in(child));
    }

    /// Where a reference may lead; nowhere if that is not known.
    fn targets(&self, reference: &str) -> Vec<&'s Value> {
        let fragment = reference.strip_prefix('#').filter(|_| !self.has_resources);
        let fragment = fragment.and_then(|fragment| percent_decode_str(fragment).decode_utf8().ok());
        let Some(fragment) = fragment else { return Vec::new() };
        match self.anchors.get(&*fragment) {
            Some(targets) => targets.clone(),
            None => self.root.pointer(&fragment).into_iter().collect(),
        }
    }

    /// `value` is a schema, or contains some.
    fn all_are_shallow(&mut self, value: &'s Value) -> bool {
        self.is_shallow(value, self.most, &mut Vec::new()) && children(value).all(|child| self.all_are_shallow(child))
    }

    /// Whether this schema leads to at most so many others, one after the other. A schema that leads to itself is left to the
    /// library.
    fn is_shallow(&mut self, schema: &'s Value, most: usize, open: &mut Vec<usize>) -> bool {
        let address = std::ptr::from_ref(schema).addr();
        if open.contains(&address) || self.visited.contains(&(address, most)) {
            return true;
        }
        let mut next: Vec<&'s Value> = references(schema).flat_map(|reference| self.targets(reference)).collect();
        for keyword in ["not", "if", "then", "else"] {
            next.extend(schema.get(keyword));
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            next.extend(schema.get(keyword).and_then(Value::as_array).into_iter().flatten());
        }
        for keyword in ["dependentSchemas", "dependencies"] {
            next.extend(schema.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::values));
        }
        let mut next = next.into_iter().filter(|schema| schema.is_object()).peekable();
        if next.peek().is_some() && most == 0 {
            return false;
        }
        open.push(address);
        let is_shallow = next.all(|schema| self.is_shallow(schema, most - 1, open));
        open.pop();
        self.visited.insert((address, most));
        is_shallow
    }
}

fn references(schema: &Value) -> impl Iterator<Item = &str> {
    KEYWORDS.into_iter().filter_map(|keyword| schema.get(keyword)?.as_str())
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let (members, elements) = (value.as_object(), value.as_array());
    members.into_iter().flat_map(Map::values).chain(elements.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shallow(schema: &str) -> bool {
        are_shallow(&serde_json::from_str(schema).unwrap())
    }

    /// A schema whose first definition leads to the second one, and so on.
    fn chain(length: usize, link: impl Fn(usize) -> String) -> String {
        let links: Vec<_> = (0..length).map(|number| format!(r#""{number}":{}"#, link(number + 1))).collect();
        format!(r##"{{"$ref":"#/$defs/0","$defs":{{{},"{length}":{{}}}}}}"##, links.join(","))
    }

    #[test]
    fn long_chains_of_references_are_found_whatever_they_lead_through() {
        let links: [&dyn Fn(usize) -> String; 5] = [
            &|next| format!(r##"{{"$ref":"#/$defs/{next}"}}"##),
            &|next| format!(r##"{{"anyOf":[{{"type":"null"}},{{"$ref":"#/$defs/{next}"}}]}}"##),
            &|next| format!(r##"{{"not":{{"$ref":"#/$defs/{next}"}}}}"##),
            &|next| format!(r##"{{"if":{{}},"then":{{"$ref":"#/$defs/{next}"}}}}"##),
            &|next| format!(r##"{{"dependentSchemas":{{"a":{{"$ref":"#/$defs/{next}"}}}}}}"##),
        ];
        for (number, link) in links.into_iter().enumerate() {
            assert!(shallow(&chain(7, link)), "{number}");
            assert!(!shallow(&chain(40, link)), "{number}");
        }
        // Each applies to another part of the value.
        let nested = |next| format!(r##"{{"properties":{{"a":{{"$ref":"#/$defs/{next}"}}}}}}"##);
        assert!(shallow(&chain(900, nested)));
        assert!(!shallow(&chain(1100, nested)));
        // Many ways through few schemas.
        let often = |next| {
            let next = format!(r##"{{"$ref":"#/$defs/{next}"}}"##);
            format!(r#"{{"allOf":[{}]}}"#, [next.as_str(); 30].join(","))
        };
        assert!(shallow(&chain(7, often)));
    }

    #[test]
    fn references_are_followed_in_each_form_and_few_may_lead_elsewhere() {
        let named = |length: usize, link: &dyn Fn(usize) -> String| {
            let links: Vec<_> = (0..length).map(link).collect();
            format!(r#"{{"$defs":{{"links":[{}]}}}}"#, links.join(","))
        };
        let anchored: [&dyn Fn(usize) -> String; 4] = [
            &|number| format!(r##"{{"$anchor":"a{number}","$ref":"#a{}"}}"##, number + 1),
            &|number| format!(r##"{{"$dynamicAnchor":"a{number}","$dynamicRef":"#a{}"}}"##, number + 1),
            &|number| format!(r##"{{"$ref":"#/%24defs/lin%6bs/{}"}}"##, number + 1),
            &|number| format!(r##"{{"$recursiveRef":"#/$defs/links/{}"}}"##, number + 1),
        ];
        for (number, link) in anchored.into_iter().enumerate() {
            assert!(shallow(&named(7, link)), "{number}");
            assert!(!shallow(&named(40, link)), "{number}");
        }
        // Names that are often percent-encoded, many times.
        let list = r##"{"$ref":"#/$defs/List%3Cstring%3E"}"##;
        let many = [list; 100].join(",");
        assert!(shallow(&format!(r#"{{"prefixItems":[{many}],"$defs":{{"List<string>":{{}}}}}}"#)));
        // Where these lead is not known.
        let elsewhere = |count: usize| named(count, &|number| format!(r#"{{"$ref":"urn:a:{number}"}}"#));
        let behind = |count: usize, chain: usize| {
            let chain = (0..chain).fold("{}".to_owned(), |inner, _| format!(r#"{{"not":{inner}}}"#));
            format!(r#"{{"a":{},"b":{chain}}}"#, elsewhere(count))
        };
        for (count, chain, is_shallow) in [(1, 8, true), (1, 9, false), (3, 4, true), (3, 5, false), (16, 1, false)] {
            assert_eq!(shallow(&behind(count, chain)), is_shallow, "{count} {chain}");
        }
        // A reference within a schema with a URI of its own is relative to it.
        let resource = |keyword: &str, dialect: &str| {
            let chain = (0..9).fold("{}".to_owned(), |inner, _| format!(r#"{{"not":{inner}}}"#));
            let inner = format!(r##"{{"{keyword}":"urn:a","$ref":"#/$defs/b","$defs":{{"b":{chain}}}}}"##);
            format!(r#"{{"$schema":"{dialect}","$defs":{{"b":{{}},"a":{inner}}}}}"#)
        };
        assert!(!shallow(&resource("$id", "https://json-schema.org/draft/2020-12/schema")));
        assert!(shallow(&resource("id", "https://json-schema.org/draft/2020-12/schema")));
        assert!(!shallow(&resource("id", "http://json-schema.org/draft-04/schema#")));
    }

    #[test]
    fn schemas_that_refer_to_themselves_are_shallow() {
        for schema in [
            r##"{"$ref":"#"}"##,
            r##"{"allOf":[{"$ref":"#"}]}"##,
            r##"{"properties":{"child":{"$ref":"#"}}}"##,
            r##"{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}"##,
        ] {
            assert!(shallow(schema), "{schema}");
        }
    }
}
