//! Generated schemas as all clients read them: clients refuse a list of tools, or print warnings, because of schemas that
//! are valid.

use mcp_proto::spec::schema_keyword::Holds;
use serde_json::{Map, Value, json};

/// The formats that `schemars` gives to numbers. No dialect defines them, and validators warn about them.
const OF_NUMBERS: [&str; 14] = [
    "int", "int8", "int16", "int32", "int64", "int128", "uint", "uint8", "uint16", "uint32", "uint64", "uint128",
    "float", "double",
];

/// Makes a schema, and all schemas in it, as all clients read them: a schema is an object and never a boolean, except
/// below `additionalProperties` and its like, and numbers have no format. With `is_input`, a property that is not required has no null among
/// its types, because it can be left out.
pub(super) fn make_portable(schema: &mut Value, is_input: bool) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({ "not": {} }),
        Value::Object(members) => make_members_portable(members, is_input),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
    }
}

fn make_members_portable(members: &mut Map<String, Value>, is_input: bool) {
    let is_of_number = |format: &Value| format.as_str().is_some_and(|format| OF_NUMBERS.contains(&format));
    if members.get("format").is_some_and(is_of_number) {
        members.shift_remove("format");
    }
    for (name, member) in members.iter_mut() {
        match (Holds::of(name), member) {
            (Holds::Properties | Holds::SchemasByName, Value::Object(schemas)) => {
                for (_, schema) in schemas {
                    make_portable(schema, is_input);
                }
            }
            (Holds::Schemas, Value::Array(schemas)) => {
                for schema in schemas {
                    make_portable(schema, is_input);
                }
            }
            (Holds::Schemas, schema) => make_portable(schema, is_input),
            (Holds::SchemaOrBoolean, schema) if !schema.is_boolean() => make_portable(schema, is_input),
            (Holds::Properties | Holds::SchemasByName | Holds::SchemaOrBoolean | Holds::Value, _) => {}
        }
    }
    if is_input {
        without_null_in_optional(members);
    }
}

fn without_null_in_optional(members: &mut Map<String, Value>) {
    let required = members.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|other| other == name));
    let properties = members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    for (name, property) in properties {
        let Some(property) = property.as_object_mut() else { continue };
        // A header has no null (MD-P-03).
        if !is_required(name) || property.contains_key("x-mcp-header") {
            without_null(property);
        }
    }
}

/// The schema of a value without null. If there is only one other alternative, it replaces the alternatives.
fn without_null(members: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = members.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_mut_slice() {
            let only = only.take();
            members.insert("type".to_owned(), only);
        }
        if let Some(Value::Array(values)) = members.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
    }
    for word in ["anyOf", "oneOf"] {
        let Some(Value::Array(alternatives)) = members.get_mut(word) else { continue };
        let before = alternatives.len();
        alternatives.retain(|alternative| alternative.get("type").is_none_or(|kind| kind != "null"));
        if let ([Value::Object(only)], 2) = (alternatives.as_mut_slice(), before) {
            let mut only = std::mem::take(only);
            without_null(&mut only);
            members.shift_remove(word);
            for (name, member) in only {
                // The description of the field precedes that of its type.
                members.entry(name).or_insert(member);
            }
        }
    }
    let is_only_null = members.get("type").is_some_and(|kind| kind == "null");
    if !is_only_null && members.get("default").is_some_and(Value::is_null) {
        members.shift_remove("default");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::router::{output_schema, tool_schema};

    fn properties(schema: &mcp_model::JsonObject) -> String {
        schema.as_json().first_member("properties").unwrap().to_text().into_owned()
    }

    #[test]
    fn a_value_of_any_type_has_an_object_as_its_schema() {
        #[derive(Serialize, Deserialize, JsonSchema)]
        struct Anything {
            value: Value,
            optional: Option<Value>,
            list: Vec<Value>,
            map: BTreeMap<String, Value>,
            pair: (Value, bool),
            nested: Vec<BTreeMap<String, (Value,)>>,
        }
        let expected = [
            r#"{"value":{},"optional":{},"list":{"type":"array","items":{}},"#,
            r#""map":{"type":"object","additionalProperties":true},"#,
            r#""pair":{"type":"array","prefixItems":[{},{"type":"boolean"}],"minItems":2,"maxItems":2},"#,
            r#""nested":{"type":"array","items":{"type":"object","additionalProperties":{"type":"array","#,
            r#""prefixItems":[{}],"minItems":1,"maxItems":1}}}}"#,
        ];
        assert_eq!(properties(&tool_schema::<Anything>()), expected.concat());
        assert_eq!(properties(&output_schema::<Anything>()), expected.concat());
    }

    #[test]
    fn every_boolean_subschema_becomes_an_object_where_a_schema_may_stand_and_nowhere_else() {
        let mut schema = json!({
            "properties": { "a": true, "b": false, "properties": { "default": true, "const": false, "enum": [true] } },
            "patternProperties": { "x": true },
            "$defs": { "d": true },
            "dependentSchemas": { "a": false },
            "items": true,
            "prefixItems": [true, { "items": false }],
            "allOf": [true], "anyOf": [true], "oneOf": [false],
            "not": true, "if": true, "then": true, "else": false,
            "contains": true, "propertyNames": true,
            "additionalProperties": false, "unevaluatedProperties": true, "unevaluatedItems": { "items": true },
            "uniqueItems": true, "readOnly": true, "x-vendor": { "properties": { "a": true } },
        });
        make_portable(&mut schema, false);
        let no = json!({ "not": {} });
        let expected = json!({
            "properties": { "a": {}, "b": no, "properties": { "default": true, "const": false, "enum": [true] } },
            "patternProperties": { "x": {} },
            "$defs": { "d": {} },
            "dependentSchemas": { "a": no },
            "items": {},
            "prefixItems": [{}, { "items": no }],
            "allOf": [{}], "anyOf": [{}], "oneOf": [no],
            "not": {}, "if": {}, "then": {}, "else": no,
            "contains": {}, "propertyNames": {},
            "additionalProperties": false, "unevaluatedProperties": true, "unevaluatedItems": { "items": {} },
            "uniqueItems": true, "readOnly": true, "x-vendor": { "properties": { "a": true } },
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn numbers_have_no_format_and_texts_keep_theirs() {
        #[derive(Serialize, Deserialize, JsonSchema)]
        struct Numbers {
            a: u8,
            b: i128,
            c: usize,
            d: Vec<f32>,
            e: Option<f64>,
            #[schemars(extend("format" = "uri"))]
            f: String,
            signed: (i8, i16, i32, i64, isize),
            unsigned: (u16, u32, u64, u128),
        }
        for schema in [tool_schema::<Numbers>(), output_schema::<Numbers>()] {
            let text = properties(&schema);
            assert_eq!(text.matches("format").count(), 1, "{text}");
            assert!(text.contains(r#""f":{"type":"string","format":"uri"}"#), "{text}");
        }
    }

    #[test]
    fn a_property_has_null_only_where_it_can_be_sent() {
        let alternatives = |word: &str| json!({ word: [{ "type": "null" }, { "type": "string" }] });
        for (property, expected) in [
            (json!({ "type": ["string", "null"] }), json!({ "type": "string" })),
            (json!({ "type": ["string", "integer", "null"] }), json!({ "type": ["string", "integer"] })),
            (json!({ "type": ["string", "null"], "enum": ["a", null] }), json!({ "type": "string", "enum": ["a"] })),
            (json!({ "type": ["string", "null"], "default": null }), json!({ "type": "string" })),
            (json!({ "type": "string", "default": "x" }), json!({ "type": "string", "default": "x" })),
            (json!({ "type": "null", "default": null }), json!({ "type": "null", "default": null })),
            (alternatives("anyOf"), json!({ "type": "string" })),
            (alternatives("oneOf"), json!({ "type": "string" })),
            (
                json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }, { "type": "null" }] }),
                json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
            ),
            (json!({ "anyOf": [{ "type": ["string", "null"] }, { "type": "null" }] }), json!({ "type": "string" })),
            (
                json!({ "description": "own", "oneOf": [{ "type": "string", "description": "x" }, { "type": "null" }] }),
                json!({ "description": "own", "type": "string" }),
            ),
            (json!(7), json!(7)),
        ] {
            let next = json!({ "type": ["string", "null"] });
            let properties = |a: &Value, b: &Value| json!({ "properties": { "a": a, "b": b }, "required": ["c"] });
            let mut schema = properties(&property, &next);
            make_portable(&mut schema, true);
            assert_eq!(schema, properties(&expected, &json!({ "type": "string" })), "{property}");
            // One that is required may be null, unless it is sent in a header.
            let mut schema = properties(&property, &next);
            schema["required"] = json!(["a", "b"]);
            let same = schema.clone();
            make_portable(&mut schema, true);
            assert_eq!(schema, same);
        }
        let header =
            |kind: Value| json!({ "properties": { "a": { "type": kind, "x-mcp-header": "A" } }, "required": ["a"] });
        let mut schema = header(json!(["string", "null"]));
        make_portable(&mut schema, true);
        assert_eq!(schema, header(json!("string")));
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    enum Colour {
        Red,
        Green,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Optional {
        /// How many
        number: Option<u8>,
        #[serde(default)]
        text: Option<String>,
        /// Which one
        colour: Option<Colour>,
        list: Vec<Option<u8>>,
        next: Option<Box<Optional>>,
        nothing: (),
    }

    #[test]
    fn an_optional_argument_has_no_null_and_accepts_it() {
        let schema = tool_schema::<Optional>();
        let expected = [
            r#"{"number":{"type":"integer","minimum":0,"maximum":255,"description":"How many"},"#,
            r#""text":{"type":"string"},"#,
            r#""colour":{"type":"string","enum":["Red","Green"],"description":"Which one"},"#,
            // An element of a list cannot be left out.
            r#""list":{"type":"array","items":{"type":["integer","null"],"minimum":0,"maximum":255}},"#,
            r##""next":{"$ref":"#"},"##,
            r#""nothing":{"type":"null"}}"#,
        ];
        assert_eq!(properties(&schema), expected.concat());
        let required = schema.as_json().first_member("required").unwrap();
        assert_eq!(required.to_text(), r#"["list","nothing"]"#);
        let text = r#"{"number":null,"text":null,"colour":null,"list":[null],"next":null,"nothing":null}"#;
        assert!(serde_json::from_str::<Optional>(text).is_ok());
    }

    #[test]
    fn a_null_that_is_written_is_in_the_schema_of_results() {
        let text = properties(&output_schema::<Optional>());
        assert!(text.contains(r#""number":{"type":["integer","null"]"#), "{text}");
    }
}
