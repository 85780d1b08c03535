//! JSON Schemas, and values that do not conform to them.

use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use mcp_model::{Payload, RequestedSchema};
use mcp_proto::Json;
use serde_json::Value;

use super::deviations::{Deviations, stated};
use super::nulls;
use super::references::References;

/// A JSON Schema against which values are validated. Clones share it.
///
/// # Example
///
/// ```
/// use mcp_application::validation::CompiledSchema;
/// use mcp_proto::Json;
///
/// let schema = Json::parse(r#"{"properties":{"stops":{"items":{"properties":{"price":{"minimum":0}}}}}}"#)?;
/// let schema = CompiledSchema::new(&schema)?;
/// assert!(schema.validate(&Json::parse(r#"{"stops":[{"price":1}]}"#)?).is_ok());
/// let mismatch = schema.validate(&Json::parse(r#"{"stops":[{"price":1},{"price":-1}]}"#)?).unwrap_err();
/// assert_eq!(mismatch.to_string(), "'stops[1].price': value is less than the minimum of 0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CompiledSchema(Arc<Compiled>);

struct Compiled {
    /// Only its verdict is asked for. It remembers that of a schema that leads to itself for each part of the value: the work is in
    /// proportion to the value. That for its lists of deviations is not.
    validator: Validator,
    deviations: Deviations,
}

/// A schema that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(Box<str>);

/// A value that does not conform to a schema. The text states at most three deviations, each with its path, and no values; it
/// may name members of the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaMismatch(Box<str>);

crate::opaque_debug!(CompiledSchema);

impl SchemaMismatch {
    pub(super) fn no_content() -> Self {
        Self("there is no structured content, although the tool has an outputSchema".into())
    }
}

impl CompiledSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    ///
    /// It is no JSON Schema, refers to another document, has too many references, or a pattern that cannot be matched in linear
    /// time.
    pub fn new(schema: &Json) -> Result<Self, InvalidSchema> {
        Self::compile(schema, false)
    }

    /// Compiles the schema of a form, in which formats such as `email` are asserted.
    ///
    /// # Errors
    ///
    /// As for [`CompiledSchema::new`].
    pub fn of_form(form: &RequestedSchema) -> Result<Self, InvalidSchema> {
        Self::compile(&form.to_json(), true)
    }

    fn compile(schema: &Json, asserts_formats: bool) -> Result<Self, InvalidSchema> {
        let schema: Value = read(schema).map_err(|mismatch| InvalidSchema(mismatch.0))?;
        let references = References::of(&schema)
            .ok_or_else(|| InvalidSchema("it has too many references, or a chain of them that is too long".into()))?;
        let build = |schema: &Value| {
            // Offline whatever features of `jsonschema` other crates have enabled.
            let mut options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
            if asserts_formats {
                options = options.should_validate_formats(true);
            }
            options.build(schema)
        };
        let validator = build(&schema).map_err(|error| InvalidSchema(stated(&error).into()))?;
        let deviations = Deviations::new(&schema, references.are_recursive(), build);
        Ok(Self(Arc::new(Compiled { validator, deviations })))
    }

    /// Validates a value.
    ///
    /// # Errors
    ///
    /// It does not conform to the schema.
    pub fn validate(&self, value: &Json) -> Result<(), SchemaMismatch> {
        let read = read(value)?;
        if self.0.validator.is_valid(&read) {
            return Ok(());
        }
        Err(SchemaMismatch(self.0.deviations.of(&read, value.len()).into()))
    }

    /// Validates what a language model or a user has written, who often write null for an optional member. Returns the value
    /// without the members that are null where the schema accepts none; the rest of its text is unchanged.
    ///
    /// # Errors
    ///
    /// As for [`CompiledSchema::validate`].
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_application::validation::CompiledSchema;
    /// use mcp_proto::Json;
    ///
    /// let schema = Json::parse(r#"{"properties":{"limit":{"type":"integer"}}}"#)?;
    /// let written = Json::parse(r#"{"query":"x","limit":null}"#)?;
    /// let accepted = CompiledSchema::new(&schema)?.accept(&written)?;
    /// assert_eq!(accepted.to_string(), r#"{"query":"x"}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accept(&self, value: &Json) -> Result<Json, SchemaMismatch> {
        let mut accepted = read(value)?;
        let Compiled { validator, deviations } = &*self.0;
        if validator.is_valid(&accepted) {
            return Ok(value.clone());
        }
        let are_left_out = nulls::leave_out(&mut accepted, value.len(), deviations);
        if !are_left_out || !validator.is_valid(&accepted) {
            return Err(SchemaMismatch(deviations.but_for_nulls(&accepted, value.len()).into()));
        }
        let mut text = Vec::with_capacity(value.len());
        write_accepted(value, &accepted, &mut text);
        Ok(Json::from_valid_text(text.into()))
    }
}

/// Two members of one name would be read by one reader as the first, and by another one as the last.
fn read(value: &Json) -> Result<Value, SchemaMismatch> {
    value.check_unique_keys().map_err(|duplicate| SchemaMismatch(duplicate.to_string().into()))?;
    value.read().map_err(|error| SchemaMismatch(format!("it cannot be validated: {error}").into()))
}

/// Writes the text of a value with those of its members that are accepted.
fn write_accepted(value: &Json, accepted: &Value, text: &mut Vec<u8>) {
    match accepted {
        Value::Object(members) => {
            text.push(b'{');
            let kept = value.entries().filter_map(|(name, member)| {
                let name = name?;
                Some((members.get(&name)?, name, member))
            });
            for (number, (accepted, name, member)) in kept.enumerate() {
                if number > 0 {
                    text.push(b',');
                }
                Json::quote_into(text, &name);
                text.push(b':');
                write_accepted(&member, accepted, text);
            }
            text.push(b'}');
        }
        Value::Array(elements) => {
            text.push(b'[');
            for (number, (element, accepted)) in value.elements().zip(elements).enumerate() {
                if number > 0 {
                    text.push(b',');
                }
                write_accepted(&element, accepted, text);
            }
            text.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => text.extend_from_slice(value.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(schema: &str) -> Result<CompiledSchema, InvalidSchema> {
        CompiledSchema::new(&Json::parse(schema.to_owned()).unwrap())
    }

    fn mismatch(schema: &str, value: &str) -> Option<String> {
        let outcome = compiled(schema).unwrap().validate(&Json::parse(value.to_owned()).unwrap());
        outcome.err().map(|mismatch| mismatch.to_string())
    }

    #[test]
    fn an_error_names_the_path_and_no_value() {
        for (schema, value, expected) in [
            (r#"{"type":"object"}"#, "{}", None),
            (r#"{"type":"integer"}"#, "5.0", None),
            (r#"{"type":"object"}"#, "7", Some(r#"value is not of type "object""#)),
            (r#"{"additionalProperties":false}"#, r#"{"a":1}"#, Some("there are members, and none is allowed")),
            (r#"{"properties":{"a":false}}"#, r#"{"a":1}"#, Some("'a': no value is allowed here")),
            (r#"{"required":["a"]}"#, "{}", Some(r#""a" is a required property"#)),
            (
                r#"{"anyOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false,"required":["b"]}"#,
                r#"{"a":1}"#,
                Some(r#""b" is a required property"#),
            ),
            (
                r#"{"anyOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}"#,
                r#"{"b":1}"#,
                Some("value does not conform to the schema"),
            ),
            (
                r##"{"properties":{"a":{"anyOf":[{"type":"null"}]},"b":{"$ref":"#/properties/a/anyOf/0"}}}"##,
                r#"{"b":1}"#,
                Some("value does not conform to the schema"),
            ),
            (
                r#"{"oneOf":[{"type":"integer"},{"minimum":1}]}"#,
                "3",
                Some("value is not valid under exactly one of the schemas listed in the 'oneOf' keyword"),
            ),
            (
                r#"{"properties":{"a":{"items":{"maxLength":3}}}}"#,
                r#"{"a":["abc","secret"]}"#,
                Some("'a[1]': value is longer than 3 characters"),
            ),
            (
                r#"{"items":{"type":"string"}}"#,
                "[1,2,3,4]",
                Some(
                    r#"'[0]': value is not of type "string"; '[1]': value is not of type "string"; '[2]': value is not of type "string""#,
                ),
            ),
        ] {
            assert_eq!(mismatch(schema, value).as_deref(), expected, "{schema} {value}");
        }
        let closed = r#"{"properties":{"a":{}},"additionalProperties":false}"#;
        let long = format!(r#"{{"{}":1}}"#, "n".repeat(100_000));
        let text = mismatch(closed, &long).unwrap();
        assert!(text.chars().count() < 300 && text.contains("nnn"), "{text}");
        let control = mismatch(closed, "{\"\\u001b[31m\\n\":1}").unwrap();
        assert!(!control.contains(['\u{1b}', '\n']), "{control}");
    }

    #[test]
    fn members_that_are_null_are_left_out_where_the_schema_accepts_none() {
        let inner = r#"{"type":"object","properties":{"a":{"type":"integer"},"any":{}},"required":["any"]}"#;
        let schema = format!(
            r#"{{"properties":{{"n":{{"type":"integer"}},"null":{{"type":"null"}},"a/~b":{{"enum":[1]}},"inner":{inner},
                "list":{{"items":{inner}}},"choice":{{"anyOf":[{{"type":"string"}},{{"type":"object","properties":{{"x":{{"type":"string"}}}}}}]}},
                "texts":{{"items":{{"type":"string"}}}},"both":{{"required":["p","q"]}}}},"required":["null"]}}"#
        );
        let schema = compiled(&schema).unwrap();
        for (value, expected) in [
            (r#"{"null":null, "n" : 7}"#, Ok(r#"{"null":null, "n" : 7}"#)),
            (r#"{"n":null,"null":null}"#, Ok(r#"{"null":null}"#)),
            // Text that another reader would change: a large number, an order, an escape.
            (
                r#"{"z":123456789012345678901234567890,"n":null,"null":null,"b\u0061":[{"c":1.50}]}"#,
                Ok(r#"{"z":123456789012345678901234567890,"null":null,"ba":[{"c":1.50}]}"#),
            ),
            (r#"{"null":null,"a/~b":null}"#, Ok(r#"{"null":null}"#)),
            (r#"{"null":null,"inner":{"a":null,"any":null}}"#, Ok(r#"{"null":null,"inner":{"any":null}}"#)),
            (r#"{"null":null,"inner":{"a":null}}"#, Err(r#"'inner': "any" is a required property"#)),
            (
                r#"{"null":null,"list":[{"any":1,"a":null},{"any":null}]}"#,
                Ok(r#"{"null":null,"list":[{"any":1},{"any":null}]}"#),
            ),
            (r#"{"null":null,"choice":null}"#, Ok(r#"{"null":null}"#)),
            (r#"{"null":null,"choice":{"x":null}}"#, Ok(r#"{"null":null,"choice":{}}"#)),
            (r#"{"null":null,"texts":["a",null]}"#, Err(r#"'texts[1]': value is not of type "string""#)),
            (r#"{"null":null,"both":{"p":null}}"#, Err(r#"'both': "q" is a required property"#)),
            (r#"{"n":null}"#, Err(r#""null" is a required property"#)),
            (r#"{"n":null,"null":null,"inner":7}"#, Err(r#"'inner': value is not of type "object""#)),
        ] {
            let accepted = schema.accept(&Json::parse(value.to_owned()).unwrap());
            let accepted = accepted.map(|accepted| accepted.to_string()).map_err(|mismatch| mismatch.to_string());
            assert_eq!(accepted, expected.map(str::to_owned).map_err(str::to_owned), "{value}");
        }
        let rows = |row: &str| Json::parse(format!(r#"{{"null":null,"list":[{}]}}"#, [row; 1000].join(","))).unwrap();
        assert_eq!(schema.accept(&rows(r#"{"any":1,"a":null}"#)), Ok(rows(r#"{"any":1}"#)));
        let root = compiled(r#"{"type":"object"}"#).unwrap();
        assert!(root.accept(&Json::parse("null").unwrap()).is_err());
    }

    #[test]
    fn members_that_are_null_stay_where_a_choice_accepts_them() {
        let patch = r#"{"type":"object","properties":{"email":{"type":["string","null"]},"note":{"type":"string"},
            "any":{},"op":{"const":"set"}},"additionalProperties":false}"#;
        for keyword in ["anyOf", "oneOf"] {
            let schema = format!(r#"{{"properties":{{"patch":{{"{keyword}":[{patch},{{"type":"string"}}]}}}}}}"#);
            let schema = compiled(&schema).unwrap();
            let nulls = r#"{"email":null,"note":null,"any":{"a":null,"b":[null,{"c/~":null}]},"op":null}"#;
            let kept = r#"{"email":null,"any":{"a":null,"b":[null,{"c/~":null}]}}"#;
            for (patch, expected) in [
                (r#"{"email":null}"#, Some(r#"{"email":null}"#)),
                (nulls, Some(kept)),
                (r#"{"email":null,"note":7}"#, None),
                (r#"{"email":null,"note":null,"op":"get"}"#, None),
            ] {
                let accepted = schema.accept(&Json::parse(format!(r#"{{"patch":{patch}}}"#)).unwrap());
                let expected = expected.map(|patch| Json::parse(format!(r#"{{"patch":{patch}}}"#)).unwrap());
                assert_eq!(accepted.ok(), expected, "{keyword} {patch}");
            }
            let many: Vec<_> = (0..200).map(|number| format!(r#""n{number}":null"#)).collect();
            let many = format!(r#"{{"patch":{{"note":null,"any":{{{}}}}}}}"#, many.join(","));
            assert!(schema.accept(&Json::parse(many).unwrap()).is_err(), "too many to try each");
        }
        // Elements that differ in what they accept.
        let pair = compiled(
            r#"{"prefixItems":[{"properties":{"a":{"type":"null"}}},{"properties":{"a":{"type":"integer"}}}]}"#,
        );
        let accepted = pair.unwrap().accept(&Json::parse(r#"[{"a":null},{"a":null}]"#).unwrap());
        assert_eq!(accepted.unwrap().to_string(), r#"[{"a":null},{}]"#);
    }

    /// The library's own lists of what is wrong would take longer than anyone waits, and all memory.
    #[test]
    fn what_is_wrong_in_choices_within_choices_is_found_in_time() {
        let pair = |kind: &str| {
            let e = r##"{"$ref":"#/$defs/e"}"##;
            format!(r#"{{"type":"object","properties":{{{kind}"left":{e},"right":{e}}},"required":["left"]}}"#)
        };
        let and = pair(r#""op":{"const":"and"},"#);
        let or = pair(r#""op":{"const":"or"},"#);
        let plain = pair("");
        for (keyword, branches) in [("oneOf", [&and, &or]), ("anyOf", [&and, &or]), ("anyOf", [&plain, &plain])] {
            let [first, second] = branches;
            let schema = format!(
                r##"{{"properties":{{"filter":{{"$ref":"#/$defs/e"}}}},
                    "$defs":{{"e":{{"{keyword}":[{first},{second},{{"type":"integer"}}]}}}}}}"##
            );
            let schema = compiled(&schema).unwrap();
            for leaf in [r#""x""#, "null"] {
                let deep = (0..100).fold(leaf.to_owned(), |inner, _| format!(r#"{{"op":"and","left":{inner}}}"#));
                let value = Json::parse(format!(r#"{{"filter":{deep}}}"#)).unwrap();
                let number = if keyword == "oneOf" { "exactly one" } else { "any" };
                let expected = format!(
                    "'filter': value is not valid under {number} of the schemas listed in the '{keyword}' keyword"
                );
                assert_eq!(schema.validate(&value).unwrap_err().to_string(), expected);
                assert_eq!(schema.accept(&value).unwrap_err().to_string(), expected);
            }
        }
    }

    #[test]
    fn choices_within_choices_are_found_wherever_a_schema_has_them() {
        let choice = |e: &str| {
            let branch = format!(r#"{{"type":"object","properties":{{"left":{e}}},"required":["left"]}}"#);
            format!(r#"{{"anyOf":[{branch},{branch},{{"type":"integer"}}]}}"#)
        };
        let of_2019 = r#""$schema":"https://json-schema.org/draft/2019-09/schema","#;
        for (at, schema, value) in [
            (
                "/components/schemas/e",
                r##""$ref":"#/components/schemas/e","components":{"schemas":{"e":CHOICE}}"##,
                "DEEP",
            ),
            ("/components/default", r##""$ref":"#/components/default","components":{"default":CHOICE}"##, "DEEP"),
            ("/any/1", r##""$ref":"#/any/1","any":[7,CHOICE]"##, "DEEP"),
            ("/additionalProperties", r#""additionalProperties":CHOICE"#, r#"{"a":DEEP}"#),
            ("/patternProperties/a", r#""patternProperties":{"a":CHOICE}"#, r#"{"a":DEEP}"#),
            ("/items", r#""items":CHOICE"#, "[DEEP]"),
            ("/prefixItems/0", r#""prefixItems":[CHOICE]"#, "[DEEP]"),
            ("/additionalItems", r#"2019"items":[{}],"additionalItems":CHOICE"#, "[1,DEEP]"),
            ("/contains", r#""contains":CHOICE"#, "[DEEP]"),
            ("/allOf/0", r#""allOf":[CHOICE]"#, "DEEP"),
            ("/not/not", r#""not":{"not":CHOICE}"#, "DEEP"),
            ("/then", r#""if":{},"then":CHOICE"#, "DEEP"),
            ("/else", r#""if":false,"else":CHOICE"#, "DEEP"),
            ("/dependentSchemas/left", r#""dependentSchemas":{"left":CHOICE}"#, "DEEP"),
            ("/unevaluatedProperties", r#""unevaluatedProperties":CHOICE"#, r#"{"a":DEEP}"#),
            ("/unevaluatedItems", r#""unevaluatedItems":CHOICE"#, "[DEEP]"),
        ] {
            let choice = choice(&format!(r##"{{"$ref":"#{at}"}}"##));
            let schema = format!("{{{}}}", schema.replace("CHOICE", &choice).replace("2019", of_2019));
            let deep = (0..100).fold(r#""x""#.to_owned(), |inner, _| format!(r#"{{"left":{inner}}}"#));
            let value = Json::parse(value.replace("DEEP", &deep)).unwrap();
            let schema = compiled(&schema).unwrap();
            assert!(schema.validate(&value).is_err() && schema.accept(&value).is_err(), "{at}");
        }
    }

    #[test]
    fn a_schema_that_leads_to_itself_in_two_ways_is_applied_in_time() {
        let node = |n: &str| format!(r#""type":["object","integer","null"],"properties":{{"child":{n}}}"#);
        for (way, expected) in [
            (r#""allOf":[{NODE},{NODE}]"#, None),
            (r##""allOf":[{"$ref":"#/$defs/b"},{NODE}]"##, Some("'tree': value does not conform to the schema")),
            (r##""$ref":"#/$defs/b",NODE"##, None),
            (r#"NODE,"patternProperties":{"^c":N}"#, None),
            (r#""type":["object","integer","null"],"patternProperties":{"^c":N,"d$":N}"#, None),
            (r#"NODE,"if":{},"then":{NODE}"#, None),
            (r#"NODE,"if":false,"else":{NODE}"#, None),
            (r#"NODE,"dependentSchemas":{"child":{NODE}}"#, None),
            (r#"NODE,"dependencies":{"child":{NODE}}"#, None),
            // In one way, the deviation is found where it is.
            ("NODE", Some(r#"'tree.child.child.child': value is not of types "null", "integer", "object""#)),
        ] {
            let n = r##"{"$ref":"#/$defs/n"}"##;
            let way = way.replace("NODE", &node(n)).replace(":N", &format!(":{n}"));
            let schema = format!(
                r#"{{"properties":{{"tree":{n},"z":{{"type":"integer"}}}},"$defs":{{"b":{{{}}},"n":{{{way}}}}}}}"#,
                node(n)
            );
            let schema = compiled(&schema).unwrap();
            let value = |depth: usize, leaf: &str, z: &str| {
                let tree = (0..depth).fold(leaf.to_owned(), |inner, _| format!(r#"{{"child":{inner}}}"#));
                Json::parse(format!(r#"{{"tree":{tree},"z":{z}}}"#)).unwrap()
            };
            assert!(schema.validate(&value(60, "1", "1")).is_ok(), "{way}");
            for z in [r#""x""#, "null"] {
                let value = value(60, "1", z);
                let text = schema.validate(&value).unwrap_err().to_string();
                assert_eq!(text, r#"'z': value is not of type "integer""#, "{way}");
                assert_eq!(schema.accept(&value).is_ok(), z == "null", "{way}");
            }
            let wrong = value(3, r#""x""#, "1");
            let text = schema.validate(&wrong).unwrap_err().to_string();
            assert!(text.starts_with("'tree"), "{way} {text}");
            assert_eq!(schema.accept(&wrong).unwrap_err().to_string(), text, "{way}");
            if let Some(expected) = expected {
                assert_eq!(text, expected);
            }
            assert!(schema.accept(&value(60, "null", "1")).is_ok(), "{way}");
        }
    }

    #[test]
    fn members_that_are_null_are_left_out_of_what_leads_to_itself_in_two_ways() {
        let n = r##"{"$ref":"#/$defs/n"}"##;
        let schema = format!(
            r##"{{"properties":{{"tree":{n}}},"$defs":{{"b":{{"properties":{{"child":{n}}}}},
                "n":{{"allOf":[{{"$ref":"#/$defs/b"}},{{"type":"object","properties":{{"child":{n},"a":{{"type":"integer"}}}}}}]}}}}}}"##
        );
        let accepted = compiled(&schema).unwrap();
        let accepted = accepted.accept(&Json::parse(r#"{"tree":{"child":{"a":null,"b":null},"a":null}}"#).unwrap());
        assert_eq!(accepted.unwrap().to_string(), r#"{"tree":{"child":{"b":null}}}"#);
    }

    /// On the stack of a thread of the tests, which is that of threads of the standard library.
    #[test]
    fn the_deepest_value_with_the_longest_chain_of_references_fits_on_a_stack() {
        let link = |next: usize| match next % 3 {
            0 => format!(r##"{{"anyOf":[{{"type":"null"}},{{"$ref":"#/$defs/{next}"}}]}}"##),
            1 => format!(r##"{{"allOf":[{{"$ref":"#/$defs/{next}"}}]}}"##),
            _ => format!(r##"{{"oneOf":[{{"$ref":"#/$defs/{next}"}}]}}"##),
        };
        let mut length = 0;
        let schema = |length: usize| {
            let links: Vec<_> = (0..length).map(|number| format!(r#""{number}":{}"#, link(number + 1))).collect();
            let last = r##"{"additionalProperties":{"$ref":"#/$defs/0"},"items":{"$ref":"#/$defs/0"},"type":["array","object","null"]}"##;
            compiled(&format!(r##"{{"$ref":"#/$defs/0","$defs":{{{},"{length}":{last}}}}}"##, links.join(",")))
        };
        while schema(length + 1).is_ok() {
            length += 1;
        }
        assert!(length > 5, "{length}");
        let schema = schema(length).unwrap();
        for leaf in ["7", "null"] {
            for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
                let deep = format!("{}{leaf}{}", open.repeat(120), close.repeat(120));
                let value = Json::parse(deep).unwrap();
                assert_eq!(schema.validate(&value).is_ok(), leaf == "null", "{length}");
                assert_eq!(schema.accept(&value).is_ok(), leaf == "null", "{length}");
            }
        }
    }

    #[test]
    fn one_deviation_is_stated_if_there_can_be_many() {
        let required = |kind: &str| {
            let names: Vec<_> = (0..100).map(|number| format!(r#""{kind}{number}""#)).collect();
            format!(r#"{{"required":[{}]}}"#, names.join(","))
        };
        let schema = compiled(&format!(r#"{{"items":{{"allOf":[{},{}]}}}}"#, required("a"), required("b"))).unwrap();
        for (rows, stated) in [(1, 3), (60, 1), (1000, 1)] {
            let value = format!("[{}]", vec!["{}"; rows].join(","));
            let text = schema.validate(&Json::parse(value).unwrap()).unwrap_err().to_string();
            assert_eq!(text.matches("is a required property").count(), stated, "{text}");
        }
    }

    #[test]
    fn of_a_long_value_one_deviation_is_stated() {
        let schema = compiled(r#"{"additionalProperties":{"items":{"type":"string"}}}"#).unwrap();
        let value = format!(r#"{{"{}":[{}1]}}"#, "k".repeat(1 << 20), "1,".repeat(1 << 19));
        let text = schema.validate(&Json::parse(value).unwrap()).unwrap_err().to_string();
        assert_eq!(text.matches("value is not of type").count(), 1, "{text}");
    }

    #[test]
    fn two_members_of_one_name_are_refused() {
        let schema = compiled(r#"{"properties":{"path":{"pattern":"^[a-z]+$"}}}"#).unwrap();
        for value in [r#"{"path":"../x","path":"ok"}"#, r#"{"a":[{"b":1,"\u0062":null}],"path":null}"#] {
            let value = Json::parse(value).unwrap();
            assert_eq!(schema.validate(&value).unwrap_err().to_string(), "an object has two members of one name");
            assert!(schema.accept(&value).is_err());
        }
    }

    #[test]
    fn a_number_that_cannot_be_read_is_named() {
        assert!(mismatch("{}", r#"{"n":1e400}"#).unwrap().contains("number out of range"));
    }

    #[test]
    fn a_schema_cannot_fetch_or_backtrack_and_may_refer_to_itself() {
        for invalid in [
            r#"{"type":"nothing"}"#,
            r#"{"$ref":"http://127.0.0.1:9/schema.json"}"#,
            r#"{"$ref":"file:///etc/passwd"}"#,
            r##"{"$ref":"#/$defs/none"}"##,
            r#"{"pattern":"(?=a)b"}"#,
            r#"{"pattern":"(a)\\1"}"#,
        ] {
            let error = compiled(invalid).unwrap_err().to_string();
            assert!(!error.is_empty() && error.chars().count() < 500, "{error}");
        }
        let tree = r##"{"type":"object","properties":{"child":{"$ref":"#"}},"additionalProperties":false}"##;
        assert_eq!(mismatch(tree, r#"{"child":{"child":{}}}"#), None);
        assert!(mismatch(tree, r#"{"child":{"child":{"other":1}}}"#).unwrap().starts_with("'child.child': "));
        // A value that only refers to itself conforms to everything.
        for cycle in
            [r##"{"$ref":"#"}"##, r##"{"allOf":[{"$ref":"#"}]}"##, r##"{"anyOf":[{"$ref":"#"},{"type":"string"}]}"##]
        {
            let _ = mismatch(cycle, "7");
        }
    }

    #[test]
    fn a_value_that_is_nested_deeply_is_refused_without_a_panic() {
        let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
        assert_eq!(mismatch("{}", &deep), None);
        if let Ok(value) = Json::parse(format!("{}{}", "[".repeat(10_000), "]".repeat(10_000))) {
            assert!(mismatch("{}", &value.to_string()).unwrap().contains("recursion limit"));
        }
    }

    #[test]
    fn formats_are_asserted_in_forms_only() {
        let form = RequestedSchema::form().with("mail", mcp_model::StringSchema::new().format("email"));
        let wrong = Json::parse(r#"{"mail":"no address"}"#).unwrap();
        assert!(CompiledSchema::of_form(&form).unwrap().validate(&wrong).is_err());
        assert!(CompiledSchema::new(&form.to_json()).unwrap().validate(&wrong).is_ok());
    }
}
