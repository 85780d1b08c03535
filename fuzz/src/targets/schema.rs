//! JSON Schemas, which servers state, and the values that are validated by them.

use mcp_application::validation::CompiledSchema;
use mcp_proto::Json;

/// A text that no error may contain, because it is a value.
const SECRET: &str = "s3cr3t";

/// The first line of the input is a schema, and the others are values. Any schema is refused in words, or any value is
/// validated in the same way each time, and no error contains a value. What is accepted conforms, and is the value itself if that
/// conforms.
pub fn schema(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let Ok(schema) = Json::parse(lines.next().unwrap_or_default().to_vec()) else { return };
    let compiled = match CompiledSchema::new(&schema) {
        Ok(compiled) => compiled,
        Err(refused) => return check_text(&refused.to_string()),
    };
    // A schema may state the text itself, such as a constant, which is no value then.
    let is_stated = schema.to_string().contains(SECRET) || schema.to_string().contains('\\');
    for value in lines.filter_map(|line| Json::parse(line.to_vec()).ok()).chain([secret_values()]) {
        let outcome = compiled.validate(&value);
        assert_eq!(outcome, compiled.validate(&value));
        match compiled.accept(&value) {
            Ok(accepted) => {
                assert!(Json::parse(accepted.to_bytes()).is_ok(), "{accepted}");
                assert_eq!(compiled.validate(&accepted), Ok(()), "{value} as {accepted}");
                assert!(outcome.is_err() || accepted.as_bytes() == value.as_bytes(), "{value} as {accepted}");
            }
            Err(mismatch) => {
                assert!(outcome.is_err(), "{value}: {mismatch}");
                check_text(&mismatch.to_string());
            }
        }
        if let Err(mismatch) = outcome {
            let text = mismatch.to_string();
            check_text(&text);
            assert!(is_stated || !text.contains(SECRET) || is_in_a_name(&value), "{text}");
        }
    }
}

/// Values of several kinds with the secret in them.
fn secret_values() -> Json {
    let secret = Json::from(SECRET);
    let list = Json::array([&secret, &Json::array([&secret])]);
    Json::empty_object().with_members(&[("a", &secret), ("b", &list)])
}

/// Whether the secret is in the name of a member, which errors may contain.
fn is_in_a_name(value: &Json) -> bool {
    let mut members = value.entries();
    members.any(|(name, member)| name.is_some_and(|name| name.contains(SECRET)) || is_in_a_name(&member))
        || value.elements().any(|element| is_in_a_name(&element))
}

/// Errors are a line of limited length without control characters.
fn check_text(text: &str) {
    assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
    assert!(text.chars().count() < 2000, "{text}");
}
