//! The YAML at the beginning of a `SKILL.md`, as JSON.

use mcp_model::{JsonObject, Number, Payload};
use mcp_proto::Json;

use super::error::InvalidFrontmatter;
use super::yaml;

/// The most bytes of YAML.
const LONGEST: usize = 64 << 10;

/// The frontmatter of a `SKILL.md`: the YAML between its first line `---` and the next, as a JSON object.
///
/// The types of values are those of the core schema of YAML 1.2. Anchors, aliases, tags and keys that are no scalars are
/// refused.
///
/// # Errors
///
/// There is no such YAML, or it cannot be written as JSON.
///
/// # Example
///
/// ```
/// use mcp_application::skills::frontmatter;
///
/// let text = "---\nname: git-workflow\nmetadata:\n  version: 1.5\n---\nCommit often.\n";
/// let object = frontmatter(text)?;
/// assert_eq!(object.as_json().as_bytes(), br#"{"name":"git-workflow","metadata":{"version":1.5}}"#);
/// # Ok::<(), mcp_application::skills::InvalidFrontmatter>(())
/// ```
pub fn frontmatter(skill_md: &str) -> Result<JsonObject, InvalidFrontmatter> {
    let text = skill_md.strip_prefix('\u{feff}').unwrap_or(skill_md);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| matches!(*line, "---\n" | "---\r\n")).ok_or(InvalidFrontmatter::Missing)?;
    let mut length = 0;
    for line in lines {
        if line.strip_prefix("---").is_some_and(|rest| rest.trim_matches([' ', '\t', '\r', '\n']).is_empty()) {
            let yaml = text.get(first.len()..).and_then(|rest| rest.get(..length)).unwrap_or_default();
            return yaml::to_object(yaml);
        }
        length += line.len();
        if length > LONGEST {
            return Err(InvalidFrontmatter::TooLong { limit: LONGEST });
        }
    }
    Err(InvalidFrontmatter::Missing)
}

/// Whether two JSON texts have the same content: the order of members and the spelling of numbers do not matter. An object
/// that has two members with one name equals nothing.
pub(super) fn is_same_content(one: &Json, other: &Json) -> bool {
    if one.is_object() && other.is_object() {
        let members = |object: &Json| {
            let mut members: Vec<_> = object.entries().filter_map(|(name, value)| Some((name?, value))).collect();
            members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            members
        };
        let (one, other) = (members(one), members(other));
        let is_twice = one.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b));
        return !is_twice
            && one.len() == other.len()
            && one.iter().zip(&other).all(|((a, one), (b, other))| a == b && is_same_content(one, other));
    }
    if let (Some(one), Some(other)) = (one.as_string(), other.as_string()) {
        return one == other;
    }
    if one.as_bytes().starts_with(b"[") && other.as_bytes().starts_with(b"[") {
        return one.elements().count() == other.elements().count()
            && one.elements().zip(other.elements()).all(|(one, other)| is_same_content(&one, &other));
    }
    match (Number::from_json(one), Number::from_json(other)) {
        (Ok(one), Ok(other)) => is_same_number(&one, &other),
        _ => one == other,
    }
}

fn is_same_number(one: &Number, other: &Number) -> bool {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other || one.as_f64().total_cmp(&other.as_f64()).is_eq(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontmatter_is_between_the_first_two_lines_of_hyphens() {
        let json = |text: &str| frontmatter(text).map(|object| object.as_json().to_text().into_owned());
        for text in [
            "---\nname: a\n---\n",
            "---\r\nname: a\r\n---\r\nbody",
            "\u{feff}---\nname: a\n--- \t\nbody\n---\nmore",
            "---\nname: a\n---",
        ] {
            assert_eq!(json(text).as_deref(), Ok(r#"{"name":"a"}"#), "{text:?}");
        }
        for text in [
            "",
            "---",
            "name: a",
            " ---\nname: a\n---\n",
            "---\nname: a\n",
            "---\nname: a\n----\n",
            "----\na: 1\n---\n",
        ] {
            assert_eq!(json(text), Err(InvalidFrontmatter::Missing), "{text:?}");
        }
        assert_eq!(json("---\n---\n"), Err(InvalidFrontmatter::NoMapping));
        let long = format!("---\na: {}\n---\n", "x".repeat(LONGEST));
        assert_eq!(json(&long), Err(InvalidFrontmatter::TooLong { limit: LONGEST }));
    }

    #[test]
    fn content_is_the_same_whatever_its_order_and_spelling() {
        let json = |text: &str| Json::parse(text.to_owned()).unwrap();
        for (one, other, expected) in [
            (r#"{"a":1,"b":[true,null]}"#, r#"{ "b": [true, null], "a": 1.0 }"#, true),
            (r#""\u0041""#, r#""A""#, true),
            ("10", "1e1", true),
            ("9007199254740993", "9007199254740992", false),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, false),
            (r#"{"a":1}"#, r#"{"b":1}"#, false),
            (r#"{"a":1,"a":1}"#, r#"{"a":1,"a":1}"#, false),
            ("[1,2]", "[2,1]", false),
            ("[1]", "[1,2]", false),
            (r#""1""#, "1", false),
            ("true", "false", false),
            ("null", "{}", false),
            ("[]", "{}", false),
        ] {
            assert_eq!(is_same_content(&json(one), &json(other)), expected, "{one} {other}");
            assert_eq!(is_same_content(&json(other), &json(one)), expected, "{other} {one}");
        }
    }
}
