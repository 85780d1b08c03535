//! Forms: the part of JSON Schema that an elicitation may use.

use super::define::{object, union, words};
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
            /// The names of those that must be filled in.
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

    /// This form with another field, which may be left empty.
    #[must_use]
    pub fn with(mut self, name: &str, field: impl Into<PrimitiveSchemaDefinition>) -> Self {
        self.properties.0.push((name.to_owned(), field.into()));
        self
    }

    /// This form with another field, which must be filled in.
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
        // A map finds names that come twice; the order is the text's.
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
        /// A text.
        String(StringSchema),
        /// A number.
        Number(NumberSchema),
        /// Yes or no.
        Boolean(BooleanSchema),
        /// One of some texts.
        UntitledSingleSelectEnum(UntitledSingleSelectEnumSchema),
        /// One of some texts that are shown by other names (since 2025-11-25).
        TitledSingleSelectEnum(TitledSingleSelectEnumSchema),
        /// Any of some texts (since 2025-11-25).
        UntitledMultiSelectEnum(UntitledMultiSelectEnumSchema),
        /// Any of some texts that are shown by other names (since 2025-11-25).
        TitledMultiSelectEnum(TitledMultiSelectEnumSchema),
        /// One of some texts that are shown by other names, as 2025-06-18 had it.
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
    /// A text.
    StringSchema("type" = "string") {
        optional {
            /// Its name, for people.
            title: String = "title",
            /// What it means.
            description: String = "description",
            /// The shortest length.
            min_length: Number = "minLength",
            /// The greatest length.
            max_length: Number = "maxLength",
            /// What the text is.
            format: StringFormat = "format",
            /// What is filled in at first (since 2025-11-25).
            default: String = "default",
        }
    }
}

words! {
    /// What a text is.
    StringFormat {
        /// An address of electronic mail.
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
            /// Whether it is a whole number.
            kind: NumberKind = "type",
        }
        optional {
            /// Its name, for people.
            title: String = "title",
            /// What it means.
            description: String = "description",
            /// The least that is allowed.
            minimum: Number = "minimum",
            /// The most that is allowed.
            maximum: Number = "maximum",
            /// What is filled in at first (since 2025-11-25).
            default: Number = "default",
        }
    }
}

words! {
    /// Whether a number is a whole number.
    NumberKind {
        /// It is.
        Integer = "integer",
        /// It need not be.
        Number = "number",
    }
}

object! {
    /// Yes or no.
    BooleanSchema("type" = "boolean") {
        optional {
            /// Its name, for people.
            title: String = "title",
            /// What it means.
            description: String = "description",
            /// What is filled in at first.
            default: bool = "default",
        }
    }
}

object! {
    /// One of some texts.
    UntitledSingleSelectEnumSchema("type" = "string") {
        required {
            /// The texts.
            values: Vec<String> = "enum",
        }
        optional {
            /// Its name, for people.
            title: String = "title",
            /// What it means.
            description: String = "description",
            /// What is chosen at first (since 2025-11-25).
            default: String = "default",
        }
    }
}

object! {
    /// One of some texts that are shown by other names (since 2025-11-25).
    TitledSingleSelectEnumSchema("type" = "string") {
        required {
            /// The texts.
            options: Vec<EnumOption> = "oneOf",
        }
        optional {
            /// Its name, for people.
            title: String = "title",
            /// What it means.
            description: String = "description",
            /// What is chosen at first.
            default: String = "default",
        }
    }
}

object! {
    /// Any of some texts (since 2025-11-25).
    UntitledMultiSelectEnumSchema("type" = "array") {
        required {
            /// The texts.
            items: UntitledItems = "items",
        }
        optional {
            /// Its name, for people.
            title: String = "title",
            /// What it means.
            description: String = "description",
            /// How many must be chosen at least.
            min_items: Number = "minItems",
            /// How many may be chosen at most.
            max_items: Number = "maxItems",
            /// What is chosen at first.
            default: Vec<String> = "default",
        }
    }
}

object! {
    /// Any of some texts that are shown by other names (since 2025-11-25).
    TitledMultiSelectEnumSchema("type" = "array") {
        required {
            /// The texts.
            items: TitledItems = "items",
        }
        optional {
            /// Its name, for people.
            title: String = "title",
            /// What it means.
            description: String = "description",
            /// How many must be chosen at least.
            min_items: Number = "minItems",
            /// How many may be chosen at most.
            max_items: Number = "maxItems",
            /// What is chosen at first.
            default: Vec<String> = "default",
        }
    }
}

object! {
    /// One of some texts that are shown by other names, as 2025-06-18 had it.
    LegacyTitledEnumSchema("type" = "string") {
        required {
            /// The texts.
            values: Vec<String> = "enum",
        }
        optional {
            /// The names that they are shown by.
            enum_names: Vec<String> = "enumNames",
            /// Its name, for people.
            title: String = "title",
            /// What it means.
            description: String = "description",
            /// What is chosen at first (since 2025-11-25).
            default: String = "default",
        }
    }
}

object! {
    /// The texts of an [`UntitledMultiSelectEnumSchema`].
    UntitledItems("type" = "string") {
        required {
            /// The texts.
            values: Vec<String> = "enum",
        }
    }
}

object! {
    /// The texts of a [`TitledMultiSelectEnumSchema`].
    TitledItems {
        required {
            /// The texts.
            options: Vec<EnumOption> = "anyOf",
        }
    }
}

object! {
    /// A text that is shown by another name.
    EnumOption {
        required {
            /// The text.
            value: String = "const",
            /// The name.
            title: String = "title",
        }
    }
}
