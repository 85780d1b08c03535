//! Which members of a JSON schema contain schemas, in all dialects since draft 4.

/// What a member of a schema contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Schemas of properties.
    Properties,
    /// Other schemas by name.
    SchemasByName,
    /// A schema, or an array of schemas.
    Schemas,
    /// A schema that is often a boolean, even in dialects that have no other boolean schemas.
    SchemaOrBoolean,
    /// No schema: a value, or what the dialects do not define.
    Value,
}

impl Holds {
    /// What the member of this name contains.
    #[must_use]
    pub fn of(keyword: &str) -> Self {
        match keyword {
            "properties" => Self::Properties,
            "$defs" | "definitions" | "patternProperties" | "dependentSchemas" | "dependencies" => Self::SchemasByName,
            "items" | "prefixItems" | "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "contains"
            | "propertyNames" | "contentSchema" => Self::Schemas,
            "additionalProperties" | "additionalItems" | "unevaluatedProperties" | "unevaluatedItems" => {
                Self::SchemaOrBoolean
            }
            _ => Self::Value,
        }
    }
}
