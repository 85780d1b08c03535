//! Forms: the subset of JSON Schema that an elicitation may use.

use std::collections::BTreeMap;

use mcp_proto::Json;

use super::define::{object, string_enum, union};
use super::error::{ModelError, Problem};
use super::object::{Reader, Value, Writer, has, optional_tag};
use super::value::{JsonObject, Number};
use crate::Payload as _;

object! {
    /// A form: its fields in order.
    RequestedSchema("type" = "object") {
        required {
            /// The fields.
            properties: Fields = "properties",
        }
        optional {
            /// The names of the required fields.
            required: Vec<String> = "required",
            /// The dialect of JSON Schema (since 2025-11-25).
            schema: String = "$schema",
        }
    }
}

impl RequestedSchema {
    /// A form without fields.
    #[must_use]
    pub fn form() -> Self {
        Self::new(Fields::default())
    }

    /// Adds an optional field.
    #[must_use]
    pub fn with(mut self, name: &str, field: impl Into<PrimitiveSchemaDefinition>) -> Self {
        self.properties.0.push((name.to_owned(), field.into()));
        self
    }

    /// The default values of its fields, with which a client fills the form before its user does (SEP-1034).
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{BooleanSchema, ElicitResult, NumberKind, NumberSchema, RequestedSchema, StringSchema};
    ///
    /// let form = RequestedSchema::form()
    ///     .with("name", StringSchema::new())
    ///     .with("persons", NumberSchema::new(NumberKind::Integer).default(2))
    ///     .with("vegetarian", BooleanSchema::new().default(false));
    /// assert_eq!(form.defaults().to_string(), r#"{"persons":2,"vegetarian":false}"#);
    /// let entered = ElicitResult::accept(form.defaults().with("persons", 3));
    /// ```
    #[must_use]
    pub fn defaults(&self) -> JsonObject {
        let fields = self.properties.0.iter();
        let defaults = fields.filter_map(|(name, field)| Some((name, field.to_json().first_member("default")?)));
        defaults.fold(JsonObject::new(), |object, (name, default)| object.with(name, default))
    }

    /// Adds a required field.
    #[must_use]
    pub fn with_required(mut self, name: &str, field: impl Into<PrimitiveSchemaDefinition>) -> Self {
        self.required.get_or_insert_default().push(name.to_owned());
        self.with(name, field)
    }
}

/// The fields of a form by name, in the order in which they are shown.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields(pub Vec<(String, PrimitiveSchemaDefinition)>);

impl Value for Fields {
    fn read(json: &Json) -> Result<Self, ModelError> {
        // The map detects duplicate names; the order is taken from the text.
        let mut fields = Reader::new(json)?.rest();
        let names = json.entries().filter_map(|(name, _)| name);
        let read = names.map(|name| {
            let field = fields.remove(&name).ok_or(ModelError::new(Problem::DuplicateKey))?;
            Ok((name, PrimitiveSchemaDefinition::read(&field).unwrap_or(PrimitiveSchemaDefinition::Other(field))))
        });
        read.collect::<Result<_, _>>().map(Self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Writer::new(out);
        for (name, field) in &self.0 {
            object.value(name, field);
        }
        object.end();
    }
}

super::define::payload! { Fields }

union! {
    /// A field of a form.
    ///
    /// Some servers write fields in other words than those that forms have. An `anyOf` or `oneOf` of one kind of field and
    /// null, and a `type` that may also be null, are read as that kind; a field without a `type`, as the kind that its `enum`
    /// or `oneOf` shows; and a choice without a title has its value as the title. A field of any other form is
    /// [`Other`](Self::Other), and does not make the form unreadable.
    PrimitiveSchemaDefinition {
        /// A string.
        String(StringSchema),
        /// A number.
        Number(NumberSchema),
        /// A boolean.
        Boolean(BooleanSchema),
        /// One of several strings.
        UntitledSingleSelectEnum(UntitledSingleSelectEnumSchema),
        /// One of several strings with display names (since 2025-11-25).
        TitledSingleSelectEnum(TitledSingleSelectEnumSchema),
        /// Any of several strings (since 2025-11-25).
        UntitledMultiSelectEnum(UntitledMultiSelectEnumSchema),
        /// Any of several strings with display names (since 2025-11-25).
        TitledMultiSelectEnum(TitledMultiSelectEnumSchema),
        /// One of several strings with display names, in the form of 2025-06-18.
        LegacyTitledEnum(LegacyTitledEnumSchema),
    }
}

impl PrimitiveSchemaDefinition {
    fn choose(json: &Json) -> Result<Self, ModelError> {
        let field = &without_null(json);
        match optional_tag(field, "type")?.as_deref() {
            Some("string") if has(field, "oneOf") => Value::read(field).map(Self::TitledSingleSelectEnum),
            Some("string") if has(field, "enumNames") => Value::read(field).map(Self::LegacyTitledEnum),
            Some("string") if has(field, "enum") => Value::read(field).map(Self::UntitledSingleSelectEnum),
            Some("string") => Value::read(field).map(Self::String),
            Some("number" | "integer") => Value::read(field).map(Self::Number),
            Some("boolean") => Value::read(field).map(Self::Boolean),
            Some("array") => match field.first_member("items") {
                Some(items) if has(&items, "anyOf") => Value::read(field).map(Self::TitledMultiSelectEnum),
                Some(items) if has(&items, "enum") => Value::read(field).map(Self::UntitledMultiSelectEnum),
                Some(_) | None => Ok(Self::Other(json.clone())),
            },
            Some(_) | None => Ok(Self::Other(json.clone())),
        }
    }
}

/// The same field with its `type`, if that follows from its other members, and without null among its types: a field that
/// is not required is left out of an answer instead.
fn without_null(json: &Json) -> Json {
    let is_null = |json: &Json| json.first_member("type").is_some_and(|kind| kind.as_bytes() == b"\"null\"");
    let mut json = json.clone();
    for word in ["anyOf", "oneOf"] {
        let alternatives = json.first_member(word).unwrap_or(Json::empty_object());
        let others: Vec<_> = alternatives.elements().filter(|alternative| !is_null(alternative)).collect();
        let has_null = alternatives.elements().any(|alternative| is_null(&alternative));
        if let ([only], true) = (others.as_slice(), has_null) {
            // What describes the field precedes what describes the alternative.
            json = json.without_members(&[word]).with_missing_members(only);
        }
    }
    if let Some(kinds) = json.first_member("type").filter(Json::is_array) {
        let others: Vec<_> = kinds.elements().filter(|kind| kind.as_bytes() != b"\"null\"").collect();
        if let [only] = others.as_slice() {
            json = json.with_member("type", only);
        }
    }
    if let Some(values) = json.first_member("enum").filter(Json::is_array) {
        let texts: Vec<_> = values.elements().filter(|value| value.as_bytes() != b"null").collect();
        json = json.with_member("enum", &Json::array(&texts));
    }
    let is_choice = json.first_member("type").is_none() && (has(&json, "enum") || has(&json, "oneOf"));
    if is_choice { json.with_member("type", &Json::from("string")) } else { json }
}

object! {
    /// A string.
    StringSchema("type" = "string") {
        optional {
            /// Its name for display.
            title: String = "title",
            /// A description of it.
            description: String = "description",
            /// The shortest length.
            min_length: Number = "minLength",
            /// The greatest length.
            max_length: Number = "maxLength",
            /// The format of the string.
            format: StringFormat = "format",
            /// The default value (since 2025-11-25).
            default: String = "default",
        }
    }
}

string_enum! {
    /// The format of a string.
    StringFormat {
        /// An email address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date.
        Date = "date",
        /// A date and a time.
        DateTime = "date-time",
    }
}

object! {
    /// A number.
    NumberSchema {
        required {
            /// Whether it must be an integer.
            kind: NumberKind = "type",
        }
        optional {
            /// Its name for display.
            title: String = "title",
            /// A description of it.
            description: String = "description",
            /// The smallest allowed value.
            minimum: Number = "minimum",
            /// The largest allowed value.
            maximum: Number = "maximum",
            /// The default value (since 2025-11-25).
            default: Number = "default",
        }
    }
}

string_enum! {
    /// Whether a number must be an integer.
    NumberKind {
        /// An integer.
        Integer = "integer",
        /// Any number.
        Number = "number",
    }
}

object! {
    /// A boolean.
    BooleanSchema("type" = "boolean") {
        optional {
            /// Its name for display.
            title: String = "title",
            /// A description of it.
            description: String = "description",
            /// The default value.
            default: bool = "default",
        }
    }
}

object! {
    /// One of several strings.
    UntitledSingleSelectEnumSchema("type" = "string") {
        required {
            /// The strings.
            values: Vec<String> = "enum",
        }
        optional {
            /// Its name for display.
            title: String = "title",
            /// A description of it.
            description: String = "description",
            /// The default choice (since 2025-11-25).
            default: String = "default",
        }
    }
}

object! {
    /// One of several strings with display names (since 2025-11-25).
    TitledSingleSelectEnumSchema("type" = "string") {
        required {
            /// The strings.
            options: Vec<EnumOption> = "oneOf",
        }
        optional {
            /// Its name for display.
            title: String = "title",
            /// A description of it.
            description: String = "description",
            /// The default choice.
            default: String = "default",
        }
    }
}

object! {
    /// Any of several strings (since 2025-11-25).
    UntitledMultiSelectEnumSchema("type" = "array") {
        required {
            /// The strings.
            items: UntitledItems = "items",
        }
        optional {
            /// Its name for display.
            title: String = "title",
            /// A description of it.
            description: String = "description",
            /// The smallest number of choices.
            min_items: Number = "minItems",
            /// The largest number of choices.
            max_items: Number = "maxItems",
            /// The default choice.
            default: Vec<String> = "default",
        }
    }
}

object! {
    /// Any of several strings with display names (since 2025-11-25).
    TitledMultiSelectEnumSchema("type" = "array") {
        required {
            /// The strings.
            items: TitledItems = "items",
        }
        optional {
            /// Its name for display.
            title: String = "title",
            /// A description of it.
            description: String = "description",
            /// The smallest number of choices.
            min_items: Number = "minItems",
            /// The largest number of choices.
            max_items: Number = "maxItems",
            /// The default choice.
            default: Vec<String> = "default",
        }
    }
}

object! {
    /// One of several strings with display names, in the form of 2025-06-18.
    LegacyTitledEnumSchema("type" = "string") {
        required {
            /// The strings.
            values: Vec<String> = "enum",
        }
        optional {
            /// The display names, in the same order.
            enum_names: Vec<String> = "enumNames",
            /// Its name for display.
            title: String = "title",
            /// A description of it.
            description: String = "description",
            /// The default choice (since 2025-11-25).
            default: String = "default",
        }
    }
}

object! {
    /// The strings of an [`UntitledMultiSelectEnumSchema`].
    UntitledItems("type" = "string") {
        required {
            /// The strings.
            values: Vec<String> = "enum",
        }
    }
}

object! {
    /// The strings of a [`TitledMultiSelectEnumSchema`].
    TitledItems {
        required {
            /// The strings.
            options: Vec<EnumOption> = "anyOf",
        }
    }
}

/// A string with a display name, which is the string itself if the sender gives none.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EnumOption {
    /// The string.
    pub value: String,
    /// The display name.
    pub title: String,
    /// Unknown members, as their original JSON text.
    pub extra: BTreeMap<String, Json>,
}

impl EnumOption {
    /// A value with the required members.
    #[must_use]
    pub fn new(value: impl Into<String>, title: impl Into<String>) -> Self {
        Self { value: value.into(), title: title.into(), extra: BTreeMap::new() }
    }
}

impl Value for EnumOption {
    fn read(json: &Json) -> Result<Self, ModelError> {
        let mut object = Reader::new(json)?;
        let value: String = object.take("const")?;
        let title = object.take::<Option<String>>("title")?.unwrap_or_else(|| value.clone());
        Ok(Self { value, title, extra: object.rest() })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Writer::new(out);
        object.value("const", &self.value);
        object.value("title", &self.title);
        object.rest(&self.extra, &["const", "title"]);
        object.end();
    }
}

super::define::payload! { EnumOption }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Payload;

    fn read(field: &str) -> PrimitiveSchemaDefinition {
        let form = format!(r#"{{"type":"object","properties":{{"a":{field},"b":{{"type":"boolean"}}}}}}"#);
        let mut form = RequestedSchema::from_json(&Json::parse(form).unwrap()).unwrap();
        assert_eq!(form.properties.0.len(), 2);
        form.properties.0.swap_remove(0).1
    }

    #[test]
    fn a_field_that_may_be_null_is_read_as_the_field_without_null() {
        use PrimitiveSchemaDefinition as Field;
        let nick = StringSchema::new().title("Nick");
        let choice = UntitledSingleSelectEnumSchema::new(vec!["a".to_owned(), "b".to_owned()]);
        let titled = TitledSingleSelectEnumSchema::new(vec![EnumOption::new("a", "a"), EnumOption::new("b", "Bee")]);
        for (text, expected) in [
            // The Python SDK writes an optional field so.
            (
                r#"{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"title":"Nick"}"#,
                Field::from(nick.clone()),
            ),
            (r#"{"oneOf":[{"type":"null"},{"type":"string","title":"other"}],"title":"Nick"}"#, nick.clone().into()),
            (r#"{"type":["string","null"],"title":"Nick"}"#, nick.into()),
            (r#"{"type":["null","integer"]}"#, NumberSchema::new(NumberKind::Integer).into()),
            (r#"{"enum":["a","b"]}"#, choice.clone().into()),
            (r#"{"enum":["a","b",null],"type":["string","null"]}"#, choice.clone().into()),
            (r#"{"anyOf":[{"enum":["a","b"],"type":"string"},{"type":"null"}]}"#, choice.into()),
            (r#"{"oneOf":[{"const":"a"},{"const":"b","title":"Bee"}]}"#, titled.into()),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn unknown_members_of_a_choice_are_kept() {
        let text = r#"{"type":"string","oneOf":[{"const":"a","title":"A","x":[1]},{"const":"b","title":"B"}]}"#;
        assert_eq!(read(text).to_json().to_text(), text);
    }

    #[test]
    fn a_field_of_another_form_does_not_make_the_form_unreadable() {
        for text in [
            "{}",
            "true",
            "7",
            r#"{"type":"object","properties":{}}"#,
            r#"{"type":"string","default":7}"#,
            r#"{"type":["string","integer"]}"#,
            r#"{"type":7}"#,
            r#"{"enum":[1,2]}"#,
            r#"{"oneOf":[{"const":1}]}"#,
            r#"{"oneOf":[{"const":"a","title":1}]}"#,
            r#"{"anyOf":[{"type":"string"},{"type":"integer"}]}"#,
            r#"{"type":"array","items":{"type":"string"}}"#,
            r#"{"type":"string","type":"string"}"#,
        ] {
            assert_eq!(read(text), PrimitiveSchemaDefinition::Other(Json::parse(text).unwrap()), "{text}");
        }
    }
}
