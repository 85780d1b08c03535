//! URI templates, which servers state, and the URIs that clients read.

use std::collections::BTreeMap;

use mcp_model::{TemplateValue, UriTemplate};

/// Templates in whose URIs no value can contain what ends it, with their variables, and those that need a value.
const CLEAR: [(&str, &[&str], &[&str]); 3] = [
    ("x:/{a}/{b}{?c}", &["a", "b", "c"], &["a", "b"]),
    ("x:{a}{/list*}{;b}{?c}", &["a", "list", "b", "c"], &["a"]),
    ("x:{?a,map*}{&b,c}", &["a", "map", "b", "c"], &[]),
];

/// The input has a template, a URI and values in its lines. Any text is refused as a template, or is written as it was read
/// and matches and expands without an end at a wrong place; and any values are found again in the URI that is made of them.
pub fn uri_template(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let (template, uri) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if let Ok(parsed) = template.parse::<UriTemplate>() {
        assert_eq!(parsed.to_string(), template);
        if let Some(values) = parsed.match_uri(uri) {
            assert!(parsed.can_be_matched());
            assert!(values.keys().all(|name| template.contains(name.as_str())), "{template} {uri} {values:?}");
            assert!(parsed.expand(&values).is_ascii());
        }
        assert!(parsed.expand(&BTreeMap::new()).is_ascii());
    }
    let lines: Vec<_> = lines.map(str::to_owned).collect();
    let [a, b, c, list @ ..] = &lines[..] else { return };
    let map: Vec<_> = list.chunks_exact(2).map(|pair| (format!("n{}", pair[0]), pair[1].clone())).collect();
    let mut values: BTreeMap<_, _> = [("a", a), ("b", b), ("c", c)]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| (name.to_owned(), TemplateValue::from(text.as_str())))
        .collect();
    if !list.is_empty() {
        values.insert("list".to_owned(), TemplateValue::List(list.to_vec()));
    }
    if !map.is_empty() {
        values.insert("map".to_owned(), TemplateValue::Map(map));
    }
    for (template, names, needed) in CLEAR {
        let parsed: UriTemplate = template.parse().expect("a template");
        let own: BTreeMap<_, _> =
            values.clone().into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect();
        if needed.iter().all(|name| own.contains_key(*name)) {
            let uri = parsed.expand(&own);
            assert_eq!(parsed.match_uri(&uri), Some(own), "{template} {uri}");
        }
    }
}
