//! The frontmatter of skills: YAML of servers, which may be anything.

use mcp_application::skills::{InvalidFrontmatter, frontmatter};
use proptest::prelude::*;
use serde_json::{Map, Value};

fn json() -> impl Strategy<Value = Value> {
    let text = "[ -~\\n\\t\u{7f}-\u{a0}\u{2028}äß😀]{0,12}";
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 5, move |inner| {
        let members = proptest::collection::btree_map(text, inner.clone(), 0..5);
        prop_oneof![
            proptest::collection::vec(inner, 0..5).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// JSON is YAML, so it is its own oracle.
    #[test]
    fn json_between_lines_of_hyphens_is_read_as_it_is(member in json(), name in "[a-z]{1,9}") {
        let expected = Value::Object(Map::from_iter([(name, member)]));
        let object = frontmatter(&format!("---\n{expected}\n---\nbody")).expect("frontmatter");
        prop_assert_eq!(object.read::<Value>().expect("JSON"), expected);
    }

    #[test]
    fn no_text_causes_a_panic_or_an_invalid_result(yaml in "([-?:,\\[\\]{}#&*!|>'\"%@` \\n\\tab01~.<]|\n  |\n- |: |\\? |--- |<<: |!!str |&a |\\*a |\\\\x|\u{85}|\u{feff}){0,40}") {
        if let Ok(object) = frontmatter(&format!("---\n{yaml}\n---\n")) {
            prop_assert!(object.read::<Value>().expect("JSON").is_object());
        }
    }
}

/// Each text is as long as frontmatter may be, and repeats one construct.
#[test]
fn the_longest_frontmatter_is_read_or_refused_without_recursion() {
    for repeated in
        ["[", "{", "[{", "{a: ", "- ", "? ", "a: \n", "- a\n", "'", "\"\\n", "|\n", "# \n", "!a ", "&a ", "a,", "\t"]
    {
        let yaml = repeated.repeat((64 << 10) / repeated.len() - 8);
        let read = frontmatter(&format!("---\na: {yaml}\n---\n"));
        assert!(!matches!(read, Err(InvalidFrontmatter::Missing | InvalidFrontmatter::TooLong { .. })), "{repeated:?}");
    }
    let members = |count: u32| (0..count).map(|number| format!("a{number}: b")).collect::<Vec<_>>().join("\n");
    assert!(frontmatter(&format!("---\n{}\n---\n", members(5000))).is_ok());
    let too_long = frontmatter(&format!("---\n{}\n---\n", members(8000)));
    assert!(matches!(too_long, Err(InvalidFrontmatter::TooLong { .. })), "{too_long:?}");
}
