//! JSON schemas and forms of Rust types, by the crate `schemars`. Schemas are made when a server is built, and are of
//! the dialect 2020-12, which is the default since 2025-11-25.
//!
//! | file | what it does |
//! |---|---|
//! | `portable` | a generated schema as all clients read it |
//! | `form` | the form with which a person enters a value of a type |

mod form;
mod portable;

use std::borrow::Cow;

use mcp_model::{CallToolRequest, JsonObject, PromptArgument, Tool};
use mcp_proto::Json;
use portable::make_portable;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::IntoAnswer;

pub use form::form_of;

/// The arguments of a tool or a prompt that has none.
///
/// # Example
///
/// ```
/// use mcp_application::router::{tool_schema, NoArguments};
///
/// let schema = tool_schema::<NoArguments>().read::<serde_json::Value>()?;
/// assert_eq!(schema, serde_json::json!({ "type": "object", "additionalProperties": false }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct NoArguments {}

impl JsonSchema for NoArguments {
    fn schema_name() -> Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let members = [("type".to_owned(), json!("object")), ("additionalProperties".to_owned(), json!(false))];
        Map::from_iter(members).into()
    }
}

/// The schema of the arguments of a tool, without references to other parts of it where that is possible, because some
/// clients do not follow them.
///
/// # Example
///
/// ```
/// use mcp_application::router::tool_schema;
///
/// #[derive(schemars::JsonSchema)]
/// struct Add {
///     /// The first number.
///     a: i32,
/// }
///
/// let schema = tool_schema::<Add>().read::<serde_json::Value>()?;
/// assert_eq!(schema["properties"]["a"]["description"], "The first number.");
/// assert_eq!(schema["required"], serde_json::json!(["a"]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn tool_schema<A: JsonSchema>() -> JsonObject {
    to_object(&input_schema::<A>())
}

/// A tool whose schemas are those of the arguments `A` and of the result `O` of its function. `describe` sets its other
/// properties.
pub fn tool_of<A: JsonSchema, O: IntoAnswer<CallToolRequest>>(name: &str, describe: impl FnOnce(Tool) -> Tool) -> Tool {
    let mut tool = Tool::new(name, tool_schema::<A>());
    tool.output_schema = O::output_schema();
    describe(tool)
}

/// The schema of the structured content of a tool's result.
#[must_use]
pub fn output_schema<T: JsonSchema>() -> JsonObject {
    let mut schema = schema_of::<T>(settings().for_serialize());
    make_portable(&mut schema, false);
    to_object(&schema)
}

/// The arguments of a prompt, as its list shows them: the fields of `A`.
///
/// # Errors
///
/// The name of a field that has not the form of text, as all arguments of prompts have.
pub fn prompt_arguments<A: JsonSchema>() -> Result<Vec<PromptArgument>, Box<str>> {
    let schema = input_schema::<A>();
    let required = required_names(&schema);
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let argument = |(name, field): (&String, &Value)| {
        // A schema without a type, such as that of an enum, does not exclude texts.
        if field.get("type").is_some_and(|kind| kind != "string") {
            return Err(name.as_str().into());
        }
        let mut argument = PromptArgument::new(name.as_str());
        argument.description = field.get("description").and_then(Value::as_str).map(str::to_owned);
        argument.required = required.contains(&name.as_str()).then_some(true);
        Ok(argument)
    };
    fields.map(argument).collect()
}

/// The schema of what a client sends.
fn input_schema<T: JsonSchema>() -> Value {
    let mut schema = schema_of::<T>(settings().for_deserialize());
    make_portable(&mut schema, true);
    schema
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    })
}

fn schema_of<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let Some(members) = schema.as_object_mut() else { return schema };
    // The name of the Rust type means nothing to a client.
    members.shift_remove("title");
    // Each variant of an enum is an object, and so is the enum.
    let variants = members.get("oneOf").or_else(|| members.get("anyOf")).and_then(Value::as_array);
    let are_objects = variants.is_some_and(|variants| variants.iter().all(|variant| variant["type"] == "object"));
    if are_objects && !members.contains_key("type") {
        members.insert("type".to_owned(), json!("object"));
    }
    schema
}

/// A schema that is no object is left out, and the router refuses the tool.
fn to_object(schema: &Value) -> JsonObject {
    Json::from_serialize(schema).ok().and_then(|json| JsonObject::try_from(json).ok()).unwrap_or_default()
}

fn required_names(schema: &Value) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InvalidService;
    use crate::router::Router;

    #[test]
    fn the_arguments_of_a_prompt_are_the_fields_of_its_type_in_the_order_of_declaration() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Review {
            /// What is reviewed
            code: String,
            approach: Option<String>,
        }
        let mut code = PromptArgument::new("code").description("What is reviewed");
        code.required = Some(true);
        assert_eq!(prompt_arguments::<Review>(), Ok(vec![code, PromptArgument::new("approach")]));
    }

    #[test]
    fn the_arguments_of_a_prompt_are_texts() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Language {
            English,
            French,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Translate {
            into: Language,
            from: Option<Language>,
            times: Option<u32>,
        }
        let mut router = Router::new();
        router.add_prompt_of::<Translate>("translate", "Translates.", ());
        let expected = InvalidService::PromptArgument { prompt: "translate".into(), argument: "times".into() };
        assert_eq!(router.capabilities(false), Err(expected));
    }

    #[test]
    fn the_arguments_of_a_tool_may_be_an_enum_of_objects() {
        #[derive(JsonSchema)]
        #[serde(tag = "action")]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Edit {
            Insert { text: String },
            Delete {},
        }
        let schema = tool_schema::<Edit>();
        assert_eq!(schema.as_json().first_member("type").unwrap().as_bytes(), b"\"object\"");
    }

    #[test]
    fn only_an_enum_whose_variants_are_all_objects_is_an_object() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Mixed {
            /// A text.
            Nothing,
            Named {
                text: String,
            },
        }
        for schema in [input_schema::<Mixed>(), input_schema::<Value>()] {
            assert!(schema.get("type").is_none(), "{schema}");
        }
    }

    #[test]
    fn a_type_is_named_by_its_own_name_where_a_schema_refers_to_it() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Both {
            none: NoArguments,
            any: JsonObject,
        }
        let schema = schemars::schema_for!(Both).to_value();
        for (member, name) in [("none", "NoArguments"), ("any", "JsonObject")] {
            assert_eq!(schema["properties"][member]["$ref"], format!("#/$defs/{name}"));
            assert_eq!(schema["$defs"][name]["type"], "object");
        }
    }
}
