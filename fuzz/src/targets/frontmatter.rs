//! The frontmatter of a skill, which a client reads from a server.

use mcp_application::skills::frontmatter as read;
use mcp_proto::Json;
use serde_json::Value;

/// The longest text that YAML accepts as a key without a mark (YAML 1.2.2, section 7.4.2).
const LONGEST_KEY: usize = 1024;

/// Any text is refused, or gives an object that is JSON. Since YAML contains JSON, that object is the frontmatter of a
/// `SKILL.md` again, with the same members in the same order and spelling; and JSON in it has the same meaning for another
/// parser.
pub fn frontmatter(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // Most inputs would have no frontmatter without its delimiters.
    let delimited = format!("---\n{text}\n---\n");
    for text in [&*text, &delimited] {
        let Ok(object) = read(text) else { continue };
        let json = object.as_json().to_text();
        let parsed = Json::parse(json.to_string()).expect("the object is JSON");
        assert!(parsed.is_object(), "{json}");
        match read(&format!("---\n{json}\n---\n")) {
            Ok(again) => assert_eq!(again.as_json().to_text(), json),
            Err(error) => assert!(json.len() > LONGEST_KEY, "{json}: {error}"),
        }
    }
    if let (Ok(object), Ok(expected @ Value::Object(_))) = (read(&delimited), serde_json::from_str(&text)) {
        let found = serde_json::from_slice(object.as_json().as_bytes()).expect("the object is JSON");
        assert!(is_same(&found, &expected), "{found} is not {expected}");
    }
}

/// Whether two values are the same, numbers up to their precision.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| is_same(one, other)))
        }
        _ => one == other,
    }
}
