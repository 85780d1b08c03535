//! Macros that declare the types of the model: each is a table of members and their names on the wire.

/// Implements the conversions that every type of the model has.
macro_rules! payload {
    ($name:ident) => {
        impl crate::Payload for $name {
            fn from_json(json: &mcp_proto::Json) -> Result<Self, crate::ModelError> {
                crate::object::Value::read(json)
            }

            fn to_json(&self) -> mcp_proto::Json {
                crate::object::to_json(self)
            }
        }

        impl From<$name> for mcp_proto::Json {
            fn from(value: $name) -> Self {
                crate::object::to_json(&value)
            }
        }

        impl TryFrom<&mcp_proto::Json> for $name {
            type Error = crate::ModelError;

            fn try_from(json: &mcp_proto::Json) -> Result<Self, crate::ModelError> {
                crate::object::Value::read(json)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                crate::object::to_json(self).serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let json = mcp_proto::Json::deserialize(deserializer)?;
                crate::object::Value::read(&json).map_err(serde::de::Error::custom)
            }
        }
    };
}

/// An object. Its members are `required` (arguments of `new`), `defaulted` (always written, and may be absent when
/// read) or `optional` (each has a method that sets it). A tag is a member with a fixed value.
macro_rules! object {
    (
        $(#[$doc:meta])*
        $name:ident $(($tag:literal = $tag_value:literal))? {
            $(required { $($(#[$required_doc:meta])* $required:ident: $required_type:ty = $required_key:literal,)+ })?
            $(defaulted { $($(#[$defaulted_doc:meta])* $defaulted:ident: $defaulted_type:ty = $defaulted_key:literal,)+ })?
            $(optional { $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty = $optional_key:literal,)+ })?
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($($(#[$required_doc])* pub $required: $required_type,)+)?
            $($($(#[$defaulted_doc])* pub $defaulted: $defaulted_type,)+)?
            $($($(#[$optional_doc])* pub $optional: Option<$optional_type>,)+)?
            /// Unknown members, as their original JSON text.
            pub extra: std::collections::BTreeMap<String, mcp_proto::Json>,
        }

        impl $name {
            crate::define::constructor! {
                { $($($required: $required_type,)+)? }
                { $($($defaulted,)+)? $($($optional,)+)? }
            }

            $($(
                #[doc = concat!("Sets `", $optional_key, "`.")]
                #[must_use]
                pub fn $optional(mut self, $optional: impl Into<$optional_type>) -> Self {
                    self.$optional = Some($optional.into());
                    self
                }
            )+)?
        }

        crate::define::default! { $name { $($($required,)+)? } }

        impl crate::object::Value for $name {
            fn read(json: &mcp_proto::Json) -> Result<Self, crate::ModelError> {
                let mut object = crate::object::Reader::new(json)?;
                $(object.take_tag($tag, $tag_value)?;)?
                Ok(Self {
                    $($($required: object.take($required_key)?,)+)?
                    $($($defaulted: object.take_or_default($defaulted_key)?,)+)?
                    $($($optional: object.take($optional_key)?,)+)?
                    extra: object.rest(),
                })
            }

            fn write(&self, out: &mut Vec<u8>) {
                let mut object = crate::object::Writer::new(out);
                $(object.tag($tag, $tag_value);)?
                $($(object.member($required_key, &self.$required);)+)?
                $($(object.member($defaulted_key, &self.$defaulted);)+)?
                $($(object.member($optional_key, &self.$optional);)+)?
                object.rest(&self.extra, &[
                    $($tag,)?
                    $($($required_key,)+)?
                    $($($defaulted_key,)+)?
                    $($($optional_key,)+)?
                ]);
                object.end();
            }
        }

        crate::define::payload! { $name }
    };
}

/// The function `new` of an object.
macro_rules! constructor {
    ({} { $($other:ident,)* }) => {
        /// A value without any members.
        #[must_use]
        pub fn new() -> Self {
            Self { $($other: Default::default(),)* extra: std::collections::BTreeMap::new() }
        }
    };
    ({ $($required:ident: $required_type:ty,)+ } { $($other:ident,)* }) => {
        /// A value with the required members.
        #[must_use]
        pub fn new($($required: impl Into<$required_type>),+) -> Self {
            Self {
                $($required: $required.into(),)+
                $($other: Default::default(),)*
                extra: std::collections::BTreeMap::new(),
            }
        }
    };
}

/// The default of an object that has no required members.
macro_rules! default {
    ($name:ident {}) => {
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
    ($name:ident { $($required:ident,)+ }) => {};
}

/// A string enum with an additional variant for unknown values.
macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $word:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$word_doc])* $word,)+
            /// An unknown value.
            Other(String),
        }

        impl $name {
            /// The value on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$word => $text,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($text => Self::$word,)+
                    _ => Self::Other(word.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl crate::object::Value for $name {
            fn read(json: &mcp_proto::Json) -> Result<Self, crate::ModelError> {
                let word = json.as_string().ok_or(crate::ModelError::expected("a string"))?;
                Ok(Self::from(word.as_ref()))
            }

            fn write(&self, out: &mut Vec<u8>) {
                mcp_proto::Json::quote_into(out, self.as_str());
            }
        }

        crate::define::payload! { $name }
    };
}

/// One of several objects, or an unknown value. The variant is determined by a tag, or by the function `choose` of the
/// type.
macro_rules! union {
    ($(#[$doc:meta])* $name:ident ($tag:literal) { $($(#[$one_doc:meta])* $one:ident($type:ty) = $value:literal,)+ }) => {
        crate::define::union! { $(#[$doc])* $name { $($(#[$one_doc])* $one($type),)+ } }

        impl $name {
            fn choose(json: &mcp_proto::Json) -> Result<Self, crate::ModelError> {
                match crate::object::tag(json, $tag)?.as_str() {
                    $($value => crate::object::Value::read(json).map(Self::$one),)+
                    _ => Ok(Self::Other(json.clone())),
                }
            }
        }
    };
    ($(#[$doc:meta])* $name:ident { $($(#[$one_doc:meta])* $one:ident($type:ty),)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$one_doc])* $one($type),)+
            /// An unknown kind, as its original JSON text.
            Other(mcp_proto::Json),
        }

        $(impl From<$type> for $name {
            fn from(value: $type) -> Self {
                Self::$one(value)
            }
        })+

        impl crate::object::Value for $name {
            fn read(json: &mcp_proto::Json) -> Result<Self, crate::ModelError> {
                Self::choose(json)
            }

            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$one(value) => crate::object::Value::write(value, out),)+
                    Self::Other(json) => crate::object::Value::write(json, out),
                }
            }
        }

        crate::define::payload! { $name }
    };
}

pub(super) use constructor;
pub(super) use default;
pub(super) use object;
pub(super) use payload;
pub(super) use string_enum;
pub(super) use union;
