//! Forms of Rust types, in the words that the forms of each revision have.

use mcp_model::{
    EnumOption, Fields, LegacyTitledEnumSchema, Payload, PrimitiveSchemaDefinition, RequestedSchema, StringFormat,
};
use mcp_proto::server::HandlerError;
use mcp_proto::{Json, ProtocolVersion};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::{input_schema, required_names};

/// The form with which a person enters a value of this type. Its fields are texts, numbers, booleans, enums without
/// data, or lists of such enums; each may be an `Option`. A choice is shown with the title of its variant, else with
/// its doc comment, else with its value.
///
/// Forms of 2025-06-18 have no lists of choices, and other words for the titles of choices.
///
/// # Errors
///
/// A field cannot be shown in a form of this revision, or the type has no named fields.
pub fn form_of<T: JsonSchema>(version: ProtocolVersion) -> Result<RequestedSchema, HandlerError> {
    let schema = input_schema::<T>();
    let no_form = |what: &str| HandlerError::new(format!("{} cannot be shown as a form: {what}", T::schema_name()));
    let fields = schema.get("properties").and_then(Value::as_object);
    let fields = fields.ok_or_else(|| no_form("it has no named fields"))?;
    let mut form = RequestedSchema::new(Fields::default());
    let required: Vec<_> = required_names(&schema).into_iter().map(str::to_owned).collect();
    form.required = Some(required).filter(|required| !required.is_empty());
    for (name, field) in fields {
        let field = PrimitiveSchemaDefinition::from_json(&Json::from_serialize(&in_words_of_forms(field))?);
        let field = field.map_err(|_| no_form(&format!("the field '{name}' is no text, number, boolean or choice")))?;
        if let PrimitiveSchemaDefinition::Other(_) = field {
            return Err(no_form(&format!("the field '{name}' is no text, number, boolean or choice")));
        }
        let field = if version.rules().choices_in_forms { Some(field) } else { to_first_forms(field) };
        let field = field.ok_or_else(|| {
            no_form(&format!(
                "the field '{name}' is a list, which the forms of the client's revision {version} have not"
            ))
        })?;
        form.properties.0.push((name.clone(), field));
    }
    Ok(form)
}

/// A field in the words that forms have had since 2025-11-25.
fn in_words_of_forms(field: &Value) -> Value {
    let mut field = field.clone();
    let Some(members) = field.as_object_mut() else { return field };
    let is_of_forms = |format: &Value| {
        format.as_str().is_some_and(|format| !matches!(StringFormat::from(format), StringFormat::Other(_)))
    };
    if members.get("format").is_some_and(|format| !is_of_forms(format)) {
        members.shift_remove("format");
    }
    name_choices(members, "oneOf");
    if let Some(items) = members.get_mut("items").and_then(Value::as_object_mut) {
        name_choices(items, "anyOf");
        // The title and description of a choice belong to the list, unless the list has its own.
        let described = ["title", "description"].map(|name| (name, items.shift_remove(name)));
        items.retain(|name, _| matches!(name.as_str(), "type" | "enum" | "anyOf"));
        if items.contains_key("anyOf") {
            items.shift_remove("type");
        }
        for (name, text) in described {
            if let Some(text) = text {
                members.entry(name).or_insert(text);
            }
        }
    }
    field
}

/// Replaces the alternatives of an enum without data by its choices, which are below `titled` if they have titles.
fn name_choices(members: &mut Map<String, Value>, titled: &str) {
    let alternatives = members.get("oneOf").or_else(|| members.get("anyOf")).and_then(Value::as_array);
    let Some(choices) = alternatives.and_then(|alternatives| choices(alternatives)) else { return };
    members.shift_remove("oneOf");
    members.shift_remove("anyOf");
    members.insert("type".to_owned(), json!("string"));
    if choices.iter().any(|(_, title)| title.is_some()) {
        let options = choices.into_iter().map(|(value, title)| {
            let title = title.unwrap_or_else(|| value.clone());
            json!({ "const": value, "title": title })
        });
        members.insert(titled.to_owned(), options.collect());
    } else {
        members.insert("enum".to_owned(), choices.into_iter().map(|(value, _)| value).collect());
    }
}

/// The values of alternatives with their titles; `None` if one of them is no text. Variants without a comment are one
/// alternative, with all of their names.
fn choices(alternatives: &[Value]) -> Option<Vec<(String, Option<String>)>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut found = Vec::new();
    for alternative in alternatives {
        if let Some(value) = alternative.get("const") {
            let title = alternative.get("title").or_else(|| alternative.get("description"));
            found.push((text(value)?, title.and_then(text)));
        } else {
            for value in alternative.get("enum")?.as_array()? {
                found.push((text(value)?, None));
            }
        }
    }
    Some(found)
}

/// A field as the forms of the first revision that has them contain it; `None` for a list of choices.
fn to_first_forms(field: PrimitiveSchemaDefinition) -> Option<PrimitiveSchemaDefinition> {
    use PrimitiveSchemaDefinition as Field;
    Some(match field {
        Field::String(mut field) => {
            field.default = None;
            field.into()
        }
        Field::Number(mut field) => {
            field.default = None;
            field.into()
        }
        Field::UntitledSingleSelectEnum(mut field) => {
            field.default = None;
            field.into()
        }
        Field::TitledSingleSelectEnum(field) => {
            let choices = field.options.into_iter().map(|EnumOption { value, title, .. }| (value, title));
            let (values, titles): (Vec<_>, Vec<_>) = choices.unzip();
            let mut legacy = LegacyTitledEnumSchema::new(values).enum_names(titles);
            legacy.title = field.title;
            legacy.description = field.description;
            legacy.into()
        }
        Field::LegacyTitledEnum(mut field) => {
            field.default = None;
            field.into()
        }
        Field::Boolean(_) => field,
        Field::UntitledMultiSelectEnum(_) | Field::TitledMultiSelectEnum(_) | Field::Other(_) | _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

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

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Speed {
        Slow,
        /// In a week
        Normal,
        #[schemars(title = "Tomorrow")]
        /// For a fee
        Fast,
    }

    /// The fields of the form of a type, without the words around them.
    fn fields<T: JsonSchema>(version: ProtocolVersion) -> String {
        let form = form_of::<T>(version).unwrap().to_json();
        form.first_member("properties").unwrap().to_text().into_owned()
    }

    #[test]
    fn a_form_has_a_field_for_each_field_of_its_type_in_the_order_of_declaration() {
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
        let form = form_of::<Order>(ProtocolVersion::LATEST).unwrap().to_json();
        let expected = [
            r#"{"type":"object","properties":{"#,
            r#""name":{"type":"string","description":"Your name"},"#,
            r#""count":{"type":"integer","minimum":0,"maximum":255},"#,
            r#""weight":{"type":"number"},"#,
            r#""gift":{"type":"boolean"},"#,
            r#""colour":{"type":"string","enum":["red","green"]},"#,
            r#""other":{"type":"string","enum":["red","green"]},"#,
            r#""size":{"type":"string","oneOf":[{"const":"Small","title":"Up to 40"},{"const":"Large","title":"From 41 on"}]},"#,
            r#""sizes":{"type":"array","items":{"anyOf":[{"const":"Small","title":"Up to 40"},{"const":"Large","title":"From 41 on"}]}},"#,
            r#""colours":{"type":"array","items":{"type":"string","enum":["red","green"]}}},"#,
            r#""required":["name","count","gift","colour","size","sizes","colours"]}"#,
        ];
        assert_eq!(form.to_text(), expected.concat());
    }

    #[test]
    fn choices_without_a_comment_have_their_value_as_title() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Delivery {
            speed: Speed,
            /// When it is in stock
            later: Option<Speed>,
            all: Vec<Speed>,
        }
        let options = r#"[{"const":"Slow","title":"Slow"},{"const":"Normal","title":"In a week"},{"const":"Fast","title":"Tomorrow"}]"#;
        let expected = format!(
            r#"{{"speed":{{"type":"string","oneOf":{options}}},"later":{{"type":"string","oneOf":{options},"description":"When it is in stock"}},"all":{{"type":"array","items":{{"anyOf":{options}}}}}}}"#
        );
        assert_eq!(fields::<Delivery>(ProtocolVersion::LATEST), expected);
    }

    #[test]
    fn a_form_of_2025_06_18_has_the_words_of_that_revision() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Order {
            /// How large
            #[schemars(title = "The size")]
            size: Size,
            #[schemars(extend("enum" = ["s", "f"], "enumNames" = ["Slow", "Fast"], "default" = "s"))]
            speed: Option<String>,
            #[schemars(extend("default" = "red"))]
            colour: Colour,
            #[schemars(extend("default" = 1))]
            count: u8,
            #[schemars(extend("default" = true))]
            gift: bool,
            #[schemars(extend("default" = "x"))]
            note: Option<String>,
        }
        let expected = [
            r#"{"size":{"type":"string","enum":["Small","Large"],"enumNames":["Up to 40","From 41 on"],"#,
            r#""title":"The size","description":"How large"},"#,
            r#""speed":{"type":"string","enum":["s","f"],"enumNames":["Slow","Fast"]},"#,
            r#""colour":{"type":"string","enum":["red","green"]},"#,
            r#""count":{"type":"integer","minimum":0,"maximum":255},"#,
            r#""gift":{"type":"boolean","default":true},"#,
            r#""note":{"type":"string"}}"#,
        ];
        assert_eq!(fields::<Order>(ProtocolVersion::V2025_06_18), expected.concat());
        let newest = fields::<Order>(ProtocolVersion::V2025_11_25);
        assert!(newest.contains(r#""note":{"type":"string","default":"x"}"#), "{newest}");
    }

    #[test]
    fn choices_are_found_below_each_word_for_alternatives_and_only_texts_are_choices() {
        for (field, expected) in [
            (r#"{"anyOf":[{"const":"a"},{"const":"b"}]}"#, r#"{"type":"string","enum":["a","b"]}"#),
            (r#"{"oneOf":[{"const":"a"},{"enum":["b","c"]}]}"#, r#"{"type":"string","enum":["a","b","c"]}"#),
            (
                r#"{"anyOf":[{"const":"a","title":"A"}],"title":"T","description":"D"}"#,
                r#"{"title":"T","description":"D","type":"string","oneOf":[{"const":"a","title":"A"}]}"#,
            ),
            (
                r#"{"type":"array","items":{"anyOf":[{"const":"a"}]}}"#,
                r#"{"type":"array","items":{"type":"string","enum":["a"]}}"#,
            ),
            (
                r#"{"type":"array","items":{"oneOf":[{"const":"a","description":"A"}]}}"#,
                r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}"#,
            ),
            // What describes a choice describes the list, unless the list is described.
            (
                r#"{"type":"array","items":{"type":"string","enum":["a"],"title":"T","description":"D","x":1}}"#,
                r#"{"type":"array","items":{"type":"string","enum":["a"]},"title":"T","description":"D"}"#,
            ),
            (
                r#"{"type":"array","title":"own","items":{"type":"string","enum":["a"],"title":"T"}}"#,
                r#"{"type":"array","title":"own","items":{"type":"string","enum":["a"]}}"#,
            ),
            (r#"{"oneOf":[{"const":"a"},{"const":1}]}"#, r#"{"oneOf":[{"const":"a"},{"const":1}]}"#),
            (r#"{"oneOf":[{"const":"a"},{"enum":["b",1]}]}"#, r#"{"oneOf":[{"const":"a"},{"enum":["b",1]}]}"#),
            (r#"{"oneOf":[{"const":"a"},{"type":"null"}]}"#, r#"{"oneOf":[{"const":"a"},{"type":"null"}]}"#),
        ] {
            let found = in_words_of_forms(&serde_json::from_str(field).unwrap());
            assert_eq!(found.to_string(), expected, "{field}");
        }
    }

    #[test]
    fn a_list_of_choices_is_refused_for_a_client_whose_forms_have_none() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Several {
            sizes: Vec<Size>,
        }
        assert!(form_of::<Several>(ProtocolVersion::V2025_11_25).is_ok());
        assert_eq!(
            form_of::<Several>(ProtocolVersion::V2025_06_18).unwrap_err().to_string(),
            "Several cannot be shown as a form: the field 'sizes' is a list, which the forms of the client's revision \
             2025-06-18 have not"
        );
    }

    #[test]
    fn a_form_whose_fields_can_all_be_left_out_requires_none() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Note {
            text: Option<String>,
        }
        let form = form_of::<Note>(ProtocolVersion::LATEST).unwrap().to_json();
        assert_eq!(form.to_text(), r#"{"type":"object","properties":{"text":{"type":"string"}}}"#);
    }

    #[test]
    fn a_form_has_the_formats_of_forms_only() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Contact {
            #[schemars(extend("format" = "email"))]
            mail: String,
            #[schemars(extend("format" = "uuid"))]
            id: String,
        }
        let expected = r#"{"mail":{"type":"string","format":"email"},"id":{"type":"string"}}"#;
        assert_eq!(fields::<Contact>(ProtocolVersion::LATEST), expected);
    }

    #[test]
    fn a_type_that_no_form_can_show_is_refused_with_its_field() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Trip {
            stops: Vec<Vec<String>>,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Anything {
            value: Value,
        }
        for (error, what) in [
            (
                form_of::<Trip>(ProtocolVersion::LATEST),
                "Trip cannot be shown as a form: the field 'stops' is no text, number, boolean or choice",
            ),
            (
                form_of::<Anything>(ProtocolVersion::LATEST),
                "Anything cannot be shown as a form: the field 'value' is no text, number, boolean or choice",
            ),
            (form_of::<String>(ProtocolVersion::LATEST), "string cannot be shown as a form: it has no named fields"),
        ] {
            assert_eq!(error.unwrap_err().to_string(), what);
        }
    }
}
