//! JSON schemas and forms of Rust types, by the crate `schemars`. Schemas are made when a server is built, and are of
//! the dialect 2020-12, which is the default since 2025-11-25.

use std::borrow::Cow;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::failure::HandlerError;
use crate::codec::json::Json;
use crate::model::{Fields, JsonObject, Payload, PrimitiveSchemaDefinition, PromptArgument, RequestedSchema};

/// The arguments of a tool or a prompt that has none.
///
/// # Example
///
/// ```
/// use mcp_proto::router::{NoArguments, tool_schema};
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

/// Any object.
impl JsonSchema for JsonObject {
    fn schema_name() -> Cow<'static, str> {
        "JsonObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Map::from_iter([("type".to_owned(), json!("object"))]).into()
    }
}

/// The schema of the arguments of a tool, without references to other parts of it where that is possible, because some
/// clients do not follow them.
///
/// # Example
///
/// ```
/// use mcp_proto::router::tool_schema;
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
    let mut schema = schema_of::<A>(settings().for_deserialize());
    for field in
        schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten().map(|(_, field)| field)
    {
        // An `Option` that a header repeats is absent or has one type, because a header has no null (MD-P-03).
        if let Some(members) = field.as_object_mut().filter(|members| members.contains_key("x-mcp-header")) {
            without_null(members);
        }
    }
    to_object(&schema)
}

/// The schema of the structured content of a tool's result.
#[must_use]
pub fn output_schema<T: JsonSchema>() -> JsonObject {
    to_object(&schema_of::<T>(settings().for_serialize()))
}

/// The arguments of a prompt, as its list shows them: the fields of `A`.
///
/// # Errors
///
/// The name of a field that has not the form of text, as all arguments of prompts have.
pub fn prompt_arguments<A: JsonSchema>() -> Result<Vec<PromptArgument>, Box<str>> {
    let schema = schema_of::<A>(settings().for_deserialize());
    let required = required_names(&schema);
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let argument = |(name, field): (&String, &Value)| {
        // A schema without a type, such as that of an enum, does not exclude texts.
        if simplified(field).get("type").is_some_and(|kind| kind != "string") {
            return Err(name.as_str().into());
        }
        let mut argument = PromptArgument::new(name.as_str());
        argument.description = field.get("description").and_then(Value::as_str).map(str::to_owned);
        argument.required = required.contains(&name.as_str()).then_some(true);
        Ok(argument)
    };
    fields.map(argument).collect()
}

/// The form with which a person enters a value of this type: its fields are texts, numbers, booleans, or enums without
/// data, of which a list may be chosen; each may be an `Option`.
///
/// # Errors
///
/// A field cannot be shown in a form, or the type has no named fields.
pub fn form_of<T: JsonSchema>() -> Result<RequestedSchema, HandlerError> {
    let schema = schema_of::<T>(settings().for_deserialize());
    let no_form = |what: &str| HandlerError::new(format!("{} cannot be shown as a form: {what}", T::schema_name()));
    let fields = schema.get("properties").and_then(Value::as_object);
    let fields = fields.ok_or_else(|| no_form("it has no named fields"))?;
    let mut form = RequestedSchema::new(Fields::default());
    let required: Vec<_> = required_names(&schema).into_iter().map(str::to_owned).collect();
    form.required = Some(required).filter(|required| !required.is_empty());
    for (name, field) in fields {
        let field = Json::from_serialize(&simplified(field))?;
        match PrimitiveSchemaDefinition::from_json(&field) {
            Ok(PrimitiveSchemaDefinition::Other(_)) | Err(_) => {
                return Err(no_form(&format!("the field '{name}' is no text, number, boolean or choice")));
            }
            Ok(field) => form.properties.0.push((name.clone(), field)),
        }
    }
    Ok(form)
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    })
}

fn schema_of<T: JsonSchema>(settings: SchemaSettings) -> Schema {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of the Rust type means nothing to a client.
    schema.remove("title");
    // Each variant of an enum is an object, and so is the enum.
    let variants = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    let are_objects = variants.is_some_and(|variants| variants.iter().all(|variant| variant["type"] == "object"));
    if are_objects && schema.get("type").is_none() {
        schema.insert("type".to_owned(), json!("object"));
    }
    schema
}

/// A schema that is no object is left out, and the router refuses the tool.
fn to_object(schema: &Schema) -> JsonObject {
    Json::from_serialize(schema).ok().and_then(|json| JsonObject::try_from(json).ok()).unwrap_or_default()
}

fn required_names(schema: &Schema) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A field of a form in the words that forms have: an `Option` is a field that is not required, and there are fewer
/// formats.
fn simplified(field: &Value) -> Value {
    let null = json!("null");
    let alternatives = field.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let mut others = alternatives.filter(|alternative| alternative["type"] != null);
    let mut field = match (others.next(), others.next()) {
        (Some(only), None) => only.clone(),
        (Some(_), Some(_)) | (None, _) => field.clone(),
    };
    let Some(members) = field.as_object_mut() else { return field };
    without_null(members);
    if let Some(Value::Array(values)) = members.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if members.get("type").is_some_and(|kind| kind == "integer" || kind == "number") {
        members.remove("format");
    }
    if let Some(options) = members.get_mut("oneOf").and_then(Value::as_array_mut) {
        for option in options.iter_mut().filter_map(Value::as_object_mut) {
            let title = option.get("description").or_else(|| option.get("const")).cloned().unwrap_or_default();
            option.retain(|name, _| name == "const");
            option.insert("title".to_owned(), title);
        }
        members.insert("type".to_owned(), json!("string"));
    }
    if let Some(items) = members.get_mut("items") {
        *items = simplified(items);
        // The choices of a list have another name than a single choice.
        if let Some(options) = items.as_object_mut().and_then(|items| items.remove("oneOf")) {
            *items = json!({ "anyOf": options });
        }
    }
    field
}

/// The type without null.
fn without_null(members: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = members.get_mut("type") {
        kinds.retain(|kind| *kind != json!("null"));
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UsageError;
    use crate::router::Router;

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Colour {
        Red,
        Green,
    }

    #[derive(Deserialize, JsonSchema)]
    enum Size {
        /// Up to 40
        Small,
        /// From 41 on
        Large,
    }

    #[test]
    fn a_form_has_a_field_for_each_field_of_its_type() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Order {
            /// Your name
            name: String,
            count: u8,
            weight: Option<f32>,
            gift: bool,
            colour: Colour,
            other: Option<Colour>,
            size: Size,
            sizes: Vec<Size>,
            colours: Vec<Colour>,
        }
        let form = form_of::<Order>().unwrap().to_json();
        let expected = r#"{"type":"object","properties":{
            "colour":{"type":"string","enum":["red","green"]},
            "colours":{"type":"array","items":{"type":"string","enum":["red","green"]}},
            "count":{"type":"integer","minimum":0,"maximum":255},
            "gift":{"type":"boolean"},
            "name":{"type":"string","description":"Your name"},
            "other":{"type":"string","enum":["red","green"]},
            "size":{"type":"string","oneOf":[{"const":"Small","title":"Up to 40"},{"const":"Large","title":"From 41 on"}]},
            "sizes":{"type":"array","items":{"anyOf":[{"const":"Small","title":"Up to 40"},{"const":"Large","title":"From 41 on"}]}},
            "weight":{"type":"number"}},
            "required":["name","count","gift","colour","size","sizes","colours"]}"#;
        let read = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap();
        assert_eq!(read(form.as_bytes()), read(expected.as_bytes()));
    }

    #[test]
    fn a_type_that_no_form_can_show_is_refused_with_its_field() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Trip {
            stops: Vec<Vec<String>>,
        }
        assert_eq!(
            form_of::<Trip>().unwrap_err().to_string(),
            "Trip cannot be shown as a form: the field 'stops' is no text, number, boolean or choice"
        );
        assert_eq!(
            form_of::<String>().unwrap_err().to_string(),
            "string cannot be shown as a form: it has no named fields"
        );
    }

    #[test]
    fn the_arguments_of_a_prompt_are_the_fields_of_its_type() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Review {
            /// What is reviewed
            code: String,
            language: Option<String>,
        }
        let mut code = PromptArgument::new("code").description("What is reviewed");
        code.required = Some(true);
        assert_eq!(prompt_arguments::<Review>(), Ok(vec![code, PromptArgument::new("language")]));
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
        let expected = UsageError::PromptArgument { prompt: "translate".into(), argument: "times".into() };
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
