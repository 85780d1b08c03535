//! Values that are stored exactly: objects of the application, numbers, metadata, tokens, binary data.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mcp_proto::spec::meta;
use mcp_proto::{Json, RequestId};
use serde::{Deserialize, Serialize};

use super::define::payload;
use super::error::ModelError;
use super::initialize::{ClientCapabilities, Implementation};
use super::logging::LoggingLevel;
use super::object::{Reader, Value};

/// A JSON object that the application defines, such as the arguments of a tool, or a JSON schema.
///
/// It is stored as text: digits and the order of keys, which are shown to people and language models, are not changed.
///
/// # Example
///
/// ```
/// use mcp_model::JsonObject;
///
/// let object = JsonObject::new().with("b", 1).with("a", "two");
/// assert_eq!(object.to_string(), r#"{"b":1,"a":"two"}"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonObject(Json);

/// Its JSON text.
impl fmt::Display for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonObject {
    /// The empty object.
    #[must_use]
    pub const fn new() -> Self {
        Self(Json::empty_object())
    }

    /// Serialises a value that has the form of an object.
    ///
    /// # Errors
    ///
    /// The value's `Serialize` failed, or its form is not an object.
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Self::try_from(Json::from_serialize(value)?).map_err(serde::ser::Error::custom)
    }

    /// This object with the member `name` set to `value`, replaced in place or added at the end. The text is copied.
    #[must_use]
    pub fn with(self, name: &str, value: impl Into<Json>) -> Self {
        let value = value.into();
        if self.0.first_member(name).is_some() {
            return Self(self.0.with_member(name, &value));
        }
        let inside = self.0.as_bytes().strip_suffix(b"}").unwrap_or_default();
        let mut text = inside.to_vec();
        if self.0.entries().next().is_some() {
            text.push(b',');
        }
        Json::quote_into(&mut text, name);
        text.push(b':');
        text.extend_from_slice(value.as_bytes());
        text.push(b'}');
        Self(Json::from_valid_text(text.into()))
    }

    /// Deserialises the object into a type of the application.
    ///
    /// # Errors
    ///
    /// The object does not have the shape of `T`. Note that the text of this error may quote the object.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        self.0.read()
    }

    /// The object as JSON.
    #[must_use]
    pub const fn as_json(&self) -> &Json {
        &self.0
    }
}

impl Default for JsonObject {
    fn default() -> Self {
        Self::new()
    }
}

impl TryFrom<Json> for JsonObject {
    type Error = ModelError;

    fn try_from(json: Json) -> Result<Self, ModelError> {
        if json.is_object() { Ok(Self(json)) } else { Err(ModelError::expected("an object")) }
    }
}

impl Value for JsonObject {
    fn read(json: &Json) -> Result<Self, ModelError> {
        Self::try_from(json.clone())
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}

payload! { JsonObject }

/// A number with its original digits; two are equal when their digits are.
///
/// # Example
///
/// ```
/// use mcp_model::Number;
///
/// assert_eq!(Number::from(60_000).as_u64(), Some(60_000));
/// assert_eq!(Number::from(0.5).as_f64(), 0.5);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Number(Json);

impl Number {
    /// The nearest `f64`.
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        self.0.to_text().parse().unwrap_or_default()
    }

    /// The number, if it is written as an integer and fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.0.to_text().parse().ok()
    }

    /// The number, if it is written as a non-negative integer and fits.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.0.to_text().parse().ok()
    }
}

macro_rules! from_integer {
    ($($integer:ty)*) => {
        $(impl From<$integer> for Number {
            fn from(number: $integer) -> Self {
                Self(Json::from_valid_text(number.to_string().into()))
            }
        })*
    };
}

from_integer! { i32 i64 u32 u64 usize }

/// Values that JSON cannot represent are converted as in a cast to an integer: infinity becomes the largest finite
/// number of its sign, and NaN becomes 0.
impl From<f64> for Number {
    fn from(number: f64) -> Self {
        let number = if number.is_nan() { 0.0 } else { number.clamp(f64::MIN, f64::MAX) };
        Self(Json::from_serialize(&number).unwrap_or_else(|_| Json::from(0)))
    }
}

/// The digits.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_text())
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Value for Number {
    fn read(json: &Json) -> Result<Self, ModelError> {
        match json.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => Ok(Self(json.clone())),
            _ => Err(ModelError::expected("a number")),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}

payload! { Number }

/// The member `_meta`: metadata of the protocol and of applications for a message or a part of it.
///
/// Its entries are parsed on demand, so an invalid entry does not make the message invalid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meta {
    /// All entries.
    pub entries: BTreeMap<String, Json>,
}

impl Meta {
    const PROGRESS_TOKEN: &str = "progressToken";
    const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

    /// Metadata without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an entry.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.entries.insert(key.to_owned(), value.into());
        self
    }

    /// Requests progress notifications with this token. The machines of this crate do so themselves: see
    /// [`client::Call`](mcp_proto::client::Call).
    #[must_use]
    pub fn with_progress_token(self, token: impl Into<ProgressToken>) -> Self {
        self.with(Self::PROGRESS_TOKEN, token.into())
    }

    /// Sets the task that the message belongs to (since 2025-11-25).
    #[must_use]
    pub fn with_related_task(self, task_id: &str) -> Self {
        self.with(Self::RELATED_TASK, JsonObject::new().with("taskId", task_id))
    }

    /// Sets the subscription that the message belongs to: the id of its `subscriptions/listen` (since 2026-07-28).
    #[must_use]
    pub fn with_subscription_id(self, id: &RequestId) -> Self {
        self.with(meta::SUBSCRIPTION_ID, id.to_json())
    }

    /// The entry with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.entries.get(key)
    }

    /// The token for progress notifications.
    #[must_use]
    pub fn progress_token(&self) -> Option<ProgressToken> {
        self.entry(Self::PROGRESS_TOKEN)
    }

    /// The id of the `subscriptions/listen` that the message belongs to (since 2026-07-28).
    #[must_use]
    pub fn subscription_id(&self) -> Option<RequestId> {
        self.entry(meta::SUBSCRIPTION_ID)
    }

    /// The name and version of the server that has sent a result (since 2026-07-28).
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.entry(meta::SERVER_INFO)
    }

    /// The name and version of the client that has sent a request (since 2026-07-28). They are not verified.
    #[must_use]
    pub fn client_info(&self) -> Option<Implementation> {
        self.entry(meta::CLIENT_INFO)
    }

    /// The capabilities of the client that has sent a request (since 2026-07-28).
    #[must_use]
    pub fn client_capabilities(&self) -> Option<ClientCapabilities> {
        self.entry(meta::CLIENT_CAPABILITIES)
    }

    /// The revision of a request (since 2026-07-28).
    #[must_use]
    pub fn protocol_version(&self) -> Option<String> {
        self.entry(meta::PROTOCOL_VERSION)
    }

    /// The least severe level of the log messages that a request asks for (since 2026-07-28).
    #[must_use]
    pub fn log_level(&self) -> Option<LoggingLevel> {
        self.entry(meta::LOG_LEVEL)
    }

    pub(super) fn entry<V: Value>(&self, key: &str) -> Option<V> {
        V::read(self.get(key)?).ok()
    }

    /// The id of the task that the message belongs to.
    #[must_use]
    pub fn related_task(&self) -> Option<String> {
        String::read(&self.get(Self::RELATED_TASK)?.first_member("taskId")?).ok()
    }
}

impl Value for Meta {
    fn read(json: &Json) -> Result<Self, ModelError> {
        Reader::new(json).map(|object| Self { entries: object.rest() })
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.entries.write(out);
    }
}

payload! { Meta }

impl Value for RequestId {
    fn read(json: &Json) -> Result<Self, ModelError> {
        Self::from_json_text(json.as_bytes()).ok_or(ModelError::expected("an integer or a string"))
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.encode_into(out);
    }
}

/// Relates progress notifications to their request: an integer or a string, stored as exactly as a [`RequestId`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgressToken(RequestId);

impl ProgressToken {
    /// The token, if it is an integer.
    #[must_use]
    pub const fn as_i64(&self) -> Option<i64> {
        self.0.as_i64()
    }

    /// The token, if it is a string.
    #[must_use]
    pub const fn as_str(&self) -> Option<&str> {
        self.0.as_str()
    }
}

impl From<i64> for ProgressToken {
    fn from(number: i64) -> Self {
        Self(number.into())
    }
}

impl From<&str> for ProgressToken {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Value for ProgressToken {
    fn read(json: &Json) -> Result<Self, ModelError> {
        RequestId::read(json).map(Self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}

payload! { ProgressToken }

/// Peers differ in whether they write the padding, so it is optional.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) fn encode_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

pub(super) fn decode_base64(text: &str) -> Result<Vec<u8>, ModelError> {
    BASE64.decode(text).map_err(|_| ModelError::expected("Base64"))
}

/// Any object.
#[cfg(feature = "schema")]
impl schemars::JsonSchema for JsonObject {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JsonObject".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object" })
    }
}
