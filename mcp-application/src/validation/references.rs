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

/// The most schemas that apply to the same part of a value, counted as often as there are ways to them.
const MOST_WAYS: usize = 10_000;

/// Where the references of a schema lead.
pub(super) struct References<'s> {
    root: &'s Value,
    /// The schemas with each `$anchor` or `$dynamicAnchor`.
    anchors: BTreeMap<&'s str, Vec<&'s Value>>,
    anchor_count: usize,
    count: usize,
    /// The references of which it is not known here where they lead.
    unresolved: usize,
    /// `id` is a keyword, as it is in draft 4 and in no later one.
    is_draft_4: bool,
    /// There are schemas with URIs of their own, to which references within them are relative.
    has_resources: bool,
    /// The most schemas that lead from one to the next.
    most: usize,
    /// The schemas that lead to few enough others, by their addresses, and how many they may lead to.
    visited: BTreeSet<(usize, usize)>,
    /// For schemas, by their addresses: how many others apply with them to the same part of a value.
    ways: BTreeMap<usize, usize>,
}

impl<'s> References<'s> {
    /// `None` if the schema cannot be compiled, and applied to values of the usual depth, without a deep recursion and in a short
    /// time.
    pub(super) fn of(schema: &'s Value) -> Option<Self> {
        let dialect = schema.get("$schema").and_then(Value::as_str);
        let mut references = Self {
            root: schema,
            anchors: BTreeMap::new(),
            anchor_count: 0,
            count: 0,
            unresolved: 0,
            is_draft_4: dialect.is_some_and(|dialect| dialect.contains("draft-04")),
            has_resources: false,
            most: 0,
            visited: BTreeSet::new(),
            ways: BTreeMap::new(),
        };
        references.find_anchors(schema);
        if references.anchor_count > MOST || !references.are_few(schema) {
            return None;
        }
        // Each that is not resolved here can lead to another chain.
        references.most = MOST_IN_PLACE / (references.unresolved + 1);
        references.all_are_shallow(schema).then_some(references)
    }

    /// Whether a schema may lead to itself.
    pub(super) fn are_recursive(&self) -> bool {
        if self.unresolved > 0 {
            return true;
        }
        let (mut open, mut visited) = (BTreeSet::new(), BTreeSet::new());
        let mut left = vec![(self.root, false)];
        while let Some((value, is_left)) = left.pop() {
            let address = std::ptr::from_ref(value).addr();
            if is_left {
                open.remove(&address);
            } else if open.contains(&address) {
                return true;
            } else if visited.insert(address) {
                open.insert(address);
                left.push((value, true));
                left.extend(children(value).chain(self.targets_of(value)).map(|next| (next, false)));
            }
        }
        false
    }

    fn find_anchors(&mut self, value: &'s Value) {
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(name)) = value.get(keyword) {
                self.anchors.entry(name).or_default().push(value);
                self.anchor_count += 1;
            }
        }
        let has_uri = |keyword| value.get(keyword).is_some_and(Value::is_string);
        self.has_resources |= !std::ptr::eq(value, self.root) && (has_uri("$id") || (has_uri("id") && self.is_draft_4));
        children(value).for_each(|child| self.find_anchors(child));
    }

    /// Whether there are few references; counts them.
    fn are_few(&mut self, value: &'s Value) -> bool {
        for reference in references(value) {
            self.count += 1;
            self.unresolved += usize::from(self.targets(reference).is_empty());
        }
        self.count <= MOST && children(value).all(|child| self.are_few(child))
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

    fn targets_of(&self, schema: &'s Value) -> impl Iterator<Item = &'s Value> {
        references(schema).flat_map(|reference| self.targets(reference))
    }

    /// The schemas that apply to the same part of a value as this one.
    fn in_place(&self, schema: &'s Value) -> Vec<&'s Value> {
        let mut next: Vec<&'s Value> = self.targets_of(schema).collect();
        for keyword in ["not", "if", "then", "else"] {
            next.extend(schema.get(keyword));
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            next.extend(schema.get(keyword).and_then(Value::as_array).into_iter().flatten());
        }
        for keyword in ["dependentSchemas", "dependencies"] {
            next.extend(schema.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::values));
        }
        next.retain(|schema| schema.is_object());
        next
    }

    /// `value` is a schema, or contains some.
    fn all_are_shallow(&mut self, value: &'s Value) -> bool {
        self.is_shallow(value, self.most, &mut Vec::new())
            && self.ways(value, &mut Vec::new()) <= MOST_WAYS
            && children(value).all(|child| self.all_are_shallow(child))
    }

    /// Whether this schema leads to at most so many others, one after the other. A schema that leads to itself is left to the
    /// library.
    fn is_shallow(&mut self, schema: &'s Value, most: usize, open: &mut Vec<usize>) -> bool {
        let address = std::ptr::from_ref(schema).addr();
        if open.contains(&address) || self.visited.contains(&(address, most)) {
            return true;
        }
        let next = self.in_place(schema);
        if !next.is_empty() && most == 0 {
            return false;
        }
        open.push(address);
        let is_shallow = next.into_iter().all(|schema| self.is_shallow(schema, most - 1, open));
        open.pop();
        self.visited.insert((address, most));
        is_shallow
    }

    /// How many schemas apply to the same part of a value as this one, which is shallow. The library applies those that lead to
    /// themselves once to each part.
    fn ways(&mut self, schema: &'s Value, open: &mut Vec<usize>) -> usize {
        let address = std::ptr::from_ref(schema).addr();
        if open.contains(&address) {
            return 1;
        }
        if let Some(&ways) = self.ways.get(&address) {
            return ways;
        }
        open.push(address);
        let next = self.in_place(schema);
        let ways = next.into_iter().fold(1_usize, |ways, next| ways.saturating_add(self.ways(next, open)));
        open.pop();
        self.ways.insert(address, ways);
        ways
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
        References::of(&serde_json::from_str(schema).unwrap()).is_some()
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
        assert!(shallow(&chain(2, often)));
        assert!(!shallow(&chain(3, often)));
        let twice = |next| format!(r##"{{"allOf":[{{"$ref":"#/$defs/{next}"}},{{"$ref":"#/$defs/{next}"}}]}}"##);
        assert!(shallow(&chain(7, twice)));
    }

    #[test]
    fn many_references_and_anchors_of_one_name_are_refused_in_time() {
        let many = |entry: &str| format!(r#"{{"a":[{}]}}"#, vec![entry; 200_000].join(","));
        assert!(!shallow(&many(r##"{"$anchor":"a","$ref":"#a"}"##)));
        assert!(!shallow(&many(r#"{"$anchor":"a"}"#)));
        let dialect = "x".repeat(1 << 20);
        let ids = vec![r#"{"id":""}"#; 200_000].join(",");
        assert!(shallow(&format!(r#"{{"$schema":"{dialect}","a":[{ids}]}}"#)));
    }

    #[test]
    fn a_schema_that_may_lead_to_itself_is_recursive() {
        for (schema, is_recursive) in [
            (r##"{"$ref":"#"}"##, true),
            (r##"{"properties":{"child":{"$ref":"#"}}}"##, true),
            (r##"{"$defs":{"a":{"items":{"$ref":"#/$defs/b"}},"b":{"not":{"$ref":"#/$defs/a"}}}}"##, true),
            (r##"{"$defs":{"a":{"$anchor":"x","contains":{"$dynamicRef":"#x"}}}}"##, true),
            (r#"{"items":{"$ref":"urn:elsewhere"}}"#, true),
            (
                r##"{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/b"},"b":{}}}"##,
                false,
            ),
            (r#"{"items":{"properties":{"a":{}}}}"#, false),
        ] {
            let value = serde_json::from_str(schema).unwrap();
            assert_eq!(References::of(&value).unwrap().are_recursive(), is_recursive, "{schema}");
        }
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
