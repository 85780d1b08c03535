//! Forms: the subset of JSON Schema that an elicitation may use.

use super::define::{object, string_enum, union};
use super::error::{ModelError, Problem};
use super::object::{Reader, Value, Writer, has, tag};
use super::value::Number;
use crate::codec::json::Json;

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
        let names = json.entries().filter_map(|(name, _)| name).enumerate();
        let read = names.map(|(index, name)| {
            let field = fields.remove(&name).ok_or(ModelError::new(Problem::DuplicateKey))?;
            PrimitiveSchemaDefinition::read(&field).map(|field| (name, field)).map_err(|error| error.at(index))
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
        match tag(json, "type")?.as_str() {
            "string" if has(json, "oneOf") => Value::read(json).map(Self::TitledSingleSelectEnum),
            "string" if has(json, "enumNames") => Value::read(json).map(Self::LegacyTitledEnum),
            "string" if has(json, "enum") => Value::read(json).map(Self::UntitledSingleSelectEnum),
            "string" => Value::read(json).map(Self::String),
            "number" | "integer" => Value::read(json).map(Self::Number),
            "boolean" => Value::read(json).map(Self::Boolean),
            "array" => Self::choose_items(json),
            _ => Ok(Self::Other(json.clone())),
        }
    }

    fn choose_items(json: &Json) -> Result<Self, ModelError> {
        match json.first_member("items") {
            Some(items) if has(&items, "anyOf") => Value::read(json).map(Self::TitledMultiSelectEnum),
            Some(items) if has(&items, "enum") => Value::read(json).map(Self::UntitledMultiSelectEnum),
            Some(_) | None => Ok(Self::Other(json.clone())),
        }
    }
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

object! {
    /// A string with a display name.
    EnumOption {
        required {
            /// The string.
            value: String = "const",
            /// The display name.
            title: String = "title",
        }
    }
}
